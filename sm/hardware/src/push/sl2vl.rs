//! Sends SLtoVLMappingTables, between the first interim tables and the next phase.

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{Attribute, SlToVlMapping};

use super::{Cause, Push, Task};
use crate::sweep::inventory::Inventory;

/// Address of a table: switch, input port and output port.
type Place = (Guid, PortNum, PortNum);

impl Push {
    /// The planned content of a table; `None` if the push does not write it.
    pub(super) fn wanted_sl2vl(&self, (switch, input, output): Place) -> Option<[u8; 64]> {
        let row = self.switches.get(&switch)?.sl2vl_row(input, output)?.row;
        let mut mapping = SlToVlMapping::default();
        mapping.set_vls(row);
        Some(*mapping.as_data())
    }

    /// Handles the answer to the Set of a table, which shows the table that the switch now holds.
    pub(super) fn sl2vl_answered(
        &mut self,
        inventory: &mut Inventory,
        task: Task,
        (switch, input, output): Place,
        mapping: &SlToVlMapping,
    ) {
        let held = mapping.vls();
        if let Some(record) = inventory.hardware.switch_mut(switch) {
            record.sl2vl.store((input, output), &held);
        }
        (inventory.hardware).forget_operator_row(switch, input, output);
        let wanted = self.switches.get(&switch);
        let wanted = wanted.and_then(|switch| switch.sl2vl_row(input, output));
        if wanted.is_some_and(|wanted| wanted.row == held) {
            self.table_settled(inventory, task, switch, false);
        } else {
            self.failed(inventory, task, Cause::NotHeld);
        }
    }
}

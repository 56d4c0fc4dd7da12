//! Writing SLtoVLMappingTables, between what switches hold on the way and their last tables.

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{Attribute, SlToVlMapping};

use super::tables::SwitchPush;
use super::{Cause, Push, Task};
use crate::sweep::inventory::Inventory;

/// The table of a switch from an input to an output port.
type Place = (Guid, PortNum, PortNum);

impl Push {
    /// All switches hold what they are to hold on the way: SLtoVLMappingTables, if any, are written next, and only then the
    /// last tables, which may need them.
    pub(super) fn open_lanes(&mut self) {
        if !std::mem::replace(&mut self.lanes_open, true) {
            self.switches.values_mut().for_each(SwitchPush::open_lanes);
            self.unmet = self.switches.values().map(SwitchPush::lanes).sum();
        }
    }

    /// The content of a Set.
    pub(super) fn wanted_lanes(&self, (switch, input, output): Place) -> Option<[u8; 64]> {
        let row = self.switches.get(&switch)?.lane_row(input, output)?.row;
        let mut mapping = SlToVlMapping::default();
        mapping.set_vls(row);
        Some(*mapping.as_data())
    }

    pub(super) fn lanes_answered(
        &mut self,
        inventory: &mut Inventory,
        task: Task,
        (switch, input, output): Place,
        mapping: &SlToVlMapping,
    ) {
        let held = mapping.vls();
        if let Some(record) = inventory
            .node_mut(switch)
            .and_then(|node| node.switch.as_mut())
        {
            record.lanes.store(input, output, held);
        }
        let wanted = self.switches.get(&switch);
        let wanted = wanted.and_then(|switch| switch.lane_row(input, output));
        if wanted.is_some_and(|wanted| wanted.row == held) {
            self.table_settled(inventory, task, switch, false);
        } else {
            self.failed(inventory, task, Cause::NotHeld);
        }
    }

    pub(super) fn lanes_failed(
        &mut self,
        inventory: &mut Inventory,
        task: Task,
        (switch, input, output): Place,
        cause: Cause,
    ) {
        if cause == Cause::Silence
            && let Some(record) = inventory
                .node_mut(switch)
                .and_then(|node| node.switch.as_mut())
        {
            record.lanes.mark_dirty(input, output);
        }
        self.table_settled(inventory, task, switch, true);
    }
}

//! The tables that switches hold, as input of plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::Guid;
use rsm_model::Mark;
use rsm_plan::HeldTable;

/// Forwarding tables of all switches, kept from job to job: each job collects only the tables of
/// switches that were written since the previous job.
#[derive(Default)]
pub(super) struct HeldTables {
    /// Tables in the order of GUIDs. A job under way shares them.
    held: Arc<Vec<HeldTable>>,
    /// Position in the log of writes to switches when `held` was collected.
    mark: Mark,
    /// Suspects when `held` was collected.
    suspects: BTreeSet<Guid>,
}

impl HeldTables {
    /// Brings the kept tables up to date with `inventory`, and returns them.
    pub(super) fn collect(&mut self, inventory: &Inventory) -> Arc<Vec<HeldTable>> {
        let mut changed: BTreeSet<Guid> = inventory.hardware.written_since(self.mark).collect();
        changed.extend(self.suspects.symmetric_difference(&inventory.suspects));
        if !changed.is_empty() {
            let held = Arc::make_mut(&mut self.held);
            for guid in changed {
                let index = held.binary_search_by_key(&guid, |held| held.switch);
                match (index, held_by(inventory, guid)) {
                    (Ok(index), Some(table)) => held[index] = table,
                    (Ok(index), None) => {
                        held.remove(index);
                    }
                    (Err(index), Some(table)) => held.insert(index, table),
                    (Err(_), None) => {}
                }
            }
        }
        self.mark = inventory.hardware.mark();
        self.suspects.clone_from(&inventory.suspects);
        debug_assert!(self.equals(inventory));
        self.held.clone()
    }

    /// Whether the kept tables equal the tables in `inventory`.
    fn equals(&self, inventory: &Inventory) -> bool {
        let all = inventory.hardware.switches();
        let all = all.filter_map(|(guid, ..)| held_by(inventory, guid));
        self.held.iter().eq(all.collect::<Vec<_>>().iter())
    }
}

/// The table of a switch; `None` if the switch or its SwitchInfo is not known.
fn held_by(inventory: &Inventory, guid: Guid) -> Option<HeldTable> {
    let switch = inventory.hardware.node(guid)?.switch.as_ref()?;
    let top = switch.info.linear_fdb_top();
    Some(HeldTable {
        switch: guid,
        entries: switch.lft.entries().clone(),
        complete: switch.lft.is_complete(top),
        sent: switch.lft.sent(top).collect(),
        is_suspect: inventory.suspects.contains(&guid),
    })
}

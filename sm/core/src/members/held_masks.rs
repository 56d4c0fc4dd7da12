//! The multicast tables that switches hold, as input of plans.

use std::sync::Arc;

use rsm_hardware::sweep::inventory::Inventory;
use rsm_model::Mark;
use rsm_model::mft_image::HeldMasks;

/// Multicast tables of all switches, kept from job to job: each job collects only the tables of
/// switches that were written since the previous job.
#[derive(Default)]
pub(super) struct KeptMasks {
    held: Arc<HeldMasks>,
    /// Position in the log of writes to switches when `held` was collected.
    mark: Mark,
}

impl KeptMasks {
    /// Brings the kept tables up to date with `inventory`, and returns them.
    pub(super) fn collect(&mut self, inventory: &Inventory) -> Arc<HeldMasks> {
        for guid in inventory.hardware.written_since(self.mark) {
            let switch = inventory
                .hardware
                .node(guid)
                .and_then(|node| node.switch.as_ref());
            let masks = switch.map(|switch| switch.mft.content());
            let kept = self.held.by_switch.get(&guid);
            // Most writes concern other tables: leave the entry unchanged.
            if kept.map(Arc::as_ptr) == masks.map(Arc::as_ptr) {
                continue;
            }
            let held = &mut Arc::make_mut(&mut self.held).by_switch;
            match masks {
                Some(masks) => held.insert(guid, masks.clone()),
                None => held.remove(&guid),
            };
        }
        self.mark = inventory.hardware.mark();
        debug_assert!(self.equals(inventory));
        self.held.clone()
    }

    /// Whether the kept tables equal the tables in `inventory`.
    fn equals(&self, inventory: &Inventory) -> bool {
        let all = inventory.hardware.switches();
        let all = all.map(|(guid, _, switch)| (guid, &**switch.mft.content()));
        let held = self.held.by_switch.iter();
        held.map(|(&guid, masks)| (guid, &**masks)).eq(all)
    }
}

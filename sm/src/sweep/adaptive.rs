//! ARInfo: shows whether the manager before let a switch forward by other tables than those that it
//! reads back.

use rsm_ids::{Guid, Lid};
use rsm_mad::wire::attr::{ArInfo, NodeInfo};

use super::inventory::Inventory;
use super::{Query, Sweep};

/// VendorID of the switches that have ARInfo.
const NVIDIA: u32 = 0x02_C9;

/// DeviceIDs of the switches that have ARInfo: SwitchX, Switch-IB, Switch-IB 2, Quantum, Quantum-2,
/// Quantum-3. Older agents may be silent on an unknown attribute, and other devices have no such
/// attribute.
const DEVICES: [u16; 9] = [
    0xC738, 0xC739, 0xC73A, 0xC73B, 0xCB20, 0xCF08, 0xD2F0, 0xD2F2, 0xD2F4,
];

/// Whether the switch that answered `info` has ARInfo.
fn has_ar_info(info: &NodeInfo) -> bool {
    info.vendor_id() == NVIDIA && DEVICES.contains(&info.device_id())
}

impl Sweep {
    /// Asks a switch for its ARInfo, if it has that and may hold tables of another manager.
    pub(super) fn ask_ar_info(&mut self, inventory: &Inventory, guid: Guid) {
        let Some(node) = inventory.node(guid) else {
            return;
        };
        let switch = node.switch.as_ref();
        let top = switch.map_or(Lid::NONE, |switch| switch.info.linear_fdb_top());
        if top != Lid::NONE && has_ar_info(&node.info) {
            self.ask(Query::AdaptiveRouting(guid));
        }
    }

    /// Takes ARInfo, or its refusal: firmware without adaptive routing refuses the Get, which is no
    /// fault.
    pub(super) fn on_ar_info(
        &mut self,
        inventory: &mut Inventory,
        guid: Guid,
        info: Option<ArInfo>,
    ) {
        let node = inventory.node(guid);
        if let Some(switch) = node.and_then(|node| node.switch.as_ref()) {
            self.changed |= switch.ar_info() != info;
            inventory.put_ar_info(guid, info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_switches_of_the_vendor_have_ar_info() {
        let mut quantum = NodeInfo::default();
        quantum.set_vendor_id(NVIDIA).set_device_id(0xD2F0);
        assert!(has_ar_info(&quantum));
        let (mut older, mut other) = (quantum, quantum);
        older.set_device_id(0xBD36);
        other.set_vendor_id(0x00_11_75);
        assert!(!has_ar_info(&older) && !has_ar_info(&other));
    }
}

//! Capabilities of device types: the vendor attributes and features that their agents support.
//!
//! GeneralInfo (0xFF17) of NVIDIA devices lists them. A sweep asks the first device of each type
//! (vendor, device, revision) that it reads. The answer holds for all devices of the type and is
//! stored, beside the [habits](crate::habits). Only types in `GATE` are asked, because old agents
//! may leave an unknown attribute unanswered. A reload of the configuration forgets all answers, so
//! that devices with new firmware are asked again.
//!
//! Code that depends on a feature calls [`DeviceCapabilities::has`]. A device type has no
//! capability until it has answered GeneralInfo.

use std::collections::BTreeMap;

use rsm_mad::wire::attr::{Capabilities, Capability, NodeInfo};

/// VendorID of Mellanox and NVIDIA.
const MELLANOX: u32 = 0x00_02_C9;
/// VendorID of Bull, which sells Mellanox devices under its own VendorID.
const BULL: u32 = 0x00_11_9F;

/// Whether the device that answered `info` is by NVIDIA, and has NVIDIA's class of general
/// services.
pub fn is_nvidia(info: &NodeInfo) -> bool {
    matches!(info.vendor_id(), MELLANOX | BULL)
}

/// The product name of a device of NVIDIA; `None` if [`NAMES`] lacks it.
pub fn device_name(vendor: u32, device: u16) -> Option<&'static str> {
    let mut names = NAMES.iter().filter(|_| vendor == MELLANOX);
    names.find(|name| name.0 == device).map(|name| name.1)
}

/// Names of NVIDIA's devices by DeviceID.
const NAMES: &[(u16, &str)] = &[
    (0xC738, "SwitchX"),
    (0xCB20, "Switch-IB"),
    (0xCF08, "Switch-IB 2"),
    (0xCF09, "aggregation node"),
    (0xD2F0, "Quantum"),
    (0xD2F2, "Quantum-2"),
    (0xD2F4, "Quantum-3"),
    (0x1003, "ConnectX-3"),
    (0x1007, "ConnectX-3 Pro"),
    (0x1011, "Connect-IB"),
    (0x1013, "ConnectX-4"),
    (0x1015, "ConnectX-4 Lx"),
    (0x1017, "ConnectX-5"),
    (0x1019, "ConnectX-5 Ex"),
    (0x101B, "ConnectX-6"),
    (0x101D, "ConnectX-6 Dx"),
    (0x101F, "ConnectX-6 Lx"),
    (0x1021, "ConnectX-7"),
    (0x1023, "ConnectX-8"),
    (0xA2D2, "BlueField"),
    (0xA2D6, "BlueField-2"),
    (0xA2DC, "BlueField-3"),
];

/// Maximum number of remembered device types, far more than a subnet has. Further types are not
/// asked.
const TYPES_MAX: usize = 1024;

/// Number of devices of a type that may leave GeneralInfo unanswered before the type counts as a
/// type without GeneralInfo. A single silent device may be failing.
const SILENT_MAX: u8 = 3;

/// One device type that may be asked for the vendor's attributes: a row of [`GATE`].
struct Gate {
    vendor: u32,
    device: u16,
    /// Whether agents of the type answer GeneralInfo, or refuse it with a status.
    general_info: bool,
    /// Whether agents of the type know ExtendedPortInfo, as listed in infiniband-diags of
    /// rdma-core. Types that are not listed report it in GeneralInfo.
    extended_port_info: bool,
}

/// Row of a type that answers or refuses GeneralInfo, and knows ExtendedPortInfo.
const fn general_and_ports(device: u16) -> Gate {
    Gate {
        vendor: MELLANOX,
        device,
        general_info: true,
        extended_port_info: true,
    }
}

/// Row of a type that knows ExtendedPortInfo, and may leave GeneralInfo unanswered.
const fn ports_only(vendor: u32, device: u16) -> Gate {
    Gate {
        vendor,
        device,
        general_info: false,
        extended_port_info: true,
    }
}

/// Row of a type that answers or refuses GeneralInfo, which shows whether it knows
/// ExtendedPortInfo.
const fn general_only(device: u16) -> Gate {
    Gate {
        vendor: MELLANOX,
        device,
        general_info: true,
        extended_port_info: false,
    }
}

/// The device types that are asked for the vendor's attributes, one row each.
const GATE: &[Gate] = &[
    // SwitchX.
    ports_only(MELLANOX, 0xC738),
    ports_only(MELLANOX, 0xC739),
    ports_only(MELLANOX, 0xC73A),
    ports_only(MELLANOX, 0xC73B),
    // Switch-IB, Switch-IB 2 and its aggregation node, Quantum, Quantum-2, Quantum-3.
    general_and_ports(0xCB20),
    general_and_ports(0xCF08),
    general_only(0xCF09),
    general_and_ports(0xD2F0),
    general_only(0xD2F2),
    general_only(0xD2F4),
    // ConnectX-3, ConnectX-3 Pro, Connect-IB.
    ports_only(MELLANOX, 0x1003),
    ports_only(MELLANOX, 0x1007),
    ports_only(MELLANOX, 0x1011),
    // ConnectX-4 to ConnectX-6.
    general_and_ports(0x1013),
    general_and_ports(0x1015),
    general_and_ports(0x1017),
    general_and_ports(0x1019),
    general_and_ports(0x101B),
    // ConnectX-6 Dx and Lx, ConnectX-7, ConnectX-8.
    general_only(0x101D),
    general_only(0x101F),
    general_only(0x1021),
    general_only(0x1023),
    // BlueField, BlueField-2, BlueField-3.
    general_and_ports(0xA2D2),
    general_only(0xA2D6),
    general_only(0xA2DC),
    // Bull's Connect-IB.
    ports_only(BULL, 0x1B02),
];

/// The row of [`GATE`] for the device that answered `info`; `None` if there is none.
fn gate(info: &NodeInfo) -> Option<&'static Gate> {
    let is = |gate: &&Gate| gate.vendor == info.vendor_id() && gate.device == info.device_id();
    GATE.iter().find(is)
}

/// A type of device, whose agents have the same capabilities.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceType {
    /// VendorID of NodeInfo, 24 bits.
    pub vendor: u32,
    /// DeviceID of NodeInfo.
    pub device: u16,
    /// Revision of NodeInfo.
    pub revision: u32,
}

impl DeviceType {
    /// The type of the node that answered `info`.
    pub fn of(info: &NodeInfo) -> DeviceType {
        DeviceType {
            vendor: info.vendor_id(),
            device: info.device_id(),
            revision: info.revision(),
        }
    }
}

/// The answer of a device type to GeneralInfo, or the number of devices that did not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Knowledge {
    /// Capabilities of the type; empty if it refused GeneralInfo.
    Answered(Capabilities),
    /// Number of devices that left GeneralInfo unanswered.
    Silent(u8),
}

/// The capabilities of all types of devices met so far.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct DeviceCapabilities {
    types: BTreeMap<DeviceType, Knowledge>,
    /// Whether capabilities were learned since the last [`DeviceCapabilities::take_news`].
    has_news: bool,
}

impl DeviceCapabilities {
    /// Whether to ask the node that answered `info` for GeneralInfo.
    pub fn wants(&self, info: &NodeInfo) -> bool {
        let known = self.types.get(&DeviceType::of(info));
        let may_ask = match known {
            None => self.types.len() < TYPES_MAX,
            Some(Knowledge::Silent(devices)) => *devices < SILENT_MAX,
            Some(Knowledge::Answered(_)) => false,
        };
        may_ask && gate(info).is_some_and(|gate| gate.general_info)
    }

    /// Records the answer of a device: its capabilities, or empty ones if it refused GeneralInfo.
    /// Returns whether the answer is new for the device type.
    ///
    /// Treats capabilities that exclude each other as a refusal; see [`is_plausible`].
    pub fn learn(&mut self, device: DeviceType, capabilities: Capabilities) -> bool {
        let answered = Knowledge::Answered(if is_plausible(capabilities) {
            capabilities
        } else {
            Capabilities::NONE
        });
        let is_full = self.types.len() >= TYPES_MAX && !self.types.contains_key(&device);
        if is_full || self.types.get(&device) == Some(&answered) {
            return false;
        }
        self.types.insert(device, answered);
        self.has_news = true;
        true
    }

    /// Records that a device left GeneralInfo unanswered.
    pub fn unanswered(&mut self, device: DeviceType) {
        if self.types.len() < TYPES_MAX || self.types.contains_key(&device) {
            let known = self.types.entry(device).or_insert(Knowledge::Silent(0));
            if let Knowledge::Silent(devices) = known {
                *devices = devices.saturating_add(1);
            }
        }
    }

    /// Whether the node that answered `info` has `capability`.
    pub fn has(&self, info: &NodeInfo, capability: Capability) -> bool {
        self.of(info).is_some_and(|known| known.has(capability))
    }

    /// Whether the node that answered `info` knows ExtendedPortInfo.
    pub fn has_extended_port_info(&self, info: &NodeInfo) -> bool {
        gate(info).is_some_and(|gate| gate.extended_port_info)
            || self.has(info, Capability::ExtendedPortInfo)
    }

    /// The capabilities of the node that answered `info`; `None` if no device of its type has
    /// answered.
    pub fn of(&self, info: &NodeInfo) -> Option<Capabilities> {
        match self.types.get(&DeviceType::of(info))? {
            Knowledge::Answered(capabilities) => Some(*capabilities),
            Knowledge::Silent(_) => None,
        }
    }

    /// Whether capabilities were learned since the last call and must be saved.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Every type that answered, for the store. A silent type is not stored: after a restart, a
    /// sweep asks one more device of it.
    pub fn answers(&self) -> impl Iterator<Item = (DeviceType, Capabilities)> + '_ {
        self.types
            .iter()
            .filter_map(|(&device, known)| match known {
                Knowledge::Answered(capabilities) => Some((device, *capabilities)),
                Knowledge::Silent(_) => None,
            })
    }

    /// Restores the stored answer of a type.
    pub fn restore(&mut self, device: DeviceType, capabilities: Capabilities) {
        if self.types.len() < TYPES_MAX && is_plausible(capabilities) {
            self.types.insert(device, Knowledge::Answered(capabilities));
        }
    }
}

/// Whether an agent can have these capabilities together: the two revisions of adaptive routing
/// exclude each other. Some agents set every bit, which says nothing about their capabilities.
pub fn is_plausible(capabilities: Capabilities) -> bool {
    let both = [Capability::AdaptiveRoutingRev0, Capability::AdaptiveRouting];
    !both.into_iter().all(|revision| capabilities.has(revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(vendor: u32, device: u16, revision: u32) -> NodeInfo {
        let mut info = NodeInfo::default();
        info.set_vendor_id(vendor)
            .set_device_id(device)
            .set_revision(revision);
        info
    }

    fn quantum2() -> NodeInfo {
        node(MELLANOX, 0xD2F2, 0xA0)
    }

    #[test]
    fn type_is_asked_until_one_of_its_devices_answers() {
        let mut known = DeviceCapabilities::default();
        let info = quantum2();
        assert!(known.wants(&info));
        let answer = Capabilities::NONE.with(Capability::ExtendedPortInfo);
        assert!(known.learn(DeviceType::of(&info), answer));
        assert!(known.take_news() && !known.take_news());
        assert!(!known.wants(&info) && known.has(&info, Capability::ExtendedPortInfo));
        assert!(
            known.wants(&node(MELLANOX, 0xD2F2, 0xA1)),
            "another revision"
        );
        assert!(!known.learn(DeviceType::of(&info), answer), "known");
    }

    #[test]
    fn devices_outside_the_gate_are_never_asked() {
        let known = DeviceCapabilities::default();
        for other in [
            node(0x00_11_75, 0xD2F2, 0),
            node(MELLANOX, 0xBD36, 0),
            node(MELLANOX, 0xC738, 0),
            node(BULL, 0x1B02, 0),
        ] {
            assert!(!known.wants(&other), "{other:?}");
        }
        assert!(known.has_extended_port_info(&node(MELLANOX, 0xC738, 0)));
        assert!(!known.has_extended_port_info(&node(0x00_11_75, 0xC738, 0)));
    }

    #[test]
    fn silent_type_is_given_up_after_three_devices() {
        let mut known = DeviceCapabilities::default();
        let info = quantum2();
        for _ in 0..SILENT_MAX {
            assert!(known.wants(&info));
            known.unanswered(DeviceType::of(&info));
        }
        assert!(!known.wants(&info) && known.of(&info).is_none());
        assert_eq!(known.answers().count(), 0, "a restart asks once more");
        known.learn(DeviceType::of(&info), Capabilities::NONE);
        known.unanswered(DeviceType::of(&info));
        assert_eq!(known.of(&info), Some(Capabilities::NONE), "an answer stays");
    }

    #[test]
    fn capabilities_that_exclude_each_other_count_as_a_refusal() {
        let mut known = DeviceCapabilities::default();
        known.learn(DeviceType::of(&quantum2()), Capabilities([u32::MAX; 4]));
        assert_eq!(known.of(&quantum2()), Some(Capabilities::NONE));
        let mut restored = DeviceCapabilities::default();
        restored.restore(DeviceType::of(&quantum2()), Capabilities([u32::MAX; 4]));
        assert!(restored.wants(&quantum2()), "a damaged row is not believed");
    }

    #[test]
    fn types_beyond_the_bound_are_not_asked() {
        let mut known = DeviceCapabilities::default();
        for revision in 0..=TYPES_MAX as u32 {
            let info = node(MELLANOX, 0xD2F2, revision);
            assert_eq!(known.wants(&info), (revision as usize) < TYPES_MAX);
            known.learn(DeviceType::of(&info), Capabilities::NONE);
        }
    }

    #[test]
    fn each_device_type_has_one_row_in_the_gate() {
        let mut rows: Vec<_> = GATE.iter().map(|gate| (gate.vendor, gate.device)).collect();
        rows.sort_unstable();
        let count = rows.len();
        rows.dedup();
        assert_eq!(rows.len(), count);
    }
}

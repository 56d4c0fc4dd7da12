//! Habits: known deviations of kinds of devices from the specification.
//!
//! If a device refuses a request that the specification allows, rsm sends another request instead,
//! and learns the refusal for the kind of device (vendor, device, revision, role of the port). A
//! refusal therefore costs one request, not one in every sweep. The store keeps habits, and an info
//! finding shows them. A new habit is a row of [`HABITS`], a call of [`DeviceHabits::learn`] where
//! an answer shows the habit, and a call of [`DeviceHabits::has`] where the habit changes a
//! request. A reload of the configuration forgets all habits, so that rsm tries devices with new
//! firmware again.
//!
//! rsm first asks for PortInfo with the bit for extended speeds (IBA 14.2.5.6), so that only
//! fabrics whose devices refuse the bit pay for a second request.

use std::collections::BTreeMap;

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{NodeInfo, NodeType};

/// Maximum number of kinds of devices with habits, far more than a subnet has. Habits of further
/// kinds are not learned: their devices get the refused request and its replacement each time.
pub const KINDS_MAX: usize = 1024;

/// Role of a port in its device; agents treat ports of the three roles differently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortRole {
    /// A port of a channel adapter or router.
    End,
    /// Port 0 of a switch.
    Management,
    /// An external port of a switch.
    External,
}

/// A kind of device with common habits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceKind {
    /// VendorID of NodeInfo, 24 bits.
    pub vendor: u32,
    /// DeviceID of NodeInfo.
    pub device: u16,
    /// Revision of NodeInfo.
    pub revision: u32,
    /// Role of the port.
    pub role: PortRole,
}

impl DeviceKind {
    /// The kind of the port `port` of the node that answered `info`. Habits of a whole switch are
    /// learned for port 0.
    pub fn of(info: &NodeInfo, port: PortNum) -> DeviceKind {
        let role = match (info.node_type(), port) {
            (NodeType::Switch, PortNum::ZERO) => PortRole::Management,
            (NodeType::Switch, _) => PortRole::External,
            _ => PortRole::End,
        };
        DeviceKind {
            vendor: info.vendor_id(),
            device: info.device_id(),
            revision: info.revision(),
            role,
        }
    }

    /// The kinds of the ports of a node.
    pub(crate) fn all(info: &NodeInfo) -> impl Iterator<Item = DeviceKind> {
        let external = DeviceKind::of(info, PortNum(1));
        let management = DeviceKind::of(info, PortNum::ZERO);
        let is_switch = management != external;
        std::iter::once(external).chain(is_switch.then_some(management))
    }
}

/// A deviation of a kind of device. The number of a variant is its bit in the store, and never
/// changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum DeviceHabit {
    /// The device refuses PortInfo with attribute-modifier bit 31 (SMSupportExtendedSpeeds, IBA
    /// 14.2.5.6).
    RefusesExtendedSpeeds = 0,
    /// Port 0 of a switch: the switch refuses blocks of the LinearForwardingTable above
    /// LinearFDBTop.
    RefusesBlocksAboveTop = 1,
    /// The device refuses PortState together with other settings.
    RefusesStateWithSettings = 2,
    /// The device refuses VLArbitrationTable, or does not keep it.
    RefusesVlArbitration = 3,
    /// The device refuses SLtoVLMappingTable, or does not keep it.
    RefusesSlToVl = 4,
    /// The device refuses SLtoVLMappingTable for all inputs at once, although SwitchInfo claims
    /// that it supports it.
    RefusesOptimizedSlToVl = 5,
    /// Port 0 of a switch: the switch claims a SwitchPortStateTable, and refuses it, leaves it
    /// unanswered, or shows wrong states.
    RefusesPortStates = 6,
    /// The device answers GeneralInfo with capabilities that exclude each other.
    NonsenseCapabilities = 7,
    /// The device claims virtual ports, and refuses VirtualizationInfo or leaves it unanswered.
    RefusesVPorts = 8,
    /// Port 0 of a switch: the switch claims adaptive routing, and refuses its tables, leaves them
    /// unanswered, or reads back other content.
    RefusesAdaptiveRouting = 9,
    /// The device refuses Sets of ExtendedPortInfo, or does not keep their values.
    RefusesExtendedPortSets = 10,
    /// The device claims rate limits by service level, and refuses QoSConfigSL, leaves it
    /// unanswered, or does not keep it.
    RefusesRateLimits = 11,
    /// The device claims rate limits by service level for its virtual ports, and refuses
    /// QoSConfigSL for them, leaves it unanswered, or does not keep it.
    RefusesVPortRateLimits = 12,
    /// The device claims VPortGUIDInfo, and refuses it or leaves it unanswered.
    RefusesVPortGuids = 13,
}

/// A row of [`HABITS`].
pub struct DeviceHabitInfo {
    /// The habit.
    pub habit: DeviceHabit,
    /// The deviation of these devices, worded to follow "They".
    pub does: &'static str,
    /// Request that the subnet manager sends instead, and the effect.
    pub instead: &'static str,
}

/// Every habit that rsm can learn.
pub const HABITS: &[DeviceHabitInfo] = &[
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesBlocksAboveTop,
        does: "refuse blocks of forwarding tables above LinearFDBTop",
        instead: "LinearFDBTop is raised first there",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesStateWithSettings,
        does: "refuse PortState together with other settings",
        instead: "the settings go first there",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesExtendedSpeeds,
        does: "refuse PortInfo with the bit for extended speeds",
        instead: "they are asked without it; speeds above QDR cannot be set there",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesVlArbitration,
        does: "do not take VLArbitrationTable",
        instead: "their VLs share links as the devices choose",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesSlToVl,
        does: "do not take SLtoVLMappingTable",
        instead: "packets of all SLs use the VLs that the devices choose",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesOptimizedSlToVl,
        does: "refuse one SLtoVLMappingTable for all inputs",
        instead: "they get one for each input",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesPortStates,
        does: "claim a SwitchPortStateTable and do not answer it, or answer wrong states",
        instead: "their ports are read one by one",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::NonsenseCapabilities,
        does: "answer GeneralInfo with capabilities that exclude each other",
        instead: "features of the vendor stay off there",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesVPorts,
        does: "claim virtual ports and do not answer VirtualizationInfo",
        instead: "their virtual ports stay as their hosts leave them",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesAdaptiveRouting,
        does: "claim adaptive routing and do not take its tables, or read others back",
        instead: "they forward by their forwarding tables alone",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesExtendedPortSets,
        does: "do not take ExtendedPortInfo",
        instead: "FDR10 and aggregation nodes stay as they are, and libraries on hosts are not told of packets out of order",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesRateLimits,
        does: "claim QoSConfigSL and do not take it",
        instead: "their ports send without the limits of qos.rate_limits_file",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesVPortRateLimits,
        does: "claim QoSConfigSL of virtual ports and do not take it",
        instead: "their virtual ports send without the limits of qos.rate_limits_file",
    },
    DeviceHabitInfo {
        habit: DeviceHabit::RefusesVPortGuids,
        does: "claim VPortGUIDInfo and do not answer it",
        instead: "GUIDInfoRecords of their virtual ports have the first GUID alone",
    },
];

impl DeviceHabit {
    /// The bit of the habit in [`DeviceHabits::bits`].
    pub(crate) const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// An answer that may show a habit, or may have a temporary cause such as a link that went down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HabitSign {
    /// Port that answered.
    pub port: PortKey,
    /// Number of the plan whose push got the answer.
    pub push: u64,
}

impl HabitSign {
    /// Whether a single temporary cause can hardly explain both signs: they concern ports of two
    /// nodes, or different ports in different pushes.
    fn confirms(self, other: HabitSign) -> bool {
        self.port.node != other.port.node || self.port != other.port && self.push != other.push
    }
}

/// The habits learned, by kind of device.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct DeviceHabits {
    /// Learned habits by kind, one bit for each (see [`DeviceHabit`]).
    kinds: BTreeMap<DeviceKind, u32>,
    /// The first sign of each habit that is not yet learned.
    signs: BTreeMap<(DeviceKind, DeviceHabit), HabitSign>,
    /// Whether habits were learned since the last [`DeviceHabits::take_news`].
    has_news: bool,
}

impl DeviceHabits {
    /// Whether devices of `kind` have the habit.
    pub fn has(&self, kind: DeviceKind, habit: DeviceHabit) -> bool {
        self.kinds
            .get(&kind)
            .is_some_and(|bits| bits & habit.bit() != 0)
    }

    /// Learns that devices of `kind` have the habit. Returns whether it is new.
    pub fn learn(&mut self, kind: DeviceKind, habit: DeviceHabit) -> bool {
        let is_full = self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind);
        if is_full || self.has(kind, habit) {
            return false;
        }
        *self.kinds.entry(kind).or_default() |= habit.bit();
        self.has_news = true;
        true
    }

    /// Learns the habit once a second sign confirms the first one. Returns whether the habit is
    /// new.
    pub fn learn_by_signs(
        &mut self,
        kind: DeviceKind,
        habit: DeviceHabit,
        sign: HabitSign,
    ) -> bool {
        match self.signs.get(&(kind, habit)) {
            Some(first) if sign.confirms(*first) => {
                self.signs.remove(&(kind, habit));
                self.learn(kind, habit)
            }
            None if self.signs.len() < KINDS_MAX && !self.has(kind, habit) => {
                self.signs.insert((kind, habit), sign);
                false
            }
            Some(_) | None => false,
        }
    }

    /// Whether habits were learned since the last call and must be saved.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Restores the habits of a kind from the form of [`DeviceHabits::bits`]. Bits without a habit
    /// in this version are ignored.
    pub fn restore(&mut self, kind: DeviceKind, bits: u32) {
        let known = HABITS
            .iter()
            .fold(0, |known, info| known | info.habit.bit());
        if bits & known != 0 && self.kinds.len() < KINDS_MAX {
            self.kinds.insert(kind, bits & known);
        }
    }

    /// Every kind of device with its habits as bits, for the store.
    pub fn bits(&self) -> impl Iterator<Item = (DeviceKind, u32)> + '_ {
        self.kinds.iter().map(|(&kind, &bits)| (kind, bits))
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::Guid;

    use super::*;

    const KIND: DeviceKind = DeviceKind {
        vendor: 0x1175,
        device: 0x7322,
        revision: 2,
        role: PortRole::End,
    };

    #[test]
    fn a_habit_is_learned_once_and_restored_from_its_bits() {
        let mut habits = DeviceHabits::default();
        assert!(!habits.has(KIND, DeviceHabit::RefusesExtendedSpeeds));
        assert!(habits.learn(KIND, DeviceHabit::RefusesExtendedSpeeds));
        assert!(!habits.learn(KIND, DeviceHabit::RefusesExtendedSpeeds));
        assert!(habits.take_news() && !habits.take_news());
        let mut restored = DeviceHabits::default();
        for (kind, bits) in habits.bits() {
            restored.restore(kind, bits | 1 << 31);
        }
        assert_eq!(restored, habits);
    }

    #[test]
    fn signs_of_one_port_or_one_push_teach_no_habit() {
        let habit = DeviceHabit::RefusesStateWithSettings;
        let sign = |node: u64, port: u8, push: u64| HabitSign {
            port: PortKey::new(Guid(node), PortNum(port)),
            push,
        };
        let mut habits = DeviceHabits::default();
        assert!(!habits.learn_by_signs(KIND, habit, sign(1, 1, 7)));
        assert!(
            !habits.learn_by_signs(KIND, habit, sign(1, 1, 8)),
            "the same port"
        );
        assert!(
            !habits.learn_by_signs(KIND, habit, sign(1, 2, 7)),
            "a reboot of the node"
        );
        assert!(!habits.has(KIND, habit) && !habits.take_news());
        let mut of_two_nodes = habits.clone();
        assert!(of_two_nodes.learn_by_signs(KIND, habit, sign(2, 1, 7)));
        assert!(
            !of_two_nodes.learn_by_signs(KIND, habit, sign(3, 1, 7)),
            "known"
        );
        assert!(habits.learn_by_signs(KIND, habit, sign(1, 2, 8)));
        assert!(habits.has(KIND, habit) && habits.take_news());
    }

    #[test]
    fn kinds_beyond_the_bound_are_not_learned() {
        let mut habits = DeviceHabits::default();
        for revision in 0..=KINDS_MAX as u32 {
            let kind = DeviceKind { revision, ..KIND };
            let learned = habits.learn(kind, DeviceHabit::RefusesExtendedSpeeds);
            assert_eq!(learned, (revision as usize) < KINDS_MAX);
        }
    }
}

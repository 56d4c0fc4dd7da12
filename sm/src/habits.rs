//! What kinds of devices do in their own way, as their answers showed.
//!
//! Where a device refuses what the specification allows, it is asked another way. That is learned
//! for its kind (vendor, device, revision, role of the port), so that the refusal costs one
//! question and not one in every sweep; it is kept in the store, and shown as an info finding. A
//! new habit is a line in [`HABITS`], a call of [`DeviceHabits::learn`] where the answer shows it,
//! and a call of [`DeviceHabits::has`] where it changes what is sent. A reload of the configuration
//! forgets all of them, so that a device with new firmware is tried anew.

use std::collections::BTreeMap;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{NodeInfo, NodeType};

use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::sweep::inventory::{Inventory, NodeRecord};

/// How many kinds of devices are remembered: far more than a subnet has. Those beyond it are asked
/// both ways each time.
const KINDS_MAX: usize = 1024;

/// What a port is to its device: agents treat the three differently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PortRole {
    /// A port of a channel adapter or router.
    End,
    /// Port 0 of a switch.
    Management,
    /// An external port of a switch.
    External,
}

/// A kind of device, as far as its agent's habits go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DeviceKind {
    /// VendorID of NodeInfo, 24 bits.
    pub vendor: u32,
    /// DeviceID of NodeInfo.
    pub device: u16,
    /// Revision of NodeInfo.
    pub revision: u32,
    /// What the port is to the device.
    pub role: PortRole,
}

impl DeviceKind {
    /// The kind of the port `port` of the node that answered `info`. What concerns a switch as a
    /// whole is learned for port 0.
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

    /// Whether the node has a port of this kind.
    fn is_of(self, info: &NodeInfo) -> bool {
        let port = match self.role {
            PortRole::Management => PortNum::ZERO,
            PortRole::End | PortRole::External => PortNum(1),
        };
        DeviceKind::of(info, port) == self
    }
}

/// Something that a kind of device does in its own way. The number is the bit by which the store
/// knows it: it never changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Habit {
    /// It refuses PortInfo with attribute-modifier bit 31 (SMSupportExtendedSpeeds, IBA 14.2.5.6).
    RefusesExtendedSpeeds = 0,
    /// Port 0 of a switch: it refuses blocks of the LinearForwardingTable above LinearFDBTop.
    RefusesBlocksAboveTop = 1,
    /// It refuses PortState together with other settings.
    RefusesStateWithSettings = 2,
}

/// A line of [`HABITS`].
pub struct HabitInfo {
    /// The habit.
    pub habit: Habit,
    /// What such devices do, after "They".
    pub does: &'static str,
    /// What the subnet manager does instead, and what that means.
    pub instead: &'static str,
}

/// Every habit that can be learned.
pub const HABITS: &[HabitInfo] = &[
    HabitInfo {
        habit: Habit::RefusesBlocksAboveTop,
        does: "refuse blocks of forwarding tables above LinearFDBTop",
        instead: "LinearFDBTop is raised first there",
    },
    HabitInfo {
        habit: Habit::RefusesStateWithSettings,
        does: "refuse PortState together with other settings",
        instead: "the settings go first there",
    },
    HabitInfo {
        habit: Habit::RefusesExtendedSpeeds,
        does: "refuse PortInfo with the bit for extended speeds",
        instead: "they are asked without it; speeds above QDR cannot be set there",
    },
];

impl Habit {
    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// The habits learned, by kind of device.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct DeviceHabits {
    kinds: BTreeMap<DeviceKind, u32>,
    news: bool,
}

impl DeviceHabits {
    /// Whether devices of `kind` have the habit.
    pub fn has(&self, kind: DeviceKind, habit: Habit) -> bool {
        self.kinds
            .get(&kind)
            .is_some_and(|bits| bits & habit.bit() != 0)
    }

    /// Learns that devices of `kind` have the habit. Returns whether that is news.
    pub fn learn(&mut self, kind: DeviceKind, habit: Habit) -> bool {
        let full = self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind);
        if full || self.has(kind, habit) {
            return false;
        }
        *self.kinds.entry(kind).or_default() |= habit.bit();
        self.news = true;
        true
    }

    /// Whether anything was learned since the last call: then it is to be remembered.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news)
    }

    /// Takes back what was remembered of a kind, in the form of [`DeviceHabits::bits`]. Bits that
    /// stand for no habit of this version are left out.
    pub fn restore(&mut self, kind: DeviceKind, bits: u32) {
        let known = HABITS
            .iter()
            .fold(0, |known, info| known | info.habit.bit());
        if bits & known != 0 && self.kinds.len() < KINDS_MAX {
            self.kinds.insert(kind, bits & known);
        }
    }

    /// Every kind that has habits, and those as bits, for the store.
    pub fn bits(&self) -> impl Iterator<Item = (DeviceKind, u32)> + '_ {
        self.kinds.iter().map(|(&kind, &bits)| (kind, bits))
    }

    /// What devices in the subnet do in their own way, for the operator.
    pub fn findings(&self, inventory: &Inventory) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (&kind, &bits) in &self.kinds {
            let Some(devices) = Devices::of(inventory, kind) else {
                continue;
            };
            for info in HABITS.iter().filter(|info| bits & info.habit.bit() != 0) {
                findings.push(devices.finding(info.does, info.instead));
            }
        }
        findings
    }
}

/// The devices of a kind that are in the subnet.
pub struct Devices {
    kind: DeviceKind,
    first: Guid,
    name: String,
    count: usize,
}

impl Devices {
    /// Those of `kind`; `None` where there are none.
    pub fn of(inventory: &Inventory, kind: DeviceKind) -> Option<Devices> {
        let mut nodes = inventory.nodes().filter(|(_, node)| kind.is_of(&node.info));
        let (first, node): (Guid, &NodeRecord) = nodes.next()?;
        Some(Devices {
            kind,
            first,
            name: node.name(),
            count: 1 + nodes.count(),
        })
    }

    /// What they do (after "they"), and what is done about it.
    pub fn finding(&self, does: &str, instead: &str) -> Finding {
        let DeviceKind {
            vendor,
            device,
            revision,
            role,
        } = self.kind;
        let at = match role {
            PortRole::End => "",
            PortRole::Management => ", at port 0",
            PortRole::External => ", at external ports",
        };
        let others = match self.count - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let text = format!(
            "{}{others} (vendor {vendor:#x}, device {device}, revision {revision:#x}{at}) {does}; {instead}; \
             traffic is not affected, and nothing is to be done",
            self.name
        );
        Finding::new(
            FindingKind::DeviceHabit,
            Subject::Node(self.first),
            Severity::Info,
            text,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: DeviceKind = DeviceKind {
        vendor: 0x1175,
        device: 0x7322,
        revision: 2,
        role: PortRole::End,
    };

    #[test]
    fn habit_is_news_once_and_returns_from_its_bits() {
        let mut habits = DeviceHabits::default();
        assert!(!habits.has(KIND, Habit::RefusesExtendedSpeeds));
        assert!(habits.learn(KIND, Habit::RefusesExtendedSpeeds));
        assert!(!habits.learn(KIND, Habit::RefusesExtendedSpeeds));
        assert!(habits.take_news() && !habits.take_news());
        let mut restored = DeviceHabits::default();
        for (kind, bits) in habits.bits() {
            restored.restore(kind, bits | 1 << 31);
        }
        assert_eq!(restored, habits);
    }

    #[test]
    fn kinds_beyond_the_bound_are_not_learned() {
        let mut habits = DeviceHabits::default();
        for revision in 0..=KINDS_MAX as u32 {
            let kind = DeviceKind { revision, ..KIND };
            let learned = habits.learn(kind, Habit::RefusesExtendedSpeeds);
            assert_eq!(learned, (revision as usize) < KINDS_MAX);
        }
    }

    #[test]
    fn habits_of_absent_devices_are_no_finding() {
        let mut habits = DeviceHabits::default();
        habits.learn(KIND, Habit::RefusesExtendedSpeeds);
        assert!(habits.findings(&Inventory::default()).is_empty());
    }
}

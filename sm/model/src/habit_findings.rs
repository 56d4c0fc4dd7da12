//! Findings about the habits of devices that are in the subnet.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Guid;

use crate::Hardware;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::habits::{DeviceHabits, DeviceKind, HABITS, PortRole};

impl DeviceHabits {
    /// One finding for each habit of each kind of device in the subnet, for the operator.
    pub fn findings(&self, hardware: &Hardware) -> Vec<Finding> {
        let devices = DevicesOfKind::all(hardware, self.bits().map(|(kind, _)| kind));
        let mut findings = Vec::new();
        for (kind, bits) in self.bits() {
            let Some(devices) = devices.get(&kind) else {
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
pub struct DevicesOfKind {
    kind: DeviceKind,
    /// The lowest GUID of the devices.
    first: Guid,
    /// Name of the device with that GUID.
    name: String,
    count: usize,
}

impl DevicesOfKind {
    /// The devices in the subnet of each of these kinds, in one pass over all nodes. Leaves out
    /// kinds without devices.
    pub fn all(
        hardware: &Hardware,
        kinds: impl Iterator<Item = DeviceKind>,
    ) -> BTreeMap<DeviceKind, DevicesOfKind> {
        let kinds: BTreeSet<DeviceKind> = kinds.collect();
        let mut found: BTreeMap<DeviceKind, DevicesOfKind> = BTreeMap::new();
        if kinds.is_empty() {
            return found;
        }
        for (guid, node) in hardware.nodes() {
            for kind in DeviceKind::all(&node.info).filter(|kind| kinds.contains(kind)) {
                let new = || DevicesOfKind {
                    kind,
                    first: guid,
                    name: hardware.name(guid),
                    count: 0,
                };
                found.entry(kind).or_insert_with(new).count += 1;
            }
        }
        found
    }

    /// The finding about a deviation of these devices. `does` is a predicate whose subject is the
    /// devices, and `instead` says how rsm manages them.
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
    use crate::habits::DeviceHabit;

    #[test]
    fn habits_of_absent_devices_cause_no_finding() {
        let kind = DeviceKind {
            vendor: 0x1175,
            device: 0x7322,
            revision: 2,
            role: PortRole::End,
        };
        let mut habits = DeviceHabits::default();
        habits.learn(kind, DeviceHabit::RefusesExtendedSpeeds);
        assert!(habits.findings(&Hardware::default()).is_empty());
    }
}

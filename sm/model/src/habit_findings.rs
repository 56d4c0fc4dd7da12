//! Findings about the habits of devices that are in the subnet.

use rsm_ids::Guid;

use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::habits::{DeviceHabits, DeviceKind, HABITS, PortRole};
use crate::{Hardware, InventoryNode};

impl DeviceHabits {
    /// One finding for each habit of each kind of device in the subnet, for the operator.
    pub fn findings(&self, hardware: &Hardware) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (kind, bits) in self.bits() {
            let Some(devices) = DevicesOfKind::of(hardware, kind) else {
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
    first: Guid,
    name: String,
    count: usize,
}

impl DevicesOfKind {
    /// The devices of `kind` in the subnet; `None` if there are none.
    pub fn of(hardware: &Hardware, kind: DeviceKind) -> Option<DevicesOfKind> {
        let mut nodes = hardware.nodes().filter(|(_, node)| kind.is_of(&node.info));
        let (first, _): (Guid, &InventoryNode) = nodes.next()?;
        Some(DevicesOfKind {
            kind,
            first,
            name: hardware.name(first),
            count: 1 + nodes.count(),
        })
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

//! Hosts that must register again (IBA 14.4.11), because their memberships and subscriptions ended
//! while their ports were absent.
//!
//! A host that was reset registers again without being asked. A host whose port stayed up while the
//! path to it was cut does not know that its registrations have ended.

use std::collections::BTreeSet;

use rsm_ids::Guid;

use super::directory::Directory;

/// Maximum number of absent ports that are recorded: every port of a large subnet. The hosts of
/// other ports register again only after a reset, or if an operator makes them.
const MAX_LOST: usize = 1 << 16;

/// Ports whose hosts must register again, at once or after their return.
#[derive(Debug, Default)]
pub(super) struct LostRegistrations {
    /// Absent ports whose registrations have ended.
    lost: BTreeSet<Guid>,
    /// Ports that have returned, and whose hosts must register again now.
    due: BTreeSet<Guid>,
}

impl LostRegistrations {
    /// Records that the registrations of these ports have ended.
    pub(super) fn record_lost(&mut self, ports: impl IntoIterator<Item = Guid>) {
        for port in ports {
            if self.lost.len() < MAX_LOST || self.lost.contains(&port) {
                self.lost.insert(port);
            }
        }
    }

    /// Handles a change of the subnet: absent ports that have returned are due.
    pub(super) fn ports_changed(&mut self, directory: &Directory) {
        let is_present = |port: &Guid| directory.by_guid(*port).is_some();
        let returned: Vec<Guid> = self.lost.iter().copied().filter(is_present).collect();
        for port in &returned {
            self.lost.remove(port);
        }
        self.due.extend(returned);
    }

    /// Whether any port is due.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The ports that are due, each returned once; `None` if there are none.
    pub(super) fn take_due(&mut self) -> Option<BTreeSet<Guid>> {
        self.is_due().then(|| std::mem::take(&mut self.due))
    }
}

//! Hosts that must register again (IBA 14.4.11), because their memberships and subscriptions ended
//! while their ports were absent.
//!
//! A host that was reset registers again by itself. A host whose port stayed up while the path to
//! it was cut does not register again by itself.

use std::collections::BTreeSet;

use rsm_ids::Guid;

use super::directory::Directory;

/// Maximum number of absent ports that are kept: every port of a large subnet. Further hosts
/// register again only after a reset, or by hand.
const MAX_LOST: usize = 1 << 16;

/// Ports whose hosts must register again, at once or after their return.
#[derive(Debug, Default)]
pub(super) struct LostRegistrations {
    lost: BTreeSet<Guid>,
    due: BTreeSet<Guid>,
    /// Number of ports beyond [`MAX_LOST`].
    forgotten: u64,
}

impl LostRegistrations {
    /// Records that the registrations of these ports have ended.
    pub(super) fn lost(&mut self, ports: impl IntoIterator<Item = Guid>) {
        for port in ports {
            if self.lost.len() < MAX_LOST || self.lost.contains(&port) {
                self.lost.insert(port);
            } else {
                self.forgotten += 1;
            }
        }
    }

    /// Handles a change of the subnet: absent ports that have returned are due.
    pub(super) fn ports_changed(&mut self, directory: &Directory) {
        let is_back = |port: &Guid| directory.by_guid(*port).is_some();
        let back: Vec<Guid> = self.lost.iter().copied().filter(is_back).collect();
        for port in &back {
            self.lost.remove(port);
        }
        self.due.extend(back);
    }

    /// Whether any port is due.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// The ports that are due, each returned once; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<BTreeSet<Guid>> {
        self.is_due().then(|| std::mem::take(&mut self.due))
    }
}

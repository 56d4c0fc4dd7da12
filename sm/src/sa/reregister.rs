//! Hosts that are to register anew (IBA 14.4.11): those whose memberships and subscriptions ended
//! while they were gone, and who may not know.
//!
//! A host that was reset asks anew by itself. One whose port stayed up while the way to it was cut
//! does not.

use std::collections::BTreeSet;

use rsm_ids::Guid;

use super::directory::Directory;

/// How many ports that are gone are remembered: every port of a large subnet. The ones beyond it
/// ask anew only when they are reset or told by hand.
const MAX_LOST: usize = 1 << 16;

/// Ports that are to be told, at once or when they are back.
#[derive(Debug, Default)]
pub(super) struct Reregister {
    lost: BTreeSet<Guid>,
    due: BTreeSet<Guid>,
    /// Ports that there was no room for.
    forgotten: u64,
}

impl Reregister {
    /// What these ports had registered has ended.
    pub(super) fn lost(&mut self, ports: impl IntoIterator<Item = Guid>) {
        for port in ports {
            if self.lost.len() < MAX_LOST || self.lost.contains(&port) {
                self.lost.insert(port);
            } else {
                self.forgotten += 1;
            }
        }
    }

    /// The subnet has changed: those who are back are due.
    pub(super) fn ports_changed(&mut self, directory: &Directory) {
        let is_back = |port: &Guid| directory.by_guid(*port).is_some();
        let back: Vec<Guid> = self.lost.iter().copied().filter(is_back).collect();
        for port in &back {
            self.lost.remove(port);
        }
        self.due.extend(back);
    }

    /// Whether somebody is to be told.
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Who is to be told now, once.
    pub(super) fn take(&mut self) -> Option<BTreeSet<Guid>> {
        self.is_due().then(|| std::mem::take(&mut self.due))
    }
}

//! Decides which events a receiver gets, and whether this manager sends events at all.

use std::sync::Arc;

use rsm_proto::v1;

use crate::described::{Severity, rate};

/// Filter of one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Minimum severity.
    pub min_severity: Severity,
    /// Kinds of events, as `rsmctl events --kind` names them.
    pub kinds: Vec<&'static str>,
}

impl Filter {
    /// Whether the receiver gets `event`.
    pub fn passes(&self, event: &v1::Event) -> bool {
        event.change.as_ref().is_some_and(|change| {
            let rating = rate(change);
            rating.filtered >= self.min_severity && self.kinds.contains(&rating.kind)
        })
    }
}

/// Role of this manager, as far as it decides whether the manager sends events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SendingRole {
    /// The manager is looking for other managers.
    #[default]
    Undecided,
    /// The manager is master.
    Master,
    /// Another manager is master, or this manager is not active.
    Other,
}

/// Maximum number of events that wait until the role is known, greater than the number that a
/// start reports before that.
const HELD_MAX: usize = 4096;

/// Passes only the events of a master, so that a standby sends no duplicates.
///
/// Events from before the role is known wait. The events that end a master's role pass as well,
/// because its successor cannot know them.
#[derive(Debug, Default)]
pub struct MasterOnly {
    /// Last role that was not `Undecided`.
    last: SendingRole,
    /// Events from before the role is known.
    held: Vec<Arc<v1::Event>>,
}

impl MasterOnly {
    /// Takes events from a time when the manager had role `role`. Returns the events for
    /// receivers, in order.
    pub fn admit(&mut self, events: &[Arc<v1::Event>], role: SendingRole) -> Vec<Arc<v1::Event>> {
        match role {
            SendingRole::Undecided => {
                let room = HELD_MAX.saturating_sub(self.held.len());
                self.held.extend(events.iter().take(room).cloned());
                Vec::new()
            }
            SendingRole::Master => {
                self.last = role;
                let mut admitted = std::mem::take(&mut self.held);
                admitted.extend_from_slice(events);
                admitted
            }
            SendingRole::Other => {
                self.held.clear();
                let previous = std::mem::replace(&mut self.last, role);
                match previous {
                    SendingRole::Master => events.to_vec(),
                    SendingRole::Undecided | SendingRole::Other => Vec::new(),
                }
            }
        }
    }
}

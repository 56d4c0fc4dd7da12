//! Decides which events a receiver gets, and whether this manager sends any.

use std::sync::Arc;

use rsm_proto::v1;

use crate::described::{Severity, rate};

/// Filter of one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Least severity.
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

/// Standing of this manager among those of the subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Standing {
    /// Looks for other managers.
    #[default]
    Undecided,
    /// Is master.
    Master,
    /// Another one is master, or it is not active.
    Other,
}

/// Most events that wait for the standing to be known: more than a start reports before that.
const HELD_MAX: usize = 4096;

/// Passes the events of a master alone, so that a standby doubles none.
///
/// Events of a time before the standing is known wait. The events by which a master tells that it
/// is no longer one pass as well: its successor cannot know them.
#[derive(Debug, Default)]
pub struct MasterOnly {
    /// Last standing that was decided.
    last: Standing,
    held: Vec<Arc<v1::Event>>,
}

impl MasterOnly {
    /// Takes events of a time with this standing. Returns those that receivers get, in order.
    pub fn admit(&mut self, events: &[Arc<v1::Event>], standing: Standing) -> Vec<Arc<v1::Event>> {
        match standing {
            Standing::Undecided => {
                let room = HELD_MAX.saturating_sub(self.held.len());
                self.held.extend(events.iter().take(room).cloned());
                Vec::new()
            }
            Standing::Master => {
                self.last = standing;
                let mut admitted = std::mem::take(&mut self.held);
                admitted.extend_from_slice(events);
                admitted
            }
            Standing::Other => {
                self.held.clear();
                let before = std::mem::replace(&mut self.last, standing);
                match before {
                    Standing::Master => events.to_vec(),
                    Standing::Undecided | Standing::Other => Vec::new(),
                }
            }
        }
    }
}

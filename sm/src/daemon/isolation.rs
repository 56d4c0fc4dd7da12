//! Isolation of hosts that act against the subnet, where the operator wants it
//! (`health.hostile_hosts`).
//!
//! The core names these hosts, and the controller disables the port of the switch as an operator
//! would: the store keeps the isolation, `rsmctl drained` shows it, and `rsmctl port enable` ends
//! it. A host is isolated again only for later acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_api::{ActionLog as _, ControlError, v1};
use rsm_core::Hostility;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_view::publish::{Controller, View};
use tokio::sync::mpsc;

/// Time between two looks: a host is isolated within a second.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Ports that can wait for a report at once: one look is over before the next.
const REPORTS: usize = 64;

/// The end of an isolation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The port of the switch is disabled.
    Done,
    /// The port stays as it is.
    Refused,
    /// The manager was not ready for commands.
    Again,
}

impl End {
    fn of(ended: &Result<bool, ControlError>) -> End {
        match ended {
            // The port is kept as disabled, and the core goes on trying.
            Ok(_) | Err(ControlError::Unwritten { .. }) => End::Done,
            Err(
                ControlError::Busy
                | ControlError::Stopping
                | ControlError::Standby { .. }
                | ControlError::NotAttached { .. },
            ) => End::Again,
            Err(_) => End::Refused,
        }
    }
}

/// The two halves of the channel of ended isolations.
type Ends = (mpsc::Sender<(PortKey, End)>, mpsc::Receiver<(PortKey, End)>);

/// The hosts that were dealt with.
pub(super) struct Isolation {
    /// The last act of each hostile port that was dealt with.
    dealt: BTreeMap<PortKey, Time>,
    /// Ports whose isolation is under way.
    pending: BTreeSet<PortKey>,
    /// Ports whose isolation was refused, as was reported.
    refused: BTreeSet<PortKey>,
    /// Ends of isolations, by the port.
    ends: Ends,
    look_at: Time,
}

impl Isolation {
    pub(super) fn new() -> Isolation {
        Isolation {
            dealt: BTreeMap::new(),
            pending: BTreeSet::new(),
            refused: BTreeSet::new(),
            ends: mpsc::channel(REPORTS),
            look_at: Time::ZERO,
        }
    }

    /// Whether it is time to look.
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.look_at
    }

    /// Isolates the hosts that have acted since the last look.
    pub(super) fn look(
        &mut self,
        hostile: &BTreeMap<PortKey, (Hostility, Time)>,
        controller: &Arc<Controller>,
        view: &Arc<View>,
        now: Time,
    ) {
        self.look_at = now + LOOK_EVERY;
        let due = self.due(hostile);
        if due.is_empty() {
            return;
        }
        let was_refused = self.refused.clone();
        let (controller, view) = (controller.clone(), view.clone());
        let ends = self.ends.0.clone();
        tokio::spawn(async move {
            let hosts: Vec<(PortKey, &str)> = due
                .iter()
                .map(|(&port, what)| (port, what.in_words()))
                .collect();
            for (port, ended) in controller.isolate(&hosts).await {
                let end = End::of(&ended);
                let is_news = match &ended {
                    Ok(disabled) => *disabled,
                    Err(ControlError::Unwritten { .. }) => true,
                    Err(_) => end == End::Refused && !was_refused.contains(&port),
                };
                if is_news {
                    view.acted(act(&view, port, due[&port], ended.err()));
                }
                // A closed channel means that the daemon is ending.
                let _ = ends.send((port, end)).await;
            }
        });
    }

    /// The ports with acts that no isolation has answered yet, each with the act. At most
    /// [`REPORTS`] are under way; others wait for the next look.
    fn due(
        &mut self,
        hostile: &BTreeMap<PortKey, (Hostility, Time)>,
    ) -> BTreeMap<PortKey, Hostility> {
        while let Ok((port, end)) = self.ends.1.try_recv() {
            self.pending.remove(&port);
            match end {
                End::Done => {
                    self.refused.remove(&port);
                }
                End::Refused => {
                    self.refused.insert(port);
                }
                End::Again => {
                    self.dealt.remove(&port);
                }
            }
        }
        self.dealt.retain(|port, _| hostile.contains_key(port));
        self.refused.retain(|port| hostile.contains_key(port));
        let mut due = BTreeMap::new();
        for (&port, &(what, last)) in hostile {
            let is_new = self.dealt.get(&port).is_none_or(|&dealt| last > dealt);
            if is_new && self.pending.len() < REPORTS && self.pending.insert(port) {
                self.dealt.insert(port, last);
                due.insert(port, what);
            }
        }
        due
    }
}

/// The record of an isolation, as of an operator's command.
fn act(
    view: &View,
    port: PortKey,
    what: Hostility,
    refusal: Option<ControlError>,
) -> v1::OperatorActed {
    let name = view.snapshot().fabric.port_name(port);
    v1::OperatorActed {
        action: "isolate".to_owned(),
        detail: format!("{name}, which {}", what.in_words()),
        operator: "health.hostile_hosts".to_owned(),
        refusal: refusal.map_or_else(String::new, |error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    fn port(node: u64) -> PortKey {
        PortKey::new(Guid(node), PortNum(1))
    }

    fn acts(all: &[(u64, u64)]) -> BTreeMap<PortKey, (Hostility, Time)> {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let acts = all.iter();
        acts.map(|&(node, ms)| (port(node), (Hostility::ForgesTraps, at(ms))))
            .collect()
    }

    fn due(isolation: &mut Isolation, all: &[(u64, u64)]) -> Vec<PortKey> {
        let due = isolation.due(&acts(all));
        due.into_keys().collect()
    }

    fn end(isolation: &Isolation, node: u64, end: End) {
        isolation.ends.0.try_send((port(node), end)).unwrap();
    }

    #[test]
    fn host_is_isolated_once_and_again_only_for_later_acts() {
        let mut isolation = Isolation::new();
        assert_eq!(due(&mut isolation, &[(1, 5), (2, 6)]), [port(1), port(2)]);
        // Under way: acts that come meanwhile wait.
        assert_eq!(due(&mut isolation, &[(1, 7), (2, 6)]), []);
        end(&isolation, 1, End::Done);
        end(&isolation, 2, End::Done);
        assert_eq!(due(&mut isolation, &[(1, 7), (2, 6)]), [port(1)]);
        end(&isolation, 1, End::Done);
        // The operator has enabled the ports: what was is dealt with.
        assert_eq!(due(&mut isolation, &[(1, 7), (2, 6)]), []);
        assert_eq!(due(&mut isolation, &[(1, 7), (2, 9)]), [port(2)]);
        end(&isolation, 2, End::Done);
        // The finding ends and comes again.
        assert_eq!(due(&mut isolation, &[]), []);
        assert_eq!(due(&mut isolation, &[(1, 7)]), [port(1)]);
    }

    #[test]
    fn refusal_is_remembered_until_the_host_behaves() {
        let mut isolation = Isolation::new();
        assert_eq!(due(&mut isolation, &[(1, 5)]), [port(1)]);
        end(&isolation, 1, End::Refused);
        assert_eq!(due(&mut isolation, &[(1, 6)]), [port(1)]);
        assert!(isolation.refused.contains(&port(1)));
        end(&isolation, 1, End::Refused);
        assert_eq!(due(&mut isolation, &[]), []);
        assert!(isolation.refused.is_empty());
    }

    #[test]
    fn isolation_that_came_at_a_bad_time_is_tried_again() {
        let mut isolation = Isolation::new();
        for _ in 0..3 {
            assert_eq!(due(&mut isolation, &[(1, 5)]), [port(1)]);
            end(&isolation, 1, End::Again);
        }
        assert_eq!(due(&mut isolation, &[(1, 5)]), [port(1)]);
        assert!(isolation.refused.is_empty());
    }

    #[test]
    fn many_hosts_are_isolated_some_at_a_time() {
        let mut isolation = Isolation::new();
        let all: Vec<(u64, u64)> = (0..200).map(|node| (node, 1)).collect();
        assert_eq!(due(&mut isolation, &all).len(), REPORTS);
        for node in 0..REPORTS as u64 {
            end(&isolation, node, End::Done);
        }
        assert_eq!(due(&mut isolation, &all)[0], port(REPORTS as u64));
    }
}

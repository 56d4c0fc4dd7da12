//! Isolates hosts that act against the subnet, if the configuration demands it
//! (`health.hostile_hosts`).
//!
//! The core names these hosts, and the controller disables the port of the switch as an operator
//! would: the store keeps the isolation, `rsmctl drained` shows it, and `rsmctl port enable` ends
//! it. A host is isolated again only for later acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_api::{ActionLog as _, ControlError, Outcome, v1};
use rsm_core::Hostility;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_plan::avoid::ISOLATION;
use rsm_view::publish::{Controller, View};
use tokio::sync::mpsc;

/// Time between two checks for hostile ports, so that a host is isolated within a second.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of isolations under way at once. The channel of their ends has room for all.
const REPORTS: usize = 64;

/// The end of an isolation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The port of the switch is disabled.
    Done,
    /// The port stays as it is.
    Refused,
    /// The manager was not ready for commands, so the isolation must be tried again.
    Retry,
}

impl End {
    /// Result of an isolation that ended with `ended`.
    fn of(ended: &Result<bool, ControlError>) -> End {
        match ended {
            // The store keeps the port as disabled, and the core repeats the Set.
            Ok(_) | Err(ControlError::Unwritten { .. }) => End::Done,
            Err(
                ControlError::Busy
                | ControlError::Stopping
                | ControlError::Standby { .. }
                | ControlError::NotAttached { .. },
            ) => End::Retry,
            Err(_) => End::Refused,
        }
    }
}

/// The two halves of the channel of ended isolations.
type Ends = (mpsc::Sender<(PortKey, End)>, mpsc::Receiver<(PortKey, End)>);

/// State of the isolation of all hostile ports.
pub(super) struct Isolation {
    /// Time of the last act for which each hostile port was or will be isolated.
    handled: BTreeMap<PortKey, Time>,
    /// Ports whose isolation is under way.
    pending: BTreeSet<PortKey>,
    /// Ports whose isolation was refused; the refusal is reported only once.
    refused: BTreeSet<PortKey>,
    /// Channel of ended isolations.
    ends: Ends,
    /// Time of the next check for hostile ports.
    next_check: Time,
}

impl Isolation {
    /// The state before the first isolation.
    pub(super) fn new() -> Isolation {
        Isolation {
            handled: BTreeMap::new(),
            pending: BTreeSet::new(),
            refused: BTreeSet::new(),
            ends: mpsc::channel(REPORTS),
            next_check: Time::ZERO,
        }
    }

    /// Whether it is time for the next check.
    pub(super) fn is_due(&self, now: Time) -> bool {
        now >= self.next_check
    }

    /// Isolates hosts that have acted since their last isolation. `hostile` gives the latest act of
    /// each hostile port and its time.
    pub(super) fn isolate_new(
        &mut self,
        hostile: &BTreeMap<PortKey, (Hostility, Time)>,
        controller: &Arc<Controller>,
        view: &Arc<View>,
        now: Time,
    ) {
        self.next_check = now + CHECK_INTERVAL;
        let ports_to_isolate = self.ports_to_isolate(hostile);
        if ports_to_isolate.is_empty() {
            return;
        }
        let was_refused = self.refused.clone();
        let (controller, view) = (controller.clone(), view.clone());
        let ends = self.ends.0.clone();
        tokio::spawn(async move {
            let hosts: Vec<(PortKey, &str)> = ports_to_isolate
                .iter()
                .map(|(&port, what)| (port, what.in_words()))
                .collect();
            for (port, ended) in controller.isolate(&hosts).await {
                let end = End::of(&ended);
                let is_reported = match &ended {
                    Ok(disabled) => *disabled,
                    Err(ControlError::Unwritten { .. }) => true,
                    Err(_) => end == End::Refused && !was_refused.contains(&port),
                };
                if is_reported {
                    view.acted(act(
                        &view,
                        port,
                        ports_to_isolate[&port],
                        Outcome::of(&ended),
                    ));
                }
                // A closed channel means that the daemon is ending.
                let _ = ends.send((port, end)).await;
            }
        });
    }

    /// The ports to isolate now, each with its act: ports that have acted since their last
    /// isolation. Ports beyond [`REPORTS`] isolations under way wait for the next check.
    fn ports_to_isolate(
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
                End::Retry => {
                    self.handled.remove(&port);
                }
            }
        }
        self.handled.retain(|port, _| hostile.contains_key(port));
        self.refused.retain(|port| hostile.contains_key(port));
        let mut ports_to_isolate = BTreeMap::new();
        for (&port, &(what, last)) in hostile {
            let is_new = self
                .handled
                .get(&port)
                .is_none_or(|&handled| last > handled);
            if is_new && self.pending.len() < REPORTS && self.pending.insert(port) {
                self.handled.insert(port, last);
                ports_to_isolate.insert(port, what);
            }
        }
        ports_to_isolate
    }
}

/// Record of an isolation for the audit log, in the form of an operator's command.
fn act(view: &View, port: PortKey, what: Hostility, outcome: Outcome) -> v1::OperatorActed {
    let name = view.snapshot().fabric.port_name(port);
    v1::OperatorActed {
        action: "isolate".to_owned(),
        detail: format!("{name}, which {}", what.in_words()),
        operator: ISOLATION.to_owned(),
        refusal: outcome.refusal(),
    }
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortNum};

    use super::*;

    fn port(node: u64) -> PortKey {
        PortKey::new(Guid(node), PortNum(1))
    }

    /// Hostile acts, from pairs of a node and a time in milliseconds.
    fn acts(all: &[(u64, u64)]) -> BTreeMap<PortKey, (Hostility, Time)> {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let acts = all.iter();
        acts.map(|&(node, ms)| (port(node), (Hostility::ForgesTraps, at(ms))))
            .collect()
    }

    /// Ports to isolate after these acts.
    fn ports_to_isolate(isolation: &mut Isolation, all: &[(u64, u64)]) -> Vec<PortKey> {
        let ports_to_isolate = isolation.ports_to_isolate(&acts(all));
        ports_to_isolate.into_keys().collect()
    }

    /// Ends the isolation of a node with a result.
    fn end(isolation: &Isolation, node: u64, end: End) {
        isolation.ends.0.try_send((port(node), end)).unwrap();
    }

    #[test]
    fn host_is_isolated_once_and_again_only_for_later_acts() {
        let mut isolation = Isolation::new();
        assert_eq!(
            ports_to_isolate(&mut isolation, &[(1, 5), (2, 6)]),
            [port(1), port(2)]
        );
        // While an isolation is under way, later acts wait.
        assert_eq!(ports_to_isolate(&mut isolation, &[(1, 7), (2, 6)]), []);
        end(&isolation, 1, End::Done);
        end(&isolation, 2, End::Done);
        assert_eq!(
            ports_to_isolate(&mut isolation, &[(1, 7), (2, 6)]),
            [port(1)]
        );
        end(&isolation, 1, End::Done);
        // The operator has enabled the ports, and only later acts count.
        assert_eq!(ports_to_isolate(&mut isolation, &[(1, 7), (2, 6)]), []);
        assert_eq!(
            ports_to_isolate(&mut isolation, &[(1, 7), (2, 9)]),
            [port(2)]
        );
        end(&isolation, 2, End::Done);
        // The port is no longer hostile, and then becomes hostile again.
        assert_eq!(ports_to_isolate(&mut isolation, &[]), []);
        assert_eq!(ports_to_isolate(&mut isolation, &[(1, 7)]), [port(1)]);
    }

    #[test]
    fn refusal_is_remembered_while_the_host_is_hostile() {
        let mut isolation = Isolation::new();
        assert_eq!(ports_to_isolate(&mut isolation, &[(1, 5)]), [port(1)]);
        end(&isolation, 1, End::Refused);
        assert_eq!(ports_to_isolate(&mut isolation, &[(1, 6)]), [port(1)]);
        assert!(isolation.refused.contains(&port(1)));
        end(&isolation, 1, End::Refused);
        assert_eq!(ports_to_isolate(&mut isolation, &[]), []);
        assert!(isolation.refused.is_empty());
    }

    #[test]
    fn isolation_is_tried_again_while_the_manager_is_not_ready() {
        let mut isolation = Isolation::new();
        for _ in 0..3 {
            assert_eq!(ports_to_isolate(&mut isolation, &[(1, 5)]), [port(1)]);
            end(&isolation, 1, End::Retry);
        }
        assert_eq!(ports_to_isolate(&mut isolation, &[(1, 5)]), [port(1)]);
        assert!(isolation.refused.is_empty());
    }

    #[test]
    fn hosts_beyond_the_limit_are_isolated_after_earlier_isolations_end() {
        let mut isolation = Isolation::new();
        let all: Vec<(u64, u64)> = (0..200).map(|node| (node, 1)).collect();
        assert_eq!(ports_to_isolate(&mut isolation, &all).len(), REPORTS);
        for node in 0..REPORTS as u64 {
            end(&isolation, node, End::Done);
        }
        assert_eq!(
            ports_to_isolate(&mut isolation, &all)[0],
            port(REPORTS as u64)
        );
    }
}

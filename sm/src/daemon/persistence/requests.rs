//! The requests that wait for the store's thread.

use rsm_core::EpochRequest;
use rsm_store::replica::ReplicaEvent;
use rsm_store::{CABLING, Namespace, Persisted};

/// Request to the store's thread, or an answer.
pub(super) enum StoreRequest {
    /// Claim of the epoch.
    Claim(EpochRequest),
    /// Release of the epoch.
    Release,
    /// Report of the shared store that the store's thread applies before the core receives it.
    Reported(ReplicaEvent),
}

/// Queues a request for the store's thread, and drops the requests that it supersedes. The thread
/// may wait for the disk as long as it likes, and other managers, whose hosts register meanwhile,
/// report on: each kind of request waits once.
///
/// * A claim supersedes earlier claims, and a release also earlier releases.
/// * The answer to a claim supersedes the answers to earlier claims, which would be ignored.
/// * Followed rows are whole tables and supersede earlier ones, whose rows of cabling they take over
///   if they have none. The number of a plan follows them, as it followed the earlier rows.
pub(super) fn queue(requests: &mut Vec<StoreRequest>, mut request: StoreRequest) {
    let mut plan = None;
    if let StoreRequest::Reported(ReplicaEvent::Followed(rows)) = &mut request {
        for waiting in requests.extract_if(.., |waiting| waiting.precedes_rows()) {
            match waiting {
                StoreRequest::Reported(ReplicaEvent::Followed(earlier)) => {
                    take_over_cabling(*earlier, rows);
                }
                number => plan = Some(number),
            }
        }
    }
    requests.retain(|waiting| !request.supersedes(waiting));
    requests.push(request);
    requests.extend(plan);
}

/// Adds the rows of cabling in `earlier` to `rows` if they lack them: such rows have not changed.
fn take_over_cabling(earlier: Persisted, rows: &mut Persisted) {
    let name = Namespace::new(CABLING).ok();
    let cabling = earlier
        .records
        .into_iter()
        .find(|(table, _)| Some(table) == name.as_ref());
    if let Some((table, cabling)) = cabling {
        rows.records.entry(table).or_insert(cabling);
    }
}

impl StoreRequest {
    /// Whether followed rows that come later take the place of these rows, or must come before this
    /// number of a plan.
    fn precedes_rows(&self) -> bool {
        use ReplicaEvent::{Followed, Planned};
        matches!(self, StoreRequest::Reported(Followed(_) | Planned(_)))
    }

    /// Whether a `waiting` request has no effect any more once this one is carried out.
    fn supersedes(&self, waiting: &StoreRequest) -> bool {
        use ReplicaEvent::{Granted, Overflowed, Planned, Unreachable};
        use StoreRequest::{Claim, Release, Reported};
        match self {
            Claim(_) => matches!(waiting, Claim(_)),
            Release => matches!(waiting, Claim(_) | Release),
            Reported(Granted { .. } | Unreachable { .. }) => {
                matches!(waiting, Reported(Granted { .. } | Unreachable { .. }))
            }
            Reported(Overflowed) => matches!(waiting, Reported(Overflowed)),
            Reported(Planned(_)) => matches!(waiting, Reported(Planned(_))),
            Reported(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use rsm_ids::Guid;
    use rsm_store::Epoch;

    use super::*;

    /// Followed rows of this plan, with rows of cabling in every tenth.
    fn followed(plan: u64) -> StoreRequest {
        let mut rows = Persisted {
            plan_generation: plan,
            ..Persisted::default()
        };
        if plan.is_multiple_of(10) {
            let cabling = Namespace::new(CABLING).expect("a name");
            rows.records.insert(cabling, BTreeMap::new());
        }
        StoreRequest::Reported(ReplicaEvent::Followed(Box::new(rows)))
    }

    fn claim(guid: u64) -> StoreRequest {
        StoreRequest::Claim(EpochRequest::Claim {
            own: Guid(guid),
            over: None,
            insists: false,
            is_master: false,
        })
    }

    fn granted(number: u64) -> StoreRequest {
        StoreRequest::Reported(ReplicaEvent::Granted {
            number,
            epoch: Epoch {
                number,
                holder: Guid(1),
            },
            state: None,
            is_combined: false,
            unseen: Duration::ZERO,
        })
    }

    /// The disk hangs while the master of the subnet writes on, and the epoch changes hands.
    #[test]
    fn requests_that_wait_for_a_hanging_disk_are_bounded_and_the_last_ones_count() {
        let planned = |plan| StoreRequest::Reported(ReplicaEvent::Planned(plan));
        let mut requests = Vec::new();
        for round in 1..=1009 {
            for request in [
                followed(round),
                planned(round),
                claim(round),
                granted(round),
                StoreRequest::Release,
                StoreRequest::Reported(ReplicaEvent::Overflowed),
                claim(round),
            ] {
                queue(&mut requests, request);
                assert!(requests.len() <= 6, "{}", requests.len());
            }
        }
        queue(&mut requests, followed(2001));
        let shown = requests.iter().map(|request| match request {
            StoreRequest::Claim(EpochRequest::Claim { own, .. }) => format!("claim {}", own.0),
            StoreRequest::Release => "release".to_owned(),
            StoreRequest::Reported(ReplicaEvent::Granted { number, .. }) => {
                format!("granted {number}")
            }
            StoreRequest::Reported(ReplicaEvent::Followed(rows)) => format!(
                "rows {}, {} tables",
                rows.plan_generation,
                rows.records.len()
            ),
            StoreRequest::Reported(ReplicaEvent::Planned(plan)) => format!("plan {plan}"),
            other => format!(
                "{:?}",
                matches!(other, StoreRequest::Reported(ReplicaEvent::Overflowed))
            ),
        });
        let shown: Vec<String> = shown.collect();
        assert_eq!(
            shown,
            [
                "granted 1009",
                "release",
                "true",
                "claim 1009",
                "rows 2001, 1 tables",
                "plan 1009"
            ]
        );
    }
}

//! Tests of claims over a silent master: when they are made, and which calls of the store they
//! cause.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::{LoadReport, MemoryStore, Store};

const OWN: Guid = Guid(1);
const MASTER: Guid = Guid(2);
/// Time limit of a test for each event.
const LIMIT: Duration = Duration::from_secs(30);
/// Time after which a call to a hanging store fails, unless a deadline ends it earlier.
const HANGS: Duration = Duration::from_secs(20);

/// A call of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Observe,
    Claim(ClaimCondition),
    Beat,
}

/// A store whose epoch the master holds.
#[derive(Clone)]
struct Shared(Arc<Mutex<Inner>>);

struct Inner {
    /// The present epoch.
    seen: SeenEpoch,
    calls: Vec<Call>,
    /// Times at which the epoch was read.
    readings: Vec<Instant>,
    /// Whether the master shows a sign of life when its epoch is claimed.
    beats_at_claim: bool,
    deadline: Deadline,
    /// Whether the store leaves new calls without an answer.
    hangs: bool,
    /// Whether the store refuses new calls at once.
    refuses: bool,
}

impl Shared {
    fn new() -> Shared {
        let epoch = Epoch {
            number: 7,
            holder: MASTER,
        };
        Shared(Arc::new(Mutex::new(Inner {
            seen: SeenEpoch {
                epoch,
                revision: 1,
                beat: 1,
                is_released: false,
                plan: 3,
            },
            calls: Vec::new(),
            readings: Vec::new(),
            beats_at_claim: false,
            deadline: Deadline::default(),
            hangs: false,
            refuses: false,
        })))
    }

    /// Shows a sign of life of the master.
    fn beat(&self) {
        self.0.lock().seen.beat += 1;
    }

    /// Begins a call; in a hanging store, the call ends at the deadline without an answer. A store
    /// that refuses ends the call at once.
    fn call(&self, call: Call) -> Result<(), StoreError> {
        let (hangs, refuses, deadline) = {
            let mut inner = self.0.lock();
            inner.calls.push(call);
            (inner.hangs, inner.refuses, inner.deadline.clone())
        };
        let failure = || StoreError::Unreachable {
            endpoints: String::new(),
            reason: "it hangs or refuses".to_owned(),
        };
        match (hangs, refuses) {
            (_, true) => return Err(failure()),
            (false, false) => return Ok(()),
            (true, false) => {}
        }
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        let begun = now();
        runtime.block_on(deadline.end_of_call(begun, begun + HANGS));
        Err(failure())
    }

    /// The claims among the calls so far.
    fn claims(&self) -> Vec<Call> {
        let calls = self.0.lock().calls.clone();
        let is_claim = |call: &Call| matches!(call, Call::Claim(_));
        calls.into_iter().filter(is_claim).collect()
    }
}

impl Store for Shared {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        MemoryStore::new().load()
    }

    fn commit(&mut self, _: &ChangeSet) -> Result<(), StoreError> {
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl SharedStore for Shared {
    fn deadline(&self) -> Deadline {
        self.0.lock().deadline.clone()
    }

    fn observe(&mut self) -> Result<Option<SeenEpoch>, StoreError> {
        self.call(Call::Observe)?;
        let mut inner = self.0.lock();
        inner.readings.push(now());
        Ok(Some(inner.seen))
    }

    fn claim(
        &mut self,
        holder: Guid,
        seen: Option<SeenEpoch>,
        condition: ClaimCondition,
    ) -> Result<Option<Epoch>, StoreError> {
        self.call(Call::Claim(condition))?;
        let mut inner = self.0.lock();
        inner.seen.beat += i64::from(inner.beats_at_claim);
        let is_same = match condition {
            ClaimCondition::HolderSilent => seen == Some(inner.seen),
            ClaimCondition::Unconditional => {
                seen.map(|seen| seen.revision) == Some(inner.seen.revision)
            }
        };
        if is_same {
            let number = seen.map_or(0, |seen| seen.epoch.number) + 1;
            inner.seen.epoch = Epoch { number, holder };
            inner.seen.revision += 1;
        }
        Ok(is_same.then_some(inner.seen.epoch))
    }

    fn beat(&mut self) -> Result<(), StoreError> {
        self.call(Call::Beat)
    }

    fn announce(&mut self, _: Guid, _: &str) -> Result<BTreeMap<Guid, String>, StoreError> {
        Ok(BTreeMap::new())
    }

    fn release(&mut self) {}

    fn follow(&mut self) -> Result<BTreeSet<String>, StoreError> {
        Ok(BTreeSet::new())
    }

    fn tables(&self, _: &[&str]) -> Persisted {
        Persisted::default()
    }

    fn state(&self) -> Persisted {
        Persisted::default()
    }
}

/// Starts a replica, and waits until it has read the master's epoch. Returns the replica and its
/// events.
fn watching(store: &Shared) -> (ReplicaHandle, Receiver<ReplicaEvent>) {
    let (sender, events) = channel();
    let report = Box::new(move |event| drop(sender.send(event)));
    let replica = ReplicaHandle::start(Box::new(store.clone()), report).unwrap();
    let seen = events.recv_timeout(LIMIT).unwrap();
    assert!(matches!(seen, ReplicaEvent::Seen(Some(_))), "{seen:?}");
    (replica, events)
}

/// A claim over the master, which does not answer in the fabric.
fn over_master(insists: bool) -> Claim {
    Claim {
        own: OWN,
        over: Some(MASTER),
        insists,
        state: Persisted::default(),
        held_before: 0,
        is_master: false,
        number: 1,
    }
}

/// The next event that answers a claim or a check.
fn answer(events: &Receiver<ReplicaEvent>) -> ReplicaEvent {
    loop {
        let event = events.recv_timeout(LIMIT).unwrap();
        if !matches!(event, ReplicaEvent::Planned(_) | ReplicaEvent::Health(_)) {
            return event;
        }
    }
}

#[test]
fn claim_over_a_silent_master_is_made_with_one_call_at_the_end_of_the_silence() {
    let store = Shared::new();
    let (replica, events) = watching(&store);
    let claimed = now();
    replica.claim(over_master(false));
    let answer = answer(&events);
    assert!(
        matches!(answer, ReplicaEvent::Granted { epoch, .. } if epoch.holder == OWN),
        "{answer:?}"
    );
    // The master was last seen alive at most one reading before the claim.
    assert!(claimed.elapsed() + BEAT >= SILENT);
    // The only claim is conditional: a sign of life after the last reading would make it fail.
    assert_eq!(store.claims(), [Call::Claim(ClaimCondition::HolderSilent)]);
    replica.close();
}

#[test]
fn sign_of_life_ends_the_wait_and_the_claim_is_refused() {
    let store = Shared::new();
    let (replica, events) = watching(&store);
    replica.claim(over_master(false));
    store.beat();
    let answer = answer(&events);
    assert!(matches!(answer, ReplicaEvent::Refused(_)), "{answer:?}");
    assert_eq!(store.claims(), []);
    replica.close();
}

#[test]
fn sign_of_life_at_the_moment_of_the_claim_keeps_the_epoch() {
    let store = Shared::new();
    store.0.lock().beats_at_claim = true;
    let (replica, events) = watching(&store);
    replica.claim(over_master(false));
    let answer = answer(&events);
    assert!(matches!(answer, ReplicaEvent::Refused(_)), "{answer:?}");
    assert_eq!(store.claims(), [Call::Claim(ClaimCondition::HolderSilent)]);
    replica.close();
}

#[test]
fn claim_that_is_released_while_it_waits_is_not_made() {
    let store = Shared::new();
    let (replica, events) = watching(&store);
    replica.claim(over_master(false));
    replica.release();
    std::thread::sleep(SILENT + 2 * BEAT);
    assert_eq!(store.claims(), []);
    let reported: Vec<ReplicaEvent> = events.try_iter().collect();
    let is_answer = |event: &ReplicaEvent| {
        matches!(
            event,
            ReplicaEvent::Granted { .. } | ReplicaEvent::Refused(_)
        )
    };
    assert!(!reported.iter().any(is_answer), "{reported:?}");
    replica.close();
}

#[test]
fn readings_are_more_frequent_after_a_reading_without_a_sign_of_life() {
    let store = Shared::new();
    let (replica, _events) = watching(&store);
    std::thread::sleep(3 * BEAT);
    let readings = store.0.lock().readings.clone();
    let gaps: Vec<Duration> = readings.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (first, later) = gaps.split_first().expect("it looks again");
    assert!(*first >= BEAT, "{gaps:?}");
    assert!(later.iter().any(|&gap| gap < BEAT / 2), "{gaps:?}");
    replica.close();
}

#[test]
fn claim_that_insists_waits_for_no_silence() {
    let store = Shared::new();
    let (replica, events) = watching(&store);
    store.beat();
    replica.claim(over_master(true));
    let answer = answer(&events);
    assert!(matches!(answer, ReplicaEvent::Granted { .. }), "{answer:?}");
    assert_eq!(store.claims(), [Call::Claim(ClaimCondition::Unconditional)]);
    replica.close();
}

#[test]
fn claim_over_a_silent_master_is_answered_in_time_if_the_store_hangs() {
    // The store hangs in a reading before the claim, or while the claim waits for the end of a
    // silence.
    for before in [true, false] {
        let store = Shared::new();
        let (replica, events) = watching(&store);
        let claimed = now();
        if before {
            store.0.lock().hangs = true;
            std::thread::sleep(2 * BEAT);
        }
        replica.claim(over_master(false));
        store.0.lock().hangs = true;
        let without = answer(&events);
        assert!(
            matches!(without, ReplicaEvent::Unreachable { number: 1, .. }),
            "{without:?}"
        );
        assert!(claimed.elapsed() < HANGS / 2, "{:?}", claimed.elapsed());
        // The store answers again: the claim is repeated.
        store.0.lock().hangs = false;
        let again = answer(&events);
        assert!(
            matches!(
                again,
                ReplicaEvent::Granted { .. } | ReplicaEvent::Refused(_)
            ),
            "{again:?}"
        );
        replica.close();
    }
}

#[test]
fn claim_over_a_silent_master_waits_a_second_for_a_store_that_refuses() {
    // The store refuses from before the claim on, or from then on.
    for before in [true, false] {
        let store = Shared::new();
        let (replica, events) = watching(&store);
        if before {
            store.0.lock().refuses = true;
            std::thread::sleep(2 * BEAT);
        }
        let claimed = now();
        replica.claim(over_master(false));
        store.0.lock().refuses = true;
        let without = answer(&events);
        assert!(
            matches!(without, ReplicaEvent::Unreachable { number: 1, .. }),
            "{without:?}"
        );
        let took = claimed.elapsed();
        assert!(took >= CLAIM_DEADLINE, "{took:?}");
        assert!(took < 3 * CLAIM_DEADLINE, "{took:?}");
        replica.close();
    }
}

#[test]
fn claim_that_a_store_refuses_for_a_moment_is_made_as_if_it_had_not() {
    let store = Shared::new();
    let (replica, events) = watching(&store);
    store.0.lock().refuses = true;
    replica.claim(over_master(false));
    std::thread::sleep(3 * BEAT);
    store.0.lock().refuses = false;
    let granted = answer(&events);
    assert!(
        matches!(granted, ReplicaEvent::Granted { state: Some(_), .. }),
        "{granted:?}"
    );
    replica.close();
}

#[test]
fn claim_that_insists_does_not_wait_for_a_store_that_refuses() {
    let store = Shared::new();
    let (replica, events) = watching(&store);
    store.0.lock().refuses = true;
    let claimed = now();
    replica.claim(over_master(true));
    let without = answer(&events);
    assert!(
        matches!(without, ReplicaEvent::Unreachable { number: 1, .. }),
        "{without:?}"
    );
    assert!(claimed.elapsed() < CLAIM_DEADLINE);
    replica.close();
}

/// The store was restored from a copy that is older than this machine's last epoch.
#[test]
fn claim_to_an_older_copy_of_the_store_is_numbered_after_all_own_epochs_and_keeps_the_own_state() {
    let store = Shared::new();
    let (replica, events) = watching(&store);
    replica.claim(Claim {
        held_before: 9,
        ..over_master(true)
    });
    let granted = answer(&events);
    assert!(
        matches!(granted, ReplicaEvent::Granted { epoch, state: None, .. } if epoch.number == 10),
        "{granted:?}"
    );
    replica.close();
}

#[test]
fn check_writes_a_sign_of_life_without_reading_the_epoch() {
    let store = Shared::new();
    store.0.lock().seen.epoch.holder = OWN;
    let (replica, events) = watching(&store);
    replica.claim(Claim {
        over: None,
        ..over_master(false)
    });
    let granted = answer(&events);
    assert!(
        matches!(granted, ReplicaEvent::Granted { .. }),
        "{granted:?}"
    );
    store.0.lock().calls.clear();
    replica.check();
    let held = answer(&events);
    assert!(matches!(held, ReplicaEvent::Held), "{held:?}");
    let calls = store.0.lock().calls.clone();
    assert!(calls.contains(&Call::Beat), "{calls:?}");
    assert!(!calls.contains(&Call::Observe), "{calls:?}");
    replica.close();
}

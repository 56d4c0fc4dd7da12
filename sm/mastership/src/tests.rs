//! Tests of mastership without a core: events in, actions out.

use std::sync::Arc;
use std::time::Duration;

use rsm_gdr::host_order::HostPositions;
use rsm_hardware::sweep::SweepScope;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_plan::lids::Claims;
use rsm_plan::policy::Policy;
use rsm_state::Role;
use rsm_store::Epoch;

use super::*;

const FULL: SweepScope = SweepScope::Full { audit: false };

/// Mastership, and the state of a core that knows only its own port.
struct Bench {
    mastership: Mastership,
    inventory: Inventory,
    policy: Policy,
    claims: Arc<Claims>,
    positions: Arc<HostPositions>,
    now: Time,
}

impl Bench {
    fn new(policy: MastershipPolicy) -> Bench {
        let mut inventory = Inventory::default();
        inventory.hardware.local = Some(PortKey::new(Guid(1), PortNum(1)));
        Bench {
            mastership: Mastership::new(policy, false),
            inventory,
            policy: Policy::default(),
            claims: Arc::default(),
            positions: Arc::default(),
            now: Time::ZERO,
        }
    }

    /// A manager that shares a store.
    fn sharing() -> Bench {
        Bench::new(MastershipPolicy {
            shares_store: true,
            ..MastershipPolicy::default()
        })
    }

    /// Makes a call after `pause`. Returns its result, and the actions that follow.
    fn call<T>(
        &mut self,
        pause: Duration,
        call: impl FnOnce(&mut Mastership, &mut View<'_>, Time) -> T,
    ) -> (T, Vec<Action>) {
        self.now += pause;
        let mut view = View {
            inventory: &mut self.inventory,
            policy: &self.policy,
            plan: None,
            claims: &self.claims,
            positions: &self.positions,
            stage: StageView::Idle,
            act_count: 0,
            is_push_open: false,
            is_port_up: true,
        };
        let answer = call(&mut self.mastership, &mut view, self.now);
        let actions = std::iter::from_fn(|| self.mastership.poll()).collect();
        (answer, actions)
    }

    /// Asks whether a full sweep must stay open. Returns the answer, and the actions that follow.
    fn holds_open(&mut self, pause: Duration) -> (bool, Vec<Action>) {
        self.call(pause, |mastership, view, now| {
            mastership.holds_sweep_open(FULL, view, now)
        })
    }

    fn deadline(&mut self, pause: Duration) -> Vec<Action> {
        let (_, actions) = self.call(pause, |mastership, view, now| {
            mastership.handle_deadline(view, now);
        });
        actions
    }

    fn grant(&mut self, epoch: Epoch) -> bool {
        let (is_taken, _) = self.call(Duration::ZERO, |mastership, _, now| {
            mastership.on_granted(epoch, None, Duration::ZERO, now)
        });
        is_taken
    }

    fn run_election(&mut self) -> bool {
        let (is_master, _) = self.call(Duration::ZERO, |mastership, view, now| {
            mastership.run_election(FULL, view, now)
        });
        is_master
    }
}

fn epoch(number: u64) -> Epoch {
    Epoch {
        number,
        holder: Guid(9),
    }
}

fn requests(actions: &[Action]) -> Vec<EpochRequest> {
    let requests = actions.iter().filter_map(|action| match action {
        Action::Store(request) => Some(*request),
        _ => None,
    });
    requests.collect()
}

const AT_ONCE: Duration = Duration::ZERO;

#[test]
fn without_a_shared_store_a_manager_alone_becomes_master_after_its_sweep() {
    let mut bench = Bench::new(MastershipPolicy::default());
    assert!(!bench.holds_open(AT_ONCE).0);
    assert!(!bench.mastership.may_set());
    assert!(bench.run_election());
    assert!(bench.mastership.may_set());
}

#[test]
fn with_a_shared_store_a_manager_becomes_master_only_after_the_epoch_is_granted() {
    let mut bench = Bench::sharing();
    let (is_held_open, actions) = bench.holds_open(AT_ONCE);
    assert!(is_held_open);
    assert!(matches!(
        requests(&actions)[..],
        [EpochRequest::Claim {
            over: None,
            is_master: false,
            ..
        }]
    ));
    assert!(bench.holds_open(AT_ONCE).0, "the claim is open");
    assert!(bench.grant(epoch(1)));
    assert!(!bench.holds_open(AT_ONCE).0);
    assert!(bench.run_election());
    assert!(bench.mastership.may_set());
}

#[test]
fn a_manager_whose_store_never_answers_becomes_master_after_fifteen_seconds() {
    let mut bench = Bench::sharing();
    assert!(bench.holds_open(AT_ONCE).0);
    bench.deadline(Duration::from_secs(14));
    assert!(bench.holds_open(AT_ONCE).0);
    let actions = bench.deadline(Duration::from_secs(1));
    assert_eq!(requests(&actions).len(), 1, "the claim is repeated");
    assert!(!bench.holds_open(AT_ONCE).0);
    assert!(bench.run_election());
    assert!(bench.mastership.may_set());
    assert!(bench.mastership.is_partitioned());
}

#[test]
fn claims_refused_for_five_seconds_make_this_manager_master_without_the_epoch() {
    let mut bench = Bench::sharing();
    for _ in 0..5 {
        assert!(bench.holds_open(AT_ONCE).0);
        let ((), actions) = bench.call(AT_ONCE, |mastership, view, now| {
            mastership.on_refused(epoch(1), view, now);
        });
        assert!(matches!(actions[..], [Action::DropStage, Action::Publish]));
        assert!(!bench.mastership.has_right());
        bench.deadline(Duration::from_secs(1));
    }
    assert!(bench.holds_open(AT_ONCE).0);
    bench.call(AT_ONCE, |mastership, view, now| {
        mastership.on_refused(epoch(1), view, now);
    });
    assert!(bench.mastership.has_right());
    assert!(bench.run_election());
    let findings = bench.mastership.findings(&bench.inventory);
    let held = findings
        .iter()
        .find(|one| one.kind == rsm_model::findings::FindingKind::EpochHeld)
        .unwrap();
    assert_eq!(held.severity, rsm_model::findings::Severity::Error);
}

#[test]
fn a_deposed_master_may_not_set_even_if_an_older_grant_arrives_later() {
    let mut bench = Bench::sharing();
    bench.holds_open(AT_ONCE);
    assert!(bench.grant(epoch(1)));
    assert!(bench.run_election());
    // Without its own port, the manager cannot make an inquiry, and discovers the subnet again.
    bench.inventory.hardware.local = None;
    let ((), actions) = bench.call(AT_ONCE, |mastership, view, now| {
        mastership.on_deposed(epoch(1), epoch(2), view, now);
    });
    assert!(!bench.mastership.may_set());
    assert_eq!(*bench.mastership.role(), Role::Discovering);
    assert!(matches!(
        actions[..],
        [
            Action::DropStage,
            Action::ForgetForeignWrites,
            Action::Work(PassRequest::Everything { audit: true, .. }),
            Action::Publish,
        ]
    ));
    bench.holds_open(AT_ONCE);
    assert!(!bench.grant(epoch(1)));
    assert!(!bench.mastership.has_right());
}

#[test]
fn a_master_whose_store_was_restored_from_an_older_copy_claims_a_new_epoch() {
    // The copy has an earlier epoch, or this manager's own with another revision.
    for by in [epoch(4), epoch(5)] {
        let mut bench = Bench::sharing();
        bench.holds_open(AT_ONCE);
        assert!(bench.grant(epoch(5)));
        assert!(bench.run_election());
        bench.mastership.set_store_silent(true);
        // Without its own port, the manager cannot make an inquiry, and discovers the subnet again.
        let local = bench.inventory.hardware.local.take();
        bench.call(AT_ONCE, |mastership, view, now| {
            mastership.on_deposed(epoch(5), by, view, now);
        });
        assert!(!bench.mastership.may_set());
        bench.inventory.hardware.local = local;
        let (_, actions) = bench.holds_open(AT_ONCE);
        assert!(matches!(
            requests(&actions)[..],
            [EpochRequest::Claim { .. }]
        ));
        assert!(bench.grant(epoch(6)));
        assert!(bench.run_election());
        assert!(bench.mastership.may_set());
        let findings = bench.mastership.findings(&bench.inventory);
        assert!(findings.is_empty(), "{findings:?}");
    }
}

#[test]
fn a_master_whose_port_comes_up_asks_for_other_masters_first_if_the_store_is_silent() {
    let mut bench = Bench::sharing();
    bench.holds_open(AT_ONCE);
    assert!(bench.grant(epoch(1)));
    assert!(bench.run_election());
    for is_silent in [false, true] {
        bench.mastership.set_store_silent(is_silent);
        bench.call(AT_ONCE, |mastership, view, now| {
            mastership.on_port_up(view, now);
        });
        assert_eq!(bench.mastership.is_inquiring(), is_silent);
        assert_eq!(bench.mastership.may_set(), !is_silent);
    }
}

#[test]
fn a_master_that_was_paused_withdraws_its_sets_and_checks_the_epoch_first() {
    let mut bench = Bench::sharing();
    bench.holds_open(AT_ONCE);
    assert!(bench.grant(epoch(1)));
    assert!(bench.run_election());
    let ((), actions) = bench.call(AT_ONCE, |mastership, view, now| {
        mastership.on_pause(view, now);
    });
    assert!(matches!(actions.first(), Some(Action::HaltPush)));
    assert_eq!(requests(&actions), [EpochRequest::Check]);
    assert!(bench.mastership.is_inquiring());
    assert!(!bench.mastership.may_set());
    // The store answers, and no port can be asked: no answer shows another master.
    bench.mastership.end_epoch_check();
    bench.call(AT_ONCE, |mastership, view, now| {
        mastership.resolve_doubts(view, now);
    });
    assert!(bench.mastership.may_set());
}

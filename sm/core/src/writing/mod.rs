//! The core's state between two pushes: the last comparison of hardware and plan, fields that
//! devices do not keep, hosts that must register again, and whether the last push left work undone.

pub(super) mod failures;
mod unverified;

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_hardware::diff::{
    Changes, Comparison, LastComparison, LastMulticastComparison, NotKept, Reregister,
};
use rsm_hardware::link_step::BouncedLink;
use rsm_hardware::push::Push;
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::PortKey;
use rsm_mad::Time;
use rsm_model::Mark;
use rsm_model::fabric::Fabric;
use rsm_model::port_info::LinkMismatch;
use rsm_model::whole::{Step, Whole};
use rsm_plan::Plan;
use rsm_routing::tables::Tables;

pub(super) use unverified::{
    drop_verified, mark_overdue, mismatch_findings, overdue_findings, unverified_ports,
};

/// State between two pushes of plans to the hardware.
#[derive(Default)]
pub(super) struct Writing {
    /// Fields that devices do not keep.
    not_kept: NotKept,
    /// Ports whose hosts must register again.
    reregister: Reregister,
    /// Last comparison of all ports with the plan.
    last_comparison: Option<LastComparison>,
    /// Last comparison of multicast tables.
    last_multicast_comparison: LastMulticastComparison,
    /// Active ports whose MTU or number of VLs is not as planned.
    mismatches: BTreeMap<PortKey, LinkMismatch>,
    /// Time at which the last bounced link is overdue; `None` if no bounce is under way.
    bounce_due: Option<Time>,
    /// See [`Writing::tables_decided`].
    tables_decided: Mark,
    /// Whether Sets of adaptive routing wait for the end of the push, because they need its tables.
    adaptive_sets_wait: bool,
    /// Whether planned changes were not written, so that the hardware differs from the plan
    /// although no sweep finds a change.
    is_open: bool,
    /// Whether urgent work interrupted the last push. The next push then runs to its end: otherwise
    /// frequent changes of links could keep tables from being written.
    was_interrupted: bool,
}

impl Writing {
    /// State before the first push of a run. `reregister_all` says whether all hosts must register
    /// again.
    pub(super) fn new(not_kept: NotKept, reregister_all: bool) -> Writing {
        Writing {
            not_kept,
            reregister: match reregister_all {
                true => Reregister::everybody(),
                false => Reregister::default(),
            },
            ..Writing::default()
        }
    }

    /// Replaces the state after another manager was master. Forgets the last comparison, because it
    /// does not cover the writes of the other manager.
    pub(super) fn adopt(&mut self, not_kept: NotKept, reregister_all: bool) {
        *self = Writing {
            mismatches: std::mem::take(&mut self.mismatches),
            adaptive_sets_wait: self.adaptive_sets_wait,
            bounce_due: self.bounce_due,
            is_open: self.is_open,
            was_interrupted: self.was_interrupted,
            ..Writing::new(not_kept, reregister_all)
        };
    }

    /// Forgets the fields that devices did not keep, so that the next push writes each of them once
    /// more: settings or firmware may have changed. Also makes the core decide again which tables
    /// count as held.
    pub(super) fn retry_not_kept(&mut self) {
        self.not_kept = NotKept::default();
        self.tables_decided = Mark::default();
    }

    /// Fields that devices do not keep.
    pub(super) fn not_kept(&self) -> &NotKept {
        &self.not_kept
    }

    /// Fields that devices do not keep; the answers of a push add to them.
    pub(super) fn not_kept_mut(&mut self) -> &mut NotKept {
        &mut self.not_kept
    }

    /// Makes the host at a port register again.
    pub(super) fn reregister(&mut self, port: PortKey) {
        self.reregister.add(port);
    }

    /// Makes all hosts register again.
    pub(super) fn reregister_everybody(&mut self) {
        self.reregister = Reregister::everybody();
        // The last comparison lacks the Sets that make hosts register.
        self.last_comparison = None;
    }

    /// Whether single hosts must still get a Set with ClientReregister.
    pub(super) fn reregisters_any(&self) -> bool {
        !self.reregister.is_empty()
    }

    /// The comparison of the hardware in `inventory` with `plan`.
    pub(super) fn comparison<'a>(
        &'a self,
        inventory: &'a Inventory,
        fabric: &'a Arc<Fabric>,
        plan: &'a Arc<Plan>,
        interim: &'a [Tables],
    ) -> Comparison<'a> {
        Comparison {
            inventory,
            fabric,
            plan,
            interim,
            not_kept: &self.not_kept,
            reregister: &self.reregister,
        }
    }

    /// Compares the parts of hardware and `plan` that may have changed since the last comparison.
    /// Returns the differences, and the reason for comparing everything; `None` if only parts were
    /// compared.
    pub(super) fn compare(
        &mut self,
        inventory: &Inventory,
        fabric: &Arc<Fabric>,
        plan: &Arc<Plan>,
        interim: &[Tables],
    ) -> (Changes, Option<Whole>) {
        let comparison = self.comparison(inventory, fabric, plan, interim);
        let scope = match &self.last_comparison {
            Some(last_comparison) => last_comparison.scope(&comparison),
            None => Err("nothing was compared before"),
        };
        let changes = comparison.changes(scope.as_ref().ok());
        debug_assert!(scope.is_err() || changes == comparison.changes(None));
        self.last_comparison = Some(LastComparison::new(&changes, &comparison));
        let whole = scope.err().map(|why| Whole::new(Step::Difference, why));
        (changes, whole)
    }

    /// Adds the differences between the held multicast tables and `plan` to `changes`. Returns the
    /// reason for comparing all tables; `None` if only some were compared.
    pub(super) fn compare_multicast(
        &mut self,
        inventory: &Inventory,
        plan: &Plan,
        changes: &mut Changes,
    ) -> Option<Whole> {
        let whole = self
            .last_multicast_comparison
            .diff(inventory, plan, changes);
        whole.map(|why| Whole::new(Step::Difference, why))
    }

    /// Compares the ports and switches that a push has written with `plan`, at the end of the push.
    /// A bring-up writes all of them: without this call, the first repair would have to compare all
    /// of them.
    pub(super) fn compare_written(
        &mut self,
        inventory: &Inventory,
        fabric: &Arc<Fabric>,
        plan: &Arc<Plan>,
    ) {
        let Some(last_comparison) = &self.last_comparison else {
            return;
        };
        let comparison = self.comparison(inventory, fabric, plan, &[]);
        if let Ok(scope) = last_comparison.scope(&comparison) {
            let changes = comparison.changes_in(&scope);
            self.last_comparison = Some(LastComparison::new(&changes, &comparison));
        }
    }

    /// Makes the next comparison examine all ports and switches.
    pub(super) fn forget_comparison(&mut self) {
        self.last_comparison = None;
    }

    /// Makes the next comparison start from `last_comparison`, which was made with a plan that was
    /// computed ahead.
    pub(super) fn start_comparison_from(&mut self, last_comparison: LastComparison) {
        self.last_comparison = Some(last_comparison);
    }

    /// Removes from `changes` the Sets of adaptive routing that must wait for forwarding tables.
    pub(super) fn defer_adaptive_sets(
        &mut self,
        changes: &mut Changes,
        plan: &Plan,
        inventory: &Inventory,
    ) {
        self.adaptive_sets_wait = changes.fit_adaptive(plan, inventory);
    }

    /// Returns whether Sets of adaptive routing wait, and resets that to false.
    pub(super) fn take_adaptive_sets_wait(&mut self) -> bool {
        std::mem::take(&mut self.adaptive_sets_wait)
    }

    /// Records that a push of these changes begins. Not called for pushes of multicast tables
    /// alone.
    pub(super) fn begin(&mut self, changes: &Changes) {
        self.reregister.begin(changes);
        self.record_mismatches(changes);
    }

    /// Records the ports whose MTU or number of VLs is not as planned.
    pub(super) fn record_mismatches(&mut self, changes: &Changes) {
        self.mismatches.clone_from(&changes.mismatches);
    }

    /// Records the link that a push bounces, if it bounces one.
    pub(super) fn record_bounce(
        &mut self,
        inventory: &mut Inventory,
        changes: &Changes,
        now: Time,
    ) {
        if let Some((near, far)) = changes.bounce {
            let link = BouncedLink {
                far,
                is_overdue: false,
            };
            inventory.bounced.insert(near, link);
            self.bounce_due = Some(now + unverified::BOUNCE_LIMIT);
        }
    }

    /// Time at which the last bounced link is overdue; `None` if no bounce is under way.
    pub(super) fn bounce_due(&self) -> Option<Time> {
        self.bounce_due
    }

    /// Whether the last bounced link is due at `now`; true only once.
    pub(super) fn take_bounce_due(&mut self, now: Time) -> bool {
        self.bounce_due.take_if(|due| *due <= now).is_some()
    }

    /// Active ports whose MTU or number of VLs is not as planned.
    pub(super) fn mismatches(&self) -> &BTreeMap<PortKey, LinkMismatch> {
        &self.mismatches
    }

    /// Records that the hardware holds the plan.
    pub(super) fn record_nothing_to_write(&mut self) {
        (self.is_open, self.was_interrupted) = (false, false);
    }

    /// Records that planned changes are still unwritten: the next pass compares the hardware with
    /// the plan again, even if its sweep finds no change.
    pub(super) fn leave_open(&mut self) {
        self.is_open = true;
    }

    /// Whether planned changes were not written ([`Writing::leave_open`]).
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Records that urgent work interrupts the push under way.
    pub(super) fn record_interruption(&mut self) {
        self.was_interrupted = true;
    }

    /// Whether urgent work has interrupted the last push.
    pub(super) fn was_interrupted(&self) -> bool {
        self.was_interrupted
    }

    /// Records the end of a push.
    pub(super) fn end(&mut self, push: &Push) {
        for &port in push.report().reregistered() {
            self.reregister.done(port);
        }
        self.is_open =
            push.was_stopped() || push.report().owes_multicast() || push.left_out_nodes();
        self.was_interrupted &= push.was_stopped();
    }

    /// Position in the log of writes to switches. For all writes before it, the core has decided
    /// whether tables count as held.
    pub(super) fn tables_decided(&self) -> Mark {
        self.tables_decided
    }

    /// Sets [`Writing::tables_decided`].
    pub(super) fn set_tables_decided(&mut self, mark: Mark) {
        self.tables_decided = mark;
    }
}

//! The plan that a standby makes ahead: after a takeover, only changes since then must be planned.
//!
//! After each reading of the subnet, the standby plans as it would after a takeover, from the state
//! in the store and with the two managers' LIDs exchanged. The plan is never in force. After a
//! takeover with the same LIDs and host order, the first plan follows it, and the first comparison
//! with the hardware follows its comparison.

use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_hardware::diff::{Comparison, LastComparison, Reregister};
use rsm_plan::lids::Claims;
use rsm_plan::{Outcome, Plan, PlanJob};
use rsm_state::Role;

use crate::Core;
use crate::event::Effect;

/// The inputs of a plan ahead, except the subnet.
#[derive(Clone, Debug)]
struct Basis {
    claims: Arc<Claims>,
    positions: Arc<HostPositions>,
}

impl Basis {
    fn is(&self, claims: &Claims, positions: &HostPositions) -> bool {
        *self.claims == *claims && *self.positions == *positions
    }
}

/// A plan ahead.
#[derive(Debug)]
struct Prepared {
    basis: Basis,
    plan: Arc<Plan>,
    /// Comparison of the plan with the hardware.
    last_comparison: LastComparison,
}

/// The last plan ahead, and the job under way.
#[derive(Default, Debug)]
pub(crate) struct Preparation {
    last: Option<Prepared>,
    under_way: Option<Basis>,
    /// Whether another reading has ended meanwhile.
    is_due: bool,
}

impl Core {
    /// Plans ahead, if the subnet was read as of the master's last plan.
    pub(crate) fn prepare(&mut self) {
        let Role::Standby { master } = &self.election.role else {
            return;
        };
        if !self.config.shares_store || !self.standby.follower.has_caught_up() {
            return;
        }
        let master = master.guid;
        if self.standby.preparation.under_way.is_some() {
            self.standby.preparation.is_due = true;
            return;
        }
        let mut claims = self.plans.assigned.claims.clone();
        self.exchange_lids(master, &mut claims);
        let positions = self.plans.assigned.positions.clone();
        // A plan with other LIDs cannot be followed: only changes of the subnet are followed.
        let before = self.standby.preparation.last.take();
        let before = before.filter(|before| before.basis.is(&claims, &positions));
        let job = PlanJob {
            claims: claims.clone(),
            positions: positions.clone(),
            gpus: self.plans.gpus().clone(),
            damped: Arc::new(self.links.bad_for_routes(&self.inventory, &self.fabric)),
            avoid: self.trials.detours.planned().clone(),
            previous: before.as_ref().map(|before| before.plan.clone()),
            hardware: self.plans.held_tables(&self.inventory),
            ..PlanJob::first(self.fabric.clone(), self.config.policy.clone())
        };
        self.standby.preparation = Preparation {
            last: before,
            under_way: Some(Basis { claims, positions }),
            is_due: false,
        };
        self.outbox.push(Effect::Prepare(Box::new(job)));
    }

    /// Handles a plan ahead.
    pub(crate) fn on_prepared(&mut self, outcome: Outcome) {
        let basis = self.standby.preparation.under_way.take();
        let basis = basis.filter(|_| matches!(self.election.role, Role::Standby { .. }));
        if let (Some(basis), Outcome::Plan(plan)) = (basis, outcome) {
            // Only the master's plan shows which lanes the switches hold.
            let is_single = plan.routing.lanes.is_single();
            let before = self.standby.preparation.last.take();
            self.standby.preparation.last = is_single.then(|| Prepared {
                basis,
                last_comparison: self
                    .compare_ahead(&plan, before.map(|before| before.last_comparison)),
                plan,
            });
        }
        if std::mem::take(&mut self.standby.preparation.is_due) {
            self.prepare();
        }
    }

    /// Compares the hardware with a plan that is not in force; follows the comparison `before`, if
    /// there is one.
    fn compare_ahead(&self, plan: &Arc<Plan>, before: Option<LastComparison>) -> LastComparison {
        let comparison = Comparison {
            inventory: &self.inventory,
            fabric: &self.fabric,
            plan,
            interim: &[],
            not_kept: self.writing.not_kept(),
            reregister: &Reregister::default(),
        };
        let scope = before.and_then(|before| before.scope(&comparison).ok());
        let changes = comparison.changes(scope.as_ref());
        debug_assert!(scope.is_none() || changes == comparison.changes(None));
        LastComparison::new(&changes, &comparison)
    }

    /// Continues from the plan ahead after a takeover with the state of the store, if LIDs and host
    /// order are the same. Returns the plan.
    pub(crate) fn take_prepared(&mut self) -> Option<Arc<Plan>> {
        let prepared = self.standby.preparation.last.take();
        let prepared = prepared.filter(|prepared| {
            prepared
                .basis
                .is(&self.plans.assigned.claims, &self.plans.assigned.positions)
        })?;
        self.writing.go_on_from(prepared.last_comparison);
        Some(prepared.plan)
    }

    /// Forgets the plan ahead.
    pub(crate) fn drop_prepared(&mut self) {
        self.standby.preparation.last = None;
    }
}

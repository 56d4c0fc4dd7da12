//! The plan that a standby makes ahead of a takeover, so that the takeover plans only later
//! changes.
//!
//! After each reading of the subnet, the standby plans as it would after a takeover: from the state
//! in the store, and, if the manager's LID floats, with the two managers' LIDs exchanged. The plan
//! ahead is never in force. After a takeover with the same LIDs and host order, the first plan
//! starts from the plan ahead, and the first comparison with the hardware starts from its
//! comparison.

use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_hardware::diff::{Comparison, LastComparison, NotKept, Reregister};
use rsm_hardware::sweep::inventory::Inventory;
use rsm_model::fabric::Fabric;
use rsm_plan::Plan;
use rsm_plan::lids::Claims;

/// The inputs of a plan ahead, except the subnet.
#[derive(Clone, Debug)]
pub struct Basis {
    /// LIDs of ports and virtual ports.
    pub claims: Arc<Claims>,
    /// Positions of compute ports in the host order.
    pub positions: Arc<HostPositions>,
}

impl Basis {
    /// Whether the basis has these LIDs and positions.
    fn equals(&self, claims: &Claims, positions: &HostPositions) -> bool {
        *self.claims == *claims && *self.positions == *positions
    }
}

/// A finished plan ahead.
#[derive(Debug)]
struct PlanAhead {
    basis: Basis,
    plan: Arc<Plan>,
    /// Comparison of the plan with the hardware.
    last_comparison: LastComparison,
}

/// The last plan ahead, and the job under way.
#[derive(Default, Debug)]
pub(crate) struct Preparation {
    last: Option<PlanAhead>,
    /// The basis of the job under way; `None` if there is no job.
    under_way: Option<Basis>,
    /// Whether another reading has ended since the job began.
    is_due: bool,
}

impl Preparation {
    /// Whether a job may begin now. If a job is under way, another becomes due at its end.
    pub(crate) fn may_begin(&mut self) -> bool {
        self.is_due = self.under_way.is_some();
        !self.is_due
    }

    /// Records that a job with this basis begins. Returns the former plan ahead, from which the job
    /// starts; `None` unless the former plan ahead has the same basis.
    pub(crate) fn begin(&mut self, basis: Basis) -> Option<Arc<Plan>> {
        // A plan with other LIDs is no starting point: an incremental plan only follows changes of
        // the subnet.
        let before = self.last.take();
        let before = before.filter(|before| before.basis.equals(&basis.claims, &basis.positions));
        let previous = before.as_ref().map(|before| before.plan.clone());
        *self = Preparation {
            last: before,
            under_way: Some(basis),
            is_due: false,
        };
        previous
    }

    /// Takes the basis of the job that has ended.
    pub(crate) fn end(&mut self) -> Option<Basis> {
        self.under_way.take()
    }

    /// Whether another job became due during the job that has ended; true only once.
    pub(crate) fn take_due(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }

    /// Keeps the plan of a job, with its comparison with the hardware. A plan that needs
    /// SLtoVLMappingTables is not kept.
    pub(crate) fn keep(
        &mut self,
        basis: Basis,
        plan: Arc<Plan>,
        inventory: &Inventory,
        fabric: &Arc<Fabric>,
        not_kept: &NotKept,
    ) {
        let before = self.last.take().map(|before| before.last_comparison);
        // A standby does not know which SLtoVLMappingTables the switches hold.
        if plan.routing.lanes.is_single() {
            let comparison = Comparison {
                inventory,
                fabric,
                plan: &plan,
                interim: &[],
                not_kept,
                reregister: &Reregister::default(),
            };
            let last_comparison = compare(&comparison, before);
            self.last = Some(PlanAhead {
                basis,
                plan,
                last_comparison,
            });
        }
    }

    /// Takes the plan ahead and its comparison with the hardware; `None` unless the plan was made
    /// with these LIDs and positions.
    pub(crate) fn take(
        &mut self,
        claims: &Claims,
        positions: &HostPositions,
    ) -> Option<(Arc<Plan>, LastComparison)> {
        let prepared = self.last.take();
        let prepared = prepared.filter(|prepared| prepared.basis.equals(claims, positions))?;
        Some((prepared.plan, prepared.last_comparison))
    }

    /// Forgets the plan ahead.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }
}

/// Compares the hardware with a plan that is not in force. After a comparison `before`, compares
/// only parts that may have changed since.
fn compare(comparison: &Comparison<'_>, before: Option<LastComparison>) -> LastComparison {
    let scope = before.and_then(|before| before.scope(comparison).ok());
    let changes = comparison.changes(scope.as_ref());
    debug_assert!(scope.is_none() || changes == comparison.changes(None));
    LastComparison::new(&changes, comparison)
}

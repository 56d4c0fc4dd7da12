//! The input of planning.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_gdr::hosts::GpuInventory;
use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_model::mft_image::HeldMasks;

use crate::adaptive::AdaptiveHardware;
use crate::avoid::Avoid;
use crate::groups::GroupSet;
use crate::lids::{Claims, LidRights, vport_claims};
use crate::plan::Plan;
use crate::policy::Policy;
use crate::transition::HeldTable;

/// The parts of the plan in force that a job may change.
#[derive(Clone, Debug)]
pub enum JobKind {
    /// Everything may change.
    Full,
    /// Only the multicast trees may change; the routes of `routes` stay.
    Multicast {
        /// The plan whose routes stay.
        routes: Arc<Plan>,
    },
    /// Changes only entries that lead to the links with maximum load, in a limited number of blocks
    /// of forwarding tables. Equals [`JobKind::Full`] if [`PlanJob::previous`] is not set.
    Rebalance {
        /// Maximum number of changed blocks, at least 1.
        max_blocks: usize,
    },
}

impl JobKind {
    /// Whether the engine computes routes. Otherwise the routes in force stay, or single entries of
    /// them change.
    pub(crate) fn computes_routes(&self) -> bool {
        matches!(self, JobKind::Full)
    }
}

/// All inputs of a plan.
#[derive(Clone, Debug)]
pub struct PlanJob {
    /// Parts of the plan in force that may change.
    pub kind: JobKind,
    /// Number of the plan; each plan has a higher one than the plan before it.
    pub generation: u64,
    /// The subnet as last seen.
    pub fabric: Arc<Fabric>,
    /// Claims of ports to LIDs, assigned in this run or an earlier one.
    pub claims: Arc<Claims>,
    /// Rights to LIDs that neither claims nor the hardware show.
    pub rights: LidRights,
    /// Whether all ports get new LIDs as on a fresh fabric, regardless of the LIDs that they hold
    /// or claim.
    pub assigns_lids_anew: bool,
    /// Host positions of an earlier run, used until a plan is in force.
    pub positions: Arc<HostPositions>,
    /// GPU inventories of hosts.
    pub gpus: Arc<GpuInventory>,
    /// The operator's decisions.
    pub policy: Arc<Policy>,
    /// Flapping cables, each given by either end, which routes avoid.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// Parts that routes avoid as far as all ports stay reachable.
    pub avoid: Arc<Avoid>,
    /// The parts avoided so far, if the parts of `avoid` are on trial: the plan is refused if the
    /// new parts would cut ports off. `None` if they are not on trial.
    pub avoided_before: Option<Arc<Avoid>>,
    /// Whether the plan is refused if its interim tables drop packets that the tables in force
    /// forward. True for an engine on trial, unless the operator accepts such drops.
    pub refuses_interruption: bool,
    /// The plan in force; `None` before the first plan.
    pub previous: Option<Arc<Plan>>,
    /// The tables that switches hold now.
    pub hardware: Arc<Vec<HeldTable>>,
    /// Switches that can route adaptively; `None` while adaptive routing is off.
    pub adaptive: Option<Arc<AdaptiveHardware>>,
    /// Members of multicast groups; `None` while they are not known.
    pub groups: Option<Arc<GroupSet>>,
    /// The multicast tables that switches hold now.
    pub masks: Arc<HeldMasks>,
}

impl PlanJob {
    /// The job of the first plan for a subnet, without any earlier state.
    pub fn first(fabric: Arc<Fabric>, policy: Arc<Policy>) -> PlanJob {
        PlanJob {
            kind: JobKind::Full,
            generation: 1,
            fabric,
            claims: Arc::default(),
            rights: LidRights::default(),
            assigns_lids_anew: false,
            positions: Arc::default(),
            gpus: Arc::default(),
            policy,
            damped: Arc::default(),
            avoid: Arc::default(),
            avoided_before: None,
            refuses_interruption: false,
            previous: None,
            hardware: Arc::default(),
            adaptive: None,
            groups: None,
            masks: Arc::default(),
        }
    }

    /// The job that follows `plan` for a later fabric, on the assumption that all switches hold the
    /// tables of `plan` and that multicast groups have no members.
    pub fn after(plan: &Arc<Plan>, fabric: Arc<Fabric>) -> PlanJob {
        let lids = plan.lids.lids.iter();
        let guid = |port| {
            plan.fabric
                .find_port(port)
                .map(|at| plan.fabric.port(at).guid)
        };
        let claims = lids.filter_map(|(&port, &claim)| Some((guid(port)?, claim)));
        let claims = claims.chain(vport_claims(&plan.lids, &plan.fabric));
        let switches = plan.topology.switches().iter();
        let hardware = switches
            .zip(&plan.routing.tables.lfts)
            .map(|(switch, lft)| HeldTable {
                switch: switch.guid,
                entries: lft.clone(),
                complete: true,
                sent: Vec::new(),
                is_suspect: false,
            });
        PlanJob {
            generation: plan.generation + 1,
            claims: Arc::new(claims.collect()),
            positions: plan.order.positions.clone(),
            gpus: plan.order.gpus(),
            damped: plan.avoided.damped.clone(),
            avoid: plan.avoided.avoid.clone(),
            previous: Some(plan.clone()),
            hardware: Arc::new(hardware.collect()),
            ..PlanJob::first(fabric, plan.policy.clone())
        }
    }
}

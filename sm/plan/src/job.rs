//! The input of a plan.

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
use crate::lids::{Claims, PartitionedLids, vport_claims};
use crate::plan::Plan;
use crate::policy::Policy;
use crate::transition::HeldTable;

/// Which parts of the plan in force a job may change.
#[derive(Clone, Debug)]
pub enum JobKind {
    /// Everything.
    Full,
    /// The multicast trees; the routes of this plan stay.
    Multicast {
        /// The plan with the routes of the trees.
        routes: Arc<Plan>,
    },
    /// Entries that lead to the fullest links, in at most this many blocks of forwarding tables.
    /// The same as [`JobKind::Full`] without [`PlanJob::previous`].
    Rebalance {
        /// Blocks, at least 1.
        max_blocks: usize,
    },
}

impl JobKind {
    /// Whether the engine computes routes; if not, those of the plan in force stay, or change by
    /// single entries.
    pub(crate) fn routes_anew(&self) -> bool {
        matches!(self, JobKind::Full)
    }
}

/// Everything that a plan depends on.
#[derive(Clone, Debug)]
pub struct PlanJob {
    /// Which parts of the plan in force may change.
    pub kind: JobKind,
    /// Number of the plan.
    pub generation: u64,
    /// The subnet as last seen.
    pub fabric: Arc<Fabric>,
    /// LIDs assigned before.
    pub claims: Arc<Claims>,
    /// How LIDs are given and kept while another manager may give some, too.
    pub partitioned: PartitionedLids,
    /// Whether all ports get LIDs as on a fabric where none has any, whatever they hold and have a
    /// claim to.
    pub assigns_lids_anew: bool,
    /// The host positions of an earlier run, until a plan is in force.
    pub positions: Arc<HostPositions>,
    /// GPU inventories of hosts.
    pub gpus: Arc<GpuInventory>,
    /// The operator's decisions.
    pub policy: Arc<Policy>,
    /// Cables that routes avoid, by either end.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// Parts that routes go around as far as all ports stay reachable.
    pub avoid: Arc<Avoid>,
    /// The parts in force so far, if those of `avoid` are on trial: the plan is refused if the new
    /// ones would cut ports off. `None`: no plan is refused for that.
    pub avoided_before: Option<Arc<Avoid>>,
    /// Whether the plan is refused if its interim tables drop packets that the tables in force
    /// forward: an engine is on trial, whose operator has not accepted it.
    pub refuses_interruption: bool,
    /// The plan in force.
    pub previous: Option<Arc<Plan>>,
    /// The tables that switches hold now.
    pub hardware: Arc<Vec<HeldTable>>,
    /// Switches that can route adaptively; `None` while that is off.
    pub adaptive: Option<Arc<AdaptiveHardware>>,
    /// Members of multicast groups; `None` while they are not known.
    pub groups: Option<Arc<GroupSet>>,
    /// The multicast tables that switches hold now.
    pub masks: Arc<HeldMasks>,
}

impl PlanJob {
    /// The first plan for a subnet, without any earlier state.
    pub fn first(fabric: Arc<Fabric>, policy: Arc<Policy>) -> PlanJob {
        PlanJob {
            kind: JobKind::Full,
            generation: 1,
            fabric,
            claims: Arc::default(),
            partitioned: PartitionedLids::default(),
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

    /// The plan after `plan` for a later fabric, if all switches hold the tables of `plan` and
    /// multicast has no members.
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

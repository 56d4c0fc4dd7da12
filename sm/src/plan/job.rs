//! What a plan is made from.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_gdr::host_order::HostPositions;
use rsm_gdr::hosts::Inventory;

use super::groups::GroupSet;
use super::lids::Claims;
use super::policy::Policy;
use super::{Held, Plan};
use crate::fabric::Fabric;
use crate::sweep::inventory::PortKey;
use crate::sweep::mft_image::HeldMasks;

/// What of the plan in force a job may change.
#[derive(Clone, Debug)]
pub enum JobKind {
    /// Everything.
    Full,
    /// The multicast trees; the routes of this plan stay.
    Multicast {
        /// The plan that the trees are made on.
        routes: Arc<Plan>,
    },
    /// The entries that lead to the fullest links, in at most so many blocks of forwarding tables.
    /// The same as [`JobKind::Full`] without [`Job::previous`].
    Rebalance {
        /// Blocks, at least 1.
        max_blocks: usize,
    },
}

/// Everything that a plan depends on.
#[derive(Clone, Debug)]
pub struct Job {
    /// What of the plan in force may change.
    pub kind: JobKind,
    /// Number of the plan.
    pub generation: u64,
    /// The subnet as last seen.
    pub fabric: Arc<Fabric>,
    /// LIDs given out before.
    pub claims: Arc<Claims>,
    /// Where compute ports sat before, as long as there is no plan in force.
    pub positions: Arc<HostPositions>,
    /// What hosts with GPUs told of themselves.
    pub gpus: Arc<Inventory>,
    /// What the operator decides.
    pub policy: Arc<Policy>,
    /// Cables kept out of the routes, by either end.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// The plan in force.
    pub previous: Option<Arc<Plan>>,
    /// What switches hold now.
    pub hardware: Arc<Vec<Held>>,
    /// Who takes part in multicast; `None` while that is not known.
    pub groups: Option<Arc<GroupSet>>,
    /// What switches pass multicast packets on by now.
    pub masks: Arc<HeldMasks>,
}

impl Job {
    /// The first plan for a subnet of which nothing is known but what it consists of.
    pub fn first(fabric: Arc<Fabric>, policy: Arc<Policy>) -> Job {
        Job {
            kind: JobKind::Full,
            generation: 1,
            fabric,
            claims: Arc::default(),
            positions: Arc::default(),
            gpus: Arc::default(),
            policy,
            damped: Arc::default(),
            previous: None,
            hardware: Arc::default(),
            groups: None,
            masks: Arc::default(),
        }
    }

    /// The plan after `plan` for the fabric as it is then, where all switches hold what that
    /// wanted, and nobody takes part in multicast.
    pub fn after(plan: &Arc<Plan>, fabric: Arc<Fabric>) -> Job {
        let lids = plan.lids.lids.iter();
        let guid = |port| {
            plan.fabric
                .find_port(port)
                .map(|at| plan.fabric.port(at).guid)
        };
        let claims = lids.filter_map(|(&port, &claim)| Some((guid(port)?, claim)));
        let switches = plan.topology.switches().iter();
        let hardware = switches
            .zip(&plan.routing.tables.lfts)
            .map(|(switch, lft)| Held {
                switch: switch.guid,
                entries: lft.clone(),
                complete: true,
                sent: Vec::new(),
                is_suspect: false,
            });
        Job {
            generation: plan.generation + 1,
            claims: Arc::new(claims.collect()),
            positions: plan.order.positions.clone(),
            gpus: plan.order.gpus(),
            previous: Some(plan.clone()),
            hardware: Arc::new(hardware.collect()),
            ..Job::first(fabric, plan.policy.clone())
        }
    }
}

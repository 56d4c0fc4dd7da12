//! Where the next difference has to be looked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};

use super::{Changes, NotKept, Reregister};
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::plan::lids::LidPlan;
use crate::plan::partitions::PartitionPlan;
use crate::plan::policy::Policy;

/// What the ports of all nodes were compared with last, and at which nodes something was to be written. A node that is as it
/// was then, and of which the same is wanted, needs no second look.
#[derive(Clone, Debug)]
pub struct Looked {
    fabric: Arc<Fabric>,
    lids: Arc<LidPlan>,
    partitions: Arc<PartitionPlan>,
    policy: Arc<Policy>,
    sm_lid: Lid,
    not_kept: NotKept,
    /// Nodes with ports that were not as they should be.
    open: BTreeSet<Guid>,
}

impl Looked {
    /// `changes` is what was found.
    pub fn new(changes: &Changes, fabric: &Arc<Fabric>, plan: &Plan, not_kept: &NotKept) -> Looked {
        let changed = changes.ports.keys().chain(changes.mismatches.keys());
        Looked {
            fabric: fabric.clone(),
            lids: plan.lids.clone(),
            partitions: plan.partitions.clone(),
            policy: plan.policy.clone(),
            sm_lid: plan.sm_lid,
            not_kept: not_kept.clone(),
            open: changed.map(|port| port.node).collect(),
        }
    }

    /// The nodes whose ports may need something now.
    ///
    /// # Errors
    /// Why that may be all of them.
    pub fn nodes(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        not_kept: &NotKept,
        reregister: &Reregister,
    ) -> Result<BTreeSet<Guid>, &'static str> {
        if !Arc::ptr_eq(&self.policy, &plan.policy) {
            return Err("the configuration changed");
        }
        if self.sm_lid != plan.sm_lid {
            return Err("the subnet manager has another LID");
        }
        if self.not_kept != *not_kept {
            return Err("devices do not keep a field");
        }
        if !reregister.is_empty() {
            return Err("hosts are to register anew");
        }
        let mut nodes = self.open.clone();
        let differing = self.fabric.differing_nodes(fabric);
        nodes.extend(differing.map(|node| node.guid));
        let lids = plan.lids.differing(&self.lids);
        let partitions = plan.partitions.differing(&self.partitions);
        nodes.extend(lids.into_iter().chain(partitions).map(|port| port.node));
        // What a port should be depends on what is at the other end of its cable.
        let peers: Vec<Guid> = nodes
            .iter()
            .flat_map(|&guid| [&self.fabric, fabric].map(|fabric| fabric.node_of(guid)))
            .flatten()
            .flat_map(|node| node.cables().map(|(_, peer)| peer.node))
            .collect();
        nodes.extend(peers);
        Ok(nodes)
    }
}

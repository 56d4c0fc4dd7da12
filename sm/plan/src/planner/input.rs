//! Prepares the input of every engine: LIDs, switch graph, host order, links and held tables.
//!
//! Each step follows the changes since the plan in force if it can, and otherwise records why it
//! computed its result for the whole subnet.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use rsm_ids::{Guid, Lid};
use rsm_model::whole::{Step, Whole};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{Topology, TopologyError};

use super::NO_PLAN;
use crate::error::PlanError;
use crate::job::PlanJob;
use crate::lids::{self, LidPlan};
use crate::links::LinkPorts;
use crate::order::{HostOrder, HostOrderSources};
use crate::partitions::{self, PartitionPlan};
use crate::plan::Plan;
use crate::policy::PolicyChange;
use crate::{topology, transition};

/// All inputs of a plan's routes except the policy.
pub(super) struct RoutingInput {
    /// Difference of the policy from the policy of the plan in force.
    pub(super) policy_change: PolicyChange,
    /// The LIDs of all ports.
    pub(super) lids: Arc<LidPlan>,
    /// The LID of the subnet manager's port.
    pub(super) sm_lid: Lid,
    /// The switch graph without damped cables.
    pub(super) topology: Arc<Topology>,
    /// Categories and order of host ports.
    pub(super) order: HostOrder,
    /// State of the links at switches.
    pub(super) link_ports: Arc<LinkPorts>,
    /// The tables that switches hold, in the order of `topology`.
    pub(super) held: Tables,
}

impl RoutingInput {
    /// Prepares the input for a job; adds to `whole` the steps that could not follow the plan in
    /// force.
    ///
    /// # Errors
    /// Fails if the subnet manager's port has no LID, or the fabric has no valid switch graph.
    pub(super) fn of(job: &PlanJob, whole: &mut Vec<Whole>) -> Result<RoutingInput, PlanError> {
        let policy_before = job.previous.as_ref().map(|plan| &plan.policy);
        let policy_change = PolicyChange::between(policy_before, &job.policy);
        let lids = lids_of(job, &policy_change, whole);
        let sm_lid = sm_lid(job, &lids)?;
        let topology = topology_of(job, &lids, whole)?;
        Ok(RoutingInput {
            order: order_of(job, &topology, whole),
            link_ports: links_of(job, &topology, whole),
            held: transition::tables(&topology, &job.hardware),
            policy_change,
            lids,
            sm_lid,
            topology,
        })
    }

    /// The switch graph including damped links, which carry packets until no table leads to them.
    /// `None` if there are no damped links.
    ///
    /// # Errors
    /// Fails if the fabric has no valid switch graph.
    pub(super) fn with_damped_links(
        &self,
        job: &PlanJob,
    ) -> Result<Option<Arc<Topology>>, TopologyError> {
        if job.damped.is_empty() {
            return Ok(None);
        }
        let of = |damped| topology::TopologySources {
            fabric: &job.fabric,
            lids: &self.lids,
            damped,
        };
        let all = of(&BTreeSet::new()).follow(&of(&job.damped), &self.topology)?;
        Ok(Some(all))
    }
}

/// The LID of the subnet manager's port.
///
/// # Errors
/// Fails if the port has no LID.
fn sm_lid(job: &PlanJob, lids: &LidPlan) -> Result<Lid, PlanError> {
    let local = job.fabric.local.map(|local| job.fabric.key(local));
    let claim = local.and_then(|local| lids.lids.get(&local));
    claim.map(|claim| claim.base).ok_or(PlanError::NoLocalLid)
}

/// Assigns the LIDs of all ports.
fn lids_of(job: &PlanJob, policy_change: &PolicyChange, whole: &mut Vec<Whole>) -> Arc<LidPlan> {
    let assign = || match job.assigns_lids_anew {
        true => lids::assign_anew(&job.fabric, &job.policy),
        false => lids::assign_with_rights(&job.fabric, &job.claims, &job.policy, &job.rights),
    };
    if job.assigns_lids_anew {
        return followed(Step::Lids, Err("all LIDs are given anew"), assign, whole);
    }
    let follow = predecessor(job, policy_change).and_then(|(previous, _)| {
        let (before, fabric) = (&previous.fabric, &job.fabric);
        let known = (&*job.claims, job.rights.block);
        lids::follow(&previous.lids, before, fabric, known, &job.policy)
            .ok_or("a port has no claim, or holds another LID")
    });
    followed(Step::Lids, follow, assign, whole)
}

/// Assigns the partitions of all ports.
pub(super) fn partitions_of(
    job: &PlanJob,
    policy_change: &PolicyChange,
    whole: &mut Vec<Whole>,
) -> Arc<PartitionPlan> {
    let assign = || partitions::assign(&job.fabric, &job.policy);
    let follow = predecessor(job, policy_change).and_then(|(previous, members)| {
        let before = (&*previous.fabric, &*previous.policy);
        partitions::follow(
            &previous.partitions,
            before,
            &job.fabric,
            &job.policy,
            members,
        )
        .ok_or("enforcement starts or ends, or there are findings")
    });
    followed(Step::Partitions, follow, assign, whole)
}

/// The order of host ports, which stays as it is if it is still valid.
fn order_of(job: &PlanJob, topology: &Arc<Topology>, whole: &mut Vec<Whole>) -> HostOrder {
    let sources = HostOrderSources {
        gpus: job.gpus.clone(),
        policy: job.policy.order.clone(),
    };
    let previous = job.previous.as_ref().ok_or(NO_PLAN);
    let kept = previous.and_then(|plan| {
        plan.order.check(&sources, &plan.topology, topology)?;
        Ok(plan.order.clone())
    });
    kept.unwrap_or_else(|why| {
        whole.push(Whole::new(Step::Order, why));
        let earlier = job.previous.as_ref().map(|plan| &plan.order);
        let positions = earlier.map_or(&job.positions, |order| &order.positions);
        HostOrder::new(&job.fabric, topology, sources, positions)
    })
}

/// Reads the state of the links at switches.
fn links_of(job: &PlanJob, topology: &Topology, whole: &mut Vec<Whole>) -> Arc<LinkPorts> {
    let follow = job.previous.as_deref().ok_or(NO_PLAN).and_then(|plan| {
        let before = (&*plan.fabric, &*plan.topology);
        let links = plan.link_ports.follow(before, (&job.fabric, topology));
        links.ok_or("the switch graph was not built from the previous graph")
    });
    let read = || LinkPorts::read(&job.fabric, topology);
    followed(Step::Links, follow, read, whole)
}

/// Builds the switch graph of a plan, from the graph of the plan in force if possible.
fn topology_of(
    job: &PlanJob,
    lids: &LidPlan,
    whole: &mut Vec<Whole>,
) -> Result<Arc<Topology>, TopologyError> {
    let rules = &job.policy.switch_rules;
    let build = || {
        let topology = topology::build(&job.fabric, lids, &job.damped)?;
        Ok::<Topology, TopologyError>(topology.with_rules(rules.clone()))
    };
    let previous = job.previous.as_ref().ok_or(NO_PLAN);
    let previous = previous.and_then(|previous| match previous.policy.switch_rules == *rules {
        true => Ok(previous),
        false => Err("rules about switches changed"),
    });
    let previous = match previous {
        Ok(previous) => previous,
        Err(why) => {
            whole.push(Whole::new(Step::Graph, why));
            return Ok(Arc::new(build()?));
        }
    };
    let sources = topology::TopologySources {
        fabric: &job.fabric,
        lids,
        damped: &job.damped,
    };
    let before = topology::TopologySources {
        fabric: &previous.fabric,
        lids: &previous.lids,
        damped: &previous.damped,
    };
    let topology = sources.follow(&before, &previous.topology)?;
    debug_assert_eq!(Ok(&*topology), build().as_ref());
    Ok(topology)
}

/// The plan in force, and the port GUIDs whose partition rules have changed since.
///
/// # Errors
/// Fails if no plan is in force, or another part of the policy has changed.
fn predecessor<'a>(
    job: &'a PlanJob,
    policy_change: &'a PolicyChange,
) -> Result<(&'a Plan, &'a BTreeSet<Guid>), &'static str> {
    let previous = job.previous.as_deref().ok_or(NO_PLAN)?;
    let members = policy_change.members().ok_or("the configuration changed")?;
    Ok((previous, members))
}

/// The result `follow` of applying the changes since the plan in force; if that failed, the result
/// of `assign` for the whole subnet, with the reason added to `whole`.
fn followed<T: PartialEq + Debug>(
    step: Step,
    follow: Result<Arc<T>, &'static str>,
    assign: impl Fn() -> T,
    whole: &mut Vec<Whole>,
) -> Arc<T> {
    match follow {
        Ok(result) => {
            debug_assert_eq!(*result, assign());
            result
        }
        Err(why) => {
            whole.push(Whole::new(step, why));
            Arc::new(assign())
        }
    }
}

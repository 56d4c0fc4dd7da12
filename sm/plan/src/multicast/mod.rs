//! The multicast part of a plan: one tree for each multicast LID, on the unicast routes of the same
//! plan.
//!
//! Planning follows the changes since the previous plan: of the fabric, the orientation, the
//! members and the held tables. A tree that no change concerns is kept, without another proof.
//!
//! Until the SA has reported the members, a plan has no multicast part, and multicast tables keep
//! their content. The SA reports the service levels of groups together with the members: if routes
//! follow no up*/down* order, each service level has its own master tree (`rsm_routing::mcast`).

mod agreed;
mod base;
mod places;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::Lid;
use rsm_model::fabric::Fabric;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::mft_image::HeldMasks;
use rsm_routing::engine::Routing;
use rsm_routing::mcast::{self, Earlier, Followed, Group, Mft, Orientation, PortMask, Trees};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{MulticastReport, verify_multicast};

use self::agreed::{Agreed, held_by_switch};
pub use self::base::Base;
use self::base::BaseDelta;
use super::groups::{GroupMembers, GroupSet};
use super::policy::Policy;

/// The planned multicast state.
#[derive(Debug)]
pub struct Multicast {
    /// The members to serve.
    pub groups: Arc<GroupSet>,
    /// The tree of each multicast LID.
    pub trees: Trees,
    /// Table of each switch, by its number in the plan's topology. Successive plans share equal
    /// tables.
    pub tables: Vec<Arc<Mft>>,
    /// Proof of the trees.
    pub report: MulticastReport,
    /// The plan's topology.
    pub topology: Arc<Topology>,
    base: Arc<Base>,
    /// Switches that held their planned tables.
    agreed: Agreed,
    top: Option<Lid>,
    /// See [`Multicast::concerned`].
    concerned: Option<BTreeSet<Lid>>,
}

impl Multicast {
    /// The table of the switch with this number; `None` if the topology lacks it.
    pub fn table(&self, switch: SwitchIdx) -> Option<&Arc<Mft>> {
        self.tables.get(switch.index())
    }

    /// The highest multicast LID that any switch forwards; `None` if no switch forwards any.
    pub fn top(&self) -> Option<Lid> {
        self.top
    }

    /// The up*/down* order of the trees.
    pub(super) fn orientation(&self) -> &Orientation {
        self.base.basis.orientation()
    }

    /// The multicast LIDs whose tree may differ from the previous plan, or whose planned masks some
    /// switch may not hold. For all other LIDs, switches hold the present trees, which follow the
    /// orientation. `None` if all trees were planned anew.
    pub(super) fn concerned(&self) -> Option<&BTreeSet<Lid>> {
        self.concerned.as_ref()
    }

    /// A finding about members that no tree serves; empty if all members are served.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let trees = self.trees.by_mlid.values();
        let incomplete = trees.filter(|tree| tree.unserved() > 0);
        let mlids: Vec<String> = incomplete
            .map(|tree| format!("{:#06x}", tree.group.mlid.0))
            .collect();
        if mlids.is_empty() {
            return Vec::new();
        }
        let text = format!(
            "{} members of multicast LIDs {} get no packets: their switches have no multicast table entries for them, or \
             no tree to them is free of credit loops on the VLs of their service levels",
            self.report.unserved,
            shorten(&mlids)
        );
        let (kind, subject) = (FindingKind::MulticastUnserved, Subject::Subnet);
        vec![Finding::new(kind, subject, Severity::Warning, text)]
    }
}

/// Maximum number of multicast LIDs that a finding names.
const MLIDS_SHOWN: usize = 8;

/// Lists the first [`MLIDS_SHOWN`] names, and counts the others.
fn shorten(names: &[String]) -> String {
    let shown = names[..names.len().min(MLIDS_SHOWN)].join(", ");
    match names.len().checked_sub(MLIDS_SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// The up*/down* order of a routing; a guessed order if the routing has no usable ranking.
pub(super) fn orientation(topology: &Topology, routing: &Routing) -> Orientation {
    let ranked = routing
        .ranking
        .as_ref()
        .and_then(|ranking| Orientation::of(topology, ranking));
    ranked.unwrap_or_else(|| Orientation::guessed(topology))
}

/// The input of multicast planning.
pub(super) struct MulticastJob<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) topology: &'a Arc<Topology>,
    pub(super) routing: &'a Routing,
    /// The up*/down* order of the routing.
    pub(super) orientation: &'a Orientation,
    pub(super) policy: &'a Policy,
    /// Whether every unicast route follows `orientation`.
    pub(super) unicast_follows: bool,
    pub(super) groups: &'a Arc<GroupSet>,
    pub(super) held: &'a HeldMasks,
    /// The multicast part of the previous plan, or the reason why planning cannot follow it.
    pub(super) previous: Result<&'a Multicast, &'static str>,
}

/// The result of multicast planning.
pub(super) struct MulticastOutcome {
    /// The proved trees of all groups, or the report of the failed proof.
    pub(super) multicast: Result<Multicast, Box<MulticastReport>>,
    /// Why all trees were planned anew; `None` if the previous plan was followed.
    pub(super) whole: Option<&'static str>,
}

/// Trees with their proof and their origin.
struct Planned {
    base: Arc<Base>,
    trees: Trees,
    tables: Vec<Arc<Mft>>,
    agreed: Agreed,
    concerned: Option<BTreeSet<Lid>>,
    report: MulticastReport,
}

/// Plans the trees that changes since the previous plan concern; plans all trees if the previous
/// plan cannot be followed.
pub(super) fn plan(job: &MulticastJob<'_>) -> MulticastOutcome {
    let held = held_by_switch(job.topology, job.held);
    let followed = job
        .previous
        .and_then(|previous| follow(job, previous, &held));
    let whole = followed.as_ref().err().copied();
    debug_assert!(
        followed.as_ref().is_ok_and(|planned| {
            let whole = plan_whole(job, &held);
            (&planned.trees, &planned.tables, &planned.report)
                == (&whole.trees, &whole.tables, &whole.report)
        }) || whole.is_some()
    );
    let planned = followed.unwrap_or_else(|_| plan_whole(job, &held));
    let report = &planned.report;
    let is_sound = report.loop_free
        && report.unreached == 0
        && report.strays == 0
        && (report.credit_loop_free || job.policy.accept_credit_loops);
    let multicast = if is_sound {
        let tops = planned.trees.by_mlid.iter().rev();
        let mut tops = tops.filter(|(_, tree)| !tree.masks.is_empty());
        Ok(Multicast {
            groups: job.groups.clone(),
            top: tops.next().map(|(&mlid, _)| mlid),
            trees: planned.trees,
            tables: planned.tables,
            report: planned.report,
            topology: job.topology.clone(),
            base: planned.base,
            agreed: planned.agreed,
            concerned: planned.concerned,
        })
    } else {
        Err(Box::new(planned.report))
    };
    MulticastOutcome { multicast, whole }
}

/// Plans the trees of all groups.
fn plan_whole(job: &MulticastJob<'_>, held: &[Arc<Mft>]) -> Planned {
    let order = job.orientation.clone();
    let base = Base::new(job.fabric, job.topology, order, job.unicast_follows);
    let groups = job.groups.by_mlid.iter();
    let groups: Vec<Arc<Group>> = groups
        .map(|(&mlid, members)| {
            let members = base.members(job.topology, members);
            let levels = job.groups.levels_of(mlid);
            Arc::new(Group {
                mlid,
                members,
                levels,
            })
        })
        .collect();
    let trees = mcast::plan(&trees_job(job, &base, &groups, &held_masks(held)));
    Planned {
        tables: trees.tables(job.topology.switch_count()),
        agreed: Agreed::none(job.topology.switch_count()),
        concerned: None,
        report: prove(job, &trees, None),
        base: Arc::new(base),
        trees,
    }
}

/// Plans only what changed since `previous`, with the same result as [`plan_whole`]. The error is
/// the reason why `previous` cannot be followed.
fn follow(
    job: &MulticastJob<'_>,
    previous: &Multicast,
    held: &[Arc<Mft>],
) -> Result<Planned, &'static str> {
    let (base, delta) = follow_base(job, previous)?;
    let earlier = Earlier::new(&previous.trees, &previous.tables, &delta.basis);
    let (agreed, differing_held) = previous.agreed.follow(&delta.basis, held, &earlier.tables);
    let groups = follow_groups(job, previous, &base, &earlier, &delta);
    let Followed {
        trees,
        tables,
        concerned,
    } = mcast::follow(
        &trees_job(job, &base, &groups, &held_masks(held)),
        &delta.basis,
        earlier,
        &differing_held,
    )?;
    Ok(Planned {
        report: prove(job, &trees, Some(&concerned)),
        base,
        trees,
        tables,
        agreed,
        concerned: Some(&concerned | &differing_held),
    })
}

/// The base of `job`, and the difference from the base of `previous`.
fn follow_base(
    job: &MulticastJob<'_>,
    previous: &Multicast,
) -> Result<(Arc<Base>, BaseDelta), &'static str> {
    let is_same = Arc::ptr_eq(job.topology, &previous.topology)
        && job.orientation == previous.orientation()
        && job.unicast_follows == previous.base.basis.unicast_follows();
    if is_same {
        return Ok((previous.base.clone(), BaseDelta::default()));
    }
    let (base, delta) = previous.base.follow(
        &previous.topology,
        job.fabric,
        job.topology,
        job.orientation.clone(),
        job.unicast_follows,
    )?;
    Ok((Arc::new(base), delta))
}

/// The groups of a job. Unchanged groups are shared with `earlier`.
fn follow_groups(
    job: &MulticastJob<'_>,
    previous: &Multicast,
    base: &Base,
    earlier: &Earlier,
    delta: &BaseDelta,
) -> Vec<Arc<Group>> {
    let groups = job.groups.by_mlid.iter();
    let group = |(&mlid, members): (&Lid, &Arc<GroupMembers>)| {
        let before = previous.groups.by_mlid.get(&mlid);
        let known = before.zip(earlier.trees.by_mlid.get(&mlid));
        let levels = job.groups.levels_of(mlid);
        let members = match known {
            Some((before, tree)) => {
                let known = (&*previous.base, &**before, &*tree.group);
                match base.follow_members(job.topology, members, known, delta) {
                    Some(members) => members,
                    None if levels == tree.group.levels => return tree.group.clone(),
                    None => tree.group.members.clone(),
                }
            }
            None => base.members(job.topology, members),
        };
        Arc::new(Group {
            mlid,
            members,
            levels,
        })
    };
    groups.map(group).collect()
}

fn trees_job<'a>(
    job: &'a MulticastJob<'_>,
    base: &'a Base,
    groups: &'a [Arc<Group>],
    held: &'a mcast::Held<'a>,
) -> mcast::Job<'a> {
    mcast::Job {
        topology: job.topology,
        routing: job.routing,
        basis: &base.basis,
        groups,
        held,
    }
}

/// The masks in the tables `held`, which has one table for each switch.
fn held_masks(held: &[Arc<Mft>]) -> impl Fn(SwitchIdx, Lid) -> PortMask + Sync + '_ {
    |switch, mlid| held[switch.index()].mask(mlid)
}

/// Proves the trees of the multicast LIDs in `only`, or all trees if `only` is `None`.
fn prove(job: &MulticastJob<'_>, trees: &Trees, only: Option<&BTreeSet<Lid>>) -> MulticastReport {
    let order = job.unicast_follows.then_some(job.orientation);
    let routes = (&job.routing.tables, &job.routing.lanes);
    verify_multicast(job.topology, routes, order, trees, only)
}

/// The masks that switches hold, by multicast LID, and sorted by switch for each LID. With `only`,
/// other LIDs are omitted.
pub(super) fn masks_by_mlid(
    topology: &Topology,
    held: &HeldMasks,
    only: Option<&BTreeSet<Lid>>,
) -> BTreeMap<Lid, Vec<(SwitchIdx, PortMask)>> {
    let mut by_mlid: BTreeMap<Lid, Vec<(SwitchIdx, PortMask)>> = BTreeMap::new();
    if only.is_some_and(BTreeSet::is_empty) {
        return by_mlid;
    }
    for (switch, masks) in topology.indices().zip(held_by_switch(topology, held)) {
        let entries = masks.entries();
        for (mlid, mask) in entries.filter(|(mlid, _)| only.is_none_or(|only| only.contains(mlid)))
        {
            by_mlid.entry(mlid).or_default().push((switch, mask));
        }
    }
    by_mlid
}

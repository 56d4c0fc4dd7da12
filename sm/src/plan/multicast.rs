//! The multicast part of a plan: a tree for each multicast LID, on the unicast routes of the same plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::Routing;
use rsm_routing::mcast::{self, Ground, Group, Member, Mft, Orientation, PortMask, Trees};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{MulticastReport, verify_multicast};

use super::groups::{GroupSet, Members};
use super::policy::Policy;
use crate::fabric::Fabric;
use crate::findings::{Finding, FindingKind, Severity, Subject};

/// What one switch passes multicast packets on by, as far as it is known.
#[derive(Clone, Debug)]
pub struct HeldMasks {
    /// The switch.
    pub switch: Guid,
    /// By multicast LID, counted from 0xC000; what is not known is empty.
    pub masks: Arc<Vec<PortMask>>,
}

/// What trees stand on, and where ports are on it. Outlives changes of groups.
#[derive(Debug)]
pub struct Base {
    ground: Ground,
    /// Where each port that can be a member hangs: switch and port, by port GUID.
    places: BTreeMap<Guid, (SwitchIdx, PortNum)>,
}

/// The desired multicast state.
#[derive(Debug)]
pub struct Multicast {
    /// Who was to be served.
    pub groups: Arc<GroupSet>,
    /// The tree of each multicast LID.
    pub trees: Trees,
    /// By switch number of the plan's topology.
    pub tables: Vec<Mft>,
    /// The proof.
    pub report: MulticastReport,
    base: Arc<Base>,
    /// By multicast LID: the members that its group was made from.
    sources: BTreeMap<Lid, Arc<Members>>,
}

impl Multicast {
    /// The table of the switch with this number; `None` for one of another topology.
    pub fn table(&self, switch: SwitchIdx) -> Option<&Mft> {
        self.tables.get(switch.index())
    }

    /// The highest multicast LID that any switch passes on.
    pub fn top(&self) -> Option<Lid> {
        self.tables.iter().filter_map(Mft::top).max()
    }

    /// What the operator should know.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let trees = self.trees.by_mlid.values();
        let apart = trees.filter(|tree| tree.unserved() > 0);
        let mlids: Vec<String> = apart
            .map(|tree| format!("{:#06x}", tree.group.mlid.0))
            .collect();
        if mlids.is_empty() {
            return Vec::new();
        }
        let text = format!(
            "{} members of multicast LIDs {} get no packets: their switches have no multicast table entries for them, or \
             no tree to them is free of credit loops",
            self.report.unserved,
            shorten(&mlids)
        );
        let (kind, subject) = (FindingKind::MulticastUnserved, Subject::Subnet);
        vec![Finding::new(kind, subject, Severity::Warning, text)]
    }
}

/// Multicast LIDs that are spelled out for the operator.
const SHOWN: usize = 8;

fn shorten(names: &[String]) -> String {
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// Which way is up by a routing.
pub(super) fn orientation(topology: &Topology, routing: &Routing) -> Orientation {
    let ranked = routing
        .ranking
        .as_ref()
        .and_then(|ranking| Orientation::of(topology, ranking));
    ranked.unwrap_or_else(|| Orientation::guessed(topology))
}

impl Base {
    pub(super) fn new(
        fabric: &Fabric,
        topology: &Topology,
        orientation: Orientation,
        unicast_follows: bool,
    ) -> Base {
        let capacities: Vec<u16> = topology
            .switches()
            .iter()
            .map(|switch| {
                let node = fabric.find(switch.guid).map(|ix| fabric.node(ix));
                let info = node.and_then(|node| node.switch.as_ref());
                info.map_or(0, |info| info.multicast_fdb_cap())
            })
            .collect();
        Base {
            ground: Ground::new(topology, &capacities, orientation, unicast_follows),
            places: topology
                .destinations()
                .iter()
                .map(|destination| (destination.guid, (destination.switch, destination.port)))
                .collect(),
        }
    }

    pub(super) fn orientation(&self) -> &Orientation {
        self.ground.orientation()
    }
}

/// Everything that multicast planning depends on.
pub(super) struct Job<'a> {
    pub(super) topology: &'a Topology,
    pub(super) routing: &'a Routing,
    pub(super) policy: &'a Policy,
    pub(super) unicast_follows: bool,
    pub(super) groups: &'a Arc<GroupSet>,
    pub(super) held: &'a [HeldMasks],
    pub(super) base: Arc<Base>,
    /// What was planned before on the same base.
    pub(super) previous: Option<&'a Multicast>,
}

/// The trees of all groups, proven. With a fault in the proof there is no plan: the report tells.
pub(super) fn plan(job: &Job<'_>) -> Result<Multicast, Box<MulticastReport>> {
    let groups: Vec<Arc<Group>> = job
        .groups
        .by_mlid
        .iter()
        .map(|(&mlid, members)| group(job, mlid, members))
        .collect();
    let held = by_switch(job.topology, job.held);
    let held = |switch: SwitchIdx, mlid: Lid| {
        let masks = held.get(switch.index()).copied().flatten();
        let offset = mlid.0.checked_sub(Lid::MULTICAST_FIRST.0).map(usize::from);
        masks
            .zip(offset)
            .and_then(|(masks, offset)| masks.get(offset).copied())
            .unwrap_or_default()
    };
    let trees = mcast::plan(&mcast::Job {
        topology: job.topology,
        tables: &job.routing.tables,
        ground: &job.base.ground,
        groups: &groups,
        held: &held,
        previous: job.previous.map(|previous| &previous.trees),
    });
    let report = verify_multicast(
        job.topology,
        &job.routing.tables,
        job.unicast_follows.then(|| job.base.orientation()),
        &trees,
        job.previous.map(|previous| &previous.trees),
    );
    let is_sound = report.loop_free
        && report.unreached == 0
        && report.strays == 0
        && (report.credit_loop_free || job.policy.accept_credit_loops);
    if !is_sound {
        return Err(Box::new(report));
    }
    Ok(Multicast {
        groups: job.groups.clone(),
        tables: trees.tables(job.topology.switch_count()),
        trees,
        report,
        base: job.base.clone(),
        sources: job.groups.by_mlid.clone(),
    })
}

impl Multicast {
    pub(super) fn base(&self) -> &Arc<Base> {
        &self.base
    }
}

/// The members of a multicast LID where they are in the topology. A port that is not in it takes no part.
fn group(job: &Job<'_>, mlid: Lid, members: &Arc<Members>) -> Arc<Group> {
    if let Some(previous) = job.previous
        && let Some(source) = previous.sources.get(&mlid)
        && Arc::ptr_eq(source, members)
        && let Some(tree) = previous.trees.by_mlid.get(&mlid)
    {
        return tree.group.clone();
    }
    let mut members: Vec<Member> = members
        .ports
        .iter()
        .filter_map(|(guid, &receives)| {
            let &(switch, port) = job.base.places.get(guid)?;
            Some(Member {
                switch,
                port,
                receives,
            })
        })
        .collect();
    members.sort_unstable();
    Arc::new(Group { mlid, members })
}

fn by_switch<'a>(topology: &Topology, held: &'a [HeldMasks]) -> Vec<Option<&'a [PortMask]>> {
    let mut masks = vec![None; topology.switch_count()];
    for held in held {
        if let Some(switch) = topology.switch_by_guid(held.switch) {
            masks[switch.index()] = Some(held.masks.as_slice());
        }
    }
    masks
}

/// What switches pass on now, by multicast LID; sorted by switch.
pub(super) fn masks_by_mlid(
    topology: &Topology,
    held: &[HeldMasks],
) -> BTreeMap<Lid, Vec<(SwitchIdx, PortMask)>> {
    let mut by_mlid: BTreeMap<Lid, Vec<(SwitchIdx, PortMask)>> = BTreeMap::new();
    for (switch, masks) in topology.indices().zip(by_switch(topology, held)) {
        for (mlid, &mask) in (Lid::MULTICAST_FIRST.0..).zip(masks.unwrap_or_default()) {
            if !mask.is_empty() {
                by_mlid.entry(Lid(mlid)).or_default().push((switch, mask));
            }
        }
    }
    by_mlid
}

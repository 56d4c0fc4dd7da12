//! The way from what the switches hold to what is planned.

use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_routing::engine::Routing;
use rsm_routing::lanes::Lanes;
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::{Lft, NO_PATH, Tables};
use rsm_routing::topology::{PortUse, SwitchIdx, Topology};
use rsm_routing::verify::{Dependencies, changes, mixture_is_sound, stages, stages_along};

use super::multicast::masks_by_mlid;
use super::{Job, Plan};
use crate::fabric::{Fabric, Port};

/// What one switch forwards by, as far as it is known.
#[derive(Clone, Debug)]
pub struct Held {
    /// The switch.
    pub switch: Guid,
    /// Its entries by LID; what is not known reads 255.
    pub entries: Arc<Vec<u8>>,
    /// Whether every entry up to LinearFDBTop is known.
    pub complete: bool,
}

/// The tables of the switches of `topology`; empty for those of which nothing is known.
pub(super) fn tables(topology: &Topology, held: &[Held]) -> Tables {
    let mut lfts = vec![Lft::default(); topology.switch_count()];
    for switch in held {
        if let Some(index) = topology.switch_by_guid(switch.switch) {
            lfts[index.index()] = Lft::from_entries(switch.entries.clone());
        }
    }
    Tables { lfts }
}

/// What planned tables need of lanes, next to those in force.
pub(super) enum Ways<'a> {
    /// They stand on one lane, whatever was before.
    OneLane,
    /// Those in force are made for the same service levels and lanes.
    SameLanes(&'a Lanes),
    /// Those in force are not known to be.
    OtherLanes,
}

impl<'a> Ways<'a> {
    pub(super) fn of(job: &Job, topology: &Topology, routing: &'a Routing) -> Ways<'a> {
        let lanes = &routing.lanes;
        let agrees = |plan: &Plan| lanes.agree_with(topology, &plan.routing.lanes, &plan.topology);
        if lanes.is_single() {
            Ways::OneLane
        } else if job.previous.as_deref().is_some_and(agrees) {
            Ways::SameLanes(lanes)
        } else {
            Ways::OtherLanes
        }
    }
}

/// What the hardware has to hold everywhere before the first table of the plan is written, so that no mixture of
/// tables on the way closes a loop; `None` where every mixture of old and new is free of them.
///
/// `orientation` is the order that the planned tables follow, if they do. `topology` has every link that carries packets,
/// those kept out of the routes included. Where old entries lead
/// somewhere that it does not show, no mixture can be judged: then everything that changes discards first, which only
/// takes dependencies away.
pub(super) fn waypoint(
    fabric: &Fabric,
    topology: &Topology,
    held: &[Held],
    planned: &Tables,
    orientation: Option<&Orientation>,
    lanes: &Ways<'_>,
) -> Option<Tables> {
    let old = tables(topology, held);
    if old == *planned {
        return None;
    }
    let unread = held
        .iter()
        .any(|held| !held.complete && topology.switch_by_guid(held.switch).is_some());
    if unread || leads_astray(fabric, topology, &old, planned) {
        return Some(discarding(&old, planned));
    }
    match lanes {
        Ways::OneLane => {}
        Ways::SameLanes(lanes) if mixture_is_sound(topology, &old, planned, lanes) => return None,
        Ways::SameLanes(_) | Ways::OtherLanes => return Some(discarding(&old, planned)),
    }
    let along = orientation.and_then(|orientation| {
        let is_above = |high, low| orientation.is_above(high, low);
        stages_along(topology, is_above, planned, &changes(&old, planned))
    });
    let mut stages = along.unwrap_or_else(|| stages(topology, &old, planned));
    (stages.len() > 1).then(|| stages.swap_remove(0))
}

/// What the hardware has to hold everywhere before the first new unicast table is written, where multicast packets on the
/// way could close a circle of links with unicast ones; `None` where those of [`waypoint`], or none at all, will do.
///
/// Of multicast tables it is known that they lose what they are to lose everywhere before any of them gains, and that
/// the latter comes after the unicast waypoint. With everything that changes in unicast discarding in between, each half
/// mixes what the old tables do, or what the new ones do, with what neither does.
///
/// `needs` are the dependencies of the planned unicast tables on `topology`.
pub(super) fn with_multicast(
    job: &Job,
    plan: &Plan,
    topology: &Topology,
    needs: Dependencies<'_>,
) -> Option<Tables> {
    let planned = &plan.routing.tables;
    let old = tables(topology, &job.hardware);
    let held = masks_by_mlid(topology, &job.masks);
    let trees = &plan.multicast.as_ref()?.trees.by_mlid;
    if old == *planned || (held.is_empty() && trees.is_empty()) {
        return None;
    }
    let is_safe = match &plan.waypoint {
        None => {
            let mut all = needs;
            all.add_mixture(&old, planned);
            held.values().for_each(|masks| all.add_multicast(masks));
            trees
                .values()
                .for_each(|tree| all.add_multicast(&tree.masks));
            all.is_acyclic()
        }
        Some(waypoint) => {
            let mut before = Dependencies::of(topology, waypoint);
            before.add_mixture(&old, waypoint);
            held.values().for_each(|masks| before.add_multicast(masks));
            let mut after = needs;
            after.add_mixture(waypoint, planned);
            trees
                .values()
                .for_each(|tree| after.add_multicast(&tree.masks));
            before.is_acyclic() && after.is_acyclic()
        }
    };
    (!is_safe).then(|| discarding(&old, planned))
}

/// Whether an entry that changes leads through a port behind which there may be a switch that `topology` does not show.
fn leads_astray(fabric: &Fabric, topology: &Topology, old: &Tables, planned: &Tables) -> bool {
    topology.indices().any(|index| {
        let Some(node) = fabric.find(topology.switch(index).guid) else {
            return false;
        };
        let open = |(number, port): (usize, &Port)| {
            number > 0
                && topology.port_use(index, PortNum(number as u8)) == PortUse::Unused
                && may_lead_to_switch(fabric, port)
        };
        let open: Vec<bool> = fabric
            .node(node)
            .ports
            .iter()
            .enumerate()
            .map(open)
            .collect();
        open.contains(&true) && changes_one_of(&open, index, old, planned)
    })
}

fn may_lead_to_switch(fabric: &Fabric, port: &Port) -> bool {
    let may_be_up = port.up || port.info.is_none();
    let host = port
        .peer
        .is_some_and(|peer| fabric.node(peer.node).kind() != NodeType::Switch);
    may_be_up && !host
}

fn changes_one_of(ports: &[bool], index: SwitchIdx, old: &Tables, planned: &Tables) -> bool {
    let (old, planned) = (old.lft(index), planned.lft(index));
    old.as_slice().iter().enumerate().any(|(lid, &entry)| {
        ports.get(usize::from(entry)) == Some(&true) && planned.entry(Lid(lid as u16)) != entry
    })
}

/// `planned` without what differs from `old`.
fn discarding(old: &Tables, planned: &Tables) -> Tables {
    let mut discarding = planned.clone();
    for (lft, old) in discarding.lfts.iter_mut().zip(&old.lfts) {
        for (lid, entry) in lft.as_mut_slice().iter_mut().enumerate() {
            if old.entry(Lid(lid as u16)) != *entry {
                *entry = NO_PATH;
            }
        }
    }
    discarding
}

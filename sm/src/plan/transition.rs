//! The way from what the switches hold to what is planned.

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::NodeType;
use rsm_routing::engine::Routing;
use rsm_routing::lanes::Lanes;
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::{Lft, NO_PATH, Tables};
use rsm_routing::topology::{PortUse, Topology};
use rsm_routing::verify::{Dependencies, masks_follow, mixture_is_sound, stages, stages_along};

use super::multicast::masks_by_mlid;
use super::{Job, Plan};
use crate::fabric::{Fabric, Port};

/// What one switch forwards by, as far as it is known.
#[derive(Clone, Debug)]
pub struct Held {
    /// The switch.
    pub switch: Guid,
    /// Its entries by LID; what is not known reads 255.
    pub entries: Lft,
    /// Whether every entry up to LinearFDBTop is known.
    pub complete: bool,
}

/// The tables of the switches of `topology`; empty for those of which nothing is known.
pub(super) fn tables(topology: &Topology, held: &[Held]) -> Tables {
    let mut lfts = vec![Lft::default(); topology.switch_count()];
    for switch in held {
        if let Some(index) = topology.switch_by_guid(switch.switch) {
            lfts[index.index()] = switch.entries.clone();
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

/// How the planned tables come into force.
pub(super) struct Route {
    /// What the hardware has to hold everywhere before the first table of the plan is written, so that no mixture of tables
    /// on the way closes a loop; `None` where every mixture of old and new is free of them.
    pub(super) waypoint: Option<Tables>,
    /// No packet goes up after it went down by any mixture of tables on the way.
    pub(super) follows: bool,
}

impl Route {
    fn by(waypoint: Option<Tables>) -> Route {
        Route {
            waypoint,
            follows: false,
        }
    }
}

/// How the hardware gets from what it holds to the planned tables.
///
/// `orientation` is the order that the planned tables follow, if they do. `topology` has every link that carries packets,
/// those kept out of the routes included. Where old entries lead
/// somewhere that it does not show, no mixture can be judged: then everything that changes discards first, which only
/// takes dependencies away.
pub(super) fn route(
    fabric: &Fabric,
    topology: &Topology,
    held: &[Held],
    planned: &Tables,
    orientation: Option<&Orientation>,
    lanes: &Ways<'_>,
) -> Route {
    let old = tables(topology, held);
    if old == *planned {
        return Route::by(None);
    }
    let unread = held
        .iter()
        .any(|held| !held.complete && topology.switch_by_guid(held.switch).is_some());
    if unread || leads_astray(fabric, topology, &old, planned) {
        return Route::by(Some(discarding(&old, planned)));
    }
    match lanes {
        Ways::OneLane => {}
        Ways::SameLanes(lanes) if mixture_is_sound(topology, &old, planned, lanes) => {
            return Route::by(None);
        }
        Ways::SameLanes(_) | Ways::OtherLanes => {
            return Route::by(Some(discarding(&old, planned)));
        }
    }
    let along = orientation.and_then(|orientation| {
        let is_above = |high, low| orientation.is_above(high, low);
        stages_along(topology, is_above, &old, planned)
    });
    let follows = along.is_some();
    let mut stages = along.unwrap_or_else(|| stages(topology, &old, planned));
    Route {
        waypoint: (stages.len() > 1).then(|| stages.swap_remove(0)),
        follows,
    }
}

/// What the hardware has to hold everywhere before the first new unicast table is written, where multicast packets on the
/// way could close a circle of links with unicast ones; `None` where those of [`route`], or none at all, will do.
///
/// Of multicast tables it is known that they lose what they are to lose everywhere before any of them gains, and that
/// the latter comes after the unicast waypoint. With everything that changes in unicast discarding in between, each half
/// mixes what the old tables do, or what the new ones do, with what neither does.
///
/// `unicast_follows` says that unicast packets never go up after they went down, on all of the way; where multicast
/// packets do not either, there is no more to prove. `needs` are the dependencies of the planned unicast tables on
/// `topology`, if they are known.
pub(super) fn with_multicast(
    job: &Job,
    plan: &Plan,
    topology: &Topology,
    unicast_follows: bool,
    needs: Option<Dependencies<'_>>,
) -> Option<Tables> {
    let planned = &plan.routing.tables;
    let held = masks_by_mlid(topology, &job.masks);
    let multicast = plan.multicast.as_ref()?;
    let trees = &multicast.trees.by_mlid;
    if held.is_empty() && trees.is_empty() {
        return None;
    }
    let orientation = multicast.base().orientation();
    let follows = |masks: &[_]| masks_follow(topology, orientation, masks);
    if unicast_follows
        && held.values().all(|masks| follows(masks))
        && trees.values().all(|tree| follows(&tree.masks))
    {
        return None;
    }
    let old = tables(topology, &job.hardware);
    if old == *planned {
        return None;
    }
    let needs = needs.unwrap_or_else(|| Dependencies::of(topology, planned));
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
        let (old, planned) = (old.lft(index), planned.lft(index));
        let Some(node) = fabric.find(topology.switch(index).guid) else {
            return false;
        };
        let ports = &fabric.node(node).ports;
        let is_open = |entry: u8| {
            let port = ports.get(usize::from(entry)).filter(|_| entry > 0);
            port.is_some_and(|port| {
                topology.port_use(index, PortNum(entry)) == PortUse::Unused
                    && may_lead_to_switch(fabric, port)
            })
        };
        let mut differing = old.differing(planned);
        differing.any(|lid| is_open(old.entry(lid)))
    })
}

fn may_lead_to_switch(fabric: &Fabric, port: &Port) -> bool {
    let may_be_up = port.up || port.info.is_none();
    let host = port
        .peer
        .is_some_and(|peer| fabric.node(peer.node).kind() != NodeType::Switch);
    may_be_up && !host
}

/// `planned` without what differs from `old`.
fn discarding(old: &Tables, planned: &Tables) -> Tables {
    let mut discarding = planned.clone();
    for (lft, (old, planned)) in discarding
        .lfts
        .iter_mut()
        .zip(old.lfts.iter().zip(&planned.lfts))
    {
        for lid in old.differing(planned) {
            lft.set_entry(lid, NO_PATH);
        }
    }
    discarding
}

//! Use of a cable: paths, hosts, and whether the cable may be unplugged.

use std::collections::BTreeMap;

use rsm_api::model::{Keyed, Page, PortId, Selector};
use rsm_api::resolve::resolve_cable_port;
use rsm_api::{RoutingError, timestamp, v1};
use rsm_ids::{PortKey, PortNum};
use rsm_model::fabric::Fabric;
use rsm_plan::Plan;
use rsm_plan::avoid::NodeOrCable;
use rsm_routing::quality::{CrossingHost, crossing, crossing_from};
use rsm_routing::topology::Destination;

use super::api_view::{api_key, core_key};
use super::drained;
use super::published::Published;

/// Number of hosts that a host sends to, and receives from, over a cable.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct HostShares {
    sends: u64,
    receives: u64,
}

/// Paths that cross a cable, and the hosts at their ends.
#[derive(Default, PartialEq, Eq, Debug)]
pub(super) struct CablePaths {
    /// Number of paths from the lower end to the other end, and in the other direction.
    paths: [u64; 2],
    /// HostShares of the hosts, by host port.
    hosts: BTreeMap<PortKey, HostShares>,
}

/// Both ends of the cable at a port, the lower one first.
pub(super) fn ends(
    published: &Published,
    plan: &Plan,
    port: &Selector,
) -> Result<[PortKey; 2], RoutingError> {
    let key = core_key(resolve_cable_port(&published.names, port)?);
    let at = plan.fabric.find_port(key);
    let peer = at.and_then(|at| plan.fabric.port(at).peer);
    let peer = peer.ok_or_else(|| RoutingError::Impossible {
        reason: no_cable(published, key, port),
    })?;
    Ok([key.min(peer), key.max(peer)])
}

/// A sentence about a port that has no cable, or has lost it.
pub(super) fn no_cable(published: &Published, key: PortKey, port: &Selector) -> String {
    lost_cable(published, key, port).unwrap_or_else(|| {
        let fabric = published.fabric();
        let at = fabric.find_port(key).map(|at| fabric.node(at.node));
        match at.filter(|node| node.is_switch() && key.port == PortNum::ZERO) {
            Some(node) => {
                let name = &node.description;
                format!("`{port}` is a switch: name one of its ports, as in `{name}:7`, or see `rsmctl whatif '{name}'`")
            }
            None => format!("there is no cable at `{port}`: name a port with one, as in `leaf-03:7`"),
        }
    })
}

/// A sentence about the other end of a port's lost cable; `None` if the port has not lost a cable.
fn lost_cable(published: &Published, key: PortKey, port: &Selector) -> Option<String> {
    let at = published.fabric().find_port(key)?;
    let gone = published.api_view().gone_cable(at)?;
    let number = gone.port.map_or(0, |port| port.number);
    let until = gone.lost_unix_ms;
    let until = until.map_or_else(|| "before this start of rsm".to_owned(), timestamp);
    let name = &gone.description;
    Some(match gone.disabled.as_str() {
        "" => {
            format!("the cable at `{port}` is gone: it led to {name} port {number} until {until}")
        }
        disabled => format!(
            "the link at `{port}` is down: {disabled}; its cable leads to {name} port {number}"
        ),
    })
}

/// Counts the paths of pairs of hosts over a cable, by the tables of a plan.
pub(super) fn count_paths(plan: &Plan, ends: [PortKey; 2]) -> CablePaths {
    let mut crossed = CablePaths::default();
    for (end, paths) in ends.into_iter().zip([0, 1]) {
        for share in leaving(plan, end) {
            let Some(host) = host(plan, &plan.topology.destinations()[share.destination]) else {
                continue;
            };
            crossed.paths[paths] += share.sends;
            let shares = crossed.hosts.entry(host).or_default();
            shares.sends += share.sends;
            shares.receives += share.receives;
        }
    }
    crossed
}

/// Hosts with paths that leave a switch or host by a port, and their numbers of paths.
fn leaving(plan: &Plan, end: PortKey) -> Vec<CrossingHost> {
    let (topology, tables) = (&plan.topology, &plan.routing.tables);
    if let Some(switch) = topology.switch_by_guid(end.node) {
        return crossing(topology, tables, switch, end.port);
    }
    let mut destinations = topology.destinations().iter();
    let source = destinations
        .position(|destination| destination.kind.is_host() && host(plan, destination) == Some(end));
    source.map_or_else(Vec::new, |source| crossing_from(topology, tables, source))
}

/// The host port that is cabled to the switch port of `destination`; `None` if the fabric lacks
/// that cable.
fn host(plan: &Plan, destination: &Destination) -> Option<PortKey> {
    let switch = plan.topology.switch(destination.switch).guid;
    let at = plan
        .fabric
        .find_port(PortKey::new(switch, destination.port))?;
    plan.fabric.port(at).peer
}

/// Converts the use of the cable to a message.
pub(super) fn shown(
    published: &Published,
    ends: [PortKey; 2],
    crossed: &CablePaths,
) -> v1::CableUse {
    let at = published.fabric().find_port(ends[0]);
    let (unplug, over) = drained::unplug(published, NodeOrCable::Port(ends[0]));
    v1::CableUse {
        link: at.and_then(|at| published.api_view().link(at)),
        paths_from_a: crossed.paths[0],
        paths_from_b: crossed.paths[1],
        hosts: crossed.hosts.len() as u64,
        lids_over: over.over.len() as u64,
        unplug: unplug.into(),
    }
}

/// Page of hosts after the key `after`, each with its share of the paths.
pub(super) fn hosts(
    published: &Published,
    fabric: &Fabric,
    crossed: &CablePaths,
    after: Option<PortId>,
    limit: usize,
) -> Page<Keyed<PortId, v1::CableHost>> {
    let hosts = crossed.hosts.iter();
    let hosts = hosts.map(|(&key, &shares)| (api_key(key), key, shares));
    let hosts = hosts.filter(|&(key, ..)| after.is_none_or(|after| key > after));
    let items = hosts.map(|(key, port, shares)| Keyed {
        key,
        message: v1::CableHost {
            port: Some(key.into()),
            description: fabric
                .node_of(port.node)
                .map_or_else(String::new, |node| node.description.clone()),
            sends_to: shares.sends,
            receives_from: shares.receives,
        },
    });
    Page {
        generation: published.generation,
        items: items.take(limit).collect(),
    }
}

//! Single points of failure: switches and cables without which switches or hosts are cut off from
//! each other.
//!
//! The graph is the routes' graph: switches, and the cables that routes may use. The cable of a
//! host, and a host's only leaf, do not count, because their loss cuts off only their own hosts.

use std::collections::BTreeMap;

use petgraph::algo::articulation_points::articulation_points;
use petgraph::algo::bridges::bridges;
use petgraph::graph::{EdgeIndex, NodeIndex, UnGraph};
use petgraph::unionfind::UnionFind;
use petgraph::visit::EdgeRef as _;
use rsm_ids::{Guid, PortKey};
use rsm_model::text::count;
use rsm_plan::Plan;
use rsm_routing::topology::Cable;

use super::super::published::Published;
use super::parts::cable_name;
use super::topic::Measured;

/// The switch graph of the routes.
type Graph = UnGraph<Guid, Cable, u32>;

/// A part, and the number of host ports that its loss cuts off from most other host ports.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct PartLoss {
    hosts: usize,
    name: String,
    is_cable: bool,
}

pub(super) fn single_points(published: &Published, plan: &Plan) -> Measured {
    let graph = plan.topology.to_petgraph();
    let hosts = hosts_of_switches(plan);
    let switches = graph.node_count();
    let mut losses: Vec<PartLoss> = articulation_points(&graph)
        .into_iter()
        .map(|switch| PartLoss {
            hosts: cut_off_hosts(&graph, &hosts, |one, _| one != switch),
            name: published.fabric().name(graph[switch]),
            is_cable: false,
        })
        .collect();
    let cables = lone_bridges(&graph);
    losses.extend(cables.iter().map(|&(edge, cable)| PartLoss {
        hosts: cut_off_hosts(&graph, &hosts, |_, over| over != Some(edge)),
        name: cable_name(
            published.fabric(),
            PortKey::new(cable.a.0, cable.a.1),
            PortKey::new(cable.b.0, cable.b.1),
        ),
        is_cable: true,
    }));
    // A spine that leads to no host cuts nothing off.
    losses.retain(|loss| loss.hosts > 0);
    let lost_cables = losses.iter().filter(|loss| loss.is_cable).count();
    losses.sort_by(|one, other| other.hosts.cmp(&one.hosts).then(one.name.cmp(&other.name)));
    let worst = losses.iter().map(|loss| {
        let hosts = count(loss.hosts, "port of a host", "ports of hosts");
        format!("{}: without it {hosts} cannot reach the rest", loss.name)
    });
    let summary = match (switches, losses.len()) {
        (0, _) => "no switch: nothing that could divide the fabric".to_owned(),
        (1, _) => "1 switch joins all hosts: none reaches another without it".to_owned(),
        (switches, 0) => format!(
            "any of {switches} switches and {} between them may be lost: no host is cut off besides those at the switch itself",
            count(graph.edge_count(), "cable", "cables")
        ),
        _ => format!(
            "{} and {} whose loss cuts hosts elsewhere off",
            count(losses.len() - lost_cables, "switch", "switches"),
            count(lost_cables, "cable", "cables")
        ),
    };
    Measured::unless(worst.collect(), rsm_api::v1::Verdict::Warn, summary)
}

/// Number of ports of hosts at each switch, by switch index.
fn hosts_of_switches(plan: &Plan) -> Vec<usize> {
    let mut hosts = vec![0; plan.topology.switch_count()];
    let all = plan.topology.destinations().iter();
    for host in all.filter(|destination| destination.kind.is_host()) {
        hosts[host.switch.index()] += 1;
    }
    hosts
}

/// The bridges that are the only cable between their switches, in the order of the graph. petgraph
/// expects a simple graph, and reports parallel cables as bridges, too.
fn lone_bridges(graph: &Graph) -> Vec<(EdgeIndex, Cable)> {
    let pair = |a: NodeIndex, b: NodeIndex| (a.min(b), a.max(b));
    let mut between: BTreeMap<(NodeIndex, NodeIndex), usize> = BTreeMap::new();
    for edge in graph.edge_references() {
        *between
            .entry(pair(edge.source(), edge.target()))
            .or_default() += 1;
    }
    bridges(graph)
        .filter(|edge| edge.source() != edge.target())
        .filter(|edge| between[&pair(edge.source(), edge.target())] == 1)
        .map(|edge| (edge.id(), *edge.weight()))
        .collect()
}

/// Number of host ports outside the connected part with the most host ports, if only the switches
/// and cables remain for which `keeps` returns true. Ports at a removed switch do not count,
/// because they are cut off in any case. `hosts` is by switch index.
fn cut_off_hosts(
    graph: &Graph,
    hosts: &[usize],
    keeps: impl Fn(NodeIndex, Option<EdgeIndex>) -> bool,
) -> usize {
    let mut parts = UnionFind::new(graph.node_count());
    for edge in graph.edge_references() {
        let ends = [edge.source(), edge.target()];
        if ends.iter().all(|&end| keeps(end, Some(edge.id()))) {
            parts.union(ends[0].index(), ends[1].index());
        }
    }
    let mut sizes = vec![0; graph.node_count()];
    for switch in graph.node_indices().filter(|&switch| keeps(switch, None)) {
        sizes[parts.find_mut(switch.index())] += hosts[switch.index()];
    }
    sizes.iter().sum::<usize>() - sizes.iter().max().copied().unwrap_or(0)
}

//! The graph of a fabric's switches and the cables between them, to answer whether switches are
//! connected.

use std::collections::BTreeSet;

use petgraph::unionfind::UnionFind;
use rsm_ids::{Guid, PortKey};
use rsm_model::fabric::{Fabric, Node};

/// A cable between two switches, with both ports up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cable {
    /// Indices in [`Graph::switches`] of the switches at both ends, in the order of `ports`.
    pub(super) ends: [usize; 2],
    /// Ports of the cable, the lower one first.
    pub(super) ports: [PortKey; 2],
}

/// Switches that can forward packets, ascending by GUID, and the cables between them.
pub(super) struct Graph<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) switches: Vec<&'a Node>,
    pub(super) cables: Vec<Cable>,
    /// Indices in `cables` of the cables at each switch, by the index of the switch.
    at: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    /// Builds the graph of `fabric` without the cables in `damped`, each given by either end.
    pub(super) fn of(fabric: &'a Fabric, damped: &BTreeSet<PortKey>) -> Graph<'a> {
        let switches: Vec<&Node> = fabric.switches().map(|(_, node)| node).collect();
        let switches: Vec<&Node> = switches
            .into_iter()
            .filter(|node| !node.unmanageable)
            .collect();
        let mut graph = Graph {
            fabric,
            at: vec![Vec::new(); switches.len()],
            switches,
            cables: Vec::new(),
        };
        for number in 0..graph.switches.len() {
            let node = graph.switches[number];
            for (here, there) in node.first_ends().filter(|(a, b)| a.node != b.node) {
                let out = damped.contains(&here) || damped.contains(&there);
                let Some(other) = graph.find(there.node).filter(|_| !out) else {
                    continue;
                };
                let near = &node.ports[here.port.index()];
                let far = graph.switches[other].ports.get(there.port.index());
                if near.up && far.is_some_and(|far| far.up && far.peer == Some(here)) {
                    graph.at[number].push(graph.cables.len());
                    graph.at[other].push(graph.cables.len());
                    graph.cables.push(Cable {
                        ends: [number, other],
                        ports: [here, there],
                    });
                }
            }
        }
        graph
    }

    /// The index of a switch; `None` if it is not in the graph.
    pub(super) fn find(&self, guid: Guid) -> Option<usize> {
        self.switches
            .binary_search_by_key(&guid, |node| node.guid)
            .ok()
    }

    /// The indices of the cables at a switch.
    pub(super) fn cables_at(&self, switch: usize) -> &[usize] {
        &self.at[switch]
    }

    /// The index of the cable at a port; `None` if the graph has no cable there.
    pub(super) fn cable(&self, port: PortKey) -> Option<usize> {
        let cables = self.cables_at(self.find(port.node)?).iter().copied();
        cables
            .into_iter()
            .find(|&cable| self.cables[cable].ports.contains(&port))
    }

    /// The switch at the other end of a cable at `switch`.
    pub(super) fn far_end(&self, cable: usize, switch: usize) -> usize {
        let [a, b] = self.cables[cable].ends;
        if a == switch { b } else { a }
    }

    /// Whether a host, router or aggregation node is cabled to a switch.
    pub(super) fn has_hosts(&self, switch: usize) -> bool {
        let mut cables = self.switches[switch].cables();
        cables.any(|(_, there)| {
            let node = self.fabric.node_of(there.node);
            node.is_some_and(|node| !node.is_switch())
        })
    }
}

/// The connected components of a graph, and their number.
pub(super) struct Components {
    union_find: UnionFind<usize>,
    count: usize,
}

impl Components {
    /// The components of the switches in `graph`, joined by the cables whose index satisfies
    /// `carries`.
    pub(super) fn of(graph: &Graph<'_>, carries: impl Fn(usize) -> bool) -> Components {
        let count = graph.switches.len();
        let mut joined = Components {
            union_find: UnionFind::new(count),
            count,
        };
        for (number, cable) in graph.cables.iter().enumerate() {
            if carries(number) {
                joined.join(cable.ends);
            }
        }
        joined
    }

    /// Whether two switches are in one component.
    pub(super) fn are_connected(&self, [a, b]: [usize; 2]) -> bool {
        self.union_find.equiv(a, b)
    }

    /// Joins the components of two switches. Returns whether they were different.
    pub(super) fn join(&mut self, [a, b]: [usize; 2]) -> bool {
        let were_different = self.union_find.union(a, b);
        self.count -= usize::from(were_different);
        were_different
    }

    /// Number of components.
    pub(super) fn count(&self) -> usize {
        self.count
    }
}

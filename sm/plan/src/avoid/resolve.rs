//! Decides which cables of a fabric routes avoid. Reachability has precedence over every part to
//! avoid.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;

use super::graph::{Components, Graph};
use super::{Avoid, NodeOrCable, Reason};

/// The effect of an [`Avoid`] on a fabric.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Resolved {
    /// The cables between switches that routes avoid, each given by its lower end.
    pub out: BTreeSet<PortKey>,
    /// Parts that routes use nevertheless, because switches or their hosts would be cut off
    /// otherwise.
    pub in_use: BTreeSet<NodeOrCable>,
}

impl Avoid {
    /// Decides which cables of `fabric` routes avoid. Routes avoid the cables in `damped` (each
    /// given by either end) in any case.
    ///
    /// All switches and hosts that cables of `fabric` connect stay connected. If that requires
    /// parts of the set, routes use unhealthy parts first, then the parts drained longest ago: a
    /// recently drained part is more likely being worked on.
    pub fn resolve(&self, fabric: &Fabric, damped: &BTreeSet<PortKey>) -> Resolved {
        if !self.parts.keys().any(|part| fabric.is_switch(part.node())) {
            return Resolved::default();
        }
        let graph = Graph::of(fabric, damped);
        let mut resolving = Resolving::new(self, &graph);
        resolving.keep_one_neighbour_each();
        resolving.readmit(self.in_readmission_order());
        let carries = &resolving.carries;
        let out = graph
            .cables
            .iter()
            .zip(carries)
            .filter(|(_, carries)| !**carries);
        Resolved {
            out: out.map(|(cable, _)| cable.ports[0]).collect(),
            in_use: resolving.in_use,
        }
    }

    /// The parts, in the order in which routes use them again to keep ports reachable.
    fn in_readmission_order(&self) -> Vec<NodeOrCable> {
        let mut parts: Vec<NodeOrCable> = self.parts.keys().copied().collect();
        parts.sort_by_key(|part| match &self.parts[part] {
            Reason::Unhealthy(_) => None,
            Reason::Drained(drained) => Some(drained.since_unix_ms),
        });
        parts
    }
}

/// The cables and switches of a graph that routes avoid, while the decision proceeds.
struct Resolving<'a> {
    graph: &'a Graph<'a>,
    /// Whether each cable is avoided.
    cable_out: Vec<bool>,
    /// Whether each switch is avoided.
    switch_out: Vec<bool>,
    /// Whether each cable carries packets.
    carries: Vec<bool>,
    /// Sets of switches that cables in use connect.
    joined: Components,
    /// Avoided parts that routes use nevertheless.
    in_use: BTreeSet<NodeOrCable>,
}

impl<'a> Resolving<'a> {
    fn new(avoid: &Avoid, graph: &'a Graph<'a>) -> Resolving<'a> {
        let mut cable_out = vec![false; graph.cables.len()];
        let mut switch_out = vec![false; graph.switches.len()];
        for part in avoid.parts.keys() {
            match *part {
                NodeOrCable::Node(guid) => {
                    if let Some(switch) = graph.find(guid) {
                        switch_out[switch] = true;
                    }
                }
                NodeOrCable::Port(port) => {
                    if let Some(cable) = graph.cable(port) {
                        cable_out[cable] = true;
                    }
                }
            }
        }
        let free = |cable: usize| {
            !cable_out[cable] && !graph.cables[cable].ends.iter().any(|&end| switch_out[end])
        };
        let carries: Vec<bool> = (0..graph.cables.len()).map(free).collect();
        Resolving {
            joined: Components::of(graph, |cable| carries[cable]),
            graph,
            cable_out,
            switch_out,
            carries,
            in_use: BTreeSet::new(),
        }
    }

    /// Keeps the cables of each avoided switch to one neighbour, so that no transit packets pass
    /// through the switch.
    fn keep_one_neighbour_each(&mut self) {
        let mut attached: Vec<bool> = self.switch_out.iter().map(|out| !out).collect();
        let walks = self.walks();
        loop {
            let mut has_progress = false;
            for switch in 0..attached.len() {
                if attached[switch] {
                    continue;
                }
                if let Some(neighbour) = self.neighbour_to_keep(switch, &attached, &walks) {
                    self.keep_cables(switch, neighbour);
                    attached[switch] = true;
                    has_progress = true;
                }
            }
            if !has_progress {
                return;
            }
        }
    }

    /// The neighbour in `attached` to which an avoided switch stays joined. In a tree, switches
    /// without hosts take precedence: behind a switch above, the avoided switch is reached by usual
    /// paths from everywhere, behind a leaf only by detours. Detours turn around at one place, where
    /// nothing may be missing, so that neighbours with more `walks` come next. Lower GUIDs come
    /// before higher ones, so that several avoided switches mostly share one neighbour.
    fn neighbour_to_keep(&self, switch: usize, attached: &[bool], walks: &[u64]) -> Option<usize> {
        let cables = self.graph.cables_at(switch).iter().copied();
        let cables = cables.filter(|&cable| !self.cable_out[cable]);
        let neighbours = cables.map(|cable| self.graph.far_end(cable, switch));
        let neighbours: BTreeSet<usize> = neighbours.filter(|&other| attached[other]).collect();
        let key = |&other: &usize| {
            let most_first = Reverse(walks[other]);
            let has_hosts = self.graph.has_hosts(other);
            (self.switch_out[other], has_hosts, most_first, other)
        };
        neighbours.into_iter().min_by_key(key)
    }

    /// For each switch, the number of walks of three cables that begin there, over cables that carry
    /// packets. Parallel cables count once. Where parts are missing nearby, there are fewer.
    fn walks(&self) -> Vec<u64> {
        let neighbours = |switch: usize| {
            let cables = self.graph.cables_at(switch).iter();
            let cables = cables.filter(|&&cable| self.carries[cable]);
            let mut all: Vec<usize> = cables
                .map(|&cable| self.graph.far_end(cable, switch))
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        let neighbours: Vec<Vec<usize>> = (0..self.switch_out.len()).map(neighbours).collect();
        (0..3).fold(vec![1; neighbours.len()], |shorter: Vec<u64>, _| {
            let from = |all: &Vec<usize>| all.iter().map(|&switch| shorter[switch]).sum();
            neighbours.iter().map(from).collect()
        })
    }

    /// Lets the cables between an avoided switch and its neighbour carry packets, except cables
    /// that are avoided themselves.
    fn keep_cables(&mut self, switch: usize, neighbour: usize) {
        for &cable in self.graph.cables_at(switch) {
            if !self.cable_out[cable] && self.graph.far_end(cable, switch) == neighbour {
                self.carry(cable);
            }
        }
    }

    /// Lets a cable carry packets.
    fn carry(&mut self, cable: usize) {
        self.carries[cable] = true;
        self.joined.join(self.graph.cables[cable].ends);
    }

    /// Readmits parts, in the order of `parts`, until the cables in use join all switches that any
    /// cables can join.
    fn readmit(&mut self, mut parts: Vec<NodeOrCable>) {
        let wanted = Components::of(self.graph, |_| true).count();
        while self.joined.count() > wanted {
            let before = self.joined.count();
            for &part in &parts {
                let cables = self.cables_of(part);
                let joins = cables.iter().any(|&cable| self.joins(cable));
                if joins && self.joined.count() > wanted {
                    self.readmit_part(part, &cables);
                }
            }
            parts.retain(|part| !self.in_use.contains(part));
            if self.joined.count() == before {
                // No single part joins anything: these parts block each other, for example a
                // drained cable of a drained switch.
                if parts.is_empty() {
                    return;
                }
                let part = parts.remove(0);
                let cables = self.cables_of(part);
                self.readmit_part(part, &cables);
            }
        }
    }

    /// Whether a cable would join two sets of switches that no cable in use joins.
    fn joins(&self, cable: usize) -> bool {
        !self.joined.are_connected(self.graph.cables[cable].ends)
    }

    /// The cables that carry packets again if `part` is used, unless another part blocks them.
    fn cables_of(&self, part: NodeOrCable) -> Vec<usize> {
        match part {
            NodeOrCable::Node(guid) => {
                let Some(switch) = self.graph.find(guid) else {
                    return Vec::new();
                };
                let cables = self.graph.cables_at(switch).iter().copied();
                let free = cables.filter(|&cable| {
                    !self.cable_out[cable] && !self.switch_out[self.graph.far_end(cable, switch)]
                });
                free.collect()
            }
            NodeOrCable::Port(port) => {
                let cable = self.graph.cable(port);
                let alone = |cable: &usize| {
                    let ends = self.graph.cables[*cable].ends;
                    ends.iter()
                        .all(|&end| !self.switch_out[end] || self.is_alone(end))
                };
                cable.filter(alone).into_iter().collect()
            }
        }
    }

    /// Whether no cable at a switch carries packets.
    fn is_alone(&self, switch: usize) -> bool {
        let mut cables = self.graph.cables_at(switch).iter();
        !cables.any(|&cable| self.carries[cable])
    }

    /// Lets routes use `part`, and packets pass over `cables`.
    fn readmit_part(&mut self, part: NodeOrCable, cables: &[usize]) {
        self.in_use.insert(part);
        match part {
            NodeOrCable::Node(guid) => {
                if let Some(switch) = self.graph.find(guid) {
                    self.switch_out[switch] = false;
                }
            }
            NodeOrCable::Port(port) => {
                if let Some(cable) = self.graph.cable(port) {
                    self.cable_out[cable] = false;
                }
            }
        }
        for &cable in cables {
            self.carry(cable);
        }
    }
}

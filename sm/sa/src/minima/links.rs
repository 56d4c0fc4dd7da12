//! The limits of the links that make up paths: links between switches, and attachments of end ports
//! to switches.

use rsm_ids::PortNum;
use rsm_model::fabric::{Fabric, Node, Port, PortRef};
use rsm_routing::topology::{SwitchIdx, Topology};

use super::limits::Limits;
use crate::changed_nodes::ChangedNodes;
use crate::ends::{EndPort, Ends};

/// Attachment of an end port to the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attachment {
    /// Switch at the other end of the port's cable, or the switch that has the port as its port 0;
    /// `None` if the plan does not reach the port.
    pub(crate) switch: Option<SwitchIdx>,
    /// Limits of the port's link; no limits for a switch's port 0, which has no link.
    pub(crate) link: Limits,
    /// Limits of packets from the port to itself.
    pub(crate) own: Limits,
    /// End port at the other end of the cable, if there is no switch between the two; `None`
    /// otherwise.
    pub(crate) neighbour: Option<PortRef>,
    /// The port itself.
    pub(crate) at: PortRef,
}

/// The limits of the links at each port of each switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Links {
    /// Index of each switch's first entry in `limits`, by [`SwitchIdx`].
    start: Vec<u32>,
    /// Limits of each port, in the order of switches and port numbers.
    limits: Vec<Limits>,
    /// Limits of all links between switches, if they are equal; `None` if they differ or if there
    /// is no such link.
    pub(crate) uniform: Option<Limits>,
}

impl Attachment {
    /// Whether the port is port 0 of a switch.
    pub(crate) fn is_port0(&self) -> bool {
        self.at.port == PortNum::ZERO
    }

    /// The attachment of the port `end`.
    pub(crate) fn of(fabric: &Fabric, topology: &Topology, end: &EndPort) -> Attachment {
        let port = fabric.port(end.at);
        let planned = topology
            .destination_of(end.lid)
            .filter(|destination| destination.guid == port.guid);
        let info = port.info.as_ref();
        let neighbour = fabric.peer(end.at);
        let is_port0 = end.at.port == PortNum::ZERO;
        let own = match info {
            Some(info) if is_port0 => Limits::of_port0(info),
            Some(info) => Limits::of_link(info),
            None => Limits::LEAST,
        };
        let link = if is_port0 {
            Limits::NONE
        } else {
            own.meet(neighbour.map_or(Limits::NONE, |peer| of_port(fabric.port(peer))))
        };
        Attachment {
            switch: planned.map(|destination| destination.switch),
            link,
            own,
            neighbour,
            at: end.at,
        }
    }
}

/// Updates the attachments of all physical ends after changes of nodes. The topology must have the
/// same switches and end ports as before.
pub(super) fn follow_attachments(
    attached: &mut [Attachment],
    (fabric, topology): (&Fabric, &Topology),
    ends: &Ends,
    changed: &ChangedNodes<'_>,
) {
    let mut renew = |at: PortRef| {
        if let Some(ix) = ends.by_port(at) {
            attached[ix.index()] = Attachment::of(fabric, topology, ends.get(ix));
        }
    };
    for (ix, before, now) in changed.iter() {
        for (port, _) in now.end_ports() {
            renew(PortRef { node: ix, port });
        }
        for (_, peer) in before.cables().chain(now.cables()) {
            if let Some(at) = fabric.find_port(peer) {
                renew(at);
            }
        }
    }
}

impl Links {
    /// The links after a change, if all links between switches had equal limits before the change
    /// and have the same limits after the change. `None` otherwise, or if the changes are unknown.
    /// Both topologies must have the same switches.
    pub(super) fn follow(
        &self,
        fabric: &Fabric,
        (before, topology): (&Topology, &Topology),
        changed: &ChangedNodes<'_>,
    ) -> Option<Links> {
        self.uniform.filter(|_| topology.link_count() > 0)?;
        let mut links = self.clone();
        for (_, _, now) in changed.iter() {
            links.renew(topology, now)?;
        }
        for &guid in topology.changes_since(before.id())? {
            links.renew(topology, fabric.node_of(guid)?)?;
        }
        Some(links)
    }

    /// Reads the limits at a node again; `None` if the limits of a link to a switch differ from
    /// those of the other links.
    fn renew(&mut self, topology: &Topology, node: &Node) -> Option<()> {
        let Some(switch) = topology.switch_by_guid(node.guid) else {
            return Some(());
        };
        let first = self.start[switch.index()] as usize;
        let ports = topology.port_uses(switch).len();
        let next_start = self.start.get(switch.index() + 1);
        if first + ports != next_start.map_or(self.limits.len(), |&next| next as usize) {
            return None;
        }
        let held = &mut self.limits[first..first + ports];
        for (held, (limits, is_link)) in held.iter_mut().zip(at_ports(topology, switch, Some(node)))
        {
            *held = limits;
            if is_link && self.uniform != Some(limits) {
                return None;
            }
        }
        Some(())
    }

    /// The links of all switches in `topology`.
    pub(crate) fn of(fabric: &Fabric, topology: &Topology) -> Links {
        let mut links = Links {
            start: Vec::with_capacity(topology.switch_count()),
            limits: Vec::new(),
            uniform: None,
        };
        let mut has_differing = false;
        for (index, switch) in topology.indices().zip(topology.switches()) {
            links.start.push(links.limits.len() as u32);
            let node = fabric.find(switch.guid).map(|ix| fabric.node(ix));
            for (limits, is_link) in at_ports(topology, index, node) {
                links.limits.push(limits);
                if is_link {
                    has_differing |= *links.uniform.get_or_insert(limits) != limits;
                }
            }
        }
        links.uniform = links.uniform.filter(|_| !has_differing);
        links
    }

    /// The limits of the link at a port of a switch.
    pub(crate) fn of_port(&self, switch: SwitchIdx, port: PortNum) -> Limits {
        self.limits[self.start[switch.index()] as usize + port.index()]
    }
}

/// The limits of the link at each port of the switch `node`, and whether that link leads to a
/// switch.
fn at_ports(
    topology: &Topology,
    switch: SwitchIdx,
    node: Option<&Node>,
) -> impl Iterator<Item = (Limits, bool)> {
    (0..topology.port_uses(switch).len()).map(move |number| {
        let port = node.and_then(|node| node.ports.get(number));
        let is_link = topology.peer(switch, PortNum(number as u8)).is_some();
        (port.map_or(Limits::LEAST, of_port), is_link)
    })
}

/// The limits of a port and its link; the lowest limits if the PortInfo is unknown.
fn of_port(port: &Port) -> Limits {
    port.info.as_ref().map_or(Limits::LEAST, Limits::of_link)
}

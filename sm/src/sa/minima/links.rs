//! Links between switches and attachments of end ports, which make up the paths of a snapshot.

use rsm_ids::PortNum;
use rsm_routing::topology::{SwitchIdx, Topology};

use super::limits::Limits;
use crate::fabric::{Fabric, Port, PortRef};
use crate::sa::ends::EndPort;

/// How an end port is attached to the fabric.
#[derive(Clone, Copy, Debug)]
pub(in crate::sa) struct Attachment {
    /// The switch that it is at, or is the port 0 of; `None` where the plan does not reach it.
    pub(in crate::sa) switch: Option<SwitchIdx>,
    /// The limits of its link; none for a switch's port 0, which has no link.
    pub(in crate::sa) link: Limits,
    /// The limits of packets to itself.
    pub(in crate::sa) own: Limits,
    /// The end port at the other end of its cable, where no switch is between them.
    pub(in crate::sa) neighbour: Option<PortRef>,
    pub(in crate::sa) at: PortRef,
}

/// The limits of the links out of each port of each switch.
#[derive(PartialEq, Eq, Debug)]
pub(in crate::sa) struct Links {
    /// First entry of each switch in `limits`.
    start: Vec<u32>,
    limits: Vec<Limits>,
    /// The limits of all links between switches, if they are the same.
    pub(in crate::sa) uniform: Option<Limits>,
}

impl Attachment {
    pub(in crate::sa) fn is_port0(&self) -> bool {
        self.at.port == PortNum::ZERO
    }

    pub(in crate::sa) fn of(fabric: &Fabric, topology: &Topology, end: &EndPort) -> Attachment {
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

impl Links {
    pub(in crate::sa) fn of(fabric: &Fabric, topology: &Topology) -> Links {
        let mut links = Links {
            start: Vec::with_capacity(topology.switch_count()),
            limits: Vec::new(),
            uniform: None,
        };
        let mut different = false;
        for (index, switch) in topology.indices().zip(topology.switches()) {
            links.start.push(links.limits.len() as u32);
            let node = fabric.find(switch.guid).map(|ix| fabric.node(ix));
            for number in 0..topology.port_uses(index).len() {
                let port = node.and_then(|node| node.ports.get(number));
                let limits = port.map_or(Limits::LEAST, of_port);
                links.limits.push(limits);
                if topology.peer(index, PortNum(number as u8)).is_some() {
                    different |= *links.uniform.get_or_insert(limits) != limits;
                }
            }
        }
        links.uniform = links.uniform.filter(|_| !different);
        links
    }

    pub(in crate::sa) fn of_port(&self, switch: SwitchIdx, port: PortNum) -> Limits {
        self.limits[self.start[switch.index()] as usize + port.index()]
    }
}

fn of_port(port: &Port) -> Limits {
    port.info.as_ref().map_or(Limits::LEAST, Limits::of_link)
}

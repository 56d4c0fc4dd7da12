//! From lines to nodes and cables.

use std::collections::{BTreeMap, HashMap};

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::line::{Address, Attribute, Header, PortLine};
use super::{Fault, NodeId, ParseReason, Parsed, Warning, WarningKind, check_node_count, id_text};
use crate::netlist::{
    Cable, CableEnd, LinkRate, LinkSpeed, LinkWidth, MAX_DESCRIPTION, Netlist, NetlistError, Node,
    NodeKind, PortSpec,
};

/// The rate of a link without one: every port supports it.
const SLOWEST: LinkRate = LinkRate {
    width: LinkWidth::X4,
    speed: LinkSpeed::Sdr,
};

/// Attributes since the last header, of the node that follows.
#[derive(Default)]
struct Pending {
    vendor_id: u32,
    device_id: u16,
    system_image_guid: Guid,
    guid: Option<(Guid, Option<Guid>)>,
    any: bool,
}

/// A port line, still without its other end.
struct Link {
    line: usize,
    peer: NodeId,
    peer_port: u64,
    peer_guid: Option<Guid>,
    peer_lid: Option<Lid>,
    rate: Option<LinkRate>,
}

/// The nodes and links read so far.
#[derive(Default)]
pub(super) struct Assembly {
    pending: Pending,
    nodes: Vec<Node>,
    /// The line of each node's header.
    node_lines: Vec<usize>,
    by_id: HashMap<NodeId, usize>,
    links: BTreeMap<CableEnd, Link>,
    /// The line in which each end port's address is stated.
    address_lines: HashMap<CableEnd, usize>,
    warnings: Vec<Warning>,
}

impl Assembly {
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn noise(&mut self, line: usize) {
        if let Some(Warning {
            kind: WarningKind::Ignored { last_line },
            ..
        }) = self.warnings.last_mut()
            && *last_line + 1 == line
        {
            *last_line = line;
            return;
        }
        self.warn(line, WarningKind::Ignored { last_line: line });
    }

    pub(super) fn attribute(&mut self, attribute: Attribute) {
        self.pending.any = true;
        match attribute {
            Attribute::VendorId(id) => self.pending.vendor_id = id,
            Attribute::DeviceId(id) => self.pending.device_id = id,
            Attribute::SystemImageGuid(guid) => self.pending.system_image_guid = guid,
            Attribute::Guid(guid, port) => self.pending.guid = Some((guid, port)),
        }
    }

    pub(super) fn header(&mut self, header: Header, line: usize) -> Result<(), Fault> {
        let fault = |reason| (line, reason);
        check_node_count(self.nodes.len()).map_err(fault)?;
        let (kind, guid) = header.id;
        let pending = std::mem::take(&mut self.pending);
        let mut port_guid = None;
        if let Some((attribute, port)) = pending.guid {
            if attribute != guid {
                return Err(fault(ParseReason::GuidMismatch {
                    identifier: guid,
                    attribute,
                }));
            }
            port_guid = port;
        }
        let index = self.nodes.len();
        if let Some(first) = self.by_id.insert(header.id, index) {
            return Err(fault(ParseReason::DuplicateNode {
                id: self.nodes[first].id(),
                first_line: self.node_lines[first],
            }));
        }
        let mut description = header.description;
        if description.len() > MAX_DESCRIPTION {
            let len = description.len();
            self.warn(line, WarningKind::LongDescription { len });
            description.truncate(MAX_DESCRIPTION);
        }
        self.nodes.push(Node {
            kind,
            guid,
            system_image_guid: pending.system_image_guid,
            vendor_id: pending.vendor_id,
            device_id: pending.device_id,
            description,
            num_ports: header.num_ports,
            enhanced_port0: header.enhanced_port0,
            ports: BTreeMap::new(),
        });
        self.node_lines.push(line);
        if kind == NodeKind::Switch {
            self.state(
                (index, PortNum::ZERO),
                (port_guid, header.lid, header.lmc),
                line,
            );
        }
        Ok(())
    }

    pub(super) fn port(&mut self, port: PortLine, line: usize) -> Result<(), Fault> {
        let end = self.own_end(&port.own, line)?;
        if let Some(first) = self.links.get(&end) {
            return Err(duplicate_port(end, first.line, line));
        }
        if port.rate.is_none() {
            self.warn(line, WarningKind::NoRate);
        }
        if self.nodes[end.0].kind != NodeKind::Switch {
            self.state(end, (port.own.guid, port.own.lid, port.own.lmc), line);
        }
        self.links.insert(
            end,
            Link {
                line,
                peer: port.peer,
                peer_port: port.peer_port,
                peer_guid: port.peer_guid,
                peer_lid: port.peer_lid,
                rate: port.rate,
            },
        );
        Ok(())
    }

    pub(super) fn unplugged(&mut self, port: Address, line: usize) -> Result<(), Fault> {
        // Unlike a link this is a comment, which may hold any text.
        let in_node = !self.pending.any
            && self.nodes.last().is_some_and(|node| {
                node.kind != NodeKind::Switch && port.port <= u64::from(node.num_ports)
            });
        if !in_node || port.port == 0 {
            return Ok(());
        }
        let end = self.own_end(&port, line)?;
        if let Some(&first) = self.address_lines.get(&end) {
            return Err(duplicate_port(end, first, line));
        }
        self.state(end, (port.guid, port.lid, port.lmc), line);
        Ok(())
    }

    /// The port of the node being read that a line is about.
    fn own_end(&self, port: &Address, line: usize) -> Result<CableEnd, Fault> {
        let Some(node) = self.nodes.last().filter(|_| !self.pending.any) else {
            return Err((line, ParseReason::NoHeader));
        };
        let number = port_number(port.port, node.num_ports).map_err(|reason| (line, reason))?;
        Ok((self.nodes.len() - 1, number))
    }

    /// Record the statement about an end port, unless it is empty.
    fn state(&mut self, end: CableEnd, (guid, lid, lmc): (Option<Guid>, Lid, Lmc), line: usize) {
        if guid.is_none() && lid == Lid::NONE && lmc == Lmc::ZERO {
            return;
        }
        let node = &mut self.nodes[end.0];
        let guid = guid.unwrap_or_else(|| node.port(end.1).guid);
        node.ports.insert(end.1, PortSpec { guid, lid, lmc });
        self.address_lines.insert(end, line);
    }

    fn warn(&mut self, line: usize, kind: WarningKind) {
        self.warnings.push(Warning { line, kind });
    }

    pub(super) fn finish(mut self) -> Result<Parsed, Fault> {
        let links = std::mem::take(&mut self.links);
        let mut cables = Vec::with_capacity(links.len() / 2 + 1);
        // Ports that only their other end mentions, and the line.
        let mut claimed: HashMap<CableEnd, usize> = HashMap::new();
        for (&end, link) in &links {
            let Some(&peer) = self.by_id.get(&link.peer) else {
                let id = id_text(link.peer);
                self.warn(link.line, WarningKind::UnknownPeer { id });
                continue;
            };
            let peer_port = port_number(link.peer_port, self.nodes[peer].num_ports)
                .map_err(|reason| (link.line, reason))?;
            let there = (peer, peer_port);
            self.hear_of_peer(there, link);
            if let Some(back) = links.get(&there) {
                let here = &self.nodes[end.0];
                if back.peer != (here.kind, here.guid) || back.peer_port != u64::from(end.1.0) {
                    return Err(self.contradiction(link.line, there, back.line));
                }
                if end <= there {
                    cables.push(cable(end, there, self.agreed_rate(link, back)));
                }
            } else {
                if let Some(other_line) = claimed.insert(there, link.line) {
                    return Err(self.contradiction(link.line, there, other_line));
                }
                let id = self.nodes[peer].id();
                let port = peer_port;
                self.warn(link.line, WarningKind::OneSided { id, port });
                cables.push(cable(end, there, link.rate.unwrap_or(SLOWEST)));
            }
        }
        self.warnings.sort_by_key(|warning| warning.line);
        let netlist = Netlist::new(self.nodes, cables).map_err(|error| {
            let node_named = |id: &str| {
                let node = self.by_id.iter().find(|(node, _)| id_text(**node) == id);
                node.map_or(0, |(_, &index)| index)
            };
            locate(error, node_named, &self.node_lines, &self.address_lines)
        })?;
        Ok(Parsed {
            netlist,
            warnings: self.warnings,
        })
    }

    /// Compare a link's statement about the port at its other end with that node's own, or take it
    /// where the node has none.
    fn hear_of_peer(&mut self, there: CableEnd, link: &Link) {
        let node = &self.nodes[there.0];
        let end_port = match node.kind {
            NodeKind::Switch => (there.0, PortNum::ZERO),
            NodeKind::Ca | NodeKind::Router => there,
        };
        let Some(own) = node.ports.get(&end_port.1).copied() else {
            let lid = link.peer_lid.unwrap_or(Lid::NONE);
            self.state(end_port, (link.peer_guid, lid, Lmc::ZERO), link.line);
            return;
        };
        if let Some(here) = link.peer_guid
            && here != own.guid
        {
            let there = own.guid;
            self.warn(link.line, WarningKind::PeerGuidMismatch { here, there });
        }
        if let Some(here) = link.peer_lid
            && here != own.lid
        {
            let there = own.lid;
            self.warn(link.line, WarningKind::PeerLidMismatch { here, there });
        }
    }

    fn agreed_rate(&mut self, one: &Link, other: &Link) -> LinkRate {
        let (Some(here), Some(there)) = (one.rate, other.rate) else {
            return one.rate.or(other.rate).unwrap_or(SLOWEST);
        };
        if here != there {
            let other_line = other.line;
            let kind = WarningKind::RateMismatch {
                here,
                there,
                other_line,
            };
            self.warn(one.line, kind);
        }
        LinkRate {
            width: here.width.min(there.width),
            speed: here.speed.min(there.speed),
        }
    }

    fn contradiction(&self, line: usize, there: CableEnd, other_line: usize) -> Fault {
        let id = self.nodes[there.0].id();
        let port = there.1;
        (
            line,
            ParseReason::Contradiction {
                id,
                port,
                other_line,
            },
        )
    }
}

fn cable(a: CableEnd, b: CableEnd, rate: LinkRate) -> Cable {
    Cable {
        a,
        b,
        width: rate.width,
        speed: rate.speed,
    }
}

fn port_number(port: u64, num_ports: u8) -> Result<PortNum, ParseReason> {
    u8::try_from(port)
        .ok()
        .filter(|port| (1..=num_ports).contains(port))
        .map(PortNum)
        .ok_or(ParseReason::PortNumber { port, num_ports })
}

fn duplicate_port(end: CableEnd, first_line: usize, line: usize) -> Fault {
    let port = end.1;
    (line, ParseReason::DuplicatePort { port, first_line })
}

/// Say in which lines a rule of the whole fabric is broken.
fn locate(
    error: NetlistError,
    node_named: impl Fn(&str) -> usize,
    node_lines: &[usize],
    address_lines: &HashMap<CableEnd, usize>,
) -> Fault {
    let node_line = |index: usize| node_lines.get(index).copied().unwrap_or(1);
    let port_line = |index, port| {
        address_lines
            .get(&(index, port))
            .copied()
            .unwrap_or_else(|| node_line(index))
    };
    match error {
        NetlistError::DuplicateNodeGuid {
            guid,
            first,
            second,
        } => (
            node_line(second),
            ParseReason::DuplicateNode {
                id: format!("with GUID {guid}"),
                first_line: node_line(first),
            },
        ),
        NetlistError::DuplicatePortGuid {
            guid,
            first,
            first_port,
            second,
            second_port,
        } => (
            port_line(second, second_port),
            ParseReason::DuplicatePortGuid {
                guid,
                first_line: port_line(first, first_port),
            },
        ),
        // The node's GUID is too high to derive a port GUID from, and none is stated.
        NetlistError::ZeroPortGuid { ref id, port } => {
            let line = port_line(node_named(id), port);
            (line, ParseReason::Fabric(error))
        }
        // Each of the others is refused while lines are read.
        error => (node_line(0), ParseReason::Fabric(error)),
    }
}

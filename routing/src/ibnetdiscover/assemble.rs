//! Builds nodes and links from lines.

use std::collections::{BTreeMap, HashMap};

use rsm_ids::{Guid, Lid, Lmc, PortNum};

use super::line::{Address, Attribute, Attributes, Header, Peer, PortLine, PortRate, StatedPart};
use super::{Fault, LeftOut, ParseReason, Strictness, Warning, WarningKind, check_node_count};
use crate::netlist::{CableEnd, MAX_DESCRIPTION, NetlistError, Node, NodeKind, PortSpec};

/// The attributes read since the last header, which belong to the next node.
#[derive(Default)]
struct Pending {
    attributes: Attributes,
    /// The line number of the first of these attributes.
    line: Option<usize>,
}

/// A port line whose other end is not resolved yet.
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) peer: Peer,
    pub(super) peer_port: u64,
    pub(super) peer_guid: Option<Guid>,
    pub(super) peer_lid: Option<Lid>,
    pub(super) rate: PortRate,
}

/// The nodes and links read so far.
pub(super) struct Assembly {
    strictness: Strictness,
    pending: Pending,
    /// The index of the node to which the next port lines belong.
    current: Option<usize>,
    /// The index of the warning about port lines without a node.
    orphans: Option<usize>,
    /// The index of the warning about system image GUIDs in place of node GUIDs.
    system_images: Option<usize>,
    pub(super) nodes: Vec<Node>,
    /// The line of each node's header.
    node_lines: Vec<usize>,
    by_guid: HashMap<Guid, usize>,
    by_name: HashMap<Vec<u8>, usize>,
    pub(super) links: BTreeMap<CableEnd, Link>,
    /// The line in which each end port's address is stated.
    address_lines: HashMap<CableEnd, usize>,
    pub(super) warnings: Vec<Warning>,
}

impl Assembly {
    pub(super) fn new(strictness: Strictness) -> Assembly {
        Assembly {
            strictness,
            pending: Pending::default(),
            current: None,
            orphans: None,
            system_images: None,
            nodes: Vec::new(),
            node_lines: Vec::new(),
            by_guid: HashMap::new(),
            by_name: HashMap::new(),
            links: BTreeMap::new(),
            address_lines: HashMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Records a line that is not part of a topology.
    pub(super) fn skip_line(&mut self, line: usize) {
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

    /// Adds an attribute of the next node.
    pub(super) fn add_attribute(&mut self, attribute: Attribute, line: usize) {
        // A second value belongs to another node, so that the header of the first node is missing.
        if self.pending.attributes.has(&attribute) {
            self.drop_pending();
        }
        self.end_record();
        self.pending.line.get_or_insert(line);
        self.pending.attributes.set(attribute);
    }

    /// Ends the current node: port lines belong to no node until the next header.
    pub(super) fn end_record(&mut self) {
        self.current = None;
        self.orphans = None;
    }

    /// Drops attributes that no header follows, with a warning.
    pub(super) fn drop_pending(&mut self) {
        if let Some(line) = std::mem::take(&mut self.pending).line {
            self.warn(line, WarningKind::NoNode);
        }
    }

    /// Adds a node.
    pub(super) fn add_node(&mut self, header: Header, line: usize) -> Result<(), Fault> {
        self.end_record();
        check_node_count(self.nodes.len()).map_err(|reason| (line, reason))?;
        self.check_unique(&header)
            .map_err(|reason| (line, reason))?;
        let pending = std::mem::take(&mut self.pending).attributes;
        let attributes = header.attributes.unwrap_or(pending);
        let (kind, guid) = header.id;
        let port_guid = self.port0_guid((kind, guid), &attributes, line)?;
        let description = self.cut_off(header.description, line);
        let index = self.nodes.len();
        self.nodes.push(Node {
            kind,
            guid,
            system_image_guid: attributes.system_image_guid.unwrap_or(Guid::ZERO),
            vendor_id: attributes.vendor_id.unwrap_or(0),
            device_id: attributes.device_id.unwrap_or(0),
            description,
            num_ports: header.num_ports,
            enhanced_port0: header.enhanced_port0,
            ports: BTreeMap::new(),
        });
        self.node_lines.push(line);
        self.by_guid.insert(guid, index);
        if let Some(name) = header.name {
            self.by_name.insert(name, index);
        }
        self.current = Some(index);
        if kind == NodeKind::Switch {
            self.set_address(
                (index, PortNum::ZERO),
                (port_guid, header.lid, header.lmc),
                line,
            );
        }
        Ok(())
    }

    /// Checks that the GUID is not zero, and that no earlier node has the same GUID or name.
    fn check_unique(&self, header: &Header) -> Result<(), ParseReason> {
        let (kind, guid) = header.id;
        if guid.is_zero() {
            let index = self.nodes.len();
            return Err(ParseReason::Fabric(NetlistError::ZeroGuid { index }));
        }
        let named = header.name.as_ref().and_then(|name| {
            let index = self.by_name.get(name)?;
            Some((*index, String::from_utf8_lossy(name).into_owned()))
        });
        let twin = self.by_guid.get(&guid).map(|&index| {
            let node = &self.nodes[index];
            let is_same = node.kind == kind;
            (
                index,
                if is_same {
                    node.id()
                } else {
                    format!("with GUID {guid}")
                },
            )
        });
        match named.or(twin) {
            Some((first, id)) => Err(ParseReason::DuplicateNode {
                id,
                first_line: self.node_lines[first],
            }),
            None => Ok(()),
        }
    }

    /// The port GUID in `switchguid=`; `None` if there is none, or if that line does not state the
    /// node's own GUID.
    ///
    /// Some versions of ibdiagnet print the system image GUID there, which all switches of a
    /// chassis share. The header identifies the node.
    fn port0_guid(
        &mut self,
        (kind, identifier): (NodeKind, Guid),
        attributes: &Attributes,
        line: usize,
    ) -> Result<Option<Guid>, Fault> {
        let Some((attribute, port_guid)) = attributes.guid else {
            return Ok(None);
        };
        if attribute == identifier {
            return Ok(port_guid);
        }
        let reason = ParseReason::GuidMismatch {
            identifier,
            attribute,
        };
        if attributes.system_image_guid == Some(attribute) {
            self.count_system_image_guid(line);
        } else if kind == NodeKind::Switch {
            self.left_out(line, LeftOut::Guid, reason);
        } else {
            self.refuse_part(line, LeftOut::Guid, reason)?;
        }
        Ok(None)
    }

    /// Counts a node with the system image GUID in place of its own.
    fn count_system_image_guid(&mut self, line: usize) {
        let first = *self.system_images.get_or_insert(self.warnings.len());
        if let Some(Warning {
            kind: WarningKind::SystemImageGuid { nodes },
            ..
        }) = self.warnings.get_mut(first)
        {
            *nodes += 1;
        } else {
            self.warn(line, WarningKind::SystemImageGuid { nodes: 1 });
        }
    }

    /// Cuts off a description after the bytes that a node can hold, with a warning.
    fn cut_off(&mut self, mut description: Vec<u8>, line: usize) -> Vec<u8> {
        if description.len() > MAX_DESCRIPTION {
            let len = description.len();
            self.warn(line, WarningKind::LongDescription { len });
            description.truncate(MAX_DESCRIPTION);
        }
        description
    }

    /// Adds a link, and the address of its port.
    pub(super) fn add_link(&mut self, port: PortLine, line: usize) -> Result<(), Fault> {
        let end = self.own_end(&port.own, line)?;
        if let Some(first) = self.links.get(&end) {
            return Err(duplicate_port(end, first.line, line));
        }
        let mut peer_lid = port.peer_lid;
        if self.nodes[end.0].kind != NodeKind::Switch {
            self.set_address(end, (port.own.guid, port.own.lid, port.own.lmc), line);
            // In a line without a description, the port's own LID was read for both ends.
            peer_lid = peer_lid.filter(|lid| *lid != port.own.lid);
        }
        self.links.insert(
            end,
            Link {
                line,
                peer: port.peer,
                peer_port: port.peer_port,
                peer_guid: port.peer_guid,
                peer_lid,
                rate: port.rate,
            },
        );
        Ok(())
    }

    /// Adds the address of a port without a cable.
    pub(super) fn add_unplugged(&mut self, port: Address, line: usize) -> Result<(), Fault> {
        // The line is a comment, and may be about anything else.
        let in_node = self.current.is_some_and(|index| {
            let node = &self.nodes[index];
            node.kind != NodeKind::Switch && port.port <= u64::from(node.num_ports)
        });
        if !in_node || port.port == 0 {
            return Ok(());
        }
        let end = self.own_end(&port, line)?;
        if let Some(&first) = self.address_lines.get(&end) {
            return Err(duplicate_port(end, first, line));
        }
        self.set_address(end, (port.guid, port.lid, port.lmc), line);
        Ok(())
    }

    /// The port, of the current node, that a line is about.
    fn own_end(&self, port: &Address, line: usize) -> Result<CableEnd, Fault> {
        let Some(index) = self.current else {
            return Err((line, ParseReason::NoHeader));
        };
        let number = port_number(port.port, self.nodes[index].num_ports);
        Ok((index, number.map_err(|reason| (line, reason))?))
    }

    /// Records the address that a line states for an end port, unless the line states none.
    pub(super) fn set_address(
        &mut self,
        end: CableEnd,
        (guid, lid, lmc): (Option<Guid>, Lid, Lmc),
        line: usize,
    ) {
        if guid.is_none() && lid == Lid::NONE && lmc == Lmc::ZERO {
            return;
        }
        let node = &mut self.nodes[end.0];
        let guid = guid.unwrap_or_else(|| node.port(end.1).guid);
        node.ports.insert(end.1, PortSpec { guid, lid, lmc });
        self.address_lines.insert(end, line);
    }

    /// The index of the node at the other end of a link; `None` if it is not in the file.
    pub(super) fn index_of(&self, peer: &Peer) -> Option<usize> {
        match peer {
            Peer::Id((kind, guid)) => {
                let index = *self.by_guid.get(guid)?;
                (self.nodes[index].kind == *kind).then_some(index)
            }
            Peer::Name(name) => self.by_name.get(name).copied(),
        }
    }

    /// The line that states the address of an end port, else the line of its node.
    pub(super) fn address_line(&self, end: CableEnd) -> usize {
        let stated = self.address_lines.get(&end);
        *stated.unwrap_or(&self.node_lines[end.0])
    }

    pub(super) fn warn(&mut self, line: usize, kind: WarningKind) {
        self.warnings.push(Warning { line, kind });
    }

    /// Leaves out a line that could not be read, with the part of the fabric that it spoils. In a
    /// strict reading, or if there are too many nodes, returns the fault as the error of the file.
    pub(super) fn refuse_line(
        &mut self,
        (line, reason): Fault,
        part: StatedPart,
    ) -> Result<(), Fault> {
        let is_orphan = reason == ParseReason::NoHeader;
        let of_orphans = self.orphans.filter(|_| is_orphan || self.current.is_none());
        match part {
            StatedPart::Port => {
                if let Some(index) = of_orphans
                    && let Some(warning) = self.warnings.get_mut(index)
                {
                    warning.extend_to(line);
                    return Ok(());
                }
                let index = self.warnings.len();
                self.refuse_part(line, LeftOut::Lines { last_line: line }, reason)?;
                self.orphans = is_orphan.then_some(index);
            }
            StatedPart::Attribute => {
                self.refuse_part(line, LeftOut::Lines { last_line: line }, reason)?;
                self.end_record();
            }
            StatedPart::Node => {
                let index = self.warnings.len();
                self.refuse_part(line, LeftOut::Node { last_line: line }, reason)?;
                self.end_record();
                self.pending = Pending::default();
                self.orphans = Some(index);
            }
        }
        Ok(())
    }

    /// The error of the first part that was left out; `None` if nothing was.
    pub(super) fn first_left_out(&self) -> Option<Fault> {
        self.warnings
            .iter()
            .find_map(|warning| match &warning.kind {
                WarningKind::LeftOut { reason, .. } => Some((warning.line, reason.clone())),
                _ => None,
            })
    }

    /// Leaves out a part of the fabric, with a warning; or returns the error of the file, as
    /// [`Assembly::refuse_line`] does.
    pub(super) fn refuse_part(
        &mut self,
        line: usize,
        part: LeftOut,
        reason: ParseReason,
    ) -> Result<(), Fault> {
        if self.strictness == Strictness::Strict || reason == ParseReason::TooManyNodes {
            return Err((line, reason));
        }
        self.left_out(line, part, reason);
        Ok(())
    }

    /// Warns that a part is left out.
    fn left_out(&mut self, line: usize, part: LeftOut, reason: ParseReason) {
        self.warn(line, WarningKind::LeftOut { part, reason });
    }
}

/// The number of an external port; fails if the node does not have it.
pub(super) fn port_number(port: u64, num_ports: u8) -> Result<PortNum, ParseReason> {
    u8::try_from(port)
        .ok()
        .filter(|port| (1..=num_ports).contains(port))
        .map(PortNum)
        .ok_or(ParseReason::PortNumber { port, num_ports })
}

/// The error that a port is described twice.
fn duplicate_port(end: CableEnd, first_line: usize, line: usize) -> Fault {
    let port = end.1;
    (line, ParseReason::DuplicatePort { port, first_line })
}

//! Parses a single line of the file.

use rsm_ids::{Guid, Lid, Lmc};

use super::comment::{address, comment, rate, words};
use super::cursor::{Cursor, quote};
use super::{NodeId, ParseReason, id_text};
use crate::netlist::{LinkRate, MAX_PORTS, NodeKind};

/// The content of a line.
pub(super) enum Line {
    /// Blank, or a comment.
    Empty,
    /// Text that is not part of a topology.
    Noise,
    /// An attribute of the next node.
    Attribute(Attribute),
    /// A setting in an ibsim netlist.
    Setting,
    /// The header of a node.
    Header(Header),
    /// A link of the current node.
    Port(PortLine),
    /// The address of an end port without a cable, stated in a comment.
    Unplugged(Address),
}

/// A line with an attribute of a node, such as `vendid=0x2c9`.
pub(super) enum Attribute {
    VendorId(u32),
    DeviceId(u16),
    SystemImageGuid(Guid),
    /// The node's own GUID and, for switches, the GUID of port 0.
    Guid(Guid, Option<Guid>),
}

/// The stated attributes of a node.
#[derive(Clone, Copy, Default)]
pub(super) struct Attributes {
    pub(super) vendor_id: Option<u32>,
    pub(super) device_id: Option<u16>,
    pub(super) system_image_guid: Option<Guid>,
    /// The node's own GUID and, for switches, the GUID of port 0.
    pub(super) guid: Option<(Guid, Option<Guid>)>,
}

impl Attributes {
    /// Whether this attribute is already stated.
    pub(super) fn has(&self, attribute: &Attribute) -> bool {
        match attribute {
            Attribute::VendorId(_) => self.vendor_id.is_some(),
            Attribute::DeviceId(_) => self.device_id.is_some(),
            Attribute::SystemImageGuid(_) => self.system_image_guid.is_some(),
            Attribute::Guid(..) => self.guid.is_some(),
        }
    }

    /// Records an attribute.
    pub(super) fn set(&mut self, attribute: Attribute) {
        match attribute {
            Attribute::VendorId(id) => self.vendor_id = Some(id),
            Attribute::DeviceId(id) => self.device_id = Some(id),
            Attribute::SystemImageGuid(guid) => self.system_image_guid = Some(guid),
            Attribute::Guid(guid, port) => self.guid = Some((guid, port)),
        }
    }
}

/// A header: `Switch 41 "S-…" # "…" enhanced port 0 lid 73 lmc 0`.
pub(super) struct Header {
    pub(super) id: NodeId,
    /// The name in an ibsim netlist, by which links refer to the node; `None` in other files.
    pub(super) name: Option<Vec<u8>>,
    /// The attributes in an ibsim netlist; `None` in other files, in which attributes have lines of
    /// their own.
    pub(super) attributes: Option<Attributes>,
    pub(super) num_ports: u8,
    pub(super) description: Vec<u8>,
    pub(super) enhanced_port0: bool,
    pub(super) lid: Lid,
    pub(super) lmc: Lmc,
}

/// The address that a node states for one of its end ports.
pub(super) struct Address {
    pub(super) port: u64,
    pub(super) guid: Option<Guid>,
    pub(super) lid: Lid,
    pub(super) lmc: Lmc,
}

/// The node at the other end of a link.
pub(super) enum Peer {
    Id(NodeId),
    /// The name of a node in an ibsim netlist.
    Name(Vec<u8>),
}

impl Peer {
    /// The node's identifier or name, for messages.
    pub(super) fn text(&self) -> String {
        match self {
            Peer::Id(id) => id_text(*id),
            Peer::Name(name) => String::from_utf8_lossy(name).into_owned(),
        }
    }
}

/// The part of a fabric that an unreadable line states, judged by its beginning.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StatedPart {
    Attribute,
    Node,
    Port,
}

impl StatedPart {
    /// The part of a fabric that an unreadable line states.
    pub(super) fn of(line: &[u8]) -> StatedPart {
        let line = line.trim_ascii();
        let is_header = header_kind(&mut Cursor::new(line)).is_some();
        match line.first() {
            Some(b'[' | b'#' | b'@') => StatedPart::Port,
            _ if attribute_of(line).is_some() => StatedPart::Attribute,
            // A link whose beginning is missing: a port number follows an identifier.
            _ if !is_header && contains(line, b"\"[") => StatedPart::Port,
            // The line may be a header; without it, the links that follow have no node.
            _ if is_header || line.contains(&b'"') => StatedPart::Node,
            _ => StatedPart::Attribute,
        }
    }
}

/// A port line: `[1](2c9…) "S-…"[4] # lid 5 lmc 0 "…" lid 73 4xHDR`.
pub(super) struct PortLine {
    pub(super) own: Address,
    pub(super) peer: Peer,
    pub(super) peer_port: u64,
    pub(super) peer_guid: Option<Guid>,
    pub(super) peer_lid: Option<Lid>,
    pub(super) rate: PortRate,
}

/// The rate of a port according to its line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PortRate {
    /// The line states the rate.
    Written(LinkRate),
    /// The line states no rate, and an ibsim netlist gives every port this one.
    Assumed(LinkRate),
    /// The line has no readable rate.
    Missing,
}

/// Reads a line, without its line feed.
pub(super) fn read(line: &[u8]) -> Result<Line, ParseReason> {
    let line = line.trim_ascii();
    let mut cursor = Cursor::new(line);
    match line.first() {
        None => return Ok(Line::Empty),
        Some(b'#') => return Ok(unplugged(line).map_or(Line::Empty, Line::Unplugged)),
        Some(b'[') if line.get(1).is_some_and(u8::is_ascii_digit) => {
            return port(&mut cursor).map(Line::Port);
        }
        Some(_) => {}
    }
    if let Some((name, value)) = attribute_of(line) {
        return attribute(name, value).map(Line::Attribute);
    }
    if let Some(kind) = header_kind(&mut cursor) {
        return header(kind, &mut cursor).map(Line::Header);
    }
    // Prompts and headings of a terminal contain no identifier of a node. A line with one is a link
    // whose beginning is missing.
    if [b"\"S-", b"\"H-", b"\"R-"]
        .iter()
        .any(|id| contains(line, *id))
    {
        return Err(
            cursor.unexpected("a node like `Switch 41 \"S-…\"` or a port like `[7] \"S-…\"`")
        );
    }
    Ok(Line::Noise)
}

/// The attribute that a line states, and the text of its value; `None` if it states none.
fn attribute_of(line: &[u8]) -> Option<(&'static str, &[u8])> {
    const NAMES: [&str; 6] = [
        "vendid",
        "devid",
        "sysimgguid",
        "switchguid",
        "caguid",
        "rtguid",
    ];
    NAMES.into_iter().find_map(|name| {
        let value = line.strip_prefix(name.as_bytes())?;
        Some((name, value.strip_prefix(b"=")?))
    })
}

/// Reads the value of an attribute.
fn attribute(name: &'static str, value: &[u8]) -> Result<Attribute, ParseReason> {
    let bad = |expected| ParseReason::Attribute {
        attribute: name,
        value: quote(value),
        expected,
    };
    let mut cursor = Cursor::new(value);
    let mut number = |expected| cursor.hex(expected).map_err(|_| bad(expected));
    let attribute = match name {
        "vendid" => vendor_id(number(VENDOR)?).ok_or_else(|| bad(VENDOR))?,
        "devid" => device_id(number(DEVICE)?).ok_or_else(|| bad(DEVICE))?,
        "sysimgguid" => Attribute::SystemImageGuid(Guid(number(GUID)?)),
        _ => Attribute::Guid(Guid(number(GUID)?), cursor.parenthesised_guid()?),
    };
    let rest = cursor.rest().trim_ascii();
    // Chassis mode adds the position of the node in its chassis.
    if !rest.is_empty() && !rest.starts_with(b"#") {
        return Err(bad("nothing after the number"));
    }
    Ok(attribute)
}

pub(super) const VENDOR: &str = "a vendor's OUI, 0x0 to 0xffffff";
pub(super) const DEVICE: &str = "a device number, 0x0 to 0xffff";
pub(super) const GUID: &str = "a GUID like 0x2c90300001234";

/// The attribute with this vendor ID; `None` if it has more than 24 bits.
pub(super) fn vendor_id(number: u64) -> Option<Attribute> {
    let oui = u32::try_from(number).ok().filter(|oui| *oui <= 0x00ff_ffff);
    oui.map(Attribute::VendorId)
}

/// The attribute with this device ID; `None` if it has more than 16 bits.
pub(super) fn device_id(number: u64) -> Option<Attribute> {
    u16::try_from(number).ok().map(Attribute::DeviceId)
}

/// Reads the kind of node if the line starts like a header: with the kind's name and a number, with
/// or without blanks. `None`, and the cursor stays, if it does not.
pub(super) fn header_kind(cursor: &mut Cursor<'_>) -> Option<NodeKind> {
    let names: [(&[u8], NodeKind); 4] = [
        (b"Switch", NodeKind::Switch),
        (b"Ca", NodeKind::Ca),
        (b"Hca", NodeKind::Ca),
        (b"Rt", NodeKind::Router),
    ];
    for (name, kind) in names {
        let mut after = cursor.clone();
        if after.eat(name) {
            after.skip_blanks();
            if after.rest().first().is_some_and(u8::is_ascii_digit) {
                *cursor = after;
                return Some(kind);
            }
        }
    }
    None
}

/// Reads the number of ports of a header, and skips the blanks after it.
pub(super) fn port_count(cursor: &mut Cursor<'_>) -> Result<u8, ParseReason> {
    let ports = cursor.number("the number of ports")?;
    cursor.skip_blanks();
    u8::try_from(ports)
        .ok()
        .filter(|ports| (1..=MAX_PORTS).contains(ports))
        .ok_or(ParseReason::PortCount { ports })
}

/// Reads a header after its kind.
fn header(kind: NodeKind, cursor: &mut Cursor<'_>) -> Result<Header, ParseReason> {
    let num_ports = port_count(cursor)?;
    let id = cursor.identifier()?;
    if id.0 != kind {
        return Err(ParseReason::IdentifierKind {
            id: id_text(id),
            kind: match kind {
                NodeKind::Switch => "switch",
                NodeKind::Ca => "channel adapter",
                NodeKind::Router => "router",
            },
            letter: kind.letter(),
        });
    }
    let comment = comment(cursor)?;
    let description = match comment.description {
        Some(description) => description,
        None if comment.before.is_empty() => Vec::new(),
        None => return Err(cursor.unexpected("`#` and a description between double quotes")),
    };
    let (lid, lmc) = address(comment.after)?;
    Ok(Header {
        id,
        name: None,
        attributes: None,
        num_ports,
        description,
        enhanced_port0: kind == NodeKind::Switch
            && words(comment.after).any(|word| word == b"enhanced"),
        lid: lid.unwrap_or(Lid::NONE),
        lmc,
    })
}

/// Reads a port line.
fn port(cursor: &mut Cursor<'_>) -> Result<PortLine, ParseReason> {
    let port = cursor.bracketed_port()?;
    cursor.skip_blanks();
    let guid = cursor.parenthesised_guid()?;
    cursor.skip_blanks();
    let peer = cursor.identifier()?;
    let peer_port = cursor.bracketed_port()?;
    cursor.skip_blanks();
    let peer_guid = cursor.parenthesised_guid()?;
    let comment = comment(cursor)?;
    let (lid, lmc) = address(comment.before)?;
    let (peer_lid, _) = address(comment.after)?;
    Ok(PortLine {
        own: Address {
            port,
            guid,
            lid: lid.unwrap_or(Lid::NONE),
            lmc,
        },
        peer: Peer::Id(peer),
        peer_port,
        peer_guid,
        peer_lid,
        rate: rate(comment.after)?.map_or(PortRate::Missing, PortRate::Written),
    })
}

/// Reads a comment such as `# [2](2c90300001236) lid 5 lmc 0`; `None` for every other comment.
pub(super) fn unplugged(line: &[u8]) -> Option<Address> {
    let mut cursor = Cursor::new(line);
    if !cursor.eat(b"# [") {
        return None;
    }
    let port = cursor.number("").ok()?;
    let guid = cursor.eat(b"](").then(|| cursor.hex("").ok()).flatten()?;
    if !cursor.eat(b") lid ") {
        return None;
    }
    let lid = u16::try_from(cursor.number("").ok()?).ok()?;
    if !cursor.eat(b" lmc ") {
        return None;
    }
    let lmc = Lmc::new(u8::try_from(cursor.number("").ok()?).ok()?).ok()?;
    (cursor.rest().is_empty() && guid != 0).then_some(Address {
        port,
        guid: Some(Guid(guid)),
        lid: Lid(lid),
        lmc,
    })
}

/// Whether a line contains a text.
pub(super) fn contains(line: &[u8], text: &[u8]) -> bool {
    line.windows(text.len()).any(|window| window == text)
}

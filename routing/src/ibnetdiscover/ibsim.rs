//! Reads netlists of `ibsim`, the simulator of the OpenFabrics tools.
//!
//! Such netlists have nodes and links like the output of `ibnetdiscover`, but give nodes free
//! names, and set values that apply until they are set again:
//!
//! ```text
//! module="pod1"                 a prefix of the names that follow: pod1#leaf
//! switchguid=0x200000           the GUID of the next switch; those after it count up
//! switchguid+16                 the same, from the last number that was set
//! hcaguids=0x100000             the same for adapters, rtguid= for routers
//! width=2  speed=1  extspeed=0  what ports enable, as bits of PortInfo
//! Switch 8 "leaf"
//! [1] "host"[1] w=8 s=7 e=7     what this port enables
//! ```
//!
//! Numbers are decimal, octal after `0` and hexadecimal after `0x`. Nodes without a stated GUID
//! have the GUIDs that `ibsim` gives them: switches count up from 0x200000; adapters from 0x100000,
//! each taking one GUID more than it has ports. Routers start at 0x300000, because the 0 of `ibsim`
//! identifies nothing.

use std::ops::RangeInclusive;

use rsm_ids::{Guid, Lid};

use super::ParseReason;
use super::comment::{Comment, address, comment, rate, words};
use super::cursor::{Cursor, quote};
use super::line::{
    Address, Attributes, DEVICE, GUID, Header, Line, Peer, PortLine, PortRate, VENDOR, device_id,
    header_kind, port_count, unplugged, vendor_id,
};
use crate::netlist::{LinkRate, LinkSpeed, LinkWidth, NodeKind};

/// The GUIDs of the nodes of one kind.
struct GuidRange {
    /// The number that was set last, to which `+` refers.
    base: u64,
    /// The GUID of the next node.
    next: u64,
}

impl GuidRange {
    fn from(base: u64) -> GuidRange {
        GuidRange { base, next: base }
    }

    /// Sets the next GUID to a number or, if `relative`, to the number plus `base`.
    fn set(&mut self, number: u64, relative: bool) {
        if relative {
            self.next = self.base.wrapping_add(number);
        } else {
            *self = GuidRange::from(number);
        }
    }

    /// Allocates `count` GUIDs for a node and its ports, and returns the first.
    fn allocate(&mut self, count: u64) -> Guid {
        let guid = Guid(self.next);
        self.next = self.next.wrapping_add(count);
        guid
    }
}

/// The widths and speeds that a port enables, as the bits of PortInfo (IBA 14.2.5.6).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Enabled {
    width: u64,
    speed: u64,
    extended: u64,
}

impl Enabled {
    /// The settings of ibsim's ports if a netlist sets none.
    const DEFAULT: Enabled = Enabled {
        width: 2,
        speed: 1,
        extended: 0,
    };

    /// The fastest rate that the port enables.
    fn rate(self) -> LinkRate {
        let width = match self.width {
            bits if bits & 8 != 0 => LinkWidth::X12,
            bits if bits & 4 != 0 => LinkWidth::X8,
            bits if bits & 2 != 0 => LinkWidth::X4,
            bits if bits & 16 != 0 => LinkWidth::X2,
            _ => LinkWidth::X1,
        };
        let speed = match (self.extended, self.speed) {
            (bits, _) if bits & 8 != 0 => LinkSpeed::Ndr,
            (bits, _) if bits & 4 != 0 => LinkSpeed::Hdr,
            (bits, _) if bits & 2 != 0 => LinkSpeed::Edr,
            (bits, _) if bits & 1 != 0 => LinkSpeed::Fdr,
            (_, bits) if bits & 4 != 0 => LinkSpeed::Qdr,
            (_, bits) if bits & 2 != 0 => LinkSpeed::Ddr,
            _ => LinkSpeed::Sdr,
        };
        LinkRate { width, speed }
    }
}

/// The values that apply to the next lines of a netlist.
pub(super) struct Settings {
    /// The prefix of names that `module=` sets; empty if there is none.
    prefix: Vec<u8>,
    switches: GuidRange,
    adapters: GuidRange,
    routers: GuidRange,
    /// The port GUID of the next switch, as in `switchguid=0x10(11)`.
    port0: Option<Guid>,
    attributes: Attributes,
    /// The widths and speeds that the ports of the next nodes enable.
    enabled: Enabled,
    /// The widths and speeds that the ports of the node being read enable.
    enabled_of_node: Enabled,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            prefix: Vec::new(),
            switches: GuidRange::from(0x20_0000),
            adapters: GuidRange::from(0x10_0000),
            routers: GuidRange::from(0x30_0000),
            port0: None,
            attributes: Attributes::default(),
            enabled: Enabled::DEFAULT,
            enabled_of_node: Enabled::DEFAULT,
        }
    }
}

impl Settings {
    /// Reads a line, without its line feed.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<Line, ParseReason> {
        let line = line.trim_ascii();
        let mut cursor = Cursor::new(line);
        match line.first() {
            None => return Ok(Line::Empty),
            Some(b'#') => return Ok(unplugged(line).map_or(Line::Empty, Line::Unplugged)),
            Some(b'[') => return self.port(&mut cursor).map(Line::Port),
            Some(b'@') => return Err(cursor.unexpected("a port without alias, like `[7] \"S1\"`")),
            Some(_) => {}
        }
        if let Some(kind) = header_kind(&mut cursor) {
            return self.header(kind, &mut cursor).map(Line::Header);
        }
        refuse_directive(line)?;
        match setting_of(line) {
            Some((name, relative, value)) => {
                self.set(name, relative, value)?;
                Ok(Line::Setting)
            }
            None => Ok(Line::Noise),
        }
    }

    /// Applies a setting; `relative` is true for `+`.
    fn set(&mut self, name: &'static str, relative: bool, value: &[u8]) -> Result<(), ParseReason> {
        let mut cursor = Cursor::new(value);
        if name == "module" {
            self.prefix = plain_name(&mut cursor)?.to_vec();
            return Ok(());
        }
        let expected = expected_of(name);
        let bad = || ParseReason::Attribute {
            attribute: name,
            value: quote(value),
            expected,
        };
        let number = whole_number(&mut cursor).ok_or_else(bad)?;
        let bits = |range: RangeInclusive<u64>| {
            let number = Some(number).filter(|number| range.contains(number));
            number.ok_or_else(bad)
        };
        let attributes = &mut self.attributes;
        match name {
            "vendid" => attributes.set(vendor_id(number).ok_or_else(bad)?),
            "devid" => attributes.set(device_id(number).ok_or_else(bad)?),
            "sysimgguid" => attributes.system_image_guid = Some(Guid(number)),
            "width" => self.enabled.width = bits(WIDTHS)?,
            "speed" => self.enabled.speed = bits(SPEEDS)?,
            "extspeed" => self.enabled.extended = bits(EXTENDED)?,
            "switchguid" => {
                self.port0 = cursor.parenthesised_guid()?;
                self.switches.set(number, relative);
            }
            "rtguid" => self.routers.set(number, relative),
            _ => self.adapters.set(number, relative),
        }
        Ok(())
    }

    /// Reads a header.
    fn header(&mut self, kind: NodeKind, cursor: &mut Cursor<'_>) -> Result<Header, ParseReason> {
        let num_ports = port_count(cursor)?;
        let name = self.name(cursor)?;
        let (options, comment) = options_and_comment(cursor)?;
        let (mut description, after) = match comment.description {
            Some(description) => (description, comment.after),
            None => unquoted_description(comment.after)?,
        };
        if description.is_empty() {
            description.clone_from(&name);
        }
        let text = if after.is_empty() { options } else { after };
        let (lid, lmc) = address(text)?;
        let (guid, attributes) = self.take_identity(kind, num_ports);
        self.enabled_of_node = self.enabled;
        Ok(Header {
            id: (kind, guid),
            name: Some(name),
            attributes: Some(attributes),
            num_ports,
            description,
            enhanced_port0: kind == NodeKind::Switch && words(text).any(|word| word == b"enhanced"),
            lid: lid.unwrap_or(Lid::NONE),
            lmc,
        })
    }

    /// Takes the GUID and the attributes of the next node.
    fn take_identity(&mut self, kind: NodeKind, num_ports: u8) -> (Guid, Attributes) {
        let of_ports = u64::from(num_ports) + 1;
        let guid = match kind {
            NodeKind::Switch => self.switches.allocate(1),
            NodeKind::Ca => self.adapters.allocate(of_ports),
            NodeKind::Router => self.routers.allocate(of_ports),
        };
        let port0 = match kind {
            NodeKind::Switch => self.port0.take(),
            NodeKind::Ca | NodeKind::Router => None,
        };
        let stated = self.attributes;
        // As in ibsim, the device number stays set, while the other attributes apply to one node.
        self.attributes = Attributes {
            device_id: stated.device_id,
            ..Attributes::default()
        };
        let attributes = Attributes {
            system_image_guid: stated.system_image_guid.or(Some(guid)),
            guid: Some((guid, port0)),
            ..stated
        };
        (guid, attributes)
    }

    /// Reads a port line.
    fn port(&self, cursor: &mut Cursor<'_>) -> Result<PortLine, ParseReason> {
        let port = cursor.bracketed_port()?;
        cursor.skip_blanks();
        let guid = cursor.parenthesised_guid()?;
        cursor.skip_blanks();
        let peer = Peer::Name(self.name(cursor)?);
        cursor.skip_blanks();
        let mut peer_port = 1;
        if cursor.rest().starts_with(b"[") {
            peer_port = cursor.bracketed_port()?;
        }
        cursor.skip_blanks();
        let peer_guid = cursor.parenthesised_guid()?;
        let (options, comment) = options_and_comment(cursor)?;
        // A port's own LID is among the options, or in the comment before the description.
        let (mut lid, mut lmc) = address(options)?;
        if lid.is_none() {
            (lid, lmc) = address(comment.before)?;
        }
        let peer_lid = match comment.description {
            Some(_) => address(comment.after)?.0,
            None => None,
        };
        Ok(PortLine {
            own: Address {
                port,
                guid,
                lid: lid.unwrap_or(Lid::NONE),
                lmc,
            },
            peer,
            peer_port,
            peer_guid,
            peer_lid,
            rate: self.rate(options, comment.after)?,
        })
    }

    /// The rate of a port: a stated one, else the fastest that it enables.
    fn rate(&self, options: &[u8], after: &[u8]) -> Result<PortRate, ParseReason> {
        let mut enabled = self.enabled_of_node;
        for word in words(options).chain(words(after)) {
            enable(&mut enabled, word)?;
        }
        let stated = match rate(options)? {
            Some(rate) => Some(rate),
            None => rate(after)?,
        };
        let is_default = enabled == Enabled::DEFAULT;
        Ok(match stated {
            Some(rate) => PortRate::Written(rate),
            None if is_default => PortRate::Assumed(enabled.rate()),
            None => PortRate::Written(enabled.rate()),
        })
    }

    /// Reads the name at the cursor, and adds the module's prefix if the name has none.
    fn name(&self, cursor: &mut Cursor<'_>) -> Result<Vec<u8>, ParseReason> {
        let name = plain_name(cursor)?;
        if self.prefix.is_empty() || name.contains(&b'#') {
            return Ok(name.to_vec());
        }
        Ok([&self.prefix, b"#".as_slice(), name].concat())
    }
}

/// Reads a name between quotes; names with `@` are aliases.
fn plain_name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], ParseReason> {
    const EXPECTED: &str = "a node's name like `\"S1\"`, without `@`";
    let start = cursor.clone();
    let name = cursor.quoted(EXPECTED)?;
    if name.is_empty() || name.contains(&b'@') || name.contains(&0) {
        return Err(start.unexpected(EXPECTED));
    }
    Ok(name)
}

const WIDTHS: RangeInclusive<u64> = 1..=31;
const SPEEDS: RangeInclusive<u64> = 1..=7;
const EXTENDED: RangeInclusive<u64> = 0..=15;
const EXPECTED_WIDTHS: &str = "the bits of link widths, 1 to 31";
const EXPECTED_SPEEDS: &str = "the bits of link speeds, 1 to 7";
const EXPECTED_EXTENDED: &str = "the bits of extended link speeds, 0 to 15";

/// The setting that a line makes: its name, whether it is relative (`+`), and its value.
fn setting_of(line: &[u8]) -> Option<(&'static str, bool, &[u8])> {
    const NAMES: [&str; 11] = [
        "vendid",
        "devid",
        "sysimgguid",
        "switchguid",
        "hcaguid",
        "caguid",
        "rtguid",
        "width",
        "speed",
        "extspeed",
        "module",
    ];
    NAMES.into_iter().find_map(|name| {
        let rest = line.strip_prefix(name.as_bytes())?;
        // Some files have the plural of the name.
        let rest = rest.strip_prefix(b"s").unwrap_or(rest).trim_ascii_start();
        let (sign, value) = rest.split_first()?;
        let is_setting = *sign == b'=' || *sign == b'+' && name.contains("guid");
        is_setting.then(|| (name, *sign == b'+', value.trim_ascii_start()))
    })
}

/// The expected value of a setting, for errors.
fn expected_of(name: &str) -> &'static str {
    match name {
        "vendid" => VENDOR,
        "devid" => DEVICE,
        "width" => EXPECTED_WIDTHS,
        "speed" => EXPECTED_SPEEDS,
        "extspeed" => EXPECTED_EXTENDED,
        _ => GUID,
    }
}

/// Reads a number; `None` if a letter or a digit follows, because text with letters beyond `f` is
/// no GUID.
fn whole_number(cursor: &mut Cursor<'_>) -> Option<u64> {
    let number = cursor.c_number()?;
    let follows = cursor.rest().first().is_some_and(u8::is_ascii_alphanumeric);
    (!follows).then_some(number)
}

/// Refuses directives that include other files or run console commands of ibsim: both change the
/// fabric, and neither is supported.
fn refuse_directive(line: &[u8]) -> Result<(), ParseReason> {
    let directives = [
        (b"include".as_slice(), "the lines of that file in its place"),
        (b"do", "a file without commands of ibsim's console"),
    ];
    let first = words(line).next().unwrap_or_default();
    let name = first.split(|byte| *byte == b'"').next();
    match directives.iter().find(|(known, _)| Some(*known) == name) {
        Some((_, expected)) => Err(Cursor::new(line).unexpected(expected)),
        None => Ok(()),
    }
}

/// Reads the options after a node's name, and the comment after them.
fn options_and_comment<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<(&'a [u8], Comment<'a>), ParseReason> {
    cursor.skip_blanks();
    let text = cursor.rest();
    match text.iter().position(|byte| *byte == b'#') {
        Some(at) => Ok((&text[..at], comment(&mut Cursor::new(&text[at..]))?)),
        None => Ok((text, Comment::default())),
    }
}

/// Splits a text without quotes into the description and the words about the node's port 0 and its
/// LID.
fn unquoted_description(text: &[u8]) -> Result<(Vec<u8>, &[u8]), ParseReason> {
    let ends: [&[u8]; 4] = [b" enhanced port ", b" base port ", b" lid ", b" lmc "];
    let end = ends
        .iter()
        .find_map(|end| text.windows(end.len()).position(|window| window == *end));
    let (description, rest) = text.split_at(end.unwrap_or(text.len()));
    if description.contains(&0) {
        return Err(ParseReason::DescriptionNul);
    }
    Ok((description.to_vec(), rest))
}

/// Applies an option of a port: `w=`, `s=` or `e=`.
fn enable(enabled: &mut Enabled, word: &[u8]) -> Result<(), ParseReason> {
    let options = [
        (b"w=".as_slice(), "w", WIDTHS, EXPECTED_WIDTHS),
        (b"s=", "s", 0..=*SPEEDS.end(), EXPECTED_SPEEDS),
        (b"e=", "e", EXTENDED, EXPECTED_EXTENDED),
    ];
    for (prefix, attribute, range, expected) in options {
        let Some(value) = word.strip_prefix(prefix) else {
            continue;
        };
        let number = whole_number(&mut Cursor::new(value));
        let bits = number
            .filter(|number| range.contains(number))
            .ok_or_else(|| ParseReason::Attribute {
                attribute,
                value: quote(value),
                expected,
            })?;
        match attribute {
            "w" => enabled.width = bits,
            // In ibsim, a speed of 0 means QDR.
            "s" => enabled.speed = if bits == 0 { 4 } else { bits },
            _ => enabled.extended = bits,
        }
    }
    Ok(())
}

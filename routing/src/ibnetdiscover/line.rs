//! One line of the file, by itself.

use rsm_ids::{Guid, Lid, Lmc};

use super::cursor::{Cursor, quote};
use super::text::unescape;
use super::{NodeId, ParseReason, id_text};
use crate::netlist::{LinkRate, MAX_PORTS, NodeKind};

/// The content of a line.
pub(super) enum Line {
    /// Blank, or a comment.
    Empty,
    /// Not part of a topology.
    Noise,
    /// An attribute of the node that follows.
    Attribute(Attribute),
    /// A node.
    Header(Header),
    /// A link of the node above.
    Port(PortLine),
    /// The address of an end port without cable.
    Unplugged(Address),
}

/// `vendid=0x2c9` and the like.
pub(super) enum Attribute {
    VendorId(u32),
    DeviceId(u16),
    SystemImageGuid(Guid),
    /// The node's own GUID and, for switches, port 0's.
    Guid(Guid, Option<Guid>),
}

/// `Switch 41 "S-…" # "…" enhanced port 0 lid 73 lmc 0`.
pub(super) struct Header {
    pub(super) id: NodeId,
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

/// `[1](2c9…) "S-…"[4] # lid 5 lmc 0 "…" lid 73 4xHDR`.
pub(super) struct PortLine {
    pub(super) own: Address,
    pub(super) peer: NodeId,
    pub(super) peer_port: u64,
    pub(super) peer_guid: Option<Guid>,
    pub(super) peer_lid: Option<Lid>,
    /// None where the line has none that can be read.
    pub(super) rate: Option<LinkRate>,
}

/// Read a line, without its line feed.
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
    if let Some(attribute) = attribute(&mut cursor)? {
        return Ok(Line::Attribute(attribute));
    }
    if let Some(kind) = header_kind(&mut cursor) {
        return header(kind, &mut cursor).map(Line::Header);
    }
    // A terminal adds prompts and headings, but none with a node's identifier in them: such a
    // line has lost its beginning, and with it a link.
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

fn attribute(cursor: &mut Cursor<'_>) -> Result<Option<Attribute>, ParseReason> {
    const NAMES: [&str; 6] = [
        "vendid",
        "devid",
        "sysimgguid",
        "switchguid",
        "caguid",
        "rtguid",
    ];
    let Some((name, value)) = NAMES.into_iter().find_map(|name| {
        let value = cursor.rest().strip_prefix(name.as_bytes())?;
        Some((name, value.strip_prefix(b"=")?))
    }) else {
        return Ok(None);
    };
    let bad = |expected| ParseReason::Attribute {
        attribute: name,
        value: quote(value),
        expected,
    };
    let mut cursor = Cursor::new(value);
    let attribute = match name {
        "vendid" => {
            const EXPECTED: &str = "a vendor's OUI, 0x0 to 0xffffff";
            let oui = cursor.hex(EXPECTED).map_err(|_| bad(EXPECTED))?;
            let oui = u32::try_from(oui).ok().filter(|oui| *oui <= 0x00ff_ffff);
            Attribute::VendorId(oui.ok_or_else(|| bad(EXPECTED))?)
        }
        "devid" => {
            const EXPECTED: &str = "a device number, 0x0 to 0xffff";
            let device = cursor.hex(EXPECTED).map_err(|_| bad(EXPECTED))?;
            Attribute::DeviceId(u16::try_from(device).map_err(|_| bad(EXPECTED))?)
        }
        _ => {
            const EXPECTED: &str = "a GUID like 0x2c90300001234";
            let guid = Guid(cursor.hex(EXPECTED).map_err(|_| bad(EXPECTED))?);
            if name == "sysimgguid" {
                Attribute::SystemImageGuid(guid)
            } else {
                Attribute::Guid(guid, cursor.parenthesised_guid()?)
            }
        }
    };
    if !cursor.rest().trim_ascii().is_empty() {
        return Err(bad("nothing after the number"));
    }
    Ok(Some(attribute))
}

/// The kind of node, if the line starts as a header does: its name and then, with blanks or
/// without, a number.
fn header_kind(cursor: &mut Cursor<'_>) -> Option<NodeKind> {
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

fn header(kind: NodeKind, cursor: &mut Cursor<'_>) -> Result<Header, ParseReason> {
    let ports = cursor.number("the number of ports")?;
    let num_ports = u8::try_from(ports)
        .ok()
        .filter(|ports| (1..=MAX_PORTS).contains(ports))
        .ok_or(ParseReason::PortCount { ports })?;
    cursor.skip_blanks();
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
        num_ports,
        description,
        enhanced_port0: kind == NodeKind::Switch
            && words(comment.after).any(|word| word == b"enhanced"),
        lid: lid.unwrap_or(Lid::NONE),
        lmc,
    })
}

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
        peer,
        peer_port,
        peer_guid,
        peer_lid,
        rate: words(comment.after)
            .filter_map(|word| std::str::from_utf8(word).ok())
            .find_map(|word| word.parse().ok()),
    })
}

/// `# [2](2c90300001236) lid 5 lmc 0`; every other comment is none.
fn unplugged(line: &[u8]) -> Option<Address> {
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

/// The text after the `#` that follows a node's identifier.
struct Comment<'a> {
    before: &'a [u8],
    /// None where there are no quotes; all of the comment is `before` and `after` then.
    description: Option<Vec<u8>>,
    after: &'a [u8],
}

fn comment<'a>(cursor: &mut Cursor<'a>) -> Result<Comment<'a>, ParseReason> {
    cursor.skip_blanks();
    let mut text = cursor.rest();
    if let Some(rest) = text.strip_prefix(b"#") {
        text = rest;
    } else if !text.is_empty() && !text[0].is_ascii_alphabetic() {
        return Err(cursor.unexpected("`#` and the description"));
    } else {
        // Hand-written files have options here, and no description.
        text = &[];
    }
    // Not every tool escapes quotes in a description. A line has one description, so it ends at the
    // last quote, whatever it contains.
    let is_quote = |byte: &u8| *byte == b'"';
    let Some(first) = text.iter().position(is_quote) else {
        let text = text.trim_ascii();
        return Ok(Comment {
            before: text,
            description: None,
            after: text,
        });
    };
    let last = text.iter().rposition(is_quote).unwrap_or(first);
    if last == first {
        return Err(ParseReason::OpenDescription);
    }
    let description = unescape(&text[first + 1..last]);
    if description.contains(&0) {
        return Err(ParseReason::DescriptionNul);
    }
    Ok(Comment {
        before: &text[..first],
        description: Some(description),
        after: &text[last + 1..],
    })
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The numbers after the words `lid` and `lmc`.
fn address(text: &[u8]) -> Result<(Option<Lid>, Lmc), ParseReason> {
    let value = |name: &[u8], expected| {
        let mut words = words(text).skip_while(|word| *word != name);
        words.next()?;
        Some(Cursor::new(words.next().unwrap_or(b"")).number(expected))
    };
    let lid = value(b"lid", "a LID after the word `lid`").transpose()?;
    let lmc = value(b"lmc", "an LMC after the word `lmc`").transpose()?;
    let lid = lid
        .map(|lid| u16::try_from(lid).map_err(|_| ParseReason::Lid { lid }))
        .transpose()?;
    let lmc = lmc.unwrap_or(0);
    let lmc = u8::try_from(lmc)
        .ok()
        .and_then(|bits| Lmc::new(bits).ok())
        .ok_or(ParseReason::Lmc { lmc })?;
    Ok((lid.map(Lid), lmc))
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    line.windows(text.len()).any(|window| window == text)
}

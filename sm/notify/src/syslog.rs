//! Messages to syslog (RFC 5424), and their frames on a stream (RFC 6587).

use rsm_proto::v1;

use crate::described::{Severity, rate, sentence};
use crate::source::{Source, timestamp};

/// Maximum length of a message in a datagram, in bytes; receivers should accept this length (RFC
/// 5424, 6.1).
pub const DATAGRAM_MAX: usize = 2048;

/// Maximum length of a message on a stream, in bytes; receivers accept this length by default.
pub const STREAM_MAX: usize = 8192;

/// End of a message that was cut.
const CUT: &str = "...";

/// Byte order mark before a text that is not pure ASCII (RFC 5424, 6.4).
const BOM: &str = "\u{feff}";

/// Maximum sequenceId (RFC 5424, 7.3.1).
const SEQUENCE_MAX: u64 = 2_147_483_647;

/// Formats an event as a message of at most `most` bytes; `None` for an event whose change this
/// version does not know. The structured data contains only elements registered with IANA, because
/// others would require an enterprise number; the MSGID is the name of the change.
pub fn message(source: &Source, facility: u8, event: &v1::Event, most: usize) -> Option<Vec<u8>> {
    let change = event.change.as_ref()?;
    let rating = rate(change);
    let sequence = match event.sequence {
        0 => String::new(),
        number => format!("[meta sequenceId=\"{}\"]", (number - 1) % SEQUENCE_MAX + 1),
    };
    let head = format!(
        "<{}>1 {} {} rsm {} {} [origin software=\"rsm\" swVersion=\"{}\"]{sequence} ",
        priority(facility, rating.shown),
        timestamp(event.at_unix_ms),
        header_field(&source.host, 255),
        std::process::id(),
        header_field(rating.name, 32),
        env!("CARGO_PKG_VERSION"),
    );
    let text = sentence(change);
    let bom = if text.is_ascii() { "" } else { BOM };
    Some(cut(head + bom, &text, most).into_bytes())
}

/// Formats an event for the socket of this machine, as the C library does: daemons there know the
/// host and the time of arrival, and some of them do not parse the header of RFC 5424.
pub fn local_message(facility: u8, event: &v1::Event, most: usize) -> Option<Vec<u8>> {
    let change = event.change.as_ref()?;
    let rating = rate(change);
    let head = format!(
        "<{}>rsm[{}]: {}: ",
        priority(facility, rating.shown),
        std::process::id(),
        rating.name,
    );
    Some(cut(head, &sentence(change), most).into_bytes())
}

/// Prefixes a message on a stream with its length (octet counting).
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut framed = format!("{} ", message.len()).into_bytes();
    framed.extend_from_slice(message);
    framed
}

/// PRIVAL of the header: facility and severity (RFC 5424, 6.2.1).
fn priority(facility: u8, severity: Severity) -> u8 {
    let code = match severity {
        Severity::Error => 3,
        Severity::Warning => 4,
        Severity::Info => 6,
    };
    facility * 8 + code
}

/// A field of the header: the visible ASCII of `text`, at most `most` characters; `-` if there is
/// none.
fn header_field(text: &str, most: usize) -> String {
    let visible = text.chars().filter(char::is_ascii_graphic);
    let field: String = visible.take(most).collect();
    if field.is_empty() {
        "-".to_owned()
    } else {
        field
    }
}

/// Appends `text`, and cuts the result at a character boundary to at most `most` bytes.
fn cut(mut head: String, text: &str, most: usize) -> String {
    if head.len() + text.len() <= most {
        return head + text;
    }
    let mut end = most.saturating_sub(head.len() + CUT.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    head.push_str(&text[..end]);
    head + CUT
}

//! Messages to syslog (RFC 5424), and frames of them on a stream (RFC 6587).

use rsm_proto::v1;

use crate::described::{Severity, rate, sentence};
use crate::source::{Source, timestamp};

/// Longest message in a datagram, in bytes: what receivers should take (RFC 5424, 6.1).
pub const DATAGRAM_MAX: usize = 2048;

/// Longest message on a stream, in bytes: what receivers take by default.
pub const STREAM_MAX: usize = 8192;

/// End of a message that was cut.
const CUT: &str = "...";

/// Byte order mark before a text that is not ASCII alone (RFC 5424, 6.4).
const BOM: &str = "\u{feff}";

/// Largest sequenceId (RFC 5424, 7.3.1).
const SEQUENCE_MAX: u64 = 2_147_483_647;

/// Formats an event as a message of at most `most` bytes; `None` for an event without a change that
/// this version knows. The structured data has elements that IANA has registered, because others
/// need an enterprise number: the name of the change is the MSGID.
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
        header_word(&source.host, 255),
        std::process::id(),
        header_word(rating.name, 32),
        env!("CARGO_PKG_VERSION"),
    );
    let text = sentence(change);
    let bom = if text.is_ascii() { "" } else { BOM };
    Some(cut(head + bom, &text, most).into_bytes())
}

/// Formats an event for the socket of this machine, as its C library does: daemons there know the
/// host and the time of arrival, and not all of them read the header of RFC 5424.
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

/// Puts the length before a message on a stream (octet counting).
pub fn frame(message: &[u8]) -> Vec<u8> {
    let mut framed = format!("{} ", message.len()).into_bytes();
    framed.extend_from_slice(message);
    framed
}

fn priority(facility: u8, severity: Severity) -> u8 {
    let code = match severity {
        Severity::Error => 3,
        Severity::Warning => 4,
        Severity::Info => 6,
    };
    facility * 8 + code
}

/// A word of the header: visible ASCII alone; `-` if nothing is left.
fn header_word(text: &str, most: usize) -> String {
    let visible = text.chars().filter(char::is_ascii_graphic);
    let word: String = visible.take(most).collect();
    if word.is_empty() {
        "-".to_owned()
    } else {
        word
    }
}

/// Appends `text`, and cuts it at a character so that all is at most `most` bytes long.
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

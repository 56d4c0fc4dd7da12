//! Text for people: no character of it changes how the rest is shown.

use crate::v1;

/// NodeDescription of aggregation nodes inside switches (SHARP), set by their firmware. Their
/// links are no cables, and no plan counts them among hosts.
pub const AGGREGATION_NODE: &str = "Mellanox Technologies Aggregation Node";

/// Escapes control characters, and those that change the direction or the visibility of text: names
/// of nodes come from their firmware and hosts.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_hidden = matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        );
        match c.is_control() || is_hidden {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// Text without the decoration that switches put around their host name, `MF0;leaf-03:MQM8790/U1`:
/// `leaf-03`. Of a chassis, the part stays: `MF0;core:CS8500/L01/U1` reads `core/L01`.
pub fn plain_names(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("MF") {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        match decorated(rest) {
            Some((name, length)) => {
                plain.push_str(&name);
                rest = &rest[length..];
            }
            None => {
                plain.push_str("MF");
                rest = &rest[2..];
            }
        }
    }
    plain + rest
}

/// The name in the decorated one that `text` begins with, and the length of that in bytes.
fn decorated(text: &str) -> Option<(String, usize)> {
    let (digits, behind) = text.strip_prefix("MF")?.split_once(';')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (host, model) = behind.split_once(':')?;
    let end = model.find(|c: char| !c.is_ascii_alphanumeric() && !"/-_.".contains(c));
    let model = &model[..end.unwrap_or(model.len())];
    let (_, chip) = model.split_once('/')?;
    let is_name = |c: char| !c.is_whitespace() && !",;/".contains(c);
    if host.is_empty() || !host.chars().all(is_name) {
        return None;
    }
    let part = match chip.rsplit_once('/') {
        Some((part, _)) => format!("/{part}"),
        None => String::new(),
    };
    let length = "MF".len() + digits.len() + 1 + host.len() + 1 + model.len();
    Some((format!("{host}{part}"), length))
}

impl v1::OperatorActed {
    /// Who did what, and why it was refused where it was: text from the operator, to be shown
    /// through [`printable`].
    pub fn sentence(&self) -> String {
        let what = format!("{}: {} {}", self.operator, self.action, self.detail);
        match self.refusal.as_str() {
            "" => what.trim_end().to_owned(),
            reason => format!("{} was refused: {reason}", what.trim_end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_change_how_others_are_shown_are_escaped() {
        assert_eq!(
            printable("leaf-01 P\u{fc}nktchen \u{1f600}"),
            "leaf-01 P\u{fc}nktchen \u{1f600}"
        );
        assert_eq!(printable("a\u{1b}[2J\tb"), r"a\u{1b}[2J\u{9}b");
        // A host that calls itself so would show as `gpu-07` beside another's port.
        assert_eq!(
            printable("\u{202e}70-upg\u{202c}"),
            r"\u{202e}70-upg\u{202c}"
        );
        assert_eq!(printable("leaf\u{200b}-01"), r"leaf\u{200b}-01");
    }

    #[test]
    fn names_of_switches_lose_their_decoration() {
        for (text, plain) in [
            ("MF0;leaf-03:MQM8790/U1", "leaf-03"),
            ("MF0;leaf-03:MQM8790/U1:7 - gpu-1:1", "leaf-03:7 - gpu-1:1"),
            ("MF0;core:CS8500/L01/U1 port 3", "core/L01 port 3"),
            ("to MF0;a:M/U1, MF0;b:M/U1 and 2 more", "to a, b and 2 more"),
            ("MF;x", "MF;x"),
            ("MF0;no model", "MF0;no model"),
            ("AMF0; a:b", "AMF0; a:b"),
            ("MFé", "MFé"),
        ] {
            assert_eq!(plain_names(text), plain);
        }
    }
}

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

/// Text of an error and of its causes, the nearest first: `error: cause: cause`, without causes that
/// the text before them already contains.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

/// A number with commas between groups of three digits: `18,000`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The time, in seconds, from which on a rate is over its whole window, and is shown as a rate.
const WHOLE_WINDOW_S: f64 = 600.0;

impl v1::PortCounters {
    /// A rate of errors of this port, `18,000/h`; where the errors were observed for a time shorter
    /// than the window, their number and that time: `600 in 2 min`.
    pub fn error_rate(&self, per_hour: f64) -> String {
        let observed_s = self.errors_observed_s;
        if observed_s >= WHOLE_WINDOW_S || observed_s <= 0.0 || per_hour <= 0.0 {
            return format!("{}/h", thousands(per_hour.round() as u64));
        }
        let number = thousands((per_hour * observed_s / 3600.0).round() as u64);
        match observed_s {
            short if short < 90.0 => format!("{number} in {short:.0} s"),
            short => format!("{number} in {:.0} min", short / 60.0),
        }
    }
}

impl v1::OperatorActed {
    /// Who did what, and why it was refused where it was: text from the operator, to be shown
    /// through [`printable`].
    pub fn sentence(&self) -> String {
        let what = format!("{}: {} {}", self.operator, self.action, self.detail);
        match self.refusal.as_str() {
            "" => what.trim_end().to_owned(),
            reason => format!(
                "{} was refused: {}",
                what.trim_end(),
                reason.replacen(REFUSED, "", 1)
            ),
        }
    }
}

/// The words in the reason of a refusal that say again that the request was refused.
const REFUSED: &str = "refused, and everything stays as it was: ";

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

    #[derive(Debug)]
    struct Layered(&'static str, Option<Box<Layered>>);

    impl std::fmt::Display for Layered {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Layered {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    #[test]
    fn causes_follow_their_error_once_each() {
        let error = [
            "no route to host",
            "cannot connect: no route to host",
            "cannot write",
        ];
        let error = error
            .into_iter()
            .fold(None, |cause, text| Some(Box::new(Layered(text, cause))));
        assert_eq!(
            with_causes(&*error.unwrap()),
            "cannot write: cannot connect: no route to host"
        );
        assert_eq!(with_causes(&Layered("cannot read", None)), "cannot read");
    }

    #[test]
    fn errors_of_a_time_shorter_than_the_window_are_a_number() {
        for (observed_s, per_hour, text) in [
            (120.0, 18_000.0, "600 in 2 min"),
            (15.0, 240.0, "1 in 15 s"),
            (640.0, 1_234_567.4, "1,234,567/h"),
            (0.0, 0.0, "0/h"),
            (120.0, 0.0, "0/h"),
        ] {
            let port = v1::PortCounters {
                errors_observed_s: observed_s,
                ..v1::PortCounters::default()
            };
            assert_eq!(port.error_rate(per_hour), text);
        }
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

    #[test]
    fn sentence_about_a_refused_act_says_once_that_it_was_refused() {
        let act = |refusal: &str| v1::OperatorActed {
            operator: "uid:0".to_owned(),
            action: "drain".to_owned(),
            detail: "leaf-1".to_owned(),
            refusal: refusal.to_owned(),
        };
        for (reason, expected) in [
            ("", "uid:0: drain leaf-1"),
            (
                "refused, and everything stays as it was: 1 node would be cut off: host-1",
                "uid:0: drain leaf-1 was refused: 1 node would be cut off: host-1",
            ),
            (
                "host-1 port 1: refused, and everything stays as it was: 1 node would be cut off",
                "uid:0: drain leaf-1 was refused: host-1 port 1: 1 node would be cut off",
            ),
        ] {
            assert_eq!(act(reason).sentence(), expected);
        }
    }
}

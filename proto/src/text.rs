//! Text for people: no character of it changes how the rest is shown.

use crate::v1;

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
}

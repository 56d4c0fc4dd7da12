//! Words that stand for a command with its options.

use std::ffi::OsString;

/// The words, each with its command; the long help lists them.
const SHORTHANDS: [(&str, &[&str]); 3] = [
    ("errors", &["top", "--errors"]),
    ("hosts", &["nodes", "--kind", "ca"]),
    ("switches", &["nodes", "--kind", "switch"]),
];

/// The options of all commands that take no value.
const FLAGS: [&str; 3] = ["--utc", "--wide", "--no-pager"];

/// The command line with its first word spelled out, if it is a shorthand. Options of all commands,
/// and their values, may come before it.
pub(crate) fn spelled_out(line: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut line: Vec<OsString> = line.into_iter().collect();
    for at in 1..line.len() {
        let word = line[at].to_string_lossy();
        if let Some((_, command)) = SHORTHANDS.iter().find(|(short, _)| *short == word) {
            line.splice(at..=at, command.iter().map(OsString::from));
            return line;
        }
        let before = line[at - 1].to_string_lossy();
        let is_value = before.starts_with("--") && !FLAGS.contains(&&*before);
        if !word.starts_with('-') && !is_value {
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let words = spelled_out(words).into_iter();
        let words: Vec<String> = words.map(|word| word.into_string().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn the_first_word_may_stand_for_a_command_with_options() {
        for (line, expected) in [
            ("rsmctl errors --limit 3", "rsmctl top --errors --limit 3"),
            ("rsmctl hosts", "rsmctl nodes --kind ca"),
            (
                "rsmctl --utc --server unix:s switches",
                "rsmctl --utc --server unix:s nodes --kind switch",
            ),
            ("rsmctl --wide gpu hosts", "rsmctl --wide gpu hosts"),
            ("rsmctl --wide hosts", "rsmctl --wide nodes --kind ca"),
            ("rsmctl sim errors leaf-1:1", "rsmctl sim errors leaf-1:1"),
            ("rsmctl nodes hosts", "rsmctl nodes hosts"),
            ("rsmctl", "rsmctl"),
        ] {
            assert_eq!(spelled(line), expected);
        }
    }
}

//! Suggestions for misspelt words.

use strsim::levenshtein;

/// Number of characters above which a word is not compared: such a word is no misspelling, and a
/// comparison with every name would take long.
const COMPARED: usize = 64;

/// The name that was probably intended; `None` if no name is close enough.
pub(super) fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > COMPARED {
        return None;
    }
    let most = |name: &str| name.len().max(given.len()) / 3;
    let letters = given.chars().count();
    let near = names
        // The edit distance, which takes longer to compute, is at least the difference of the
        // lengths.
        .filter(|name| name.chars().count().abs_diff(letters) <= most(name))
        .map(|name| (levenshtein(given, name), name))
        .filter(|(distance, name)| *distance <= most(name))
        .min();
    near.map(|(_, name)| name)
}

/// Lists the valid words, beginning with the one that was probably intended.
pub(super) fn one_of(given: &str, names: &[&str]) -> String {
    match nearest(given, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? There are {}", names.join(", ")),
        None => format!("expected one of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_count_and_not_their_bytes() {
        let names = ["light_interval_ms", "interval"];
        let meant = |given| nearest(given, names.iter().copied());
        assert_eq!(meant("🙂🙂🙂🙂t_interval_ms"), Some("light_interval_ms"));
        assert_eq!(meant("intervals"), Some("interval"));
        assert_eq!(meant("in"), None);
    }
}

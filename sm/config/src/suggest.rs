//! Suggestions for misspelt words.

use strsim::levenshtein;

/// Maximum length in bytes of a word that is compared with names: a longer word is no misspelling,
/// and comparing it with every name would take long.
const COMPARED_MAX: usize = 64;

/// The name that was probably intended; `None` if no name is close enough.
pub(super) fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > COMPARED_MAX {
        return None;
    }
    let max_distance = |name: &str| name.len().max(given.len()) / 3;
    let letters = given.chars().count();
    let near = names
        // The edit distance, which takes longer to compute, is at least the difference of the
        // lengths.
        .filter(|name| name.chars().count().abs_diff(letters) <= max_distance(name))
        .map(|name| (levenshtein(given, name), name))
        .filter(|(distance, name)| *distance <= max_distance(name))
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
    fn misspelt_word_with_multibyte_characters_gets_a_suggestion() {
        let names = ["light_interval_ms", "interval"];
        let meant = |given| nearest(given, names.iter().copied());
        assert_eq!(meant("🙂🙂🙂🙂t_interval_ms"), Some("light_interval_ms"));
        assert_eq!(meant("intervals"), Some("interval"));
        assert_eq!(meant("in"), None);
    }
}

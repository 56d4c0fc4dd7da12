//! Suggestions for misspelt words.

use strsim::levenshtein;

/// Longer words are no slip of the pen; comparing them with every name would take long.
const COMPARED: usize = 64;

/// The name that was probably meant.
pub(super) fn nearest<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if given.len() > COMPARED {
        return None;
    }
    let most = |name: &str| name.len().max(given.len()) / 3;
    let near = names
        // The distance is at least this, and takes longer.
        .filter(|name| name.len().abs_diff(given.len()) <= most(name))
        .map(|name| (levenshtein(given, name), name))
        .filter(|(distance, name)| *distance <= most(name))
        .min();
    near.map(|(_, name)| name)
}

/// Lists the valid words, the one that was probably meant first.
pub(super) fn one_of(given: &str, names: &[&str]) -> String {
    match nearest(given, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`? There are {}", names.join(", ")),
        None => format!("expected one of {}", names.join(", ")),
    }
}

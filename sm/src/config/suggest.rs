//! Suggestions for misspelt words.

use strsim::levenshtein;

/// Lists the valid words, the one that was probably meant first.
pub(super) fn one_of(given: &str, names: &[&str]) -> String {
    let near = names
        .iter()
        .map(|name| (levenshtein(given, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(given.len()) / 3)
        .min();
    match near {
        Some((_, name)) => format!("did you mean `{name}`? There are {}", names.join(", ")),
        None => format!("expected one of {}", names.join(", ")),
    }
}

//! What a misspelt word was probably meant to be.

use strsim::levenshtein;

/// Names what there is, and first of all what was probably meant.
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

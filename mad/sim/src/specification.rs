//! Keys with values in the specification of a simulated fabric.

/// Removes `key`, which ends in `=`, and its value from a specification. Returns the remaining
/// specification and the value; `None` if the specification does not have the key.
pub(crate) fn split_key<'a>(spec: &'a str, key: &str) -> Option<(String, &'a str)> {
    let (start, _) = spec
        .match_indices(key)
        .find(|&(at, _)| at > 0 && matches!(spec.as_bytes()[at - 1], b',' | b':'))?;
    let value = &spec[start + key.len()..];
    let (value, rest) = value.split_once(',').unwrap_or((value, ""));
    let before = if rest.is_empty() { start - 1 } else { start };
    Some((format!("{}{rest}", &spec[..before]), value))
}

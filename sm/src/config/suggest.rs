//! What a misspelt word was probably meant to be.

/// Names what there is, and first of all what was probably meant.
pub(super) fn one_of(given: &str, names: &[&str]) -> String {
    let near = names
        .iter()
        .map(|name| (distance(given, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(given.len()) / 3)
        .min();
    match near {
        Some((_, name)) => format!("did you mean `{name}`? There are {}", names.join(", ")),
        None => format!("expected one of {}", names.join(", ")),
    }
}

/// How many characters must be added, removed or replaced to get from one to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("lmc", "lmc"), 0);
        assert_eq!(distance("lcm", "lmc"), 2);
        assert_eq!(distance("retry", "retries"), 3);
        assert_eq!(distance("", "abc"), 3);
    }
}

//! Verdicts of proofs, for people.

/// The verdict on one kind of loop (`kind`, singular), in words that stand out if there are loops.
pub(super) fn loop_finding(is_free: bool, kind: &str) -> String {
    match is_free {
        true => format!("no {kind}"),
        false => format!("{}S FOUND", kind.to_uppercase()),
    }
}

#[cfg(test)]
mod tests {
    use super::loop_finding;

    #[test]
    fn loops_are_reported_in_capitals() {
        assert_eq!(loop_finding(true, "credit loop"), "no credit loop");
        assert_eq!(loop_finding(false, "credit loop"), "CREDIT LOOPS FOUND");
    }
}

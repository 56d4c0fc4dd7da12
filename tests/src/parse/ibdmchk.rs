//! Parses the output of `ibdmchk`, an independent check of the routes that a subnet manager dumped.

use std::collections::BTreeMap;

use crate::error::Error;

/// The result of ibdmchk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The number of paths between CAs that ibdmchk checked.
    pub scanned_pairs: u64,
    /// The number of CA pairs, by the number of hops of their route.
    pub pairs_by_hops: BTreeMap<u32, u64>,
    /// Whether ibdmchk found no credit loop.
    pub credit_loop_free: bool,
    /// The lines with complaints, which begin with `-E-`.
    pub complaints: Vec<String>,
}

/// Reads the output of ibdmchk.
///
/// The exit status of ibdmchk has no meaning: version 1.5.7 crashes when it frees its tables after
/// the verdict, even on the dumps of OpenSM.
///
/// # Errors
///
/// ibdmchk stopped before a verdict.
pub fn parse(output: &str) -> Result<Verdict, Error> {
    let complaints: Vec<String> = output
        .lines()
        .filter(|line| line.starts_with("-E-"))
        .map(str::to_owned)
        .collect();
    let stopped = || {
        let last = output
            .lines()
            .rfind(|line| line.starts_with('-') && !line.starts_with("--"));
        Error::Output {
            program: "ibdmchk".into(),
            detail: last.unwrap_or("no output").to_owned(),
        }
    };
    let scanned_pairs = output
        .lines()
        .find_map(|line| {
            line.strip_prefix("-I- Scanned:")?
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .ok_or_else(stopped)?;
    let credit_loop_free = output.contains("no credit loops found");
    if !credit_loop_free && complaints.is_empty() {
        return Err(stopped());
    }
    let pairs_by_hops = output
        .split_once("LFT ROUTE HOP HISTOGRAM")
        .and_then(|(_, rest)| rest.split_once("HOPS NUM-CA-CA-PAIRS"))
        .map(|(_, rest)| rest.lines().skip(1).map_while(histogram_row).collect())
        .unwrap_or_default();
    Ok(Verdict {
        scanned_pairs,
        pairs_by_hops,
        credit_loop_free,
        complaints,
    })
}

/// Parses a row of the histogram: ` 3 8`.
fn histogram_row(line: &str) -> Option<(u32, u64)> {
    let mut fields = line.split_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    const GOOD: &str = "-I- Verifying all CA to CA paths ... \n\
        ---------------------- CA to CA : LFT ROUTE HOP HISTOGRAM -----------------\n\
        The number of CA pairs.\n\nHOPS NUM-CA-CA-PAIRS\n  2   4\n  3   8\n--------\n\
        -I- Scanned:12 CA to CA paths \n---------\n-I- no credit loops found\n";

    #[test]
    fn a_good_verdict_is_read() {
        let verdict = parse(GOOD).unwrap();
        assert_eq!(verdict.scanned_pairs, 12);
        assert_eq!(
            verdict.pairs_by_hops.into_iter().collect::<Vec<_>>(),
            [(2, 4), (3, 8)]
        );
        assert!(verdict.credit_loop_free && verdict.complaints.is_empty());
    }

    #[test]
    fn complaints_are_kept() {
        let bad = GOOD.replace("-I- no credit", "-E- Dead end for lid:4\n-E- credit");
        let verdict = parse(&bad).unwrap();
        assert!(!verdict.credit_loop_free);
        assert_eq!(verdict.complaints[0], "-E- Dead end for lid:4");
    }

    #[test]
    fn output_without_a_verdict_is_an_error() {
        assert!(parse("-I- Parsing FDBs file:opensm.fdbs\n").is_err());
        assert!(parse(&GOOD.replace("-I- no credit loops found\n", "")).is_err());
    }
}

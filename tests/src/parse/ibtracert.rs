//! Parses the output of `ibtracert`: the route between two LIDs, hop by hop.

use crate::error::Error;

/// One hop: out of a port of one node and into a port of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The port through which the packet leaves the previous node.
    pub out_port: u8,
    /// The GUID of the next node: the node GUID of a switch, or the port GUID of a CA.
    pub guid: u64,
    /// The port through which the packet enters the next node.
    pub in_port: u8,
}

/// Reads the output of `ibtracert SRC DST`.
///
/// # Errors
///
/// The trace does not end at its destination, or a hop cannot be parsed.
pub fn parse(output: &str) -> Result<Vec<Hop>, Error> {
    let failed = |detail: &str| Error::Output {
        program: "ibtracert".into(),
        detail: detail.into(),
    };
    if !output.lines().any(|line| line.starts_with("To ")) {
        return Err(failed(output.lines().last().unwrap_or("nothing printed")));
    }
    output
        .lines()
        .filter(|line| line.starts_with('['))
        .map(|line| hop(line).ok_or_else(|| failed(line)))
        .collect()
}

/// Parses a hop: `[5] -> switch port {0x0000000000200000}[5] lid 2-2 "Switch1"`.
fn hop(line: &str) -> Option<Hop> {
    let (out_port, rest) = line.strip_prefix('[')?.split_once(']')?;
    let (guid, rest) = rest.split_once('{')?.1.split_once('}')?;
    let (in_port, _) = rest.strip_prefix('[')?.split_once(']')?;
    Some(Hop {
        out_port: out_port.parse().ok()?,
        guid: super::hex(guid)?,
        in_port: in_port.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::{Hop, parse};

    #[test]
    fn a_complete_trace_gives_its_hops_in_order() {
        let hops = parse(
            "From switch {0x0000000000200001} portnum 0 lid 3-3 \"Switch2\"\n\
             [5] -> switch port {0x0000000000200000}[6] lid 2-2 \"Switch1\"\n\
             [2] -> ca port {0x0000000000100007}[1] lid 5-5 \"Hca3\"\n\
             To ca {0x0000000000100006} portnum 1 lid 5-5 \"Hca3\"\n",
        )
        .unwrap();
        assert_eq!(
            hops,
            [
                Hop {
                    out_port: 5,
                    guid: 0x20_0000,
                    in_port: 6
                },
                Hop {
                    out_port: 2,
                    guid: 0x10_0007,
                    in_port: 1
                },
            ]
        );
    }

    #[test]
    fn a_trace_without_an_end_is_an_error() {
        assert!(parse("From switch {0x1} portnum 0 lid 3-3 \"x\"\n").is_err());
    }
}

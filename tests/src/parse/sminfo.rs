//! Parses the output of `sminfo`: the master of the subnet.

use crate::error::Error;

/// An answer to SMInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmInfo {
    /// The LID from which the subnet manager answered.
    pub lid: u16,
    /// The port GUID of the subnet manager.
    pub guid: u64,
    /// The priority, 0 to 15.
    pub priority: u8,
    /// The state: 0 not active, 1 discovering, 2 standby, 3 master (IBA 14.2.5.13).
    pub state: u8,
}

/// Reads the output of `sminfo`.
///
/// # Errors
///
/// No subnet manager answered.
pub fn parse(output: &str) -> Result<SmInfo, Error> {
    let line = output
        .lines()
        .find(|line| line.starts_with("sminfo: sm lid"));
    line.and_then(parse_line).ok_or_else(|| Error::Output {
        program: "sminfo".into(),
        detail: line
            .or(output.lines().last())
            .unwrap_or("nothing printed")
            .to_owned(),
    })
}

/// Parses the line `sminfo: sm lid 2 sm guid 0x100001, activity count 5 priority 0 state 3
/// SMINFO_MASTER`.
fn parse_line(line: &str) -> Option<SmInfo> {
    let after = |key: &str| {
        let rest = line.split_once(key)?.1.trim_start();
        rest.split([' ', ',']).next()
    };
    Some(SmInfo {
        lid: after("sm lid ")?.parse().ok()?,
        guid: super::hex(after("sm guid ")?)?,
        priority: after(" priority ")?.parse().ok()?,
        state: after(" state ")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lid_guid_priority_and_state_of_the_master_are_read() {
        let info = parse(
            "sminfo: sm lid 2 sm guid 0x100001, activity count 5 priority 3 state 3 SMINFO_MASTER\n",
        )
        .unwrap();
        assert_eq!(
            (info.lid, info.guid, info.priority, info.state),
            (2, 0x10_0001, 3, 3)
        );
        assert!(parse("sminfo: iberror: failed: query\n").is_err());
    }
}

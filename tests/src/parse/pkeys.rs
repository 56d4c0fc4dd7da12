//! Parses the output of `smpquery pkeys`: the P_Keys of a port.

use crate::error::Error;

/// Reads the output of `smpquery pkeys`: the keys by index, up to the last nonzero one.
///
/// # Errors
///
/// No table was read.
pub fn parse(output: &str) -> Result<Vec<u16>, Error> {
    let unreadable = |detail: &str| Error::Output {
        program: "smpquery pkeys".into(),
        detail: detail.to_owned(),
    };
    let rows = output.lines().filter_map(|line| line.split_once(": 0x"));
    let mut keys = Vec::new();
    for (index, row) in rows {
        if index.trim().parse() != Ok(keys.len()) {
            return Err(unreadable(output));
        }
        for key in row.split_whitespace() {
            let key = super::hex(key).and_then(|key| u16::try_from(key).ok());
            keys.push(key.ok_or_else(|| unreadable(output))?);
        }
    }
    if keys.is_empty() {
        return Err(unreadable(
            output.lines().last().unwrap_or("nothing printed"),
        ));
    }
    let used = keys.iter().rposition(|&key| key != 0);
    keys.truncate(used.map_or(0, |last| last + 1));
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn keys_are_read_by_index() {
        let output = "   0: 0x7fff 0x0000 0x8010 0x0000 0x0000 0x0000 0x0000 0x0000\n\
                      \x20  8: 0x0000 0x0011 0x0000 0x0000 0x0000 0x0000 0x0000 0x0000\n\
                      16 pkeys capacity for this port\n";
        let mut expected = [0; 10];
        (expected[0], expected[2], expected[9]) = (0x7fff, 0x8010, 0x11);
        assert_eq!(parse(output).unwrap(), expected);
        assert!(parse("smpquery: iberror: failed: operation pkeys\n").is_err());
    }
}

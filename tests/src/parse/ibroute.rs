//! Parses the output of `ibroute`: the linear forwarding table of a switch.

use std::collections::BTreeMap;

use crate::error::Error;

/// Reads the output of `ibroute LID`: the output port of each LID, without entries that drop
/// packets.
///
/// # Errors
///
/// No table was printed.
pub fn parse(output: &str) -> Result<BTreeMap<u16, u8>, Error> {
    if !output.contains("Unicast lids") {
        let detail = output
            .lines()
            .next()
            .unwrap_or("nothing printed")
            .to_owned();
        return Err(Error::Output {
            program: "ibroute".into(),
            detail,
        });
    }
    Ok(output.lines().filter_map(entry).collect())
}

/// Parses an entry: `0x0003 001 : (Channel Adapter portguid 0x…: 'Hca1')`.
fn entry(line: &str) -> Option<(u16, u8)> {
    let (numbers, _) = line.split_once(" : ")?;
    let (lid, port) = numbers.trim().split_once(' ')?;
    let lid = u16::try_from(super::hex(lid.strip_prefix("0x")?)?).ok()?;
    Some((lid, port.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_output_port_of_each_lid_is_read() {
        let table = parse(
            "Unicast lids [0x0-0x6] of switch Lid 2 guid 0x0000000000200000 (Switch1):\n  \
             Lid  Out   Destination\n       Port     Info \n\
             0x0001 001 : (Channel Adapter portguid 0x0000000000100001: 'Hca1')\n\
             0x0002 000 : (Switch portguid 0x0000000000200000: 'Switch1')\n2 valid lids dumped \n",
        )
        .unwrap();
        assert_eq!(table.into_iter().collect::<Vec<_>>(), [(1, 1), (2, 0)]);
    }

    #[test]
    fn a_refusal_is_an_error() {
        assert!(parse("ibroute: iberror: failed: dump tables: not a switch").is_err());
    }
}

//! Recognises reports of other options and programs, which operators mistake for a topology file.

use super::comment::words;
use super::{Fault, ParseReason};

/// The error for a known report: the first line of `text` that belongs to it, and its name. `None`
/// if no line does.
pub(super) fn recognise(text: &[u8]) -> Option<Fault> {
    let lines = (1..).zip(text.split(|&byte| byte == b'\n'));
    let mut known = lines.filter_map(|(number, line)| Some((number, report_of(line)?)));
    let (line, report) = known.next()?;
    Some((line, ParseReason::Report { report }))
}

/// The name of the report to which a line belongs; `None` if it belongs to no known report.
fn report_of(line: &[u8]) -> Option<&'static str> {
    let words: Vec<&[u8]> = words(line).take(4).collect();
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    let is_guid = |word: &[u8]| word.starts_with(b"0x");
    match words[..] {
        [b"CA" | b"SW" | b"RT", lid, port, guid]
            if is_number(lid) && is_number(port) && is_guid(guid) =>
        {
            Some("the list of ports of `ibnetdiscover -p`")
        }
        [b"Ca" | b"Switch" | b"Router", b":", guid, b"ports"] if is_guid(guid) => {
            Some("the list of nodes of `ibnetdiscover -l`, `-H`, `-S` or `-R`")
        }
        [b"CA:" | b"Switch:" | b"Router:", ..] => Some("the output of `iblinkinfo`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn report_without_a_topology_is_named_with_the_command_to_run_instead() {
        for (text, line, name) in [
            (
                "\nCA   134  1 0x0000000000001001 4x EDR - SW  1719 10 0x0000000000000100 ( 'node-1 HCA-1' - 'leaf-1' )\n",
                2,
                "ibnetdiscover -p",
            ),
            (
                "Ca\t: 0x0002c90300001234 ports 2 devid 0x1013 vendid 0x2c9 \"node-1 HCA-1\"\n",
                1,
                "ibnetdiscover -l",
            ),
            ("CA: node-1 HCA-1:\n", 1, "iblinkinfo"),
            ("Switch: 0x0000000000000100 leaf-1:\n", 1, "iblinkinfo"),
        ] {
            let error = parse(text.as_bytes(), "f").unwrap_err();
            let message = error.to_string();
            assert_eq!(error.line, line, "{message}");
            assert!(
                message.contains(name) && message.contains("`ibnetdiscover > FILE`"),
                "{message}"
            );
        }
        let error = parse(b"just words\n", "f").unwrap_err().to_string();
        assert!(error.contains("names no node"), "{error}");
    }
}

//! Parses the output of `saquery`: SA records, each a heading and its fields.

use std::collections::BTreeMap;

use crate::error::Error;

/// A record as printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Record {
    /// The fields by their printed names.
    fields: BTreeMap<String, String>,
    /// Rows of two numbers, the second by the first: the ports of a linear forwarding table by LID,
    /// or the port masks of a multicast forwarding table by MLID. Entries that drop packets are
    /// included.
    pub entries: BTreeMap<u16, u16>,
    /// All other rows of numbers, in order: the keys of a P_KeyTable.
    pub keys: Vec<u16>,
}

impl Record {
    /// A field as text.
    ///
    /// # Errors
    ///
    /// No field has this name.
    pub fn text(&self, name: &str) -> Result<&str, Error> {
        self.fields
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| unexpected(format!("no {name} in {:?}", self.fields)))
    }

    /// A field as a number, in decimal or with `0x`.
    ///
    /// # Errors
    ///
    /// No field has this name, or the field is not a number.
    pub fn number(&self, name: &str) -> Result<u64, Error> {
        let text = self.text(name)?;
        number(text).ok_or_else(|| unexpected(format!("{name} is {text}")))
    }
}

/// Parses a number in decimal or with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn unexpected(detail: String) -> Error {
    Error::Output {
        program: "saquery".into(),
        detail,
    }
}

/// Reads the output of `saquery`: headings begin a line, fields are indented.
///
/// # Errors
///
/// saquery prints a refusal.
pub fn parse(output: &str) -> Result<Vec<Record>, Error> {
    let mut records: Vec<Record> = Vec::new();
    for line in output.lines() {
        if line.starts_with("ERROR") {
            return Err(unexpected(line.to_owned()));
        }
        if !line.starts_with('\t') {
            if line.trim_end().ends_with(':') {
                records.push(Record::default());
            }
            continue;
        }
        let Some(record) = records.last_mut() else {
            return Err(unexpected(format!("no heading before {line}")));
        };
        if let Some((name, value)) = field(line) {
            record.fields.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let row: Option<Vec<u16>> = line
            .split_whitespace()
            .map(|word| u16::try_from(number(word)?).ok())
            .collect();
        match row.as_deref() {
            Some(&[lid, port]) => drop(record.entries.insert(lid, port)),
            Some(keys) => record.keys.extend(keys),
            // The line is the heading of a table or the name of a bit.
            None => {}
        }
    }
    Ok(records)
}

/// Parses a field: `NodeDescription.........leaf-01`, `Lid:.............................1`.
fn field(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (name, rest) = line.split_once("..")?;
    Some((name.trim_end_matches(':'), rest.trim_start_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn fields_of_a_record_are_read_by_name() {
        let records = parse(
            "NodeRecord dump:\n\t\tlid.....................1\n\t\tnode_type...............Switch\n\
             \t\tsys_guid................0x1070fd0300000040\n\
             \t\tNodeDescription.........MF0;a..b\nNodeRecord dump:\n\t\tlid.....................2\n",
        )
        .unwrap();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].number("lid").unwrap(), 1);
        assert_eq!(
            records[0].number("sys_guid").unwrap(),
            0x1070_fd03_0000_0040
        );
        assert_eq!(records[0].text("NodeDescription").unwrap(), "MF0;a..b");
        assert_eq!(records[1].number("lid").unwrap(), 2);
        assert!(records[1].number("node_type").is_err());
    }

    #[test]
    fn a_record_with_several_headings_is_one_record() {
        let records = parse(
            "PortInfoRecord dump:\n\tRID\n\t\tEndPortLid..............1\n\tPortInfo dump:\n\
             \t\tLid:.............................1\n\t\tCapMask:.........................0x4640c848\n\
             \t\t\t\tIsTrapSupported\n\t\tLinkState:.......................Active\n",
        )
        .unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].number("EndPortLid").unwrap(), 1);
        assert_eq!(records[0].text("LinkState").unwrap(), "Active");
    }

    #[test]
    fn rows_of_a_forwarding_table_become_entries() {
        let records = parse(
            "LFT Record dump:\n\t\tLID........................1\n\t\tBlock......................0\n\
             \t\tLFT:\n\t\tLID\tPort Number\n\t\t0\t255\n\t\t1\t0\n\t\t2\t3\n",
        )
        .unwrap();
        assert_eq!(records[0].entries, [(0, 255), (1, 0), (2, 3)].into());
        assert_eq!(records[0].number("Block").unwrap(), 0);
        let records = parse(
            "MFT Record dump:\n\t\tLID........................2\n\t\tMFT:\n\t\tMLID\tPort Mask\n\
             \t\t0xc000\t0x0006\n\n",
        )
        .unwrap();
        assert_eq!(records[0].entries, [(0xC000, 6)].into());
    }

    #[test]
    fn rows_of_a_p_key_table_become_keys() {
        let records = parse(
            "PKeyTableRecord dump:\n\t\tLID........................7\n\t\tPKey Table:\n\
             \t\t0xffff 0x8010 0x0000\n\t\t0x0000 0x0000 0x0001\n",
        )
        .unwrap();
        assert_eq!(records[0].keys, [0xFFFF, 0x8010, 0, 0, 0, 1]);
        assert!(records[0].entries.is_empty());
    }

    #[test]
    fn a_refusal_is_an_error() {
        let refusal = "ERROR: Query result returned 0x0200,  SA(SA_ERR_REQ_INVALID)\n";
        assert!(parse(refusal).is_err());
        assert_eq!(parse("").unwrap(), []);
    }
}

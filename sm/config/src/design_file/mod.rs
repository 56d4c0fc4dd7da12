//! Parser of the design file: the intended cabling, as comma-separated values.
//!
//! The first line names the columns. Four columns are required, in any order, under the names that
//! the cabling files of UFM's NDT plug-in and of the cable validation tool use, and UFM's list of
//! links. All other columns are ignored. Case, spaces and punctuation in column names do not
//! matter.
//!
//! | column | names |
//! |---|---|
//! | node at one end | `StartDevice`, `A-Node Name`, `SRC_NAME`, `Source Node` |
//! | its port | `StartPort`, `A-Port`, `SRC_HCA_PORT`, `Source Port` |
//! | node at the other end | `EndDevice`, `Z-Node Name`, `DST_NAME`, `Destination Node` |
//! | its port | `EndPort`, `Z-Port`, `DST_PORT`, `Destination Port` |
//!
//! Lines whose `LinkType` is not `Data` or whose `Protocol` is not `ib` are skipped, and so are
//! ports without another end. Commas, semicolons or tabs separate the fields.

mod csv;

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::PortNum;
use rsm_model::design::{Design, DesignedCable, DesignedEnd, WILDCARD};

use self::csv::{Mistake, Record, Records, shown};
use super::finding::{ConfigFinding, ConfigSeverity, Findings};

/// Names of the required columns, in lower case without spaces and punctuation: node and port of
/// one end, then of the other end.
const COLUMNS: [&[&str]; 4] = [
    &[
        "startdevice",
        "anodename",
        "anode",
        "srcname",
        "sourcenode",
        "source",
        "sourceportnodedescription",
    ],
    &["startport", "aport", "srchcaport", "srcport", "sourceport"],
    &[
        "enddevice",
        "znodename",
        "znode",
        "dstname",
        "destinationnode",
        "destination",
        "destinationportnodedescription",
    ],
    &[
        "endport",
        "zport",
        "dsthcaport",
        "dstport",
        "destinationport",
    ],
];

/// Columns with the kind of a link, each with its values for data links.
const KINDS: [(&str, &[&str]); 2] = [
    ("linktype", &["", "data"]),
    ("protocol", &["", "ib", "infiniband"]),
];

/// Highest number of a port (IBA 14.2.5.3).
const LAST_PORT: u8 = 254;

const HEADER: &str = "expected a line of column names with node and port of both ends, such as \
                      `StartDevice,StartPort,EndDevice,EndPort`";
const PORT: &str = "expected the number of a port, 1 to 254, as `21`, `P21` or `Port 21`, an adapter and its port as \
                    `mlx5_0/P1`, or `*` for any port";
const NODE: &str = "expected the name of a node, or its GUID with 0x";
const WILDCARDS_AT_BOTH_ENDS: &str = "expected the number of a port at one end at least";
const SAME_END: &str = "expected two different ports";

/// Indices of the columns in a line.
struct Columns {
    /// Index of each of the [`COLUMNS`].
    needed: [usize; 4],
    /// Indices of the [`KINDS`] present in the file, each with its values for data links.
    kinds: Vec<(usize, &'static [&'static str])>,
}

/// State of reading a file.
#[derive(Default)]
struct Reader {
    design: Design,
    /// The cable of each designed port: its line, the other port, and whether the other port is the
    /// second end.
    cabled: BTreeMap<DesignedEnd, (usize, DesignedEnd, bool)>,
    /// Byte offset of the first line that describes no data link, and the number of these lines.
    left_out: Option<(usize, u64)>,
}

/// Parses the file. Returns the design and the findings. The design is usable only if no finding is
/// an error.
pub fn parse_design(file: &Path, text: &str) -> (Design, Vec<ConfigFinding>) {
    let mut findings = Findings::new(file, text);
    let mut report = |severity, mistake: Mistake| {
        findings.at(text, mistake.at, severity, mistake.found, mistake.expected);
    };
    let mut reader = Reader::default();
    let mut columns: Option<Columns> = None;
    let (mut line, mut counted) = (1, 0);
    for record in Records::new(text) {
        let read = match (record, &columns) {
            (Err(mistake), _) => Err((ConfigSeverity::Error, mistake)),
            (Ok(record), _) if record.is_blank() => Ok(()),
            (Ok(record), None) => match Columns::of(&record) {
                Ok(found) => {
                    columns = Some(found);
                    Ok(())
                }
                Err(_) if record.is_comment() => Ok(()),
                Err(mistake) => {
                    report(ConfigSeverity::Error, mistake);
                    return (reader.design, findings.finish());
                }
            },
            (Ok(record), Some(_)) if record.is_comment() => Ok(()),
            (Ok(record), Some(columns)) => {
                line += text[counted..record.at()].matches('\n').count();
                counted = record.at();
                reader.add_record(&record, columns, line)
            }
        };
        if let Err((severity, mistake)) = read {
            report(severity, mistake);
        }
    }
    if let Some((at, number)) = reader.left_out {
        let found = format!("{number} lines of other links, or of ports without another end");
        let expected = "they are left out".to_owned();
        report(
            ConfigSeverity::Note,
            Mistake {
                at,
                found,
                expected,
            },
        );
    }
    if reader.design.cables.is_empty() {
        let (found, expected) = ("no cable".to_owned(), HEADER.to_owned());
        report(
            ConfigSeverity::Warning,
            Mistake {
                at: 0,
                found,
                expected,
            },
        );
    }
    (reader.design, findings.finish())
}

impl Columns {
    /// The indices of the columns that a line names.
    ///
    /// # Errors
    ///
    /// A required column is missing, or appears twice.
    fn of(record: &Record) -> Result<Columns, Mistake> {
        let names = record.fields.iter().map(|field| plain(&field.text));
        let names: Vec<String> = names.collect();
        let mut needed = [0; 4];
        for (place, column) in needed.iter_mut().zip(COLUMNS) {
            let mut found = names
                .iter()
                .enumerate()
                .filter(|(_, name)| column.contains(&name.as_str()));
            let Some((first, name)) = found.next() else {
                let text = record.fields.iter().map(|field| field.text.as_str());
                let text: Vec<&str> = text.collect();
                return Err(Mistake {
                    at: record.at(),
                    found: format!(
                        "`{}` has no column like `{}`",
                        shown(&text.join(",")),
                        column[0]
                    ),
                    expected: HEADER.to_owned(),
                });
            };
            if let Some((second, _)) = found.next() {
                return Err(Mistake {
                    at: record.fields[second].at,
                    found: format!(
                        "`{}` is the second column like `{name}`",
                        shown(&record.fields[second].text)
                    ),
                    expected: "expected one".to_owned(),
                });
            }
            *place = first;
        }
        let kinds = KINDS.iter().filter_map(|&(kind, values)| {
            let place = names.iter().position(|name| name == kind)?;
            Some((place, values))
        });
        Ok(Columns {
            needed,
            kinds: kinds.collect(),
        })
    }
}

impl Reader {
    /// Adds the cable of a line, if it is a data link.
    ///
    /// # Errors
    ///
    /// The mistake in the line, or a warning about it.
    fn add_record(
        &mut self,
        record: &Record,
        columns: &Columns,
        line: usize,
    ) -> Result<(), (ConfigSeverity, Mistake)> {
        let error = |mistake| (ConfigSeverity::Error, mistake);
        let text = |column: usize| {
            record
                .fields
                .get(column)
                .map_or("", |field| field.text.as_str())
        };
        let [_, _, other_node, other_port] = columns.needed.map(text);
        let is_data = |&(column, values): &(usize, &'static [&'static str])| {
            values.contains(&text(column).to_lowercase().as_str())
        };
        let is_whole = columns
            .needed
            .iter()
            .all(|&column| column < record.fields.len());
        if is_whole
            && (other_node.is_empty() && other_port.is_empty()
                || !columns.kinds.iter().all(is_data))
        {
            self.left_out.get_or_insert((record.at(), 0)).1 += 1;
            return Ok(());
        }
        let [node, port, other_node, other_port] = columns.needed;
        let ends = [
            end(record, node, port).map_err(error)?,
            end(record, other_node, other_port).map_err(error)?,
        ];
        let mistake = |expected: &str| Mistake {
            at: record.at(),
            found: format!("{} to {}", written(&ends[0]), written(&ends[1])),
            expected: expected.to_owned(),
        };
        if ends.iter().all(|end| end.port.is_none()) {
            return Err(error(mistake(WILDCARDS_AT_BOTH_ENDS)));
        }
        if ends[0] == ends[1] {
            return Err(error(mistake(SAME_END)));
        }
        let both_ways = [(&ends[0], &ends[1], true), (&ends[1], &ends[0], false)];
        for (own, other, is_first) in both_ways {
            match self.cabled.get(own) {
                // Lists of links contain each link from both ends.
                Some((_, known, was_first)) if known == other && *was_first != is_first => {
                    return Ok(());
                }
                Some((before, known, _)) if known == other => {
                    let again = mistake(&format!("line {before} has the same cable"));
                    return Err((ConfigSeverity::Warning, again));
                }
                Some((before, known, _)) => {
                    let expected = format!(
                        "line {before} cables {} to {}",
                        written(own),
                        written(known)
                    );
                    return Err(error(mistake(&expected)));
                }
                None => {}
            }
        }
        for (own, other, is_first) in both_ways {
            if own.port.is_some() && !own.node.contains(WILDCARD) {
                self.cabled
                    .insert(own.clone(), (line, other.clone(), is_first));
            }
        }
        self.design.cables.push(DesignedCable { line, ends });
        Ok(())
    }
}

/// Parses the end in two columns of a line.
///
/// # Errors
///
/// A field is missing, or has another form than expected.
fn end(record: &Record, node: usize, port: usize) -> Result<DesignedEnd, Mistake> {
    let field = |column: usize, expected: &str| {
        record.fields.get(column).ok_or_else(|| Mistake {
            at: record.at(),
            found: format!("{} fields", record.fields.len()),
            expected: format!("field {}: {expected}", column + 1),
        })
    };
    let (name, number) = (field(node, NODE)?, field(port, PORT)?);
    let wrong = |field: &csv::Field, expected: &str| Mistake {
        at: field.at,
        found: format!("`{}`", shown(&field.text)),
        expected: expected.to_owned(),
    };
    if name.text.is_empty() || name.text.chars().any(char::is_control) {
        return Err(wrong(name, NODE));
    }
    let (adapter, port) = port_of(&number.text).ok_or_else(|| wrong(number, PORT))?;
    Ok(DesignedEnd {
        node: match adapter {
            Some(adapter) => format!("{} {adapter}", name.text),
            None => name.text.clone(),
        },
        port,
    })
}

/// Parses a port: the adapter, if the text names one, and the port number, which is `None` for `*`,
/// any port. Returns `None` for any other text.
fn port_of(text: &str) -> Option<(Option<&str>, Option<PortNum>)> {
    if text == "*" {
        return Some((None, None));
    }
    let is_adapter = |name: &str| name.starts_with("mlx") || name.starts_with("HCA-");
    if is_adapter(text) {
        let (adapter, number) = text.split_once('/').unwrap_or((text, "1"));
        return Some((Some(adapter), Some(port_number(number)?)));
    }
    Some((None, Some(port_number(text)?)))
}

/// Parses the number of a port, such as `21`, `P21` or `Port 21`.
fn port_number(text: &str) -> Option<PortNum> {
    let lower = text.to_ascii_lowercase();
    let digits = lower
        .strip_prefix("port")
        .or_else(|| lower.strip_prefix('p'));
    let digits = digits.unwrap_or(&lower).trim_start();
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.parse::<u8>().ok().filter(|_| is_number)?;
    (1..=LAST_PORT).contains(&number).then_some(PortNum(number))
}

/// A column name in lower case, without spaces, punctuation and the prefix `#Fields:`.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|sign| sign.is_alphanumeric());
    let plain = letters.collect::<String>().to_lowercase();
    plain
        .strip_prefix("fields")
        .map_or(plain.clone(), str::to_owned)
}

/// An end in a finding: `leaf-03 port 7`.
fn written(end: &DesignedEnd) -> String {
    let port = end
        .port
        .map_or_else(|| "*".to_owned(), |port| port.to_string());
    format!("`{}` port {port}", shown(&end.node))
}

#[cfg(test)]
mod tests;

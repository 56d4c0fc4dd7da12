//! Splits the text of a partition file into definitions, and the definitions into words.

use super::protection::OwnedKind;
use super::report::{Report, quoted};

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'a> {
    /// Byte offset of its start.
    pub(super) offset: usize,
    pub(super) text: &'a str,
}

/// `NAME` or `NAME=VALUE`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) name: Word<'a>,
    pub(super) value: Option<Word<'a>>,
}

/// `NAME=P_KEY, FLAGS : MEMBERS ;`
#[derive(Debug)]
pub(super) struct Definition<'a> {
    /// Name and P_Key of the partition.
    pub(super) head: Item<'a>,
    pub(super) flags: Vec<Item<'a>>,
    pub(super) members: Vec<Item<'a>>,
    pub(super) groups: Vec<GroupLine<'a>>,
    /// Names that belong to the partition: `mgids=MGID/BITS`, `guids=GUID/BITS`.
    pub(super) owned: Vec<(OwnedKind, Word<'a>)>,
}

/// `mgid=GID, FLAGS`
#[derive(Debug)]
pub(super) struct GroupLine<'a> {
    pub(super) mgid: Word<'a>,
    pub(super) flags: Vec<Item<'a>>,
}

/// The text with comments replaced by blanks, so that offsets stay valid.
pub(super) fn without_comments(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (content, comment) = line.split_at(line.find('#').unwrap_or(line.len()));
        clean.push_str(content);
        let ended = comment.ends_with('\n');
        let blanks = comment.len() - usize::from(ended);
        clean.extend(std::iter::repeat_n(' ', blanks));
        if ended {
            clean.push('\n');
        }
    }
    clean
}

/// Parses the definitions in `clean`, a text without comments. Any other text is reported as an
/// error and skipped.
pub(super) fn definitions<'a>(clean: &'a str, report: &mut Report<'_>) -> Vec<Definition<'a>> {
    let mut definitions = Vec::new();
    let mut offset = 0;
    for text in clean.split_inclusive(';') {
        let part = Word {
            offset,
            text: text.strip_suffix(';').unwrap_or(text),
        };
        offset += text.len();
        let trimmed = part.trimmed();
        if trimmed.text.is_empty() {
            continue;
        }
        definitions.extend(definition(part, report));
        if !text.ends_with(';') {
            let end = trimmed.offset + trimmed.text.len();
            report.warning(
                end,
                "the file ends within a definition",
                "expected `;`, as if it were there",
            );
        }
    }
    definitions
}

/// Parses a definition, without the semicolon. Reports an error if it has no colon.
fn definition<'a>(part: Word<'a>, report: &mut Report<'_>) -> Option<Definition<'a>> {
    let Some(colon) = part.text.find(':') else {
        let trimmed = part.trimmed();
        report.error(
            trimmed.offset,
            quoted(trimmed.text),
            "expected `NAME=P_KEY, FLAGS : MEMBERS ;`",
        );
        return None;
    };
    let mut items = part.up_to(colon).split(',').map(item);
    let head = items.next()?;
    let flags = items.collect();
    let mut definition = Definition {
        head,
        flags,
        members: Vec::new(),
        groups: Vec::new(),
        owned: Vec::new(),
    };
    for line in part.from(colon + 1).split('\n') {
        parse_members(line, &mut definition, report);
    }
    Some(definition)
}

/// Parses a line of a definition after the colon: members, owned names, and at most one multicast
/// group (`mgid=`), whose flags are the rest of the line.
fn parse_members<'a>(line: Word<'a>, definition: &mut Definition<'a>, report: &mut Report<'_>) {
    let mut words = line.split(',');
    while let Some(word) = words.next() {
        let item = item(word);
        match (item.name.text, item.value) {
            ("", None) => {}
            ("mgid", Some(mgid)) => {
                // The rest of the line consists of flags of the group.
                let flags = words.by_ref().map(self::item);
                let flags = flags.filter(|flag| !flag.is_empty()).collect();
                definition.groups.push(GroupLine { mgid, flags });
            }
            (name @ ("mgids" | "guids"), names) => {
                let kind = match name {
                    "mgids" => OwnedKind::Mgids,
                    _ => OwnedKind::Guids,
                };
                let none = Word {
                    text: "",
                    ..item.name
                };
                definition.owned.push((kind, names.unwrap_or(none)));
            }
            _ => match word.text.find(':') {
                Some(at) => {
                    report.error(
                        word.offset + at,
                        "`:` within a list of members",
                        "expected `;` before the next definition",
                    );
                    return;
                }
                None => definition.members.push(item),
            },
        }
    }
}

/// Parses `NAME=VALUE`, or `NAME` without a value.
fn item(word: Word<'_>) -> Item<'_> {
    match word.text.find('=') {
        Some(at) => Item {
            name: word.up_to(at).trimmed(),
            value: Some(word.from(at + 1).trimmed()),
        },
        None => Item {
            name: word.trimmed(),
            value: None,
        },
    }
}

impl Item<'_> {
    /// Whether the item is empty, as between two successive commas.
    pub(super) fn is_empty(&self) -> bool {
        self.name.text.is_empty() && self.value.is_none()
    }
}

impl<'a> Word<'a> {
    /// The word without blanks at both ends.
    fn trimmed(self) -> Word<'a> {
        let text = self.text.trim_start();
        Word {
            offset: self.offset + self.text.len() - text.len(),
            text: text.trim_end(),
        }
    }

    fn up_to(self, at: usize) -> Word<'a> {
        Word {
            offset: self.offset,
            text: &self.text[..at],
        }
    }

    fn from(self, at: usize) -> Word<'a> {
        Word {
            offset: self.offset + at,
            text: &self.text[at..],
        }
    }

    fn split(self, separator: char) -> impl Iterator<Item = Word<'a>> {
        let mut offset = self.offset;
        self.text.split(separator).map(move |text| {
            let word = Word { offset, text };
            offset += text.len() + separator.len_utf8();
            word
        })
    }
}

//! Splits the text of a QoS policy into sections of entries.

use super::super::partitions::report::{Report, quoted};
use super::super::suggest::nearest;

/// A piece of the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// Byte offset of its start.
    pub(super) offset: usize,
    pub(super) text: &'a str,
}

/// `KEY : VALUE`
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: Part<'a>,
    pub(super) value: Part<'a>,
}

/// A section: its keyword, and its entries up to the keyword that ends it.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) keyword: Part<'a>,
    pub(super) entries: Vec<Entry<'a>>,
    pub(super) blocks: Vec<Block<'a>>,
}

/// A kind of section.
struct Section {
    keyword: &'static str,
    /// The enclosing section; `""` if there is none.
    parent: &'static str,
    /// Keys of the entries of this section.
    keys: Keys,
}

/// The entries that a section may have.
enum Keys {
    /// The section has only other sections.
    None,
    /// Entries with one of these keys.
    Named(&'static [&'static str]),
    /// Rules for services, which have no fixed keys.
    Services,
}

const SECTIONS: &[Section] = &[
    section("qos-ulps", "", Keys::Services),
    section("port-groups", "", Keys::None),
    section(
        "port-group",
        "port-groups",
        Keys::Named(&[
            "name",
            "use",
            "port-guid",
            "port-name",
            "pkey",
            "partition",
            "node-type",
        ]),
    ),
    section("qos-setup", "", Keys::None),
    section("vlarb-tables", "qos-setup", Keys::None),
    section(
        "vlarb-scope",
        "vlarb-tables",
        Keys::Named(&[
            "group",
            "across",
            "vlarb-high",
            "vlarb-low",
            "vl-high-limit",
        ]),
    ),
    section("sl2vl-tables", "qos-setup", Keys::None),
    section(
        "sl2vl-scope",
        "sl2vl-tables",
        Keys::Named(&[
            "group",
            "across",
            "across-from",
            "across-to",
            "from",
            "to",
            "sl2vl-table",
        ]),
    ),
    section("qos-levels", "", Keys::None),
    section(
        "qos-level",
        "qos-levels",
        Keys::Named(&[
            "name",
            "use",
            "sl",
            "mtu-limit",
            "rate-limit",
            "packet-life",
            "path-bits",
            "pkey",
        ]),
    ),
    section("qos-match-rules", "", Keys::None),
    section(
        "qos-match-rule",
        "qos-match-rules",
        Keys::Named(&[
            "use",
            "qos-class",
            "qos-level-name",
            "source",
            "destination",
            "service-id",
            "pkey",
        ]),
    ),
];

const fn section(keyword: &'static str, parent: &'static str, keys: Keys) -> Section {
    Section {
        keyword,
        parent,
        keys,
    }
}

/// Prefix of a keyword that ends a section.
const END: &str = "end-";

/// Parses the sections of `text`. Any other text is reported as an error and skipped.
pub(super) fn blocks<'a>(text: &'a str, report: &mut Report<'_>) -> Vec<Block<'a>> {
    let mut reader = Reader {
        open: Vec::new(),
        finished: Vec::new(),
    };
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let content = Part {
            offset,
            text: without_comment(line),
        };
        offset += line.len();
        let content = content.trimmed();
        if !content.text.is_empty() {
            reader.read_line(content, report);
        }
    }
    while let Some(block) = reader.open.pop() {
        report.error(
            block.keyword.offset,
            format!("`{}` without an end", block.keyword.text),
            format!("expected `{END}{}`", block.keyword.text),
        );
    }
    reader.finished
}

struct Reader<'a> {
    /// Sections that have not ended, outermost first; at most three.
    open: Vec<Block<'a>>,
    /// Outermost sections that have ended.
    finished: Vec<Block<'a>>,
}

impl<'a> Reader<'a> {
    fn read_line(&mut self, line: Part<'a>, report: &mut Report<'_>) {
        match unquoted(line.text).find(|&(_, c)| c == ':') {
            Some((colon, _)) => self.entry(line, colon, report),
            None => self.keyword(line, report),
        }
    }

    /// Adds an entry to the innermost open section.
    fn entry(&mut self, line: Part<'a>, colon: usize, report: &mut Report<'_>) {
        let entry = Entry {
            key: line.part(..colon).trimmed(),
            value: line.part(colon + 1..).trimmed(),
        };
        let Some(block) = self.open.last_mut() else {
            let expected = format!("expected a section: {}", children(""));
            report.error(line.offset, quoted(line.text), expected);
            return;
        };
        let keyword = block.keyword.text;
        let keys = SECTIONS.iter().find(|section| section.keyword == keyword);
        let known: &[&str] = match keys.map(|section| &section.keys) {
            Some(Keys::Services) => return block.entries.push(entry),
            Some(Keys::Named(known)) => known,
            _ => &[],
        };
        if known.contains(&entry.key.text) {
            return block.entries.push(entry);
        }
        let expected = match nearest(entry.key.text, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => {
                format!("expected {} or `{END}{keyword}`", children(keyword))
            }
            None => format!("expected one of {}", known.join(", ")),
        };
        let found = format!("{} in `{keyword}`", quoted(entry.key.text));
        report.error(entry.key.offset, found, expected);
    }

    /// Begins or ends a section.
    fn keyword(&mut self, line: Part<'a>, report: &mut Report<'_>) {
        let parent = self.open.last().map_or("", |block| block.keyword.text);
        let is_child =
            |section: &&Section| section.keyword == line.text && section.parent == parent;
        if SECTIONS.iter().any(|section| is_child(&section)) {
            self.open.push(Block {
                keyword: line,
                entries: Vec::new(),
                blocks: Vec::new(),
            });
            return;
        }
        let ended = line.text.strip_prefix(END);
        if ended == Some(parent) && !parent.is_empty() {
            if let Some(block) = self.open.pop() {
                let place = self.open.last_mut();
                place
                    .map_or(&mut self.finished, |outer| &mut outer.blocks)
                    .push(block);
            }
            return;
        }
        let end = (!parent.is_empty()).then(|| format!("{END}{parent}"));
        let sections = SECTIONS.iter().filter(|section| section.parent == parent);
        let possible = sections
            .map(|section| section.keyword)
            .chain(end.as_deref());
        let expected = match nearest(line.text, possible.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                let possible: Vec<String> = possible.map(|word| format!("`{word}`")).collect();
                let entry = match parent {
                    "" => "",
                    _ => ", or `KEY : VALUE`",
                };
                format!("expected {}{entry}", possible.join(" or "))
            }
        };
        report.error(line.offset, quoted(line.text), expected);
    }
}

/// Names of the sections that may be in `parent`.
fn children(parent: &str) -> String {
    let all = SECTIONS.iter().filter(|section| section.parent == parent);
    let all: Vec<String> = all
        .map(|section| format!("`{}`", section.keyword))
        .collect();
    all.join(", ")
}

/// The characters outside quotes, with their offsets. A quote without a partner is an ordinary
/// character.
fn unquoted(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut until = 0;
    text.char_indices().filter(move |&(at, c)| {
        if at < until {
            return false;
        }
        if c == '"' {
            let rest = &text[at + 1..];
            if let Some(len) = rest.find('"') {
                until = at + 1 + len + 1;
                return false;
            }
        }
        true
    })
}

fn without_comment(line: &str) -> &str {
    let comment = unquoted(line).find(|&(_, c)| c == '#');
    comment.map_or(line, |(at, _)| &line[..at])
}

impl<'a> Part<'a> {
    pub(super) fn trimmed(self) -> Part<'a> {
        let text = self.text.trim_start();
        Part {
            offset: self.offset + self.text.len() - text.len(),
            text: text.trim_end(),
        }
    }

    /// A subrange of this piece.
    pub(super) fn part(self, range: impl std::slice::SliceIndex<str, Output = str>) -> Part<'a> {
        let text = &self.text[range];
        Part {
            offset: self.offset + (text.as_ptr() as usize - self.text.as_ptr() as usize),
            text,
        }
    }

    /// Splits at commas outside of quotes, and trims.
    pub(super) fn items(self) -> Vec<Part<'a>> {
        let commas = unquoted(self.text).filter(|&(_, c)| c == ',');
        let mut items = Vec::new();
        let mut start = 0;
        for (at, _) in commas {
            items.push(self.part(start..at).trimmed());
            start = at + 1;
        }
        items.push(self.part(start..).trimmed());
        items
    }

    /// The text with quotes removed.
    pub(super) fn plain(self) -> String {
        let kept: String = {
            let text = self.text;
            let mut kept = String::with_capacity(text.len());
            let mut rest = text;
            while let Some(at) = rest.find('"') {
                let after = &rest[at + 1..];
                let Some(len) = after.find('"') else {
                    break;
                };
                kept.push_str(&rest[..at]);
                kept.push_str(&after[..len]);
                rest = &after[len + 1..];
            }
            kept.push_str(rest);
            kept
        };
        kept.trim().to_owned()
    }
}

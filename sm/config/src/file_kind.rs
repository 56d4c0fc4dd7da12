//! Recognises the kind of a file by its name and first line.

use std::fmt;
use std::path::Path;

/// The kinds of files that [`check`](super::check) knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A configuration of rsm.
    Toml,
    /// OpenSM's configuration.
    OpensmConf,
    /// OpenSM's table of LIDs.
    Guid2Lid,
    /// A list of GUIDs.
    GuidFile,
    /// Categories of ports.
    Categories,
    /// OpenSM's definitions of partitions.
    Partitions,
    /// OpenSM's policy for service levels of paths.
    QosPolicy,
    /// OpenSM's layout of a torus or mesh.
    TorusLayout,
    /// The design: the intended cabling.
    Design,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Toml => "rsm configuration",
            FileKind::OpensmConf => "OpenSM configuration",
            FileKind::Guid2Lid => "OpenSM guid2lid table",
            FileKind::GuidFile => "GUID list",
            FileKind::Categories => "list of port categories",
            FileKind::Partitions => "partition definitions",
            FileKind::QosPolicy => "QoS policy",
            FileKind::TorusLayout => "torus layout",
            FileKind::Design => "design",
        })
    }
}

impl FileKind {
    /// The kind of a file, recognised by its name and by its first line that is not a comment.
    pub fn recognise(file: &Path, text: &str) -> FileKind {
        if file.extension().is_some_and(|e| e == "toml") {
            return FileKind::Toml;
        }
        if file.extension().is_some_and(|e| e == "csv") {
            return FileKind::Design;
        }
        if file.file_name().is_some_and(|name| name == "guid2lid") {
            return FileKind::Guid2Lid;
        }
        if file
            .file_name()
            .is_some_and(|name| name == "partitions.conf")
        {
            return FileKind::Partitions;
        }
        if file
            .file_name()
            .is_some_and(|name| name == "qos-policy.conf")
        {
            return FileKind::QosPolicy;
        }
        let lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or("").trim());
        let first = lines.clone().find(|line| !line.is_empty()).unwrap_or("");
        let words: Vec<_> = first.split_whitespace().collect();
        let number = |word: &&str| word.starts_with("0x");
        match &words[..] {
            [] => FileKind::Toml,
            ["qos-ulps" | "port-groups" | "qos-setup" | "qos-levels" | "qos-match-rules"] => {
                FileKind::QosPolicy
            }
            _ if defines_a_partition(first, text) => FileKind::Partitions,
            _ if first.starts_with('[') || first.contains('=') => FileKind::Toml,
            ["torus" | "mesh", size, ..] if size.starts_with(|c: char| c.is_ascii_digit()) => {
                FileKind::TorusLayout
            }
            all if all.len() == 3 && all.iter().all(number) => FileKind::Guid2Lid,
            [guid, "compute" | "storage" | "management", ..] if number(guid) => {
                FileKind::Categories
            }
            [guid, ..] if number(guid) => FileKind::GuidFile,
            _ => FileKind::OpensmConf,
        }
    }
}

/// Whether a text with the first line `first` defines partitions: `NAME=P_KEY : MEMBERS ;`. The
/// semicolon may be missing, because operators often forget it.
fn defines_a_partition(first: &str, text: &str) -> bool {
    let before = first.split_once(':').map(|(before, _)| before);
    let is_keyed = before.is_some_and(|before| before.contains('=') && !before.contains('"'));
    !first.starts_with('[') && before.is_some() && (is_keyed || text.contains(';'))
}

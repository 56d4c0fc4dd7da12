use std::fmt;

use super::super::finding::ConfigFinding;

/// The outcome of a key of an `opensm.conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyGroup {
    /// rsm takes its value.
    Obeyed,
    /// rsm needs no such key, or this value asks for nothing that rsm does not do.
    NotNeeded,
    /// rsm does not do what it asks for: a warning says so.
    NotAvailable,
    /// Neither OpenSM nor NVIDIA's manager has such a key: a warning says so.
    Unknown,
}

impl KeyGroup {
    /// All groups.
    pub const ALL: [KeyGroup; 4] = [
        KeyGroup::Obeyed,
        KeyGroup::NotNeeded,
        KeyGroup::NotAvailable,
        KeyGroup::Unknown,
    ];
}

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            KeyGroup::Obeyed => "obeyed",
            KeyGroup::NotNeeded => "not needed here",
            KeyGroup::NotAvailable => "not available",
            KeyGroup::Unknown => "unknown",
        })
    }
}

/// A key of an `opensm.conf`, and what became of it. A key with a refused value is in no group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOutcome {
    /// The key.
    pub key: String,
    /// The key's line in the file, from 1.
    pub line: usize,
    /// The key's value; `None` if it is not set, or secret.
    pub value: Option<String>,
    /// Its group.
    pub group: KeyGroup,
    /// For an obeyed key, the key of rsm that has its value, as a note.
    pub taken: Option<ConfigFinding>,
}

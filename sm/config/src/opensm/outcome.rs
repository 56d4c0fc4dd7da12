use std::fmt;

use super::super::finding::ConfigFinding;

/// The outcome of a key of an `opensm.conf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyGroup {
    /// rsm uses the value of the key.
    Obeyed,
    /// rsm needs no such key, or the value requests nothing that rsm lacks.
    NotNeeded,
    /// rsm lacks the function that the key requests, and a warning says so.
    NotAvailable,
    /// Neither OpenSM nor NVIDIA's manager has such a key, and a warning says so.
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

/// A key of an `opensm.conf`, and its treatment by rsm. A key with a refused value has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyOutcome {
    /// The key.
    pub key: String,
    /// Line of the key in the file, from 1.
    pub line: usize,
    /// Value of the key; `None` if the value is not set, or secret.
    pub value: Option<String>,
    /// Group of the key.
    pub group: KeyGroup,
    /// A note about the key of rsm that got the value; `None` for keys that were not obeyed.
    pub taken: Option<ConfigFinding>,
}

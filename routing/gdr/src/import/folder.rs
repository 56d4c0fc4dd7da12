//! Sorts the files of a folder by the hosts that they are named after.

use std::collections::{BTreeMap, BTreeSet};

/// The files of a folder, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FolderFiles {
    /// The files of each host, sorted.
    pub hosts: BTreeMap<String, Vec<String>>,
    /// Copies and hidden files, which stand for no host.
    pub copies: Vec<String>,
}

/// Two files that may be those of two hosts behind one address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` and `{1}` differ in the port alone: expected files named after their hosts")]
pub struct PortsDiffer(pub String, pub String);

/// Sorts the names of files by host.
///
/// # Errors
/// Two files of one name have different ports.
pub fn files_by_host(names: BTreeSet<String>) -> Result<FolderFiles, PortsDiffer> {
    let mut files = FolderFiles::default();
    let mut with_port: BTreeMap<String, String> = BTreeMap::new();
    for name in names {
        if is_copy(&name) {
            files.copies.push(name);
            continue;
        }
        let stem = without_endings(&name);
        let host = without_port(stem);
        if stem != host {
            let first = with_port.entry(host.to_owned()).or_insert(name.clone());
            if without_endings(first) != stem {
                return Err(PortsDiffer(first.clone(), name));
            }
        }
        files.hosts.entry(host.to_owned()).or_default().push(name);
    }
    Ok(files)
}

/// The usual endings of inventory files.
const FILE_ENDINGS: [&str; 12] = [
    "txt", "tsv", "xml", "json", "log", "out", "matrix", "topo", "sysfs", "nccl", "hwloc", "smi",
];

/// The endings of copies and of files that editors and tools leave behind.
const ENDINGS_OF_COPIES: [&str; 12] = [
    "bak", "old", "orig", "save", "sav", "tmp", "swp", "swo", "part", "rej", "rpmsave", "dpkg-old",
];

/// Whether a file is a copy of another one, or a hidden one, so that it stands for no host:
/// `host-003.txt.bak`, `host-003.txt~`, `#host-003.txt#`, `.host-003.txt.swp`.
fn is_copy(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_known = |known: &&str| known.eq_ignore_ascii_case(ending);
    let marks = ['.', '#', '~'];
    name.starts_with(marks) || name.ends_with(marks) || ENDINGS_OF_COPIES.iter().any(is_known)
}

/// The name of a file without the endings of [`FILE_ENDINGS`]. Other parts after a dot are those of
/// the host's domain.
fn without_endings(name: &str) -> &str {
    let mut stem = name;
    while let Some((rest, ending)) = stem.rsplit_once('.') {
        let is_known = |known: &&str| known.eq_ignore_ascii_case(ending);
        if rest.is_empty() || !FILE_ENDINGS.iter().any(is_known) {
            break;
        }
        stem = rest;
    }
    stem
}

/// The name of a host without the port at which a parallel shell reached it (`node01:2222`).
fn without_port(name: &str) -> &str {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && is_port(port) => host,
        _ => name,
    }
}

//! Readers of inventories in the formats of the machines' own tools.
//!
//! Every reader is a function from bytes to a [`HostInventory`] that keeps all of its rules, or to
//! the line and the reason why not. Sizes are bounded, and hostile input costs no more than its
//! length.

mod amd;
mod error;
mod hwloc;
mod json;
mod matrix;
mod nccl;
mod other;
mod pcie;
mod pcie_settings;
mod stream;
mod sysfs;
mod text;
mod xml;

use std::str::FromStr;

pub use error::{ImportError, ImportReason};
pub use json::{to_compact_json, to_json};
pub use stream::{HostStream, MAX_STREAM_BYTES, hosts_of_stream};

use super::inventory::HostInventory;

/// The most bytes of one file: hwloc's export of the largest machines has about 2 MB.
pub const MAX_BYTES: usize = 8 << 20;

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InventoryFormat {
    /// The output of `nvidia-smi topo -m` and `-mp`, of every driver.
    NvidiaSmi,
    /// The output of `amd-smi topology`, and of `rocm-smi --showtopo`: GPUs and the links between
    /// them, no adapters.
    AmdSmi,
    /// The topology file of NCCL and RCCL, whole or partial.
    NcclXml,
    /// hwloc's export, `lstopo --of xml`, of hwloc 2 and 3.
    Hwloc,
    /// `/sys` flattened: one line for each file, its path, a tab, and its content or its link's
    /// target.
    Sysfs,
    /// rsm's own, as [`to_json`] writes it.
    Json,
}

impl InventoryFormat {
    /// Every format.
    pub const ALL: [InventoryFormat; 6] = [
        InventoryFormat::NvidiaSmi,
        InventoryFormat::AmdSmi,
        InventoryFormat::NcclXml,
        InventoryFormat::Hwloc,
        InventoryFormat::Sysfs,
        InventoryFormat::Json,
    ];

    /// The format of a text, by its content: files of one host come with any ending.
    ///
    /// Text without the marks of another format is taken as [`InventoryFormat::NvidiaSmi`], whose
    /// reader says what it expects.
    pub fn detect(bytes: &[u8]) -> InventoryFormat {
        let Ok(text) = text::decode(bytes) else {
            return InventoryFormat::NvidiaSmi;
        };
        let start = text.trim_start();
        match () {
            () if start.starts_with('{') => InventoryFormat::Json,
            () if start.starts_with('<') && text.contains("<topology") => InventoryFormat::Hwloc,
            () if start.starts_with('<') => InventoryFormat::NcclXml,
            () if amd::is_output(&text) => InventoryFormat::AmdSmi,
            () if sysfs::is_snapshot(&text) => InventoryFormat::Sysfs,
            () => InventoryFormat::NvidiaSmi,
        }
    }

    /// The name on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            InventoryFormat::NvidiaSmi => "nvidia-smi",
            InventoryFormat::AmdSmi => "amd-smi",
            InventoryFormat::NcclXml => "nccl-xml",
            InventoryFormat::Hwloc => "hwloc",
            InventoryFormat::Sysfs => "sysfs",
            InventoryFormat::Json => "json",
        }
    }
}

/// The text names no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format: expected nvidia-smi, amd-smi, nccl-xml, hwloc, sysfs or json")]
pub struct ParseFormatError(pub String);

impl FromStr for InventoryFormat {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        InventoryFormat::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| ParseFormatError(text.to_owned()))
    }
}

/// The host that a file describes.
///
/// # Errors
/// The first line that the importer refuses, and why.
pub fn import(format: InventoryFormat, bytes: &[u8]) -> Result<HostInventory, ImportError> {
    if bytes.len() > MAX_BYTES {
        return Err(ImportError::new(1, ImportReason::TooLong(bytes.len())));
    }
    let text = &*text::decode(bytes)?;
    let host = match format {
        InventoryFormat::NvidiaSmi => matrix::read(text).map_err(|error| other::named(text, error)),
        InventoryFormat::AmdSmi => amd::read(text),
        InventoryFormat::NcclXml => nccl::read(text),
        InventoryFormat::Hwloc => hwloc::read(text),
        InventoryFormat::Sysfs => sysfs::read(text),
        InventoryFormat::Json => json::read(text),
    }?;
    host.check()
        .map_err(|error| ImportError::new(line_of(text.as_bytes()), error.into()))?;
    Ok(host)
}

/// The last line of a text; a line break at its end starts no other.
fn line_of(text: &[u8]) -> u32 {
    breaks(text.strip_suffix(b"\n").unwrap_or(text)) + 1
}

fn breaks(text: &[u8]) -> u32 {
    // At most MAX_BYTES.
    text.iter().filter(|&&byte| byte == b'\n').count() as u32
}

/// The endings of files of inventories.
pub const FILE_ENDINGS: [&str; 12] = [
    "txt", "tsv", "xml", "json", "log", "out", "matrix", "topo", "sysfs", "nccl", "hwloc", "smi",
];

/// The endings of copies and of files that editors and tools leave behind.
const ENDINGS_OF_COPIES: [&str; 12] = [
    "bak", "old", "orig", "save", "sav", "tmp", "swp", "swo", "part", "rej", "rpmsave", "dpkg-old",
];

/// Whether a file is a copy of another one, or a hidden one, so that it stands for no host:
/// `host-003.txt.bak`, `host-003.txt~`, `#host-003.txt#`, `.host-003.txt.swp`.
pub fn is_copy(name: &str) -> bool {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_known = |known: &&str| known.eq_ignore_ascii_case(ending);
    let marks = ['.', '#', '~'];
    name.starts_with(marks) || name.ends_with(marks) || ENDINGS_OF_COPIES.iter().any(is_known)
}

/// The host that a file is named after: its name without the endings of [`FILE_ENDINGS`]. Other
/// parts after a dot are those of the host's domain.
pub fn host_of_file(name: &str) -> &str {
    let mut host = name;
    while let Some((rest, ending)) = host.rsplit_once('.') {
        let is_known = |known: &&str| known.eq_ignore_ascii_case(ending);
        if rest.is_empty() || !FILE_ENDINGS.iter().any(is_known) {
            break;
        }
        host = rest;
    }
    host
}

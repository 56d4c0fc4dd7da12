//! Reads inventories in the formats of the machines' own tools.
//!
//! Every importer is a function from bytes to a valid [`HostInventory`], or to an error with its
//! line and reason. Sizes are limited, and hostile input costs no more than its length.

mod amd;
mod error;
mod folder;
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
pub use folder::{FolderFiles, PortsDiffer, files_by_host};
pub use json::{to_compact_json, to_json};
pub use stream::{HostStream, MAX_STREAM_BYTES, hosts_of_stream};

use super::inventory::HostInventory;

/// The maximum size of one file in bytes: hwloc's export of the largest machines has about 2 MB.
pub const MAX_BYTES: usize = 8 << 20;

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InventoryFormat {
    /// The output of `nvidia-smi topo -m` and `-mp` with any driver.
    NvidiaSmi,
    /// The output of `amd-smi topology` or `rocm-smi --showtopo`: GPUs and the links between them,
    /// without adapters.
    AmdSmi,
    /// The topology file of NCCL and RCCL, whole or partial.
    NcclXml,
    /// hwloc's export, `lstopo --of xml`, of hwloc 2 and 3.
    Hwloc,
    /// The content of `/sys` as text: one line for each file, with its path, a tab, and its content
    /// or its link's target.
    Sysfs,
    /// rsm's own format, which [`to_json`] writes.
    Json,
}

impl InventoryFormat {
    /// All formats.
    pub const ALL: [InventoryFormat; 6] = [
        InventoryFormat::NvidiaSmi,
        InventoryFormat::AmdSmi,
        InventoryFormat::NcclXml,
        InventoryFormat::Hwloc,
        InventoryFormat::Sysfs,
        InventoryFormat::Json,
    ];

    /// Detects the format of a text by its content: files of one host may have any ending.
    ///
    /// Text without the marks of any other format counts as [`InventoryFormat::NvidiaSmi`], whose
    /// importer then reports what it expects.
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

    /// The name of the format on command lines.
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

/// The error for a text that names no format.
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

/// Reads the host that a file describes.
///
/// # Errors
/// The importer refuses the file; the error describes the first problem, with its line.
pub fn import(format: InventoryFormat, bytes: &[u8]) -> Result<HostInventory, ImportError> {
    if bytes.len() > MAX_BYTES {
        return Err(ImportError::new(1, ImportReason::TooLong(bytes.len())));
    }
    let text = &*text::decode(bytes)?;
    let host = match format {
        InventoryFormat::NvidiaSmi => {
            matrix::read(text).map_err(|error| other::with_tool_name(text, error))
        }
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

/// The number of the last line of a text; a final line break starts no further line.
fn line_of(text: &[u8]) -> u32 {
    breaks(text.strip_suffix(b"\n").unwrap_or(text)) + 1
}

/// The number of line breaks in a text.
fn breaks(text: &[u8]) -> u32 {
    // The count is at most MAX_BYTES.
    text.iter().filter(|&&byte| byte == b'\n').count() as u32
}

//! The reason why a host has no inventory.

use std::io;
use std::path::PathBuf;

use rsm_gdr::import::ImportError;
use rsm_gdr::inventory::InventoryError;

/// The reason why a host has no inventory.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A directory has more entries than on any machine.
    #[error("{} has more than {limit} entries", .path.display())]
    TooManyEntries {
        /// The path of the directory.
        path: PathBuf,
        /// The maximum number of entries that are read.
        limit: usize,
    },
    /// A directory exists but cannot be read; the inventory would be incomplete.
    #[error("{} cannot be read ({error}): run the agent as root, or where /sys is mounted whole", .path.display())]
    Unreadable {
        /// The path of the directory.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The host has neither GPUs nor adapters.
    #[error("{} has neither GPUs nor InfiniBand adapters", .sys.display())]
    NoDevices {
        /// The mount point of /sys.
        sys: PathBuf,
    },
    /// The lines of `/sys` form no inventory.
    #[error("{}: {error}", .sys.display())]
    InvalidSys {
        /// The mount point of /sys.
        sys: PathBuf,
        /// The line and the error.
        error: Box<ImportError>,
    },
    /// The sources, taken together, form no valid inventory.
    #[error("the host's inventory is invalid: {0}")]
    InvalidInventory(#[from] InventoryError),
}

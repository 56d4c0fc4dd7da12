//! The reason why a host has no inventory.

use std::io;
use std::path::PathBuf;

use rsm_gdr::import::ImportError;
use rsm_gdr::inventory::InventoryError;

/// The reason why a host has no inventory.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A directory has more entries than any machine's.
    #[error("{} has more than {most} entries", .path.display())]
    TooManyEntries {
        /// The path of the directory.
        path: PathBuf,
        /// The maximum number of entries that are read.
        most: usize,
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
    Nothing {
        /// The mount point of /sys.
        sys: PathBuf,
    },
    /// The lines of `/sys` form no inventory.
    #[error("{}: {error}", .sys.display())]
    Sys {
        /// The mount point of /sys.
        sys: PathBuf,
        /// The line and the error.
        error: Box<ImportError>,
    },
    /// All sources together form no inventory.
    #[error("together the sources are no inventory: {0}")]
    Together(#[from] InventoryError),
}

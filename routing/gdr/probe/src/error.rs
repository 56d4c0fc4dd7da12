//! Why a host has no inventory.

use std::io;
use std::path::PathBuf;

use rsm_gdr::import::ImportError;
use rsm_gdr::inventory::InventoryError;

/// Why a host has no inventory.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A directory with more entries than any machine has.
    #[error("{} has more than {most} entries", .path.display())]
    TooManyEntries {
        /// The directory.
        path: PathBuf,
        /// The most that are read.
        most: usize,
    },
    /// A directory that is there and cannot be read: without it the inventory would be half.
    #[error("{} cannot be read ({error}): run the agent as root, or where /sys is mounted whole", .path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A host without GPUs and adapters.
    #[error("{} has neither GPUs nor InfiniBand adapters", .sys.display())]
    Nothing {
        /// The mount point of /sys.
        sys: PathBuf,
    },
    /// The lines of `/sys` are no inventory.
    #[error("{}: {error}", .sys.display())]
    Sys {
        /// The mount point of /sys.
        sys: PathBuf,
        /// The line and the reason.
        error: Box<ImportError>,
    },
    /// All sources together are no inventory.
    #[error("together the sources are no inventory: {0}")]
    Together(#[from] InventoryError),
}

//! Why a host has no inventory.

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

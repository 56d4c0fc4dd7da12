use std::io;
use std::path::{Path, PathBuf};

use super::epoch::Epoch;
use super::file_operation::FileOperation;

/// Reason why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another daemon has locked the state directory.
    #[error("{} is in use{}: two subnet managers cannot share a state directory; stop the other one or give this one its own with --state-dir", dir.display(), holder_text(*holder))]
    Locked {
        /// The state directory.
        dir: PathBuf,
        /// Process ID of that daemon; `None` if it is not known.
        holder: Option<u32>,
    },
    /// A simulation was about to use the store of a hardware fabric. The store is unchanged.
    #[error("{} is the state directory of a fabric of hardware{}: a simulation would leave devices in it that do not exist; give the simulation its own folder with --state-dir", dir.display(), earlier_text(mark, *is_marked))]
    OfHardware {
        /// The state directory.
        dir: PathBuf,
        /// The file with the kind of fabric.
        mark: PathBuf,
        /// Whether the file names hardware; `false` for a store without a valid file, which counts
        /// as a store of hardware.
        is_marked: bool,
    },
    /// A manager of hardware was about to use the store of a simulation. The store is unchanged.
    #[error("{} is the state directory of a simulated fabric: its devices are not those of this fabric; give rsm another folder with --state-dir or state.dir, or remove this one to start anew", dir.display())]
    OfSimulation {
        /// The state directory.
        dir: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// The operation that failed.
        operation: FileOperation,
        /// File or directory of the operation.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: io::Error,
    },
    /// Another version of rsm wrote the store. The store is unchanged.
    #[error("{} has store schema {found}, this version reads {supported}: run the version that wrote it, or move the directory away to start anew", path.display())]
    Schema {
        /// The file that names the schema.
        path: PathBuf,
        /// Schema that the file names.
        found: u16,
        /// Schema that this version reads and writes.
        supported: u16,
    },
    /// The database refused a batch. Earlier commits are intact.
    #[error("cannot commit to the database in {}", path.display())]
    Database {
        /// The database's directory.
        path: PathBuf,
        /// Cause of the refusal.
        #[source]
        source: sled::Error,
    },
    /// The database panicked. Earlier commits are intact.
    #[error("the database in {} panicked: {message}", path.display())]
    Panicked {
        /// The database's directory.
        path: PathBuf,
        /// Message of the panic.
        message: String,
    },
    /// No endpoint of the shared store answered, or the answer was a failure that may be temporary.
    #[error("the shared store at {endpoints} does not answer: {reason}")]
    Unreachable {
        /// The endpoints, as configured.
        endpoints: String,
        /// Failure of the last endpoint.
        reason: String,
    },
    /// The shared store refuses this manager's user, password or certificate.
    #[error("the shared store at {endpoints} refuses this manager: {reason}")]
    Refused {
        /// The endpoints, as configured.
        endpoints: String,
        /// Reason of the refusal.
        reason: String,
    },
    /// Another manager holds the epoch of the shared store. No part of the batch was written.
    #[error("the shared store follows another manager now: {0}")]
    Deposed(Epoch),
    /// A commit was attempted without the epoch.
    #[error("this manager does not hold the epoch of the shared store")]
    NoEpoch,
    /// The shared store contains keys that rsm did not write. The store is unchanged.
    #[error(
        "{key} in the shared store is not of rsm ({reason}): give rsm a key prefix of its own with store.prefix, or remove these keys"
    )]
    Foreign {
        /// The first such key.
        key: String,
        /// Reason why the key is not a key of rsm.
        reason: String,
    },
    /// The shared store is damaged. The store is unchanged.
    #[error(
        "{key} in the shared store is damaged ({reason}): restore etcd from a backup, or remove the keys under {prefix} so that the master writes them anew"
    )]
    Corrupt {
        /// The damaged key.
        key: String,
        /// Kind of the damage.
        reason: String,
        /// Prefix of the keys of this subnet.
        prefix: String,
    },
    /// The rows of one page exceed the limit of a transaction of etcd.
    #[error("a page of `{table}` has {bytes} bytes: a transaction of etcd takes {limit}")]
    PageTooLarge {
        /// The table.
        table: String,
        /// Size of the page in bytes.
        bytes: usize,
        /// Maximum size, in bytes.
        limit: usize,
    },
    /// A setting of the shared store cannot be used.
    #[error("{what}")]
    Setting {
        /// Description of the fault, with the file or configuration key.
        what: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// The part of the text of [`StoreError::OfHardware`] about a store without a mark.
fn earlier_text(mark: &Path, is_marked: bool) -> String {
    if is_marked {
        return String::new();
    }
    format!(
        " (an earlier version wrote it, without {}; if only simulations have used it, remove the folder, or write `simulation` to that file)",
        mark.display()
    )
}

/// The part of the text of [`StoreError::Locked`] that names the process.
fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

use std::io;
use std::path::PathBuf;

use super::io::Operation;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another daemon holds the state directory.
    #[error("{} is in use{}: two subnet managers cannot share a state directory; stop the other one or give this one its own with --state-dir", dir.display(), holder_text(*holder))]
    Locked {
        /// The state directory.
        dir: PathBuf,
        /// The process that holds it, if it left its number.
        holder: Option<u32>,
    },
    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// The operation.
        operation: Operation,
        /// Its file or directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The store was written by another version of this program. Nothing of it was changed.
    #[error("{} has store schema {found}, this version reads {supported}: run the version that wrote it, or move the directory away to start anew", path.display())]
    Schema {
        /// The file that names the schema.
        path: PathBuf,
        /// The schema it names.
        found: u16,
        /// The schema this version reads and writes.
        supported: u16,
    },
    /// The database refused a batch. Earlier commits are intact.
    #[error("cannot commit to the database in {}", path.display())]
    Database {
        /// The database's directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: sled::Error,
    },
    /// The database panicked. Earlier commits are intact.
    #[error("the database in {} panicked: {message}", path.display())]
    Panicked {
        /// The database's directory.
        path: PathBuf,
        /// The message of the panic.
        message: String,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(String::new, |pid| format!(" by process {pid}"))
}

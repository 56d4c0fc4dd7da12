//! The file operations of the store, as errors name them.

use std::fmt;

/// A file operation that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Create a directory.
    CreateDirectory,
    /// List a directory.
    List,
    /// Read a whole file.
    Read,
    /// Write a file under a temporary name and flush it to the disk.
    Write,
    /// Write at the end of a file and flush the written bytes to the disk.
    Append,
    /// Give a file or directory its final name.
    Rename,
    /// Flush a file's or a directory's contents to the disk.
    Sync,
    /// Copy a directory.
    Copy,
    /// Remove a file or directory.
    Remove,
    /// Take the lock.
    Lock,
    /// Hand a batch to the database.
    Apply,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::CreateDirectory => "create the directory",
            Operation::List => "list",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Append => "append to",
            Operation::Rename => "rename",
            Operation::Sync => "flush to the disk",
            Operation::Copy => "copy",
            Operation::Remove => "remove",
            Operation::Lock => "lock",
            Operation::Apply => "commit to",
        })
    }
}

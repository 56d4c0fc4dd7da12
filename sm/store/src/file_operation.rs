//! The file operations of the store, with their names in errors.

use std::fmt;

/// A file operation that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Create a directory.
    CreateDirectory,
    /// List a directory.
    List,
    /// Read a whole file.
    Read,
    /// Write a file under a temporary name, or in place, and flush it to the disk.
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

impl fmt::Display for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileOperation::CreateDirectory => "create the directory",
            FileOperation::List => "list",
            FileOperation::Read => "read",
            FileOperation::Write => "write",
            FileOperation::Append => "append to",
            FileOperation::Rename => "rename",
            FileOperation::Sync => "flush to the disk",
            FileOperation::Copy => "copy",
            FileOperation::Remove => "remove",
            FileOperation::Lock => "lock",
            FileOperation::Apply => "commit to",
        })
    }
}

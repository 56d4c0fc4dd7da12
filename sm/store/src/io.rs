//! Every file operation of the store, except those inside sled.
//!
//! Each operation goes through [`Disk`], so that a test can make any single one fail, or end the
//! process before it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::StoreError;
pub use super::file_operation::FileOperation;

/// Hook called before each operation; an error that it returns makes the operation fail.
pub(crate) type IoFault = Arc<dyn Fn(FileOperation, &Path) -> io::Result<()> + Send + Sync>;

/// Returns how many bytes of a failing write reach the disk, given the length of the write.
pub type TornLength = fn(usize) -> usize;

/// The file system, where tests can inject faults.
#[derive(Clone, Default)]
pub struct Disk {
    fault: Option<IoFault>,
    /// Number of bytes that a failing append writes; `None` for zero.
    torn: Option<TornLength>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("faulty", &self.fault.is_some())
            .finish()
    }
}

impl Disk {
    /// The real file system.
    pub fn new() -> Disk {
        Disk::default()
    }

    /// The real file system with a hook `fault`, which can make an operation fail before it
    /// happens.
    pub fn with_fault(fault: IoFault) -> Disk {
        Disk {
            fault: Some(fault),
            torn: None,
        }
    }

    /// Makes a failing append write the first `torn(length)` of its `length` bytes.
    #[must_use]
    pub fn tearing(self, torn: TornLength) -> Disk {
        Disk {
            torn: Some(torn),
            ..self
        }
    }

    /// Runs `work`, and adds `operation` and `path` to its error.
    pub fn run<T>(
        &self,
        operation: FileOperation,
        path: &Path,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, StoreError> {
        self.check(operation, path)
            .and_then(|()| work())
            .map_err(|source| StoreError::Io {
                operation,
                path: path.to_owned(),
                source,
            })
    }

    /// Writes `bytes` to an open file, as `operation` on `path`.
    pub(super) fn write_to(
        &self,
        operation: FileOperation,
        path: &Path,
        file: &mut File,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.check(operation, path).inspect_err(|_| {
            let torn = self.torn.map_or(0, |torn| torn(bytes.len()));
            // The operation fails even if this succeeds.
            let _ = file.write_all(&bytes[..torn]);
        })?;
        file.write_all(bytes)
    }

    /// The injected fault of an operation, if it fails.
    fn check(&self, operation: FileOperation, path: &Path) -> io::Result<()> {
        self.fault
            .as_ref()
            .map_or(Ok(()), |fault| fault(operation, path))
    }

    /// Creates a directory, and its parents if they are absent.
    pub fn create_dir(&self, path: &Path) -> Result<(), StoreError> {
        self.run(FileOperation::CreateDirectory, path, || {
            fs::create_dir_all(path)
        })
    }

    /// The contents of a file; `None` if the file is absent.
    pub fn read(&self, path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
        self.run(FileOperation::Read, path, || match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Whether the file exists.
    pub(super) fn exists(&self, path: &Path) -> Result<bool, StoreError> {
        self.run(FileOperation::Read, path, || path.try_exists())
    }

    /// The sorted paths in a directory; empty if the directory is absent.
    pub fn list(&self, path: &Path) -> Result<Vec<PathBuf>, StoreError> {
        self.run(FileOperation::List, path, || {
            let entries = match fs::read_dir(path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            let mut paths = entries
                .map(|entry| Ok(entry?.path()))
                .collect::<io::Result<Vec<_>>>()?;
            paths.sort();
            Ok(paths)
        })
    }

    /// Writes `bytes` to a temporary file next to `path` and flushes it. [`publish`](Disk::publish)
    /// renames it to `path`.
    pub(super) fn prepare(&self, path: &Path, bytes: &[u8]) -> Result<PreparedFile, StoreError> {
        let (prepared, ()) = self.prepare_with(path, |out| out.write_all(bytes))?;
        Ok(prepared)
    }

    /// Prepares a file as [`prepare`](Disk::prepare) does, with the bytes that `write` writes.
    /// Returns also the result of `write`.
    pub(super) fn prepare_with<T>(
        &self,
        path: &Path,
        write: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
    ) -> Result<(PreparedFile, T), StoreError> {
        let temporary = temporary_name(path);
        let written = self.run(FileOperation::Write, &temporary, || {
            let mut out = BufWriter::new(File::create(&temporary)?);
            let result = write(&mut out)?;
            out.into_inner()?.sync_all()?;
            Ok(result)
        });
        let prepared = PreparedFile {
            temporary,
            path: path.to_owned(),
            published: false,
        };
        // After a failure, dropping `prepared` removes the unfinished file.
        written.map(|result| (prepared, result))
    }

    /// Replaces a file by `bytes`, durably. After an error, the file has its old or its new
    /// content.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let prepared = self.prepare(path, bytes)?;
        self.publish(prepared)
    }

    /// Writes `bytes` after the first `end` bytes of a file, durably. An error leaves these `end`
    /// bytes unchanged, possibly followed by some of `bytes`.
    pub(super) fn append(&self, path: &Path, end: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let append = || {
            let mut file = OpenOptions::new().append(true).open(path)?;
            let held = file.metadata()?.len();
            if held != end {
                let text = format!("the file has {held} bytes: expected {end}");
                return Err(io::Error::new(ErrorKind::InvalidData, text));
            }
            self.write_to(FileOperation::Append, path, &mut file, bytes)?;
            file.sync_data()
        };
        append().map_err(|source| StoreError::Io {
            operation: FileOperation::Append,
            path: path.to_owned(),
            source,
        })
    }

    /// Renames a prepared file to its final name, durably.
    pub(super) fn publish(&self, mut prepared: PreparedFile) -> Result<(), StoreError> {
        self.rename(&prepared.temporary, &prepared.path)?;
        prepared.published = true;
        Ok(())
    }

    /// Renames a file or directory, and flushes the directory that contains the new name.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.run(FileOperation::Rename, from, || fs::rename(from, to))?;
        to.parent().map_or(Ok(()), |parent| self.sync(parent))
    }

    /// Flushes the contents of a file, or the names in a directory, to the disk.
    pub fn sync(&self, path: &Path) -> Result<(), StoreError> {
        self.run(FileOperation::Sync, path, || File::open(path)?.sync_all())
    }

    /// Flushes the contents of a file, with only the metadata required to read them.
    pub(super) fn sync_data(&self, path: &Path) -> Result<(), StoreError> {
        self.run(FileOperation::Sync, path, || {
            OpenOptions::new().write(true).open(path)?.sync_data()
        })
    }

    /// Replaces the directory `to` by a copy of `from`; the copy is not flushed. After an error,
    /// removes the partial copy, so that it does not occupy a full disk.
    pub(super) fn copy_dir(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        self.remove_dir(to)?;
        self.run(FileOperation::Copy, from, || copy_tree(from, to))
            .inspect_err(|_| {
                // The next copy removes the remains of this one.
                let _ = fs::remove_dir_all(to);
            })
    }

    /// Removes a file, durably. An absent file is no error.
    pub fn remove_file(&self, path: &Path) -> Result<(), StoreError> {
        let removed = self.run(FileOperation::Remove, path, || {
            match fs::remove_file(path) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })?;
        match path.parent() {
            Some(parent) if removed => self.sync(parent),
            _ => Ok(()),
        }
    }

    /// Removes a directory with its contents. An absent directory is no error.
    pub(super) fn remove_dir(&self, path: &Path) -> Result<(), StoreError> {
        self.run(FileOperation::Remove, path, || {
            match fs::remove_dir_all(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        })
    }
}

/// A file that is complete on the disk under a temporary name. Dropping an unpublished file removes
/// it.
#[derive(Debug)]
pub(super) struct PreparedFile {
    temporary: PathBuf,
    path: PathBuf,
    published: bool,
}

impl Drop for PreparedFile {
    fn drop(&mut self) {
        if !self.published {
            // No process reads a temporary file, and the next write replaces it, so that a failure
            // is harmless.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Whether `path` still names this open file. If the folder was replaced, or another file system
/// was mounted over it, writes to the file are lost.
pub fn is_at(file: &File, path: &Path) -> bool {
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    let open = file.metadata().map(identity).ok();
    open.is_some() && open == fs::metadata(path).map(identity).ok()
}

/// Name of the file that later replaces `path`.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Copies a directory with all files and directories below it.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpublished_file_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let disk = Disk::new();
        drop(disk.prepare(&path, b"one").unwrap());
        assert_eq!(disk.list(dir.path()).unwrap(), Vec::<PathBuf>::new());
        let prepared = disk.prepare(&path, b"two").unwrap();
        disk.publish(prepared).unwrap();
        assert_eq!(disk.read(&path).unwrap().unwrap(), b"two");
        assert_eq!(disk.list(dir.path()).unwrap(), [path]);
    }

    #[test]
    fn an_injected_fault_names_operation_and_path() {
        let disk = Disk::with_fault(Arc::new(|operation, _| match operation {
            FileOperation::Write => Err(ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }));
        let error = disk.prepare(Path::new("/nowhere/x"), b"").unwrap_err();
        assert_eq!(error.to_string(), "cannot write /nowhere/x.tmp");
    }

    #[test]
    fn a_copied_directory_replaces_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a"), dir.path().join("b"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/x"), b"x").unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(to.join("old"), b"old").unwrap();
        Disk::new().copy_dir(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("sub/x")).unwrap(), b"x");
        assert!(!to.join("old").exists());
    }
}

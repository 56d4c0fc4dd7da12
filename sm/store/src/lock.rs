use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::StoreError;
use super::io::{self, Disk, FileOperation};

/// The lock of a state directory, held by this process.
///
/// The directory itself is locked, which requires neither space nor write access. The file `lock`
/// in the directory names the process and is locked as well, because earlier versions check only
/// the file. The kernel releases both locks when the process ends, so that a killed daemon leaves
/// nothing to clean up.
#[derive(Debug)]
pub(super) struct Lock {
    dir: File,
    /// The lock file; `None` if it cannot be opened, for example because the directory is not
    /// writable and has no such file.
    _file: Option<File>,
}

impl Lock {
    /// Locks `dir`.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process holds the lock; an I/O error if `dir` cannot be
    /// opened.
    pub(super) fn take(disk: &Disk, dir: &Path) -> Result<Lock, StoreError> {
        let path = dir.join("lock");
        let held = || StoreError::Locked {
            dir: dir.to_owned(),
            holder: File::open(&path)
                .ok()
                .and_then(|mut file| holder(&mut file)),
        };
        let folder = disk.run(FileOperation::Lock, dir, || File::open(dir))?;
        if !disk.run(FileOperation::Lock, dir, || try_lock(&folder))? {
            return Err(held());
        }
        let Some(mut file) = open(&path) else {
            return Ok(Lock {
                dir: folder,
                _file: None,
            });
        };
        if !disk.run(FileOperation::Lock, &path, || try_lock(&file))? {
            return Err(held());
        }
        // The process ID only serves the error message of a second process: a full disk must not
        // keep this process from running.
        let _ = file.set_len(0);
        let _ = writeln!(file, "{}", std::process::id());
        Ok(Lock {
            dir: folder,
            _file: Some(file),
        })
    }

    /// Whether the locked directory is still the one at the path `dir`, where another directory may
    /// have replaced it.
    pub(super) fn is_of(&self, dir: &Path) -> bool {
        io::is_at(&self.dir, dir)
    }
}

/// Opens the lock file, for writing if possible.
fn open(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).or_else(|_| File::open(path)).ok()
}

/// Tries to take the lock. Returns whether it was free.
fn try_lock(file: &File) -> std::io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The process ID in the lock file; `None` if the file contains none.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_is_refused_with_the_pid_of_the_holder() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let first = Lock::take(&disk, dir.path()).unwrap();
        match Lock::take(&disk, dir.path()) {
            Err(StoreError::Locked { holder, .. }) => {
                assert_eq!(holder, Some(std::process::id()));
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        Lock::take(&disk, dir.path()).unwrap();
    }

    #[test]
    fn directory_stays_locked_after_its_lock_file_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new();
        let _first = Lock::take(&disk, dir.path()).unwrap();
        std::fs::remove_file(dir.path().join("lock")).unwrap();
        assert!(matches!(
            Lock::take(&disk, dir.path()),
            Err(StoreError::Locked { holder: None, .. })
        ));
    }

    #[test]
    fn lock_is_refused_if_an_earlier_version_has_locked_only_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("lock")).unwrap();
        file.try_lock().unwrap();
        assert!(matches!(
            Lock::take(&Disk::new(), dir.path()),
            Err(StoreError::Locked { .. })
        ));
    }
}

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::StoreError;
use super::io::{Disk, Operation};

/// Holds a state directory for this process.
///
/// The kernel drops the lock with the process, so a killed daemon leaves nothing to clean up.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(disk: &Disk, dir: &Path) -> Result<Lock, StoreError> {
        let path = dir.join("lock");
        let file = disk.run(Operation::Lock, &path, || {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Err(holder(&mut file))),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            file.set_len(0)?;
            // Only for the error message of a second process: a full disk must not keep this one
            // from running.
            let _ = writeln!(file, "{}", std::process::id());
            Ok(Ok(file))
        })?;
        match file {
            Ok(file) => Ok(Lock { _file: file }),
            Err(holder) => Err(StoreError::Locked {
                dir: dir.to_owned(),
                holder,
            }),
        }
    }
}

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
    fn a_second_lock_is_refused_with_the_pid_of_the_holder() {
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
}

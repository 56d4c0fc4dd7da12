//! Access to sled, isolated so that the daemon survives sled's failures on damaged files.
//!
//! sled 0.34 panics on some damaged files, and opens others as empty without an error. This module
//! catches panics; [`guard`](super::guard) detects empty databases by comparing the contents with
//! the last commit. `flush()` alone is not durable (it ends in `sync_file_range`, which does not
//! flush the disk's own cache), so that each commit ends in `sync_data` on sled's file.

use std::any::Any;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::StoreError;
use super::io::{Disk, FileOperation};

/// Page cache of the database in bytes. A store of 50,000 ports takes a few megabytes; sled's
/// default is a gigabyte.
const CACHE_BYTES: u64 = 2 * 1024 * 1024;

/// Time after which a database that does not open counts as damaged. Opening takes milliseconds; a
/// damaged file may send sled into a loop.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of records in one batch. sled keeps replaced pages until the batch ends: with
/// 90,000 records in one batch, copies of pages took 600 MB.
pub(super) const BATCH_RECORDS: usize = 1024;

/// Number of attempts to take the database's own lock. sled's last thread may hold the lock for a
/// moment after the database was closed.
const LOCK_ATTEMPTS: u32 = 200;
/// Pause between two attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Key and value of each record.
pub(super) type Contents = Vec<(Vec<u8>, Vec<u8>)>;

/// A change of one record: its key and its new value, `None` to remove it.
pub(super) type RecordChange = (Vec<u8>, Option<Vec<u8>>);

/// An open database.
pub(super) struct Database {
    /// The database; `None` once it is closed.
    db: Option<sled::Db>,
    dir: PathBuf,
}

/// Reason why a database did not open.
pub(super) enum OpenFailure {
    /// The database's files are damaged; the text describes the damage.
    Damaged(String),
    /// The files may be intact; the system around them failed.
    System(StoreError),
}

impl Database {
    /// Opens the database, or creates it, and reads all records. Waits at most [`OPEN_TIMEOUT`].
    pub(super) fn open(dir: &Path) -> Result<(Database, Contents), OpenFailure> {
        let path = dir.to_owned();
        let (sender, receiver) = mpsc::channel();
        let spawned = thread::Builder::new()
            .name("store-open".into())
            .spawn(move || {
                let opened = catch_unwind(|| open_and_read(&path)).map_err(panic_text);
                // Sending fails after the timeout; the database is then dropped, which closes it.
                let _ = sender.send(opened);
            });
        if let Err(source) = spawned {
            return Err(OpenFailure::System(StoreError::Io {
                operation: FileOperation::Read,
                path: dir.to_owned(),
                source,
            }));
        }
        match receiver.recv_timeout(OPEN_TIMEOUT) {
            Ok(Ok(Ok((db, contents)))) => {
                let (db, dir) = (Some(db), dir.to_owned());
                Ok((Database { db, dir }, contents))
            }
            Ok(Ok(Err(error))) => Err(classify(dir, error)),
            Ok(Err(message)) => Err(OpenFailure::Damaged(format!(
                "the database panicked: {message}"
            ))),
            Err(_) => Err(OpenFailure::Damaged(format!(
                "the database did not open within {} s",
                OPEN_TIMEOUT.as_secs()
            ))),
        }
    }

    /// Applies `changes` in order; they are durable when the method returns. Each batch of up to
    /// [`BATCH_RECORDS`] changes is applied as a whole or not at all. After an interruption, the
    /// caller must find out how many batches were applied.
    ///
    /// After an error, the state of the database is unknown, and the database must be dropped.
    pub(super) fn apply(
        &self,
        disk: &Disk,
        changes: impl IntoIterator<Item = RecordChange>,
    ) -> Result<(), StoreError> {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            disk.run(FileOperation::Apply, &self.dir, || Ok(()))?;
            let mut batch = sled::Batch::default();
            for (key, value) in changes.by_ref().take(BATCH_RECORDS) {
                match value {
                    Some(value) => batch.insert(key, value),
                    None => batch.remove(key),
                }
            }
            self.guarded(|db| db.apply_batch(batch))?;
        }
        self.guarded(sled::Tree::flush)?;
        disk.sync_data(&self.dir.join("db"))
    }

    /// Writes all pending changes and closes the files.
    pub(super) fn close(self) -> Result<(), StoreError> {
        self.guarded(sled::Tree::flush).map(drop)
    }

    /// Calls `work` with the open database, and turns a panic of sled into an error.
    fn guarded<T>(
        &self,
        work: impl FnOnce(&sled::Tree) -> sled::Result<T>,
    ) -> Result<T, StoreError> {
        let Some(db) = &self.db else {
            return Err(StoreError::Closed);
        };
        match catch_unwind(AssertUnwindSafe(|| work(db))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(source)) => Err(StoreError::Database {
                path: self.dir.clone(),
                source,
            }),
            Err(panic) => Err(StoreError::Panicked {
                path: self.dir.clone(),
                message: panic_text(panic),
            }),
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let db = self.db.take();
        // sled flushes its file while it closes, and panics if the flush fails. A flush fails only
        // after a disk failure, which the failed commit has reported.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(db))) {
            let reason = panic_text(panic);
            tracing::debug!(dir = %self.dir.display(), reason, "the database panicked while it closed");
        }
    }
}

/// Opens the database at `path`, and reads all records. Waits up to two seconds for its lock.
fn open_and_read(path: &Path) -> sled::Result<(sled::Db, Contents)> {
    let config = sled::Config::new()
        .path(path)
        .cache_capacity(CACHE_BYTES)
        // Every commit flushes; a timer would only add a thread.
        .flush_every_ms(None);
    let mut attempts = 1;
    let db = loop {
        match config.open() {
            Err(sled::Error::Io(error)) if is_locked(&error) && attempts < LOCK_ATTEMPTS => {
                attempts += 1;
                thread::sleep(LOCK_PAUSE);
            }
            opened => break opened?,
        }
    };
    let contents = db
        .iter()
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<sled::Result<Contents>>()?;
    Ok((db, contents))
}

/// Decides whether an error of sled means that the files are damaged.
fn classify(dir: &Path, error: sled::Error) -> OpenFailure {
    let sled::Error::Io(source) = &error else {
        return OpenFailure::Damaged(error.to_string());
    };
    // This process holds the store's lock, so that another process must have opened the database
    // without it.
    if is_locked(source) {
        return OpenFailure::System(StoreError::Locked {
            dir: dir.to_owned(),
            holder: None,
        });
    }
    match source.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput => {
            OpenFailure::Damaged(error.to_string())
        }
        _ => OpenFailure::System(StoreError::Database {
            path: dir.to_owned(),
            source: error,
        }),
    }
}

/// Whether opening failed because another process holds the lock. sled has no error kind for this.
fn is_locked(error: &io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

/// The message of a caught panic.
fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::codec::{self, SENTINEL_KEY, Sentinel};
use super::database::{BATCH_RECORDS, Database, OpenFailure, RecordChange};
use super::export::{PreparedExport, StoreExporter};
use super::fabric_kind::{self, StoreFabric};
use super::guard::{self, Sums};
use super::io::Disk;
use super::layout::Layout;
use super::lock::Lock;
use super::sidecar::Sidecar;
use super::{ChangeSet, LoadReport, Persisted, Store, StoreError};

/// The store of this machine, in a state directory.
///
/// ```text
/// <dir>/lock               held while a daemon runs
/// <dir>/fabric             whether the store is of hardware or of a simulation
/// <dir>/db/                sled's files
/// <dir>/db.unfinished      while db is written in several batches
/// <dir>/store.meta         the state that db must at least contain
/// <dir>/export.jsonl       all tables as text, followed by the changes of later commits
/// <dir>/export.prev.jsonl  the former export, before the last one was written as a whole
/// <dir>/db.prev/           copy of db after the last unclean stop, before it was opened
/// <dir>/quarantine/NNNNNN/ the last three databases that could not be trusted
/// ```
///
/// Back up the export, never `db`: a copy of a live database may open empty.
pub struct SledStore {
    disk: Disk,
    layout: Layout,
    path: PathBuf,
    /// The database; `None` after a failed commit, until the next commit opens it again.
    database: Option<Database>,
    /// The state after the last successful commit.
    sentinel: Sentinel,
    /// Generation of the last commit attempt. The next attempt takes another generation: otherwise
    /// a database that lost its last flush could hold a failed commit under the number of a
    /// successful one.
    attempted: u64,
    sums: Sums,
    state: Persisted,
    report: LoadReport,
    exporter: StoreExporter,
    unpublished: Unpublished,
    /// Whether the marker `db.unfinished` exists.
    has_marker: bool,
    closed: bool,
    fabric: StoreFabric,
    lock: Arc<Lock>,
}

/// A database to write to, and the changes that must precede the changes of a commit. There are
/// such changes only after a failed commit.
type Writable = (Database, Vec<RecordChange>);

/// The files that are older than the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Unpublished {
    sidecar: bool,
    export: bool,
}

impl SledStore {
    /// Opens the store in `dir` for a fabric of the kind `fabric`; creates `dir` if it is absent.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another daemon uses `dir`, [`StoreError::OfHardware`] or
    /// [`StoreError::OfSimulation`] if the store is of the other kind of fabric,
    /// [`StoreError::Schema`] if another version wrote it, and I/O errors. A damaged database is no
    /// error: it is quarantined, restored from the last export, and [`LoadReport`] says so.
    pub fn open(dir: &Path, fabric: StoreFabric) -> Result<SledStore, StoreError> {
        SledStore::open_on(dir, fabric, Disk::new())
    }

    /// Opens the store as [`open`](SledStore::open) does, on `disk`, whose operations a test can
    /// make fail.
    pub fn open_on(dir: &Path, fabric: StoreFabric, disk: Disk) -> Result<SledStore, StoreError> {
        disk.create_dir(dir)?;
        let lock = Lock::take(&disk, dir)?;
        SledStore::open_locked(dir, fabric, disk, Arc::new(lock))
    }

    /// Opens the store as [`open_on`](SledStore::open_on) does, in a directory that this process
    /// has already locked.
    pub(super) fn open_locked(
        dir: &Path,
        fabric: StoreFabric,
        disk: Disk,
        lock: Arc<Lock>,
    ) -> Result<SledStore, StoreError> {
        let layout = Layout::new(dir);
        fabric_kind::claim(&disk, &layout, fabric)?;
        let opened = guard::open(&disk, &layout)?;
        let mut store = SledStore {
            path: layout.database(),
            disk,
            layout,
            database: Some(opened.database),
            sentinel: opened.sentinel,
            attempted: opened.sentinel.generation,
            sums: opened.sums,
            state: opened.state,
            report: opened.report,
            exporter: StoreExporter::default(),
            unpublished: Unpublished::default(),
            has_marker: false,
            closed: false,
            fabric,
            lock,
        };
        // A stop without `close` is unclean from here on.
        store.publish_sidecar(false)?;
        if !opened.is_exported {
            // The process that failed to write the export was killed, or the file is damaged.
            store.unpublished.export = true;
            if let Err(error) = store.publish_export() {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "the store's text copy waits for the next commit");
            }
        }
        Ok(store)
    }

    /// Writes a whole export of the committed state.
    fn publish_export(&mut self) -> Result<(), StoreError> {
        let files = (&self.disk, &self.layout);
        let changes = ChangeSet::new();
        let export = self
            .exporter
            .prepare(files, &self.state, &changes, &self.sentinel)?;
        self.exporter.publish(files, export)?;
        self.unpublished.export = false;
        Ok(())
    }

    /// Writes the sidecar; `clean` says that the store is closed properly.
    fn publish_sidecar(&mut self, clean: bool) -> Result<(), StoreError> {
        let sidecar = Sidecar {
            sentinel: self.sentinel,
            clean,
        };
        self.disk.write(&self.layout.sidecar(), &sidecar.to_bytes())
    }

    /// Number of records that `changes` change, and the sentinel after the changes, which still has
    /// the present generations.
    fn difference(&self, changes: &ChangeSet) -> (usize, Sentinel) {
        let mut count = 0;
        let mut sentinel = self.sentinel;
        for (key, value) in differing(&self.sums, changes) {
            count += 1;
            if let Some(&before) = self.sums.get(&key) {
                sentinel.count -= 1;
                sentinel.digest = sentinel.digest.wrapping_sub(before);
            }
            if let Some(value) = value {
                sentinel.count += 1;
                sentinel.digest = sentinel.digest.wrapping_add(codec::sum_of(&value));
            }
        }
        (count, sentinel)
    }

    /// Writes `count` changes to the database. After a failure, the database is dropped, and the
    /// next commit opens it again.
    ///
    /// If the changes exceed one batch, this method publishes `export` first, and sets a marker, by
    /// which the next start uses the export. Otherwise it returns the export, which the caller must
    /// publish.
    fn write(
        &mut self,
        (count, changes): (usize, impl Iterator<Item = RecordChange>),
        sentinel: &Sentinel,
        export: Option<PreparedExport>,
    ) -> Result<Option<PreparedExport>, StoreError> {
        let (database, before) = self.writable()?;
        let count = before.len() + count + 1;
        let last = (SENTINEL_KEY.to_vec(), Some(codec::sentinel_value(sentinel)));
        // In a batch, later entries override earlier ones of the same key.
        let batch = before.into_iter().chain(changes).chain([last]);
        let unpublished = match export {
            Some(export) if count > BATCH_RECORDS => {
                self.apply_behind_export(&database, batch, sentinel, export)?;
                None
            }
            export => {
                database.apply(&self.disk, batch)?;
                self.remove_marker()?;
                export
            }
        };
        self.database = Some(database);
        Ok(unpublished)
    }

    /// The open database; opens it again if a failed commit has closed it.
    fn writable(&mut self) -> Result<Writable, StoreError> {
        match self.database.take() {
            Some(database) => Ok((database, Vec::new())),
            None => self.reopen(),
        }
    }

    /// Makes a commit of several batches: writes the marker, the export and the batches, then
    /// removes the marker.
    fn apply_behind_export(
        &mut self,
        database: &Database,
        batch: impl Iterator<Item = RecordChange>,
        sentinel: &Sentinel,
        export: PreparedExport,
    ) -> Result<(), StoreError> {
        guard::write_marker(&self.disk, &self.layout, sentinel.generation)?;
        self.has_marker = true;
        // The export is ahead of the committed state until the end of this function. After a
        // failure, the next commit writes a whole export.
        self.unpublished.export = true;
        let mut exporter = std::mem::take(&mut self.exporter);
        exporter.publish((&self.disk, &self.layout), export)?;
        database.apply(&self.disk, batch)?;
        self.remove_marker()?;
        self.exporter = exporter;
        self.unpublished.export = false;
        Ok(())
    }

    /// Removes the marker, because the database is complete.
    fn remove_marker(&mut self) -> Result<(), StoreError> {
        if self.has_marker {
            self.disk.remove_file(&self.layout.unfinished())?;
            self.has_marker = false;
        }
        Ok(())
    }

    /// Opens the database after a failed commit, and finds the changes that restore the committed
    /// state, because the database may contain the failed changes in part or as a whole.
    fn reopen(&mut self) -> Result<Writable, StoreError> {
        let wanted = codec::encode_all(&self.state);
        let marker = self.disk.read(&self.layout.unfinished())?;
        // An empty marker belongs to a database whose creation was interrupted.
        let is_incomplete = marker.as_ref().is_some_and(Vec::is_empty);
        self.has_marker = marker.is_some();
        if is_incomplete || self.disk.list(&self.path)?.is_empty() {
            let database = guard::build(&self.disk, &self.layout, &wanted, &self.sentinel)?;
            self.has_marker = false;
            return Ok((database, Vec::new()));
        }
        match Database::open(&self.path) {
            Ok((database, found)) => {
                let changes = guard::difference(&found, &wanted, &self.sentinel);
                Ok((database, changes))
            }
            Err(OpenFailure::System(error)) => Err(error),
            Err(OpenFailure::Damaged(reason)) => {
                let path = self.layout.quarantine(&self.disk)?;
                tracing::warn!(path = %path.display(), reason, "database quarantined, written anew");
                let database = guard::build(&self.disk, &self.layout, &wanted, &self.sentinel)?;
                self.has_marker = false;
                Ok((database, Vec::new()))
            }
        }
    }

    /// Switches to the folder that is now at the path of the state directory, if another folder has
    /// replaced the former one.
    fn adopt_folder(&mut self) -> Result<(), StoreError> {
        let dir = self.layout.dir();
        if self.lock.is_of(dir) {
            return Ok(());
        }
        let lock = Lock::take(&self.disk, dir)?;
        fabric_kind::claim(&self.disk, &self.layout, self.fabric)?;
        tracing::info!(dir = %dir.display(), "the state folder was replaced: the store is written anew");
        self.lock = Arc::new(lock);
        // This process did not write the files in the folder.
        self.database = None;
        self.exporter = StoreExporter::default();
        self.unpublished = Unpublished {
            sidecar: true,
            export: true,
        };
        Ok(())
    }
}

/// Encodes `changes` as records of the database.
///
/// Each record is encoded only when it is used: the first commit of 45,056 hosts has 145,000
/// records, which would take as much memory as the state itself.
fn encoded(changes: &ChangeSet) -> impl Iterator<Item = RecordChange> + '_ {
    let claims = changes.claims.iter().map(|(&guid, claim)| {
        let key = codec::claim_key(guid);
        let value = claim.as_ref().map(|claim| codec::claim_value(&key, claim));
        (key, value)
    });
    let records = changes.records.iter().map(|((namespace, name), payload)| {
        let key = codec::record_key(namespace, name);
        let value = payload
            .as_ref()
            .map(|payload| codec::record_value(&key, payload));
        (key, value)
    });
    claims.chain(records)
}

/// The encoded `changes` that differ from the records with the checksums `sums`.
fn differing<'a>(
    sums: &'a Sums,
    changes: &'a ChangeSet,
) -> impl Iterator<Item = RecordChange> + 'a {
    encoded(changes)
        .filter(|(key, value)| sums.get(key).copied() != value.as_deref().map(codec::sum_of))
}

impl Store for SledStore {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        Ok((self.state.clone(), self.report.clone()))
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        if self.closed {
            return Err(StoreError::Closed);
        }
        self.adopt_folder()?;
        let (count, after) = self.difference(changes);
        let plan_generation = changes
            .plan_generation
            .unwrap_or(self.sentinel.plan_generation);
        let is_changed = count > 0 || plan_generation != self.sentinel.plan_generation;
        if !is_changed && self.unpublished == Unpublished::default() {
            return Ok(());
        }
        self.attempted += u64::from(is_changed);
        let generation = match is_changed {
            true => self.attempted,
            false => self.sentinel.generation,
        };
        let sentinel = Sentinel {
            generation,
            plan_generation,
            ..after
        };

        // Steps that may fail for lack of space come first, under temporary names.
        let files = (&self.disk, &self.layout);
        let is_exported = count > 0 || self.unpublished.export || self.database.is_none();
        let mut export = is_exported
            .then(|| {
                self.exporter
                    .prepare(files, &self.state, changes, &sentinel)
            })
            .transpose()?;
        let sidecar = Sidecar {
            sentinel,
            clean: false,
        };
        let sidecar = self
            .disk
            .prepare(&self.layout.sidecar(), &sidecar.to_bytes())?;
        if is_changed || self.database.is_none() {
            let sums = std::mem::take(&mut self.sums);
            let written = self.write((count, differing(&sums, changes)), &sentinel, export);
            self.sums = sums;
            export = written?;
        }

        // The commit is done. The export follows, and then the sidecar, which raises the minimum
        // generation of the database.
        self.sentinel = sentinel;
        self.state.apply(changes);
        for (key, value) in encoded(changes) {
            match value {
                Some(value) => self.sums.insert(key, codec::sum_of(&value)),
                None => self.sums.remove(&key),
            };
        }
        self.unpublished.sidecar = true;
        if let Some(export) = export {
            self.unpublished.export = true;
            self.exporter.publish((&self.disk, &self.layout), export)?;
            self.unpublished.export = false;
        }
        self.disk.publish(sidecar)?;
        self.unpublished.sidecar = false;
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        match self.database.take() {
            Some(database) => database.close()?,
            // The last commit failed: the next start restores the state from the files on disk.
            None => return Ok(()),
        }
        self.publish_sidecar(true)
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        // A caller that needs the result calls `close`. An unclean stop only costs a copy at the
        // next start.
        let _ = self.close();
    }
}

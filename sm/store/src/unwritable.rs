//! The store of a state folder, which opens regardless of the disk's condition: only another
//! process, another schema or another kind of fabric keeps a manager from starting.
//!
//! For the same reason, the journal opens its files at the first entry, and the history's thread
//! opens its folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rsm_proto::with_causes;

use super::io::Disk;
use super::layout::Layout;
use super::lock::Lock;
use super::{
    ChangeSet, LoadReport, Persisted, SledStore, Store, StoreError, StoreFabric, fabric_kind, guard,
};

/// The store of a state folder, which may be unwritable for some time.
///
/// If the disk is full or mounted read-only, the contents are read from the export of the last
/// commit, and commits fail. Once the folder is writable, the next commit opens the database, and
/// writes to it the contents that were read, with the changes of the commit.
pub struct FolderStore {
    dir: PathBuf,
    fabric: StoreFabric,
    disk: Disk,
    /// Lock of the folder; `None` if the folder is absent and cannot be created, or if the open
    /// store holds the lock.
    lock: Option<Arc<Lock>>,
    back_end: BackEnd,
}

/// The open store, or the contents that were read without opening it.
enum BackEnd {
    Open(Box<SledStore>),
    Unopened(Box<Unopened>),
}

/// State that was read while the database cannot be opened.
struct Unopened {
    contents: Persisted,
    report: LoadReport,
    reason: StoreError,
}

impl FolderStore {
    /// Opens the store in `dir` for a fabric of the kind `fabric`. Creates `dir` if it is absent.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another daemon uses `dir`, [`StoreError::OfHardware`] or
    /// [`StoreError::OfSimulation`] if the store is of the other kind of fabric,
    /// [`StoreError::Schema`] if another version wrote it. A disk failure is no error;
    /// [`unopened`](FolderStore::unopened) returns it.
    pub fn open(dir: &Path, fabric: StoreFabric) -> Result<FolderStore, StoreError> {
        FolderStore::open_on(dir, fabric, Disk::new())
    }

    /// Opens the store as [`open`](FolderStore::open) does, on `disk`, whose operations a test can
    /// make fail.
    pub fn open_on(dir: &Path, fabric: StoreFabric, disk: Disk) -> Result<FolderStore, StoreError> {
        let mut lock = None;
        let back_end = match open_database((dir, fabric), &disk, &mut lock) {
            Ok(store) => {
                lock = None;
                BackEnd::Open(Box::new(store))
            }
            Err(reason) if is_of_disk(&reason) => {
                let (contents, report) = read((dir, fabric), &disk)?;
                BackEnd::Unopened(Box::new(Unopened {
                    contents,
                    report,
                    reason,
                }))
            }
            Err(error) => return Err(error),
        };
        Ok(FolderStore {
            dir: dir.to_owned(),
            fabric,
            disk,
            lock,
            back_end,
        })
    }

    /// Reason why the database is not open; `None` if it is open.
    pub fn unopened(&self) -> Option<&StoreError> {
        match &self.back_end {
            BackEnd::Open(_) => None,
            BackEnd::Unopened(unopened) => Some(&unopened.reason),
        }
    }
}

/// Locks the folder, unless `lock` already holds it, and opens the database.
fn open_database(
    (dir, fabric): (&Path, StoreFabric),
    disk: &Disk,
    lock: &mut Option<Arc<Lock>>,
) -> Result<SledStore, StoreError> {
    let held = match lock {
        Some(held) if held.is_of(dir) => held,
        _ => {
            // A folder that exists is locked, even if no file can be created in it.
            if let Err(error) = disk.create_dir(dir)
                && !dir.is_dir()
            {
                return Err(error);
            }
            lock.insert(Arc::new(Lock::take(disk, dir)?))
        }
    };
    SledStore::open_locked(dir, fabric, disk.clone(), held.clone())
}

/// Reads the contents without the database. The report notes files that cannot be read.
fn read(
    (dir, fabric): (&Path, StoreFabric),
    disk: &Disk,
) -> Result<(Persisted, LoadReport), StoreError> {
    let layout = Layout::new(dir);
    let read = fabric_kind::check(disk, &layout, fabric);
    match read.and_then(|_| guard::read_unopened(disk, &layout)) {
        Err(error) if is_of_disk(&error) => {
            let reason = with_causes(&error);
            Ok((Persisted::default(), LoadReport::unreadable(reason)))
        }
        read => read,
    }
}

/// Whether the disk, rather than another process or version, keeps the store from opening.
fn is_of_disk(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Io { .. } | StoreError::Database { .. } | StoreError::Panicked { .. }
    )
}

impl Unopened {
    /// The changes that turn a database with the contents `held` into the contents that were read,
    /// with `changes`. If some records could not be read, the database keeps the records it has.
    fn pending_changes(&self, held: &Persisted, changes: &ChangeSet) -> ChangeSet {
        let mut pending = match self.report.may_lack_records() {
            true => ChangeSet::new(),
            false => ChangeSet::between(held, &self.contents, &[]),
        };
        pending.merge(changes.clone());
        // No generation may be used twice.
        let generation = pending.plan_generation.unwrap_or(held.plan_generation);
        pending.set_plan_generation(generation.max(held.plan_generation));
        pending
    }
}

impl Store for FolderStore {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        match &mut self.back_end {
            BackEnd::Open(store) => store.load(),
            BackEnd::Unopened(unopened) => Ok((unopened.contents.clone(), unopened.report.clone())),
        }
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        let unopened = match &mut self.back_end {
            BackEnd::Open(store) => return store.commit(changes),
            BackEnd::Unopened(unopened) => unopened,
        };
        let mut store = open_database((&self.dir, self.fabric), &self.disk, &mut self.lock)?;
        let (held, report) = store.load()?;
        store.commit(&unopened.pending_changes(&held, changes))?;
        if report.is_alarming() {
            tracing::warn!(report = %report, "the store was damaged");
        } else {
            tracing::info!(report = %report, "store opened: its folder can be written again");
        }
        self.lock = None;
        self.back_end = BackEnd::Open(Box::new(store));
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        match &mut self.back_end {
            BackEnd::Open(store) => store.close(),
            BackEnd::Unopened(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rsm_ids::{Guid, Lid, Lmc};
    use rsm_model::LidClaim;

    use super::*;
    use crate::io::FileOperation;

    /// A disk on which nothing can be written while `full` is set.
    fn disk(full: &Arc<AtomicBool>) -> Disk {
        let full = full.clone();
        Disk::with_fault(Arc::new(move |operation, _| match operation {
            FileOperation::List | FileOperation::Read | FileOperation::Lock => Ok(()),
            _ if full.load(Ordering::Relaxed) => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }))
    }

    fn claim(guid: u64, lid: u16) -> ChangeSet {
        let mut changes = ChangeSet::new();
        let claim = LidClaim {
            lid: Lid(lid),
            lmc: Lmc::ZERO,
            last_seen: 1,
        };
        changes.set_claim(Guid(guid), claim).unwrap();
        changes
    }

    fn lids(store: &mut FolderStore) -> Vec<(u64, u16)> {
        let claims = store.load().unwrap().0.claims;
        let lids = claims.iter().map(|(guid, claim)| (guid.0, claim.lid.0));
        lids.collect()
    }

    #[test]
    fn store_on_a_full_disk_is_read_and_accepts_commits_once_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let full = Arc::new(AtomicBool::new(false));
        let mut store =
            FolderStore::open_on(dir.path(), StoreFabric::Hardware, disk(&full)).unwrap();
        store.commit(&claim(1, 4)).unwrap();
        drop(store);

        full.store(true, Ordering::Relaxed);
        let mut store =
            FolderStore::open_on(dir.path(), StoreFabric::Hardware, disk(&full)).unwrap();
        assert!(store.unopened().is_some());
        assert_eq!(lids(&mut store), [(1, 4)]);
        assert!(store.commit(&claim(2, 5)).is_err());
        let second = FolderStore::open_on(dir.path(), StoreFabric::Hardware, disk(&full));
        assert!(matches!(second, Err(StoreError::Locked { .. })));

        full.store(false, Ordering::Relaxed);
        store.commit(&claim(2, 5)).unwrap();
        assert!(store.unopened().is_none());
        drop(store);
        let mut store = FolderStore::open(dir.path(), StoreFabric::Hardware).unwrap();
        assert_eq!(lids(&mut store), [(1, 4), (2, 5)]);
    }

    #[test]
    fn store_is_empty_until_its_folder_can_be_created() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("state");
        let full = Arc::new(AtomicBool::new(true));
        let mut store = FolderStore::open_on(&dir, StoreFabric::Hardware, disk(&full)).unwrap();
        assert_eq!(lids(&mut store), []);
        assert!(!store.load().unwrap().1.may_lack_records());
        full.store(false, Ordering::Relaxed);
        store.commit(&claim(1, 4)).unwrap();
        assert_eq!(lids(&mut store), [(1, 4)]);
    }

    #[test]
    fn store_of_another_kind_of_fabric_is_refused_on_a_read_only_disk() {
        for (own, other) in [
            (StoreFabric::Hardware, StoreFabric::Simulation),
            (StoreFabric::Simulation, StoreFabric::Hardware),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut store = FolderStore::open(dir.path(), own).unwrap();
            store.commit(&claim(1, 4)).unwrap();
            drop(store);
            let read_only = || {
                Disk::with_fault(Arc::new(|operation, _| match operation {
                    FileOperation::List | FileOperation::Read => Ok(()),
                    _ => Err(io::ErrorKind::ReadOnlyFilesystem.into()),
                }))
            };
            let refused = FolderStore::open_on(dir.path(), other, read_only());
            let refused = refused.err().map(|error| error.to_string());
            assert!(refused.is_some_and(|error| error.contains("state directory of a")));
            let mut store = FolderStore::open_on(dir.path(), own, read_only()).unwrap();
            assert_eq!(lids(&mut store), [(1, 4)]);
        }
    }

    #[test]
    fn records_that_could_not_be_read_survive_the_first_commit() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = FolderStore::open(dir.path(), StoreFabric::Hardware).unwrap();
        store.commit(&claim(1, 4)).unwrap();
        drop(store);
        let broken = Arc::new(AtomicBool::new(true));
        let failing = Disk::with_fault({
            let broken = broken.clone();
            Arc::new(move |operation, _| match operation {
                FileOperation::Lock => Ok(()),
                _ if broken.load(Ordering::Relaxed) => Err(io::ErrorKind::Other.into()),
                _ => Ok(()),
            })
        });
        let mut store = FolderStore::open_on(dir.path(), StoreFabric::Hardware, failing).unwrap();
        assert_eq!(lids(&mut store), []);
        assert!(store.load().unwrap().1.may_lack_records());
        broken.store(false, Ordering::Relaxed);
        store.commit(&claim(2, 5)).unwrap();
        assert_eq!(lids(&mut store), [(1, 4), (2, 5)]);
    }
}

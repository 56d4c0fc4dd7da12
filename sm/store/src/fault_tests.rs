//! Tests of the store and the journal on disks that fail, tear writes, lose flushes or are
//! replaced.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;

use super::io::{Disk, FileOperation};
use super::journal::{self, Journal, RowChange};
use super::*;

const HARDWARE: StoreFabric = StoreFabric::Hardware;

/// A claim of LID `lid` by a port with a GUID of the same number.
fn claim(lid: u16) -> ChangeSet {
    let mut changes = ChangeSet::new();
    let claim = LidClaim {
        lid: Lid(lid),
        lmc: Lmc::ZERO,
        last_seen: 1,
    };
    changes.set_claim(Guid(u64::from(lid)), claim).unwrap();
    changes
}

/// The claimed LIDs in the store, and the report of its opening.
fn load(dir: &Path) -> (Vec<u16>, LoadReport) {
    let (state, report) = FolderStore::open(dir, HARDWARE).unwrap().load().unwrap();
    let lids = state.claims.values().map(|claim| claim.lid.0);
    (lids.collect(), report)
}

/// Appends an entry with this number and one row.
fn append(journal: &mut Journal, number: u64) -> Result<(), StoreError> {
    let mut bytes = Vec::new();
    let row = RowChange::Set {
        table: Namespace::new("members").unwrap(),
        key: number.to_be_bytes().to_vec(),
        value: vec![7; 40],
    };
    journal::encode(number, &[row], &mut bytes);
    journal.append(&bytes, number)
}

/// The numbers of the entries in the journal.
fn numbers(dir: &Path) -> Vec<u64> {
    let (_, entries) = Journal::open(dir, Disk::new()).unwrap();
    entries.iter().map(|entry| entry.number).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Replaces `dir` with a copy, as after an exchange of the disk.
fn replace(dir: &Path) {
    let aside = dir.with_extension("before");
    fs::rename(dir, &aside).unwrap();
    copy(&aside, dir);
}

#[test]
fn store_writes_to_a_folder_that_replaced_the_former_one() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    let mut store = FolderStore::open(&dir, HARDWARE).unwrap();
    store.commit(&claim(1)).unwrap();
    replace(&dir);
    // The test repeats the failed commit, as the store's thread does.
    let changes = claim(2);
    if store.commit(&changes).is_err() {
        store.commit(&changes).unwrap();
    }
    // The copy has the state after a SIGKILL, which closes nothing.
    let killed = parent.path().join("killed");
    copy(&dir, &killed);
    let (lids, report) = load(&killed);
    assert_eq!(lids, [1, 2]);
    assert!(!report.is_alarming(), "{report}");
    let second = FolderStore::open(&dir, HARDWARE);
    assert!(matches!(second, Err(StoreError::Locked { .. })));
}

#[test]
fn store_writes_all_records_to_an_empty_folder_that_replaced_the_former_one() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    let mut store = FolderStore::open(&dir, HARDWARE).unwrap();
    store.commit(&claim(1)).unwrap();
    fs::rename(&dir, parent.path().join("before")).unwrap();
    assert!(store.commit(&claim(2)).is_err());
    fs::create_dir(&dir).unwrap();
    let changes = claim(2);
    if store.commit(&changes).is_err() {
        store.commit(&changes).unwrap();
    }
    let killed = parent.path().join("killed");
    copy(&dir, &killed);
    let (lids, report) = load(&killed);
    assert_eq!(lids, [1, 2]);
    assert!(!report.is_alarming(), "{report}");
}

#[test]
fn store_does_not_write_to_a_folder_that_another_daemon_uses() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    let mut store = FolderStore::open(&dir, HARDWARE).unwrap();
    store.commit(&claim(1)).unwrap();
    fs::rename(&dir, parent.path().join("before")).unwrap();
    let mut other = FolderStore::open(&dir, HARDWARE).unwrap();
    other.commit(&claim(7)).unwrap();
    for _ in 0..3 {
        assert!(store.commit(&claim(2)).is_err());
    }
    drop(other);
    assert_eq!(load(&dir).0, [7]);
}

#[test]
fn database_rebuilt_after_a_failure_is_complete_at_the_next_start() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    let fails = Arc::new(AtomicBool::new(false));
    let disk = Disk::with_fault({
        let fails = fails.clone();
        Arc::new(move |operation, path: &Path| {
            let is_database = path.ends_with("db");
            let is_hit =
                matches!(operation, FileOperation::Apply | FileOperation::Sync) && is_database;
            match is_hit && fails.load(Ordering::Relaxed) {
                true => Err(ErrorKind::StorageFull.into()),
                false => Ok(()),
            }
        })
    });
    let mut store = FolderStore::open_on(&dir, HARDWARE, disk).unwrap();
    store.commit(&claim(1)).unwrap();
    fails.store(true, Ordering::Relaxed);
    assert!(store.commit(&claim(2)).is_err());
    // The first failure has damaged the database, and a second one occurs while a new database is
    // built.
    let database = dir.join("db/db");
    let length = fs::metadata(&database).unwrap().len() as usize;
    fs::write(&database, vec![0xA5; length]).unwrap();
    assert!(store.commit(&claim(2)).is_err());
    fails.store(false, Ordering::Relaxed);
    store.commit(&claim(2)).unwrap();
    drop(store);
    let (lids, report) = load(&dir);
    assert_eq!(lids, [1, 2]);
    assert!(!report.is_alarming(), "{report}");
}

#[test]
fn journal_writes_to_a_new_folder_once_the_store_has_earlier_entries() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("state");
    fs::create_dir(&dir).unwrap();
    let (mut journal, _) = Journal::open(&dir, Disk::new()).unwrap();
    append(&mut journal, 1).unwrap();
    fs::rename(&dir, parent.path().join("before")).unwrap();
    fs::create_dir(&dir).unwrap();
    // Entry 1 is missing in the new folder. No later entry is accepted until the store has entry 1.
    assert!(append(&mut journal, 2).is_err());
    assert!(append(&mut journal, 2).is_err());
    journal.covered(1).unwrap();
    append(&mut journal, 2).unwrap();
    append(&mut journal, 3).unwrap();
    assert_eq!(numbers(&dir), [2, 3]);
    journal.covered(3).unwrap();
    assert_eq!(numbers(&dir), [0_u64; 0]);
}

#[test]
fn later_entries_are_read_after_a_torn_append_that_could_not_be_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let disk = Disk::with_fault({
        let fails = fails.clone();
        Arc::new(move |operation, _| match operation {
            FileOperation::Write if fails.load(Ordering::Relaxed) => {
                Err(ErrorKind::ReadOnlyFilesystem.into())
            }
            _ => Ok(()),
        })
    });
    let (mut journal, _) = Journal::open(dir.path(), disk.tearing(|length| length / 2)).unwrap();
    append(&mut journal, 1).unwrap();
    fails.store(true, Ordering::Relaxed);
    assert!(append(&mut journal, 2).is_err());
    assert_eq!(numbers(dir.path()), [1]);
    fails.store(false, Ordering::Relaxed);
    append(&mut journal, 2).unwrap();
    append(&mut journal, 3).unwrap();
    assert_eq!(numbers(dir.path()), [1, 2, 3]);
}

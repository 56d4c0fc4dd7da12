//! Tests of the store on damaged files and on disks whose operations fail.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;

use super::codec::Sentinel;
use super::export::Export;
use super::io::{Disk, FileOperation};
use super::sidecar::Sidecar;
use super::*;

const HARDWARE: StoreFabric = StoreFabric::Hardware;

/// Number of claims in a filled store.
const PORTS: u16 = 400;

fn claim(lid: u16) -> LidClaim {
    LidClaim {
        lid: Lid(lid),
        lmc: Lmc::ZERO,
        last_seen: 3,
    }
}

/// Claims of one port for each LID in `range`.
fn claims(range: std::ops::RangeInclusive<u16>) -> ChangeSet {
    let mut changes = ChangeSet::new();
    for lid in range {
        changes
            .set_claim(Guid(0x0002_c903_0000_0000 | u64::from(lid)), claim(lid))
            .unwrap();
    }
    changes
}

/// Creates and closes a store of [`PORTS`] claims in two commits, and one generic record. Returns
/// the contents.
fn filled(dir: &Path) -> Persisted {
    let mut store = SledStore::open(dir, HARDWARE).unwrap();
    store.commit(&claims(1..=PORTS / 2)).unwrap();
    let mut changes = claims(PORTS / 2 + 1..=PORTS);
    changes.set_plan_generation(17);
    let table = Namespace::new("filled").unwrap();
    changes.set_record(&table, b"key", &[1; 200]).unwrap();
    store.commit(&changes).unwrap();
    store.close().unwrap();
    store.load().unwrap().0
}

fn remove_exports(dir: &Path) {
    fs::remove_file(dir.join("export.jsonl")).unwrap();
    // A store that only one process has written has no former export.
    if dir.join("export.prev.jsonl").exists() {
        fs::remove_file(dir.join("export.prev.jsonl")).unwrap();
    }
}

fn load(dir: &Path) -> (Persisted, LoadReport) {
    SledStore::open(dir, HARDWARE).unwrap().load().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Random numbers by SplitMix64; a failing seed can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

#[test]
fn closed_store_opens_clean_with_all_records() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = SledStore::open(dir.path(), HARDWARE).unwrap();
    let (state, report) = store.load().unwrap();
    assert_eq!(
        (state, report.origin),
        (Persisted::default(), Origin::Fresh)
    );
    assert!(report.quarantined.is_none() && report.notes.is_empty());
    drop(store);
    let before = filled(dir.path());
    assert_eq!(before.claims.len(), usize::from(PORTS));
    let (state, report) = load(dir.path());
    assert_eq!(state, before);
    assert_eq!(state.plan_generation, 17);
    assert_eq!(report.origin, Origin::Clean);
}

#[test]
fn removed_and_replaced_records_reach_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let table = Namespace::new("services").unwrap();
    let mut store = SledStore::open(dir.path(), HARDWARE).unwrap();
    let mut changes = ChangeSet::new();
    changes.remove_claim(Guid(0x0002_c903_0000_0001));
    changes
        .set_claim(Guid(0x0002_c903_0000_0002), claim(0x1000))
        .unwrap();
    changes.remove_record(&Namespace::new("filled").unwrap(), b"key");
    changes.set_record(&table, b"a", b"1").unwrap();
    changes.set_record(&table, b"b", b"2").unwrap();
    store.commit(&changes).unwrap();
    let mut changes = ChangeSet::new();
    changes.remove_record(&table, b"a");
    store.commit(&changes).unwrap();
    let expected = store.load().unwrap().0;
    drop(store);
    let (state, report) = load(dir.path());
    assert_eq!(report.origin, Origin::Clean);
    assert_eq!(state, expected);
    assert_eq!(state.claims.len(), usize::from(PORTS) - 1);
    assert_eq!(state.claims[&Guid(0x0002_c903_0000_0002)].lid, Lid(0x1000));
    let records = BTreeMap::from([(Bytes::from(*b"b"), Bytes::from(*b"2"))]);
    assert_eq!(state.records, BTreeMap::from([(table, records)]));
}

#[test]
fn commit_without_changes_performs_no_disk_operation() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let disk = Disk::with_fault(Arc::new(move |_, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }));
    let mut store = SledStore::open_on(dir.path(), HARDWARE, disk).unwrap();
    let after_open = count.load(Ordering::Relaxed);
    store.commit(&claims(1..=PORTS)).unwrap();
    store.commit(&ChangeSet::new()).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), after_open);
}

#[test]
fn two_daemons_cannot_share_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let first = SledStore::open(dir.path(), HARDWARE).unwrap();
    let error = SledStore::open(dir.path(), HARDWARE).err().unwrap();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("--state-dir"), "{error}");
    drop(first);
    SledStore::open(dir.path(), HARDWARE).unwrap();
}

#[test]
fn store_of_another_schema_is_refused_and_not_modified() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let sentinel = Sentinel {
        schema: 2,
        ..Sentinel::default()
    };
    let clean = true;
    let later = Sidecar { sentinel, clean };
    fs::write(dir.path().join("store.meta"), later.to_bytes()).unwrap();
    let before = contents(dir.path());
    for _ in 0..2 {
        let error = SledStore::open(dir.path(), HARDWARE).err().unwrap();
        let StoreError::Schema {
            found, supported, ..
        } = error
        else {
            panic!("{error}");
        };
        assert_eq!((found, supported), (2, 1));
    }
    assert_eq!(contents(dir.path()), before);
}

/// The contents of every file by path, except the lock, which names the last process.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.file_name().unwrap() != "lock" {
                all.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    all
}

/// Opens a store with a damaged database, and asserts that every record is restored from an export
/// and the damage reported. Returns the quarantined database.
fn assert_restored(dir: &Path, before: &Persisted) -> Quarantined {
    let (state, report) = load(dir);
    assert!(matches!(report.origin, Origin::Export(_)), "{report}");
    assert!(report.is_alarming());
    assert_eq!(state.claims, before.claims);
    assert_eq!(state.records, before.records);
    assert_eq!(state.plan_generation, before.plan_generation);
    // The next start reports no damage.
    let (again, report) = load(dir);
    assert_eq!((again, report.origin), (state, Origin::Clean));
    assert!(report.quarantined.is_none());
    load_quarantined(dir)
}

fn load_quarantined(dir: &Path) -> Quarantined {
    let shelf = dir.join("quarantine");
    let path = fs::read_dir(shelf)
        .ok()
        .and_then(|mut entries| entries.next().map(|e| e.unwrap().path()));
    Quarantined {
        path,
        reason: String::new(),
    }
}

#[test]
fn missing_database_is_restored_from_the_export() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let quarantined = assert_restored(dir.path(), &before);
    assert_eq!(quarantined.path, None);
}

#[test]
fn empty_database_is_replaced_from_the_export() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    drop(sled::open(dir.path().join("db")).unwrap());
    let quarantined = assert_restored(dir.path(), &before);
    assert!(quarantined.path.unwrap().join("db/db").exists());
}

#[test]
fn older_database_is_replaced_from_the_export() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("old");
    let live = dir.path().join("live");
    let mut store = SledStore::open(&live, HARDWARE).unwrap();
    store.commit(&claims(1..=5)).unwrap();
    drop(store);
    copy(&live.join("db"), &old);
    let before = filled(&live);
    fs::remove_dir_all(live.join("db")).unwrap();
    copy(&old, &live.join("db"));
    assert_restored(&live, &before);
}

/// Opens sled's database as soon as the former one has released its lock, which happens on a thread
/// of its own.
fn open_sled(path: &Path) -> sled::Db {
    for _ in 0..500 {
        match sled::open(path) {
            Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock") => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("{} stays locked", path.display());
}

#[test]
fn record_changed_outside_the_store_is_detected() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    let key = codec::claim_key(Guid(0x0002_c903_0000_0007));
    let assert_detected = |work: &dyn Fn(&sled::Db)| {
        let db = open_sled(&dir.path().join("db"));
        work(&db);
        db.flush().unwrap();
        drop(db);
        assert_restored(dir.path(), &before);
    };
    // A record is missing, a record is valid but from another commit, and an entry is no record.
    assert_detected(&|db| drop(db.remove(&key).unwrap()));
    let other = codec::claim_value(&key, &claim(0x2222));
    assert_detected(&|db| drop(db.insert(&key, other.as_slice()).unwrap()));
    assert_detected(&|db| drop(db.insert(b"?", b"?").unwrap()));
}

#[test]
fn damaged_store_without_an_export_starts_empty_and_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    drop(sled::open(dir.path().join("db")).unwrap());
    remove_exports(dir.path());
    let (state, report) = load(dir.path());
    assert!(state.is_empty());
    assert_eq!(state.plan_generation, 17, "generations are not used twice");
    assert_eq!(report.origin, Origin::Fresh);
    assert!(report.quarantined.unwrap().reason.contains("sentinel"));
}

#[test]
fn former_export_restores_the_store_if_the_newest_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let mut store = SledStore::open(dir.path(), HARDWARE).unwrap();
    store.commit(&claims(PORTS + 1..=PORTS + 1)).unwrap();
    drop(store);
    let export = dir.path().join("export.jsonl");
    let bytes = fs::read(&export).unwrap();
    fs::write(&export, &bytes[..bytes.len() - 100]).unwrap();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let (state, report) = load(dir.path());
    assert_eq!(
        report.origin,
        Origin::Export(dir.path().join("export.prev.jsonl"))
    );
    assert_eq!(state.claims.len(), usize::from(PORTS));
    assert_eq!(report.notes.len(), 1, "{report}");
    assert!(dir.path().join("export.damaged").exists());
}

#[test]
fn export_with_a_torn_last_commit_restores_the_commits_before() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let export = dir.path().join("export.jsonl");
    let bytes = fs::read(&export).unwrap();
    fs::write(&export, &bytes[..bytes.len() - 100]).unwrap();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let (state, report) = load(dir.path());
    assert_eq!(report.origin, Origin::Export(export));
    assert_eq!(state.claims.len(), usize::from(PORTS / 2));
    assert_eq!(report.notes.len(), 1, "{report}");
    assert!(report.notes[0].contains("no whole commit"), "{report}");
}

#[test]
fn an_export_grows_by_the_changes_and_is_rewritten_at_twice_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = SledStore::open(dir.path(), HARDWARE).unwrap();
    store.commit(&claims(1..=PORTS)).unwrap();
    let export = dir.path().join("export.jsonl");
    let size = || fs::metadata(&export).unwrap().len();
    let base = size();
    let mut sizes = vec![base];
    for last_seen in 2..400 {
        let mut changes = ChangeSet::new();
        let claim = LidClaim {
            last_seen,
            ..claim(2)
        };
        changes.set_claim(Guid(1), claim).unwrap();
        store.commit(&changes).unwrap();
        sizes.push(size());
        let read = Export::from_bytes(&fs::read(&export).unwrap()).unwrap();
        assert_eq!(read.state.claims, store.load().unwrap().0.claims);
    }
    assert!(sizes.iter().all(|&size| size < 2 * base + 500), "{sizes:?}");
    let rewritten = sizes.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(
        (1..400 / 4).contains(&rewritten),
        "{rewritten} times of 400"
    );
}

#[test]
fn damaged_sidecar_is_reported_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    fs::write(dir.path().join("store.meta"), b"rsm-store schema=1 gen").unwrap();
    let (state, report) = load(dir.path());
    assert_eq!((state, report.origin), (before, Origin::Unclean));
    assert_eq!(report.notes.len(), 1);
    assert!(!load(dir.path()).1.is_alarming());
}

#[test]
fn truncated_conf_of_the_database_loses_no_claims() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    fs::write(dir.path().join("db/conf"), b"").unwrap();
    let (state, _) = load(dir.path());
    assert_eq!(state.claims, before.claims);
}

#[test]
fn database_that_killed_the_process_three_times_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    fs::write(dir.path().join("opening"), b"3\n").unwrap();
    assert_restored(dir.path(), &before);
}

#[test]
fn quarantine_keeps_a_limited_number_of_databases() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    for _ in 0..6 {
        fs::remove_dir_all(dir.path().join("db")).unwrap();
        drop(sled::open(dir.path().join("db")).unwrap());
        assert_restored(dir.path(), &before);
    }
    let kept = fs::read_dir(dir.path().join("quarantine")).unwrap();
    assert_eq!(kept.count(), layout::QUARANTINE_KEEP);
}

/// Copying a database while it is written gives files that sled often opens as empty.
#[test]
fn copy_of_a_live_database_never_loses_claims_silently() {
    let dir = tempfile::tempdir().unwrap();
    let live = dir.path().join("live");
    let mut store = SledStore::open(&live, HARDWARE).unwrap();
    for round in 0..20u16 {
        let first = 1 + round * 2000;
        store.commit(&claims(first..=first + 1999)).unwrap();
        let torn = dir.path().join(format!("torn-{round}"));
        copy(&live, &torn);
        let (state, report) = load(&torn);
        assert_eq!(state.claims, store.load().unwrap().0.claims, "{report}");
        // Without sidecar and exports, nothing can be restored, but the damage is reported.
        let alone = dir.path().join(format!("alone-{round}"));
        copy(&live.join("db"), &alone.join("db"));
        let (state, report) = load(&alone);
        let complete = state.claims == store.load().unwrap().0.claims;
        assert!(complete || report.quarantined.is_some(), "{report}");
        fs::remove_dir_all(torn).unwrap();
        fs::remove_dir_all(alone).unwrap();
    }
}

fn overwrite(path: &Path, random: &mut Random, spots: usize, length: usize) {
    let mut bytes = fs::read(path).unwrap();
    for _ in 0..spots {
        let at = random.below(bytes.len());
        let end = (at + length).min(bytes.len());
        for byte in &mut bytes[at..end] {
            *byte = random.next() as u8;
        }
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn random_overwrites_of_the_database_yield_no_wrong_claim() {
    random_overwrites(0..25);
}

#[test]
#[ignore = "a soak of some minutes"]
fn random_overwrites_soak() {
    random_overwrites(1000..3000);
}

fn random_overwrites(seeds: std::ops::Range<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let template = dir.path().join("template");
    let before = filled(&template);
    for seed in seeds {
        let mut random = Random(seed);
        let victim = dir.path().join("victim");
        copy(&template, &victim);
        let with_export = random.below(4) > 0;
        if !with_export {
            remove_exports(&victim);
        }
        let (spots, length) = [(1, 64), (64, 1), (4, 4096), (1, 1), (3, 8)][random.below(5)];
        overwrite(&victim.join("db/db"), &mut random, spots, length);
        let (state, report) = load(&victim);
        if with_export {
            assert_eq!(state.claims, before.claims, "seed {seed}: {report}");
        } else {
            let complete = state.claims == before.claims;
            let is_reported = report.quarantined.is_some() && state.claims.is_empty();
            assert!(complete || is_reported, "seed {seed}: {report}");
        }
        fs::remove_dir_all(victim).unwrap();
    }
}

/// A disk on which only operation number `at` fails.
fn failing_once(at: usize, error: ErrorKind) -> (Disk, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let disk = Disk::with_fault(Arc::new(move |_: FileOperation, _: &Path| {
        if counter.fetch_add(1, Ordering::Relaxed) == at {
            return Err(error.into());
        }
        Ok(())
    }));
    (disk, count)
}

#[test]
fn failure_of_any_single_disk_operation_loses_no_commit() {
    let mut changes = claims(1000..=1100);
    changes.set_plan_generation(18);
    let failed = fail_each_operation(&[claims(900..=900), changes]);
    assert!(failed > 10, "only {failed} operations failed");
}

#[test]
fn failure_of_any_single_operation_of_a_commit_in_batches_loses_no_commit() {
    let removed = {
        let mut changes = claims(5000..=6100);
        changes.remove_claim(Guid(0x0002_c903_0000_0001));
        changes
    };
    // The first commit writes a whole export, the second one appends to it.
    let failed = fail_each_operation(&[claims(1000..=2100), removed]);
    assert!(failed > 15, "only {failed} operations failed");
}

/// Makes `commits` once for each disk operation, which fails. Returns the number of operations that
/// made opening or a commit fail.
fn fail_each_operation(commits: &[ChangeSet]) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let mut failed = 0;
    for at in 0.. {
        let path = dir.path().join(at.to_string());
        let before = filled(&path);
        let (disk, count) = failing_once(at, ErrorKind::StorageFull);
        let Ok(mut store) = SledStore::open_on(&path, HARDWARE, disk) else {
            // The failed opening lost nothing.
            assert_eq!(load(&path).0, before, "operation {at}");
            failed += 1;
            continue;
        };
        let mut after = before.clone();
        // The first commit writes a whole export; the second one is appended to it.
        for changes in commits {
            let before = after.clone();
            after.apply(changes);
            if store.commit(changes).is_err() {
                failed += 1;
                // The disk has the state before or after the commit, which can be repeated.
                let copied = dir.path().join(format!("{at}-copy"));
                copy(&path, &copied);
                let (state, report) = load(&copied);
                let whole = state.claims == before.claims || state.claims == after.claims;
                assert!(whole, "operation {at}: {report}");
                store.commit(changes).unwrap();
            }
        }
        assert_eq!(store.load().unwrap().0, after);
        let closed = store.close();
        drop(store);
        let (state, report) = load(&path);
        assert_eq!(state, after, "operation {at}: {report}");
        assert!(report.quarantined.is_none(), "operation {at}: {report}");
        if count.load(Ordering::Relaxed) <= at {
            assert!(closed.is_ok());
            break;
        }
    }
    failed
}

/// A disk on which operation number `at` and all later ones fail, as after the death of a process.
fn dying(at: usize) -> (Disk, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let disk = Disk::with_fault(Arc::new(move |_: FileOperation, _: &Path| {
        if counter.fetch_add(1, Ordering::Relaxed) >= at {
            return Err(ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }));
    (disk, count)
}

#[test]
fn interrupted_commit_of_several_batches_is_all_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (mut at_before, mut at_after, mut resumed) = (0, 0, 0);
    let first = {
        let path = dir.path().join("counted");
        filled(&path);
        let (disk, count) = dying(usize::MAX);
        let _store = SledStore::open_on(&path, HARDWARE, disk).unwrap();
        count.load(Ordering::Relaxed)
    };
    for at in first.. {
        let path = dir.path().join(at.to_string());
        let before = filled(&path);
        let (disk, _) = dying(at);
        let mut store = SledStore::open_on(&path, HARDWARE, disk).unwrap();
        let changes = claims(1000..=3100);
        let committed = store.commit(&changes).is_ok();
        drop(store);
        let (state, report) = load(&path);
        let mut after = before.clone();
        after.apply(&changes);
        assert!(!report.is_alarming(), "operation {at}: {report}");
        assert!(!report.may_lack_records(), "operation {at}: {report}");
        assert!(
            state == before || state == after,
            "operation {at}: {report}"
        );
        at_before += usize::from(state == before);
        at_after += usize::from(state == after);
        resumed += usize::from(matches!(report.origin, Origin::Resumed(_)));
        // A second start finds the same state, and a store that was closed properly.
        let (again, report) = load(&path);
        assert_eq!((again, report.origin), (state, Origin::Clean));
        if committed {
            break;
        }
    }
    assert!(
        at_before > 3 && at_after > 3,
        "{at_before} before, {at_after} after"
    );
    assert!(resumed > 3, "{resumed} resumed");
}

#[test]
fn full_disk_fails_the_commit_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    let full = Arc::new(AtomicUsize::new(0));
    let switch = Arc::clone(&full);
    let disk = Disk::with_fault(Arc::new(move |operation, _| {
        let writes = matches!(operation, FileOperation::Write | FileOperation::Apply);
        if writes && switch.load(Ordering::Relaxed) == 1 {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }));
    let mut store = SledStore::open_on(dir.path(), HARDWARE, disk).unwrap();
    full.store(1, Ordering::Relaxed);
    for _ in 0..3 {
        let error = store.commit(&claims(1000..=1010)).unwrap_err();
        assert!(error.to_string().contains("cannot write"), "{error}");
        assert_eq!(store.load().unwrap().0, before);
    }
    full.store(0, Ordering::Relaxed);
    store.commit(&claims(1000..=1010)).unwrap();
    drop(store);
    assert_eq!(load(dir.path()).0.claims.len(), before.claims.len() + 11);
}

#[test]
fn commit_after_close_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = SledStore::open(dir.path(), HARDWARE).unwrap();
    store.close().unwrap();
    store.close().unwrap();
    let error = store.commit(&claims(1..=1)).unwrap_err();
    assert!(matches!(error, StoreError::Closed));
}

#[test]
fn memory_store_returns_the_committed_state() {
    let mut store = MemoryStore::new();
    store.commit(&ChangeSet::new()).unwrap();
    assert_eq!(store.commits(), 0);
    store.commit(&claims(1..=3)).unwrap();
    let (state, report) = store.load().unwrap();
    assert_eq!(state.claims.len(), 3);
    assert_eq!((report.origin, report.generation), (Origin::Fresh, 1));
    let mut again = MemoryStore::with(state.clone());
    assert_eq!(again.load().unwrap().0, state);
}

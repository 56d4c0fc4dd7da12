//! Tests the state folder under random failures. The state that a start reads must be the result of
//! all registrations up to some number. This number must not be less than the last number that was
//! reported as written.
//!
//! A seed determines several lives of a manager. Each life has commits and journal entries on a
//! disk whose operations fail at random, tear writes, or stop for good in the middle, as after
//! SIGKILL. Between two lives a file may be damaged, or revert to its content before its last
//! flushes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;
use rsm_store::io::{Disk, FileOperation, TornLength};
use rsm_store::journal::{self, Journal, RowChange};
use rsm_store::{
    ChangeSet, FolderStore, LoadReport, Namespace, Persisted, Store as _, StoreFabric,
};

use super::acknowledged::{cover, covered, replay};

/// Number of keys of registrations: small, so that later registrations replace earlier ones.
pub(super) const KEYS: u64 = 6;

/// Number of records that exceeds one batch of the database.
const LARGE: u16 = 1100;

/// Number of bytes of a failed write that reach the disk, given the length of the write.
pub(super) const TEARS: [TornLength; 4] =
    [|_| 0, |all| all / 2, |all| all.saturating_sub(1), |all| all];

/// Random numbers by Splitmix64, so that a failing seed can be repeated.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// A random number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// A random element of `all`.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Determines how operations of the disk fail.
pub(super) struct Faults {
    random: Random,
    /// Number of operations in a thousand that fail.
    pub(super) per_mille: u64,
    /// Number of operations that still succeed before the process ends; `None` for no end.
    pub(super) left: Option<u64>,
    /// Number of operations that have failed so far.
    pub(super) failed: u64,
}

impl Faults {
    /// Creates faults that do not occur yet.
    pub(super) fn none(seed: u64) -> Faults {
        Faults {
            random: Random(seed),
            per_mille: 0,
            left: None,
            failed: 0,
        }
    }

    /// Decides whether an operation fails. Reading never fails.
    pub(super) fn check(&mut self, operation: FileOperation) -> io::Result<()> {
        if matches!(
            operation,
            FileOperation::Read | FileOperation::List | FileOperation::Lock
        ) {
            return Ok(());
        }
        match &mut self.left {
            Some(0) => {
                self.failed += 1;
                return Err(ErrorKind::BrokenPipe.into());
            }
            Some(left) => *left -= 1,
            None => {}
        }
        if self.random.below(1000) < self.per_mille {
            self.failed += 1;
            let kinds = [
                ErrorKind::StorageFull,
                ErrorKind::ReadOnlyFilesystem,
                ErrorKind::Other,
            ];
            return Err(self.random.one_of(&kinds).into());
        }
        Ok(())
    }

    /// Whether the process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.left == Some(0)
    }
}

/// Registration, which sets its number as the value of a key, or removes the key.
#[derive(Clone, Copy)]
struct Registration {
    key: u64,
    is_gone: bool,
}

/// Values by key.
pub(super) type Rows = BTreeMap<u64, u64>;

/// Table of the registrations.
pub(super) fn table() -> Namespace {
    Namespace::new("members").unwrap()
}

/// Rows of [`table`].
pub(super) fn rows(persisted: &Persisted) -> Rows {
    let rows = persisted.records.get(&table()).into_iter().flatten();
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    rows.map(|(key, value)| (number(key), number(value)))
        .collect()
}

/// Damage to files between two lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Harm {
    None,
    /// Damages the database, while the copies hold everything.
    Database,
    /// Damages the text copy or the side file, while the database holds everything.
    SideFile,
    /// Damages the journal, while commits hold everything up to the last one.
    Journal,
    /// Damages the database and its text copy.
    DatabaseAndCopy,
}

/// State folder of a manager, and the registrations that the manager reported as written.
struct World {
    seed: u64,
    root: tempfile::TempDir,
    random: Random,
    faults: Arc<Mutex<Faults>>,
    /// Number of folders so far; the last folder is the present life's.
    folders: usize,
    /// Copies of the folder at earlier times of this life and the previous one.
    earlier: Vec<PathBuf>,
    /// Number of the last registration at the start of this life, and the rows at that time.
    base: (u64, Rows),
    /// Registrations since the start of this life.
    registered: Vec<Registration>,
    /// Number of the last registration that the journal reported as written.
    durable: u64,
    /// Number of the last registration that a commit included.
    committed: u64,
}

/// Running part of a life.
struct Life {
    store: FolderStore,
    journal: Journal,
    uncommitted: ChangeSet,
    /// Encoded entries that the journal has not accepted yet.
    waiting: Vec<u8>,
}

impl World {
    /// Runs all lives that `seed` determines.
    fn new(seed: u64) -> World {
        let root = memory_folder();
        let mut world = World {
            seed,
            root,
            random: Random(seed),
            faults: Arc::new(Mutex::new(Faults::none(!seed))),
            folders: 0,
            earlier: Vec::new(),
            base: (0, Rows::new()),
            registered: Vec::new(),
            durable: 0,
            committed: 0,
        };
        fs::create_dir(world.dir()).unwrap();
        let lives = 2 + world.random.below(4);
        let mut harm = Harm::None;
        for _ in 0..lives {
            let mut life = world.open(harm);
            world.run_life(&mut life);
            harm = world.end(life);
        }
        drop(world.open(harm));
        world
    }

    /// Folder of the present life.
    fn dir(&self) -> PathBuf {
        self.root.path().join(self.folders.to_string())
    }

    /// Number of the last registration.
    fn last(&self) -> u64 {
        self.base.0 + self.registered.len() as u64
    }

    /// Rows after registration `number`.
    fn rows_at(&self, number: u64) -> Rows {
        let mut rows = self.base.1.clone();
        let since = (number - self.base.0) as usize;
        for (number, registration) in (self.base.0 + 1..).zip(&self.registered[..since]) {
            match registration.is_gone {
                true => rows.remove(&registration.key),
                false => rows.insert(registration.key, number),
            };
        }
        rows
    }

    /// Starts a manager, and compares the state that it reads with the registrations reported as
    /// written.
    fn open(&mut self, harm: Harm) -> Life {
        if harm != Harm::DatabaseAndCopy && self.random.below(3) == 0 {
            self.end_while_it_opens();
        }
        // A start on a failing disk reads the text copy, which other tests cover.
        *self.faults.lock() = Faults::none(self.random.below(u64::MAX));
        let disk = self.disk();
        let opened = FolderStore::open_on(&self.dir(), StoreFabric::Hardware, disk.clone());
        let mut store = opened.unwrap_or_else(|error| panic!("{}: {error}", self.seed));
        let (mut persisted, report) = store.load().unwrap();
        let (journal, entries) = Journal::open(&self.dir(), disk).unwrap();
        let last = entries.last().map_or(0, |entry| entry.number);
        let committed = covered(&persisted);
        let uncommitted = replay(&persisted, entries);
        persisted.apply(&uncommitted);
        let last = last.max(covered(&persisted));
        assert!(store.unopened().is_none(), "{:?}", store.unopened());
        self.compare(harm, last, &rows(&persisted), &report);
        if last < self.last() {
            // The next registrations reuse the lost numbers.
            self.earlier.clear();
        }
        self.base = (last, rows(&persisted));
        self.registered.clear();
        // Both the database and its text copy now hold the state that was read.
        (self.durable, self.committed) = (last, committed);
        Life {
            store,
            journal,
            uncommitted,
            waiting: Vec::new(),
        }
    }

    /// Disk with the present faults, on which a failing append may write a part of its bytes.
    fn disk(&mut self) -> Disk {
        let faults = self.faults.clone();
        let disk = Disk::with_fault(Arc::new(move |operation, _| faults.lock().check(operation)));
        disk.tearing(self.random.one_of(&TEARS))
    }

    /// Kills a start before it has opened the store.
    fn end_while_it_opens(&mut self) {
        *self.faults.lock() = Faults {
            left: Some(self.random.below(20)),
            ..Faults::none(0)
        };
        let disk = self.disk();
        let opened = FolderStore::open_on(&self.dir(), StoreFabric::Hardware, disk);
        self.abandon(opened);
    }

    /// Abandons `running` as a kill does, and continues with a copy of the folder.
    fn abandon(&mut self, running: impl Sized) {
        let left = self.dir();
        self.folders += 1;
        copy(&left, &self.dir());
        drop(running);
        fs::remove_dir_all(left).unwrap();
    }

    /// Compares the rows `read` by a start, up to registration `last`, with the registrations that
    /// were reported as written.
    fn compare(&self, harm: Harm, last: u64, read: &Rows, report: &LoadReport) {
        let seed = self.seed;
        let promised = match harm {
            Harm::None | Harm::Database | Harm::SideFile => self.durable.max(self.committed),
            Harm::Journal => self.committed,
            Harm::DatabaseAndCopy => {
                let kept = self.durable.max(self.committed)..=self.last();
                let is_whole = kept.contains(&last) && *read == self.rows_at(last);
                let is_reported = report.is_alarming();
                assert!(is_reported || is_whole, "seed {seed}: {report}");
                return;
            }
        };
        assert!(
            (promised..=self.last()).contains(&last),
            "seed {seed}: {promised} was on the disk, and {last} of {} were read: {report}",
            self.last()
        );
        if last < self.base.0 {
            // The journal lost entries of the last life and of earlier ones.
            assert_eq!(harm, Harm::Journal, "seed {seed}: {report}");
            return;
        }
        if harm == Harm::Journal {
            return self.compare_each_row(promised, last, read);
        }
        assert_eq!(*read, self.rows_at(last), "seed {seed}: {report}");
        if harm == Harm::None {
            assert!(report.quarantined.is_none(), "seed {seed}: {report}");
        }
    }

    /// Compares rows after damage to the journal. The journal may have lost an entry but not the
    /// entries after it, so each row must have had its value after some registration from number
    /// `promised` on.
    fn compare_each_row(&self, promised: u64, last: u64, read: &Rows) {
        let moments = promised.max(self.base.0)..=last;
        let moments: Vec<Rows> = moments.map(|moment| self.rows_at(moment)).collect();
        let keys = moments.iter().flat_map(|rows| rows.keys());
        for key in keys.chain(read.keys()) {
            let was = moments.iter().any(|rows| rows.get(key) == read.get(key));
            assert!(was, "seed {}: {key} is {:?}", self.seed, read.get(key));
        }
    }

    /// Lets the manager register, commit and meet faults in random order, until its steps are over
    /// or its process ends.
    fn run_life(&mut self, life: &mut Life) {
        let steps = 3 + self.random.below(18);
        let end = self.random.below(2 * steps);
        for step in 0..steps {
            if step == end {
                let left = self.random.below(14);
                self.faults.lock().left = Some(left);
            }
            match self.random.below(20) {
                0..11 => self.register(life),
                11..16 => self.commit(life),
                16..18 => {
                    let rate = self.random.one_of(&[0, 0, 20, 300, 1000]);
                    self.faults.lock().per_mille = rate;
                }
                18 => self.replace(),
                _ => self.keep_copy(),
            }
            if self.faults.lock().is_over() {
                return;
            }
        }
    }

    /// Adds a random registration, and appends it to the journal.
    fn register(&mut self, life: &mut Life) {
        let registration = Registration {
            key: self.random.below(KEYS),
            is_gone: self.random.below(4) == 0,
        };
        self.registered.push(registration);
        let (number, key) = (self.last(), registration.key.to_be_bytes());
        let row = match registration.is_gone {
            true => {
                life.uncommitted.remove_record(&table(), &key);
                let (table, prefix) = (table(), key.to_vec());
                RowChange::Clear { table, prefix }
            }
            false => {
                let value = number.to_be_bytes().to_vec();
                life.uncommitted.set_record(&table(), &key, &value).unwrap();
                let (table, key) = (table(), key.to_vec());
                RowChange::Set { table, key, value }
            }
        };
        journal::encode(number, &[row], &mut life.waiting);
        if life.journal.append(&life.waiting, number).is_ok() {
            life.waiting.clear();
            self.durable = number;
        }
    }

    /// Commits all registrations that are not committed yet.
    fn commit(&mut self, life: &mut Life) {
        let number = self.last();
        cover(number, &mut life.uncommitted);
        if self.random.below(30) == 0 {
            for lid in 1..=LARGE {
                let claim = LidClaim {
                    lid: Lid(lid),
                    lmc: Lmc::ZERO,
                    last_seen: number,
                };
                life.uncommitted
                    .set_claim(Guid(u64::from(lid)), claim)
                    .unwrap();
            }
        }
        if life.store.commit(&life.uncommitted).is_ok() {
            life.uncommitted = ChangeSet::new();
            self.committed = number;
            // A failure leaves entries that have no effect.
            let _ = life.journal.covered(number);
        }
    }

    /// Replaces the folder by a copy.
    fn replace(&mut self) {
        let aside = self
            .root
            .path()
            .join(format!("aside-{}", self.random.below(u64::MAX)));
        fs::rename(self.dir(), &aside).unwrap();
        copy(&aside, &self.dir());
    }

    /// Copies the folder's present files, for a disk that loses later flushes.
    fn keep_copy(&mut self) {
        let kept = self
            .root
            .path()
            .join(format!("earlier-{}", self.earlier.len()));
        let _ = fs::remove_dir_all(&kept);
        copy(&self.dir(), &kept);
        self.earlier.push(kept);
    }

    /// Ends the life, regularly or by a kill, and may damage files that it leaves.
    fn end(&mut self, mut life: Life) -> Harm {
        if !self.faults.lock().is_over() && self.random.below(3) == 0 {
            let _ = life.store.close();
        }
        self.abandon(life);
        let harms = [
            Harm::None,
            Harm::None,
            Harm::None,
            Harm::Database,
            Harm::SideFile,
            Harm::Journal,
            Harm::DatabaseAndCopy,
        ];
        let harm = self.random.one_of(&harms);
        let side_file = self
            .random
            .one_of(&["export.jsonl", "export.prev.jsonl", "store.meta"]);
        let journal = self.random.one_of(&["journal.0", "journal.1"]);
        let harmed: &[&str] = match harm {
            Harm::None => &[],
            Harm::Database => &["db/db"],
            Harm::SideFile => &[side_file],
            Harm::Journal => &[journal],
            Harm::DatabaseAndCopy => &["db/db", "export.jsonl"],
        };
        for file in harmed {
            self.harm(file);
        }
        if harm != Harm::None {
            // The following registrations differ and reuse the numbers.
            self.earlier.clear();
        }
        harm
    }

    /// Damages a file: overwrites a part of it, truncates it, copies a part of it to another place,
    /// removes it, or restores its earlier state.
    fn harm(&mut self, file: &str) {
        let path = self.dir().join(file);
        let Ok(mut bytes) = fs::read(&path) else {
            return;
        };
        let length = bytes.len() as u64;
        if length == 0 {
            return;
        }
        let at = self.random.below(length) as usize;
        let end = (at + 1 + self.random.below(4096) as usize).min(bytes.len());
        match self.random.below(5) {
            0 => bytes[at..end].fill(self.random.below(256) as u8),
            1 => bytes.truncate(at),
            2 => {
                let to = self.random.below(length - (end - at) as u64 + 1) as usize;
                bytes.copy_within(at..end, to);
            }
            3 => return fs::remove_file(&path).unwrap(),
            _ => {
                let earlier = self.earlier.last().map(|kept| kept.join(file));
                let Some(before) = earlier.and_then(|path| fs::read(path).ok()) else {
                    return;
                };
                bytes = before;
            }
        }
        fs::write(&path, bytes).unwrap();
    }
}

/// Creates a folder in memory if the system supports it: flushes to a disk would take most of the
/// time, and these tests examine only the content of files.
pub(super) fn memory_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

/// Copies a folder with its contents.
pub(super) fn copy(from: &Path, to: &Path) {
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

/// Number of seeds in the environment variable `RSM_SEEDS`; `None` if it is not set.
pub(super) fn seed_count() -> Option<u64> {
    std::env::var("RSM_SEEDS").ok()?.parse().ok()
}

/// Runs all `seeds`. Panics with the seeds that failed.
fn run(seeds: std::ops::Range<u64>) {
    let has_failed = |&seed: &u64| std::panic::catch_unwind(|| drop(World::new(seed))).is_err();
    let failed: Vec<u64> = seeds.filter(has_failed).collect();
    assert_eq!(failed, [0_u64; 0], "seeds that failed");
}

#[test]
fn random_failures_lose_no_registration_reported_as_written() {
    run(0..300);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 20,000"]
fn random_failures_of_many_seeds_lose_no_registration_reported_as_written() {
    run(1000..1000 + seed_count().unwrap_or(20_000));
}

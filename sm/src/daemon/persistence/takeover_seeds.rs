//! Tests takeovers between managers whose disks fail at random. The state with which the next
//! master continues must be the result of the first n registrations, for some n. The number n must
//! not be less than the number of registrations that the shared store, or an intact folder of the
//! same machine, is known to have.
//!
//! A seed determines two machines. Each has a folder on a disk whose operations fail, tear writes,
//! stop in the middle as after SIGKILL, or lose flushed data; at random moments one of the machines
//! becomes the next master. The shared store is unreachable at random while a master runs, and
//! reachable again when the next manager claims the epoch. Except for etcd, all parts are those of
//! the daemon: this thread is the store's thread, and the journal and the replica of the shared
//! store have their own threads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Mutex, MutexGuard};
use rsm_core::{EpochEvent, EpochRequest, Event};
use rsm_ids::Guid;
use rsm_store::io::Disk;
use rsm_store::journal::{Journal, RowChange};
use rsm_store::{
    ChangeSet, ClaimCondition, Deadline, Epoch, FolderStore, LoadReport, Persisted, SeenEpoch,
    SharedStore, Store, StoreError, StoreFabric,
};
use tokio::sync::{mpsc, watch};

use super::acknowledged::{Acknowledged, covered, replay};
use super::fault_seeds::{
    Faults, KEYS, Random, Rows, TEARS, copy, memory_folder, rows, seed_count, table,
};
use super::requests::StoreRequest;
use super::shared::{self, BackEnd};
use super::tests::{settle, store_thread, until};
use super::{Mailbox, PendingStates, StoreThread, acknowledged};
use crate::daemon::clock::Clock;
use crate::daemon::findings::DaemonFindings;
use crate::daemon::sa::AckJournal as _;

/// GUIDs of the managers, by machine.
const GUIDS: [Guid; 2] = [Guid(0xa), Guid(0xb)];

/// Content of the simulated shared store; a mutex makes each transaction atomic.
#[derive(Default)]
pub(super) struct Contents {
    /// Whether the store answers no request.
    is_unreachable: bool,
    /// Current epoch; `None` before the first claim.
    epoch: Option<Epoch>,
    /// Number of heartbeats of all holders so far.
    beat: i64,
    /// Committed rows.
    pub(super) state: Persisted,
}

/// Access of one process to the shared store.
pub(super) struct Access {
    contents: Arc<Mutex<Contents>>,
    /// Whether the process has not been killed.
    is_alive: Arc<AtomicBool>,
    /// Epoch that the process has claimed.
    held: Option<Epoch>,
}

impl Access {
    /// Access of a process that runs as long as `is_alive` is true.
    pub(super) fn new(contents: Arc<Mutex<Contents>>, is_alive: Arc<AtomicBool>) -> Access {
        Access {
            contents,
            is_alive,
            held: None,
        }
    }

    /// Content of the store; fails if the store is unreachable or the process was killed.
    fn reachable_contents(&self) -> Result<MutexGuard<'_, Contents>, StoreError> {
        let contents = self.contents.lock();
        match self.is_alive.load(Ordering::SeqCst) && !contents.is_unreachable {
            true => Ok(contents),
            false => Err(unreachable()),
        }
    }

    /// Content of the store for a write; fails also if the process does not hold the current epoch.
    fn fenced(&self) -> Result<MutexGuard<'_, Contents>, StoreError> {
        let contents = self.reachable_contents()?;
        match contents.epoch {
            Some(epoch) if self.held == Some(epoch) => Ok(contents),
            Some(epoch) => Err(StoreError::Deposed(epoch)),
            None => Err(StoreError::NoEpoch),
        }
    }
}

/// Error of a store that does not answer.
fn unreachable() -> StoreError {
    StoreError::Unreachable {
        endpoints: String::new(),
        reason: "the process has ended, or the store is unreachable".to_owned(),
    }
}

impl Store for Access {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        Ok((self.state(), LoadReport::default()))
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        self.fenced()?.state.apply(changes);
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl SharedStore for Access {
    fn deadline(&self) -> Deadline {
        Deadline::default()
    }

    fn observe(&mut self) -> Result<Option<SeenEpoch>, StoreError> {
        let contents = self.reachable_contents()?;
        let seen = |epoch: Epoch| SeenEpoch {
            epoch,
            revision: i64::try_from(epoch.number).unwrap(),
            beat: contents.beat,
            is_released: false,
            plan: 0,
        };
        Ok(contents.epoch.map(seen))
    }

    fn claim(
        &mut self,
        holder: Guid,
        seen: Option<SeenEpoch>,
        condition: ClaimCondition,
    ) -> Result<Option<Epoch>, StoreError> {
        assert_eq!(condition, ClaimCondition::Unconditional);
        let mut contents = self.reachable_contents()?;
        if contents.epoch != seen.map(|seen| seen.epoch) {
            return Ok(None);
        }
        let number = contents.epoch.map_or(0, |epoch| epoch.number) + 1;
        let claimed = Some(Epoch { number, holder });
        contents.epoch = claimed;
        drop(contents);
        self.held = claimed;
        Ok(claimed)
    }

    fn beat(&mut self) -> Result<(), StoreError> {
        self.fenced()?.beat += 1;
        Ok(())
    }

    fn announce(&mut self, _: Guid, _: &str) -> Result<BTreeMap<Guid, String>, StoreError> {
        Ok(BTreeMap::new())
    }

    fn release(&mut self) {
        self.held = None;
    }

    fn follow(&mut self) -> Result<BTreeSet<String>, StoreError> {
        Ok(BTreeSet::new())
    }

    fn tables(&self, _: &[&str]) -> Persisted {
        Persisted::default()
    }

    fn state(&self) -> Persisted {
        self.contents.lock().state.clone()
    }
}

/// Running master.
struct Running {
    store_thread: StoreThread,
    mailbox: Arc<Mutex<PendingStates>>,
    /// Held open, because closing it would tell the store's thread that the daemon is ending.
    _rung: watch::Receiver<()>,
    core: mpsc::Receiver<Event>,
    journal: Arc<Acknowledged>,
    thread: JoinHandle<()>,
    is_alive: Arc<AtomicBool>,
    /// Whether the folder lacks changes, because the last commit failed or no commit was made since
    /// the epoch was granted.
    is_behind: bool,
}

/// Machine: its folder, and its disk as the store and as the journal see it.
struct Machine {
    /// Number of folders that earlier masters on this machine have left.
    folders: usize,
    /// Faults of the disk, first for the store, then for the journal.
    faults: [Arc<Mutex<Faults>>; 2],
    /// Copy of the folder at some earlier time, for a disk that loses later flushes.
    earlier: Option<PathBuf>,
}

/// Registration, which sets a value for a key, or removes the key if `value` is `None`.
#[derive(Clone, Copy)]
struct Registration {
    key: u64,
    value: Option<u64>,
}

/// Both machines, the shared store, and the registrations that a takeover must preserve.
struct World {
    seed: u64,
    root: tempfile::TempDir,
    random: Random,
    contents: Arc<Mutex<Contents>>,
    machines: [Machine; 2],
    /// Machine of the master.
    master: usize,
    /// Registrations of all masters, without those that a takeover has lost.
    history: Vec<Registration>,
    /// Number of registrations so far, which is the value of the last one.
    registered: u64,
    /// Number of registrations in `history` that the shared store is known to have.
    shared: usize,
    /// Number of registrations in `history` that the master's folder is known to have; 0 if it may
    /// lack any of them.
    on_disk: usize,
}

impl World {
    /// Two machines with empty folders, and an empty shared store.
    fn new(seed: u64) -> World {
        let machine = |number: u64| Machine {
            folders: 0,
            faults: [0, 1]
                .map(|part| Arc::new(Mutex::new(Faults::none(!seed ^ number << 1 ^ part)))),
            earlier: None,
        };
        let world = World {
            seed,
            root: memory_folder(),
            random: Random(seed),
            contents: Arc::default(),
            machines: [machine(1), machine(2)],
            master: 0,
            history: Vec::new(),
            registered: 0,
            shared: 0,
            on_disk: 0,
        };
        for machine in 0..2 {
            fs::create_dir(world.dir(machine)).unwrap();
        }
        world
    }

    /// Runs all masters that `seed` determines, one after the other.
    fn run(seed: u64) {
        let mut world = World::new(seed);
        for _ in 0..2 + world.random.below(4) {
            let mut running = world.begin();
            world.run_master(&mut running);
            world.kill(running);
            world.change_master();
        }
        let last = world.begin();
        world.kill(last);
    }

    /// Present folder of a machine.
    fn dir(&self, machine: usize) -> PathBuf {
        let folders = self.machines[machine].folders;
        self.root.path().join(format!("{machine}-{folders}"))
    }

    /// Rows after `number` registrations.
    fn rows_at(&self, number: usize) -> Rows {
        let mut rows = Rows::new();
        for registration in &self.history[..number] {
            match registration.value {
                Some(value) => rows.insert(registration.key, value),
                None => rows.remove(&registration.key),
            };
        }
        rows
    }

    /// Starts the next master on its machine, lets it claim the epoch, and checks the state with
    /// which it continues.
    fn begin(&mut self) -> Running {
        let held = self.contents.lock().epoch.map(|epoch| epoch.holder);
        let is_same = held.is_none_or(|holder| holder == GUIDS[self.master]);
        let mut running = self.start();
        self.claim(&mut running, held.filter(|_| !is_same), |event| {
            matches!(event, EpochEvent::Granted { .. })
        });
        let state = rows(&running.store_thread.persisted);
        let seed = self.seed;
        if !is_same {
            let shared = rows(&self.contents.lock().state);
            assert_eq!(state, shared, "seed {seed}: a successor has another state");
        }
        let promised = match is_same {
            true => self.shared.max(self.on_disk),
            false => self.shared,
        };
        let found = (promised..=self.history.len()).rfind(|&number| self.rows_at(number) == state);
        let Some(number) = found else {
            panic!(
                "seed {seed}: {state:?} and not {:?} of {promised}, or later up to {:?}; {} in the shared store, {} in the folder, \
                 the same machine: {is_same}",
                self.rows_at(promised),
                self.rows_at(self.history.len()),
                self.shared,
                self.on_disk
            );
        };
        self.history.truncate(number);
        (self.shared, self.on_disk) = (self.shared.min(number), 0);
        running
    }

    /// Opens the folder of the master's machine, and starts the threads of the stores.
    fn start(&mut self) -> Running {
        let dir = self.dir(self.master);
        let [store_disk, journal_disk] = [0, 1].map(|part| {
            let faults = self.machines[self.master].faults[part].clone();
            *faults.lock() = Faults::none(self.random.below(u64::MAX));
            let disk =
                Disk::with_fault(Arc::new(move |operation, _| faults.lock().check(operation)));
            disk.tearing(self.random.one_of(&TEARS))
        });
        let mut store = FolderStore::open_on(&dir, StoreFabric::Hardware, store_disk).unwrap();
        let (mut persisted, _) = store.load().unwrap();
        let (journal, entries) = Journal::open(&dir, journal_disk).unwrap();
        let last = entries.last().map_or(0, |entry| entry.number);
        let mut uncommitted = replay(&persisted, entries);
        persisted.apply(&uncommitted);
        let last = last.max(covered(&persisted));
        let (clock, findings) = (Clock::start(), DaemonFindings::new());
        let started = Acknowledged::start(journal, last, clock, findings.clone());
        let (journal, thread) = started.unwrap();
        let (wakeup, rung) = watch::channel(());
        let latest = Arc::new(Mutex::new(PendingStates::default()));
        let mailbox = Mailbox {
            latest: latest.clone(),
            wakeup,
        };
        let is_alive = Arc::new(AtomicBool::new(true));
        let (core, events) = mpsc::channel(1024);
        let contents = self.contents.lock();
        let state = contents.epoch.map(|epoch| (epoch, contents.state.clone()));
        drop(contents);
        let back_end = BackEnd {
            store: Box::new(Access::new(self.contents.clone(), is_alive.clone())),
            state,
            endpoints: String::new(),
            core,
        };
        let opened = shared::start(back_end, &mailbox, clock, findings.clone()).unwrap();
        shared::adopt_stored(&mut persisted, opened.state, &mut uncommitted);
        Running {
            store_thread: StoreThread {
                persisted,
                uncommitted,
                journal: Some(journal.clone()),
                shared: Some(opened.shared),
                ..store_thread(Box::new(store), clock, findings)
            },
            mailbox: latest,
            _rung: rung,
            core: events,
            journal,
            thread,
            is_alive,
            is_behind: true,
        }
    }

    /// Claims the epoch, and returns the first event for which `is_answer` is true; `over` names
    /// the manager that holds the epoch.
    fn claim(
        &self,
        running: &mut Running,
        over: Option<Guid>,
        is_answer: fn(&EpochEvent) -> bool,
    ) -> EpochEvent {
        let claim = EpochRequest::Claim {
            own: GUIDS[self.master],
            over,
            insists: true,
            is_master: false,
        };
        running
            .store_thread
            .carry_out(vec![StoreRequest::Claim(claim)]);
        running.wait(is_answer)
    }

    /// Lets the master register, commit and meet faults in random order, until its steps are over
    /// or its process stops.
    fn run_master(&mut self, running: &mut Running) {
        let steps = 3 + self.random.below(18);
        let end = self.random.below(2 * steps);
        for step in 0..steps {
            if step == end {
                let part = self.random.below(2) as usize;
                let left = self.random.below(14);
                self.machines[self.master].faults[part].lock().left = Some(left);
            }
            match self.random.below(20) {
                0..10 => self.register(running),
                10..14 => self.commit(running),
                14..16 => self.hand_over(running),
                16..18 => {
                    let rate = self.random.one_of(&[0, 0, 20, 300, 1000]);
                    let part = self.random.below(2) as usize;
                    self.machines[self.master].faults[part].lock().per_mille = rate;
                }
                18 => self.keep_copy(),
                _ => {
                    let mut contents = self.contents.lock();
                    contents.is_unreachable = !contents.is_unreachable;
                }
            }
            if self.has_stopped() {
                return;
            }
        }
    }

    /// Whether the master's process has ended.
    fn has_stopped(&self) -> bool {
        let mut faults = self.machines[self.master].faults.iter();
        faults.any(|faults| faults.lock().is_over())
    }

    /// Adds a random registration.
    fn register(&mut self, running: &mut Running) {
        self.registered += 1;
        let key = self.random.below(KEYS);
        let is_gone = self.random.below(4) == 0;
        self.add(
            running,
            Registration {
                key,
                value: (!is_gone).then_some(self.registered),
            },
        );
    }

    /// Adds a registration, and waits until it is in the journal, unless the disk fails.
    fn add(&mut self, running: &mut Running, registration: Registration) {
        self.history.push(registration);
        let bytes = registration.key.to_be_bytes();
        let mut changes = ChangeSet::new();
        let row = match registration.value {
            None => {
                changes.remove_record(&table(), &bytes);
                RowChange::Clear {
                    table: table(),
                    prefix: bytes.to_vec(),
                }
            }
            Some(value) => {
                let value = value.to_be_bytes();
                changes.set_record(&table(), &bytes, &value).unwrap();
                RowChange::Set {
                    table: table(),
                    key: bytes.to_vec(),
                    value: value.to_vec(),
                }
            }
        };
        let journal_faults = self.machines[self.master].faults[1].clone();
        let failed = journal_faults.lock().failed;
        let number = running.journal.append_rows(&[row]);
        acknowledged::cover(running.journal.last(), &mut changes);
        running.store_thread.add(changes);
        let Some(number) = number else { return };
        until(|| running.journal.durable() >= number);
        // If the folder lags behind the shared store, neither the folder nor its journal counts.
        if journal_faults.lock().failed == failed && !running.is_behind {
            self.on_disk = self.history.len();
        }
    }

    /// Commits the state of the store's thread to the master's folder.
    fn commit(&mut self, running: &mut Running) {
        running.pump();
        running.store_thread.commit();
        settle(&mut running.store_thread);
        let is_committed = running.store_thread.retry.is_none();
        running.is_behind = !is_committed;
        self.on_disk = match is_committed {
            true => self.history.len(),
            false => 0,
        };
    }

    /// Waits until the shared store has all registrations, unless it is unreachable.
    fn hand_over(&mut self, running: &mut Running) {
        self.commit(running);
        if self.contents.lock().is_unreachable {
            return;
        }
        let wanted = rows(&running.store_thread.persisted);
        until(|| rows(&self.contents.lock().state) == wanted);
        self.shared = self.history.len();
    }

    /// Copies the master's folder.
    fn keep_copy(&mut self) {
        let kept = self.root.path().join(format!("earlier-{}", self.master));
        let _ = fs::remove_dir_all(&kept);
        copy(&self.dir(self.master), &kept);
        self.machines[self.master].earlier = Some(kept);
    }

    /// Kills the master. The machine continues with a copy of the folder, either of now or of an
    /// earlier time, as if the disk had lost its later flushes.
    fn kill(&mut self, running: Running) {
        running.is_alive.store(false, Ordering::SeqCst);
        let machine = &mut self.machines[self.master];
        for faults in &machine.faults {
            faults.lock().left = Some(0);
        }
        // No transaction is under way after this point.
        let shared = rows(&self.contents.lock().state);
        let earlier = machine.earlier.take();
        let left = self.dir(self.master);
        self.machines[self.master].folders += 1;
        let from = match earlier.filter(|_| self.random.below(2) == 0) {
            Some(earlier) => {
                self.on_disk = 0;
                earlier
            }
            None => left.clone(),
        };
        copy(&from, &self.dir(self.master));
        let least = self.shared;
        let had = (least..=self.history.len()).find(|&number| self.rows_at(number) == shared);
        let seed = self.seed;
        self.shared = had.unwrap_or_else(|| panic!("seed {seed}: the shared store has {shared:?}"));
        running.store_thread.committer.close();
        if let Some(shared) = running.store_thread.shared {
            shared.close();
        }
        running.journal.close();
        running.thread.join().unwrap();
        remove(&left);
    }

    /// Makes the shared store reachable. In two of three cases, the other machine runs the next
    /// master.
    fn change_master(&mut self) {
        self.contents.lock().is_unreachable = false;
        if self.random.below(3) != 0 {
            self.master = 1 - self.master;
            self.on_disk = 0;
        }
    }
}

impl Running {
    /// Handles what has arrived for the store's thread, such as reports of the shared store.
    fn pump(&mut self) {
        let latest = std::mem::take(&mut *self.mailbox.lock());
        self.store_thread.accept(latest);
    }

    /// Handles what arrives for the store's thread until the core gets an event for which
    /// `is_wanted` is true. Returns that event.
    fn wait(&mut self, is_wanted: fn(&EpochEvent) -> bool) -> EpochEvent {
        let (running, found) = (Mutex::new(self), Mutex::new(None));
        until(|| {
            let mut running = running.lock();
            running.pump();
            while let Ok(event) = running.core.try_recv() {
                if let Event::Epoch(event) = event
                    && is_wanted(&event)
                {
                    *found.lock() = Some(event);
                    return true;
                }
            }
            false
        });
        found.into_inner().expect("the event was found")
    }
}

/// Removes a folder with its files.
fn remove(folder: &Path) {
    fs::remove_dir_all(folder).unwrap();
}

/// Runs all `seeds`. Panics with the seeds that failed.
fn run(seeds: std::ops::Range<u64>) {
    let failed = |&seed: &u64| std::panic::catch_unwind(|| World::run(seed)).is_err();
    let failed: Vec<u64> = seeds.filter(failed).collect();
    assert_eq!(failed, [0_u64; 0], "seeds that failed");
}

#[test]
fn next_master_has_all_registrations_of_the_shared_store_though_disks_fail() {
    run(0..60);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 2,000"]
fn next_master_has_all_registrations_of_the_shared_store_in_many_seeds() {
    run(1000..1000 + seed_count().unwrap_or(2000));
}

/// A master that reached the shared store has `KEYS_WITH_EPOCH` registrations there. Its machine
/// starts again with a copy of the folder from before them, while the shared store is unreachable:
/// the next master on this machine continues without the epoch.
fn without_the_epoch_on_an_older_folder() -> (World, Running) {
    let mut world = World::new(1);
    let mut first = world.begin();
    world.commit(&mut first);
    world.keep_copy();
    for key in 0..KEYS_WITH_EPOCH {
        world.add_value(&mut first, key);
        world.hand_over(&mut first);
    }
    let older = world.machines[0].earlier.take().unwrap();
    world.kill(first);
    remove(&world.dir(0));
    copy(&older, &world.dir(0));
    world.contents.lock().is_unreachable = true;
    let mut running = world.start();
    world.claim(&mut running, None, |event| {
        matches!(event, EpochEvent::Unreachable(_))
    });
    (world, running)
}

/// Number of registrations of the first master in [`without_the_epoch_on_an_older_folder`].
const KEYS_WITH_EPOCH: u64 = 3;

impl World {
    /// Registers a new value for `key`.
    fn add_value(&mut self, running: &mut Running, key: u64) {
        self.registered += 1;
        let value = Some(self.registered);
        self.add(running, Registration { key, value });
    }
}

#[test]
fn grant_of_a_repeated_claim_keeps_the_registrations_of_the_serving_master() {
    let (mut world, mut running) = without_the_epoch_on_an_older_folder();
    world.add_value(&mut running, KEYS_WITH_EPOCH);
    world.commit(&mut running);
    world.contents.lock().is_unreachable = false;
    // The replica has combined both states, and the store's thread does not know that yet.
    until(|| !running.mailbox.lock().requests.is_empty());
    world.add_value(&mut running, KEYS_WITH_EPOCH + 1);
    // The SA has acknowledged a registration that the store's thread does not have yet.
    let table = table();
    let (key, value) = (vec![9; 8], vec![9; 8]);
    let only_journaled = [RowChange::Set { table, key, value }];
    let journaled = running.journal.append_rows(&only_journaled).unwrap();
    running.wait(|event| matches!(event, EpochEvent::Granted { .. }));
    let state = rows(&running.store_thread.persisted);
    assert_eq!(state, world.rows_at(world.history.len()));
    assert!(acknowledged::covered(&running.store_thread.persisted) < journaled);
    world.hand_over(&mut running);
    world.kill(running);
}

#[test]
fn commits_without_the_epoch_put_no_older_folder_ahead_of_the_shared_store() {
    let (mut world, mut running) = without_the_epoch_on_an_older_folder();
    for _ in 0..2 * KEYS_WITH_EPOCH {
        world.add_value(&mut running, KEYS_WITH_EPOCH);
        world.commit(&mut running);
    }
    world.kill(running);
    world.contents.lock().is_unreachable = false;
    let mut running = world.start();
    let granted = world.claim(&mut running, None, |event| {
        matches!(event, EpochEvent::Granted { .. })
    });
    let state = rows(&running.store_thread.persisted);
    assert_eq!(state, world.rows_at(KEYS_WITH_EPOCH as usize));
    let EpochEvent::Granted { state, .. } = granted else {
        unreachable!("it is a grant");
    };
    let state = state.expect("the shared store is ahead");
    assert!(state.reregister, "later registrations are missing");
    world.kill(running);
}

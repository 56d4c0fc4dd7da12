//! Tests of the rows of the core, of the store's thread and of the journal.

use std::sync::atomic::{AtomicBool, Ordering};

use rsm_core::{EpochEvent, EpochRequest, Event};
use rsm_ids::{Guid, Lid, Lmc};
use rsm_store::LoadReport;
use rsm_store::io::FileOperation;

use super::shared::BackEnd;
use super::takeover_seeds::{Access, Contents};
use super::*;

#[test]
fn stored_core_state_is_restored() {
    let mut before = SavedCoreState {
        generation: 7,
        ..SavedCoreState::default()
    };
    let claim = Claim {
        base: Lid(8),
        lmc: Lmc::from_bits(2),
    };
    Arc::make_mut(&mut before.claims).insert(Guid(1), claim);
    let kind = DeviceKind {
        vendor: 0x2c9,
        device: 4129,
        revision: 3,
        role: PortRole::External,
    };
    before.not_kept.learn(kind, FieldMask(0x81));
    before.habits.restore(kind, 1);
    let mut persisted = Persisted::default();
    persisted.apply(&changes(&persisted, None, &before, &Clock::start()));
    let after = restored(&persisted, &Clock::start());
    assert_eq!(after.claims, before.claims);
    assert_eq!(after.not_kept, before.not_kept);
    assert_eq!(after.habits, before.habits);
    assert_eq!(after.generation, 7);
    assert!(
        changes(&persisted, None, &after, &Clock::start()).is_empty(),
        "nothing is written twice"
    );
}

#[test]
fn habits_that_a_reload_forgets_leave_the_store() {
    let kind = DeviceKind {
        vendor: 0x2c9,
        device: 4129,
        revision: 3,
        role: PortRole::External,
    };
    let mut learned = claimed();
    learned.not_kept.learn(kind, FieldMask(0x81));
    learned.habits.restore(kind, 1);
    let mut persisted = Persisted::default();
    persisted.apply(&changes(&persisted, None, &learned, &Clock::start()));
    persisted.apply(&changes(&persisted, None, &claimed(), &Clock::start()));
    let after = restored(&persisted, &Clock::start());
    assert_eq!(after.not_kept, NotKept::default());
    assert_eq!(after.habits, DeviceHabits::default());
}

/// State with one claim.
fn claimed() -> SavedCoreState {
    let mut core_state = SavedCoreState::default();
    let claim = Claim {
        base: Lid(8),
        lmc: Lmc::from_bits(0),
    };
    Arc::make_mut(&mut core_state.claims).insert(Guid(1), claim);
    core_state
}

#[test]
fn damaged_side_file_alone_requests_no_reregistration() {
    let dir = tempfile::tempdir().unwrap();
    let findings = DaemonFindings::new();
    let open = || {
        let opened = open(
            Some(dir.path()),
            StoreFabric::Hardware,
            None,
            Clock::start(),
            findings.clone(),
        );
        let (store_handle, kept, _) = opened.unwrap();
        (store_handle, kept)
    };
    let (store_handle, kept) = open();
    assert!(kept.core.reregister, "nothing is known of before");
    store_handle.keep(Box::new(claimed()));
    store_handle.close();
    std::fs::write(dir.path().join("store.meta"), "rsm-store schema=1 gen").unwrap();
    let (store_handle, kept) = open();
    assert_eq!(kept.core.claims, claimed().claims);
    assert!(!kept.core.reregister);
    store_handle.close();
    // Without the database, only the essential state comes back.
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    let (store_handle, kept) = open();
    assert_eq!(kept.core.claims, claimed().claims);
    assert!(kept.core.reregister);
    store_handle.close();
}

/// Store on a disk that is full for a while.
struct Flaky {
    inner: MemoryStore,
    full: Arc<AtomicBool>,
    kept: Arc<Mutex<Persisted>>,
}

impl Store for Flaky {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        self.inner.load()
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError::Io {
                operation: FileOperation::Write,
                path: "export.jsonl".into(),
                source: std::io::ErrorKind::StorageFull.into(),
            });
        }
        self.inner.commit(changes)?;
        self.kept.lock().apply(changes);
        Ok(())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// State of a store's thread that commits to `store`, without a shared store and a journal.
pub(super) fn store_thread(
    store: Box<dyn Store>,
    clock: Clock,
    findings: DaemonFindings,
) -> StoreThread {
    StoreThread {
        committer: Committer::start(store).unwrap(),
        known: None,
        persisted: Persisted::default(),
        uncommitted: ChangeSet::new(),
        unshared: ChangeSet::new(),
        retry: None,
        hangs: false,
        journal: None,
        shared: None,
        gpus: GpuRows::default(),
        damage: Default::default(),
        clock,
        findings,
    }
}

/// Waits for the end of the commit under way.
pub(super) fn settle(store_thread: &mut StoreThread) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(store_thread.settle());
}

/// Waits until `holds` returns true.
pub(super) fn until(holds: impl Fn() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to that");
}

#[test]
fn failed_commit_is_a_finding_until_repeated() {
    let (full, kept) = (Arc::new(AtomicBool::new(true)), Arc::default());
    let findings = DaemonFindings::new();
    let flaky = Flaky {
        inner: MemoryStore::default(),
        full: full.clone(),
        kept: Arc::clone(&kept),
    };
    let store_thread = store_thread(Box::new(flaky), Clock::start(), findings.clone());
    let (wakeup, rung) = watch::channel(());
    let mailbox = Mailbox {
        latest: Arc::default(),
        wakeup,
    };
    let latest = mailbox.latest.clone();
    let thread = std::thread::spawn(move || store_thread.run(&latest, rung));
    mailbox.put(|latest| latest.core_state = Some(Box::new(claimed())));
    until(|| !findings.all().is_empty());
    assert!(findings.all()[0].text.contains("export.jsonl"));
    // The thread repeats the commit although no new state arrives.
    full.store(false, Ordering::Relaxed);
    until(|| findings.all().is_empty());
    assert!(kept.lock().claims.contains_key(&Guid(1)));
    drop(mailbox);
    thread.join().unwrap();
}

/// Store on a disk that hangs until the sender of `works_again` is dropped.
struct Hanging {
    inner: MemoryStore,
    works_again: std::sync::mpsc::Receiver<()>,
}

impl Store for Hanging {
    fn load(&mut self) -> Result<(Persisted, LoadReport), StoreError> {
        self.inner.load()
    }

    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        // An error means that the sender was dropped.
        let _ = self.works_again.recv();
        self.inner.commit(changes)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn disk_that_hangs_delays_no_claim_and_no_change_of_the_shared_store() {
    let (hang, works_again) = std::sync::mpsc::channel();
    let (clock, findings) = (Clock::start(), DaemonFindings::new());
    let (wakeup, rung) = watch::channel(());
    let mailbox = Mailbox {
        latest: Arc::default(),
        wakeup,
    };
    let contents: Arc<Mutex<Contents>> = Arc::default();
    let (core, events) = tokio::sync::mpsc::channel(64);
    let back_end = BackEnd {
        store: Box::new(Access::new(
            contents.clone(),
            Arc::new(AtomicBool::new(true)),
        )),
        state: None,
        endpoints: String::new(),
        core,
    };
    let opened = shared::start(back_end, &mailbox, clock, findings.clone()).unwrap();
    let hanging = Hanging {
        inner: MemoryStore::default(),
        works_again,
    };
    let store_thread = StoreThread {
        shared: Some(opened.shared),
        ..store_thread(Box::new(hanging), clock, findings.clone())
    };
    let latest = mailbox.latest.clone();
    let thread = std::thread::spawn(move || store_thread.run(&latest, rung));

    mailbox.put(|latest| latest.core_state = Some(Box::new(claimed())));
    until(|| mailbox.latest.lock().core_state.is_none());
    let claim = EpochRequest::Claim {
        own: Guid(0xa),
        over: None,
        insists: true,
        is_master: false,
    };
    mailbox.put(|latest| requests::queue(&mut latest.requests, StoreRequest::Claim(claim)));
    let events = Mutex::new(events);
    until(|| {
        let event = events.lock().try_recv();
        matches!(event, Ok(Event::Epoch(EpochEvent::Granted { .. })))
    });
    let mut later = claimed();
    let claim = Claim {
        base: Lid(9),
        lmc: Lmc::from_bits(0),
    };
    Arc::make_mut(&mut later.claims).insert(Guid(2), claim);
    mailbox.put(|latest| latest.core_state = Some(Box::new(later)));
    until(|| contents.lock().state.claims.len() == 2);
    until(|| findings.all().iter().any(|f| f.text.contains("hangs")));
    drop(hang);
    until(|| findings.all().is_empty());
    mailbox.put(|latest| latest.is_closing = true);
    thread.join().unwrap();
}

#[test]
fn durable_entries_are_on_disk_until_the_store_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let read = || Journal::open(dir.path(), Disk::new()).unwrap();
    let (journal, _) = read();
    let findings = DaemonFindings::new();
    let started = Acknowledged::start(journal, 40, Clock::start(), findings.clone());
    let (journal, thread) = started.unwrap();
    let rung = Arc::new(AtomicBool::new(false));
    journal.on_durable({
        let rung = rung.clone();
        Box::new(move || rung.store(true, Ordering::Relaxed))
    });
    let sa = rsm_sa::Sa::new(rsm_sa::SaConfig {
        sm_key: 0,
        ..rsm_sa::SaConfig::default()
    });
    let touched = rsm_sa::Touched::AliasGuids(Guid(9));
    assert_eq!(journal.append(&[touched], &sa), Some(41));
    assert_eq!(journal.append(&[touched, touched], &sa), Some(42));
    until(|| journal.durable() == 42 && rung.load(Ordering::Relaxed));
    let (_, entries) = read();
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
    assert_eq!(numbers, [41, 42]);
    assert_eq!(entries[1].rows.len(), 2);
    journal.cover(42);
    until(|| read().1.is_empty());
    journal.close();
    thread.join().unwrap();
    assert_eq!(journal.append(&[touched], &sa), None);
    assert_eq!(findings.all(), []);
}

//! Stores the state of the core and the SA.
//!
//! ```text
//! core, SA ── states, claims ─▶ store's thread ─ batches ─▶ committer ─▶ disk
//!                                      └─ changes, claims ─▶ shared store
//! ```
//!
//! Separate threads do this, so that no convergence waits for a disk, and no claim of the shared
//! store either. If several states wait, only the last one is committed, because each state is
//! complete.

mod acknowledged;
mod cabling;
mod capabilities;
mod committer;
mod damage;
mod drains;
#[cfg(test)]
mod fault_seeds;
#[cfg(test)]
mod fault_tests;
mod footprints;
mod gpu_files;
mod gpus;
mod group_ids;
mod groups;
mod guids;
mod import;
mod m_keys;
mod overlay;
mod positions;
mod pushing;
mod requests;
mod services;
mod shared;
mod shared_history;
mod subscriptions;
mod table;
#[cfg(test)]
mod takeover_seeds;
#[cfg(test)]
mod tests;
mod unhealthy;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use rsm_api::with_causes;
use rsm_core::SavedCoreState;
use rsm_hardware::diff::NotKept;
use rsm_model::LidClaim;
use rsm_model::footprint::Footprints;
use rsm_model::habits::{DeviceHabits, DeviceKind, PortRole};
use rsm_model::port_info::FieldMask;
use rsm_plan::lids::{Claim, Claims};
use rsm_store::io::Disk;
use rsm_store::journal::Journal;
use rsm_store::{
    ChangeSet, FolderStore, MemoryStore, Persisted, Store, StoreError, StoreFabric, number_commit,
};
use rsm_view::publish::UnixClock;
use tokio::sync::watch;

use self::acknowledged::Acknowledged;
use self::committer::{Committer, Ended};
use self::damage::Damage;
pub(super) use self::gpus::GpuRows;
pub(super) use self::gpus::{StoredGpus, TEXT_MAX, set_machine_type, stored_bytes};
pub use self::import::{ImportError, Imported, import, unix_seconds};
use self::requests::StoreRequest;
use self::shared::{Handles, Shared};
pub(super) use self::shared::{HistorySink, SharedSetup, SharedView};
use self::shared_history::Outgoing;
pub(super) use self::shared_history::is_shared;
use super::clock::Clock;
use super::findings::{DaemonFindings, DaemonPart};
use super::gpu_hosts::SavedGpus;
use super::sa::AckJournal;

/// Table of fields that kinds of devices do not keep.
const NOT_KEPT: &str = "not-kept";
/// Table of device kinds with deviations from the specification.
const HABITS: &str = "device-habits";

/// First and longest pause before a failed commit is repeated.
const COMMIT_RETRY_PAUSES: (Duration, Duration) =
    (Duration::from_millis(250), Duration::from_secs(10));

/// Latest states of the core and the SA that the store's thread has not taken yet.
#[derive(Default)]
struct PendingStates {
    /// State of the core; `None` if it has not changed.
    core_state: Option<Box<SavedCoreState>>,
    /// Changed parts of the SA's state.
    sa: rsm_sa::Unsaved,
    /// Number of the newest journal entry when the SA passed `sa`.
    journaled: Option<u64>,
    /// GPU inventories; `None` if they have not changed.
    gpus: Option<SavedGpus>,
    /// Events for managers that share the store.
    history: Outgoing,
    /// Whether the SA has replaced its registrations; `sa` is then later than the replacement.
    is_restored: bool,
    /// Requests to the shared store, and answers to them; see [`requests::queue`].
    requests: Vec<StoreRequest>,
    /// Whether the daemon is ending.
    is_closing: bool,
}

/// Journal and its thread.
type RunningJournal = (Arc<Acknowledged>, std::thread::JoinHandle<()>);

/// Mailbox of the store's thread; a new state wakes the thread.
#[derive(Clone)]
struct Mailbox {
    latest: Arc<Mutex<PendingStates>>,
    /// Wakes the thread.
    wakeup: watch::Sender<()>,
}

/// Stores the states of the core and the SA.
pub(super) struct StoreHandle {
    mailbox: Mailbox,
    thread: std::thread::JoinHandle<()>,
    /// Journal; `None` if nothing is kept on disk, or the journal cannot be read.
    journal: Option<RunningJournal>,
    /// Shared store; `None` if no store is shared.
    shared: Option<Handles>,
}

/// State that an earlier run stored.
pub(super) struct Kept {
    /// State of the core.
    pub(super) core: SavedCoreState,
    /// State of the SA.
    pub(super) sa: rsm_sa::SavedSaState,
    /// GPU inventories.
    pub(super) gpus: StoredGpus,
}

/// Opens the store of `fabric` in `dir`; `None` keeps nothing on disk. Also opens the shared store,
/// if several managers share one. Returns the stored state.
pub(super) fn open(
    dir: Option<&Path>,
    fabric: StoreFabric,
    shared: Option<SharedSetup>,
    clock: Clock,
    findings: DaemonFindings,
) -> anyhow::Result<(StoreHandle, Kept, Option<SharedView>)> {
    let (mut store, is_unopened) = open_folder(dir, fabric, &findings)?;
    let (mut persisted, report) = store.load().context("cannot read what was remembered")?;
    let mut uncommitted = ChangeSet::new();
    if is_unopened {
        // The commit must contain a change even if the state has not changed, because a commit
        // opens the database.
        uncommitted.set_plan_generation(persisted.plan_generation);
    }
    let (journal, damaged_bytes) = match dir {
        Some(dir) => open_journal(dir, (&mut persisted, &mut uncommitted), clock, &findings)?,
        None => (None, 0),
    };
    match report.is_alarming() {
        true => tracing::warn!(report = %report, "the store was damaged"),
        false => tracing::info!(report = %report, "store opened"),
    }
    let damage = Damage::of(dir, &report, damaged_bytes, &persisted, &findings);
    let (wakeup, woken) = watch::channel(());
    let latest = Arc::new(Mutex::new(PendingStates::default()));
    let mailbox = Mailbox {
        latest: latest.clone(),
        wakeup,
    };
    let (shared, view) = match shared {
        Some(setup) => {
            let opened = shared::open(setup, &mailbox, clock, findings.clone())?;
            shared::adopt_stored(&mut persisted, opened.state, &mut uncommitted);
            (Some(opened.shared), Some(opened.view))
        }
        None => (None, None),
    };
    let mut core = restored(&persisted, &clock);
    // If the store is new or lost records, hosts may be registered with an SA that has ended.
    core.reregister = persisted.claims.is_empty()
        || report.may_lack_records()
        || damaged_bytes > 0
        || import::is_fresh(&persisted)
        || (dir.is_some() && journal.is_none());
    let (gpus, stored) = GpuRows::open(dir, &mut persisted, &mut uncommitted);
    core.gpus = Arc::new(stored.inventory.clone());
    let kept = Kept {
        core,
        sa: sa_state(&persisted, &clock),
        gpus: stored,
    };
    let handles = shared.as_ref().map(Shared::handles);
    let store_thread = StoreThread {
        committer: Committer::start(store)?,
        persisted,
        known: None,
        uncommitted,
        unshared: ChangeSet::new(),
        retry: None,
        hangs: false,
        journal: journal.as_ref().map(|(journal, _)| journal.clone()),
        shared,
        gpus,
        damage,
        clock,
        findings,
    };
    let thread = std::thread::Builder::new()
        .name("store".to_owned())
        .spawn(move || store_thread.run(&latest, woken))
        .context("cannot start the thread of the store")?;
    let store_handle = StoreHandle {
        mailbox,
        thread,
        journal,
        shared: handles,
    };
    Ok((store_handle, kept, view))
}

/// Opens the store in `dir`. Also returns whether the database could not be opened: a finding then
/// reports this, and the next commit opens the database.
fn open_folder(
    dir: Option<&Path>,
    fabric: StoreFabric,
    findings: &DaemonFindings,
) -> anyhow::Result<(Box<dyn Store>, bool)> {
    let Some(dir) = dir else {
        return Ok((Box::new(MemoryStore::default()), false));
    };
    let store = FolderStore::open(dir, fabric)
        .with_context(|| format!("cannot use the state directory {}", dir.display()))?;
    let unopened = store.unopened();
    if let Some(reason) = unopened {
        findings.fail(DaemonPart::Store, unwritten(reason));
    }
    let is_unopened = unopened.is_some();
    Ok((Box::new(store), is_unopened))
}

/// Starts the journal in `dir`, and applies its entries to `persisted` and to `uncommitted`, the
/// changes that the store lacks. Returns the journal and the number of its damaged bytes. `None` if
/// the journal cannot be read: a finding then reports this, and acknowledgements do not wait for
/// the disk.
fn open_journal(
    dir: &Path,
    (persisted, uncommitted): (&mut Persisted, &mut ChangeSet),
    clock: Clock,
    findings: &DaemonFindings,
) -> anyhow::Result<(Option<RunningJournal>, u64)> {
    let (journal, entries) = match Journal::open(dir, Disk::new()) {
        Ok(opened) => opened,
        Err(error) => {
            findings.fail(DaemonPart::Journal, acknowledged::unread(&error));
            return Ok((None, 0));
        }
    };
    let last = entries.last().map_or(0, |entry| entry.number);
    let replayed = acknowledged::replay(persisted, entries);
    persisted.apply(&replayed);
    uncommitted.merge(replayed);
    let last = last.max(acknowledged::covered(persisted));
    let damaged = journal.damaged();
    let running = Acknowledged::start(journal, last, clock, findings.clone())?;
    Ok((Some(running), damaged))
}

/// Part of `persisted` that the SA needs.
fn sa_state(persisted: &Persisted, clock: &Clock) -> rsm_sa::SavedSaState {
    rsm_sa::SavedSaState {
        groups: groups::restored(persisted),
        services: services::restored(persisted, clock, clock.now()),
        guids: guids::restored(persisted),
        subscriptions: subscriptions::restored(persisted),
    }
}

impl Mailbox {
    /// Changes the pending states, and wakes the thread.
    fn put(&self, change: impl FnOnce(&mut PendingStates)) {
        change(&mut self.latest.lock());
        self.wakeup.send_replace(());
    }
}

impl StoreHandle {
    /// Stores `core_state`. Does not wait.
    pub(super) fn keep(&self, core_state: Box<SavedCoreState>) {
        self.mailbox
            .put(|latest| latest.core_state = Some(core_state));
    }

    /// Sink for the SA's states. Does not wait. The store stays open while the sink lives.
    pub(super) fn sa_sink(&self) -> Box<dyn Fn(rsm_sa::Unsaved) + Send> {
        let mailbox = self.mailbox.clone();
        let journal = self.journal.as_ref().map(|(journal, _)| journal.clone());
        Box::new(move |unsaved| {
            // The thread that appends entries makes this call, so `unsaved` includes all its
            // entries.
            let journaled = journal.as_ref().map(|journal| journal.last());
            mailbox.put(|latest| {
                latest.sa.update(unsaved);
                latest.journaled = journaled.or(latest.journaled);
            });
        })
    }

    /// Journal for which acknowledgements wait; `None` if nothing is kept on disk.
    pub(super) fn journal(&self) -> Option<Arc<dyn AckJournal>> {
        let (journal, _) = self.journal.as_ref()?;
        Some(journal.clone())
    }

    /// Sink for GPU inventories. Does not wait.
    pub(super) fn gpu_sink(&self) -> crate::daemon::gpu_hosts::StoreSink {
        let mailbox = self.mailbox.clone();
        Box::new(move |saved| {
            mailbox.put(|latest| {
                let before = latest.gpus.take().and_then(|before| before.seen);
                let seen = saved.seen.or(before);
                latest.gpus = Some(SavedGpus { seen, ..saved });
            });
        })
    }

    /// Waits until the disk holds the whole state, and closes the store.
    pub(super) fn close(self) {
        self.mailbox.put(|latest| latest.is_closing = true);
        drop(self.mailbox);
        if self.thread.join().is_err() {
            tracing::error!("the thread of the store panicked");
        }
        if let Some((journal, thread)) = self.journal {
            journal.close();
            if thread.join().is_err() {
                tracing::error!("the thread of the journal panicked");
            }
        }
    }
}

/// State of the store's thread.
struct StoreThread {
    committer: Committer,
    /// State of the disk after the next successful commit.
    persisted: Persisted,
    /// Last state of the core that `persisted` includes.
    known: Option<Box<SavedCoreState>>,
    /// Changes that no batch on its way to the disk includes; those of failed batches return.
    uncommitted: ChangeSet,
    /// Changes that the shared store has not received; always empty without one.
    unshared: ChangeSet,
    /// Pause before a failed commit is repeated; `None` if the last commit succeeded.
    retry: Option<Duration>,
    /// Whether the commit under way is reported as one of a disk that hangs.
    hangs: bool,
    journal: Option<Arc<Acknowledged>>,
    shared: Option<Shared>,
    gpus: GpuRows,
    damage: Damage,
    clock: Clock,
    findings: DaemonFindings,
}

/// Reason why the store's thread wakes.
enum Wakeup {
    /// New states or requests wait in the mailbox.
    Mail,
    /// The mailbox is closed, with its last state in it.
    Closed,
    /// A commit has ended, which included the journal up to this entry.
    Ended(Ended, u64),
    /// A failed commit is to be repeated, or a commit under way takes too long.
    Due,
}

impl StoreThread {
    /// Stores states until the daemon ends.
    fn run(mut self, mailbox: &Mutex<PendingStates>, mut woken: watch::Receiver<()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let Ok(runtime) = runtime else {
            tracing::error!("the thread of the store cannot wait; nothing is remembered");
            return;
        };
        self.commit();
        loop {
            let wakeup = runtime.block_on(self.wait(&mut woken));
            let is_closed = matches!(wakeup, Wakeup::Closed);
            // A commit that has just failed is repeated after its pause, or with new states.
            let mut may_commit = true;
            match wakeup {
                Wakeup::Ended(ended, covered) => may_commit = self.end_commit(ended, covered),
                Wakeup::Due => self.report_hanging(),
                Wakeup::Mail | Wakeup::Closed => {}
            }
            // The thread must not hold a view of the SA's data while it waits: the SA would have to
            // copy the data before it changes a registration.
            let latest = std::mem::take(&mut *mailbox.lock());
            let is_last = is_closed || latest.is_closing;
            self.accept(latest);
            if is_last {
                break;
            }
            match may_commit {
                true => self.commit(),
                false => self.share(),
            }
        }
        self.finish(&runtime);
    }

    /// Waits for mail, for the end of a commit, or until the thread has something to do.
    async fn wait(&mut self, woken: &mut watch::Receiver<()>) -> Wakeup {
        let due = match self.committer.until_hanging() {
            Some(until) => (!self.hangs).then_some(until),
            None => self.retry,
        };
        let due = async {
            match due {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = self.committer.ended() => match ended {
                Some((ended, covered)) => Wakeup::Ended(ended, covered),
                None => Wakeup::Closed,
            },
            // An error means that the sender was dropped.
            woken = woken.changed() => match woken {
                Ok(()) => Wakeup::Mail,
                Err(_) => Wakeup::Closed,
            },
            () = due => Wakeup::Due,
        }
    }

    /// Makes a last attempt to bring the whole state to the disk, and closes the stores.
    fn finish(mut self, runtime: &tokio::runtime::Runtime) {
        self.share();
        if let Some(shared) = &self.shared {
            // A disk that hangs must not keep the epoch from the next manager.
            shared.close();
        }
        runtime.block_on(self.settle());
        self.commit();
        runtime.block_on(self.settle());
        self.committer.close();
    }

    /// Waits for the end of the commit under way, if there is one.
    async fn settle(&mut self) {
        if self.committer.is_busy()
            && let Some((ended, covered)) = self.committer.ended().await
        {
            self.end_commit(ended, covered);
        }
    }

    /// Takes over pending states, and carries out pending requests to the shared store.
    fn accept(&mut self, mut latest: PendingStates) {
        let requests = std::mem::take(&mut latest.requests);
        if let Some(shared) = &mut self.shared {
            shared.awaits_sa &= !latest.is_restored;
            if shared.awaits_sa {
                (latest.sa, latest.journaled) = (rsm_sa::Unsaved::default(), None);
            }
        }
        self.accept_states(latest);
        self.carry_out(requests);
    }

    /// Adds the changes that lead to the pending states to `persisted` and to `uncommitted`.
    fn accept_states(&mut self, mut latest: PendingStates) {
        let journaled = latest.journaled;
        let known = self.known.as_deref();
        let mut changes = changes_to(&self.persisted, known, &latest, &self.clock);
        if latest.core_state.is_some() {
            self.known = latest.core_state;
            import::mark_used(&self.persisted, &mut changes);
        }
        if let Some(saved) = latest.gpus {
            self.gpus.changes(&self.persisted, saved, &mut changes);
        }
        if let Some(shared) = &self.shared {
            shared.add_history(&self.persisted, &latest.history.take(), &mut changes);
        }
        if let Some(journaled) = journaled
            && journaled > acknowledged::covered(&self.persisted)
        {
            acknowledged::cover(journaled, &mut changes);
        }
        self.add(changes);
    }

    /// Adds changes to the state, and to the changes that the stores lack.
    fn add(&mut self, changes: ChangeSet) {
        self.persisted.apply(&changes);
        if self.shared.is_some() {
            self.unshared.merge(changes.clone());
        }
        self.uncommitted.merge(changes);
    }

    /// Passes the changes that the shared store lacks to it, and begins the commit of those that
    /// the disk lacks, unless one is under way.
    fn commit(&mut self) {
        self.share();
        if self.committer.is_busy() {
            return;
        }
        let covered = acknowledged::covered(&self.persisted);
        if !self.uncommitted.is_empty() {
            self.committer
                .begin(std::mem::take(&mut self.uncommitted), covered);
        } else if let Some(journal) = &self.journal {
            journal.cover(covered);
        }
    }

    /// Passes the changes that the shared store lacks to it. The shared store does not wait for the
    /// disk of this machine, which may be full or hang.
    fn share(&mut self) {
        let Some(shared) = self.shared.as_ref().filter(|_| !self.unshared.is_empty()) else {
            return;
        };
        let mut changes = std::mem::take(&mut self.unshared);
        if !shared::is_without_epoch(&self.persisted) {
            let mut number = ChangeSet::new();
            number_commit(&mut self.persisted, &mut number);
            self.uncommitted.merge(number.clone());
            changes.merge(number);
        }
        shared.put(changes);
    }

    /// Handles the end of a commit, which included the journal up to entry `covered`. Returns
    /// whether the commit succeeded; otherwise, its changes wait for the next one.
    fn end_commit(&mut self, ended: Ended, covered: u64) -> bool {
        self.hangs = false;
        if let Err(error) = ended.result {
            self.findings.fail(DaemonPart::Store, unwritten(&error));
            let later = std::mem::replace(&mut self.uncommitted, ended.changes);
            self.uncommitted.merge(later);
            let (first, longest) = COMMIT_RETRY_PAUSES;
            let pause = self.retry.map_or(first, |pause| pause * 2);
            self.retry = Some(pause.min(longest));
            return false;
        }
        self.retry = None;
        self.findings.clear(DaemonPart::Store);
        self.damage.check_acknowledgement(&self.findings);
        self.gpus.record_stored();
        if let Some(journal) = &self.journal {
            journal.cover(covered);
        }
        true
    }

    /// Reports a disk that hangs, if the commit under way takes too long.
    fn report_hanging(&mut self) {
        if self.committer.until_hanging() == Some(Duration::ZERO) {
            self.hangs = true;
            self.findings.fail(DaemonPart::Store, hanging());
        }
    }
}

/// Text of the finding about a failed commit.
fn unwritten(error: &StoreError) -> String {
    format!(
        "the store cannot be written ({}): LIDs and registrations since then are forgotten by a restart, traffic goes \
         on; make room in the state folder, or mount it writable",
        with_causes(error)
    )
}

/// Text of the finding about a commit that does not end.
fn hanging() -> String {
    format!(
        "the disk of the store hangs: a commit has not ended for {} seconds. LIDs and registrations since then are forgotten by \
         a restart, traffic and takeovers go on; look at the disk of the state folder, or at the server of its file system",
        committer::HANGS_AFTER.as_secs()
    )
}

/// LIDs of ports in the store, by port GUID.
fn claims(persisted: &Persisted) -> Claims {
    let claims = persisted.claims.iter().map(|(&guid, claim)| {
        let claim = Claim {
            base: claim.lid,
            lmc: claim.lmc,
        };
        (guid, claim)
    });
    claims.collect()
}

/// State of the core in the store, without GPU inventories and alias GUIDs.
fn restored(persisted: &Persisted, clock: &impl UnixClock) -> SavedCoreState {
    let mut not_kept = NotKept::default();
    for (kind, bits) in by_kind(persisted, NOT_KEPT) {
        not_kept.learn(kind, FieldMask(bits));
    }
    let mut habits = DeviceHabits::default();
    for (kind, bits) in by_kind(persisted, HABITS) {
        habits.restore(kind, bits);
    }
    SavedCoreState {
        claims: Arc::new(claims(persisted)),
        positions: Arc::new(positions::restored(persisted)),
        gpus: Arc::default(),
        alias_guids: Arc::default(),
        cabling: cabling::restored(persisted),
        avoid: Arc::new(drains::restored(persisted)),
        health: Arc::new(unhealthy::restored(persisted, clock)),
        overlay: Arc::new(overlay::restored(persisted)),
        not_kept,
        habits,
        capabilities: Arc::new(capabilities::restored(persisted)),
        group_ids: group_ids::restored(persisted),
        // Stored footprints come from an earlier master; the first footprint of this run covers the
        // whole subnet.
        footprints: Footprints::default(),
        generations: m_keys::restored(persisted),
        local: m_keys::restored_port(persisted),
        generation: persisted.plan_generation,
        is_pushing: pushing::restored(persisted),
        reregister: false,
    }
}

/// Changes that lead from `persisted` to the states in `latest`.
fn changes_to(
    persisted: &Persisted,
    known: Option<&SavedCoreState>,
    latest: &PendingStates,
    clock: &Clock,
) -> ChangeSet {
    let PendingStates {
        core_state,
        sa,
        journaled: _,
        gpus: _,
        history: _,
        is_restored: _,
        requests: _,
        is_closing: _,
    } = latest;
    let mut changes = match core_state {
        Some(core_state) => changes(persisted, known, core_state, clock),
        None => ChangeSet::new(),
    };
    if let Some(groups) = &sa.groups {
        groups::changes(persisted, groups, &mut changes);
    }
    if let Some(services) = &sa.services {
        services::changes(persisted, services, clock, &mut changes);
    }
    if let Some(aliases) = &sa.guids {
        guids::changes(persisted, aliases, &mut changes);
    }
    if let Some(subscriptions) = &sa.subscriptions {
        subscriptions::changes(persisted, subscriptions, &mut changes);
    }
    changes
}

/// Changes that lead from `persisted`, which includes the state `known`, to `core_state`.
fn changes(
    persisted: &Persisted,
    known: Option<&SavedCoreState>,
    core_state: &SavedCoreState,
    clock: &impl UnixClock,
) -> ChangeSet {
    let mut changes = ChangeSet::new();
    let are_known = known.is_some_and(|known| Arc::ptr_eq(&known.claims, &core_state.claims));
    let claims = core_state.claims.iter().filter(|_| !are_known);
    for (&guid, claim) in claims {
        let is_same = persisted
            .claims
            .get(&guid)
            .is_some_and(|known| known.lid == claim.base && known.lmc == claim.lmc);
        if !is_same {
            let claim = LidClaim {
                lid: claim.base,
                lmc: claim.lmc,
                last_seen: core_state.generation,
            };
            if let Err(error) = changes.set_claim(guid, claim) {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "cannot store a LID claim"
                );
            }
        }
    }
    drains::changes(persisted, &core_state.avoid, &mut changes);
    unhealthy::changes(persisted, &core_state.health, clock, &mut changes);
    let is_known = known.is_some_and(|known| Arc::ptr_eq(&known.overlay, &core_state.overlay));
    if !is_known {
        overlay::changes(persisted, &core_state.overlay, &mut changes);
    }
    positions::changes(persisted, &core_state.positions, &mut changes);
    let cabling = known.map(|known| &known.cabling);
    cabling::changes(persisted, cabling, &core_state.cabling, clock, &mut changes);
    let not_kept = core_state.not_kept.iter();
    let not_kept = not_kept.map(|(kind, fields)| (kind, fields.0));
    keep_by_kind(persisted, NOT_KEPT, not_kept, &mut changes);
    keep_by_kind(persisted, HABITS, core_state.habits.bits(), &mut changes);
    capabilities::changes(persisted, &core_state.capabilities, &mut changes);
    group_ids::changes(persisted, &core_state.group_ids, &mut changes);
    let SavedCoreState {
        generations, local, ..
    } = *core_state;
    m_keys::changes(persisted, generations, local, &mut changes);
    pushing::changes(persisted, core_state.is_pushing, &mut changes);
    let footprints = known.map(|known| &known.footprints);
    footprints::changes(persisted, footprints, &core_state.footprints, &mut changes);
    if !changes.is_empty() {
        changes.set_plan_generation(core_state.generation);
    }
    changes
}

/// Entries of a table that is keyed by device kind.
fn by_kind(persisted: &Persisted, name: &'static str) -> Vec<(DeviceKind, u32)> {
    table::read(persisted, name, |key, value| {
        Some((decode_kind(key)?, decode_bits(value)?))
    })
}

/// Adds the changes after which the table holds exactly these bits by device kind. Rows of other
/// kinds are removed, because a deviation that the core has forgotten must not return with a
/// restart.
fn keep_by_kind(
    persisted: &Persisted,
    name: &'static str,
    kinds: impl Iterator<Item = (DeviceKind, u32)>,
    changes: &mut ChangeSet,
) {
    let row =
        |(kind, bits): (DeviceKind, u32)| (encode_kind(kind).to_vec(), bits.to_be_bytes().to_vec());
    let rows: table::Rows = kinds.map(row).collect();
    table::replace(persisted, name, &rows, changes);
}

/// Encodes vendor, device, revision and role, big-endian, in 11 bytes.
fn encode_kind(kind: DeviceKind) -> [u8; 11] {
    let mut key = [0; 11];
    key[..4].copy_from_slice(&kind.vendor.to_be_bytes());
    key[4..6].copy_from_slice(&kind.device.to_be_bytes());
    key[6..10].copy_from_slice(&kind.revision.to_be_bytes());
    key[10] = match kind.role {
        PortRole::End => 0,
        PortRole::Management => 1,
        PortRole::External => 2,
    };
    key
}

/// Decodes a key that [`encode_kind`] returned; `None` if the key is invalid.
fn decode_kind(key: &[u8]) -> Option<DeviceKind> {
    let key: &[u8; 11] = key.try_into().ok()?;
    let role = match key[10] {
        0 => PortRole::End,
        1 => PortRole::Management,
        2 => PortRole::External,
        _ => return None,
    };
    Some(DeviceKind {
        vendor: u32::from_be_bytes(key[..4].try_into().ok()?),
        device: u16::from_be_bytes(key[4..6].try_into().ok()?),
        revision: u32::from_be_bytes(key[6..10].try_into().ok()?),
        role,
    })
}

/// Decodes the bits of a kind; `None` if the value is invalid.
fn decode_bits(value: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(value.try_into().ok()?))
}

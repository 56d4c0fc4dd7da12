//! Connects the store of this machine with the store that several managers share.
//!
//! ```text
//! core ── claim, release ─▶ store's thread ─▶ replica ─▶ etcd
//! core ◀─ refused, deposed, held ──────────────┘ │
//! core ◀─ granted ◀─ SA ◀─ registrations ◀─ store's thread ◀─ granted, with the state
//! ```
//!
//! A grant with another manager's state passes through the store's thread and the SA, so that the
//! core becomes master only when all three have this state.
//!
//! A standby manager also follows the rows that the holder of the epoch changes: claims, cables and
//! generations of M_Keys go to the core, GPU inventories to the GPU hosts, events into this
//! machine's history. The number of a plan arrives after the rows that belong to the plan. A
//! takeover reads the same rows once more.

use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use parking_lot::Mutex;
use rsm_api::v1;
use rsm_core::{EpochEvent, EpochRequest, Event, SavedCoreState};
use rsm_ids::Guid;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_store::etcd::{EtcdOptions, EtcdStore};
use rsm_store::replica::{Claim, Health, ReplicaEvent, ReplicaHandle};
use rsm_store::{
    ChangeSet, Epoch, LOCAL_TABLES, Persisted, SharedStore, Store as _, StoreError, last_commit,
};
use rsm_view::history::Recorder;
use rsm_view::publish::{SharedStoreSource, UnixClock};
use tokio::sync::mpsc;

use super::requests::{StoreRequest, queue};
use super::shared_history::{self, SharedHistory};
use super::{
    Mailbox, StoreThread, acknowledged, cabling, footprints, guids, m_keys, pushing, restored,
    sa_state,
};
use crate::daemon::clock::Clock;
use crate::daemon::findings::{DaemonFindings, DaemonPart};
use crate::daemon::gpu_hosts::GpuHosts;
use crate::daemon::sa::SaRestorer;

/// Table with the number of the last epoch that this machine held, and with [`WITHOUT`].
const TABLE: &str = "shared-epoch";

/// Key of the row with that number.
const HELD: &[u8] = b"held";

/// Key of the row that is 1 while this machine's manager is master without the epoch, or has ended
/// as such; otherwise 0 or absent.
const WITHOUT: &[u8] = b"without";

/// Inputs of the shared store.
pub(in crate::daemon) struct SharedSetup {
    /// Address of etcd, and the options of the connection.
    pub(in crate::daemon) options: EtcdOptions,
    /// Channel of events for the core.
    pub(in crate::daemon) core: mpsc::Sender<Event>,
}

/// The epoch of this manager that has ended, and the epoch in the store; `None` if the core knows.
type Deposition = Arc<Mutex<Option<(Epoch, Epoch)>>>;

/// Passes events to the managers that share the store.
pub(in crate::daemon) type HistorySink = Box<dyn Fn(Vec<Arc<v1::Event>>) + Send>;

/// Shared store, as this machine's store thread uses it.
pub(super) struct Shared {
    replica: ReplicaHandle,
    core: mpsc::Sender<Event>,
    restorer: Arc<OnceLock<SaRestorer>>,
    gpus: Arc<OnceLock<Arc<GpuHosts>>>,
    history: SharedHistory,
    mailbox: Mailbox,
    /// Number of claims so far, which is the number of the last claim.
    claims: u64,
    /// Last claim; `None` before the first claim and after a release.
    last_claim: Option<EpochRequest>,
    /// This manager's epoch that has ended, and the epoch in the store, until the shell takes them.
    deposed: Deposition,
    /// Whether the SA has yet to replace its registrations: until then, the state that the SA saves
    /// is out of date.
    pub(super) awaits_sa: bool,
}

/// Shared store, as the daemon uses it.
pub(super) struct Handles {
    /// Access to the SA, once it exists.
    restorer: Arc<OnceLock<SaRestorer>>,
    /// GPU hosts, once they exist.
    gpus: Arc<OnceLock<Arc<GpuHosts>>>,
    /// Recorder of the history, once it exists.
    recorder: Arc<OnceLock<Recorder>>,
    /// GUID of this manager, once it is known.
    own: Arc<OnceLock<Guid>>,
    replica: ReplicaHandle,
    deposed: Deposition,
}

/// Shared store, as the API shows it.
pub(in crate::daemon) struct SharedView {
    replica: ReplicaHandle,
    endpoints: String,
    last_report: Arc<Mutex<LastReport>>,
}

/// State that the replica last reported.
#[derive(Default)]
struct LastReport {
    /// Epoch of the shared store; `None` if no manager has held one.
    epoch: Option<Epoch>,
    /// Whether this manager holds `epoch`.
    is_held: bool,
    /// State of the shared store, with the Unix time of the report in milliseconds.
    health: Option<(Health, u64)>,
}

/// Stored state of the manager that last held the epoch, with this epoch.
type Stored = Option<(Epoch, Persisted)>;

/// Opened shared store.
pub(super) struct Opened {
    pub(super) shared: Shared,
    pub(super) view: SharedView,
    /// State of the shared store; `None` if the store does not answer, or no manager has held an
    /// epoch.
    pub(super) state: Stored,
}

/// Opens the shared store. Refuses a store with damaged data or another program's data; accepts a
/// store that does not answer or refuses this manager.
pub(super) fn open(
    setup: SharedSetup,
    mailbox: &Mailbox,
    clock: Clock,
    findings: DaemonFindings,
) -> anyhow::Result<Opened> {
    let SharedSetup { options, core } = setup;
    let endpoints = options.endpoints.join(", ");
    let context = || format!("cannot use the shared store at {endpoints}");
    // Reads on a separate thread, because the client must not block a thread of the daemon's
    // runtime.
    let opened = std::thread::scope(|scope| scope.spawn(|| connect(&options)).join());
    let opened = opened.map_err(|_| anyhow::anyhow!("the client of the shared store panicked"))?;
    let (store, state) = opened.with_context(context)?;
    let back_end = BackEnd {
        store: Box::new(store),
        state,
        endpoints,
        core,
    };
    start(back_end, mailbox, clock, findings)
}

/// Shared store that has answered, or that will be asked later.
pub(super) struct BackEnd {
    pub(super) store: Box<dyn SharedStore>,
    pub(super) state: Stored,
    /// Addresses of the store, for operators.
    pub(super) endpoints: String,
    /// Channel of events for the core.
    pub(super) core: mpsc::Sender<Event>,
}

/// Starts the thread of the shared store.
pub(super) fn start(
    back_end: BackEnd,
    mailbox: &Mailbox,
    clock: Clock,
    findings: DaemonFindings,
) -> anyhow::Result<Opened> {
    let BackEnd {
        store,
        state,
        endpoints,
        core,
    } = back_end;
    let last_report: Arc<Mutex<LastReport>> = Arc::default();
    let deposed = Deposition::default();
    let listener = replica_listener(ReplicaListener {
        core: core.clone(),
        mailbox: mailbox.clone(),
        clock,
        findings,
        last_report: last_report.clone(),
        deposed: Arc::clone(&deposed),
    });
    let replica = ReplicaHandle::start(store, listener)
        .context("cannot start the thread of the shared store")?;
    let shared = Shared {
        replica: replica.clone(),
        core,
        restorer: Arc::default(),
        gpus: Arc::default(),
        history: SharedHistory::default(),
        mailbox: mailbox.clone(),
        claims: 0,
        last_claim: None,
        deposed,
        awaits_sa: false,
    };
    let view = SharedView {
        replica,
        endpoints,
        last_report,
    };
    Ok(Opened {
        shared,
        view,
        state,
    })
}

/// Takes over cables and generations of M_Keys from the shared store, if another manager stored
/// them later than this machine did. A manager needs both before the first port that requires its
/// M_Key answers. Changes `persisted`, and adds the same changes to `uncommitted`.
pub(super) fn adopt_stored(persisted: &mut Persisted, stored: Stored, uncommitted: &mut ChangeSet) {
    let Some((epoch, rows)) = stored else { return };
    // A lower number is from an older copy of the shared store.
    let is_own = epoch.number <= persisted.number(TABLE, HELD);
    if is_own && last_commit(persisted) >= last_commit(&rows) {
        return;
    }
    let mut changes = ChangeSet::new();
    cabling::follow(persisted, &rows, &mut changes);
    m_keys::changes(persisted, m_keys::restored(&rows), None, &mut changes);
    persisted.apply(&changes);
    uncommitted.merge(changes);
}

/// Whether this machine's manager is, or was at its end, master without the epoch. Its commits then
/// have no number, because the shared store and an older copy of the folder may both have commits
/// with that number.
pub(super) fn is_without_epoch(persisted: &Persisted) -> bool {
    persisted.number(TABLE, WITHOUT) > 0
}

/// Opens the store at `options`, and reads its state. Refuses damaged data or another program's
/// data. A store that [`unless_silent`] tolerates is accepted without a state.
fn connect(options: &EtcdOptions) -> Result<(EtcdStore, Stored), StoreError> {
    let mut store = EtcdStore::new(options)?;
    let loaded = store
        .load()
        .and_then(|loaded| Ok((loaded, store.observe()?)));
    let stored = unless_silent(loaded)?.and_then(|((state, report), seen)| {
        tracing::info!(report = %report, "the shared store answers");
        seen.map(|seen| (seen.epoch, state))
    });
    Ok((store, stored))
}

/// The state of a store that was read at the start; `None` if the store does not answer, or refuses
/// this manager's user, password or certificate. The fabric does not wait for either, and the
/// replica reports the failure as a finding.
fn unless_silent<T>(loaded: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match loaded {
        Ok(loaded) => Ok(Some(loaded)),
        Err(error @ (StoreError::Unreachable { .. } | StoreError::Refused { .. })) => {
            tracing::warn!("{error}");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Receiver of the replica's events.
struct ReplicaListener {
    core: mpsc::Sender<Event>,
    mailbox: Mailbox,
    clock: Clock,
    findings: DaemonFindings,
    last_report: Arc<Mutex<LastReport>>,
    /// The shell checks it before every send.
    deposed: Deposition,
}

/// Passes the replica's events to the core, directly or through the store's thread.
fn replica_listener(listener: ReplicaListener) -> Box<dyn Fn(ReplicaEvent) + Send> {
    Box::new(move |event| {
        let epoch_event = match event {
            // The number of a plan must reach the core after the rows that belong to the plan, so
            // it takes the same path through the store's thread.
            ReplicaEvent::Granted { .. }
            | ReplicaEvent::Unreachable { number: 1.., .. }
            | ReplicaEvent::Overflowed
            | ReplicaEvent::Followed(_)
            | ReplicaEvent::Planned(_) => {
                if let ReplicaEvent::Granted { epoch, .. } = event {
                    listener.show_epoch(Some(epoch), true);
                }
                let request = StoreRequest::Reported(event);
                return listener
                    .mailbox
                    .put(|latest| queue(&mut latest.requests, request));
            }
            ReplicaEvent::Health(health) => {
                let is_silent = matches!(health, Health::Failing(_));
                listener.health(health);
                EpochEvent::Silent(is_silent)
            }
            ReplicaEvent::Refused(by) => {
                listener.show_epoch(Some(by), false);
                EpochEvent::Refused(by)
            }
            ReplicaEvent::Deposed { ended, by } => {
                listener.show_epoch(Some(by), false);
                *listener.deposed.lock() = Some((ended, by));
                tracing::warn!(
                    "{ended} has ended, the shared store has {by}: this manager sets nothing from now on"
                );
                EpochEvent::Deposed { ended, by }
            }
            ReplicaEvent::Seen(epoch) => {
                listener.show_epoch(epoch, false);
                EpochEvent::Seen(epoch)
            }
            ReplicaEvent::Configurations(all) => EpochEvent::Configurations(all),
            // The store does not answer a check.
            ReplicaEvent::Unreachable { number: 0, .. } => EpochEvent::Unreachable(None),
            ReplicaEvent::Held => EpochEvent::Held,
        };
        // The replica's thread may wait, because the core never waits for it. A closed channel
        // means that the daemon is ending.
        drop(listener.core.blocking_send(Event::Epoch(epoch_event)));
    })
}

impl ReplicaListener {
    /// Updates the epoch that the API shows.
    fn show_epoch(&self, epoch: Option<Epoch>, is_held: bool) {
        let mut last_report = self.last_report.lock();
        (last_report.epoch, last_report.is_held) = (epoch, is_held);
    }

    /// Updates the state that the API shows, and reports a finding unless the store is well.
    fn health(&self, health: Health) {
        let at = self.clock.unix_ms(self.clock.now());
        let text = match &health {
            Health::Good => None,
            Health::Behind => Some(
                "the shared store takes longer than five seconds for a change: after the loss of this machine the manager that \
                 takes over lacks the latest registrations; traffic goes on; look at the disks of etcd (fsync) and its load"
                    .to_owned(),
            ),
            Health::Failing(reason) => Some(format!(
                "{reason}, since {}; traffic goes on, changes wait on this machine and follow when the shared store answers: a manager \
                 that takes over before lacks them; look at etcd and the network to it",
                rsm_api::timestamp(at)
            )),
        };
        self.last_report.lock().health = Some((health, at));
        let finding = text.map(|text| {
            let kind = FindingKind::StoreUnreachable;
            Finding::new(kind, Subject::Subnet, Severity::Warning, text)
        });
        self.findings
            .report(DaemonPart::SharedStore, finding.into_iter().collect());
    }
}

impl SharedStoreSource for SharedView {
    fn shared_store(&self) -> v1::SharedStore {
        let lag = self.replica.lag();
        let last_report = self.last_report.lock();
        let failing = match &last_report.health {
            None | Some((Health::Good, _)) => None,
            Some((Health::Behind, at)) => Some((*at, "it is behind".to_owned())),
            Some((Health::Failing(reason), at)) => Some((*at, reason.clone())),
        };
        v1::SharedStore {
            endpoints: self.endpoints.clone(),
            epoch: last_report.epoch.map_or(0, |epoch| epoch.number),
            holder: last_report
                .epoch
                .map_or_else(String::new, |epoch| epoch.holder.to_string()),
            held: last_report.is_held,
            waiting_rows: lag.rows as u64,
            lag_ms: u64::try_from(lag.oldest.as_millis()).unwrap_or(u64::MAX),
            failing_since_unix_ms: failing.as_ref().map(|(at, _)| *at),
            failure: failing.map_or_else(String::new, |(_, reason)| reason),
            master_plan: None,
            read_plan: None,
        }
    }
}

impl super::StoreHandle {
    /// Lets a grant of the epoch replace the registrations of the SA.
    pub(in crate::daemon) fn attach_sa(&self, restorer: SaRestorer) {
        if let Some(shared) = &self.shared {
            // The daemon has only one SA.
            let _ = shared.restorer.set(restorer);
        }
    }

    /// Lets the GPU hosts and the history of this machine follow those of the master.
    pub(in crate::daemon) fn attach(
        &self,
        gpus: Option<&Arc<GpuHosts>>,
        recorder: Option<&Recorder>,
    ) {
        // The daemon has only one set of GPU hosts and one history.
        if let (Some(shared), Some(gpus)) = (&self.shared, gpus) {
            let _ = shared.gpus.set(gpus.clone());
        }
        if let (Some(shared), Some(recorder)) = (&self.shared, recorder) {
            let _ = shared.recorder.set(recorder.clone());
        }
    }

    /// Sink for events to the managers that share the store; `None` if no store is shared. Does not
    /// wait.
    pub(in crate::daemon) fn history_sink(&self) -> Option<HistorySink> {
        let mailbox = self.mailbox.clone();
        self.shared.as_ref()?;
        Some(Box::new(move |events| {
            mailbox.put(|latest| latest.history.extend(events));
        }))
    }

    /// Publishes the checksums of this manager's settings to the managers that share the store.
    /// Does nothing before this manager's GUID is known.
    pub(in crate::daemon) fn announce(&self, own: Guid, checksums: &str) {
        if let Some(shared) = self.shared.as_ref().filter(|_| !own.is_zero()) {
            let _ = shared.own.set(own);
            shared.replica.announce(own, checksums.to_owned());
        }
    }

    /// The event that this manager's epoch has ended since the last call; `None` if it has not. The
    /// core must receive it before it sends anything.
    pub(in crate::daemon) fn take_deposed(&self) -> Option<EpochEvent> {
        let (ended, by) = self.shared.as_ref()?.deposed.lock().take()?;
        Some(EpochEvent::Deposed { ended, by })
    }

    /// Passes a request to the shared store. Does not wait.
    pub(in crate::daemon) fn ask(&self, request: EpochRequest) {
        let request = match request {
            EpochRequest::Claim { .. } => StoreRequest::Claim(request),
            EpochRequest::Release => StoreRequest::Release,
            EpochRequest::Check => {
                if let Some(shared) = &self.shared {
                    shared.replica.check();
                }
                return;
            }
        };
        self.mailbox
            .put(|latest| queue(&mut latest.requests, request));
    }
}

impl Shared {
    /// Handles of the shared store for the daemon.
    pub(super) fn handles(&self) -> Handles {
        Handles {
            restorer: self.restorer.clone(),
            gpus: self.gpus.clone(),
            recorder: self.history.recorder.clone(),
            own: self.history.own.clone(),
            replica: self.replica.clone(),
            deposed: self.deposed.clone(),
        }
    }

    /// Adds events to the rows of the history, which only the master writes.
    pub(super) fn add_history(
        &self,
        persisted: &Persisted,
        events: &[Arc<v1::Event>],
        changes: &mut ChangeSet,
    ) {
        if let Some(EpochRequest::Claim { own, .. }) = self.last_claim {
            shared_history::add(persisted, own, events, changes);
        }
    }

    /// Passes changes to the shared store, as far as it has the tables. Does not wait.
    pub(super) fn put(&self, changes: ChangeSet) {
        self.replica.put(changes.without(LOCAL_TABLES));
    }

    /// Writes the waiting changes, in one attempt, and releases the epoch.
    pub(super) fn close(&self) {
        self.replica.close();
    }

    /// Passes an event to the core. A closed channel means that the daemon is ending.
    fn send(&self, event: EpochEvent) {
        drop(self.core.blocking_send(Event::Epoch(event)));
    }

    /// Passes a claim of the epoch to the replica, with the state of this machine.
    fn claim(&mut self, request: EpochRequest, state: &Persisted) {
        let EpochRequest::Claim {
            own,
            over,
            insists,
            is_master,
        } = request
        else {
            return;
        };
        self.claims += 1;
        self.last_claim = Some(request);
        self.replica.claim(Claim {
            own,
            over,
            insists,
            state: state.clone(),
            held_before: state.number(TABLE, HELD),
            is_master,
            number: self.claims,
        });
    }
}

impl StoreThread {
    /// Carries out requests of the core, and handles reports of the shared store.
    pub(super) fn carry_out(&mut self, requests: Vec<StoreRequest>) {
        for request in requests {
            let Some(shared) = &mut self.shared else {
                return;
            };
            match request {
                StoreRequest::Claim(request) => shared.claim(request, &self.persisted),
                StoreRequest::Release => {
                    shared.last_claim = None;
                    shared.replica.release();
                    // Another manager is master, and has the hosts register with it.
                    if is_without_epoch(&self.persisted) {
                        let mut changes = ChangeSet::new();
                        changes.set_number(TABLE, WITHOUT, 0);
                        self.add(changes);
                    }
                }
                StoreRequest::Reported(event) => self.take_over(event),
            }
        }
    }

    /// Handles a report of the shared store, and takes over its rows.
    fn take_over(&mut self, event: ReplicaEvent) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        match event {
            ReplicaEvent::Overflowed => {
                // The replica has dropped changes, because too many waited. The master claims the
                // epoch again, so that its whole state replaces the content of the shared store.
                if let Some(EpochRequest::Claim { own, .. }) = shared.last_claim {
                    let request = EpochRequest::Claim {
                        own,
                        over: None,
                        insists: false,
                        is_master: true,
                    };
                    shared.claim(request, &self.persisted);
                }
            }
            ReplicaEvent::Granted {
                number,
                epoch,
                state,
                is_combined,
                unseen,
            } if number == shared.claims => {
                let mut changes = ChangeSet::new();
                changes.set_number(TABLE, HELD, epoch.number);
                changes.set_number(TABLE, WITHOUT, 0);
                self.continue_with(state, is_combined, changes, |state| EpochEvent::Granted {
                    epoch,
                    state,
                    unseen,
                });
            }
            ReplicaEvent::Unreachable { number, state }
                if number == shared.claims && shared.last_claim.is_some() =>
            {
                let mut changes = ChangeSet::new();
                changes.set_number(TABLE, WITHOUT, 1);
                self.continue_with(state, false, changes, EpochEvent::Unreachable);
            }
            // A later claim has superseded the claim of this answer.
            ReplicaEvent::Granted { .. } | ReplicaEvent::Unreachable { .. } => {}
            ReplicaEvent::Followed(rows) => self.follow(&rows),
            ReplicaEvent::Planned(plan) => shared.send(EpochEvent::Planned(plan)),
            // The listener passes these events to the core directly.
            ReplicaEvent::Refused(_)
            | ReplicaEvent::Held
            | ReplicaEvent::Deposed { .. }
            | ReplicaEvent::Seen(_)
            | ReplicaEvent::Health(_)
            | ReplicaEvent::Configurations(_) => {}
        }
    }

    /// Continues with the state of the shared store, if present, and applies `more`. That state
    /// replaces this machine's state, unless `is_combined`: then this machine only adds the rows
    /// that it lacks. Then passes the event with the state to the core. If the SA must first
    /// replace its registrations, the SA's thread passes the event afterwards.
    fn continue_with(
        &mut self,
        mut state: Option<Box<Persisted>>,
        is_combined: bool,
        more: ChangeSet,
        event: impl FnOnce(Option<Box<SavedCoreState>>) -> EpochEvent,
    ) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        let was_without_epoch = is_without_epoch(&self.persisted);
        let mut changes = ChangeSet::new();
        if let Some(state) = &mut state {
            if is_combined {
                // The SA serves hosts: rows that changed since the claim are newer than `state`.
                let nothing = Persisted::default();
                state.apply(&ChangeSet::between(&nothing, &self.persisted, LOCAL_TABLES));
            }
            changes = ChangeSet::between(&self.persisted, state, LOCAL_TABLES);
            self.known = None;
        }
        changes.merge(more);
        if let Some(state) = &state {
            shared.history.read(&self.persisted, state, &mut changes);
        }
        let is_replaced = state.is_some() && !is_combined;
        if let (Some(journal), true) = (&self.journal, is_replaced) {
            // The shared state replaces the registrations in this machine's journal.
            acknowledged::cover(journal.last(), &mut changes);
        }
        self.add(changes);
        let Some(shared) = &mut self.shared else {
            return;
        };
        let core = state.is_some().then(|| {
            let mut core = restored(&self.persisted, &self.clock);
            // Registrations of a time without the epoch are in no shared store.
            core.reregister = self.persisted.claims.is_empty() || was_without_epoch;
            core.alias_guids = Arc::new(guids::restored(&self.persisted));
            let stored = self.gpus.reader.read(&self.persisted);
            self.gpus.known = None;
            core.gpus = match shared.gpus.get() {
                Some(hosts) => hosts.adopt(stored),
                None => Arc::new(stored.inventory),
            };
            Box::new(core)
        });
        let event = Event::Epoch(event(core));
        let restorer = shared.restorer.get().filter(|_| is_replaced);
        let Some(restorer) = restorer else {
            drop(shared.core.blocking_send(event));
            return;
        };
        shared.awaits_sa = true;
        let (mailbox, core) = (shared.mailbox.clone(), shared.core.clone());
        let after_restore = Box::new(move || {
            mailbox.put(|latest| {
                (latest.sa, latest.journaled) = (rsm_sa::Unsaved::default(), None);
                latest.is_restored = true;
            });
            drop(core.blocking_send(event));
        });
        restorer.restore(sa_state(&self.persisted, &self.clock), after_restore);
    }
}

impl StoreThread {
    /// Passes rows that the master has changed to the core, the GPU hosts and the history of this
    /// standby manager.
    fn follow(&mut self, rows: &Persisted) {
        let Some(shared) = &mut self.shared else {
            return;
        };
        if !rows.claims.is_empty() {
            let claims = Arc::new(super::claims(rows));
            shared.send(EpochEvent::Claims(claims));
        }
        let positions = Arc::new(super::positions::restored(rows));
        shared.send(EpochEvent::Positions(positions));
        let mut changes = ChangeSet::new();
        // A restart while the shared store is unreachable needs this cabling as well.
        if cabling::follow(&self.persisted, rows, &mut changes) {
            self.known = None;
            let cabling = cabling::restored(rows).missing;
            shared.send(EpochEvent::Cabling(cabling));
        }
        let generations = m_keys::restored(rows);
        m_keys::changes(&self.persisted, generations, None, &mut changes);
        shared.send(EpochEvent::MKeys {
            generations,
            is_pushing: pushing::restored(rows),
        });
        shared.send(EpochEvent::Footprints(footprints::restored(rows)));
        if let Some(hosts) = shared.gpus.get() {
            hosts.adopt(self.gpus.reader.read(rows));
        }
        shared.history.read(&self.persisted, rows, &mut changes);
        self.add(changes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_damage_and_foreign_keys_in_the_shared_store_end_the_start() {
        let (endpoints, reason) = ("http://etcd:2379".to_owned(), "why".to_owned());
        let refused = StoreError::Refused {
            endpoints: endpoints.clone(),
            reason: reason.clone(),
        };
        assert!(matches!(unless_silent::<()>(Err(refused)), Ok(None)));
        let silent = StoreError::Unreachable {
            endpoints,
            reason: reason.clone(),
        };
        assert!(matches!(unless_silent::<()>(Err(silent)), Ok(None)));
        let foreign = StoreError::Foreign {
            key: "other/key".to_owned(),
            reason,
        };
        assert!(unless_silent::<()>(Err(foreign)).is_err());
        assert!(matches!(unless_silent(Ok(7)), Ok(Some(7))));
    }
}

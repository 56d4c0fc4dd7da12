//! Holds the snapshot in force for all readers.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rsm_api::v1::event::Change;
use rsm_api::{ActionLog, EventJournal, limits, v1};
use rsm_mad::Time;
use rsm_state::{self, PassProgress, Role, Snapshot};

use super::events::{self, SnapshotUpdates};
use super::findings::{self, HeldFindings};
use super::log::ConvergenceLog;
use super::missing::{self, GoneNode, MissingNode};
use super::published::Published;
use super::{activity, lines};
use crate::history::{RecordedState, Recorder};

/// A clock: real in the daemon, simulated in tests.
pub trait UnixClock: Send + Sync {
    /// Current time, by the clock of the core's events.
    fn now(&self) -> Time;

    /// Converts a time to milliseconds since the Unix epoch.
    fn unix_ms(&self, at: Time) -> u64;
}

/// Answers readers from the latest snapshot, and sends its differences from the former one to
/// watchers.
///
/// Before the first snapshot, the view has an empty subnet of generation 0 in the state
/// Discovering. Generations count the snapshots of this run; generations of plans are kept over
/// restarts, and belong to the core.
pub struct View {
    pub(super) fabric: String,
    pub(super) simulated: bool,
    pub(super) started: Time,
    pub(super) clock: Box<dyn UnixClock>,
    /// Snapshot in force. The lock is held only for copying the pointer.
    current: RwLock<Arc<Published>>,
    memory: Mutex<Memory>,
    pub(super) journal: EventJournal,
    /// Takes events for the history on the disk; `None` if no history is kept.
    recorder: Option<Recorder>,
    /// Takes events for receivers outside the fabric; `None` if there are no receivers.
    pub(super) outlet: Option<Box<dyn EventOutlet>>,
    /// Progress of the core, as last shown.
    progress: Mutex<PassProgress>,
    /// The store that several managers share; `None` if there is none.
    pub(super) shared_store: Option<Box<dyn SharedStoreSource>>,
    /// Number of lines that the log has dropped so far.
    pub(super) dropped_log_lines: Arc<dyn Fn() -> u64 + Send + Sync>,
}

/// Source of the state of the store that several managers share.
pub trait SharedStoreSource: Send + Sync {
    /// Present state of the store.
    fn shared_store(&self) -> v1::SharedStore;
}

/// Passes events to receivers outside the fabric.
pub trait EventOutlet: Send + Sync {
    /// Takes events in order, from a time when this manager had `role`. Never waits.
    fn put(&self, events: &[Arc<v1::Event>], role: &Role);

    /// Receivers, each with the number of events that it got.
    fn receivers(&self) -> Vec<v1::EventReceiver>;
}

/// State that outlives a snapshot. Only [`View::replace`] changes it.
#[derive(Default)]
struct Memory {
    findings: HeldFindings,
    convergences: ConvergenceLog,
}

impl View {
    /// Creates a view without a snapshot, of the fabric that `--fabric` names. The uptime counts
    /// from this call.
    pub fn new(fabric: String, simulated: bool, clock: Box<dyn UnixClock>) -> View {
        View {
            fabric,
            simulated,
            started: clock.now(),
            clock,
            current: RwLock::new(Arc::new(Published::nothing())),
            memory: Mutex::default(),
            journal: EventJournal::new(limits::EVENT_JOURNAL, limits::ACT_JOURNAL),
            recorder: None,
            outlet: None,
            progress: Mutex::default(),
            shared_store: None,
            dropped_log_lines: Arc::new(|| 0),
        }
    }

    /// Also sends events, and the resulting subnet, to the history.
    #[must_use]
    pub fn recorded_by(self, recorder: Option<Recorder>) -> View {
        View { recorder, ..self }
    }

    /// Also sends events to receivers outside the fabric.
    #[must_use]
    pub fn sending_to(self, outlet: Option<Box<dyn EventOutlet>>) -> View {
        View { outlet, ..self }
    }

    /// Shows the shared store in the status.
    #[must_use]
    pub fn sharing(self, shared_store: Option<Box<dyn SharedStoreSource>>) -> View {
        View {
            shared_store,
            ..self
        }
    }

    /// Shows the number of lines that the log has dropped.
    #[must_use]
    pub fn counting_log(self, dropped_log_lines: Arc<dyn Fn() -> u64 + Send + Sync>) -> View {
        View {
            dropped_log_lines,
            ..self
        }
    }

    /// Shows the core's progress from now on. Returns whether the state that
    /// [`status`](rsm_api::Subnet::status) shows may be another one.
    pub fn show_progress(&self, progress: PassProgress) -> bool {
        let mut shown = self.progress.lock();
        let differs = shown.is_converging != progress.is_converging;
        *shown = progress;
        differs
    }

    /// Pass under way and work that waits, without the number of callers.
    pub(super) fn activity(&self) -> v1::Activity {
        activity::of(self.progress(), self.clock.now())
    }

    /// The core's progress.
    pub(super) fn progress(&self) -> PassProgress {
        self.progress.lock().clone()
    }

    /// Shows `snapshot` from now on, and publishes its differences from the former one.
    ///
    /// Must be called with the snapshots in order. Readers see the snapshot before watchers receive
    /// its changes. Takes as long as a comparison of two fabrics and, if there is a new plan, of
    /// its tables: about ten milliseconds for 45,000 hosts.
    pub fn replace(&self, snapshot: Arc<Snapshot>) {
        let mut memory = self.memory.lock();
        let old = self.published();
        let generation = old.generation + 1;
        let at = self.clock.unix_ms(snapshot.at);
        let began_unix_ms = self.clock.unix_ms(Time::ZERO);
        if began_unix_ms != old.began_unix_ms {
            let step_ms = began_unix_ms.wrapping_sub(old.began_unix_ms).cast_signed();
            memory.findings.move_times(step_ms);
        }
        let updates = SnapshotUpdates {
            findings: memory.findings.update(
                &snapshot.findings,
                &|subject| findings::subject_name(&snapshot, subject),
                generation,
                at,
            ),
            finished: memory.convergences.update(&snapshot.history, |finished| {
                (generation, self.clock.unix_ms(finished))
            }),
        };
        let new = Arc::new(Published::after(
            &old,
            generation,
            snapshot,
            memory.findings.held(),
            memory.convergences.entries(),
            &|at| self.clock.unix_ms(at),
        ));
        let changes = events::list_changes(&old, &new, updates);
        *self.current.write() = new.clone();
        lines::log(&changes);
        let events: Vec<_> = changes
            .into_iter()
            .map(|change| self.journal.publish(generation, at, change))
            .collect();
        if let Some(outlet) = &self.outlet {
            outlet.put(&events, &new.snapshot.role);
        }
        if let Some(recorder) = &self.recorder {
            let snapshot = new.snapshot.clone();
            let state = is_known(&snapshot).then_some(RecordedState {
                at_unix_ms: at,
                snapshot,
            });
            recorder.put(events, state);
        }
    }

    /// Snapshot in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published().snapshot.clone()
    }

    /// Generation of the snapshot in force, and the snapshot.
    pub fn latest(&self) -> (u64, Arc<Snapshot>) {
        let published = self.published();
        (published.generation, published.snapshot.clone())
    }

    /// The missing nodes of a snapshot.
    pub fn gone_nodes(&self, snapshot: &Snapshot) -> Vec<GoneNode> {
        let gone = missing::missing_nodes(snapshot, &|at| self.clock.unix_ms(at));
        gone.into_iter().map(MissingNode::in_words).collect()
    }

    /// The current time, in milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ms(self.clock.now())
    }

    /// The record of `done` in the form that readers see; `None` if the history of the snapshot in
    /// force does not contain it, or no longer does.
    pub fn convergence(&self, done: &Arc<rsm_state::Convergence>) -> Option<v1::Convergence> {
        let published = self.published();
        let mut newest_first = published.convergences.iter().rev();
        newest_first
            .find(|logged| Arc::ptr_eq(&logged.source, done))
            .map(|logged| logged.shown.clone())
    }

    /// Current time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn published(&self) -> Arc<Published> {
        self.current.read().clone()
    }
}

/// Whether the first sweep of this run has ended. Before that, a part that the sweep has not
/// reached yet would look lost.
fn is_known(snapshot: &Snapshot) -> bool {
    let has_converged = !snapshot.history.is_empty();
    let stands_by = matches!(snapshot.role, Role::Standby { .. });
    !snapshot.fabric.is_empty() && (has_converged || stands_by)
}

impl ActionLog for View {
    fn acted(&self, act: v1::OperatorActed) {
        lines::log_act(&act);
        let generation = self.published().generation;
        let change = Change::OperatorActed(act);
        let event = self.journal.publish(generation, self.unix_ms(), change);
        if let Some(outlet) = &self.outlet {
            outlet.put(
                std::slice::from_ref(&event),
                &self.published().snapshot.role,
            );
        }
        if let Some(recorder) = &self.recorder {
            recorder.put(vec![event], None);
        }
    }
}

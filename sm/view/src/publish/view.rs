//! The snapshot in force, for all readers.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use rsm_api::v1::event::Change;
use rsm_api::{ActionLog, EventJournal, limits, v1};
use rsm_mad::Time;
use rsm_state::{self, PassProgress, Role, Snapshot};

use super::events::{self, SnapshotUpdates};
use super::findings::{self, FindingBook};
use super::log::ConvergenceLog;
use super::published::Published;
use super::{activity, lines};
use crate::history::{Recorder, Scene};

/// A clock. The daemon's is real; a test's is made up.
pub trait UnixClock: Send + Sync {
    /// Now, on the clock that the core's events are stamped with.
    fn now(&self) -> Time;

    /// That point in milliseconds since the Unix epoch.
    fn unix_ms(&self, at: Time) -> u64;
}

/// Answers readers from the latest snapshot, and sends watchers its differences from the one
/// before.
///
/// Before the first snapshot there is an empty subnet of generation 0, in which the state is
/// Discovering. Generations count the snapshots of this run; those of plans are kept over restarts
/// and are the core's own.
pub struct View {
    pub(super) fabric: String,
    pub(super) simulated: bool,
    pub(super) started: Time,
    pub(super) clock: Box<dyn UnixClock>,
    /// Locked for as long as it takes to copy the pointer.
    current: RwLock<Arc<Published>>,
    memory: Mutex<Memory>,
    pub(super) journal: EventJournal,
    /// Takes events for the history on the disk, where one is kept.
    recorder: Option<Recorder>,
    /// The core's progress, as last shown.
    progress: Mutex<PassProgress>,
    /// The store that several managers share, where there is one.
    pub(super) shared_store: Option<Box<dyn SharedStoreSource>>,
}

/// The store that several managers share, for readers.
pub trait SharedStoreSource: Send + Sync {
    /// How it does now.
    fn shared_store(&self) -> v1::SharedStore;
}

/// State that outlives a snapshot. Only [`View::replace`] touches it.
#[derive(Default)]
struct Memory {
    findings: FindingBook,
    convergences: ConvergenceLog,
}

impl View {
    /// A view without a snapshot, of the fabric that `--fabric` names `fabric`. The uptime counts
    /// from here.
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
            progress: Mutex::default(),
            shared_store: None,
        }
    }

    /// Hands events, and the subnet that they lead to, to the history as well.
    #[must_use]
    pub fn recorded_by(self, recorder: Option<Recorder>) -> View {
        View { recorder, ..self }
    }

    /// Shows the store that several managers share in the status.
    #[must_use]
    pub fn sharing(self, shared_store: Option<Box<dyn SharedStoreSource>>) -> View {
        View {
            shared_store,
            ..self
        }
    }

    /// Shows the core's progress from now on.
    pub fn show_progress(&self, progress: PassProgress) {
        *self.progress.lock() = progress;
    }

    /// The pass under way and the work that waits, without callers.
    pub(super) fn activity(&self) -> v1::Activity {
        let progress = self.progress.lock().clone();
        activity::of(progress, self.clock.now())
    }

    /// Shows `snapshot` from now on, and publishes its differences from the one before.
    ///
    /// To be called with the snapshots in their order. Readers see the snapshot before watchers
    /// receive its changes. It takes as long as comparing two fabrics and, where there is a new
    /// plan, its tables: some ten milliseconds for 45,000 hosts.
    pub fn replace(&self, snapshot: Arc<Snapshot>) {
        let mut memory = self.memory.lock();
        let old = self.published();
        let generation = old.generation + 1;
        let at = self.clock.unix_ms(snapshot.at);
        let news = SnapshotUpdates {
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
        let changes = events::between(&old, &new, news);
        *self.current.write() = new.clone();
        lines::log(&changes);
        let events = changes
            .into_iter()
            .map(|change| self.journal.publish(generation, at, change))
            .collect();
        if let Some(recorder) = &self.recorder {
            let snapshot = new.snapshot.clone();
            let scene = is_known(&snapshot).then_some(Scene {
                at_unix_ms: at,
                snapshot,
            });
            recorder.put(events, scene);
        }
    }

    /// The snapshot in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published().snapshot.clone()
    }

    /// The snapshot in force, and its generation.
    pub fn latest(&self) -> (u64, Arc<Snapshot>) {
        let published = self.published();
        (published.generation, published.snapshot.clone())
    }

    /// Now, in milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> u64 {
        self.clock.unix_ms(self.clock.now())
    }

    /// A convergence of the snapshot in force as readers see it; none where it is not (or no
    /// longer) in its history.
    pub fn convergence(&self, done: &Arc<rsm_state::Convergence>) -> Option<v1::Convergence> {
        let published = self.published();
        let mut newest_first = published.convergences.iter().rev();
        newest_first
            .find(|logged| Arc::ptr_eq(&logged.source, done))
            .map(|logged| logged.shown.clone())
    }

    /// The current time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn published(&self) -> Arc<Published> {
        self.current.read().clone()
    }
}

/// Whether the first sweep of this run is over: before it, what is not found yet would look lost.
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
        if let Some(recorder) = &self.recorder {
            recorder.put(vec![event], None);
        }
    }
}

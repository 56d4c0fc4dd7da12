//! Runs the SA beside the core, on its own thread with its own inbox and port. No request waits for
//! the core, and the core waits for no request.
//!
//! If the port [is polled](SaPort::is_polled), the worker's thread reads it directly, so that no
//! other thread has to run between a request and its answer. Otherwise the transport's receive
//! thread calls the gate.
//!
//! ```text
//! port ─▶ gate ─▶ inbox ─▶ worker ─▶ port
//!          └─ BUSY ─────────────────▶ port
//! core ─▶ snapshots ─▶ directories ─▶ worker ─▶ groups ─▶ core
//! core ─▶ notices ─▶ inbox
//! ```
//!
//! A bounded inbox holds requests. When the inbox is full, the hosts with the most requests get
//! BUSY, and counters show every drop. No call of the SA processes more than a few thousand
//! candidates: tables, and searches for Gets without a LID, take turns. The answer to a request
//! that changes a registration is sent once the journal has written the change to the disk, or
//! after 250 ms at the latest.
//!
//! The API reads registrations through a request to this thread, which answers with views that
//! share the SA's data. Snapshots contain no registrations, because registrations change with every
//! request of a host. Counters are atomics. The API gets paths from the directory, through the same
//! code that answers hosts.

mod admission;
mod gate;
mod inbox;
mod outgoing;
mod state_reader;
mod table_budget;
mod worker;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::{Mutex, RwLock};
use rsm_core::Event;
use rsm_mad::Time;
use rsm_mad::client::rmpp::RmppConfig;
use rsm_mad::messenger::Messenger;
use rsm_mad::transport::{SaPort, SaSink};
use rsm_mad::wire::attr::Notice;
use rsm_model::findings::Finding;
use rsm_sa::{self, Sa, SaSnapshot, Searches, Statistics, Touched};
use rsm_state::{Forthcoming, Snapshot};
use rsm_view::publish::SaStateSource;
use tokio::sync::{mpsc, watch};

use self::gate::{Call, Gate, ROOM};
use self::inbox::{Calls, Inbox, inbox};
pub use self::outgoing::outgoing;
use self::state_reader::{MAX_STATE_REQUESTS, SaStateReader};
use self::table_budget::TableBudget;
use self::worker::Worker;
use crate::daemon::compute;

/// Clock of the daemon.
pub type TimeSource = Arc<dyn Fn() -> Time + Send + Sync>;

/// Passes the SA's events to the core. Does not wait; returns whether the core had room.
pub type CoreSink = Box<dyn Fn(Event) -> bool + Send>;

/// Passes the SA's state to the store. Does not wait.
pub type SaveSink = Box<dyn Fn(rsm_sa::Unsaved) + Send>;

/// Receives the SA's findings, which replace the earlier findings. Does not wait.
pub type FindingsSink = Box<dyn Fn(Vec<Finding>) + Send>;

/// Longest time that an answer waits for the disk: well below the time after which a host repeats
/// its request, and above the latency of a busy disk. After this time the answer is sent
/// unconditionally, because a lost disk must not stop the fabric.
pub const HELD_AT_MOST: Duration = Duration::from_millis(250);

/// Wakes the thread that answers.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// Journal of changes by requests, which are written before their answers are sent.
pub trait AckJournal: Send + Sync {
    /// Appends the present state of these registrations, together with other changes of the same
    /// time. Does not wait. Returns the number that [`AckJournal::durable`] will reach; `None` if
    /// the state cannot be written.
    fn append(&self, touched: &[Touched], sa: &Sa) -> Option<u64>;

    /// Number of the last entry that is on the disk.
    fn durable(&self) -> u64;

    /// Sets the function that is called at each advance of [`AckJournal::durable`].
    fn on_durable(&self, wake: Wake);
}

/// Connections of the SA, except for its port.
pub struct SaConnections {
    /// State that an earlier run stored.
    pub saved: rsm_sa::SavedSaState,
    /// Passes multicast groups and alias GUIDs to the core.
    pub core: CoreSink,
    /// Passes state to the store.
    pub save: SaveSink,
    /// Receives findings.
    pub findings: FindingsSink,
    /// Journal for which acknowledgements wait; `None` if they do not wait.
    pub journal: Option<Arc<dyn AckJournal>>,
}

/// SA before its port is open: provides a sink to the transport that opens the port.
pub struct SaSetup {
    calls: Calls,
    inbox: Inbox,
    statistics: Arc<Statistics>,
    /// Whether the SA answers requests.
    is_serving: Arc<AtomicBool>,
    clock: TimeSource,
}

impl SaSetup {
    /// Creates an SA with this clock.
    pub fn new(clock: TimeSource) -> SaSetup {
        let (inbox, calls) = inbox(ROOM);
        SaSetup {
            calls,
            inbox,
            statistics: Arc::default(),
            is_serving: Arc::default(),
            clock,
        }
    }

    /// Sink for the transport's SA messages.
    pub fn sink(&self) -> SaSink {
        let gate = Gate {
            inbox: self.inbox.clone(),
            statistics: Arc::clone(&self.statistics),
            is_serving: Arc::clone(&self.is_serving),
            clock: Arc::clone(&self.clock),
        };
        gate.into_sink()
    }

    /// Starts answering through `port`, and passing events to the core and the store. Requests get
    /// no answer until the first plan.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn start(
        self,
        config: rsm_sa::SaConfig,
        port: Arc<dyn SaPort>,
        connections: SaConnections,
    ) -> anyhow::Result<SaHandle> {
        self.inbox.attach(&port);
        let sa_snapshot = Arc::new(Mutex::new(None));
        let latest_snapshot = Arc::new(RwLock::new(SaSnapshot::default()));
        let is_closing = Arc::new(AtomicBool::new(false));
        let mut sa = Sa::new(config).counting_in(Arc::clone(&self.statistics));
        let left_out = sa.restore(connections.saved, (self.clock)());
        if left_out > 0 {
            tracing::warn!(left_out, "invalid stored registrations are left out");
        }
        if let Some(journal) = &connections.journal {
            let inbox = self.inbox.clone();
            journal.on_durable(Box::new(move || inbox.wake()));
        }
        let (requests, state_requests) = mpsc::channel(MAX_STATE_REQUESTS);
        let restoration = Arc::new(Mutex::new(None));
        let worker = Worker {
            restoration: Arc::clone(&restoration),
            state_requests,
            sa,
            messenger: Messenger::new(port, RmppConfig::default()),
            searches: Searches::default(),
            table_budget: TableBudget::default(),
            calls: self.calls,
            sa_snapshot: Arc::clone(&sa_snapshot),
            is_closing: Arc::clone(&is_closing),
            statistics: Arc::clone(&self.statistics),
            is_serving: Arc::clone(&self.is_serving),
            clock: self.clock,
            core: connections.core,
            save: connections.save,
            findings: connections.findings,
            journal: connections.journal,
            held: VecDeque::new(),
            pending_groups: None,
            pending_alias_guids: None,
            unregistered: BTreeSet::new(),
        };
        let worker = Builder::new()
            .name("sa".to_owned())
            .spawn(move || worker.run())
            .context("cannot start the thread of the SA")?;
        let state_source = Arc::new(SaStateReader {
            requests,
            inbox: self.inbox.clone(),
            statistics: Arc::clone(&self.statistics),
            sa_snapshot: Arc::clone(&latest_snapshot),
        });
        let (latest, bases) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .context("cannot start the thread of the directory")?;
        let inbox = self.inbox.clone();
        let directories = Builder::new()
            .name("directory".to_owned())
            .spawn(move || {
                keep_directory(&runtime, bases, (&sa_snapshot, &latest_snapshot), &inbox)
            })
            .context("cannot start the thread of the directory")?;
        let restorer = SaRestorer {
            restoration,
            inbox: self.inbox.clone(),
        };
        Ok(SaHandle {
            restorer,
            state_source,
            inbox: self.inbox,
            latest,
            is_closing,
            statistics: self.statistics,
            is_serving: self.is_serving,
            worker,
            directories,
        })
    }
}

/// Handle of the running SA.
pub struct SaHandle {
    restorer: SaRestorer,
    state_source: Arc<SaStateReader>,
    inbox: Inbox,
    /// Source of the next directory; the thread of the directory ends when this sender is dropped.
    latest: watch::Sender<Option<Basis>>,
    /// Whether the worker must end.
    is_closing: Arc<AtomicBool>,
    statistics: Arc<Statistics>,
    /// Whether the SA answers requests.
    is_serving: Arc<AtomicBool>,
    worker: JoinHandle<()>,
    directories: JoinHandle<()>,
}

impl SaHandle {
    /// Makes the SA answer from `snapshot` soon. Does not wait.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.latest.send_replace(Some(Basis::Published(snapshot)));
    }

    /// Makes the SA answer soon from the state that the present push will reach, until the next
    /// snapshot. Does not wait.
    pub fn serve(&self, forthcoming: Arc<Forthcoming>) {
        self.latest
            .send_replace(Some(Basis::Forthcoming(forthcoming)));
    }

    /// Reports a notice to subscribers. Does not wait. If the inbox is full, drops and counts the
    /// notice: subscribers must expect that a notice is lost.
    pub fn notice(&self, notice: Notice) {
        if self.inbox.post(Call::Notice(Box::new(notice))).is_err() {
            self.statistics.dropped();
        }
    }

    /// Handle through which the store replaces the registrations.
    pub fn restorer(&self) -> SaRestorer {
        self.restorer.clone()
    }

    /// Whether the SA answers requests.
    pub fn is_serving(&self) -> bool {
        self.is_serving.load(Ordering::Relaxed)
    }

    /// Statistics of the SA, up to date while it runs.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Access to the SA's state.
    pub fn state_source(&self) -> Arc<dyn SaStateSource> {
        self.state_source.clone()
    }

    /// Stops the SA.
    pub fn stop(self) {
        self.is_closing.store(true, Ordering::Release);
        self.inbox.wake();
        drop(self.latest);
        for thread in [self.worker, self.directories] {
            if thread.join().is_err() {
                tracing::error!("a thread of the SA panicked");
            }
        }
        let counters = self.statistics.counters();
        tracing::info!(
            answered = counters.latencies.count(),
            busy = counters.busy,
            dropped = counters.dropped,
            failed = counters.failed,
            p99_ns = counters.latencies.quantile(0.99),
            "the SA ends"
        );
    }
}

/// State that replaces all registrations, and a function that is then called on the SA's thread.
pub(super) struct Restoration {
    saved: rsm_sa::SavedSaState,
    after_restore: Box<dyn FnOnce() + Send>,
}

/// Replaces the SA's registrations while the SA runs but does not serve.
#[derive(Clone)]
pub struct SaRestorer {
    restoration: Arc<Mutex<Option<Restoration>>>,
    inbox: Inbox,
}

impl SaRestorer {
    /// Schedules the replacement of all registrations by `saved`, followed by a call of
    /// `after_restore` on the SA's thread. All state that the SA passes to the core and to the
    /// store after this call derives from `saved`. Does not wait. Replaces an earlier restoration
    /// that has not begun, whose `after_restore` is never called.
    pub fn restore(&self, saved: rsm_sa::SavedSaState, after_restore: Box<dyn FnOnce() + Send>) {
        *self.restoration.lock() = Some(Restoration {
            saved,
            after_restore,
        });
        self.inbox.wake();
    }
}

/// Source of a directory.
#[derive(Clone)]
enum Basis {
    /// A published snapshot.
    Published(Arc<Snapshot>),
    /// The state that the present push will reach.
    Forthcoming(Arc<Forthcoming>),
}

impl Basis {
    /// Makes a directory, which shares unchanged parts with `last`.
    fn sa_snapshot(&self, last: Option<&SaSnapshot>) -> SaSnapshot {
        match self {
            Basis::Published(snapshot) => SaSnapshot::of(snapshot, last),
            Basis::Forthcoming(forthcoming) => SaSnapshot::of(&forthcoming.snapshot(), last),
        }
    }
}

/// Makes a directory of each snapshot, and passes it to the worker through `sa_snapshot` and to
/// readers through `latest_snapshot`. Skips a snapshot when a newer one waits. Runs on its own
/// thread, because a large subnet takes several milliseconds, during which the SA must answer
/// hosts.
fn keep_directory(
    runtime: &tokio::runtime::Runtime,
    mut bases: watch::Receiver<Option<Basis>>,
    (sa_snapshot, latest_snapshot): (&Mutex<Option<SaSnapshot>>, &RwLock<SaSnapshot>),
    inbox: &Inbox,
) {
    compute::lower_priority();
    let mut last = None;
    while runtime.block_on(bases.changed()).is_ok() {
        let basis: Option<Basis> = bases.borrow_and_update().clone();
        let Some(basis) = basis else {
            continue;
        };
        let directory = basis.sa_snapshot(last.as_ref());
        last = Some(directory.clone());
        *latest_snapshot.write() = directory.clone();
        *sa_snapshot.lock() = Some(directory);
        inbox.wake();
    }
}

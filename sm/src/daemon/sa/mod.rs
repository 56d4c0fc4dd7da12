//! The SA beside the core: a thread of its own, with an inbox of its own that the
//! transport fills and a way out of its own. No question waits for the core, and the core waits for
//! no question.
//!
//! ```text
//! receive thread ─▶ gate ─▶ inbox ─▶ worker ─▶ port
//!                    └─ BUSY ─────────────────▶ port
//! core ─▶ snapshots ─▶ directories ─▶ worker ─▶ groups ─▶ core
//! core ─▶ notices ─▶ inbox
//! ```

mod admission;
mod gate;
mod inbox;
mod outgoing;
mod searches;
mod state_reader;
mod worker;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::{Mutex, RwLock};
use rsm_mad::Time;
use rsm_mad::client::rmpp::RmppConfig;
use rsm_mad::transport::{Messenger, SaPort, SaSink};
use rsm_mad::wire::attr::Notice;
use tokio::sync::{mpsc, watch};

use self::gate::{Call, Gate, ROOM};
use self::inbox::{Calls, Inbox, inbox};
pub use self::outgoing::outgoing;
use self::searches::Searches;
use self::state_reader::{MAX_STATE_REQUESTS, SaStateReader};
use self::worker::Worker;
use crate::core::Event;
use crate::core::snapshot::{Forthcoming, Snapshot};
use crate::daemon::compute;
use crate::publish::SaStateSource;
use crate::sa::{self, Sa, SaSnapshot, Statistics, Touched};

/// What the time is.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Where the core is told what concerns it. Does not wait; whether there was room.
pub type CoreSink = Box<dyn Fn(Event) -> bool + Send>;

/// Where it is told what is to be remembered. Does not wait.
pub type SaveSink = Box<dyn Fn(sa::Unsaved) + Send>;

/// The longest that an answer waits for the disk: well below the time after which a host asks
/// again, and above what a disk takes that is busy. Later it goes all the same, for a store that is
/// away never stops the fabric.
pub const HELD_AT_MOST: Duration = Duration::from_millis(250);

/// Wakes the thread that answers.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// Where it is written, before the answer goes, what requests have changed.
pub trait AckJournal: Send + Sync {
    /// Has it written that this was changed, to what `sa` has now, with what others
    /// change at the same time. Does not wait. Returns what [`AckJournal::durable`] will come to;
    /// `None` where it cannot be written.
    fn append(&self, touched: &[Touched], sa: &Sa) -> Option<u64>;

    /// How far it has come.
    fn durable(&self) -> u64;

    /// What is to be called when it has come further.
    fn on_durable(&self, wake: Wake);
}

/// What the SA has to do with others, beyond the port.
pub struct Surroundings {
    /// What was kept before.
    pub remembered: sa::Remembered,
    /// Who is told who takes part in multicast, and how ports are called.
    pub core: CoreSink,
    /// Who keeps what is to be kept.
    pub save: SaveSink,
    /// What answers wait for that acknowledge a change; without it they wait for nothing.
    pub journal: Option<Arc<dyn AckJournal>>,
}

/// The SA before its port is open: it has a sink for the transport that opens it.
pub struct SaSetup {
    calls: Calls,
    inbox: Inbox,
    port: Arc<OnceLock<Weak<dyn SaPort>>>,
    statistics: Arc<Statistics>,
    serving: Arc<AtomicBool>,
    clock: Clock,
}

impl SaSetup {
    /// The SA that goes by `clock`.
    pub fn new(clock: Clock) -> SaSetup {
        let (inbox, calls) = inbox(ROOM);
        SaSetup {
            calls,
            inbox,
            port: Arc::default(),
            statistics: Arc::default(),
            serving: Arc::default(),
            clock,
        }
    }

    /// Where the transport delivers what is for the SA.
    pub fn sink(&self) -> SaSink {
        let gate = Gate {
            inbox: self.inbox.clone(),
            port: Arc::clone(&self.port),
            statistics: Arc::clone(&self.statistics),
            serving: Arc::clone(&self.serving),
            clock: Arc::clone(&self.clock),
        };
        gate.into_sink()
    }

    /// Starts to answer, through `port`, and to tell others what concerns them. Requests get no
    /// answer until there is a plan to answer from.
    ///
    /// # Errors
    /// The operating system has no thread to give.
    pub fn start(
        self,
        config: sa::Config,
        port: Arc<dyn SaPort>,
        surroundings: Surroundings,
    ) -> anyhow::Result<SaHandle> {
        // Set once: the value is made here and used up here.
        let _ = self.port.set(Arc::downgrade(&port));
        let sa_snapshot = Arc::new(Mutex::new(None));
        let shown = Arc::new(RwLock::new(SaSnapshot::default()));
        let closing = Arc::new(AtomicBool::new(false));
        let mut sa = Sa::new(config).counting_in(Arc::clone(&self.statistics));
        let left_out = sa.restore(surroundings.remembered, (self.clock)());
        if left_out > 0 {
            tracing::warn!(left_out, "records that were remembered make no sense");
        }
        if let Some(journal) = &surroundings.journal {
            let inbox = self.inbox.clone();
            journal.on_durable(Box::new(move || inbox.wake()));
        }
        let (requests, state_requests) = mpsc::channel(MAX_STATE_REQUESTS);
        let worker = Worker {
            state_requests,
            sa,
            messenger: Messenger::new(port, RmppConfig::default()),
            searches: Searches::default(),
            calls: self.calls,
            sa_snapshot: Arc::clone(&sa_snapshot),
            closing: Arc::clone(&closing),
            statistics: Arc::clone(&self.statistics),
            serving: Arc::clone(&self.serving),
            clock: self.clock,
            core: surroundings.core,
            save: surroundings.save,
            journal: surroundings.journal,
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
            sa_snapshot: Arc::clone(&shown),
        });
        let (latest, bases) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .context("cannot start the thread of the directory")?;
        let inbox = self.inbox.clone();
        let directories = Builder::new()
            .name("directory".to_owned())
            .spawn(move || keep_directory(&runtime, bases, (&sa_snapshot, &shown), &inbox))
            .context("cannot start the thread of the directory")?;
        Ok(SaHandle {
            state_source,
            inbox: self.inbox,
            latest,
            closing,
            statistics: self.statistics,
            serving: self.serving,
            worker,
            directories,
        })
    }
}

/// The SA that answers.
pub struct SaHandle {
    state_source: Arc<SaStateReader>,
    inbox: Inbox,
    latest: watch::Sender<Option<Basis>>,
    closing: Arc<AtomicBool>,
    statistics: Arc<Statistics>,
    serving: Arc<AtomicBool>,
    worker: JoinHandle<()>,
    directories: JoinHandle<()>,
}

impl SaHandle {
    /// Answers from `snapshot` soon. Does not wait.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.latest.send_replace(Some(Basis::Published(snapshot)));
    }

    /// Answers from what the push that begins will leave soon, until the next snapshot. Does not
    /// wait.
    pub fn serve(&self, forthcoming: Arc<Forthcoming>) {
        self.latest
            .send_replace(Some(Basis::Forthcoming(forthcoming)));
    }

    /// Tells subscribers what a port has reported. Does not wait; where there is no room it is
    /// dropped and counted, as the port's own trap could have been.
    pub fn notice(&self, notice: Notice) {
        if self.inbox.put(Call::Notice(Box::new(notice))).is_err() {
            self.statistics.dropped();
        }
    }

    /// Whether requests are answered.
    pub fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    /// What it does, for as long as it does it.
    pub fn statistics(&self) -> &Arc<Statistics> {
        &self.statistics
    }

    /// Where it can be asked about itself.
    pub fn state_source(&self) -> Arc<dyn SaStateSource> {
        self.state_source.clone()
    }

    /// Ends it.
    pub fn stop(self) {
        self.closing.store(true, Ordering::Release);
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

/// What a directory is made of.
#[derive(Clone)]
enum Basis {
    Published(Arc<Snapshot>),
    Forthcoming(Arc<Forthcoming>),
}

impl Basis {
    fn sa_snapshot(&self, last: Option<&SaSnapshot>) -> SaSnapshot {
        match self {
            Basis::Published(snapshot) => SaSnapshot::of(snapshot, last),
            Basis::Forthcoming(forthcoming) => SaSnapshot::of(&forthcoming.snapshot(), last),
        }
    }
}

/// Makes a directory of each snapshot; of several that wait, only of the last. On a thread of its
/// own, for it takes some milliseconds for a large subnet, in which others are to be answered.
fn keep_directory(
    runtime: &tokio::runtime::Runtime,
    mut bases: watch::Receiver<Option<Basis>>,
    (sa_snapshot, shown): (&Mutex<Option<SaSnapshot>>, &RwLock<SaSnapshot>),
    inbox: &Inbox,
) {
    compute::step_back();
    let mut last = None;
    while runtime.block_on(bases.changed()).is_ok() {
        let basis: Option<Basis> = bases.borrow_and_update().clone();
        let Some(basis) = basis else {
            continue;
        };
        let made = basis.sa_snapshot(last.as_ref());
        last = Some(made.clone());
        *shown.write() = made.clone();
        *sa_snapshot.lock() = Some(made);
        inbox.wake();
    }
}

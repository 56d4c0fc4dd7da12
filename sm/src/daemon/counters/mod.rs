//! Runs the collector of performance counters beside the core, on its own thread with its own
//! transport handle. The core and the SA never wait for the collector, and the collector never
//! waits for them.
//!
//! ```text
//! port ─▶ sink ─▶ inbox ─▶ collector ─▶ port
//! core ─▶ snapshots ─────────┘   └─▶ readings ─▶ readers
//! ```
//!
//! The inbox is bounded: an answer that finds no room is dropped and counted, and its counters are
//! read again.

mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::{Mutex, RwLock};
use rsm_config::{Config, SymptomLimits};
use rsm_ids::PortKey;
use rsm_mad::transport::{Inbound, PerformancePort, Sink};
use rsm_monitor::counters::{Collector, CountersConfig, CountersSnapshot};
use rsm_monitor::health::PortErrors;
use rsm_state::Snapshot;
use rsm_view::publish::CountersSource;

use self::worker::Worker;
use super::sa::TimeSource;
use super::settings::health_policy;

/// Number of events that can wait for the thread: more than the requests in flight
/// ([`CountersConfig::window`]) and their notices. Further answers are dropped and counted, and
/// their counters are read again.
const INBOX: usize = 256;

/// Settings of the collector, from the configuration.
fn collector_settings(config: &Config) -> CountersConfig {
    let counters = &config.counters;
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    let interval = seconds(counters.interval_s);
    CountersConfig {
        enabled: counters.enabled,
        interval,
        ports_interval: seconds(counters.ports_interval_s).max(interval),
        adapters: counters.adapters,
        adapters_interval: seconds(counters.adapters_interval_s).max(interval),
        ..CountersConfig::default()
    }
}

/// Passes the ports that exceed a limit to the core, without waiting. Returns whether the core had
/// room for them.
pub(super) type ErrorsSink = Box<dyn FnMut(Arc<BTreeMap<PortKey, PortErrors>>) -> bool + Send>;

/// Settings of the thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Settings {
    /// Settings of the collector.
    pub(super) collector: CountersConfig,
    /// Limits of link errors; the thread reports a port that exceeds one to the core.
    pub(super) limits: SymptomLimits,
}

impl Settings {
    /// Settings from a configuration.
    pub(super) fn of(config: &Config) -> Settings {
        Settings {
            collector: collector_settings(config),
            limits: health_policy(&config.health).limits,
        }
    }
}

/// Message to the thread.
enum Call {
    /// An answer or notice from the port.
    Inbound(Box<Inbound>),
    /// [`Orders`] contains something new.
    Wake,
}

/// Orders to the thread, and the results that it shows. A later order replaces an earlier one of
/// the same kind.
#[derive(Default)]
struct Orders {
    /// Snapshot that the thread has not taken yet.
    snapshot: Mutex<Option<Arc<Snapshot>>>,
    /// Settings that the thread has not taken yet.
    settings: Mutex<Option<Settings>>,
    /// Whether the thread must end.
    is_closing: AtomicBool,
    /// Number of answers that found no room in the inbox.
    dropped: AtomicU64,
    /// Latest readings, for readers.
    latest: RwLock<CountersSnapshot>,
}

/// Collector before its port is open: provides a sink to the transport that opens the port.
pub(super) struct CountersSetup {
    inbox: SyncSender<Call>,
    calls: Receiver<Call>,
    orders: Arc<Orders>,
    clock: TimeSource,
}

impl CountersSetup {
    /// Creates a collector with this clock.
    pub(super) fn new(clock: TimeSource) -> CountersSetup {
        let (inbox, calls) = sync_channel(INBOX);
        CountersSetup {
            inbox,
            calls,
            orders: Arc::default(),
            clock,
        }
    }

    /// Sink for the transport's datagrams of performance management. Never waits.
    pub(super) fn sink(&self) -> Sink {
        let (inbox, orders) = (self.inbox.clone(), Arc::clone(&self.orders));
        Box::new(move |inbound| {
            if inbox.try_send(Call::Inbound(Box::new(inbound))).is_err() {
                orders.dropped.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Starts reading through `port` as soon as a snapshot says that this subnet manager is master,
    /// if `settings` enable the collector. Passes ports that exceed a limit to `errors`.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub(super) fn start(
        self,
        settings: Settings,
        port: Arc<dyn PerformancePort>,
        errors: ErrorsSink,
    ) -> anyhow::Result<CountersHandle> {
        // Answers to an earlier process may still arrive, so the transaction IDs of this process
        // must differ.
        let first_tid = std::process::id() << 16;
        let worker = Worker {
            collector: Collector::new(settings.collector, first_tid),
            limits: settings.limits,
            errors,
            reported: Arc::default(),
            calls: self.calls,
            orders: Arc::clone(&self.orders),
            port,
            clock: self.clock,
            snapshot_at: None,
        };
        let thread = Builder::new()
            .name("counters".to_owned())
            .spawn(move || worker.run())
            .context("cannot start the thread of the performance counters")?;
        Ok(CountersHandle {
            inbox: self.inbox,
            orders: self.orders,
            thread,
        })
    }
}

/// Handle of the running collector.
pub(super) struct CountersHandle {
    inbox: SyncSender<Call>,
    orders: Arc<Orders>,
    thread: JoinHandle<()>,
}

impl CountersHandle {
    /// Makes the collector follow `snapshot` soon. Does not wait.
    pub(super) fn publish(&self, snapshot: Arc<Snapshot>) {
        *self.orders.snapshot.lock() = Some(snapshot);
        self.wake();
    }

    /// Makes the collector use `settings` soon. Does not wait.
    pub(super) fn configure(&self, settings: Settings) {
        *self.orders.settings.lock() = Some(settings);
        self.wake();
    }

    /// Access to the latest readings.
    pub(super) fn source(&self) -> Arc<dyn CountersSource> {
        Arc::new(LastReadings(Arc::clone(&self.orders)))
    }

    /// Stops reading.
    pub(super) fn stop(self) {
        self.orders.is_closing.store(true, Ordering::Release);
        self.wake();
        if self.thread.join().is_err() {
            tracing::error!("the thread of the performance counters panicked");
        }
        let stats = self.orders.latest.read().stats;
        let dropped = self.orders.dropped.load(Ordering::Relaxed);
        tracing::info!(
            ?stats,
            dropped,
            "the collector of performance counters ends"
        );
    }

    /// Makes the thread check its orders.
    fn wake(&self) {
        // With a full inbox the thread stays awake, and it checks its orders after each call.
        let _ = self.inbox.try_send(Call::Wake);
    }
}

/// Source of the readings that the thread has last shown.
struct LastReadings(Arc<Orders>);

impl CountersSource for LastReadings {
    fn counters(&self) -> CountersSnapshot {
        self.0.latest.read().clone()
    }
}

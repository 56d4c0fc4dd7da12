//! Sends events to one receiver, on a thread of its own.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Inbox, Outcome, Sender};
use crate::backoff::Backoff;
use crate::queue::{Folder, Queue};
use crate::report::{ReceiverFault, Report};
use crate::settings::ReceiverSettings;
use crate::source::{Record, Source, timestamp};

/// Maximum number of records in one request.
const BATCH: usize = 100;

/// Time after which a receiver that does not answer has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a receiver may fail before a finding reports it, longer than a receiver's
/// restart takes.
const GRACE: Duration = Duration::from_secs(10);

/// Time between two checks of a failing receiver or disk.
const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two reports of the same number of faults.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Time for which events are still sent after the daemon has begun to end.
const END_GRACE: Duration = Duration::from_secs(1);

/// State of a receiver, for the status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    /// Number of events that the receiver took.
    pub(crate) sent: u64,
    /// Number of events that wait.
    pub(crate) waiting: u64,
    /// Number of events that were lost.
    pub(crate) lost: u64,
    /// Time of the first failure since the last success; `None` if the receiver does not fail.
    pub(crate) failing_since_unix_ms: Option<u64>,
    /// Reason of the present failure of the receiver or of the disk; empty without one.
    pub(crate) failure: String,
}

/// Failure of the receiver since its last success.
#[derive(Debug)]
struct Failing {
    since: Instant,
    since_unix_ms: u64,
    why: String,
}

/// State of the thread.
pub(crate) struct Worker {
    kind: &'static str,
    source: Source,
    inbox: Arc<Inbox>,
    settings: watch::Receiver<Option<ReceiverSettings>>,
    status: Arc<Mutex<Status>>,
    report: Report,
    /// Folder of the queue that is not open yet; `None` once it is open, or without a folder.
    unopened: Option<Folder>,
    queue: Queue<Folder>,
    sender: Option<Sender>,
    sent: u64,
    backoff: Backoff,
    /// End of the pause after a failure; `None` without a pause.
    retry_at: Option<Instant>,
    failing: Option<Failing>,
    /// Number of records to send one by one, because the receiver refused them together.
    one_by_one: usize,
    /// Reason why the last operation on the disk failed; `None` if it succeeded.
    disk_failure: Option<String>,
    /// The faults as last reported, and the time of that report.
    last_report: (Vec<ReceiverFault>, Option<Instant>),
    /// Time after which no event is sent; `None` while the daemon runs.
    ending_at: Option<Instant>,
}

/// Connections of a worker to the rest of the daemon.
pub(crate) struct WorkerContext {
    pub(crate) source: Source,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) settings: watch::Receiver<Option<ReceiverSettings>>,
    pub(crate) status: Arc<Mutex<Status>>,
    pub(crate) report: Report,
}

impl Worker {
    /// Creates a worker with its queue in `folder`; with `None`, events stay in memory.
    pub(crate) fn new(
        kind: &'static str,
        folder: Option<Folder>,
        context: WorkerContext,
    ) -> Worker {
        let WorkerContext {
            source,
            inbox,
            settings,
            status,
            report,
        } = context;
        let mut worker = Worker {
            kind,
            source,
            inbox,
            settings,
            status,
            report,
            unopened: folder,
            queue: Queue::in_memory_only(),
            sender: None,
            sent: 0,
            backoff: Backoff::default(),
            retry_at: None,
            failing: None,
            one_by_one: 0,
            disk_failure: None,
            last_report: (Vec::new(), None),
            ending_at: None,
        };
        worker.open();
        worker
    }

    /// Opens the queue's folder, unless it is open. Renumbers the records, so no record may be in
    /// flight to the receiver.
    fn open(&mut self) {
        let Some(folder) = &self.unopened else { return };
        let queue_bytes = self
            .settings
            .borrow()
            .as_ref()
            .map_or(0, |it| it.queue_bytes);
        match Queue::open(Some(folder.clone()), queue_bytes) {
            Ok(mut queue) => {
                let moved = queue.adopt(&mut self.queue);
                self.queue = queue;
                self.unopened = None;
                self.record_disk_result(moved);
            }
            Err(error) => self.record_disk_result(Err(error)),
        }
    }

    /// Runs until the daemon ends.
    pub(crate) async fn run(mut self) {
        loop {
            if self.unopened.is_some() {
                self.open();
            }
            self.queue_arrived();
            self.publish_status();
            let now = Instant::now();
            let batch = self.batch(now);
            if let Some(ending_at) = self.ending_at
                && (batch.is_empty() || now >= ending_at || self.failing.is_some())
            {
                break;
            }
            match batch.is_empty() {
                true => self.wait(now).await,
                false => self.deliver(batch).await,
            }
        }
    }

    /// Writes the events that have arrived to the queue.
    fn queue_arrived(&mut self) {
        let arrived = self.inbox.take();
        if arrived.is_closed && self.ending_at.is_none() {
            self.ending_at = Some(Instant::now() + END_GRACE);
        }
        self.queue.count_lost(arrived.lost);
        if !arrived.events.is_empty() || self.queue.in_memory() > 0 {
            let put = self.queue.put(self.source.run, arrived.events);
            if self.unopened.is_none() {
                self.record_disk_result(put);
            }
        }
    }

    /// Records to send now; empty during a pause after a failure.
    fn batch(&mut self, now: Instant) -> Vec<Record> {
        let is_due = self.retry_at.is_none_or(|at| at <= now);
        if !is_due || self.settings.borrow().is_none() {
            return Vec::new();
        }
        let max_records = if self.one_by_one > 0 { 1 } else { BATCH };
        match self.queue.peek(max_records) {
            Ok(records) => records,
            Err(error) => {
                self.record_disk_result(Err(error));
                Vec::new()
            }
        }
    }

    /// Waits for a change of the inbox or of the settings, or for the next attempt.
    async fn wait(&mut self, now: Instant) {
        let is_failing = self.failing.is_some() || self.disk_failure.is_some();
        let recheck_at = is_failing.then_some(now + RECHECK_INTERVAL);
        let wake_times = [self.retry_at.filter(|&at| at > now), recheck_at];
        let wake_at = wake_times.into_iter().flatten().min();
        let inbox = self.inbox.clone();
        tokio::select! {
            () = inbox.changed() => {}
            changed = self.settings.changed() => self.apply_settings(changed.is_ok()),
            () = sleep_until(wake_at.unwrap_or(now)), if wake_at.is_some() => {}
        }
    }

    /// Applies changed settings; `is_open` is false once the daemon is ending.
    fn apply_settings(&mut self, is_open: bool) {
        if !is_open {
            self.ending_at.get_or_insert(Instant::now());
            return;
        }
        self.sender = None;
        self.backoff.reset();
        self.retry_at = None;
        let queue_bytes = self
            .settings
            .borrow_and_update()
            .as_ref()
            .map(|it| it.queue_bytes);
        let result = match queue_bytes {
            Some(queue_bytes) => self.queue.set_bound(queue_bytes),
            None => {
                self.failing = None;
                self.queue.clear()
            }
        };
        self.record_disk_result(result);
    }

    /// Sends a batch of records, and records the outcome. Events that arrive meanwhile go to the
    /// queue. Changed settings, or the end of the daemon, abandon the attempt without an outcome.
    async fn deliver(&mut self, batch: Vec<Record>) {
        let Some(target) = self.settings.borrow().as_ref().map(|it| it.target.clone()) else {
            return;
        };
        let sender = self.sender.take();
        let mut sender = sender.unwrap_or_else(|| Sender::new(&target, &self.source));
        let inbox = self.inbox.clone();
        let outcome = {
            let sending = timeout(TIMEOUT, sender.send(&batch));
            tokio::pin!(sending);
            loop {
                let end = self.ending_at;
                tokio::select! {
                    sent = &mut sending => break sent,
                    () = inbox.changed() => {
                        self.queue_arrived();
                        self.publish_status();
                    }
                    changed = self.settings.changed() => {
                        self.apply_settings(changed.is_ok());
                        return;
                    }
                    () = sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => return,
                }
            }
        };
        let outcome = outcome.unwrap_or_else(|_| {
            Outcome::failed(format!("no answer within {} s", TIMEOUT.as_secs()))
        });
        if !matches!(outcome, Outcome::Failed { .. }) {
            self.sender = Some(sender);
        }
        self.record_outcome(&batch, outcome);
    }

    /// Records the outcome of an attempt to send `batch`.
    fn record_outcome(&mut self, batch: &[Record], outcome: Outcome) {
        let Some(last) = batch.last().map(|record| record.number) else {
            return;
        };
        match outcome {
            Outcome::Taken { rejected } => {
                let rejected = rejected.min(batch.len() as u64);
                self.sent += batch.len() as u64 - rejected;
                self.queue.count_lost(rejected);
                self.one_by_one = self.one_by_one.saturating_sub(1);
                self.record_done(last);
            }
            Outcome::Refused(why) if batch.len() > 1 => {
                tracing::warn!(
                    "{} refuses {} events together ({why}): they go one by one",
                    self.kind,
                    batch.len()
                );
                self.one_by_one = batch.len();
            }
            Outcome::Refused(why) => {
                tracing::warn!("{} refuses an event, which is lost ({why})", self.kind);
                self.queue.count_lost(1);
                self.one_by_one = self.one_by_one.saturating_sub(1);
                self.record_done(last);
            }
            Outcome::Failed { why, pause } => {
                let now = Instant::now();
                self.retry_at = Some(now + self.backoff.after_failure(pause));
                let (since, since_unix_ms) = match &self.failing {
                    Some(failing) => (failing.since, failing.since_unix_ms),
                    None => (now, unix_ms()),
                };
                self.failing = Some(Failing {
                    since,
                    since_unix_ms,
                    why,
                });
            }
        }
    }

    /// Records that the receiver is done with the records up to `number`.
    fn record_done(&mut self, number: u64) {
        self.backoff.reset();
        self.retry_at = None;
        self.failing = None;
        let taken = self.queue.take(number);
        self.record_disk_result(taken);
    }

    /// Records the result of an operation on the disk.
    fn record_disk_result(&mut self, result: io::Result<()>) {
        self.disk_failure = result.err().map(|error| error.to_string());
    }

    /// Publishes the status, and reports faults that are new, over or different.
    fn publish_status(&mut self) {
        let failing = self.failing.as_ref();
        *self.status.lock() = Status {
            sent: self.sent,
            waiting: self.queue.waiting(),
            lost: self.queue.lost(),
            failing_since_unix_ms: failing.map(|failing| failing.since_unix_ms),
            failure: match (failing, &self.disk_failure) {
                (Some(failing), _) => failing.why.clone(),
                (None, Some(disk)) => format!("events wait in memory only: {disk}"),
                (None, None) => String::new(),
            },
        };
        let now = Instant::now();
        let faults = self.faults(now);
        let is_due = faults.len() != self.last_report.0.len()
            || self
                .last_report
                .1
                .is_none_or(|at| now.duration_since(at) >= REPORT_INTERVAL);
        if faults != self.last_report.0 && is_due {
            (self.report)(self.kind, faults.clone());
            self.last_report = (faults, Some(now));
        }
    }

    /// The present faults, as text for an operator.
    fn faults(&self, now: Instant) -> Vec<ReceiverFault> {
        let settings = self.settings.borrow();
        let Some(settings) = settings.as_ref() else {
            return Vec::new();
        };
        let (kind, target) = (self.kind, &settings.target);
        let failing = self.failing.as_ref();
        let failing = failing.filter(|failing| now.duration_since(failing.since) >= GRACE);
        let undelivered = failing.map(|failing| {
            ReceiverFault::Undelivered(format!(
                "events do not reach {kind} at {target} since {} ({}): {} wait, {} are lost; traffic is not affected, and \
                 `rsmctl events` shows them; make the receiver take them, or correct section [notify]",
                timestamp(failing.since_unix_ms),
                failing.why,
                self.queue.waiting(),
                self.queue.lost(),
            ))
        });
        let disk = self.disk_failure.as_ref().map(|disk| {
            ReceiverFault::Disk(format!(
                "events for {kind} cannot be written to the folder notify of state.dir ({disk}): they wait in memory, and \
                 the oldest are lost beyond {}, or at a restart; traffic is not affected; make room there, or make it writable",
                crate::queue::MEMORY_MAX
            ))
        });
        undelivered.into_iter().chain(disk).collect()
    }
}

/// The present time in milliseconds since the Unix epoch; 0 before the epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the worker is a shell: it sends at real times"
)]
fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

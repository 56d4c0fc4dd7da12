//! Feeds one receiver, on a thread of its own.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Inbox, Outcome, Sender};
use crate::backoff::Backoff;
use crate::queue::{Folder, Queue};
use crate::report::{Report, Trouble};
use crate::settings::ReceiverSettings;
use crate::source::{Record, Source, timestamp};

/// Maximum number of records in one request.
const BATCH: usize = 100;

/// Time after which a receiver that does not answer has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a receiver may fail before a finding reports it, longer than the restart of a
/// receiver.
const GRACE: Duration = Duration::from_secs(10);

/// Pause between two attempts while a receiver or the disk fails.
const TICK: Duration = Duration::from_secs(1);

/// Minimum time between two texts of a finding that differ only in numbers.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// Time for which the last events of a run are still sent after the daemon began to end.
const END: Duration = Duration::from_secs(1);

/// Counts of a receiver, for the status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) sent: u64,
    pub(crate) waiting: u64,
    pub(crate) lost: u64,
    pub(crate) failing_since_unix_ms: Option<u64>,
    pub(crate) failure: String,
}

/// A failure that lasts.
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
    /// Folder that the queue should have, and that could not be opened; `None` otherwise.
    unopened: Option<Folder>,
    queue: Queue<Folder>,
    sender: Option<Sender>,
    sent: u64,
    backoff: Backoff,
    retry_at: Option<Instant>,
    failing: Option<Failing>,
    /// Number of records to send one by one, because the receiver refused them together.
    one_by_one: usize,
    disk_failure: Option<String>,
    /// The troubles as last reported, and the time of that report.
    told: (Vec<Trouble>, Option<Instant>),
    ending_at: Option<Instant>,
}

/// Connections of a worker to the rest of the daemon.
pub(crate) struct Surroundings {
    pub(crate) source: Source,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) settings: watch::Receiver<Option<ReceiverSettings>>,
    pub(crate) status: Arc<Mutex<Status>>,
    pub(crate) report: Report,
}

impl Worker {
    /// Creates a worker with its queue in `folder`; `None` keeps events in memory.
    pub(crate) fn new(
        kind: &'static str,
        folder: Option<Folder>,
        surroundings: Surroundings,
    ) -> Worker {
        let Surroundings {
            source,
            inbox,
            settings,
            status,
            report,
        } = surroundings;
        let mut worker = Worker {
            kind,
            source,
            inbox,
            settings,
            status,
            report,
            unopened: folder,
            queue: Queue::in_memory_alone(),
            sender: None,
            sent: 0,
            backoff: Backoff::default(),
            retry_at: None,
            failing: None,
            one_by_one: 0,
            disk_failure: None,
            told: (Vec::new(), None),
            ending_at: None,
        };
        worker.open();
        worker
    }

    /// Opens the folder of the queue, if it is to have one and has none. Records get other numbers
    /// by that, so that none may be under way.
    fn open(&mut self) {
        let Some(folder) = &self.unopened else { return };
        let bound = self
            .settings
            .borrow()
            .as_ref()
            .map_or(0, |it| it.queue_bytes);
        match Queue::open(Some(folder.clone()), bound) {
            Ok(mut queue) => {
                let moved = queue.adopt(&mut self.queue);
                self.queue = queue;
                self.unopened = None;
                self.note(moved);
            }
            Err(error) => self.note(Err(error)),
        }
    }

    /// Runs until the daemon ends.
    pub(crate) async fn run(mut self) {
        loop {
            if self.unopened.is_some() {
                self.open();
            }
            self.take_arrived();
            self.show();
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
    fn take_arrived(&mut self) {
        let arrived = self.inbox.take();
        if arrived.is_closed && self.ending_at.is_none() {
            self.ending_at = Some(Instant::now() + END);
        }
        self.queue.count_lost(arrived.lost);
        if !arrived.events.is_empty() || self.queue.in_memory() > 0 {
            let put = self.queue.put(self.source.run, arrived.events);
            if self.unopened.is_none() {
                self.note(put);
            }
        }
    }

    /// Records to send now; empty during a pause after a failure.
    fn batch(&mut self, now: Instant) -> Vec<Record> {
        let is_due = self.retry_at.is_none_or(|at| at <= now);
        if !is_due || self.settings.borrow().is_none() {
            return Vec::new();
        }
        let most = if self.one_by_one > 0 { 1 } else { BATCH };
        match self.queue.peek(most) {
            Ok(records) => records,
            Err(error) => {
                self.note(Err(error));
                Vec::new()
            }
        }
    }

    /// Waits until there may be work.
    async fn wait(&mut self, now: Instant) {
        let is_failing = self.failing.is_some() || self.disk_failure.is_some();
        let look_again = is_failing.then_some(now + TICK);
        let wake = [self.retry_at.filter(|&at| at > now), look_again];
        let wake = wake.into_iter().flatten().min();
        let inbox = self.inbox.clone();
        tokio::select! {
            () = inbox.changed() => {}
            changed = self.settings.changed() => self.configured(changed.is_ok()),
            () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => {}
        }
    }

    /// Takes over changed settings; `is_open` is false once the daemon is ending.
    fn configured(&mut self, is_open: bool) {
        if !is_open {
            self.ending_at.get_or_insert(Instant::now());
            return;
        }
        self.sender = None;
        self.backoff.reset();
        self.retry_at = None;
        let bound = self
            .settings
            .borrow_and_update()
            .as_ref()
            .map(|it| it.queue_bytes);
        let done = match bound {
            Some(bound) => self.queue.set_bound(bound),
            None => {
                self.failing = None;
                self.queue.clear()
            }
        };
        self.note(done);
    }

    /// Sends records; events that arrive meanwhile go to the queue.
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
                        self.take_arrived();
                        self.show();
                    }
                    changed = self.settings.changed() => {
                        self.configured(changed.is_ok());
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
        self.conclude(&batch, outcome);
    }

    fn conclude(&mut self, batch: &[Record], outcome: Outcome) {
        let Some(last) = batch.last().map(|record| record.number) else {
            return;
        };
        match outcome {
            Outcome::Taken { rejected } => {
                let rejected = rejected.min(batch.len() as u64);
                self.sent += batch.len() as u64 - rejected;
                self.queue.count_lost(rejected);
                self.one_by_one = self.one_by_one.saturating_sub(1);
                self.take(last);
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
                self.take(last);
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
    fn take(&mut self, number: u64) {
        self.backoff.reset();
        self.retry_at = None;
        self.failing = None;
        let taken = self.queue.take(number);
        self.note(taken);
    }

    /// Records the result of an operation on the disk.
    fn note(&mut self, done: io::Result<()>) {
        self.disk_failure = done.err().map(|error| error.to_string());
    }

    /// Shows counts in the status, and reports troubles that are new, over or different.
    fn show(&mut self) {
        let failing = self.failing.as_ref();
        *self.status.lock() = Status {
            sent: self.sent,
            waiting: self.queue.waiting(),
            lost: self.queue.lost(),
            failing_since_unix_ms: failing.map(|failing| failing.since_unix_ms),
            failure: match (failing, &self.disk_failure) {
                (Some(failing), _) => failing.why.clone(),
                (None, Some(disk)) => format!("events wait in memory alone: {disk}"),
                (None, None) => String::new(),
            },
        };
        let now = Instant::now();
        let troubles = self.troubles(now);
        let is_other = troubles.len() != self.told.0.len()
            || self
                .told
                .1
                .is_none_or(|at| now.duration_since(at) >= TOLD_EVERY);
        if troubles != self.told.0 && is_other {
            (self.report)(self.kind, troubles.clone());
            self.told = (troubles, Some(now));
        }
    }

    fn troubles(&self, now: Instant) -> Vec<Trouble> {
        let settings = self.settings.borrow();
        let Some(settings) = settings.as_ref() else {
            return Vec::new();
        };
        let (kind, target) = (self.kind, &settings.target);
        let failing = self.failing.as_ref();
        let failing = failing.filter(|failing| now.duration_since(failing.since) >= GRACE);
        let undelivered = failing.map(|failing| {
            Trouble::Undelivered(format!(
                "events do not reach {kind} at {target} since {} ({}): {} wait, {} are lost; traffic is not affected, and \
                 `rsmctl events` shows them; make the receiver take them, or correct section [notify]",
                timestamp(failing.since_unix_ms),
                failing.why,
                self.queue.waiting(),
                self.queue.lost(),
            ))
        });
        let disk = self.disk_failure.as_ref().map(|disk| {
            Trouble::Disk(format!(
                "events for {kind} cannot be written to the folder notify of state.dir ({disk}): they wait in memory, and \
                 the oldest are lost beyond {}, or at a restart; traffic is not affected; make room there, or make it writable",
                crate::queue::MEMORY_MAX
            ))
        });
        undelivered.into_iter().chain(disk).collect()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the worker is a shell: it sends at real times"
)]
fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

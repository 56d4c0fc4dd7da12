//! Writes the history on its own thread, and answers queries from the history.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use rsm_api::model::{HistoryOrder, HistoryQuery};
use rsm_api::v1::event::Change;
use rsm_api::{BoxFuture, Differences, HistoryError, blocking, v1, with_causes};
use rsm_config::Config;
use rsm_mad::Time;
use rsm_model::fabric::Fabric;
use rsm_store::StoreError;
use rsm_store::io::Disk;
use rsm_view::history::recorder::Batch;
use rsm_view::history::scan::{Numbered, Query, unrecorded};
use rsm_view::history::{Archive, Bounds, Recorder, Segments};
use rsm_view::publish::UnixClock as _;
use tokio::sync::Semaphore;

use super::clock::Clock;
use super::findings::{DaemonFindings, DaemonPart};
use super::host_facts;
use super::persistence::{HistorySink, is_shared};

/// Time for which events are collected before they are written and flushed together: the longest
/// span of events that a crash of the machine loses.
const GATHERING_TIME: Duration = Duration::from_millis(100);

/// Time for which events are collected for other managers, because each write replaces the whole
/// last row.
const SHARING_INTERVAL: Duration = Duration::from_secs(1);

/// Pause before a failed opening or write is repeated; events wait in the queue until then.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Longest time that an answer waits for events on their way to the disk.
const SETTLE: Duration = Duration::from_secs(2);

/// Number of answers that are computed at the same time; each reads segments of some megabytes.
const READERS: usize = 2;

/// History, and the thread that writes it.
pub(super) struct History {
    recorder: Recorder,
    segments: Arc<OnceLock<Segments>>,
    thread: std::thread::JoinHandle<()>,
}

impl History {
    /// Opens the history in `state_dir`; `share` passes events to the managers that share the
    /// store. If the history cannot be opened, a finding states the reason, events wait in memory,
    /// and the thread opens the history as soon as it can.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        state_dir: &Path,
        config: &Config,
        clock: Clock,
        disk: Disk,
        findings: DaemonFindings,
        share: Option<HistorySink>,
    ) -> anyhow::Result<History> {
        let bounds = Bounds {
            days: config.history.days,
            bytes: u64::from(config.history.max_mb) << 20,
        };
        let folder = HistoryFolder {
            state_dir: state_dir.to_owned(),
            disk,
            bounds,
        };
        let segments = Arc::new(OnceLock::new());
        let recorder = Recorder::default();
        let opened = match folder.open() {
            Ok(archive) => {
                segments.get_or_init(|| archive.segments());
                Some(archive)
            }
            Err(error) => {
                findings.fail(DaemonPart::History, unusable(&error));
                None
            }
        };
        let thread = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn({
                let (recorder, segments) = (recorder.clone(), segments.clone());
                move || {
                    let opened = opened.or_else(|| folder.wait(&recorder, &findings));
                    let Some(archive) = opened else {
                        tracing::error!("the events of this run are not in the history");
                        return;
                    };
                    segments.get_or_init(|| archive.segments());
                    Writer::new(archive, recorder, clock, findings, share).run();
                }
            })
            .context("cannot start the thread of the history")?;
        Ok(History {
            recorder,
            segments,
            thread,
        })
    }

    /// Recorder that takes events for the history.
    pub(super) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Reader that answers from the history.
    pub(super) fn reader(&self) -> Arc<HistoryReader> {
        Arc::new(HistoryReader {
            recorder: self.recorder.clone(),
            segments: self.segments.clone(),
            reader_slots: Arc::new(Semaphore::new(READERS)),
        })
    }

    /// Writes the waiting events, and ends the thread.
    pub(super) fn finish(self) {
        self.recorder.close();
        if self.thread.join().is_err() {
            tracing::error!("the thread of the history panicked");
        }
    }
}

/// Location of the history.
struct HistoryFolder {
    state_dir: PathBuf,
    disk: Disk,
    bounds: Bounds,
}

impl HistoryFolder {
    /// Opens the history.
    fn open(&self) -> Result<Archive, StoreError> {
        Archive::open(&self.state_dir, self.disk.clone(), self.bounds)
    }

    /// Tries to open the history until it succeeds; `None` if the recorder is closed before.
    fn wait(&self, recorder: &Recorder, findings: &DaemonFindings) -> Option<Archive> {
        loop {
            let is_closed = recorder.pause(RETRY_AFTER);
            match self.open() {
                Ok(archive) => return Some(archive),
                Err(_) if is_closed => return None,
                Err(error) => findings.fail(DaemonPart::History, unusable(&error)),
            }
        }
    }
}

/// Text of the finding while the history cannot be opened.
fn unusable(error: &StoreError) -> String {
    format!(
        "the history cannot be opened ({}): it answers no question, events wait in memory, and the latest are lost \
         once it is full; traffic goes on; make the folder usable",
        with_causes(error)
    )
}

/// Text of the finding while the history cannot be written.
fn unwritten(error: &StoreError) -> String {
    format!(
        "the history cannot be written ({}): events wait in memory, and the latest are lost once it is full; \
         traffic goes on; make room there, or mount it writable",
        with_causes(error)
    )
}

/// State of the thread.
struct Writer {
    archive: Archive,
    recorder: Recorder,
    clock: Clock,
    findings: DaemonFindings,
    /// Fabric that was last recorded.
    last_fabric: Option<Arc<Fabric>>,
    /// Passes events to other managers; `None` if no store is shared.
    share: Option<HistorySink>,
    /// Events for other managers that `share` has not received yet.
    unshared: Vec<Arc<v1::Event>>,
    /// Time when `share` last received events; `None` before the first ones.
    shared_at: Option<Time>,
}

impl Writer {
    /// Creates a writer that has recorded no fabric.
    fn new(
        archive: Archive,
        recorder: Recorder,
        clock: Clock,
        findings: DaemonFindings,
        share: Option<HistorySink>,
    ) -> Writer {
        Writer {
            archive,
            recorder,
            clock,
            findings,
            last_fabric: None,
            share,
            unshared: Vec::new(),
            shared_at: None,
        }
    }

    /// Writes events until the recorder is closed.
    fn run(mut self) {
        while let Some(batch) = self
            .recorder
            .take((!self.unshared.is_empty()).then_some(SHARING_INTERVAL))
        {
            self.add(batch);
            if !self.write() {
                break;
            }
            self.recorder.wrote();
            self.share_if_due();
            self.recorder.pause(GATHERING_TIME);
        }
        self.share();
    }

    /// Passes events to other managers, unless it did so within the last [`SHARING_INTERVAL`].
    fn share_if_due(&mut self) {
        let now = self.clock.now();
        if self
            .shared_at
            .is_none_or(|at| now.since(at) >= SHARING_INTERVAL)
        {
            self.shared_at = Some(now);
            self.share();
        }
    }

    /// Passes all waiting events to other managers.
    fn share(&mut self) {
        let events = std::mem::take(&mut self.unshared);
        if let Some(share) = self.share.as_ref().filter(|_| !events.is_empty()) {
            share(events);
        }
    }

    /// Present time in milliseconds since the Unix epoch.
    fn now_unix_ms(&self) -> u64 {
        self.clock.unix_ms(self.clock.now())
    }

    /// Adds a batch of events and states to the archive, without writing it to the disk.
    fn add(&mut self, batch: Batch) {
        if self.share.is_some() {
            let shared = batch.events.iter().filter(|event| is_shared(event));
            self.unshared.extend(shared.cloned());
        }
        let first = batch.events.first().map(|event| event.at_unix_ms);
        let recorded = batch.state.as_ref().map(|state| state.at_unix_ms);
        let begin = first.or(recorded).unwrap_or_else(|| self.now_unix_ms());
        self.archive.begin_segment_if_due(begin);
        for event in &batch.events {
            self.archive.event(event);
        }
        if batch.lost > 0 {
            let last = batch.events.last().map_or(begin, |event| event.at_unix_ms);
            let reason = "more came at once than the queue to the disk takes".to_owned();
            tracing::warn!(events = batch.lost, "the history lacks events: {reason}");
            self.archive.event(&unrecorded(last, batch.lost, reason));
        }
        for event in &batch.others {
            self.archive.event(event);
        }
        if let Some(recorded) = batch.state {
            let fabric = recorded.snapshot.fabric.clone();
            let before = self.last_fabric.replace(fabric);
            let before = before.as_deref();
            self.archive
                .state(recorded.at_unix_ms, before, &recorded.snapshot);
        }
    }

    /// Repeats the write until it succeeds. Returns false if the queue was closed before.
    fn write(&mut self) -> bool {
        loop {
            // A clock that no time service keeps in step may be far ahead without being set again.
            let is_trusted = self.clock.is_settled(self.clock.now())
                && host_facts::is_clock_synchronized() != Some(false);
            self.archive.trust_clock(is_trusted);
            match self.archive.write(self.now_unix_ms()) {
                Ok(()) => {
                    self.findings.clear(DaemonPart::History);
                    return true;
                }
                Err(error) => self.findings.fail(DaemonPart::History, unwritten(&error)),
            }
            if self.recorder.pause(RETRY_AFTER) && self.archive.write(self.now_unix_ms()).is_err() {
                tracing::error!("the last events of this run are not in the history");
                return false;
            }
        }
    }
}

/// Answers queries from the history.
pub(super) struct HistoryReader {
    recorder: Recorder,
    /// Segments; empty until the history is open.
    segments: Arc<OnceLock<Segments>>,
    /// [`READERS`] permits for answers that are computed at the same time.
    reader_slots: Arc<Semaphore>,
}

impl HistoryReader {
    /// Runs `work` on a thread that may wait for a disk, as soon as one of `reader_slots` is free.
    /// The work keeps its slot until it ends, even if the client has left.
    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Segments) -> Result<T, HistoryError> + Send + 'static,
    ) -> Result<T, HistoryError> {
        let unread = |reason: String| HistoryError::Unreadable { reason };
        let (recorder, segments) = (self.recorder.clone(), self.segments.clone());
        let result = blocking::at_place(&self.reader_slots, move || {
            let Some(segments) = segments.get() else {
                let reason =
                    "its folder cannot be used yet: the finding about the storage says why"
                        .to_owned();
                return Err(HistoryError::Unreadable { reason });
            };
            recorder.settle(SETTLE);
            work(segments)
        });
        result.await.map_err(|error| unread(error.to_string()))?
    }
}

impl rsm_api::History for HistoryReader {
    fn events(&self, query: HistoryQuery) -> BoxFuture<'_, Result<Vec<Numbered>, HistoryError>> {
        Box::pin(self.on_thread(move |segments| {
            let wanted = Query {
                after: query.after,
                before: query.before,
                since_unix_ms: query.since_unix_ms,
                until_unix_ms: query.until_unix_ms,
                matches: &|event| query.filter.matches(event),
            };
            Ok(match query.order {
                HistoryOrder::First(limit) => segments.events(&wanted, limit),
                HistoryOrder::Newest(limit) => segments.newest(&wanted, limit),
            })
        }))
    }

    fn differences(&self, at_unix_ms: u64) -> BoxFuture<'_, Result<Differences, HistoryError>> {
        Box::pin(self.on_thread(move |segments| {
            let unread = |error: StoreError| HistoryError::Unreadable {
                reason: with_causes(&error),
            };
            let then = match segments.state_at(at_unix_ms).map_err(unread)? {
                Some(then) => Some((at_unix_ms, then)),
                None => segments.first_state().map_err(unread)?,
            };
            let Some((from_unix_ms, then)) = then else {
                return Err(HistoryError::TooEarly {
                    began_unix_ms: segments.began_unix_ms(),
                });
            };
            let now = segments.state_at(u64::MAX).map_err(unread)?;
            let moments = segments.moments_after(from_unix_ms, &then);
            let moments = moments.map_err(unread)?;
            Ok(Differences {
                list: then.differences(&now.unwrap_or_default(), &moments),
                from_unix_ms,
            })
        }))
    }
}

/// First event of a run.
pub(super) fn started(at_unix_ms: u64, fabric: String) -> Arc<v1::Event> {
    Arc::new(v1::Event {
        at_unix_ms,
        change: Some(Change::ManagerStarted(v1::ManagerStarted {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            fabric,
        })),
        ..v1::Event::default()
    })
}

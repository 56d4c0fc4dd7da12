//! Records the counters on its own thread: every ten seconds it takes the new readings, adds them
//! to the steps under way, and writes the completed steps.
//!
//! The collector never waits for the record: the thread compares two of the collector's snapshots.
//! A step that cannot be written is lost, with a finding; later steps are recorded.

mod readings;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use rsm_monitor::counters::CountersSnapshot;
use rsm_past::{Bounds, PastReader, Tier};
use rsm_store::StoreError;
use rsm_store::io::Disk;
use rsm_view::publish::{CountersSource, PastSource, UnixClock as _};

use self::readings::Differ;
use super::clock::Clock;
use super::compute;
use super::findings::{DaemonFindings, Part};

/// Time between two checks of the readings: a step of the finest tier.
const EVERY: Duration = Duration::from_millis(Tier::Seconds.step_ms());

/// Location of the recorded past.
pub(super) struct Folder {
    pub(super) state_dir: PathBuf,
    pub(super) disk: Disk,
    pub(super) bounds: Bounds,
}

impl Folder {
    fn open(&self) -> Result<rsm_past::Past, StoreError> {
        rsm_past::Past::open(&self.state_dir, self.disk.clone(), self.bounds)
    }
}

/// Reader of the past; empty until its folder is open.
#[derive(Default)]
struct Opened(OnceLock<PastReader>);

impl PastSource for Opened {
    fn past(&self) -> Option<PastReader> {
        self.0.get().cloned()
    }
}

/// Recorded past, and the thread that writes it.
pub(super) struct Past {
    opened: Arc<Opened>,
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Past {
    /// Records the readings of `source` in `folder`. If the folder cannot be opened, a finding
    /// states the reason, and the thread opens it as soon as it can.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        folder: Folder,
        clock: Clock,
        findings: DaemonFindings,
        source: Arc<dyn CountersSource>,
    ) -> anyhow::Result<Past> {
        let opened = Arc::<Opened>::default();
        let (stop, stopped) = sync_channel(1);
        let mut writer = Writer {
            folder,
            clock,
            findings,
            source,
            opened: opened.clone(),
            past: None,
            differ: Differ::default(),
            before: CountersSnapshot::default(),
        };
        let thread = Builder::new()
            .name("past".to_owned())
            .spawn(move || writer.run(&stopped))
            .context("cannot start the thread of the past of the counters")?;
        Ok(Past {
            opened,
            stop,
            thread,
        })
    }

    /// Access to the written steps.
    pub(super) fn source(&self) -> Arc<dyn PastSource> {
        self.opened.clone()
    }

    /// Writes the steps under way, and ends the thread.
    pub(super) fn finish(self) {
        // An error means that the thread has already ended.
        let _ = self.stop.try_send(());
        if self.thread.join().is_err() {
            tracing::error!("the thread of the past of the counters panicked");
        }
    }
}

/// State of the thread.
struct Writer {
    folder: Folder,
    clock: Clock,
    findings: DaemonFindings,
    source: Arc<dyn CountersSource>,
    opened: Arc<Opened>,
    past: Option<rsm_past::Past>,
    differ: Differ,
    /// Readings at the last check.
    before: CountersSnapshot,
}

impl Writer {
    fn run(&mut self, stopped: &Receiver<()>) {
        // Answers to hosts and convergence take precedence over the record.
        compute::step_back();
        loop {
            self.open();
            let is_over = stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
            let written = self.look(is_over);
            match written {
                Ok(()) if self.past.is_some() => self.findings.clear(Part::Past),
                Ok(()) => {}
                Err(error) => self.findings.fail(Part::Past, unwritten(&error)),
            }
            if is_over {
                return;
            }
        }
    }

    fn open(&mut self) {
        if self.past.is_some() {
            return;
        }
        match self.folder.open() {
            Ok(past) => {
                self.opened.0.get_or_init(|| past.reader());
                self.past = Some(past);
            }
            Err(error) => self.findings.fail(Part::Past, unusable(&error)),
        }
    }

    /// Adds the readings since the last check; `is_last` also writes the steps under way.
    fn look(&mut self, is_last: bool) -> Result<(), StoreError> {
        let now = self.source.counters();
        let before = std::mem::replace(&mut self.before, now);
        let Some(past) = &mut self.past else {
            return Ok(());
        };
        let clock = self.clock;
        let unix_ms = |at| clock.unix_ms(at);
        let readings = self.differ.between(&before, &self.before, unix_ms);
        let added = past.add(readings);
        // The snapshot includes all readings until this time.
        let written = match is_last {
            true => past.flush(),
            false => past.advance(unix_ms(self.before.at)),
        };
        added.and(written)
    }
}

fn unusable(error: &StoreError) -> String {
    format!(
        "the past of the counters cannot be opened ({error}: {}): `rsmctl counters --since` has no answer, and what \
         is counted until then is lost there; traffic goes on; make the folder usable",
        cause(error)
    )
}

fn unwritten(error: &StoreError) -> String {
    format!(
        "the past of the counters cannot be written ({error}: {}): its steps are lost until it can; earlier ones \
         stay, and traffic goes on; make room there, or mount it writable",
        cause(error)
    )
}

fn cause(error: &StoreError) -> String {
    std::error::Error::source(error).map_or_else(String::new, ToString::to_string)
}

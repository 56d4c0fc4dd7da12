//! Records the past of the counters on its own thread. Every two seconds, the thread takes the new
//! readings, adds them to the steps under way, and writes the completed steps. Once an hour, it
//! looks for ports whose errors before correction grow (`rises`).
//!
//! The collector never waits for this thread, which compares two snapshots of the collector. A step
//! that cannot be written is lost, and a finding reports the loss. Later steps are recorded again.

mod readings;
mod rises;

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use rsm_api::with_causes;
use rsm_monitor::counters::CountersSnapshot;
use rsm_past::{Bounds, PastReader, Tier};
use rsm_store::StoreError;
use rsm_store::io::Disk;
use rsm_view::publish::{CountersSource, PastSource, UnixClock as _, View};

use self::readings::Differ;
use self::rises::Rises;
use super::clock::Clock;
use super::compute;
use super::findings::{DaemonFindings, DaemonPart};

/// Time between two checks of the readings. It is a fifth of a step of the finest tier, so that
/// counts go to the step in which they were read, and a step is available soon after its end. It is
/// longer than a second, the time between two readings of a port, so that times in whole seconds
/// distinguish the readings.
const CHECK_INTERVAL: Duration = Duration::from_millis(Tier::Seconds.step_ms() / 5);

/// Location and bounds of the recorded past.
pub(super) struct PastFolder {
    pub(super) state_dir: PathBuf,
    pub(super) disk: Disk,
    pub(super) bounds: Bounds,
}

impl PastFolder {
    /// Opens the recorded past.
    fn open(&self) -> Result<rsm_past::Past, StoreError> {
        rsm_past::Past::open(&self.state_dir, self.disk.clone(), self.bounds)
    }
}

/// Reader of the past; empty until its folder is open.
#[derive(Default)]
struct OpenedReader(OnceLock<PastReader>);

impl PastSource for OpenedReader {
    fn past(&self) -> Option<PastReader> {
        self.0.get().cloned()
    }
}

/// The recorded past of the counters, and the thread that writes it.
pub(super) struct Past {
    opened: Arc<OpenedReader>,
    /// Names of ports for findings; empty until [`Past::name_ports`].
    view: Arc<OnceLock<Arc<View>>>,
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl Past {
    /// Starts the thread that records the readings of `source` in `folder`. If the folder cannot be
    /// opened, a finding states the reason, and the thread tries again at each check.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(
        folder: PastFolder,
        clock: Clock,
        findings: DaemonFindings,
        source: Arc<dyn CountersSource>,
    ) -> anyhow::Result<Past> {
        let opened = Arc::<OpenedReader>::default();
        let view = Arc::<OnceLock<Arc<View>>>::default();
        let (stop, stopped) = sync_channel(1);
        let mut writer = Writer {
            folder,
            clock,
            findings,
            source,
            opened: opened.clone(),
            view: view.clone(),
            rises: Rises::default(),
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
            view,
            stop,
            thread,
        })
    }

    /// Provides the names of ports. Until this call, there are no findings about ports.
    pub(super) fn name_ports(&self, view: &Arc<View>) {
        self.view.get_or_init(|| view.clone());
    }

    /// Source of the steps that have been written.
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

/// The state of the thread.
struct Writer {
    folder: PastFolder,
    clock: Clock,
    findings: DaemonFindings,
    source: Arc<dyn CountersSource>,
    opened: Arc<OpenedReader>,
    view: Arc<OnceLock<Arc<View>>>,
    rises: Rises,
    /// The recorded past; `None` until its folder is open.
    past: Option<rsm_past::Past>,
    differ: Differ,
    /// Readings at the last check.
    before: CountersSnapshot,
}

impl Writer {
    /// Checks the readings until the daemon ends the thread.
    fn run(&mut self, stopped: &Receiver<()>) {
        // Answers to hosts and convergence are more urgent than the record.
        compute::lower_priority();
        loop {
            self.open();
            let is_last = stopped.recv_timeout(CHECK_INTERVAL) != Err(RecvTimeoutError::Timeout);
            let written = self.add_readings(is_last);
            match written {
                Ok(()) if self.past.is_some() => self.findings.clear(DaemonPart::Past),
                Ok(()) => {}
                Err(error) => self.findings.fail(DaemonPart::Past, unwritten(&error)),
            }
            self.report_rises();
            if is_last {
                return;
            }
        }
    }

    /// Opens the folder, unless it is open already.
    fn open(&mut self) {
        if self.past.is_some() {
            return;
        }
        match self.folder.open() {
            Ok(past) => {
                self.opened.0.get_or_init(|| past.reader());
                self.past = Some(past);
            }
            Err(error) => self.findings.fail(DaemonPart::Past, unusable(&error)),
        }
    }

    /// Reports ports whose errors before correction grow, once an hour while counters are read.
    fn report_rises(&mut self) {
        let counters = &self.before;
        if !counters.is_collecting {
            self.rises = Rises::default();
            self.findings.clear(DaemonPart::ErrorCorrection);
            return;
        }
        let now_unix_ms = self.clock.unix_ms(counters.at);
        let (Some(past), Some(view)) = (&self.past, self.view.get()) else {
            return;
        };
        if !self.rises.is_due(now_unix_ms) {
            return;
        }
        let fabric = view.snapshot().fabric.clone();
        let ports = rises::watched(counters, counters.at);
        let rising = self
            .rises
            .examine(&ports, &past.reader(), &fabric, now_unix_ms);
        match rising {
            Ok(findings) => self.findings.report(DaemonPart::ErrorCorrection, findings),
            Err(error) => tracing::warn!(%error, "the past of error correction cannot be read"),
        }
    }

    /// Adds the readings since the last check, and writes the completed steps; with `is_last`, also
    /// the steps under way.
    ///
    /// # Errors
    /// A step cannot be written, and is lost.
    fn add_readings(&mut self, is_last: bool) -> Result<(), StoreError> {
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

/// The text of the finding about a folder that cannot be opened.
fn unusable(error: &StoreError) -> String {
    format!(
        "the past of the counters cannot be opened ({}): `rsmctl counters --since` has no answer, and what \
         is counted until then is lost there; traffic goes on; make the folder usable",
        with_causes(error)
    )
}

/// The text of the finding about steps that cannot be written.
fn unwritten(error: &StoreError) -> String {
    format!(
        "the past of the counters cannot be written ({}): its steps are lost until it can; earlier ones \
         stay, and traffic goes on; make room there, or mount it writable",
        with_causes(error)
    )
}

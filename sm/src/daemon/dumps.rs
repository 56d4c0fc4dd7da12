//! Writes files in OpenSM's formats after each convergence.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use rsm_state::Snapshot;
use rsm_view::dump;
use tokio::sync::watch;

use super::findings::{DaemonFindings, DaemonPart};
use super::state_dir::{self, CHECK_EVERY};

/// Writes snapshots to files on its own thread. If several snapshots wait, it writes only the last.
///
/// Repeats a failed dump every [`CHECK_EVERY`], and reports a finding until a dump succeeds.
pub(super) struct Dumper {
    /// The running thread; `None` if no dumps are written.
    running: Option<Running>,
}

/// Running thread, with the snapshot that it writes next.
struct Running {
    latest: watch::Sender<Option<Arc<Snapshot>>>,
    thread: std::thread::JoinHandle<()>,
}

impl Dumper {
    /// Starts to write dumps to `dir`; if `dir` is `None`, writes nothing.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(dir: Option<PathBuf>, findings: DaemonFindings) -> anyhow::Result<Dumper> {
        let Some(dir) = dir else {
            return Ok(Dumper { running: None });
        };
        let (latest, inbox) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .context("cannot start the thread of the dumps")?;
        let thread = std::thread::Builder::new()
            .name("dumps".to_owned())
            .spawn(move || {
                let folder = Folder {
                    dir,
                    findings,
                    failed: None,
                };
                runtime.block_on(folder.write_all(inbox));
            })
            .context("cannot start the thread of the dumps")?;
        Ok(Dumper {
            running: Some(Running { latest, thread }),
        })
    }

    /// Schedules a dump of `snapshot`.
    pub(super) fn dump(&self, snapshot: Arc<Snapshot>) {
        if let Some(running) = &self.running {
            running.latest.send_replace(Some(snapshot));
        }
    }

    /// Waits until the last snapshot is written.
    pub(super) fn finish(self) {
        if let Some(running) = self.running {
            drop(running.latest);
            if running.thread.join().is_err() {
                tracing::error!("the thread of the dumps panicked");
            }
        }
    }
}

/// Folder that dumps are written to.
struct Folder {
    dir: PathBuf,
    findings: DaemonFindings,
    /// Snapshot of a failed dump, to be written again; `None` after a successful dump.
    failed: Option<Arc<Snapshot>>,
}

impl Folder {
    /// Writes the snapshots of `inbox` until it closes.
    async fn write_all(mut self, mut inbox: watch::Receiver<Option<Arc<Snapshot>>>) {
        let mut has_written = false;
        loop {
            match tokio::time::timeout(CHECK_EVERY, inbox.changed()).await {
                Ok(Ok(())) => {
                    let latest: Option<Arc<Snapshot>> = inbox.borrow_and_update().clone();
                    if let Some(snapshot) = latest {
                        has_written = true;
                        self.write(snapshot);
                    }
                }
                Ok(Err(_)) => return,
                Err(_) => match self.failed.take() {
                    Some(snapshot) => self.write(snapshot),
                    None if has_written => self.check(),
                    None => {}
                },
            }
        }
    }

    /// Writes a dump, and reports or clears the finding.
    fn write(&mut self, snapshot: Arc<Snapshot>) {
        match dump::snapshot::write(&self.dir, &snapshot) {
            Ok(()) => {
                self.failed = None;
                self.findings.clear(DaemonPart::Dumps);
            }
            Err(error) => {
                self.failed = Some(snapshot);
                self.fail(&format!("{error:#}"));
            }
        }
    }

    /// Checks whether the next dump could be written. Writes no dump, because the present files
    /// still show the current subnet.
    fn check(&self) {
        match state_dir::check(&self.dir) {
            Ok(()) => self.findings.clear(DaemonPart::Dumps),
            Err(error) => self.fail(&format!("cannot write {}: {error}", self.dir.display())),
        }
    }

    /// Reports the finding that dumps are not written.
    fn fail(&self, why: &str) {
        let text = format!(
            "the dump files are not written ({why}): those there may show an earlier state, traffic goes on; make room \
             there, or correct dump.dir"
        );
        self.findings.fail(DaemonPart::Dumps, text);
    }
}

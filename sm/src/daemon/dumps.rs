//! Files in OpenSM's formats after each convergence.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::watch;

use crate::core::snapshot::Snapshot;
use crate::dump;

/// Writes snapshots to files, on a thread of its own; of several that wait, only the last is written.
pub(super) struct Dumper {
    running: Option<Running>,
}

struct Running {
    latest: watch::Sender<Option<Arc<Snapshot>>>,
    thread: std::thread::JoinHandle<()>,
}

impl Dumper {
    pub(super) fn start(dir: Option<PathBuf>) -> anyhow::Result<Dumper> {
        let Some(dir) = dir else {
            return Ok(Dumper { running: None });
        };
        let (latest, mut inbox) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .context("cannot start the thread of the dumps")?;
        let thread = std::thread::Builder::new()
            .name("dumps".to_owned())
            .spawn(move || {
                loop {
                    let open = runtime.block_on(inbox.changed()).is_ok();
                    let latest: Option<Arc<Snapshot>> = inbox.borrow_and_update().clone();
                    if let Some(snapshot) = latest.filter(|_| open)
                        && let Err(error) = dump::snapshot::write(&dir, &snapshot)
                    {
                        tracing::error!("{error:#}");
                    }
                    if !open {
                        break;
                    }
                }
            })
            .context("cannot start the thread of the dumps")?;
        Ok(Dumper {
            running: Some(Running { latest, thread }),
        })
    }

    /// Writes `snapshot` soon.
    pub(super) fn dump(&self, snapshot: Arc<Snapshot>) {
        if let Some(running) = &self.running {
            running.latest.send_replace(Some(snapshot));
        }
    }

    /// Waits until the last one is written.
    pub(super) fn finish(self) {
        if let Some(running) = self.running {
            drop(running.latest);
            if running.thread.join().is_err() {
                tracing::error!("the thread of the dumps panicked");
            }
        }
    }
}

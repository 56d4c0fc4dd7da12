//! Commits batches to the store of this machine, on a thread of its own.
//!
//! A disk may hang for as long as it likes: the store's thread goes on with claims of the shared
//! store, and gathers the changes for the next batch.

use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rsm_store::{ChangeSet, Store, StoreError};

use super::acknowledged::now;

/// Time after which a commit under way counts as one of a disk that hangs: many times that of a
/// large commit on a slow disk.
pub(super) const HANGS_AFTER: Duration = Duration::from_secs(5);

/// Thread that commits, one batch at a time.
pub(super) struct Committer {
    /// Batches for the thread.
    batches: mpsc::Sender<ChangeSet>,
    /// Ends of commits.
    ends: tokio::sync::mpsc::UnboundedReceiver<Ended>,
    thread: JoinHandle<Result<(), StoreError>>,
    under_way: Option<UnderWay>,
}

/// Commit that has not ended.
struct UnderWay {
    begun: Instant,
    /// Number of the last entry of the journal that the batch includes.
    covered: u64,
}

/// Commit that has ended.
pub(super) struct Ended {
    /// Changes of the batch.
    pub(super) changes: ChangeSet,
    pub(super) result: Result<(), StoreError>,
}

impl Committer {
    /// Starts the thread, which commits to `store`.
    ///
    /// # Errors
    /// The operating system cannot start the thread.
    pub(super) fn start(mut store: Box<dyn Store>) -> anyhow::Result<Committer> {
        let (batches, received) = mpsc::channel::<ChangeSet>();
        let (ended, ends) = tokio::sync::mpsc::unbounded_channel();
        let thread = Builder::new()
            .name("store-disk".to_owned())
            .spawn(move || {
                for changes in received {
                    let result = store.commit(&changes);
                    // A closed channel means that the daemon is ending.
                    drop(ended.send(Ended { changes, result }));
                }
                store.close()
            })
            .context("cannot start the thread of the store's disk")?;
        Ok(Committer {
            batches,
            ends,
            thread,
            under_way: None,
        })
    }

    /// Whether a commit is under way; the next one must wait for its end.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Begins the commit of `changes`, which include the journal up to entry `covered`.
    pub(super) fn begin(&mut self, changes: ChangeSet, covered: u64) {
        self.under_way = Some(UnderWay {
            begun: now(),
            covered,
        });
        // The thread receives as long as this handle exists, unless it has panicked, which
        // [`Committer::ended`] finds.
        drop(self.batches.send(changes));
    }

    /// Waits for the end of the commit under way; without one, forever. Returns also the number of
    /// the last entry of the journal that the batch includes. `None` if the thread has panicked.
    pub(super) async fn ended(&mut self) -> Option<(Ended, u64)> {
        let Some(UnderWay { covered, .. }) = self.under_way else {
            return std::future::pending().await;
        };
        let ended = self.ends.recv().await;
        self.under_way = None;
        Some((ended?, covered))
    }

    /// Time until the commit under way counts as one of a disk that hangs; zero if it does.
    /// `None` without a commit.
    pub(super) fn until_hanging(&self) -> Option<Duration> {
        let under_way = self.under_way.as_ref()?;
        Some(HANGS_AFTER.saturating_sub(under_way.begun.elapsed()))
    }

    /// Waits until the thread has closed the store.
    pub(super) fn close(self) {
        drop(self.batches);
        match self.thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(
                error = &error as &dyn std::error::Error,
                "cannot close the store"
            ),
            Err(_) => tracing::error!("the thread of the store's disk panicked"),
        }
    }
}

//! Where the thread that answers hosts is asked what they have told it.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use rsm_api::{AdministrationError, BoxFuture};
use tokio::sync::{mpsc, oneshot};

use super::gate::Call;
use super::wake;
use crate::publish::Desk;
use crate::sa::{Counters, Holdings, Statistics};

/// How many may wait at once to be told: several connections' worth of requests. They wait as long as the thread takes for
/// what it has at hand.
pub(super) const MAX_VISITORS: usize = 256;

/// Somebody who waits to be told.
pub(super) type Visitor = oneshot::Sender<Holdings>;

/// The way to the thread.
pub(super) struct FrontDesk {
    pub(super) door: mpsc::Sender<Visitor>,
    pub(super) inbox: SyncSender<Call>,
    pub(super) statistics: Arc<Statistics>,
}

impl Desk for FrontDesk {
    fn counters(&self) -> Counters {
        self.statistics.counters()
    }

    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, AdministrationError>> {
        Box::pin(async move {
            let (visitor, told) = oneshot::channel();
            self.door.try_send(visitor).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => AdministrationError::Busy,
                mpsc::error::TrySendError::Closed(_) => AdministrationError::Stopping,
            })?;
            wake(&self.inbox);
            told.await.map_err(|_| AdministrationError::Stopping)
        })
    }
}

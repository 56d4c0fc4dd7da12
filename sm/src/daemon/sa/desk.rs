//! Where the thread that answers hosts is asked what they have told it.

use std::sync::Arc;

use parking_lot::RwLock;
use rsm_api::{BoxFuture, SaError};
use tokio::sync::{mpsc, oneshot};

use super::inbox::Inbox;
use crate::publish::Desk;
use crate::sa::{Counters, Holdings, Standing, Statistics};

/// How many may wait at once to be told: several connections' worth of requests. They wait as long
/// as the thread takes for what it has at hand.
pub(super) const MAX_VISITORS: usize = 256;

/// Somebody who waits to be told.
pub(super) type Visitor = oneshot::Sender<Holdings>;

/// The way to the thread.
pub(super) struct FrontDesk {
    pub(super) door: mpsc::Sender<Visitor>,
    pub(super) inbox: Inbox,
    pub(super) statistics: Arc<Statistics>,
    /// What is answered from.
    pub(super) standing: Arc<RwLock<Standing>>,
}

impl Desk for FrontDesk {
    fn counters(&self) -> Counters {
        self.statistics.counters()
    }

    fn standing(&self) -> Standing {
        self.standing.read().clone()
    }

    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, SaError>> {
        Box::pin(async move {
            let (visitor, told) = oneshot::channel();
            self.door.try_send(visitor).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => SaError::Busy,
                mpsc::error::TrySendError::Closed(_) => SaError::Stopping,
            })?;
            self.inbox.wake();
            told.await.map_err(|_| SaError::Stopping)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::super::gate::Call;
    use super::super::inbox::{Calls, inbox};
    use super::*;

    /// A desk with room for `room` visitors, and both ends of what leads to the thread.
    fn desk(room: usize) -> (FrontDesk, mpsc::Receiver<Visitor>, Calls) {
        let (door, visitors) = mpsc::channel(room);
        let (inbox, calls) = inbox(room);
        let desk = FrontDesk {
            door,
            inbox,
            statistics: Arc::default(),
            standing: Arc::default(),
        };
        (desk, visitors, calls)
    }

    /// What has come of it so far.
    fn look(asked: &mut BoxFuture<'_, Result<Holdings, SaError>>) -> Option<Result<(), SaError>> {
        match asked.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(told) => Some(told.map(drop)),
            Poll::Pending => None,
        }
    }

    #[test]
    fn who_asks_wakes_the_thread_and_is_told() {
        let (desk, mut visitors, calls) = desk(2);
        let mut asked = desk.holdings();
        assert_eq!(look(&mut asked), None);
        assert!(matches!(calls.try_take(), Ok(Call::Wake)));
        let visitor = visitors.try_recv().unwrap();
        assert_eq!(look(&mut asked), None);
        visitor.send(Holdings::default()).unwrap();
        assert_eq!(look(&mut asked), Some(Ok(())));
    }

    #[test]
    fn where_too_many_wait_another_is_sent_away() {
        let (desk, mut visitors, _calls) = desk(1);
        let (mut first, mut second) = (desk.holdings(), desk.holdings());
        assert_eq!(look(&mut first), None);
        assert_eq!(look(&mut second), Some(Err(SaError::Busy)));
        drop(visitors.try_recv().unwrap().send(Holdings::default()));
        assert_eq!(look(&mut first), Some(Ok(())));
        let mut third = desk.holdings();
        assert_eq!(look(&mut third), None);
    }

    #[test]
    fn nobody_waits_for_a_thread_that_has_ended() {
        let (desk, visitors, _calls) = desk(2);
        let mut waiting = desk.holdings();
        assert_eq!(look(&mut waiting), None);
        drop(visitors);
        let stopping = Some(Err(SaError::Stopping));
        assert_eq!(look(&mut waiting), stopping);
        assert_eq!(look(&mut desk.holdings()), stopping);
    }
}

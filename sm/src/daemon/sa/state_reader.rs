//! Passes the API's requests for registrations to the SA's thread, which alone has the
//! registrations.

use std::sync::Arc;

use parking_lot::RwLock;
use rsm_api::{BoxFuture, SaError};
use rsm_sa::{Holdings, SaCounters, SaSnapshot, Statistics};
use rsm_view::publish::SaStateSource;
use tokio::sync::{mpsc, oneshot};

use super::inbox::Inbox;

/// Maximum number of waiting requests, from all connections. The thread answers them after the
/// messages that it has already taken.
pub(super) const MAX_STATE_REQUESTS: usize = 256;

/// Reply channel of a waiting request.
pub(super) type StateRequest = oneshot::Sender<Holdings>;

/// Access of the API to the SA.
pub(super) struct SaStateReader {
    pub(super) requests: mpsc::Sender<StateRequest>,
    pub(super) inbox: Inbox,
    pub(super) statistics: Arc<Statistics>,
    /// Snapshot from which the SA answers.
    pub(super) sa_snapshot: Arc<RwLock<SaSnapshot>>,
}

impl SaStateSource for SaStateReader {
    fn counters(&self) -> SaCounters {
        self.statistics.counters()
    }

    fn sa_snapshot(&self) -> SaSnapshot {
        self.sa_snapshot.read().clone()
    }

    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, SaError>> {
        Box::pin(async move {
            let (state_request, reply) = oneshot::channel();
            self.requests
                .try_send(state_request)
                .map_err(|error| match error {
                    mpsc::error::TrySendError::Full(_) => SaError::Busy,
                    mpsc::error::TrySendError::Closed(_) => SaError::Stopping,
                })?;
            self.inbox.wake();
            reply.await.map_err(|_| SaError::Stopping)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::super::gate::Call;
    use super::super::inbox::{Calls, inbox};
    use super::*;

    /// Creates a reader with room for `room` requests, and the receiving ends of its two channels.
    fn state_source(room: usize) -> (SaStateReader, mpsc::Receiver<StateRequest>, Calls) {
        let (requests, state_requests) = mpsc::channel(room);
        let (inbox, calls) = inbox(room);
        let state_source = SaStateReader {
            requests,
            inbox,
            statistics: Arc::default(),
            sa_snapshot: Arc::default(),
        };
        (state_source, state_requests, calls)
    }

    /// Polls the request once; `None` while there is no result.
    fn poll_once(
        request: &mut BoxFuture<'_, Result<Holdings, SaError>>,
    ) -> Option<Result<(), SaError>> {
        match request
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(reply) => Some(reply.map(drop)),
            Poll::Pending => None,
        }
    }

    #[test]
    fn request_wakes_the_thread_and_gets_the_holdings() {
        let (state_source, mut state_requests, calls) = state_source(2);
        let mut request = state_source.holdings();
        assert_eq!(poll_once(&mut request), None);
        assert!(matches!(calls.try_take(), Ok(Call::Wake)));
        let state_request = state_requests.try_recv().unwrap();
        assert_eq!(poll_once(&mut request), None);
        state_request.send(Holdings::default()).unwrap();
        assert_eq!(poll_once(&mut request), Some(Ok(())));
    }

    #[test]
    fn request_beyond_the_bound_is_busy() {
        let (state_source, mut state_requests, _calls) = state_source(1);
        let (mut first, mut second) = (state_source.holdings(), state_source.holdings());
        assert_eq!(poll_once(&mut first), None);
        assert_eq!(poll_once(&mut second), Some(Err(SaError::Busy)));
        drop(state_requests.try_recv().unwrap().send(Holdings::default()));
        assert_eq!(poll_once(&mut first), Some(Ok(())));
        let mut third = state_source.holdings();
        assert_eq!(poll_once(&mut third), None);
    }

    #[test]
    fn request_fails_after_the_thread_has_ended() {
        let (state_source, state_requests, _calls) = state_source(2);
        let mut waiting = state_source.holdings();
        assert_eq!(poll_once(&mut waiting), None);
        drop(state_requests);
        let stopping = Some(Err(SaError::Stopping));
        assert_eq!(poll_once(&mut waiting), stopping);
        assert_eq!(poll_once(&mut state_source.holdings()), stopping);
    }
}

//! Server-sent events: the status of the subnet, sent again after each change.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use rsm_api::v1::event::Change;
use rsm_api::{CountersQueries, Subnet, v1};
use serde::Serialize;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;

use crate::limits::{CHANGES_EVERY, KEEPALIVE, MAX_FOLLOWERS, PROGRESS_EVERY};
use crate::reply::{self, Reply, failure};
use crate::routes_state::Shared;

/// The media type of server-sent events.
const EVENTS: &str = "text/event-stream";

/// An event without a change: a page that receives no event for long knows that the server has
/// gone.
const ALIVE: &[u8] = b"event: alive\ndata: 1\n\n";

/// A message: the current status, and the changes since the previous message.
#[derive(Serialize)]
struct Message {
    status: v1::SubnetStatus,
    /// The number of events since the previous message, by kind.
    changes: BTreeMap<&'static str, u64>,
    /// The number of events that were dropped before they could be counted by kind.
    lost: u64,
    /// Whether performance counters are read, or have been read, so that the API answers requests
    /// for counters.
    counters: bool,
}

/// A client that follows changes.
struct Follower {
    subnet: Arc<dyn Subnet>,
    counters: Option<Arc<dyn CountersQueries>>,
    events: broadcast::Receiver<Arc<v1::Event>>,
    sender: mpsc::Sender<Result<Bytes, Infallible>>,
}

/// Signals that the client or the subnet manager has gone.
struct PeerGone;

impl Follower {
    async fn run(mut self) -> Result<(), PeerGone> {
        let (mut changes, mut lost) = (BTreeMap::new(), 0);
        loop {
            let next = Instant::now() + CHANGES_EVERY;
            self.send_message(std::mem::take(&mut changes), std::mem::take(&mut lost))
                .await?;
            self.wait(&mut changes, &mut lost).await?;
            sleep_until(next).await;
            loop {
                match self.events.try_recv() {
                    Ok(event) => count(&mut changes, &event),
                    Err(TryRecvError::Lagged(more)) => lost += more,
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
        }
    }

    /// Waits for an event, and keeps the connection alive meanwhile.
    async fn wait(
        &mut self,
        changes: &mut BTreeMap<&'static str, u64>,
        lost: &mut u64,
    ) -> Result<(), PeerGone> {
        loop {
            // Progress is no event: a pass under way is reported at intervals, and once more after
            // its end.
            let is_busy = self.subnet.status().activity.is_some();
            let limit = if is_busy { PROGRESS_EVERY } else { KEEPALIVE };
            let received = tokio::select! {
                received = timeout(limit, self.events.recv()) => received,
                () = self.sender.closed() => return Err(PeerGone),
            };
            match received {
                Ok(Ok(event)) => count(changes, &event),
                Ok(Err(RecvError::Lagged(more))) => *lost += more,
                Ok(Err(RecvError::Closed)) => return Err(PeerGone),
                Err(_elapsed) if is_busy => {}
                Err(_quiet) => {
                    self.send(Bytes::from_static(ALIVE)).await?;
                    continue;
                }
            }
            return Ok(());
        }
    }

    async fn send_message(
        &self,
        changes: BTreeMap<&'static str, u64>,
        lost: u64,
    ) -> Result<(), PeerGone> {
        let counters = self.counters.as_ref();
        let message = Message {
            status: self.subnet.status(),
            changes,
            lost,
            counters: counters.is_some_and(|counters| counters.ports(None, 1, None).is_ok()),
        };
        // JSON on one line has no line break, which would end the field.
        let text = serde_json::to_string(&message).map_err(|_| PeerGone)?;
        self.send(Bytes::from(format!("data: {text}\n\n"))).await
    }

    async fn send(&self, bytes: Bytes) -> Result<(), PeerGone> {
        self.sender.send(Ok(bytes)).await.map_err(|_| PeerGone)
    }
}

fn count(changes: &mut BTreeMap<&'static str, u64>, event: &v1::Event) {
    *changes.entry(kind(event)).or_default() += 1;
}

fn kind(event: &v1::Event) -> &'static str {
    match &event.change {
        None => "unknown",
        Some(Change::StateChanged(_)) => "state",
        Some(Change::NodeAppeared(_) | Change::NodeVanished(_) | Change::NodeChanged(_)) => "node",
        Some(Change::PortAppeared(_) | Change::PortVanished(_) | Change::PortChanged(_)) => "port",
        Some(Change::LinkAppeared(_) | Change::LinkVanished(_) | Change::LinkChanged(_)) => "link",
        Some(Change::RoutesChanged(_)) => "routes",
        Some(Change::FindingRaised(_) | Change::FindingCleared(_)) => "finding",
        Some(Change::ConvergenceFinished(_)) => "convergence",
        Some(Change::ManagerStarted(_)) => "manager",
        Some(Change::OperatorActed(_)) => "operator",
        Some(Change::EventsUnrecorded(_)) => "gap",
    }
}

async fn follow(State(shared): State<Arc<Shared>>) -> Reply {
    let Ok(place) = Arc::clone(&shared.followers).try_acquire_owned() else {
        let text = format!(
            "{MAX_FOLLOWERS} clients follow changes already: close one, or read /api/v1/status"
        );
        return failure(StatusCode::TOO_MANY_REQUESTS, &text);
    };
    let (sender, stream) = mpsc::channel(1);
    let follower = Follower {
        events: shared.subnet.subscribe(),
        subnet: Arc::clone(&shared.subnet),
        counters: shared.counters.clone(),
        sender,
    };
    let mut stopping = shared.stopping.clone();
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            _gone = follower.run() => {}
            _stopping = stopping.wait_for(|stopping| *stopping) => {}
        }
    });
    let stream = Body::from_stream(ReceiverStream::new(stream));
    reply::body(StatusCode::OK, EVENTS, stream)
}

pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/api/v1/changes", get(follow))
}

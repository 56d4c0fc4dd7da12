use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::watch_response::Message;
use rsm_proto::v1::watch_service_server::WatchService;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::paging::Cursor;
use super::request::{event_kind, known_place, past_span, text_filter};
use crate::limits::{ACT_JOURNAL, EVENT_JOURNAL, MAX_WATCHERS};
use crate::model::{EventFilter, HistoryOrder, HistoryQuery};
use crate::refusal::{Reason, manager_stopping, refusal};
use crate::traits::{History, Subnet};

/// The number of messages that may wait for the connection's flow control; more would only hide
/// that a client is slow.
const QUEUED_MESSAGES: usize = 16;

/// The number of events read from the journal at a time when a watcher catches up.
const REPLAY_BATCH: usize = 256;

/// Serves events of the subnet.
#[derive(Clone)]
pub(super) struct Watch {
    pub(super) subnet: Arc<dyn Subnet>,
    pub(super) history: Option<Arc<dyn History>>,
    /// The permits for watchers.
    pub(super) watchers: Arc<Semaphore>,
    /// Becomes true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}

/// The history query of a request with filters, or for the newest events first; `None` for another
/// request. The query covers all records and asks for 0 events: [`Watch::page`] sets both.
fn filtered(request: &v1::ListEventsRequest) -> Result<Option<HistoryQuery>, Status> {
    let node = text_filter("node", request.node.clone())?;
    let cause = text_filter("cause", request.cause.clone())?;
    let kind = event_kind("kind", request.kind)?;
    let (since_unix_ms, until_unix_ms) = past_span(request.since_unix_ms, request.until_unix_ms)?;
    let has_time = since_unix_ms > 0 || until_unix_ms > 0;
    let has_filter = has_time || node.is_some() || cause.is_some() || kind.is_some();
    if !has_filter && !request.newest_first {
        return Ok(None);
    }
    if request.after_sequence > 0 {
        return Err(refusal(
            Reason::InvalidField,
            "after_sequence: sequence numbers are of this run only, give a time instead",
        ));
    }
    Ok(Some(HistoryQuery {
        after: 0,
        before: 0,
        since_unix_ms,
        until_unix_ms,
        filter: EventFilter::new(kind, node.as_deref(), cause.as_deref()),
        order: match request.newest_first {
            true => HistoryOrder::Newest(0),
            false => HistoryOrder::First(0),
        },
    }))
}

impl Watch {
    /// A page of matching events, and the token of the next page, from the history if one is kept,
    /// otherwise from memory.
    async fn page(
        &self,
        cursor: &Cursor<u64>,
        query: HistoryQuery,
    ) -> Result<(Vec<v1::Event>, String), Status> {
        let last = cursor.after.unwrap_or(0);
        let is_newest_first = matches!(query.order, HistoryOrder::Newest(_));
        let query = match is_newest_first {
            true => HistoryQuery {
                before: last,
                order: HistoryOrder::Newest(cursor.limit()),
                ..query
            },
            false => HistoryQuery {
                after: last,
                order: HistoryOrder::First(cursor.limit()),
                ..query
            },
        };
        let mut numbered = match &self.history {
            Some(history) => history.events(query).await?,
            None => self.in_memory(&query),
        };
        if is_newest_first {
            numbered.reverse();
        }
        let token = cursor.cut(&mut numbered, |&(number, _)| number);
        Ok((
            numbered.into_iter().map(|(_, event)| event).collect(),
            token,
        ))
    }

    /// The matching events of this run, which the subnet manager keeps in memory, oldest first.
    fn in_memory(&self, query: &HistoryQuery) -> Vec<(u64, v1::Event)> {
        let kept = self.subnet.events(query.after, EVENT_JOURNAL + ACT_JOURNAL);
        let kept = kept.into_iter();
        let is_wanted = |event: &Arc<v1::Event>| {
            event.at_unix_ms >= query.since_unix_ms
                && (query.until_unix_ms == 0 || event.at_unix_ms < query.until_unix_ms)
                && (query.before == 0 || event.sequence < query.before)
                && query.filter.matches(event)
        };
        let mut wanted: Vec<Arc<v1::Event>> = kept.filter(is_wanted).collect();
        match query.order {
            HistoryOrder::First(limit) => wanted.truncate(limit),
            HistoryOrder::Newest(limit) => {
                wanted.drain(..wanted.len().saturating_sub(limit));
            }
        }
        let numbered = |event: Arc<v1::Event>| (event.sequence, Arc::unwrap_or_clone(event));
        wanted.into_iter().map(numbered).collect()
    }
}

#[tonic::async_trait]
impl WatchService for Watch {
    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        let mut request = request.into_inner();
        let cursor = Cursor::<u64>::take(&mut request)?;
        if let Some(query) = filtered(&request)? {
            let (events, next_page_token) = self.page(&cursor, query).await?;
            if events.is_empty() && cursor.after.is_none() && !request.node.is_empty() {
                known_place(self.subnet.as_ref(), &request.node)?;
            }
            return Ok(Response::new(v1::ListEventsResponse {
                events,
                next_page_token,
            }));
        }
        let after = cursor.after.unwrap_or(request.after_sequence);
        let last = after
            .checked_sub(1)
            .map(|before| self.subnet.events(before, 1));
        if last.is_some_and(|last| last.is_empty()) {
            return Err(refusal(
                Reason::InvalidField,
                format!(
                    "after_sequence: no event has the number {after} or a higher one: numbers begin anew with each run"
                ),
            ));
        }
        let mut events = self.subnet.events(after, cursor.limit());
        let next_page_token = cursor.cut(&mut events, |event| event.sequence);
        Ok(Response::new(v1::ListEventsResponse {
            events: events.into_iter().map(Arc::unwrap_or_clone).collect(),
            next_page_token,
        }))
    }

    type WatchStream = ReceiverStream<Result<v1::WatchResponse, Status>>;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let permit = Arc::clone(&self.watchers)
            .try_acquire_owned()
            .map_err(|_| {
                refusal(
                    Reason::TooManyClients,
                    format!(
                        "{MAX_WATCHERS} clients are watching already: end one, or poll ListEvents"
                    ),
                )
            })?;
        // The watcher subscribes before the first read, so that no event is lost between the two.
        let receiver = self.subnet.subscribe();
        let (sender, stream) = mpsc::channel(QUEUED_MESSAGES);
        let watcher = Watcher {
            subnet: Arc::clone(&self.subnet),
            sender,
            position: Position::default(),
        };
        let mut stopping = self.stopping.clone();
        let after = request.get_ref().after_sequence;
        tokio::spawn(async move {
            let _permit = permit;
            let sender = watcher.sender.clone();
            tokio::select! {
                _gone = watcher.run(receiver, after) => {}
                _stopping = stopping.wait_for(|stopping| *stopping) => {
                    // The server does not wait for a client that does not read: its stream just
                    // ends.
                    drop(sender.try_send(Err(manager_stopping())));
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

/// Signals that the client has ended the stream.
struct Gone;

/// A stream and its position.
struct Watcher {
    subnet: Arc<dyn Subnet>,
    sender: mpsc::Sender<Result<v1::WatchResponse, Status>>,
    position: Position,
}

impl Watcher {
    async fn run(
        mut self,
        mut receiver: broadcast::Receiver<Arc<v1::Event>>,
        after: Option<u64>,
    ) -> Result<(), Gone> {
        let generation = self.subnet.status().generation;
        self.send(Message::Started(v1::WatchStarted { generation }))
            .await?;
        if let Some(after) = after {
            self.replay(after).await?;
        }
        loop {
            let received = tokio::select! {
                received = receiver.recv() => received,
                () = self.sender.closed() => return Err(Gone),
            };
            match received {
                Ok(event) => self.deliver(&event).await?,
                Err(broadcast::error::RecvError::Lagged(count)) => {
                    if let Some(count) = self.position.lagged(count) {
                        self.send(Message::Lost(v1::EventsLost { count })).await?;
                    }
                }
                Err(broadcast::error::RecvError::Closed) => {
                    return self
                        .sender
                        .send(Err(manager_stopping()))
                        .await
                        .map_err(|_| Gone);
                }
            }
        }
    }

    /// Sends the journal's events after `after`.
    async fn replay(&mut self, mut after: u64) -> Result<(), Gone> {
        self.position = Position::at(after);
        let mut any = false;
        loop {
            let batch = self.subnet.events(after, REPLAY_BATCH);
            let Some(last) = batch.last() else { break };
            after = last.sequence;
            any = true;
            for event in &batch {
                self.deliver(event).await?;
            }
        }
        if !any {
            // Either no event follows, or the number is from before a restart of the server, and
            // new events have lower numbers.
            self.position = Position::default();
        }
        Ok(())
    }

    async fn deliver(&mut self, event: &v1::Event) -> Result<(), Gone> {
        let Some(lost) = self.position.advance(event.sequence) else {
            return Ok(());
        };
        if lost > 0 {
            self.send(Message::Lost(v1::EventsLost { count: lost }))
                .await?;
        }
        self.send(Message::Event(event.clone())).await
    }

    async fn send(&self, message: Message) -> Result<(), Gone> {
        let response = v1::WatchResponse {
            message: Some(message),
        };
        self.sender.send(Ok(response)).await.map_err(|_| Gone)
    }
}

/// The position of a stream in the sequence of events.
#[derive(Debug, Default)]
struct Position {
    /// The sequence number of the last event that was delivered or that the client skipped.
    last: Option<u64>,
}

impl Position {
    fn at(sequence: u64) -> Position {
        Position {
            last: Some(sequence),
        }
    }

    /// Advances to an event. Returns the number of events lost before it; `None` if it was already
    /// delivered.
    fn advance(&mut self, sequence: u64) -> Option<u64> {
        let lost = match self.last {
            Some(last) if sequence <= last => return None,
            Some(last) => sequence - last - 1,
            None => 0,
        };
        self.last = Some(sequence);
        Some(lost)
    }

    /// The number of lost events to report when the receiver lags. After the first event,
    /// [`Position::advance`] counts the gap instead, because the journal may have supplied some of
    /// them.
    fn lagged(&self, count: u64) -> Option<u64> {
        self.last.is_none().then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_count_as_lost_and_repetitions_are_skipped() {
        let mut position = Position::default();
        assert_eq!(position.lagged(4), Some(4));
        assert_eq!(position.advance(10), Some(0));
        assert_eq!(position.lagged(4), None);
        assert_eq!(position.advance(15), Some(4));
        assert_eq!(position.advance(15), None);
        assert_eq!(position.advance(12), None);
        assert_eq!(position.advance(16), Some(0));

        assert_eq!(Position::at(7).advance(8), Some(0));
        assert_eq!(Position::at(0).advance(3), Some(2));
    }
}

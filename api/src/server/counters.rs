use std::sync::Arc;
use std::time::Duration;

use rsm_proto::v1;
use rsm_proto::v1::counters_service_server::CountersService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::paging::Listing;
use super::request::{port_order, selector};
use crate::blocking;
use crate::error::CountersError;
use crate::limits::{
    DEFAULT_TOP_EVERY, DEFAULT_TOP_PORTS, MAX_SERIES_STEPS, MAX_TOP_PORTS, MAX_WATCHERS, TOP_EVERY,
};
use crate::model::{PastSpan, PortOrder, Selector};
use crate::refusal::{Reason, manager_stopping, no_subnet, panicked, refusal};
use crate::traits::CountersQueries;

/// The number of messages that may wait for the connection's flow control: a later message makes an
/// earlier one obsolete.
const QUEUED_MESSAGES: usize = 1;

/// Serves the performance counters of ports.
#[derive(Clone)]
pub(super) struct Counters {
    pub(super) counters: Option<Arc<dyn CountersQueries>>,
    /// The permits for answers from the past.
    pub(super) past_permits: Arc<Semaphore>,
    /// The permits for answers that examine every port.
    pub(super) top_permits: Arc<Semaphore>,
    /// The permits for watchers.
    pub(super) watchers: Arc<Semaphore>,
    /// Becomes true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}

impl Counters {
    fn counters(&self) -> Result<&Arc<dyn CountersQueries>, Status> {
        self.counters.as_ref().ok_or_else(no_subnet)
    }
}

/// The span of a request.
fn past_span(
    counters: &Arc<dyn CountersQueries>,
    since_unix_ms: u64,
    until_unix_ms: u64,
) -> Result<PastSpan, Status> {
    let until_unix_ms = match until_unix_ms {
        0 => counters.now_unix_ms(),
        until => until,
    };
    if since_unix_ms == 0 || since_unix_ms >= until_unix_ms {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "since_unix_ms: {since_unix_ms} is not a time before until_unix_ms, {until_unix_ms}"
            ),
        ));
    }
    Ok(PastSpan {
        since_unix_ms,
        until_unix_ms,
    })
}

/// The requested length of a step in seconds; `None` to derive it from the span.
fn step(step_seconds: u32, span: PastSpan) -> Result<Option<u32>, Status> {
    let Some(step_ms) = u64::from(step_seconds)
        .checked_mul(1000)
        .filter(|&ms| ms > 0)
    else {
        return Ok(None);
    };
    let steps = (span.until_unix_ms - span.since_unix_ms) / step_ms;
    if steps > MAX_SERIES_STEPS {
        return Err(refusal(
            Reason::InvalidField,
            format!(
                "step_seconds: {step_seconds} makes {steps} steps of this span, expected at most {MAX_SERIES_STEPS}: \
             give a longer step or a shorter span"
            ),
        ));
    }
    Ok(Some(step_seconds))
}

/// Runs `work` on a thread that may wait for a disk, as soon as `permits` has a free permit.
async fn from_past<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, CountersError> + Send + 'static,
) -> Result<Response<T>, Status> {
    let answer = blocking::at_place(permits, work).await;
    let answer = answer.map_err(|error| panicked(&error))?;
    Ok(Response::new(answer?))
}

/// The requested number of ports, or the default.
fn top_limit(limit: u32) -> usize {
    match limit {
        0 => DEFAULT_TOP_PORTS,
        limit => usize::try_from(limit).map_or(MAX_TOP_PORTS, |limit| limit.min(MAX_TOP_PORTS)),
    }
}

/// A query for the ports that rank first.
#[derive(Clone)]
struct Top {
    counters: Arc<dyn CountersQueries>,
    /// The permits for answers that examine every port.
    permits: Arc<Semaphore>,
    order: PortOrder,
    limit: usize,
    part: Option<Selector>,
}

impl Top {
    fn of(served: &Counters, request: &v1::GetTopPortsRequest) -> Result<Top, Status> {
        Ok(Top {
            counters: Arc::clone(served.counters()?),
            permits: Arc::clone(&served.top_permits),
            order: port_order("order", request.order)?,
            limit: top_limit(request.limit),
            part: part(&request.part)?,
        })
    }

    /// Examines every port, on a thread for blocking work, as soon as `permits` has a free permit.
    async fn answer(&self) -> Result<v1::GetTopPortsResponse, Status> {
        let top = self.clone();
        let ranked = blocking::at_place(&self.permits, move || {
            top.counters.top(top.order, top.limit, top.part.as_ref())
        });
        let answer = ranked.await;
        let answer = answer.map_err(|error| panicked(&error))?;
        Ok(answer?)
    }
}

fn part(text: &str) -> Result<Option<Selector>, Status> {
    match text {
        "" => Ok(None),
        text => Ok(Some(selector("part", text)?)),
    }
}

/// The requested interval between two messages, or the default.
fn interval(request: &v1::WatchTopPortsRequest) -> Result<Duration, Status> {
    let interval = match request.interval_ms {
        0 => return Ok(DEFAULT_TOP_EVERY),
        interval => Duration::from_millis(interval.into()),
    };
    if TOP_EVERY.contains(&interval) {
        return Ok(interval);
    }
    Err(refusal(
        Reason::InvalidField,
        format!(
            "interval_ms: {} is out of range, expected {} to {}, or 0 for {}",
            request.interval_ms,
            TOP_EVERY.start().as_millis(),
            TOP_EVERY.end().as_millis(),
            DEFAULT_TOP_EVERY.as_millis()
        ),
    ))
}

/// The stream of one client.
type TopStream = ReceiverStream<Result<v1::WatchTopPortsResponse, Status>>;

/// Answers `top` repeatedly for a client that holds the `permit` of a watcher.
fn follow(
    top: Top,
    every: Duration,
    mut stopping: watch::Receiver<bool>,
    permit: OwnedSemaphorePermit,
) -> TopStream {
    let (sender, stream) = mpsc::channel(QUEUED_MESSAGES);
    tokio::spawn(async move {
        let _permit = permit;
        tokio::select! {
            () = answer_repeatedly(&top, every, &sender) => {}
            _stopping = stopping.wait_for(|stopping| *stopping) => {
                // The server does not wait for a client that does not read: its stream just ends.
                drop(sender.try_send(Err(manager_stopping())));
            }
            () = sender.closed() => {}
        }
    });
    ReceiverStream::new(stream)
}

/// Sends an answer at once and then after each interval `every`. Returns after the first refusal,
/// or when the client has ended the stream.
async fn answer_repeatedly(
    top: &Top,
    every: Duration,
    sender: &mpsc::Sender<Result<v1::WatchTopPortsResponse, Status>>,
) {
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Reserving room first keeps a slow client from getting an outdated answer.
        let Ok(room) = sender.reserve().await else {
            return;
        };
        let answer = top.answer().await;
        let ends = answer.is_err();
        room.send(answer.map(|top| v1::WatchTopPortsResponse { top: Some(top) }));
        if ends {
            return;
        }
    }
}

#[tonic::async_trait]
impl CountersService for Counters {
    async fn list_port_counters(
        &self,
        request: Request<v1::ListPortCountersRequest>,
    ) -> Result<Response<v1::ListPortCountersResponse>, Status> {
        let (request, listing) = Listing::of(request)?;
        let part = part(&request.part)?;
        let page = self
            .counters()?
            .ports(listing.after(), listing.limit(), part.as_ref())?;
        listing.answer_keyed(page)
    }

    async fn list_device_firmware(
        &self,
        request: Request<v1::ListDeviceFirmwareRequest>,
    ) -> Result<Response<v1::ListDeviceFirmwareResponse>, Status> {
        let (_, listing) = Listing::of(request)?;
        let page = self.counters()?.firmware(listing.after(), listing.limit());
        listing.answer_keyed(page)
    }

    async fn get_top_ports(
        &self,
        request: Request<v1::GetTopPortsRequest>,
    ) -> Result<Response<v1::GetTopPortsResponse>, Status> {
        let top = Top::of(self, &request.into_inner())?;
        Ok(Response::new(top.answer().await?))
    }

    async fn get_counter_series(
        &self,
        request: Request<v1::GetCounterSeriesRequest>,
    ) -> Result<Response<v1::GetCounterSeriesResponse>, Status> {
        let request = request.into_inner();
        let counters = Arc::clone(self.counters()?);
        let span = past_span(&counters, request.since_unix_ms, request.until_unix_ms)?;
        let (part, step) = (part(&request.part)?, step(request.step_seconds, span)?);
        let work = move || counters.series(part.as_ref(), span, step);
        from_past(&self.past_permits, work).await
    }

    async fn get_port_trends(
        &self,
        request: Request<v1::GetPortTrendsRequest>,
    ) -> Result<Response<v1::GetPortTrendsResponse>, Status> {
        let request = request.into_inner();
        let counters = Arc::clone(self.counters()?);
        let span = past_span(&counters, request.since_unix_ms, request.until_unix_ms)?;
        let node = selector("node", &request.node)?;
        let step = step(request.step_seconds, span)?;
        let work = move || counters.trends(&node, span, step);
        from_past(&self.past_permits, work).await
    }

    async fn get_top_ports_since(
        &self,
        request: Request<v1::GetTopPortsSinceRequest>,
    ) -> Result<Response<v1::GetTopPortsSinceResponse>, Status> {
        let request = request.into_inner();
        let counters = Arc::clone(self.counters()?);
        let span = past_span(&counters, request.since_unix_ms, request.until_unix_ms)?;
        let order = match request.order {
            0 => PortOrder::Errors,
            order => port_order("order", order)?,
        };
        if order == PortOrder::Use {
            return Err(refusal(
                Reason::InvalidField,
                "order: the past has no rates of links, expected traffic, wait or errors",
            ));
        }
        let (limit, part) = (top_limit(request.limit), part(&request.part)?);
        let work = move || counters.top_since(order, limit, part.as_ref(), span);
        from_past(&self.past_permits, work).await
    }

    type WatchTopPortsStream = TopStream;

    async fn watch_top_ports(
        &self,
        request: Request<v1::WatchTopPortsRequest>,
    ) -> Result<Response<TopStream>, Status> {
        let request = request.into_inner();
        let top = Top::of(self, &request.top.clone().unwrap_or_default())?;
        let every = interval(&request)?;
        let permit = Arc::clone(&self.watchers)
            .try_acquire_owned()
            .map_err(|_| {
                refusal(
                    Reason::TooManyClients,
                    format!(
                        "{MAX_WATCHERS} clients are watching, no more are served at the same time"
                    ),
                )
            })?;
        Ok(Response::new(follow(
            top,
            every,
            self.stopping.clone(),
            permit,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_out_of_range_are_refused_with_the_range() {
        let asked = |interval_ms| {
            interval(&v1::WatchTopPortsRequest {
                top: None,
                interval_ms,
            })
        };
        assert_eq!(asked(0).unwrap(), DEFAULT_TOP_EVERY);
        assert_eq!(asked(200).unwrap(), Duration::from_millis(200));
        for wrong in [1, 199, 3_600_001, u32::MAX] {
            let refusal = asked(wrong).unwrap_err();
            assert!(refusal.message().contains("200 to 3600000"), "{refusal}");
        }
    }
}

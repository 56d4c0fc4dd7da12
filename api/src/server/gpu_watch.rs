//! Streams changes of GPU hosts.

use std::sync::Arc;

use rsm_gdr::Analysis;
use rsm_proto::v1;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::gpu_messages;
use crate::blocking;
use crate::gpu::Gpus;
use crate::refusal::{manager_stopping, panicked};
use crate::traits::Subnet;

/// The number of messages that may wait for the connection's flow control: each contains all
/// changes since the previous one.
const QUEUED_MESSAGES: usize = 1;

/// The stream of one client.
pub(super) type GpuStream = ReceiverStream<Result<v1::WatchGpuHostsResponse, Status>>;

/// The source of a stream.
pub(super) struct Source {
    pub(super) gpus: Arc<dyn Gpus>,
    /// The permits for answers from the analysis.
    pub(super) analyses: Arc<Semaphore>,
    pub(super) subnet: Arc<dyn Subnet>,
    /// Becomes true when the server stops.
    pub(super) stopping: watch::Receiver<bool>,
}

/// Streams the changes of `source` to a client that holds the `permit` of a watcher.
pub(super) fn follow(source: Source, permit: OwnedSemaphorePermit) -> GpuStream {
    let (sender, stream) = mpsc::channel(QUEUED_MESSAGES);
    let mut stopping = source.stopping.clone();
    // The watcher subscribes before the first read, so that no change is lost between the two.
    let watcher = Watcher {
        inventories: source.gpus.changes(),
        events: source.subnet.subscribe(),
        gpus: source.gpus,
        analyses: source.analyses,
        sender: sender.clone(),
        reported: None,
    };
    tokio::spawn(async move {
        let _permit = permit;
        tokio::select! {
            ended = watcher.run() => {
                if let Err(Ended::Stopped(status)) = ended {
                    drop(sender.try_send(Err(status)));
                }
            }
            _stopping = stopping.wait_for(|stopping| *stopping) => {
                // The server does not wait for a client that does not read: its stream just ends.
                drop(sender.try_send(Err(manager_stopping())));
            }
        }
    });
    ReceiverStream::new(stream)
}

/// The reason why the stream ends.
enum Ended {
    /// The client has ended the stream.
    Gone,
    /// The server cannot continue.
    Stopped(Status),
}

struct Watcher {
    gpus: Arc<dyn Gpus>,
    analyses: Arc<Semaphore>,
    inventories: watch::Receiver<u64>,
    events: broadcast::Receiver<Arc<v1::Event>>,
    sender: mpsc::Sender<Result<v1::WatchGpuHostsResponse, Status>>,
    /// The analysis that the client knows from the messages so far; `None` before the first one.
    reported: Option<Arc<Analysis>>,
}

impl Watcher {
    async fn run(mut self) -> Result<(), Ended> {
        loop {
            self.report().await?;
            let stopped = || Ended::Stopped(manager_stopping());
            tokio::select! {
                changed = self.inventories.changed() => changed.map_err(|_| stopped())?,
                event = self.events.recv() => {
                    if let Err(broadcast::error::RecvError::Closed) = event {
                        return Err(stopped());
                    }
                    // One message covers all events up to now, including lost ones.
                    while !matches!(
                        self.events.try_recv(),
                        Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed)
                    ) {}
                }
                () = self.sender.closed() => return Err(Ended::Gone),
            }
        }
    }

    /// Sends the changes since the last message, if there are any.
    async fn report(&mut self) -> Result<(), Ended> {
        let (gpus, reported) = (self.gpus.clone(), self.reported.clone());
        let work = blocking::at_place(&self.analyses, move || {
            let analysis = gpus.analysis();
            let message = changes(reported.as_deref(), &analysis);
            (analysis, message)
        });
        let done = work.await;
        let (analysis, message) = done.map_err(|error| Ended::Stopped(panicked(&error)))?;
        self.reported = Some(analysis);
        match message {
            None => Ok(()),
            Some(message) => {
                let sent = self.sender.send(Ok(message)).await;
                sent.map_err(|_| Ended::Gone)
            }
        }
    }
}

/// The generation of the fabric in the analysis; 0 without a fabric.
fn generation(analysis: &Analysis) -> u64 {
    analysis
        .fabric
        .as_ref()
        .map_or(0, |fabric| fabric.generation)
}

/// The message about the hosts that differ between `before` and `now`; `None` if there are none and
/// the generation is equal, too.
fn changes(before: Option<&Analysis>, now: &Analysis) -> Option<v1::WatchGpuHostsResponse> {
    let shown = |analysis: &Analysis, place: usize| {
        (
            gpu_messages::host(analysis, place),
            gpu_messages::hints(analysis, place),
        )
    };
    let changed = |place: &usize| {
        let known = before.and_then(|before| {
            let at = before.place(&now.hosts[*place].name)?;
            Some(shown(before, at))
        });
        known != Some(shown(now, *place))
    };
    let name = |analysis: &Analysis, place: usize| analysis.hosts[place].name.clone();
    let hosts: Vec<String> = (0..now.hosts.len())
        .filter(changed)
        .map(|place| name(now, place))
        .collect();
    let gone: Vec<String> = before.map_or_else(Vec::new, |before| {
        (0..before.hosts.len())
            .filter(|&place| now.place(&before.hosts[place].name).is_none())
            .map(|place| name(before, place))
            .collect()
    });
    let same = before.is_some_and(|before| generation(before) == generation(now));
    if same && hosts.is_empty() && gone.is_empty() {
        return None;
    }
    Some(v1::WatchGpuHostsResponse {
        generation: generation(now),
        hosts,
        gone,
        // The number is bounded: each finding concerns a port or GPU of a bounded number of hosts.
        findings: now.findings.len() as u32,
    })
}

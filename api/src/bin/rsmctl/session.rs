use rsm_api::client::{Connection, connect_as, default_endpoints};
use rsm_proto::List;
use rsm_proto::v1::blame_service_client::BlameServiceClient;
use rsm_proto::v1::convergence_service_client::ConvergenceServiceClient;
use rsm_proto::v1::counters_service_client::CountersServiceClient;
use rsm_proto::v1::difference_service_client::DifferenceServiceClient;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_proto::v1::gpu_service_client::GpuServiceClient;
use rsm_proto::v1::maintenance_service_client::MaintenanceServiceClient;
use rsm_proto::v1::multicast_service_client::MulticastServiceClient;
use rsm_proto::v1::partition_service_client::PartitionServiceClient;
use rsm_proto::v1::routing_service_client::RoutingServiceClient;
use rsm_proto::v1::sa_service_client::SaServiceClient;
use rsm_proto::v1::simulation_service_client::SimulationServiceClient;
use rsm_proto::v1::watch_service_client::WatchServiceClient;
use tokio::signal::ctrl_c;
use tonic::{Response, Status, Streaming};

use crate::arguments::Global;
use crate::failure::Failure;
use crate::output::Output;

/// A connection to the server, and the output of the command.
pub(crate) struct Session {
    channel: Connection,
    pub(crate) output: Output,
}

impl Session {
    /// Connects to the given server, or to the first default server that answers.
    pub(crate) async fn open(global: Global) -> Result<Session, Failure> {
        let output = Output::of(&global)?;
        let credentials = global.credentials()?;
        if let Some(endpoint) = global.endpoint() {
            return match connect_as(&endpoint, &credentials).await {
                Ok(channel) => Ok(Session { channel, output }),
                Err(error) => Err(Failure::unreachable(&error)),
            };
        }
        let mut tried = Vec::new();
        for endpoint in default_endpoints(|name| std::env::var_os(name)) {
            match connect_as(&endpoint, &credentials).await {
                Ok(channel) => return Ok(Session { channel, output }),
                Err(error) => tried.push((endpoint, error)),
            }
        }
        Err(Failure::nowhere(&tried))
    }

    /// Ends the output of a command; the result covers both the command and its output.
    pub(crate) fn end(mut self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        // The output of a failed command is flushed before its failure.
        let finished = self.output.finish();
        match outcome {
            // A pager that cannot be run reads nothing; `finished` has the reason.
            Err(Failure::ReaderGone) => finished.and(Err(Failure::ReaderGone)),
            outcome => outcome
                .and(finished)
                .and_then(|()| self.output.check_options()),
        }
    }

    pub(crate) fn fabric(&self) -> FabricServiceClient<Connection> {
        FabricServiceClient::new(self.channel.clone())
    }

    pub(crate) fn convergence(&self) -> ConvergenceServiceClient<Connection> {
        ConvergenceServiceClient::new(self.channel.clone())
    }

    pub(crate) fn difference(&self) -> DifferenceServiceClient<Connection> {
        DifferenceServiceClient::new(self.channel.clone())
    }

    pub(crate) fn blame(&self) -> BlameServiceClient<Connection> {
        BlameServiceClient::new(self.channel.clone())
    }

    pub(crate) fn partitions(&self) -> PartitionServiceClient<Connection> {
        PartitionServiceClient::new(self.channel.clone())
    }

    pub(crate) fn maintenance(&self) -> MaintenanceServiceClient<Connection> {
        MaintenanceServiceClient::new(self.channel.clone())
    }

    pub(crate) fn multicast(&self) -> MulticastServiceClient<Connection> {
        MulticastServiceClient::new(self.channel.clone())
    }

    pub(crate) fn sa(&self) -> SaServiceClient<Connection> {
        SaServiceClient::new(self.channel.clone())
    }

    pub(crate) fn counters(&self) -> CountersServiceClient<Connection> {
        CountersServiceClient::new(self.channel.clone())
    }

    pub(crate) fn routing(&self) -> RoutingServiceClient<Connection> {
        RoutingServiceClient::new(self.channel.clone())
    }

    pub(crate) fn gpu(&self) -> GpuServiceClient<Connection> {
        GpuServiceClient::new(self.channel.clone())
    }

    pub(crate) fn watch(&self) -> WatchServiceClient<Connection> {
        WatchServiceClient::new(self.channel.clone())
    }

    pub(crate) fn simulation(&self) -> SimulationServiceClient<Connection> {
        SimulationServiceClient::new(self.channel.clone())
    }
}

/// The next message of a stream; `None` when the server ends it or the operator interrupts.
pub(crate) async fn next_message<M>(stream: &mut Streaming<M>) -> Result<Option<M>, Failure> {
    tokio::select! {
        message = stream.message() => Ok(message?),
        interrupted = ctrl_c() => interrupted.map(|()| None).map_err(Failure::Output),
    }
}

/// All items of the list that `request` selects, regardless of its page fields; `fetch` gets one
/// page.
pub(crate) async fn all_pages<Q: List + Clone>(
    request: Q,
    mut fetch: impl AsyncFnMut(Q) -> Result<Response<Q::Response>, Status>,
) -> Result<Vec<Q::Item>, Failure> {
    let mut items = Vec::new();
    let mut token = String::new();
    loop {
        let mut request = request.clone();
        request.set_page(PAGE_SIZE, token);
        let (page, next) = Q::page(fetch(request).await?.into_inner());
        items.extend(page);
        if next.is_empty() {
            return Ok(items);
        }
        token = next;
    }
}

/// The server's maximum page size, which minimises round trips for whole lists.
pub(crate) const PAGE_SIZE: u32 = rsm_api::limits::MAX_PAGE_SIZE as u32;

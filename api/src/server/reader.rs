//! The reading methods of the gRPC services, for callers in this process.

use std::sync::Arc;

use rsm_proto::v1;
use rsm_proto::v1::convergence_service_server::ConvergenceService as _;
use rsm_proto::v1::counters_service_server::CountersService as _;
use rsm_proto::v1::fabric_service_server::FabricService as _;
use rsm_proto::v1::gpu_service_server::GpuService as _;
use rsm_proto::v1::maintenance_service_server::MaintenanceService as _;
use rsm_proto::v1::multicast_service_server::MulticastService as _;
use rsm_proto::v1::partition_service_server::PartitionService as _;
use rsm_proto::v1::routing_service_server::RoutingService as _;
use rsm_proto::v1::sa_service_server::SaService as _;
use rsm_proto::v1::watch_service_server::WatchService as _;
use tokio::sync::{Semaphore, watch as signal};
use tonic::{Request, Status};

use super::acts::ActionRecorder;
use super::{
    Backend, convergence, counters, fabric, gpu, maintenance, multicast, partition, routing, sa,
    watch,
};
use crate::access::{Caller, Grant, Proof, Role};
use crate::limits::{
    MAX_ANALYSIS_READERS, MAX_FILE_READERS, MAX_PAST_READERS, MAX_TOP_READERS, MAX_WATCHERS,
};

/// Offers the reading methods of all services, with the requests, limits and refusals of gRPC.
pub struct Reader {
    fabric: fabric::Fabric,
    convergence: convergence::Convergences,
    partition: partition::Partitions,
    routing: routing::Routes,
    maintenance: maintenance::Maintenance,
    multicast: multicast::Multicast,
    sa: sa::SaServer,
    counters: counters::Counters,
    watch: watch::Watch,
    gpu: gpu::GpuHints,
    /// The caller, as gRPC's guard would determine it: this process, with the right to read.
    caller: Arc<Caller>,
}

impl Reader {
    /// Creates a reader of `backend`. The reader's status has no connections, because connections
    /// belong to gRPC's listeners.
    pub fn new(backend: &Backend, stopping: signal::Receiver<bool>) -> Reader {
        let subnet = || Arc::clone(&backend.subnet);
        let control = || Arc::clone(&backend.control);
        let acts = || ActionRecorder::new(backend.actions.clone());
        let watchers = Arc::new(Semaphore::new(MAX_WATCHERS));
        Reader {
            fabric: fabric::Fabric {
                subnet: subnet(),
                reports: backend.reports.clone(),
                connections: None,
            },
            convergence: convergence::Convergences {
                subnet: subnet(),
                control: control(),
                history: backend.history.clone(),
                acts: acts(),
            },
            partition: partition::Partitions {
                subnet: subnet(),
                control: control(),
                acts: acts(),
            },
            routing: routing::Routes {
                routing: Arc::clone(&backend.routing),
                control: control(),
                acts: acts(),
            },
            maintenance: maintenance::Maintenance {
                subnet: subnet(),
                control: control(),
                acts: acts(),
            },
            multicast: multicast::Multicast {
                subnet: subnet(),
                sa: backend.sa.clone(),
            },
            sa: sa::SaServer {
                subnet: subnet(),
                sa: backend.sa.clone(),
            },
            counters: counters::Counters {
                counters: backend.counters.clone(),
                past_permits: Arc::new(Semaphore::new(MAX_PAST_READERS)),
                top_permits: Arc::new(Semaphore::new(MAX_TOP_READERS)),
                watchers: Arc::clone(&watchers),
                stopping: stopping.clone(),
            },
            watch: watch::Watch {
                subnet: subnet(),
                history: backend.history.clone(),
                watchers: Arc::clone(&watchers),
                stopping: stopping.clone(),
            },
            gpu: gpu::GpuHints {
                gpus: backend.gpus.clone(),
                subnet: subnet(),
                watchers,
                analyses: Arc::new(Semaphore::new(MAX_ANALYSIS_READERS)),
                readers: Arc::new(Semaphore::new(MAX_FILE_READERS)),
                stopping,
                acts: acts(),
            },
            caller: Arc::new(Caller::new("http", Proof::None, Grant::of(&[Role::Read]))),
        }
    }
}

/// Declares methods of [`Reader`], each of which calls the method of this name in a service.
macro_rules! methods {
    ($($service:ident: $($method:ident($request:ident) -> $response:ident),+;)+) => {
        impl Reader {
            $($(
                #[doc = concat!("Answers [`v1::", stringify!($request), "`] as gRPC does.")]
                ///
                /// # Errors
                /// The refusals of gRPC: the request is malformed, or names something that does not
                /// exist.
                pub async fn $method(
                    &self,
                    request: v1::$request,
                ) -> Result<v1::$response, Status> {
                    let mut request = Request::new(request);
                    request.extensions_mut().insert(Arc::clone(&self.caller));
                    let answer = self.$service.$method(request).await?;
                    Ok(answer.into_inner())
                }
            )+)+
        }
    };
}

methods! {
    fabric:
        get_status(GetStatusRequest) -> GetStatusResponse,
        get_report(GetReportRequest) -> GetReportResponse,
        list_nodes(ListNodesRequest) -> ListNodesResponse,
        get_node(GetNodeRequest) -> GetNodeResponse,
        list_ports(ListPortsRequest) -> ListPortsResponse,
        list_virtual_ports(ListVirtualPortsRequest) -> ListVirtualPortsResponse,
        list_congestion_agents(ListCongestionAgentsRequest) -> ListCongestionAgentsResponse,
        get_port(GetPortRequest) -> GetPortResponse,
        list_links(ListLinksRequest) -> ListLinksResponse,
        get_forwarding_table(GetForwardingTableRequest) -> GetForwardingTableResponse,
        resolve_route(ResolveRouteRequest) -> ResolveRouteResponse,
        list_findings(ListFindingsRequest) -> ListFindingsResponse,
        list_missing(ListMissingRequest) -> ListMissingResponse,
        list_design_moves(ListDesignMovesRequest) -> ListDesignMovesResponse;
    convergence:
        list_convergences(ListConvergencesRequest) -> ListConvergencesResponse,
        get_activity(GetActivityRequest) -> GetActivityResponse;
    partition:
        list_partitions(ListPartitionsRequest) -> ListPartitionsResponse,
        list_partition_members(ListPartitionMembersRequest) -> ListPartitionMembersResponse,
        list_partition_guids(ListPartitionGuidsRequest) -> ListPartitionGuidsResponse;
    routing:
        list_engines(ListEnginesRequest) -> ListEnginesResponse,
        get_routing_quality(GetRoutingQualityRequest) -> GetRoutingQualityResponse,
        foresee_loss(ForeseeLossRequest) -> ForeseeLossResponse,
        get_cable_use(GetCableUseRequest) -> GetCableUseResponse,
        list_cable_hosts(ListCableHostsRequest) -> ListCableHostsResponse;
    maintenance:
        list_drained(ListDrainedRequest) -> ListDrainedResponse;
    multicast:
        list_multicast_groups(ListMulticastGroupsRequest) -> ListMulticastGroupsResponse,
        get_multicast_group(GetMulticastGroupRequest) -> GetMulticastGroupResponse,
        list_multicast_members(ListMulticastMembersRequest) -> ListMulticastMembersResponse,
        list_multicast_switches(ListMulticastSwitchesRequest) -> ListMulticastSwitchesResponse;
    sa:
        get_sa_counters(GetSaCountersRequest) -> GetSaCountersResponse,
        resolve_path(ResolvePathRequest) -> ResolvePathResponse,
        get_qos(GetQosRequest) -> GetQosResponse,
        list_services(ListServicesRequest) -> ListServicesResponse,
        list_subscriptions(ListSubscriptionsRequest) -> ListSubscriptionsResponse,
        list_alias_guids(ListAliasGuidsRequest) -> ListAliasGuidsResponse;
    counters:
        list_port_counters(ListPortCountersRequest) -> ListPortCountersResponse,
        get_top_ports(GetTopPortsRequest) -> GetTopPortsResponse,
        get_counter_series(GetCounterSeriesRequest) -> GetCounterSeriesResponse,
        get_port_trends(GetPortTrendsRequest) -> GetPortTrendsResponse,
        get_top_ports_since(GetTopPortsSinceRequest) -> GetTopPortsSinceResponse;
    watch:
        list_events(ListEventsRequest) -> ListEventsResponse;
    gpu:
        list_gpu_hosts(ListGpuHostsRequest) -> ListGpuHostsResponse,
        get_gpu_hints(GetGpuHintsRequest) -> GetGpuHintsResponse,
        get_gpu_pair(GetGpuPairRequest) -> GetGpuPairResponse,
        get_gpu_status(GetGpuStatusRequest) -> GetGpuStatusResponse,
        export_gpu_file(ExportGpuFileRequest) -> ExportGpuFileResponse;
}

//! Reflection in both versions, and health.

use tokio_stream::once;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::fake::Fake;
use crate::served::Served;

const SERVICES: [&str; 12] = [
    "rsm.v1.BlameService",
    "rsm.v1.SaService",
    "rsm.v1.ConvergenceService",
    "rsm.v1.CountersService",
    "rsm.v1.FabricService",
    "rsm.v1.GpuService",
    "rsm.v1.MaintenanceService",
    "rsm.v1.MulticastService",
    "rsm.v1.PartitionService",
    "rsm.v1.RoutingService",
    "rsm.v1.SimulationService",
    "rsm.v1.WatchService",
];

macro_rules! services {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::ServerReflectionRequest;
        use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;

        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut client = ServerReflectionClient::new($channel);
        let answer = client.server_reflection_info(once(request)).await.unwrap();
        let first = answer.into_inner().message().await.unwrap().unwrap();
        match first.message_response.unwrap() {
            MessageResponse::ListServicesResponse(list) => list
                .service
                .into_iter()
                .map(|service| service.name)
                .collect::<Vec<_>>(),
            other => panic!("expected a list of services, got {other:?}"),
        }
    }};
}

async fn listed(channel: Channel) -> [Vec<String>; 2] {
    [services!(v1, channel.clone()), services!(v1alpha, channel)]
}

#[test]
fn both_versions_list_every_service() {
    let served = Served::start(Fake::tree(1, 1));
    for channel in [served.unix(), served.tcp()] {
        for services in served.block_on(listed(channel)) {
            for service in SERVICES {
                assert!(services.iter().any(|name| name == service), "{services:?}");
            }
        }
    }
}

#[test]
fn every_service_is_healthy() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = HealthClient::new(served.tcp());
    for service in SERVICES.into_iter().chain([""]) {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = served.block_on(client.check(request)).unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
}

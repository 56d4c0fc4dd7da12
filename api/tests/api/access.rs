//! Access: the socket serves everything, TCP serves reading unless --insecure-admin is set.

use std::os::unix::fs::PermissionsExt;

use rsm_api::model::{Selector, SimulationAction};
use rsm_ids::PortNum;
use rsm_proto::v1;
use rsm_proto::v1::convergence_service_client::ConvergenceServiceClient;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use rsm_proto::v1::simulation_service_client::SimulationServiceClient;
use tonic::Code;
use tonic::transport::Channel;

use crate::fake::Fake;
use crate::served::{Served, Wanted};

async fn resweep(channel: Channel) -> Result<u64, tonic::Status> {
    let request = v1::ResweepRequest {
        full: true,
        ..Default::default()
    };
    let answer = ConvergenceServiceClient::new(channel)
        .resweep(request)
        .await?;
    Ok(answer.into_inner().convergence.unwrap().generation)
}

async fn unlink(channel: Channel) -> Result<(), tonic::Status> {
    let request = v1::UnlinkRequest {
        node: "leaf-1".to_owned(),
        port: 1,
    };
    SimulationServiceClient::new(channel)
        .unlink(request)
        .await?;
    Ok(())
}

#[test]
fn tcp_serves_reading_only() {
    let served = Served::start(Fake::tree(1, 1));
    let status =
        served.block_on(FabricServiceClient::new(served.tcp()).get_status(v1::GetStatusRequest {}));
    assert_eq!(status.unwrap().into_inner().status.unwrap().switches, 2);

    let refusals = [
        served.block_on(resweep(served.tcp())).unwrap_err(),
        served.block_on(unlink(served.tcp())).unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.code(), Code::PermissionDenied);
        let message = refusal.message();
        assert!(
            message.contains(served.socket.to_str().unwrap()),
            "{message}"
        );
        assert!(message.contains("--insecure-admin"), "{message}");
    }
    assert!(served.fake.actions.lock().is_empty());
    assert_eq!(served.fake.convergences.lock().len(), 1);
}

#[test]
fn the_socket_serves_everything() {
    let served = Served::start(Fake::tree(1, 1));
    let mode = std::fs::metadata(&served.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o660);
    assert_eq!(served.block_on(resweep(served.unix())).unwrap(), 8);
    served.block_on(unlink(served.unix())).unwrap();
    let expected = SimulationAction::Unlink {
        node: Selector::Description("leaf-1".to_owned()),
        port: Some(PortNum(1)),
    };
    assert_eq!(*served.fake.actions.lock(), [expected]);
}

#[test]
fn insecure_admin_opens_tcp() {
    let wanted = Wanted {
        insecure_admin: true,
        ..Wanted::default()
    };
    let served = Served::start_as(Fake::tree(1, 1), wanted);
    assert_eq!(served.block_on(resweep(served.tcp())).unwrap(), 8);
    served.block_on(unlink(served.tcp())).unwrap();
}

#[test]
fn hardware_is_not_simulated() {
    let wanted = Wanted {
        hardware: true,
        ..Wanted::default()
    };
    let served = Served::start_as(Fake::tree(1, 1), wanted);
    let refusal = served.block_on(unlink(served.unix())).unwrap_err();
    assert_eq!(refusal.code(), Code::FailedPrecondition);
    assert!(refusal.message().contains("--fabric sim:"), "{refusal}");
}

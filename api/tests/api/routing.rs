//! Engines, measurements and foreseen losses.

use rsm_proto::v1;
use rsm_proto::v1::foresee_loss_request::Loss;
use rsm_proto::v1::routing_service_client::RoutingServiceClient;
use tonic::Code;
use tonic::transport::Channel;

use crate::fake::{Fake, GENERATION};
use crate::served::Served;

async fn set_engine(channel: Channel, name: &str) -> Result<String, tonic::Status> {
    let request = v1::SetEngineRequest {
        engine: name.to_owned(),
        ..v1::SetEngineRequest::default()
    };
    let answer = RoutingServiceClient::new(channel)
        .set_engine(request)
        .await?;
    Ok(answer.into_inner().convergence.unwrap().cause)
}

async fn foresee(channel: Channel, loss: Option<Loss>) -> Result<v1::Consequence, tonic::Status> {
    let request = v1::ForeseeLossRequest {
        loss,
        ..v1::ForeseeLossRequest::default()
    };
    let answer = RoutingServiceClient::new(channel)
        .foresee_loss(request)
        .await?;
    assert_eq!(answer.get_ref().generation, GENERATION);
    Ok(answer.into_inner().consequence.unwrap())
}

#[test]
fn an_engine_is_set_through_the_socket_only() {
    let served = Served::start(Fake::tree(2, 1));
    let refused = served
        .block_on(set_engine(served.tcp(), "minhop"))
        .unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert_eq!(served.fake.convergences.lock().len(), 1);
    let cause = served
        .block_on(set_engine(served.unix(), "minhop"))
        .unwrap();
    assert_eq!(cause, "engine minhop requested");
    let unknown = served
        .block_on(set_engine(served.unix(), "magic"))
        .unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidArgument);
    assert!(
        unknown.message().contains("is not a routing engine"),
        "{unknown}"
    );
    let unsound = served
        .block_on(set_engine(served.unix(), "unsound"))
        .unwrap_err();
    assert_eq!(unsound.code(), Code::FailedPrecondition);
    assert!(unsound.message().contains("everything stays"), "{unsound}");
}

#[test]
fn engines_come_in_pages() {
    let served = Served::start(Fake::tree(2, 1));
    let mut client = RoutingServiceClient::new(served.tcp());
    let mut names = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListEnginesRequest {
            page_size: 2,
            page_token,
        };
        let page = served
            .block_on(client.list_engines(request))
            .unwrap()
            .into_inner();
        assert!(page.engines.len() <= 2);
        names.extend(page.engines.into_iter().map(|engine| engine.name));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(names, ["auto", "minhop", "updn"]);
}

#[test]
fn losses_take_ports_and_nodes_and_refuse_unknown_names() {
    let served = Served::start(Fake::tree(2, 1));
    let cable = Loss::Unlink("leaf-1:1".to_owned());
    let found = served.block_on(foresee(served.tcp(), Some(cable))).unwrap();
    assert_eq!((found.cables.len(), found.smps), (1, 4));
    let nobody = Loss::Remove("nobody".to_owned());
    let unknown = served
        .block_on(foresee(served.tcp(), Some(nobody)))
        .unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let nothing = served.block_on(foresee(served.tcp(), None)).unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);
    let bad = served.block_on(foresee(served.tcp(), Some(Loss::Unlink(String::new()))));
    assert_eq!(bad.unwrap_err().code(), Code::InvalidArgument);
}

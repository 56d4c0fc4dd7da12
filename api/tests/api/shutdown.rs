//! How the server ends.

use rsm_proto::v1;
use rsm_proto::v1::watch_service_client::WatchServiceClient;
use tonic::Code;

use crate::fake::Fake;
use crate::served::Served;

#[test]
fn shutdown_ends_streams_and_removes_the_socket() {
    let mut served = Served::start(Fake::tree(1, 1));
    let socket = served.socket.clone();
    let mut client = WatchServiceClient::new(served.unix());
    let request = v1::WatchRequest {
        after_sequence: None,
    };
    let mut stream = served.block_on(client.watch(request)).unwrap().into_inner();
    served.ask_to_stop();
    let ended = served.block_on(async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                other => break other,
            }
        }
    });
    let status = ended.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    served.wait().unwrap();
    assert!(!socket.exists());
}

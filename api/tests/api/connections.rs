//! More clients than the limits, and clients that send malformed messages.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rsm_api::limits::ConnectionLimits;
use rsm_proto::Codec;
use rsm_proto::v1;
use rsm_proto::v1::fabric_service_client::FabricServiceClient;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::fake::Fake;
use crate::served::{Served, Wanted};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(10);

fn limited(unix: usize, tcp: usize) -> Served {
    let limits = Some(ConnectionLimits { unix, tcp });
    let wanted = Wanted {
        limits,
        ..Wanted::default()
    };
    Served::start_as(Fake::tree(1, 1), wanted)
}

/// The server's counts of its connections.
fn connections(served: &Served, channel: &Channel) -> v1::Connections {
    let mut client = FabricServiceClient::new(channel.clone());
    let answer = served.block_on(client.get_status(v1::GetStatusRequest {}));
    answer.unwrap().into_inner().connections.unwrap()
}

/// Waits until the server's counts match.
#[expect(clippy::disallowed_methods, reason = "the server runs in real time")]
fn until(mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "it never came to that");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the server closed the connection without sending anything.
fn is_closed(stream: &mut (impl Read + ?Sized)) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn tcp_address_that_is_bound_after_the_start_is_served_and_counted() {
    let wanted = Wanted {
        late_tcp: true,
        ..Wanted::default()
    };
    let served = Served::start_as(Fake::tree(1, 1), wanted);
    let tcp = served.tcp();
    assert_eq!(connections(&served, &tcp).tcp_open, 1);
    assert_eq!(connections(&served, &served.unix()).tcp_open, 1);
}

#[test]
fn idle_tcp_clients_do_not_shut_out_the_socket() {
    let served = limited(4, 3);
    let socket = served.unix();
    let idle = || {
        let stream = TcpStream::connect(served.tcp).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut kept: Vec<TcpStream> = (0..3).map(|_| idle()).collect();
    until(|| connections(&served, &socket).tcp_open == 3);
    for _ in 0..2 {
        assert!(is_closed(&mut idle()));
    }
    let seen = connections(&served, &socket);
    assert_eq!((seen.tcp_open, seen.tcp_limit), (3, 3));
    assert_eq!((seen.unix_limit, seen.refused), (4, 2));

    // A closed connection makes room for the next one.
    kept.pop();
    until(|| connections(&served, &socket).tcp_open == 2);
    let mut client = FabricServiceClient::new(served.tcp());
    let answer = served.block_on(client.get_status(v1::GetStatusRequest {}));
    assert!(answer.is_ok());
}

#[test]
fn idle_clients_of_the_socket_have_a_bound_of_their_own() {
    let served = limited(2, 8);
    let connect = || {
        let stream = UnixStream::connect(&served.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let _kept = [connect(), connect()];
    let tcp = served.tcp();
    until(|| connections(&served, &tcp).unix_open == 2);
    assert!(is_closed(&mut connect()));
    until(|| connections(&served, &tcp).refused == 1);
}

#[test]
fn a_malformed_message_is_the_clients_fault() {
    let served = limited(4, 4);
    for channel in [served.unix(), served.tcp()] {
        let refused = served.block_on(async {
            let mut client = tonic::client::Grpc::new(channel);
            client.ready().await.unwrap();
            // Field 1 is a number here, and a text in the expected message.
            let request = v1::ListNodesRequest {
                page_size: 5,
                ..v1::ListNodesRequest::default()
            };
            let path = PathAndQuery::from_static("/rsm.v1.FabricService/GetNode");
            let codec = Codec::<v1::ListNodesRequest, v1::GetNodeResponse>::default();
            client.unary(Request::new(request), path, codec).await
        });
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("malformed"), "{refused}");
    }
}

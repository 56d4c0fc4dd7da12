//! Tests with the MAD device that ibsim simulates below libibumad.
//!
//! The tests named `inside_…` run in a process of their own with the simulator's library preloaded;
//! they are ignored, and the test above each of them starts it there.

#![allow(clippy::print_stdout, reason = "a test prints why it is skipped")]

use crate::transport_ibsim;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rsm_ids::PortNum;
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::umad::{self, UmadSelector, UmadTransport};
use rsm_mad::transport::{
    Datagram, Inbound, RemoteAddress, SaPort as _, SendError, SendFailure, Sinks, Transport,
};
use rsm_mad::wire::attr::{Attribute, NodeInfo, NodeType, PortInfo};
use rsm_mad::wire::header::{AttrId, Class, Method, Status};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use transport_ibsim::{Ibsim, available, inside};

const TIMEOUT: Duration = Duration::from_millis(500);
/// The maximum time to wait: longer than any working operation takes.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

fn request(method: Method, attribute: AttrId, tid: u32) -> SmpRequest {
    SmpRequest {
        method,
        attribute,
        modifier: 0,
        tid: Tid(u64::from(tid)),
        m_key: 0,
        data: [0; 64],
    }
}

fn directed(hops: &[u8], request: &SmpRequest) -> Datagram {
    let hops: Vec<PortNum> = hops.iter().copied().map(PortNum).collect();
    let path = DirectedPath::from_hops(&hops).unwrap();
    Datagram {
        mad: *Smp::directed(&path, request).as_bytes(),
        remote: RemoteAddress::directed(),
    }
}

fn open() -> (UmadTransport, Receiver<Inbound>) {
    let (sender, inbound) = channel();
    let sink = Box::new(move |event| sender.send(event).unwrap_or(()));
    (umad::open(&UmadSelector::default(), sink).unwrap(), inbound)
}

/// Sends and waits for the answer.
fn exchange(
    transport: &mut UmadTransport,
    inbound: &Receiver<Inbound>,
    datagram: &Datagram,
) -> Smp {
    transport.send(datagram, TIMEOUT).unwrap();
    match inbound.recv_timeout(WAIT_LIMIT).unwrap() {
        Inbound::Mad(answer) => {
            let answer = *Smp::from_bytes(&answer.mad);
            let asked = Smp::from_bytes(&datagram.mad).header().tid();
            assert_eq!(answer.header().tid().low(), asked.low());
            assert_eq!(answer.header().method(), Method::GET_RESPONSE);
            answer
        }
        other => panic!("expected an answer, received {other:?}"),
    }
}

#[test]
fn nodes_of_ibsim_answer_requests() {
    if available() {
        let sim = Ibsim::start();
        sim.spawn("Hca1", "transport_umad::inside_nodes_answer")
            .passes();
    }
}

#[test]
#[ignore = "runs inside ibsim"]
fn inside_nodes_answer() {
    if !inside() {
        return;
    }
    let ports = umad::list_ports().unwrap();
    assert_eq!(ports.len(), 1);
    let (mut transport, inbound) = open();
    assert_eq!(transport.local_port(), ports[0]);

    let get = |tid| request(Method::GET, AttrId::NODE_INFO, tid);
    let own = exchange(&mut transport, &inbound, &directed(&[], &get(1)));
    let info = NodeInfo::from_data(own.data());
    assert_eq!(info.node_type(), NodeType::Ca);
    assert_eq!(info.node_guid(), ports[0].node_guid);
    assert_eq!(info.port_guid(), ports[0].port_guid);

    let neighbour = exchange(&mut transport, &inbound, &directed(&[1], &get(2)));
    let info = NodeInfo::from_data(neighbour.data());
    assert_eq!(info.node_type(), NodeType::Switch);
    assert_eq!(info.local_port_num(), PortNum(1));
    assert!(neighbour.is_returning());

    // No cable is in the switch's port 8.
    transport
        .send(&directed(&[1, 8], &get(3)), TIMEOUT)
        .unwrap();
    match inbound.recv_timeout(WAIT_LIMIT).unwrap() {
        Inbound::SendFailed { tid, kind, .. } => {
            assert_eq!((tid.low(), kind), (3, SendFailure::TimedOut));
        }
        other => panic!("expected a failure, received {other:?}"),
    }
}

#[test]
fn is_sm_can_be_set_and_survives_reopening() {
    if available() {
        let sim = Ibsim::start();
        sim.spawn("Hca1", "transport_umad::inside_is_sm_and_reopening")
            .passes();
    }
}

#[test]
#[ignore = "runs inside ibsim"]
fn inside_is_sm_and_reopening() {
    if !inside() {
        return;
    }
    const IS_SM: u32 = 1 << 1;
    let (mut transport, inbound) = open();
    let is_sm = |transport: &mut UmadTransport, tid| {
        let get = request(Method::GET, AttrId::PORT_INFO, tid);
        let answer = exchange(transport, &inbound, &directed(&[], &get));
        PortInfo::from_data(answer.data()).capability_mask().0 & IS_SM != 0
    };
    assert!(!is_sm(&mut transport, 1));
    transport.set_is_sm(true).unwrap();
    assert!(is_sm(&mut transport, 2));
    transport.reopen().unwrap();
    assert!(
        is_sm(&mut transport, 3),
        "IsSM is set again after reopening"
    );
    transport.set_is_sm(false).unwrap();
    assert!(!is_sm(&mut transport, 4));

    let mut foreign = directed(&[], &request(Method::GET, AttrId::NODE_INFO, 5));
    Smp::from_bytes_mut(&mut foreign.mad)
        .header_mut()
        .set_class(Class::DEVICE);
    assert!(matches!(
        transport.send(&foreign, TIMEOUT),
        Err(SendError::UnsupportedClass { class }) if class == Class::DEVICE
    ));
}

/// ibsim delivers all requests to one descriptor of a node, so that the SA has no descriptor of its
/// own.
#[test]
fn without_a_descriptor_for_the_sa_subnet_management_continues() {
    if available() {
        let sim = Ibsim::start();
        sim.spawn("Hca1", "transport_umad::inside_one_descriptor")
            .passes();
    }
}

#[test]
#[ignore = "runs inside ibsim"]
fn inside_one_descriptor() {
    if !inside() {
        return;
    }
    let (sender, inbound) = channel();
    let sinks = Sinks {
        others: Box::new(move |event| sender.send(event).unwrap_or(())),
        sa: Some(Box::new(|inbound| panic!("the SA received {inbound:?}"))),
        performance: None,
    };
    let mut transport = umad::open(&UmadSelector::default(), sinks).unwrap();
    let port = transport.sa();
    assert!(port.is_polled());
    for tid in 1..4 {
        let get = request(Method::GET, AttrId::NODE_INFO, tid);
        exchange(&mut transport, &inbound, &directed(&[1], &get));
        assert_eq!(port.receive(16, Duration::from_millis(20)), 0);
        transport.reopen().unwrap();
    }
}

/// The state of the port is read a few times while the test waits.
#[test]
fn a_port_stays_open_while_its_state_is_read() {
    if available() {
        let sim = Ibsim::start();
        sim.spawn("Hca1", "transport_umad::inside_stays_open")
            .passes();
    }
}

#[test]
#[ignore = "runs inside ibsim"]
fn inside_stays_open() {
    if !inside() {
        return;
    }
    let (mut transport, inbound) = open();
    let event = inbound.recv_timeout(Duration::from_millis(4500));
    assert!(event.is_err(), "{event:?}");
    let get = request(Method::GET, AttrId::NODE_INFO, 1);
    exchange(&mut transport, &inbound, &directed(&[], &get));
}

#[test]
fn request_of_another_subnet_manager_arrives_and_is_answered() {
    if available() {
        let sim = Ibsim::start();
        let mut asked = sim.spawn("Hca1", "transport_umad::inside_asked");
        asked.wait_for("ready");
        sim.spawn("Hca2", "transport_umad::inside_asks").passes();
        asked.passes();
    }
}

#[test]
#[ignore = "runs inside ibsim"]
fn inside_asked() {
    if !inside() {
        return;
    }
    let (mut transport, inbound) = open();
    transport.set_is_sm(true).unwrap();
    println!("ready");
    let Inbound::Mad(mut question) = inbound.recv_timeout(WAIT_LIMIT).unwrap() else {
        panic!("not a datagram");
    };
    let smp = Smp::from_bytes_mut(&mut question.mad);
    assert_eq!(smp.header().attribute(), AttrId::SM_INFO);
    assert_eq!(smp.header().method(), Method::GET);
    smp.make_response(Status::OK);
    smp.data_mut()[0] = 0x5A;
    transport.send(&question, Duration::ZERO).unwrap();
}

#[test]
#[ignore = "runs inside ibsim"]
fn inside_asks() {
    if !inside() {
        return;
    }
    let (mut transport, inbound) = open();
    let get = request(Method::GET, AttrId::SM_INFO, 1);
    let answer = exchange(&mut transport, &inbound, &directed(&[1, 3, 1], &get));
    assert_eq!(answer.data()[0], 0x5A);
}

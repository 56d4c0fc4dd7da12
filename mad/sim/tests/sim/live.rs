//! Tests of the simulation behind the transport trait.

use crate::common;

use std::sync::mpsc;
use std::time::Duration;

use common::{H1, S1, path};
use rsm_ids::{Lid, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, Inbound, PortEvent, RemoteAddress, SendError, Transport};
use rsm_mad::wire::attr::{Attribute, CapabilityMask, NodeInfo, PortInfo};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_sim::live::{self, LiveError};
use rsm_sim::{Sim, SimConfig};

fn datagram(hops: &[u8], method: Method, attribute: AttrId, data: [u8; 64]) -> Datagram {
    let request = SmpRequest {
        method,
        attribute,
        modifier: 0,
        tid: Tid(7),
        m_key: 0,
        data,
    };
    Datagram {
        mad: *Smp::directed(&path(hops), &request).as_bytes(),
        remote: RemoteAddress::directed(),
    }
}

#[test]
fn a_live_transport_delivers_answers_and_port_events() {
    let sim = Sim::new(&common::netlist(), SimConfig::default(), 1).unwrap();
    let handle = live::spawn(sim).unwrap();
    let (sink, inbound) = mpsc::channel();
    let mut transport = handle
        .attach(
            H1,
            PortNum(1),
            Box::new(move |inbound| {
                // The receiver is gone once the test has ended.
                let _ = sink.send(inbound);
            }),
        )
        .unwrap();
    // The limit is far longer than an answer takes on any machine: some microseconds.
    let limit = Duration::from_secs(30);
    let get = datagram(&[1], Method::GET, AttrId::NODE_INFO, [0; 64]);
    transport.send(&get, limit).unwrap();
    let Inbound::Mad(answer) = inbound.recv_timeout(limit).unwrap() else {
        panic!("the node answers");
    };
    let smp = *Smp::from_bytes(&answer.mad);
    assert_eq!(NodeInfo::from_data(smp.data()).node_guid(), S1);

    let mut info = PortInfo::default();
    info.set_lid(Lid(9));
    let set = datagram(&[], Method::SET, AttrId::PORT_INFO, *info.as_data());
    transport.send(&set, limit).unwrap();
    let event = inbound.recv_timeout(limit).unwrap();
    assert_eq!(event, Inbound::Port(PortEvent::LidChanged));
    assert_eq!(transport.local_port().lid, Lid(9));

    transport.set_is_sm(true).unwrap();
    let mask = handle
        .with(|sim| sim.port_info(H1, PortNum(1)).unwrap().capability_mask())
        .unwrap();
    assert!(mask.contains(CapabilityMask::IS_SM));
    handle
        .with(|sim| sim.unlink(S1, PortNum(1)))
        .unwrap()
        .unwrap();
    let mut events = inbound.iter();
    assert!(events.any(|inbound| inbound == Inbound::Port(PortEvent::Down)));

    // The port accepts another client after this one is dropped.
    assert!(handle.attach(H1, PortNum(1), Box::new(|_| ())).is_err());
    drop(transport);
    handle.attach(H1, PortNum(1), Box::new(|_| ())).unwrap();
}

#[test]
fn a_sink_that_panics_closes_the_transport_and_stops_the_simulation() {
    let sim = Sim::new(&common::netlist(), SimConfig::default(), 1).unwrap();
    let handle = live::spawn(sim).unwrap();
    let sink = Box::new(|_| panic!("this sink panics on purpose"));
    let mut transport = handle.attach(H1, PortNum(1), sink).unwrap();
    let get = datagram(&[1], Method::GET, AttrId::NODE_INFO, [0; 64]);
    transport.send(&get, Duration::ZERO).unwrap();
    let get = datagram(&[], Method::GET, AttrId::NODE_INFO, [0; 64]);
    let mut info = PortInfo::default();
    info.set_lid(Lid(9));
    let set = datagram(&[], Method::SET, AttrId::PORT_INFO, *info.as_data());
    transport.send(&set, Duration::ZERO).unwrap();
    // The thread needs a moment to unwind.
    while !matches!(transport.send(&get, Duration::ZERO), Err(SendError::Closed)) {
        std::thread::yield_now();
    }
    assert!(matches!(handle.with(|_| ()), Err(LiveError::Stopped)));
}

//! Tests of general service datagrams between hosts, and of messages of the SA, which consist of
//! such datagrams.

use crate::common;

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{H1, H2, Requester, requester};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::client::rmpp::RmppConfig;
use rsm_mad::ids::Tid;
use rsm_mad::messenger::{Delivery, Left, Messenger};
use rsm_mad::transport::{
    Datagram, Inbound, Message, Outgoing, Records, RemoteAddress, SA_HEADER_LEN, SaInbound, SaSink,
    SendFailure, Sinks, Streamed,
};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::{PKey, PKeyTable};
use rsm_mad::wire::header::{Class, MadHeader, Method, Status};
use rsm_mad::wire::rmpp::{RmppFlags, RmppHeader};
use rsm_sim::DropReason;
use rsm_sim::live::{self, SimHandle, SimTransport};
use zerocopy::FromBytes;

/// The headers of an SA message. If `has_rmpp` is set, the RMPP header is active.
fn headers(method: Method, tid: u64, has_rmpp: bool) -> [u8; SA_HEADER_LEN] {
    let mut bytes = [0; SA_HEADER_LEN];
    let (header, after_header) = MadHeader::mut_from_prefix(&mut bytes).unwrap();
    header
        .set_base_version(1)
        .set_class(Class::SUBNET_ADMINISTRATION)
        .set_class_version(2)
        .set_method(method)
        .set_tid(Tid(tid));
    let (rmpp, _) = RmppHeader::mut_from_prefix(after_header).unwrap();
    if has_rmpp {
        rmpp.set_flags(RmppFlags::ACTIVE);
    }
    bytes
}

/// A datagram of the SA without records.
fn mad(method: Method, tid: u64, has_rmpp: bool) -> MadBytes {
    let mut mad = [0; 256];
    mad[..SA_HEADER_LEN].copy_from_slice(&headers(method, tid, has_rmpp));
    mad
}

/// The address of queue pair 1 at a LID, with an index of the sender's P_Key table.
fn address_of(lid: u16, pkey_index: u16) -> RemoteAddress {
    RemoteAddress {
        pkey_index,
        ..RemoteAddress::gsi(Lid(lid), 0)
    }
}

/// Sets the first P_Keys of the port at the end of a directed route; the others become invalid.
fn set_p_keys(requester: &mut Requester, hops: &[u8], keys: &[u16]) {
    let mut table_keys = [PKey::INVALID; PKeyTable::ENTRIES];
    for (slot, &key) in table_keys.iter_mut().zip(keys) {
        *slot = PKey(key);
    }
    let mut table = PKeyTable::default();
    table.set_p_keys(table_keys);
    let modifier = PKeyTable::modifier(PortNum(0), 0);
    assert_eq!(requester.set(hops, modifier, &table), Some(Status::OK));
}

#[test]
fn a_datagram_needs_a_common_partition() {
    let mut requester = requester();
    requester.program();
    let host2 = requester.sim.attach(H2, PortNum(1)).unwrap();
    set_p_keys(&mut requester, &[], &[0x7FFF, 0x8010, 0x0011]);
    set_p_keys(
        &mut requester,
        &[1, 2, 1],
        &[0xFFFF, 0x0011, 0x8012, 0x0010],
    );
    requester.wait(Duration::from_millis(1));
    requester.unsolicited.clear();
    for pkey_index in 0..4 {
        let mad = mad(Method::GET, u64::from(pkey_index), false);
        let remote = address_of(2, pkey_index);
        let (client, now) = (requester.client, requester.now);
        requester.sim.send(client, &Datagram { mad, remote }, now);
    }
    requester.wait(Duration::from_millis(1));
    let arrived: Vec<_> = requester
        .take_mads()
        .into_iter()
        .map(|(client, datagram)| {
            assert_eq!((client, datagram.remote.lid), (host2, Lid(1)));
            let sent_with = MadHeader::of(&datagram.mad).tid().0;
            (sent_with, datagram.remote.pkey_index)
        })
        .collect();
    // Both ends are limited members of partition 0x0011, and index 3 has no key.
    assert_eq!(arrived, [(0, 0), (1, 3)]);
    assert_eq!(requester.sim.counters().dropped_for(DropReason::PKey), 2);
}

#[test]
fn a_general_service_without_an_agent_is_answered_with_a_status() {
    let mut requester = requester();
    requester.program();
    let send = |requester: &mut Requester, class: Class, method: Method| {
        let mut mad = mad(method, 9, false);
        let header = MadHeader::mut_from_prefix(&mut mad).unwrap().0;
        header.set_class(class).set_class_version(1);
        let (client, now) = (requester.client, requester.now);
        requester.unsolicited.clear();
        let remote = address_of(2, 0);
        requester.sim.send(client, &Datagram { mad, remote }, now);
        requester.wait(Duration::from_millis(1));
        requester.take_mads().pop()
    };
    for class in [Class::PERFORMANCE, Class(0x32)] {
        for method in [Method::GET, Method::SET] {
            let (to, answer) = send(&mut requester, class, method).expect("the agent answers");
            let header = *MadHeader::of(&answer.mad);
            assert_eq!((to, answer.remote.lid), (requester.client, Lid(2)));
            assert_eq!(Some(header.method()), method.response());
            assert_eq!(header.status(), Status::UNSUPPORTED_METHOD_ATTRIBUTE);
            assert_eq!((header.class(), header.tid()), (class, Tid(9)));
        }
        assert!(send(&mut requester, class, Method::SEND).is_none());
    }
    // No agent answers for the SA: it answers only while its process runs.
    assert!(send(&mut requester, Class::SUBNET_ADMINISTRATION, Method::GET).is_none());
    assert_eq!(
        requester.sim.counters().dropped_for(DropReason::NoClient),
        3
    );
}

#[test]
fn later_segments_reach_a_host_without_a_waiting_request() {
    let mut requester = requester();
    requester.program();
    let host2 = requester.sim.attach(H2, PortNum(1)).unwrap();
    requester.unsolicited.clear();
    let unanswered_request = Datagram {
        mad: mad(Method::GET_TABLE, 7, false),
        remote: address_of(2, 0),
    };
    let (client, timeout) = (requester.client, Duration::from_millis(10));
    requester
        .sim
        .send_with_timeout(client, &unanswered_request, timeout, requester.now);
    for has_rmpp in [true, true, false] {
        let mad = mad(Method::GET_TABLE_RESPONSE, 7, has_rmpp);
        let remote = address_of(1, 0);
        requester
            .sim
            .send(host2, &Datagram { mad, remote }, requester.now);
    }
    requester.wait(Duration::from_millis(20));
    let arrived = requester
        .unsolicited
        .iter()
        .filter(|(to, _)| *to == client)
        .count();
    assert_eq!(arrived, 2, "two segments arrive and no failure is reported");
    assert_eq!(requester.sim.counters().dropped_for(DropReason::TooLate), 1);

    // A request with the same identifier in another class is a different request.
    requester.unsolicited.clear();
    requester
        .sim
        .send_with_timeout(client, &unanswered_request, timeout, requester.now);
    let get = requester.request(Method::GET, rsm_mad::wire::header::AttrId::NODE_INFO, 0);
    let smp = rsm_mad::wire::smp::Smp::directed(
        &common::path(&[]),
        &rsm_mad::wire::smp::SmpRequest { tid: Tid(7), ..get },
    );
    let datagram = Datagram {
        mad: *smp.as_bytes(),
        remote: RemoteAddress::directed(),
    };
    requester
        .sim
        .send_with_timeout(client, &datagram, timeout, requester.now);
    requester.wait(Duration::from_millis(20));
    let failures: Vec<_> = requester
        .unsolicited
        .iter()
        .filter(|(_, inbound)| matches!(inbound, Inbound::SendFailed { .. }))
        .collect();
    let failed = Inbound::SendFailed {
        class: Class::SUBNET_ADMINISTRATION,
        tid: Tid(7),
        kind: SendFailure::TimedOut,
    };
    assert_eq!(failures, [&(client, failed)]);
}

/// A program at a port that sends and receives SA messages, in real time.
struct SaClient {
    messenger: Messenger,
    inbox: Receiver<SaInbound>,
    started: Instant,
    /// Keeps the program attached to its port.
    _transport: SimTransport,
}

#[allow(
    clippy::disallowed_methods,
    reason = "the simulation runs in real time"
)]
impl SaClient {
    fn open(handle: &SimHandle, node: Guid) -> SaClient {
        let (sender, inbox) = channel();
        let sink: SaSink = Box::new(move |inbound| {
            // The receiver is gone once the test has ended.
            let _ = sender.send(inbound);
        });
        let sinks = Sinks {
            others: Box::new(|_| ()),
            sa: Some(sink),
            performance: None,
        };
        let transport = handle.attach(node, PortNum(1), sinks).unwrap();
        let config = RmppConfig {
            max_received: 64 << 20,
            response_timeout: Duration::from_millis(20),
            ..RmppConfig::default()
        };
        SaClient {
            messenger: Messenger::new(std::sync::Arc::new(transport.sa()), config),
            inbox,
            started: Instant::now(),
            _transport: transport,
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    fn send(&mut self, outgoing: impl Into<Outgoing>, timeout: Duration) {
        let now = self.now();
        self.messenger.send(outgoing, timeout, now).unwrap();
    }

    /// Waits for a delivery and returns it.
    fn next(&mut self) -> Delivery {
        loop {
            let now = self.now();
            self.messenger.handle_deadline(now);
            let remaining = self.messenger.transmit(64, now).unwrap();
            if let Some(delivery) = self.messenger.poll() {
                return delivery;
            }
            let wait = match (remaining, self.messenger.next_deadline()) {
                (Left::More, _) => Duration::ZERO,
                (_, Some(deadline)) => deadline.since(self.now()),
                (_, None) => Duration::from_secs(60),
            };
            if let Ok(inbound) = self.inbox.recv_timeout(wait) {
                let now = self.now();
                self.messenger.handle(inbound, now);
            }
        }
    }
}

/// The number of records of the table.
const RECORDS: u32 = 20_000;

/// The record with the number `number`; all records differ.
fn record(number: u32) -> [u8; 64] {
    let mut record = [number as u8; 64];
    record[..4].copy_from_slice(&number.to_be_bytes());
    record
}

/// Answers one request with a table that is created while it is sent.
fn serve(mut server: SaClient) {
    let Delivery::Message(request) = server.next() else {
        panic!("a request arrives");
    };
    let tid = request.header().unwrap().tid().0;
    let table = Streamed {
        header: headers(Method::GET_TABLE_RESPONSE, tid, true),
        data: Box::new(Records::new((0..RECORDS).map(record))),
        remote: request.remote,
    };
    server.send(Outgoing::Streamed(table), Duration::ZERO);
    // Another request in the same transaction ends the first request.
    let Delivery::Message(last) = server.next() else {
        panic!("a second request arrives");
    };
    assert_eq!(last.header().unwrap().method(), Method::GET);
}

#[test]
fn a_long_table_arrives_whole_although_packets_are_lost() {
    let mut requester = requester();
    requester.program();
    let client = requester.client;
    requester.sim.detach(client);
    requester.sim.set_loss(0.001).unwrap();
    let handle = live::spawn(requester.sim).unwrap();
    let server = SaClient::open(&handle, H1);
    let mut client = SaClient::open(&handle, H2);
    let server = std::thread::spawn(move || serve(server));

    let timeout = Duration::from_secs(50);
    let remote = address_of(1, 0);
    let request = |method, tid| Message {
        bytes: headers(method, tid, false).to_vec(),
        remote,
    };
    client.send(request(Method::GET_TABLE, 1), timeout);
    let Delivery::Message(table) = client.next() else {
        panic!("the table does not arrive");
    };
    let expected: Vec<u8> = (0..RECORDS).flat_map(record).collect();
    assert!(table.data() == expected, "{} bytes", table.data().len());

    handle.with(|sim| sim.set_loss(0.0)).unwrap().unwrap();
    client.send(request(Method::GET, 2), Duration::from_millis(200));
    let Delivery::Unanswered { tid } = client.next() else {
        panic!("an answer arrived although no server runs");
    };
    assert_eq!(tid, Tid(2));
    server.join().unwrap();
}

//! Tests of general service datagrams between hosts, and of messages of the SA that consist of
//! them.

use crate::common;

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{H1, H2, Hand, hand};
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

/// The headers of an SA message, with the flag of an active RMPP header if `by_rmpp`.
fn headers(method: Method, tid: u64, by_rmpp: bool) -> [u8; SA_HEADER_LEN] {
    let mut bytes = [0; SA_HEADER_LEN];
    let (header, rest) = MadHeader::mut_from_prefix(&mut bytes).unwrap();
    header
        .set_base_version(1)
        .set_class(Class::SUBNET_ADMINISTRATION)
        .set_class_version(2)
        .set_method(method)
        .set_tid(Tid(tid));
    let (rmpp, _) = RmppHeader::mut_from_prefix(rest).unwrap();
    if by_rmpp {
        rmpp.set_flags(RmppFlags::ACTIVE);
    }
    bytes
}

/// A datagram of the SA without records.
fn mad(method: Method, tid: u64, by_rmpp: bool) -> MadBytes {
    let mut mad = [0; 256];
    mad[..SA_HEADER_LEN].copy_from_slice(&headers(method, tid, by_rmpp));
    mad
}

/// The address of queue pair 1 at a LID, with an index of the sender's P_Key table.
fn to(lid: u16, pkey_index: u16) -> RemoteAddress {
    RemoteAddress {
        pkey_index,
        ..RemoteAddress::gsi(Lid(lid), 0)
    }
}

/// Sets the first P_Keys of the port at the end of a directed route; the others become invalid.
fn set_p_keys(hand: &mut Hand, hops: &[u8], keys: &[u16]) {
    let mut all = [PKey::INVALID; PKeyTable::ENTRIES];
    for (slot, &key) in all.iter_mut().zip(keys) {
        *slot = PKey(key);
    }
    let mut table = PKeyTable::default();
    table.set_p_keys(all);
    let modifier = PKeyTable::modifier(PortNum(0), 0);
    assert_eq!(hand.set(hops, modifier, &table), Some(Status::OK));
}

#[test]
fn a_datagram_needs_a_common_partition() {
    let mut hand = hand();
    hand.program();
    let host2 = hand.sim.attach(H2, PortNum(1)).unwrap();
    set_p_keys(&mut hand, &[], &[0x7FFF, 0x8010, 0x0011]);
    set_p_keys(&mut hand, &[1, 2, 1], &[0xFFFF, 0x0011, 0x8012, 0x0010]);
    hand.wait(Duration::from_millis(1));
    hand.other.clear();
    for pkey_index in 0..4 {
        let mad = mad(Method::GET, u64::from(pkey_index), false);
        let remote = to(2, pkey_index);
        let (client, now) = (hand.client, hand.now);
        hand.sim.send(client, &Datagram { mad, remote }, now);
    }
    hand.wait(Duration::from_millis(1));
    let arrived: Vec<_> = hand
        .take_mads()
        .into_iter()
        .map(|(client, datagram)| {
            assert_eq!((client, datagram.remote.lid), (host2, Lid(1)));
            let sent_with = MadHeader::of(&datagram.mad).tid().0;
            (sent_with, datagram.remote.pkey_index)
        })
        .collect();
    // Both ends are limited members of 0x0011, and index 3 holds no key.
    assert_eq!(arrived, [(0, 0), (1, 3)]);
    assert_eq!(hand.sim.counters().dropped_for(DropReason::PKey), 2);
}

#[test]
fn a_general_service_without_an_agent_is_answered_with_a_status() {
    let mut hand = hand();
    hand.program();
    let send = |hand: &mut Hand, class: Class, method: Method| {
        let mut mad = mad(method, 9, false);
        let header = MadHeader::mut_from_prefix(&mut mad).unwrap().0;
        header.set_class(class).set_class_version(1);
        let (client, now) = (hand.client, hand.now);
        hand.other.clear();
        let remote = to(2, 0);
        hand.sim.send(client, &Datagram { mad, remote }, now);
        hand.wait(Duration::from_millis(1));
        hand.take_mads().pop()
    };
    for class in [Class::PERFORMANCE, Class(0x32)] {
        for method in [Method::GET, Method::SET] {
            let (to, answer) = send(&mut hand, class, method).expect("it is answered");
            let header = *MadHeader::of(&answer.mad);
            assert_eq!((to, answer.remote.lid), (hand.client, Lid(2)));
            assert_eq!(Some(header.method()), method.response());
            assert_eq!(header.status(), Status::UNSUPPORTED_METHOD_ATTRIBUTE);
            assert_eq!((header.class(), header.tid()), (class, Tid(9)));
        }
        assert!(send(&mut hand, class, Method::SEND).is_none());
    }
    // No agent answers for the SA, which runs only while its process runs.
    assert!(send(&mut hand, Class::SUBNET_ADMINISTRATION, Method::GET).is_none());
    assert_eq!(hand.sim.counters().dropped_for(DropReason::NoClient), 3);
}

#[test]
fn later_segments_reach_a_host_without_a_waiting_request() {
    let mut hand = hand();
    hand.program();
    let host2 = hand.sim.attach(H2, PortNum(1)).unwrap();
    hand.other.clear();
    let ask = Datagram {
        mad: mad(Method::GET_TABLE, 7, false),
        remote: to(2, 0),
    };
    let (client, timeout) = (hand.client, Duration::from_millis(10));
    hand.sim.send_with_timeout(client, &ask, timeout, hand.now);
    for by_rmpp in [true, true, false] {
        let mad = mad(Method::GET_TABLE_RESPONSE, 7, by_rmpp);
        let remote = to(1, 0);
        hand.sim.send(host2, &Datagram { mad, remote }, hand.now);
    }
    hand.wait(Duration::from_millis(20));
    let arrived = hand.other.iter().filter(|(to, _)| *to == client).count();
    assert_eq!(arrived, 2, "and no failure");
    assert_eq!(hand.sim.counters().dropped_for(DropReason::TooLate), 1);

    // A request with the same identifier in another class is a different request.
    hand.other.clear();
    hand.sim.send_with_timeout(client, &ask, timeout, hand.now);
    let get = hand.request(Method::GET, rsm_mad::wire::header::AttrId::NODE_INFO, 0);
    let smp = rsm_mad::wire::smp::Smp::directed(
        &common::path(&[]),
        &rsm_mad::wire::smp::SmpRequest { tid: Tid(7), ..get },
    );
    let datagram = Datagram {
        mad: *smp.as_bytes(),
        remote: RemoteAddress::directed(),
    };
    hand.sim
        .send_with_timeout(client, &datagram, timeout, hand.now);
    hand.wait(Duration::from_millis(20));
    let failures: Vec<_> = hand
        .other
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

    fn send(&mut self, outgoing: impl Into<Outgoing>, patience: Duration) {
        let now = self.now();
        self.messenger.send(outgoing, patience, now).unwrap();
    }

    /// Waits for a delivery and returns it.
    fn next(&mut self) -> Delivery {
        loop {
            let now = self.now();
            self.messenger.handle_deadline(now);
            let left = self.messenger.transmit(64, now).unwrap();
            if let Some(delivery) = self.messenger.poll() {
                return delivery;
            }
            let wait = match (left, self.messenger.next_deadline()) {
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

/// The record with this number, which differs from all others.
fn record(number: u32) -> [u8; 64] {
    let mut record = [number as u8; 64];
    record[..4].copy_from_slice(&number.to_be_bytes());
    record
}

/// Answers one request with a table that is made while it is sent.
fn serve(mut server: SaClient) {
    let Delivery::Message(question) = server.next() else {
        panic!("a question");
    };
    let tid = question.header().unwrap().tid().0;
    let table = Streamed {
        header: headers(Method::GET_TABLE_RESPONSE, tid, true),
        data: Box::new(Records::new((0..RECORDS).map(record))),
        remote: question.remote,
    };
    server.send(Outgoing::Streamed(table), Duration::ZERO);
    // Another request in the same transaction ends the first one.
    let Delivery::Message(last) = server.next() else {
        panic!("another question");
    };
    assert_eq!(last.header().unwrap().method(), Method::GET);
}

#[test]
fn a_long_table_arrives_whole_although_packets_are_lost() {
    let mut hand = hand();
    hand.program();
    let client = hand.client;
    hand.sim.detach(client);
    hand.sim.set_loss(0.001).unwrap();
    let handle = live::spawn(hand.sim).unwrap();
    let server = SaClient::open(&handle, H1);
    let mut client = SaClient::open(&handle, H2);
    let server = std::thread::spawn(move || serve(server));

    let patience = Duration::from_secs(50);
    let remote = to(1, 0);
    let ask = |method, tid| Message {
        bytes: headers(method, tid, false).to_vec(),
        remote,
    };
    client.send(ask(Method::GET_TABLE, 1), patience);
    let Delivery::Message(table) = client.next() else {
        panic!("no answer");
    };
    let expected: Vec<u8> = (0..RECORDS).flat_map(record).collect();
    assert!(table.data() == expected, "{} bytes", table.data().len());

    handle.with(|sim| sim.set_loss(0.0)).unwrap().unwrap();
    client.send(ask(Method::GET, 2), Duration::from_millis(200));
    let Delivery::Unanswered { tid } = client.next() else {
        panic!("an answer that nobody gave");
    };
    assert_eq!(tid, Tid(2));
    server.join().unwrap();
}

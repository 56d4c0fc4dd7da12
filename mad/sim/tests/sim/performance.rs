//! Tests of the counters of ports, as performance management reads them.

use crate::common;

use std::time::Duration;

use common::{H1, H2, Hand, S1, S2, hand};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::perf::{
    ALL_PORTS, Counter, PerfCapabilityMask, PerfMad, PortCounterAttribute, PortCounters,
    PortCountersExtended, attribute,
};
use rsm_mad::wire::sa::{ClassPortInfo, Record};
use rsm_mad::wire::smp::Smp;

/// The number of words by which a datagram with its headers increases a data counter.
const MAD_WORDS: u64 = (256 + 32) / 4;

/// Sends a request to a LID, and returns the status and the data of the answer.
fn ask(hand: &mut Hand, lid: u16, request: &PerfMad) -> Option<(Status, PerfMad)> {
    let remote = RemoteAddress::gsi(Lid(lid), 0);
    let answer = hand.ask(Smp::from_bytes(request.as_bytes()), remote)?;
    let answer = *PerfMad::from_bytes(answer.as_bytes());
    Some((answer.header().status(), answer))
}

/// The answer of the agent at a LID for PortCountersExtended.
fn wide(hand: &mut Hand, lid: u16, port: u8) -> PortCountersExtended {
    let mut data = PortCountersExtended::default();
    data.set_port_select(port);
    let attribute = attribute::PORT_COUNTERS_EXTENDED;
    let request = PerfMad::request(Method::GET, attribute, Tid(7), data.as_data());
    let (status, answer) = ask(hand, lid, &request).expect("an answer");
    assert_eq!(status, Status::OK);
    *PortCountersExtended::from_data(answer.data())
}

/// Sends `count` datagrams from host 1 to a LID.
fn send(hand: &mut Hand, lid: u16, count: usize) {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 3, 2, Method::SEND.0]);
    let remote = RemoteAddress::gsi(Lid(lid), 0);
    for _ in 0..count {
        let datagram = Datagram { mad, remote };
        hand.sim.send(hand.client, &datagram, hand.now);
    }
    hand.wait(Duration::from_millis(1));
}

/// The value of a counter, read without a request.
fn counted(hand: &mut Hand, node: Guid, port: u8, counter: Counter) -> u64 {
    let counters = hand.sim.port_counters(node, PortNum(port)).unwrap();
    counters[counter]
}

#[test]
fn datagrams_count_at_both_ends_of_each_link_that_they_cross() {
    let mut hand = hand();
    hand.program();
    assert_eq!(counted(&mut hand, S1, 2, Counter::XmitPkts), 0);
    send(&mut hand, 2, 10);
    // The path is H1:1 → S1:1, S1:2 → S2:2, S2:1 → H2:1.
    for (node, port) in [(H1, 1), (S1, 2), (S2, 1)] {
        assert_eq!(counted(&mut hand, node, port, Counter::XmitPkts), 10);
        assert_eq!(counted(&mut hand, node, port, Counter::UnicastXmitPkts), 10);
        let words = counted(&mut hand, node, port, Counter::XmitData);
        assert_eq!(words, 10 * MAD_WORDS);
        assert_eq!(counted(&mut hand, node, port, Counter::RcvPkts), 0);
    }
    for (node, port) in [(S1, 1), (S2, 2), (H2, 1)] {
        assert_eq!(counted(&mut hand, node, port, Counter::RcvPkts), 10);
        let words = counted(&mut hand, node, port, Counter::RcvData);
        assert_eq!(words, 10 * MAD_WORDS);
    }
    assert_eq!(counted(&mut hand, S1, 3, Counter::XmitPkts), 0);
    // The reading itself crosses the link of host 1, and so does its answer.
    let read = wide(&mut hand, 4, 1);
    assert_eq!(read.counter(Counter::RcvPkts), Some(11));
    let read = wide(&mut hand, 4, 1);
    assert_eq!(read.counter(Counter::XmitPkts), Some(1));
}

#[test]
fn all_ports_of_a_switch_are_read_and_reset_together() {
    let mut hand = hand();
    hand.program();
    send(&mut hand, 2, 5);
    send(&mut hand, 3, 5);
    let all = wide(&mut hand, 4, ALL_PORTS);
    // Ten datagrams arrived and were answered, and this request arrived.
    assert_eq!(all.counter(Counter::RcvPkts), Some(11));
    assert_eq!(all.counter(Counter::XmitPkts), Some(10));

    let mut data = PortCounters::default();
    data.set_port_select(ALL_PORTS).set_counter_select(1 << 14);
    let request = PerfMad::request(
        Method::SET,
        attribute::PORT_COUNTERS,
        Tid(9),
        data.as_data(),
    );
    let (status, answer) = ask(&mut hand, 4, &request).unwrap();
    assert_eq!(status, Status::OK);
    let answer = PortCounters::from_data(answer.data());
    assert_eq!(answer.counter(Counter::XmitPkts), Some(0));
    assert_eq!(answer.counter(Counter::RcvPkts), Some(12));
    assert_eq!(counted(&mut hand, S1, 4, Counter::XmitPkts), 0);
    assert_eq!(counted(&mut hand, S1, 4, Counter::XmitData), 5 * MAD_WORDS);
}

#[test]
fn agents_report_their_capabilities_and_refuse_unknown_ports_and_attributes() {
    let mut hand = hand();
    hand.program();
    let get = |attribute, data: &[u8; 192]| PerfMad::request(Method::GET, attribute, Tid(3), data);
    for (lid, all_ports) in [(4, true), (2, false), (1, false)] {
        let request = get(attribute::CLASS_PORT_INFO, &[0; 192]);
        let (_, answer) = ask(&mut hand, lid, &request).unwrap();
        let info = ClassPortInfo::from_prefix(answer.data()).unwrap();
        let capabilities = PerfCapabilityMask(info.capability_mask().0);
        assert!(capabilities.contains(PerfCapabilityMask::EXTENDED_WIDTH));
        let has = capabilities.contains(PerfCapabilityMask::ALL_PORT_SELECT);
        assert_eq!(has, all_ports, "{lid}");
    }
    let mut counters = PortCounters::default();
    // Host 2 has one port, the switch has four.
    for (lid, port) in [(2, 2), (2, ALL_PORTS), (4, 5)] {
        counters.set_port_select(port);
        let request = get(attribute::PORT_COUNTERS, counters.as_data());
        let (status, _) = ask(&mut hand, lid, &request).unwrap();
        assert_eq!(status, Status::INVALID_FIELD, "{lid} port {port}");
    }
    let unknown = get(rsm_mad::wire::header::AttrId(0x17), &[0; 192]);
    let (status, _) = ask(&mut hand, 4, &unknown).unwrap();
    assert_eq!(status, Status::UNSUPPORTED_METHOD_ATTRIBUTE);
}

#[test]
fn symptoms_increase_counters_at_their_rate() {
    let mut hand = hand();
    hand.program();
    let symbol = Counter::SymbolError;
    hand.sim.set_errors(S1, PortNum(2), symbol, 0.5).unwrap();
    hand.wait(Duration::from_secs(9));
    assert_eq!(counted(&mut hand, S1, 2, symbol), 4);
    hand.sim.set_errors(S1, PortNum(2), symbol, 100.0).unwrap();
    hand.wait(Duration::from_secs(1));
    assert_eq!(counted(&mut hand, S1, 2, symbol), 104);
    // Two counters of one port increase, and none of its neighbour's port.
    hand.sim
        .set_errors(S1, PortNum(2), Counter::XmitWait, 1e6)
        .unwrap();
    hand.sim.set_errors(S1, PortNum(2), symbol, 0.0).unwrap();
    hand.wait(Duration::from_secs(2));
    assert_eq!(counted(&mut hand, S1, 2, symbol), 104);
    assert_eq!(counted(&mut hand, S1, 2, Counter::XmitWait), 2_000_000);
    for port in [1, 3] {
        assert_eq!(counted(&mut hand, S1, port, symbol), 0);
    }
    for rate in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(hand.sim.set_errors(S1, PortNum(2), symbol, rate).is_err());
    }
}

#[test]
fn losses_and_lost_links_have_their_counters() {
    let mut hand = hand();
    hand.program();
    hand.sim.set_link_loss(S1, PortNum(2), 1.0).unwrap();
    send(&mut hand, 2, 3);
    assert_eq!(counted(&mut hand, S2, 2, Counter::RcvErrors), 3);
    assert_eq!(counted(&mut hand, S2, 2, Counter::RcvPkts), 0);
    hand.sim.set_link_loss(S1, PortNum(2), 0.0).unwrap();
    send(&mut hand, 5000, 2);
    assert_eq!(counted(&mut hand, S1, 1, Counter::RcvSwitchRelayErrors), 2);
    hand.sim.unlink(S1, PortNum(2)).unwrap();
    send(&mut hand, 2, 4);
    assert_eq!(counted(&mut hand, S1, 2, Counter::XmitDiscards), 4);
    assert_eq!(counted(&mut hand, S1, 2, Counter::LinkDowned), 1);
    assert_eq!(counted(&mut hand, S2, 2, Counter::LinkDowned), 1);
    // Counters restart from zero after a power cycle.
    hand.sim.power_off(S2).unwrap();
    hand.sim.power_on(S2).unwrap();
    assert_eq!(counted(&mut hand, S2, 2, Counter::LinkDowned), 0);
}

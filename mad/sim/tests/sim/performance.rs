//! Tests of the counters of ports, as performance management reads them.

use crate::common;

use std::time::Duration;

use common::{H1, H2, Requester, S1, S2, requester};
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
fn ask(requester: &mut Requester, lid: u16, request: &PerfMad) -> Option<(Status, PerfMad)> {
    let remote = RemoteAddress::gsi(Lid(lid), 0);
    let answer = requester.ask(Smp::from_bytes(request.as_bytes()), remote)?;
    let answer = *PerfMad::from_bytes(answer.as_bytes());
    Some((answer.header().status(), answer))
}

/// The answer of the agent at a LID for PortCountersExtended.
fn extended_counters(requester: &mut Requester, lid: u16, port: u8) -> PortCountersExtended {
    let mut data = PortCountersExtended::default();
    data.set_port_select(port);
    let attribute = attribute::PORT_COUNTERS_EXTENDED;
    let request = PerfMad::request(Method::GET, attribute, Tid(7), data.as_data());
    let (status, answer) = ask(requester, lid, &request).expect("the agent answers");
    assert_eq!(status, Status::OK);
    *PortCountersExtended::from_data(answer.data())
}

/// Sends `count` datagrams from host 1 to a LID.
fn send(requester: &mut Requester, lid: u16, count: usize) {
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 3, 2, Method::SEND.0]);
    let remote = RemoteAddress::gsi(Lid(lid), 0);
    for _ in 0..count {
        let datagram = Datagram { mad, remote };
        requester
            .sim
            .send(requester.client, &datagram, requester.now);
    }
    requester.wait(Duration::from_millis(1));
}

/// The value of a counter, read without a request.
fn port_counter(requester: &mut Requester, node: Guid, port: u8, counter: Counter) -> u64 {
    let counters = requester.sim.port_counters(node, PortNum(port)).unwrap();
    counters[counter]
}

#[test]
fn datagrams_count_at_both_ends_of_each_link_that_they_cross() {
    let mut requester = requester();
    requester.program();
    assert_eq!(port_counter(&mut requester, S1, 2, Counter::XmitPkts), 0);
    send(&mut requester, 2, 10);
    // The path is H1:1 → S1:1, S1:2 → S2:2, S2:1 → H2:1.
    for (node, port) in [(H1, 1), (S1, 2), (S2, 1)] {
        assert_eq!(
            port_counter(&mut requester, node, port, Counter::XmitPkts),
            10
        );
        assert_eq!(
            port_counter(&mut requester, node, port, Counter::UnicastXmitPkts),
            10
        );
        let words = port_counter(&mut requester, node, port, Counter::XmitData);
        assert_eq!(words, 10 * MAD_WORDS);
        assert_eq!(
            port_counter(&mut requester, node, port, Counter::RcvPkts),
            0
        );
    }
    for (node, port) in [(S1, 1), (S2, 2), (H2, 1)] {
        assert_eq!(
            port_counter(&mut requester, node, port, Counter::RcvPkts),
            10
        );
        let words = port_counter(&mut requester, node, port, Counter::RcvData);
        assert_eq!(words, 10 * MAD_WORDS);
    }
    assert_eq!(port_counter(&mut requester, S1, 3, Counter::XmitPkts), 0);
    // The request for the counters crosses the link of host 1, and so does its answer.
    let counters_read = extended_counters(&mut requester, 4, 1);
    assert_eq!(counters_read.counter(Counter::RcvPkts), Some(11));
    let counters_read = extended_counters(&mut requester, 4, 1);
    assert_eq!(counters_read.counter(Counter::XmitPkts), Some(1));
}

#[test]
fn all_ports_of_a_switch_are_read_and_reset_together() {
    let mut requester = requester();
    requester.program();
    send(&mut requester, 2, 5);
    send(&mut requester, 3, 5);
    let all_ports_counters = extended_counters(&mut requester, 4, ALL_PORTS);
    // Ten datagrams arrived and were answered, and this request arrived.
    assert_eq!(all_ports_counters.counter(Counter::RcvPkts), Some(11));
    assert_eq!(all_ports_counters.counter(Counter::XmitPkts), Some(10));

    let mut data = PortCounters::default();
    data.set_port_select(ALL_PORTS).set_counter_select(1 << 14);
    let request = PerfMad::request(
        Method::SET,
        attribute::PORT_COUNTERS,
        Tid(9),
        data.as_data(),
    );
    let (status, answer) = ask(&mut requester, 4, &request).unwrap();
    assert_eq!(status, Status::OK);
    let answer = PortCounters::from_data(answer.data());
    assert_eq!(answer.counter(Counter::XmitPkts), Some(0));
    assert_eq!(answer.counter(Counter::RcvPkts), Some(12));
    assert_eq!(port_counter(&mut requester, S1, 4, Counter::XmitPkts), 0);
    assert_eq!(
        port_counter(&mut requester, S1, 4, Counter::XmitData),
        5 * MAD_WORDS
    );
}

#[test]
fn agents_report_their_capabilities_and_refuse_unknown_ports_and_attributes() {
    let mut requester = requester();
    requester.program();
    let get = |attribute, data: &[u8; 192]| PerfMad::request(Method::GET, attribute, Tid(3), data);
    for (lid, has_all_port_select) in [(4, true), (2, false), (1, false)] {
        let request = get(attribute::CLASS_PORT_INFO, &[0; 192]);
        let (_, answer) = ask(&mut requester, lid, &request).unwrap();
        let info = ClassPortInfo::from_prefix(answer.data()).unwrap();
        let capabilities = PerfCapabilityMask(info.capability_mask().0);
        assert!(capabilities.contains(PerfCapabilityMask::EXTENDED_WIDTH));
        let has = capabilities.contains(PerfCapabilityMask::ALL_PORT_SELECT);
        assert_eq!(has, has_all_port_select, "{lid}");
    }
    let mut counters = PortCounters::default();
    // Host 2 has one port, the switch has four.
    for (lid, port) in [(2, 2), (2, ALL_PORTS), (4, 5)] {
        counters.set_port_select(port);
        let request = get(attribute::PORT_COUNTERS, counters.as_data());
        let (status, _) = ask(&mut requester, lid, &request).unwrap();
        assert_eq!(status, Status::INVALID_FIELD, "{lid} port {port}");
    }
    let unknown = get(rsm_mad::wire::header::AttrId(0x17), &[0; 192]);
    let (status, _) = ask(&mut requester, 4, &unknown).unwrap();
    assert_eq!(status, Status::UNSUPPORTED_METHOD_ATTRIBUTE);
}

#[test]
fn symptoms_increase_counters_at_their_rate() {
    let mut requester = requester();
    requester.program();
    let symbol = Counter::SymbolError;
    requester
        .sim
        .set_errors(S1, PortNum(2), symbol, 0.5)
        .unwrap();
    requester.wait(Duration::from_secs(9));
    assert_eq!(port_counter(&mut requester, S1, 2, symbol), 4);
    requester
        .sim
        .set_errors(S1, PortNum(2), symbol, 100.0)
        .unwrap();
    requester.wait(Duration::from_secs(1));
    assert_eq!(port_counter(&mut requester, S1, 2, symbol), 104);
    // Two counters of one port increase, and no counter of the neighboring port.
    requester
        .sim
        .set_errors(S1, PortNum(2), Counter::XmitWait, 1e6)
        .unwrap();
    requester
        .sim
        .set_errors(S1, PortNum(2), symbol, 0.0)
        .unwrap();
    requester.wait(Duration::from_secs(2));
    assert_eq!(port_counter(&mut requester, S1, 2, symbol), 104);
    assert_eq!(
        port_counter(&mut requester, S1, 2, Counter::XmitWait),
        2_000_000
    );
    for port in [1, 3] {
        assert_eq!(port_counter(&mut requester, S1, port, symbol), 0);
    }
    for rate in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(
            requester
                .sim
                .set_errors(S1, PortNum(2), symbol, rate)
                .is_err()
        );
    }
}

#[test]
fn losses_and_links_that_go_down_increase_their_counters() {
    let mut requester = requester();
    requester.program();
    requester.sim.set_link_loss(S1, PortNum(2), 1.0).unwrap();
    send(&mut requester, 2, 3);
    assert_eq!(port_counter(&mut requester, S2, 2, Counter::RcvErrors), 3);
    assert_eq!(port_counter(&mut requester, S2, 2, Counter::RcvPkts), 0);
    requester.sim.set_link_loss(S1, PortNum(2), 0.0).unwrap();
    send(&mut requester, 5000, 2);
    assert_eq!(
        port_counter(&mut requester, S1, 1, Counter::RcvSwitchRelayErrors),
        2
    );
    requester.sim.unlink(S1, PortNum(2)).unwrap();
    send(&mut requester, 2, 4);
    assert_eq!(
        port_counter(&mut requester, S1, 2, Counter::XmitDiscards),
        4
    );
    assert_eq!(port_counter(&mut requester, S1, 2, Counter::LinkDowned), 1);
    assert_eq!(port_counter(&mut requester, S2, 2, Counter::LinkDowned), 1);
    // Counters restart from zero after a power cycle.
    requester.sim.power_off(S2).unwrap();
    requester.sim.power_on(S2).unwrap();
    assert_eq!(port_counter(&mut requester, S2, 2, Counter::LinkDowned), 0);
}

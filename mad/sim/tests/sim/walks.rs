//! Tests of the counters that probes increase, as performance management reads them.

use crate::common;

use std::time::Duration;

use common::{H1, H2, H3, LIDS, Requester, S1, S2, requester};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{
    LinearForwardingTable, MulticastForwardingTable, PKey, PKeyTable, SwitchInfo,
};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::perf::{
    ALL_PORTS, Counter, PerfMad, PortCounterAttribute, PortCountersExtended,
    PortExtendedSpeedsCounters, PortRcvErrorDetails, PortXmitDiscardDetails, attribute,
};
use rsm_mad::wire::smp::Smp;
use rsm_sim::{DropReason, Picks, Probe};

/// The length in 4-byte words of a datagram of 256 bytes with LRH, BTH, DETH and ICRC.
const WORDS: u64 = (256 + 32) / 4;
/// The length in 4-byte words of a datagram of 256 bytes with LRH, GRH, BTH, DETH and ICRC.
const GLOBAL_WORDS: u64 = WORDS + 10;

/// Every port with a cable.
const PORTS: [(Guid, u8); 10] = [
    (S1, 1),
    (S1, 2),
    (S1, 3),
    (S1, 4),
    (S2, 1),
    (S2, 2),
    (S2, 3),
    (H1, 1),
    (H2, 1),
    (H3, 1),
];

fn port(number: u8) -> PortNum {
    PortNum(number)
}

/// The value of a counter of a port.
fn port_counter(requester: &mut Requester, node: Guid, number: u8, counter: Counter) -> u64 {
    requester.sim.port_counters(node, port(number)).unwrap()[counter]
}

/// The answer of the performance agent at `lid` to a request with `data`.
fn ask_performance_agent(
    requester: &mut Requester,
    lid: u16,
    method: Method,
    attribute: AttrId,
    data: &[u8; 192],
) -> PerfMad {
    let request = PerfMad::request(method, attribute, Tid(7), data);
    let remote = RemoteAddress::gsi(Lid(lid), 0);
    let answer = requester.ask(Smp::from_bytes(request.as_bytes()), remote);
    let answer = *PerfMad::from_bytes(answer.expect("the agent answers").as_bytes());
    assert_eq!(answer.header().status(), Status::OK);
    answer
}

/// The data of a request with PortSelect `port` and CounterSelect `counters`.
fn selection(port: u8, counters: u16) -> [u8; 192] {
    let mut data = [0; 192];
    data[1] = port;
    data[2..4].copy_from_slice(&counters.to_be_bytes());
    data
}

fn received_causes(requester: &mut Requester, lid: u16, port: u8) -> PortRcvErrorDetails {
    let attribute = attribute::PORT_RCV_ERROR_DETAILS;
    let answer = ask_performance_agent(requester, lid, Method::GET, attribute, &selection(port, 0));
    *PortRcvErrorDetails::from_data(answer.data())
}

fn discard_causes(requester: &mut Requester, lid: u16, port: u8) -> PortXmitDiscardDetails {
    let attribute = attribute::PORT_XMIT_DISCARD_DETAILS;
    let answer = ask_performance_agent(requester, lid, Method::GET, attribute, &selection(port, 0));
    *PortXmitDiscardDetails::from_data(answer.data())
}

#[test]
fn probe_counts_at_both_ends_of_each_link_that_it_walks() {
    let mut requester = requester();
    requester.program();
    for _ in 0..3 {
        let probe = requester.sim.probe((H1, port(1)), Lid(2), 0).unwrap();
        assert!(matches!(probe, Probe::Delivered { hops: 3, .. }));
    }
    // The path is H1:1 → S1:1, S1:2 → S2:2, S2:1 → H2:1.
    let (senders, receivers) = ([(H1, 1), (S1, 2), (S2, 1)], [(S1, 1), (S2, 2), (H2, 1)]);
    for (node, number) in PORTS {
        let sent = 3 * u64::from(senders.contains(&(node, number)));
        let received = 3 * u64::from(receivers.contains(&(node, number)));
        for (counter, expected) in [
            (Counter::XmitPkts, sent),
            (Counter::UnicastXmitPkts, sent),
            (Counter::XmitData, sent * WORDS),
            (Counter::RcvPkts, received),
            (Counter::UnicastRcvPkts, received),
            (Counter::RcvData, received * WORDS),
            (Counter::MulticastXmitPkts, 0),
            (Counter::XmitDiscards, 0),
            (Counter::RcvErrors, 0),
        ] {
            let value = port_counter(&mut requester, node, number, counter);
            assert_eq!(value, expected, "{node} port {number} {counter}");
        }
    }
    // The agent of host 2 reports the three probes, and also counts this request.
    let attribute = attribute::PORT_COUNTERS_EXTENDED;
    let answer = ask_performance_agent(&mut requester, 2, Method::GET, attribute, &selection(1, 0));
    let counters_read = PortCountersExtended::from_data(answer.data());
    assert_eq!(counters_read.counter(Counter::RcvPkts), Some(4));
    assert_eq!(counters_read.counter(Counter::RcvData), Some(4 * WORDS));
}

#[test]
fn all_probes_that_leave_a_port_arrive_at_its_other_end() {
    let mut requester = requester();
    requester.program();
    let end_ports: Vec<(Guid, u8)> = LIDS
        .iter()
        .map(|&(guid, _)| (guid, u8::from(guid != S1 && guid != S2)))
        .collect();
    let mut total_hops = 0;
    for &(guid, number) in &end_ports {
        for (_, lid) in LIDS {
            let probe = requester
                .sim
                .probe((guid, port(number)), Lid(lid), 0)
                .unwrap();
            let Probe::Delivered { hops, .. } = probe else {
                panic!("{guid} to {lid}: {probe:?}");
            };
            total_hops += u64::from(hops);
        }
    }
    let mut total_sent = 0;
    for (node, number) in PORTS {
        let (peer, peer_port) = requester.sim.peer(node, port(number)).unwrap().unwrap();
        let sent = port_counter(&mut requester, node, number, Counter::XmitPkts);
        let received = port_counter(&mut requester, peer, peer_port.0, Counter::RcvPkts);
        assert_eq!(sent, received, "{node} port {number}");
        total_sent += sent;
    }
    assert_eq!(total_sent, total_hops);
}

#[test]
fn lost_probe_counts_at_the_port_that_loses_it_with_its_cause() {
    let mut requester = requester();
    requester.program();
    let from = (H1, port(1));
    // No switch has an entry for this LID.
    requester.sim.probe(from, Lid(5000), 0).unwrap();
    assert_eq!(
        port_counter(&mut requester, S1, 1, Counter::RcvSwitchRelayErrors),
        1
    );
    assert_eq!(port_counter(&mut requester, S1, 1, Counter::RcvPkts), 1);
    let causes = received_causes(&mut requester, 4, 1);
    assert_eq!((causes.dlid_mapping(), causes.vl_mapping()), (1, 0));

    // NeighborMTU is 2,048 bytes at most.
    requester.sim.probe_with(from, Lid(2), 0, 4096).unwrap();
    assert_eq!(
        port_counter(&mut requester, H1, 1, Counter::XmitDiscards),
        1
    );
    assert_eq!(discard_causes(&mut requester, 1, 1).neighbor_mtu(), 1);

    requester.sim.unlink(S1, port(2)).unwrap();
    for _ in 0..2 {
        requester.sim.probe(from, Lid(2), 0).unwrap();
    }
    assert_eq!(
        port_counter(&mut requester, S1, 2, Counter::XmitDiscards),
        2
    );
    assert_eq!(port_counter(&mut requester, S1, 2, Counter::XmitPkts), 0);
    let causes = discard_causes(&mut requester, 4, 2);
    assert_eq!((causes.inactive(), causes.neighbor_mtu()), (2, 0));
    let all = discard_causes(&mut requester, 4, ALL_PORTS);
    assert_eq!(all.inactive(), 2, "the sum over all ports of the switch");
}

#[test]
fn looping_probe_counts_on_each_link_until_it_is_discarded() {
    let mut requester = requester();
    requester.program();
    // Each of the two switches sends packets for host 2 to the other switch.
    let mut block = LinearForwardingTable::default();
    block.ports_mut().fill(255);
    block.ports_mut()[1..6].copy_from_slice(&[2, 2, 2, 2, 0]);
    assert_eq!(requester.set(&[1, 2], 0, &block), Some(Status::OK));
    let probe = requester.sim.probe((H1, port(1)), Lid(2), 0).unwrap();
    assert!(matches!(probe, Probe::Loop { .. }), "{probe:?}");
    let (first, second) = (
        port_counter(&mut requester, S1, 2, Counter::XmitPkts),
        port_counter(&mut requester, S2, 2, Counter::XmitPkts),
    );
    assert_eq!(first + second, 64);
    let discards = |requester: &mut Requester| {
        [(S1, 2), (S2, 2)]
            .map(|(node, number)| port_counter(requester, node, number, Counter::XmitDiscards))
    };
    let discards = discards(&mut requester);
    assert_eq!(discards[0] + discards[1], 1, "{discards:?}");
}

#[test]
fn packet_of_a_foreign_partition_counts_at_the_port_that_drops_it() {
    let mut requester = requester();
    requester.program();
    let (from, key) = ((H1, port(1)), PKey(0x8010));
    let probe =
        |requester: &Requester| requester.sim.probe_partition(from, Lid(2), 0, key).unwrap();
    let dropped_at = |probe, expected: (Guid, u8), requester: &mut Requester, counter| {
        let Probe::Dropped {
            node,
            port,
            why: DropReason::PKey,
            ..
        } = probe
        else {
            panic!("{probe:?}");
        };
        assert_eq!((node, port.0), expected);
        port_counter(requester, node, port.0, counter)
    };
    // The source does not have the key.
    let (sent, received) = (Counter::XmitConstraintErrors, Counter::RcvConstraintErrors);
    assert_eq!(
        dropped_at(probe(&requester), (H1, 1), &mut requester, sent),
        1
    );
    assert_eq!(port_counter(&mut requester, H1, 1, Counter::XmitPkts), 0);
    // The source now has the key, and the destination does not.
    let keys = |keys: [PKey; 2]| {
        let mut block = PKeyTable::default();
        let mut all = [PKey::INVALID; PKeyTable::ENTRIES];
        all[..2].copy_from_slice(&keys);
        block.set_p_keys(all);
        block
    };
    let both_keys = keys([PKey::DEFAULT_FULL, key]);
    assert_eq!(requester.set(&[], 0, &both_keys), Some(Status::OK));
    assert_eq!(
        dropped_at(probe(&requester), (H2, 1), &mut requester, received),
        1
    );
    assert_eq!(port_counter(&mut requester, H2, 1, Counter::RcvPkts), 1);
    assert_eq!(requester.set(&[1, 2, 1], 0, &both_keys), Some(Status::OK));
    assert!(probe(&requester).is_delivered());

    // A port of a switch that enforces partitions drops packets that enter or leave through it.
    let default = keys([PKey::DEFAULT_FULL, PKey::INVALID]);
    assert_eq!(requester.set(&[1], 1 << 16, &default), Some(Status::OK));
    let enforce = |requester: &mut Requester, hops: &[u8], number, inbound, outbound| {
        let status = requester.change_port(hops, number, |info| {
            info.set_partition_enforcement_inbound(inbound)
                .set_partition_enforcement_outbound(outbound);
        });
        assert_eq!(status, Some(Status::OK));
    };
    enforce(&mut requester, &[1], 1, true, false);
    assert_eq!(
        dropped_at(probe(&requester), (S1, 1), &mut requester, received),
        1
    );
    enforce(&mut requester, &[1], 1, false, false);
    assert_eq!(requester.set(&[1, 2], 1 << 16, &default), Some(Status::OK));
    enforce(&mut requester, &[1, 2], 1, false, true);
    assert_eq!(
        dropped_at(probe(&requester), (S2, 1), &mut requester, sent),
        1
    );
    // Packets of the default partition pass.
    let default = PKey::DEFAULT_FULL;
    let other = requester
        .sim
        .probe_partition(from, Lid(2), 0, default)
        .unwrap();
    assert!(other.is_delivered());
}

#[test]
fn each_copy_of_a_multicast_probe_counts_on_its_links() {
    let mut requester = requester();
    requester.program();
    let mlid = Lid(0xC000);
    // Host 1 sends; hosts 2 and 3 and the first switch receive.
    for (hops, ports) in [(&[1u8][..], [0, 1, 2, 4]), (&[1, 2], [1, 2, 2, 2])] {
        let mut block = MulticastForwardingTable::default();
        let mut masks = [0; MulticastForwardingTable::ENTRIES];
        masks[0] = ports.iter().fold(0, |mask, port| mask | 1 << port);
        block.set_masks(masks);
        assert_eq!(requester.set(hops, 0, &block), Some(Status::OK));
        let mut info: SwitchInfo = requester.get_as(hops, 0);
        info.set_multicast_fdb_top(mlid);
        assert_eq!(requester.set(hops, 0, &info), Some(Status::OK));
    }
    let probe = requester
        .sim
        .probe_multicast((H1, port(1)), mlid, 0)
        .unwrap();
    assert_eq!(probe.delivered.len(), 3, "{probe:?}");
    for (node, number) in [(H1, 1), (S1, 2), (S1, 4), (S2, 1)] {
        let counter = |counter| port_counter(&mut requester, node, number, counter);
        let counters = [
            Counter::MulticastXmitPkts,
            Counter::XmitPkts,
            Counter::UnicastXmitPkts,
            Counter::XmitData,
        ];
        assert_eq!(counters.map(counter), [1, 1, 0, GLOBAL_WORDS], "{node}");
    }
    assert_eq!(
        port_counter(&mut requester, H3, 1, Counter::MulticastRcvPkts),
        1
    );
    assert_eq!(port_counter(&mut requester, S1, 3, Counter::XmitPkts), 0);
    // Without its cable one copy is discarded, and the other copies arrive.
    requester.sim.unlink(S2, port(1)).unwrap();
    requester
        .sim
        .probe_multicast((H1, port(1)), mlid, 0)
        .unwrap();
    assert_eq!(
        port_counter(&mut requester, S2, 1, Counter::XmitDiscards),
        1
    );
    assert_eq!(
        port_counter(&mut requester, S2, 2, Counter::MulticastRcvPkts),
        2
    );
    assert_eq!(
        port_counter(&mut requester, H3, 1, Counter::MulticastRcvPkts),
        2
    );
    // No switch forwards packets of another group.
    requester
        .sim
        .probe_multicast((H1, port(1)), Lid(0xC001), 0)
        .unwrap();
    assert_eq!(
        port_counter(&mut requester, S1, 1, Counter::RcvSwitchRelayErrors),
        1
    );
}

#[test]
fn probe_with_seeded_choices_counts_and_the_search_for_the_worst_path_does_not() {
    let mut requester = requester();
    requester.program();
    let from = (H1, port(1));
    requester
        .sim
        .probe_choices(from, Lid(2), 0, Picks::Worst)
        .unwrap();
    assert_eq!(port_counter(&mut requester, S1, 2, Counter::XmitPkts), 0);
    let seeded = Picks::Seeded(1);
    requester
        .sim
        .probe_choices(from, Lid(2), 0, seeded)
        .unwrap();
    requester
        .sim
        .probe_choices(from, Lid(5000), 0, seeded)
        .unwrap();
    assert_eq!(port_counter(&mut requester, S1, 2, Counter::XmitPkts), 1);
    assert_eq!(port_counter(&mut requester, H2, 1, Counter::RcvPkts), 1);
    assert_eq!(port_counter(&mut requester, H1, 1, Counter::XmitPkts), 2);
    assert_eq!(
        port_counter(&mut requester, S1, 1, Counter::RcvSwitchRelayErrors),
        1
    );
}

#[test]
fn causes_stop_at_their_maximum_and_are_reset_by_their_bits() {
    let mut requester = requester();
    requester.program();
    requester
        .sim
        .set_errors(S1, port(2), Counter::RcvErrors, 1e5)
        .unwrap();
    requester
        .sim
        .set_errors(S1, port(2), Counter::XmitDiscards, 10.0)
        .unwrap();
    requester.wait(Duration::from_secs(1));
    for (counter, rate) in [(Counter::RcvErrors, 0.0), (Counter::XmitDiscards, 0.0)] {
        requester
            .sim
            .set_errors(S1, port(2), counter, rate)
            .unwrap();
    }
    assert_eq!(
        received_causes(&mut requester, 4, 2).local_physical(),
        u16::MAX
    );
    assert_eq!(discard_causes(&mut requester, 4, 2).hoq_lifetime(), 10);
    let reset = |requester: &mut Requester, attribute, bits| {
        ask_performance_agent(requester, 4, Method::SET, attribute, &selection(2, bits));
    };
    let (received, discards) = (
        attribute::PORT_RCV_ERROR_DETAILS,
        attribute::PORT_XMIT_DISCARD_DETAILS,
    );
    reset(&mut requester, received, 0b11_1110);
    reset(&mut requester, discards, 0b0111);
    assert_eq!(
        received_causes(&mut requester, 4, 2).local_physical(),
        u16::MAX
    );
    assert_eq!(discard_causes(&mut requester, 4, 2).hoq_lifetime(), 10);
    reset(&mut requester, received, 1);
    reset(&mut requester, discards, 0b1000);
    assert_eq!(received_causes(&mut requester, 4, 2).local_physical(), 0);
    assert_eq!(discard_causes(&mut requester, 4, 2).hoq_lifetime(), 0);
    // PortCounters keep their values.
    assert_eq!(
        port_counter(&mut requester, S1, 2, Counter::RcvErrors),
        100_000
    );
    // Ports that do not exist have no causes.
    let request = PerfMad::request(Method::GET, received, Tid(3), &selection(9, 0));
    let remote = RemoteAddress::gsi(Lid(4), 0);
    let answer = requester
        .ask(Smp::from_bytes(request.as_bytes()), remote)
        .unwrap();
    assert_eq!(answer.header().status(), Status::INVALID_FIELD);
}

#[test]
fn injected_errors_appear_in_the_counters_of_error_correction() {
    let mut requester = requester();
    requester.program();
    for (counter, rate) in [(Counter::SymbolError, 70.0), (Counter::RcvErrors, 3.0)] {
        requester
            .sim
            .set_errors(S1, port(2), counter, rate)
            .unwrap();
    }
    requester.wait(Duration::from_secs(1));
    for counter in [Counter::SymbolError, Counter::RcvErrors] {
        requester.sim.set_errors(S1, port(2), counter, 0.0).unwrap();
    }
    let attribute = attribute::PORT_EXTENDED_SPEEDS_COUNTERS;
    let error_correction_counters = |requester: &mut Requester| {
        let answer = ask_performance_agent(requester, 4, Method::GET, attribute, &selection(2, 0));
        let counters = PortExtendedSpeedsCounters::from_data(answer.data());
        (
            counters.correctable_blocks(),
            counters.uncorrectable_blocks(),
            counters.corrected_symbols(),
        )
    };
    assert_eq!(error_correction_counters(&mut requester), (70, 3, 70));
    let mut reset = PortExtendedSpeedsCounters::default();
    reset.set_port_select(2).set_counter_select(1 << 40);
    ask_performance_agent(&mut requester, 4, Method::SET, attribute, reset.as_data());
    assert_eq!(error_correction_counters(&mut requester), (70, 3, 0));
}

#[test]
fn clone_of_a_fabric_keeps_earlier_counts_and_then_counts_separately() {
    let mut requester = requester();
    requester.program();
    requester.sim.probe((H1, port(1)), Lid(2), 0).unwrap();
    let mut other = requester.sim.clone();
    other.probe((H1, port(1)), Lid(2), 0).unwrap();
    let sent = |sim: &mut rsm_sim::Sim| sim.port_counters(H1, port(1)).unwrap()[Counter::XmitPkts];
    assert_eq!((sent(&mut requester.sim), sent(&mut other)), (1, 2));
}

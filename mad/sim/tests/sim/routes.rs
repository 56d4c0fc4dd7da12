//! Tests of routes and losses of packets.

use crate::common;

use std::time::Duration;

use common::{H1, H2, H3, Hand, S1, S2, hand, hand_with, path};
use rsm_ids::{Lid, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress, SendFailure};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, Class, MadHeader, Method, Status};
use rsm_mad::wire::smp::Smp;
use rsm_sim::{DropReason, Probe, Silence, SimConfig};

/// Sends a Get of NodeInfo by LID.
fn node_info_at(hand: &mut Hand, lid: u16) -> Option<NodeInfo> {
    let request = hand.request(Method::GET, AttrId::NODE_INFO, 0);
    let smp = Smp::lid_routed(&request);
    let answer = hand.ask(&smp, RemoteAddress::smi(Lid(lid)))?;
    Some(*NodeInfo::from_data(answer.data()))
}

/// The number of packets that were dropped for this reason.
fn dropped(hand: &Hand, reason: DropReason) -> u64 {
    hand.sim.counters().dropped_for(reason)
}

#[test]
fn lid_routes_follow_the_programmed_tables() {
    let mut hand = hand();
    assert!(node_info_at(&mut hand, 2).is_none());
    assert_eq!(dropped(&hand, DropReason::NoAddress), 1);
    hand.program();
    for (guid, lid) in common::LIDS {
        let info = node_info_at(&mut hand, lid).unwrap();
        assert_eq!(info.node_guid(), guid);
    }
    assert!(node_info_at(&mut hand, 6).is_none());
    assert_eq!(dropped(&hand, DropReason::NoRoute), 1);

    // A packet with a wrong entry arrives at the wrong port; an entry above the top does not count.
    let mut block: LinearForwardingTable = hand.get_as(&[1], 0);
    block.ports_mut()[2] = 4;
    hand.set(&[1], 0, &block);
    assert!(node_info_at(&mut hand, 2).is_none());
    assert_eq!(dropped(&hand, DropReason::WrongPort), 1);
    block.ports_mut()[2] = 2;
    hand.set(&[1], 0, &block);
    assert!(node_info_at(&mut hand, 2).is_some());
    let mut info: SwitchInfo = hand.get_as(&[1], 0);
    info.set_linear_fdb_top(Lid(1));
    hand.set(&[1], 0, &info);
    assert!(node_info_at(&mut hand, 2).is_none());
    assert_eq!(dropped(&hand, DropReason::NoRoute), 2);
}

#[test]
fn a_probe_reports_where_data_is_lost() {
    let mut hand = hand();
    let from = (H1, PortNum(1));
    hand.program();
    let probe = |hand: &Hand, lid, sl| hand.sim.probe(from, Lid(lid), sl).unwrap();
    let delivered = Probe::Delivered {
        node: H2,
        port: PortNum(1),
        hops: 3,
    };
    assert_eq!(probe(&hand, 2, 0), delivered);
    let at_port0 = Probe::Delivered {
        node: S2,
        port: PortNum(0),
        hops: 2,
    };
    assert_eq!(probe(&hand, 5, 0), at_port0);
    let lost = |node, port, hops, why| Probe::Dropped {
        node,
        port: PortNum(port),
        hops,
        why,
    };
    assert_eq!(probe(&hand, 9, 0), lost(S1, 1, 1, DropReason::NoRoute));
    // Only VL 0 is in operation: service level 1 has no VL.
    assert_eq!(probe(&hand, 2, 1), lost(H1, 1, 0, DropReason::VirtualLane));
    let large = hand.sim.probe_with(from, Lid(2), 0, 257).unwrap();
    assert_eq!(large, lost(H1, 1, 0, DropReason::Mtu));

    let mut block: LinearForwardingTable = hand.get_as(&[1, 2], 0);
    block.ports_mut()[2] = 3;
    hand.set(&[1, 2], 0, &block);
    assert!(matches!(probe(&hand, 2, 0), Probe::Loop { .. }));
    block.ports_mut()[2] = 4;
    hand.set(&[1, 2], 0, &block);
    assert_eq!(probe(&hand, 2, 0), lost(S2, 4, 2, DropReason::LinkDown));
    block.ports_mut()[2] = 0;
    hand.set(&[1, 2], 0, &block);
    assert_eq!(probe(&hand, 2, 0), lost(S2, 0, 2, DropReason::WrongPort));
    block.ports_mut()[2] = 77;
    hand.set(&[1, 2], 0, &block);
    assert_eq!(probe(&hand, 2, 0), lost(S2, 2, 2, DropReason::NoSuchPort));
    block.ports_mut()[2] = 1;
    hand.set(&[1, 2], 0, &block);
    assert_eq!(probe(&hand, 2, 0), delivered);

    // The link between the switches is new and in Init.
    hand.set_port_state(&[1], 2, PortState::Down);
    hand.wait(Duration::from_secs(1));
    assert_eq!(probe(&hand, 2, 0), lost(S1, 2, 1, DropReason::PortState));
    hand.set_port_state(&[1], 2, PortState::Armed);
    hand.set_port_state(&[1, 3], 2, PortState::Armed);
    assert!(!probe(&hand, 2, 0).is_delivered());
    hand.set_port_state(&[1], 2, PortState::Active);
    // An Armed port receives data packets, and an Active port sends them.
    assert!(probe(&hand, 2, 0).is_delivered());
    let back = hand.sim.probe((H2, PortNum(1)), Lid(1), 0).unwrap();
    assert_eq!(back, lost(S2, 2, 1, DropReason::PortState));

    let mut mapping = SlToVlMapping::default();
    mapping.set_vls([SlToVlMapping::DROP; 16]);
    let row = SlToVlMapping::modifier(PortNum(2), PortNum(1));
    hand.set(&[1, 3], row, &mapping);
    assert_eq!(probe(&hand, 2, 0), lost(S2, 1, 2, DropReason::VirtualLane));
}

/// The traps of one kind that client 1 received.
fn traps(hand: &mut Hand, number: Trap) -> Vec<Datagram> {
    hand.take_mads()
        .into_iter()
        .map(|(_, datagram)| datagram)
        .filter(|datagram| {
            let smp = Smp::from_bytes(&datagram.mad);
            let notice = Notice::from_data(smp.data());
            smp.header().method() == Method::TRAP && notice.trap_number() == number
        })
        .collect()
}

/// Answers a trap with TrapRepress.
fn repress(hand: &mut Hand, trap: &Datagram) {
    let mut smp = *Smp::from_bytes(&trap.mad);
    smp.make_response(Status::OK);
    let datagram = Datagram {
        mad: *smp.as_bytes(),
        remote: trap.remote,
    };
    hand.sim.send(hand.client, &datagram, hand.now);
}

#[test]
fn traps_are_repeated_until_they_are_repressed() {
    let mut hand = hand();
    hand.program();
    hand.other.clear();
    hand.sim.unlink(S1, PortNum(3)).unwrap();
    hand.wait(Duration::from_millis(1));
    let seen = traps(&mut hand, Trap::LINK_STATE_CHANGED);
    let from: Vec<_> = seen.iter().map(|trap| trap.remote.lid).collect();
    assert_eq!(from, [Lid(4), Lid(5)]);
    let notice = *Notice::from_data(Smp::from_bytes(&seen[1].mad).data());
    assert_eq!(notice.issuer_lid(), Lid(5));
    assert_eq!(notice.producer_type(), ProducerType::SWITCH);
    assert!(hand.sim.switch_info(S1).unwrap().port_state_change());

    repress(&mut hand, &seen[0]);
    hand.wait(Duration::from_secs(3));
    let repeated = traps(&mut hand, Trap::LINK_STATE_CHANGED);
    let from: Vec<_> = repeated.iter().map(|trap| trap.remote.lid).collect();
    assert_eq!(from, [Lid(5), Lid(5)]);
    let tid = |trap: &Datagram| MadHeader::of(&trap.mad).tid();
    assert_eq!(tid(&repeated[0]), tid(&seen[1]));

    // The event happens again while the first trap is not repressed: another trap follows.
    hand.sim.relink(S1, PortNum(3)).unwrap();
    hand.wait(Duration::from_millis(50));
    let seen = traps(&mut hand, Trap::LINK_STATE_CHANGED);
    assert_eq!(
        seen.len(),
        1,
        "the first switch, for the second still waits"
    );
    repress(&mut hand, &seen[0]);
    repress(&mut hand, &repeated[1]);
    hand.wait(Duration::from_millis(50));
    let last = traps(&mut hand, Trap::LINK_STATE_CHANGED);
    assert_eq!(last.len(), 1);
    assert_ne!(tid(&last[0]), tid(&repeated[1]));
    repress(&mut hand, &last[0]);
    hand.wait(Duration::from_secs(10));
    assert!(traps(&mut hand, Trap::LINK_STATE_CHANGED).is_empty());
    assert_eq!(hand.sim.next_event(), None);
}

#[test]
fn trap_is_sent_21_times_without_a_repress() {
    let mut hand = hand();
    hand.program();
    hand.other.clear();
    let first = hand.sim.counters().traps;
    hand.sim.set_description(H2, b"renamed").unwrap();
    hand.wait(Duration::from_secs(100));
    let seen = traps(&mut hand, Trap::LOCAL_CHANGE);
    assert_eq!(seen.len(), 21);
    assert_eq!(hand.sim.counters().traps - first, 21);
    let notice = *Notice::from_data(Smp::from_bytes(&seen[0].mad).data());
    let TrapDetails::LocalChange(details) = notice.details() else {
        panic!("{notice:?}");
    };
    assert!(details.other_local_changes());
    assert_eq!(details.changes(), LocalChanges::NODE_DESCRIPTION);
    let description: NodeDescription = hand.get_as(&[1, 2, 1], 0);
    assert_eq!(description.text(), b"renamed");
}

#[test]
fn a_wrong_m_key_and_an_exceeded_threshold_send_traps() {
    let mut hand = hand();
    hand.program();
    hand.change_port(&[1, 2, 1], 0, |info| {
        info.set_m_key(7);
    });
    hand.other.clear();
    hand.m_key = 8;
    assert_eq!(hand.set(&[1, 2, 1], 0, &PortInfo::default()), None);
    let seen = traps(&mut hand, Trap::BAD_M_KEY);
    let notice = *Notice::from_data(Smp::from_bytes(&seen[0].mad).data());
    let TrapDetails::BadMKey(details) = notice.details() else {
        panic!("{notice:?}");
    };
    assert_eq!(details.m_key(), 8);
    assert_eq!(details.attribute(), AttrId::PORT_INFO);
    assert_eq!(details.return_path()[..4], [1, 2, 1, 0]);

    let integrity = Trap::LINK_INTEGRITY;
    hand.sim
        .inject_threshold(S2, PortNum(3), integrity)
        .unwrap();
    hand.wait(Duration::from_millis(1));
    let seen = traps(&mut hand, integrity);
    let notice = *Notice::from_data(Smp::from_bytes(&seen[0].mad).data());
    let TrapDetails::PortThreshold(details) = notice.details() else {
        panic!("{notice:?}");
    };
    assert_eq!((details.lid(), details.port_num()), (Lid(5), PortNum(3)));
}

#[test]
fn datagrams_between_clients_cross_only_active_links() {
    let mut hand = hand();
    let second = hand.sim.attach(H2, PortNum(1)).unwrap();
    assert!(hand.sim.attach(H2, PortNum(1)).is_err());
    assert!(hand.sim.attach(S1, PortNum(1)).is_err());
    let mut mad = [0xA5; 256];
    mad[..4].copy_from_slice(&[1, Class::SUBNET_ADMINISTRATION.0, 2, Method::GET.0]);
    let datagram = Datagram {
        mad,
        remote: RemoteAddress::gsi(Lid(2), 0),
    };
    hand.sim.send(hand.client, &datagram, hand.now);
    hand.wait(Duration::from_millis(1));
    assert!(hand.take_mads().is_empty());
    hand.program();
    hand.other.clear();
    hand.sim.send(hand.client, &datagram, hand.now);
    hand.wait(Duration::from_millis(1));
    let arrived = Datagram {
        mad,
        remote: RemoteAddress::gsi(Lid(1), 0),
    };
    assert_eq!(hand.take_mads(), [(second, arrived)]);

    // SMInfo is delivered to the other client.
    let request = hand.request(Method::GET, AttrId::SM_INFO, 0);
    let smp = Smp::directed(&path(&[1, 2, 1]), &request);
    let remote = RemoteAddress::directed();
    let mad = *smp.as_bytes();
    let (client, now) = (hand.client, hand.now);
    hand.sim.send(client, &Datagram { mad, remote }, now);
    hand.wait(Duration::from_millis(1));
    let [(to, asked)] = hand.take_mads()[..] else {
        panic!("one request");
    };
    assert_eq!(to, second);
    let mut smp = *Smp::from_bytes(&asked.mad);
    assert_eq!(smp.return_path()[..4], [0, 1, 2, 1]);
    smp.make_response(Status::OK);
    let mad = *smp.as_bytes();
    let answer = Datagram {
        mad,
        remote: asked.remote,
    };
    hand.sim.send(second, &answer, hand.now);
    hand.wait(Duration::from_millis(1));
    let [(to, answered)] = hand.take_mads()[..] else {
        panic!("one answer");
    };
    assert_eq!(to, hand.client);
    assert_eq!(MadHeader::of(&answered.mad).method(), Method::GET_RESPONSE);
    assert_eq!(Smp::from_bytes(&answered.mad).hop_pointer(), 0);
}

#[test]
fn an_armed_port_becomes_active_when_data_arrives() {
    let mut hand = hand();
    hand.program();
    hand.set_port_state(&[1], 2, PortState::Down);
    hand.wait(Duration::from_secs(1));
    hand.set_port_state(&[1], 2, PortState::Armed);
    hand.set_port_state(&[1, 3], 2, PortState::Armed);
    hand.set_port_state(&[1], 2, PortState::Active);
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 3, 2, 1]);
    let remote = RemoteAddress::gsi(Lid(2), 0);
    hand.sim
        .send(hand.client, &Datagram { mad, remote }, hand.now);
    hand.wait(Duration::from_millis(1));
    assert_eq!(hand.state(S2, 2), PortState::Active);
}

#[test]
fn a_rebooted_switch_loses_its_tables_and_comes_back() {
    let mut hand = hand();
    hand.program();
    hand.sim.reboot(S2).unwrap();
    assert_eq!(hand.state(S1, 2), PortState::Down);
    assert_eq!(hand.state(H2, 1), PortState::Down);
    assert!(hand.get(&[1, 2], AttrId::NODE_INFO, 0).is_none());
    hand.wait(Duration::from_secs(3));
    assert_eq!(hand.state(S1, 2), PortState::Init);
    assert_eq!(hand.state(H2, 1), PortState::Init);
    assert!(hand.sim.lft(S2).unwrap().is_empty());
    assert_eq!(hand.sim.port_info(S2, PortNum(0)).unwrap().lid(), Lid(0));
    // The host behind the port did not reboot.
    assert_eq!(hand.sim.port_info(H2, PortNum(1)).unwrap().lid(), Lid(2));
    assert!(hand.get(&[1, 2], AttrId::NODE_INFO, 0).is_some());
}

#[test]
fn nodes_and_cables_can_be_added_while_the_simulation_runs() {
    use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};
    let mut hand = hand();
    let new = common::node(NodeKind::Ca, rsm_ids::Guid(0x40), 2, "new");
    hand.sim.add_node(&new, None).unwrap();
    assert!(hand.sim.add_node(&new, None).is_err());
    let (a, b) = ((new.guid, PortNum(2)), (S2, PortNum(4)));
    let (width, speed) = (LinkWidth::X4, LinkSpeed::Edr);
    hand.sim.add_cable(a, b, width, speed).unwrap();
    assert!(hand.sim.add_cable(a, b, width, speed).is_err());
    hand.wait(Duration::from_secs(1));
    let info: NodeInfo = hand.get_as(&[1, 2, 4], 0);
    assert_eq!(info.node_guid(), new.guid);
    assert_eq!(info.local_port_num(), PortNum(2));
    let port = hand.sim.port_info(S2, PortNum(4)).unwrap();
    assert_eq!(port.effective_speed(), Some(LinkSpeed::Edr));
    assert_eq!(hand.sim.find("new"), Ok(new.guid));
    assert_eq!(hand.sim.find("0x40"), Ok(new.guid));
    assert!(hand.sim.find("nobody").is_err());

    hand.sim
        .set_cable_rate(S2, PortNum(4), LinkWidth::X1, speed)
        .unwrap();
    hand.wait(Duration::from_secs(1));
    let port = hand.sim.port_info(S2, PortNum(4)).unwrap();
    assert_eq!(
        port.link_width_active(),
        rsm_mad::wire::attr::LinkWidths::X1
    );
}

#[test]
fn injected_faults_occur_at_their_rates() {
    let mut hand = hand();
    let count = |hand: &mut Hand, asks: usize, hops: &[u8]| {
        (0..asks)
            .filter(|_| hand.get(hops, AttrId::NODE_INFO, 0).is_some())
            .count()
    };
    hand.sim.set_loss(0.1).unwrap();
    // The request and the answer each survive in nine cases of ten.
    let answered = count(&mut hand, 2000, &[1, 2]);
    assert!((1550..1690).contains(&answered), "{answered}");
    hand.sim.set_loss(0.0).unwrap();
    hand.sim.set_attribute_loss(AttrId::NODE_INFO, 1.0).unwrap();
    assert_eq!(count(&mut hand, 5, &[1]), 0);
    assert!(hand.get(&[1], AttrId::SWITCH_INFO, 0).is_some());
    hand.sim.set_attribute_loss(AttrId::NODE_INFO, 0.0).unwrap();
    hand.sim.set_link_loss(S2, PortNum(2), 1.0).unwrap();
    assert_eq!(count(&mut hand, 5, &[1, 2]), 0);
    assert_eq!(count(&mut hand, 5, &[1, 3]), 5);
    hand.sim.set_link_loss(S1, PortNum(2), 0.0).unwrap();
    hand.sim.set_node_loss(S1, 0.5).unwrap();
    let answered = count(&mut hand, 1000, &[1, 2]);
    assert!((200..300).contains(&answered), "{answered}");
    hand.sim.set_node_loss(S1, 0.0).unwrap();
    assert!(hand.sim.set_loss(1.5).is_err());

    hand.sim.set_silence(S1, Silence::Answers).unwrap();
    assert_eq!(count(&mut hand, 1, &[1]), 0);
    assert_eq!(count(&mut hand, 1, &[1, 2]), 1);
    hand.sim.set_silence(S1, Silence::Everything).unwrap();
    assert_eq!(count(&mut hand, 1, &[1, 2]), 0);
    hand.sim.set_silence(S1, Silence::None).unwrap();

    hand.sim.set_busy(S1, 2).unwrap();
    let statuses: Vec<_> = (0..3)
        .map(|_| hand.get(&[1], AttrId::NODE_INFO, 0).unwrap().status())
        .collect();
    assert_eq!(statuses, [Status::BUSY, Status::BUSY, Status::OK]);

    hand.sim.set_duplicates(1.0).unwrap();
    hand.other.clear();
    assert_eq!(count(&mut hand, 10, &[1]), 10);
    hand.wait(Duration::from_millis(1));
    assert_eq!(hand.take_mads().len(), 10);
    hand.sim.set_duplicates(0.0).unwrap();

    hand.sim.set_late(1.0).unwrap();
    assert!(count(&mut hand, 50, &[1]) < 10);
    hand.wait(Duration::from_secs(2));
    assert!(hand.take_mads().len() > 40);
}

#[test]
fn a_burst_overflows_the_buffer_of_one_agent() {
    let config = SimConfig {
        host_send_interval: Duration::ZERO,
        ..SimConfig::default()
    };
    let mut hand = hand_with(config, 1);
    for _ in 0..100 {
        let request = hand.request(Method::GET, AttrId::NODE_INFO, 0);
        let mad = *Smp::directed(&path(&[1]), &request).as_bytes();
        let remote = RemoteAddress::directed();
        let (client, now) = (hand.client, hand.now);
        hand.sim.send(client, &Datagram { mad, remote }, now);
    }
    hand.wait(Duration::from_millis(10));
    assert_eq!(hand.take_mads().len(), 64);
    assert_eq!(dropped(&hand, DropReason::BufferFull), 36);
}

#[test]
fn an_unanswered_request_fails_after_its_timeout() {
    let mut hand = hand();
    hand.sim.set_silence(S2, Silence::Answers).unwrap();
    for hops in [&[1][..], &[1, 2]] {
        let request = hand.request(Method::GET, AttrId::NODE_INFO, 0);
        let mad = *Smp::directed(&path(hops), &request).as_bytes();
        let remote = RemoteAddress::directed();
        let (client, now) = (hand.client, hand.now);
        let timeout = Duration::from_millis(100);
        hand.sim
            .send_with_timeout(client, &Datagram { mad, remote }, timeout, now);
    }
    hand.wait(Duration::from_millis(99));
    assert_eq!(hand.other.len(), 1);
    hand.wait(Duration::from_millis(1));
    let failed = Inbound::SendFailed {
        class: Class::SUBNET_DIRECTED,
        tid: Tid(2),
        kind: SendFailure::TimedOut,
    };
    assert_eq!(hand.other[1].1, failed);
}

#[test]
fn the_journal_records_sets_that_took_effect() {
    let mut hand = hand();
    hand.sim.start_journal(2);
    let description = NodeDescription::new(b"x");
    hand.set(&[1], 0, &description);
    for block in 0..3 {
        let mut lft = LinearForwardingTable::default();
        lft.ports_mut().fill(block);
        hand.set(&[1], u32::from(block), &lft);
    }
    let journal = hand.sim.take_journal().unwrap();
    let seen: Vec<_> = journal
        .entries()
        .map(|entry| (entry.node, entry.attribute, entry.modifier, entry.data[0]))
        .collect();
    let lft = AttrId::LINEAR_FORWARDING_TABLE;
    assert_eq!(seen, [(S1, lft, 1, 1), (S1, lft, 2, 2)]);
    assert_eq!(journal.overwritten, 1);
    assert_eq!(hand.sim.sets_at(S1), Ok(3));
    assert_eq!(hand.sim.counters().received(lft, Method::SET), 3);
    assert_eq!(hand.sim.sets_at(H3), Ok(0));
}

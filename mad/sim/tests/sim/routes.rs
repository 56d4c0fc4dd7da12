//! Tests of routes and losses of packets.

use crate::common;

use std::time::Duration;

use common::{H1, H2, H3, Requester, S1, S2, path, requester, requester_with};
use rsm_ids::{Lid, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress, SendFailure};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, Class, MadHeader, Method, Status};
use rsm_mad::wire::smp::Smp;
use rsm_sim::{DropReason, Probe, Silence, SimConfig};

/// Sends a Get of NodeInfo by LID.
fn node_info_at(requester: &mut Requester, lid: u16) -> Option<NodeInfo> {
    let request = requester.request(Method::GET, AttrId::NODE_INFO, 0);
    let smp = Smp::lid_routed(&request);
    let answer = requester.ask(&smp, RemoteAddress::smi(Lid(lid)))?;
    Some(*NodeInfo::from_data(answer.data()))
}

/// The number of packets that were dropped for `reason`.
fn dropped(requester: &Requester, reason: DropReason) -> u64 {
    requester.sim.counters().dropped_for(reason)
}

#[test]
fn lid_routes_follow_the_programmed_tables() {
    let mut requester = requester();
    assert!(node_info_at(&mut requester, 2).is_none());
    assert_eq!(dropped(&requester, DropReason::NoAddress), 1);
    requester.program();
    for (guid, lid) in common::LIDS {
        let info = node_info_at(&mut requester, lid).unwrap();
        assert_eq!(info.node_guid(), guid);
    }
    assert!(node_info_at(&mut requester, 6).is_none());
    assert_eq!(dropped(&requester, DropReason::NoRoute), 1);

    // A packet follows a wrong entry to the wrong port; an entry above LinearFDBTop is ignored.
    let mut block: LinearForwardingTable = requester.get_as(&[1], 0);
    block.ports_mut()[2] = 4;
    requester.set(&[1], 0, &block);
    assert!(node_info_at(&mut requester, 2).is_none());
    assert_eq!(dropped(&requester, DropReason::WrongPort), 1);
    block.ports_mut()[2] = 2;
    requester.set(&[1], 0, &block);
    assert!(node_info_at(&mut requester, 2).is_some());
    let mut info: SwitchInfo = requester.get_as(&[1], 0);
    info.set_linear_fdb_top(Lid(1));
    requester.set(&[1], 0, &info);
    assert!(node_info_at(&mut requester, 2).is_none());
    assert_eq!(dropped(&requester, DropReason::NoRoute), 2);
}

#[test]
fn a_probe_reports_where_data_is_lost() {
    let mut requester = requester();
    let from = (H1, PortNum(1));
    requester.program();
    let probe = |requester: &Requester, lid, sl| requester.sim.probe(from, Lid(lid), sl).unwrap();
    let delivered = Probe::Delivered {
        node: H2,
        port: PortNum(1),
        hops: 3,
    };
    assert_eq!(probe(&requester, 2, 0), delivered);
    let at_port0 = Probe::Delivered {
        node: S2,
        port: PortNum(0),
        hops: 2,
    };
    assert_eq!(probe(&requester, 5, 0), at_port0);
    let dropped_at = |node, port, hops, why| Probe::Dropped {
        node,
        port: PortNum(port),
        hops,
        why,
    };
    assert_eq!(
        probe(&requester, 9, 0),
        dropped_at(S1, 1, 1, DropReason::NoRoute)
    );
    // Only VL 0 is in operation, so service level 1 has no VL.
    assert_eq!(
        probe(&requester, 2, 1),
        dropped_at(H1, 1, 0, DropReason::VirtualLane)
    );
    let large = requester.sim.probe_with(from, Lid(2), 0, 257).unwrap();
    assert_eq!(large, dropped_at(H1, 1, 0, DropReason::Mtu));

    let mut block: LinearForwardingTable = requester.get_as(&[1, 2], 0);
    block.ports_mut()[2] = 3;
    requester.set(&[1, 2], 0, &block);
    assert!(matches!(probe(&requester, 2, 0), Probe::Loop { .. }));
    block.ports_mut()[2] = 4;
    requester.set(&[1, 2], 0, &block);
    assert_eq!(
        probe(&requester, 2, 0),
        dropped_at(S2, 4, 2, DropReason::LinkDown)
    );
    block.ports_mut()[2] = 0;
    requester.set(&[1, 2], 0, &block);
    assert_eq!(
        probe(&requester, 2, 0),
        dropped_at(S2, 0, 2, DropReason::WrongPort)
    );
    block.ports_mut()[2] = 77;
    requester.set(&[1, 2], 0, &block);
    assert_eq!(
        probe(&requester, 2, 0),
        dropped_at(S2, 2, 2, DropReason::NoSuchPort)
    );
    block.ports_mut()[2] = 1;
    requester.set(&[1, 2], 0, &block);
    assert_eq!(probe(&requester, 2, 0), delivered);

    // The link between the switches is new and in Init.
    requester.set_port_state(&[1], 2, PortState::Down);
    requester.wait(Duration::from_secs(1));
    assert_eq!(
        probe(&requester, 2, 0),
        dropped_at(S1, 2, 1, DropReason::PortState)
    );
    requester.set_port_state(&[1], 2, PortState::Armed);
    requester.set_port_state(&[1, 3], 2, PortState::Armed);
    assert!(!probe(&requester, 2, 0).is_delivered());
    requester.set_port_state(&[1], 2, PortState::Active);
    // An Armed port receives data packets, and an Active port sends them.
    assert!(probe(&requester, 2, 0).is_delivered());
    let opposite = requester.sim.probe((H2, PortNum(1)), Lid(1), 0).unwrap();
    assert_eq!(opposite, dropped_at(S2, 2, 1, DropReason::PortState));

    let mut mapping = SlToVlMapping::default();
    mapping.set_vls([SlToVlMapping::DROP; 16]);
    let row = SlToVlMapping::modifier(PortNum(2), PortNum(1));
    requester.set(&[1, 3], row, &mapping);
    assert_eq!(
        probe(&requester, 2, 0),
        dropped_at(S2, 1, 2, DropReason::VirtualLane)
    );
}

/// The traps with the number `number` that client 1 received.
fn traps(requester: &mut Requester, number: Trap) -> Vec<Datagram> {
    requester
        .take_mads()
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
fn repress(requester: &mut Requester, trap: &Datagram) {
    let mut smp = *Smp::from_bytes(&trap.mad);
    smp.make_response(Status::OK);
    let datagram = Datagram {
        mad: *smp.as_bytes(),
        remote: trap.remote,
    };
    requester
        .sim
        .send(requester.client, &datagram, requester.now);
}

#[test]
fn traps_are_repeated_until_they_are_repressed() {
    let mut requester = requester();
    requester.program();
    requester.unsolicited.clear();
    requester.sim.unlink(S1, PortNum(3)).unwrap();
    requester.wait(Duration::from_millis(1));
    let traps_received = traps(&mut requester, Trap::LINK_STATE_CHANGED);
    let from: Vec<_> = traps_received.iter().map(|trap| trap.remote.lid).collect();
    assert_eq!(from, [Lid(4), Lid(5)]);
    let notice = *Notice::from_data(Smp::from_bytes(&traps_received[1].mad).data());
    assert_eq!(notice.issuer_lid(), Lid(5));
    assert_eq!(notice.producer_type(), ProducerType::SWITCH);
    assert!(requester.sim.switch_info(S1).unwrap().port_state_change());

    repress(&mut requester, &traps_received[0]);
    requester.wait(Duration::from_secs(3));
    let repeated = traps(&mut requester, Trap::LINK_STATE_CHANGED);
    let from: Vec<_> = repeated.iter().map(|trap| trap.remote.lid).collect();
    assert_eq!(from, [Lid(5), Lid(5)]);
    let tid = |trap: &Datagram| MadHeader::of(&trap.mad).tid();
    assert_eq!(tid(&repeated[0]), tid(&traps_received[1]));

    // The event happens again before the first trap is repressed, so another trap follows.
    requester.sim.relink(S1, PortNum(3)).unwrap();
    requester.wait(Duration::from_millis(50));
    let traps_received = traps(&mut requester, Trap::LINK_STATE_CHANGED);
    assert_eq!(
        traps_received.len(),
        1,
        "only the first switch sends it: the second switch still waits for its repress"
    );
    repress(&mut requester, &traps_received[0]);
    repress(&mut requester, &repeated[1]);
    requester.wait(Duration::from_millis(50));
    let traps_of_second_switch = traps(&mut requester, Trap::LINK_STATE_CHANGED);
    assert_eq!(traps_of_second_switch.len(), 1);
    assert_ne!(tid(&traps_of_second_switch[0]), tid(&repeated[1]));
    repress(&mut requester, &traps_of_second_switch[0]);
    requester.wait(Duration::from_secs(10));
    assert!(traps(&mut requester, Trap::LINK_STATE_CHANGED).is_empty());
    assert_eq!(requester.sim.next_event(), None);
}

#[test]
fn trap_is_sent_21_times_without_a_repress() {
    let mut requester = requester();
    requester.program();
    requester.unsolicited.clear();
    let first = requester.sim.counters().traps;
    requester.sim.set_description(H2, b"renamed").unwrap();
    requester.wait(Duration::from_secs(100));
    let traps_received = traps(&mut requester, Trap::LOCAL_CHANGE);
    assert_eq!(traps_received.len(), 21);
    assert_eq!(requester.sim.counters().traps - first, 21);
    let notice = *Notice::from_data(Smp::from_bytes(&traps_received[0].mad).data());
    let TrapDetails::LocalChange(details) = notice.details() else {
        panic!("{notice:?}");
    };
    assert!(details.other_local_changes());
    assert_eq!(details.changes(), LocalChanges::NODE_DESCRIPTION);
    let description: NodeDescription = requester.get_as(&[1, 2, 1], 0);
    assert_eq!(description.text(), b"renamed");
}

#[test]
fn a_wrong_m_key_and_an_exceeded_threshold_send_traps() {
    let mut requester = requester();
    requester.program();
    requester.change_port(&[1, 2, 1], 0, |info| {
        info.set_m_key(7);
    });
    requester.unsolicited.clear();
    requester.m_key = 8;
    assert_eq!(requester.set(&[1, 2, 1], 0, &PortInfo::default()), None);
    let traps_received = traps(&mut requester, Trap::BAD_M_KEY);
    let notice = *Notice::from_data(Smp::from_bytes(&traps_received[0].mad).data());
    let TrapDetails::BadMKey(details) = notice.details() else {
        panic!("{notice:?}");
    };
    assert_eq!(details.m_key(), 8);
    assert_eq!(details.attribute(), AttrId::PORT_INFO);
    assert_eq!(details.return_path()[..4], [1, 2, 1, 0]);

    let integrity = Trap::LINK_INTEGRITY;
    requester
        .sim
        .inject_threshold(S2, PortNum(3), integrity)
        .unwrap();
    requester.wait(Duration::from_millis(1));
    let traps_received = traps(&mut requester, integrity);
    let notice = *Notice::from_data(Smp::from_bytes(&traps_received[0].mad).data());
    let TrapDetails::PortThreshold(details) = notice.details() else {
        panic!("{notice:?}");
    };
    assert_eq!((details.lid(), details.port_num()), (Lid(5), PortNum(3)));
}

#[test]
fn datagrams_between_clients_cross_only_active_links() {
    let mut requester = requester();
    let second = requester.sim.attach(H2, PortNum(1)).unwrap();
    assert!(requester.sim.attach(H2, PortNum(1)).is_err());
    assert!(requester.sim.attach(S1, PortNum(1)).is_err());
    let mut mad = [0xA5; 256];
    mad[..4].copy_from_slice(&[1, Class::SUBNET_ADMINISTRATION.0, 2, Method::GET.0]);
    let datagram = Datagram {
        mad,
        remote: RemoteAddress::gsi(Lid(2), 0),
    };
    requester
        .sim
        .send(requester.client, &datagram, requester.now);
    requester.wait(Duration::from_millis(1));
    assert!(requester.take_mads().is_empty());
    requester.program();
    requester.unsolicited.clear();
    requester
        .sim
        .send(requester.client, &datagram, requester.now);
    requester.wait(Duration::from_millis(1));
    let arrived = Datagram {
        mad,
        remote: RemoteAddress::gsi(Lid(1), 0),
    };
    assert_eq!(requester.take_mads(), [(second, arrived)]);

    // SMInfo is delivered to the other client.
    let request = requester.request(Method::GET, AttrId::SM_INFO, 0);
    let smp = Smp::directed(&path(&[1, 2, 1]), &request);
    let remote = RemoteAddress::directed();
    let mad = *smp.as_bytes();
    let (client, now) = (requester.client, requester.now);
    requester.sim.send(client, &Datagram { mad, remote }, now);
    requester.wait(Duration::from_millis(1));
    let [(to, received_request)] = requester.take_mads()[..] else {
        panic!("one request arrives");
    };
    assert_eq!(to, second);
    let mut smp = *Smp::from_bytes(&received_request.mad);
    assert_eq!(smp.return_path()[..4], [0, 1, 2, 1]);
    smp.make_response(Status::OK);
    let mad = *smp.as_bytes();
    let answer = Datagram {
        mad,
        remote: received_request.remote,
    };
    requester.sim.send(second, &answer, requester.now);
    requester.wait(Duration::from_millis(1));
    let [(to, received_answer)] = requester.take_mads()[..] else {
        panic!("one answer arrives");
    };
    assert_eq!(to, requester.client);
    assert_eq!(
        MadHeader::of(&received_answer.mad).method(),
        Method::GET_RESPONSE
    );
    assert_eq!(Smp::from_bytes(&received_answer.mad).hop_pointer(), 0);
}

#[test]
fn an_armed_port_becomes_active_when_data_arrives() {
    let mut requester = requester();
    requester.program();
    requester.set_port_state(&[1], 2, PortState::Down);
    requester.wait(Duration::from_secs(1));
    requester.set_port_state(&[1], 2, PortState::Armed);
    requester.set_port_state(&[1, 3], 2, PortState::Armed);
    requester.set_port_state(&[1], 2, PortState::Active);
    let mut mad = [0; 256];
    mad[..4].copy_from_slice(&[1, 3, 2, 1]);
    let remote = RemoteAddress::gsi(Lid(2), 0);
    requester
        .sim
        .send(requester.client, &Datagram { mad, remote }, requester.now);
    requester.wait(Duration::from_millis(1));
    assert_eq!(requester.state(S2, 2), PortState::Active);
}

#[test]
fn a_rebooted_switch_loses_its_tables_and_comes_back() {
    let mut requester = requester();
    requester.program();
    requester.sim.reboot(S2).unwrap();
    assert_eq!(requester.state(S1, 2), PortState::Down);
    assert_eq!(requester.state(H2, 1), PortState::Down);
    assert!(requester.get(&[1, 2], AttrId::NODE_INFO, 0).is_none());
    requester.wait(Duration::from_secs(3));
    assert_eq!(requester.state(S1, 2), PortState::Init);
    assert_eq!(requester.state(H2, 1), PortState::Init);
    assert!(requester.sim.lft(S2).unwrap().is_empty());
    assert_eq!(
        requester.sim.port_info(S2, PortNum(0)).unwrap().lid(),
        Lid(0)
    );
    // The host behind the port did not reboot.
    assert_eq!(
        requester.sim.port_info(H2, PortNum(1)).unwrap().lid(),
        Lid(2)
    );
    assert!(requester.get(&[1, 2], AttrId::NODE_INFO, 0).is_some());
}

#[test]
fn nodes_and_cables_can_be_added_while_the_simulation_runs() {
    use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};
    let mut requester = requester();
    let new_node = common::node(NodeKind::Ca, rsm_ids::Guid(0x40), 2, "new");
    requester.sim.add_node(&new_node, None).unwrap();
    assert!(requester.sim.add_node(&new_node, None).is_err());
    let (a, b) = ((new_node.guid, PortNum(2)), (S2, PortNum(4)));
    let (width, speed) = (LinkWidth::X4, LinkSpeed::Edr);
    requester.sim.add_cable(a, b, width, speed).unwrap();
    assert!(requester.sim.add_cable(a, b, width, speed).is_err());
    requester.wait(Duration::from_secs(1));
    let info: NodeInfo = requester.get_as(&[1, 2, 4], 0);
    assert_eq!(info.node_guid(), new_node.guid);
    assert_eq!(info.local_port_num(), PortNum(2));
    let port = requester.sim.port_info(S2, PortNum(4)).unwrap();
    assert_eq!(port.effective_speed(), Some(LinkSpeed::Edr));
    assert_eq!(requester.sim.find("new"), Ok(new_node.guid));
    assert_eq!(requester.sim.find("0x40"), Ok(new_node.guid));
    assert!(requester.sim.find("nobody").is_err());

    requester
        .sim
        .set_cable_rate(S2, PortNum(4), LinkWidth::X1, speed)
        .unwrap();
    requester.wait(Duration::from_secs(1));
    let port = requester.sim.port_info(S2, PortNum(4)).unwrap();
    assert_eq!(
        port.link_width_active(),
        rsm_mad::wire::attr::LinkWidths::X1
    );
}

#[test]
fn injected_faults_occur_at_their_rates() {
    let mut requester = requester();
    let count = |requester: &mut Requester, requests: usize, hops: &[u8]| {
        (0..requests)
            .filter(|_| requester.get(hops, AttrId::NODE_INFO, 0).is_some())
            .count()
    };
    requester.sim.set_loss(0.1).unwrap();
    // The request and the answer each arrive in nine of ten cases.
    let received_answer = count(&mut requester, 2000, &[1, 2]);
    assert!((1550..1690).contains(&received_answer), "{received_answer}");
    requester.sim.set_loss(0.0).unwrap();
    requester
        .sim
        .set_attribute_loss(AttrId::NODE_INFO, 1.0)
        .unwrap();
    assert_eq!(count(&mut requester, 5, &[1]), 0);
    assert!(requester.get(&[1], AttrId::SWITCH_INFO, 0).is_some());
    requester
        .sim
        .set_attribute_loss(AttrId::NODE_INFO, 0.0)
        .unwrap();
    requester.sim.set_link_loss(S2, PortNum(2), 1.0).unwrap();
    assert_eq!(count(&mut requester, 5, &[1, 2]), 0);
    assert_eq!(count(&mut requester, 5, &[1, 3]), 5);
    requester.sim.set_link_loss(S1, PortNum(2), 0.0).unwrap();
    requester.sim.set_node_loss(S1, 0.5).unwrap();
    let received_answer = count(&mut requester, 1000, &[1, 2]);
    assert!((200..300).contains(&received_answer), "{received_answer}");
    requester.sim.set_node_loss(S1, 0.0).unwrap();
    assert!(requester.sim.set_loss(1.5).is_err());

    requester.sim.set_silence(S1, Silence::Answers).unwrap();
    assert_eq!(count(&mut requester, 1, &[1]), 0);
    assert_eq!(count(&mut requester, 1, &[1, 2]), 1);
    requester.sim.set_silence(S1, Silence::Everything).unwrap();
    assert_eq!(count(&mut requester, 1, &[1, 2]), 0);
    requester.sim.set_silence(S1, Silence::None).unwrap();

    requester.sim.set_busy(S1, 2).unwrap();
    let statuses: Vec<_> = (0..3)
        .map(|_| requester.get(&[1], AttrId::NODE_INFO, 0).unwrap().status())
        .collect();
    assert_eq!(statuses, [Status::BUSY, Status::BUSY, Status::OK]);

    requester.sim.set_duplicates(1.0).unwrap();
    requester.unsolicited.clear();
    assert_eq!(count(&mut requester, 10, &[1]), 10);
    requester.wait(Duration::from_millis(1));
    assert_eq!(requester.take_mads().len(), 10);
    requester.sim.set_duplicates(0.0).unwrap();

    requester.sim.set_late(1.0).unwrap();
    assert!(count(&mut requester, 50, &[1]) < 10);
    requester.wait(Duration::from_secs(2));
    assert!(requester.take_mads().len() > 40);
}

#[test]
fn a_burst_overflows_the_buffer_of_one_agent() {
    let config = SimConfig {
        host_send_interval: Duration::ZERO,
        ..SimConfig::default()
    };
    let mut requester = requester_with(config, 1);
    for _ in 0..100 {
        let request = requester.request(Method::GET, AttrId::NODE_INFO, 0);
        let mad = *Smp::directed(&path(&[1]), &request).as_bytes();
        let remote = RemoteAddress::directed();
        let (client, now) = (requester.client, requester.now);
        requester.sim.send(client, &Datagram { mad, remote }, now);
    }
    requester.wait(Duration::from_millis(10));
    assert_eq!(requester.take_mads().len(), 64);
    assert_eq!(dropped(&requester, DropReason::BufferFull), 36);
}

#[test]
fn an_unanswered_request_fails_after_its_timeout() {
    let mut requester = requester();
    requester.sim.set_silence(S2, Silence::Answers).unwrap();
    for hops in [&[1][..], &[1, 2]] {
        let request = requester.request(Method::GET, AttrId::NODE_INFO, 0);
        let mad = *Smp::directed(&path(hops), &request).as_bytes();
        let remote = RemoteAddress::directed();
        let (client, now) = (requester.client, requester.now);
        let timeout = Duration::from_millis(100);
        requester
            .sim
            .send_with_timeout(client, &Datagram { mad, remote }, timeout, now);
    }
    requester.wait(Duration::from_millis(99));
    assert_eq!(requester.unsolicited.len(), 1);
    requester.wait(Duration::from_millis(1));
    let failed = Inbound::SendFailed {
        class: Class::SUBNET_DIRECTED,
        tid: Tid(2),
        kind: SendFailure::TimedOut,
    };
    assert_eq!(requester.unsolicited[1].1, failed);
}

#[test]
fn the_journal_records_sets_that_took_effect() {
    let mut requester = requester();
    requester.sim.start_journal(2);
    let description = NodeDescription::new(b"x");
    requester.set(&[1], 0, &description);
    for block in 0..3 {
        let mut lft = LinearForwardingTable::default();
        lft.ports_mut().fill(block);
        requester.set(&[1], u32::from(block), &lft);
    }
    let journal = requester.sim.take_journal().unwrap();
    let traps_received: Vec<_> = journal
        .entries()
        .map(|entry| (entry.node, entry.attribute, entry.modifier, entry.data[0]))
        .collect();
    let lft = AttrId::LINEAR_FORWARDING_TABLE;
    assert_eq!(traps_received, [(S1, lft, 1, 1), (S1, lft, 2, 2)]);
    assert_eq!(journal.overwritten, 1);
    assert_eq!(requester.sim.sets_at(S1), Ok(3));
    assert_eq!(requester.sim.counters().received(lft, Method::SET), 3);
    assert_eq!(requester.sim.sets_at(H3), Ok(0));
}

//! Tests of the behaviour of agents with habits.

use crate::common;

use std::time::Duration;

use common::{H1, H2, Requester, S1, S2, requester, requester_with};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, Inbound, RemoteAddress};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, MadHeader, Method, Status};
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_sim::{Devices, DropReason, Habit, Personality, PortField, PortFields, SimConfig};

const OK: Option<Status> = Some(Status::OK);
const REFUSED: Option<Status> = Some(Status::INVALID_FIELD);

/// A fabric in which `node` has `personality`.
fn requester_with_personality(node: Guid, personality: impl Into<Personality>) -> Requester {
    let mut requester = requester();
    requester
        .sim
        .set_personality(node, personality.into())
        .unwrap();
    requester
}

/// Sets PortInfo without the bit for extended speeds. Returns the answer's status and data.
fn set_port(
    requester: &mut Requester,
    hops: &[u8],
    port: u8,
    change: impl FnOnce(&mut PortInfo),
) -> (Status, PortInfo) {
    let modifier = PortInfo::modifier(PortNum(port), false);
    let mut info: PortInfo = requester.get_as(hops, modifier);
    info.set_port_state(PortState::NoChange)
        .set_port_physical_state(PortPhysicalState::NoChange);
    change(&mut info);
    let mut request = requester.request(Method::SET, AttrId::PORT_INFO, modifier);
    request.data = *info.as_data();
    let smp = Smp::directed(&common::path(hops), &request);
    let answer = requester.ask(&smp, RemoteAddress::directed()).unwrap();
    (answer.status(), *PortInfo::from_data(answer.data()))
}

/// The traps that have arrived at client 1 since the last call.
fn traps(requester: &mut Requester) -> Vec<(Datagram, Trap)> {
    let mads = requester
        .take_mads()
        .into_iter()
        .map(|(_, datagram)| datagram);
    mads.filter(|datagram| MadHeader::of(&datagram.mad).method() == Method::TRAP)
        .map(|datagram| {
            let notice = Notice::from_data(Smp::from_bytes(&datagram.mad).data());
            (datagram, notice.trap_number())
        })
        .collect()
}

#[test]
fn no_extended_speeds_refuses_bit_31_and_runs_at_qdr() {
    let mut requester = requester_with_personality(H2, Habit::NoExtendedSpeeds);
    let hops = &[1, 2, 1];
    let extended = PortInfo::modifier(PortNum(1), true);
    let answer = requester.get(hops, AttrId::PORT_INFO, extended).unwrap();
    assert_eq!(answer.status(), Status::INVALID_FIELD);
    let info: PortInfo = requester.get_as(hops, 1);
    let capabilities = info.capability_mask();
    assert!(!capabilities.contains(CapabilityMask::IS_EXTENDED_SPEEDS_SUPPORTED));
    assert_eq!(info.effective_speed(), Some(LinkSpeed::Qdr));
    let opposite: PortInfo = requester.get_as(&[1, 2], PortInfo::modifier(PortNum(1), true));
    assert_eq!(opposite.effective_speed(), Some(LinkSpeed::Qdr));
    assert_eq!(set_port(&mut requester, hops, 1, |_| ()).0, Status::OK);
    assert_eq!(requester.set(hops, extended, &info), REFUSED);

    requester
        .sim
        .set_personality(H2, Personality::POLITE)
        .unwrap();
    let info: PortInfo = requester.get_as(hops, extended);
    assert_eq!(info.effective_speed(), Some(LinkSpeed::Hdr));
}

#[test]
fn self_activating_port_refuses_active_once_both_ends_are_armed() {
    let mut requester = requester_with_personality(S2, Habit::SelfActivating);
    assert_eq!(requester.set_port_state(&[1, 2], 2, PortState::Armed), OK);
    requester.wait(Duration::from_millis(1));
    assert_eq!(requester.state(S2, 2), PortState::Armed);
    assert_eq!(requester.set_port_state(&[1], 2, PortState::Armed), OK);
    requester.wait(Duration::from_millis(1));
    assert_eq!(requester.state(S2, 2), PortState::Active);
    assert_eq!(requester.state(S1, 2), PortState::Armed);
    assert_eq!(
        requester.set_port_state(&[1, 2], 2, PortState::Active),
        REFUSED
    );
    assert_eq!(requester.set_port_state(&[1], 2, PortState::Active), OK);
}

#[test]
fn self_activation_ends_with_the_link() {
    let mut requester = requester_with_personality(S2, Habit::SelfActivating);
    assert_eq!(requester.set_port_state(&[1, 2], 3, PortState::Armed), OK);
    assert_eq!(requester.set_port_state(&[1], 3, PortState::Armed), OK);
    requester.sim.unlink(S1, PortNum(3)).unwrap();
    requester.sim.relink(S1, PortNum(3)).unwrap();
    requester.wait(Duration::from_secs(1));
    assert_eq!(requester.state(S2, 3), PortState::Init);
}

#[test]
fn trap_on_first_change_sends_no_further_trap_until_the_bit_is_cleared() {
    let mut requester = requester_with_personality(S2, Habit::TrapOnFirstChange);
    requester.program();
    let link_changes = |requester: &mut Requester| {
        requester.wait(Duration::from_millis(1));
        let traps = traps(requester).into_iter();
        traps
            .filter(|(_, trap)| *trap == Trap::LINK_STATE_CHANGED)
            .count()
    };
    requester.sim.unlink(S1, PortNum(3)).unwrap();
    // Each switch sends one trap.
    assert_eq!(link_changes(&mut requester), 2);
    repress_all(&mut requester);
    requester.sim.relink(S1, PortNum(3)).unwrap();
    requester.wait(Duration::from_millis(30));
    assert_eq!(link_changes(&mut requester), 1);
    let mut info: SwitchInfo = requester.get_as(&[1, 2], 0);
    assert!(info.port_state_change());
    info.set_port_state_change(true);
    assert_eq!(requester.set(&[1, 2], 0, &info), OK);
    repress_all(&mut requester);
    requester.sim.unlink(S1, PortNum(3)).unwrap();
    assert_eq!(link_changes(&mut requester), 2);
}

/// Represses the first two traps of both switches; each switch numbers its traps from 1.
fn repress_all(requester: &mut Requester) {
    for (lid, serial) in [4, 5].into_iter().flat_map(|lid| [(lid, 1), (lid, 2)]) {
        let smp = Smp::lid_routed(&SmpRequest {
            method: Method::TRAP_REPRESS,
            attribute: AttrId::NOTICE,
            modifier: 0,
            tid: Tid(serial),
            m_key: 0,
            data: [0; 64],
        });
        let mad = *smp.as_bytes();
        let remote = RemoteAddress::smi(Lid(lid));
        let client = requester.client;
        requester
            .sim
            .send(client, &Datagram { mad, remote }, requester.now);
        requester.wait(Duration::from_millis(1));
    }
    requester.unsolicited.clear();
}

#[test]
fn lft_up_to_top_refuses_blocks_above_the_top() {
    let mut requester = requester_with_personality(S1, Habit::LftUpToTop);
    let block = LinearForwardingTable::default();
    assert_eq!(requester.set(&[1], 0, &block), OK);
    assert_eq!(requester.set(&[1], 1, &block), REFUSED);
    let mut info: SwitchInfo = requester.get_as(&[1], 0);
    info.set_linear_fdb_top(Lid(64));
    assert_eq!(requester.set(&[1], 0, &info), OK);
    assert_eq!(requester.set(&[1], 1, &block), OK);
    assert_eq!(requester.set(&[1], 2, &block), REFUSED);
}

#[test]
fn arms_alone_refuses_a_state_together_with_settings() {
    let mut requester = requester_with_personality(S1, Habit::ArmsAlone);
    let state_and_mtu = |info: &mut PortInfo| {
        info.set_port_state(PortState::Armed)
            .set_neighbor_mtu(Mtu::Bytes2048);
    };
    assert_eq!(requester.change_port(&[1], 2, state_and_mtu), REFUSED);
    assert_eq!(requester.state(S1, 2), PortState::Init);
    let mtu = |info: &mut PortInfo| {
        info.set_neighbor_mtu(Mtu::Bytes2048);
    };
    assert_eq!(requester.change_port(&[1], 2, mtu), OK);
    assert_eq!(requester.set_port_state(&[1], 2, PortState::Armed), OK);
}

#[test]
fn checks_repress_drops_a_repress_with_a_wrong_m_key() {
    let mut requester = requester_with_personality(S1, Habit::ChecksRepress);
    requester.program();
    let status = requester.change_port(&[1], 0, |info| {
        info.set_m_key(0xAB);
    });
    assert_eq!(status, OK);
    requester.sim.unlink(S1, PortNum(3)).unwrap();
    requester.wait(Duration::from_millis(1));
    requester.unsolicited.clear();
    let repress = |requester: &mut Requester, m_key| {
        let smp = Smp::lid_routed(&SmpRequest {
            method: Method::TRAP_REPRESS,
            attribute: AttrId::NOTICE,
            modifier: 0,
            tid: Tid(1),
            m_key,
            data: [0; 64],
        });
        let mad = *smp.as_bytes();
        let remote = RemoteAddress::smi(Lid(4));
        requester
            .sim
            .send(requester.client, &Datagram { mad, remote }, requester.now);
        requester.wait(Duration::from_millis(100));
        requester.sim.counters().dropped_for(DropReason::MKey)
    };
    assert_eq!(repress(&mut requester, 0), 1);
    assert_eq!(repress(&mut requester, 0xAB), 1);
    assert_eq!(requester.sim.counters().consumed, 1);
}

#[test]
fn own_traps_come_from_lid_0() {
    let mut requester = requester_with_personality(H1, Habit::OwnTrapFromLidZero);
    requester.program();
    requester.sim.set_description(H1, b"renamed").unwrap();
    requester.sim.set_description(H2, b"renamed").unwrap();
    requester.wait(Duration::from_millis(1));
    let sources: Vec<_> = traps(&mut requester)
        .into_iter()
        .map(|(datagram, _)| datagram.remote.lid)
        .collect();
    assert_eq!(sources, [Lid(0), Lid(2)]);
}

#[test]
fn blank_base_port_0_reports_zeros_and_takes_a_lid() {
    let mut requester = requester_with_personality(S1, Habit::BlankBasePort0);
    let status = requester.change_port(&[1], 0, |info| {
        info.set_lid(Lid(9));
    });
    assert_eq!(status, OK);
    let info: PortInfo = requester.get_as(&[1], 0);
    assert_eq!(info.lid(), Lid(9));
    assert_eq!(info.port_state(), PortState::NoChange);
    assert_eq!(info.port_physical_state(), PortPhysicalState::NoChange);
    assert_eq!(info.link_width_supported(), LinkWidths::NONE);
    assert_eq!(info.neighbor_mtu().code(), 0);
    assert_eq!(info.vl_cap().code(), 0);
    let external: PortInfo = requester.get_as(&[1], 1);
    assert_eq!(external.port_state(), PortState::Init);
}

#[test]
fn enhanced_port_0_has_one_vl_and_takes_an_mtu() {
    let config = SimConfig {
        devices: Devices::Alike(Habit::EnhancedPort0.into()),
        ..SimConfig::default()
    };
    let mut requester = requester_with(config, 1);
    let switch: SwitchInfo = requester.get_as(&[1], 0);
    assert!(switch.enhanced_port0());
    let info: PortInfo = requester.get_as(&[1], 0);
    assert_eq!(info.port_state(), PortState::Active);
    assert_eq!(info.neighbor_mtu(), Mtu::Bytes256);
    assert_eq!(info.mtu_cap(), Mtu::Bytes4096);
    assert_eq!(info.vl_cap(), VlCap::Vl0);
    assert_eq!(info.effective_speed(), Some(LinkSpeed::Sdr));
}

#[test]
fn bare_external_ports_have_no_capabilities() {
    let mut requester = requester_with_personality(S1, Habit::BareExternalPorts);
    let info: PortInfo = requester.get_as(&[1], 1);
    assert_eq!((info.capability_mask().0, info.gid_prefix()), (0, 0));
    let port0: PortInfo = requester.get_as(&[1], 0);
    assert_ne!(port0.capability_mask().0, 0);
}

#[test]
fn ports_with_fewer_vls_refuse_more() {
    for (habit, cap) in [
        (Habit::TwoVls, VlCap::Vl0To1),
        (Habit::FourVls, VlCap::Vl0To3),
    ] {
        let mut requester = requester_with_personality(S1, habit);
        let info: PortInfo = requester.get_as(&[1], 1);
        assert_eq!(info.vl_cap(), cap);
        let vls = |vls| {
            move |info: &mut PortInfo| {
                info.set_operational_vls(vls);
            }
        };
        assert_eq!(requester.change_port(&[1], 1, vls(cap)), OK);
        assert_eq!(requester.change_port(&[1], 1, vls(VlCap::Vl0To7)), REFUSED);
    }
}

#[test]
fn legacy_speed_is_4_beside_an_extended_speed() {
    let mut requester = requester_with_personality(S1, Habit::LegacySpeed4);
    let info: PortInfo = requester.get_as(&[1], PortInfo::modifier(PortNum(1), true));
    assert_eq!(info.link_speed_active(), LinkSpeeds(4));
    assert_eq!(info.link_speed_ext_active(), LinkSpeedExt::HDR);
    assert_eq!(info.effective_speed(), Some(LinkSpeed::Hdr));
}

#[test]
fn old_value_is_shown_once_for_each_port_while_the_new_value_is_held() {
    let fields = PortFields::of(PortField::Lid) | PortFields::of(PortField::Mtu);
    let mut requester = requester_with_personality(S1, Personality::shows_old_once(fields));
    let lid = |lid| {
        move |info: &mut PortInfo| {
            info.set_lid(Lid(lid));
        }
    };
    assert_eq!(set_port(&mut requester, &[1], 0, lid(7)).1.lid(), Lid(0));
    let held: PortInfo = requester.get_as(&[1], 0);
    assert_eq!(held.lid(), Lid(7));
    assert_eq!(set_port(&mut requester, &[1], 0, lid(8)).1.lid(), Lid(8));
    for port in [1, 2] {
        let (_, answer) = set_port(&mut requester, &[1], port, |info| {
            info.set_neighbor_mtu(Mtu::Bytes4096);
        });
        assert_eq!(answer.neighbor_mtu(), Mtu::Bytes256, "port {port}");
    }
    requester.sim.reboot(S1).unwrap();
    requester.wait(Duration::from_secs(3));
    assert_eq!(set_port(&mut requester, &[1], 0, lid(7)).1.lid(), Lid(0));
}

#[test]
fn old_value_is_shown_always_and_dropped_value_is_never_held() {
    let always = Personality::shows_old_always(PortFields::of(PortField::MasterSmLid));
    let drops = Personality::drops(PortFields::of(PortField::HoqLife));
    let mut requester = requester_with_personality(S1, always | drops);
    for lid in [7, 8] {
        let (_, answer) = set_port(&mut requester, &[1], 0, |info| {
            info.set_master_sm_lid(Lid(lid));
        });
        let held: PortInfo = requester.get_as(&[1], 0);
        assert_ne!(answer.master_sm_lid(), Lid(lid));
        assert_eq!(held.master_sm_lid(), Lid(lid));
    }
    let (status, answer) = set_port(&mut requester, &[1], 1, |info| {
        info.set_hoq_life(9);
    });
    assert_eq!((status, answer.hoq_life()), (Status::OK, 0));
    let held: PortInfo = requester.get_as(&[1], 1);
    assert_eq!(held.hoq_life(), 0);
}

/// Sends `count` Gets of NodeInfo to a node at once. Returns for each answer the time from the
/// first request to the arrival of the answer.
fn burst(requester: &mut Requester, hops: &[u8], count: usize) -> Vec<Duration> {
    let start = requester.now;
    for _ in 0..count {
        let request = requester.request(Method::GET, AttrId::NODE_INFO, 0);
        let mad = *Smp::directed(&common::path(hops), &request).as_bytes();
        let remote = RemoteAddress::directed();
        requester
            .sim
            .send(requester.client, &Datagram { mad, remote }, requester.now);
    }
    let mut latencies = Vec::new();
    while let Some(time) = requester.sim.next_event() {
        requester.now = requester.now.max(time);
        while let Some((_, inbound)) = requester.sim.poll(requester.now) {
            if matches!(inbound, Inbound::Mad(_)) {
                latencies.push(requester.now.since(start));
            }
        }
    }
    latencies
}

#[test]
fn slow_processor_answers_one_at_a_time_and_forwards_without_delay() {
    let mut requester = requester_with_personality(S1, Habit::SlowProcessor);
    let latencies = burst(&mut requester, &[1], 3);
    let service_time = Duration::from_millis(40);
    for (index, time) in latencies.iter().enumerate() {
        let due = service_time * (index as u32 + 1);
        assert!(
            (due..due + service_time / 10).contains(time),
            "{latencies:?}"
        );
    }
    assert_eq!(latencies.len(), 3);
    let behind_switch = burst(&mut requester, &[1, 2], 3);
    assert!(behind_switch[2] < service_time / 10, "{behind_switch:?}");
}

#[test]
fn pauses_delay_answers_for_3_s_in_every_20_s() {
    let mut requester = requester_with_personality(S1, Habit::Pauses);
    let mut max_latency = Duration::ZERO;
    let mut delayed_count = 0;
    for _ in 0..200 {
        let latency = burst(&mut requester, &[1], 1)[0];
        max_latency = max_latency.max(latency);
        delayed_count += usize::from(latency > Duration::from_millis(1));
        requester.wait(Duration::from_millis(100));
    }
    assert!(
        max_latency > Duration::from_millis(2_900),
        "{max_latency:?}"
    );
    assert!(
        max_latency < Duration::from_millis(3_100),
        "{max_latency:?}"
    );
    assert!((1..=2).contains(&delayed_count), "{delayed_count}");
}

#[test]
fn small_buffer_drops_bursts() {
    let mut requester = requester_with_personality(S1, Habit::SmallBuffer);
    assert_eq!(burst(&mut requester, &[1], 4).len(), 4);
    let answered = burst(&mut requester, &[1], 40).len();
    assert!((4..39).contains(&answered), "{answered}");
    let dropped = requester.sim.counters().dropped_for(DropReason::BufferFull);
    assert_eq!(answered as u64 + dropped, 40);
    assert_eq!(burst(&mut requester, &[1, 2], 40).len(), 40);
}

#[test]
fn silent_node_forwards_and_answers_nothing() {
    let mut requester = requester_with_personality(S1, Habit::Silent);
    assert!(requester.get(&[1], AttrId::NODE_INFO, 0).is_none());
    assert!(requester.get(&[1, 2], AttrId::NODE_INFO, 0).is_some());
}

#[test]
fn personalities_of_a_fabric_survive_a_reboot() {
    let config = SimConfig {
        devices: Devices::parse("qib+unmanaged").unwrap(),
        ..SimConfig::default()
    };
    let mut requester = requester_with(config, 1);
    // An adapter does not have the habits of switches.
    assert!(
        !requester
            .sim
            .personality(H2)
            .unwrap()
            .has(Habit::BlankBasePort0)
    );
    requester.sim.reboot(H2).unwrap();
    requester.sim.reboot(S2).unwrap();
    requester.wait(Duration::from_secs(3));
    let info: PortInfo = requester.get_as(&[1, 2], 0);
    assert_eq!(info.port_state(), PortState::NoChange);
    let refused = requester.get(
        &[1, 2, 1],
        AttrId::PORT_INFO,
        PortInfo::modifier(PortNum(1), true),
    );
    assert_eq!(refused.unwrap().status(), Status::INVALID_FIELD);
}

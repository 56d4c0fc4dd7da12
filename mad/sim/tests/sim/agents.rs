//! Tests of the subnet management agents: answers, statuses, port states, tables and M_Keys.

use crate::common;

use std::time::Duration;

use common::{H1, H2, Requester, S1, S2, path, requester, requester_with};
use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::transport::{Inbound, PortEvent, RemoteAddress};
use rsm_mad::wire::attr::*;
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::smp::Smp;
use rsm_sim::{DropReason, SimConfig};

#[test]
fn answer_to_a_directed_request_has_the_specified_bytes() {
    let mut requester = requester();
    let request = requester.request(Method::GET, AttrId::NODE_INFO, 0);
    let sent = Smp::directed(&path(&[1, 2, 1]), &request);
    let answer = requester.ask(&sent, RemoteAddress::directed()).unwrap();
    let bytes = answer.as_bytes();
    // Base version 1, class of directed-route SMPs, class version 1, GetResp; D bit, and status 0;
    // hop pointer 0, hop count 3 (IBA 14.2.1.2).
    assert_eq!(bytes[..8], [1, 0x81, 1, 0x81, 0x80, 0, 0, 3]);
    assert_eq!(bytes[8..64], sent.as_bytes()[8..64]);
    let info = NodeInfo::from_data(answer.data());
    assert_eq!(info.node_guid(), H2);
    assert_eq!(info.port_guid(), Guid(H2.0 + 1));
    assert_eq!(info.local_port_num(), PortNum(1));
    assert_eq!(info.node_type(), NodeType::Ca);
    assert_eq!(bytes[128..192], sent.as_bytes()[128..192]);
    // The return path: the packet enters through port 1 of the first switch, port 2 of the second
    // switch, and port 1 of the host.
    assert_eq!(bytes[192..197], [0, 1, 2, 1, 0]);
}

#[test]
fn request_without_hops_is_answered_by_the_local_node() {
    let mut requester = requester();
    let info: NodeInfo = requester.get_as(&[], 0);
    assert_eq!(info.node_guid(), H1);
    // The request is LID-routed to the permissive LID, before any LID is assigned.
    let request = requester.request(Method::GET, AttrId::NODE_INFO, 0);
    let smp = Smp::lid_routed(&request);
    let answer = requester
        .ask(&smp, RemoteAddress::smi(Lid::PERMISSIVE))
        .unwrap();
    assert_eq!(NodeInfo::from_data(answer.data()).node_guid(), H1);
}

#[test]
fn unsupported_requests_get_the_status_of_the_specification() {
    let mut requester = requester();
    let status = |answer: Option<Smp>| answer.unwrap().status();
    let unsupported = Status::UNSUPPORTED_METHOD_ATTRIBUTE;
    for (hops, attribute) in [
        (&[][..], AttrId::SWITCH_INFO),
        (&[], AttrId::LINEAR_FORWARDING_TABLE),
        (&[1], AttrId(0x1234)),
        (&[1], AttrId::SM_INFO),
        (&[1], AttrId::RANDOM_FORWARDING_TABLE),
    ] {
        assert_eq!(status(requester.get(hops, attribute, 0)), unsupported);
    }
    for (hops, attribute, modifier) in [
        (&[1][..], AttrId::PORT_INFO, 5),
        (&[1], AttrId::PORT_INFO, 0x100),
        (&[], AttrId::PORT_INFO, 2),
        (&[1], AttrId::LINEAR_FORWARDING_TABLE, 768),
        (&[1], AttrId::MULTICAST_FORWARDING_TABLE, 128),
        (&[1], AttrId::MULTICAST_FORWARDING_TABLE, 0x1000_0000),
        (&[1], AttrId::P_KEY_TABLE, 0x0001_0001),
        (&[1], AttrId::SL_TO_VL_MAPPING, 0x0105),
        (&[], AttrId::VL_ARBITRATION, 0x0002_0000),
        (&[], AttrId::VL_ARBITRATION, 0),
        (&[], AttrId::GUID_INFO, 1),
    ] {
        let answer = requester.get(hops, attribute, modifier);
        assert_eq!(
            status(answer),
            Status::INVALID_FIELD,
            "{attribute} {modifier:#x}"
        );
    }
    let description = NodeDescription::new(b"x");
    assert_eq!(requester.set(&[1], 0, &description), Some(unsupported));
    let mut request = requester.request(Method::GET, AttrId::NODE_INFO, 0);
    request.method = Method::GET;
    let mut smp = Smp::directed(&path(&[1]), &request);
    smp.header_mut().set_class_version(2);
    let answer = requester.ask(&smp, RemoteAddress::directed());
    assert_eq!(status(answer), Status::BAD_VERSION);
}

#[test]
fn mellanox_ext_port_info_shows_no_fdr10() {
    let mut requester = requester();
    for (modifier, status) in [(1, Status::OK), (4, Status::OK), (5, Status::INVALID_FIELD)] {
        let answer = requester
            .get(&[1], AttrId::EXTENDED_PORT_INFO, modifier)
            .unwrap();
        assert_eq!(answer.status(), status);
        let info = ExtendedPortInfo::from_data(answer.data());
        assert!(info.link_speed_supported().is_empty());
    }
}

#[test]
fn illegal_port_state_changes_are_refused() {
    let mut requester = requester();
    let refused = Some(Status::INVALID_FIELD);
    assert_eq!(requester.state(S1, 2), PortState::Init);
    assert_eq!(
        requester.set_port_state(&[1], 2, PortState::Active),
        refused
    );
    assert_eq!(requester.set_port_state(&[1], 2, PortState::Init), refused);
    assert_eq!(
        requester.set_port_state(&[1], 2, PortState::Armed),
        Some(Status::OK)
    );
    assert_eq!(requester.set_port_state(&[1], 2, PortState::Armed), refused);
    assert_eq!(
        requester.set_port_state(&[1], 2, PortState::Active),
        Some(Status::OK)
    );
    assert_eq!(
        requester.set_port_state(&[1], 2, PortState::Active),
        refused
    );
    assert_eq!(requester.state(S1, 2), PortState::Active);
    assert_eq!(requester.state(S2, 2), PortState::Init);
    // A port without a link stays down.
    assert_eq!(
        requester.set_port_state(&[1, 2], 4, PortState::Armed),
        refused
    );
}

#[test]
fn with_peer_check_a_port_becomes_active_only_after_its_peer_is_armed() {
    let config = SimConfig {
        check_peer_state: true,
        ..SimConfig::default()
    };
    let mut requester = requester_with(config, 1);
    let ok = Some(Status::OK);
    assert_eq!(requester.set_port_state(&[1], 2, PortState::Armed), ok);
    assert_eq!(
        requester.set_port_state(&[1], 2, PortState::Active),
        Some(Status::INVALID_FIELD)
    );
    assert_eq!(requester.set_port_state(&[1, 2], 2, PortState::Armed), ok);
    assert_eq!(requester.set_port_state(&[1], 2, PortState::Active), ok);
}

#[test]
fn set_of_down_retrains_the_link_and_only_the_peer_reports_it() {
    let mut requester = requester();
    requester.program();
    assert_eq!(
        requester.set_port_state(&[1], 3, PortState::Down),
        Some(Status::OK)
    );
    assert_eq!(requester.state(S1, 3), PortState::Down);
    assert_eq!(requester.state(S2, 3), PortState::Down);
    assert!(!requester.sim.switch_info(S1).unwrap().port_state_change());
    assert!(requester.sim.switch_info(S2).unwrap().port_state_change());
    requester.wait(Duration::from_millis(25));
    assert_eq!(requester.state(S1, 3), PortState::Init);
    assert_eq!(requester.state(S2, 3), PortState::Init);
    // The port came up without a Set, so the switch sets PortStateChange.
    assert!(requester.sim.switch_info(S1).unwrap().port_state_change());
}

#[test]
fn disabled_port_stays_down_until_set_to_polling() {
    let mut requester = requester();
    let ok = Some(Status::OK);
    let physical = |state| {
        move |info: &mut PortInfo| {
            info.set_port_physical_state(state);
        }
    };
    let disabled = PortPhysicalState::Disabled;
    assert_eq!(requester.change_port(&[1], 3, physical(disabled)), ok);
    requester.wait(Duration::from_secs(1));
    assert_eq!(requester.state(S1, 3), PortState::Down);
    assert_eq!(requester.state(S2, 3), PortState::Down);
    let polling = PortPhysicalState::Polling;
    assert_eq!(requester.change_port(&[1], 3, physical(polling)), ok);
    requester.wait(Duration::from_secs(1));
    assert_eq!(requester.state(S1, 3), PortState::Init);
    assert_eq!(requester.state(S2, 3), PortState::Init);
}

#[test]
fn set_keeps_read_only_fields_and_changes_writable_fields() {
    let mut requester = requester();
    let before: PortInfo = requester.get_as(&[1], 2);
    let status = requester.change_port(&[1], 2, |info| {
        info.set_capability_mask(CapabilityMask(0xFFFF_FFFF))
            .set_link_width_supported(LinkWidths(0xFF))
            .set_mtu_cap(Mtu::Bytes256)
            .set_lid(Lid(77))
            .set_m_key(5)
            .set_neighbor_mtu(Mtu::Bytes2048)
            .set_operational_vls(VlCap::Vl0To3)
            .set_hoq_life(9)
            .set_vl_stall_count(3)
            .set_link_width_enabled(LinkWidths::X1)
            .set_link_speed_ext_enabled(LinkSpeedExt::FDR);
    });
    assert_eq!(status, Some(Status::OK));
    let after: PortInfo = requester.get_as(&[1], 2);
    let mut expected = before;
    expected
        .set_neighbor_mtu(Mtu::Bytes2048)
        .set_operational_vls(VlCap::Vl0To3)
        .set_hoq_life(9)
        .set_vl_stall_count(3)
        .set_link_width_enabled(LinkWidths::X1)
        .set_link_speed_ext_enabled(LinkSpeedExt::FDR);
    assert_eq!(after.as_data(), expected.as_data());
    // The enabled rates take effect at the next training.
    requester.set_port_state(&[1], 2, PortState::Down);
    requester.wait(Duration::from_secs(1));
    let trained = requester.sim.port_info(S2, PortNum(2)).unwrap();
    assert_eq!(trained.link_width_active(), LinkWidths::X1);
    assert_eq!(trained.effective_speed(), Some(LinkSpeed::Fdr));
}

#[test]
fn set_with_a_value_out_of_range_changes_nothing() {
    let mut requester = requester();
    type Change = fn(&mut PortInfo);
    let invalid_changes: [(&[u8], u8, Change); 6] = [
        (&[1], 2, |info| {
            info.set_operational_vls(VlCap::Vl0To14);
        }),
        (&[1], 2, |info| {
            info.set_neighbor_mtu(Mtu::Unknown(6));
        }),
        (&[1], 2, |info| {
            info.set_link_width_enabled(LinkWidths::X12);
        }),
        (&[1], 2, |info| {
            info.set_port_physical_state(PortPhysicalState::LinkUp);
        }),
        (&[1], 0, |info| {
            info.set_lmc(Lmc::new(1).unwrap());
        }),
        (&[], 0, |info| {
            info.set_lid(Lid(0xC000));
        }),
    ];
    for (hops, port, change) in invalid_changes {
        let before: PortInfo = requester.get_as(hops, u32::from(port));
        let status = requester.change_port(hops, port, |info| {
            info.set_hoq_life(11);
            change(info);
        });
        assert_eq!(status, Some(Status::INVALID_FIELD));
        let after: PortInfo = requester.get_as(hops, u32::from(port));
        assert_eq!(before.as_data(), after.as_data());
    }
}

#[test]
fn written_tables_are_read_back() {
    let mut requester = requester();
    let ok = Some(Status::OK);
    let mut lft = LinearForwardingTable::default();
    lft.ports_mut().fill(3);
    assert_eq!(requester.set(&[1], 9, &lft), ok);
    assert_eq!(requester.get_as::<LinearForwardingTable>(&[1], 9), lft);
    let unwritten_block: LinearForwardingTable = requester.get_as(&[1], 8);
    assert_eq!(unwritten_block.ports(), &[255; 64]);
    assert_eq!(requester.sim.lft(S1).unwrap().len(), 640);

    let mut mft = MulticastForwardingTable::default();
    mft.set_masks(std::array::from_fn(|index| index as u16));
    assert_eq!(requester.set(&[1], 3, &mft), ok);
    assert_eq!(requester.get_as::<MulticastForwardingTable>(&[1], 3), mft);
    let lid = Lid(0xC000 + 3 * 32 + 4);
    assert!(requester.sim.multicasts_to(S1, lid, PortNum(2)).unwrap());
    assert!(!requester.sim.multicasts_to(S1, lid, PortNum(1)).unwrap());

    let initial_p_keys: PKeyTable = requester.get_as(&[1, 2, 1], 0);
    assert_eq!(initial_p_keys.p_key(0), Some(PKey(0xFFFF)));
    let mut p_keys = PKeyTable::default();
    p_keys.set_p_keys([PKey(0x8001); 32]);
    assert_eq!(requester.set(&[1, 2, 1], 1, &p_keys), ok);
    assert_eq!(requester.get_as::<PKeyTable>(&[1, 2, 1], 1), p_keys);

    let mut mapping = SlToVlMapping::default();
    mapping.set_vls([15; 16]);
    let mapping_of_1_to_2 = SlToVlMapping::modifier(PortNum(1), PortNum(2));
    assert_eq!(requester.set(&[1], mapping_of_1_to_2, &mapping), ok);
    assert_eq!(
        requester.get_as::<SlToVlMapping>(&[1], mapping_of_1_to_2),
        mapping
    );
    let mapping_of_4_to_2 = SlToVlMapping::modifier(PortNum(4), PortNum(2));
    assert_ne!(
        requester.get_as::<SlToVlMapping>(&[1], mapping_of_4_to_2),
        mapping
    );
    let mapping_of_all_ports = SlToVlMapping::modifier_all_ports();
    assert_eq!(requester.set(&[1], mapping_of_all_ports, &mapping), ok);
    assert_eq!(
        requester.get_as::<SlToVlMapping>(&[1], mapping_of_4_to_2),
        mapping
    );

    let mut guids = GuidInfo::default();
    guids.set_guids([Guid(9); 8]);
    assert_eq!(requester.set(&[], 0, &guids), ok);
    let kept: GuidInfo = requester.get_as(&[], 0);
    assert_eq!(kept.guid(0), Some(Guid(H1.0 + 1)));
    assert_eq!(kept.guid(7), Some(Guid(9)));
}

#[test]
fn port_state_change_is_cleared_by_writing_one() {
    let mut requester = requester();
    let mut info: SwitchInfo = requester.get_as(&[1], 0);
    assert!(info.port_state_change());
    info.set_port_state_change(false).set_life_time_value(18);
    requester.set(&[1], 0, &info);
    let info: SwitchInfo = requester.get_as(&[1], 0);
    assert!(info.port_state_change());
    assert_eq!(info.life_time_value(), 18);
    requester.set(&[1], 0, &info);
    let info: SwitchInfo = requester.get_as(&[1], 0);
    assert!(!info.port_state_change());
}

/// Sets the M_Key 0xABCD at host 2, with the protection level `protect` and the lease period
/// `lease` in seconds.
fn set_key(requester: &mut Requester, protect: u8, lease: u16) {
    let status = requester.change_port(&[1, 2, 1], 0, |info| {
        info.set_m_key(0xABCD)
            .set_m_key_protect_bits(protect)
            .set_m_key_lease_period(lease);
    });
    assert_eq!(status, Some(Status::OK));
}

#[test]
fn node_with_an_m_key_is_protected_by_its_protection_level() {
    let hops = &[1, 2, 1];
    for (protect, is_readable, is_key_shown) in [
        (0, true, true),
        (1, true, false),
        (2, false, false),
        (3, false, false),
    ] {
        let mut requester = requester();
        set_key(&mut requester, protect, 0);
        let answer = requester.get(hops, AttrId::PORT_INFO, 0);
        assert_eq!(answer.is_some(), is_readable, "level {protect}");
        if let Some(answer) = answer {
            let key = PortInfo::from_data(answer.data()).m_key();
            assert_eq!(key == 0xABCD, is_key_shown, "level {protect}");
        }
        let before = requester.sim.counters().dropped_for(DropReason::MKey);
        let info = PortInfo::default();
        assert_eq!(requester.set(hops, 0, &info), None);
        assert_eq!(
            requester.sim.counters().dropped_for(DropReason::MKey),
            before + 1
        );
        requester.m_key = 0xABCD;
        let info: PortInfo = requester.get_as(hops, 0);
        assert_eq!(info.m_key(), 0xABCD);
        assert_eq!(info.m_key_violations(), 1 + u16::from(!is_readable));
    }
}

#[test]
fn m_key_protection_ends_with_the_lease_unless_the_key_is_used_in_time() {
    let hops = &[1, 2, 1];
    let protection = |requester: &Requester| {
        let info = requester.sim.port_info(H2, PortNum(1)).unwrap();
        info.m_key_protect_bits()
    };
    let mut requester = requester();
    set_key(&mut requester, 2, 5);
    requester.wait(Duration::from_secs(20));
    assert_eq!(protection(&requester), 2);
    assert!(requester.get(hops, AttrId::NODE_INFO, 0).is_none());
    requester.wait(Duration::from_secs(3));
    requester.m_key = 0xABCD;
    assert!(requester.get(hops, AttrId::NODE_INFO, 0).is_some());
    requester.wait(Duration::from_secs(20));
    assert_eq!(protection(&requester), 2);
    requester.m_key = 0;
    assert!(requester.get(hops, AttrId::NODE_INFO, 0).is_none());
    requester.wait(Duration::from_secs(6));
    assert_eq!(protection(&requester), 0);
    assert!(requester.get(hops, AttrId::NODE_INFO, 0).is_some());
}

#[test]
fn set_of_port_info_sends_events_to_the_host() {
    let mut requester = requester();
    let status = requester.change_port(&[], 0, |info| {
        info.set_lid(Lid(4))
            .set_master_sm_lid(Lid(4))
            .set_client_reregister(true);
    });
    assert_eq!(status, Some(Status::OK));
    let events: Vec<_> = requester
        .unsolicited
        .iter()
        .filter_map(|(_, inbound)| match inbound {
            Inbound::Port(event) => Some(*event),
            _ => None,
        })
        .collect();
    requester.wait(Duration::ZERO);
    let expected = [
        PortEvent::LidChanged,
        PortEvent::SmChanged,
        PortEvent::ClientReregister,
    ];
    assert_eq!(events, expected);
    assert_eq!(
        requester.sim.local_port(requester.client).unwrap().lid,
        Lid(4)
    );
}

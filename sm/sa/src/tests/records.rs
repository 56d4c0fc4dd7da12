//! Tests of queries for records of nodes, ports and switches, and of requests without an answer.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::Tid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{CapabilityMask, LinkSpeeds, NodeType, PKey, SmInfo, SmState};
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::sa::*;
use rsm_state::{Other, Role};

use super::world::{SM_KEY, SMALL, World, planned};
use crate::{Sa, SaConfig, SaCounters, SaRequest, WORK_PER_PULL};

/// The mask of a query that all records match.
const ALL: ComponentMask = ComponentMask::NONE;

#[test]
fn nodes_are_found_by_any_of_their_components() {
    let mut world = World::with_lmc(SMALL, 1);
    let all = world.table(ALL, &NodeRecord::default());
    assert_eq!(all.len(), 8);
    let lid = world.hosts()[2];

    // A lookup by any LID of the port finds it, and returns its base LID.
    for queried in [lid, Lid(lid.0 + 1)] {
        let mut wanted = NodeRecord::default();
        wanted.set_lid(queried);
        let found = world.get(NodeRecord::LID, &wanted).unwrap();
        assert_eq!(found.lid(), lid);
        assert_eq!(found.node_info().port_guid(), world.guid(lid));
        assert_eq!(found.node_info().local_port_num(), PortNum(1));
    }

    let mut info = all[0].node_info();
    info.set_node_type(NodeType::Switch);
    let mut wanted = NodeRecord::default();
    wanted.set_node_info(&info);
    let switches = world.table(NodeRecord::NODE_TYPE, &wanted);
    assert_eq!(switches.len(), 4);
    let refused = world.get(NodeRecord::NODE_TYPE, &wanted);
    assert_eq!(refused.unwrap_err(), SaStatus::TOO_MANY_RECORDS);

    wanted.set_node_description(switches[1].node_description());
    let mask = NodeRecord::NODE_TYPE | NodeRecord::NODE_DESCRIPTION;
    assert_eq!(world.get(mask, &wanted).unwrap(), switches[1]);

    wanted.set_lid(Lid(0xBFFF));
    let none = world.get(NodeRecord::LID, &wanted);
    assert_eq!(none.unwrap_err(), SaStatus::NO_RECORDS);
    assert!(world.table(NodeRecord::LID, &wanted).is_empty());
}

#[test]
fn records_of_switch_ports_have_the_lid_of_the_switch() {
    let mut world = World::new(SMALL);
    let lid = world.switches()[0];
    let mut wanted = PortInfoRecord::default();
    wanted.set_end_port_lid(lid);
    let ports = world.table(PortInfoRecord::END_PORT_LID, &wanted);
    let numbers: Vec<_> = ports.iter().map(PortInfoRecord::port_num).collect();
    let all: Vec<_> = (0..ports.len() as u8).map(PortNum).collect();
    assert!(ports.len() > 2);
    assert_eq!(numbers, all);
    assert!(ports.iter().all(|port| port.end_port_lid() == lid));

    // BaseLID is a component of PortInfo that external ports lack.
    wanted.port_info_mut().set_lid(lid);
    let only = world.get(PortInfoRecord::BASE_LID, &wanted).unwrap();
    assert_eq!((only.end_port_lid(), only.port_num()), (lid, PortNum(0)));

    wanted.set_port_num(PortNum(2));
    let mask = PortInfoRecord::END_PORT_LID | PortInfoRecord::PORT_NUM;
    assert_eq!(world.get(mask, &wanted).unwrap(), ports[2]);
}

#[test]
fn capability_masks_match_as_a_whole_or_bit_by_bit() {
    let (mut fabric, plan) = planned(SMALL, 0);
    let local = fabric.local.unwrap();
    let port = fabric.port_mut(local);
    let both = CapabilityMask::IS_SM | CapabilityMask::IS_TRAP_SUPPORTED;
    port.info.as_mut().unwrap().set_capability_mask(both);
    let mut world = World::of(fabric, plan);

    let mut wanted = PortInfoRecord::default();
    let mask = PortInfoRecord::CAPABILITY_MASK;
    wanted
        .port_info_mut()
        .set_capability_mask(CapabilityMask::IS_SM);
    assert!(world.table(mask, &wanted).is_empty());
    let bitwise: Vec<PortInfoRecord> = world
        .ask_with(Method::GET_TABLE, mask, &wanted, |header| {
            let modifier = PortInfoRecord::CAPABILITY_MASK_MATCH;
            header.mad_mut().set_modifier(modifier);
        })
        .unwrap();
    assert_eq!(bitwise.len(), 1);
    wanted.port_info_mut().set_capability_mask(both);
    assert_eq!(world.table(mask, &wanted), bitwise);
}

#[test]
fn m_key_is_shown_to_trusted_requesters_only_and_matches_no_guess() {
    let mut world = World::new(SMALL);
    let mut wanted = PortInfoRecord::default();
    wanted.port_info_mut().set_m_key(0x5EC2E7);
    let all = world.table(ALL, &wanted);
    assert!(all.iter().all(|port| port.port_info().m_key() == 0));
    assert!(world.table(PortInfoRecord::M_KEY, &wanted).is_empty());
    let trusted: Vec<PortInfoRecord> = world
        .ask_with(
            Method::GET_TABLE,
            PortInfoRecord::M_KEY,
            &wanted,
            |header| {
                header.set_sm_key(SM_KEY);
            },
        )
        .unwrap();
    assert_eq!(trusted.len(), all.len());
    assert!(
        trusted
            .iter()
            .all(|port| port.port_info().m_key() == 0x5EC2E7)
    );
}

#[test]
fn request_with_a_wrong_sm_key_gets_no_answer() {
    let mut world = World::new(SMALL);
    let mut mad = SaMad::request(Method::GET_TABLE, Tid(1), ALL, &NodeRecord::default());
    mad.header.set_sm_key(SM_KEY + 1);
    assert!(world.handle(mad.as_bytes()).is_none());
    assert_eq!(world.sa.counters().wrong_keys, 1);
}

#[test]
fn requesters_without_extended_speeds_see_qdr_instead_of_ndr() {
    // All links are NDR.
    let mut world = World::new("superpod:su=1");
    let mut wanted = PortInfoRecord::default();
    wanted
        .set_end_port_lid(world.hosts()[0])
        .set_options(PortInfoRecord::EXTENDED_SPEEDS);
    let lid = PortInfoRecord::END_PORT_LID;
    let speed = |record: PortInfoRecord| record.port_info().link_speed_active();
    let old = world.get(lid, &wanted).unwrap();
    assert_eq!((speed(old), old.options()), (LinkSpeeds::QDR, 0));
    let new = world.get(lid | PortInfoRecord::OPTIONS, &wanted).unwrap();
    assert_eq!(speed(new), LinkSpeeds::NONE);
    assert_eq!(new.options(), PortInfoRecord::EXTENDED_SPEEDS);
}

#[test]
fn records_of_switches_show_the_planned_tables() {
    let mut world = World::new(SMALL);
    let switches = world.table(ALL, &SwitchInfoRecord::default());
    let lids: Vec<_> = switches.iter().map(SwitchInfoRecord::lid).collect();
    assert_eq!(lids, world.switches());

    let lid = lids[3];
    let mut wanted = LinearForwardingTableRecord::default();
    wanted.set_lid(lid);
    let mask = LinearForwardingTableRecord::LID | LinearForwardingTableRecord::BLOCK_NUM;
    let block = world.get(mask, &wanted).unwrap();
    let plan = world.snapshot.plan.as_ref().unwrap();
    let table = plan.table(world.guid(lid)).unwrap();
    assert_eq!(block.table().ports(), table.block(0));
    let all = world.table(ALL, &wanted);
    assert_eq!(all.len(), lids.len());
    // A host has no forwarding table.
    wanted.set_lid(world.hosts()[0]);
    assert!(world.table(mask, &wanted).is_empty());
    assert!(
        world
            .table(ALL, &MulticastForwardingTableRecord::default())
            .is_empty()
    );
}

#[test]
fn cables_are_listed_from_both_ends() {
    let mut world = World::new(SMALL);
    let all = world.table(ALL, &LinkRecord::default());
    assert_eq!(all.len(), 2 * world.snapshot.links());
    for link in &all {
        let mut back = LinkRecord::default();
        back.set_from_lid(link.to_lid())
            .set_from_port(link.to_port())
            .set_to_lid(link.from_lid())
            .set_to_port(link.from_port());
        assert!(all.contains(&back));
        let mask = ComponentMask::range(0, 3);
        assert_eq!(world.get(mask, &back).unwrap(), back);
    }
    let mut to = LinkRecord::default();
    to.set_to_lid(world.hosts()[1]);
    assert_eq!(world.table(LinkRecord::TO_LID, &to).len(), 1);
}

#[test]
fn ports_have_records_of_guids_sl2vl_and_vl_arbitration() {
    let mut world = World::new(SMALL);
    let (host, switch) = (world.hosts()[1], world.switches()[0]);

    let mut guids = GuidInfoRecord::default();
    guids.set_lid(host);
    let found = world.get(GuidInfoRecord::LID, &guids).unwrap();
    assert_eq!(found.guid_info().guid(0), Some(world.guid(host)));
    assert_eq!(found.guid_info().guid(1), Some(Guid::ZERO));

    let mut lanes = SlToVlMappingTableRecord::default();
    lanes.set_lid(host);
    let lid = SlToVlMappingTableRecord::LID;
    assert_eq!(world.table(lid, &lanes).len(), 1);
    lanes.set_lid(switch);
    let ports = world.table(lid, &lanes).len();
    let output = lid | SlToVlMappingTableRecord::OUTPUT_PORT_NUM;
    assert_eq!(world.table(output, &lanes).len().pow(2), ports);
    let both = output | SlToVlMappingTableRecord::INPUT_PORT_NUM;
    assert_eq!(world.get(both, &lanes).unwrap(), lanes);

    let mut shares = VlArbitrationTableRecord::default();
    // The port number of a host is reserved, so that any value matches.
    shares
        .set_lid(host)
        .set_block_num(3)
        .set_output_port_num(PortNum(9));
    let mask = ComponentMask::range(0, 2);
    let found = world.get(mask, &shares).unwrap();
    assert_eq!(
        (found.block_num(), found.output_port_num()),
        (3, PortNum(0))
    );
    shares.set_lid(switch);
    assert_eq!(world.get(mask, &shares).unwrap_err(), SaStatus::NO_RECORDS);
}

#[test]
fn p_key_tables_are_refused_to_untrusted_requesters() {
    let mut world = World::new(SMALL);
    let mut wanted = PKeyTableRecord::default();
    wanted.set_lid(world.hosts()[1]);
    let refused = world.get(PKeyTableRecord::LID, &wanted);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INVALID);
    let trusted: Vec<PKeyTableRecord> = world
        .ask_with(Method::GET, PKeyTableRecord::LID, &wanted, |header| {
            header.set_sm_key(SM_KEY);
        })
        .unwrap();
    assert_eq!(trusted[0].table().p_key(0), Some(PKey::DEFAULT_FULL));
    assert_eq!(trusted[0].table().p_key(1), Some(PKey::INVALID));
}

#[test]
fn subnet_managers_and_capabilities_have_records() {
    let mut world = World::new(SMALL);
    let found = world.get(ALL, &SmInfoRecord::default()).unwrap();
    assert_eq!(found.lid(), world.snapshot.plan.as_ref().unwrap().sm_lid);
    let info = found.sm_info();
    assert_eq!(info.guid(), world.snapshot.own_guid);
    assert_eq!((info.priority(), info.sm_state()), (5, SmState::Master));
    assert_eq!(info.sm_key(), 0);
    // A manager with another GUID is not found.
    let mut by_guid = SmInfoRecord::default();
    let mut info = info;
    info.set_guid(Guid(1));
    by_guid.set_sm_info(&info);
    assert!(world.table(SmInfoRecord::GUID, &by_guid).is_empty());

    // The record shows another manager as it answered a poll, without the SM_Key.
    let (at, port) = world.fabric().end_ports().last().unwrap();
    let lid = port.lid();
    let mut standby = SmInfo::default();
    standby
        .set_guid(port.guid)
        .set_priority(3)
        .set_sm_state(SmState::Standby)
        .set_sm_key(7);
    let mut fabric = world.fabric().clone();
    let at = fabric.key(at);
    fabric.managers.push((at, standby));
    world.snapshot.fabric = std::sync::Arc::new(fabric);
    world.sa.replace(&world.snapshot);
    let all = world.table(ALL, &SmInfoRecord::default());
    assert_eq!(all.len(), 2);
    let mut by_lid = SmInfoRecord::default();
    by_lid.set_lid(lid);
    let other = world.get(SmInfoRecord::LID, &by_lid).unwrap();
    standby.set_sm_key(0);
    assert_eq!((other.lid(), other.sm_info()), (lid, standby));

    let class_port_info = world.get(ALL, &ClassPortInfo::default()).unwrap();
    assert_eq!(class_port_info.class_version(), CLASS_VERSION);
    // The value 17 is 4.096 µs × 2^17, half a second: the longest wait if the inbox is full.
    assert_eq!(class_port_info.resp_time_value(), 17);
    let supported = SaCapabilityMask::MULTI_PATH | SaCapabilityMask::UD_MULTICAST;
    assert!(class_port_info.capability_mask().contains(supported));
    let supported = SaCapabilityMask2::SEND_ONLY_FULL_MEMBER | SaCapabilityMask2::ALIAS_GUIDS;
    assert!(class_port_info.capability_mask2().contains(supported));
    let unsupported = SaCapabilityMask2::QOS.0
        | SaCapabilityMask2::HIERARCHY.0
        | SaCapabilityMask2::REVERSE_PATH_P_KEY.0
        | SaCapabilityMask2::MULTICAST_SERVICE_RECORD.0;
    assert_eq!(class_port_info.capability_mask2().0 & unsupported, 0);
}

#[test]
fn unknown_methods_attributes_and_components_are_refused() {
    let mut world = World::new(SMALL);
    let record = NodeRecord::default();
    let mut refusal = |method, change: fn(&mut SaHeader)| {
        let refused = world.ask_with::<_, NodeRecord>(method, ALL, &record, change);
        refused.unwrap_err()
    };
    assert_eq!(
        refusal(Method::SET, |_| {}),
        Status::UNSUPPORTED_METHOD_ATTRIBUTE
    );
    assert_eq!(refusal(Method(0x40), |_| {}), Status::UNSUPPORTED_METHOD);
    let unknown = |header: &mut SaHeader| {
        header.mad_mut().set_attribute(AttrId(0x77));
    };
    assert_eq!(
        refusal(Method::GET, unknown),
        Status::UNSUPPORTED_METHOD_ATTRIBUTE
    );
    let version = |header: &mut SaHeader| {
        header.mad_mut().set_class_version(1);
    };
    assert_eq!(refusal(Method::GET, version), Status::BAD_VERSION);
    let beyond = |header: &mut SaHeader| {
        header.set_component_mask(ComponentMask(1 << 60));
    };
    assert_eq!(refusal(Method::GET, beyond), SaStatus::REQ_INVALID);
    let counters = world.sa.counters();
    assert_eq!(counters.requests[&SaCounters::OTHER], 2);
    assert_eq!(counters.answers[&SaStatus::REQ_INVALID], 1);
}

#[test]
fn requests_get_no_answer_without_a_plan_as_standby_or_from_an_unknown_lid() {
    let mut world = World::new(SMALL);
    let mad = SaMad::request(Method::GET_TABLE, Tid(1), ALL, &NodeRecord::default());
    let request = |lid| SaRequest {
        bytes: mad.as_bytes(),
        requester: RemoteAddress::gsi(lid, 0),
    };
    // Clients repeat requests that get no answer, but fail at once on BUSY and ERR_REQ_DENIED.
    assert!(world.sa.handle(request(Lid(0x1000)), Time::ZERO).is_none());
    assert_eq!(world.sa.counters().unserved, 1);

    let lid = world.hosts()[0];
    let mut without_plan = Sa::new(SaConfig {
        sm_key: SM_KEY,
        ..SaConfig::default()
    });
    assert!(without_plan.handle(request(lid), Time::ZERO).is_none());
    assert!(!without_plan.is_serving());
    for role in [Role::Discovering, standby(&world), Role::NotActive] {
        world.snapshot.role = role;
        world.sa.replace(&world.snapshot);
        assert!(!world.sa.is_serving());
        assert!(world.sa.handle(request(lid), Time::ZERO).is_none());
        // Malformed requests get no answer either.
        let mut unknown = mad;
        unknown.header.mad_mut().set_class_version(1);
        let unknown = SaRequest {
            bytes: unknown.as_bytes(),
            requester: RemoteAddress::gsi(lid, 0),
        };
        assert!(world.sa.handle(unknown, Time::ZERO).is_none());
    }
    assert_eq!(world.sa.counters().unserved, 7);
    assert!(world.sa.counters().answers.is_empty());

    world.snapshot.role = Role::Master;
    world.sa.replace(&world.snapshot);
    let answer = world.sa.handle(request(lid), Time::ZERO).unwrap();
    assert_eq!(answer.status(), Status::OK);
}

/// The role while another subnet manager, at the second host, is master.
fn standby(world: &World) -> Role {
    let (at, port) = world.fabric().end_ports().last().unwrap();
    let master = Other {
        port: world.fabric().key(at),
        guid: port.guid,
        lid: port.lid(),
        priority: 15,
        state: SmState::Master,
        sm_key: 0,
        name: "other".to_owned(),
    };
    Role::Standby { master }
}

#[test]
fn responses_and_other_classes_get_no_answer() {
    let mut world = World::new(SMALL);
    let mad = SaMad::request(Method::GET_RESPONSE, Tid(1), ALL, &NodeRecord::default());
    assert!(world.handle(mad.as_bytes()).is_none());
    assert!(world.handle(&mad.as_bytes()[..SA_HEADER_LEN - 1]).is_none());
    let mut other = SaMad::request(Method::GET, Tid(1), ALL, &NodeRecord::default());
    other
        .header
        .mad_mut()
        .set_class(rsm_mad::wire::header::Class::PERFORMANCE);
    assert!(world.handle(other.as_bytes()).is_none());
    assert_eq!(world.sa.counters().ignored, 3);
}

#[test]
fn request_with_a_truncated_record_is_refused() {
    let mut world = World::new(SMALL);
    let mad = SaMad::request(Method::GET, Tid(1), ALL, &NodeRecord::default());
    let cut = &mad.as_bytes()[..SA_HEADER_LEN + NodeRecord::LEN - 1];
    let answer = world.handle(cut).unwrap();
    assert_eq!(answer.status(), SaStatus::REQ_INVALID);
}

#[test]
fn table_has_the_same_bytes_as_a_whole_and_in_pieces() {
    let mut world = World::new(SMALL);
    let mad = SaMad::request(Method::GET_TABLE, Tid(1), ALL, &PortInfoRecord::default());
    let whole = world.handle(mad.as_bytes()).unwrap();
    let whole = whole.into_message(usize::MAX).unwrap();
    let mut answer = world.handle(mad.as_bytes()).unwrap();
    let mut pieces = answer.header().as_bytes().to_vec();
    let mut buffer = [0; 13];
    loop {
        let pulled = answer.pull(&mut buffer);
        pieces.extend_from_slice(&buffer[..pulled.bytes]);
        if pulled.ended {
            break;
        }
    }
    assert_eq!(pieces, whole);
    let answer = world.handle(mad.as_bytes()).unwrap();
    let header = *answer.header();
    let limit = whole.len() - 1;
    assert_eq!(answer.into_message(limit).unwrap_err().limit, limit);
    let refusal = crate::SaAnswer::too_long(RemoteAddress::gsi(Lid(1), 0), header);
    assert_eq!(refusal.status(), SaStatus::NO_RESOURCES);
}

#[test]
fn long_search_without_a_match_is_divided_into_turns() {
    let mut world = World::new("pgft:2;18,36;1,18;1,1");
    let mut wanted = PathRecord::default();
    // No port is in this partition.
    wanted.set_p_key(PKey(0x8123));
    let mad = SaMad::request(Method::GET_TABLE, Tid(1), PathRecord::P_KEY, &wanted);
    let mut answer = world.handle(mad.as_bytes()).unwrap();
    let mut turns = 0;
    let pulled = loop {
        let pulled = answer.pull(&mut [0; 200]);
        turns += 1;
        if pulled.ended || pulled.bytes > 0 {
            break pulled;
        }
    };
    assert_eq!((pulled.bytes, pulled.ended), (0, true));
    let ends = world.fabric().end_ports().count();
    assert!(turns >= ends * ends / WORK_PER_PULL);
}

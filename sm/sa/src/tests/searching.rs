//! Tests that each call examines only as many candidates as one turn permits, whatever the query.

use rsm_mad::ids::Tid;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;

use super::world::World;
use crate::WORK_PER_PULL;

/// 1,024 hosts and 320 switches with 17 ports each.
const LARGE: &str = "fat-tree:k=16,levels=3";

/// The status of the answer to a Get, and the number of further turns that its search takes.
fn search<R: Record>(world: &mut World, mask: ComponentMask, record: &R) -> (Status, usize) {
    let mad = SaMad::request(Method::GET, Tid(1), mask, record);
    let mut answer = world.handle(mad.as_bytes()).unwrap();
    let counted = |world: &World| world.sa.counters().answers.values().sum::<u64>();
    let before = counted(world);
    let mut turns = 0;
    while answer.is_open() {
        assert!(answer.datagram().is_none());
        assert_eq!(counted(world), before);
        world.sa.continue_search(&mut answer);
        turns += 1;
    }
    assert!(world.sa.continue_search(&mut answer) && answer.datagram().is_some());
    if turns > 0 {
        assert_eq!(counted(world), before + 1);
    }
    (answer.status(), turns)
}

#[test]
fn get_without_a_lid_is_answered_in_several_turns() {
    let mut world = World::new(LARGE);
    let hosts = world.hosts();
    let ports = 1024 + 320 * 17;
    let least = ports / WORK_PER_PULL - 1;

    let mut port = PortInfoRecord::default();
    port.port_info_mut().set_m_key_lease_period(0xBEEF);
    let by_lease = PortInfoRecord::M_KEY_LEASE_PERIOD;
    let (status, turns) = search(&mut world, by_lease, &port);
    assert_eq!(status, SaStatus::NO_RECORDS);
    assert!(turns >= least, "{turns} of {least}");
    // Without components, all records match, and the search ends at the second one.
    let (status, turns) = search(&mut world, ComponentMask::NONE, &port);
    assert_eq!((status, turns), (SaStatus::TOO_MANY_RECORDS, 0));

    let mut node = NodeRecord::default();
    let last = *hosts.last().unwrap();
    let mut info = node.node_info();
    info.set_port_guid(world.guid(last));
    node.set_node_info(&info);
    let (status, turns) = search(&mut world, NodeRecord::PORT_GUID, &node);
    assert_eq!(
        (status, turns),
        (Status::OK, 0),
        "there is an index of GUIDs"
    );
    let found = world.get(NodeRecord::PORT_GUID, &node).unwrap();
    assert_eq!(found.lid(), last);
    node.set_node_description(found.node_description());
    let by_text = search(&mut world, NodeRecord::NODE_DESCRIPTION, &node);
    assert_eq!(by_text, (Status::OK, 1));
    // If the LID is given, the first turn suffices.
    node.set_lid(last);
    let mask = NodeRecord::PORT_GUID | NodeRecord::LID;
    assert_eq!(search(&mut world, mask, &node), (Status::OK, 0));
}

#[test]
fn ports_without_records_count_as_examined_candidates() {
    let mut world = World::new(LARGE);
    let mut table = LinearForwardingTableRecord::default();
    table.set_block_num(1023);
    let mask = LinearForwardingTableRecord::BLOCK_NUM;
    let mad = SaMad::request(Method::GET_TABLE, Tid(1), mask, &table);
    let mut answer = world.handle(mad.as_bytes()).unwrap();
    let mut pulls = 1;
    while !answer.pull(&mut [0; 4096]).ended {
        pulls += 1;
    }
    // There is a candidate for each end port, and one more for each block of each switch.
    assert!(pulls > (1024 + 320) / WORK_PER_PULL, "{pulls}");
}

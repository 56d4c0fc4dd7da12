//! Records of virtual ports, as hosts get them from the SA: each record is compared with the state
//! of the simulated adapter, while virtual ports come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::messenger::Delivery;
use rsm_mad::transport::fault::FaultPlan;
use rsm_mad::wire::attr::{PKey, VPortInfo};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{
    ComponentMask, GuidInfoRecord, NodeRecord, PKeyTableRecord, PortInfoRecord, Record, SaStatus,
};
use rsm_routing::netlist::NodeKind;
use rsm_sa::SaConfig;
use rsm_sim::{VPortAt, VPortLids};
use rsm_tests::virtual_time::hosts::Hosts;
use rsm_tests::virtual_time::{Settings, World, expect, partitions};

const LIMIT: Duration = Duration::from_secs(120);
const TREE: &str = "fat-tree:k=4,levels=2,speed=ndr";
const PORT: PortNum = PortNum(1);
const VPORTS: u16 = 16;
const ALL: ComponentMask = ComponentMask::NONE;

fn brought_up(lids: VPortLids, policy: Option<&str>) -> World {
    let mut settings = Settings::default();
    settings.core.manages_vports = true;
    (settings.sim.vports, settings.sim.vport_lids) = (VPORTS, lids);
    if let Some(text) = policy {
        settings.core.policy = partitions::policy(text);
    }
    let mut world = World::generated(TREE, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

/// The hosts of `world` with an SA, which includes virtual ports in tables if `lists_vports`.
fn hosts(world: &World, lists_vports: bool) -> Hosts {
    let config = SaConfig {
        lists_vports,
        ..SaConfig::default()
    };
    Hosts::of(world, config, FaultPlan::default())
}

/// The virtual ports behind ports, with VPortInfo as the adapters hold it. Index 0 is the port
/// itself.
fn vports(world: &World) -> BTreeMap<VPortAt, VPortInfo> {
    let all = world.nodes(NodeKind::Ca).into_iter().flat_map(|host| {
        let vports = world.sim.vports(host, PORT).unwrap().into_iter();
        let vports = vports.filter(|(index, _)| *index > 0);
        vports.map(move |(index, vport)| ((host, PORT, index), vport.info))
    });
    all.collect()
}

/// Sends a request of the first host. Returns the records of the answer, or the status of an error.
fn ask<R: Record>(
    subnet: &mut Hosts,
    method: Method,
    mask: ComponentMask,
    record: &R,
) -> Result<Vec<R>, Status> {
    subnet.ask(0, method, mask, record);
    answer(subnet)
}

/// The records of the next answer, or the status of an error.
fn answer<R: Record>(subnet: &mut Hosts) -> Result<Vec<R>, Status> {
    let until = subnet.now() + Duration::from_secs(10);
    let Some((0, Delivery::Message(message))) = subnet.next(until) else {
        panic!("{} is not answered", R::NAME);
    };
    let header = message.header().unwrap();
    if !header.status().is_ok() {
        return Err(header.status());
    }
    let records = message.data().chunks_exact(R::LEN);
    let records = records.map(|bytes| *R::from_prefix(bytes).unwrap());
    Ok(match header.method() {
        Method::GET_RESPONSE => records.take(1).collect(),
        _ => records.collect(),
    })
}

/// A NodeRecord with this port GUID and node GUID, for a query.
fn node_with(guid: Guid) -> NodeRecord {
    let mut wanted = NodeRecord::default();
    let mut info = wanted.node_info();
    info.set_port_guid(guid).set_node_guid(guid);
    wanted.set_node_info(&info);
    wanted
}

/// The answers to Gets of NodeRecord by LID, port GUID and node GUID of a virtual port.
fn by_lid_and_guids(subnet: &mut Hosts, info: &VPortInfo) -> [Result<Vec<NodeRecord>, Status>; 3] {
    let mut wanted = node_with(info.port_guid());
    wanted.set_lid(info.lid());
    [
        NodeRecord::LID,
        NodeRecord::PORT_GUID,
        NodeRecord::NODE_GUID,
    ]
    .map(|mask| ask(subnet, Method::GET, mask, &wanted))
}

/// Every kind of record of a virtual port matches the state of its adapter.
#[test]
fn records_of_vports_are_what_their_adapters_hold() {
    let world = brought_up(VPortLids::Own, None);
    let mut subnet = hosts(&world, false);
    let all = vports(&world);
    assert_eq!(
        all.len(),
        usize::from(VPORTS) * world.nodes(NodeKind::Ca).len() - 8
    );
    for (at, info) in &all {
        for found in by_lid_and_guids(&mut subnet, info) {
            let found = found.unwrap()[0];
            assert_eq!(found.lid(), info.lid(), "{at:?}");
            assert_eq!(found.node_info().port_guid(), info.port_guid());
            assert_eq!(found.node_info().node_guid(), info.port_guid());
            let text = format!("vport {}", at.2);
            assert_eq!(found.node_description().text(), text.as_bytes());
        }
        let mut wanted = PortInfoRecord::default();
        wanted.set_end_port_lid(info.lid());
        let by_lid = PortInfoRecord::END_PORT_LID;
        let found = ask(&mut subnet, Method::GET, by_lid, &wanted).unwrap()[0];
        let port = world.sim.port_info(at.0, PORT).unwrap();
        assert_eq!(found.port_info().port_state(), info.state());
        assert_eq!(found.port_info().guid_cap(), info.guid_cap());
        assert_eq!(found.port_info().mtu_cap(), port.mtu_cap());
        let mut wanted = GuidInfoRecord::default();
        wanted.set_lid(info.lid());
        let found = ask(&mut subnet, Method::GET, GuidInfoRecord::LID, &wanted).unwrap()[0];
        assert_eq!(found.guid_info().guids()[0], info.port_guid());
    }
}

/// Virtual ports that share a LID have no records: all records of a LID belong to its holder.
#[test]
fn vports_that_share_a_lid_add_no_records() {
    for lids in [VPortLids::Base, VPortLids::ByIndex] {
        let world = brought_up(lids, None);
        let mut subnet = hosts(&world, true);
        let nodes = ask(&mut subnet, Method::GET_TABLE, ALL, &NodeRecord::default()).unwrap();
        let mut by_lid: BTreeMap<Lid, Guid> = BTreeMap::new();
        for node in nodes {
            let guid = node.node_info().port_guid();
            assert_eq!(by_lid.insert(node.lid(), guid), None, "{}", node.lid());
        }
        for (at, info) in vports(&world) {
            let wanted = node_with(info.port_guid());
            let found = ask(&mut subnet, Method::GET, NodeRecord::PORT_GUID, &wanted);
            match info.lid_required() {
                true => assert_eq!(found.unwrap()[0].lid(), info.lid(), "{at:?}"),
                false => assert_eq!(found, Err(SaStatus::NO_RECORDS), "{at:?}"),
            }
        }
    }
}

/// A virtual port disappears while a table is being sent. That table shows the state at its
/// beginning.
#[test]
fn vport_removed_while_a_table_is_sent_is_missing_in_the_next_table() {
    let mut world = brought_up(VPortLids::Own, None);
    let mut subnet = hosts(&world, true);
    let (at, info) = vports(&world).pop_last().unwrap();
    let table = Method::GET_TABLE;
    let before: Vec<NodeRecord> = ask(&mut subnet, table, ALL, &NodeRecord::default()).unwrap();
    subnet.ask(0, table, ALL, &NodeRecord::default());
    // Some segments are on their way, not all.
    let soon = subnet.now() + Duration::from_micros(20);
    assert!(subnet.next(soon).is_none());

    world.sim.remove_vport(at).unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    let snapshot = world.manager().snapshot().unwrap();
    subnet.sa.replace(snapshot);
    let under_way: Vec<NodeRecord> = answer(&mut subnet).unwrap();
    assert!(under_way == before, "it is as it began");
    let after: Vec<NodeRecord> = ask(&mut subnet, table, ALL, &NodeRecord::default()).unwrap();
    assert_eq!(after.len(), before.len() - 1);
    for found in by_lid_and_guids(&mut subnet, &info) {
        assert_eq!(found, Err(SaStatus::NO_RECORDS));
    }
}

/// A virtual machine moves, and its copy at the new host appears before the original is gone. The
/// record shows the virtual port that is served, and keeps its LID.
#[test]
fn record_follows_a_vport_to_another_host() {
    let mut world = brought_up(VPortLids::Own, None);
    let hosts_of_world = world.nodes(NodeKind::Ca);
    let (from, to) = ((hosts_of_world[1], PORT, 2), (hosts_of_world[5], PORT, 40));
    let moved = vports(&world)[&from];
    let (guid, own) = (moved.port_guid(), VPortLids::Own);
    let text = |world: &World| {
        let mut subnet = hosts(world, false);
        let found = by_lid_and_guids(&mut subnet, &moved);
        let found = found.map(|found| found.unwrap()[0]);
        assert!(found.iter().all(|node| node.lid() == moved.lid()));
        String::from_utf8_lossy(found[1].node_description().text()).into_owned()
    };
    world.sim.set_vport(to, guid, own).unwrap();
    world.settle(LIMIT);
    assert_eq!(text(&world), "vport 2");
    world.sim.remove_vport(from).unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    assert_eq!(text(&world), "vport 40");
}

/// Only the record of the member of a partition has the key of that partition.
#[test]
fn p_key_record_of_a_vport_has_its_partitions() {
    let netlist = rsm_routing::generate::generate(TREE).unwrap();
    let hosts_of_tree = netlist
        .nodes()
        .iter()
        .filter(|node| node.kind == NodeKind::Ca);
    let host = hosts_of_tree.map(|node| node.guid).nth(2).unwrap();
    let red = Guid(0x00AA_0001);
    let text = format!("Default=0x7fff : ALL=full ;\nRed=0x10 : {red}=full ;");
    let mut world = brought_up(VPortLids::Own, Some(&text));
    world
        .sim
        .set_vport((host, PORT, 30), red, VPortLids::Own)
        .unwrap();
    world.run_for(Duration::from_secs(2));
    world.settle(LIMIT);
    let config = SaConfig {
        sm_key: 7,
        ..SaConfig::default()
    };
    let mut sa = rsm_sa::Sa::new(config);
    sa.replace(world.manager().snapshot().unwrap());
    let of = |index: u16| vports(&world)[&(host, PORT, index)].lid();
    for (index, is_red) in [(30, true), (1, false)] {
        let mut wanted = PKeyTableRecord::default();
        wanted.set_lid(of(index));
        let by_lid = PKeyTableRecord::LID;
        let tid = rsm_mad::ids::Tid(1);
        let mut mad = rsm_mad::wire::sa::SaMad::request(Method::GET, tid, by_lid, &wanted);
        mad.header.set_sm_key(7);
        let requester = rsm_mad::transport::RemoteAddress::gsi(of(1), 0);
        let request = rsm_sa::SaRequest {
            bytes: mad.as_bytes(),
            requester,
        };
        let answer = sa.handle(request, rsm_mad::Time::ZERO).unwrap();
        assert!(answer.status().is_ok());
        let datagram = answer.datagram().unwrap();
        let data = &datagram[rsm_mad::wire::sa::SA_HEADER_LEN..];
        let keys = PKeyTableRecord::from_prefix(data).unwrap().table().p_keys();
        assert!(keys.contains(&PKey::DEFAULT_FULL));
        assert_eq!(keys.contains(&PKey(0x8010)), is_red, "{index}");
    }
}

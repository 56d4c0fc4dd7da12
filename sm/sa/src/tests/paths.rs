//! Tests of queries for paths: between ports, to other subnets, and to multicast groups.

use std::path::Path;
use std::sync::Arc;

use rsm_config::parse_prefix_routes;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{Mtu, NodeType, PKey};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_plan::policy::{OrderPolicy, Policy};
use rsm_routing::engine::EngineKind;

use super::walk::walk;
use super::world::{PREFIX, SMALL, World, planned_as, records};
use crate::SaRequest;
use crate::mcast::Parameters;

const LIDS: ComponentMask = PathRecord::SLID.with(PathRecord::DLID);
const GIDS: ComponentMask = PathRecord::SGID.with(PathRecord::DGID);

/// A query for the paths from `slid` to `dlid`.
fn between(slid: Lid, dlid: Lid) -> PathRecord {
    let mut record = PathRecord::default();
    record.set_slid(slid).set_dlid(dlid);
    record
}

#[test]
fn path_record_contains_all_parameters_of_a_connection() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let (from, to) = (hosts[0], hosts[3]);
    let mut wanted = PathRecord::default();
    wanted.set_sgid(world.gid(from)).set_dgid(world.gid(to));
    let path = world.get(GIDS, &wanted).unwrap();
    assert_eq!((path.slid(), path.dlid()), (from, to));
    assert_eq!((path.sgid(), path.dgid()), (wanted.sgid(), wanted.dgid()));
    assert_eq!(path.p_key(), PKey::DEFAULT_FULL);
    assert_eq!(path.mtu(), Mtu::Bytes4096);
    assert_eq!(path.mtu_selector(), Selector::Exactly);
    assert!(path.rate().tenth_gbps().is_some() && path.reversible());
    assert_eq!(path.packet_life_time(), 18);
    assert_eq!((path.numb_path(), path.preference()), (0, 0));
    assert_eq!((path.hop_limit(), path.sl(), path.t_class()), (0, 0, 0));
    // A query by LIDs finds the same path.
    assert_eq!(world.get(LIDS, &between(from, to)).unwrap(), path);

    let own = world.get(LIDS, &between(from, from)).unwrap();
    assert_eq!(own.packet_life_time(), 0);
    // A switch is a destination as well.
    let switch = world.switches()[0];
    let path = world.get(LIDS, &between(from, switch)).unwrap();
    assert_eq!(path.dgid(), world.gid(switch));
}

#[test]
fn query_with_one_end_or_none_returns_a_table_and_a_get_is_refused() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let ends = world.fabric().end_ports().count();
    let from_host = world.table(PathRecord::SLID, &between(hosts[1], Lid(0)));
    assert_eq!(from_host.len(), ends);
    assert!(from_host.iter().all(|path| path.slid() == hosts[1]));
    let to_host = world.table(PathRecord::DLID, &between(Lid(0), hosts[1]));
    assert_eq!(to_host.len(), ends);
    let all = world.table(ComponentMask::NONE, &PathRecord::default());
    // The two spines have no path to each other.
    assert_eq!(all.len(), ends * ends - 2);
    for (mask, ends) in [
        (PathRecord::SLID, between(hosts[1], Lid(0))),
        (PathRecord::DLID, between(Lid(0), hosts[1])),
        (ComponentMask::NONE, PathRecord::default()),
    ] {
        let refused = world.get(mask, &ends).unwrap_err();
        assert_eq!(refused, SaStatus::REQ_INSUFFICIENT_COMPONENTS, "{mask:?}");
    }
}

#[test]
fn unknown_lids_have_no_records_and_unknown_gids_are_invalid() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let mut wanted = between(hosts[0], Lid(0x1000));
    assert_eq!(world.get(LIDS, &wanted).unwrap_err(), SaStatus::NO_RECORDS);
    assert!(world.table(LIDS, &wanted).is_empty());
    wanted
        .set_sgid(world.gid(hosts[0]))
        .set_dgid(Gid::new(PREFIX, Guid(0xDEAD)));
    let invalid = SaStatus::REQ_INVALID_GID;
    assert_eq!(world.get(GIDS, &wanted).unwrap_err(), invalid);
    // The GID belongs to another subnet, and no route leads there.
    wanted.set_dgid(Gid::new(0x1234, world.guid(hosts[1])));
    assert_eq!(world.get(GIDS, &wanted).unwrap_err(), invalid);
    // GID and LID belong to different ports.
    wanted.set_dgid(world.gid(hosts[1])).set_dlid(hosts[2]);
    let mask = GIDS | PathRecord::DLID;
    assert_eq!(world.get(mask, &wanted).unwrap_err(), SaStatus::REQ_INVALID);
}

#[test]
fn path_to_another_subnet_leads_to_the_router_port() {
    let (routed, elsewhere, unrouted) = (0xFEC0_0000_0000_0001, 0x1234, 0x5678);
    let (fabric, plan) = planned_as(SMALL, |fabric| {
        let hosts = fabric
            .nodes_mut()
            .filter(|node| node.kind() == NodeType::Ca);
        let hosts: Vec<_> = hosts.collect();
        let named_guid = hosts[2].ports[1].guid;
        for node in hosts.into_iter().skip(3) {
            node.info.set_node_type(NodeType::Router);
        }
        // The router of the last line does not exist in this subnet.
        let text = format!(
            "{routed:#x} {:#x}\n{elsewhere:#x} *\n* 0xdead\n",
            named_guid.0
        );
        let (routes, findings) = parse_prefix_routes(Path::new("routes"), &text);
        assert_eq!(findings, []);
        Policy {
            prefix_routes: Arc::new(routes),
            ..Policy::default()
        }
    });
    let mut world = World::of(fabric, plan);
    let hosts = world.hosts();
    let mut wanted = between(hosts[0], hosts[2]);
    wanted.set_sgid(world.gid(hosts[0]));
    for (prefix, router) in [(routed, hosts[2]), (elsewhere, hosts[3])] {
        // The lower half of the GID may equal the GUID of a port in this subnet.
        for far_guid in [Guid(0xFA4), world.guid(hosts[1])] {
            wanted.set_dgid(Gid::new(prefix, far_guid));
            let path = world.get(GIDS, &wanted).unwrap();
            assert_eq!((path.slid(), path.dlid()), (hosts[0], router));
            assert_eq!((path.dgid(), path.hop_limit()), (wanted.dgid(), 255));
        }
    }
    let mut with_hop_limit = wanted;
    with_hop_limit.set_hop_limit(7);
    let path = world
        .get(GIDS | PathRecord::HOP_LIMIT, &with_hop_limit)
        .unwrap();
    assert_eq!(path.hop_limit(), 7);
    let mask = GIDS | PathRecord::DLID;
    assert_eq!(world.get(mask, &wanted).unwrap_err(), SaStatus::REQ_INVALID);
    wanted.set_dgid(Gid::new(unrouted, Guid(0xFA4)));
    let refused = world.get(GIDS, &wanted).unwrap_err();
    assert_eq!(refused, SaStatus::REQ_INVALID_GID);
    // For a GID of this subnet, the path leads to the port with the GID.
    wanted.set_dgid(world.gid(hosts[1]));
    let path = world.get(GIDS, &wanted).unwrap();
    assert_eq!((path.dlid(), path.hop_limit()), (hosts[1], 0));
}

#[test]
fn each_pair_of_lids_has_a_path_and_a_get_returns_the_first() {
    let mut world = World::with_lmc(SMALL, 1);
    let hosts = world.hosts();
    let mut wanted = PathRecord::default();
    wanted
        .set_sgid(world.gid(hosts[0]))
        .set_dgid(world.gid(hosts[3]));
    let lids = |path: &PathRecord| (path.slid().0 - hosts[0].0, path.dlid().0 - hosts[3].0);
    let all = world.table(GIDS, &wanted);
    let order: Vec<_> = all.iter().map(lids).collect();
    assert_eq!(order, [(0, 0), (1, 1), (0, 1), (1, 0)]);
    assert!(all.is_sorted_by_key(PathRecord::preference));
    for count in [0, 1, 3, 127] {
        wanted.set_numb_path(count);
        let some = world.table(GIDS | PathRecord::NUMB_PATH, &wanted);
        assert_eq!(some[..], all[..all.len().min(count.into())]);
    }
    // A Get returns one path, even if NumbPath asks for another number.
    wanted.set_numb_path(0);
    let one = world.get(GIDS | PathRecord::NUMB_PATH, &wanted).unwrap();
    assert_eq!(one, all[0]);
    wanted.set_dlid(Lid(hosts[3].0 + 1));
    let one = world.get(GIDS | PathRecord::DLID, &wanted).unwrap();
    assert_eq!(lids(&one), (0, 1));
}

/// The base LID of the adapter with this NodeDescription.
fn adapter(world: &World, name: &str) -> Lid {
    let fabric = world.fabric();
    let (_, node) = fabric
        .iter()
        .find(|(_, node)| node.description == name)
        .unwrap();
    node.ports[1].lid()
}

#[test]
fn rails_of_the_ends_determine_the_first_lids() {
    let mut world = World::with_lmc("superpod:su=1", 2);
    let bases = ["host-001 mlx5_1", "host-002 mlx5_1", "host-002 mlx5_4"];
    let [rail_1, rail_1_of_other_host, rail_4] = bases.map(|name| adapter(&world, name));
    let first_offsets = |world: &mut World, from: Lid, to: Lid| {
        let mut wanted = PathRecord::default();
        wanted.set_sgid(world.gid(from)).set_dgid(world.gid(to));
        let all = world.table(GIDS, &wanted);
        assert_eq!(all.len(), 16, "every pair of LIDs");
        let first = world.get(GIDS, &wanted).unwrap();
        assert_eq!(first, all[0]);
        let offsets = |path: &PathRecord| (path.slid().0 - from.0, path.dlid().0 - to.0);
        let ends: std::collections::BTreeSet<_> = all[..4].iter().map(offsets).collect();
        assert_eq!(ends.len(), 4, "the first paths share no LID");
        offsets(&first)
    };
    // Within a rail, the first path uses base LIDs. From rail 1 to rail 4, with four LIDs, its
    // destination LID has the offset 1 - 4 = 1 (modulo 4), and its source LID 4 - 1 = 3.
    assert_eq!(
        first_offsets(&mut world, rail_1, rail_1_of_other_host),
        (0, 0)
    );
    assert_eq!(first_offsets(&mut world, rail_1, rail_4), (3, 1));
    assert_eq!(first_offsets(&mut world, rail_4, rail_1), (1, 3));
    // A query that names a LID gets a path to that LID.
    let mut wanted = PathRecord::default();
    wanted
        .set_sgid(world.gid(rail_1))
        .set_dgid(world.gid(rail_4))
        .set_dlid(Lid(rail_4.0 + 2));
    let path = world.get(GIDS | PathRecord::DLID, &wanted).unwrap();
    assert_eq!(path.dlid(), Lid(rail_4.0 + 2));
    // If ports have no rails, base LIDs come first.
    let policy = Policy {
        order: OrderPolicy {
            rails: false,
            ..OrderPolicy::default()
        },
        lmc: rsm_ids::Lmc::from_bits(2),
        ..Policy::default()
    };
    let (fabric, plan) = planned_as("superpod:su=1", |_| policy);
    let mut world = World::of(fabric, plan);
    assert_eq!(first_offsets(&mut world, rail_1, rail_4), (0, 0));
}

#[test]
fn path_has_a_p_key_of_both_ends_and_a_raw_path_has_none() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let mut wanted = between(hosts[0], hosts[1]);
    wanted.set_p_key(PKey::DEFAULT_LIMITED);
    let mask = LIDS | PathRecord::P_KEY;
    let path = world.get(mask, &wanted).unwrap();
    assert_eq!(path.p_key(), PKey::DEFAULT_LIMITED);
    wanted.set_p_key(PKey(0x8001));
    assert_eq!(world.get(mask, &wanted).unwrap_err(), SaStatus::NO_RECORDS);
    wanted.set_raw_traffic(true);
    let path = world.get(LIDS | PathRecord::RAW_TRAFFIC, &wanted).unwrap();
    assert_eq!((path.p_key(), path.raw_traffic()), (PKey::INVALID, true));
}

#[test]
fn multi_path_queries_pair_every_source_with_every_destination() {
    let mut world = World::with_lmc(SMALL, 1);
    let hosts = world.hosts();
    let mut record = MultiPathRecord::default();
    record.set_sgid_count(2).set_dgid_count(2).set_numb_path(5);
    let counts = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
    let mut ask = |mask, gids: &[Gid]| {
        let mut mad = SaMad::request(Method::GET_MULTI, Tid(7), mask, &record);
        for (gid, field) in gids.iter().zip(mad.data[24..].chunks_exact_mut(16)) {
            field.copy_from_slice(&gid.0.to_be_bytes());
        }
        let bytes = *mad.as_bytes();
        records::<PathRecord>(world.handle(&bytes).unwrap())
    };
    let gids: Vec<Gid> = World::with_lmc(SMALL, 1)
        .hosts()
        .iter()
        .map(|&lid| World::with_lmc(SMALL, 1).gid(lid))
        .collect();
    let all = ask(counts, &gids).unwrap();
    assert_eq!(all.len(), 4 * 4);
    let some = ask(counts | MultiPathRecord::NUMB_PATH, &gids).unwrap();
    assert_eq!(some[..], all[..5]);
    // Paths that share no end come first.
    assert_eq!((all[0].slid(), all[0].dlid()), (hosts[0], hosts[2]));
    assert_eq!((all[4].slid(), all[4].dlid()), (hosts[1], hosts[3]));
    let refused = ask(MultiPathRecord::SGID_COUNT, &gids);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INSUFFICIENT_COMPONENTS);
    let refused = ask(counts, &gids[..3]);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INVALID_GID);
}

#[test]
fn trace_lists_the_nodes_that_packets_pass() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let ends: Vec<PortRef> = world.fabric().end_ports().map(|(at, _)| at).collect();
    let plan = world.snapshot.plan.clone().unwrap();
    let mut unconnected = 0;
    for &from in &ends {
        for &to in &ends {
            let fabric = world.snapshot.fabric.clone();
            let (slid, dlid) = (fabric.port(from).lid(), fabric.port(to).lid());
            let walked = walk(&fabric, &plan, from, to, dlid).filter(|_| from != to);
            let traced: Vec<TraceRecord> = world
                .ask(Method::GET_TRACE_TABLE, LIDS, &between(slid, dlid))
                .unwrap();
            let nodes: Vec<Guid> = traced.iter().map(TraceRecord::node_id).collect();
            let walked = walked.iter().flat_map(|route| &route.nodes);
            let walked: Vec<Guid> = walked.map(|at| fabric.node(at.node).guid).collect();
            if from == to {
                assert_eq!(nodes, [fabric.node(from.node).guid]);
            } else {
                assert_eq!(nodes, walked);
            }
            if nodes.is_empty() {
                unconnected += 1;
                continue;
            }
            assert_eq!(traced[0].entry_port(), PortNum::ZERO);
            assert_eq!(traced[traced.len() - 1].exit_port(), PortNum::ZERO);
        }
    }
    assert_eq!(unconnected, 2, "two spines have no path to each other");
    let far: Vec<TraceRecord> = world
        .ask(Method::GET_TRACE_TABLE, LIDS, &between(hosts[0], hosts[3]))
        .unwrap();
    let kinds: Vec<_> = far.iter().map(TraceRecord::node_type).collect();
    use NodeType::{Ca, Switch};
    assert_eq!(kinds, [Ca, Switch, Switch, Switch, Ca]);
    for pair in far.windows(2) {
        let fabric = world.fabric();
        let exit = PortRef {
            node: fabric.find(pair[0].node_id()).unwrap(),
            port: pair[0].exit_port(),
        };
        let enter = PortRef {
            node: fabric.find(pair[1].node_id()).unwrap(),
            port: pair[1].entry_port(),
        };
        assert_eq!(fabric.peer(exit), Some(enter));
    }
}

#[test]
fn path_to_a_multicast_group_has_the_parameters_of_the_group() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let group = Parameters {
        mgid: Gid(0xFF12_A01C << 96 | 7),
        q_key: 1,
        p_key: PKey::DEFAULT_FULL,
        mtu: Mtu::Bytes2048,
        rate: Rate::GBPS_10,
        packet_life_time: 18,
        sl: 2,
        flow_label: 3,
        hop_limit: 4,
        t_class: 5,
        scope: 2,
    };
    world.sa.multicast.set_well_known(&[group]);
    let mut member = McMemberRecord::default();
    member
        .set_mgid(group.mgid)
        .set_port_gid(world.gid(hosts[1]))
        .set_join_state(JoinState::FULL_MEMBER);
    let join_mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let joined: Vec<McMemberRecord> = world.ask(Method::SET, join_mask, &member).unwrap();
    let mlid = joined[0].mlid();
    let mut wanted = PathRecord::default();
    wanted
        .set_sgid(world.gid(hosts[1]))
        .set_dgid(group.mgid)
        .set_mtu(Mtu::Bytes1024)
        .set_mtu_selector(Selector::GreaterThan);
    let path = world.get(GIDS, &wanted).unwrap();
    assert_eq!((path.slid(), path.dlid()), (hosts[1], mlid));
    assert_eq!((path.sl(), path.hop_limit(), path.t_class()), (2, 4, 5));
    assert_eq!((path.mtu(), path.rate()), (group.mtu, group.rate));
    let mtu = PathRecord::MTU | PathRecord::MTU_SELECTOR;
    assert_eq!(world.get(GIDS | mtu, &wanted).unwrap(), path);
    // The group has exactly one MTU, so no path to it has a smaller MTU.
    wanted.set_mtu_selector(Selector::Exactly);
    let none = SaStatus::NO_RECORDS;
    assert_eq!(world.get(GIDS | mtu, &wanted).unwrap_err(), none);
    wanted.set_sgid(world.gid(hosts[0]));
    assert_eq!(world.get(GIDS, &wanted).unwrap_err(), none);
    wanted.set_dgid(Gid(group.mgid.0 + 1));
    assert_eq!(world.get(PathRecord::DGID, &wanted).unwrap_err(), none);
    assert!(world.table(PathRecord::DGID, &wanted).is_empty());
}

#[test]
fn path_changes_with_the_mtu_of_links_and_stays_if_nothing_changed() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    world.prepare();
    let before = world.get(LIDS, &between(hosts[0], hosts[3])).unwrap();
    // The manager has read the same subnet again.
    world.snapshot.fabric = Arc::new(Fabric::clone(&world.snapshot.fabric));
    world.sa.replace(&world.snapshot);
    assert_eq!(
        world.get(LIDS, &between(hosts[0], hosts[3])).unwrap(),
        before
    );
    // The ports of switches get a smaller MTU.
    let mut fabric = Fabric::clone(&world.snapshot.fabric);
    for node in fabric.nodes_mut().filter(|node| node.is_switch()) {
        for info in node.ports.iter_mut().filter_map(|port| port.info.as_mut()) {
            info.set_neighbor_mtu(Mtu::Bytes1024);
        }
    }
    world.snapshot.fabric = Arc::new(fabric);
    world.sa.replace(&world.snapshot);
    let after = world.get(LIDS, &between(hosts[0], hosts[3])).unwrap();
    assert_eq!(after.mtu(), Mtu::Bytes1024);
}

#[test]
fn answer_goes_to_the_address_of_the_requester() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let mad = SaMad::request(Method::GET, Tid(1), LIDS, &between(hosts[0], hosts[1]));
    let requester = RemoteAddress::gsi(hosts[2], 3);
    let answer = world.sa.handle(
        SaRequest {
            bytes: mad.as_bytes(),
            requester,
        },
        Time::ZERO,
    );
    let answer = answer.unwrap();
    assert_eq!((answer.remote, answer.status()), (requester, Status::OK));
}

#[test]
fn path_has_the_service_level_that_its_route_requires() {
    let policy = Policy {
        engine: EngineKind::Torus,
        ..Policy::default()
    };
    let (fabric, plan) = planned_as("torus:5x5,hosts=1", |_| policy);
    let (topology, lanes) = (plan.topology.clone(), plan.routing.lanes.clone());
    let mut world = World::of(fabric, plan);
    let hosts = world.hosts();
    let switch = |lid| topology.destination_of(lid).unwrap().switch;
    let mut is_seen = [false; 4];
    for (&from, &to) in hosts
        .iter()
        .flat_map(|from| hosts.iter().map(move |to| (from, to)))
    {
        let required_sl = lanes.level(switch(from), switch(to)).unwrap();
        let path = world.get(LIDS, &between(from, to)).unwrap();
        assert_eq!(path.sl(), required_sl);
        assert!(path.reversible());
        // No path has another service level.
        let mut wanted = between(from, to);
        wanted.set_sl(required_sl ^ 1);
        let refused = world.get(LIDS | PathRecord::SL, &wanted);
        assert_eq!(refused, Err(SaStatus::NO_RECORDS));
        wanted.set_sl(required_sl);
        assert_eq!(
            world.get(LIDS | PathRecord::SL, &wanted).unwrap().sl(),
            required_sl
        );
        is_seen[usize::from(required_sl)] = true;
    }
    // There are four levels: for paths across the dateline of neither ring, of the first ring, of
    // the second ring, and of both rings.
    assert_eq!(is_seen, [true; 4]);
}

#[test]
fn sl_to_vl_mapping_records_contain_the_planned_rows() {
    let policy = Policy {
        engine: EngineKind::Torus,
        ..Policy::default()
    };
    let (fabric, plan) = planned_as("torus:5x5,hosts=1", |_| policy);
    let (topology, lanes) = (plan.topology.clone(), plan.routing.lanes.clone());
    let mut world = World::of(fabric, plan);
    let lid = world.switches()[7];
    let switch = topology.destination_of(lid).unwrap().switch;
    let mut wanted = SlToVlMappingTableRecord::default();
    wanted.set_lid(lid);
    let rows = world.table(SlToVlMappingTableRecord::LID, &wanted);
    assert!(rows.len() > 16);
    for row in rows {
        let planned = lanes.row(switch, row.input_port_num(), row.output_port_num());
        assert_eq!(Some(&row.mapping().vls()), planned);
    }
}

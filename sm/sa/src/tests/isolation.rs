//! Tests that requesters learn nothing about other partitions.

use std::path::Path;
use std::sync::Arc;

use rsm_config::parse_partitions;
use rsm_ids::Lid;
use rsm_mad::wire::attr::{LinearForwardingTable, PKey};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::*;
use rsm_plan::policy::Policy;

use super::world::{SM_KEY, SMALL, World, planned_as};

/// The mask of a query that all records match.
const ALL: ComponentMask = ComponentMask::NONE;

/// A world of two partitions, and its hosts. One partition contains the first and the third host,
/// the other one all hosts except the first; the switches are in both. The first host sends the
/// requests.
fn world() -> (World, Vec<Lid>) {
    let world = World::new(SMALL);
    let hosts = world.hosts();
    let switches = world.switches();
    let mut tables: Vec<(Lid, &[u16])> = vec![
        (hosts[0], &[0x8001]),
        (hosts[1], &[0x8002]),
        (hosts[2], &[0x0001, 0x8002]),
        (hosts[3], &[0x8002]),
    ];
    tables.extend(switches.iter().map(|&lid| (lid, &[0x8001, 0x8002][..])));
    (world.with_partitions(&tables), hosts)
}

/// All records that a trusted requester gets.
fn trusted<R: Record>(world: &mut World) -> Vec<R> {
    world
        .ask_with(Method::GET_TABLE, ALL, &R::default(), |header| {
            header.set_sm_key(SM_KEY);
        })
        .unwrap()
}

/// Checks that the requester gets records but no record about the ports `hidden`, and that a
/// trusted requester gets records about them. `lids` returns the LIDs of a record's ports.
fn check<R: Record>(world: &mut World, hidden: &[Lid], lids: impl Fn(&R) -> Vec<Lid>) {
    let shows_hidden = |record: &R| lids(record).iter().any(|lid| hidden.contains(lid));
    let shown = world.table(ALL, &R::default());
    assert!(!shown.is_empty(), "{}", R::NAME);
    assert!(!shown.iter().any(shows_hidden), "{}", R::NAME);
    let all = trusted::<R>(world);
    assert!(all.iter().any(shows_hidden), "{}", R::NAME);
}

#[test]
fn records_show_only_ports_that_share_a_partition_with_the_requester() {
    let (mut world, hosts) = world();
    let hidden = [hosts[1], hosts[3]];
    let hidden = &hidden[..];
    check(&mut world, hidden, |r: &NodeRecord| vec![r.lid()]);
    check(&mut world, hidden, |r: &PortInfoRecord| {
        vec![r.end_port_lid()]
    });
    check(&mut world, hidden, |r: &GuidInfoRecord| vec![r.lid()]);
    check(&mut world, hidden, |r: &SlToVlMappingTableRecord| {
        vec![r.lid()]
    });
    check(&mut world, hidden, |r: &VlArbitrationTableRecord| {
        vec![r.lid()]
    });
    check(&mut world, hidden, |r: &LinkRecord| {
        vec![r.from_lid(), r.to_lid()]
    });
    check(&mut world, hidden, |r: &PathRecord| {
        vec![r.slid(), r.dlid()]
    });
}

#[test]
fn forwarding_tables_show_no_lid_of_a_hidden_port() {
    let (mut world, hosts) = world();
    let entry = |record: &LinearForwardingTableRecord, lid: Lid| {
        let block = usize::from(record.block_num());
        let is_in_block = lid.index() / LinearForwardingTable::ENTRIES == block;
        is_in_block.then(|| record.table().ports()[lid.index() % LinearForwardingTable::ENTRIES])
    };
    let drop = LinearForwardingTable::DROP.0;
    let query = LinearForwardingTableRecord::default();
    let shown = world.table(ALL, &query);
    let all = trusted::<LinearForwardingTableRecord>(&mut world);
    assert_eq!(shown.len(), all.len());
    for (shown, all) in shown.iter().zip(&all) {
        for hidden in [hosts[1], hosts[3]] {
            assert_eq!(entry(shown, hidden), Some(drop));
            assert_ne!(entry(all, hidden), Some(drop));
        }
        for known in [hosts[0], hosts[2]] {
            assert_eq!(entry(shown, known), entry(all, known));
        }
    }
}

#[test]
fn queries_for_hidden_ports_find_nothing() {
    let (mut world, hosts) = world();
    let mut node = NodeRecord::default();
    node.set_lid(hosts[1]);
    let refused = world.get(NodeRecord::LID, &node);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
    let mut path = PathRecord::default();
    path.set_slid(hosts[0]).set_dlid(hosts[1]);
    let mask = PathRecord::SLID | PathRecord::DLID;
    let refused = world.get(mask, &path);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
    let traced = world.ask::<_, TraceRecord>(Method::GET_TRACE_TABLE, mask, &path);
    assert!(traced.unwrap().is_empty());
    // The two ends see each other, but the requester sees neither.
    path.set_slid(hosts[1]).set_dlid(hosts[3]);
    let refused = world.get(mask, &path);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
}

#[test]
fn path_has_a_p_key_of_a_partition_of_both_ends() {
    let (mut world, hosts) = world();
    let mut path = PathRecord::default();
    path.set_slid(hosts[0]).set_dlid(hosts[2]);
    let mask = PathRecord::SLID | PathRecord::DLID;
    let found = world.get(mask, &path).unwrap();
    assert_eq!(found.p_key(), PKey(0x8001));
    path.set_slid(hosts[2]).set_dlid(hosts[0]);
    assert_eq!(world.get(mask, &path).unwrap().p_key(), PKey(0x0001));
    path.set_p_key(PKey(0x8002));
    let refused = world.get(mask | PathRecord::P_KEY, &path);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
}

#[test]
fn paths_and_p_key_tables_follow_the_planned_partitions() {
    let (fabric, plan) = planned_as(SMALL, |fabric| {
        for node in fabric.nodes_mut() {
            node.info.set_partition_cap(8);
            if let Some(switch) = &mut node.switch {
                switch
                    .set_partition_enforcement_cap(8)
                    .set_outbound_enforcement_cap(true);
            }
        }
        let hosts: Vec<_> = fabric
            .nodes()
            .filter(|node| !node.is_switch())
            .map(|node| node.ports[1].guid)
            .collect();
        let text = format!(
            "Default=0x7fff: ALL=limited, SELF=full;\nstorage=0x123, sl=3: {}=full, {}=limited;\n",
            hosts[1], hosts[2],
        );
        let (partitions, findings) = parse_partitions(Path::new("p"), &text, false);
        assert!(findings.is_empty(), "{findings:?}");
        Policy {
            partitions: Arc::new(partitions),
            ..Policy::default()
        }
    });
    let mut world = World::of(fabric, plan);
    let hosts = world.hosts();
    let mask = PathRecord::SLID | PathRecord::DLID;
    // The first host is the subnet manager's and may communicate with all hosts; every other host
    // communicates only with the first host and within its own partition.
    let mut found = |from: Lid, to: Lid| {
        let mut path = PathRecord::default();
        path.set_slid(from).set_dlid(to);
        let found = world.get(mask, &path);
        found.map(|path| (path.p_key().0, path.sl()))
    };
    assert_eq!(found(hosts[0], hosts[3]), Ok((0xFFFF, 0)));
    assert_eq!(found(hosts[3], hosts[0]), Ok((0x7FFF, 0)));
    assert_eq!(found(hosts[1], hosts[2]), Ok((0x8123, 3)));
    assert_eq!(found(hosts[2], hosts[1]), Ok((0x0123, 3)));
    assert_eq!(found(hosts[1], hosts[3]), Err(SaStatus::NO_RECORDS));

    let tables = trusted::<PKeyTableRecord>(&mut world);
    let switch = world.switches();
    let enforced = tables
        .iter()
        .filter(|record| switch.contains(&record.lid()) && record.port_num().0 > 0);
    // One table for each port that leads to a host.
    assert_eq!(enforced.count(), hosts.len());
    let of_host = tables.iter().find(|record| record.lid() == hosts[1]);
    let keys = of_host.unwrap().table().p_keys();
    assert!(keys.contains(&PKey(0x8123)) && keys.contains(&PKey::DEFAULT_LIMITED));
}

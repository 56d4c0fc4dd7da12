//! Nobody learns of another partition.

use rsm_ids::Lid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::*;

use super::world::{SM_KEY, SMALL, World};

const ALL: ComponentMask = ComponentMask::NONE;

/// Two partitions of two hosts each, both of which the switches are in; the first host asks.
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

/// What a trusted requester is answered.
fn trusted<R: Record>(world: &mut World) -> Vec<R> {
    world
        .ask_with(Method::GET_TABLE, ALL, &R::default(), |header| {
            header.set_sm_key(SM_KEY);
        })
        .unwrap()
}

/// Only records about `seen` come, of which there are some; who is trusted sees more.
fn check<R: Record>(world: &mut World, hidden: &[Lid], lids: impl Fn(&R) -> Vec<Lid>) {
    let names_hidden = |record: &R| lids(record).iter().any(|lid| hidden.contains(lid));
    let shown = world.table(ALL, &R::default());
    assert!(!shown.is_empty(), "{}", R::NAME);
    assert!(!shown.iter().any(names_hidden), "{}", R::NAME);
    let all = trusted::<R>(world);
    assert!(all.iter().any(names_hidden), "{}", R::NAME);
}

#[test]
fn records_are_of_ports_that_share_a_partition_with_who_asks() {
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
fn asking_for_what_is_hidden_finds_nothing() {
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
    // Both ends see each other, but who asks sees neither.
    path.set_slid(hosts[1]).set_dlid(hosts[3]);
    let refused = world.get(mask, &path);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
}

#[test]
fn a_path_is_in_a_partition_of_both_its_ends() {
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

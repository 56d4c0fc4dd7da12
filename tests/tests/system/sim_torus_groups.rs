//! Hosts of a torus join groups of IP over InfiniBand at the SA, and receive each other's packets.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::messenger::Delivery;
use rsm_mad::transport::fault::FaultPlan;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{JoinState, McMemberRecord, Record};
use rsm_plan::policy::Policy;
use rsm_routing::engine::EngineKind;
use rsm_routing::netlist::NodeKind;
use rsm_sa::SaConfig;
use rsm_tests::virtual_time::hosts::Hosts;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

use crate::sim_multicast::{assert_delivered, cables, hosts, join};

const LIMIT: Duration = Duration::from_secs(600);

/// The broadcast group of the default partition: ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// The group of a program, which may choose its service level; groups of IP have that of the
/// broadcast group.
const PROGRAM_GROUP: Gid = Gid(0xFF12_5A5A_0000_0000_0000_0000_0000_0001);

/// Brings a torus up without a watch, because a watch would find credit loops that VLs prevent.
fn brought_up(spec: &str) -> World {
    let policy = Policy {
        engine: EngineKind::Torus,
        ..Policy::default()
    };
    let mut world = World::generated(spec, Settings::of(policy));
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

/// Sends the join of a host to the SA. Returns the answer.
fn join_at_sa(subnet: &mut Hosts, host: usize, mgid: Gid) -> McMemberRecord {
    let (guid, _) = subnet.places()[host];
    let mut record = McMemberRecord::default();
    record
        .set_mgid(mgid)
        .set_port_gid(Gid::new(0xFE80_0000_0000_0000, guid))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let mask = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::P_KEY
        | McMemberRecord::JOIN_STATE;
    subnet.ask(host, Method::SET, mask, &record);
    answer(subnet, host)
}

/// Sends the join of a host that creates the group, with a service level of its choice, to the SA.
/// Returns the answer.
fn create_at_sa(subnet: &mut Hosts, host: usize, mgid: Gid, level: u8) -> McMemberRecord {
    let (guid, _) = subnet.places()[host];
    let mut record = McMemberRecord::default();
    record
        .set_mgid(mgid)
        .set_port_gid(Gid::new(0xFE80_0000_0000_0000, guid))
        .set_q_key(0x0B1B)
        .set_p_key(PKey::DEFAULT_FULL)
        .set_sl(level)
        .set_join_state(JoinState::FULL_MEMBER);
    let mask = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::Q_KEY
        | McMemberRecord::P_KEY
        | McMemberRecord::SL
        | McMemberRecord::FLOW_LABEL
        | McMemberRecord::T_CLASS
        | McMemberRecord::JOIN_STATE;
    subnet.ask(host, Method::SET, mask, &record);
    answer(subnet, host)
}

/// The record in the answer to the join of a host.
fn answer(subnet: &mut Hosts, host: usize) -> McMemberRecord {
    let until = subnet.now() + Duration::from_secs(5);
    let (asked, delivery) = subnet.next(until).expect("it is answered");
    assert_eq!(asked, host);
    let Delivery::Message(message) = delivery else {
        panic!("host {host} gets no answer");
    };
    assert_eq!(message.header().unwrap().status(), Status::OK);
    *McMemberRecord::from_prefix(message.data()).unwrap()
}

/// Passes the SA's members on to the manager.
fn pass_members(world: &mut World, subnet: &mut Hosts) {
    let until = subnet.now() + Duration::from_secs(5);
    while subnet.next(until).is_some() {}
    world.tell_groups(subnet.groups().clone());
    world.settle(LIMIT);
}

/// The subjects of findings about multicast.
fn finding_subjects(world: &World) -> Vec<String> {
    let findings = world.manager().findings().into_iter();
    let of_groups = findings.filter(|(kind, _)| kind.starts_with("multicast"));
    of_groups.map(|(_, subject)| subject).collect()
}

/// Every host joins the broadcast group, and every third host a group on SL 1, whose packets cross
/// datelines.
#[test]
fn hosts_of_a_torus_with_rings_of_five_join_and_receive() {
    for spec in ["torus:5x5,hosts=1", "torus:5x5x5,hosts=1"] {
        let mut world = brought_up(spec);
        let mut subnet = Hosts::of(&world, SaConfig::default(), FaultPlan::default());
        let count = subnet.places().len();
        let mut mlids = BTreeSet::new();
        for host in 0..count {
            let record = join_at_sa(&mut subnet, host, BROADCAST);
            assert_eq!(record.sl(), 0);
            mlids.insert(record.mlid());
        }
        assert_eq!(mlids, BTreeSet::from([Lid(0xC000)]));
        assert_eq!(create_at_sa(&mut subnet, 0, PROGRAM_GROUP, 1).sl(), 1);
        for host in (3..count).step_by(3) {
            assert_eq!(join_at_sa(&mut subnet, host, PROGRAM_GROUP).sl(), 1);
        }
        pass_members(&mut world, &mut subnet);
        assert_eq!(finding_subjects(&world), [""; 0], "{spec}");
        expect::assert_no_findings(&world);
        assert_eq!(world.groups().by_mlid.len(), 2);
        assert_eq!(world.groups().by_mlid[&Lid(0xC000)].ports.len(), count);
        let levels: Vec<u16> = world.groups().levels.values().copied().collect();
        assert_eq!(levels, [0b01, 0b10]);
        assert_delivered(&world);
        let plan = world.manager().snapshot().unwrap().plan.clone().unwrap();
        assert!(!plan.routing.lanes.is_single());
        assert!(plan.multicast.as_ref().unwrap().report.credit_loop_free);
    }
}

fn up_with_all_in_one_group(spec: &str) -> World {
    let mut world = brought_up(spec);
    let hosts = hosts(&world);
    join(&mut world, Lid(0xC000), &hosts);
    world.settle(LIMIT);
    assert_eq!(finding_subjects(&world), [""; 0]);
    assert_delivered(&world);
    world
}

#[test]
fn a_broken_link_moves_the_tree_and_its_repair_moves_it_back() {
    let mut world = up_with_all_in_one_group("torus:5x5,hosts=1");
    let before = multicast_tables(&world);
    let used = |world: &World, (switch, port)| {
        let probe = multicast_tables(world);
        probe
            .iter()
            .any(|(guid, ports)| *guid == switch && ports.contains(&port))
    };
    let broken = cables(&world).into_iter().find(|&at| used(&world, at));
    let (switch, port) = broken.expect("the tree has links");
    world.sim.unlink(switch, port).unwrap();
    world.settle(LIMIT);
    assert_eq!(finding_subjects(&world), [""; 0]);
    assert_delivered(&world);
    assert_ne!(multicast_tables(&world), before);
    world.sim.relink(switch, port).unwrap();
    world.run_for(Duration::from_secs(120));
    world.settle(LIMIT);
    assert_delivered(&world);
    assert_eq!(multicast_tables(&world), before);
}

#[test]
fn a_failed_switch_leaves_all_other_hosts_in_their_group() {
    let mut world = up_with_all_in_one_group("torus:5x5,hosts=1");
    let local = world.manager().local(&world.sim).unwrap();
    let own = world.sim.peer(local.0, local.1).unwrap().unwrap().0;
    let switches = world.nodes(NodeKind::Switch).into_iter();
    let failed = switches.rev().find(|&guid| guid != own).unwrap();
    world.sim.power_off(failed).unwrap();
    world.settle(2 * LIMIT);
    assert_eq!(finding_subjects(&world), [""; 0]);
    assert_delivered(&world);
}

#[test]
fn a_restart_on_a_torus_sets_nothing_and_keeps_every_member() {
    let mut world = up_with_all_in_one_group("torus:5x5,hosts=1");
    let before = expect::sets(&world.sim.counters());
    world.kill(0);
    world.run_for(Duration::from_secs(1));
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    assert_delivered(&world);
    assert_eq!(expect::sets(&world.sim.counters()), before);
}

/// The ports between switches by which each switch forwards the group.
fn multicast_tables(world: &World) -> Vec<(Guid, Vec<rsm_ids::PortNum>)> {
    let snapshot = world.manager().snapshot().unwrap();
    let plan = snapshot.plan.as_ref().unwrap();
    let multicast: &Arc<_> = plan.multicast.as_ref().unwrap();
    let tree = &multicast.trees.by_mlid[&Lid(0xC000)];
    let masks = tree.masks.iter();
    let of = masks.map(|&(switch, mask)| {
        let guid = plan.topology.switch(switch).guid;
        let links = mask
            .ports()
            .filter(|&port| plan.topology.peer(switch, port).is_some());
        (guid, links.collect())
    });
    of.collect()
}

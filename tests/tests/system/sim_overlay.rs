//! Partitions made through the API: in force when the request is answered, and kept through
//! restarts and reloads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_config::Membership;
use rsm_config::overlay::{
    Action, Change, Existing, Member, PartitionSettings, WhenCutOff, WhenEmpty,
};
use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_model::findings::{FindingKind, Severity};
use rsm_plan::policy::Policy;
use rsm_routing::engine::EngineKind;
use rsm_routing::netlist::NodeKind;
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect, partitions};

const LIMIT: Duration = Duration::from_secs(60);

const SPEC: &str = "fat-tree:k=4,levels=2";

const FULL: Member = Member {
    membership: Membership::Full,
    index0: false,
};

/// The port GUIDs of hosts other than the manager's, each with its port.
fn hosts(world: &World) -> Vec<(Guid, (Guid, PortNum))> {
    let local = world.manager().local(&world.sim).expect("it has a port");
    let reach = expect::reach(world, &[]);
    let ports = reach.end_ports.iter().copied();
    let hosts = ports.filter(|&port| port.1 != PortNum::ZERO && port != local);
    let plan = world.manager().core().plan().expect("there is a plan");
    let hosts = hosts.map(|port| {
        let key = PortKey::new(port.0, port.1);
        let at = plan.fabric.find_port(key).expect("it was met");
        (plan.fabric.port(at).guid, port)
    });
    hosts.collect()
}

fn held_keys(world: &World, port: (Guid, PortNum)) -> Vec<u16> {
    let held = partitions::held(&world.sim, port);
    held.iter().map(|key| key.0).collect()
}

/// Requests a change of a partition, even if it cuts ports off.
fn request_change(world: &mut World, p_key: u16, action: Action, ticket: u64) {
    request_change_when(world, p_key, action, WhenCutOff::Accept, ticket);
}

fn request_change_when(
    world: &mut World,
    p_key: u16,
    action: Action,
    when_cut_off: WhenCutOff,
    ticket: u64,
) {
    let change = Change {
        p_key,
        action,
        by: "alice".to_owned(),
        at_unix_ms: 1,
        may_change: vec![0..=0x7fff],
        when_cut_off,
    };
    let change = Box::new(change);
    world.command(Command::Partition { change, ticket });
}

fn create(p_key: u16, members: &[(Guid, Member)]) -> Action {
    Action::Create {
        settings: PartitionSettings::plain(p_key),
        members: members.iter().copied().collect(),
        existing: Existing::Same,
    }
}

/// The tickets of the completed requests.
fn completed_tickets(world: &World) -> Vec<u64> {
    world.manager().done().iter().copied().collect()
}

/// The number of Sets of P_KeyTable so far.
fn p_key_sets(world: &World) -> usize {
    let counters = world.sim.counters();
    counters.received(AttrId::P_KEY_TABLE, Method::SET) as usize
}

#[test]
fn change_that_cuts_ports_off_is_made_only_if_that_is_accepted() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let hosts = hosts(&world);
    let limited = || Action::LimitDefault(true);
    world.watch();
    request_change_when(&mut world, 0x7fff, limited(), WhenCutOff::Refuse, 1);
    world.settle(LIMIT);
    let [(1, reason)] = world.manager().declined() else {
        panic!("{:?}", world.manager().declined());
    };
    let ports = format!("{} ports cut off", hosts.len());
    assert!(
        reason.contains("0x7fff") && reason.contains(&ports),
        "{reason}"
    );
    assert!(
        reason.contains("host-002 mlx5_0 port 1") && reason.contains("Nothing is changed"),
        "{reason}"
    );
    assert_eq!(p_key_sets(&world), 0);

    request_change_when(&mut world, 0x7fff, limited(), WhenCutOff::Accept, 2);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [2]);
    let [(2, effect)] = world.manager().taken() else {
        panic!("{:?}", world.manager().taken());
    };
    let expected = (hosts.len(), hosts.len(), hosts.len());
    let counted = (effect.memberships, effect.loss.ports, effect.loss.isolated);
    assert_eq!(counted, expected);
    for (_, port) in &hosts {
        assert_eq!(held_keys(&world, *port), [0x7fff]);
    }
    let snapshot = world.manager().snapshot().expect("it is up");
    let mut findings = snapshot.findings.iter();
    let partitioned = findings.find(|one| one.kind == FindingKind::PartitionApart);
    assert_eq!(partitioned.map(|one| one.severity), Some(Severity::Error));
    // A request that grants access, or that changes nothing, needs no confirmation.
    request_change_when(&mut world, 0x7fff, limited(), WhenCutOff::Refuse, 3);
    request_change_when(
        &mut world,
        0x7fff,
        Action::LimitDefault(false),
        WhenCutOff::Refuse,
        4,
    );
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [2, 3, 4]);
}

#[test]
fn change_is_answered_when_the_hardware_holds_it_and_costs_the_changed_tables_only() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let hosts = hosts(&world);
    let (first, second) = (hosts[0], hosts[1]);
    let members = [(first.0, FULL), (second.0, FULL)];
    request_change(&mut world, 0x10, create(0x10, &members), 1);
    assert_eq!(completed_tickets(&world), [0; 0]);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1]);
    for host in [first, second] {
        assert_eq!(held_keys(&world, host.1), [0xffff, 0x8010]);
    }
    assert_eq!(held_keys(&world, hosts[2].1), [0xffff]);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    let sets = p_key_sets(&world);
    // The repeated request is answered, and nothing is set.
    request_change(&mut world, 0x10, create(0x10, &members), 2);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1, 2]);
    assert_eq!(p_key_sets(&world), sets);
    // The next change makes one host a limited member, with the key at index 0.
    let limited = Member {
        membership: Membership::Limited,
        index0: true,
    };
    request_change(
        &mut world,
        0x10,
        Action::Add(BTreeMap::from([(first.0, limited)])),
        3,
    );
    world.settle(LIMIT);
    // No new key takes the index of a key that is removed: queue pairs may still refer to it.
    assert_eq!(held_keys(&world, first.1), [0x0010, 0, 0xffff]);
    assert_eq!(held_keys(&world, second.1), [0xffff, 0x8010]);
    // The host's table changes, and the table of the switch port that faces it.
    assert_eq!(p_key_sets(&world), sets + 2);
    request_change(&mut world, 0x10, Action::Delete, 4);
    world.settle(LIMIT);
    // Index 0 is not left empty: the key of the default partition moves back.
    for host in [first, second] {
        assert_eq!(held_keys(&world, host.1), [0xffff]);
    }
    assert_eq!(completed_tickets(&world), [1, 2, 3, 4]);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn simultaneous_changes_take_at_most_two_plans_and_only_a_wrong_change_is_declined() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let hosts = hosts(&world);
    let plans = world.manager().convergences().len();
    request_change(&mut world, 0x10, create(0x10, &[(hosts[0].0, FULL)]), 1);
    let both = Member {
        membership: Membership::Both,
        ..FULL
    };
    let wrong = Action::Add(BTreeMap::from([(hosts[1].0, FULL), (hosts[2].0, both)]));
    request_change(&mut world, 0x10, wrong, 2);
    request_change(
        &mut world,
        0x10,
        Action::Add(BTreeMap::from([(hosts[3].0, FULL)])),
        3,
    );
    request_change(&mut world, 0x11, create(0x11, &[(hosts[3].0, FULL)]), 4);
    // The caller leaves before a plan contains its change.
    request_change(&mut world, 0x12, create(0x12, &[(hosts[3].0, FULL)]), 5);
    world.command(Command::Withdraw { ticket: 5 });
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1, 3, 4]);
    let declined = world.manager().declined();
    assert_eq!(declined.len(), 1);
    assert_eq!(declined[0].0, 2);
    assert!(
        declined[0].1.contains(&hosts[2].0.to_string()),
        "{declined:?}"
    );
    assert_eq!(held_keys(&world, hosts[0].1), [0xffff, 0x8010]);
    assert_eq!(held_keys(&world, hosts[1].1), [0xffff]);
    assert_eq!(held_keys(&world, hosts[3].1), [0xffff, 0x8010, 0x8011]);
    let plans = world.manager().convergences().len() - plans;
    assert!(plans <= 2, "{plans}");
    expect::assert_no_findings(&world);
}

#[test]
fn absent_guid_is_a_member_as_soon_as_it_appears() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let (guid, port) = hosts(&world)[0];
    let peer = world.sim.peer(port.0, port.1).expect("it is there");
    let peer = peer.expect("it is cabled");
    world.sim.power_off(port.0).expect("it is there");
    world.settle(LIMIT);
    let never_there = (Guid(0x00dd_0000_0000_0001), FULL);
    request_change(
        &mut world,
        0x10,
        create(0x10, &[(guid, FULL), never_there]),
        1,
    );
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1]);
    world.sim.power_on(port.0).expect("it is there");
    world.run_for(Duration::from_secs(30));
    world.settle(LIMIT);
    assert_eq!(held_keys(&world, port), [0xffff, 0x8010]);
    assert_eq!(held_keys(&world, peer), [0xffff, 0x8010]);
    expect::assert_up(&world);
}

#[test]
fn overlay_survives_restarts_and_reloads_and_a_lost_store_forgets_it() {
    let mut world = World::brought_up(SPEC, Settings::default());
    let hosts = hosts(&world);
    request_change(&mut world, 0x10, create(0x10, &[(hosts[0].0, FULL)]), 1);
    request_change(&mut world, 0x7fff, Action::LimitDefault(true), 2);
    world.settle(LIMIT);
    let limited = [0x7fff, 0x8010];
    assert_eq!(held_keys(&world, hosts[0].1), limited);
    assert_eq!(held_keys(&world, hosts[1].1), [0x7fff]);
    let local = world.manager().local(&world.sim).expect("it has a port");
    assert_eq!(held_keys(&world, local), [0xffff]);
    let sets = p_key_sets(&world);
    world.kill(0);
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    assert_eq!(held_keys(&world, hosts[0].1), limited);
    assert_eq!(p_key_sets(&world), sets);
    // The first file defines another partition than the API, and the second file the same
    // partition.
    for (text, second, findings) in [
        (
            "Default=0x7fff : ALL=full ;\nBlue=0x20 : ",
            vec![0x7fff, 0x8020],
            0,
        ),
        (
            "Default=0x7fff : ALL=full ;\nBlue=0x10 : ",
            vec![0x7fff, 0x8010],
            1,
        ),
    ] {
        let text = format!("{text}{}=full ;", hosts[1].0);
        let config = CoreConfig {
            policy: partitions::policy(&text),
            ..CoreConfig::default()
        };
        world.event(Event::Reload(Box::new(config)));
        world.settle(LIMIT);
        let held: Vec<u16> = held_keys(&world, hosts[1].1)
            .into_iter()
            .filter(|&key| key != 0)
            .collect();
        assert_eq!(held, second);
        let snapshot = world.manager().snapshot().expect("it is up");
        let codes = snapshot.findings.iter().map(|finding| finding.kind.code());
        assert_eq!(
            codes.filter(|&code| code == "partition-conflict").count(),
            findings
        );
    }
    // Only the file counts: the member that the API added has lost its key.
    let keys = held_keys(&world, hosts[0].1);
    assert_eq!(keys.iter().filter(|&&key| key != 0).count(), 1, "{keys:?}");
    request_change(&mut world, 0x10, Action::Delete, 9);
    world.settle(LIMIT);
    let declined = world.manager().declined();
    assert!(
        declined[0].1.contains("is defined in partitions.conf"),
        "{declined:?}"
    );
    world.kill(0);
    world.start(0, Memory::Lost);
    world.settle(LIMIT);
    assert_eq!(held_keys(&world, hosts[1].1), [0xffff]);
}

#[test]
fn change_that_overflows_a_p_key_table_is_declined_and_names_the_port() {
    let mut settings = Settings::default();
    settings.sim.partition_cap = 3;
    let mut world = World::brought_up(SPEC, settings);
    let hosts = hosts(&world);
    for p_key in [0x10, 0x11] {
        request_change(
            &mut world,
            p_key,
            create(p_key, &[(hosts[0].0, FULL)]),
            u64::from(p_key),
        );
    }
    // The third change is requested while the first two wait.
    let members = [(hosts[1].0, FULL), (hosts[0].0, FULL)];
    request_change(&mut world, 0x12, create(0x12, &members), 1);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [0x10, 0x11]);
    let declined = world.manager().declined();
    let text = &declined[0].1;
    assert!(text.contains(&hosts[0].0.to_string()), "{text}");
    assert!(
        text.contains("in 4 partitions, and its P_Key table holds 3 keys"),
        "{text}"
    );
    assert_eq!(held_keys(&world, hosts[1].1), [0xffff]);
    let gone = BTreeSet::from([hosts[0].0]);
    request_change(&mut world, 0x10, Action::Remove(gone, WhenEmpty::Delete), 2);
    request_change(&mut world, 0x12, create(0x12, &members), 3);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [0x10, 0x11, 2, 3]);
    let overlay = &world.manager().snapshot().expect("it is up").overlay;
    assert!(overlay.find(0x10).is_none());
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn change_during_a_fault_is_in_force_with_the_repair() {
    let mut world = World::brought_up("pgft:2;4,4;1,2;1,1", Settings::default());
    let hosts = hosts(&world);
    let leaf = world.sim.peer(hosts[0].1.0, hosts[0].1.1);
    let leaf = leaf.expect("it is there").expect("it is cabled").0;
    let last = world.sim.num_ports(leaf).expect("it is there");
    let up = (1..=last).map(PortNum).find(|&port| {
        let peer = world.sim.peer(leaf, port).ok().flatten();
        peer.is_some_and(|peer| world.sim.switch_info(peer.0).is_ok())
    });
    let up = up.expect("it has an uplink");
    let members = [(hosts[0].0, FULL), (hosts[5].0, FULL)];
    world.sim.unlink(leaf, up).expect("it is there");
    request_change(&mut world, 0x10, create(0x10, &members), 1);
    world.run_for(Duration::from_millis(1));
    request_change(&mut world, 0x11, create(0x11, &members), 2);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1, 2]);
    for host in [hosts[0], hosts[5]] {
        assert_eq!(held_keys(&world, host.1), [0xffff, 0x8010, 0x8011]);
    }
    let plan = world.manager().core().plan().expect("it is up");
    assert_eq!(plan.report.unreachable_pairs, 0);
}

#[test]
fn change_whose_plan_is_refused_is_declined_with_the_reason_and_changes_nothing() {
    // Shortest paths over one spine are legal, and over two they can close a credit loop.
    let policy = Policy {
        engine: EngineKind::MinHop,
        ..Policy::default()
    };
    let mut world = World::generated("pgft:2;4,4;1,2;1,1", Settings::of(policy));
    let has_host = |world: &World, switch: Guid| {
        let last = world.sim.num_ports(switch).expect("it is there");
        let mut peers = (1..=last).filter_map(|port| {
            let peer = world.sim.peer(switch, PortNum(port));
            peer.expect("it is there")
        });
        let hosts = world.nodes(NodeKind::Ca);
        peers.any(|(node, _)| hosts.contains(&node))
    };
    let switches = world.nodes(NodeKind::Switch).into_iter();
    let spine = switches.rev().find(|&switch| !has_host(&world, switch));
    let spine = spine.expect("there are spines");
    for port in 1..=4 {
        world
            .sim
            .unlink(spine, PortNum(port))
            .expect("it is cabled");
    }
    world.settle(LIMIT);
    let hosts = hosts(&world);
    request_change(&mut world, 0x10, create(0x10, &[(hosts[0].0, FULL)]), 1);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1]);
    let sets = p_key_sets(&world);
    for port in 1..=4 {
        world
            .sim
            .relink(spine, PortNum(port))
            .expect("it was there");
    }
    world.run_for(LIMIT);
    world.settle(LIMIT);
    // No plan for the present fabric passes its proof, with or without a change.
    let both = [(hosts[0].0, FULL), (hosts[1].0, FULL)];
    request_change(&mut world, 0x11, create(0x11, &both), 2);
    world.settle(LIMIT);
    request_change(&mut world, 0x12, create(0x12, &both), 3);
    request_change(&mut world, 0x10, Action::Delete, 4);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1]);
    let declined = world.manager().declined();
    let tickets: Vec<u64> = declined.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(tickets, [2, 3, 4], "{declined:?}");
    assert!(
        declined
            .iter()
            .all(|(_, reason)| reason.contains("credit loop")),
        "{declined:?}"
    );
    let overlay = &world.manager().snapshot().expect("it is up").overlay;
    assert!(overlay.find(0x10).is_some());
    assert!(overlay.find(0x11).is_none() && overlay.find(0x12).is_none());
    assert_eq!(held_keys(&world, hosts[0].1), [0xffff, 0x8010]);
    assert_eq!(held_keys(&world, hosts[1].1), [0xffff]);
    assert_eq!(p_key_sets(&world), sets);
    // The store keeps the previous state as well.
    let remembered = &world.manager().remembered().overlay;
    assert!(remembered.find(0x10).is_some() && remembered.find(0x11).is_none());

    for port in 1..=4 {
        world
            .sim
            .unlink(spine, PortNum(port))
            .expect("it is cabled");
    }
    world.run_for(LIMIT);
    request_change(&mut world, 0x11, create(0x11, &both), 5);
    world.settle(LIMIT);
    assert_eq!(completed_tickets(&world), [1, 5]);
    assert_eq!(held_keys(&world, hosts[1].1), [0xffff, 0x8011]);
}

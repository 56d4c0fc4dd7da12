//! LIDs: merged fabrics, reassigned LIDs, and fewer LIDs than ports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_core::{CoreConfig, MastershipPolicy};
use rsm_ids::{Guid, PortNum};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};
use rsm_sim::Sim;
use rsm_state::{Identity, Role};
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

/// Two copies of a star of one switch and `hosts` hosts, with a free port each; GUIDs in the second
/// copy are higher by `0x1000`.
fn two_stars(hosts: u8) -> Netlist {
    let mut nodes = Vec::new();
    let mut cables = Vec::new();
    for side in 0..2_u64 {
        let switch = nodes.len();
        nodes.push(node(NodeKind::Switch, 0x100 + side * 0x1000, hosts + 1));
        for host in 1..=hosts {
            cables.push(Cable {
                a: (switch, PortNum(host)),
                b: (nodes.len(), PortNum(1)),
                width: LinkWidth::X4,
                speed: LinkSpeed::Hdr,
            });
            nodes.push(node(NodeKind::Ca, u64::from(host) + side * 0x1000, 1));
        }
    }
    Netlist::new(nodes, cables).expect("it is valid")
}

fn node(kind: NodeKind, guid: u64, num_ports: u8) -> Node {
    Node {
        kind,
        guid: Guid(guid),
        system_image_guid: Guid(guid),
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        description: Vec::new(),
        num_ports,
        enhanced_port0: false,
        ports: BTreeMap::new(),
    }
}

fn lids(sim: &Sim) -> BTreeMap<(Guid, PortNum), u16> {
    sim.end_ports()
        .map(|(guid, port)| ((guid, port), sim.port_info(guid, port).unwrap().lid().0))
        .collect()
}

/// LinearFDBTop of each switch, as the devices hold it.
fn tops(world: &World) -> BTreeSet<u16> {
    let switches = world.nodes(NodeKind::Switch).into_iter();
    switches
        .map(|switch| world.sim.switch_info(switch).unwrap().linear_fdb_top().0)
        .collect()
}

/// The push that removes the entries above the planned top also lowers LinearFDBTop.
#[test]
fn linear_fdb_top_falls_once_the_entries_above_it_are_removed() {
    let mut world = World::brought_up("pgft:2;4,4;1,2;1,1", Settings::default());
    let plan_top = |world: &World| world.manager().core().plan().unwrap().top().0;
    let before = plan_top(&world);
    assert_eq!(tops(&world), BTreeSet::from([before]));
    let own = world.manager().local(&world.sim).expect("it has a port").0;
    let hosts = world.nodes(NodeKind::Ca);
    for host in hosts.into_iter().filter(|&host| host != own) {
        world.sim.power_off(host).unwrap();
    }
    world.settle(LIMIT);
    assert!(plan_top(&world) < before);
    assert_eq!(tops(&world), BTreeSet::from([plan_top(&world)]));
}

/// A cable connects two subnets that have a manager each and equal LIDs.
#[test]
fn when_two_fabrics_with_equal_lids_merge_one_holder_of_each_lid_keeps_it() {
    for memory in [Memory::Kept, Memory::Lost] {
        let mut world = World::new(&two_stars(5), Settings::default());
        world.add_manager(Guid(1), PortNum(1));
        world.add_manager(Guid(0x1001), PortNum(1));
        world.watch();
        world.settle(LIMIT);
        let before = lids(&world.sim);
        assert_eq!(
            before[&(Guid(1), PortNum(1))],
            before[&(Guid(0x1001), PortNum(1))]
        );

        world.kill(1);
        world.kill(0);
        world.start(0, memory);
        world
            .sim
            .add_cable(
                (Guid(0x100), PortNum(6)),
                (Guid(0x1100), PortNum(6)),
                LinkWidth::X4,
                LinkSpeed::Hdr,
            )
            .unwrap();
        world.settle(LIMIT);
        expect::assert_up(&world);
        // One of the two holders of every LID keeps it. If the manager has kept its memory, that is
        // the holder on the manager's side.
        let after = lids(&world.sim);
        let kept: Vec<_> = before
            .iter()
            .filter(|(port, lid)| after[port] == **lid)
            .map(|((guid, _), _)| *guid)
            .collect();
        assert_eq!(kept.len(), 6);
        if memory == Memory::Kept {
            assert!(kept.iter().all(|guid| guid.0 < 0x1000), "{kept:?}");
        }
        world.watched().assert_harmless();
    }
}

/// Connects the two stars with a cable.
fn join_stars(world: &mut World) {
    let ends = [(Guid(0x100), PortNum(6)), (Guid(0x1100), PortNum(6))];
    let (width, speed) = (LinkWidth::X4, LinkSpeed::Hdr);
    world.sim.add_cable(ends[0], ends[1], width, speed).unwrap();
}

/// The configuration of a manager that reassigns all LIDs when it starts.
fn reassigning() -> CoreConfig {
    CoreConfig {
        reassigns_lids: true,
        ..CoreConfig::default()
    }
}

/// Two joined stars. Manager 1 has brought up the second star, then the first, so LIDs are in
/// another order than on a fresh fabric. Manager 0 at the first star does not run, and will
/// reassign LIDs when it starts.
fn brought_up_from_the_second_star(priority: u8) -> World {
    let mut world = World::new(&two_stars(5), Settings::default());
    world.add_manager_with(Guid(1), PortNum(1), reassigning());
    world.kill(0);
    let master = CoreConfig {
        mastership: MastershipPolicy {
            identity: Identity {
                priority,
                ..Identity::default()
            },
            ..MastershipPolicy::default()
        },
        ..CoreConfig::default()
    };
    world.add_manager_with(Guid(0x1001), PortNum(1), master);
    world.run_for(LIMIT);
    join_stars(&mut world);
    world.run_for(LIMIT);
    world
}

#[test]
fn reassigned_lids_are_those_of_a_fresh_fabric_and_move_once() {
    // The expected order is: switches, then the first host of each switch, then the second host,
    // and so on.
    let mut expected = BTreeMap::new();
    for side in 0..2u16 {
        let guid = |number: u16| Guid(u64::from(number) + u64::from(side) * 0x1000);
        expected.insert((guid(0x100), PortNum::ZERO), 1 + side);
        let hosts = (1..=5).map(|host| ((guid(host), PortNum(1)), 1 + 2 * host + side));
        expected.extend(hosts);
    }

    let mut world = brought_up_from_the_second_star(0);
    assert_ne!(lids(&world.sim), expected);
    world.kill(1);
    world.start(0, Memory::Lost);
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(lids(&world.sim), expected);
    // A later plan moves no LID, and the next start finds the same LIDs.
    world.kill(0);
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    assert_eq!(lids(&world.sim), expected);
    world.sim.unlink(Guid(3), PortNum(1)).unwrap();
    world.settle(LIMIT);
    world.sim.relink(Guid(3), PortNum(1)).unwrap();
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(lids(&world.sim), expected);
}

#[test]
fn a_standby_configured_to_reassign_lids_takes_over_without_moving_a_lid() {
    let mut world = brought_up_from_the_second_star(3);
    let before = lids(&world.sim);
    world.start(0, Memory::Lost);
    world.run_for(LIMIT);
    assert!(matches!(
        world.manager().core().role(),
        Role::Standby { .. }
    ));
    world.kill(1);
    world.run_for(2 * LIMIT);
    expect::assert_up(&world);
    assert_eq!(lids(&world.sim), before);
}

#[test]
fn when_two_subnets_are_joined_the_manager_with_the_higher_guid_yields() {
    let mut world = World::new(&two_stars(3), Settings::default());
    world.add_manager(Guid(1), PortNum(1));
    world.add_manager(Guid(0x1001), PortNum(1));
    world.settle(LIMIT);
    world
        .sim
        .add_cable(
            (Guid(0x100), PortNum(4)),
            (Guid(0x1100), PortNum(4)),
            LinkWidth::X4,
            LinkSpeed::Hdr,
        )
        .unwrap();
    world.run_for(LIMIT);
    expect::assert_up(&world);
    let roles: Vec<bool> = world
        .managers()
        .iter()
        .map(|manager| *manager.core().role() == rsm_state::Role::Master)
        .collect();
    assert_eq!(roles, [true, false], "the lower GUID has precedence");
}

#[test]
fn ports_without_a_free_lid_are_one_finding_and_other_ports_work() {
    let netlist = generate("ring:4,hosts=4").unwrap();
    let mut settings = Settings::default();
    // There are 4 switches and 16 hosts, and the LIDs 1 to 15.
    settings.sim.linear_fdb_cap = 16;
    let mut world = World::new(&netlist, settings);
    let (host, port) = rsm_tests::virtual_time::first_host(&netlist);
    world.add_manager(host, port);
    world.settle(LIMIT);
    let findings = world.manager().findings();
    assert_eq!(
        findings,
        [("lid-space-exhausted", "subnet".to_owned())],
        "one finding that names them all"
    );
    let without: Vec<Guid> = lids(&world.sim)
        .into_iter()
        .filter(|&(_, lid)| lid == 0)
        .map(|((guid, _), _)| guid)
        .collect();
    assert_eq!(without.len(), 5);
    expect::assert_up_without(&world, &without);
    let snapshot = world.manager().snapshot().unwrap();
    let text = &snapshot.findings[0].text;
    for guid in &without {
        let name = String::from_utf8(world.sim.description(*guid).unwrap().to_vec()).unwrap();
        assert!(text.contains(&name), "{text} does not name {name}");
    }
}

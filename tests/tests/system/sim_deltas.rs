//! The cost of changes: no step processes the whole subnet because of a change in a part of it.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::transport::PortEvent;
use rsm_mad::wire::attr::NodeType;
use rsm_model::whole::{Step, Whole};
use rsm_tests::virtual_time::{Settings, World, expect, partitions};

const LIMIT: Duration = Duration::from_secs(60);
const TREE: &str = "fat-tree:k=6,levels=3";

type End = (Guid, PortNum);

/// The parts of the fabric that the tests change.
struct Places {
    /// A leaf other than the subnet manager's.
    leaf: Guid,
    /// The leaf's first port with a host.
    host: End,
    /// The leaf's first uplink, through which the subnet manager reaches the leaf.
    on_path: End,
    /// The leaf's last uplink.
    aside: End,
    /// A switch without hosts.
    far: Guid,
}

fn places(world: &World) -> Places {
    let inventory = world.manager().core().inventory();
    let own = inventory.hardware.local.expect("it is known");
    let own_leaf = inventory.hardware.port(own).and_then(|port| port.peer);
    let own_leaf = own_leaf.expect("it is cabled").node;
    let is_host = |guid| {
        inventory
            .hardware
            .node(guid)
            .is_some_and(|node| node.kind() == NodeType::Ca)
    };
    let ends = |leaf: Guid, host: bool| {
        let node = inventory.hardware.node(leaf).expect("it is there");
        let ports = node.external_ports();
        let ends = ports.filter_map(|(port, record)| Some((port, record.peer?.node)));
        let ends = ends.filter(|&(_, peer)| is_host(peer) == host);
        ends.map(|(port, _)| (leaf, port)).collect::<Vec<End>>()
    };
    let switches = || inventory.hardware.switches().map(|(guid, _, _)| guid);
    let leaf = switches()
        .filter(|&guid| guid != own_leaf)
        .find(|&guid| !ends(guid, true).is_empty())
        .expect("there is another leaf");
    let far = switches()
        .filter(|&guid| ends(guid, true).is_empty())
        .last()
        .expect("there are switches above");
    let ups = ends(leaf, false);
    Places {
        leaf,
        host: ends(leaf, true)[0],
        on_path: ups[0],
        aside: ups[ups.len() - 1],
        far,
    }
}

/// A subnet that is up and has reacted to a first change, and the parts that the tests change.
fn world() -> (World, Places) {
    let mut world = World::brought_up(TREE, Settings::default());
    let places = places(&world);
    // The first change after the bring-up finds all ports in another state than the plan has.
    world.sim.unlink(places.host.0, places.host.1).unwrap();
    world.settle(LIMIT);
    world.sim.relink(places.host.0, places.host.1).unwrap();
    world.settle(LIMIT);
    (world, places)
}

/// The steps that processed the whole subnet because of the change `happening`.
fn whole_steps(world: &mut World, happening: impl FnOnce(&mut World)) -> Vec<Whole> {
    let before = world.manager().convergences().len();
    happening(world);
    world.settle(LIMIT);
    let since = &world.manager().convergences()[before..];
    assert!(!since.is_empty(), "something is done");
    let whole = since.iter().flat_map(|one| one.whole.iter().cloned());
    whole.collect()
}

/// Removes the search of paths, which covers the whole subnet if a switch has another path than
/// before.
fn without_paths(whole: Vec<Whole>) -> Vec<Whole> {
    let others = whole.into_iter().filter(|whole| whole.step != Step::Paths);
    others.collect()
}

/// Asserts that the plan and the image of each switch share each table in memory.
#[track_caller]
fn assert_tables_shared(world: &World) {
    let core = world.manager().core();
    let plan = core.plan().expect("it is up");
    for (guid, _, switch) in core.inventory().hardware.switches() {
        let planned = plan.table(guid).expect("it is planned");
        assert!(switch.lft.entries().is_shared_with(planned), "{guid}");
    }
}

#[test]
fn a_table_that_a_switch_holds_is_in_memory_once() {
    let (mut world, Places { on_path, .. }) = world();
    assert_tables_shared(&world);
    world.sim.unlink(on_path.0, on_path.1).unwrap();
    world.run_for(Duration::from_secs(1));
    world.settle(LIMIT);
    assert_tables_shared(&world);
}

#[test]
fn a_host_that_must_register_again_is_compared_and_written_alone() {
    let (mut world, Places { host, aside, .. }) = world();
    let (node, port) = world.sim.peer(host.0, host.1).unwrap().unwrap();
    let listener = world.listen(node, port);
    let guid = world.sim.port_guid(node, port).unwrap();
    let reregister = |world: &mut World| world.event(Event::Reregister([guid].into()));
    for _ in 0..2 {
        let before = world.manager().convergences().len();
        assert_eq!(whole_steps(&mut world, reregister), []);
        let since = &world.manager().convergences()[before..];
        let work: Vec<(u64, u64)> = since.iter().map(|one| (one.gets, one.sets)).collect();
        assert!(matches!(work[..], [(..=2, 1)]), "{work:?}");
        assert_eq!(world.take_heard(listener), [PortEvent::ClientReregister]);
    }
    // A fault at the same time does not wait for a comparison of the whole subnet either.
    let both = |world: &mut World| {
        reregister(world);
        world.sim.unlink(aside.0, aside.1).unwrap();
    };
    assert_eq!(whole_steps(&mut world, both), []);
    assert_eq!(world.take_heard(listener), [PortEvent::ClientReregister]);
}

#[test]
fn a_link_that_goes_and_comes_back_changes_only_its_ends() {
    let (mut world, Places { on_path, aside, .. }) = world();
    for (guid, port) in [aside, on_path, aside] {
        let gone = whole_steps(&mut world, |world| world.sim.unlink(guid, port).unwrap());
        let back = whole_steps(&mut world, |world| world.sim.relink(guid, port).unwrap());
        if (guid, port) == aside {
            assert_eq!((gone, back), (Vec::new(), Vec::new()));
        } else {
            assert_eq!(
                (without_paths(gone), without_paths(back)),
                Default::default()
            );
        }
    }
}

#[test]
fn a_host_that_goes_and_comes_back_changes_only_its_leaf() {
    let (mut world, Places { host, .. }) = world();
    let gone = whole_steps(&mut world, |world| {
        world.sim.unlink(host.0, host.1).unwrap()
    });
    let back = whole_steps(&mut world, |world| {
        world.sim.relink(host.0, host.1).unwrap()
    });
    assert_eq!((gone, back), (Vec::new(), Vec::new()));
}

#[test]
fn swapped_cables_change_only_their_ends() {
    let (mut world, Places { host, aside, .. }) = world();
    let other = (host.0, PortNum(host.1.0 + 1));
    let hosts = whole_steps(&mut world, |world| {
        world.sim.swap_cables(host, other).unwrap()
    });
    assert_eq!(hosts, Vec::new());
    let far = world
        .sim
        .peer(aside.0, aside.1)
        .unwrap()
        .expect("it is cabled");
    let other = (far.0, PortNum(far.1.0 % 3 + 1));
    let links = whole_steps(&mut world, |world| {
        world.sim.swap_cables(far, other).unwrap()
    });
    assert_eq!(without_paths(links), Vec::new());
}

#[test]
fn switches_that_go_and_come_back_change_only_their_neighbours() {
    let (mut world, Places { leaf, far, .. }) = world();
    let gone = whole_steps(&mut world, |world| world.sim.power_off(far).unwrap());
    let back = whole_steps(&mut world, |world| world.sim.power_on(far).unwrap());
    let rebooted = whole_steps(&mut world, |world| world.sim.reboot(leaf).unwrap());
    for whole in [gone, back, rebooted] {
        assert_eq!(without_paths(whole), Vec::new());
    }
}

/// The subnet with a multicast group of all hosts, and a group of every seventh host.
fn world_with_groups() -> (World, Places) {
    let (mut world, places) = world();
    let hosts = hosts(&world);
    let all = hosts.iter().map(|&host| (host, true)).collect();
    world.regroup(BROADCAST, |members| *members = all);
    world.settle(LIMIT);
    let few = hosts.iter().step_by(7).map(|&host| (host, true)).collect();
    world.regroup(SMALL_GROUP, |members| *members = few);
    world.settle(LIMIT);
    (world, places)
}

const BROADCAST: Lid = Lid(0xC000);
const SMALL_GROUP: Lid = Lid(0xC001);

/// The port GUIDs of all hosts.
fn hosts(world: &World) -> Vec<Guid> {
    let inventory = world.manager().core().inventory();
    let hosts = inventory
        .hardware
        .nodes()
        .filter(|(_, node)| node.kind() == NodeType::Ca);
    let ports = hosts.flat_map(|(_, node)| node.external_ports());
    ports.map(|(_, port)| port.guid).collect()
}

#[test]
fn joins_and_leaves_change_only_their_groups() {
    let (mut world, _) = world_with_groups();
    let host = hosts(&world)[3];
    for mlid in [BROADCAST, SMALL_GROUP] {
        for _ in 0..2 {
            let changed = whole_steps(&mut world, |world| {
                world.regroup(mlid, |members| {
                    if members.remove(&host).is_none() {
                        members.insert(host, true);
                    }
                });
            });
            assert_eq!(changed, Vec::new());
        }
    }
    let created = whole_steps(&mut world, |world| {
        world.regroup(Lid(0xC045), |members| {
            members.insert(host, true);
        });
    });
    let dissolved = whole_steps(&mut world, |world| {
        world.regroup(Lid(0xC045), BTreeMap::clear);
    });
    assert_eq!((created, dissolved), (Vec::new(), Vec::new()));
}

#[test]
fn multicast_trees_follow_changes_of_the_fabric() {
    let (mut world, places) = world_with_groups();
    let Places {
        leaf,
        host,
        on_path,
        aside,
        far,
    } = places;
    let mut concerned = Vec::new();
    for (guid, port) in [aside, on_path, host] {
        concerned.extend(whole_steps(&mut world, |world| {
            world.sim.unlink(guid, port).unwrap()
        }));
        concerned.extend(whole_steps(&mut world, |world| {
            world.sim.relink(guid, port).unwrap()
        }));
    }
    let other = (host.0, PortNum(host.1.0 + 1));
    concerned.extend(whole_steps(&mut world, |world| {
        world.sim.swap_cables(host, other).unwrap();
    }));
    concerned.extend(whole_steps(&mut world, |world| {
        world.sim.power_off(far).unwrap()
    }));
    concerned.extend(whole_steps(&mut world, |world| {
        world.sim.power_on(far).unwrap()
    }));
    concerned.extend(whole_steps(&mut world, |world| {
        world.sim.reboot(leaf).unwrap()
    }));
    assert_eq!(without_paths(concerned), Vec::new());
}

#[test]
fn a_partition_member_added_or_removed_changes_only_its_port() {
    let (mut world, _) = world();
    let hosts = hosts(&world);
    let file = |members: &[Guid]| {
        let members: String = members
            .iter()
            .map(|guid| format!(" {guid}=full,"))
            .collect();
        partitions::policy(&format!(
            "Default=0x7fff, ipoib : ALL=full ;\nTenant=0x10 :{members};"
        ))
    };
    let reload = |world: &mut World, members: &[Guid]| {
        let policy = file(members);
        let config = CoreConfig {
            policy,
            ..CoreConfig::default()
        };
        world.event(Event::Reload(Box::new(config)));
    };
    reload(&mut world, &hosts[..2]);
    world.settle(LIMIT);
    let added = whole_steps(&mut world, |world| reload(world, &hosts[..3]));
    expect::assert_up(&world);
    let removed = whole_steps(&mut world, |world| reload(world, &hosts[1..3]));
    expect::assert_up(&world);
    assert_eq!(
        (without_paths(added), without_paths(removed)),
        Default::default()
    );
}

#[test]
fn the_first_convergence_lists_every_whole_step() {
    let world = World::brought_up(TREE, Settings::default());
    let first = &world.manager().convergences()[0];
    let steps: Vec<Step> = first.whole.iter().map(|whole| whole.step).collect();
    let all = [
        Step::Paths,
        Step::Lids,
        Step::Graph,
        Step::Order,
        Step::Links,
        Step::Routes,
        Step::Proof,
        Step::Partitions,
        Step::Difference,
    ];
    assert_eq!(steps, all);
    assert_eq!(first.whole[1].to_string(), "LIDs: no plan is in force");
}

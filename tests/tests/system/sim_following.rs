//! A standby follows the master by reading only what has changed: at the cost of the change, and
//! with the same result as reading the whole subnet.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_model::fabric::Fabric;
use rsm_routing::netlist::NodeKind;
use rsm_state::Role;
use rsm_tests::virtual_time::{Dice, Memory, World, expect, seeds};

const LIMIT: Duration = Duration::from_secs(90);
/// A fabric of 20 switches and 16 hosts: 36 nodes, and 96 cabled ports of switches.
const TREE: &str = "fat-tree:k=4,levels=3";
const MULTICAST: Lid = Lid(0xC000);

/// The minimum number of Gets for reading the whole subnet: PortInfo of each port of a switch, and
/// NodeInfo through each cable.
const GETS_OF_FULL_READING: u64 = 20 * 5 + 48;

/// A fabric with its master at the first host, and a standby at the last host that has read the
/// fabric and has prepared a plan.
fn with_ready_standby() -> World {
    let mut world = World::shared(TREE, true, LIMIT);
    catch_up(&mut world);
    world
}

/// Runs until the master is at rest and the standby has read the resulting state.
fn catch_up(world: &mut World) {
    world.settle(LIMIT);
    let until = world.now() + LIMIT;
    let has_read = |world: &World| {
        let following = world.managers()[1].core().following();
        let stored = world.stored();
        !stored.is_pushing
            && following.is_some_and(|following| following.read == Some(stored.generation))
    };
    assert!(
        world.run(until, has_read),
        "{:?}, stored {} {}",
        world.managers()[1].core().following(),
        world.stored().generation,
        world.stored().is_pushing,
    );
    world.settle(LIMIT);
}

/// The state of each node and port as a manager knows it, in words.
fn known_by(world: &World, index: usize) -> BTreeMap<String, String> {
    let fabric = Fabric::build(&world.managers()[index].core().inventory().hardware);
    let mut known = BTreeMap::new();
    for node in fabric.nodes() {
        let switch = node.switch.map(|mut info| {
            info.set_port_state_change(false);
            info
        });
        let what = format!("{} {switch:?}", node.reported());
        known.insert(format!("{}", node.guid), what);
        for (number, port) in node.ports.iter().enumerate() {
            let keys = port.p_keys.as_ref().map(|image| {
                let keys = image.keys().iter();
                keys.filter(|key| key.0 != 0).collect::<Vec<_>>()
            });
            let state = (port.lid(), port.state(), port.up);
            let parts = [
                ("neighbour", format!("{:?}", port.peer)),
                ("LID and state", format!("{state:?}")),
                ("P_Keys", format!("{keys:?}")),
                ("the rest", format!("{:?} {}", port.info, port.guid)),
            ];
            for (part, what) in parts {
                known.insert(format!("{} port {number}: {part}", node.guid), what);
            }
        }
    }
    known
}

/// Asserts that the standby knows what the master knows, and that LIDs and forwarding tables are
/// those that the hardware holds.
fn assert_followed(world: &World) {
    let inventory = world.managers()[1].core().inventory();
    let (master, standby) = (known_by(world, 0), known_by(world, 1));
    for (part, known) in &master {
        assert_eq!(standby.get(part), Some(known), "{part}");
    }
    assert_eq!(standby.len(), master.len());
    let fabric = Fabric::build(&inventory.hardware);
    for node in fabric.nodes() {
        for (number, port) in node.end_ports() {
            let held = world.sim.port_info(node.guid, number).expect("it is there");
            assert_eq!(port.lid(), held.lid(), "{} port {number}", node.guid);
        }
    }
    for (guid, _, switch) in inventory.hardware.switches() {
        let held = world.sim.lft(guid).expect("it is a switch");
        let top = switch.info.linear_fdb_top();
        assert!(switch.lft.is_complete(top), "{guid}");
        for lid in (1..=top.0).map(Lid) {
            assert_eq!(
                switch.lft.entries().entry(lid),
                held[lid.index()],
                "{guid} {lid}"
            );
        }
        let master = world.managers()[0].core().inventory().hardware.node(guid);
        let master = master.and_then(|node| node.switch.as_ref());
        let masks = master.map(|switch| switch.mft.content());
        assert_eq!(masks, Some(switch.mft.content()), "{guid}");
    }
}

/// A reachable cable between switches, by its ends.
fn trunk(world: &World, choice: usize) -> Option<((Guid, PortNum), (Guid, PortNum))> {
    let switches = world.nodes(NodeKind::Switch);
    let local = world.managers()[0]
        .local(&world.sim)
        .expect("it is attached");
    let reach = expect::Reach::of(&world.sim, local, &[]);
    let links = reach.links.iter().copied();
    let trunks = links.filter(|(a, b)| switches.contains(&a.0) && switches.contains(&b.0));
    let trunks: Vec<_> = trunks.collect();
    trunks.get(choice % trunks.len().max(1)).copied()
}

/// Lets `happen` change the fabric, and returns the number of Gets that the standby sends until it
/// has followed.
fn gets_after(world: &mut World, happen: impl FnOnce(&mut World)) -> u64 {
    let before = (world.managers()[1].gets(), world.stored().generation);
    happen(world);
    let until = world.now() + LIMIT;
    let is_told = |world: &World| world.stored().generation > before.1;
    assert!(world.run(until, is_told), "the master changes the subnet");
    catch_up(world);
    assert_followed(world);
    world.managers()[1].gets() - before.0
}

#[test]
fn following_one_change_costs_the_standby_less_than_half_of_a_full_reading() {
    let mut world = with_ready_standby();
    assert_followed(&world);
    let hosts = world.nodes(NodeKind::Ca);
    let host = hosts[hosts.len() / 2];
    let ((near, port), _) = trunk(&world, 3).expect("all are there");
    let gone = gets_after(&mut world, |world| {
        world.sim.unlink(near, port).expect("it is cabled");
    });
    let back = gets_after(&mut world, |world| {
        world.sim.relink(near, port).expect("it was cabled");
    });
    let off = gets_after(&mut world, |world| {
        world.sim.power_off(host).expect("it is there");
    });
    let on = gets_after(&mut world, |world| {
        world.sim.power_on(host).expect("it is there");
    });
    for (what, gets) in [
        ("link down", gone),
        ("link up", back),
        ("off", off),
        ("on", on),
    ] {
        assert!(
            gets > 0 && gets < GETS_OF_FULL_READING / 2,
            "{what}: {gets} Gets"
        );
    }
    world.kill(0);
    world.settle(LIMIT);
    assert_eq!(*world.managers()[1].core().role(), Role::Master);
    let convergences = world.managers()[1].convergences();
    let quick = "the master is gone, whose subnet was read before";
    assert!(
        convergences[0].cause.contains(quick),
        "{:?}",
        convergences[0].cause
    );
}

#[test]
fn a_rebooted_switch_swapped_cables_and_new_members_are_followed() {
    let mut world = with_ready_standby();
    let hosts = world.nodes(NodeKind::Ca);
    let ((switch, _), _) = trunk(&world, 0).expect("all are there");
    gets_after(&mut world, |world| {
        world.sim.reboot(switch).expect("it is there");
    });
    let (a, b) = ((hosts[4], PortNum(1)), (hosts[9], PortNum(1)));
    gets_after(&mut world, |world| {
        world.sim.swap_cables(a, b).expect("they are cabled");
    });
    // A takeover need not read a change of members at once: the standby reads it together with the
    // next change of the fabric.
    let ports: Vec<Guid> = world.managers()[0]
        .core()
        .inventory()
        .hardware
        .nodes()
        .filter(|(_, node)| !node.is_switch())
        .flat_map(|(_, node)| node.external_ports().map(|(_, port)| port.guid))
        .collect();
    world.regroup(MULTICAST, |members| {
        members.extend(ports.iter().take(6).map(|&guid| (guid, true)));
    });
    world.settle(LIMIT);
    let ((near, port), _) = trunk(&world, 5).expect("all are there");
    gets_after(&mut world, |world| {
        world.sim.unlink(near, port).expect("it is cabled");
    });
}

#[test]
fn a_standby_that_missed_footprints_reads_the_whole_subnet() {
    let mut world = with_ready_standby();
    let gets = gets_after(&mut world, |world| {
        // The restarted master has no footprints that begin at the plan that the standby read.
        world.kill(0);
        world.start(0, Memory::Kept);
        let ((near, port), _) = trunk(world, 1).expect("all are there");
        world.sim.unlink(near, port).expect("it is cabled");
    });
    assert!(gets >= GETS_OF_FULL_READING, "{gets} Gets");
}

/// Makes eight random changes for each of `count` seeds. Some changes follow each other so fast
/// that the standby still reads one change while the next change happens.
fn follow_changes(count: u64) {
    let test = "--test system sim_following::a_standby_follows";
    seeds::run(test, count, |seed| {
        let mut dice = Dice::new(seed);
        let mut world = with_ready_standby();
        let hosts = world.nodes(NodeKind::Ca);
        let inner = &hosts[1..hosts.len() - 1];
        let mut down: Vec<(Guid, PortNum)> = Vec::new();
        for _ in 0..8 {
            let trunks = (
                trunk(&world, dice.below(1000)),
                trunk(&world, dice.below(1000)),
            );
            let (Some((near, far)), Some((other, _))) = trunks else {
                // The switch of the managers is rebooting.
                world.run_for(Duration::from_secs(1));
                continue;
            };
            match dice.below(7) {
                0 | 1 if down.len() < 3 => {
                    world.sim.unlink(near.0, near.1).expect("it is cabled");
                    down.push(near);
                }
                0..=2 => {
                    if let Some((near, port)) = down.pop() {
                        world.sim.relink(near, port).expect("it was cabled");
                    }
                }
                3 => world.sim.reboot(dice.pick(inner)).expect("it is there"),
                4 => world.sim.reboot(near.0).expect("it is there"),
                5 if down.is_empty() => {
                    world.sim.swap_cables(far, other).expect("both are cabled");
                }
                _ => {
                    let (a, b) = (dice.pick(inner), dice.pick(inner));
                    let (a, b) = ((a, PortNum(1)), (b, PortNum(1)));
                    world.sim.swap_cables(a, b).expect("both are cabled");
                }
            }
            let pause = dice.duration(Duration::from_millis(5), Duration::from_millis(2500));
            world.run_for(pause);
        }
        for (near, port) in down {
            world.sim.relink(near, port).expect("it was cabled");
        }
        world.settle(LIMIT);
        if world.managers()[1].core().following().is_none() {
            // The managers were separated for a while, or still are, and the standby took over.
            assert_eq!(*world.managers()[1].core().role(), Role::Master);
            return;
        }
        catch_up(&mut world);
        assert_followed(&world);
    });
}

#[test]
fn a_standby_follows_changes_that_come_while_it_reads() {
    follow_changes(24);
}

#[test]
#[ignore = "runs as many seeds as RSM_SEEDS says, or 500"]
fn soak_of_changes_that_come_while_a_standby_reads() {
    follow_changes(seeds::number("RSM_SEEDS").unwrap_or(500));
}

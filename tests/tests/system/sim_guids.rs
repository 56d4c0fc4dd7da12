//! Alias GUIDs of ports: the hardware holds the requested alias GUIDs, and the core writes none
//! twice.

use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{Attribute, GuidInfo};
use rsm_model::alias_guids::AliasGuids;
use rsm_routing::netlist::NodeKind;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);

fn hosts(world: &World) -> Vec<(Guid, PortNum)> {
    let is_host = |guid| {
        let mut nodes = world.sim.nodes();
        nodes.any(|(node, kind)| node == guid && kind == NodeKind::Ca)
    };
    let ports = world.sim.end_ports();
    ports.filter(|&(guid, _)| is_host(guid)).collect()
}

/// The number of Sets of GUIDInfo so far.
fn sets(world: &World) -> u64 {
    let sets = expect::sets(&world.sim.counters());
    sets.get(&GuidInfo::ID).copied().unwrap_or(0)
}

/// Assigns these alias GUIDs, each with its index in GUIDInfo, to the port at `at`, and none to all
/// other ports.
fn assign(world: &mut World, at: (Guid, PortNum), aliases: &[(u8, u64)]) {
    let port = world.sim.port_guid(at.0, at.1).expect("it is there");
    let mut guids = AliasGuids::default();
    for &(index, alias) in aliases {
        let assigned = guids.by_port.entry(port).or_default();
        assigned.insert(index, Guid(alias));
    }
    world.set_alias_guids(guids);
    world.settle(LIMIT);
    expect::assert_no_findings(world);
}

/// The alias GUIDs that a port holds at the indices 1 to 7; 0 where it holds none.
fn held_aliases(world: &World, at: (Guid, PortNum)) -> Vec<u64> {
    let guids = world.sim.guids(at.0, at.1).expect("it is there");
    guids[1..].iter().map(|guid| guid.0).collect()
}

#[test]
fn changed_alias_guids_are_written_once_also_after_restart_and_reboot() {
    let mut world = World::brought_up("pgft:2;2,2;1,2;1,1", Settings::default());
    let host = hosts(&world)[2];
    assert_eq!(sets(&world), 0);
    assign(&mut world, host, &[(1, 0x11), (7, 0x77)]);
    assert_eq!(held_aliases(&world, host), [0x11, 0, 0, 0, 0, 0, 0x77]);
    assert_eq!(sets(&world), 1);
    assign(&mut world, host, &[(1, 0x11), (7, 0x77)]);
    assert_eq!(sets(&world), 1, "that is what it has");
    assign(&mut world, host, &[(2, 0x22), (7, 0x77)]);
    assert_eq!(held_aliases(&world, host), [0, 0x22, 0, 0, 0, 0, 0x77]);
    assert_eq!(sets(&world), 2);

    // After a restart the core reads GUIDInfo, and has nothing to write.
    let before = expect::sets(&world.sim.counters());
    world.kill(0);
    world.run_for(SECOND);
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    assert_eq!(expect::sets(&world.sim.counters()), before);

    // A rebooted host gets its alias GUIDs again.
    world.sim.reboot(host.0).expect("it is there");
    world.run_for(20 * SECOND);
    world.settle(LIMIT);
    assert_eq!(held_aliases(&world, host), [0, 0x22, 0, 0, 0, 0, 0x77]);
    assert_eq!(sets(&world), 3);

    assign(&mut world, host, &[]);
    assert_eq!(held_aliases(&world, host), [0; 7]);
    assert_eq!(sets(&world), 4);
}

//! Compute ports keep their positions in the host order, by which engines spread routes.

use std::sync::Arc;
use std::time::Duration;

use rsm_gdr::generate::{FleetFaults, fleet, recabled};
use rsm_gdr::hosts::GpuInventory;
use rsm_ids::{Guid, PortNum};
use rsm_plan::order::HostOrder;
use rsm_plan::policy::{OrderPolicy, Policy};
use rsm_routing::engine::Category;
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_tests::virtual_time::{Memory, Settings, World, expect, first_host};

const LIMIT: Duration = Duration::from_secs(60);

/// A unit of 32 hosts with cables in random order.
fn netlist() -> Netlist {
    let netlist = generate("superpod:su=1").expect("a published fabric");
    recabled(netlist, 3).expect("ends are only exchanged")
}

/// The fabric of `netlist`, with a manager at its first host.
fn world(netlist: &Netlist, settings: Settings) -> World {
    let mut world = World::new(netlist, settings);
    let (host, port) = first_host(netlist);
    world.add_manager(host, port);
    world
}

/// The host order of the plan in force.
fn order(world: &World) -> HostOrder {
    let snapshot = world.manager().snapshot().expect("it is up");
    let plan = snapshot.plan.as_ref().expect("it is routed");
    plan.order.clone()
}

/// The adapters of a host.
fn adapters(netlist: &Netlist, host: &str) -> Vec<(Guid, PortNum)> {
    let of_host = |name: String| name.split(' ').next() == Some(host);
    let nodes = netlist.nodes().iter().filter(|node| of_host(node.name()));
    nodes.map(|node| (node.guid, PortNum(1))).collect()
}

#[test]
fn late_hosts_take_free_positions_and_a_restart_keeps_all() {
    let netlist = netlist();
    let mut world = world(&netlist, Settings::default());
    let late = ["host-007", "host-020", "host-031"].map(|host| adapters(&netlist, host));
    for &(node, port) in late.iter().flatten() {
        world.sim.unlink(node, port).expect("there is a cable");
    }
    world.settle(LIMIT);
    expect::assert_up(&world);
    let first = order(&world).positions;
    assert_eq!(first.ports().len(), 29 * 8);
    for host in late.iter().rev() {
        for &(node, port) in host {
            world.sim.relink(node, port).expect("there is a cable");
        }
        world.settle(LIMIT);
    }
    expect::assert_up(&world);
    let all = order(&world).positions;
    assert_eq!((all.ports().len(), all.stride()), (256, 32));
    for (port, position) in first.ports() {
        assert_eq!(all.ports().get(port), Some(position));
    }
    // The core would not compute this order again: it must come from memory.
    let sets = expect::sets(&world.sim.counters());
    world.kill(0);
    world.run_for(Duration::from_secs(3));
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    assert_eq!(expect::sets(&world.sim.counters()), sets, "nothing is set");
    assert_eq!(order(&world).positions, all);
    // Without memory, every port gets a position, and the subnet works as before.
    world.kill(0);
    world.start(0, Memory::Lost);
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    assert_eq!(order(&world).positions.ports().len(), 256);
}

#[test]
fn the_gpu_inventory_sets_port_categories_and_its_removal_clears_them() {
    let superpod = generate("superpod:su=1").expect("a published fabric");
    let fleet = fleet(superpod, FleetFaults::default());
    let fleet = fleet.expect("hosts with plain names");
    let mut world = world(&fleet.netlist, Settings::default());
    world.settle(LIMIT);
    let before = order(&world);
    assert!(before.categories.is_empty());
    assert_eq!(before.numbers.len(), 256, "from cables and names alone");
    world.set_gpus(Arc::new(fleet.inventory));
    world.settle(LIMIT);
    expect::assert_up(&world);
    let with_gpus = order(&world);
    let computing = with_gpus.categories.values();
    let computing = computing.filter(|category| **category == Category::Compute);
    assert_eq!((computing.count(), with_gpus.categories.len()), (256, 256));
    assert_eq!(with_gpus.positions, before.positions);
    world.set_gpus(Arc::new(GpuInventory::new()));
    world.settle(LIMIT);
    assert!(order(&world).categories.is_empty());
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn without_rails_compute_ports_have_no_positions() {
    let policy = Policy {
        order: OrderPolicy {
            rails: false,
            ..OrderPolicy::default()
        },
        ..Policy::default()
    };
    let settings = Settings::of(policy);
    let mut world = world(&netlist(), settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    let order = order(&world);
    assert!(order.positions.is_empty() && order.numbers.is_empty() && order.categories.is_empty());
}

#[test]
fn ports_other_than_listed_compute_ports_are_for_management_unless_they_have_a_category() {
    let netlist = generate("fat-tree:k=4,levels=3").expect("a fabric");
    let hosts = adapters(&netlist, "host-005");
    let storage = adapters(&netlist, "host-009");
    let (listed, storage) = (hosts[0].0, storage[0].0);
    let configured = [(listed, Category::Compute), (storage, Category::Storage)];
    let policy = Policy {
        order: OrderPolicy {
            categories: Arc::new(configured.into()),
            compute_is_listed: true,
            ..OrderPolicy::default()
        },
        ..Policy::default()
    };
    let settings = Settings::of(policy);
    let mut world = world(&netlist, settings);
    world.settle(LIMIT);
    expect::assert_up(&world);
    let categories = order(&world).categories;
    assert_eq!(categories.len(), 16);
    for (&port, &category) in categories.iter() {
        let expected = match port {
            _ if port == listed => Category::Compute,
            _ if port == storage => Category::Storage,
            _ => Category::Management,
        };
        assert_eq!(category, expected, "{port}");
    }
    // A host that comes back is for management as well.
    let late = adapters(&netlist, "host-016")[0];
    world.sim.unlink(late.0, late.1).expect("there is a cable");
    world.settle(LIMIT);
    world.sim.relink(late.0, late.1).expect("there is a cable");
    world.settle(LIMIT);
    let categories = order(&world).categories;
    assert_eq!(categories.get(&late.0), Some(&Category::Management));
}

//! The error correction of links (`sweep.error_correction`), on devices that report it, refuse to
//! report it, or are silent.

use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{Attribute, FecMode, PortInfoExtended};
use rsm_mad::wire::header::Method;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Devices;
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(120);

/// A fabric that is up. With `reads`, the manager reads the error correction of links.
fn brought_up(speed: &str, devices: &str, reads: bool) -> World {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::parse(devices).unwrap();
    settings.core.reads_error_correction = reads;
    let tree = format!("fat-tree:k=4,levels=2,speed={speed}");
    let mut world = World::generated(&tree, settings);
    world.count_requests();
    world.settle(LIMIT);
    expect::assert_up(&world);
    world
}

/// The number of Gets of PortInfoExtended so far.
fn gets(world: &World) -> u64 {
    let requests = world.requests();
    let nodes = requests.nodes(Method::GET, PortInfoExtended::ID);
    let counts = nodes.iter();
    let of = |&node: &Guid| requests.of(node, Method::GET, PortInfoExtended::ID);
    counts.map(of).sum()
}

/// The error correction of each port with a cable, as the model shows it.
fn modes(world: &World) -> Vec<Option<FecMode>> {
    let snapshot = world.manager().snapshot().unwrap();
    let ports = snapshot.fabric.nodes().flat_map(|node| &node.ports);
    let cabled = ports.filter(|port| port.peer.is_some());
    cabled.map(|port| port.error_correction).collect()
}

#[test]
fn each_port_with_a_link_is_asked_once_for_its_error_correction() {
    for (speed, mode) in [
        ("fdr", FecMode::None),
        ("edr", FecMode::ReedSolomon),
        ("hdr", FecMode::ReedSolomon),
    ] {
        let mut world = brought_up(speed, "error-correction", true);
        let modes = modes(&world);
        assert_eq!(modes, vec![Some(mode); modes.len()], "{speed}");
        assert!(!modes.is_empty());
        assert_eq!(gets(&world), modes.len() as u64, "{speed}");
        world.resweep(LIMIT);
        assert_eq!(gets(&world), modes.len() as u64, "{speed}: it is known");
    }
}

#[test]
fn a_link_that_trains_again_is_asked_again() {
    let mut world = brought_up("edr", "error-correction", true);
    let before = gets(&world);
    let leaf = world.nodes(NodeKind::Switch)[0];
    let last = world.sim.num_ports(leaf).unwrap();
    let cable = (1..=last).map(PortNum).find_map(|port| {
        let (peer, far) = world.sim.peer(leaf, port).unwrap()?;
        world
            .sim
            .switch_info(peer)
            .is_ok()
            .then_some((port, peer, far))
    });
    let (port, peer, far) = cable.expect("the switch leads to another");
    let of_link = |world: &World| {
        let snapshot = world.manager().snapshot().unwrap();
        [(leaf, port), (peer, far)].map(|(node, port)| {
            let node = snapshot.fabric.node_of(node).unwrap();
            node.ports[usize::from(port.0)].error_correction
        })
    };
    world.sim.unlink(leaf, port).unwrap();
    world.run_for(Duration::from_secs(15));
    world.settle(LIMIT);
    assert_eq!(
        of_link(&world),
        [None, None],
        "a link that is down has none"
    );
    world.sim.relink(leaf, port).unwrap();
    world.run_for(Duration::from_secs(15));
    world.settle(LIMIT);
    assert_eq!(of_link(&world), [Some(FecMode::ReedSolomon); 2]);
    assert_eq!(gets(&world), before + 2);
}

#[test]
fn without_the_setting_or_the_capability_no_port_is_asked() {
    for (devices, reads) in [("error-correction", false), ("qib", true)] {
        let world = brought_up("edr", devices, reads);
        assert_eq!(gets(&world), 0, "{devices}, {reads}");
        assert!(modes(&world).iter().all(Option::is_none));
    }
}

#[test]
fn devices_that_refuse_or_ignore_the_request_cause_no_finding_and_are_not_asked_again() {
    for devices in ["refuses-error-correction", "deaf-to-error-correction"] {
        let mut world = brought_up("edr", devices, true);
        assert!(gets(&world) > 0);
        assert!(modes(&world).iter().all(Option::is_none), "{devices}");
        let findings = world.manager().findings();
        assert!(findings.is_empty(), "{devices}: {findings:?}");
        let asked = gets(&world);
        world.resweep(LIMIT);
        assert_eq!(gets(&world), asked, "{devices}: asked again");
    }
}

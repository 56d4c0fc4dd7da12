//! Missing nodes and cables: findings until they are back or accepted as gone.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_model::expected::{Accept, LostAt};
use rsm_model::findings::{Finding, Severity};
use rsm_routing::netlist::NodeKind;
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

/// The maximum time until the subnet is at rest.
const LIMIT: Duration = Duration::from_secs(60);

/// A fabric of eight leaves with two hosts and two uplinks each.
const TREE: &str = "fat-tree:k=4,levels=3";

/// An end of a cable: the node and the port.
type End = (Guid, PortNum);

fn is_switch(world: &World, guid: Guid) -> bool {
    let mut nodes = world.sim.nodes();
    nodes.any(|(other, kind)| other == guid && kind == NodeKind::Switch)
}

/// The ports of the hosts other than the manager's, each with the leaf port at the other end of its
/// cable.
fn hosts(world: &World) -> Vec<(End, End)> {
    let manager = world
        .manager()
        .local(&world.sim)
        .expect("the manager has a port");
    let links = expect::reach(world, &[]).links.into_iter();
    let links = links.filter(|&(a, b)| a != manager && b != manager);
    links
        .filter_map(
            |(a, b)| match (is_switch(world, a.0), is_switch(world, b.0)) {
                (true, false) => Some((b, a)),
                (false, true) => Some((a, b)),
                _ => None,
            },
        )
        .collect()
}

/// A leaf other than the leaf of the manager's host.
fn leaf(world: &World) -> Guid {
    let manager = world
        .manager()
        .local(&world.sim)
        .expect("the manager has a port");
    let manager_leaf = world.sim.peer(manager.0, manager.1);
    let manager_leaf = manager_leaf
        .expect("the node exists")
        .expect("the port is cabled")
        .0;
    let mut leaves = hosts(world).into_iter().map(|(_, leaf)| leaf.0);
    leaves
        .find(|&leaf| leaf != manager_leaf)
        .expect("the fabric has more leaves")
}

/// The first port of a leaf that leads to another switch.
fn uplink(world: &World, leaf: Guid) -> PortNum {
    let ports = (1..=world.sim.num_ports(leaf).expect("the node exists")).map(PortNum);
    let mut up = ports.filter(|&port| {
        let peer = world.sim.peer(leaf, port).expect("the node exists");
        peer.is_some_and(|peer| is_switch(world, peer.0))
    });
    up.next().expect("the leaf has uplinks")
}

/// The findings about missing nodes and cables.
fn missing(world: &World) -> Vec<Finding> {
    let snapshot = world.manager().snapshot().expect("the manager is up");
    let findings = snapshot.findings.iter().cloned();
    findings
        .filter(|finding| finding.kind.code().ends_with("-missing"))
        .collect()
}

/// Asserts that only one finding is about missing nodes or cables, that this finding has the code
/// `kind` and this severity, and that its text contains each of `parts`.
fn assert_one_missing(world: &World, kind: &str, severity: Severity, parts: &[&str]) {
    let findings = missing(world);
    let [finding] = &findings[..] else {
        panic!("one finding: {findings:?}");
    };
    assert_eq!((finding.kind.code(), finding.severity), (kind, severity));
    for part in parts {
        assert!(finding.text.contains(part), "{part}: {}", finding.text);
    }
}

/// Runs for a minute, and then until the subnet is at rest.
fn wait_and_settle(world: &mut World) {
    world.run_for(LIMIT);
    world.settle(LIMIT);
}

#[test]
fn lost_cable_is_a_finding_until_it_is_back() {
    let mut world = World::brought_up(TREE, Settings::default());
    let leaf = leaf(&world);
    let port = uplink(&world, leaf);
    world.sim.unlink(leaf, port).expect("the port is cabled");
    wait_and_settle(&mut world);
    let parts = [" 1 of 2", "was Active", "routes were moved"];
    assert_one_missing(&world, "cable-missing", Severity::Warning, &parts);
    world.sim.relink(leaf, port).expect("the port was cabled");
    wait_and_settle(&mut world);
    expect::assert_no_findings(&world);
}

#[test]
fn dead_switch_and_the_hosts_behind_it_are_one_finding() {
    let mut world = World::brought_up(TREE, Settings::default());
    let leaf = leaf(&world);
    world.sim.power_off(leaf).expect("the node exists");
    wait_and_settle(&mut world);
    let parts = [
        "2 adapters went with it",
        "fewest links to switches left, 3 of 4",
    ];
    assert_one_missing(&world, "switch-missing", Severity::Warning, &parts);
    world.sim.power_on(leaf).expect("the node exists");
    wait_and_settle(&mut world);
    expect::assert_no_findings(&world);
}

#[test]
fn powered_off_host_is_one_finding_of_severity_info() {
    let mut world = World::brought_up(TREE, Settings::default());
    let (host, _) = hosts(&world)[0];
    world.sim.power_off(host.0).expect("the node exists");
    wait_and_settle(&mut world);
    assert_one_missing(&world, "host-missing", Severity::Info, &["was at "]);
}

#[test]
fn accepted_loss_is_no_finding_until_the_node_returns_and_is_lost_again() {
    let mut world = World::brought_up(TREE, Settings::default());
    let [(first, _), (second, second_leaf), ..] = hosts(&world)[..] else {
        panic!("two hosts");
    };
    for (host, _) in [first, second] {
        world.sim.power_off(host).expect("the node exists");
    }
    wait_and_settle(&mut world);
    assert_eq!(missing(&world).len(), 2);
    world.command(Command::Accept(vec![Accept::Node(first.0)]));
    world.settle(LIMIT);
    assert_one_missing(&world, "host-missing", Severity::Info, &[]);
    let second_port = PortKey::new(second_leaf.0, second_leaf.1);
    world.command(Command::Accept(vec![Accept::Port(second_port)]));
    world.command(Command::Accept(vec![Accept::Node(second.0)]));
    world.settle(LIMIT);
    expect::assert_no_findings(&world);
    world.sim.power_on(first.0).expect("the node exists");
    wait_and_settle(&mut world);
    expect::assert_no_findings(&world);
    world.sim.power_off(first.0).expect("the node exists");
    wait_and_settle(&mut world);
    assert_one_missing(&world, "host-missing", Severity::Info, &[]);
}

#[test]
fn restarted_manager_reports_nodes_lost_before_and_during_the_restart() {
    let mut world = World::brought_up(TREE, Settings::default());
    let [(lost_before, _), (lost_meanwhile, _), ..] = hosts(&world)[..] else {
        panic!("two hosts");
    };
    world.sim.power_off(lost_before.0).expect("the node exists");
    wait_and_settle(&mut world);
    world.kill(0);
    world
        .sim
        .power_off(lost_meanwhile.0)
        .expect("the node exists");
    world.start(0, Memory::Kept);
    wait_and_settle(&mut world);
    assert_eq!(missing(&world).len(), 2);
    let snapshot = world.manager().snapshot().expect("the manager is up");
    for (host, _) in [lost_before, lost_meanwhile] {
        let node = snapshot.expected.node(host).expect("the node is missing");
        assert_eq!(
            node.at,
            LostAt::Unknown,
            "the restarted manager has another clock"
        );
    }
    for (host, _) in [lost_before, lost_meanwhile] {
        world.sim.power_on(host).expect("the node exists");
    }
    wait_and_settle(&mut world);
    expect::assert_no_findings(&world);
    assert!(
        world
            .manager()
            .snapshot()
            .expect("the manager is up")
            .expected
            .is_empty()
    );
}

/// The sweep reads ports while links train, so one sweep may see a port first Down and later Init.
/// The directed route to a node then leads to the other node of the swap.
#[test]
fn swapped_nodes_keep_descriptions_and_lids_at_any_link_training_time() {
    for link_training in (1..=40).map(|step| Duration::from_micros(25 * step)) {
        let mut settings = Settings::default();
        settings.sim.link_training = link_training;
        let mut world = World::brought_up(TREE, settings);
        let before = descriptions_and_lids(&world);
        let hosts = hosts(&world);
        let (first, last) = (hosts[0].0, hosts[hosts.len() - 1].0);
        world.sim.swap_cables(first, last).expect("both are cabled");
        wait_and_settle(&mut world);
        assert_eq!(
            descriptions_and_lids(&world),
            before,
            "hosts, {link_training:?}"
        );
        let (near, far) = (hosts[0].1.0, hosts[hosts.len() - 1].1.0);
        let (near, far) = ((near, uplink(&world, near)), (far, uplink(&world, far)));
        world.sim.swap_cables(near, far).expect("both are cabled");
        wait_and_settle(&mut world);
        assert_eq!(
            descriptions_and_lids(&world),
            before,
            "switches, {link_training:?}"
        );
        expect::assert_up(&world);
    }
}

/// The description of each node, and the LIDs of its end ports.
fn descriptions_and_lids(world: &World) -> BTreeMap<Guid, (String, Vec<Option<Lid>>)> {
    let snapshot = world.manager().snapshot().expect("the manager is up");
    let nodes = snapshot.fabric.nodes().map(|node| {
        let lids = node.end_ports();
        let lids = lids.map(|(_, port)| port.info.as_ref().map(|info| info.lid()));
        (node.guid, (node.description.clone(), lids.collect()))
    });
    nodes.collect()
}

#[test]
fn hosts_with_swapped_cables_are_not_missing() {
    let mut world = World::brought_up(TREE, Settings::default());
    let hosts = hosts(&world);
    let (first, last) = (hosts[0].0, hosts[hosts.len() - 1].0);
    world.sim.swap_cables(first, last).expect("both are cabled");
    wait_and_settle(&mut world);
    assert_eq!(missing(&world), []);
    expect::assert_up(&world);
}

/// Two leaves other than the leaf of the manager's host, each with its first port to another
/// switch.
fn two_uplinks(world: &World) -> [End; 2] {
    let first = leaf(world);
    let mut leaves = hosts(world).into_iter().map(|(_, leaf)| leaf.0);
    let second = leaves
        .find(|&leaf| leaf != first)
        .expect("the fabric has more leaves");
    [first, second].map(|leaf| (leaf, uplink(world, leaf)))
}

#[test]
fn exchanged_cables_between_switches_are_a_finding_until_exchanged_back() {
    let mut world = World::brought_up(TREE, Settings::default());
    let [a, b] = two_uplinks(&world);
    let swap = |world: &mut World| {
        world.sim.swap_cables(a, b).expect("both are cabled");
        wait_and_settle(world);
    };
    swap(&mut world);
    let exchanged = |world: &World| -> Vec<Finding> {
        let snapshot = world.manager().snapshot().expect("the manager is up");
        let findings = snapshot.findings.iter();
        let exchanged = findings.filter(|finding| finding.kind.code() == "cables-exchanged");
        exchanged.cloned().collect()
    };
    let findings = exchanged(&world);
    let [finding] = &findings[..] else {
        panic!("one finding: {findings:?}");
    };
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.text.contains("leads to"), "{}", finding.text);
    assert!(finding.text.contains("(was at "), "{}", finding.text);
    // No node is missing, so no cable counts as missing.
    assert_eq!(missing(&world), []);
    expect::assert_up(&world);

    world.kill(0);
    world.start(0, Memory::Kept);
    wait_and_settle(&mut world);
    assert_eq!(
        exchanged(&world).len(),
        1,
        "a restarted manager still knows the cabling"
    );

    swap(&mut world);
    expect::assert_no_findings(&world);
}

#[test]
fn accepted_exchange_becomes_the_expected_cabling() {
    let mut world = World::brought_up(TREE, Settings::default());
    let [a, b] = two_uplinks(&world);
    world.sim.swap_cables(a, b).expect("both are cabled");
    wait_and_settle(&mut world);
    world.command(Command::Accept(vec![Accept::Port(PortKey::new(a.0, a.1))]));
    world.settle(LIMIT);
    expect::assert_no_findings(&world);
    world.kill(0);
    world.start(0, Memory::Kept);
    wait_and_settle(&mut world);
    expect::assert_no_findings(&world);
    // From now on the earlier cabling counts as an exchange.
    world.sim.swap_cables(a, b).expect("both are cabled");
    wait_and_settle(&mut world);
    let snapshot = world.manager().snapshot().expect("the manager is up");
    let codes = snapshot.findings.iter().map(|finding| finding.kind.code());
    assert_eq!(codes.collect::<Vec<_>>(), ["cables-exchanged"]);
}

//! Links that damage packets, flap or run slowly: findings, and routes that avoid them.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_config::{Isolate, Symptom};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{BadKeys, Notice, NoticeType, PortPhysicalState, ProducerType, Trap};
use rsm_monitor::health::PortErrors;
use rsm_plan::avoid::NodeOrCable;
use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

/// A fabric of four leaves with four hosts each, and two spines.
const TREE: &str = "pgft:2;4,4;1,2;1,1";

fn settings(isolate: Isolate) -> Settings {
    let mut settings = Settings::default();
    settings.core.health.isolate = isolate;
    settings
}

/// The cables between switches, each by one end.
fn cables(world: &World) -> Vec<PortKey> {
    let switches = world.nodes(NodeKind::Switch);
    let links = expect::reach(world, &[]).links;
    let between = links
        .into_iter()
        .filter(|(a, b)| switches.contains(&a.0) && switches.contains(&b.0));
    between.map(|(a, _)| PortKey::new(a.0, a.1)).collect()
}

/// A port of a host other than the manager's.
fn host_port(world: &World) -> PortKey {
    let own = world.manager().local(&world.sim).expect("it has a port").0;
    let mut hosts = world.nodes(NodeKind::Ca).into_iter();
    let host = hosts.find(|&host| host != own).expect("there are more");
    PortKey::new(host, PortNum(1))
}

fn codes(world: &World) -> Vec<&'static str> {
    let findings = world.manager().findings();
    findings.into_iter().map(|(code, _)| code).collect()
}

/// The texts of all findings, one a line.
fn texts(world: &World) -> String {
    let snapshot = world.manager().snapshot().expect("it is up");
    let texts = snapshot.findings.iter();
    let texts: Vec<&str> = texts.map(|finding| finding.text.as_str()).collect();
    texts.join("\n")
}

/// The number of LIDs that are routed over a cable.
fn lids_over(world: &World, cable: PortKey) -> usize {
    let plan = world.manager().core().plan().expect("it is up").clone();
    let found = plan.lids_over(NodeOrCable::Port(cable), |switch| plan.table(switch));
    found.expect("it is there").over.len()
}

/// The errors of each port, with the same total for all.
fn symbol_errors(ports: &[PortKey], per_hour: f64, total: u64) -> BTreeMap<PortKey, PortErrors> {
    let mut errors = PortErrors {
        total,
        ..PortErrors::default()
    };
    errors.per_hour[Symptom::SymbolErrors as usize] = per_hour;
    ports.iter().map(|&port| (port, errors)).collect()
}

#[test]
fn suggested_isolation_changes_no_route_and_names_the_command() {
    let mut world = World::brought_up(TREE, settings(Isolate::Suggest));
    let cable = cables(&world)[0];
    let before = lids_over(&world, cable);
    assert!(before > 0);
    world.port_errors(symbol_errors(&[cable], 500.0, 1));
    world.settle(LIMIT);
    assert_eq!(codes(&world), ["link-errors"]);
    let text = texts(&world);
    assert!(
        text.contains("symbol errors at a rate of 500 an hour"),
        "{text}"
    );
    let command = format!("rsmctl drain {}:{}", cable.node, cable.port);
    assert!(text.contains(&command), "{text}");
    assert_eq!(lids_over(&world, cable), before);
}

#[test]
fn unhealthy_cable_is_out_of_the_routes_until_it_has_been_quiet() {
    let mut world = World::brought_up(TREE, settings(Isolate::On));
    let cable = cables(&world)[0];
    let before = lids_over(&world, cable);
    world.port_errors(symbol_errors(&[cable], 500.0, 1));
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(lids_over(&world, cable), 0);
    assert!(texts(&world).contains("routes go around it until"));
    // Errors continue for half an hour, then stop.
    world.run_for(Duration::from_secs(1800));
    world.port_errors(symbol_errors(&[cable], 400.0, 2));
    world.run_for(Duration::from_secs(1900));
    assert_eq!(lids_over(&world, cable), 0);
    world.port_errors(BTreeMap::new());
    world.run_for(Duration::from_secs(1800));
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, cable), before);
    expect::assert_no_findings(&world);
    // After a relapse, the cable stays out of the routes twice as long.
    world.port_errors(symbol_errors(&[cable], 500.0, 3));
    world.run_for(Duration::from_secs(7100));
    assert_eq!(lids_over(&world, cable), 0);
    world.run_for(Duration::from_secs(200));
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, cable), before);
}

#[test]
fn host_with_errors_keeps_its_only_link() {
    let mut world = World::brought_up(TREE, settings(Isolate::On));
    let port = host_port(&world);
    let convergences = world.manager().convergences().len();
    world.port_errors(symbol_errors(&[port], 5000.0, 1));
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(codes(&world), ["link-errors"]);
    assert!(texts(&world).contains("no other way"), "{}", texts(&world));
    assert_eq!(world.manager().convergences().len(), convergences);
}

#[test]
fn errors_at_all_cables_take_only_some_of_them_out_of_the_routes() {
    let mut world = World::brought_up("fat-tree:k=6,levels=3", settings(Isolate::On));
    let cables = cables(&world);
    assert!(cables.len() > 50);
    world.port_errors(symbol_errors(&cables, 500.0, 1));
    world.settle(LIMIT);
    expect::assert_up(&world);
    let out = cables
        .iter()
        .filter(|&&cable| lids_over(&world, cable) == 0);
    assert!((1..=10).contains(&out.count()));
    assert!(texts(&world).contains("as many cables as permitted"));
    assert!(texts(&world).contains("more ports have errors"));
}

/// Lets a port send `count` traps, each followed by a pause. A port that is cut off sends none.
fn send_traps(world: &mut World, port: PortKey, trap: Trap, count: usize, pause: Duration) {
    for _ in 0..count {
        let injected = world.sim.inject_threshold(port.node, port.port, trap);
        injected.expect("there is such a port");
        world.run_for(pause);
    }
    world.settle(LIMIT);
}

/// Lets a port send 400 traps in 40 seconds.
fn send_many_traps(world: &mut World, port: PortKey) {
    let pause = Duration::from_millis(100);
    send_traps(world, port, Trap::LINK_INTEGRITY, 400, pause);
}

#[test]
fn reports_of_a_port_take_its_cable_out_of_the_routes() {
    let mut world = World::brought_up(TREE, settings(Isolate::On));
    let cable = cables(&world)[0];
    send_traps(
        &mut world,
        cable,
        Trap::BUFFER_OVERRUN,
        12,
        Duration::from_secs(20),
    );
    expect::assert_up(&world);
    assert_eq!(codes(&world), ["link-errors"]);
    assert!(texts(&world).contains("traps 129 to 131"));
    assert_eq!(lids_over(&world, cable), 0);
    world.run_for(Duration::from_secs(3700));
    world.settle(LIMIT);
    assert!(lids_over(&world, cable) > 0);
    expect::assert_no_findings(&world);
}

#[test]
fn port_that_sends_traps_without_end_is_a_finding_until_it_is_quiet() {
    let mut world = World::brought_up(TREE, settings(Isolate::Suggest));
    let cable = cables(&world)[0];
    send_many_traps(&mut world, cable);
    assert_eq!(codes(&world), ["babbling-port", "link-errors"]);
    world.run_for(Duration::from_secs(310));
    world.settle(LIMIT);
    assert_eq!(codes(&world), ["link-errors"]);
}

#[test]
fn host_that_reports_many_packets_with_bad_p_keys_is_not_called_babbling() {
    let mut settings = settings(Isolate::Off);
    settings.core.health.disables_babbling = true;
    let mut world = World::brought_up(TREE, settings);
    let victim = host_port(&world);
    let own = world.manager().local(&world.sim).expect("it has a port").0;
    let mut others = world.nodes(NodeKind::Ca).into_iter();
    let attacker = others.find(|&host| host != own && host != victim.node);
    let lid_of = |guid| world.sim.port_info(guid, PortNum(1)).unwrap().lid();
    let (lid, from) = (
        lid_of(victim.node),
        lid_of(attacker.expect("there are more")),
    );
    let mut details = BadKeys::default();
    details.set_lid1(from).set_lid2(lid);
    let notice = Notice::generic(
        NoticeType::Security,
        ProducerType::CA,
        Trap::BAD_P_KEY,
        lid,
        &details,
    );
    for _ in 0..400 {
        let injected = world.sim.inject_notice(victim.node, victim.port, notice);
        injected.expect("there is such a port");
        world.run_for(Duration::from_millis(100));
    }
    world.settle(LIMIT);
    assert!(
        !codes(&world).contains(&"babbling-port"),
        "{}",
        texts(&world)
    );
    expect::assert_up(&world);
}

#[test]
fn link_of_a_host_that_sends_traps_without_end_is_disabled_if_configured() {
    let mut settings = settings(Isolate::Off);
    settings.core.health.disables_babbling = true;
    let mut world = World::brought_up(TREE, settings);
    let host = host_port(&world);
    let across = world.sim.peer(host.node, host.port).unwrap();
    let (switch, port) = across.expect("it is cabled");
    send_many_traps(&mut world, host);
    let physical = |world: &World| {
        let info = world
            .sim
            .port_info(switch, port)
            .expect("there is such a port");
        info.port_physical_state()
    };
    assert_eq!(physical(&world), PortPhysicalState::Disabled);
    let found = texts(&world);
    assert!(found.contains("the link is disabled"), "{found}");
    assert!(codes(&world).contains(&"host-missing"), "{found}");
    // The port stays disabled, and nothing more is written.
    let sets = world.manager().sets();
    world.run_for(Duration::from_secs(400));
    world.settle(LIMIT);
    assert_eq!(physical(&world), PortPhysicalState::Disabled);
    assert_eq!(world.manager().sets(), sets);
    // Reports count as errors of the link for an hour.
    assert_eq!(codes(&world), ["host-missing", "link-errors"]);
}

#[test]
fn babbling_links_between_switches_and_of_the_manager_are_not_disabled() {
    let mut settings = settings(Isolate::Off);
    settings.core.health.disables_babbling = true;
    let mut world = World::brought_up(TREE, settings);
    let own = world.manager().local(&world.sim).expect("it has a port");
    let cable = cables(&world)[0];
    for port in [cable, PortKey::new(own.0, own.1)] {
        send_many_traps(&mut world, port);
        expect::assert_up(&world);
        assert!(codes(&world).contains(&"babbling-port"));
    }
}

#[test]
fn flapping_link_of_a_host_is_a_finding_and_stays_in_the_routes() {
    let mut world = World::brought_up(TREE, settings(Isolate::On));
    let port = host_port(&world);
    for _ in 0..8 {
        world
            .sim
            .unlink(port.node, port.port)
            .expect("it is cabled");
        world.run_for(Duration::from_secs(2));
        world
            .sim
            .relink(port.node, port.port)
            .expect("it was cabled");
        world.run_for(Duration::from_secs(2));
    }
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(codes(&world), ["link-flapping"]);
    assert!(texts(&world).contains("loses packets"), "{}", texts(&world));
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT);
    expect::assert_no_findings(&world);
}

#[test]
fn link_below_the_width_or_speed_of_both_ends_is_a_finding() {
    let mut world = World::brought_up(TREE, settings(Isolate::Suggest));
    let ports = [cables(&world)[0], host_port(&world)];
    for (port, width, speed) in [
        (ports[0], LinkWidth::X1, LinkSpeed::Edr),
        (ports[1], LinkWidth::X4, LinkSpeed::Qdr),
    ] {
        let (node, number): (Guid, PortNum) = (port.node, port.port);
        let limited = world.sim.set_cable_rate(node, number, width, speed);
        limited.expect("it is cabled");
        world.run_for(Duration::from_secs(5));
    }
    world.settle(LIMIT);
    let slow = codes(&world);
    assert_eq!(slow, ["link-slow", "link-slow"], "{}", texts(&world));
}

#[test]
fn slow_links_whose_cables_are_swapped_are_one_finding_each() {
    let mut world = World::brought_up(TREE, settings(Isolate::Suggest));
    let links = expect::reach(&world, &[]).links;
    let hosts = world.nodes(NodeKind::Ca);
    // GUIDs ascend from leaves to spines to hosts.
    let (of_hosts, between): (Vec<_>, Vec<_>) =
        links.iter().partition(|(_, high)| hosts.contains(&high.0));
    let cable = between.into_iter().min().expect("there are spines");
    let (leaf, host) = of_hosts.into_iter().max().expect("there are hosts");
    assert!(
        cable.0.0 < leaf.0 && cable.1.0 < host.0,
        "{cable:?} {leaf:?}"
    );
    for port in [cable.0, leaf] {
        let (width, speed) = (LinkWidth::X1, LinkSpeed::Hdr);
        let set = world.sim.set_cable_rate(port.0, port.1, width, speed);
        set.expect("it is cabled");
    }
    world.run_for(Duration::from_secs(5));
    world.settle(LIMIT);
    assert_eq!(
        codes(&world),
        ["link-slow", "link-slow"],
        "{}",
        texts(&world)
    );

    // The port of the host's leaf was the lower end of a slow link, and is now the higher end.
    world
        .sim
        .swap_cables(cable.1, leaf)
        .expect("both are cabled");
    world.run_for(Duration::from_secs(5));
    world.settle(LIMIT);
    let slow = codes(&world)
        .into_iter()
        .filter(|&code| code == "link-slow");
    assert_eq!(slow.count(), 2, "{}", texts(&world));
}

#[test]
fn cable_one_generation_below_its_siblings_is_one_finding() {
    let mut world = World::brought_up(TREE, settings(Isolate::Suggest));
    let slow = cables(&world)[0];
    let limited = world
        .sim
        .set_cable_rate(slow.node, slow.port, LinkWidth::X4, LinkSpeed::Edr);
    limited.expect("it is cabled");
    world.run_for(Duration::from_secs(5));
    world.settle(LIMIT);
    assert_eq!(codes(&world), ["link-slow"], "{}", texts(&world));
    assert!(
        texts(&world).contains("most of its siblings"),
        "{}",
        texts(&world)
    );
    let healed = world
        .sim
        .set_cable_rate(slow.node, slow.port, LinkWidth::X4, LinkSpeed::Hdr);
    healed.expect("it is cabled");
    world.run_for(Duration::from_secs(5));
    world.settle(LIMIT);
    expect::assert_no_findings(&world);
}

#[test]
fn isolation_survives_a_restart_and_ends_when_it_would_have_ended_without_one() {
    let mut world = World::brought_up(TREE, settings(Isolate::On));
    let cable = cables(&world)[0];
    let before = lids_over(&world, cable);
    world.port_errors(symbol_errors(&[cable], 500.0, 1));
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, cable), 0);
    // There is an error after half an hour: from then on, an hour without errors is required.
    world.run_for(Duration::from_secs(1800));
    world.port_errors(symbol_errors(&[cable], 500.0, 2));
    world.run_for(Duration::from_secs(600));
    world.kill(0);
    world.run_for(Duration::from_secs(60));
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    expect::assert_up(&world);
    assert_eq!(lids_over(&world, cable), 0, "the first routes go around it");
    assert_eq!(codes(&world), ["link-errors"]);
    assert!(texts(&world).contains("symbol errors at a rate of 500 an hour"));
    world.run_for(Duration::from_secs(2700));
    assert_eq!(lids_over(&world, cable), 0);
    world.run_for(Duration::from_secs(300));
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, cable), before);
    expect::assert_no_findings(&world);
    // After a relapse, the cable stays out of the routes twice as long, in spite of the restart.
    world.port_errors(symbol_errors(&[cable], 500.0, 3));
    world.run_for(Duration::from_secs(7100));
    assert_eq!(lids_over(&world, cable), 0);
    world.run_for(Duration::from_secs(200));
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, cable), before);
}

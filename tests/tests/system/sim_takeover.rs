//! Switches that another manager left with adaptive routing on do not forward by the tables that
//! they answer Gets with.

use std::time::Duration;

use rsm_config::Takeover;
use rsm_core::CoreConfig;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::attr::{ArInfo, Attribute, LinearForwardingTable};
use rsm_mad::wire::header::Method;
use rsm_plan::Plan;
use rsm_routing::netlist::NodeKind;
use rsm_sim::LinearWrites;
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};
use rsm_view::publish::summary::OnceReport;

const LIMIT: Duration = Duration::from_secs(60);

/// A fabric of switches of a model that has ARInfo.
const SPEC: &str = "fat-tree:k=4,levels=3,speed=hdr";

fn brought_up(takeover: Takeover) -> World {
    let settings = Settings {
        core: CoreConfig {
            takeover,
            ..CoreConfig::default()
        },
        ..Settings::default()
    };
    World::brought_up(SPEC, settings)
}

/// Makes every switch forward adaptively by tables without the last host, while it answers Gets
/// with the correct tables.
fn route_adaptively(world: &mut World, writes: LinearWrites) {
    let hosts = world.sim.end_ports().filter(|&(_, port)| port.0 != 0);
    let (host, port) = hosts.last().expect("there are hosts");
    let lid = world.sim.port_info(host, port).unwrap().lid();
    for switch in world.nodes(NodeKind::Switch) {
        let mut entries = world.sim.lft(switch).unwrap().to_vec();
        entries[lid.index()] = 255;
        world
            .sim
            .set_adaptive_routing(switch, entries, writes)
            .unwrap();
    }
}

/// Whether packets are delivered between all pairs of ports that `plan` connects.
fn delivers_everywhere(world: &World, plan: &Plan) -> bool {
    let reach = expect::reach(world, &[]);
    let excused = plan.report.switch_pairs.unreachable;
    expect::unreachable(&world.sim, &reach, excused).is_empty()
}

/// Starts a manager without memory in place of the running one, and counts its requests.
fn take_over(world: &mut World) {
    world.kill(0);
    world.run_for(Duration::from_secs(3));
    world.count_requests();
    world.start(0, Memory::Lost);
    world.settle(LIMIT);
}

/// The number of counted Sets of LinearForwardingTable at a switch.
fn blocks_written(world: &World, switch: Guid) -> u64 {
    let requests = world.requests();
    requests.of(switch, Method::SET, LinearForwardingTable::ID)
}

/// The number of planned blocks in the forwarding table of each switch.
fn blocks_planned(world: &World) -> u64 {
    world.manager().core().plan().expect("planned").blocks() as u64
}

#[test]
fn a_takeover_writes_the_tables_of_adaptive_switches_and_ends_adaptive_routing() {
    for writes in [LinearWrites::TakeEffect, LinearWrites::Wait] {
        let mut world = brought_up(Takeover::Auto);
        route_adaptively(&mut world, writes);
        let plan = world.manager().core().plan().expect("planned");
        assert!(
            !delivers_everywhere(&world, plan),
            "the tables in force are stale"
        );
        take_over(&mut world);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        for switch in world.nodes(NodeKind::Switch) {
            assert!(!world.sim.routes_adaptively(switch).unwrap());
            assert_eq!(blocks_written(&world, switch), blocks_planned(&world));
            let requests = world.requests();
            assert_eq!(requests.of(switch, Method::GET, ArInfo::ID), 1);
            assert_eq!(requests.of(switch, Method::SET, ArInfo::ID), 1);
        }
        take_over(&mut world);
        assert_eq!(world.requests().count(Method::SET), 0, "{writes:?}: once");
    }
}

#[test]
fn a_takeover_that_trusts_tables_shows_adaptive_routing_as_a_finding_until_a_rewrite() {
    let mut world = brought_up(Takeover::Trust);
    route_adaptively(&mut world, LinearWrites::Wait);
    take_over(&mut world);
    assert_eq!(world.requests().count(Method::SET), 0);
    let plan = world.manager().core().plan().expect("planned");
    assert!(!delivers_everywhere(&world, plan));
    let findings = world.manager().findings();
    assert_eq!(
        findings.len(),
        world.nodes(NodeKind::Switch).len(),
        "{findings:?}"
    );
    assert!(findings.iter().all(|(code, _)| *code == "adaptive-routing"));

    world.command(Command::Rewrite { ticket: 7 });
    world.settle(LIMIT);
    assert_eq!(world.manager().done().back(), Some(&7));
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn switch_that_keeps_adaptive_routing_gets_one_set_and_a_finding() {
    let mut world = brought_up(Takeover::Auto);
    route_adaptively(&mut world, LinearWrites::TakeEffect);
    for switch in world.nodes(NodeKind::Switch) {
        world.sim.lock_adaptive_routing(switch).unwrap();
    }
    take_over(&mut world);
    world.run_for(Duration::from_secs(300));
    expect::assert_up(&world);
    for switch in world.nodes(NodeKind::Switch) {
        let requests = world.requests();
        assert_eq!(requests.of(switch, Method::SET, ArInfo::ID), 1);
        assert_eq!(blocks_written(&world, switch), blocks_planned(&world));
        let finding = ("adaptive-routing", switch.to_string());
        assert!(world.manager().findings().contains(&finding));
    }
    let report = OnceReport::of(world.manager().snapshot().expect("it is up"));
    assert!(!report.is_complete(), "{report:?}");
}

/// Tables that are read only after the takeover are rewritten like the other tables.
#[test]
fn a_takeover_under_loss_writes_the_tables_of_adaptive_switches() {
    for seed in 0..10 {
        let settings = Settings {
            seed,
            ..Settings::default()
        };
        let mut world = World::brought_up(SPEC, settings);
        route_adaptively(&mut world, LinearWrites::TakeEffect);
        world.kill(0);
        world.start(0, Memory::Lost);
        world.schedule_loss(Duration::ZERO, Duration::from_secs(5), 0.4);
        world.settle(LIMIT * 5);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
    }
}

#[test]
fn ar_info_is_asked_once_at_a_takeover_of_switches_that_have_it_and_never_at_bring_up() {
    for (spec, asked) in [(SPEC, 1), ("fat-tree:k=4,levels=3,speed=qdr", 0)] {
        let mut world = World::generated(spec, Settings::default());
        world.count_requests();
        world.settle(LIMIT);
        world.run_for(Duration::from_secs(60));
        let bring_up = world.requests();
        assert!(bring_up.nodes(Method::GET, ArInfo::ID).is_empty());
        take_over(&mut world);
        world.run_for(Duration::from_secs(60));
        for switch in world.nodes(NodeKind::Switch) {
            let requests = world.requests();
            assert_eq!(requests.of(switch, Method::GET, ArInfo::ID), asked);
        }
        assert_eq!(world.requests().count(Method::SET), 0);
        expect::assert_no_findings(&world);
    }
}

/// The first manager has written all tables as planned.
#[test]
fn correct_tables_of_another_manager_are_rewritten_only_if_configured() {
    for (takeover, written) in [
        (Takeover::Auto, false),
        (Takeover::Trust, false),
        (Takeover::Rewrite, true),
    ] {
        let mut world = World::brought_up(SPEC, Settings::default());
        world.kill(0);
        let hosts = world.sim.end_ports().filter(|&(_, port)| port.0 != 0);
        let (host, port): (Guid, PortNum) = hosts.last().expect("there are hosts");
        world.count_requests();
        let config = CoreConfig {
            takeover,
            ..CoreConfig::default()
        };
        let other = world.add_manager_with(host, port, config);
        world.settle(LIMIT);
        let plan = world.managers()[other].core().plan().expect("planned");
        let blocks = if written { plan.blocks() as u64 } else { 0 };
        for switch in world.nodes(NodeKind::Switch) {
            assert_eq!(blocks_written(&world, switch), blocks, "{takeover:?}");
        }
        assert!(delivers_everywhere(&world, plan));
        assert_eq!(world.managers()[other].findings(), Vec::new());
    }
}

#[test]
fn requested_rewrite_writes_every_block_once_and_nothing_else() {
    let mut world = World::brought_up(SPEC, Settings::default());
    world.watch();
    world.count_requests();
    world.command(Command::Rewrite { ticket: 1 });
    world.settle(LIMIT);
    assert_eq!(world.manager().done().back(), Some(&1));
    let sets = world.requests().attributes(Method::SET);
    assert_eq!(sets, [LinearForwardingTable::ID].into());
    for switch in world.nodes(NodeKind::Switch) {
        assert_eq!(blocks_written(&world, switch), blocks_planned(&world));
    }
    expect::assert_up(&world);
    world.watched().assert_harmless();
    world.count_requests();
    world.command(Command::Resweep {
        full: true,
        ticket: 2,
    });
    world.settle(LIMIT);
    assert_eq!(
        world.requests().count(Method::SET),
        0,
        "written tables count"
    );
}

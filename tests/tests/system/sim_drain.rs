//! Drained parts: routes avoid them until an operator undrains them, unless hosts would be cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_config::{Isolate, Symptom};
use rsm_ids::{Guid, PortKey};
use rsm_monitor::health::PortErrors;
use rsm_plan::avoid::{Drained, NodeOrCable, Reason};
use rsm_routing::netlist::NodeKind;
use rsm_state::{Command, Role, TablesWritten, Unwritten};
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);

/// A fabric of four leaves with four hosts each, and two spines.
const TREE: &str = "pgft:2;4,4;1,2;1,1";

fn has_hosts(world: &World, switch: Guid) -> bool {
    let hosts = world.nodes(NodeKind::Ca);
    let peers = hosts
        .iter()
        .filter_map(|&host| world.sim.peer(host, rsm_ids::PortNum(1)).ok()?);
    peers.into_iter().any(|peer| peer.0 == switch)
}

fn spines(world: &World) -> Vec<Guid> {
    let switches = world.nodes(NodeKind::Switch).into_iter();
    switches
        .filter(|&switch| !has_hosts(world, switch))
        .collect()
}

/// A leaf other than the leaf of the manager's host.
fn leaf(world: &World) -> Guid {
    let own = world.manager().local(&world.sim).expect("it has a port");
    let own = world
        .sim
        .peer(own.0, own.1)
        .expect("it is there")
        .expect("it is cabled")
        .0;
    let mut leaves = world.nodes(NodeKind::Switch).into_iter();
    leaves
        .find(|&switch| switch != own && has_hosts(world, switch))
        .expect("there are more")
}

/// Requests the drain of these parts, and waits until the subnet is at rest.
fn drain(world: &mut World, parts: &[NodeOrCable], forced: bool, ticket: u64) {
    let reason = Reason::Drained(Drained {
        forced,
        ..Drained::new("alice", ticket)
    });
    let parts: BTreeMap<NodeOrCable, Reason> =
        parts.iter().map(|&part| (part, reason.clone())).collect();
    world.command(Command::Drain {
        parts,
        forced,
        ticket,
    });
    world.settle(LIMIT);
}

/// The number of LIDs at other nodes that the tables route over a part.
fn lids_over(world: &World, part: NodeOrCable) -> usize {
    let plan = world
        .manager()
        .core()
        .plan()
        .expect("the subnet is up")
        .clone();
    let found = plan.lids_over(part, |switch| plan.table(switch));
    found.expect("it is there").over.len()
}

/// The codes of the published findings.
fn codes(world: &World) -> Vec<&'static str> {
    let snapshot = world.manager().snapshot().expect("it is up");
    snapshot
        .findings
        .iter()
        .map(|finding| finding.kind.code())
        .collect()
}

#[test]
fn a_drained_spine_carries_nothing_until_undrained() {
    let mut world = World::brought_up(TREE, Settings::default());
    let spine = NodeOrCable::Node(spines(&world)[0]);
    let before = world
        .manager()
        .core()
        .plan()
        .expect("it is up")
        .routing
        .tables
        .clone();
    assert!(lids_over(&world, spine) > 0);
    world.watch();
    drain(&mut world, &[spine], false, 7);
    assert_eq!(world.manager().done(), &[7]);
    assert_eq!(lids_over(&world, spine), 0);
    assert_eq!(codes(&world), ["drained"]);
    expect::assert_up(&world);
    world.watched().assert_harmless();
    let parts = BTreeSet::from([spine]);
    world.command(Command::Undrain { parts, ticket: 8 });
    world.settle(LIMIT);
    assert_eq!(world.manager().done(), &[7, 8]);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    assert_eq!(
        world
            .manager()
            .core()
            .plan()
            .expect("it is up")
            .routing
            .tables,
        before
    );
}

#[test]
fn unplugging_a_drained_spine_loses_no_packet_between_hosts() {
    let mut world = World::brought_up(TREE, Settings::default());
    let spine = spines(&world)[0];
    drain(&mut world, &[NodeOrCable::Node(spine)], false, 1);
    let tables = world.manager().core().plan().expect("it is up").clone();
    world.sim.power_off(spine).expect("it is there");
    world.run_for(LIMIT);
    world.settle(LIMIT);
    let plan = world.manager().core().plan().expect("it is up").clone();
    assert_eq!(plan.report.unreachable_pairs, 0);
    let hosts = world.nodes(NodeKind::Ca).into_iter();
    let keys = hosts.map(|guid| PortKey::new(guid, rsm_ids::PortNum(1)));
    let lids: Vec<_> = keys
        .filter_map(|key| plan.claim(key))
        .map(|claim| claim.base)
        .collect();
    for switch in world
        .nodes(NodeKind::Switch)
        .into_iter()
        .filter(|&guid| guid != spine)
    {
        for &lid in &lids {
            let port = |plan: &rsm_plan::Plan| plan.table(switch).and_then(|table| table.port(lid));
            assert_eq!(port(&plan), port(&tables), "{lid} at {switch} moved");
        }
    }
    // The spine comes back drained.
    world.sim.power_on(spine).expect("it is there");
    world.run_for(LIMIT);
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, NodeOrCable::Node(spine)), 0);
    assert_eq!(codes(&world), ["drained"]);
}

#[test]
fn a_drain_that_cuts_hosts_off_is_declined_unless_forced() {
    let mut world = World::brought_up(TREE, Settings::default());
    let leaf = NodeOrCable::Node(leaf(&world));
    let spine = NodeOrCable::Node(spines(&world)[0]);
    drain(&mut world, &[leaf, spine], false, 1);
    let [(1, reason)] = world.manager().declined() else {
        panic!("{:?}", world.manager().declined());
    };
    assert!(reason.contains("4 nodes would be cut off"), "{reason}");
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    // Everything stays as it was: the tables are those of the plan in force.
    let snapshot = world.manager().snapshot().expect("it is up");
    let last = snapshot.history.last().expect("there was a pass");
    assert_eq!(last.tables, TablesWritten::AllBut(BTreeSet::new()));
    assert_eq!(last.unwritten, Unwritten::default());
    drain(&mut world, &[leaf], true, 2);
    assert_eq!(world.manager().done(), &[2]);
    assert_eq!(lids_over(&world, leaf), 4, "its hosts stay reachable");
    expect::assert_up(&world);
}

#[test]
fn drains_survive_a_restart() {
    let mut world = World::brought_up(TREE, Settings::default());
    let spine = NodeOrCable::Node(spines(&world)[1]);
    drain(&mut world, &[spine], false, 1);
    world.kill(0);
    world.start(0, Memory::Kept);
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, spine), 0);
    assert_eq!(codes(&world), ["drained"]);
}

#[test]
fn a_drained_spine_is_used_again_while_the_other_spine_is_dead() {
    let mut world = World::brought_up(TREE, Settings::default());
    let [drained, other] = spines(&world)[..] else {
        panic!("two spines");
    };
    drain(&mut world, &[NodeOrCable::Node(drained)], false, 1);
    world.sim.power_off(other).expect("it is there");
    world.run_for(LIMIT);
    world.settle(LIMIT);
    let plan = world.manager().core().plan().expect("it is up");
    assert_eq!(plan.report.unreachable_pairs, 0);
    assert!(lids_over(&world, NodeOrCable::Node(drained)) > 0);
    assert!(
        codes(&world).contains(&"drained-in-use"),
        "{:?}",
        codes(&world)
    );
    world.sim.power_on(other).expect("it is there");
    world.run_for(LIMIT);
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, NodeOrCable::Node(drained)), 0);
    assert_eq!(codes(&world), ["drained"]);
}

#[test]
fn unhealthy_cables_are_avoided_unless_that_cuts_hosts_off() {
    let mut settings = Settings::default();
    settings.core.health.isolate = Isolate::On;
    let quiet = settings.core.health.quiet;
    let mut world = World::brought_up(TREE, settings);
    let leaf = leaf(&world);
    let ports = (1..=world.sim.num_ports(leaf).expect("it is there")).map(rsm_ids::PortNum);
    let is_up = |port: &rsm_ids::PortNum| {
        let peer = world.sim.peer(leaf, *port).expect("it is there");
        peer.is_some_and(|peer| spines(&world).contains(&peer.0))
    };
    let ups: Vec<NodeOrCable> = ports
        .filter(is_up)
        .map(|port| NodeOrCable::Port(PortKey::new(leaf, port)))
        .collect();
    let [one, other] = ups[..] else {
        panic!("two cables up");
    };
    let mut total = 0;
    let mut report_errors = |world: &mut World, parts: &[NodeOrCable]| {
        total += 1;
        let errors = parts.iter().map(|part| {
            let mut errors = PortErrors {
                total,
                ..PortErrors::default()
            };
            errors.per_hour[Symptom::SymbolErrors as usize] = 1000.0;
            (part.key(), errors)
        });
        world.port_errors(errors.collect());
    };
    report_errors(&mut world, &[one]);
    world.settle(LIMIT);
    assert_eq!(lids_over(&world, one), 0);
    assert_eq!(codes(&world), ["link-errors"]);
    report_errors(&mut world, &[one, other]);
    world.settle(LIMIT);
    expect::assert_up(&world);
    let both = ["link-errors", "link-errors", "drained-in-use"];
    assert_eq!(codes(&world), both);
    report_errors(&mut world, &[]);
    world.settle(LIMIT);
    assert_eq!(codes(&world), both, "quiet takes its time");
    world.run_for(quiet);
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    assert!(lids_over(&world, one) > 0);
}

#[test]
fn a_drain_and_a_later_fault_process_only_what_changes() {
    use rsm_model::whole::Step;

    let mut world = World::brought_up("fat-tree:k=6,levels=3", Settings::default());
    let top = *spines(&world).last().expect("there are switches above");
    let before = world.manager().convergences().len();
    drain(&mut world, &[NodeOrCable::Node(top)], false, 1);
    assert_eq!(world.manager().done(), &[1]);
    let leaf = leaf(&world);
    let ports = (1..=world.sim.num_ports(leaf).expect("it is there")).map(rsm_ids::PortNum);
    let above = spines(&world);
    let mut ups = ports.filter(|&port| {
        let peer = world.sim.peer(leaf, port).expect("it is there");
        peer.is_some_and(|peer| above.contains(&peer.0))
    });
    let up = ups.next_back().expect("it has links up");
    world.sim.unlink(leaf, up).expect("it is cabled");
    world.settle(LIMIT);
    world.sim.relink(leaf, up).expect("it was cabled");
    world.settle(LIMIT);
    let since = &world.manager().convergences()[before..];
    let whole = since.iter().flat_map(|one| one.whole.iter());
    let whole: Vec<_> = whole.filter(|whole| whole.step != Step::Paths).collect();
    assert_eq!(whole, Vec::<&rsm_model::whole::Whole>::new());
    assert_eq!(lids_over(&world, NodeOrCable::Node(top)), 0);
}

#[test]
fn a_manager_that_starts_while_the_store_is_away_keeps_the_drains_of_the_store() {
    let mut world = World::shared("fat-tree:k=4,levels=2", false, LIMIT);
    let spine = NodeOrCable::Node(spines(&world)[0]);
    drain(&mut world, &[spine], false, 7);
    world.run_for(Duration::from_secs(1));
    let drained = |world: &World| world.stored().avoid.drained().count();
    assert_eq!(drained(&world), 1);
    world.set_store_away(true);
    world.kill(0);
    world.kill(1);
    world.start(1, Memory::Lost);
    world.run_for(LIMIT);
    assert_eq!(*world.managers()[1].core().role(), Role::Master);
    world.set_store_away(false);
    world.run_for(LIMIT);
    let findings = world.managers()[1].findings();
    assert!(findings.iter().any(|(code, _)| *code == "drained"));
}

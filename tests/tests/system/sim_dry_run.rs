//! A dry run lists the Sets of a takeover, and sends none.

use std::time::Duration;

use rsm_core::{CoreConfig, Mode};
use rsm_hardware::push::{Foreseen, Task};
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable, SmState};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_plan::policy::Policy;
use rsm_routing::generate::generate;
use rsm_routing::netlist::NodeKind;
use rsm_tests::virtual_time::{ForeignManager, Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);
const TREE: &str = "fat-tree:k=4,levels=2";

fn dry_run_config() -> CoreConfig {
    CoreConfig {
        mode: Mode::DryRun,
        ..CoreConfig::default()
    }
}

/// Makes a dry run at the last host. Returns the Sets that it lists.
fn dry_run(world: &mut World) -> Vec<Foreseen> {
    let host = *world.nodes(NodeKind::Ca).last().expect("there are hosts");
    let index = world.add_manager_with(host, PortNum(1), dry_run_config());
    world.run_for(Duration::from_secs(1));
    let manager = &world.managers()[index];
    assert_eq!(manager.sets(), 0);
    let sets = manager.foreseen().expect("it has planned").to_vec();
    world.kill(index);
    sets
}

fn count(sets: &[Foreseen], matches: impl Fn(Task) -> bool) -> u64 {
    sets.iter().filter(|set| matches(set.order.task)).count() as u64
}

#[test]
fn on_a_fresh_fabric_a_dry_run_lists_what_a_manager_sets_and_sets_nothing() {
    let netlist = generate(TREE).unwrap();
    let settings = Settings {
        core: dry_run_config(),
        ..Settings::default()
    };
    let mut world = World::generated(TREE, settings);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.sim.counters().sets(), 0);
    let listed = world.manager().foreseen().expect("it has planned").to_vec();

    let mut managed = World::new(&netlist, Settings::default());
    let (host, port) = rsm_tests::virtual_time::first_host(&netlist);
    managed.add_manager(host, port);
    managed.settle(LIMIT);
    expect::assert_up(&managed);
    let sets = expect::sets(&managed.sim.counters());
    let blocks = count(&listed, |task| matches!(task, Task::Block { .. }));
    assert_eq!(Some(&blocks), sets.get(&LinearForwardingTable::ID));
    let total: u64 = sets.values().sum();
    assert_eq!(listed.len() as u64, total, "{sets:?}");
}

#[test]
fn beside_a_master_whose_tables_are_as_planned_a_dry_run_lists_nothing() {
    let mut world = World::brought_up(TREE, Settings::default());
    let before = world.manager().convergences().len();
    let sets = world.sim.counters().sets();
    assert!(dry_run(&mut world).is_empty());
    assert_eq!(world.sim.counters().sets(), sets);
    assert_eq!(
        world.manager().convergences().len(),
        before,
        "the master has nothing to do for it"
    );
}

#[test]
fn an_entry_changed_by_hand_is_the_only_set_listed() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = *world.nodes(NodeKind::Switch).last().unwrap();
    let host = world.nodes(NodeKind::Ca)[1];
    let lid = world.sim.port_info(host, PortNum(1)).unwrap().lid();
    let before = world.sim.lft(switch).unwrap().to_vec();
    let mut broken = [255; 64];
    broken.copy_from_slice(&before[..64]);
    broken[lid.index()] = 255;
    write_block(&mut world, host, switch, broken);

    let sets = dry_run(&mut world);
    assert_eq!(sets.len(), 1, "{sets:?}");
    let set = &sets[0];
    assert!(
        matches!(set.order.task, Task::Block { switch: written, block: 0, .. } if written == switch)
    );
    assert_eq!(set.before, Some(broken));
    assert_eq!(set.after[..], before[..64]);
}

/// Sets block 0 of a switch's forwarding table from a host, as an operator would do by hand.
fn write_block(world: &mut World, host: Guid, switch: Guid, entries: [u8; 64]) {
    let lid: Lid = world.sim.port_info(switch, PortNum::ZERO).unwrap().lid();
    let operator = ForeignManager::new(host, 0, SmState::NotActive);
    let operator = world.add_foreign(host, PortNum(1), operator);
    let smp = Smp::lid_routed(&SmpRequest {
        method: Method::SET,
        attribute: LinearForwardingTable::ID,
        modifier: 0,
        tid: Tid(7),
        m_key: 0,
        data: entries,
    });
    let set = Datagram {
        mad: *smp.as_bytes(),
        remote: RemoteAddress::smi(lid),
    };
    world.send_from(operator, &set);
    world.run_for(Duration::from_millis(1));
    world.remove_foreign(operator);
    assert_eq!(world.sim.lft(switch).unwrap()[..64], entries);
}

/// The kinds and subjects of the findings of a manager.
fn findings(world: &World, index: usize) -> Vec<(String, String)> {
    let snapshot = world.managers()[index].snapshot().expect("it has planned");
    let findings = snapshot.findings.iter();
    let mut named: Vec<_> = findings
        .map(|finding| (finding.kind.code().to_owned(), finding.subject.to_string()))
        .collect();
    named.sort();
    named
}

#[test]
fn a_dry_run_shows_the_findings_of_a_start() {
    let mut world = World::brought_up(TREE, Settings::default());
    let fewer_vls = |mode| {
        let mut policy = Policy::default();
        policy.ports.links.max_op_vls = 1;
        CoreConfig {
            mode,
            ..Settings::of(policy).core
        }
    };
    let host = *world.nodes(NodeKind::Ca).last().expect("there are hosts");
    let dry = world.add_manager_with(host, PortNum(1), fewer_vls(Mode::DryRun));
    world.run_for(Duration::from_secs(1));
    let foreseen = findings(&world, dry);
    world.kill(dry);
    world.kill(0);
    let other = world.nodes(NodeKind::Ca)[1];
    let started = world.add_manager_with(other, PortNum(1), fewer_vls(Mode::Manage));
    world.settle(LIMIT);
    assert_eq!(foreseen, findings(&world, started));
    let mismatch = |(kind, _): &(String, String)| kind == "link-mismatch";
    assert!(foreseen.iter().any(mismatch), "{foreseen:?}");
}

#[test]
fn a_dry_run_at_another_port_counts_the_ports_that_get_a_new_master_lid() {
    let mut world = World::brought_up(TREE, Settings::default());
    let host = *world.nodes(NodeKind::Ca).last().expect("there are hosts");
    let index = world.add_manager_with(host, PortNum(1), dry_run_config());
    world.run_for(Duration::from_secs(1));
    let manager = &world.managers()[index];
    assert_eq!(manager.foreseen().map(<[Foreseen]>::len), Some(0));
    let handover = manager.core().handover().expect("it has planned");
    world.kill(index);
    world.kill(0);
    let before = world.sim.counters().sets();
    // A manager at a third port makes as many ports get a new master LID.
    let other = world.nodes(NodeKind::Ca)[1];
    world.add_manager(other, PortNum(1));
    world.settle(LIMIT);
    let sent = world.sim.counters().sets() - before;
    assert_eq!(handover.new_master_lids.len() as u64, sent);
    // Every host supports ClientReregister; switches do not.
    assert!(handover.reregistered.len() >= world.nodes(NodeKind::Ca).len());
}

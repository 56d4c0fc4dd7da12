//! Planar fabrics, where no SMP arrives by LID: directed routes repress traps, or nothing does, and
//! faults are found without traps.

use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::header::Method;
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Devices, Personality};
use rsm_tests::virtual_time::{Settings, World, expect, seeds};

use crate::sim_seeds::{
    Family, MassFaults, SEEDS, SINGLE_FAULTS, change_own_host, planar, run_with,
};

const TREE: &str = "fat-tree:k=4,levels=2";
const MINUTE: Duration = Duration::from_secs(60);

/// The number of seeds of each family in the suite.
const SEEDS_IN_SUITE: u64 = 500;

/// A fabric that a manager has brought up whose own host takes SMPs by LID, so that traps arrive.
fn brought_up_with_traps(settings: Settings) -> World {
    let mut world = World::generated(TREE, settings);
    change_own_host(&mut world, Personality::POLITE);
    world.bring_up();
    world
}

fn settings(devices: &str) -> Settings {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::parse(devices).unwrap();
    settings
}

/// The first cable of a switch to another switch, by the first switch's end.
fn trunk(world: &World) -> (Guid, PortNum) {
    let switches = world.nodes(NodeKind::Switch);
    let mut ports = (1..=world.sim.num_ports(switches[0]).unwrap()).map(PortNum);
    let is_trunk = |port: &PortNum| {
        let peer = world.sim.peer(switches[0], *port).unwrap();
        peer.is_some_and(|(peer, _)| switches.contains(&peer))
    };
    let port = ports.find(is_trunk).expect("it has cables");
    (switches[0], port)
}

/// Makes each host, and both ends of a cable between switches, send a trap or two. Returns the
/// number of traps.
fn cause_traps(world: &mut World) -> u64 {
    let hosts = world.nodes(NodeKind::Ca);
    for &host in &hosts {
        world.sim.set_description(host, b"renamed").unwrap();
    }
    let (switch, port) = trunk(world);
    world.sim.unlink(switch, port).unwrap();
    world.run_for(Duration::from_secs(20));
    world.sim.relink(switch, port).unwrap();
    world.run_for(Duration::from_secs(20));
    hosts.len() as u64 + 4
}

#[test]
fn traps_of_planar_devices_end_at_a_trap_repress_by_directed_route() {
    let mut world = brought_up_with_traps(settings("directed-only"));
    let before = world.sim.counters().traps;
    let caused = cause_traps(&mut world);
    world.run_for(MINUTE);
    let sent = world.sim.counters().traps - before;
    // The first TrapRepress may go by LID, and is lost. Without any, each trap is sent 21 times.
    assert!((4..=2 * caused).contains(&sent), "{sent} of {caused}");
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

/// An agent sends a trap at most five times a second (IBA 13.4.9).
#[test]
fn endless_traps_of_planar_devices_are_no_storm_and_cost_few_gets() {
    let mut settings = settings("directed-only+deaf-to-repress");
    settings.sim.trap_interval = Duration::from_millis(200);
    settings.sim.trap_repeats = u16::MAX;
    settings.core.health.disables_babbling = true;
    let mut world = brought_up_with_traps(settings);
    let gets_in_a_minute = |world: &mut World| {
        world.count_requests();
        world.run_for(MINUTE);
        world.requests().count(Method::GET)
    };
    let quiet = gets_in_a_minute(&mut world);
    cause_traps(&mut world);
    world.run_for(10 * MINUTE);
    let traps = world.sim.counters().traps;
    let noisy = gets_in_a_minute(&mut world);
    let traps = world.sim.counters().traps - traps;
    assert!(traps > 2000, "{traps}");
    // A trap of a source counts once in five seconds: it makes rsm read a port, or a switch.
    assert!(
        noisy < quiet + traps / 4,
        "{noisy} after {quiet}, {traps} traps"
    );
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

/// Runs a family of seeds where no SMP arrives by LID; in every second seed, those to the manager's
/// own host arrive, so that it gets traps.
fn run_planar(test: &str, mass_faults: MassFaults) {
    let test = format!("--test system sim_planar::{test}");
    seeds::run(
        &test,
        seeds::number(SEEDS).unwrap_or(SEEDS_IN_SUITE),
        |seed| {
            let family = Family {
                devices: planar(),
                own_host: (seed % 4 < 2).then_some(Personality::POLITE),
                mass_faults,
                ..SINGLE_FAULTS
            };
            run_with(seed, family);
        },
    );
}

#[test]
fn random_faults_where_no_smp_by_lid_arrives_converge() {
    let test = "random_faults_where_no_smp_by_lid_arrives_converge";
    run_planar(test, MassFaults::None);
}

#[test]
fn mass_faults_where_no_smp_by_lid_arrives_converge_within_the_bound() {
    let test = "mass_faults_where_no_smp_by_lid_arrives_converge_within_the_bound";
    run_planar(test, MassFaults::Some);
}

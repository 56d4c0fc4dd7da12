//! Duplicate GUIDs: the host that had the GUID first keeps it, and loses no packet to the other
//! host, which is served as soon as either host has another GUID or has gone.

use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Probe, ReportedGuids, Silence};
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

/// A fabric of two leaf switches with four hosts each, and two spines. The manager is at the first
/// host.
const FABRIC: &str = "pgft:2;4,2;1,2;1,1";

const LIMIT: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(2);
const PORT_1: PortNum = PortNum(1);

/// A time longer than the interval of light sweeps.
const LIGHT_SWEEP: Duration = Duration::from_secs(12);

/// The indices of hosts at the first leaf switch, at its second and fourth port.
const LOW_PORT_HOST: usize = 1;
const HIGH_PORT_HOST: usize = 3;

/// The index of a host at the other leaf switch.
const FAR_HOST: usize = 6;

struct Fabric {
    world: World,
    hosts: Vec<Guid>,
    /// The GUIDs that each host originally has.
    own: Vec<ReportedGuids>,
}

impl Fabric {
    fn up() -> Fabric {
        Fabric::of(World::brought_up(FABRIC, Settings::default()))
    }

    fn of(world: World) -> Fabric {
        let hosts = world.nodes(NodeKind::Ca);
        let own = hosts.iter().map(|&host| world.sim.reported_guids(host));
        Fabric {
            own: own.map(|guids| guids.expect("it is there")).collect(),
            hosts,
            world,
        }
    }

    /// Boots a host at once, with these GUIDs.
    fn boot_as(&mut self, host: usize, guids: ReportedGuids) {
        let node = self.hosts[host];
        self.world.sim.power_off(node).expect("it is there");
        let sim = &mut self.world.sim;
        sim.set_reported_guids(node, guids).expect("it is there");
        self.world.sim.power_on(node).expect("it is there");
    }

    fn boot_as_itself(&mut self, host: usize) {
        self.boot_as(host, self.own[host]);
    }

    fn power_off(&mut self, host: usize) {
        self.world
            .sim
            .power_off(self.hosts[host])
            .expect("it is there");
    }

    fn power_on(&mut self, host: usize) {
        self.world
            .sim
            .power_on(self.hosts[host])
            .expect("it is there");
    }

    fn lid(&self, host: usize) -> Lid {
        let info = self.world.sim.port_info(self.hosts[host], PORT_1);
        info.expect("it is there").lid()
    }

    /// Whether packets to `lid` from the manager's host and from a host at the other leaf switch
    /// reach the host.
    fn is_served(&self, host: usize, lid: Lid) -> bool {
        [0, 7].into_iter().all(|from| {
            let probe = self.world.sim.probe((self.hosts[from], PORT_1), lid, 0);
            let node = self.hosts[host];
            matches!(probe, Ok(Probe::Delivered { node: at, .. }) if at == node)
        })
    }

    /// Runs for `duration`, and asserts that packets reach the host all the time: at each [`STEP`]
    /// of the first second, and at each hundredth step afterwards.
    fn stays_served(&mut self, host: usize, duration: Duration) {
        let lid = self.lid(host);
        let end = self.world.now() + duration;
        let end_of_fine_steps = self.world.now() + SECOND;
        while self.world.now() < end {
            assert!(
                self.is_served(host, lid),
                "packets to {host} are lost at {:?}: {:?}",
                self.world.now(),
                self.findings()
            );
            let is_fine = self.world.now() < end_of_fine_steps;
            self.world.run_for(if is_fine { STEP } else { STEP * 100 });
        }
        assert_eq!(self.lid(host), lid);
    }

    /// Asserts that packets reach the host by `lid` within `limit`.
    fn is_served_within(&mut self, host: usize, lid: Lid, limit: Duration) {
        let end = self.world.now() + limit;
        while !(self.lid(host) == lid && self.is_served(host, lid)) {
            assert!(
                self.world.now() < end,
                "{host} is not served after {limit:?}: {:?}",
                self.findings()
            );
            self.world.run_for(STEP);
        }
    }

    fn findings(&self) -> Vec<(&'static str, String)> {
        self.world.manager().findings()
    }

    /// The code and the subject of the finding that the host is a duplicate.
    fn left_out(&self, host: usize) -> (&'static str, String) {
        let peer = self.world.sim.peer(self.hosts[host], PORT_1);
        let (leaf, port) = peer.expect("it is there").expect("it has a cable");
        ("duplicate-guid", format!("{leaf}:{port}"))
    }

    /// Asserts that the first host is served and `others` are left out, also after full sweeps.
    fn assert_first_stays(&mut self, first: usize, others: &[usize]) {
        self.stays_served(first, LIGHT_SWEEP);
        for full in [false, true] {
            self.world.command(Command::Resweep { full, ticket: 1 });
            self.stays_served(first, LIGHT_SWEEP);
        }
        self.assert_left_out(others);
    }

    /// Asserts that exactly `others` are reported as duplicates, and that the other nodes are up.
    fn assert_left_out(&mut self, others: &[usize]) {
        self.world.settle(LIMIT);
        let mut duplicates = self.findings();
        duplicates.retain(|(code, _)| *code == "duplicate-guid");
        let mut expected: Vec<_> = others.iter().map(|&host| self.left_out(host)).collect();
        expected.sort();
        assert_eq!(duplicates, expected);
        let without: Vec<Guid> = others.iter().map(|&host| self.hosts[host]).collect();
        expect::assert_up_without(&self.world, &without);
        self.world.watched().assert_harmless();
    }

    /// Asserts that the whole subnet is up without a finding, and that no harmful state was on the
    /// wire.
    fn assert_all_up(&mut self) {
        self.world.settle(LIMIT);
        expect::assert_up(&self.world);
        expect::assert_no_findings(&self.world);
        self.world.watched().assert_harmless();
    }
}

/// Boots `newcomer` with the GUIDs of `first`, then with its own GUIDs again.
fn first_stays(first: usize, newcomer: usize) {
    let mut fabric = Fabric::up();
    let own_lid = fabric.lid(newcomer);
    fabric.boot_as(newcomer, fabric.own[first]);
    fabric.assert_first_stays(first, &[newcomer]);
    fabric.boot_as_itself(newcomer);
    fabric.is_served_within(newcomer, own_lid, SECOND);
    fabric.stays_served(first, SECOND);
    fabric.assert_all_up();
}

#[test]
fn a_duplicate_at_a_lower_port_leaves_the_first_host_served() {
    first_stays(HIGH_PORT_HOST, LOW_PORT_HOST);
}

#[test]
fn a_duplicate_at_a_higher_port_leaves_the_first_host_served() {
    first_stays(LOW_PORT_HOST, HIGH_PORT_HOST);
}

#[test]
fn a_duplicate_nearer_to_the_manager_leaves_the_first_host_served() {
    first_stays(FAR_HOST, LOW_PORT_HOST);
}

#[test]
fn a_duplicate_with_another_system_image_leaves_the_first_host_served() {
    let mut fabric = Fabric::up();
    let clone = ReportedGuids {
        system_image: fabric.own[LOW_PORT_HOST].system_image,
        ..fabric.own[HIGH_PORT_HOST]
    };
    fabric.boot_as(LOW_PORT_HOST, clone);
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
}

#[test]
fn a_duplicate_port_guid_alone_leaves_the_first_host_served() {
    let mut fabric = Fabric::up();
    let clone = ReportedGuids {
        port: fabric.own[HIGH_PORT_HOST].port,
        ..fabric.own[LOW_PORT_HOST]
    };
    fabric.boot_as(LOW_PORT_HOST, clone);
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
    fabric.boot_as_itself(LOW_PORT_HOST);
    fabric.assert_all_up();
}

#[test]
fn a_duplicate_node_guid_alone_leaves_the_first_host_served() {
    let mut fabric = Fabric::up();
    let clone = ReportedGuids {
        node: fabric.own[HIGH_PORT_HOST].node,
        ..fabric.own[LOW_PORT_HOST]
    };
    fabric.boot_as(LOW_PORT_HOST, clone);
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
    fabric.boot_as_itself(LOW_PORT_HOST);
    fabric.assert_all_up();
}

#[test]
fn three_duplicates_at_one_instant_leave_the_first_host_served() {
    let mut fabric = Fabric::up();
    for newcomer in [LOW_PORT_HOST, 2, 5] {
        fabric.boot_as(newcomer, fabric.own[HIGH_PORT_HOST]);
    }
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST, 2, 5]);
    for newcomer in [LOW_PORT_HOST, 2, 5] {
        fabric.boot_as_itself(newcomer);
    }
    fabric.assert_all_up();
}

/// Two hosts boot together with one new GUID: either may be served, and the other is served as soon
/// as the first host has gone or has another GUID.
#[test]
fn a_duplicate_is_served_once_the_first_is_unplugged_or_corrected() {
    for is_unplugged in [true, false] {
        let mut fabric = Fabric::up();
        let twins = ReportedGuids::all(Guid(0x1234_5678));
        fabric.boot_as(LOW_PORT_HOST, twins);
        fabric.boot_as(FAR_HOST, twins);
        fabric.world.run_for(SECOND);
        let [first, second] = match fabric.lid(LOW_PORT_HOST).is_unicast() {
            true => [LOW_PORT_HOST, FAR_HOST],
            false => [FAR_HOST, LOW_PORT_HOST],
        };
        let lid = fabric.lid(first);
        fabric.assert_left_out(&[second]);
        match is_unplugged {
            true => fabric
                .world
                .sim
                .unlink(fabric.hosts[first], PORT_1)
                .unwrap(),
            false => fabric.boot_as_itself(first),
        }
        fabric.is_served_within(second, lid, SECOND);
        fabric.world.settle(LIMIT);
        let findings = fabric.findings();
        let is_left = |(code, _): &(&str, String)| *code == "duplicate-guid";
        assert!(!findings.iter().any(is_left), "{findings:?}");
    }
}

/// The device changes its GUID without a trap: the next light sweep finds it.
#[test]
fn a_host_whose_guid_is_corrected_without_a_trap_is_served_after_a_light_sweep() {
    let mut fabric = Fabric::up();
    let own_lid = fabric.lid(LOW_PORT_HOST);
    fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
    fabric.stays_served(HIGH_PORT_HOST, LIGHT_SWEEP);
    let node = fabric.hosts[LOW_PORT_HOST];
    let own = fabric.own[LOW_PORT_HOST];
    fabric.world.sim.set_reported_guids(node, own).unwrap();
    fabric.is_served_within(LOW_PORT_HOST, own_lid, LIGHT_SWEEP);
    fabric.assert_all_up();
}

/// The duplicate may be served while the first host reboots; afterwards the first host is served.
#[test]
fn a_host_that_reboots_beside_its_duplicate_is_served_again() {
    let mut fabric = Fabric::up();
    let lid = fabric.lid(HIGH_PORT_HOST);
    fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
    fabric.power_off(HIGH_PORT_HOST);
    fabric.world.run_for(300 * SECOND);
    fabric.power_on(HIGH_PORT_HOST);
    fabric.is_served_within(HIGH_PORT_HOST, lid, SECOND);
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
}

#[test]
fn a_host_is_served_again_although_its_duplicate_came_up_while_it_rebooted() {
    for port_guid_alone in [false, true] {
        let mut fabric = Fabric::up();
        let lid = fabric.lid(HIGH_PORT_HOST);
        fabric.power_off(HIGH_PORT_HOST);
        fabric.world.run_for(20 * SECOND);
        let port = fabric.own[HIGH_PORT_HOST].port;
        let clone = match port_guid_alone {
            true => ReportedGuids {
                port,
                ..fabric.own[LOW_PORT_HOST]
            },
            false => fabric.own[HIGH_PORT_HOST],
        };
        fabric.boot_as(LOW_PORT_HOST, clone);
        fabric.world.run_for(300 * SECOND);
        fabric.power_on(HIGH_PORT_HOST);
        fabric.is_served_within(HIGH_PORT_HOST, lid, SECOND);
        fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
    }
}

/// A host that left a port long ago has no claim: the host that works elsewhere counts as the
/// first.
#[test]
fn a_host_that_was_moved_long_ago_keeps_its_guid() {
    let mut fabric = Fabric::up();
    let lid = fabric.lid(HIGH_PORT_HOST);
    fabric.power_off(HIGH_PORT_HOST);
    fabric.world.run_for(SECOND);
    fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
    fabric.is_served_within(LOW_PORT_HOST, lid, SECOND);
    fabric.world.run_for(25 * 3600 * SECOND);
    fabric.power_on(HIGH_PORT_HOST);
    fabric.assert_first_stays(LOW_PORT_HOST, &[HIGH_PORT_HOST]);
}

/// An adapter that was moved is no duplicate of itself, at the same switch or at another switch.
#[test]
fn a_host_whose_adapter_was_moved_is_served_at_once() {
    for place in [LOW_PORT_HOST, 2, 4, FAR_HOST] {
        let mut fabric = Fabric::up();
        let lid = fabric.lid(HIGH_PORT_HOST);
        fabric.power_off(place);
        fabric.world.settle(LIMIT);
        let from = (fabric.hosts[HIGH_PORT_HOST], PORT_1);
        let to = (fabric.hosts[place], PORT_1);
        fabric.world.sim.swap_cables(from, to).unwrap();
        fabric.is_served_within(HIGH_PORT_HOST, lid, SECOND / 2);
        fabric.power_on(place);
        fabric.world.settle(LIMIT);
        expect::assert_up(&fabric.world);
        // The only finding says that the two hosts have exchanged their places.
        let findings = fabric.world.manager().findings();
        let codes: Vec<&str> = findings.iter().map(|(code, _)| code.as_ref()).collect();
        assert_eq!(codes, ["cables-exchanged"], "{findings:?}");
        fabric.world.watched().assert_harmless();
    }
}

#[test]
fn the_first_host_stays_after_a_restart_of_the_manager() {
    for (memory, newcomer) in [
        (Memory::Kept, LOW_PORT_HOST),
        (Memory::Lost, LOW_PORT_HOST),
        (Memory::Kept, FAR_HOST),
        (Memory::Lost, FAR_HOST),
    ] {
        let mut fabric = Fabric::up();
        fabric.world.kill(0);
        fabric.boot_as(newcomer, fabric.own[HIGH_PORT_HOST]);
        fabric.stays_served(HIGH_PORT_HOST, SECOND);
        fabric.world.start(0, memory);
        fabric.assert_first_stays(HIGH_PORT_HOST, &[newcomer]);
    }
}

/// The link of the first host was down while no manager ran: the stored cabling shows where the
/// host was.
#[test]
fn the_first_host_stays_after_a_restart_of_the_manager_and_of_the_host() {
    let mut fabric = Fabric::up();
    let lid = fabric.lid(HIGH_PORT_HOST);
    fabric.world.kill(0);
    fabric.power_off(HIGH_PORT_HOST);
    fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
    fabric.world.run_for(SECOND);
    fabric.power_on(HIGH_PORT_HOST);
    fabric.world.run_for(SECOND);
    fabric.world.start(0, Memory::Kept);
    fabric.is_served_within(HIGH_PORT_HOST, lid, 5 * SECOND);
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
}

#[test]
fn a_duplicate_of_the_managers_own_host_is_left_out() {
    for newcomer in [LOW_PORT_HOST, FAR_HOST] {
        let mut fabric = Fabric::up();
        fabric.boot_as(newcomer, fabric.own[0]);
        fabric.assert_first_stays(HIGH_PORT_HOST, &[newcomer]);
        fabric.boot_as_itself(newcomer);
        fabric.assert_all_up();
    }
}

#[test]
fn a_duplicate_switch_leaves_the_first_switch_in_use() {
    let mut fabric = Fabric::up();
    let spines: Vec<Guid> = fabric.world.nodes(NodeKind::Switch).split_off(2);
    let [first, second] = [spines[0], spines[1]];
    for (first, second) in [(first, second), (second, first)] {
        let sim = &mut fabric.world.sim;
        let own = sim.reported_guids(second).unwrap();
        let clone = sim.reported_guids(first).unwrap();
        sim.power_off(second).unwrap();
        fabric.world.settle(LIMIT);
        fabric.world.sim.set_reported_guids(second, clone).unwrap();
        fabric.world.sim.power_on(second).unwrap();
        fabric.stays_served(FAR_HOST, 3 * LIGHT_SWEEP);
        expect::assert_up_without(&fabric.world, &[second]);
        let codes: Vec<&str> = fabric.findings().iter().map(|(code, _)| *code).collect();
        assert!(codes.contains(&"duplicate-guid"), "{codes:?}");
        fabric.world.sim.power_off(second).unwrap();
        fabric.world.sim.set_reported_guids(second, own).unwrap();
        fabric.world.sim.power_on(second).unwrap();
        fabric.world.run_for(LIGHT_SWEEP);
        fabric.assert_all_up();
    }
}

/// The agent of the first host hangs, its link does not: it keeps receiving its packets.
#[test]
fn a_hung_host_keeps_its_guid_beside_a_duplicate() {
    let mut fabric = Fabric::up();
    let first = fabric.hosts[HIGH_PORT_HOST];
    fabric
        .world
        .sim
        .set_silence(first, Silence::Everything)
        .unwrap();
    fabric.world.run_for(SECOND);
    fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
    fabric.stays_served(HIGH_PORT_HOST, 3 * LIGHT_SWEEP);
    fabric.world.sim.set_silence(first, Silence::None).unwrap();
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST]);
}

/// A tenant makes itself a duplicate repeatedly, with other GUIDs in between.
#[test]
fn a_host_that_takes_a_guid_repeatedly_costs_the_first_host_no_packet() {
    let mut fabric = Fabric::up();
    let lid = fabric.lid(HIGH_PORT_HOST);
    let gets = fabric.world.manager().gets();
    for round in 0..200 {
        let guids = match round % 2 {
            0 => fabric.own[HIGH_PORT_HOST],
            _ => fabric.own[LOW_PORT_HOST],
        };
        fabric.boot_as(LOW_PORT_HOST, guids);
        for _ in 0..10 {
            fabric.world.run_for(SECOND / 20);
            assert!(fabric.is_served(HIGH_PORT_HOST, lid), "round {round}");
        }
    }
    // A full sweep takes about a hundred Gets.
    let spent = fabric.world.manager().gets() - gets;
    assert!(spent < 200 * 40, "{spent} Gets");
    // The link of the tenant's host counts as flapping for a while.
    fabric.assert_left_out(&[]);
}

/// Two hosts change their GUIDs every 20 µs or every 60 µs.
#[test]
fn a_full_sweep_ends_although_hosts_change_their_guids_all_the_time() {
    let mut fabric = Fabric::up();
    let guids = [fabric.own[LOW_PORT_HOST], fabric.own[5]];
    for round in 0..20_000u64 {
        let delay = Duration::from_micros(20 * round);
        let (one, other) = (fabric.hosts[LOW_PORT_HOST], fabric.hosts[5]);
        fabric.world.schedule(delay, move |world| {
            let pair = [round, round / 3].map(|round| guids[round as usize % 2]);
            world
                .sim
                .set_reported_guids(one, pair[0])
                .expect("it is there");
            world
                .sim
                .set_reported_guids(other, pair[1])
                .expect("it is there");
        });
    }
    fabric.world.command(Command::Resweep {
        full: true,
        ticket: 7,
    });
    fabric.boot_as(LOW_PORT_HOST, guids[1]);
    fabric.stays_served(HIGH_PORT_HOST, 2 * SECOND);
    assert!(fabric.world.manager().done().contains(&7));
    for host in [LOW_PORT_HOST, 5] {
        fabric.boot_as_itself(host);
    }
    fabric.assert_all_up();
}

#[test]
fn a_duplicate_beside_a_dead_spine_leaves_the_first_host_served() {
    let mut fabric = Fabric::up();
    let spine = fabric.world.nodes(NodeKind::Switch)[2];
    let lid = fabric.lid(HIGH_PORT_HOST);
    fabric.world.sim.power_off(spine).unwrap();
    fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
    fabric.boot_as(FAR_HOST, fabric.own[HIGH_PORT_HOST]);
    fabric.world.run_for(3 * SECOND);
    fabric.is_served_within(HIGH_PORT_HOST, lid, STEP);
    fabric.world.sim.power_on(spine).unwrap();
    fabric.assert_first_stays(HIGH_PORT_HOST, &[LOW_PORT_HOST, FAR_HOST]);
}

#[test]
fn the_first_host_stays_after_a_takeover() {
    let mut fabric = Fabric::of(World::shared(FABRIC, false, LIMIT));
    fabric.world.settle(LIMIT);
    for is_read_before in [true, false] {
        if is_read_before {
            fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
            fabric.stays_served(HIGH_PORT_HOST, 3 * LIGHT_SWEEP);
            fabric.world.kill(0);
        } else {
            fabric.world.kill(0);
            fabric.boot_as(LOW_PORT_HOST, fabric.own[HIGH_PORT_HOST]);
        }
        fabric.stays_served(HIGH_PORT_HOST, 3 * LIGHT_SWEEP);
        fabric.world.start(0, Memory::Kept);
        fabric.boot_as_itself(LOW_PORT_HOST);
        fabric.world.settle(LIMIT);
    }
}

#[test]
fn a_host_with_a_switchs_guid_is_left_out() {
    let mut fabric = Fabric::up();
    let switches = fabric.world.nodes(NodeKind::Switch);
    for switch in [switches[0], switches[1], switches[3]] {
        let guids = fabric.world.sim.reported_guids(switch).unwrap();
        fabric.boot_as(LOW_PORT_HOST, guids);
        fabric.assert_first_stays(FAR_HOST, &[LOW_PORT_HOST]);
        fabric.boot_as_itself(LOW_PORT_HOST);
        fabric.assert_all_up();
    }
}

//! M_Keys of ports under managers that share a store: a standby follows the keys and the cables of
//! the master, and continues a rotation wherever it was interrupted.

use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::MKeyPolicy;
use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_routing::netlist::NodeKind;
use rsm_sim::{DropReason, Personality, PortField, PortFields};
use rsm_state::{Command, Role};
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

use crate::sim_m_keys::{generation, held, others_than, secret};

/// A fabric of 20 switches and 16 hosts.
const TREE: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(60);
const LEVELS: [u8; 4] = [0, 1, 2, 3];
/// The protection levels at which a port answers nothing without its key.
const GUARDED: [u8; 2] = [2, 3];
/// The maximum number of packets with a wrong key that a standby sends in a rotation of which it
/// was informed: it queries the master ten times a second with the last key of the master's port.
const POLLS: u64 = 3;
/// The maximum time from the command to the end of a rotation of which a standby was informed.
const ROTATION: Duration = Duration::from_secs(10);

/// The settings of managers with keys of these secrets.
fn with_secrets(protection: u8, secrets: &[u8]) -> Settings {
    let mut settings = Settings::sharing(true);
    let policy = Arc::make_mut(&mut settings.core.policy);
    policy.ports.m_keys = MKeyPolicy {
        per_port: true,
        secrets: secrets.iter().copied().map(secret).collect(),
        ..MKeyPolicy::default()
    };
    policy.ports.m_key_protect = protection;
    settings
}

fn core(protection: u8, secrets: &[u8]) -> CoreConfig {
    with_secrets(protection, secrets).core
}

/// A fabric with a master at the first host.
fn alone(settings: Settings) -> World {
    let mut world = World::generated(TREE, settings);
    // The SA of a manager passes its multicast groups on from the start, even if there are none.
    world.tell_groups(Arc::default());
    world.settle(LIMIT);
    world
}

fn last_host(world: &World) -> Guid {
    *world.nodes(NodeKind::Ca).last().expect("there are hosts")
}

/// A fabric with a master at the first host, and a standby at the last host that has read the
/// subnet.
fn shared_with(settings: Settings) -> World {
    let mut world = alone(settings);
    let last = last_host(&world);
    world.add_manager(last, PortNum(1));
    wait_ready(&mut world);
    world
}

/// A fabric as of [`shared_with`], with keys of `secret(7)`.
fn shared(protection: u8) -> World {
    shared_with(with_secrets(protection, &[7]))
}

/// Runs until the standby is ready ([`is_ready`]).
#[track_caller]
fn wait_ready(world: &mut World) {
    let until = world.now() + LIMIT;
    let is_ready = world.run(until, is_ready);
    let standby = &world.managers()[1];
    assert!(
        is_ready,
        "{:?} {:?} {:?}",
        standby.core().role(),
        standby.core().following(),
        standby.findings()
    );
}

/// Whether the standby has read the subnet as the master left it.
fn is_ready(world: &World) -> bool {
    let following = world.managers()[1].core().following();
    let read = following.and_then(|following| following.read);
    let stored = world.stored();
    !stored.is_pushing && read == Some(stored.generation)
}

/// The findings of a manager, except the finding that it is not the only manager.
fn faults(world: &World, index: usize) -> Vec<&'static str> {
    let findings = world.managers()[index].findings().into_iter();
    let codes = findings.map(|(code, _)| code);
    codes.filter(|&code| code != "other-master").collect()
}

/// The number of packets that ports have dropped because of their M_Key.
fn violations(world: &World) -> u64 {
    world.sim.counters().dropped_for(DropReason::MKey)
}

/// The ports that have counted wrong keys.
fn ports_with_violations(world: &World) -> Vec<((Guid, PortNum), u16)> {
    let ports = world.sim.end_ports();
    let counts = ports.map(|(node, port)| {
        let info = world.sim.port_info(node, port).expect("it is there");
        ((node, port), info.m_key_violations())
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

fn rotate(world: &mut World, ticket: u64) {
    world.command(Command::RotateMKeys {
        forced: false,
        ticket,
    });
}

/// Runs until the first port has a key of this generation.
fn wait_first_key(world: &mut World, number: u64) {
    let until = world.now() + LIMIT;
    let ports = world.sim.end_ports().count();
    let has_begun = |world: &World| others_than(world, 7, generation(number)).len() < ports;
    assert!(world.run(until, has_begun));
}

/// Asserts that the standby is master, that every port holds its key and is protected, and that no
/// finding is about keys.
#[track_caller]
fn assert_taken_over(world: &mut World, protection: u8, note: &str) {
    // A claim that the store does not answer is repeated endlessly: the world does not come to
    // rest.
    world.run_for(Duration::from_secs(90));
    let standby = &world.managers()[1];
    assert_eq!(*standby.core().role(), Role::Master, "{note}");
    let core = standby.core();
    let progress = (core.progress(), standby.findings());
    assert!(core.is_settled(), "{note}: {progress:?}");
    let generations = standby.remembered().generations;
    assert_eq!(others_than(world, 7, generations), [], "{note}");
    let level = |&(node, port): &(Guid, PortNum)| {
        let info = world.sim.port_info(node, port).expect("it is there");
        info.m_key_protect_bits() != protection
    };
    assert_eq!(world.sim.end_ports().find(level), None, "{note}");
    let findings = standby.findings();
    let of_keys = |(code, _): &&(&str, String)| code.starts_with("m-key") || *code == "unanswering";
    assert_eq!(findings.iter().find(of_keys), None, "{note}");
    let reach = expect::Reach::of(&world.sim, (last_host(world), PortNum(1)), &[]);
    assert_eq!(expect::inactive(&world.sim, &reach), [""; 0], "{note}");
}

#[test]
fn a_standby_reads_the_subnet_at_every_level_and_no_port_counts_a_wrong_key() {
    for protection in LEVELS {
        let mut world = alone(with_secrets(protection, &[7]));
        let before = violations(&world);
        let last = last_host(&world);
        world.add_manager(last, PortNum(1));
        wait_ready(&mut world);
        let standby = &world.managers()[1];
        assert!(matches!(standby.core().role(), Role::Standby { .. }));
        assert_eq!(
            standby.core().inventory().hardware.len(),
            36,
            "level {protection}"
        );
        assert_eq!(faults(&world, 1), [""; 0], "level {protection}");
        assert_eq!(violations(&world), before, "level {protection}");
    }
}

#[test]
fn a_standby_follows_rotations_and_only_the_port_of_the_master_counts_a_wrong_key() {
    for protection in LEVELS {
        let mut world = shared(protection);
        let before = violations(&world);
        for number in 1..=3 {
            rotate(&mut world, number);
            let until = world.now() + ROTATION;
            let is_done = |world: &World| world.manager().done().contains(&number);
            assert!(world.run(until, is_done), "level {protection}");
            assert_eq!(others_than(&world, 7, generation(number)), []);
            wait_ready(&mut world);
            let standby = world.managers()[1].core();
            assert_eq!(standby.inventory().ports_behind().len(), 0);
            assert_eq!(standby.inventory().hardware.len(), 36, "level {protection}");
        }
        let guesses = violations(&world) - before;
        assert!(guesses <= 3 * POLLS, "level {protection}: {guesses}");
        assert_eq!(faults(&world, 1), [""; 0], "level {protection}");
    }
}

/// A rotation begins while the standby reads, and ends the reading before the first port has its
/// new key.
#[test]
fn a_rotation_during_a_reading_of_the_standby_ends_that_reading() {
    for after in [0, 1, 200, 1_200, 2_100, 2_400] {
        let mut world = shared(3);
        let before = violations(&world);
        let leaf = world.nodes(NodeKind::Switch)[0];
        let switches = world.nodes(NodeKind::Switch);
        let trunk = (1..=4).map(PortNum).find(|&port| {
            let peer = world.sim.peer(leaf, port).expect("it is a switch");
            peer.is_some_and(|(node, _)| switches.contains(&node))
        });
        world.sim.unlink(leaf, trunk.expect("it has some")).unwrap();
        world.run_for(Duration::from_millis(after));
        rotate(&mut world, 1);
        let until = world.now() + ROTATION;
        let is_done = |world: &World| world.manager().done().contains(&1);
        assert!(world.run(until, is_done), "{after} ms");
        wait_ready(&mut world);
        let guesses = violations(&world) - before;
        assert!(guesses <= POLLS, "{after} ms: {guesses}");
        assert_eq!(others_than(&world, 7, generation(1)), []);
    }
}

#[test]
fn a_standby_takes_over_after_and_during_rotations_at_every_level() {
    for protection in LEVELS {
        for after in [
            None,
            Some(0),
            Some(200),
            Some(500),
            Some(2_000),
            Some(20_000),
        ] {
            let mut world = shared(protection);
            let before = violations(&world);
            rotate(&mut world, 1);
            match after {
                Some(micros) => {
                    wait_first_key(&mut world, 1);
                    world.run_for(Duration::from_micros(micros));
                }
                None => world.run_for(ROTATION),
            }
            world.kill(0);
            let note = format!("level {protection}, {after:?}");
            assert_taken_over(&mut world, protection, &note);
            let generations = world.managers()[1].remembered().generations;
            assert!(generations.others >= 1, "{note}: it was stored");
            assert!(generations.switches > generations.others, "{note}");
            // A port whose key may have changed is queried with both keys.
            let guesses = violations(&world) - before;
            let ports = world.sim.end_ports().count() as u64;
            match after {
                // The port of the dead master is queried to find out whether the master still
                // answers.
                None => {
                    let counted = ports_with_violations(&world);
                    let asked = world.managers()[0].local(&world.sim);
                    assert!(
                        counted.iter().all(|(port, _)| Some(*port) == asked),
                        "{counted:?}"
                    );
                }
                Some(_) => assert!(guesses <= 2 * ports, "{note}: {guesses}"),
            }
        }
    }
}

/// The master dies between its first Set and the store's commit of the rotation.
#[test]
fn a_rotation_that_the_store_missed_is_found_by_the_keys_of_ports() {
    for protection in LEVELS {
        for after in [0, 300, 2_000, 20_000] {
            let mut world = shared(protection);
            world.cut_from_store(0, true);
            rotate(&mut world, 1);
            wait_first_key(&mut world, 1);
            world.run_for(Duration::from_micros(after));
            world.kill(0);
            assert_eq!(world.stored().generations, generation(0));
            assert_taken_over(&mut world, protection, &format!("{protection}, {after} µs"));
        }
    }
}

#[test]
fn a_rotation_while_the_store_is_away_reaches_the_standby_when_the_store_answers() {
    for protection in LEVELS {
        let mut world = shared(protection);
        world.set_store_away(true);
        world.run_for(Duration::from_secs(2));
        rotate(&mut world, 1);
        world.run_for(ROTATION);
        assert_eq!(others_than(&world, 7, generation(1)), []);
        world.set_store_away(false);
        world.run_for(Duration::from_secs(5));
        wait_ready(&mut world);
        assert_eq!(faults(&world, 1), [""; 0], "level {protection}");
        world.kill(0);
        assert_taken_over(&mut world, protection, &format!("level {protection}"));
    }
}

#[test]
fn a_takeover_while_the_store_is_away_completes_the_rotation() {
    for protection in LEVELS {
        for after in [0, 500, 20_000] {
            let mut world = shared(protection);
            rotate(&mut world, 1);
            wait_first_key(&mut world, 1);
            world.run_for(Duration::from_micros(after));
            world.set_store_away(true);
            world.kill(0);
            assert_taken_over(&mut world, protection, &format!("{protection}, {after} µs"));
        }
    }
}

/// One host keeps its old key whatever is written; its neighbours are not affected.
#[test]
fn a_device_that_refuses_its_new_key_stays_managed_by_the_successor() {
    for protection in LEVELS {
        let mut world = shared(protection);
        let host = world.nodes(NodeKind::Ca)[5];
        let stubborn = Personality::drops(PortFields::of(PortField::MKey));
        world.sim.set_personality(host, stubborn).unwrap();
        rotate(&mut world, 1);
        world.run_for(Duration::from_secs(20));
        world.kill(0);
        world.run_for(Duration::from_secs(60));
        let standby = &world.managers()[1];
        assert_eq!(*standby.core().role(), Role::Master, "level {protection}");
        let generations = standby.remembered().generations;
        let port = (host, PortNum(1));
        assert_eq!(others_than(&world, 7, generations), [port]);
        let old = secret(7).m_key(0, PortKey::new(host, PortNum(1)));
        assert_eq!(held(&world, port), old);
        let snapshot = standby.core().snapshot(world.now());
        let codes: Vec<&str> = snapshot.findings.iter().map(|f| f.kind.code()).collect();
        assert_eq!(codes, ["set-failed", "m-key-behind"], "level {protection}");
        let reach = expect::Reach::of(&world.sim, (last_host(&world), PortNum(1)), &[]);
        assert_eq!(expect::inactive(&world.sim, &reach), [""; 0]);
        // Once the host accepts keys, it gets the current key.
        let polite = Personality::POLITE;
        world.sim.set_personality(host, polite).unwrap();
        world.run_for(Duration::from_secs(90));
        assert_taken_over(&mut world, protection, "after the device takes keys");
    }
}

/// A wrong key starts the lease of a port. The port gives up its protection when the lease ends.
#[test]
fn no_lease_ends_in_a_rotation_with_a_takeover() {
    for protection in GUARDED {
        for after in [0, 500, 2_000] {
            let mut settings = with_secrets(protection, &[7]);
            let policy = Arc::make_mut(&mut settings.core.policy);
            policy.ports.m_key_lease_s = 20;
            let mut world = shared_with(settings);
            rotate(&mut world, 1);
            wait_first_key(&mut world, 1);
            world.run_for(Duration::from_micros(after));
            world.kill(0);
            assert_taken_over(&mut world, protection, &format!("{protection}, {after} µs"));
            // The pause is longer than a lease.
            world.run_for(Duration::from_secs(60));
            assert_taken_over(&mut world, protection, &format!("{protection}, {after} µs"));
        }
    }
}

/// A restarted switch has no key and no protection.
#[test]
fn a_switch_that_restarts_during_a_rotation_has_its_key_after_the_takeover() {
    for protection in LEVELS {
        for after in [0, 300, 1_000] {
            let mut world = shared(protection);
            rotate(&mut world, 1);
            wait_first_key(&mut world, 1);
            world.run_for(Duration::from_micros(after));
            let spine = world.nodes(NodeKind::Switch)[19];
            world.sim.reboot(spine).unwrap();
            world.kill(0);
            assert_taken_over(&mut world, protection, &format!("{protection}, {after} µs"));
        }
    }
}

/// Links go down and come back, and packets are lost, while the master rotates the keys and dies at
/// some moment of the rotation.
#[test]
fn rotations_amid_faults_survive_takeovers_at_any_moment() {
    for (round, protection) in (0_u64..12).zip(LEVELS.into_iter().cycle()) {
        let settings = Settings {
            seed: round + 1,
            ..with_secrets(protection, &[7])
        };
        let mut world = shared_with(settings);
        let hosts = world.nodes(NodeKind::Ca);
        for step in 0..8 {
            let host = hosts[1 + (step * 3 + round as usize) % 13];
            let (leaf, port) = world.sim.peer(host, PortNum(1)).unwrap().unwrap();
            let at = Duration::from_millis(200 * step as u64);
            world.schedule(at, move |world| world.sim.unlink(leaf, port).unwrap());
            let back = at + Duration::from_millis(150);
            world.schedule(back, move |world| world.sim.relink(leaf, port).unwrap());
        }
        world.schedule_loss(Duration::ZERO, Duration::from_secs(4), 0.05);
        rotate(&mut world, 1);
        wait_first_key(&mut world, 1);
        world.run_for(Duration::from_micros(round * 170));
        world.kill(0);
        world.run_for(Duration::from_secs(30));
        assert_taken_over(&mut world, protection, &format!("round {round}"));
    }
}

/// The standby has only the secret from before a change, so it cannot read guarded ports, and does
/// not become master. With the master's secrets it follows the master.
#[test]
fn a_standby_with_an_older_secret_waits_until_it_has_the_new_secret() {
    for protection in GUARDED {
        let mut world = alone(with_secrets(protection, &[8, 7]));
        assert_eq!(others_than(&world, 8, generation(0)), []);
        let last = last_host(&world);
        world.add_manager_with(last, PortNum(1), core(protection, &[7]));
        world.run_for(Duration::from_secs(60));
        let standby = &world.managers()[1];
        assert_eq!(*standby.core().role(), Role::Discovering);
        assert_eq!(standby.sets(), 0, "level {protection}");
        let findings = standby.findings();
        assert!(
            findings.iter().any(|(code, _)| *code == "unanswering"),
            "level {protection}: {findings:?}"
        );
        assert_eq!(*world.manager().core().role(), Role::Master);
        let reload = Event::Reload(Box::new(core(protection, &[8, 7])));
        world.event_to(1, reload);
        wait_ready(&mut world);
        world.kill(0);
        world.run_for(Duration::from_secs(30));
        world.settle(LIMIT);
        let standby = &world.managers()[1];
        assert_eq!(*standby.core().role(), Role::Master);
        let generations = standby.remembered().generations;
        assert_eq!(others_than(&world, 8, generations), []);
    }
}

/// No manager has the secret any longer. The new manager changes no port that is protected, and the
/// protection ends with the leases.
#[test]
fn a_new_manager_without_the_secret_gets_the_ports_when_their_leases_end() {
    for protection in GUARDED {
        let mut settings = with_secrets(protection, &[7]);
        let policy = Arc::make_mut(&mut settings.core.policy);
        policy.ports.m_key_lease_s = 15;
        let mut world = shared_with(settings);
        world.kill(0);
        world.kill(1);
        let other = world.nodes(NodeKind::Ca)[5];
        let mut lost = core(protection, &[9]);
        let policy = Arc::make_mut(&mut lost.policy);
        policy.ports.m_key_lease_s = 15;
        world.add_manager_with(other, PortNum(1), lost);
        world.run_for(Duration::from_secs(5));
        let findings = world.managers()[2].findings();
        assert!(
            findings.iter().any(|(code, _)| *code == "unanswering"),
            "level {protection}: {findings:?}"
        );
        assert_eq!(others_than(&world, 7, generation(0)), []);
        // Ports give up their keys one by one, each 15 seconds after its first packet with a wrong
        // key.
        world.run_for(Duration::from_secs(900));
        world.settle(LIMIT);
        let manager = &world.managers()[2];
        assert_eq!(*manager.core().role(), Role::Master);
        let generations = manager.remembered().generations;
        assert_eq!(others_than(&world, 9, generations), []);
    }
}

/// The manager knows no key while the store is unreachable, so it does not even write its own port.
#[test]
fn a_standby_that_starts_without_the_store_sets_nothing_and_follows_when_it_answers() {
    for protection in GUARDED {
        let mut world = alone(with_secrets(protection, &[7]));
        let last = last_host(&world);
        world.set_store_away(true);
        world.add_manager(last, PortNum(1));
        world.run_for(Duration::from_secs(60));
        assert_eq!(world.managers()[1].sets(), 0, "level {protection}");
        assert_eq!(*world.managers()[1].core().role(), Role::Discovering);
        world.set_store_away(false);
        wait_ready(&mut world);
        assert_eq!(faults(&world, 1), [""; 0], "level {protection}");
    }
}

/// The second manager starts on another machine after the death of the master. The store contains
/// the cables that the master knew.
#[test]
fn a_manager_without_a_folder_continues_a_guarded_subnet_from_the_store() {
    for protection in LEVELS {
        let mut world = alone(with_secrets(protection, &[7]));
        rotate(&mut world, 1);
        world.run_for(ROTATION);
        world.kill(0);
        world.run_for(Duration::from_secs(10));
        let last = last_host(&world);
        world.add_manager(last, PortNum(1));
        assert_taken_over(&mut world, protection, &format!("level {protection}"));
    }
}

/// Sends a Set of the first block of a forwarding table from the port of the first manager. Returns
/// whether the table has changed.
fn set_changes_table(world: &mut World, node: Guid, m_key: u64) -> bool {
    let before = world.sim.lft(node).expect("it is a switch").to_vec();
    let lid = world.sim.port_info(node, PortNum::ZERO).unwrap().lid();
    let request = SmpRequest {
        method: Method::SET,
        attribute: LinearForwardingTable::ID,
        modifier: 0,
        tid: rsm_mad::ids::Tid(9),
        m_key,
        data: [0xfe; 64],
    };
    let datagram = Datagram {
        mad: *Smp::lid_routed(&request).as_bytes(),
        remote: RemoteAddress::smi(lid),
    };
    let attach = world.managers()[0].attachment();
    world.send_from(attach, &datagram);
    world.run_for(Duration::from_millis(1));
    *world.sim.lft(node).expect("it is a switch") != *before
}

/// The Sets of a replaced master with the keys that it knows change no forwarding table, even if it
/// sends them.
#[test]
fn switches_refuse_the_sets_of_a_replaced_master_at_every_level() {
    for protection in [1, 2, 3] {
        let mut world = shared(protection);
        let switches = world.nodes(NodeKind::Switch);
        let keys: Vec<u64> = switches
            .iter()
            .map(|&node| held(&world, (node, PortNum::ZERO)))
            .collect();
        world.pause_for(0, Duration::from_secs(60));
        world.run_for(Duration::from_secs(30));
        assert_eq!(*world.managers()[1].core().role(), Role::Master);
        for (&node, &key) in switches.iter().zip(&keys) {
            let info = *world.sim.port_info(node, PortNum::ZERO).unwrap();
            assert!(!set_changes_table(&mut world, node, key), "{node}");
            let after = *world.sim.port_info(node, PortNum::ZERO).unwrap();
            assert!(after.m_key_violations() > info.m_key_violations(), "{node}");
        }
        // A Set with the current key changes the table.
        let last = *switches.last().expect("there are switches");
        let key = held(&world, (last, PortNum::ZERO));
        assert!(
            set_changes_table(&mut world, last, key),
            "level {protection}"
        );
    }
}

/// The key that a replaced master has for a switch no longer opens it; the manager follows its
/// successor, and takes over again.
#[test]
fn a_replaced_master_opens_no_switch_until_it_follows_its_successor() {
    for protection in [1, 2, 3] {
        let mut world = shared(protection);
        let switches = world.nodes(NodeKind::Switch);
        let before: Vec<u64> = switches
            .iter()
            .map(|&node| held(&world, (node, PortNum::ZERO)))
            .collect();
        world.pause_for(0, Duration::from_secs(20));
        world.run_for(Duration::from_secs(15));
        assert_eq!(*world.managers()[1].core().role(), Role::Master);
        for (&node, &key) in switches.iter().zip(&before) {
            let now = held(&world, (node, PortNum::ZERO));
            assert!(now != 0 && now != key, "{node}");
        }
        world.run_for(Duration::from_secs(30));
        assert!(
            matches!(world.managers()[0].core().role(), Role::Standby { .. }),
            "level {protection}"
        );
        world.kill(1);
        world.run_for(Duration::from_secs(30));
        world.settle(LIMIT);
        assert_eq!(*world.managers()[0].core().role(), Role::Master);
        let generations = world.managers()[0].remembered().generations;
        assert_eq!(generations.switches, 4, "level {protection}");
        assert_eq!(others_than(&world, 7, generations), []);
        // The other manager comes back with its folder, and also finds the keys.
        world.start(1, Memory::Kept);
        world.run_for(Duration::from_secs(30));
        let role = world.managers()[1].core().role().clone();
        assert!(
            matches!(role, Role::Standby { .. }),
            "level {protection}: {role:?}"
        );
    }
}

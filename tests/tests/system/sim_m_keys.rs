//! M_Keys of ports, each port with its own key: assigned, read back, rotated, and kept secret.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::m_keys::{ForeignKeys, Generations, MKeyPolicy, SECRET_BYTES, Secret};
use rsm_core::{CoreConfig, Event};
use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable, PortInfo};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_model::findings::{Finding, FindingKind};
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Personality, PortField, PortFields};
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};

/// A fabric of 20 switches and 16 hosts.
const TREE: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(60);
const LEVELS: [u8; 4] = [0, 1, 2, 3];

/// The secret that consists of repetitions of `byte`.
pub(crate) fn secret(byte: u8) -> Secret {
    Secret::new([byte; SECRET_BYTES])
}

fn with_keys(m_keys: MKeyPolicy, protection: u8) -> CoreConfig {
    let mut config = CoreConfig::default();
    let policy = Arc::make_mut(&mut config.policy);
    policy.ports.m_keys = m_keys;
    policy.ports.m_key_protect = protection;
    config
}

/// A policy with an M_Key of its own for each port, derived from `secret(7)`.
fn own_keys() -> MKeyPolicy {
    MKeyPolicy {
        per_port: true,
        secrets: [secret(7)].into(),
        ..MKeyPolicy::default()
    }
}

fn settings(core: CoreConfig) -> Settings {
    Settings {
        core,
        ..Settings::default()
    }
}

/// Settings with [`own_keys`] and this protection level.
fn per_port(protection: u8) -> Settings {
    settings(with_keys(own_keys(), protection))
}

/// The M_Key that a port holds.
pub(crate) fn held(world: &World, (node, port): (Guid, PortNum)) -> u64 {
    let info = world.sim.port_info(node, port).expect("it is there");
    info.m_key()
}

/// The ports that do not hold their key of these generations, derived from `secret(byte)`.
pub(crate) fn others_than(
    world: &World,
    byte: u8,
    generations: Generations,
) -> Vec<(Guid, PortNum)> {
    let ports = world.sim.end_ports();
    let is_other = |&(node, port): &(Guid, PortNum)| {
        let generation = match port {
            PortNum::ZERO => generations.switches,
            _ => generations.others,
        };
        let key = secret(byte).m_key(generation, PortKey::new(node, port));
        held(world, (node, port)) != key
    };
    ports.filter(is_other).collect()
}

/// One generation number for the keys of switches and of other ports.
pub(crate) fn generation(number: u64) -> Generations {
    Generations {
        switches: number,
        others: number,
    }
}

/// Asserts that every port holds its key of the generation `number`, derived from `secret(7)`.
#[track_caller]
fn assert_keys(world: &World, number: u64) {
    assert_eq!(others_than(world, 7, generation(number)), []);
}

/// Requests a rotation of the keys; if `forced`, even while ports may hold keys from before the
/// last rotation.
fn rotate(world: &mut World, forced: bool, ticket: u64) {
    world.command(Command::RotateMKeys { forced, ticket });
}

/// Rotates the keys, and waits until the rotation is done.
#[track_caller]
fn rotate_and_wait(world: &mut World, ticket: u64) {
    rotate(world, false, ticket);
    let until = world.now() + LIMIT;
    let is_done = world.run(until, |world| world.manager().done().contains(&ticket));
    assert!(is_done, "{:?}", world.manager().findings());
}

#[test]
fn every_port_gets_a_key_of_its_own_at_every_protection_level() {
    for protection in LEVELS {
        let mut world = World::brought_up(TREE, per_port(protection));
        world.settle(LIMIT);
        assert_keys(&world, 0);
        let keys: BTreeMap<u64, (Guid, PortNum)> = world
            .sim
            .end_ports()
            .map(|port| (held(&world, port), port))
            .collect();
        assert_eq!(keys.len(), world.sim.end_ports().count());
        assert_eq!(world.manager().findings(), []);
    }
}

#[test]
fn a_restart_reads_guarded_ports_with_their_keys_and_sets_nothing() {
    for protection in LEVELS {
        for memory in [Memory::Kept, Memory::Lost] {
            if memory == Memory::Lost && protection > 1 {
                // A manager without memory knows no cable that leads to a port without an answer.
                continue;
            }
            let mut world = World::brought_up(TREE, per_port(protection));
            world.settle(LIMIT);
            world.kill(0);
            world.start(0, memory);
            let sets = world.manager().sets();
            world.settle(LIMIT);
            assert_eq!(
                world.manager().findings(),
                [],
                "level {protection}, {memory:?}"
            );
            assert_eq!(
                world
                    .manager()
                    .snapshot()
                    .map(|snapshot| snapshot.fabric.nodes().count()),
                Some(36)
            );
            if memory == Memory::Kept {
                assert_eq!(world.manager().sets(), sets, "level {protection}");
            }
            assert_keys(&world, 0);
        }
    }
}

#[test]
fn a_rotation_gives_every_port_its_new_key_and_causes_no_finding() {
    for protection in LEVELS {
        let mut world = World::brought_up(TREE, per_port(protection));
        world.settle(LIMIT);
        for number in 1..=3 {
            rotate_and_wait(&mut world, number);
            assert_keys(&world, number);
        }
        world.settle(LIMIT);
        assert_eq!(world.manager().findings(), [], "level {protection}");
        assert_eq!(world.manager().remembered().generations, generation(3));
    }
}

/// A sweep that is under way goes on with the old keys, and the plan after it uses the new keys.
#[test]
fn a_rotation_at_any_moment_of_a_sweep_ends_when_every_port_holds_its_new_key() {
    for is_restart in [false, true] {
        for moment in 0..30 {
            let mut world = World::brought_up(TREE, per_port(2));
            world.settle(LIMIT);
            if is_restart {
                world.kill(0);
                world.start(0, Memory::Kept);
            } else {
                world.command(Command::Resweep {
                    full: true,
                    ticket: 1,
                });
            }
            world.run_for(Duration::from_micros(200) * moment);
            rotate_and_wait(&mut world, 2);
            let note = format!("moment {moment}, restart {is_restart}");
            assert_eq!(others_than(&world, 7, generation(1)), [], "{note}");
            let snapshot = world.manager().snapshot().expect("it is published");
            let keys = snapshot.m_keys;
            assert_eq!((keys.settled, keys.behind), (36, 0), "{note}");
        }
    }
}

#[test]
fn a_rotation_under_loss_ends_with_the_new_keys() {
    for protection in LEVELS {
        let mut world = World::brought_up(TREE, per_port(protection));
        world.settle(LIMIT);
        world.schedule_loss(Duration::ZERO, Duration::from_secs(20), 0.2);
        world.run_for(Duration::from_millis(1));
        rotate(&mut world, false, 1);
        world.run_for(Duration::from_secs(20));
        world.settle(LIMIT * 4);
        assert_keys(&world, 1);
        expect::assert_up_without(&world, &[]);
        assert_eq!(world.manager().findings(), [], "level {protection}");
    }
}

/// The manager is killed at various moments of a rotation, and continues it after the restart.
#[test]
fn an_interrupted_rotation_goes_on_after_a_restart() {
    for protection in LEVELS {
        for after in [100, 1_000, 2_000, 3_000, 5_000, 10_000] {
            let mut world = World::brought_up(TREE, per_port(protection));
            world.settle(LIMIT);
            rotate(&mut world, false, 1);
            world.run_for(Duration::from_micros(after));
            world.kill(0);
            world.start(0, Memory::Kept);
            world.settle(LIMIT * 2);
            let number = world.manager().remembered().generations.others;
            assert_keys(&world, number);
            assert_eq!(
                world.manager().findings(),
                [],
                "level {protection}, {after} µs"
            );
        }
    }
}

#[test]
fn a_port_that_was_away_during_rotations_gets_its_key_when_it_returns() {
    for protection in [0, 1] {
        let mut world = World::brought_up(TREE, per_port(protection));
        world.settle(LIMIT);
        let host = world.nodes(NodeKind::Ca)[9];
        let (leaf, port) = world.sim.peer(host, PortNum(1)).unwrap().unwrap();
        world.sim.unlink(leaf, port).unwrap();
        world.settle(LIMIT);
        for number in 1..=5 {
            rotate_and_wait(&mut world, number);
        }
        let old = secret(7).m_key(0, PortKey::new(host, PortNum(1)));
        assert_eq!(held(&world, (host, PortNum(1))), old);
        world.sim.relink(leaf, port).unwrap();
        world.settle(LIMIT);
        assert_keys(&world, 5);
        expect::assert_up_without(&world, &[]);
    }
}

#[test]
fn a_device_that_keeps_its_key_is_a_finding_and_stays_managed() {
    let mut world = World::brought_up(TREE, per_port(1));
    world.settle(LIMIT);
    let host = world.nodes(NodeKind::Ca)[5];
    let stubborn = Personality::drops(PortFields::of(PortField::MKey));
    world.sim.set_personality(host, stubborn).unwrap();
    rotate(&mut world, false, 1);
    world.run_for(Duration::from_secs(30));
    assert_eq!(others_than(&world, 7, generation(1)), [(host, PortNum(1))]);
    let snapshot = world.manager().core().snapshot(world.now());
    let behind = |finding: &Finding| {
        finding.kind == FindingKind::MKeyBehind && finding.text.starts_with("1 port ")
    };
    assert!(
        snapshot.findings.iter().any(behind),
        "{:?}",
        snapshot.findings
    );
    // A further rotation waits for the host, unless the operator insists.
    rotate(&mut world, false, 2);
    world.run_for(Duration::from_secs(1));
    assert!(
        world
            .manager()
            .declined()
            .iter()
            .any(|(ticket, reason)| *ticket == 2 && reason.contains("forced rotation"))
    );
    rotate(&mut world, true, 3);
    world.run_for(Duration::from_secs(30));
    assert_eq!(others_than(&world, 7, generation(2)), [(host, PortNum(1))]);
    world
        .sim
        .set_personality(host, Personality::POLITE)
        .unwrap();
    world.resweep(LIMIT);
    world.run_for(Duration::from_secs(40));
    world.settle(LIMIT);
    assert_keys(&world, 2);
    assert_eq!(world.manager().findings(), []);
}

#[test]
fn rotation_is_declined_where_all_ports_have_one_key() {
    let mut world = World::brought_up(TREE, settings(with_keys(MKeyPolicy::one(5), 1)));
    world.settle(LIMIT);
    rotate(&mut world, true, 1);
    world.run_for(Duration::from_secs(1));
    let declined = world.manager().declined();
    assert!(
        declined
            .iter()
            .any(|(ticket, reason)| *ticket == 1 && reason.contains("m_key_secret_file"))
    );
    assert!(world.sim.end_ports().all(|port| held(&world, port) == 5));
}

#[test]
fn a_reload_changes_ports_from_a_common_key_to_their_own_and_back() {
    for protection in LEVELS {
        let mut world =
            World::brought_up(TREE, settings(with_keys(MKeyPolicy::one(5), protection)));
        world.settle(LIMIT);
        let both = MKeyPolicy {
            one: 5,
            ..own_keys()
        };
        let back = MKeyPolicy {
            per_port: false,
            ..both.clone()
        };
        world.event(Event::Reload(Box::new(with_keys(both, protection))));
        world.settle(LIMIT);
        assert_keys(&world, 0);
        assert_eq!(world.manager().findings(), [], "level {protection}");
        world.event(Event::Reload(Box::new(with_keys(back, protection))));
        world.settle(LIMIT);
        assert!(world.sim.end_ports().all(|port| held(&world, port) == 5));
        assert_eq!(world.manager().findings(), [], "level {protection}");
    }
}

#[test]
fn a_new_secret_replaces_a_secret_that_is_still_configured() {
    for protection in LEVELS {
        let mut world = World::brought_up(TREE, per_port(protection));
        world.settle(LIMIT);
        let next = MKeyPolicy {
            secrets: [secret(8), secret(7)].into(),
            ..own_keys()
        };
        world.event(Event::Reload(Box::new(with_keys(next, protection))));
        world.settle(LIMIT);
        assert_eq!(others_than(&world, 8, generation(0)), []);
        assert_eq!(world.manager().findings(), [], "level {protection}");
    }
}

/// The second manager has another secret than the ports.
#[test]
fn a_lost_secret_is_a_finding_and_changes_no_key() {
    for protection in [0, 1] {
        let mut world = World::brought_up(TREE, per_port(protection));
        world.settle(LIMIT);
        let lost = MKeyPolicy {
            secrets: [secret(9)].into(),
            ..own_keys()
        };
        world.kill(0);
        let other = world.nodes(NodeKind::Ca)[5];
        world.add_manager_with(other, PortNum(1), with_keys(lost, protection));
        world.run_for(Duration::from_secs(30));
        let findings = world.managers()[1].findings();
        assert!(
            findings.iter().any(|(code, _)| *code == "m-key-mismatch"),
            "level {protection}: {findings:?}"
        );
        assert_keys(&world, 0);
    }
}

/// The ports of another manager's subnet have individual keys, which its files contain.
#[test]
fn keys_of_opensm_are_used_until_each_port_has_its_own() {
    for protection in LEVELS {
        let mut world = World::generated(TREE, per_port(protection));
        let mut foreign = ForeignKeys::default();
        let ports: Vec<(Guid, PortNum)> = world.sim.end_ports().collect();
        for (number, &(node, port)) in (1..).zip(&ports) {
            let key = 0xAB00 + number;
            world.sim.set_m_key(node, port, key, protection).unwrap();
            foreign
                .by_port
                .insert(world.sim.port_guid(node, port).unwrap(), key);
        }
        let guid_of = |(node, port): (Guid, PortNum)| world.sim.port_guid(node, port).unwrap();
        for node in [world.nodes(NodeKind::Switch), world.nodes(NodeKind::Ca)].concat() {
            for port in (1..=8).map(PortNum) {
                if let Ok(Some(peer)) = world.sim.peer(node, port) {
                    let here = (guid_of((node, port)), port.0);
                    foreign.neighbors.insert(here, guid_of(peer));
                }
            }
        }
        let (host, port) = world.manager().local(&world.sim).unwrap();
        // The key of the manager's own host is not in the files if it was never managed.
        world.sim.set_m_key(host, port, 0, 0).unwrap();
        let keys = MKeyPolicy {
            foreign: Arc::new(foreign),
            ..own_keys()
        };
        world.event(Event::Reload(Box::new(with_keys(keys, protection))));
        world.settle(LIMIT * 2);
        assert_keys(&world, 0);
        assert_eq!(world.manager().findings(), [], "level {protection}");
    }
}

#[test]
fn swapped_cables_of_guarded_hosts_are_found() {
    let mut world = World::brought_up(TREE, per_port(2));
    world.settle(LIMIT);
    let hosts = world.nodes(NodeKind::Ca);
    let [first, second] = [hosts[9], hosts[13]].map(|host| (host, PortNum(1)));
    world.sim.swap_cables(first, second).unwrap();
    world.run_for(Duration::from_secs(60));
    world.settle(LIMIT);
    expect::assert_up_without(&world, &[]);
    assert_keys(&world, 0);
}

/// A host sends Sets with its own key and with guessed keys to a switch and to another host.
#[test]
fn a_host_opens_no_other_port_with_its_key_or_with_guesses() {
    let mut world = World::brought_up(TREE, per_port(1));
    world.settle(LIMIT);
    let hosts = world.nodes(NodeKind::Ca);
    let attacker = hosts[3];
    let attach = world.sim.attach(attacker, PortNum(1)).unwrap();
    let own = held(&world, (attacker, PortNum(1)));
    let leaf = world.sim.peer(attacker, PortNum(1)).unwrap().unwrap().0;
    let victims = [(leaf, PortNum::ZERO), (hosts[8], PortNum(1))];
    let before = victims.map(|(node, port)| *world.sim.port_info(node, port).unwrap());
    let tables = world.sim.lft(leaf).unwrap().to_vec();
    let guesses = [0, 1, own, own ^ 1, own.wrapping_add(1), u64::MAX];
    for (victim, info) in victims.iter().zip(&before) {
        let attributes = [
            (
                PortInfo::ID,
                PortInfo::modifier(victim.1, false),
                *PortInfo::default().as_data(),
            ),
            (LinearForwardingTable::ID, 0, [0xff; 64]),
        ];
        for key in guesses {
            for (attribute, modifier, data) in attributes {
                let request = SmpRequest {
                    method: Method::SET,
                    attribute,
                    modifier,
                    tid: rsm_mad::ids::Tid(9),
                    m_key: key,
                    data,
                };
                let datagram = Datagram {
                    mad: *Smp::lid_routed(&request).as_bytes(),
                    remote: RemoteAddress::smi(info.lid()),
                };
                world.send_from(attach, &datagram);
                world.run_for(Duration::from_millis(1));
            }
        }
    }
    for ((node, port), before) in victims.into_iter().zip(before) {
        let mut now = *world.sim.port_info(node, port).unwrap();
        assert!(now.m_key_violations() > before.m_key_violations());
        now.set_m_key_violations(before.m_key_violations());
        assert_eq!(now, before);
    }
    assert_eq!(world.sim.lft(leaf).unwrap(), tables);
    world.settle(LIMIT);
    assert_keys(&world, 0);
}

//! Devices with habits in Sets: they refuse some Sets, and answer other Sets with old values.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::LinkConfig;
use rsm_config::m_keys::MKeyPolicy;
use rsm_core::{CoreConfig, Event};
use rsm_hardware::diff::NotKept;
use rsm_ids::{Guid, Lmc, PortNum};
use rsm_mad::wire::attr::{Attribute, PortInfo, PortState};
use rsm_mad::wire::header::Method;
use rsm_plan::policy::{Policy, PortPolicy};
use rsm_routing::netlist::NodeKind;
use rsm_sim::{Devices, Habit, Personality, PortField, PortFields};
use rsm_state::Command;
use rsm_tests::virtual_time::{Memory, Settings, World, expect};
use rsm_view::publish::summary::OnceReport;

const LIMIT: Duration = Duration::from_secs(60);

const SPEC: &str = "fat-tree:k=4,levels=3";

/// A fabric with enough LIDs for several blocks of forwarding tables.
const LARGE: &str = "fat-tree:k=8,levels=3";

fn settings(personality: Personality, policy: Policy) -> Settings {
    let mut settings = Settings::default();
    settings.sim.devices = Devices::Alike(personality);
    settings.core.policy = Arc::new(policy);
    settings
}

/// A policy that changes every field of [`PortField`] at some port.
fn policy_of_all_fields() -> Policy {
    Policy {
        lmc: Lmc::new(1).expect("it is in range"),
        lmc_enhanced_port0: true,
        ports: PortPolicy {
            m_keys: MKeyPolicy::one(0x1234),
            m_key_protect: 1,
            m_key_lease_s: 60,
            sm_sl: 1,
            ..PortPolicy::default()
        },
        ..Policy::default()
    }
}

/// Brings the subnet up. Returns the codes of all findings published meanwhile, and the largest
/// number of consecutive repairs.
fn bring_up(world: &mut World) -> (BTreeSet<&'static str>, u32) {
    let codes = RefCell::new(BTreeSet::new());
    let repairs = Cell::new(0);
    let until = world.now() + LIMIT;
    let quiet = world.run(until, |world| {
        let findings = world.manager().findings();
        codes
            .borrow_mut()
            .extend(findings.into_iter().map(|(code, _)| code));
        repairs.set(repairs.get().max(world.manager().core().repairs()));
        world.is_quiet()
    });
    assert!(quiet, "findings {:?}", world.manager().findings());
    (codes.into_inner(), repairs.get())
}

/// The number of Sets refused so far.
fn refused(world: &World) -> u64 {
    let reached: u64 = expect::sets(&world.sim.counters()).values().sum();
    let nodes = world.sim.nodes();
    let in_effect: u64 = nodes
        .map(|(guid, _)| world.sim.sets_at(guid).unwrap())
        .sum();
    reached - in_effect
}

fn last_host(world: &World) -> (Guid, PortNum) {
    let hosts = world.sim.end_ports().filter(|&(_, port)| port.0 != 0);
    hosts.last().expect("there are hosts")
}

/// Kills the manager, reboots all switches, and starts the manager again with its memory.
fn restart_on_blank_switches(world: &mut World) {
    world.kill(0);
    for switch in world.nodes(NodeKind::Switch) {
        world.sim.reboot(switch).unwrap();
    }
    world.run_for(Duration::from_secs(30));
    world.start(0, Memory::Kept);
    bring_up(world);
}

#[test]
fn ports_that_activate_by_themselves_are_no_finding() {
    let settings = settings(Habit::SelfActivating.into(), Policy::default());
    let mut world = World::generated(LARGE, settings);
    let (findings, repairs) = bring_up(&mut world);
    assert!(refused(&world) > 0, "Set(Active) came too late somewhere");
    assert_eq!((findings, repairs), (BTreeSet::new(), 0));
    expect::assert_up(&world);
}

#[test]
fn blocks_above_linear_fdb_top_are_not_sent_to_devices_known_to_refuse_them() {
    let settings = settings(Habit::LftUpToTop.into(), Policy::default());
    let mut world = World::generated(LARGE, settings);
    world.watch();
    let (findings, repairs) = bring_up(&mut world);
    assert_eq!((findings, repairs), (["device-habit"].into(), 0));
    expect::assert_up(&world);
    world.watched().assert_harmless();
    let before = refused(&world);
    let switches = world.nodes(NodeKind::Switch).len() as u64;
    let in_flight = u64::from(world.manager().core().plan().unwrap().blocks() as u32);
    assert!(before > 0 && before <= switches * in_flight, "{before}");
    restart_on_blank_switches(&mut world);
    assert_eq!(refused(&world), before, "it is remembered");
    expect::assert_up(&world);
    let findings = world.manager().findings();
    assert!(findings.iter().all(|(code, _)| *code == "device-habit"));
}

#[test]
fn devices_that_refuse_settings_together_with_the_state_get_the_settings_first() {
    let settings = settings(Habit::ArmsAlone.into(), Policy::default());
    let mut world = World::generated(SPEC, settings);
    let (findings, repairs) = bring_up(&mut world);
    assert_eq!((findings, repairs), (["device-habit"].into(), 0));
    expect::assert_up(&world);
    let before = refused(&world);
    let ports = 2 * expect::reach(&world, &[]).links.len() as u64;
    assert!(before > 0 && before <= ports, "{before} of {ports} ports");
    restart_on_blank_switches(&mut world);
    assert_eq!(refused(&world), before, "it is remembered");
    expect::assert_up(&world);
}

/// The devices refuse settings together with the state and blocks above LinearFDBTop, and their
/// ports activate by themselves.
#[test]
fn devices_that_refuse_come_up_under_loss() {
    let personality = Habit::ArmsAlone | Habit::LftUpToTop | Habit::SelfActivating;
    for seed in 0..5 {
        let settings = Settings {
            seed,
            ..settings(personality, Policy::default())
        };
        let mut world = World::generated(SPEC, settings);
        world.schedule_loss(Duration::ZERO, Duration::from_secs(3), 0.2);
        world.settle(LIMIT);
        expect::assert_up(&world);
        let findings = world.manager().findings();
        assert!(findings.iter().all(|(code, _)| *code == "device-habit"));
    }
}

#[test]
fn devices_that_answer_with_old_values_converge_and_have_no_habit() {
    for &field in PortField::ALL {
        let fields = PortFields::of(field);
        for personality in [
            Personality::shows_old_once(fields),
            Personality::shows_old_always(fields),
        ] {
            let settings = settings(personality, policy_of_all_fields());
            let mut world = World::generated(SPEC, settings);
            let (findings, _) = bring_up(&mut world);
            assert_eq!(findings, BTreeSet::new(), "{}", field.name());
            expect::assert_up(&world);
            let learned = &world.manager().remembered().not_kept;
            assert_eq!(learned, &NotKept::default(), "{}", field.name());
        }
    }
}

#[test]
fn essential_fields_that_a_device_never_keeps_are_a_finding_and_cause_few_sets() {
    for field in [
        PortField::Lid,
        PortField::Lmc,
        PortField::MasterSmLid,
        PortField::MKey,
    ] {
        let settings = settings(Personality::POLITE, policy_of_all_fields());
        let mut world = World::generated(SPEC, settings);
        let (host, port) = last_host(&world);
        let drops = Personality::drops(PortFields::of(field));
        world.sim.set_personality(host, drops).unwrap();
        world.count_requests();
        world.run_for(Duration::from_secs(300));
        let name = field.name();
        let finding = ("set-failed", format!("{host}:{port}"));
        assert_eq!(world.manager().findings(), [finding], "{name}");
        let sets = world.requests().of(host, Method::SET, PortInfo::ID);
        assert!(sets < 30, "{name}: {sets} Sets in five minutes");
        let learned = &world.manager().remembered().not_kept;
        assert_eq!(learned, &NotKept::default(), "{name}");
        expect::assert_up_without(&world, &[host]);
        let report = OnceReport::of(world.manager().snapshot().expect("it is up"));
        assert!(!report.is_complete(), "{name}: {report:?}");
    }
}

#[test]
fn harmless_fields_that_a_device_never_keeps_become_its_habit() {
    let drops = Personality::drops(PortFields::of(PortField::ErrorThresholds));
    let mut world = World::generated(SPEC, settings(drops, Policy::default()));
    world.count_requests();
    let (findings, _) = bring_up(&mut world);
    assert_eq!(findings, ["device-habit"].into());
    expect::assert_up(&world);
    let ports = 2 * expect::reach(&world, &[]).links.len() + world.nodes(NodeKind::Switch).len();
    let sets = world.requests().count(Method::SET);
    world.count_requests();
    let full = true;
    world.command(Command::Resweep { full, ticket: 1 });
    world.settle(LIMIT);
    assert_eq!(world.requests().count(Method::SET), 0, "of {sets} before");
    assert!(ports > 0 && world.manager().remembered().not_kept != NotKept::default());
}

/// The finding is about the link that the MTU limits. With `links.bounce`, rsm retrains the link
/// once, because a second attempt would not help either.
#[test]
fn mtu_that_a_device_never_keeps_is_a_finding_and_bounces_its_link_at_most_once() {
    for bounce in [false, true] {
        let policy = Policy {
            ports: PortPolicy {
                links: LinkConfig {
                    bounce,
                    ..LinkConfig::default()
                },
                ..PortPolicy::default()
            },
            ..Policy::default()
        };
        let mut world = World::generated(SPEC, settings(Personality::POLITE, policy));
        let (host, port) = last_host(&world);
        let drops = Personality::drops(PortFields::of(PortField::Mtu));
        world.sim.set_personality(host, drops).unwrap();
        world.count_requests();
        bring_up(&mut world);
        world.run_for(Duration::from_secs(120));
        let finding = ("link-mismatch", format!("{host}:{port}"));
        assert_eq!(world.manager().findings(), [finding], "bounce {bounce}");
        let sets = world.requests().of(host, Method::SET, PortInfo::ID);
        assert_eq!(sets, if bounce { 4 } else { 2 });
        expect::assert_up(&world);
    }
}

fn reload(world: &mut World, links: LinkConfig) {
    let ports = PortPolicy {
        links,
        ..PortPolicy::default()
    };
    let config = CoreConfig {
        policy: Arc::new(Policy {
            ports,
            ..Policy::default()
        }),
        ..CoreConfig::default()
    };
    world.event(Event::Reload(Box::new(config)));
}

#[test]
fn changed_number_of_vls_is_a_finding_until_links_are_bounced_one_by_one() {
    let fewer = LinkConfig {
        max_op_vls: 1,
        ..LinkConfig::default()
    };
    let mut world = World::brought_up("ring:4", Settings::default());
    let links = expect::reach(&world, &[]).links;
    let sets = expect::sets(&world.sim.counters());
    reload(&mut world, fewer.clone());
    world.settle(LIMIT);
    assert_eq!(expect::sets(&world.sim.counters()), sets, "nothing is set");
    let findings = world.manager().findings();
    assert!(findings.iter().all(|(code, _)| *code == "link-mismatch"));
    assert_eq!(findings.len(), 2 * links.len());

    let bounce = true;
    reload(&mut world, LinkConfig { bounce, ..fewer });
    let most_down = Cell::new(0);
    let until = world.now() + LIMIT;
    world.run(until, |world| {
        let is_down = |&(guid, port): &(Guid, PortNum)| {
            let info = world.sim.port_info(guid, port).unwrap();
            info.port_state() != PortState::Active
        };
        let down = links.iter().filter(|(a, b)| is_down(a) || is_down(b));
        most_down.set(most_down.get().max(down.count()));
        false
    });
    assert_eq!(most_down.get(), 1, "one at a time");
    expect::assert_up(&world);
    // The manager's own link stays up.
    let findings = world.manager().findings();
    assert_eq!(findings.len(), 2, "{findings:?}");
}

/// A bounced link whose cable broke meanwhile kept rsm from bouncing any other link.
#[test]
fn bounced_link_that_does_not_come_up_holds_up_other_bounces_for_a_bounded_time() {
    let mut world = World::brought_up("ring:4", Settings::default());
    let links = expect::reach(&world, &[]).links;
    let ends: Vec<(Guid, PortNum)> = links.into_iter().flat_map(|(a, b)| [a, b]).collect();
    let links = LinkConfig {
        max_op_vls: 1,
        bounce: true,
        ..LinkConfig::default()
    };
    reload(&mut world, links);
    let bounced = Cell::new(None);
    let until = world.now() + LIMIT;
    world.run(until, |world| {
        let is_down = |&&(guid, port): &&(Guid, PortNum)| {
            let info = world.sim.port_info(guid, port).unwrap();
            info.port_state() == PortState::Down
        };
        bounced.set(ends.iter().find(is_down).copied());
        bounced.get().is_some()
    });
    let (node, port) = bounced.get().expect("a link is bounced");
    world.sim.unlink(node, port).unwrap();
    world.run_for(2 * LIMIT);
    let findings = world.manager().findings();
    let mismatches = findings.iter().filter(|(code, _)| *code == "link-mismatch");
    // The other two are those of the manager's own link.
    assert_eq!(mismatches.count(), 3, "{findings:?}");
    world.sim.relink(node, port).unwrap();
    world.run_for(LIMIT);
    expect::assert_up(&world);
    assert_eq!(world.manager().findings().len(), 2);
}

#[test]
fn devices_without_habits_cost_no_extra_smp() {
    let mut world = World::generated(LARGE, Settings::default());
    world.count_requests();
    bring_up(&mut world);
    let requests = world.requests();
    let counts = [Method::GET, Method::SET].map(|method| requests.count(method));
    assert_eq!(counts, [GETS_OF_BRING_UP, SETS_OF_BRING_UP]);
}

/// The numbers of Gets and Sets that bringing [`LARGE`] up took before the core expected refusals.
const GETS_OF_BRING_UP: u64 = 1811;
const SETS_OF_BRING_UP: u64 = 2016;

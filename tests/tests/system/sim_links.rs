//! Links and nodes go down and come back during operation.

use std::collections::BTreeSet;
use std::time::Duration;

use rsm_core::CoreConfig;
use rsm_ids::{Guid, PortNum};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_routing::netlist::{LinkSpeed, LinkWidth, Node, NodeKind};
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);
const TREE: &str = "fat-tree:k=4,levels=3";

fn switches(world: &World) -> BTreeSet<Guid> {
    world.nodes(NodeKind::Switch).into_iter().collect()
}

type End = (Guid, PortNum);

/// The first cable between two switches, or between a switch and a host other than the subnet
/// manager's.
fn cable(world: &World, between_switches: bool) -> (End, End) {
    let switches = switches(world);
    let reach = expect::reach(world, &[]);
    let manager = world
        .manager()
        .core()
        .inventory()
        .hardware
        .local
        .map(|local| local.node);
    reach
        .links
        .iter()
        .copied()
        .find(|(a, b)| {
            (switches.contains(&a.0) && switches.contains(&b.0)) == between_switches
                && Some(a.0) != manager
                && Some(b.0) != manager
        })
        .expect("there is such a cable")
}

/// A switch with hosts, other than the subnet manager's leaf.
fn leaf(world: &World) -> Guid {
    let (a, b) = cable(world, false);
    let manager = world
        .manager()
        .core()
        .inventory()
        .hardware
        .local
        .expect("it is known");
    let own = world
        .sim
        .peer(manager.node, manager.port)
        .expect("it is there")
        .expect("it is cabled")
        .0;
    let switches = switches(world);
    let candidate = if switches.contains(&a.0) { a.0 } else { b.0 };
    if candidate != own {
        return candidate;
    }
    expect::reach(world, &[])
        .links
        .iter()
        .filter(|(a, b)| switches.contains(&a.0) != switches.contains(&b.0))
        .map(|(a, b)| if switches.contains(&a.0) { a.0 } else { b.0 })
        .find(|&guid| guid != own)
        .expect("there is another leaf")
}

fn assert_up_without_findings(world: &World) {
    assert_up_with_findings(world, &[]);
}

/// Asserts that the subnet is up, that its findings have exactly these codes, and that no harmful
/// state was on the wire.
fn assert_up_with_findings(world: &World, codes: &[&str]) {
    expect::assert_up(world);
    let findings = world.manager().findings();
    let found: Vec<&str> = findings.iter().map(|(code, _)| *code).collect();
    assert_eq!(found, codes, "{findings:?}");
    world.watched().assert_harmless();
}

#[test]
fn without_reading_on_traps_a_light_sweep_finds_a_lost_link() {
    let core = CoreConfig {
        reads_on_trap: false,
        light_sweep: Duration::from_secs(20),
        ..CoreConfig::default()
    };
    let settings = Settings {
        core,
        ..Settings::default()
    };
    let mut world = World::brought_up(TREE, settings);
    let generation = |world: &World| world.manager().core().plan().map(|plan| plan.generation);
    let planned = generation(&world);
    let (a, _) = cable(&world, true);
    world.sim.unlink(a.0, a.1).unwrap();
    world.run_for(Duration::from_secs(5));
    assert_eq!(generation(&world), planned, "the traps had no effect");
    world.run_for(LIMIT);
    assert_ne!(generation(&world), planned);
    let findings = world.manager().findings();
    assert!(
        findings.iter().any(|(code, _)| *code == "cable-missing"),
        "{findings:?}"
    );
}

#[test]
fn a_lost_link_writes_only_changed_blocks() {
    let mut world = World::brought_up(TREE, Settings::default());
    let (a, b) = cable(&world, true);
    let before: Vec<_> = switches(&world)
        .iter()
        .map(|&guid| (guid, world.sim.lft(guid).unwrap().to_vec()))
        .collect();

    let generation = |world: &World| world.manager().core().plan().map(|plan| plan.generation);
    let planned = generation(&world);
    world.count_requests();
    world.sim.unlink(a.0, a.1).unwrap();
    world.settle(LIMIT);
    assert_up_with_findings(&world, &["cable-missing"]);
    assert_eq!(
        generation(&world),
        planned.map(|generation| generation + 1),
        "both ends report it, and it is planned for once"
    );

    let requests = world.requests();
    let ends = BTreeSet::from([a.0, b.0]);
    for attribute in requests.attributes(Method::GET) {
        let asked = requests.nodes(Method::GET, attribute);
        assert!(
            asked.is_subset(&ends),
            "{attribute} was asked of {asked:?}, the ends are {ends:?}"
        );
    }
    // A block is written once in each stage that changes one of its entries.
    let plan = world.manager().core().plan().expect("planned");
    let blocks = |table: &[u8]| table.chunks(64).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let changed: u64 = before
        .iter()
        .map(|(guid, old)| {
            let mut held = blocks(old);
            let mut count = 0;
            let interim = (0..).map_while(|stage| plan.interim_table(stage, *guid));
            let interim =
                interim.map(|table| (0..held.len()).map(|at| table.block(at).to_vec()).collect());
            let interim: Vec<Vec<Vec<u8>>> = interim.collect();
            for next in interim
                .into_iter()
                .chain([blocks(world.sim.lft(*guid).unwrap())])
            {
                count += held
                    .iter()
                    .zip(&next)
                    .filter(|(old, new)| old != new)
                    .count() as u64;
                held = next;
            }
            count
        })
        .sum();
    assert!(changed > 0, "the link was in use");
    let set = |attribute| {
        requests
            .nodes(Method::SET, attribute)
            .iter()
            .map(|&guid| requests.of(guid, Method::SET, attribute))
            .sum::<u64>()
    };
    assert_eq!(set(AttrId::LINEAR_FORWARDING_TABLE), changed);
    assert_eq!(set(AttrId::PORT_INFO), 0);
    assert_eq!(
        requests.nodes(Method::SET, AttrId::SWITCH_INFO),
        ends,
        "PortStateChange is cleared"
    );
    assert_eq!(requests.count(Method::SET), changed + 2);
}

#[test]
fn a_link_that_comes_back_is_used_again() {
    let mut world = World::brought_up(TREE, Settings::default());
    let (a, b) = cable(&world, true);
    world.sim.unlink(a.0, a.1).unwrap();
    world.settle(LIMIT);
    world.count_requests();
    world.sim.relink(a.0, a.1).unwrap();
    world.settle(LIMIT);
    assert_up_without_findings(&world);
    let requests = world.requests();
    let ends = BTreeSet::from([a.0, b.0]);
    assert_eq!(requests.nodes(Method::SET, AttrId::PORT_INFO), ends);
    for end in ends {
        assert_eq!(
            requests.of(end, Method::SET, AttrId::PORT_INFO),
            2,
            "armed with its settings, then active"
        );
    }
    let used = world.sim.lft(a.0).unwrap().contains(&a.1.0);
    assert!(used, "the link is routed over again");
}

#[test]
fn a_host_whose_cable_comes_back_is_served_again() {
    let mut world = World::brought_up(TREE, Settings::default());
    let (a, b) = cable(&world, false);
    world.sim.unlink(a.0, a.1).unwrap();
    world.settle(LIMIT);
    assert_up_with_findings(&world, &["host-missing"]);
    world.sim.relink(b.0, b.1).unwrap();
    world.settle(LIMIT);
    assert_up_without_findings(&world);
}

#[test]
fn the_manager_recovers_when_its_own_cable_comes_back() {
    let mut world = World::brought_up(TREE, Settings::default());
    let local = world.manager().core().inventory().hardware.local.unwrap();
    world.sim.unlink(local.node, local.port).unwrap();
    world.run_for(Duration::from_secs(30));
    // Meanwhile another cable is lost, and no trap can reach the manager.
    let (a, _) = cable_of_tree(&world);
    world.sim.unlink(a.0, a.1).unwrap();
    world.run_for(Duration::from_secs(30));
    world.sim.relink(local.node, local.port).unwrap();
    world.settle(LIMIT);
    assert_up_with_findings(&world, &["cable-missing"]);
}

/// A cable between switches, as the hardware has it.
fn cable_of_tree(world: &World) -> (End, End) {
    let switches = switches(world);
    switches
        .iter()
        .flat_map(|&guid| {
            let ports = world.sim.num_ports(guid).unwrap();
            (1..=ports).map(move |port| (guid, PortNum(port)))
        })
        .find_map(|here| {
            let there = world.sim.peer(here.0, here.1).unwrap()?;
            switches.contains(&there.0).then_some((here, there))
        })
        .expect("there is such a cable")
}

#[test]
fn a_rebooted_switch_gets_its_tables_again() {
    for spec in [TREE, "ring:5", "torus:3x3"] {
        let mut world = World::brought_up(spec, Settings::default());
        let switch = leaf(&world);
        let lid = world.sim.port_info(switch, PortNum(0)).unwrap().lid();
        world.sim.reboot(switch).unwrap();
        world.run_for(Duration::from_secs(5));
        world.settle(LIMIT);
        assert_up_without_findings(&world);
        let after = world.sim.port_info(switch, PortNum(0)).unwrap().lid();
        assert_eq!(after, lid, "{spec}: it gets the LID that it had");
    }
}

/// The reboot is so short that neighbours may only see links that fell back to Init.
#[test]
fn a_reboot_that_takes_ten_microseconds_is_noticed() {
    let mut settings = Settings::default();
    settings.sim.reboot_time = Duration::from_micros(10);
    settings.sim.link_training = Duration::from_micros(10);
    let mut world = World::brought_up(TREE, settings);
    let switch = leaf(&world);
    world.sim.reboot(switch).unwrap();
    world.run_for(Duration::from_secs(15));
    world.settle(LIMIT);
    assert_up_without_findings(&world);
}

#[test]
fn a_switch_whose_power_comes_back_is_used_again() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    world.sim.power_off(switch).unwrap();
    world.settle(LIMIT);
    // The finding about the switch includes the hosts behind it.
    assert_up_with_findings(&world, &["switch-missing"]);
    assert!(
        world
            .manager()
            .core()
            .inventory()
            .hardware
            .node(switch)
            .is_none()
    );
    world.sim.power_on(switch).unwrap();
    world.settle(LIMIT);
    assert_up_without_findings(&world);
}

#[test]
fn the_subnet_recovers_when_every_switch_reboots_at_once() {
    let mut world = World::brought_up(TREE, Settings::default());
    for switch in switches(&world) {
        world.sim.reboot(switch).unwrap();
    }
    world.run_for(Duration::from_secs(10));
    world.settle(LIMIT);
    assert_up_without_findings(&world);
}

#[test]
fn a_new_host_comes_up() {
    // Leaves lack hosts, and have free ports.
    let spec = format!("{TREE},uneven=90");
    let mut world = World::brought_up(&spec, Settings::default());
    let is_free = |&(switch, port): &End| world.sim.peer(switch, port).unwrap().is_none();
    let ports = switches(&world).into_iter().flat_map(|switch| {
        let ports = 1..=world.sim.num_ports(switch).unwrap();
        ports.map(move |port| (switch, PortNum(port)))
    });
    let place = ports.into_iter().find(is_free).expect("a free port");
    let node = Node {
        kind: NodeKind::Ca,
        guid: Guid(0xABCD),
        system_image_guid: Guid::ZERO,
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        description: b"new here".to_vec(),
        num_ports: 1,
        enhanced_port0: false,
        ports: Default::default(),
    };
    world.sim.add_node(&node, None).unwrap();
    world
        .sim
        .add_cable(
            place,
            (node.guid, PortNum(1)),
            LinkWidth::X4,
            LinkSpeed::Hdr,
        )
        .unwrap();
    world.settle(LIMIT);
    assert_up_without_findings(&world);
    let snapshot = world.manager().snapshot().unwrap();
    let new = snapshot.fabric.find(node.guid).expect("it was found");
    assert_eq!(snapshot.fabric.node(new).description, "new here");
}

#[test]
fn a_storm_of_traps_costs_few_sweeps() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switch = leaf(&world);
    let ports = u64::from(world.sim.num_ports(switch).unwrap());
    let lid = world.sim.port_info(switch, PortNum(0)).unwrap().lid();
    world.count_requests();
    for tick in 0..4000_u32 {
        world.schedule(Duration::from_micros(500) * tick, move |world| {
            let mut details = rsm_mad::wire::attr::LinkStateChange::default();
            details.set_lid(lid);
            let notice = rsm_mad::wire::attr::Notice::generic(
                rsm_mad::wire::attr::NoticeType::Urgent,
                rsm_mad::wire::attr::ProducerType::SWITCH,
                rsm_mad::wire::attr::Trap::LINK_STATE_CHANGED,
                lid,
                &details,
            );
            world.sim.inject_notice(switch, PortNum(0), notice).unwrap();
        });
    }
    world.settle(LIMIT);
    assert_up_with_findings(&world, &["babbling-port"]);
    // Pauses of 50, 100, 200 … ms fit in two seconds: at most seven sweeps, each of the switch and
    // its ports.
    let gets = world.requests().count(Method::GET);
    assert!(gets <= 8 * (ports + 2), "{gets} Gets for 4000 traps");
    assert_eq!(world.requests().count(Method::SET), 0);
}

#[test]
fn a_flapping_link_is_left_out_of_the_routes_until_it_is_quiet() {
    let mut world = World::brought_up(TREE, Settings::default());
    let (a, _) = cable(&world, true);
    for flap in 0..8_u32 {
        world.schedule(Duration::from_millis(800) * flap, move |world| {
            world.sim.unlink(a.0, a.1).unwrap();
        });
        world.schedule(
            Duration::from_millis(800) * flap + Duration::from_millis(400),
            move |world| {
                world.sim.relink(a.0, a.1).unwrap();
            },
        );
    }
    world.run_for(Duration::from_secs(12));
    let codes: Vec<_> = world.manager().findings();
    assert!(
        codes.iter().any(|(code, _)| *code == "link-flapping"),
        "{codes:?}"
    );
    expect::assert_up(&world);
    assert!(
        !world.sim.lft(a.0).unwrap().contains(&a.1.0),
        "no route over the link"
    );

    world.run_for(Duration::from_secs(120));
    world.settle(LIMIT);
    assert_up_without_findings(&world);
    assert!(
        world.sim.lft(a.0).unwrap().contains(&a.1.0),
        "the link is used again"
    );
}

#[test]
fn if_all_uplinks_of_a_leaf_flap_the_quietest_stays_in_the_routes() {
    let mut world = World::brought_up(TREE, Settings::default());
    let leaf = leaf(&world);
    let uplinks: Vec<PortNum> = (1..=world.sim.num_ports(leaf).unwrap())
        .map(PortNum)
        .filter(|&port| {
            let peer = world.sim.peer(leaf, port).unwrap();
            peer.is_some_and(|peer| switches(&world).contains(&peer.0))
        })
        .collect();
    for flap in 0..8_u32 {
        for &port in &uplinks {
            let down = Duration::from_millis(800) * flap;
            world.schedule(down, move |world| world.sim.unlink(leaf, port).unwrap());
            let up = down + Duration::from_millis(400);
            world.schedule(up, move |world| world.sim.relink(leaf, port).unwrap());
        }
    }
    world.run_for(Duration::from_secs(9));
    let used = |world: &World| {
        let table = world.sim.lft(leaf).unwrap();
        uplinks
            .iter()
            .filter(|port| table.contains(&port.0))
            .count()
    };
    let snapshot = world.manager().snapshot().unwrap();
    let findings = snapshot.findings.iter();
    let texts: Vec<&str> = findings.map(|finding| &*finding.text).collect();
    assert_eq!(texts.len(), uplinks.len(), "{texts:?}");
    let used_anyway = texts
        .iter()
        .filter(|text| text.contains("is used all the same"));
    assert_eq!(used_anyway.count(), 1, "{texts:?}");
    expect::assert_up(&world);
    assert_eq!(used(&world), 1, "the quietest of them");

    world.run_for(Duration::from_secs(120));
    world.settle(LIMIT);
    assert_up_without_findings(&world);
    assert_eq!(used(&world), uplinks.len(), "the others are used again");
}

#[test]
fn tables_are_written_however_fast_links_come_and_go() {
    let mut world = World::brought_up(TREE, Settings::default());
    let switches = switches(&world);
    let reach = expect::reach(&world, &[]);
    let cables = reach.links.iter().copied();
    let cables: Vec<(End, End)> = cables
        .filter(|(a, b)| switches.contains(&a.0) && switches.contains(&b.0))
        .collect();
    // Each change lasts a tenth of the time that rsm needs to read it, and no cable flaps often
    // enough for damping.
    let pause = Duration::from_micros(300);
    for (turn, &(a, _)) in (0..).zip(&cables) {
        world.schedule(pause * 2 * turn, move |world| {
            world.sim.unlink(a.0, a.1).unwrap();
        });
        world.schedule(pause * (2 * turn + 9), move |world| {
            world.sim.relink(a.0, a.1).unwrap();
        });
    }
    world.count_requests();
    let storm = pause * 2 * u32::try_from(cables.len()).unwrap();
    world.run_for(storm);
    let written = world
        .requests()
        .nodes(Method::SET, AttrId::LINEAR_FORWARDING_TABLE);
    assert!(!written.is_empty(), "nothing was written in {storm:?}");
    world.settle(LIMIT);
    assert_up_without_findings(&world);
}

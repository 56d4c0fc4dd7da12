//! Managers that share a store, in virtual time: the standby takes over from the state that it has
//! read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable, PortInfo, SmInfo, SwitchInfo};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_model::whole::Step;
use rsm_routing::netlist::NodeKind;
use rsm_state::{Activity, Following, Role};
use rsm_tests::virtual_time::{Memory, World, expect};

const LIMIT: Duration = Duration::from_secs(60);
/// A fabric of 20 switches and 16 hosts.
const TREE: &str = "fat-tree:k=4,levels=3";
/// The maximum time of a takeover: half a second without a sign of life in the store, the
/// additional time of a request, and the remaining time for the fabric.
const TAKEOVER_LIMIT: Duration = Duration::from_millis(700);
const MULTICAST: Lid = Lid(0xC000);

/// A fabric with its master at the first host, and a standby at the last host. The standby has just
/// started.
fn with_new_standby() -> World {
    World::shared(TREE, true, LIMIT)
}

/// The fabric of [`with_new_standby`] once the standby has read the subnet.
fn with_ready_standby() -> World {
    let mut world = with_new_standby();
    wait_ready(&mut world, 1);
    world
}

/// Runs until the standby has read the subnet as the master left it, and has a plan of it.
fn wait_ready(world: &mut World, standby: usize) {
    let until = world.now() + LIMIT;
    let is_ready = |world: &World| {
        let following = following(world, standby);
        following.is_some_and(|following| {
            following.read.is_some() && following.read == following.planned
        }) && following.and_then(|following| following.read) == Some(world.stored().generation)
            && !world.stored().is_pushing
    };
    assert!(
        world.run(until, is_ready),
        "{:?}, stored {}",
        following(world, standby),
        world.stored().generation
    );
}

fn following(world: &World, index: usize) -> Option<Following> {
    world.managers()[index].core().following()
}

fn is_master(world: &World, index: usize) -> bool {
    world.managers()[index].is_alive() && *world.managers()[index].core().role() == Role::Master
}

/// The LIDs of all end ports.
fn lids(world: &World) -> Vec<((Guid, PortNum), Lid)> {
    let ports = world.sim.end_ports();
    ports
        .map(|(node, port)| {
            let info = world.sim.port_info(node, port).expect("it is there");
            ((node, port), info.lid())
        })
        .collect()
}

/// The port of a manager, whether or not it runs.
fn manager_port(world: &World, index: usize) -> (Guid, PortNum) {
    let manager = &world.managers()[index];
    manager.local(&world.sim).expect("it is attached")
}

/// Runs until the SA beside the manager answers hosts at `lid`: it serves, packets from every host
/// to `lid` arrive, and the manager's port holds `lid`. Returns that time.
fn wait_answers(world: &mut World, index: usize, lid: Lid) -> Time {
    let own = manager_port(world, index);
    let hosts = world.nodes(NodeKind::Ca);
    let until = world.now() + LIMIT;
    let answers = |world: &World| {
        let serves = world.managers()[index].serving().is_some();
        serves
            && hosts.iter().all(|&host| {
                let probe = world.sim.probe((host, PortNum(1)), lid, 0);
                host == own.0 || probe.is_ok_and(|probe| probe.is_delivered())
            })
    };
    let mut answered = world.run(until, answers);
    while answered {
        // Packets are delivered to the new manager, not to the port of the previous one.
        let held = world
            .sim
            .port_info(own.0, own.1)
            .expect("it is there")
            .lid();
        if held == lid {
            return world.now();
        }
        let soon = world.now() + Duration::from_micros(100);
        world.run(soon, |_| false);
        answered = world.now() < until;
    }
    panic!("no answer; {:?}", world.managers()[index].findings());
}

/// Asserts that every LID that the SA would answer with is held by its port, except for the ports
/// of the managers, which a takeover is changing.
fn assert_sa_lids_held(world: &World, index: usize) {
    let Some((_, snapshot)) = world.managers()[index].serving() else {
        return;
    };
    let managers = [manager_port(world, 0), manager_port(world, 1)];
    for ((node, port), lid) in lids(world) {
        let key = PortKey::new(node, port);
        let known = snapshot.fabric.find_port(key);
        let known = known.and_then(|at| snapshot.fabric.port(at).info);
        if let Some(known) = known.filter(|_| !managers.contains(&(node, port))) {
            assert_eq!(known.lid(), lid, "{node} port {port}");
        }
    }
}

/// The causes of a manager's convergences.
fn causes(world: &World, index: usize) -> Vec<String> {
    let convergences = world.managers()[index].convergences().iter();
    convergences
        .map(|convergence| convergence.cause.clone())
        .collect()
}

/// Whether the manager took over without reading the whole subnet first.
fn took_over_at_once(world: &World, index: usize) -> bool {
    let causes = causes(world, index);
    let quick = "the master is gone, whose subnet was read before";
    causes.iter().any(|cause| cause.contains(quick))
}

/// Asserts that no credit loop was on the wire, and that no LID moved except the LIDs of the
/// managers.
fn assert_no_loop_and_no_move(world: &World) {
    let loops = world.watched().credit_loops();
    assert!(loops.is_empty(), "{loops:#?}");
    let managers = [manager_port(world, 0), manager_port(world, 1)];
    let moved = world.watched().moved().iter();
    let others: Vec<_> = moved
        .filter(|moved| !managers.contains(&moved.port))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

/// Asserts that all links are Active, and that every port reaches every other port, as the manager
/// with this index sees it.
fn assert_up_by(world: &World, index: usize) {
    let reach = expect::Reach::of(&world.sim, manager_port(world, index), &[]);
    let mut problems = expect::inactive(&world.sim, &reach);
    let plan = world.managers()[index].core().plan();
    let excused = plan.map_or(0, |plan| plan.report.switch_pairs.unreachable);
    problems.extend(expect::unreachable(&world.sim, &reach, excused));
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The cables between switches, each by one of its ends.
fn trunks(world: &World) -> Vec<(Guid, PortNum)> {
    let switches: BTreeSet<Guid> = world.nodes(NodeKind::Switch).into_iter().collect();
    let reach = expect::Reach::of(&world.sim, manager_port(world, 0), &[]);
    let links = reach.links.iter();
    links
        .filter(|(a, b)| switches.contains(&a.0) && switches.contains(&b.0))
        .map(|&(a, _)| a)
        .collect()
}

#[test]
fn a_standby_that_has_read_the_subnet_answers_at_once_and_sets_only_the_lid_of_the_manager() {
    let mut world = with_ready_standby();
    let hosts = world.nodes(NodeKind::Ca);
    let member = |host: Guid| world.sim.port_guid(host, PortNum(1)).expect("it is there");
    let members: Vec<Guid> = hosts[3..9].iter().map(|&host| member(host)).collect();
    world.regroup(MULTICAST, |ports| {
        ports.extend(members.iter().map(|&guid| (guid, true)));
    });
    world.settle(LIMIT);
    let held = |world: &World| -> Vec<Vec<(u32, [u8; 64])>> {
        let switches = world.nodes(NodeKind::Switch).into_iter();
        let tables = switches.map(|guid| world.sim.mft(guid).expect("it is a switch"));
        tables
            .map(|blocks| blocks.map(|(at, block)| (at, *block)).collect())
            .collect()
    };
    let (before, masks) = (lids(&world), held(&world));
    let lid = before
        .iter()
        .find(|(port, _)| *port == manager_port(&world, 0));
    let lid = lid.expect("it has a port").1;
    world.count_requests();
    world.keep_writes();
    let sets = world.managers()[1].sets();
    let killed = world.now();
    world.kill(0);
    let answered = wait_answers(&mut world, 1, lid);
    assert_sa_lids_held(&world, 1);
    let took = answered.since(killed);
    assert!(took < TAKEOVER_LIMIT, "{took:?}");
    world.settle(LIMIT);
    assert!(took_over_at_once(&world, 1), "{:?}", causes(&world, 1));

    // Each switch gets its block at most three times, for interim tables and the planned table. The
    // two managers get PortInfo, and nothing else is sent.
    let requests = world.requests();
    let attributes = requests.attributes(Method::SET);
    let expected = [LinearForwardingTable::ID, PortInfo::ID];
    assert_eq!(attributes, expected.into_iter().collect());
    let written = requests.nodes(Method::SET, PortInfo::ID);
    let managers = [manager_port(&world, 0).0, manager_port(&world, 1).0];
    assert_eq!(written, managers.into_iter().collect());
    for switch in world.nodes(NodeKind::Switch) {
        let blocks = requests.of(switch, Method::SET, LinearForwardingTable::ID);
        assert!(blocks <= 3, "{switch}: {blocks}");
    }
    let sent = world.managers()[1].sets() - sets;
    assert!(sent <= 3 * 20 + 2, "{sent}");
    let own = before
        .iter()
        .find(|(port, _)| *port == manager_port(&world, 1));
    let two = [Some(lid), own.map(|(_, lid)| *lid)];
    for write in world.keep_writes() {
        let mut entries = write.entries.iter();
        assert!(
            entries.all(|(lid, _)| two.contains(&Some(*lid))),
            "{write:?}"
        );
    }
    // The two LIDs are exchanged, and no other LID changes.
    let (first, second) = (manager_port(&world, 0), manager_port(&world, 1));
    for (port, lid) in lids(&world) {
        let at = match port {
            port if port == first => second,
            port if port == second => first,
            port => port,
        };
        let was = before.iter().find(|(port, _)| *port == at);
        assert_eq!(was.map(|(_, lid)| *lid), Some(lid), "{port:?}");
    }
    assert_eq!(held(&world), masks);
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
}

/// The forwarding tables by switch.
type Tables = BTreeMap<Guid, Vec<u8>>;

/// The number of Sets to each node, by attribute.
type SetCounts = BTreeMap<(Guid, AttrId), u64>;

/// The forwarding tables of all switches.
fn tables(world: &World) -> Tables {
    let switches = world.nodes(NodeKind::Switch).into_iter();
    let table = |guid| (guid, world.sim.lft(guid).expect("it is a switch").to_vec());
    switches.map(table).collect()
}

/// Kills the master. Returns the forwarding tables before that, and the Sets that the successor
/// sends until it is at rest.
fn take_over(world: &mut World) -> (Tables, SetCounts) {
    let hosts = world.nodes(NodeKind::Ca);
    let guid = |host: &Guid| world.sim.port_guid(*host, PortNum(1)).expect("it is there");
    let members: Vec<Guid> = hosts[3..9].iter().map(guid).collect();
    world.regroup(MULTICAST, |ports| {
        ports.extend(members.iter().map(|&guid| (guid, true)));
    });
    world.settle(LIMIT);
    wait_ready(world, 1);
    let before = tables(world);
    world.count_requests();
    world.keep_writes();
    world.kill(0);
    world.run_for(Duration::from_secs(30));
    world.settle(LIMIT);
    assert!(is_master(world, 1));
    let sets = world.requests().counts(Method::SET);
    // SMInfo changes no hardware.
    let of_hardware = sets
        .into_iter()
        .filter(|((_, about), _)| *about != SmInfo::ID);
    (before, of_hardware.collect())
}

/// Every entry that a takeover changes is written once, and no Set is sent without such an entry.
#[test]
fn with_a_floating_lid_a_takeover_sets_each_changed_entry_once_and_two_ports() {
    let mut world = with_ready_standby();
    let (before, sets) = take_over(&mut world);
    let mut expected = BTreeMap::new();
    for index in [0, 1] {
        expected.insert((manager_port(&world, index).0, PortInfo::ID), 1);
    }
    let mut written: BTreeMap<(Guid, Lid), u8> = BTreeMap::new();
    for write in world.keep_writes() {
        assert!(!write.entries.is_empty(), "{write:?}");
        let key = (write.switch, LinearForwardingTable::ID);
        *expected.entry(key).or_default() += 1;
        for &(lid, port) in &write.entries {
            let earlier = written.insert((write.switch, lid), port);
            assert_eq!(earlier, None, "{write:?}");
        }
    }
    assert_eq!(sets, expected, "{:?}", world.managers()[1].convergences());
    let mut differing = BTreeMap::new();
    for (switch, after) in tables(&world) {
        let pairs = before[&switch].iter().zip(&after).enumerate();
        let changed = pairs.filter(|(_, (old, new))| old != new);
        differing.extend(changed.map(|(lid, (_, &port))| ((switch, Lid(lid as u16)), port)));
    }
    assert_eq!(written, differing);
    let lids: BTreeSet<Lid> = written.keys().map(|&(_, lid)| lid).collect();
    assert_eq!(lids.len(), 2, "those of the two managers: {lids:?}");
}

#[test]
fn without_a_floating_lid_a_takeover_sets_the_master_lid_once_at_each_port() {
    let mut world = World::shared(TREE, false, LIMIT);
    wait_ready(&mut world, 1);
    let (before, sets) = take_over(&mut world);
    let ports = world.sim.end_ports();
    let expected = ports.map(|(node, _)| ((node, PortInfo::ID), 1)).collect();
    assert_eq!(sets, expected);
    assert_eq!(tables(&world), before);
}

/// Runs until the manager holds the epoch of the store.
fn wait_epoch(world: &mut World, index: usize) {
    let (node, port) = manager_port(world, index);
    let own = world.sim.port_guid(node, port).expect("it is there");
    let until = world.now() + LIMIT;
    let holds = |world: &World| world.epoch().is_some_and(|epoch| epoch.holder == own);
    assert!(world.run(until, holds));
}

#[test]
fn a_takeover_waits_for_no_answer_of_a_switch_and_follows_the_plan_made_ahead() {
    let mut world = with_ready_standby();
    world.settle(LIMIT);
    let before = world.managers()[1].sets();
    world.count_requests();
    world.kill(0);
    wait_epoch(&mut world, 1);
    // Everything that the first push needs was queried while the master was silent.
    let ahead = world.requests();
    for switch in world.nodes(NodeKind::Switch) {
        assert_eq!(ahead.of(switch, Method::GET, SwitchInfo::ID), 1, "{switch}");
        assert!(ahead.of(switch, Method::GET, LinearForwardingTable::ID) > 0);
    }
    world.count_requests();
    let until = world.now() + LIMIT;
    assert!(world.run(until, |world| world.managers()[1].sets() > before));
    let own = manager_port(&world, 1).0;
    let gets = world.requests().counts(Method::GET);
    assert!(gets.keys().all(|&(node, _)| node == own), "{gets:?}");

    world.settle(LIMIT);
    let convergences = world.managers()[1].convergences().iter();
    let mut first = convergences.filter(|pass| pass.cause.contains("the master is gone"));
    let first = first.next().expect("it took over");
    let mut whole = first.whole.iter();
    assert!(
        whole.all(|whole| whole.step == Step::Multicast),
        "{first:?}"
    );
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
}

#[test]
fn a_master_that_is_silent_for_240_ms_stays_master_and_the_standby_sets_nothing() {
    let mut world = with_ready_standby();
    world.settle(LIMIT);
    let before = world.managers()[1].sets();
    let epoch = world.epoch();
    world.count_requests();
    world.pause_for(0, Duration::from_millis(240));
    world.run_for(Duration::from_secs(5));
    let requests = world.requests();
    for switch in world.nodes(NodeKind::Switch) {
        // The table was read once in advance, and by the light sweep of the master.
        let asked = requests.of(switch, Method::GET, LinearForwardingTable::ID);
        assert!((1..=2).contains(&asked), "{switch}: {asked}");
    }
    assert_eq!(world.managers()[1].sets(), before);
    assert_eq!(world.epoch(), epoch);
    assert!(is_master(&world, 0) && !is_master(&world, 1));
    let following = following(&world, 1).expect("it stands by");
    assert_eq!(
        following.read, following.planned,
        "what it has read stays right"
    );
}

#[test]
fn a_master_cut_off_from_the_store_that_answers_before_the_deadline_keeps_the_epoch() {
    let mut world = with_ready_standby();
    let epoch = world.epoch();
    // The requests of the standby fall at different moments of the pause.
    for offset_ms in (0..100).step_by(10) {
        world.run_for(Duration::from_millis(offset_ms));
        world.pause_for(0, Duration::from_millis(380));
        world.cut_from_store(0, true);
        world.run_for(Duration::from_millis(500));
        world.cut_from_store(0, false);
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.epoch(), epoch, "{offset_ms} ms");
        assert!(
            is_master(&world, 0) && !is_master(&world, 1),
            "{offset_ms} ms"
        );
        world.settle(LIMIT);
    }
}

#[test]
fn a_cable_that_breaks_around_the_takeover_is_routed_around_and_makes_no_loop() {
    let world = with_ready_standby();
    let trunks = trunks(&world);
    drop(world);
    let offsets_ms: [i64; 9] = [-200, -20, -5, -1, 0, 50, 305, 310, 330];
    for (round, offset) in offsets_ms.into_iter().enumerate() {
        let mut world = with_ready_standby();
        let (node, port) = trunks[round * 5 % trunks.len()];
        let at = |ms: i64| Duration::from_millis((ms + 200).unsigned_abs());
        world.schedule(at(offset), move |world| {
            world.sim.unlink(node, port).expect("it is cabled");
        });
        world.schedule(at(0), |world| world.kill(0));
        let until = world.now() + at(1000);
        // The SA answers from true state at each moment.
        world.run(until, |world| {
            assert_sa_lids_held(world, 1);
            false
        });
        assert!(is_master(&world, 1), "{offset} ms");
        world.settle(LIMIT);
        assert_up_by(&world, 1);
        assert_no_loop_and_no_move(&world);
    }
}

#[test]
fn a_cable_that_breaks_with_the_master_is_routed_around_within_a_second() {
    let mut world = with_ready_standby();
    let (node, port) = trunks(&world)[3];
    let killed = world.now();
    world.kill(0);
    world.sim.unlink(node, port).expect("it is cabled");
    let until = killed + Duration::from_secs(1);
    let leads = |world: &World| {
        let lft = world.sim.lft(node).expect("it is a switch");
        lft.contains(&port.0)
    };
    assert!(leads(&world));
    let repaired = world.run(until, |world| !leads(world));
    assert!(repaired, "{:?}", causes(&world, 1));
    world.settle(LIMIT);
    assert!(took_over_at_once(&world, 1), "{:?}", causes(&world, 1));
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
}

#[test]
fn a_switch_that_was_rebooted_while_the_standby_was_behind_is_read_before_anything_is_set() {
    let mut world = with_ready_standby();
    let spine = trunks(&world)[0].0;
    let before = world.stored().generation;
    world.sim.reboot(spine).expect("it is a switch");
    // The master has reconfigured it, and the standby has not read it since.
    let until = world.now() + LIMIT;
    let is_stored =
        |world: &World| world.stored().generation > before && !world.stored().is_pushing;
    assert!(world.run(until, is_stored));
    world.kill(0);
    let lid = master_lid(&world);
    wait_answers(&mut world, 1, lid);
    assert_sa_lids_held(&world, 1);
    assert!(!took_over_at_once(&world, 1));
    world.settle(LIMIT);
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
}

#[test]
fn a_switch_that_is_rebooted_with_the_master_gets_its_tables_from_the_standby() {
    let mut world = with_ready_standby();
    let spine = trunks(&world)[0].0;
    world.sim.reboot(spine).expect("it is a switch");
    world.kill(0);
    let lid = master_lid(&world);
    wait_answers(&mut world, 1, lid);
    world.settle(LIMIT);
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
}

/// The LID of the first manager, which is the master before a takeover.
fn master_lid(world: &World) -> Lid {
    let (node, port) = manager_port(world, 2 - world.managers().len());
    world.sim.port_info(node, port).expect("it is there").lid()
}

#[test]
fn a_standby_that_has_never_read_the_subnet_reads_it_when_it_takes_over() {
    let mut world = with_new_standby();
    let until = world.now() + LIMIT;
    let stands_by = |world: &World| {
        matches!(world.managers()[1].core().role(), Role::Standby { .. })
            && following(world, 1).is_some_and(|following| following.planned.is_some())
    };
    assert!(world.run(until, stands_by));
    assert_eq!(
        following(&world, 1).and_then(|following| following.read),
        None
    );
    let lid = master_lid(&world);
    // Until the standby takes over, nearly no packet arrives, so it cannot read the subnet.
    world.schedule_loss(Duration::ZERO, Duration::from_millis(700), 0.95);
    world.kill(0);
    wait_answers(&mut world, 1, lid);
    assert_sa_lids_held(&world, 1);
    world.settle(LIMIT);
    assert!(!took_over_at_once(&world, 1));
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
}

#[test]
fn a_master_that_dies_during_a_push_is_replaced_without_a_loop() {
    for after_us in [0, 100, 1000] {
        let mut world = with_ready_standby();
        let (node, port) = trunks(&world)[0];
        world.sim.unlink(node, port).expect("it is cabled");
        let until = world.now() + LIMIT;
        let pushes =
            |world: &World| matches!(world.manager().core().activity(), Activity::Pushing { .. });
        assert!(world.run(until, pushes));
        // The store learns of the push a few milliseconds later.
        world.run_for(Duration::from_micros(after_us));
        world.kill(0);
        world.settle(LIMIT);
        assert!(is_master(&world, 1), "{after_us} us");
        assert_up_by(&world, 1);
        assert_no_loop_and_no_move(&world);
    }
}

#[test]
fn a_change_that_the_store_did_not_show_is_not_undone() {
    let mut world = with_ready_standby();
    // The store is unreachable: the standby does not learn that the master moves routes.
    world.set_store_away(true);
    let (node, port) = trunks(&world)[0];
    world.sim.unlink(node, port).expect("it is cabled");
    world.run_for(Duration::from_secs(10));
    // A master that answers stays master, whatever the store says.
    assert!(is_master(&world, 0) && !is_master(&world, 1));
    world.kill(0);
    world.set_store_away(false);
    let lid = master_lid(&world);
    wait_answers(&mut world, 1, lid);
    world.settle(LIMIT);
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
    let leads = world
        .sim
        .lft(node)
        .expect("it is a switch")
        .contains(&port.0);
    assert!(!leads, "no entry leads to the missing cable");
}

#[test]
fn the_standby_shows_that_it_is_behind_and_reads_the_change_without_a_set() {
    let mut world = with_ready_standby();
    let read = following(&world, 1).and_then(|following| following.read);
    world.count_requests();
    let sets = world.managers()[1].sets();
    let (node, port) = trunks(&world)[0];
    world.sim.unlink(node, port).expect("it is cabled");
    let until = world.now() + LIMIT;
    let is_behind =
        |world: &World| following(world, 1).is_some_and(|following| following.planned > read);
    assert!(world.run(until, is_behind));
    wait_ready(&mut world, 1);
    assert!(following(&world, 1).and_then(|following| following.read) > read);
    assert_eq!(world.managers()[1].sets(), sets, "it sets nothing");
    // Nothing changes, and nothing is read.
    world.settle(LIMIT);
    world.count_requests();
    world.run_for(Duration::from_secs(5));
    let gets = world.requests().count(Method::GET);
    assert!(gets < 200, "{gets} Gets");
}

#[test]
fn two_managers_take_over_from_each_other_repeatedly() {
    let mut world = with_ready_standby();
    for round in 0..6 {
        let master = usize::from(round % 2 == 1);
        wait_ready(&mut world, 1 - master);
        let (node, port) = manager_port(&world, master);
        let lid = world.sim.port_info(node, port).expect("it is there").lid();
        let killed = world.now();
        world.kill(master);
        let took = wait_answers(&mut world, 1 - master, lid).since(killed);
        assert!(took < TAKEOVER_LIMIT, "round {round}: {took:?}");
        assert_sa_lids_held(&world, 1 - master);
        world.settle(LIMIT);
        world.start(master, Memory::Lost);
        world.settle(LIMIT);
    }
    assert_no_loop_and_no_move(&world);
    assert_up_by(&world, 0);
}

/// The number of hosts whose port was written, other than the hosts of the managers.
fn hosts_written(world: &World) -> usize {
    let written = world.requests().nodes(Method::SET, PortInfo::ID);
    let managers = [manager_port(world, 0).0, manager_port(world, 1).0];
    let hosts = world.nodes(NodeKind::Ca).into_iter();
    hosts
        .filter(|host| written.contains(host) && !managers.contains(host))
        .count()
}

/// Whether a finding says that registrations are lost.
fn reports_lost_registrations(world: &World, index: usize) -> bool {
    let findings = world.managers()[index].findings();
    findings
        .iter()
        .any(|(code, _)| *code == "registrations-lost")
}

#[test]
fn hosts_must_register_again_only_if_the_dead_master_had_worked_without_the_store() {
    for (cut_s, is_reported) in [(0, false), (1, false), (5, true), (60, true)] {
        let mut world = with_ready_standby();
        if cut_s > 0 {
            world.cut_from_store(0, true);
            world.run_for(Duration::from_secs(cut_s));
        }
        let before = lids(&world);
        world.count_requests();
        world.kill(0);
        world.run_for(Duration::from_secs(30));
        world.settle(LIMIT);
        assert!(is_master(&world, 1), "{cut_s} s");
        // There are 16 hosts, of which two have the managers.
        let asked = hosts_written(&world);
        assert_eq!(asked, if is_reported { 14 } else { 0 }, "{cut_s} s");
        assert_eq!(
            reports_lost_registrations(&world, 1),
            is_reported,
            "{cut_s} s"
        );
        let managers = [manager_port(&world, 0), manager_port(&world, 1)];
        for (old, new) in before.into_iter().zip(lids(&world)) {
            assert!(
                old == new || managers.contains(&old.0),
                "{cut_s} s: {old:?}"
            );
        }
        assert_no_loop_and_no_move(&world);
        // The reregistration happens once, and the finding ends by itself.
        world.count_requests();
        world.run_for(Duration::from_secs(620));
        assert_eq!(hosts_written(&world), 0, "{cut_s} s");
        assert!(!reports_lost_registrations(&world, 1), "{cut_s} s");
    }
}

#[test]
fn a_takeover_without_the_store_keeps_all_lids_and_makes_hosts_register_again() {
    let mut world = with_ready_standby();
    let before = lids(&world);
    let claims = world.stored().claims.clone();
    world.set_store_away(true);
    world.run_for(Duration::from_secs(10));
    world.count_requests();
    world.kill(0);
    world.run_for(Duration::from_secs(30));
    assert!(is_master(&world, 1));
    assert_eq!(hosts_written(&world), 14);
    assert!(reports_lost_registrations(&world, 1));
    assert_eq!(lids(&world), before);
    assert_eq!(world.managers()[1].remembered().claims, claims);
    assert_up_by(&world, 1);
    assert_no_loop_and_no_move(&world);
    world.set_store_away(false);
    world.run_for(Duration::from_secs(20));
    let holder = world.epoch().map(|epoch| epoch.holder);
    let (node, port) = manager_port(&world, 1);
    assert_eq!(holder, world.sim.port_guid(node, port).ok());
    assert_eq!(lids(&world), before);
}

/// The maximum time from the death of the master to the answers of the standby: 0.4 seconds of its
/// silence, a second in which the store does not answer, and the reading of the subnet.
const WITHOUT_STORE: Duration = Duration::from_secs(2);

#[test]
fn a_master_that_dies_while_the_store_hangs_is_replaced_within_two_seconds() {
    for gap_ms in [0, 10, 300, 900, 5_000] {
        let mut world = with_ready_standby();
        world.set_store_hangs(true);
        world.run_for(Duration::from_millis(gap_ms));
        let (node, port) = trunks(&world)[0];
        let (own, number) = manager_port(&world, 1);
        let lid = world.sim.port_info(own, number).expect("it is there").lid();
        let killed = world.now();
        world.kill(0);
        world.sim.unlink(node, port).expect("it is cabled");
        let took = wait_answers(&mut world, 1, lid).since(killed);
        assert!(took < WITHOUT_STORE, "{gap_ms} ms: {took:?}");
        world.run_for(Duration::from_secs(10));
        assert_up_by(&world, 1);
        assert_no_loop_and_no_move(&world);
        world.set_store_hangs(false);
        world.run_for(Duration::from_secs(20));
        let holder = world.epoch().map(|epoch| epoch.holder);
        assert_eq!(holder, world.sim.port_guid(own, number).ok(), "{gap_ms} ms");
    }
}

#[test]
fn a_master_silent_for_less_than_a_second_stays_master_while_the_store_refuses() {
    let mut world = with_ready_standby();
    world.settle(LIMIT);
    world.set_store_away(true);
    let sets = world.managers()[1].sets();
    // The requests of the standby fall at different moments of the pause.
    for offset_ms in [0, 30, 60, 90] {
        world.run_for(Duration::from_millis(offset_ms));
        world.pause_for(0, Duration::from_millis(900));
        world.run_for(Duration::from_secs(5));
        let masters = [0, 1].map(|index| is_master(&world, index));
        assert_eq!(masters, [true, false], "{offset_ms} ms");
    }
    assert_eq!(world.managers()[1].sets(), sets);
}

//! A fabric that is cut in two and joined again, with two managers that share a store: LIDs
//! assigned during the separation do not collide. Where there are too few LIDs for that, only the
//! newer ports move.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::netlist::{Cable, LinkSpeed, LinkWidth, Netlist, Node, NodeKind};
use rsm_state::Role;
use rsm_tests::virtual_time::{Settings, World, expect};

const LIMIT: Duration = Duration::from_secs(60);
/// A time longer than a manager that sees no master waits for the epoch.
const SEPARATION_TIME: Duration = Duration::from_secs(20);
const HOSTS: u64 = 8;
/// The number of hosts of each side that come during the separation: the last hosts.
const NEW_HOSTS: u64 = 3;
const TRUNK: (Guid, PortNum) = (Guid(0x100), PortNum(9));
const MULTICAST: Lid = Lid(0xC000);
const PORT_1: PortNum = PortNum(1);

/// The first host of each side, with the manager of that side.
const FIRST: Guid = Guid(0x1);
const SECOND: Guid = Guid(0x1001);

/// The side to which a node belongs.
fn side(guid: Guid) -> usize {
    usize::from(guid.0 >= 0x1000)
}

/// The hosts with these numbers on both sides.
fn hosts(numbers: std::ops::RangeInclusive<u64>) -> impl Iterator<Item = Guid> {
    [0, 0x1000]
        .into_iter()
        .flat_map(move |side| numbers.clone().map(move |number| Guid(side + number)))
}

/// A fabric of two switches with eight hosts each, and a cable between them.
fn two_stars() -> Netlist {
    let (width, speed) = (LinkWidth::X4, LinkSpeed::Hdr);
    let (mut nodes, mut cables) = (Vec::new(), Vec::new());
    for side in [0, 0x1000] {
        let switch = nodes.len();
        nodes.push(node(NodeKind::Switch, 0x100 + side, HOSTS as u8 + 1));
        for host in 1..=HOSTS as u8 {
            let (a, b) = ((switch, PortNum(host)), (nodes.len(), PORT_1));
            cables.push(Cable { a, b, width, speed });
            nodes.push(node(NodeKind::Ca, side + u64::from(host), 1));
        }
    }
    let (a, b) = ((0, TRUNK.1), (HOSTS as usize + 1, TRUNK.1));
    cables.push(Cable { a, b, width, speed });
    Netlist::new(nodes, cables).expect("it is valid")
}

fn node(kind: NodeKind, guid: u64, num_ports: u8) -> Node {
    Node {
        kind,
        guid: Guid(guid),
        system_image_guid: Guid(guid),
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        description: Vec::new(),
        num_ports,
        enhanced_port0: false,
        ports: BTreeMap::new(),
    }
}

fn lids(world: &World) -> BTreeMap<Guid, Lid> {
    let ports = world.sim.end_ports();
    ports
        .map(|(guid, port)| {
            let info = world.sim.port_info(guid, port).expect("it is there");
            (guid, info.lid())
        })
        .collect()
}

/// The indices of the managers that are master.
fn masters(world: &World) -> Vec<usize> {
    let managers = world.managers().iter().enumerate();
    let masters = managers.filter(|(_, manager)| *manager.core().role() == Role::Master);
    masters.map(|(index, _)| index).collect()
}

/// The texts of a manager's findings of a kind.
fn findings(world: &World, index: usize, code: &str) -> Vec<String> {
    let snapshot = world.managers()[index].core().snapshot(world.now());
    let findings = snapshot.findings.iter();
    findings
        .filter(|finding| finding.kind.code() == code)
        .map(|finding| finding.text.clone())
        .collect()
}

/// Brings up both sides as one fabric without the new hosts, with the manager at `master` as its
/// master, and the other manager as standby.
fn together(master: Guid, settings: Settings) -> World {
    let mut world = World::new(&two_stars(), settings);
    for host in hosts(HOSTS - NEW_HOSTS + 1..=HOSTS) {
        world.sim.unlink(host, PORT_1).expect("it is cabled");
    }
    let other = if master == FIRST { SECOND } else { FIRST };
    world.add_manager(master, PORT_1);
    world.watch();
    world.settle(LIMIT);
    world.add_manager(other, PORT_1);
    world.run_for(SEPARATION_TIME);
    assert_eq!(masters(&world), [0]);
    // The group has members on both sides, which the store contains.
    world.regroup(MULTICAST, |ports| {
        ports.extend(hosts(2..=4).map(|guid| (guid, true)));
    });
    world.settle(LIMIT);
    world
}

/// The hosts that receive a multicast packet from each of the members.
fn receivers(world: &World) -> Vec<BTreeSet<Guid>> {
    let members = hosts(2..=4);
    members
        .map(|from| {
            let probe = world.sim.probe_multicast((from, PORT_1), MULTICAST, 0);
            let reached = probe.expect("it has a port").delivered;
            reached.keys().map(|(guid, _)| *guid).collect()
        })
        .collect()
}

/// Cuts the fabric in two, and asserts that both managers are master afterwards.
fn cut_fabric(world: &mut World) {
    world.sim.unlink(TRUNK.0, TRUNK.1).expect("it is cabled");
    world.run_for(SEPARATION_TIME);
    assert_eq!(masters(world), [0, 1], "each part has its manager");
}

/// Connects the new hosts of both sides, and asserts that every host has a LID afterwards.
fn add_hosts(world: &mut World) {
    for host in hosts(HOSTS - NEW_HOSTS + 1..=HOSTS) {
        world.sim.relink(host, PORT_1).expect("it was unlinked");
    }
    world.run_for(SEPARATION_TIME);
    for (guid, lid) in lids(world) {
        assert!(lid.is_unicast(), "{guid} has no LID");
    }
}

/// Joins the parts, and waits until one manager has the whole. Returns the ports that moved.
fn join_parts(world: &mut World) -> Vec<Guid> {
    let before = lids(world);
    world.sim.relink(TRUNK.0, TRUNK.1).expect("it was unlinked");
    world.run_for(2 * LIMIT);
    assert_eq!(masters(world).len(), 1, "one of the two yields");
    let master = masters(world)[0];
    let own = world.managers()[master].local(&world.sim);
    let reach = expect::Reach::of(&world.sim, own.expect("it is attached"), &[]);
    let mut problems = expect::inactive(&world.sim, &reach);
    problems.extend(expect::unreachable(&world.sim, &reach, 0));
    assert_eq!(problems, [""; 0]);
    let after = lids(world);
    let distinct: BTreeSet<Lid> = after.values().copied().collect();
    assert_eq!(
        distinct.len(),
        after.len(),
        "no LID is held twice: {after:?}"
    );
    assert_eq!(world.watched().credit_loops(), [""; 0]);
    let moved = after.into_iter().filter(|(guid, lid)| before[guid] != *lid);
    moved.map(|(guid, _)| guid).collect()
}

/// The LIDs of the new hosts on one side.
fn new_lids(world: &World, of: usize) -> Vec<Lid> {
    let new = hosts(HOSTS - NEW_HOSTS + 1..=HOSTS).filter(|guid| side(*guid) == of);
    new.map(|guid| lids(world)[&guid]).collect()
}

/// The hosts at which the first master runs, one per run of a test: the manager at [`FIRST`] wins
/// the election when the parts meet, the manager at [`SECOND`] loses it.
const HOLDERS: [Guid; 2] = [FIRST, SECOND];

/// The index of the manager that holds the epoch.
fn holder(world: &World) -> usize {
    let holder = world.epoch().expect("there is one").holder;
    let own = |index: usize| {
        let (guid, port) = world.managers()[index].local(&world.sim)?;
        world.sim.port_guid(guid, port).ok()
    };
    let holds = |index: &usize| own(*index) == Some(holder);
    (0..2).find(holds).expect("it is one of the two")
}

#[test]
fn lids_given_while_apart_are_of_disjoint_blocks_and_none_moves_when_the_parts_meet() {
    for (first, floating) in HOLDERS.into_iter().flat_map(|at| [(at, false), (at, true)]) {
        let mut world = together(first, Settings::sharing(floating));
        let members = receivers(&world);
        let is_whole = members.iter().all(|reached| reached.len() >= 5);
        assert!(is_whole, "{members:?}");
        let before = lids(&world);
        cut_fabric(&mut world);
        add_hosts(&mut world);
        // The holder of the epoch continues with the lowest free LIDs, and the other manager
        // assigns LIDs of its own block.
        let holder = holder(&world);
        let place = world.managers()[holder].local(&world.sim);
        let here = side(place.expect("it is attached").0);
        let highest = before.values().max().expect("there are ports").0;
        let lowest = new_lids(&world, here);
        assert!(lowest.iter().all(|lid| lid.0 <= highest + 3), "{lowest:?}");
        let of_block = new_lids(&world, 1 - here);
        assert!(
            of_block.iter().all(|lid| lid.0 > highest + 1024),
            "{of_block:?}"
        );
        let found = findings(&world, 1 - holder, "epoch-held");
        let text = format!("LIDs from {} on", of_block[0].0);
        assert!(found[0].contains(&text), "{text}: {found:?}");
        // A manager that takes the epoch over also takes the floating LID.
        let is_managers = |guid: &Guid| floating && [FIRST, SECOND].contains(guid);
        let mut moved = join_parts(&mut world);
        moved.retain(|guid| !is_managers(guid));
        assert_eq!(moved, [], "first {first}, floating {floating}");
        let after = lids(&world);
        for (guid, lid) in before.into_iter().filter(|(_, lid)| lid.is_unicast()) {
            assert!(after[&guid] == lid || is_managers(&guid), "{guid}");
        }
        assert_eq!(receivers(&world), members, "no member is lost");
        let conflicts = findings(&world, masters(&world)[0], "lid-conflict");
        assert_eq!(conflicts, [""; 0]);
    }
}

#[test]
fn if_only_one_part_reaches_the_store_only_the_floating_lid_moves() {
    for (holder, cut_off) in HOLDERS.into_iter().flat_map(|at| [(at, 0), (at, 1)]) {
        for floating in [false, true] {
            let mut world = together(holder, Settings::sharing(floating));
            world.cut_from_store(cut_off, true);
            cut_fabric(&mut world);
            add_hosts(&mut world);
            // A manager that takes the epoch over also takes the floating LID.
            let is_managers = |guid: &Guid| floating && [FIRST, SECOND].contains(guid);
            let mut held = BTreeSet::new();
            for (guid, lid) in lids(&world) {
                assert!(held.insert(lid) || is_managers(&guid), "{guid} {lid}");
            }
            world.cut_from_store(cut_off, false);
            let mut moved = join_parts(&mut world);
            moved.retain(|guid| !is_managers(guid));
            assert_eq!(moved, [], "holder {holder}, cut off {cut_off}, {floating}");
        }
    }
}

#[test]
fn without_room_for_blocks_only_the_newer_colliding_ports_move() {
    for holder in HOLDERS {
        let mut settings = Settings::sharing(true);
        settings.sim.linear_fdb_cap = 64;
        let mut world = together(holder, settings);
        // Each manager learns the LIDs of the other part when the parts meet.
        world.cut_from_store(1, true);
        cut_fabric(&mut world);
        // The holder's hosts come first.
        let (older, newer): (Vec<Guid>, Vec<Guid>) =
            hosts(HOSTS - NEW_HOSTS + 1..=HOSTS).partition(|guid| side(*guid) == side(holder));
        for late in [older, newer.clone()] {
            for host in late {
                world.sim.relink(host, PORT_1).expect("it was unlinked");
            }
            world.run_for(SEPARATION_TIME);
        }
        let (here, there) = (new_lids(&world, 0), new_lids(&world, 1));
        let held: BTreeSet<Lid> = here.iter().copied().collect();
        let twice = there.iter().filter(|lid| held.contains(lid)).count();
        assert_eq!(twice, NEW_HOSTS as usize, "{here:?} {there:?}");
        world.cut_from_store(1, false);
        let moved = join_parts(&mut world);
        assert_eq!(moved.len(), twice, "holder {holder}: {moved:?}");
        assert!(moved.iter().all(|guid| newer.contains(guid)), "{moved:?}");
    }
}

#[test]
fn a_standby_that_took_over_without_the_store_yields_to_the_master_that_is_alive() {
    // The standby has precedence over the master.
    let mut world = together(SECOND, Settings::sharing(false));
    let sets = world.managers()[1].sets();
    world.set_store_away(true);
    world.schedule_loss(Duration::ZERO, Duration::from_millis(1_450), 1.0);
    world.run_for(SEPARATION_TIME);
    assert_eq!(masters(&world), [0]);
    assert_eq!(world.managers()[1].sets(), sets);
}

#[test]
fn a_master_whose_port_was_down_while_it_missed_the_store_leaves_the_subnet_to_its_successor() {
    let mut world = together(FIRST, Settings::sharing(false));
    world.cut_from_store(0, true);
    world.sim.unlink(FIRST, PORT_1).expect("it is cabled");
    world.run_for(SEPARATION_TIME);
    assert_eq!(holder(&world), 1);
    world.sim.relink(FIRST, PORT_1).expect("it was unlinked");
    world.run_for(SEPARATION_TIME);
    assert_eq!(masters(&world), [1]);
    world.cut_from_store(0, false);
    world.run_for(LIMIT);
    assert_eq!((masters(&world), holder(&world)), (vec![1], 1));
}

#[test]
fn a_master_that_served_without_the_store_after_another_epoch_makes_hosts_register_again() {
    let mut world = together(FIRST, Settings::sharing(false));
    world.cut_from_store(0, true);
    cut_fabric(&mut world);
    add_hosts(&mut world);
    assert_eq!(holder(&world), 1);
    join_parts(&mut world);
    assert_eq!(masters(&world), [0], "the first manager has precedence");
    assert_eq!(findings(&world, 0, "registrations-lost"), [""; 0]);
    world.cut_from_store(0, false);
    world.run_for(LIMIT);
    assert_eq!((masters(&world), holder(&world)), (vec![0], 0));
    assert_eq!(findings(&world, 0, "registrations-lost").len(), 1);
}

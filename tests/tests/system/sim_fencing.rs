//! A master that is suspended and resumed, beside a standby that shares its store, while cables
//! come and go: it writes nothing once another manager holds the epoch, and every table on the wire
//! belongs to a plan of one of the two managers.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_model::findings::Severity;
use rsm_plan::Plan;
use rsm_routing::netlist::NodeKind;
use rsm_state::Role;
use rsm_tests::virtual_time::watch::BlockWrite;
use rsm_tests::virtual_time::{Dice, World, expect};

const LIMIT: Duration = Duration::from_secs(60);
const TREE: &str = "fat-tree:k=4,levels=2";
/// The shortest pause that the daemon notices.
const NOTICED: Duration = Duration::from_millis(250);
/// The maximum time from the end of an epoch until a running master knows that its epoch has ended.
const KNOWN: Duration = Duration::from_millis(260);
const ROUNDS: u64 = 100;

fn two_managers(floating_lid: bool) -> World {
    let mut world = World::shared(TREE, floating_lid, LIMIT);
    world.run_for(Duration::from_secs(5));
    world
}

/// The indices of the managers that are master.
fn masters(world: &World) -> Vec<usize> {
    let managers = world.managers().iter().enumerate();
    let masters = managers.filter(|(_, manager)| *manager.core().role() == Role::Master);
    masters.map(|(index, _)| index).collect()
}

fn own_guid(world: &World, index: usize) -> Guid {
    let (node, port) = world.managers()[index]
        .local(&world.sim)
        .expect("it is attached");
    world.sim.port_guid(node, port).expect("it is there")
}

/// Whether a manager knows that the other manager holds the epoch, and yet manages its part of the
/// fabric, because no cable connects the two parts. A manager does so after five seconds without a
/// visible master.
fn manages_a_part(world: &World, index: usize) -> bool {
    let snapshot = world.managers()[index].core().snapshot(world.now());
    let mut findings = snapshot.findings.iter();
    findings
        .any(|finding| finding.kind.code() == "epoch-held" && finding.severity == Severity::Error)
}

/// The cables between switches, each by one of its ends.
fn trunks(world: &World) -> Vec<(Guid, PortNum)> {
    let switches: BTreeSet<Guid> = world.nodes(NodeKind::Switch).into_iter().collect();
    let reach = expect::reach(world, &[]);
    let links = reach.links.iter();
    links
        .filter(|(a, b)| switches.contains(&a.0) && switches.contains(&b.0))
        .map(|&(a, _)| a)
        .collect()
}

/// The observations of a run: the plans of both managers, and Sets that a manager sent without the
/// epoch while another manager held it.
struct Observations {
    plans: RefCell<BTreeMap<(usize, u64), Arc<Plan>>>,
    sets: [Cell<u64>; 2],
    epoch: Cell<u64>,
    /// The time when the epoch began, and which managers were suspended then.
    claimed: Cell<(Time, [bool; 2])>,
}

impl Observations {
    /// Begins to observe `world`, with the current plans and numbers of Sets.
    fn start(world: &World) -> Observations {
        let seen = Observations {
            plans: RefCell::default(),
            sets: [0, 1].map(|index| Cell::new(world.managers()[index].sets())),
            epoch: Cell::new(0),
            claimed: Cell::new((world.now(), [false; 2])),
        };
        seen.observe(world);
        seen
    }

    /// Records the current plans and numbers of Sets. Returns whether a manager has sent Sets since
    /// the last call although the other manager held the epoch.
    ///
    /// A standby that no cable connects with a running master also claims the epoch. The master may
    /// then send Sets until its next heartbeat ([`KNOWN`]), and later as the manager of its part.
    fn observe(&self, world: &World) -> bool {
        let mut is_wrong = false;
        let epoch = world.epoch();
        let number = epoch.map_or(0, |epoch| epoch.number);
        if number != self.epoch.get() {
            let stopped = [0, 1].map(|index| world.managers()[index].is_stopped());
            self.claimed.set((world.now(), stopped));
        }
        let (claimed, stopped) = self.claimed.get();
        for (index, manager) in world.managers().iter().enumerate() {
            if let Some(plan) = manager.core().plan() {
                let mut plans = self.plans.borrow_mut();
                plans
                    .entry((index, plan.generation))
                    .or_insert_with(|| plan.clone());
            }
            let sets = manager.sets();
            let sent = sets > self.sets[index].replace(sets);
            let is_other = epoch.is_some_and(|epoch| {
                epoch.holder != own_guid(world, index)
                    && number == self.epoch.get()
                    && (stopped[index] || world.now().since(claimed) > KNOWN)
            });
            is_wrong |= sent && is_other && !manages_a_part(world, index);
        }
        self.epoch.set(number);
        is_wrong
    }

    /// The changed entries that belong to no plan of either manager, and to no interim tables.
    fn foreign(&self, writes: &[BlockWrite]) -> Vec<(Guid, Lid, u8)> {
        let plans = self.plans.borrow();
        let mut foreign = Vec::new();
        for write in writes {
            let mut tables = Vec::new();
            for plan in plans.values() {
                let interim = plan.transition.interim.iter();
                let tables_beside_mute = plan
                    .transition
                    .tables_beside_mute
                    .iter()
                    .map(|tables| &**tables);
                let all = interim.chain(tables_beside_mute);
                tables.extend(all.filter_map(|tables| plan.table_of(tables, write.switch)));
                tables.extend(plan.table(write.switch));
            }
            for &(lid, port) in &write.entries {
                if !tables.iter().any(|table| table.entry(lid) == port) {
                    foreign.push((write.switch, lid, port));
                }
            }
        }
        foreign
    }
}

/// Runs for `duration`, and fails if a manager sends Sets while the other manager holds the epoch.
fn run_watched(world: &mut World, seen: &Observations, duration: Duration, round: u64) {
    let until = world.now() + duration;
    let violated = world.run(until, |world| seen.observe(world));
    assert!(
        !violated,
        "round {round}: Sets without the epoch at {:?}, {:?}, since {:?}; findings {:?}",
        world.now(),
        world.epoch(),
        seen.claimed.get(),
        [0, 1].map(|index| {
            let snapshot = world.managers()[index].core().snapshot(world.now());
            let findings = snapshot.findings.iter();
            findings
                .map(|finding| finding.text.clone())
                .collect::<Vec<_>>()
        })
    );
}

/// Runs one round for each of `seeds`: the master is suspended for a random time while three cables
/// come and go. After each round, one manager is master, the subnet is up, and every entry that was
/// written belongs to a plan.
fn stop_and_continue(floating_lid: bool, seeds: std::ops::Range<u64>) {
    let mut world = two_managers(floating_lid);
    let trunks = trunks(&world);
    let mut takeovers = 0;
    for round in seeds {
        let mut dice = Dice::new(round);
        let [master] = masters(&world)[..] else {
            panic!("round {round}: {:?}", masters(&world));
        };
        let number = world.epoch().map(|epoch| epoch.number);
        let seen = Observations::start(&world);
        world.keep_writes();
        let pause = dice.duration(NOTICED, Duration::from_secs(10));
        let begin = dice.duration(Duration::from_micros(10), Duration::from_secs(1));
        for _ in 0..3 {
            let (node, port) = dice.pick(&trunks);
            let down = dice.duration(Duration::from_micros(10), begin + pause);
            let up = down + dice.duration(Duration::from_millis(1), Duration::from_secs(2));
            // A cable may be picked twice: it is then connected or not.
            world.schedule(down, move |world| drop(world.sim.unlink(node, port)));
            world.schedule(up, move |world| drop(world.sim.relink(node, port)));
        }
        world.schedule(begin, move |world| world.pause_for(master, pause));
        run_watched(&mut world, &seen, begin + pause + LIMIT / 4, round);
        takeovers += u64::from(world.epoch().map(|epoch| epoch.number) != number);
        assert_eq!(masters(&world).len(), 1, "round {round}");
        let until = world.now() + LIMIT;
        let wrong = Cell::new(false);
        world.run(until, |world| {
            wrong.set(wrong.get() | seen.observe(world));
            wrong.get() || world.is_quiet()
        });
        assert!(!wrong.get(), "round {round}");
        let writes = world.keep_writes();
        let foreign = seen.foreign(&writes);
        assert!(foreign.is_empty(), "round {round}: {foreign:?}");
        let loops = world.watched().credit_loops();
        assert!(loops.is_empty(), "round {round}: {loops:#?}");
        let manager = &world.managers()[masters(&world)[0]];
        let place = manager.local(&world.sim);
        let plan = manager.core().plan().expect("it is master");
        let excused = plan.report.switch_pairs.unreachable;
        let reach = expect::Reach::of(&world.sim, place.expect("it is attached"), &[]);
        let mut problems = expect::inactive(&world.sim, &reach);
        problems.extend(expect::unreachable(&world.sim, &reach, excused));
        assert!(problems.is_empty(), "round {round}: {problems:#?}");
    }
    assert!(takeovers > ROUNDS / 8, "{takeovers} takeovers");
}

#[test]
fn a_deposed_master_sets_nothing_and_every_entry_belongs_to_a_plan() {
    stop_and_continue(true, 0..ROUNDS / 2);
}

#[test]
fn without_a_floating_lid_a_deposed_master_sets_nothing_and_every_entry_belongs_to_a_plan() {
    stop_and_continue(false, ROUNDS / 2..ROUNDS);
}

/// Suspends the master for `pause`. Returns whether the other manager had claimed the epoch by the
/// end of the pause; if it had, asserts that the other manager stays master.
fn stop_once(world: &mut World, pause: Duration) -> bool {
    let [master] = masters(world)[..] else {
        panic!("{pause:?}: {:?}", masters(world));
    };
    let before = world.epoch();
    world.pause_for(master, pause);
    world.run_for(pause - Duration::from_nanos(1));
    let taken = world.epoch();
    let is_taken = taken != before;
    world.run_for(LIMIT / 4);
    if is_taken {
        let holder = world.epoch();
        assert_eq!(holder, taken, "{pause:?}: mastership went back");
        assert_eq!(masters(world), [1 - master], "{pause:?}");
    }
    assert_eq!(masters(world).len(), 1, "{pause:?}");
    world.settle(LIMIT);
    is_taken
}

/// The pause ends at any moment before, in and after the takeover, and also while the successor
/// requests the SMInfo of the suspended manager.
fn stop_at_all_moments(floating_lid: bool) {
    let mut world = two_managers(floating_lid);
    let mut takeovers = 0;
    let fine = (0..200).map(|step| Duration::from_micros(400_000 + 1_970 * step));
    let coarse = (0..200).map(|step| Duration::from_micros(790_000 + 19_700 * step));
    for pause in fine.chain(coarse) {
        takeovers += u64::from(stop_once(&mut world, pause));
        // The standby needs this time to read the subnet.
        world.run_for(Duration::from_secs(5));
    }
    assert!(takeovers > 200, "{takeovers} takeovers");
}

#[test]
fn a_master_resumed_after_a_takeover_stands_by() {
    stop_at_all_moments(true);
}

#[test]
fn without_a_floating_lid_a_master_resumed_after_a_takeover_stands_by() {
    stop_at_all_moments(false);
}

/// Whether a manager runs as master and has no doubt about its epoch, so that it may send Sets.
fn is_certain(world: &World, index: usize) -> bool {
    let manager = &world.managers()[index];
    let core = manager.core();
    !manager.is_stopped() && *core.role() == Role::Master && !core.is_inquiring()
}

/// The store hangs and the master is suspended, each at a random moment and for a random time: a
/// successor stays master, and no two managers write.
#[test]
fn while_the_store_hangs_a_master_resumed_after_a_takeover_stands_by() {
    let mut world = two_managers(true);
    let mut takeovers = 0;
    for round in 0..ROUNDS {
        let mut dice = Dice::new(round);
        let [master] = masters(&world)[..] else {
            panic!("round {round}: {:?}", masters(&world));
        };
        let other = 1 - master;
        let hang = dice.duration(Duration::from_micros(10), Duration::from_secs(2));
        let back = hang + dice.duration(Duration::from_millis(100), Duration::from_secs(6));
        let stop = dice.duration(Duration::from_micros(10), Duration::from_secs(1));
        let pause = dice.duration(NOTICED, Duration::from_secs(6));
        world.schedule(hang, |world| world.set_store_hangs(true));
        world.schedule(back, |world| world.set_store_hangs(false));
        world.schedule(stop, move |world| world.pause_for(master, pause));
        let resumed = world.now() + stop + pause;
        world.run(resumed, |_| false);
        let is_replaced = is_certain(&world, other);
        takeovers += u64::from(is_replaced);
        let until = world.now() + LIMIT / 2;
        let both = world.run(until, |world| {
            is_certain(world, master) && (is_replaced || is_certain(world, other))
        });
        assert!(!both, "round {round}: two masters, {is_replaced}");
        let [last] = masters(&world)[..] else {
            panic!("round {round}: {:?}", masters(&world));
        };
        assert!(!is_replaced || last == other, "round {round}");
        let holder = world.epoch().map(|epoch| epoch.holder);
        assert_eq!(holder, Some(own_guid(&world, last)), "round {round}");
        world.settle(LIMIT);
        world.run_for(Duration::from_secs(5));
    }
    assert!(takeovers > ROUNDS / 4, "{takeovers} takeovers");
}

/// The standby is also suspended, about when it claims the epoch: an answer that it gets afterwards
/// may be about an epoch that has ended.
#[test]
fn a_claimant_resumed_after_its_epoch_has_ended_sets_nothing() {
    let mut world = two_managers(true);
    let mut takeovers = 0;
    for round in 0..ROUNDS {
        let mut dice = Dice::new(round);
        let [master] = masters(&world)[..] else {
            panic!("round {round}: {:?}", masters(&world));
        };
        let number = world.epoch().map(|epoch| epoch.number);
        let seen = Observations::start(&world);
        let pause = dice.duration(Duration::from_millis(450), Duration::from_secs(8));
        let stop = dice.duration(Duration::from_millis(300), Duration::from_millis(600));
        let other_pause = dice.duration(NOTICED, Duration::from_secs(8));
        world.pause_for(master, pause);
        world.schedule(stop, move |world| world.pause_for(1 - master, other_pause));
        run_watched(&mut world, &seen, LIMIT / 2, round);
        takeovers += u64::from(world.epoch().map(|epoch| epoch.number) != number);
        let [last] = masters(&world)[..] else {
            panic!("round {round}: {:?}", masters(&world));
        };
        let holder = world.epoch().map(|epoch| epoch.holder);
        assert_eq!(holder, Some(own_guid(&world, last)), "round {round}");
        world.settle(LIMIT);
        world.run_for(Duration::from_secs(5));
    }
    assert!(takeovers > ROUNDS / 8, "{takeovers} takeovers");
}

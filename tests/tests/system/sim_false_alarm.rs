//! The whole fabric is silent for a moment, or the manager gets no processor time: rsm does not
//! report a switch for such a silence, and sends no Set.

#![expect(
    clippy::print_stdout,
    reason = "the figures of a run are read with --nocapture"
)]

use std::time::Duration;

use rsm_ids::Guid;
use rsm_model::findings::Severity;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Silence;
use rsm_state::Command;
use rsm_tests::virtual_time::{AfterStall, Settings, Walker, World, expect};

const LIMIT: Duration = Duration::from_secs(120);

/// A fabric of twenty switches and sixteen hosts.
const FABRIC: &str = "fat-tree:k=4,levels=3";

/// A time longer than the pause between two light sweeps.
const TO_LIGHT_SWEEP: Duration = Duration::from_secs(11);

/// The lengths of pauses that operators have seen, in milliseconds.
const PAUSES_MS: [u64; 3] = [300, 350, 400];

/// The maximum time from the end of a silence of the whole fabric until the last connected pair of
/// hosts is served, if a switch died when the silence began: its neighbours' traps were lost.
const SERVED_AFTER_SILENCE: Duration = Duration::from_secs(1);

/// The maximum time from the end of a stall until the last connected pair is served: traps wait for
/// the manager. The time covers the reaction without a stall, and one request that is repeated.
const SERVED_AFTER_STALL: Duration = Duration::from_millis(200);

/// The sweep during which a pause begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// The next light sweep.
    Light,
    /// A full sweep that an operator requests.
    Full,
}

impl Cause {
    const ALL: [Cause; 2] = [Cause::Light, Cause::Full];

    /// The numbers of requests that the sweep has sent when a pause begins, one for each run.
    fn gets(self) -> [u64; 4] {
        match self {
            Cause::Light => [1, 3, 10, 18],
            Cause::Full => [1, 10, 50, 150],
        }
    }
}

/// All combinations of a sweep and a number of requests before the pause.
fn moments() -> impl Iterator<Item = (Cause, u64)> {
    let all = Cause::ALL.into_iter();
    all.flat_map(|cause| cause.gets().map(|gets| (cause, gets)))
}

/// A fabric that is up, and whose manager has sent `gets` requests of a sweep.
fn in_sweep(cause: Cause, gets: u64) -> World {
    let mut world = World::brought_up(FABRIC, Settings::default());
    world.keep_findings();
    if cause == Cause::Full {
        world.command(Command::Resweep {
            full: true,
            ticket: 0,
        });
    }
    let before = world.manager().gets();
    let until = world.now() + TO_LIGHT_SWEEP;
    let begun = world.run(until, |world| world.manager().gets() >= before + gets);
    assert!(begun, "{cause:?}: a sweep asks more than {gets} questions");
    world
}

/// Ends a run without a fault, and asserts that there was no finding and no Set.
fn assert_no_alarm(mut world: World, sets: u64, situation: &str) {
    world.settle(LIMIT);
    world.run_for(TO_LIGHT_SWEEP);
    world.settle(LIMIT);
    let shown = world.manager().shown();
    let errors = shown.iter().filter(|one| one.severity == Severity::Error);
    let (errors, written) = (errors.count(), world.manager().sets() - sets);
    assert!(
        shown.is_empty() && written == 0,
        "{situation}: {written} Sets, {errors} errors, {shown:#?}"
    );
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
}

#[test]
fn fabric_silent_for_a_moment_causes_no_finding_and_no_set() {
    for (cause, gets) in moments() {
        for silence in PAUSES_MS {
            let mut world = in_sweep(cause, gets);
            let sets = world.manager().sets();
            world.sim.set_loss(1.0).unwrap();
            world.run_for(Duration::from_millis(silence));
            world.sim.set_loss(0.0).unwrap();
            let situation = format!("{cause:?}, {silence} ms from Get {gets} on");
            assert_no_alarm(world, sets, &situation);
        }
    }
}

#[test]
fn stalled_manager_shows_no_finding_and_sends_no_set() {
    for (cause, gets) in moments() {
        for order in [AfterStall::PacketsFirst, AfterStall::DeadlinesFirst] {
            for stall in PAUSES_MS.into_iter().chain([1000, 5000]) {
                let mut world = in_sweep(cause, gets);
                let sets = world.manager().sets();
                world.stall_for(0, Duration::from_millis(stall), order);
                let situation = format!("{cause:?}, {order:?}, {stall} ms from Get {gets} on");
                assert_no_alarm(world, sets, &situation);
            }
        }
    }
}

/// The manager and the fabric only run for some milliseconds at a time.
#[test]
fn manager_and_fabric_short_of_processor_time_cause_no_finding_and_no_set() {
    for (cause, gets) in moments() {
        let mut world = in_sweep(cause, gets);
        let sets = world.manager().sets();
        for _ in 0..4 {
            world.sim.set_loss(1.0).unwrap();
            world.stall_for(0, Duration::from_millis(350), AfterStall::DeadlinesFirst);
            world.run_for(Duration::from_millis(355));
            world.sim.set_loss(0.0).unwrap();
            world.run_for(Duration::from_millis(5));
        }
        let situation = format!("{cause:?}, from Get {gets} on");
        assert_no_alarm(world, sets, &situation);
    }
}

/// Kills `dead` and starts the pause `pause` at one instant, and measures the time from the end of
/// the pause until all connected pairs are served.
fn served_after(dead: Guid, gets: u64, pause: impl Fn(&mut World)) -> Duration {
    let mut world = in_sweep(Cause::Light, gets);
    let manager = world.manager().local(&world.sim).unwrap();
    let walker = Walker::new(&world.sim, manager);
    world.sim.power_off(dead).unwrap();
    pause(&mut world);
    let began = world.now();
    while walker.count_pairs(&world.sim).lost > 0 {
        world.run_for(Duration::from_millis(1));
        assert!(world.now().since(began) < LIMIT, "{dead}: pairs are lost");
    }
    let served = world.now().since(began);
    world.settle(LIMIT);
    expect::assert_up(&world);
    served
}

/// All switches except the leaf of the manager's host.
fn other_switches() -> Vec<Guid> {
    let world = World::brought_up(FABRIC, Settings::default());
    let local = world.manager().local(&world.sim).unwrap();
    let own = world.sim.peer(local.0, local.1).unwrap().unwrap().0;
    let mut switches = world.nodes(NodeKind::Switch);
    switches.retain(|&guid| guid != own);
    switches
}

#[test]
fn switch_that_dies_as_the_fabric_falls_silent_is_routed_around() {
    for dead in other_switches() {
        let served = served_after(dead, 3, |world| {
            world.sim.set_loss(1.0).unwrap();
            world.run_for(Duration::from_millis(350));
            world.sim.set_loss(0.0).unwrap();
        });
        println!("{dead}: {served:?}");
        assert!(served <= SERVED_AFTER_SILENCE, "{dead}: {served:?}");
    }
}

#[test]
fn switch_that_dies_as_the_manager_stalls_is_routed_around() {
    for dead in other_switches() {
        for order in [AfterStall::PacketsFirst, AfterStall::DeadlinesFirst] {
            let served = served_after(dead, 3, |world| {
                let stall = Duration::from_millis(350);
                world.stall_for(0, stall, order);
                world.run_for(stall);
            });
            println!("{dead}, {order:?}: {served:?}");
            assert!(served <= SERVED_AFTER_STALL, "{dead}: {served:?}");
        }
    }
}

/// The processor of a switch hangs while its links stay up.
#[test]
fn silent_switch_is_a_warning_after_one_second_and_an_error_after_five() {
    let mut world = World::brought_up(FABRIC, Settings::default());
    let hung = other_switches()[5];
    world.sim.set_silence(hung, Silence::Answers).unwrap();
    let asked = world.manager().gets();
    let until = world.now() + TO_LIGHT_SWEEP;
    assert!(world.run(until, |world| world.manager().gets() > asked));
    let began = world.now();
    let mut seen = Vec::new();
    while world.now().since(began) < Duration::from_secs(8) {
        world.run_for(Duration::from_millis(50));
        let findings = &world.manager().snapshot().unwrap().findings;
        let silent = findings.iter().map(|finding| finding.severity).max();
        if seen.last().is_none_or(|&(_, last)| last != silent) {
            seen.push((world.now().since(began), silent));
        }
    }
    let severities: Vec<_> = seen.iter().map(|&(_, severity)| severity).collect();
    let expected = [None, Some(Severity::Warning), Some(Severity::Error)];
    assert_eq!(severities, expected, "{seen:?}");
    let (warned, alarmed) = (seen[1].0, seen[2].0);
    let is_near = |at: Duration, ms: u64| at.abs_diff(Duration::from_millis(ms)).as_millis() <= 200;
    assert!(is_near(warned, 1000) && is_near(alarmed, 5000), "{seen:?}");
}

//! SMPs get lost, and everything comes up all the same.

use std::time::Duration;

use rsm_tests::virtual_time::{Settings, World, expect, seeds};

const LIMIT: Duration = Duration::from_secs(600);

fn comes_up_in_spite_of(loss: f64, spec: &str, seed: u64) {
    let settings = Settings {
        seed,
        kernel_timeouts: seed.is_multiple_of(2),
        ..Settings::default()
    };
    let mut world = World::generated(spec, settings);
    world.sim.set_loss(loss).unwrap();
    world.watch();
    world.settle(LIMIT);
    expect::assert_up(&world);
    expect::assert_no_findings(&world);
    world.watched().assert_harmless();
}

#[test]
fn one_in_twenty() {
    seeds::run("one_in_twenty", 40, |seed| {
        comes_up_in_spite_of(0.05, "fat-tree:k=4,levels=3", seed);
        comes_up_in_spite_of(0.05, "torus:3x3", seed);
    });
}

#[test]
fn one_in_five() {
    seeds::run("one_in_five", 40, |seed| {
        comes_up_in_spite_of(0.2, "fat-tree:k=4,levels=3", seed);
        comes_up_in_spite_of(0.2, "ring:6", seed);
    });
}

#[test]
fn a_superpod_with_one_in_twenty() {
    comes_up_in_spite_of(0.05, "superpod:su=1", 1);
}

/// Answers that come twice, or after the question was given up.
#[test]
fn late_and_double_answers() {
    seeds::run("late_and_double_answers", 20, |seed| {
        let settings = Settings {
            seed,
            kernel_timeouts: seed.is_multiple_of(2),
            ..Settings::default()
        };
        let mut world = World::generated("fat-tree:k=4,levels=3", settings);
        world.sim.set_late(0.1).unwrap();
        world.sim.set_duplicates(0.1).unwrap();
        world.watch();
        world.settle(LIMIT);
        expect::assert_up(&world);
        expect::assert_no_findings(&world);
        world.watched().assert_harmless();
    });
}

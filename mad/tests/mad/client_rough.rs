//! Tests of the transaction client in slow, overloaded and lossy fabrics.

use crate::client_network;

use std::time::Duration;

use client_network::{Faults, Network};
use rsm_mad::client::ClientConfig;

/// A millisecond in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

fn run(faults: &Faults, rounds: u8, requests: u64, targets: u64) -> Network {
    run_seed(7, faults, rounds, requests, targets)
}

/// Sends `requests` requests to `targets` targets in turn, over a network with these faults, until
/// every request is complete. A request may use up its retries `rounds` times.
fn run_seed(seed: u64, faults: &Faults, rounds: u8, requests: u64, targets: u64) -> Network {
    let mut network = Network::new(ClientConfig::default(), faults.clone(), seed);
    network.rounds = rounds;
    for id in 0..requests {
        network.submit(id, id % targets);
    }
    network.run();
    network
}

/// The number of requests that ended with an error.
fn failed(network: &Network) -> usize {
    let completions = network.completions.values();
    completions
        .filter(|completion| completion.outcome.is_err())
        .count()
}

#[test]
fn target_that_answers_in_40_ms_gets_each_request_once_and_slows_no_other_target() {
    let faults = Faults {
        slow_targets: 1,
        service_time: Duration::from_millis(40),
        ..Faults::none()
    };
    let network = run(&faults, 1, 200 * 30, 200);
    let stats = network.client.stats();
    assert_eq!(failed(&network), 0);
    assert!(stats.retries <= 4, "{stats:?}");
    assert_eq!((stats.window_halvings, stats.outliers), (0, 1));
    assert_eq!(
        stats.timeout,
        Duration::from_millis(25),
        "the timeout of the other targets"
    );
    let end = network.now.as_nanos();
    assert!(
        end < 35 * 40 * MILLISECOND,
        "the slow target answers 30 requests one after the other"
    );
    let latest_first = network.transcript.iter().rev();
    let last = latest_first
        .map(|(time, mad)| {
            (
                time,
                u64::from(rsm_mad::wire::smp::Smp::from_bytes(mad).header().modifier()),
            )
        })
        .find(|(_, id)| id % 200 != 0);
    let (last_time, _) = last.expect("requests to other nodes were sent");
    assert!(last_time.as_nanos() < 40 * MILLISECOND, "{last_time:?}");
}

#[test]
fn targets_that_buffer_one_request_get_one_request_at_a_time() {
    let faults = Faults {
        slow_targets: 3,
        service_time: Duration::from_millis(1),
        buffer_len: 1,
        ..Faults::none()
    };
    let network = run(&faults, 1, 100 * 60, 100);
    let stats = network.client.stats();
    assert_eq!(failed(&network), 0);
    assert!(stats.losses <= 3 * 3, "{stats:?}");
    assert!(stats.window_halvings <= 2, "{stats:?}");
    let end = network.now.as_nanos();
    assert!(
        end < 400 * MILLISECOND,
        "each slow target works for 60 ms: {end}"
    );
}

#[test]
fn target_that_pauses_for_3_s_does_not_lengthen_the_timeouts_of_other_targets() {
    let faults = Faults {
        slow_targets: 1,
        service_time: Duration::from_secs(3),
        buffer_len: 1,
        ..Faults::none()
    };
    let network = run(&faults, 2, 100 * 4, 100);
    let stats = network.client.stats();
    assert_eq!(stats.timeout, Duration::from_millis(25), "{stats:?}");
    assert_eq!(stats.window_halvings, 0, "{stats:?}");
}

/// The number of seeds over which the answer rate is averaged.
const SEEDS: u64 = 4;

/// The highest loss is three of four attempts, as if half of the SMPs were lost in each direction.
#[test]
fn random_loss_neither_shrinks_the_window_to_its_minimum_nor_ends_requests() {
    for (loss, min_rate) in [(36, 3000.0), (58, 1500.0), (75, 700.0)] {
        let faults = Faults {
            loss,
            ..Faults::none()
        };
        // The rate is averaged: one run in ten has half the mean rate, because its window is halved
        // more often.
        let mut mean_rate = 0.0;
        for seed in 0..SEEDS {
            let network = run_seed(seed, &faults, 4, 20_000, 500);
            let stats = network.client.stats();
            let seconds = network.now.as_nanos() as f64 / 1e9;
            mean_rate += stats.answered as f64 / seconds / SEEDS as f64;
            assert!(failed(&network) < 60, "{loss} %: {}", failed(&network));
            assert!(stats.window >= 16, "{loss} %: {stats:?}");
            let measured = stats.loss_permille;
            let expected = 10 * loss;
            assert!(measured.abs_diff(expected) < 200, "{loss} %: {measured}");
        }
        assert!(mean_rate > min_rate, "{loss} %: {mean_rate} a second");
    }
}

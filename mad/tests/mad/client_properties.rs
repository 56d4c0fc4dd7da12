//! Tests of the rules of the transaction client in arbitrary networks.

use crate::client_network;

use std::time::Duration;

use client_network::{Faults, Network};
use proptest::prelude::*;
use rsm_mad::client::{ClientConfig, RequestFailure};

fn config() -> impl Strategy<Value = ClientConfig> {
    (
        1_u32..8,
        0_u32..60,
        0_u32..60,
        1_u16..4,
        0_u8..8,
        any::<u16>(),
    )
        .prop_map(
            |(min, initial_extra, max_extra, target_cap, retries, first_generation)| ClientConfig {
                min_window: min,
                initial_window: min + initial_extra,
                max_window: min + initial_extra + max_extra,
                target_cap,
                retries,
                first_generation,
                ..ClientConfig::default()
            },
        )
}

fn faults() -> impl Strategy<Value = Faults> {
    (
        (0_u32..60, 0_u32..50, 0_u32..40, 0_u32..20),
        (0_u32..20, 0_u32..=100, 0_u64..400, 0_u64..3),
    )
        .prop_map(
            |((loss, duplicate, busy, mismatch), (send_failed, reported, jitter_ms, silent))| {
                Faults {
                    loss,
                    duplicate,
                    busy,
                    mismatch,
                    send_failed,
                    reported,
                    jitter: Duration::from_millis(jitter_ms),
                    silent_targets: silent,
                    ..Faults::none()
                }
            },
        )
}

fn run(config: &ClientConfig, faults: &Faults, seed: u64, targets: &[u64]) -> Network {
    let mut network = Network::new(config.clone(), faults.clone(), seed);
    for (id, &target) in (0..).zip(targets) {
        network.submit(id, target);
    }
    network.run();
    network
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every request completes exactly once, with its own answer. The network checks bounds and
    /// deadlines throughout.
    #[test]
    fn every_request_completes_exactly_once(
        config in config(),
        faults in faults(),
        seed in any::<u64>(),
        targets in prop::collection::vec(0_u64..12, 1..150),
    ) {
        let network = run(&config, &faults, seed, &targets);
        prop_assert_eq!(network.completions.len(), targets.len());
        let stats = network.client.stats();
        prop_assert_eq!(stats.answered + stats.failed, targets.len() as u64);
        prop_assert_eq!((stats.in_flight, stats.queued), (0, 0));
        prop_assert_eq!(stats.sent_get, network.transcript.len() as u64);
        for (id, completion) in &network.completions {
            let silent = targets[*id as usize] < faults.silent_targets;
            if let Err(failure) = completion.outcome {
                prop_assert_eq!(completion.attempts, config.retries + 1, "{:?} early", failure);
            }
            prop_assert!(!silent || completion.outcome.is_err());
        }
    }

    /// Two runs with equal inputs send equal datagrams at equal times.
    #[test]
    fn the_same_inputs_give_the_same_datagrams(
        config in config(),
        faults in faults(),
        seed in any::<u64>(),
        targets in prop::collection::vec(0_u64..12, 1..60),
    ) {
        let first = run(&config, &faults, seed, &targets);
        let second = run(&config, &faults, seed, &targets);
        prop_assert_eq!(first.transcript, second.transcript);
        prop_assert_eq!(first.client.stats(), second.client.stats());
    }

    /// Without loss, every request is sent once.
    #[test]
    fn without_loss_every_request_is_sent_once(
        config in config(),
        jitter in 0_u64..20,
        targets in prop::collection::vec(0_u64..12, 1..150),
    ) {
        let faults = Faults { jitter: Duration::from_millis(jitter), ..Faults::none() };
        let network = run(&config, &faults, 1, &targets);
        prop_assert_eq!(network.transcript.len(), targets.len());
        prop_assert!(network.completions.values().all(|completion| completion.outcome.is_ok()));
    }
}

#[test]
fn a_silent_target_neither_shrinks_the_window_nor_delays_other_targets() {
    let faults = Faults {
        silent_targets: 1,
        ..Faults::none()
    };
    let mut network = Network::new(ClientConfig::default(), faults, 1);
    for id in 0..2000 {
        network.submit(id, id % 200);
    }
    network.run();
    let silent: Vec<_> = network
        .completions
        .values()
        .filter(|completion| completion.outcome.is_err())
        .collect();
    assert_eq!(silent.len(), 10);
    assert!(
        silent
            .iter()
            .all(|completion| completion.outcome.as_ref().err() == Some(&RequestFailure::TimedOut))
    );
    assert_eq!(network.client.stats().window_halvings, 0);
    let first_retry_after = Duration::from_millis(20);
    let in_time = network
        .transcript
        .iter()
        .filter(|(at, _)| at.as_nanos() < first_retry_after.as_nanos() as u64);
    assert_eq!(
        in_time.count(),
        1990 + 2,
        "all other requests were sent before the first timeout of the silent target"
    );
}

#[test]
fn with_a_loss_of_20_percent_all_requests_are_answered() {
    let faults = Faults {
        loss: 20,
        ..Faults::none()
    };
    let mut network = Network::new(ClientConfig::default(), faults, 7);
    for id in 0..3000 {
        network.submit(id, id % 300);
    }
    network.run();
    let failed = network
        .completions
        .values()
        .filter(|completion| completion.outcome.is_err());
    assert_eq!(failed.count(), 0);
    let stats = network.client.stats();
    assert!(stats.losses > 500, "{stats:?}");
    assert!(network.now.as_nanos() < 20_000_000_000, "{:?}", network.now);
}

#[test]
fn silent_targets_that_fill_the_window_do_not_shrink_it_while_other_targets_answer() {
    let config = ClientConfig {
        min_window: 1,
        initial_window: 4,
        max_window: 4,
        target_cap: 1,
        ..ClientConfig::default()
    };
    let faults = Faults {
        silent_targets: 3,
        ..Faults::none()
    };
    // Answers take time, so that some answers arrive within every timeout.
    let faults = Faults {
        jitter: Duration::from_millis(15),
        ..faults
    };
    let mut network = Network::new(config, faults, 1);
    for id in 0..3 {
        network.submit(id, id);
    }
    for id in 3..2000 {
        network.submit(id, 3 + id % 50);
    }
    network.run();
    let stats = network.client.stats();
    assert_eq!((stats.failed, stats.window_halvings), (3, 0));
}

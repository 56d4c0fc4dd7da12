//! Tests of whole messages through a link that loses, duplicates and reorders packets.

use std::time::Duration;

use proptest::prelude::*;
use rsm_mad::Time;
use rsm_mad::client::rmpp::{RmppConfig, TransferFailure};

use crate::rmpp::world::{ANSWER_TIMEOUT, CLIENT, Link, SERVER, World, pattern, question};

fn link() -> impl Strategy<Value = Link> {
    let loss = prop_oneof![3 => 0u32..30, 1 => Just(100u32)];
    (loss, 0u32..20, 0u64..200).prop_map(|(loss, duplicate, jitter)| Link {
        loss,
        duplicate,
        jitter: Duration::from_micros(jitter),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// For every request the client gets the whole answer or a failure, and both ends forget the
    /// transfer.
    #[test]
    fn every_request_ends_once_and_every_answer_is_whole(
        link in link(),
        seed: u64,
        has_streamed_answers: bool,
        requests in prop::collection::vec((0u32..20_000, prop::option::of(0usize..4_000)), 1..6),
        window in 1u32..70,
    ) {
        let config = RmppConfig { window, ..RmppConfig::default() };
        let mut world = World::new(config.clone(), link, seed);
        world.has_streamed_answers = has_streamed_answers;
        for (index, &(length, extra)) in requests.iter().enumerate() {
            world.ask(question(index as u64, length, extra));
        }
        world.run();
        for (index, &(length, extra)) in requests.iter().enumerate() {
            let tid = index as u64;
            let answers: Vec<_> = world.answers.iter()
                .filter(|(_, answer)| answer.header().unwrap().tid().0 == tid)
                .collect();
            let failures = world.failures.iter()
                .filter(|(lid, failed)| *lid == CLIENT && failed.key.tid.0 == tid && !failed.key.answers)
                .count();
            // A request ends once: with its whole answer, or with a failure.
            prop_assert_eq!(answers.len() + failures, 1);
            if let Some((_, answer)) = answers.first() {
                prop_assert_eq!(answer.data(), &pattern(length as usize)[..]);
                prop_assert_eq!(answer.bytes[36..56].to_vec(), vec![0xCC; 20]);
            }
            for received in world.requests_received.iter()
                .filter(|received| received.header().unwrap().tid().0 == tid)
            {
                if let Some(extra) = extra {
                    prop_assert_eq!(&received.data()[4..], &pattern(extra)[..]);
                }
            }
        }
        if link.loss == 0 && link.jitter.is_zero() {
            prop_assert_eq!(world.failures.len(), 0);
        }
        prop_assert_eq!(world.server.stats().transactions, 0);
        prop_assert_eq!(world.clients[&CLIENT].stats().transactions, 0);
        // A request waits for `ANSWER_TIMEOUT`, and each direction takes at most `total_time`.
        let max_time = ANSWER_TIMEOUT + config.total_time * 2 + config.linger;
        prop_assert!(world.now.since(Time::ZERO) <= max_time + Duration::from_secs(1));
    }

    /// Two runs with equal calls send equal packets.
    #[test]
    fn equal_seeds_give_equal_transcripts(seed: u64) {
        let run = || {
            let link = Link { loss: 10, duplicate: 10, jitter: Duration::from_micros(50) };
            let mut world = World::new(RmppConfig::default(), link, seed);
            world.ask(question(1, 5_000, Some(900)));
            world.ask(question(2, 50_000, None));
            world.run();
            world.transcript
        };
        prop_assert_eq!(run(), run());
    }
}

#[test]
fn with_moderate_loss_every_transfer_succeeds() {
    let link = Link {
        loss: 5,
        duplicate: 2,
        jitter: Duration::from_micros(5),
    };
    for seed in 0..20 {
        let mut world = World::new(RmppConfig::default(), link, seed);
        world.ask(question(1, 300_000, Some(2_000)));
        world.run();
        assert_eq!(world.failures, [], "seed {seed}");
        assert_eq!(world.answers[0].1.data(), pattern(300_000), "seed {seed}");
    }
}

#[test]
fn after_the_link_fails_both_ends_report_silence() {
    let mut world = World::new(RmppConfig::default(), Link::default(), 1);
    world.ask(question(1, 100, Some(1_000)));
    // The first segment has arrived, and its acknowledgement is on the wire.
    world.run_until(Time::from_nanos(15_000));
    world.link.loss = 100;
    world.run();
    let mut failed: Vec<_> = world
        .failures
        .iter()
        .map(|(lid, failed)| (*lid, failed.failure))
        .collect();
    failed.sort_by_key(|(lid, _)| *lid);
    assert_eq!(
        failed,
        [
            (SERVER, TransferFailure::Silence),
            (CLIENT, TransferFailure::Silence)
        ]
    );
}

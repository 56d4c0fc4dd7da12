//! Measures the number of transactions that the client completes in a second, in a tight loop that
//! answers every request at once: the cost of the client itself, without a network.
//!
//! `cargo bench -p rsm-mad --bench client`

#![allow(
    clippy::print_stdout,
    reason = "a benchmark reports on standard output"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark is where the clock is read"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use rsm_ids::{Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Handled, Request, Routes};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::header::{AttrId, Status};
use rsm_mad::wire::smp::Smp;

const TRANSACTIONS: u64 = 2_000_000;

/// The number of requests kept pending, which is that of a sweep of a large fabric.
const PENDING: u64 = 8192;

fn run(name: &str, targets: u64, routes: &Routes, window: u32, answer_after: Duration) {
    let mut client = Client::new(ClientConfig {
        initial_window: window,
        max_window: window,
        ..ClientConfig::default()
    });
    let mut unanswered = std::collections::VecDeque::with_capacity(window as usize);
    let mut now = Time::ZERO;
    let (mut submitted, mut completed) = (0, 0);
    let start = Instant::now();
    while completed < TRANSACTIONS {
        while submitted < TRANSACTIONS && submitted - completed < PENDING {
            let target = submitted % targets;
            let request = Request::get(target, *routes, AttrId::NODE_INFO, 0, submitted);
            client.submit(request).expect("fewer than the bound");
            submitted += 1;
        }
        while let Some(transmit) = client.poll_transmit(now) {
            unanswered.push_back(transmit.datagram.mad);
        }
        now += answer_after;
        let mut answer = unanswered.pop_front().expect("a request is unanswered");
        Smp::from_bytes_mut(&mut answer).make_response(Status::OK);
        match client.handle(&answer, now) {
            Handled::Completed(completion) => {
                black_box(&completion);
                completed += 1;
            }
            _ => unreachable!("every answer completes"),
        }
        if client
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            client.handle_deadline(now);
        }
    }
    let elapsed = start.elapsed();
    println!(
        "{name:<44} {:>10.0} transactions/s   {:>6} ns each",
        TRANSACTIONS as f64 / elapsed.as_secs_f64(),
        elapsed.as_nanos() / u128::from(TRANSACTIONS),
    );
}

fn main() {
    let tick = Duration::from_nanos(100);
    let path = DirectedPath::from_hops(&[1, 17, 3, 22].map(PortNum)).expect("four hops");
    let directed = Routes::new(path);
    let by_lid = Routes::new(Lid(7));
    run(
        "LID-routed, 1000 targets, window 64",
        1000,
        &by_lid,
        64,
        tick,
    );
    run(
        "directed, 1000 targets, window 64",
        1000,
        &directed,
        64,
        tick,
    );
    run(
        "directed, 1000 targets, window 512",
        1000,
        &directed,
        512,
        tick,
    );
    run(
        "directed, 4 targets, window 512 (capped)",
        4,
        &directed,
        512,
        tick,
    );
    run(
        "directed, 1000000 targets, window 512",
        1_000_000,
        &directed,
        512,
        tick,
    );
}

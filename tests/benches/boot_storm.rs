//! Starts all hosts at once against a whole rsm: with its own store, and with a shared etcd of
//! three members.
//!
//! `cargo bench -p rsm-tests --bench boot_storm [-- --spec SPEC] [--only sled|etcd]`; the default
//! fabric has 45,056 hosts.
//!
//! This process simulates the fabric, and rsm reaches it by umad. Hosts behave as in `join_storm`.
//! `waiting` and `lag` are the maximum number and the maximum delay of the registrations that etcd
//! did not yet hold, as `rsmctl status` showed them. `stored` is the time from the first request
//! until etcd held all registrations. The memory is the memory of rsm.

mod options;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rsm_mad::wire::sa::SaMad;
use rsm_tests::clock::{Stopwatch, wait_for_every};
use rsm_tests::measure::{memory, milliseconds, reset_peak};
use rsm_tests::sharing::{Manager, Site};
use rsm_tests::storm::{Crowd, Host, Ports};

use options::Options;

/// The fabric without `--spec`: 45,056 hosts.
const DEFAULT_SPEC: &str = "pgft:3;32,32,44;1,32,16;1,1,2";

/// The time limit for bringing the subnet up and for storing the registrations.
const LIMIT: Duration = Duration::from_secs(600);

/// The time between two checks of the manager's status.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The number of members of etcd.
const MEMBERS: usize = 3;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let options = Options::from_arguments(1)?;
    let spec = options.spec(DEFAULT_SPEC);
    let mut out = std::io::stdout();
    for _ in 0..options.rounds() {
        for store in ["sled", "etcd"] {
            if options.takes_part(store) {
                writeln!(out, "{spec}, {store}:")?;
                run(spec, store, &mut out)?;
            }
        }
    }
    Ok(())
}

fn run(spec: &str, store: &str, out: &mut impl Write) -> Result<(), Failure> {
    let site = Site::start(spec, MEMBERS);
    let rsm = match store {
        "etcd" => site.rsm(0, "one", ""),
        _ => site.rsm_alone(0, "one"),
    };
    let stopwatch = Stopwatch::start();
    wait(&rsm, |status| status["state"] == "up")?;
    wait(&rsm, |status| backlog(status).waiting == 0)?;
    let hosts = Host::all_of(&site.fabric)?;
    writeln!(
        out,
        "  {} hosts up and stored after {:.1} s",
        hosts.len(),
        stopwatch.elapsed().as_secs_f64()
    )?;

    let fabric = &site.fabric;
    let (ports, answers) = Ports::attach(&fabric.fabric.sim, &hosts, fabric.lid(0))?;
    let send = |index: usize, mad: &SaMad| ports.send(index, mad);
    let mut crowd = Crowd::new(&hosts, send, answers);
    crowd.wait_until_answered();

    let process = rsm.process.id().to_string();
    reset_peak(&process);
    let resident = memory(&process, "VmRSS:");
    let stopwatch = Stopwatch::start();
    let is_over = AtomicBool::new(false);
    let (outcome, max_backlog) = std::thread::scope(|scope| {
        let monitor = scope.spawn(|| {
            let mut max_backlog = Backlog::default();
            while !is_over.load(Ordering::Relaxed) || backlog(&rsm.status()).waiting > 0 {
                let current = backlog(&rsm.status());
                max_backlog.waiting = max_backlog.waiting.max(current.waiting);
                max_backlog.lag_ms = max_backlog.lag_ms.max(current.lag_ms);
                std::thread::sleep(CHECK_INTERVAL);
            }
            (max_backlog, stopwatch.elapsed())
        });
        let outcome = crowd.run();
        is_over.store(true, Ordering::Relaxed);
        (
            outcome,
            monitor.join().expect("the polling thread does not panic"),
        )
    });
    outcome.report(out)?;
    let (max_backlog, stored_after) = max_backlog;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "  waiting at most {} rows, lag at most {} ms, stored after {:.1} ms; memory {:.1} MiB, at most {:.1} MiB",
        max_backlog.waiting,
        max_backlog.lag_ms,
        milliseconds(stored_after),
        mib(resident),
        mib(memory(&process, "VmHWM:")),
    )?;
    rsm.stop();
    Ok(())
}

/// The registrations that the shared store does not hold yet; zero without a shared store.
#[derive(Clone, Copy, Default)]
struct Backlog {
    waiting: u64,
    lag_ms: u64,
}

fn backlog(status: &serde_json::Value) -> Backlog {
    let store = &status["shared_store"];
    Backlog {
        waiting: store["waiting_rows"].as_u64().unwrap_or(0),
        lag_ms: store["lag_ms"].as_u64().unwrap_or(0),
    }
}

fn wait(rsm: &Manager, is_reached: impl Fn(&serde_json::Value) -> bool) -> Result<(), Failure> {
    let reached = wait_for_every(CHECK_INTERVAL, LIMIT, || {
        is_reached(&rsm.status()).then_some(())
    });
    reached.ok_or_else(|| format!("{}\n{}", rsm.status(), rsm.process.stderr_so_far()).into())
}

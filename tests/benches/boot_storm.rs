//! All hosts start at once, and a whole rsm answers them: with its own store, and with an etcd of three
//! members behind.
//!
//! `cargo bench -p rsm-tests --bench boot_storm [-- --spec SPEC] [--only sled|etcd]`; by default
//! 45,056 hosts.
//!
//! The fabric is simulated in this process, rsm reaches it by umad. Hosts behave as in `join_storm`.
//! `waiting` and `lag` are the most that `rsmctl status` showed of registrations which etcd did not
//! hold yet, `stored` the time from the first request until it held them all. Memory is that of rsm.

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

/// 45,056 hosts.
const DEFAULT_SPEC: &str = "pgft:3;32,32,44;1,32,16;1,1,2";

/// Longer than it takes to bring the subnet up, and to store what hosts registered.
const LIMIT: Duration = Duration::from_secs(600);

/// Time between two looks at the manager.
const LOOK: Duration = Duration::from_millis(100);

/// Members of etcd.
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
    let watch = Stopwatch::start();
    wait(&rsm, |status| status["state"] == "up")?;
    wait(&rsm, |status| backlog(status).waiting == 0)?;
    let hosts = Host::all_of(&site.fabric)?;
    writeln!(
        out,
        "  {} hosts up and stored after {:.1} s",
        hosts.len(),
        watch.elapsed().as_secs_f64()
    )?;

    let fabric = &site.fabric;
    let (ports, answers) = Ports::attach(&fabric.fabric.sim, &hosts, fabric.lid(0))?;
    let send = |index: usize, mad: &SaMad| ports.send(index, mad);
    let mut crowd = Crowd::new(&hosts, send, answers);
    crowd.wait_until_it_answers();

    let process = rsm.process.id().to_string();
    reset_peak(&process);
    let resident = memory(&process, "VmRSS:");
    let watch = Stopwatch::start();
    let is_over = AtomicBool::new(false);
    let (outcome, most) = std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut most = Backlog::default();
            while !is_over.load(Ordering::Relaxed) || backlog(&rsm.status()).waiting > 0 {
                let seen = backlog(&rsm.status());
                most.waiting = most.waiting.max(seen.waiting);
                most.lag_ms = most.lag_ms.max(seen.lag_ms);
                std::thread::sleep(LOOK);
            }
            (most, watch.elapsed())
        });
        let outcome = crowd.run();
        is_over.store(true, Ordering::Relaxed);
        (outcome, looks.join().expect("it only looks"))
    });
    outcome.report(out)?;
    let (most, stored) = most;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "  waiting at most {} rows, lag at most {} ms, stored after {:.1} ms; memory {:.1} MiB, at most {:.1} MiB",
        most.waiting,
        most.lag_ms,
        milliseconds(stored),
        mib(resident),
        mib(memory(&process, "VmHWM:")),
    )?;
    rsm.stop();
    Ok(())
}

/// Registrations that the shared store does not hold yet; none without one.
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

fn wait(rsm: &Manager, holds: impl Fn(&serde_json::Value) -> bool) -> Result<(), Failure> {
    let held = wait_for_every(LOOK, LIMIT, || holds(&rsm.status()).then_some(()));
    held.ok_or_else(|| format!("{}\n{}", rsm.status(), rsm.process.stderr_so_far()).into())
}

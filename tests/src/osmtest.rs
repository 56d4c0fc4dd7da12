//! Runs osmtest, OpenSM's test program for its SA, against rsm on a served fabric.

use std::path::Path;
use std::time::Duration;

use crate::binaries;
use crate::bringup::LIMIT;
use crate::clock::wait_for_every;
use crate::key_relay::KeyRelay;
use crate::process::{Invocation, Running};
use crate::sa_key::{self, SA_KEY};
use crate::served::{self, Served};

/// The maximum time for a flow: the stress flow makes tens of thousands of queries, one at a time.
const STRESS_LIMIT: Duration = Duration::from_secs(600);

/// The broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: &str = "ff12:401b:ffff::ffff:ffff";

/// Starts a resident rsm at `host`, whose SA trusts [`SA_KEY`], and waits until rsm answers
/// `other`. Requires `saquery`.
///
/// # Panics
///
/// rsm does not answer.
#[must_use]
pub fn rsm(served: &Served, host: &str, other: &str) -> Running {
    let state = served.directory().join("state");
    let config = sa_key::configuration(&served.directory().join("rsm"));
    let rsm = served.client(host, binaries::rsm()).unwrap();
    let rsm = rsm.arg("--config").arg(config);
    let rsm = rsm.args(["--listen", "127.0.0.1:0", "--fabric", "umad", "--state-dir"]);
    let running = rsm.arg(state).spawn().unwrap();
    let answers = wait_for_every(Duration::from_millis(100), LIMIT, || {
        let groups = served.diagnose(other, "saquery", &["-g"]).ok()?;
        groups.stdout.contains(BROADCAST).then_some(())
    });
    assert!(answers.is_some(), "{}", running.stderr_so_far());
    running
}

/// Runs a flow of osmtest at `host` like [`run_to_pass`].
///
/// # Panics
///
/// Panics as [`run_to_pass`] does.
pub fn passes(served: &Served, host: &str, flow: &str, title: &str) {
    let osmtest = served.client(host, "osmtest").unwrap();
    run_to_pass(osmtest, served.directory(), flow, title);
}

/// Runs a flow of osmtest at `host` as a requester that the SA of rsm trusts.
///
/// # Panics
///
/// osmtest does not say that the test `title` passed.
pub fn passes_with_key(served: &Served, host: &str, flow: &str, title: &str) {
    let socket = served.directory().join(format!("osmtest-{flow}.sock"));
    let relay = KeyRelay::start(socket, served.socket(), SA_KEY);
    let osmtest = served::client(served.directory(), relay.socket(), host, "osmtest").unwrap();
    run_to_pass(osmtest, served.directory(), flow, title);
}

/// Runs a flow of `osmtest`. The log, and the inventory that flow `c` writes, go to `directory`.
///
/// # Panics
///
/// osmtest does not say that the test `title` passed.
pub fn run_to_pass(osmtest: Invocation, directory: &Path, flow: &str, title: &str) {
    let log = directory.join(format!("osmtest-{flow}.log"));
    let inventory = directory.join("inventory");
    let osmtest = osmtest.args(["-f", flow, "-i"]).arg(&inventory);
    let finished = osmtest.arg("-l").arg(&log).run(STRESS_LIMIT).unwrap();
    assert!(
        finished.stdout.contains(&format!("TEST \"{title}\" PASS")),
        "flow {flow}, {}: {}{}\n{}",
        if finished.timed_out {
            "killed at the limit"
        } else {
            "ended"
        },
        finished.stdout,
        finished.stderr,
        std::fs::read_to_string(&log).unwrap_or_default()
    );
}

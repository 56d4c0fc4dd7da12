//! osmtest, OpenSM's test program for its SA, queries rsm on a served fabric.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::binaries;
use crate::bringup::LIMIT;
use crate::clock::wait_for_every;
use crate::peer::program_path;
use crate::process::{Invocation, Running};
use crate::sa_key;
use crate::served::Served;

/// The broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: &str = "ff12:401b:ffff::ffff:ffff";

/// A resident rsm at `host` that answers `other`. Needs `saquery`.
///
/// # Panics
///
/// When rsm does not answer.
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

/// Runs a flow of osmtest at `host` as [`run_to_pass`] does.
///
/// # Panics
///
/// As there.
pub fn passes(served: &Served, host: &str, flow: &str, title: &str) {
    let osmtest = served.client(host, "osmtest").unwrap();
    run_to_pass(osmtest, served.directory(), flow, title);
}

/// As [`passes`], where the manager is [`rsm`], whose SA trusts [`SA_KEY`](sa_key::SA_KEY).
///
/// # Panics
///
/// As there.
pub fn passes_with_key(served: &Served, host: &str, flow: &str, title: &str) {
    let osmtest = served.client(host, with_key(served.directory())).unwrap();
    run_to_pass(osmtest, served.directory(), flow, title);
}

/// A copy of osmtest in `directory` that shows the SA's key: SM_Key 1, which every host knows, is
/// built into the program, and opens nothing.
fn with_key(directory: &Path) -> PathBuf {
    const BUILT_IN: [u8; 8] = 1u64.to_be_bytes();
    let mut program = std::fs::read(program_path("osmtest")).unwrap();
    let mut changed = 0;
    for at in 2..program.len() - BUILT_IN.len() {
        // movabs of an immediate to a register: REX.W (and .B), B8 to BF.
        let is_move = matches!(program[at - 2..at], [0x48 | 0x49, 0xB8..=0xBF]);
        if is_move && program[at..at + 8] == BUILT_IN {
            program[at..at + 8].copy_from_slice(&sa_key::SA_KEY.to_be_bytes());
            changed += 1;
        }
    }
    assert!(changed > 0, "osmtest of this machine has its key elsewhere");
    let copy = directory.join("osmtest");
    if !copy.exists() {
        std::fs::write(&copy, program).unwrap();
        std::fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    }
    copy
}

/// Runs a flow of `osmtest`, with its log and the inventory that flow `c` writes in `directory`.
///
/// # Panics
///
/// When it does not say that the test `title` passed.
pub fn run_to_pass(osmtest: Invocation, directory: &Path, flow: &str, title: &str) {
    let log = directory.join(format!("osmtest-{flow}.log"));
    let inventory = directory.join("inventory");
    let osmtest = osmtest.args(["-f", flow, "-i"]).arg(&inventory);
    let finished = osmtest.arg("-l").arg(&log).run(LIMIT).unwrap();
    assert!(
        finished.stdout.contains(&format!("TEST \"{title}\" PASS")),
        "flow {flow}: {}{}\n{}",
        finished.stdout,
        finished.stderr,
        std::fs::read_to_string(&log).unwrap_or_default()
    );
}

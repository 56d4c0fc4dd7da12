//! The common parts of the peer tests: rsm brings a subnet up, and the diagnostics check it.
//!
//! These functions are the assertions of tests: they panic on a failed check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fabrics;
use crate::ibsim::{Ibsim, SimNodeKind};
use crate::sm::{OnceReport, PortStates, check_dumps, check_states, discovered_nodes, rsm_once};
use crate::tap::Tap;

/// The maximum time for a bring-up by rsm in a test, which is far above its need.
pub const LIMIT: Duration = Duration::from_secs(180);

/// The time for which the wire must be quiet before a subnet counts as settled.
pub const QUIET: Duration = Duration::from_millis(500);

/// An ibsim net: two switches with two links between them, and four hosts.
pub const SMALL: &str = "net.2sw2path4hca";

/// All programs that rsm's peer tests drive.
pub const PEERS: &[&str] = &[
    "ibsim",
    "ibsim-run",
    "opensm",
    "iblinkinfo",
    "ibnetdiscover",
    "ibroute",
    "ibtracert",
    "sminfo",
    "ibdmchk",
];

/// Starts a simulator on a generated fabric, whose net file is written to `directory`.
///
/// # Panics
///
/// rsm does not generate the fabric or ibsim does not load it.
pub fn generated(spec: &str, directory: &Path) -> Ibsim {
    Ibsim::start(&fabrics::generate(spec, directory).unwrap()).unwrap()
}

/// Runs `rsm --once` at `host` until it ends, and returns its report and whether the exit status is
/// 0.
///
/// # Panics
///
/// rsm hangs or prints no report.
pub fn once(ibsim: &Ibsim, tap: Option<&Tap>, host: &str, state: &Path) -> (OnceReport, bool) {
    let finished = rsm_once(ibsim, tap, host, state)
        .unwrap()
        .run(LIMIT)
        .unwrap();
    assert!(!finished.timed_out, "rsm hangs: {}", finished.stderr);
    (
        OnceReport::of(&finished).unwrap(),
        finished.status.success(),
    )
}

/// Runs rsm like [`once`], with dumps, and returns the directory of the dumps.
///
/// # Panics
///
/// Panics as [`once`] does; also if the exit status is not 0.
pub fn once_with_dumps(ibsim: &Ibsim, host: &str) -> (OnceReport, PathBuf) {
    let invocation = rsm_once(ibsim, None, host, &ibsim.directory().join("state")).unwrap();
    let dumps = invocation.directory().join("dumps");
    let finished = invocation.arg("--dump-dir").arg(&dumps).run(LIMIT).unwrap();
    let report = OnceReport::of(&finished).unwrap();
    assert!(
        finished.status.success(),
        "{}: {}{}",
        finished.status,
        finished.stdout,
        finished.stderr
    );
    (report, dumps)
}

/// Asserts that the diagnostics agree with rsm's report: every port Active, equal counts, no
/// duplicate LID.
///
/// A port with a loop-back plug has no other end to arm, and may stay idle if a finding reports it.
///
/// # Panics
///
/// The diagnostics disagree with the report.
pub fn assert_diagnostics_agree(ibsim: &Ibsim, host: &str, report: &OnceReport) -> PortStates {
    let states = check_states(ibsim, host).unwrap();
    assert_eq!(states.not_active, Vec::<String>::new());
    let nodes = discovered_nodes(ibsim, host).unwrap();
    let of_kind = |kind| nodes.iter().filter(|node| node.kind == kind).count() as u64;
    let seen = [
        ("/switches", of_kind(SimNodeKind::Switch)),
        ("/cas", of_kind(SimNodeKind::Ca)),
        ("/links", states.links),
        ("/lids", states.lids.len() as u64),
        ("/ports_active", states.active),
        ("/ports_not_active", states.idle_plugs.len() as u64),
    ];
    for (pointer, expected) in seen {
        assert_eq!(
            report.count(pointer).unwrap(),
            expected,
            "{pointer} against the diagnostics"
        );
    }
    let plugs = findings_of_kind(report, "self-cabled");
    for (guid, port) in &states.idle_plugs {
        let subject = format!("{guid:#018x}:{port}");
        assert!(
            plugs.contains(&subject),
            "{subject} is idle and in no finding"
        );
    }
    assert!(
        states.lids.values().all(|lid| (1..0xc000).contains(lid)),
        "{:?}",
        states.lids
    );
    let distinct: std::collections::BTreeSet<_> = states.lids.values().collect();
    assert_eq!(
        distinct.len(),
        states.lids.len(),
        "a LID is held twice: {:?}",
        states.lids
    );
    states
}

/// The subjects of the findings of one kind.
fn findings_of_kind(report: &OnceReport, kind: &str) -> Vec<String> {
    let findings = report.findings().unwrap().iter();
    findings
        .filter(|finding| finding["kind"] == kind)
        .filter_map(|finding| finding["subject"].as_str().map(str::to_owned))
        .collect()
}

/// Asserts that ibdmchk finds every ordered pair of CA ports connected by the dumped routes, and no
/// credit loop.
///
/// # Panics
///
/// ibdmchk complains or finds fewer pairs.
pub fn assert_routes_are_good(dumps: &Path, ca_ports: u64) {
    let verdict = check_dumps(dumps).unwrap();
    assert_eq!(verdict.complaints, Vec::<String>::new());
    assert!(verdict.credit_loop_free, "{verdict:?}");
    assert_eq!(
        verdict.scanned_pairs,
        ca_ports * ca_ports.saturating_sub(1),
        "{verdict:?}"
    );
    assert_eq!(
        verdict.pairs_by_hops.values().sum::<u64>(),
        verdict.scanned_pairs,
        "{verdict:?}"
    );
}

/// The number of cabled CA ports that ibnetdiscover reaches from `host`. ibdmchk checks the paths
/// between these ports.
///
/// # Panics
///
/// ibnetdiscover fails.
#[must_use]
pub fn ca_ports(ibsim: &Ibsim, host: &str) -> u64 {
    let nodes = discovered_nodes(ibsim, host).unwrap();
    let adapters = nodes.iter().filter(|node| node.kind == SimNodeKind::Ca);
    adapters.map(|node| node.cables.len() as u64).sum()
}

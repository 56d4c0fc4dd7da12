//! The history as operators use it the next morning, after faults, a refused drain and a restart of
//! the daemon.

use std::path::PathBuf;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for;
use rsm_tests::process::{Invocation, Running};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// A fabric of four leaves with four hosts each, and two spines.
const FABRIC: &str = "sim:pgft:2;4,4;1,2;1,1";

/// A daemon on a simulated fabric.
struct Daemon {
    directory: tempfile::TempDir,
    running: Option<Running>,
}

impl Daemon {
    fn begin() -> Daemon {
        let mut daemon = Daemon {
            directory: tempfile::tempdir().expect("there is room"),
            running: None,
        };
        daemon.start();
        daemon
    }

    fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    fn start(&mut self) {
        let rsm = Invocation::new(binaries::rsm(), self.directory.path());
        let rsm = rsm.args(["--fabric", FABRIC, "--listen", "off", "--state-dir"]);
        self.running = Some(rsm.arg(self.state()).spawn().expect("it can be started"));
        self.wait_for(&["status"], "no loop, no credit loop");
    }

    /// Ends the daemon; returns its log.
    fn stop(&mut self) -> String {
        let running = self.running.take().expect("it runs");
        let log = running.stderr_so_far();
        running.terminate(LIMIT).expect("it ends");
        log
    }

    fn rsmctl(&self, arguments: &[&str]) -> (i32, String) {
        let rsmctl = Invocation::new(binaries::rsmctl(), self.directory.path());
        let socket = format!("unix:{}", self.state().join("rsm.sock").display());
        let rsmctl = rsmctl.env("RSM_SERVER", socket).args(arguments);
        let finished = rsmctl.run(LIMIT).expect("it ends");
        let text = format!("{}{}", finished.stdout, finished.stderr);
        (finished.status.code().unwrap_or(-1), text)
    }

    fn printed(&self, arguments: &[&str]) -> String {
        let (code, text) = self.rsmctl(arguments);
        assert_eq!(code, 0, "{arguments:?}: {text}");
        text
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.printed(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&text).expect("it is JSON")
    }

    /// Waits until a command succeeds and its output contains `text`; returns the output.
    fn wait_for(&self, arguments: &[&str], text: &str) -> String {
        let found = wait_for(LIMIT, || {
            let (code, output) = self.rsmctl(arguments);
            (code == 0 && output.contains(text)).then_some(output)
        });
        found.unwrap_or_else(|| panic!("{arguments:?}: {}", self.rsmctl(arguments).1))
    }

    /// A time after the last convergence, as RFC 3339.
    fn moment(&self) -> String {
        let history = self.json(&["history", "--newest", "1"]);
        let at = history[0]["finished_unix_ms"].as_u64();
        rsm_api::timestamp(at.expect("it has a time") + 1)
    }

    /// A host other than the manager's, its leaf, and the leaf's port with the cable of the host.
    fn last_host(&self) -> (String, String, String) {
        let links = self.json(&["links"]);
        let links = links.as_array().expect("it is a list");
        let link = links.iter().rev().find_map(|link| {
            let (a, b) = (&link["a"], &link["b"]);
            let (host, leaf) = match (a["kind"].as_str()?, b["kind"].as_str()?) {
                ("ca", "switch") => (a, b),
                ("switch", "ca") => (b, a),
                _ => return None,
            };
            let text = |end: &Value| end["description"].as_str().map(str::to_owned);
            let port = leaf["port"]["number"].to_string();
            Some((text(host)?, text(leaf)?, port))
        });
        link.expect("there are hosts")
    }
}

#[test]
fn number_of_a_generation_is_the_same_in_log_status_history_and_events() {
    let mut daemon = Daemon::begin();
    let (_, leaf, port) = daemon.last_host();
    daemon.printed(&["sim", "unlink", &leaf, &port]);
    let generation = |value: &Value| value["generation"].as_u64().expect("it has a number");
    let list = |arguments: &[&str]| -> Vec<u64> {
        let all = daemon.json(arguments);
        all.as_array()
            .expect("it is a list")
            .iter()
            .map(generation)
            .collect()
    };
    // A convergence may end between two answers.
    let numbers = wait_for(LIMIT, || {
        let numbers = list(&["history", "--newest", "10"]);
        let status = generation(&daemon.json(&["status"]));
        let events = daemon.printed(&["events", "--format", "json"]);
        let events: Vec<u64> = events
            .lines()
            .map(|line| generation(&serde_json::from_str(line).expect("it is JSON")))
            .collect();
        let is_one = numbers.last() == Some(&status) && events.contains(&numbers[0]);
        (numbers.len() > 1 && is_one).then_some(numbers)
    });
    let numbers = numbers.expect("the lost host is a convergence");
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let log = daemon.stop();
    for number in numbers {
        let lines = log.lines().filter(|line| line.contains("converged"));
        let place = format!("generation={number} ");
        assert_eq!(
            lines.filter(|line| line.contains(&place)).count(),
            1,
            "{number}: {log}"
        );
    }
}

#[test]
fn events_history_and_diff_still_show_a_lost_host_after_a_restart() {
    let mut daemon = Daemon::begin();
    let before = daemon.moment();
    let (host, leaf, port) = daemon.last_host();

    // The question: which host is gone, since when, and where was it?
    daemon.printed(&["sim", "unlink", &leaf, &port]);
    let events = ["events", "--since", "1h", "--node", &host];
    let gone = daemon.wait_for(&events, "node vanished");
    assert!(gone.contains(&host), "{gone}");
    let short = rsm_api::resolve::switch_name(&leaf).expect("it is a switch");
    let place = format!("CA at {short}:{port}");
    let changed = daemon.wait_for(&["diff", &before, "--all", "--wide"], &place);
    for what in ["node-vanished", "link-vanished", "finding-raised"] {
        assert!(changed.contains(what), "{changed}");
    }
    let here = daemon.printed(&["diff", "now"]);
    assert!(!here.contains("node-vanished"), "{here}");

    // The question: who drained what? The event of a refused request has the reason.
    let (code, refused) = daemon.rsmctl(&["drain", &leaf]);
    assert_eq!(code, 1, "{refused}");
    let operations = daemon.wait_for(&["events", "--kind", "operator"], "was refused");
    assert!(
        operations.contains(&format!("drain {short}")),
        "{operations}"
    );
    assert!(operations.contains("unix uid "), "{operations}");

    let kept = daemon.json(&["history"]).as_array().map(Vec::len);
    let log = daemon.stop();
    let lost = format!("host {host} lost at {leaf}:{port}");
    assert_eq!(log.matches(&lost).count(), 1, "{log}");

    // The next run has the history. The new simulation has the host again, so that it is back.
    daemon.start();
    let again = daemon.wait_for(&events, "node vanished");
    assert!(again.contains(&gone), "{again}");
    let operations = daemon.printed(&["events", "--kind", "operator"]);
    assert!(operations.contains("was refused"), "{operations}");
    let starts = daemon.printed(&["events", "--kind", "manager", "--since", "1h"]);
    assert_eq!(starts.matches("manager started").count(), 2, "{starts}");
    let all = daemon.json(&["history"]).as_array().map(Vec::len);
    assert!(all > kept, "{all:?} {kept:?}");
    let of_start = daemon.printed(&["history", "--since", "1h", "--cause", "start"]);
    assert!(of_start.lines().count() >= 3, "{of_start}");
    let difference = daemon.printed(&["diff", &before, "--wide"]);
    assert!(!difference.contains("node-vanished"), "{difference}");
    // Only the host's link went down; the restart of the manager counts as no loss of other links.
    assert_eq!(
        difference.matches("link-flapped").count(),
        1,
        "{difference}"
    );
    assert!(difference.contains("went down 1 time"), "{difference}");

    // Invalid times and filters are named in the error.
    let (code, text) = daemon.rsmctl(&["diff", "tomorrow"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("is no time"), "{text}");
    // A time before the history means its first state, and the first line says so.
    let text = daemon.printed(&["diff", "1980-01-01"]);
    assert!(text.starts_with("the history begins at "), "{text}");
    daemon.stop();
}

//! A real rsm that reads the performance counters of a simulated fabric.

use std::fs;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::process::{Invocation, Running};

const LIMIT: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);

/// rsm with this section `counters` of its configuration.
struct Daemon {
    process: Running,
    directory: tempfile::TempDir,
}

impl Daemon {
    fn start(counters: &str) -> Daemon {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("rsm.toml");
        fs::write(&config, format!("[counters]\n{counters}\n")).unwrap();
        let rsm = Invocation::new(binaries::rsm(), directory.path())
            .args(["--listen", "off", "--fabric", "sim:fat-tree:k=4,levels=2"])
            .arg("--config")
            .arg(config)
            .arg("--state-dir")
            .arg(directory.path());
        Daemon {
            process: rsm.spawn().unwrap(),
            directory,
        }
    }

    /// The output of `rsmctl`; its standard error if it fails.
    fn rsmctl(&self, arguments: &[&str]) -> Result<String, String> {
        let socket = format!("unix:{}", self.directory.path().join("rsm.sock").display());
        let rsmctl = Invocation::new(binaries::rsmctl(), self.directory.path());
        let rsmctl = rsmctl.args(["--server", &socket]).args(arguments);
        let finished = rsmctl.run(LIMIT).unwrap();
        let stderr = finished.stderr.clone();
        match finished.success() {
            Ok(finished) => Ok(finished.stdout),
            Err(_) => Err(stderr),
        }
    }

    fn wait_until_up(&self) {
        let is_up = || self.rsmctl(&["status", "--format", "json"]).ok();
        let up = wait_for_every(LOOK, LIMIT, || is_up()?.contains("\"up\"").then_some(()));
        assert!(up.is_some(), "{}", self.process.stderr_so_far());
    }

    /// The ports in `rsmctl counters`, of `part` only; none while rsm has read nothing.
    fn counters(&self, part: &str) -> Vec<serde_json::Value> {
        match self.rsmctl(&["counters", part, "--format", "json"]) {
            Ok(answer) => serde_json::from_str(&answer).unwrap(),
            Err(refusal) => {
                assert!(refusal.contains("has read no"), "{refusal}");
                Vec::new()
            }
        }
    }
}

#[test]
fn errors_of_a_simulated_cable_show_up_in_the_counters() {
    let rsm = Daemon::start("enabled = true\ninterval_s = 1");
    rsm.wait_until_up();
    let is_read = || (rsm.counters("leaf-01").len() >= 4).then_some(());
    let read = wait_for_every(LOOK, LIMIT, is_read);
    assert!(read.is_some(), "{}", rsm.process.stderr_so_far());
    assert_eq!(
        rsm.counters("leaf-01:3")[0]["errors"],
        serde_json::json!([])
    );

    let errors = ["sim", "errors", "leaf-01", "3", "SymbolErrorCounter", "50"];
    rsm.rsmctl(&errors).unwrap();
    let shown = wait_for_every(LOOK, LIMIT, || {
        let ports = rsm.counters("leaf-01:3");
        let [port] = ports.as_slice() else {
            panic!("one port was asked for: {ports:?}");
        };
        let error = port["errors"].get(0)?.clone();
        (error["per_hour"].as_f64()? > 0.0).then_some(error)
    });
    let error = shown.expect("the counter moves");
    assert_eq!(error["name"], "SymbolErrorCounter");
    assert!(error["total"].as_u64().unwrap() > 0, "{error}");
    let others = rsm.counters("leaf-01");
    let with_errors = others.iter().filter(|port| port["errors"].get(0).is_some());
    assert_eq!(with_errors.count(), 1, "{others:?}");
    let table = rsm.rsmctl(&["counters", "leaf-01:3"]).unwrap();
    assert!(table.contains("SymbolErrorCounter="), "{table}");
    rsm.process.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn without_the_key_nothing_is_read_and_rsmctl_says_so() {
    let rsm = Daemon::start("");
    rsm.wait_until_up();
    let refusal = rsm.rsmctl(&["counters"]).unwrap_err();
    assert!(refusal.contains("[counters]"), "{refusal}");
    rsm.process.terminate(LIMIT).unwrap().success().unwrap();
}

//! A real rsm reads the performance counters of a simulated fabric.

use std::fs;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::process::{Invocation, Running};

const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// An rsm with a given section `[counters]` in its configuration.
struct Daemon {
    process: Running,
    directory: tempfile::TempDir,
}

impl Daemon {
    fn start(counters: &str) -> Daemon {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("rsm.toml");
        fs::write(config, format!("[counters]\n{counters}\n")).unwrap();
        Daemon::run(directory)
    }

    /// Starts an rsm in a folder that contains its configuration.
    fn run(directory: tempfile::TempDir) -> Daemon {
        let config = directory.path().join("rsm.toml");
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

    /// Runs `rsmctl`; returns its output, or its standard error if it fails.
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
        let up = wait_for_every(POLL, LIMIT, || is_up()?.contains("\"up\"").then_some(()));
        assert!(up.is_some(), "{}", self.process.stderr_so_far());
    }

    /// The ports of `part` in the JSON output of `rsmctl counters`; empty while rsm has read no
    /// counters.
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
    let read = wait_for_every(POLL, LIMIT, is_read);
    assert!(read.is_some(), "{}", rsm.process.stderr_so_far());
    assert_eq!(
        rsm.counters("leaf-01:3")[0]["errors"],
        serde_json::json!([])
    );

    let errors = ["sim", "errors", "leaf-01", "3", "SymbolErrorCounter", "50"];
    rsm.rsmctl(&errors).unwrap();
    let shown = wait_for_every(POLL, LIMIT, || {
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
    let top: serde_json::Value = serde_json::from_str(
        &rsm.rsmctl(&["top", "--errors", "--format", "json"])
            .unwrap(),
    )
    .unwrap();
    assert_eq!(top["total"], 1, "{top}");
    let description = top["ports"][0]["description"].as_str().unwrap();
    assert!(description.contains("leaf-01"), "{top}");
    assert_eq!(top["ports"][0]["port"]["number"], 3);
    rsm.process.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn top_lists_the_busiest_port_first_and_follow_prints_repeatedly() {
    let rsm = Daemon::start("enabled = true\ninterval_s = 1\nports_interval_s = 1");
    rsm.wait_until_up();
    // PortXmitData counts words of 4 bytes: port 2 sends 4 GB/s, port 1 a tenth of that. Port 1 has
    // no credits to send for half of the time.
    for (port, counter, rate) in [
        ("1", "PortXmitData", "100000000"),
        ("2", "PortXmitData", "1000000000"),
        ("1", "PortXmitWait", "3000000000"),
    ] {
        rsm.rsmctl(&["sim", "errors", "leaf-01", port, counter, rate])
            .unwrap();
    }
    let first = |by: &str| {
        let top = rsm.rsmctl(&[
            "top", "leaf-01", "--by", by, "--limit", "1", "--format", "json",
        ]);
        let top: serde_json::Value = serde_json::from_str(&top.ok()?).unwrap();
        let port = top["ports"].get(0)?.clone();
        let is_busy = port["xmit_bytes_per_s"].as_f64()? > 1e8;
        is_busy.then_some(port)
    };
    let busiest = wait_for_every(POLL, LIMIT, || {
        first("use").filter(|port| port["port"]["number"] == 2)
    });
    let busiest = busiest.expect("port 2 is the busiest one");
    assert!(busiest["use_share"].as_f64().unwrap() > 0.0, "{busiest}");
    assert!(!busiest["peer_description"].as_str().unwrap().is_empty());
    assert_eq!(first("traffic").unwrap()["port"]["number"], 2);
    assert_eq!(first("wait").unwrap()["port"]["number"], 1);
    let table = rsm.rsmctl(&["top", "--limit", "2"]).unwrap();
    let first_line = table.lines().nth(1).unwrap();
    let port = first_line.split_whitespace().next().unwrap();
    assert!(port.contains("leaf-01") && port.ends_with(":2"), "{table}");

    let socket = format!("unix:{}", rsm.directory.path().join("rsm.sock").display());
    let rsmctl = Invocation::new(binaries::rsmctl(), rsm.directory.path());
    let follow = rsmctl.args([
        "--server", &socket, "--format", "json", "top", "--follow", "0.2",
    ]);
    let follow = follow.spawn().unwrap();
    let lines = wait_for_every(POLL, LIMIT, || {
        let lines = follow.stdout_so_far();
        (lines.lines().count() >= 3).then_some(lines)
    });
    for line in lines.expect("the stream goes on").lines().take(3) {
        let top: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(top["at_unix_ms"].as_u64().unwrap() > 0);
    }
    drop(follow);
    let refusal = rsm.rsmctl(&["top", "nobody-has-this-name"]).unwrap_err();
    assert!(refusal.contains("nobody-has-this-name"), "{refusal}");
    rsm.process.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn routes_avoid_a_cable_with_errors_until_the_errors_end() {
    let health = "enabled = true\ninterval_s = 1\n[health]\nisolate = \"on\"\nquiet_s = 4";
    let rsm = Daemon::start(health);
    rsm.wait_until_up();
    let links = [
        "links",
        "--between-switches",
        "--node",
        "leaf-01",
        "--format",
        "json",
    ];
    let links: serde_json::Value = serde_json::from_str(&rsm.rsmctl(&links).unwrap()).unwrap();
    let leaf = |end: &serde_json::Value| end["description"].as_str().unwrap().contains("leaf-01");
    let end = if leaf(&links[0]["a"]) {
        &links[0]["a"]
    } else {
        &links[0]["b"]
    };
    let port = end["port"]["number"].to_string();
    let routed_lids = || {
        let table = rsm.rsmctl(&["lft", "leaf-01", "--format", "json"]).unwrap();
        let table: serde_json::Value = serde_json::from_str(&table).unwrap();
        let entries = table["entries"].as_array().unwrap();
        let by_port = entries
            .iter()
            .filter(|entry| entry["port"] == end["port"]["number"]);
        by_port.count()
    };
    assert!(routed_lids() > 0, "routes use the cable");
    let has_finding = || {
        let findings = rsm.rsmctl(&["findings", "--format", "json"]).unwrap();
        findings.contains("link-errors")
    };
    let errors = [
        "sim",
        "errors",
        "leaf-01",
        &port,
        "SymbolErrorCounter",
        "50",
    ];
    rsm.rsmctl(&errors).unwrap();
    let out = wait_for_every(POLL, LIMIT, || {
        (has_finding() && routed_lids() == 0).then_some(())
    });
    assert!(out.is_some(), "{}", rsm.process.stderr_so_far());
    let no_errors = ["sim", "errors", "leaf-01", &port, "SymbolErrorCounter", "0"];
    rsm.rsmctl(&no_errors).unwrap();
    let back = wait_for_every(POLL, LIMIT, || {
        (!has_finding() && routed_lids() > 0).then_some(())
    });
    assert!(back.is_some(), "{}", rsm.process.stderr_so_far());
    rsm.process.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn rsmctl_counters_fails_and_names_the_section_if_counters_are_not_enabled() {
    let rsm = Daemon::start("");
    rsm.wait_until_up();
    let refusal = rsm.rsmctl(&["counters"]).unwrap_err();
    assert!(refusal.contains("[counters]"), "{refusal}");
    rsm.process.terminate(LIMIT).unwrap().success().unwrap();
}

#[test]
fn history_of_a_cable_keeps_the_time_of_its_first_errors_across_a_restart() {
    let rsm = Daemon::start("enabled = true\ninterval_s = 1\nports_interval_s = 1");
    rsm.wait_until_up();
    let json = |rsm: &Daemon, arguments: &[&str]| {
        let all = [arguments, &["--format", "json"]].concat();
        let answer = rsm.rsmctl(&all).ok()?;
        serde_json::from_str::<serde_json::Value>(&answer).ok()
    };
    rsm.rsmctl(&["sim", "errors", "leaf-01", "3", "SymbolErrorCounter", "50"])
        .unwrap();
    let errors_of = |rsm: &Daemon| {
        let top = json(rsm, &["top", "--since", "1h"])?;
        let first = top["ports"].get(0)?.clone();
        let errors = first["errors"].get(0)?.clone();
        assert_eq!(top["total"], 1, "{top}");
        assert_eq!(first["port"]["number"], 3, "{top}");
        assert_eq!(errors["name"], "SymbolErrorCounter", "{top}");
        Some((errors["count"].as_u64()?, errors["first_unix_ms"].as_u64()?))
    };
    let kept = wait_for_every(POLL, LIMIT, || errors_of(&rsm));
    let (_, first) = kept.unwrap_or_else(|| panic!("{}", rsm.process.stderr_so_far()));

    let Daemon { process, directory } = rsm;
    process.terminate(LIMIT).unwrap().success().unwrap();
    let rsm = Daemon::run(directory);
    rsm.wait_until_up();
    let (count, first_then) = errors_of(&rsm).expect("the past is on the disk");
    assert_eq!(first_then, first);
    let series = json(
        &rsm,
        &["counters", "leaf-01:3", "--since", "1h", "--step", "10s"],
    )
    .unwrap();
    let steps = series["steps"].as_array().unwrap();
    let counts = steps
        .iter()
        .flat_map(|step| step["errors"].as_array().unwrap());
    let sum: u64 = counts.map(|errors| errors["count"].as_u64().unwrap()).sum();
    assert!(sum >= count, "{series}");
    let table = rsm
        .rsmctl(&["counters", "leaf-01:3", "--since", "1h"])
        .unwrap();
    assert!(table.contains("SymbolErrorCounter"), "{table}");
    let fabric = json(&rsm, &["counters", "--since", "1h"]).unwrap();
    assert!(!fabric["steps"].as_array().unwrap().is_empty(), "{fabric}");
    let refusal = rsm
        .rsmctl(&["top", "--since", "1h", "--by", "use"])
        .unwrap_err();
    assert!(refusal.contains("traffic, wait or errors"), "{refusal}");
    rsm.process.terminate(LIMIT).unwrap().success().unwrap();
}

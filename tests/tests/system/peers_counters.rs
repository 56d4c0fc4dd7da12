//! Compares rsm's performance counters with perfquery's, on ibsim.

use std::time::Duration;

use rsm_tests::bringup::{LIMIT, SMALL};
use rsm_tests::clock::wait_for_every;
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;
use rsm_tests::sm::Rsm;
use rsm_tests::web::write;
use serde_json::Value;

const POLL: Duration = Duration::from_millis(200);

/// perfquery's name of a counter, rsm's name, and a value to set.
const ERRORS: [(&str, &str, u64); 6] = [
    ("SymbolErrorCounter", "SymbolErrorCounter", 117),
    ("LinkErrorRecoveryCounter", "LinkErrorRecoveryCounter", 3),
    ("PortRcvErrors", "PortRcvErrors", 29),
    ("PortXmitDiscards", "PortXmitDiscards", 41),
    ("LocalLinkIntegrityErrors", "LocalLinkIntegrityErrors", 2),
    (
        "ExcessiveBufferOverrunErrors",
        "ExcessiveBufferOverrunErrors",
        1,
    ),
];

/// The value of a counter in perfquery's output.
fn value(output: &str, counter: &str) -> u64 {
    let line = output.lines().find(|line| {
        let name = line.split(':').next();
        name.is_some_and(|name| name == counter)
    });
    let value = line.and_then(|line| line.rsplit('.').next());
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("{counter}: {output}"))
}

#[test]
#[cfg_attr(not(peers), ignore = "needs ibsim-utils and infiniband-diags")]
fn error_counters_of_switches_and_hosts_equal_those_of_perfquery() {
    if !require_peers(&["ibsim", "ibsim-run", "perfquery"]) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    // Management traffic moves the data counters of ibsim's ports, but not these error counters.
    for (node, port) in [("Switch1", 1), ("Hca2", 1)] {
        for (counter, _, value) in ERRORS {
            let set = format!("PerformanceSet \"{node}\"[{port}] PortCounters.{counter}={value}");
            ibsim.command(&set).unwrap();
        }
    }
    let state = ibsim.directory().join("state");
    let config = ibsim.directory().join("rsm.toml");
    write(
        &config,
        b"[counters]\nenabled = true\ninterval_s = 1\nports_interval_s = 1\nadapters_interval_s = 1\n",
    );
    let options = ["--config", config.to_str().unwrap()];
    let rsm = Rsm::start_with(&ibsim, None, "Hca1", &state, &options, LIMIT).unwrap();
    for (node, port) in [("Switch1", "1"), ("Hca2", "1")] {
        let name = format!("{node}:{port}");
        let read = wait_for_every(POLL, LIMIT, || {
            let ports = rsm.ask(&["counters", &name]).ok()?;
            let port = ports.get(0)?.clone();
            (port["errors"].as_array()?.len() >= ERRORS.len()).then_some(port)
        });
        let read: Value = read.expect("the port is read");
        let guid = rsm.ask(&["nodes"]).unwrap();
        let nodes = guid.as_array().unwrap();
        let of_node = nodes.iter().find(|one| one["description"] == node);
        let lid = of_node.expect("it is there")["lids"][0].to_string();
        let output = ibsim.diagnose("Hca3", "perfquery", &[&lid, port]).unwrap();
        let output = output.success().unwrap().stdout;
        for (theirs, ours, expected) in ERRORS {
            let errors = read["errors"].as_array().unwrap();
            let shown = errors.iter().find(|error| error["name"] == ours);
            let shown = shown.map(|error| error["total"].as_u64().unwrap());
            assert_eq!(
                shown,
                Some(value(&output, theirs)),
                "{name} {theirs}\n{output}"
            );
            assert_eq!(shown, Some(expected));
        }
    }
    rsm.stop().unwrap().success().unwrap();
}

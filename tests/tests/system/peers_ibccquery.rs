//! Queries of `ibccquery` to the simulator's agents of congestion control.

use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for_every;
use rsm_tests::peer::require_peers;
use rsm_tests::process::Finished;
use rsm_tests::served::Served;
use rsm_tests::sm::Rsm;
use serde_json::Value;

const FABRIC: &str = "fat-tree:k=4,levels=2,devices=congestion-control";

/// The host where `ibccquery` runs, which is not the manager's.
const HOST: &str = "host-002 mlx5_0";

/// The host whose adapter is queried.
const ADAPTER: &str = "host-003 mlx5_0";

const POLL: Duration = Duration::from_millis(100);

const CONFIG: &str = "[congestion]\n\
    enabled = true\n\
    cc_key = 0x1122334455667788\n\
    set_cc_key = true\n\
    cc_key_protect = true\n\
    switch_control_map = 0x14\n\
    switch_threshold = 11\n\
    switch_packet_size = 8\n\
    switch_marking_rate = 9\n\
    ca_control_map = 0x0001\n\
    ca_ccti_timer = \"0:150\"\n\
    ca_ccti_increase = \"0:2\"\n\
    table = \"0:0,0:1,1:8\"\n";

/// The key in the configuration, as `ibccquery` takes it.
const KEY: [&str; 2] = ["-c", "0x1122334455667788"];

/// A query: the operation, the arguments after the LID, and lines that the answer must have.
type Query = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

/// Queries to a switch. The log has no events, because simulated switches mark no packet.
const SWITCH: &[Query] = &[
    (
        "ClassPortInfo",
        &[],
        &["ClassVersion:....................2"],
    ),
    (
        "CongestionInfo",
        &[],
        &["ControlTableCap:.................0"],
    ),
    (
        "CongestionKeyInfo",
        &[],
        &["CC_Key:..........................0x1122334455667788"],
    ),
    (
        "CongestionLog",
        &[],
        &[
            "LogType:.........................1",
            "LogEventsCounter:................0",
        ],
    ),
    (
        "SwitchCongestionSetting",
        &[],
        &[
            "Threshold:.......................0x0b",
            "Packet_Size:.....................8",
            "Marking_Rate:....................9",
        ],
    ),
    (
        "SwitchPortCongestionSetting",
        &[],
        &[
            "Port:............................4",
            "Valid:...........................0",
        ],
    ),
    (
        "SwitchPortCongestionSetting",
        &["1"],
        &["Valid:...........................0"],
    ),
];

/// Queries to an adapter.
const ADAPTERS: &[Query] = &[
    (
        "CongestionInfo",
        &[],
        &["ControlTableCap:.................2"],
    ),
    (
        "CongestionLog",
        &[],
        &[
            "LogType:.........................2",
            "ThresholdEventCounter:...........0",
        ],
    ),
    (
        "CACongestionSetting",
        &[],
        &[
            "CCTI_Timer:......................150",
            "CCTI_Increase:...................2",
        ],
    ),
    (
        "CongestionControlTable",
        &[],
        &[
            "CCTI_Limit:......................2",
            "Entry:...........................2",
            "CCT_Multiplier:..................8",
        ],
    ),
];

/// Queries that a device of this kind refuses: whether it is a switch, the operation, and the
/// arguments after the LID.
const REFUSED: &[(bool, &str, &[&str])] = &[
    (true, "CACongestionSetting", &[]),
    (true, "CongestionControlTable", &[]),
    (true, "SwitchPortCongestionSetting", &["5"]),
    (false, "SwitchCongestionSetting", &[]),
    (false, "SwitchPortCongestionSetting", &[]),
];

/// The LIDs of a switch and of [`ADAPTER`].
fn lids(rsm: &Rsm) -> (String, String) {
    let nodes = rsm.ask(&["nodes"]).unwrap();
    let lid = |is_asked: &dyn Fn(&Value) -> bool| {
        let mut nodes = nodes.as_array().unwrap().iter();
        let node = nodes.find(|node| is_asked(node)).unwrap();
        node["lids"][0].as_u64().unwrap().to_string()
    };
    (
        lid(&|node| node["kind"] == "switch"),
        lid(&|node| node["description"] == ADAPTER),
    )
}

/// Waits until rsm has set 13 of the 14 devices: all except the manager's own host.
fn wait_until_set(rsm: &Rsm) {
    let set = wait_for_every(POLL, LIMIT, || {
        let agents = rsm.ask(&["congestion"]).unwrap();
        let agents = agents.as_array().unwrap().iter();
        let set = agents.filter(|agent| agent["state"] == "set").count();
        (set >= 13).then_some(())
    });
    assert!(set.is_some(), "{}", rsm.ask(&["congestion"]).unwrap());
}

/// The timestamp in the answer to the operation Timestamp.
fn timestamp(finished: Finished) -> u64 {
    let answer = finished.success().unwrap().stdout;
    let line = answer.lines().find(|line| line.starts_with("Timestamp:"));
    let line = line.unwrap_or_else(|| panic!("{answer}"));
    line.rsplit('.').next().unwrap().parse().unwrap()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn ibccquery_reads_what_rsm_set_at_switches_and_adapters() {
    if !require_peers(&["ibccquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let state: &Path = &served.directory().join("state");
    let config = served.directory().join("rsm.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let rsm = served.client("", binaries::rsm()).unwrap();
    let options = ["--config", config.to_str().unwrap()];
    let rsm = Rsm::run(rsm, state, &options, LIMIT).unwrap();
    wait_until_set(&rsm);

    let (switch, adapter) = lids(&rsm);
    let ask = |lid: &str, operation: &str, more: &[&str]| {
        let arguments = [&KEY[..], &[operation, lid], more].concat();
        served.diagnose(HOST, "ibccquery", &arguments).unwrap()
    };
    for (lid, queries) in [(&switch, SWITCH), (&adapter, ADAPTERS)] {
        for (operation, more, lines) in queries {
            let answer = ask(lid, operation, more).success().unwrap().stdout;
            assert!(
                answer.starts_with(&format!("# {operation}: Lid {lid}")),
                "{answer}"
            );
            for expected in *lines {
                assert!(answer.lines().any(|line| line == *expected), "{answer}");
            }
        }
        let first = timestamp(ask(lid, "Timestamp", &[]));
        assert!(timestamp(ask(lid, "Timestamp", &[])) > first);
    }
    for (is_switch, operation, more) in REFUSED {
        let lid = if *is_switch { &switch } else { &adapter };
        let finished = ask(lid, operation, more);
        assert!(finished.success().is_err(), "{operation} at LID {lid}");
    }
    // Without the key, agents that protect their key do not answer.
    let without = ["-t", "100", "CongestionInfo", &switch];
    let finished = served.diagnose(HOST, "ibccquery", &without).unwrap();
    assert!(finished.success().is_err());
    rsm.stop().unwrap().success().unwrap();
}

//! Foreign programs on a fabric that `rsm sim serve` simulates.
//!
//! OpenSM and its own test program are the reference, because they also run on real kernels.

use std::time::Duration;

use rsm_ids::PortNum;
use rsm_routing::generate::generate;
use rsm_routing::ibnetdiscover;
use rsm_routing::netlist::{Cable, Netlist, NodeKind};
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::{wait_for, wait_for_every};
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::{iblinkinfo, sminfo};
use rsm_tests::peer::require_peers;
use rsm_tests::served::Served;
use rsm_tests::sm::{OnceReport, OpenSm, Rsm};
use rsm_tests::{binaries, fabrics, osmtest};

/// A fabric of 20 switches, 16 hosts with a port each, and 48 links.
const FABRIC: &str = "fat-tree:k=4,levels=3";
/// The number of nodes.
const NODES: usize = 36;
/// The number of ports with a link.
const LINK_ENDS: usize = 96;

/// The hosts of the programs.
const FIRST_HOST: &str = "host-001 mlx5_0";
const SECOND_HOST: &str = "host-006 mlx5_0";
const THIRD_HOST: &str = "host-011 mlx5_0";
/// The GUID of the first host.
const FIRST_GUID: u64 = 0xe09d_7303_0000_0008;

/// The time without a sweep after which OpenSM counts as settled: a sweep of so small a fabric
/// takes far less.
const QUIET_TIME: Duration = Duration::from_millis(1500);

/// Starts a resident OpenSM, and waits until it has settled. OpenSM takes the links of hosts down
/// to change their MTU, and logs that the subnet is up while they still train. Their traps make it
/// sweep again, and its answer about a switch (the port of the query) may change once more.
fn opensm(served: &Served, host: &str) -> OpenSm {
    let opensm = OpenSm::run(served.client(host, "opensm").unwrap(), &[], LIMIT).unwrap();
    let done = wait_for_every(Duration::from_millis(100), LIMIT, || {
        (active_ends(served, host) == LINK_ENDS).then_some(())
    });
    assert!(done.is_some(), "{}", opensm.log());
    let mut known = 0;
    let settled = wait_for_every(QUIET_TIME, LIMIT, || {
        let sweeps = opensm.sweeps();
        let settled = sweeps == known;
        known = sweeps;
        settled.then_some(())
    });
    assert!(settled.is_some(), "{}", opensm.log());
    opensm
}

/// The output of a program at a host, which must succeed.
fn output_of(served: &Served, host: &str, program: &str, arguments: &[&str]) -> String {
    let answer = served.diagnose(host, program, arguments).unwrap();
    answer.success().unwrap().stdout
}

/// The number of link ends that are Active.
fn active_ends(served: &Served, host: &str) -> usize {
    let lines = iblinkinfo::parse(&output_of(served, host, "iblinkinfo", &["--line"])).unwrap();
    lines.iter().filter(|line| line.is_active()).count()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn opensm_brings_the_fabric_up_and_answers_by_rmpp() {
    if !require_peers(&["opensm", "iblinkinfo", "saquery", "smpquery", "sminfo"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let opensm = opensm(&served, FIRST_HOST);
    assert_eq!(active_ends(&served, SECOND_HOST), LINK_ENDS);

    let master = sminfo::parse(&output_of(&served, SECOND_HOST, "sminfo", &[])).unwrap();
    assert_eq!((master.guid, master.state), (FIRST_GUID, 3), "{master:?}");
    let description = output_of(&served, SECOND_HOST, "smpquery", &["nodedesc", "-D", "0"]);
    assert!(description.contains(SECOND_HOST), "{description}");

    // The queries come from the manager's own host and from another host; the answers have 4 KB and
    // 83 KB.
    for host in [FIRST_HOST, THIRD_HOST] {
        let nodes = output_of(&served, host, "saquery", &["NR"]);
        assert_eq!(nodes.matches("NodeRecord dump").count(), NODES, "{nodes}");
        let paths = output_of(&served, host, "saquery", &["PR", "-p"]);
        assert_eq!(paths.matches("PathRecord dump").count(), NODES * NODES);
    }
    opensm.stop().unwrap();
    assert!(served.stop().unwrap().success().is_ok());
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn perfquery_reads_and_resets_counters_of_switches_and_hosts() {
    if !require_peers(&["opensm", "perfquery", "smpquery", "iblinkinfo"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let opensm = opensm(&served, FIRST_HOST);
    let lid_of = |path: &str| {
        let info = output_of(
            &served,
            SECOND_HOST,
            "smpquery",
            &["portinfo", "-D", path, "0"],
        );
        let line = info.lines().find(|line| line.starts_with("Lid:"));
        let lid = line.and_then(|line| line.rsplit('.').next());
        lid.expect("there is a LID").to_owned()
    };
    let read = |arguments: &[&str], counter: &str| {
        let output = output_of(&served, SECOND_HOST, "perfquery", arguments);
        let line = output.lines().find(|line| line.starts_with(counter));
        let value = line.and_then(|line| line.rsplit('.').next());
        let value: u64 = value.and_then(|value| value.parse().ok()).expect(&output);
        value
    };
    let leaf = lid_of("0,1");
    // perfquery's own requests arrive at the port of the leaf to which the second host is
    // connected.
    let port = output_of(&served, SECOND_HOST, "smpquery", &["nodeinfo", "-D", "0,1"]);
    let line = port.lines().find(|line| line.starts_with("LocalPort:"));
    let port = line
        .and_then(|line| line.rsplit('.').next())
        .expect("a port");
    for extended in [false, true] {
        let options: &[&str] = if extended { &["-x"] } else { &[] };
        let with = |more: &[&'static str]| {
            let mut all: Vec<&str> = [options, more].concat();
            all.extend([leaf.as_str(), port]);
            all
        };
        let first = read(&with(&[]), "PortRcvPkts:");
        let second = read(&with(&[]), "PortRcvPkts:");
        assert!(second > first && first > 0, "{first} {second}");
        // The query reads the counters, then resets them.
        read(&with(&["-r"]), "PortRcvPkts:");
        let reset = read(&with(&[]), "PortRcvPkts:");
        assert!(reset < second, "{reset} {second}");
    }
    // perfquery also adds up all ports of the leaf, and reads the host where it runs.
    assert!(read(&["-a", &leaf], "PortRcvPkts:") > 0);
    assert!(read(&[&lid_of("0"), "1"], "PortXmitPkts:") > 0);
    opensm.stop().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm")]
fn osmtest_passes_all_validations_against_opensm() {
    if !require_peers(&["opensm", "osmtest"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let opensm = opensm(&served, FIRST_HOST);
    for (flow, title) in [("c", "Create Inventory"), ("a", "All Validations")] {
        osmtest::passes(&served, SECOND_HOST, flow, title);
    }
    opensm.stop().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn many_clients_at_once_get_the_same_answers() {
    if !require_peers(&["opensm", "saquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let opensm = opensm(&served, FIRST_HOST);
    let hosts = [
        FIRST_HOST,
        SECOND_HOST,
        SECOND_HOST,
        SECOND_HOST,
        THIRD_HOST,
        THIRD_HOST,
    ];
    let start = |host: &&str| {
        let client = served.client(host, "saquery").unwrap();
        client.args(["PR", "-p"]).spawn().unwrap()
    };
    let running: Vec<_> = hosts.iter().map(start).collect();
    let outputs: Vec<String> = running
        .into_iter()
        .map(|client| client.wait(LIMIT).unwrap().success().unwrap().stdout)
        .collect();
    assert_eq!(outputs[0].matches("PathRecord dump").count(), NODES * NODES);
    for output in &outputs {
        assert_eq!(*output, outputs[0]);
    }
    opensm.stop().unwrap();
}

/// Whether IsSM is set at the port of the first host.
fn is_sm(served: &Served) -> bool {
    let info = output_of(
        served,
        FIRST_HOST,
        "smpquery",
        &["portinfo", "-D", "0", "1"],
    );
    info.lines().any(|line| line.trim() == "IsSM")
}

/// A resident rsm at the first host.
fn rsm(served: &Served) -> Rsm {
    let state = served.directory().join("state");
    let rsm = served.client(FIRST_HOST, binaries::rsm()).unwrap();
    Rsm::run(rsm, &state, &[], LIMIT).unwrap()
}

/// The texts of the findings `local-port`.
fn port_findings(rsm: &Rsm) -> Vec<String> {
    let findings = rsm.ask(&["findings", "--kind", "local-port"]).unwrap();
    let findings = findings.as_array().expect("it is a list").iter();
    findings
        .map(|finding| finding["message"].to_string())
        .collect()
}

/// The adapter is away while rsm tries several times to open it again.
#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn rsm_sets_is_sm_again_after_the_adapter_was_away_for_seconds() {
    if !require_peers(&["smpquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let rsm = rsm(&served);
    assert!(is_sm(&served));
    let served = served.restart(FABRIC, Duration::from_secs(5)).unwrap();
    let is_back = wait_for(LIMIT, || is_sm(&served).then_some(()));
    assert!(is_back.is_some(), "{}", rsm.stop().unwrap().stderr);
    let has_ended = wait_for(LIMIT, || port_findings(&rsm).is_empty().then_some(()));
    assert!(has_ended.is_some(), "{:?}", port_findings(&rsm));
    rsm.stop().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn rsm_reports_a_refused_is_sm_and_sets_it_when_its_holder_ends() {
    if !require_peers(&["smpquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let sh = served.client(FIRST_HOST, "/bin/sh").unwrap();
    let script = "exec 3<>/dev/infiniband/issm0 && echo held && exec sleep 600";
    let holder = sh.args(["-c", script]).spawn().unwrap();
    let held = wait_for(LIMIT, || {
        holder.stdout_so_far().contains("held").then_some(())
    });
    assert!(held.is_some(), "{}", holder.stderr_so_far());
    let rsm = rsm(&served);
    let refused = port_findings(&rsm);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0].contains("another subnet manager of this host holds it"),
        "{refused:?}"
    );
    holder.kill().unwrap();
    let is_set = wait_for(LIMIT, || {
        (is_sm(&served) && port_findings(&rsm).is_empty()).then_some(())
    });
    assert!(is_set.is_some(), "{:?}", port_findings(&rsm));
    rsm.stop().unwrap();
}

/// OpenSM runs on the first port of a host with two ports, which may belong to two fabrics.
#[test]
#[cfg_attr(not(peers), ignore = "needs opensm")]
fn rsm_ends_at_a_port_that_another_manager_holds_and_takes_no_other_port() {
    if !require_peers(&["opensm", "iblinkinfo"]) {
        return;
    }
    let (mut nodes, mut cables) = generate("fat-tree:k=4,levels=2").unwrap().into_parts();
    let host = nodes
        .iter()
        .position(|node| node.kind == NodeKind::Ca)
        .unwrap();
    let switch = nodes
        .iter()
        .position(|node| node.kind == NodeKind::Switch)
        .unwrap();
    nodes[host].num_ports = 2;
    nodes[switch].num_ports += 1;
    let (a, b) = (
        (switch, PortNum(nodes[switch].num_ports)),
        (host, PortNum(2)),
    );
    let cable = Cable {
        a: a.min(b),
        b: a.max(b),
        ..cables[0]
    };
    cables.push(cable);
    let name = nodes[host].name();
    let mut text = Vec::new();
    ibnetdiscover::write(&Netlist::new(nodes, cables).unwrap(), &mut text).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("fabric.txt");
    std::fs::write(&file, text).unwrap();
    let served = Served::start(&file.display().to_string()).unwrap();
    let opensm = OpenSm::run(served.client(&name, "opensm").unwrap(), &[], LIMIT).unwrap();
    let rsm = served.client(&name, binaries::rsm()).unwrap();
    let state = served.directory().join("state");
    let rsm = rsm
        .args(["--fabric", "umad", "--once", "--state-dir"])
        .arg(state);
    let finished = rsm.run(LIMIT).unwrap();
    for part in [
        "cannot register for datagrams",
        "rsm0:1",
        "OpenSM",
        "--fabric umad:CA:PORT",
    ] {
        assert!(
            finished.stderr.contains(part),
            "{part}: {}",
            finished.stderr
        );
    }
    assert!(finished.success().is_err());
    opensm.stop().unwrap();
}

/// The role of the manager ends with its process, even if SIGKILL ends it.
#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn killed_manager_clears_is_sm_and_frees_its_management_class() {
    if !require_peers(&["opensm", "smpquery", "iblinkinfo"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let is_sm = || is_sm(&served);
    assert!(!is_sm());
    let first = opensm(&served, FIRST_HOST);
    assert!(is_sm());
    first.kill().unwrap();
    assert!(wait_for(Duration::from_secs(10), || (!is_sm()).then_some(())).is_some());
    // The management class is free as well: a second manager can register for it.
    let second = opensm(&served, FIRST_HOST);
    assert!(is_sm());
    assert_eq!(active_ends(&served, SECOND_HOST), LINK_ENDS);
    second.stop().unwrap();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn rsm_brings_the_fabric_up_through_umad() {
    if !require_peers(&["iblinkinfo"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let rsm = served.client(FIRST_HOST, binaries::rsm()).unwrap();
    let once = rsm.args(["--fabric", "umad", "--once", "--format", "json"]);
    let finished = once.run(LIMIT).unwrap().success().unwrap();
    let report = OnceReport::of(&finished).unwrap();
    assert_eq!(report.count("/switches").unwrap(), 20);
    assert_eq!(report.count("/links").unwrap(), 48);
    assert_eq!(active_ends(&served, SECOND_HOST), LINK_ENDS);
}

/// The switch's trap reaches OpenSM, which notices that a link is gone, and that it is back.
#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn opensm_reacts_to_the_trap_of_a_pulled_cable() {
    if !require_peers(&["opensm", "iblinkinfo"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let mut opensm = opensm(&served, FIRST_HOST);
    for (action, ends) in [("unlink", LINK_ENDS - 2), ("relink", LINK_ENDS)] {
        let sweeps = opensm.sweeps();
        served
            .act(&[action, "MF0;leaf-02:MQM8700/U1", "3"])
            .unwrap();
        assert!(opensm.wait_subnet_up(sweeps + 1, LIMIT), "{}", opensm.log());
        let settled = wait_for_every(Duration::from_millis(100), LIMIT, || {
            (active_ends(&served, SECOND_HOST) == ends).then_some(())
        });
        assert!(settled.is_some(), "{action}: {}", opensm.log());
    }
    opensm.stop().unwrap();
}

/// The output of `ibnetdiscover`, without parts that are not of the fabric: comments, LIDs, and the
/// GUIDs of ports, which ibsim makes up.
fn topology(output: &str) -> Vec<String> {
    let words = |line: &str| {
        let mut words = Vec::new();
        let mut after_lid = false;
        for word in line.split_whitespace() {
            let number = std::mem::replace(&mut after_lid, word == "lid" || word == "lmc");
            if !number && word != "lid" && word != "lmc" {
                words.push(word.split_once('(').map_or(word, |(before, _)| before));
            }
        }
        words.join(" ")
    };
    let lines = output.lines().filter(|line| !line.starts_with('#'));
    lines.map(words).collect()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs ibsim-utils and infiniband-diags")]
fn ibnetdiscover_prints_the_same_as_on_ibsim() {
    if !require_peers(&["ibsim", "ibsim-run", "ibnetdiscover"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let net = fabrics::generate(FABRIC, directory.path()).unwrap();
    let ibsim = Ibsim::start(&net).unwrap();
    let on_ibsim = ibsim.diagnose(&format!("H-{FIRST_GUID:016x}"), "ibnetdiscover", &[]);
    let served = Served::start(net.to_str().unwrap()).unwrap();
    let on_rsm_sim = topology(&output_of(&served, FIRST_HOST, "ibnetdiscover", &[]));
    assert_eq!(
        on_rsm_sim,
        topology(&on_ibsim.unwrap().success().unwrap().stdout)
    );
    assert!(
        on_rsm_sim
            .iter()
            .filter(|line| line.starts_with('['))
            .count()
            >= LINK_ENDS
    );
}

#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn program_at_an_unknown_node_fails_with_the_reason() {
    if !require_peers(&["smpquery"]) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let answer = served.diagnose("nobody", "smpquery", &["nodeinfo", "-D", "0"]);
    let answer = answer.unwrap();
    assert!(!answer.status.success());
    assert!(
        answer.stderr.contains("no node is called `nobody`"),
        "{}",
        answer.stderr
    );
}

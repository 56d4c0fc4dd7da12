//! Quality of service beside OpenSM: the same opensm.conf gives every port the same tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::bringup::{LIMIT, PEERS, SMALL};
use rsm_tests::clock::wait_for_every;
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::iblinkinfo::{self, LinkLine};
use rsm_tests::peer::{require_peer, require_peers};
use rsm_tests::process::Finished;
use rsm_tests::served::Served;
use rsm_tests::sm::{OnceReport, OpenSm, opensm_once, rsm_once};

/// 6 switches, 8 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=2";

/// The host of the managers, and that of the diagnostics.
const MANAGER: &str = "host-001 mlx5_0";
const ASKER: &str = "host-002 mlx5_0";

/// The programs beside ibsim.
const SERVED_PEERS: &[&str] = &["opensm", "iblinkinfo", "smpquery"];

/// How long OpenSM must not sweep again to count as done.
const SETTLED: Duration = Duration::from_millis(1500);

/// The keys of opensm.conf of each case.
const CASES: &[(&str, &str)] = &[
    ("defaults", "qos TRUE\n"),
    (
        "sets of classes before the general set",
        "qos TRUE\n\
         qos_high_limit 5\n\
         qos_vlarb_high 0:64,1:32\n\
         qos_vlarb_low 2:16,3:8,14:1,0:255\n\
         qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,15,7\n\
         qos_ca_high_limit 3\n\
         qos_ca_vlarb_low 0:1,1:2,2:3,3:4,4:5,5:6,6:7,7:8,0:9,1:10\n\
         qos_swe_sl2vl 1,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\n\
         qos_swe_vlarb_high 3:128\n\
         qos_sw0_high_limit 255\n\
         qos_sw0_sl2vl 2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2\n",
    ),
    (
        "fewer VLs than the tables name, and levels that are dropped",
        "qos TRUE\n\
         max_op_vls 2\n\
         qos_max_vls 2\n\
         qos_high_limit 0\n\
         qos_vlarb_high 0:4,3:12\n\
         qos_vlarb_low 0:0,1:64,5:7\n\
         qos_sl2vl 0,1,15,15,4,15,7,15,15,15,10,15,15,15,15,15\n",
    ),
    (
        "one request for all inputs",
        "qos TRUE\n\
         use_optimized_slvl TRUE\n\
         qos_high_limit 7\n\
         qos_sl2vl 7,6,5,4,3,2,1,0,7,6,5,4,3,2,1,15\n\
         qos_sw0_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n",
    ),
];

/// The tables of every port, by its GUID and number.
type Tables = BTreeMap<(u64, u8), Vec<String>>;

/// Reads the tables of all ports with a link by `ask`, which runs a program to its end.
fn tables(ask: &dyn Fn(&str, &[&str]) -> Finished) -> Tables {
    let run = |program: &str, arguments: &[&str]| ask(program, arguments).success().unwrap().stdout;
    let lines = iblinkinfo::parse(&run("iblinkinfo", &["--line"])).unwrap();
    let lines: Vec<LinkLine> = lines.into_iter().filter(LinkLine::is_up).collect();
    let inactive: Vec<&LinkLine> = lines.iter().filter(|line| !line.is_active()).collect();
    assert!(inactive.is_empty(), "{inactive:?}");
    let up: BTreeSet<(u16, u8)> = lines.iter().map(|line| (line.lid, line.port)).collect();
    let all = lines.iter().map(|line| (line.guid, line.lid, line.port));
    // iblinkinfo does not list ports 0: a switch is a LID with several ports.
    let switches = lines.iter().filter(|line| line.port > 1);
    let ports0 = switches.map(|line| (line.guid, line.lid, 0));
    let ports: BTreeSet<(u64, u16, u8)> = all.chain(ports0).collect();
    let of = |&(guid, lid, port): &(u64, u16, u8)| {
        let arguments = [lid.to_string(), port.to_string()];
        let asked = |attribute: &str| {
            let arguments = [attribute, arguments[0].as_str(), arguments[1].as_str()];
            let finished = ask("smpquery", &arguments);
            if finished.status.success() {
                finished.stdout
            } else {
                // A base port 0 has no tables.
                "refused\n".to_owned()
            }
        };
        let content = |line: &&str| !line.starts_with('#');
        let (sl2vl, weights, info) = (asked("sl2vl"), asked("vlarb"), asked("portinfo"));
        // No packet goes back through the port that it came in by, and none comes in at a port
        // without a link. To port 0, OpenSM gives the table of that port (`sw0`) only to the
        // switch's own packets, and to others that of external ports; rsm gives it to all.
        let taken = |line: &&str| match input(line) {
            Some(input) => input == 0 || (port != 0 && input != port && up.contains(&(lid, input))),
            None => true,
        };
        let kept = ["OperVLs", "VLHighLimit"];
        let is_kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
        let rows = sl2vl.lines().filter(content).filter(taken);
        let rows = rows.chain(weights.lines().filter(content));
        let rows = rows.chain(info.lines().filter(is_kept));
        ((guid, port), rows.map(str::to_owned).collect())
    };
    ports.iter().map(of).collect()
}

/// The input of a line of `smpquery sl2vl`.
fn input(line: &str) -> Option<u8> {
    let (input, _) = line.strip_prefix("ports: in")?.split_once(',')?;
    input.trim().parse().ok()
}

fn assert_same(case: &str, ours: &Tables, theirs: &Tables) {
    assert!(!ours.is_empty(), "{case}");
    assert!(ours.keys().eq(theirs.keys()), "{case}");
    for (port, theirs) in theirs {
        let (guid, number) = port;
        let ours = &ours[port];
        assert_eq!(
            ours, theirs,
            "{case}: {guid:#018x} port {number}, rsm's on the left, OpenSM's on the right"
        );
    }
}

fn served_by_opensm(file: &Path) -> Tables {
    let served = Served::start(FABRIC).unwrap();
    let ask =
        |program: &str, arguments: &[&str]| served.diagnose(ASKER, program, arguments).unwrap();
    let opensm = served.client(MANAGER, "opensm").unwrap();
    let opensm = OpenSm::run(opensm, &["-F", file.to_str().unwrap()], LIMIT).unwrap();
    // It takes links down to change their MTU, and sweeps again when they are back.
    let mut known = 0;
    let settled = wait_for_every(SETTLED, LIMIT, || {
        let sweeps = opensm.sweeps();
        let settled = sweeps == known;
        known = sweeps;
        settled.then_some(())
    });
    assert!(settled.is_some(), "{}", opensm.log());
    let tables = tables(&ask);
    opensm.stop().unwrap();
    tables
}

fn served_by_rsm(file: &Path) -> Tables {
    let served = Served::start(FABRIC).unwrap();
    let ask =
        |program: &str, arguments: &[&str]| served.diagnose(ASKER, program, arguments).unwrap();
    let state = served.directory().join("state");
    let rsm = served.client(MANAGER, binaries::rsm()).unwrap();
    let rsm = rsm.args(["--fabric", "umad", "--once", "--format", "json"]);
    let rsm = rsm.arg("--state-dir").arg(state).arg("--config").arg(file);
    let finished = rsm.run(LIMIT).unwrap().success().unwrap();
    assert!(
        OnceReport::of(&finished)
            .unwrap()
            .findings()
            .unwrap()
            .is_empty()
    );
    tables(&ask)
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn a_file_of_opensm_gives_every_simulated_port_the_tables_that_opensm_gives_it() {
    if !require_peers(SERVED_PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opensm.conf");
    for (case, text) in CASES {
        std::fs::write(&file, text).unwrap();
        assert_same(case, &served_by_rsm(&file), &served_by_opensm(&file));
    }
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn a_file_of_opensm_gives_every_port_of_ibsim_the_tables_that_opensm_gives_it() {
    if !require_peers(PEERS) || !require_peer("smpquery") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opensm.conf");
    for (case, text) in CASES {
        std::fs::write(&file, text).unwrap();
        let managed = |by_rsm: bool| {
            let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
            let host = ibsim.hosts()[0].to_owned();
            if by_rsm {
                let state = ibsim.directory().join("state");
                let rsm = rsm_once(&ibsim, None, &host, &state).unwrap();
                let rsm = rsm.arg("--config").arg(&file);
                let finished = rsm.run(LIMIT).unwrap().success().unwrap();
                let report = OnceReport::of(&finished).unwrap();
                assert_eq!(report.findings_but_habits().unwrap().len(), 0, "{case}");
            } else {
                // It fits the tables to the number of VLs that it has read: the second run reads
                // the number that the first has set.
                for _ in 0..2 {
                    let opensm = opensm_once(&ibsim, None, &host).unwrap();
                    let opensm = opensm.arg("-F").arg(&file);
                    opensm.run(LIMIT).unwrap().success().unwrap();
                }
            }
            tables(&|program, arguments| ibsim.diagnose(&host, program, arguments).unwrap())
        };
        assert_same(case, &managed(true), &managed(false));
    }
}

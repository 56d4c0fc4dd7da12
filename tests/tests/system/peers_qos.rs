//! Quality of service beside OpenSM: the same opensm.conf gives every port the same tables.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rsm_ids::PortNum;
use rsm_routing::generate::generate;
use rsm_routing::netlist::NodeKind;
use rsm_sim::Sim;
use rsm_tests::binaries;
use rsm_tests::bringup::{LIMIT, PEERS, SMALL};
use rsm_tests::clock::wait_for_every;
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::hosted::Hosted;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::iblinkinfo::{self, LinkLine};
use rsm_tests::peer::{require_peer, require_peers};
use rsm_tests::process::Finished;
use rsm_tests::served::Served;
use rsm_tests::sm::{OnceReport, OpenSm, Rsm, opensm_once, rsm_once};

/// A fabric of 6 switches and 8 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=2";

/// The host of the managers.
const MANAGER_HOST: &str = "host-001 mlx5_0";
/// The host of the diagnostics.
const DIAGNOSTICS_HOST: &str = "host-002 mlx5_0";

/// The NodeDescription of a switch.
const LEAF: &str = "MF0;leaf-01:MQM8700/U1";

/// The programs that a test on rsm's simulator needs.
const SERVED_PEERS: &[&str] = &["opensm", "iblinkinfo", "smpquery"];

/// The time without a sweep after which OpenSM counts as settled.
const QUIET_TIME: Duration = Duration::from_millis(1500);

/// The case in which OpenSM sends one table for all ports.
const ONE_REQUEST: &str = "one request for all inputs";

/// The row of port 0 that the file of [`ONE_REQUEST`] asks for.
const PORT_0_OF_ONE_REQUEST: &str =
    "ports: in  0, out  0: | 0| 0| 0| 0| 0| 0| 0| 0| 0| 0| 0| 0| 0| 0| 0| 0|";

/// The cases: a name, and the keys in opensm.conf.
const CASES: &[(&str, &str)] = &[
    ("defaults", "qos TRUE\n"),
    (
        "sets of classes before the general set",
        "qos TRUE\n\
         qos_high_limit 5\n\
         qos_vlarb_high 0:64,1:32\n\
         qos_vlarb_low 2:16,3:8,14:1,0:255,1:7\n\
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
        "a number of VLs that limits nothing",
        "qos TRUE\n\
         qos_max_vls 2\n\
         qos_ca_max_vls 1\n\
         qos_vlarb_low 0:1,1:2,2:3,3:4\n",
    ),
    (
        ONE_REQUEST,
        "qos TRUE\n\
         use_optimized_slvl TRUE\n\
         qos_high_limit 7\n\
         qos_sl2vl 7,6,5,4,3,2,1,0,7,6,5,4,3,2,1,15\n\
         qos_sw0_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n",
    ),
];

/// The lines about tables in the output of smpquery, by port GUID and port number.
type Tables = BTreeMap<(u64, u8), Vec<String>>;

/// Reads the tables of all ports with a link; `ask` runs a program to its end.
fn tables(ask: &dyn Fn(&str, &[&str]) -> Finished) -> Tables {
    let run = |program: &str, arguments: &[&str]| ask(program, arguments).success().unwrap().stdout;
    let lines = iblinkinfo::parse(&run("iblinkinfo", &["--line"])).unwrap();
    let lines: Vec<LinkLine> = lines.into_iter().filter(LinkLine::is_up).collect();
    let inactive: Vec<&LinkLine> = lines.iter().filter(|line| !line.is_active()).collect();
    assert!(inactive.is_empty(), "{inactive:?}");
    let up: BTreeSet<(u16, u8)> = lines.iter().map(|line| (line.lid, line.port)).collect();
    let all = lines.iter().map(|line| (line.guid, line.lid, line.port));
    // iblinkinfo does not list port 0: a node whose LID has several ports is a switch.
    let switches = lines.iter().filter(|line| line.port > 1);
    let ports0 = switches.map(|line| (line.guid, line.lid, 0));
    let ports: BTreeSet<(u64, u16, u8)> = all.chain(ports0).collect();
    let rows_of = |&(guid, lid, port): &(u64, u16, u8)| {
        let arguments = [lid.to_string(), port.to_string()];
        let output_of = |attribute: &str| {
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
        let (sl2vl, weights, info) = (
            output_of("sl2vl"),
            output_of("vlarb"),
            output_of("portinfo"),
        );
        // No packet leaves by the port on which it arrived, and none arrives at a port without a
        // link. For port 0, OpenSM applies the table of that port (`sw0`) only to the switch's own
        // packets, and the table of external ports to all other packets; rsm applies it to all
        // packets.
        let is_compared = |line: &&str| match input(line) {
            Some(input) => input == 0 || (port != 0 && input != port && up.contains(&(lid, input))),
            None => true,
        };
        let kept = ["OperVLs", "VLHighLimit"];
        let is_kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
        let rows = sl2vl.lines().filter(content).filter(is_compared);
        let rows = rows.chain(weights.lines().filter(content));
        let rows = rows.chain(info.lines().filter(is_kept));
        ((guid, port), rows.map(str::to_owned).collect())
    };
    ports.iter().map(rows_of).collect()
}

/// The input port in a line of `smpquery sl2vl`.
fn input(line: &str) -> Option<u8> {
    let (input, _) = line.strip_prefix("ports: in")?.split_once(',')?;
    input.trim().parse().ok()
}

/// Asserts that rsm's tables equal OpenSM's.
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

/// Waits until OpenSM no longer sweeps: it takes links down to change their MTU, and sweeps again
/// when they are back.
fn settle(opensm: &OpenSm) {
    let mut known = 0;
    let settled = wait_for_every(QUIET_TIME, LIMIT, || {
        let sweeps = opensm.sweeps();
        let settled = sweeps == known;
        known = sweeps;
        settled.then_some(())
    });
    assert!(settled.is_some(), "{}", opensm.log());
}

/// The tables of the simulated fabric under OpenSM with the configuration `file`.
fn tables_of_opensm(file: &Path) -> Tables {
    let served = Served::start(FABRIC).unwrap();
    let ask = |program: &str, arguments: &[&str]| {
        served
            .diagnose(DIAGNOSTICS_HOST, program, arguments)
            .unwrap()
    };
    let opensm = served.client(MANAGER_HOST, "opensm").unwrap();
    let opensm = OpenSm::run(opensm, &["-F", file.to_str().unwrap()], LIMIT).unwrap();
    settle(&opensm);
    let tables = tables(&ask);
    opensm.stop().unwrap();
    tables
}

/// The tables of the simulated fabric under rsm with the configuration `file`.
fn tables_of_rsm(file: &Path) -> Tables {
    let served = Served::start(FABRIC).unwrap();
    let ask = |program: &str, arguments: &[&str]| {
        served
            .diagnose(DIAGNOSTICS_HOST, program, arguments)
            .unwrap()
    };
    let state = served.directory().join("state");
    let rsm = served.client(MANAGER_HOST, binaries::rsm()).unwrap();
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
fn opensm_conf_gives_simulated_ports_the_same_qos_tables_under_rsm_and_opensm() {
    if !require_peers(SERVED_PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opensm.conf");
    for (case, text) in CASES {
        std::fs::write(&file, text).unwrap();
        let mut theirs = tables_of_opensm(&file);
        if *case == ONE_REQUEST {
            // A sweep that finds a link back up sends the table for all ports again, and not the
            // table of port 0, which is thereby overwritten. How often OpenSM sweeps depends on how
            // long its links take.
            let ports0 = theirs.iter_mut().filter(|((_, port), _)| *port == 0);
            for rows in ports0.map(|(_, rows)| rows) {
                let overwritten = rows.iter_mut().find(|row| input(row) == Some(0));
                *overwritten.unwrap() = PORT_0_OF_ONE_REQUEST.to_owned();
            }
        }
        assert_same(case, &tables_of_rsm(&file), &theirs);
    }
}

/// Checks all cases at the same time, because OpenSM mostly waits. `check` gets the name of a case
/// and its opensm.conf.
fn for_each_case_at_once(check: impl Fn(&str, &Path) + Sync) {
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for (number, &(case, text)) in CASES.iter().enumerate() {
            let file = directory.path().join(format!("opensm-{number}.conf"));
            let check = &check;
            scope.spawn(move || {
                std::fs::write(&file, text).unwrap();
                check(case, &file);
            });
        }
    });
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn opensm_conf_gives_ports_of_ibsim_the_same_qos_tables_under_rsm_and_opensm() {
    if !require_peers(PEERS) || !require_peer("smpquery") {
        return;
    }
    for_each_case_at_once(|case, file| {
        let managed = |by_rsm: bool| {
            let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
            let host = ibsim.hosts()[0].to_owned();
            if by_rsm {
                let state = ibsim.directory().join("state");
                let rsm = rsm_once(&ibsim, None, &host, &state).unwrap();
                let rsm = rsm.arg("--config").arg(file);
                let finished = rsm.run(LIMIT).unwrap().success().unwrap();
                let report = OnceReport::of(&finished).unwrap();
                assert_eq!(report.findings_but_habits().unwrap().len(), 0, "{case}");
            } else {
                // OpenSM fits the tables to the number of VLs that it has read: the second run
                // reads the number that the first run has set.
                for _ in 0..2 {
                    let opensm = opensm_once(&ibsim, None, &host).unwrap();
                    let opensm = opensm.arg("-F").arg(file);
                    opensm.run(LIMIT).unwrap().success().unwrap();
                }
            }
            tables(&|program, arguments| ibsim.diagnose(&host, program, arguments).unwrap())
        };
        assert_same(case, &managed(true), &managed(false));
    });
}

/// Partitions with more than one member, one of the partitions with a service level of its own.
const PARTITIONS: &str = "Default=0x7fff, ipoib : ALL=full ;\nTenant=0x10, sl=6 : ALL=full ;\n";

/// A policy with every criterion that a query by saquery can have.
const POLICY: &str = "\
port-groups
    port-group
        name: storage
        port-name: \"host-003 mlx5_0/P1\"
    end-port-group
    port-group
        name: tenants
        partition: Tenant
    end-port-group
    port-group
        name: switches
        node-type: SWITCH
    end-port-group
end-port-groups
qos-levels
    qos-level
        name: DEFAULT
        sl: 0
    end-qos-level
    qos-level
        name: slow
        sl: 2
        mtu-limit: 3
        rate-limit: 7
        packet-life: 10
    end-qos-level
    qos-level
        name: fast
        sl: 4
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        use: storage traffic
        service-id: 0x100-0x1ff
        destination: storage
        qos-level-name: slow
    end-qos-match-rule
    qos-match-rule
        qos-class: 7-9,11
        source: tenants
        qos-level-name: fast
    end-qos-match-rule
    qos-match-rule
        destination: switches
        qos-level-name: slow
    end-qos-match-rule
end-qos-match-rules
qos-ulps
    default : 5
    sdp, port-num 30000 : 1
    sdp : 3
    rds : 5
    iser : 6
    any, service-id 0x6234 : 7
    any, pkey 0x10 : 1
    ipoib : 2
    any, service-id 0x15000-0x16000 : 15
end-qos-ulps
";

/// The queries: components of saquery, each with its value.
const QUERIES: &[&[&str]] = &[
    &[],
    &["--service_id", "0x100"],
    &["--service_id", "0x200"],
    &["--service_id", "0x17530"],
    &["--service_id", "0x10001"],
    &["--service_id", "0x10648ca"],
    &["--service_id", "0x1060cbc"],
    &["--service_id", "0x6234"],
    &["--qos_class", "7"],
    &["--qos_class", "10"],
    &["--qos_class", "11"],
    &["--pkey", "0x8010"],
    &["--pkey", "0xffff"],
    &["--pkey", "0x8010", "--sl", "1"],
    &["--pkey", "0x8010", "--sl", "2"],
    &["--service_id", "0x6234", "--sl", "7"],
    &["--service_id", "0x6234", "--sl", "6"],
    &["--service_id", "0x6234", "--pkey", "0x8010"],
];

/// The fields of a PathRecord that a policy determines. The P_Key is not among them: if
/// neither query nor level names a partition, OpenSM takes the lowest common P_Key, and rsm takes
/// the first common P_Key.
const FIELDS: &[&str] = &["sl", "mtu", "rate", "pkt_life"];

/// The [`FIELDS`] of the answers to [`QUERIES`], from a host to two hosts and a switch, as text.
fn answers(served: &Served, lids: &dyn Fn(&str) -> u16) -> Vec<String> {
    let ends = [
        (DIAGNOSTICS_HOST, "host-003 mlx5_0"),
        (DIAGNOSTICS_HOST, "host-008 mlx5_0"),
        (DIAGNOSTICS_HOST, LEAF),
    ];
    let mut answers = Vec::new();
    for (from, to) in ends {
        let (slid, dlid) = (lids(from).to_string(), lids(to).to_string());
        for query in QUERIES {
            let ends = ["PR", "--slid", &slid, "--dlid", &dlid];
            let arguments: Vec<&str> = ends.into_iter().chain(query.iter().copied()).collect();
            let output = served
                .diagnose(DIAGNOSTICS_HOST, "saquery", &arguments)
                .unwrap()
                .stdout;
            let fields = output.lines().filter_map(|line| {
                let (name, value) = line.trim().split_once('.')?;
                let value = value.trim_matches('.');
                // Port 0 of a switch has no link: OpenSM assumes the slowest rate for it.
                let counts = FIELDS.contains(&name) && !(name == "rate" && to == LEAF);
                counts.then(|| format!("{name} {value}"))
            });
            let fields: Vec<String> = fields.collect();
            answers.push(format!("to {to} {query:?}: {}", fields.join(", ")));
        }
    }
    answers
}

/// The LID of a node by its NodeDescription.
fn lid_of(served: &Served, description: &str) -> u16 {
    let finished = served
        .diagnose(DIAGNOSTICS_HOST, "saquery", &["-L", description])
        .unwrap();
    let output = finished.success().unwrap().stdout;
    let number = output.split_whitespace().find_map(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("{description}: {output}"))
}

/// `qos_sl2vl` maps SL 15 to VL 15, so that no path has SL 15.
#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn qos_policy_gives_path_records_the_same_levels_under_rsm_and_opensm() {
    if !require_peers(&["opensm", "iblinkinfo", "saquery", "smpquery"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let text = format!(
        "qos TRUE\nqos_policy_file {}\npartition_config_file {}\n\
         qos_sl2vl 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,15\n",
        file("qos-policy.conf").display(),
        file("partitions.conf").display(),
    );
    let conf = file("opensm.conf");
    std::fs::write(&conf, text).unwrap();
    std::fs::write(file("qos-policy.conf"), POLICY).unwrap();
    std::fs::write(file("partitions.conf"), PARTITIONS).unwrap();

    let served = Served::start(FABRIC).unwrap();
    let opensm = served.client(MANAGER_HOST, "opensm").unwrap();
    let opensm = OpenSm::run(opensm, &["-F", conf.to_str().unwrap()], LIMIT).unwrap();
    settle(&opensm);
    let theirs = answers(&served, &|name| lid_of(&served, name));
    opensm.stop().unwrap();
    drop(served);

    let served = Served::start(FABRIC).unwrap();
    let rsm = served.client(MANAGER_HOST, binaries::rsm()).unwrap();
    let state = served.directory().join("state");
    let arguments = ["--config", conf.to_str().unwrap()];
    let rsm = Rsm::run(rsm, &state, &arguments, LIMIT).unwrap();
    let ours = answers(&served, &|name| lid_of(&served, name));
    let differing: Vec<_> = ours.iter().zip(&theirs).filter(|(a, b)| a != b).collect();
    assert!(differing.is_empty(), "rsm's first: {differing:#?}");
    assert!(
        ours.iter().any(|answer| answer.contains("sl 0x4")),
        "{ours:#?}"
    );

    // rsmctl shows the tables, the levels and the rule behind a service level.
    let qos = rsm.ask(&["qos"]).unwrap();
    assert_eq!(qos["rules"].as_array().map(Vec::len), Some(11), "{qos}");
    assert_eq!(qos["port_groups"][1]["ports"], 14, "{qos}");
    let path = [
        "path",
        DIAGNOSTICS_HOST,
        "host-003 mlx5_0",
        "--service-id",
        "0x100",
    ];
    let path = rsm.ask(&path).unwrap();
    let reason = path["paths"][0]["service_level_reason"].as_str().unwrap();
    assert!(
        reason.contains("qos-policy.conf:33 (storage traffic), level slow"),
        "{reason}"
    );

    // A policy with an error changes nothing and becomes a finding; a valid policy takes effect.
    let findings = |rsm: &Rsm| rsm.ask(&["findings", "--kind", "config-refused"]).unwrap();
    let mut rsm = rsm;
    std::fs::write(file("qos-policy.conf"), POLICY.replace("sl: 4", "sl: 44")).unwrap();
    rsm.process().hang_up();
    let named = wait_for_every(Duration::from_millis(100), LIMIT, || {
        let text = findings(&rsm).to_string();
        text.contains("qos-policy.conf:29:13: error: `44`")
            .then_some(())
    });
    assert!(named.is_some(), "{}", findings(&rsm));
    assert_eq!(answers(&served, &|name| lid_of(&served, name)), ours);
    std::fs::write(file("qos-policy.conf"), POLICY.replace("sl: 4", "sl: 3")).unwrap();
    rsm.process().hang_up();
    let changed = wait_for_every(Duration::from_millis(100), LIMIT, || {
        let path = [
            "path",
            DIAGNOSTICS_HOST,
            "host-008 mlx5_0",
            "--qos-class",
            "7",
        ];
        let path = rsm.ask(&path).unwrap();
        (path["paths"][0]["service_level"] == 3).then_some(())
    });
    assert!(changed.is_some());
    assert_eq!(findings(&rsm).as_array().map(Vec::len), Some(0));
    rsm.stop().unwrap().success().unwrap();
}

/// A record in saquery's output: the numbers before its table by their names, and the table's
/// numbers by the name of their line.
#[derive(Default)]
struct TableRecord {
    numbers: BTreeMap<String, u16>,
    rows: BTreeMap<String, Vec<u8>>,
}

/// The records in saquery's output.
fn table_records(output: &str) -> Vec<TableRecord> {
    let mut records = Vec::new();
    for line in output.lines().map(str::trim) {
        if line.ends_with("dump:") {
            records.push(TableRecord::default());
            continue;
        }
        let record = records.last_mut();
        let record: &mut TableRecord = record.expect("a record begins with its name");
        if let Some((name, numbers)) = line.split_once(':') {
            let numbers = numbers.split('|').map(str::trim);
            let numbers = numbers.filter(|number| !number.is_empty());
            let numbers = numbers.map(|number| number.parse::<u8>().expect("it is a number"));
            let row = record.rows.entry(name.trim().to_owned()).or_default();
            row.extend(numbers);
        } else if let Some((name, number)) = line.split_once('.') {
            let number = number.trim_matches('.').parse();
            let number = number.unwrap_or_else(|_| panic!("{line}"));
            record.numbers.insert(name.to_owned(), number);
        }
    }
    records
}

#[test]
#[cfg_attr(not(peers), ignore = "needs infiniband-diags")]
fn sl2vl_and_vl_arbitration_records_equal_the_tables_of_devices() {
    if !require_peer("saquery") {
        return;
    }
    let hosted = Hosted::start(&generate(FABRIC).unwrap()).unwrap();
    let conf = hosted.directory().join("opensm.conf");
    std::fs::write(&conf, CASES[1].1).unwrap();
    let state = hosted.directory().join("state");
    let arguments = ["--config", conf.to_str().unwrap()];
    let rsm = hosted.client(binaries::rsm()).unwrap();
    let _rsm = Rsm::run(rsm, &state, &arguments, LIMIT).unwrap();
    let recorded = |record: &str| {
        let saquery = hosted.client("saquery").unwrap().args([record]);
        let finished = saquery.run(LIMIT).unwrap().success().unwrap();
        table_records(&finished.stdout)
    };
    let (lanes, weights) = (recorded("SL2VL"), recorded("VLAR"));
    let same = hosted
        .sim
        .with(move |sim| compare_with_devices(sim, &lanes, &weights));
    let (same_lanes, same_weights) = same.unwrap();
    // There are 6 switches with 4 links each, from 3 other ports and port 0, and 8 hosts.
    assert!(same_lanes >= 6 * 4 * 4 + 8, "{same_lanes}");
    assert!(same_weights >= 2 * (6 * 4 + 8), "{same_weights}");
}

/// Compares the SL-to-VL and VL arbitration records with the tables of the simulated devices.
/// Returns how many of each kind contain nonzero values.
fn compare_with_devices(
    sim: &mut Sim,
    lanes: &[TableRecord],
    weights: &[TableRecord],
) -> (usize, usize) {
    let (mut same_lanes, mut same_weights) = (0, 0);
    let nodes: Vec<_> = sim.nodes().collect();
    for (node, kind) in nodes {
        let is_switch = kind == NodeKind::Switch;
        let own = PortNum(u8::from(!is_switch));
        let lid = sim.port_info(node, own).unwrap().lid().0;
        let ports = if is_switch {
            1..=sim.num_ports(node).unwrap()
        } else {
            1..=1
        };
        let linked = |sim: &mut Sim, port| sim.peer(node, PortNum(port)).unwrap().is_some();
        let up: Vec<u8> = ports.filter(|&port| linked(sim, port)).collect();
        for &port in &up {
            let shown = if is_switch { u16::from(port) } else { 0 };
            let find = |records: &[TableRecord], keys: &[(&str, u16)]| {
                let is_it = |record: &&TableRecord| {
                    let end = [("LID", lid)];
                    let mut keys = keys.iter().chain(&end);
                    keys.all(|&(name, number)| record.numbers.get(name) == Some(&number))
                };
                let found = records.iter().find(is_it);
                found
                    .unwrap_or_else(|| panic!("LID {lid} {keys:?}"))
                    .rows
                    .clone()
            };
            for block in 1..=4u8 {
                let keys = [("Port", shown), ("Block", u16::from(block))];
                let rows = find(weights, &keys);
                let recorded = rows["VL"]
                    .iter()
                    .copied()
                    .zip(rows["Weight"].iter().copied());
                let recorded: Vec<(u8, u8)> = recorded.filter(|&(_, weight)| weight > 0).collect();
                let mut held = sim.vl_weights(node, PortNum(port), block).unwrap();
                held.retain(|&(_, weight)| weight > 0);
                assert_eq!(recorded, held, "LID {lid} port {port} block {block}");
                same_weights += usize::from(!held.is_empty());
            }
            let others = up
                .iter()
                .copied()
                .filter(|&input| is_switch && input != port);
            for input in others.chain([0]) {
                let keys = [("InPort", u16::from(input)), ("OutPort", shown)];
                let rows = find(lanes, &keys);
                let input = PortNum(input);
                let held = sim.virtual_lanes(node, input, PortNum(port)).unwrap();
                assert_eq!(rows["VL"], held, "LID {lid} from {input} to port {port}");
                same_lanes += usize::from(held.iter().any(|&vl| vl > 0));
            }
        }
    }
    (same_lanes, same_weights)
}

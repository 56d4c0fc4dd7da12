//! The commands of infiniband-diags on one simulated fabric, first under OpenSM and then under rsm:
//! exit codes are equal, and so is the output, except for the differences in [`DIFFERENCES`].
//!
//! rsm keeps the LIDs that OpenSM has assigned, so that they are the same under both managers.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::clock::wait_for;
use rsm_tests::parse::saquery;
use rsm_tests::peer::require_peers;
use rsm_tests::process::Finished;
use rsm_tests::served::Served;
use rsm_tests::sm::{OpenSm, Rsm};

const FABRIC: &str = "fat-tree:k=4,levels=2";

/// The host of the managers.
const MANAGER_HOST: &str = "host-001 mlx5_0";
/// The host where commands run.
const COMMAND_HOST: &str = "host-002 mlx5_0";

/// The nodes that commands name: the word for each in [`COMMANDS`], and its NodeDescription.
const NODES: [(&str, &str); 4] = [
    ("sm", MANAGER_HOST),
    ("host", "host-003 mlx5_0"),
    ("other", "host-007 mlx5_0"),
    ("leaf", "MF0;leaf-01:MQM8700/U1"),
];

/// The commands, one a line. `{host}` stands for the LID of the node `host` in [`NODES`], and
/// `{host_guid}` for the GUID of its port.
const COMMANDS: &str = "\
ibstat
ibstat -l
ibstat -s
ibstat -p
ibstat mlx5_0
ibstat mlx5_0 1
ibstat nosuch
ibaddr
ibaddr -g
ibaddr -l
ibaddr -L
ibaddr {leaf}
ibaddr {host}
ibaddr -G {host_guid}
ibaddr -D 0,1
ibnetdiscover
ibnetdiscover -l
ibnetdiscover -g
ibnetdiscover -H
ibnetdiscover -S
ibnetdiscover -R
ibnetdiscover -p
ibnetdiscover -f
ibnetdiscover --ports --full
ibhosts
ibswitches
ibrouters
ibnodes
iblinkinfo
iblinkinfo -l
iblinkinfo -d
iblinkinfo -p
iblinkinfo -S {leaf_guid}
iblinkinfo -D 0,1
iblinkinfo -D 0,1 -n 1
iblinkinfo -G {leaf_guid}
iblinkinfo --switches-only
iblinkinfo --cas-only
iblinkinfo -l --switches-only
ibportstate {leaf} 1
ibportstate {leaf} 1 query
ibportstate {leaf} 0 query
ibportstate {host} 1
ibportstate {host} 1 query
ibportstate -D 0,1 1 query
ibportstate -G {leaf_guid} 1 query
ibportstate {leaf} 99 query
ibportstate {leaf} 1 nosuch
ibqueryerrors
ibqueryerrors -r
ibqueryerrors --switch
ibqueryerrors --ca
ibqueryerrors --details
ibqueryerrors -S {leaf_guid}
ibqueryerrors -D 0,1
ibqueryerrors -s SymbolErrorCounter
ibqueryerrors -c
ibqueryerrors --suppress-common
ibroute {leaf}
ibroute -a {leaf}
ibroute -n {leaf}
ibroute -G {leaf_guid}
ibroute -D 0,1
ibroute {leaf} 1 20
ibroute -M {leaf}
ibroute -M -a {leaf}
ibroute -M -n {leaf}
ibroute {host}
ibtracert {host} {other}
ibtracert -n {host} {other}
ibtracert {leaf} {other}
ibtracert {host} {leaf}
ibtracert -G {host_guid} {other_guid}
ibtracert {host} {host}
ibtracert -f {host} {other}
ibtracert -m 0xc000 {host} {other}
ibccquery ClassPortInfo {leaf}
ibccquery CongestionInfo {leaf}
ibccquery CongestionInfo {host}
ibccquery CongestionControlTable {host}
perfquery {host} 1
perfquery {leaf} 1
perfquery -x {host} 1
perfquery -X {host} 1
perfquery -S {host} 1
perfquery -D {host} 1
perfquery -E {host} 1
perfquery -a {leaf}
perfquery -l {leaf}
perfquery -x -a {leaf}
perfquery -G {host_guid} 1
perfquery -c {host} 1
perfquery {host} 9
perfquery --xmtdisc {leaf} 1
saquery
saquery NR
saquery NR {host}
saquery -N
saquery -D
saquery -O {host}
saquery -U {host_guid}
saquery PIR
saquery PIR {leaf}/1
saquery SL2VL
saquery SL2VL {host}/1
saquery PKTR
saquery PKTR {host}/1
saquery VLAR
saquery VLAR {host}/1
saquery IIR
saquery LFTR {leaf}
saquery LFTR {leaf}/0
saquery MFTR {leaf}
saquery LR
saquery LR {leaf}/1
saquery PR --slid {host}
saquery PR --dlid {leaf}
saquery PR --slid {host} --dlid {other}
saquery MCMR
saquery -g
saquery -m
saquery MCMR --mgid ff12:401b:ffff::ffff:ffff
saquery -s
saquery SMIR
saquery SR
saquery -S
saquery -c
saquery CPI
saquery -I
saquery GIR
saquery GIR {host}
saquery LFTR 9999
saquery NOSUCH
sminfo
sminfo -G {sm_guid}
sminfo {sm}
sminfo {host}
sminfo -D 0
smpdump -D 0,1 0x11
smpquery nodeinfo {host}
smpquery nodedesc {host}
smpquery portinfo {host} 1
smpquery portinfo {leaf} 0
smpquery portinfo {leaf} 1
smpquery switchinfo {leaf}
smpquery switchinfo {host}
smpquery pkeys {host} 1
smpquery pkeys {leaf} 1
smpquery sl2vl {host} 1
smpquery sl2vl {leaf} 1 2
smpquery vlarb {host} 1
smpquery vlarb {leaf} 1
smpquery guids {host}
smpquery mkeyinfo {host} 1
smpquery mepi {host} 1
smpquery -D nodeinfo 0,1
smpquery -D portinfo 0,1 1
smpquery -c nodeinfo {leaf} 0,1
smpquery -G nodeinfo {host_guid}
smpquery -x portinfo {host} 1
smpquery nodeinfo 9999
smpquery nosuch {host}
vendstat -N {leaf}
vendstat {leaf}
dump_fts
dump_fts -a
dump_fts -M
dump_lfts
dump_mfts
";

/// A known difference of the output of some commands.
struct Difference {
    /// The beginnings of the commands.
    commands: &'static [&'static str],
    /// The part of a line that is compared; `None` if the line is not compared.
    compared: fn(&str) -> Option<String>,
    /// Why the output differs.
    cause: &'static str,
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        commands: &["sminfo", "saquery SMIR"],
        compared: |line| match line.split_once("activity count ") {
            Some((before, after)) => {
                let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
                Some(format!("{before}{after}"))
            }
            None => without(line, &["ActCount"]),
        },
        cause: "the activity count is of the manager that runs, and rises",
    },
    Difference {
        commands: &["perfquery"],
        compared: |line| {
            let traffic = ["PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts"];
            let unicast = ["PortUnicastXmitPkts", "PortUnicastRcvPkts"];
            without(line, &[&traffic[..], &unicast].concat())
        },
        cause: "counters of packets rise with the datagrams of the commands before",
    },
    Difference {
        commands: &["saquery PIR"],
        compared: |line| without(line, &["PartEnforce", "LocalPort:"]),
        cause: "with the default partition alone, rsm lets no switch port enforce partitions; and \
                LocalPort is the port of the switch that an SMP arrived at: OpenSM passes on which \
                its own arrived at, rsm fills the port of the record in",
    },
    Difference {
        commands: &["saquery PR --slid {host}", "saquery PR --dlid"],
        compared: |line| without(line, &["rate"]),
        cause: "OpenSM takes the rate of a path to a switch from its port 0, whose width is zero: \
                2.5 Gb/s; rsm from the links",
    },
    Difference {
        commands: &["smpquery portinfo", "smpquery -D portinfo"],
        compared: |line| without(line, &["PartEnforce"]),
        cause: "with the default partition alone, rsm lets no switch port enforce partitions",
    },
    Difference {
        commands: &["saquery CPI", "saquery -c"],
        compared: |line| {
            let capabilities = ["Capability mask", "Response time value"];
            let access = ["Redirect QP", "Redirect QKey", "Trap QKey"];
            without(line, &[&capabilities[..], &access].concat())
        },
        cause: "each SA names its own options and response time; rsm's redirects no request and \
                sends no trap, so that the keys for these are zero",
    },
    Difference {
        commands: &["saquery VLAR"],
        compared: |line| without(line, &["Port."]),
        cause: "the output port of a VLArbitrationTableRecord means nothing at adapters: OpenSM \
                fills the adapter's own port in, rsm 0",
    },
    Difference {
        commands: &["ibroute", "dump_lfts", "dump_fts"],
        compared: |line| {
            let of_spine = line.contains("spine-") || line.contains("(illegal port)");
            if of_spine || line.ends_with("lids dumped ") {
                return None;
            }
            let is_entry = line.starts_with("0x") && line.get(6..7) == Some(" ");
            let entry = is_entry.then(|| format!("{}{}", &line[..6], &line[10..]));
            entry.or_else(|| Some(line.to_owned()))
        },
        cause: "engines choose different spines for a leaf's own LID, and rsm gives two spines no \
                path to each other, which would go down and up again",
    },
    Difference {
        commands: &["saquery LFTR"],
        compared: |line| {
            let is_entry = line.starts_with("\t\t") && !line.contains('.');
            let lid = line.trim().split('\t').next().filter(|_| is_entry);
            Some(lid.unwrap_or(line).to_owned())
        },
        cause: "engines choose different spines for a leaf's own LID",
    },
];

/// A line of libibmad about a request without an answer. The library waits exactly as long as the
/// device that it reads from, and prints this line if its own time ends first.
const TIMED_OUT: &str = "_do_madrpc: recv failed: Connection timed out";

/// The line, unless it begins with one of these words.
fn without(line: &str, words: &[&str]) -> Option<String> {
    let trimmed = line.trim_start();
    let is_named = words.iter().any(|word| trimmed.starts_with(word));
    (!is_named).then(|| line.to_owned())
}

/// The lines of the output, without process IDs, times and [`TIMED_OUT`]. The records of the SA are
/// sorted.
fn normalised(command: &str, finished: &Finished) -> Vec<String> {
    let lines = finished.stdout.lines().chain(finished.stderr.lines());
    let lines = lines.filter(|line| !line.starts_with("# Topology file: generated on"));
    let lines = lines.filter(|line| !line.contains(TIMED_OUT));
    let lines = lines.map(|line| match line.split_once(": [") {
        Some((program, rest)) if program.chars().all(char::is_alphanumeric) => {
            format!(
                "{program}{}",
                rest.trim_start_matches(|c: char| c.is_ascii_digit())
            )
        }
        _ => line.to_owned(),
    });
    if !command.starts_with("saquery") {
        return lines.collect();
    }
    let mut records: Vec<Vec<String>> = Vec::new();
    for line in lines {
        // A record begins at the margin.
        if !line.starts_with([' ', '\t']) || records.is_empty() {
            records.push(Vec::new());
        }
        let last = records.last_mut().expect("there is one");
        last.push(line);
    }
    records.sort();
    records.concat()
}

/// Runs all commands. Returns the result by the command as it is in [`COMMANDS`].
fn run_all(served: &Served) -> BTreeMap<&'static str, Finished> {
    // A manager that has brought the subnet up answers hosts a moment later.
    let nodes = wait_for(LIMIT, || {
        let nodes = served.diagnose(COMMAND_HOST, "saquery", &["NR"]).unwrap();
        saquery::parse(&nodes.success().ok()?.stdout).ok()
    });
    let nodes = nodes.expect("the SA answers");
    let mut words = BTreeMap::new();
    for (word, description) in NODES {
        let mut nodes = nodes.iter();
        let node = nodes.find(|node| node.text("NodeDescription").unwrap() == description);
        let node = node.unwrap_or_else(|| panic!("no {description}"));
        words.insert(format!("{{{word}}}"), node.text("lid").unwrap());
        words.insert(format!("{{{word}_guid}}"), node.text("port_guid").unwrap());
    }
    let outputs = COMMANDS.lines().map(|command| {
        let mut line = command.to_owned();
        for (word, value) in &words {
            line = line.replace(word, value);
        }
        let parts: Vec<&str> = line.split(' ').collect();
        (
            command,
            served
                .diagnose(COMMAND_HOST, parts[0], &parts[1..])
                .unwrap(),
        )
    });
    outputs.collect()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn commands_of_infiniband_diags_print_the_same_under_opensm_and_rsm() {
    let programs: std::collections::BTreeSet<&str> = COMMANDS
        .lines()
        .filter_map(|command| command.split(' ').next())
        .chain(["opensm"])
        .collect();
    if !require_peers(&programs.into_iter().collect::<Vec<_>>()) {
        return;
    }
    let served = Served::start(FABRIC).unwrap();
    let opensm = served.client(MANAGER_HOST, "opensm").unwrap();
    let opensm = OpenSm::run(opensm, &[], LIMIT).unwrap();
    let under_opensm = run_all(&served);
    opensm.stop().unwrap();
    let state: &Path = &served.directory().join("state");
    let rsm = served.client(MANAGER_HOST, binaries::rsm()).unwrap();
    let rsm = Rsm::run(rsm, state, &[], LIMIT).unwrap();
    let under_rsm = run_all(&served);
    rsm.stop().unwrap().success().unwrap();

    assert!(under_rsm.len() >= 158, "{}", under_rsm.len());
    let mut seen = vec![false; DIFFERENCES.len()];
    let mut failures = Vec::new();
    for (command, under_rsm) in &under_rsm {
        let under_opensm = &under_opensm[command];
        if under_rsm.status.code() != under_opensm.status.code()
            || under_rsm.timed_out
            || under_opensm.timed_out
        {
            failures.push(format!(
                "{command}: {} and {}",
                under_opensm.status, under_rsm.status
            ));
            continue;
        }
        let (under_opensm, under_rsm) = (
            normalised(command, under_opensm),
            normalised(command, under_rsm),
        );
        if under_opensm == under_rsm {
            continue;
        }
        let known = DIFFERENCES.iter().position(|difference| {
            let mut commands = difference.commands.iter();
            commands.any(|start| command.starts_with(start))
        });
        let Some(known) = known else {
            failures.push(format!("{command}: {under_opensm:#?} and {under_rsm:#?}"));
            continue;
        };
        seen[known] = true;
        let compared = |lines: &[String]| -> Vec<String> {
            let lines = lines.iter();
            lines
                .filter_map(|line| (DIFFERENCES[known].compared)(line))
                .collect()
        };
        let (under_opensm, under_rsm) = (compared(&under_opensm), compared(&under_rsm));
        if under_opensm != under_rsm {
            let cause = DIFFERENCES[known].cause;
            failures.push(format!(
                "{command}, beside that {cause}: {under_opensm:#?} and {under_rsm:#?}"
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for (difference, seen) in DIFFERENCES.iter().zip(seen) {
        assert!(seen, "no longer different: {}", difference.cause);
    }
}

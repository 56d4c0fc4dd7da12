//! Compares rsm's simulator, which programs reach through its preloaded library, with ibsim: the
//! same fabric, the same manager, the same programs.
//!
//! The two differ in their devices: ibsim makes up the GUIDs of ports, and has other MTUs, table
//! sizes and capabilities. All results that depend on cables and the manager are equal.

use std::path::Path;

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_tests::bringup::LIMIT;
use rsm_tests::ibsim::{Ibsim, SimNodeKind};
use rsm_tests::peer::require_peers;
use rsm_tests::process::Finished;
use rsm_tests::served::Served;
use rsm_tests::sm::Rsm;
use rsm_tests::{binaries, fabrics};
use serde_json::Value;

/// A fabric of 6 switches, 8 hosts with a port each, and 16 links.
const FABRIC: &str = "fat-tree:k=4,levels=2";

const LINK_LOCAL: u64 = 0xFE80_0000_0000_0000;

/// Both simulators. The functions run a program with arguments at the same host of each.
struct Sides<'a> {
    on_ibsim: &'a dyn Fn(&str, &[&str]) -> Finished,
    on_rsm_sim: &'a dyn Fn(&str, &[&str]) -> Finished,
    /// Pairs of a text with a GUID that ibsim makes up for a port, and with the GUID in the file.
    names: Vec<(String, String)>,
}

impl Sides<'_> {
    /// Compares the output on both simulators after `shown`, which changes or removes a line;
    /// returns the lines.
    fn compare(
        &self,
        program: &str,
        arguments: &[&str],
        shown: impl Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let lines = |finished: Finished| -> Vec<String> {
            let output = finished.success().unwrap().stdout;
            output.lines().filter_map(&shown).collect()
        };
        let mut on_ibsim = lines((self.on_ibsim)(program, arguments));
        for line in &mut on_ibsim {
            for (made_up, name) in &self.names {
                *line = line.replace(made_up, name);
            }
        }
        let on_rsm_sim = lines((self.on_rsm_sim)(program, arguments));
        assert_eq!(on_rsm_sim, on_ibsim, "{program} {arguments:?}");
        assert!(
            !on_rsm_sim.is_empty(),
            "{program} {arguments:?} prints nothing"
        );
        on_rsm_sim
    }

    /// Compares the fields `names` of the output on both simulators.
    fn fields(&self, program: &str, arguments: &[&str], names: &[&str]) {
        let shown = |line: &str| {
            let name = line.trim().split([':', '.']).next()?;
            names.contains(&name).then(|| line.to_owned())
        };
        let found = self.compare(program, arguments, shown);
        assert_eq!(found.len(), names.len(), "{program} {arguments:?}");
    }
}

/// Keeps every line.
fn all(line: &str) -> Option<String> {
    Some(line.to_owned())
}

/// Keeps a line as [`all`] does, unless it is a comment of the program.
fn without_comments(line: &str) -> Option<String> {
    all(line).filter(|line| !line.starts_with('#'))
}

/// The line up to the last name, without the advice on other widths and speeds.
fn without_advice(line: &str) -> Option<String> {
    let end = line.rfind('"')?;
    all(&line[..=end])
}

/// The `(LID, number of ports)` of switches, and the LIDs of hosts.
fn lids(rsm: &Rsm) -> (Vec<(u64, u64)>, Vec<u64>) {
    let nodes = rsm.ask(&["nodes"]).unwrap();
    let nodes = nodes.as_array().unwrap();
    let lid = |node: &Value| node["lids"][0].as_u64().unwrap();
    let of = |kind: &'static str| nodes.iter().filter(move |node| node["kind"] == kind);
    let switches = of("switch").map(|node| (lid(node), node["num_ports"].as_u64().unwrap()));
    (switches.collect(), of("ca").map(lid).collect())
}

/// The fields of a port that the manager or the cable determines.
const PORT: &[&str] = &[
    "Lid",
    "SMLid",
    "LocalPort",
    "LinkWidthActive",
    "LinkState",
    "PhysLinkState",
    "ProtectBits",
    "LMC",
    "SMSL",
    "LinkSpeedExtActive",
];

/// Runs all programs on both simulators, and compares their output.
fn programs_agree(sides: &Sides<'_>, rsm: &Rsm) {
    let (switches, hosts) = lids(rsm);
    assert_eq!((switches.len(), hosts.len()), (6, 8));
    sides.compare("ibnetdiscover", &[], without_comments);
    sides.compare("ibhosts", &[], all);
    sides.compare("ibswitches", &[], all);
    sides.compare("iblinkinfo", &["--line"], without_advice);
    let counted = |line: &str| {
        let (before, after) = line.split_once(", activity count ")?;
        let (_, after) = after.split_once(' ')?;
        Some(format!("{before} {after}"))
    };
    sides.compare("sminfo", &[], counted);
    for (lid, ports) in &switches {
        let lid = lid.to_string();
        sides.compare("ibroute", &[&lid], all);
        // The heading depends on the size of the table.
        let rows = |line: &str| all(line).filter(|line| !line.starts_with("Multicast mlids"));
        sides.compare("ibroute", &["-M", &lid], rows);
        for port in 1..=*ports {
            sides.fields("smpquery", &["portinfo", &lid, &port.to_string()], PORT);
        }
        let table = ["LinearFdbTop", "LifeTime", "StateChange"];
        sides.fields("smpquery", &["switchinfo", &lid], &table);
        let node = [
            "lid",
            "node_guid",
            "port_guid",
            "num_ports",
            "NodeDescription",
        ];
        sides.fields("saquery", &["NR", &lid], &node);
        sides.compare("saquery", &["LR", &format!("{lid}/1")], all);
        sides.compare("saquery", &["LFTR", &format!("{lid}/0")], all);
    }
    for lid in &hosts {
        let lid = lid.to_string();
        let node = [
            "NodeType",
            "NumPorts",
            "SystemGuid",
            "Guid",
            "PortGuid",
            "DevId",
        ];
        sides.fields("smpquery", &["nodeinfo", &lid], &node);
        sides.compare("smpquery", &["nodedesc", &lid], all);
        sides.fields("smpquery", &["portinfo", &lid, "1"], PORT);
        let first_block = |line: &str| all(line).filter(|line| line.starts_with("   0: "));
        sides.compare("smpquery", &["pkeys", &lid, "1"], first_block);
        let host = [
            "lid",
            "node_guid",
            "port_guid",
            "num_ports",
            "NodeDescription",
        ];
        sides.fields("saquery", &["NR", &lid], &host);
    }
    for (from, to) in hosts.iter().zip(hosts.iter().rev()) {
        let (from, to) = (from.to_string(), to.to_string());
        sides.compare("ibtracert", &[&from, &to], all);
        let path = [
            "sgid", "dgid", "slid", "dlid", "pkey", "sl", "rate", "pkt_life",
        ];
        sides.fields("saquery", &["PR", "--slid", &from, "--dlid", &to], &path);
    }
    sides.compare("saquery", &["-g"], all);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs ibsim-utils and infiniband-diags")]
fn diagnostics_print_the_same_on_both_simulators() {
    let peers = [
        "ibsim",
        "ibsim-run",
        "ibnetdiscover",
        "ibhosts",
        "ibswitches",
        "iblinkinfo",
        "ibroute",
        "ibtracert",
        "sminfo",
        "smpquery",
        "saquery",
    ];
    if !require_peers(&peers) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let net = fabrics::generate(FABRIC, directory.path()).unwrap();
    let ibsim = Ibsim::start(&net).unwrap();
    let served = Served::start(net.to_str().unwrap()).unwrap();

    let hosts = ibsim.nodes().iter();
    let hosts: Vec<_> = hosts.filter(|node| node.kind == SimNodeKind::Ca).collect();
    // Nodes are named by GUID on one side, and on the other by the name in the file, `H-` and the
    // GUID.
    let guid = |id: &str| format!("0x{}", &id[2..]);
    let number = |id: &str| u64::from_str_radix(&id[2..], 16).unwrap();
    let names = hosts.iter().flat_map(|host| {
        let own = Guid(number(&host.id));
        let made_up = Guid(own.0 + 1);
        let gid = |guid| Gid::new(LINK_LOCAL, guid).to_string();
        let digits = |guid: Guid| format!("{:016x}", guid.0);
        [(digits(made_up), digits(own)), (gid(made_up), gid(own))]
    });
    let names = names.collect();
    let (manager, asker) = (&hosts[0].id, &hosts[1].id);
    let state = directory.path().join("there");
    let on_ibsim = Rsm::start(&ibsim, None, manager, &state, LIMIT).unwrap();
    let state: &Path = &directory.path().join("here");
    let rsm = served.client(&guid(manager), binaries::rsm()).unwrap();
    let on_rsm_sim = Rsm::run(rsm, state, &[], LIMIT).unwrap();

    let sides = Sides {
        on_ibsim: &|program, arguments| ibsim.diagnose(asker, program, arguments).unwrap(),
        on_rsm_sim: &|program, arguments| {
            let host = guid(asker);
            served.diagnose(&host, program, arguments).unwrap()
        },
        names,
    };
    programs_agree(&sides, &on_rsm_sim);
    on_ibsim.stop().unwrap().success().unwrap();
    on_rsm_sim.stop().unwrap().success().unwrap();
}

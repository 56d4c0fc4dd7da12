//! All-to-all within rails as `rsm plan --quality` measures it, with and without inventories of GPU
//! hosts, against a count over the forwarding tables that the plan writes.
//!
//! The cables of each leaf's hosts end at its ports in random order. The count follows the tables
//! and cables alone, hop by hop, and has hosts in the order of their ports on the first rail.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rsm_gdr::generate::{FleetFaults, fleet, recabled};
use rsm_gdr::import::to_json;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::generate::generate;
use rsm_routing::ibnetdiscover;
use rsm_routing::netlist::{Netlist, NodeKind};
use rsm_tests::binaries;
use rsm_tests::process::Invocation;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// Four units: of two, a leaf never sends to two other units at a time.
const FABRIC: &str = "superpod:su=4";

/// The description that adapters have until their host sets another one.
const OF_THE_MODEL: &[u8] = b"MT4129 ConnectX7   Mellanox Technologies";

/// The port to each LID, by switch.
type Tables = BTreeMap<(Guid, u16), u8>;

/// The number of flows on the fullest link: the maximum and the mean of all shifts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Contention {
    max: u64,
    mean: f64,
}

/// A fabric in a file, with the inventory of each host in a folder.
struct World {
    directory: tempfile::TempDir,
    fabric: PathBuf,
    inventories: PathBuf,
    /// The switch at the other end of each cable between two switches.
    next: BTreeMap<(Guid, u8), Guid>,
    /// For each host, the leaf and the LID of its port on each rail.
    hosts: Vec<Vec<(Guid, u16)>>,
}

impl World {
    /// Creates a world whose adapters are described as host and device (`host-001 mlx5_0`), or all
    /// alike.
    fn new(has_names: bool) -> World {
        let netlist = generate(FABRIC).expect("a published fabric");
        let netlist = recabled(netlist, 3).expect("ends are only exchanged");
        let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
        let directory = tempfile::tempdir().expect("there is room");
        let inventories = directory.path().join("inventories");
        fs::create_dir(&inventories).expect("a new folder");
        for (name, record) in fleet.inventory.hosts() {
            let file = inventories.join(format!("{name}.json"));
            fs::write(file, to_json(&record.inventory)).expect("there is room");
        }
        // Each port holds a LID from the start, which every manager keeps.
        let (mut nodes, cables) = fleet.netlist.into_parts();
        for (lid, node) in (1..).zip(&mut nodes) {
            let port = match node.kind {
                NodeKind::Switch => PortNum::ZERO,
                _ => PortNum(1),
            };
            let mut spec = node.port(port);
            spec.lid = Lid(lid);
            node.ports.insert(port, spec);
        }
        let netlist = Netlist::new(nodes, cables).expect("the same cables");
        let (next, hosts) = (next(&netlist), hosts(&netlist));
        let (mut nodes, cables) = netlist.into_parts();
        if !has_names {
            let adapters = nodes.iter_mut().filter(|node| node.kind == NodeKind::Ca);
            adapters.for_each(|node| node.description = OF_THE_MODEL.to_vec());
        }
        let netlist = Netlist::new(nodes, cables).expect("the same cables");
        let fabric = directory.path().join("fabric.txt");
        let mut text = Vec::new();
        ibnetdiscover::write(&netlist, &mut text).expect("memory takes all");
        fs::write(&fabric, text).expect("there is room");
        World {
            directory,
            fabric,
            inventories,
            next,
            hosts,
        }
    }

    /// All-to-all within all rails at a time, shift by shift; `None` if the tables have no path.
    fn counted(&self, tables: &Tables) -> Option<Contention> {
        let count = self.hosts.len();
        let mut fullest = Vec::new();
        for distance in 1..count {
            let mut flows: BTreeMap<(Guid, u8), u64> = BTreeMap::new();
            for (from, ports) in self.hosts.iter().enumerate() {
                let peers = &self.hosts[(from + distance) % count];
                for (&(leaf, _), &(end, lid)) in ports.iter().zip(peers) {
                    let mut at = leaf;
                    while at != end {
                        let port = *tables.get(&(at, lid))?;
                        *flows.entry((at, port)).or_default() += 1;
                        at = *self.next.get(&(at, port))?;
                    }
                }
            }
            fullest.push(flows.into_values().max().unwrap_or(0));
        }
        Some(Contention {
            max: fullest.iter().copied().max()?,
            mean: fullest.iter().sum::<u64>() as f64 / fullest.len() as f64,
        })
    }

    /// The row of `rsm plan --quality` about rails; `None` if it has none.
    fn plan(&self, arguments: &[&str]) -> Option<Contention> {
        let rsm = Invocation::new(binaries::rsm(), self.directory.path());
        let rsm = rsm.arg("plan").arg(&self.fabric).args(arguments);
        let finished = rsm.args(["--quality", "--format", "json"]).run(LIMIT);
        let finished = finished.expect("it ends").success();
        let text = finished.expect("sound tables").stdout;
        let report: Value = serde_json::from_str(&text).expect("JSON");
        row(&report["quality"])
    }

    /// The row of a plan about rails, and the count over the tables that the plan has written.
    fn plan_and_count(&self, arguments: &[&str]) -> (Contention, Contention) {
        let file = self.directory.path().join("groups.txt");
        let path = file.display().to_string();
        let adaptive = ["--adaptive", "--adaptive-file", &path];
        let with_file = self.plan(&[arguments, &adaptive].concat());
        let text = fs::read_to_string(file).expect("the file of the groups");
        let counted = self.counted(&planned(&text)).expect("paths");
        let measured = self.plan(arguments).expect("rails are known");
        assert_eq!(with_file, Some(measured), "groups change no table");
        (measured, counted)
    }

    fn gpu(&self) -> [String; 2] {
        ["--gpu".to_owned(), self.inventories.display().to_string()]
    }
}

/// The switch at the other end of each cable between two switches.
fn next(netlist: &Netlist) -> BTreeMap<(Guid, u8), Guid> {
    let nodes = netlist.nodes();
    let ends = netlist.cables().iter();
    let ends = ends.flat_map(|cable| [(cable.a, cable.b), (cable.b, cable.a)]);
    let switches = ends.filter(|((near, _), (far, _))| {
        [near, far]
            .iter()
            .all(|&&node| nodes[node].kind == NodeKind::Switch)
    });
    switches
        .map(|((near, port), (far, _))| ((nodes[near].guid, port.0), nodes[far].guid))
        .collect()
}

/// For each host, the leaf and the LID of its port on each rail. Hosts are in the order of their
/// ports on the first rail, and leaves in the order of their GUIDs.
fn hosts(netlist: &Netlist) -> Vec<Vec<(Guid, u16)>> {
    /// The leaf, the port of the leaf, and the LID of a device.
    type Device = (Guid, u8, u16);
    let mut hosts: BTreeMap<String, BTreeMap<u32, Device>> = BTreeMap::new();
    for (at, node) in netlist.nodes().iter().enumerate() {
        let name = node.name();
        let Some((host, device)) = name.split_once(" mlx5_") else {
            continue;
        };
        let (leaf, port) = netlist.peer((at, PortNum(1))).expect("a cable");
        let leaf = netlist.nodes()[leaf].guid;
        let device = device.parse().expect("a number");
        let lid = node.port(PortNum(1)).lid.0;
        let devices = hosts.entry(host.to_owned()).or_default();
        devices.insert(device, (leaf, port.0, lid));
    }
    let mut hosts: Vec<BTreeMap<u32, Device>> = hosts.into_values().collect();
    hosts.sort_by_key(|devices| devices.values().next().copied());
    let rails = |devices: BTreeMap<u32, Device>| {
        let ports = devices.into_values();
        ports.map(|(leaf, _, lid)| (leaf, lid)).collect()
    };
    hosts.into_iter().map(rails).collect()
}

/// A number in hexadecimal, with `0x` before it.
fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// The tables in a text whose line about a switch has its GUID behind `switch`, and whose lines
/// about LIDs begin with the LID and `between`, and the port.
fn tables(text: &str, switch: &str, between: &str) -> Tables {
    let mut tables = Tables::new();
    let mut at = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(switch) {
            at = rest.split_whitespace().next().and_then(hexadecimal);
            continue;
        }
        let entry = || {
            let (lid, rest) = line.split_once(between)?;
            let lid = u16::try_from(hexadecimal(lid)?).ok()?;
            Some((lid, rest.split_whitespace().next()?.parse().ok()?))
        };
        if let (Some(at), Some((lid, port))) = (at, entry()) {
            tables.insert((Guid(at), lid), port);
        }
    }
    tables
}

/// The tables in the file of groups, in which the ports of groups come before those of LIDs.
fn planned(text: &str) -> Tables {
    let parts = text.split("Group  : Ports\n").map(|part| {
        let Some((_, entries)) = part.split_once("LID    : Port : Group\n") else {
            return part;
        };
        entries
    });
    tables(&parts.collect::<String>(), "Switch ", " : ")
}

/// The row about rails of a quality in JSON; `None` if it has none.
fn row(quality: &Value) -> Option<Contention> {
    let row = &quality["rail_all_to_all"];
    Some(Contention {
        max: row["max"].as_u64()?,
        mean: row["mean"].as_f64()?,
    })
}

/// Asserts that a measurement equals a count.
fn assert_equal(measured: Contention, counted: Contention) {
    assert!(are_equal(measured, counted), "{measured:?} {counted:?}");
}

fn are_equal(measured: Contention, counted: Contention) -> bool {
    measured.max == counted.max && (measured.mean - counted.mean).abs() < 1e-9
}

/// The contention of tables in which no two flows share a link.
const NONE_SHARED: Contention = Contention { max: 1, mean: 1.0 };

#[test]
fn plan_of_hosts_whose_names_tell_rails_has_one_row_with_and_without_inventories() {
    let world = World::new(true);
    let gpu = world.gpu();
    let gpu = gpu.each_ref().map(String::as_str);
    for arguments in [&[][..], &gpu] {
        let (measured, counted) = world.plan_and_count(arguments);
        assert_equal(measured, counted);
        assert_eq!(measured, NONE_SHARED, "{arguments:?}");
    }
    // Routes by the ports of leaves are measured in the same order.
    for arguments in [&[][..], &gpu] {
        let arguments = [&["--no-rails"][..], arguments].concat();
        let (measured, counted) = world.plan_and_count(&arguments);
        assert_equal(measured, counted);
        assert!(measured.mean > 1.25, "{measured:?}");
    }
}

#[test]
fn inventories_of_hosts_without_names_separate_the_flows_of_rails_in_a_plan() {
    let world = World::new(false);
    let gpu = world.gpu();
    let gpu = gpu.each_ref().map(String::as_str);
    // Without names and inventories the programs know no rails.
    assert_eq!(world.plan(&[]), None);
    let (measured, counted) = world.plan_and_count(&gpu);
    assert_equal(measured, counted);
    assert_eq!(measured, NONE_SHARED);
}

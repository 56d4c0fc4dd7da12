//! All-to-all within rails as `rsm plan --quality` and `rsmctl quality` measure it, with and
//! without inventories of GPU hosts, against a count over the forwarding tables that a plan writes
//! or a running rsm dumps.
//!
//! The cables of each leaf's hosts end at its ports in random order. The count follows the tables
//! and cables alone, hop by hop, and has hosts in the order of their ports on the first rail.

use std::collections::{BTreeMap, BTreeSet};
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
use rsm_tests::clock::wait_for;
use rsm_tests::process::Invocation;
use rsm_tests::web::Site;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// Four units: of two, a leaf never sends to two other units at a time.
const FABRIC: &str = "superpod:su=4";

/// The description that adapters have until their host sets another one.
const OF_THE_MODEL: &[u8] = b"MT4129 ConnectX7   Mellanox Technologies";

/// The port to each LID, by switch.
type Tables = BTreeMap<(Guid, u16), u8>;

/// The LID of each port, by GUID.
type Lids = BTreeMap<Guid, u16>;

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
    /// Both ends of each cable.
    cables: BTreeSet<[(Guid, u8); 2]>,
    /// For each host, the leaf and the GUID of its port on each rail.
    hosts: Vec<Vec<(Guid, Guid)>>,
    /// The LIDs that ports hold from the start.
    lids: Lids,
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
        let (next, cable_ends, hosts) = (next(&netlist), cables_of(&netlist), hosts(&netlist));
        let ports = netlist.nodes().iter().flat_map(|node| node.ports.values());
        let lids = ports.map(|port| (port.guid, port.lid.0)).collect();
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
            cables: cable_ends,
            hosts,
            lids,
        }
    }

    /// All-to-all within all rails at a time, shift by shift; `None` if the tables have no path.
    fn counted(&self, tables: &Tables, lids: &Lids) -> Option<Contention> {
        let count = self.hosts.len();
        let mut fullest = Vec::new();
        for distance in 1..count {
            let mut flows: BTreeMap<(Guid, u8), u64> = BTreeMap::new();
            for (from, ports) in self.hosts.iter().enumerate() {
                let peers = &self.hosts[(from + distance) % count];
                for (&(leaf, _), (end, port)) in ports.iter().zip(peers) {
                    let (mut at, lid) = (leaf, *lids.get(port)?);
                    while at != *end {
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
        let counted = self.counted(&planned(&text), &self.lids).expect("paths");
        let measured = self.plan(arguments).expect("rails are known");
        assert_eq!(with_file, Some(measured), "groups change no table");
        (measured, counted)
    }

    /// The folder of the dumps of a running rsm.
    fn dumps(&self) -> PathBuf {
        self.directory.path().join("dumps")
    }

    fn gpu(&self) -> [String; 2] {
        ["--gpu".to_owned(), self.inventories.display().to_string()]
    }
}

/// A running rsm on the fabric of a world.
struct Managed<'a> {
    world: &'a World,
    site: Site,
}

impl<'a> Managed<'a> {
    /// Starts rsm, which dumps its tables into a folder of the world.
    fn start(world: &'a World, keys: &str) -> Managed<'a> {
        let dumps = world.dumps();
        let config = format!("[routing]\n{keys}\n");
        let fabric = world.fabric.display().to_string();
        let site = Site::start_dumping(LIMIT, &fabric, &config, &dumps);
        Managed { world, site }
    }

    /// The row of `rsmctl quality` about rails; `None` if it has none.
    fn measured(&self) -> Option<Contention> {
        let text = self.site.printed(&["quality", "--format", "json"]);
        row(&serde_json::from_str(&text).expect("JSON"))
    }

    /// The count over the dumped tables, LIDs and cables; `None` if a dump is being written.
    fn counted(&self) -> Option<Contention> {
        let dump = |name| fs::read_to_string(self.world.dumps().join(name)).ok();
        let topology = dump("topology.ibnetdiscover")?;
        let netlist = ibnetdiscover::parse(topology.as_bytes(), "dump")
            .ok()?
            .netlist;
        assert_eq!(cables_of(&netlist), self.world.cables);
        let tables = tables(&dump("opensm-lfts.dump")?, " guid ", " ");
        self.world
            .counted(&tables, &dumped_lids(&dump("guid2lid")?))
    }

    /// The measurement, once the dump has the tables in force. Panics if the count over the dump
    /// does not become equal to it.
    fn measured_as_counted(&self) -> Contention {
        let mut last = (None, None);
        let measured = wait_for(LIMIT, || {
            last = (self.measured(), self.counted());
            let (measured, counted) = (last.0?, last.1?);
            are_equal(measured, counted).then_some(measured)
        });
        measured.unwrap_or_else(|| panic!("measured and counted: {last:?}\n{}", self.site.log()))
    }

    fn import_inventories(&self) {
        let folder = self.world.inventories.display().to_string();
        self.site.rsmctl(&["gpu", "import", &folder]);
    }
}

/// The LIDs in the text of `guid2lid`: lines with a GUID, the first LID and the last one.
fn dumped_lids(text: &str) -> Lids {
    let lids = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (guid, lid) = (hexadecimal(words.next()?)?, hexadecimal(words.next()?)?);
        Some((Guid(guid), u16::try_from(lid).ok()?))
    });
    lids.collect()
}

/// Both ends of each cable, the lower one first.
fn cables_of(netlist: &Netlist) -> BTreeSet<[(Guid, u8); 2]> {
    let end = |(node, port): (usize, PortNum)| (netlist.nodes()[node].guid, port.0);
    let cables = netlist.cables().iter();
    let cables = cables.map(|cable| {
        let (a, b) = (end(cable.a), end(cable.b));
        [a.min(b), a.max(b)]
    });
    cables.collect()
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

/// For each host, the leaf and the GUID of its port on each rail. Hosts are in the order of their
/// ports on the first rail, and leaves in the order of their GUIDs.
fn hosts(netlist: &Netlist) -> Vec<Vec<(Guid, Guid)>> {
    /// The leaf, the port of the leaf, and the GUID of the port of a device.
    type Device = (Guid, u8, Guid);
    let mut hosts: BTreeMap<String, BTreeMap<u32, Device>> = BTreeMap::new();
    for (at, node) in netlist.nodes().iter().enumerate() {
        let name = node.name();
        let Some((host, device)) = name.split_once(" mlx5_") else {
            continue;
        };
        let (leaf, port) = netlist.peer((at, PortNum(1))).expect("a cable");
        let leaf = netlist.nodes()[leaf].guid;
        let device = device.parse().expect("a number");
        let guid = node.port(PortNum(1)).guid;
        let devices = hosts.entry(host.to_owned()).or_default();
        devices.insert(device, (leaf, port.0, guid));
    }
    let mut hosts: Vec<BTreeMap<u32, Device>> = hosts.into_values().collect();
    hosts.sort_by_key(|devices| devices.values().next().copied());
    let rails = |devices: BTreeMap<u32, Device>| {
        let ports = devices.into_values();
        ports.map(|(leaf, _, guid)| (leaf, guid)).collect()
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

#[test]
fn quality_of_a_running_rsm_is_the_count_over_its_dumped_tables() {
    let world = World::new(true);
    let managed = Managed::start(&world, "");
    assert_eq!(managed.measured_as_counted(), NONE_SHARED);
    managed.import_inventories();
    assert_eq!(managed.measured_as_counted(), NONE_SHARED);
    managed.site.stop();

    // Without routes by rails, flows share links, and the count sees it.
    let managed = Managed::start(&world, "rails = false");
    let measured = managed.measured_as_counted();
    assert!(measured.mean > 1.25, "{measured:?}");
}

#[test]
fn quality_of_a_running_rsm_has_rails_once_inventories_of_hosts_without_names_are_there() {
    let world = World::new(false);
    let managed = Managed::start(&world, "");
    assert_eq!(managed.measured(), None);
    let counted = wait_for(LIMIT, || managed.counted()).expect("a complete dump");
    assert!(counted.mean > 1.25, "{counted:?}");
    managed.import_inventories();
    assert_eq!(managed.measured_as_counted(), NONE_SHARED);
}

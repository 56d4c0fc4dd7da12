//! A site that OpenSM manages changes over to rsm: the files are migrated, OpenSM ends, rsm starts.
//! Correct settings of OpenSM stay, and rsm sends no Set for them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::wire::attr::{PKey, PortState, VlCap};
use rsm_mad::wire::header::AttrId;
use rsm_routing::generate::generate;
use rsm_routing::netlist::{Netlist, Node, NodeKind};
use rsm_sim::{SetJournal, Sim};
use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::hosted::Hosted;
use rsm_tests::peer::require_peers;
use rsm_tests::process::Invocation;
use rsm_tests::sm::{OnceReport, OpenSm, Rsm};

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";

/// The time without a request after which a manager counts as done.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// The capacity of the journal: more Sets than any manager sends to this fabric.
const JOURNAL: usize = 1 << 16;

/// The `opensm.conf` of a site, as a user writes one: LMC 1, roots, partitions, QoS, names.
const CONF: &str = "\
sm_priority 5
lmc 1
subnet_timeout 17
routing_engine updn
root_guid_file /etc/opensm/roots
partition_config_file /etc/opensm/partitions.conf
node_name_map_name /etc/opensm/ib-node-name-map
allow_both_pkeys TRUE
sa_db_dump TRUE
qos TRUE
qos_max_vls 2
qos_high_limit 4
qos_vlarb_high 0:4,1:8,2:8
qos_vlarb_low 0:1,1:2,2:4,3:8
qos_sl2vl 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7
qos_swe_high_limit 8
qos_swe_vlarb_low 0:4,1:4,2:4,3:4
qos_swe_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3
";

/// The settings of a port that the migration must not change.
#[derive(Debug, PartialEq, Eq)]
struct Port {
    lid: Lid,
    lmc: u8,
    /// MasterSMLID.
    manager: Lid,
    state: PortState,
    operational_vls: VlCap,
    high_limit: u8,
    p_keys: Vec<PKey>,
    /// The SL-to-VL rows, by the port where packets come in.
    virtual_lanes: Vec<[u8; 16]>,
    /// The four blocks of the VLArbitrationTable, as pairs of VL and weight.
    weights: Vec<Vec<(u8, u8)>>,
}

/// The settings of ports, by node GUID and port number.
type Fabric = BTreeMap<(Guid, PortNum), Port>;

/// All ports that have a link or a LID.
fn ports(sim: &mut Sim) -> Fabric {
    let nodes: Vec<_> = sim.nodes().collect();
    let mut ports = Fabric::new();
    for (node, kind) in nodes {
        let count = sim.num_ports(node).unwrap();
        let first = u8::from(kind != NodeKind::Switch);
        for number in first..=count {
            let port = PortNum(number);
            if number > 0 && sim.peer(node, port).unwrap().is_none() {
                continue;
            }
            let inputs = match kind {
                NodeKind::Switch if number > 0 => 1..=count,
                _ => 0..=0,
            };
            let inputs = inputs.filter(|&input| input == 0 || input != number);
            let lanes = |input| sim.virtual_lanes(node, PortNum(input), port).unwrap();
            let info = sim.port_info(node, port).unwrap();
            let mut p_keys = sim.p_keys(node, port).unwrap();
            while p_keys.last().is_some_and(|key| *key == PKey::default()) {
                p_keys.pop();
            }
            let read = Port {
                lid: info.lid(),
                lmc: info.lmc().get(),
                manager: info.master_sm_lid(),
                state: info.port_state(),
                operational_vls: info.operational_vls(),
                high_limit: info.vl_high_limit(),
                p_keys,
                virtual_lanes: inputs.map(lanes).collect(),
                weights: (1..=4)
                    .map(|block| sim.vl_weights(node, port, block).unwrap())
                    .collect(),
            };
            ports.insert((node, port), read);
        }
    }
    ports
}

/// OpenSM's default `sa_key`, which everybody knows.
const OPENSM_KEY: &str = "1";

/// The fabric, and the files of its OpenSM below `root`.
struct Site {
    hosted: Hosted,
    root: PathBuf,
}

impl Site {
    fn new(netlist: &Netlist) -> Site {
        let hosted = Hosted::start(netlist).unwrap();
        let root = hosted.directory().join("host");
        for folder in ["etc/opensm", "var/cache/opensm", "var/log"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let site = Site { hosted, root };
        site.write("opensm.conf", CONF);
        site.write("partitions.conf", &partitions(netlist));
        let cores = netlist.nodes().iter();
        let cores = cores.filter(|node| description(node).contains("core"));
        let roots: String = cores
            .map(|core| format!("0x{:016x}\n", core.guid.0))
            .collect();
        site.write("roots", &roots);
        let named = netlist.nodes().iter().enumerate();
        let names = named.map(|(at, node)| format!("0x{:016x} \"node {at}\"\n", node.guid.0));
        site.write("ib-node-name-map", &names.collect::<String>());
        site
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root.join("etc/opensm").join(name), text).unwrap();
    }

    /// Runs OpenSM until it has brought the fabric up and written its tables and registrations to
    /// files. Returns the records of its SA.
    fn opensm(&self) -> BTreeSet<String> {
        let client = self.hosted.client("opensm").unwrap();
        // CONF has the paths of the site. In this test the files are below `root`.
        let conf = self.hosted.directory().join("opensm.conf");
        let folder = self.root.join("etc/opensm");
        fs::write(&conf, CONF.replace("/etc/opensm", folder.to_str().unwrap())).unwrap();
        let opensm = OpenSm::run(client, &["-F", conf.to_str().unwrap()], LIMIT).unwrap();
        assert!(self.hosted.wait_quiet(QUIET_TIME, LIMIT).unwrap());
        let records = records(self, OPENSM_KEY);
        let made = opensm.directory().to_owned();
        opensm.stop().unwrap();
        let cache = self.root.join("var/cache/opensm");
        fs::copy(made.join("guid2lid"), cache.join("guid2lid")).unwrap();
        let dump = "opensm-sa.dump";
        fs::copy(made.join(dump), self.root.join("var/log").join(dump)).unwrap();
        records
    }

    fn ports(&self) -> Fabric {
        self.hosted.sim.with(ports).unwrap()
    }

    /// Migrates the files, with a store in `state`; returns the configuration.
    fn migrate(&self, state: &Path) -> PathBuf {
        let output = self.hosted.directory().join("rsm.toml");
        let rsm = Invocation::new(binaries::rsm(), self.hosted.directory());
        let rsm = rsm.args(["migrate", "--from"]).arg(&self.root);
        let rsm = rsm
            .arg("--output")
            .arg(&output)
            .arg("--state-dir")
            .arg(state);
        let finished = rsm.run(LIMIT).unwrap().success().unwrap();
        assert!(finished.stdout.contains("0 errors"), "{}", finished.stdout);
        output
    }

    /// Runs rsm with the migrated configuration; returns its report, and the Sets that took effect.
    fn rsm(&self, config: &Path) -> (OnceReport, SetJournal) {
        self.hosted
            .sim
            .with(|sim| sim.start_journal(JOURNAL))
            .unwrap();
        let rsm = self.hosted.client(binaries::rsm()).unwrap();
        let rsm = rsm.args(["--fabric", "umad", "--once", "--format", "json", "--config"]);
        let finished = rsm.arg(config).run(LIMIT).unwrap().success().unwrap();
        let journal = self.hosted.sim.with(Sim::take_journal).unwrap().unwrap();
        assert_eq!(journal.overwritten, 0);
        (OnceReport::of(&finished).unwrap(), journal)
    }
}

/// The NodeDescription of a node.
fn description(node: &Node) -> String {
    String::from_utf8_lossy(&node.description).into_owned()
}

/// The partition file: all ports are limited members of the default partition and the manager is a
/// full member; a tenant has four hosts, one of them limited; storage is a full member of both
/// partitions.
fn partitions(netlist: &Netlist) -> String {
    let hosts = netlist.nodes().iter();
    let hosts = hosts.filter(|node| node.kind == NodeKind::Ca);
    let hosts: Vec<_> = hosts
        .map(|host| format!("0x{:016x}", host.guid.0))
        .collect();
    format!(
        "Default=0x7fff, ipoib, defmember=limited : ALL, SELF=full ;\n\
         tenant=0x0010, defmember=full : {}, {}, {}=limited, {} ;\n\
         storage=0x0020, ipoib, sl=2 : {}=full, {}=full, ALL=limited ;\n",
        hosts[1], hosts[2], hosts[3], hosts[15], hosts[15], hosts[8],
    )
}

/// The output of smpquery about tables of a host and of a switch.
fn query_tables(site: &Site) -> Vec<String> {
    let queries = [
        &["pkeys", "-D", "0", "1"][..],
        &["sl2vl", "-D", "0", "1"],
        &["vlarb", "-D", "0", "1"],
        &["portinfo", "-D", "0", "1"],
        &["sl2vl", "-D", "0,1", "3"],
        &["vlarb", "-D", "0,1", "3"],
        &["switchinfo", "-D", "0,1,3"],
    ];
    let query = |arguments: &&[&str]| {
        let smpquery = site.hosted.client("smpquery").unwrap();
        let finished = smpquery.args(*arguments).run(LIMIT).unwrap();
        finished.success().unwrap().stdout
    };
    queries.iter().map(query).collect()
}

/// The records of the SA about ports and their tables, as saquery prints them, except for values
/// about which managers need not agree. `key` is the key that the SA trusts.
fn records(site: &Site, key: &str) -> BTreeSet<String> {
    let ports = site.ports();
    let of_switches = ports.iter().filter(|((_, port), _)| *port == PortNum::ZERO);
    let switches: BTreeSet<String> = of_switches.map(|(_, port)| port.lid.to_string()).collect();
    let mut records = BTreeSet::new();
    for query in ["PIR", "PKTR", "SL2VL", "VLAR"] {
        let saquery = site.hosted.client("saquery").unwrap();
        let finished = saquery.args(["--smkey", key, query]).run(LIMIT).unwrap();
        let output = finished.success().unwrap().stdout;
        let before = records.len();
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        // Headings begin a line, fields are indented.
        let parts = lines.chunk_by(|_, line| line.starts_with('\t'));
        records.extend(parts.filter_map(|record| comparable(record, &switches)));
        // There is at least one record of each end port.
        assert!(records.len() >= before + 36, "{query}: {output}");
    }
    records
}

/// A record without the values about which managers need not agree. `switches` are the LIDs of
/// switches.
fn comparable(record: &[&str], switches: &BTreeSet<String>) -> Option<String> {
    let value = |name: &str| {
        let is_of = |line: &&&str| line.trim_start().starts_with(&format!("{name}."));
        let line = record.iter().find(is_of)?;
        line.rsplit('.').next()
    };
    let is_switch = value("LID").is_some_and(|lid| switches.contains(lid));
    let is_left_out = match record[0] {
        // No packet leaves by the port on which it arrived, and rsm does not read that row.
        "SL2VLTableRecord dump:" => is_switch && value("InPort") == value("OutPort"),
        // OpenSM lists empty blocks, and tables of ports that enforce partitions.
        "PKeyTableRecord dump:" => {
            let keys = record.iter().filter(|line| line.contains("0x"));
            let mut keys = keys.flat_map(|line| line.split_whitespace());
            keys.all(|key| key == "0x0000") || (is_switch && value("Port") != Some("0"))
        }
        _ => false,
    };
    let is_kept = |line: &&&str| {
        // The line has the port on which the manager's request arrived.
        let is_local = line.contains("LocalPort:");
        // The field is reserved in the records of hosts, whose LID identifies the port (IBA
        // 15.2.5.6).
        let is_reserved = !is_switch && line.trim_start().starts_with("Port.");
        !is_local && !is_reserved
    };
    let kept: Vec<&str> = record.iter().filter(is_kept).copied().collect();
    (!is_left_out && kept.len() > 1).then(|| kept.join("\n"))
}

/// The linear forwarding tables of all switches.
fn routes(sim: &mut Sim) -> BTreeMap<Guid, Vec<u8>> {
    let nodes = sim.nodes().filter(|(_, kind)| *kind == NodeKind::Switch);
    let nodes: Vec<_> = nodes.collect();
    let table = |(guid, _)| (guid, sim.lft(guid).unwrap().to_vec());
    nodes.into_iter().map(table).collect()
}

/// The table entry of a LID without a path.
const NO_PATH: u8 = 255;

/// Checks that all Sets add entries of forwarding tables where there was no path: OpenSM leaves
/// some pairs of switches without a path.
fn assert_only_adds_paths(journal: &SetJournal, before: &BTreeMap<Guid, Vec<u8>>) {
    for set in journal.entries() {
        let place = format!(
            "{} {:?} {:#x}: {:02x?}",
            set.node,
            set.attribute,
            set.modifier,
            &set.data[..16]
        );
        assert_eq!(set.attribute, AttrId::LINEAR_FORWARDING_TABLE, "{place}");
        let first = set.modifier as usize * set.data.len();
        for (lid, &port) in (first..).zip(&set.data) {
            let held = before[&set.node].get(lid).copied().unwrap_or(NO_PATH);
            assert!(held == NO_PATH || held == port, "{place}: LID {lid}");
        }
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn after_a_migration_rsm_only_adds_missing_paths() {
    if !require_peers(&["opensm", "smpquery", "saquery"]) {
        return;
    }
    let netlist = generate(FABRIC).unwrap();
    let site = Site::new(&netlist);
    let records_before = site.opensm();
    let (before, answers) = (site.ports(), query_tables(&site));
    let tables = site.hosted.sim.with(routes).unwrap();
    let is_up = |port: &Port| port.state == PortState::Active || port.lid.0 > 0;
    assert!(before.values().all(is_up), "{before:?}");
    assert!(
        before
            .values()
            .any(|port| port.weights[0].contains(&(3, 8)))
    );

    let state = site.hosted.directory().join("state");
    let config = site.migrate(&state);
    let (report, journal) = site.rsm(&config);
    assert_eq!(report.count("/switches").unwrap(), 20);
    assert_only_adds_paths(&journal, &tables);
    assert_eq!(site.ports(), before);
    assert_eq!(query_tables(&site), answers);
    // The entries that rsm has added exist now: a second start sends no Set at all.
    let (_, journal) = site.rsm(&config);
    assert_eq!(journal.len(), 0);
    // The SA has the same records.
    let key = fs::read_to_string(config.with_file_name("sa.key")).unwrap();
    let rsm = site.hosted.client(binaries::rsm()).unwrap();
    let config = config.to_str().unwrap();
    let rsm = Rsm::run(rsm, &state, &["--config", config], LIMIT).unwrap();
    assert_same(&records_before, &records(&site, key.trim()));
    rsm.stop().unwrap().success().unwrap();
}

/// Checks that two sets of records are equal; names some of the differing records.
fn assert_same(before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let lost: Vec<&String> = before.difference(after).take(2).collect();
    let new: Vec<&String> = after.difference(before).take(2).collect();
    assert!(
        lost.is_empty() && new.is_empty(),
        "{} records before, {} after; lost, for instance: {lost:#?}; new: {new:#?}",
        before.len(),
        after.len()
    );
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn after_a_migration_and_loss_of_power_ports_get_their_lids_and_tables_back() {
    if !require_peers(&["opensm", "smpquery", "saquery"]) {
        return;
    }
    let netlist = generate(FABRIC).unwrap();
    let site = Site::new(&netlist);
    site.opensm();
    let (mut before, state) = (site.ports(), site.hosted.directory().join("state"));
    let config = site.migrate(&state);
    let nodes = netlist.nodes().iter().map(|node| node.guid);
    let nodes: Vec<Guid> = nodes.collect();
    let restarted = site
        .hosted
        .sim
        .with(move |sim| nodes.iter().try_for_each(|&node| sim.reboot(node)));
    restarted.unwrap().unwrap();
    std::thread::sleep(QUIET_TIME);
    site.rsm(&config);
    let mut after = site.ports();
    // rsm puts keys at other indices of an empty table.
    for port in before.values_mut().chain(after.values_mut()) {
        port.p_keys.retain(|key| key.is_valid());
        port.p_keys.sort();
    }
    assert_eq!(after, before);
}

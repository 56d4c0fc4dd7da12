//! A site that leaves OpenSM: `rsm migrate` on OpenSM's files, then rsm in its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::wire::attr::{PKey, PortState};
use rsm_mad::wire::header::{AttrId, Method};
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::hosted::Hosted;
use rsm_tests::peer::require_peers;
use rsm_tests::process::Invocation;
use rsm_tests::sm::{OnceReport, OpenSm};

/// 20 switches, 16 hosts with a port each: 36 ports with LIDs.
const FABRIC: &str = "fat-tree:k=4,levels=3";

const PEERS: &[&str] = &["opensm", "saquery", "smpquery"];

/// The LIDs and P_Keys of a port.
type Identity = (Lid, Lmc, Vec<PKey>);

/// A fabric, and the host whose OpenSM manages it with its files below a folder.
struct Site {
    hosted: Hosted,
    root: PathBuf,
}

impl Site {
    fn new() -> Site {
        let netlist = generate(FABRIC).unwrap();
        let hosted = Hosted::start(&netlist).unwrap();
        let root = hosted.directory().join("host");
        let site = Site { hosted, root };
        site.put("etc/opensm/partitions.conf", &partitions(&netlist));
        site.put("etc/opensm/roots", &roots(&netlist));
        site.put("etc/opensm/opensm.conf", &configuration(Path::new("/etc/opensm")));
        site.put("running.conf", &configuration(&site.root.join("etc/opensm")));
        site.put("etc/default/opensm", "PORTS=ALL\n");
        site
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs OpenSM until the subnet is as it wants it, and leaves its tables where its packages do.
    fn opensm(&self) {
        let running = self.root.join("running.conf");
        let opensm = self.hosted.client("opensm").unwrap();
        let arguments = ["-F", running.to_str().unwrap()];
        let opensm = OpenSm::run(opensm, &arguments, LIMIT).unwrap();
        assert!(self.hosted.wait_quiet(Duration::from_secs(2), LIMIT).unwrap());
        let folder = opensm.directory().to_owned();
        opensm.stop().unwrap();
        for (file, place) in [
            ("guid2lid", "var/cache/opensm"),
            ("guid2mkey", "var/cache/opensm"),
            ("neighbors", "var/cache/opensm"),
            ("opensm-sa.dump", "var/log"),
        ] {
            let text = std::fs::read_to_string(folder.join(file)).unwrap();
            self.put(&format!("{place}/{file}"), &text);
        }
    }

    fn migrate(&self, arguments: &[&str]) -> String {
        let rsm = Invocation::new(binaries::rsm(), self.hosted.directory())
            .args(["migrate", "--from"])
            .arg(&self.root)
            .args(["--output", "rsm.toml", "--state-dir", "state"])
            .args(arguments);
        rsm.run(LIMIT).unwrap().success().unwrap().stdout
    }

    /// `rsm --once` in OpenSM's place.
    fn rsm(&self) -> OnceReport {
        let config = self.hosted.directory().join("rsm.toml");
        let rsm = self.hosted.client(binaries::rsm()).unwrap();
        let rsm = rsm
            .args(["--fabric", "umad", "--once", "--format", "json", "--config"])
            .arg(config);
        OnceReport::of(&rsm.run(LIMIT).unwrap().success().unwrap()).unwrap()
    }

    /// LIDs and P_Keys of all end ports.
    fn identities(&self) -> BTreeMap<(Guid, PortNum), Identity> {
        let read = self.hosted.sim.with(|sim| {
            let ports: Vec<_> = sim.end_ports().collect();
            let identity = |&(node, port)| {
                let info = sim.port_info(node, port).unwrap();
                let mut keys = sim.p_keys(node, port).unwrap();
                keys.retain(|key| key.is_valid());
                ((node, port), (info.lid(), info.lmc(), keys))
            };
            ports.iter().map(identity).collect()
        });
        read.unwrap()
    }

    /// The answer of infiniband-diags at the first host.
    fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let asked = self.hosted.client(program).unwrap().args(arguments);
        asked.run(LIMIT).unwrap().success().unwrap().stdout
    }

    fn sets(&self, attribute: AttrId) -> u64 {
        let read = move |sim: &mut rsm_sim::Sim| sim.counters().received(attribute, Method::SET);
        self.hosted.sim.with(read).unwrap()
    }
}

/// What OpenSM's operator wrote, with the files in `folder`.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "# site\nlmc 1\nsm_priority 5\nrouting_engine updn\nroot_guid_file {folder}/roots\n\
         partition_config_file {folder}/partitions.conf\nsa_db_dump TRUE\nmax_op_vls 2\n"
    )
}

/// The GUIDs of the switches of the highest level, which the generator makes first or last.
fn roots(netlist: &Netlist) -> String {
    let spines = netlist.nodes().iter().filter(|node| node.name.contains("spine"));
    let mut text: String = spines.map(|node| format!("{}\n", node.guid)).collect();
    if text.is_empty() {
        text = "# none\n".to_owned();
    }
    text
}

/// The default partition for all hosts, and one for two of them.
fn partitions(netlist: &Netlist) -> String {
    let hosts = netlist.nodes().iter();
    let hosts = hosts.filter(|node| node.kind == rsm_routing::netlist::NodeKind::Ca);
    let members: Vec<_> = hosts.take(2).map(|host| format!("{}=full", host.guid)).collect();
    format!(
        "Default=0x7fff, ipoib : ALL=full ;\nTenant=0x10 : {} ;\n",
        members.join(", ")
    )
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn cold_start_after_a_migration_moves_no_lid() {
    if !require_peers(&["opensm"]) {
        return;
    }
    let site = Site::new();
    site.opensm();
    let before = site.identities();
    assert_eq!(before.len(), 36);
    assert!(before.values().any(|(_, lmc, _)| *lmc == Lmc::new(1).unwrap()));
    assert!(before.values().any(|(_, _, keys)| keys.contains(&PKey(0x8010))));

    let report = site.migrate(&[]);
    assert!(report.contains("0 errors, 0 warnings"), "{report}");
    assert!(report.contains("LIDs of 36 ports"), "{report}");

    // The whole machine room loses power: no port knows its LID.
    let restarted = site.hosted.sim.with(|sim| {
        let nodes: Vec<_> = sim.nodes().map(|(node, _)| node).collect();
        nodes.iter().for_each(|&node| sim.reboot(node).unwrap());
        sim.end_ports().all(|(node, port)| sim.port_info(node, port).unwrap().lid() == Lid(0))
    });
    assert!(restarted.unwrap());
    site.rsm();
    assert_eq!(site.identities(), before);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm and infiniband-diags")]
fn after_a_migration_hosts_see_the_same_subnet_and_nothing_right_is_set() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::new();
    site.opensm();
    let before = site.identities();
    let lids: Vec<String> = before.values().map(|(lid, ..)| lid.0.to_string()).collect();
    let shown = |site: &Site| {
        let mut shown = Vec::new();
        for lid in &lids {
            let info = site.ask("smpquery", &["portinfo", lid]);
            let kept = ["Lid:", "SMLid:", "LMC:", "LinkState:", "OperVLs:", "NeighborMTU:", "GidPrefix:"];
            shown.extend(
                info.lines()
                    .filter(|line| kept.iter().any(|name| line.starts_with(name)))
                    .map(str::to_owned),
            );
            shown.push(site.ask("smpquery", &["pkeys", lid]));
        }
        shown
    };
    let seen = shown(&site);
    site.migrate(&[]);
    let counted = [AttrId::PORT_INFO, AttrId::P_KEY_TABLE, AttrId::SWITCH_INFO];
    let sets = counted.map(|attribute| site.sets(attribute));
    let report = site.rsm();
    assert_eq!(site.identities(), before);
    assert_eq!(shown(&site), seen);
    let after = counted.map(|attribute| site.sets(attribute));
    assert_eq!(after, sets, "PortInfo, P_KeyTable, SwitchInfo");
    assert_eq!(report.count("/smps/set").unwrap(), 0);
    let active = site.hosted.sim.with(|sim| {
        let mut ports = sim.end_ports().filter(|(_, port)| *port != PortNum::ZERO);
        ports.all(|(node, port)| sim.port_info(node, port).unwrap().port_state() == PortState::Active)
    });
    assert!(active.unwrap());
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm")]
fn dry_run_of_a_migration_writes_nothing() {
    if !require_peers(&["opensm"]) {
        return;
    }
    let site = Site::new();
    site.opensm();
    let report = site.migrate(&["--dry-run"]);
    assert!(report.contains("would write") && report.contains("lmc = 1 # "), "{report}");
    let written = ["rsm.toml", "state"].map(|name| site.hosted.directory().join(name).exists());
    assert_eq!(written, [false, false]);
}

//! Slurm's controller reads the trees and blocks that rsm writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::clock::wait_for;
use rsm_tests::peer::{program_path, require_peers};
use rsm_tests::process::Invocation;

const LIMIT: Duration = Duration::from_secs(120);

/// The last line that the controller logs when it starts.
const STARTED: &str = "Running as primary controller";

/// The first version of Slurm with the plugin topology/block, as year and month.
const WITH_BLOCKS: (u32, u32) = (23, 11);
/// The first version of Slurm that reads topology.yaml, as year and month.
const WITH_YAML: (u32, u32) = (25, 5);

/// The fabrics to export.
const FABRICS: [&str; 4] = [
    "superpod:su=1",
    "superpod:su=2",
    "superpod:su=4",
    "superpod:su=16",
];

/// The number of tiers that hosts have in the tree of each fabric: units, the fabric, and pods
/// between them.
const TIERS: [usize; 4] = [1, 2, 2, 3];

/// Exports a file for Slurm, for a fabric whose hosts are all like `docs/dgx.txt`, or as in the
/// folder `inventory`.
fn export(directory: &Path, fabric: &str, format: &str, inventory: Option<&Path>) -> String {
    let like = binaries::workspace().join("docs/dgx.txt");
    let rsm = Invocation::new(binaries::rsm(), directory);
    let rsm = rsm.args(["gpu", "export", fabric, format, "--inventory"]);
    let finished = rsm.arg(inventory.unwrap_or(&like)).run(LIMIT);
    let finished = finished.expect("it ends").success();
    finished.expect("a fabric with GPU hosts").stdout
}

/// The lists of nodes in a file, verbatim; in a YAML file the lists of the tree, which contains all
/// nodes.
fn nodes(file: &str) -> BTreeSet<&str> {
    let file = file.split("- topology: blocks").next().unwrap_or(file);
    let yaml = |line: &str| line.trim().starts_with("nodes: ");
    let of_yaml = file.lines().filter(|line| yaml(line));
    let of_yaml = of_yaml.filter_map(|line| line.split('"').nth(1));
    let lists = file.lines().filter_map(|line| line.split(" Nodes=").nth(1));
    lists.chain(of_yaml).collect()
}

/// The number of tiers of switches in a tree, by the longest chain from a root to a leaf.
fn tiers(tree: &str) -> usize {
    let below: BTreeMap<&str, &str> = tree
        .lines()
        .filter_map(|line| line.strip_prefix("SwitchName=")?.split_once(" Switches="))
        .collect();
    let is_in = |name: &str, list: &str| list.split(',').any(|one| one == name);
    let depth = |mut name| {
        let mut depth = 2;
        while let Some((&above, _)) = below.iter().find(|(_, list)| is_in(name, list)) {
            (name, depth) = (above, depth + 1);
        }
        depth
    };
    below.keys().map(|&name| depth(name)).max().unwrap_or(1)
}

/// The version of the controller, as year and month.
fn version() -> (u32, u32) {
    let directory = tempfile::tempdir().expect("there is room");
    let controller = Invocation::new(program_path("slurmctld"), directory.path());
    let finished = controller.args(["-V"]).run(LIMIT).expect("it ends");
    let text = finished.success().expect("its version").stdout;
    let number = text.split_whitespace().last().unwrap_or_default();
    let mut parts = number.split('.').map_while(|part| part.parse().ok());
    let both = parts.next().zip(parts.next());
    both.unwrap_or_else(|| panic!("no version: {text}"))
}

/// The configuration of one run of the controller.
struct Start {
    /// The name of the topology plugin, without the prefix `topology/`.
    plugin: &'static str,
    /// The name and the text of the topology file.
    file: (&'static str, String),
    /// Nodes of slurm.conf that the topology file omits.
    others: &'static [&'static str],
    port: u16,
}

impl Start {
    fn new(plugin: &'static str, text: String, port: u16) -> Start {
        Start {
            plugin,
            file: ("topology.conf", text),
            others: &[],
            port,
        }
    }

    /// Runs the controller. Returns its log, and whether it started within [`LIMIT`].
    fn log(&self) -> (String, bool) {
        let directory = tempfile::tempdir().expect("there is room");
        let state = directory.path().join("state");
        fs::create_dir(&state).expect("a new folder");
        let (name, text) = &self.file;
        let mut config = format!(
            "ClusterName=test\nSlurmctldHost=localhost\nSlurmctldPort={}\nSlurmUser=root\n\
             AuthType=auth/none\nCredType=cred/none\nMpiDefault=none\nTopologyPlugin=topology/{}\n\
             StateSaveLocation={}\nSlurmctldPidFile={}\n",
            self.port,
            self.plugin,
            state.display(),
            directory.path().join("pid").display()
        );
        for list in nodes(text).iter().chain(self.others) {
            config += &format!("NodeName={list} NodeAddr=127.0.0.1 State=UNKNOWN\n");
        }
        config += "PartitionName=all Nodes=ALL Default=YES State=UP\n";
        let file = directory.path().join("slurm.conf");
        fs::write(&file, config).expect("there is room");
        fs::write(directory.path().join(name), text).expect("there is room");
        let controller = Invocation::new(program_path("slurmctld"), directory.path());
        let running = controller.args(["-D", "-f"]).arg(&file).spawn();
        let mut running = running.expect("it can be started");
        let text = |running: &rsm_tests::process::Running| {
            format!("{}{}", running.stdout_so_far(), running.stderr_so_far())
        };
        let ended = || {
            let is_up = text(&running).contains(STARTED);
            (is_up || !running.is_running()).then_some(is_up)
        };
        let started = wait_for(LIMIT, ended);
        let text = text(&running);
        if running.is_running() {
            running.kill().expect("it runs");
        }
        (text, started == Some(true))
    }
}

/// Asserts that the controller starts without a message about the topology.
fn assert_accepted(start: &Start) {
    let (text, started) = start.log();
    let shown = &start.file.1;
    assert!(started, "{text}\n{shown}");
    let bad = [
        "WARNING",
        "opology",
        "witch",
        "lack access",
        "Invalid",
        "fatal",
    ];
    for bad in bad.into_iter().chain(["already been defined"]) {
        assert!(!text.contains(bad), "{bad}: {text}\n{shown}");
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs slurmctld")]
fn slurm_accepts_the_trees_of_four_fabrics_without_a_warning() {
    if !require_peers(&["slurmctld"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("there is room");
    for (port, (fabric, expected)) in (26_870..).zip(FABRICS.into_iter().zip(TIERS)) {
        let tree = export(directory.path(), fabric, "slurm-tree", None);
        assert_eq!(tiers(&tree), expected, "{fabric}");
        assert_accepted(&Start::new("tree", tree, port));
    }
    // Counter-test: the controller reports a tree that lacks a node.
    let tree = export(directory.path(), FABRICS[0], "slurm-tree", None);
    let mut start = Start::new("tree", tree, 26_880);
    start.others = &["login-1"];
    let (text, _) = start.log();
    assert!(
        text.contains("switches lack access to 1 nodes: login-1"),
        "{text}"
    );
}

/// Writes a folder with the inventories of 64 hosts like `docs/dgx.txt`, in NVLink domains of 18
/// hosts. Returns its path.
fn inventories_of_racks(directory: &Path) -> std::path::PathBuf {
    let rsm = Invocation::new(binaries::rsm(), directory);
    let rsm = rsm
        .args(["gpu", "import"])
        .arg(binaries::workspace().join("docs/dgx.txt"));
    let finished = rsm.run(LIMIT).expect("it ends").success();
    let json = finished.expect("a matrix").stdout;
    let folder = directory.join("racks");
    fs::create_dir(&folder).expect("a new folder");
    for place in 0..64 {
        let domain = format!(
            "\"nvlink_domain\": \"3f1a7c1e-0000-4000-8000-00000000beef.{}\"",
            place / 18
        );
        let host = json.replacen("\"version\"", &format!("{domain},\n  \"version\""), 1);
        let file = folder.join(format!("host-{:03}.json", place + 1));
        fs::write(file, host).expect("there is room");
    }
    folder
}

#[test]
#[cfg_attr(not(peers), ignore = "needs slurmctld")]
fn slurm_with_block_support_accepts_the_blocks_of_four_fleets() {
    if !require_peers(&["slurmctld"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("there is room");
    let racks = inventories_of_racks(directory.path());
    let blocks = |fabric: &str, folder| export(directory.path(), fabric, "slurm-block", folder);
    if version() < WITH_BLOCKS {
        let (text, started) = Start::new("block", blocks(FABRICS[0], None), 26_890).log();
        assert!(!started && text.contains("topology/block"), "{text}");
        return;
    }
    let fleets = FABRICS.map(|fabric| (fabric, None)).into_iter();
    let fleets = fleets.chain([(FABRICS[1], Some(racks.as_path()))]);
    for (port, (fabric, folder)) in (26_891..).zip(fleets) {
        let file = blocks(fabric, folder);
        assert_eq!(file.contains("BlockName=nvl-"), folder.is_some(), "{file}");
        assert_accepted(&Start::new("block", file, port));
        if version() >= WITH_YAML {
            let yaml = export(directory.path(), fabric, "slurm-yaml", folder);
            let mut start = Start::new("flat", yaml, port + 10);
            start.file.0 = "topology.yaml";
            assert_accepted(&start);
        }
    }
    // The controller refuses sizes that do not double, and names a node that is in no block.
    let file = blocks(FABRICS[1], None).replace("BlockSizes=32,64", "BlockSizes=32,96");
    let (text, started) = Start::new("block", file, 26_912).log();
    assert!(!started && text.contains("Invalid BlockSizes"), "{text}");
    let mut start = Start::new("block", blocks(FABRICS[0], None), 26_913);
    start.others = &["login-1"];
    let (text, _) = start.log();
    assert!(text.contains("lack access to 1 nodes: login-1"), "{text}");
}

//! The tiers of switches in the files for schedulers: each format is read by its own rules, and must
//! have the groups of hosts that the cables of the fabric make.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{FleetFaults, fleet};
use rsm_gdr::render::{EXPORTERS, ExportOptions, NcclVersion};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::generate::generate;
use rsm_routing::topology::{SwitchIdx, Topology};

use crate::cases::of_type;
use crate::schedulers::unfold;

/// The groups of hosts of one tier.
type Groups = BTreeSet<BTreeSet<String>>;

/// The groups of hosts by tier, the smallest first.
type Tiers = Vec<Groups>;

/// The groups of hosts of each tier, from pairs of a tier and a group's name with a host in it.
fn collected(members: impl Iterator<Item = ((usize, String), String)>) -> Tiers {
    let mut by_name: BTreeMap<(usize, String), BTreeSet<String>> = BTreeMap::new();
    for (group, host) in members {
        by_name.entry(group).or_default().insert(host);
    }
    let mut tiers = Tiers::new();
    for ((tier, _), hosts) in by_name {
        tiers.resize(tiers.len().max(tier + 1), Groups::new());
        tiers[tier].insert(hosts);
    }
    tiers
}

/// The tiers of a tree: the hosts of each switch of the lowest tier, and the switches below each
/// other switch.
fn of_tree(
    nodes: &BTreeMap<String, BTreeSet<String>>,
    children: &BTreeMap<String, Vec<String>>,
) -> Tiers {
    let mut members = Vec::new();
    for (switch, hosts) in nodes {
        let (mut at, mut tier) = (switch, 0);
        loop {
            let group = (tier, at.clone());
            members.extend(hosts.iter().map(|host| (group.clone(), host.clone())));
            match children.iter().find(|(_, below)| below.contains(at)) {
                Some((above, _)) => (at, tier) = (above, tier + 1),
                None => break,
            }
        }
    }
    collected(members.into_iter())
}

/// The tiers of Slurm's tree, from the name of each switch with the list of nodes or of switches
/// below it. `is_nodes` states which one it is.
fn of_slurm<'a>(switches: impl Iterator<Item = (&'a str, bool, &'a str)>) -> Tiers {
    let (mut nodes, mut children) = (BTreeMap::new(), BTreeMap::new());
    for (name, is_nodes, list) in switches {
        let name = name.to_owned();
        match is_nodes {
            true => drop(nodes.insert(name, unfold(list).into_iter().collect())),
            false => drop(children.insert(name, list.split(',').map(str::to_owned).collect())),
        }
    }
    of_tree(&nodes, &children)
}

/// The tiers of `topology.conf`.
fn of_conf(text: &str) -> Tiers {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    of_slurm(lines.map(|line| {
        let (name, list) = line.split_once(' ').expect("two fields");
        let (kind, list) = list.split_once('=').expect("a field");
        let name = name.strip_prefix("SwitchName=").expect("a switch");
        (name, kind == "Nodes", list)
    }))
}

/// The tiers of the tree of `topology.yaml`.
fn of_yaml(text: &str) -> Tiers {
    let (tree, _) = text
        .split_once("- topology: blocks")
        .expect("two topologies");
    let switches = tree.split("- switch: ").skip(1);
    of_slurm(switches.map(|switch| {
        let (name, rest) = switch.split_once('\n').expect("a list below");
        let (kind, list) = rest.trim().split_once(": ").expect("a field");
        (name, kind == "nodes", list.trim_matches('"'))
    }))
}

/// The tiers of topograph's graph.
fn of_graph(text: &str) -> Tiers {
    let graph: serde_json::Value = serde_json::from_str(text).expect("valid JSON");
    let instances = graph["instances"]
        .as_array()
        .expect("an array of instances")
        .iter();
    collected(instances.flat_map(|instance| {
        let host = instance["id"].as_str().expect("a name");
        let layers = instance["network_layers"]
            .as_array()
            .expect("an array of network layers");
        let name = |layer: &serde_json::Value| layer.as_str().expect("a name").to_owned();
        let layers: Vec<String> = layers.iter().map(name).collect();
        layers
            .into_iter()
            .enumerate()
            .map(move |group| (group, host.to_owned()))
    }))
}

/// The tiers of Kubernetes' labels, in commands.
fn of_labels(text: &str) -> Tiers {
    collected(text.lines().flat_map(|line| {
        let command = line.strip_prefix("kubectl label node --overwrite ");
        let (host, labels) = command.and_then(|rest| rest.split_once(' ')).expect(line);
        labels.split(' ').filter_map(move |label| {
            let (key, value) = label.split_once('=').expect("a label");
            let tier = key.strip_prefix("fabric.topograph.run/tier-")?;
            let group = (tier.parse().expect("a number"), value.to_owned());
            Some((group, host.to_owned()))
        })
    }))
}

/// The tiers of Volcano's HyperNodes; their names must be those that jobs use.
fn of_hypernodes(text: &str) -> Tiers {
    let (mut nodes, mut children) = (BTreeMap::new(), BTreeMap::new());
    for hypernode in text.split("---\n") {
        let value = |key: &str| {
            let mut lines = hypernode.lines().map(str::trim);
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            value.expect(key)
        };
        let members = hypernode
            .lines()
            .map(str::trim)
            .skip_while(|line| *line != "members:")
            .filter_map(|line| line.strip_prefix("name: "))
            .map(|name| name.trim_matches('"').to_owned());
        let name = value("name").to_owned();
        let expected = ["unit", "pod", "fabric"];
        let tier: usize = value("tier").parse().expect("a number");
        assert_eq!(value("tierName"), expected[tier - 1], "{hypernode}");
        match hypernode.contains("- type: Node\n") {
            true => drop(nodes.insert(name, members.collect())),
            false => drop(children.insert(name, members.collect())),
        }
    }
    of_tree(&nodes, &children)
}

/// The tiers of the devices of ResourceSlices.
fn of_slices(text: &str) -> Tiers {
    collected(text.split("---\n").skip(1).flat_map(|slice| {
        let (_, rest) = slice.split_once("nodeName: \"").expect("a node");
        let (host, devices) = rest.split_once('"').expect("a closing quote");
        let keys = ["unit", "pod", "fabric"].into_iter().enumerate();
        keys.flat_map(move |(tier, key)| {
            let key = format!("fabric.topograph.run/{key}: {{string: \"");
            let values = devices.split(&key).skip(1).collect::<Vec<&str>>();
            let value = move |value: &str| {
                let (name, _) = value.split_once('"').expect("the end of a name");
                ((tier, name.to_owned()), host.to_owned())
            };
            values.into_iter().map(value).collect::<Vec<_>>()
        })
    }))
}

/// The blocks of a file for Slurm in its order.
fn blocks(text: &str) -> Vec<BTreeSet<String>> {
    let lists = text.lines().filter_map(|line| line.split_once(" Nodes="));
    lists
        .map(|(_, list)| unfold(list).into_iter().collect())
        .collect()
}

/// Asserts that each format for schedulers has exactly the groups of `expected`. Blocks have no
/// tiers: the blocks of a group must follow each other, because Slurm joins blocks in their order.
fn assert_tiers(analysis: &Analysis, expected: &Tiers) {
    let options = ExportOptions {
        host: String::new(),
        nccl: NcclVersion::RAILS,
        label_domain: ExportOptions::LABEL_DOMAIN.to_owned(),
    };
    for format in EXPORTERS.iter().filter(|format| !format.of_host) {
        let text = format
            .render(analysis, &options)
            .expect("hosts in the fabric");
        let found = match format.name {
            "slurm-tree" => of_conf(&text),
            "slurm-yaml" => of_yaml(&text),
            "topograph" => of_graph(&text),
            "kubernetes" => of_labels(&text),
            "volcano" => of_hypernodes(&text),
            "dra" => of_slices(&text),
            "slurm-block" => {
                let blocks = blocks(&text);
                assert_eq!(blocks.iter().cloned().collect::<Groups>(), expected[0]);
                for group in expected.iter().flatten() {
                    let is_in = |block: &BTreeSet<String>| block.is_subset(group);
                    let runs = blocks
                        .chunk_by(|one, next| is_in(one) == is_in(next))
                        .filter(|run| is_in(&run[0]));
                    assert_eq!(runs.count(), 1, "{group:?}: {text}");
                }
                continue;
            }
            // Prometheus' file is for no scheduler.
            "metrics" => continue,
            other => panic!("no reader for {other}"),
        };
        assert_eq!(&found, expected, "{}: {text}", format.name);
    }
}

/// The groups of hosts with one value of `key`, which maps the leaf of a host's first port to it.
fn grouped<K: Ord>(analysis: &Analysis, key: impl Fn(&GpuFabric, SwitchIdx) -> K) -> Groups {
    let fabric = analysis.fabric.as_ref().expect("a fabric");
    let mut groups: BTreeMap<K, BTreeSet<String>> = BTreeMap::new();
    for host in &analysis.hosts {
        let port = host.joined.iter().find_map(|joined| joined.port());
        let leaf = fabric.port(port.expect("a joined port")).leaf;
        let hosts = groups.entry(key(fabric, leaf)).or_default();
        hosts.insert(host.name.clone());
    }
    groups.into_values().collect()
}

/// The switches beside a switch, by the cables of the fabric.
fn beside(fabric: &GpuFabric, switch: SwitchIdx) -> BTreeSet<SwitchIdx> {
    let groups = fabric.topology.groups(switch);
    groups.map(|group| group.neighbour).collect()
}

#[test]
fn every_format_for_schedulers_has_the_units_pods_and_top_of_generated_fabrics() {
    // Hosts with one GPU, whose units are the leaves; hosts with eight GPUs, whose units are eight
    // leaves each.
    for (spec, units, pods) in [
        ("pgft:3;4,2,3;1,2,2;1,1,1", 6, 3),
        ("superpod:su=16", 16, 4),
    ] {
        let netlist = generate(spec).expect("a generator");
        let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
        let topology = Arc::new(Topology::from_netlist(&fleet.netlist).expect("LIDs suffice"));
        let fabric = GpuFabric::from_netlist(&fleet.netlist, topology, None, 4096);
        let config = AnalysisConfig::default();
        let analysis = Analysis::new(&fleet.inventory, Some(fabric), config);
        let unit = |_: &GpuFabric, leaf: SwitchIdx| leaf;
        let expected = vec![
            grouped(&analysis, unit),
            grouped(&analysis, |fabric, leaf| {
                // The leaves of a pod have the same switches above them, of which none is a leaf.
                beside(fabric, leaf)
            }),
            grouped(&analysis, |_, _| ()),
        ];
        let sizes: Vec<usize> = expected.iter().map(BTreeSet::len).collect();
        assert_eq!(sizes, [units, pods, 1], "{spec}");
        assert_tiers(&analysis, &expected);
    }
}

#[test]
fn every_format_for_schedulers_has_the_units_pods_and_top_of_a_three_tier_site() {
    let Some(analysis) = of_type("3tier.net", "h200.matrix") else {
        return;
    };
    // In names such as `p3u0l7`, `u` ends the pod, and `l` ends the unit.
    let by_name = |end: char| {
        grouped(&analysis, |fabric, leaf| {
            let name = fabric.switch_name(leaf);
            let (name, _) = name.split_once(end).expect("pods and units in names");
            name.to_owned()
        })
    };
    let expected = vec![by_name('l'), by_name('u'), grouped(&analysis, |_, _| ())];
    let sizes: Vec<usize> = expected.iter().map(BTreeSet::len).collect();
    assert_eq!(sizes, [16, 4, 1]);
    assert_tiers(&analysis, &expected);
}

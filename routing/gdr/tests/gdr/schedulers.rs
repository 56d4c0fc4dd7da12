//! Tests of the files for schedulers (Slurm, Kubernetes, Volcano, topograph, DRA) and of peer maps:
//! names are stable as a fabric changes, and each reader's own rules accept the files.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{FleetFaults, fleet, with_servers};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::{HostInventory, NvLinkDomain, Tier};
use rsm_gdr::render::{ExportOptions, Exporter, NcclVersion};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

/// The file in `format` for all hosts.
fn export(netlist: &Netlist, inventory: &GpuInventory, format: &str) -> String {
    export_of("", netlist, inventory, format)
}

/// The file in `format` for `host`, or for all hosts if the name is empty.
fn export_of(host: &str, netlist: &Netlist, inventory: &GpuInventory, format: &str) -> String {
    let topology = Arc::new(Topology::from_netlist(netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(netlist, topology, None, 4096);
    let analysis = Analysis::new(inventory, Some(fabric), AnalysisConfig::default());
    let options = ExportOptions {
        host: host.to_owned(),
        nccl: NcclVersion::RAILS,
        label_domain: ExportOptions::LABEL_DOMAIN.to_owned(),
    };
    let exporter = Exporter::named(format).expect("a format");
    exporter
        .render(&analysis, &options)
        .expect("hosts in the fabric")
}

/// The switches of a Slurm tree that have nodes: pairs of `SwitchName=…` and the folded list of
/// nodes.
fn switches(tree: &str) -> BTreeSet<(String, String)> {
    let line = |line: &str| {
        let (switch, nodes) = line.split_once(" Nodes=")?;
        Some((switch.to_owned(), nodes.to_owned()))
    };
    tree.lines().filter_map(line).collect()
}

#[test]
fn units_keep_their_names_when_hosts_and_leaves_of_another_are_removed() {
    let netlist = generate("superpod:su=3").expect("a published fabric");
    let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let before = switches(&export(&fleet.netlist, &fleet.inventory, "slurm-tree"));
    assert_eq!(before.len(), 3);
    let all = fleet.netlist.clone();
    let (nodes, mut cables) = fleet.netlist.into_parts();
    let gone: Vec<bool> = nodes
        .iter()
        .map(|node| {
            let name = node.name();
            let number = name
                .strip_prefix("host-")
                .and_then(|rest| rest.get(..3)?.parse().ok());
            number.is_some_and(|number: u32| number <= 32)
        })
        .collect();
    assert_eq!(gone.iter().filter(|&&gone| gone).count(), 32 * 8);
    cables.retain(|cable| !gone[cable.a.0] && !gone[cable.b.0]);
    let netlist = Netlist::new(nodes, cables).expect("fewer cables");
    let after = switches(&export(&netlist, &fleet.inventory, "slurm-tree"));
    assert_eq!(after.len(), 2);
    assert!(after.is_subset(&before), "{before:?} {after:?}");
    let labels = export(&netlist, &fleet.inventory, "kubernetes");
    for (switch, _) in after {
        let unit = switch.trim_start_matches("SwitchName=");
        assert!(
            labels.contains(&format!("tier-0={unit} ")),
            "{unit}: {labels}"
        );
    }
    // `netlist` lacks the hosts of unit 1, and `bare` also lacks its leaves.
    let leaf = |name: &str| name.starts_with("MF0;su-01-leaf");
    let without_leaves: Vec<bool> = node_names(&all).map(|name| leaf(&name)).collect();
    assert_eq!(without_leaves.iter().filter(|&&gone| gone).count(), 8);
    let (nodes, mut cables) = netlist.clone().into_parts();
    cables.retain(|cable| !without_leaves[cable.a.0] && !without_leaves[cable.b.0]);
    let bare = Netlist::new(nodes, cables).expect("fewer cables");
    for fewer in [&netlist, &bare] {
        for format in ["kubernetes", "volcano", "topograph", "slurm-tree"] {
            let text_before = export(&all, &fleet.inventory, format);
            let before: BTreeSet<&str> = text_before
                .lines()
                .map(|line| line.trim_end_matches(','))
                .collect();
            let after = export(fewer, &fleet.inventory, format);
            for line in after.lines().filter(|line| !line.contains(" Switches=")) {
                assert!(
                    before.contains(line.trim_end_matches(',')),
                    "{format}: {line}"
                );
            }
        }
        let top = |netlist| {
            let tree = export(netlist, &fleet.inventory, "slurm-tree");
            let line = tree.lines().find(|line| line.contains(" Switches="));
            let name = line.and_then(|line| line.split(' ').next());
            name.expect("a switch above the units").to_owned()
        };
        assert_eq!(top(fewer), top(&all));
    }
}

fn node_names(netlist: &Netlist) -> impl Iterator<Item = String> {
    let (nodes, _) = netlist.clone().into_parts();
    nodes.into_iter().map(|node| node.name())
}

#[test]
fn slurm_lists_hosts_without_gpus_and_kubernetes_labels_do_not() {
    let netlist = generate("superpod:su=2").expect("a published fabric");
    let netlist = with_servers(netlist, 4, 32).expect("only names differ");
    let mut fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let servers: Vec<String> = (fleet.inventory.hosts().keys())
        .filter(|name| name.starts_with("store-"))
        .cloned()
        .collect();
    for server in &servers {
        assert!(fleet.inventory.remove(server));
    }
    let tree = export(&fleet.netlist, &fleet.inventory, "slurm-tree");
    // Eight adapters of each of four hosts in two units are servers of their own; the lists fold
    // their numbers.
    let lists: Vec<(String, String)> = switches(&tree).into_iter().collect();
    let named = |list: &str| {
        let folded: Vec<&str> = list.split(',').collect();
        folded.iter().any(|name| name.starts_with("store-"))
    };
    assert_eq!(lists.len(), 2, "{tree}");
    for (switch, list) in &lists {
        assert!(named(list) && list.contains("host-["), "{switch}: {list}");
    }
    let yaml = export(&fleet.netlist, &fleet.inventory, "slurm-yaml");
    assert!(yaml.contains("store-"), "{yaml}");
    // Kubernetes knows no node of such a name.
    let labels = export(&fleet.netlist, &fleet.inventory, "kubernetes");
    assert!(!labels.contains("store-"), "{labels}");
}

#[test]
fn peer_map_has_the_ports_at_both_ends_and_the_gpu_on_the_same_rail() {
    let netlist = generate("superpod:su=2").expect("a published fabric");
    let mut fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let name = "host-040";
    // The adapters of one host have other names, and one of its GPUs is gone.
    let mut host = HostInventory::clone(&fleet.inventory.hosts()[name].inventory);
    for (place, port) in host.hca_ports.iter_mut().enumerate() {
        port.device = Some(format!("ibp{}s0", 10 + place));
    }
    host.remove_gpu(7);
    fleet.inventory.insert(name, host, 0).expect("a plain host");
    let map = export_of("host-001", &fleet.netlist, &fleet.inventory, "peers");
    let lines: Vec<Vec<&str>> = map
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 63 * 8 - 1);
    for line in &lines {
        let gpu: usize = line[1].parse().expect("an index");
        let there = match line[0] {
            "host-040" => format!("ibp{}s0:1", 10 + gpu),
            _ => format!("mlx5_{gpu}:1"),
        };
        assert_eq!(
            line[2..],
            [&format!("mlx5_{gpu}:1"), &there, "yes", line[1]],
            "{line:?}"
        );
    }
    assert!(!lines.iter().any(|line| line[0] == "host-001"));
    // In the map of host-040, the columns of the two ports are swapped.
    let back = export_of(name, &fleet.netlist, &fleet.inventory, "peers");
    assert!(
        back.contains("host-001\t3\tibp13s0:1\tmlx5_3:1\tyes\t3\n"),
        "{back}"
    );
}

#[test]
fn peer_map_names_the_gpu_on_the_same_rail_of_a_host_with_reversed_gpus() {
    let netlist = generate("superpod:su=1").expect("a published fabric");
    let mut fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let mut host = HostInventory::clone(&fleet.inventory.hosts()["host-020"].inventory);
    let ports = host.hca_ports.len();
    // GPU k of this host has the place of GPU 7 - k in the other hosts.
    let rows: Vec<_> = host.tiers.chunks(ports).rev().flatten().copied().collect();
    host.tiers = rows;
    let mut places: Vec<_> = host.gpus.iter().map(|gpu| (gpu.pci, gpu.numa)).collect();
    places.reverse();
    for (gpu, place) in host.gpus.iter_mut().zip(places) {
        (gpu.pci, gpu.numa) = place;
    }
    fleet
        .inventory
        .insert("host-020", host, 0)
        .expect("a plain host");
    let map = export_of("host-001", &fleet.netlist, &fleet.inventory, "peers");
    for gpu in 0..8 {
        let line = format!(
            "host-020\t{gpu}\tmlx5_{gpu}:1\tmlx5_{0}:1\tno\t{0}\n",
            7 - gpu
        );
        assert!(map.contains(&line), "{line}: {map}");
        let line = format!("host-021\t{gpu}\tmlx5_{gpu}:1\tmlx5_{gpu}:1\tyes\t{gpu}\n");
        assert!(map.contains(&line), "{line}");
    }
}

/// Reads a block file by the rules of Slurm's own reader (`block_record.c`): the number of nodes in
/// each block, and the block sizes.
///
/// # Errors
/// A block or a node appears twice, a block has fewer nodes than the first size, or a size is not
/// the first one times a power of two up to 2¹⁵.
fn slurm_reads_blocks(file: &str) -> Result<(Vec<usize>, Vec<usize>), String> {
    let (mut names, mut nodes, mut counts) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    let mut sizes: Vec<usize> = Vec::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        if let Some(list) = line.strip_prefix("BlockSizes=") {
            for size in list.split(',') {
                sizes.push(size.parse().map_err(|_| format!("size {size}"))?);
            }
            continue;
        }
        let (name, list) = line
            .strip_prefix("BlockName=")
            .and_then(|rest| rest.split_once(" Nodes="))
            .ok_or_else(|| format!("line {line}"))?;
        if !names.insert(name.to_owned()) {
            return Err(format!("block {name} twice"));
        }
        let hosts = unfold(list);
        counts.push(hosts.len());
        for host in hosts {
            if !nodes.insert(host.clone()) {
                return Err(format!("node {host} twice"));
            }
        }
    }
    let &base = sizes.first().ok_or("no sizes")?;
    for &size in &sizes {
        let times = size / base.max(1);
        if base == 0 || size % base != 0 || !times.is_power_of_two() || times > 1 << 15 {
            return Err(format!("invalid BlockSizes {sizes:?}"));
        }
    }
    if let Some(small) = counts.iter().find(|&&count| count < base) {
        return Err(format!("a block of {small} below {base}"));
    }
    Ok((counts, sizes))
}

/// The names of a folded list such as `n[000-003,016],n020`, in the order of the list.
pub(crate) fn unfold(list: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let end = match (rest.find('['), rest.find(',')) {
            (Some(open), comma) if comma.is_none_or(|comma| open < comma) => {
                rest.find(']').map_or(rest.len(), |close| close + 1)
            }
            (_, comma) => comma.unwrap_or(rest.len()),
        };
        let (item, after) = rest.split_at(end);
        match item.split_once('[') {
            None => out.push(item.to_owned()),
            Some((stem, numbers)) => {
                for run in numbers.trim_end_matches(']').split(',') {
                    let (first, last) = run.split_once('-').unwrap_or((run, run));
                    let number = |text: &str| text.parse::<usize>().expect("a number");
                    let width = first.len();
                    let names = number(first)..=number(last);
                    out.extend(names.map(|number| format!("{stem}{number:0width$}")));
                }
            }
        }
        rest = after.trim_start_matches(',');
    }
    out
}

/// A fleet of `units` units. `domain` maps the position of a host to the clique of its NVLink
/// domain, or to `None` if the host has no domain.
fn with_domains(units: usize, domain: impl Fn(usize) -> Option<u32>) -> (Netlist, GpuInventory) {
    let netlist = generate(&format!("superpod:su={units}")).expect("a published fabric");
    let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let mut inventory = GpuInventory::new();
    for (place, (name, record)) in fleet.inventory.hosts().iter().enumerate() {
        let mut host = HostInventory::clone(&record.inventory);
        host.domain = domain(place).map(|clique_id| NvLinkDomain {
            cluster_uuid: "3f1a7c1e-0000-4000-8000-00000000beef".to_owned(),
            clique_id,
        });
        inventory.insert(name, host, 0).expect("a plain host");
    }
    (fleet.netlist, inventory)
}

#[test]
fn slurm_accepts_the_block_sizes_and_every_gpu_host_is_in_one_block() {
    let blocks = |units, domain: &dyn Fn(usize) -> Option<u32>| {
        let (netlist, inventory) = with_domains(units, domain);
        let file = export(&netlist, &inventory, "slurm-block");
        let (counts, sizes) =
            slurm_reads_blocks(&file).unwrap_or_else(|error| panic!("{error}: {file}"));
        assert_eq!(
            counts.iter().sum::<usize>(),
            inventory.hosts().len(),
            "{file}"
        );
        (counts, sizes, file)
    };
    // Units of 32 hosts without NVLink between them.
    assert_eq!(blocks(1, &|_| None).1, [32]);
    assert_eq!(blocks(3, &|_| None).1, [32, 64]);
    assert_eq!(blocks(4, &|_| None).1, [32, 64, 128]);
    // Racks of 16 hosts; racks of 18 with a smaller last one; one rack of 30 hosts, and 34 hosts
    // without a rack.
    assert_eq!(blocks(2, &|place| Some(place as u32 / 16)).1, [16, 32, 64]);
    let (counts, sizes, file) = blocks(2, &|place| Some(place as u32 / 18));
    assert_eq!((counts, sizes), (vec![18, 18, 18, 10], vec![10, 20, 40]));
    assert!(!file.contains(" hosts where"), "{file}");
    let (counts, sizes, file) = blocks(2, &|place| (place < 30).then_some(0));
    assert_eq!((counts, sizes), (vec![30, 2, 32], vec![2, 4]));
    assert!(file.contains("has 2 hosts where others have 30"), "{file}");
    // Cliques are in numerical order, so that neighbours in the file are neighbours in the fabric.
    let (_, _, file) = blocks(2, &|place| Some(place as u32 / 4));
    let names: Vec<&str> = file
        .lines()
        .filter_map(|line| line.strip_prefix("BlockName="))
        .collect();
    assert!(names[2].starts_with("nvl-3f1a7c1e-2 ") && names[10].starts_with("nvl-3f1a7c1e-10 "));
}

#[test]
fn block_reader_of_these_tests_refuses_invalid_sizes_and_duplicates() {
    let file = |sizes: &str| {
        format!("BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[5-8]\nBlockSizes={sizes}\n")
    };
    assert!(slurm_reads_blocks(&file("4,8")).is_ok());
    for bad in ["5", "4,12", "4,6", "0", "x"] {
        assert!(slurm_reads_blocks(&file(bad)).is_err(), "{bad}");
    }
    assert!(
        slurm_reads_blocks("BlockName=a Nodes=n1\nBlockName=a Nodes=n2\nBlockSizes=1\n").is_err()
    );
    assert!(
        slurm_reads_blocks("BlockName=a Nodes=n1\nBlockName=b Nodes=n1\nBlockSizes=1\n").is_err()
    );
}

#[test]
fn block_reader_of_these_tests_accepts_a_file_of_topograph() {
    let Some(data) = crate::samples::samples() else {
        return;
    };
    let path = data.join("topograph/tests_ci_expected.slinky-dra-block.conf");
    let file = std::fs::read_to_string(path).expect("a sample");
    let (counts, sizes) = slurm_reads_blocks(&file).expect("Slurm takes it");
    assert_eq!((counts, sizes), (vec![8; 12], vec![8, 16, 32]));
}

#[test]
fn dra_slice_pairs_each_gpu_with_one_port() {
    let netlist = generate("superpod:su=1").expect("a published fabric");
    let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let file = export(&fleet.netlist, &fleet.inventory, "dra");
    let slices: Vec<&str> = file.split("---\n").skip(1).collect();
    assert_eq!(slices.len(), 32);
    for slice in slices {
        let devices: Vec<&str> = slice.split("    - name: ").skip(1).collect();
        assert_eq!(devices.len(), 16);
        let pair = |device: &&str| {
            let line = device.lines().find(|line| line.contains("/pair: "));
            line.expect("a pair").to_owned()
        };
        let (gpus, ports) = devices.split_at(8);
        for (gpu, port) in gpus.iter().zip(ports) {
            assert_eq!(pair(gpu), pair(port));
            assert!(port.contains("/leaf: {string: \"0x"), "{port}");
            assert!(port.contains("resource.kubernetes.io/pciBusID: {string: \"0000:"));
        }
        for line in slice
            .lines()
            .filter(|line| line.contains("fabric.topograph.run/"))
        {
            let name = line
                .split('/')
                .nth(1)
                .and_then(|rest| rest.split(':').next());
            assert!(
                name.is_some_and(|name| (1..=32).contains(&name.len())),
                "{line}"
            );
        }
    }
}

#[test]
fn dra_slice_pairs_a_gpu_with_both_of_its_ports() {
    let netlist = generate("superpod:su=1").expect("a published fabric");
    let mut fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let names: Vec<String> = fleet.inventory.hosts().keys().cloned().collect();
    for name in &names {
        let mut host = HostInventory::clone(&fleet.inventory.hosts()[name].inventory);
        for gpu in [7, 5, 3, 1] {
            host.remove_gpu(gpu);
        }
        let ports = host.hca_ports.len();
        for (place, tier) in host.tiers.iter_mut().enumerate() {
            *tier = Some(match place % ports / 2 == place / ports {
                true => Tier::Pix,
                false => Tier::Sys,
            });
        }
        fleet.inventory.insert(name, host, 0).expect("a plain host");
    }
    let file = export(&fleet.netlist, &fleet.inventory, "dra");
    let slice = file.split("---\n").nth(1).expect("a slice");
    let mut pairs: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    let devices = slice.split("    - name: ").skip(1);
    let mut by_pair: std::collections::BTreeMap<&str, Vec<&str>> = Default::default();
    for device in devices {
        let name = device.lines().next().expect("a name");
        let pair = device.split("/pair: ").nth(1).expect("a pair");
        by_pair
            .entry(pair.lines().next().expect("a line"))
            .or_default()
            .push(name);
    }
    for members in by_pair.into_values() {
        pairs.push(
            members
                .into_iter()
                .partition(|name| name.starts_with("gpu-")),
        );
    }
    assert_eq!(pairs.len(), 4);
    assert!(
        pairs
            .iter()
            .all(|(gpus, ports)| (gpus.len(), ports.len()) == (1, 2)),
        "{pairs:?}"
    );
}

#[test]
fn nvlink_domains_are_in_every_format_with_blocks() {
    // Racks of eight hosts; the last hosts of each unit of 32 have no domain.
    let (netlist, inventory) = with_domains(2, |place| {
        let rack = place % 32 / 8;
        (rack < 3).then_some((place / 8) as u32)
    });
    let file = |format| export(&netlist, &inventory, format);
    for format in ["slurm-block", "slurm-yaml"] {
        let text = file(format);
        let blocks = text.matches(match format {
            "slurm-block" => "BlockName=nvl-",
            _ => "- block: nvl-",
        });
        assert_eq!(blocks.count(), 6, "{format}: {text}");
    }
    for format in ["topograph", "kubernetes"] {
        let labelled = file(format).matches("nvidia.com/gpu.clique").count();
        assert_eq!(labelled, 48, "{format}");
    }
    let volcano = file("volcano");
    let of_tier = |tier: &str| volcano.matches(&format!("tierName: {tier}\n")).count();
    assert_eq!(of_tier("nvlink-domain"), 8, "{volcano}");
    assert_eq!((of_tier("unit"), of_tier("fabric")), (2, 1), "{volcano}");
    // Each host is in one HyperNode, and each HyperNode but the highest in one other.
    assert_eq!(volcano.matches("type: Node\n").count(), 64);
    assert_eq!(volcano.matches("type: HyperNode\n").count(), 8 + 2);
    assert_eq!(volcano.matches("kind: HyperNode\n").count(), 8 + 2 + 1);
    let tiers: BTreeSet<&str> = (volcano.lines())
        .filter_map(|line| line.trim().strip_prefix("tier: "))
        .collect();
    assert_eq!(tiers, BTreeSet::from(["1", "2", "3"]));
}

#[test]
fn domain_of_two_units_has_a_part_in_each_of_volcanos_units() {
    let (netlist, inventory) = with_domains(2, |place| (20..40).contains(&place).then_some(7));
    let volcano = export(&netlist, &inventory, "volcano");
    let names: BTreeSet<&str> = (volcano.lines())
        .filter_map(|line| line.strip_prefix("  name: "))
        .collect();
    let parts = names.iter().filter(|name| name.starts_with("nvl-"));
    assert_eq!(parts.count(), 2, "{volcano}");
    assert_eq!(volcano.matches("type: Node\n").count(), 64);
}

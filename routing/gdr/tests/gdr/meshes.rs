//! Tests of findings about lost links between GPUs that are cabled to each other.

use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::findings::{GpuFinding, GpuFindingKind};
use rsm_gdr::generate::FleetFaults;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{InventoryFormat, import};
use rsm_gdr::inventory::{Gpu, HostInventory, InventorySource, LinkFamily, NvLink};
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::topology::Topology;

use crate::faults::{World, fabric};
use crate::import::read;
use crate::samples::{every_sample, samples};
use crate::table::findings;

/// The cables of a DGX-1 with V100: six links of each GPU to four others.
const CUBE: [(u16, u16, u8); 16] = [
    (0, 1, 1),
    (0, 2, 1),
    (0, 3, 2),
    (0, 4, 2),
    (1, 2, 2),
    (1, 3, 1),
    (1, 5, 2),
    (2, 3, 2),
    (2, 6, 1),
    (3, 7, 1),
    (4, 5, 1),
    (4, 6, 1),
    (4, 7, 2),
    (5, 6, 2),
    (5, 7, 1),
    (6, 7, 2),
];

/// The dies of AMD's cards: four links within a card, one to some others.
const DIES: [(u16, u16, u8); 12] = [
    (0, 1, 4),
    (0, 2, 1),
    (0, 6, 2),
    (1, 3, 2),
    (1, 5, 1),
    (2, 3, 4),
    (2, 4, 2),
    (3, 7, 1),
    (4, 5, 4),
    (4, 6, 1),
    (5, 7, 2),
    (6, 7, 4),
];

/// Replaces a host's links: each is two GPUs and the number of links between them.
fn cabled(host: &mut HostInventory, links: &[(u16, u16, u8)]) {
    let link = |&(a, b, links): &(u16, u16, u8)| NvLink { a, b, links };
    host.nvlinks = links.iter().map(link).collect();
    host.nvlinks_known = true;
    host.gpus.iter_mut().for_each(|gpu| gpu.switch_links = None);
}

/// A full mesh: every pair of these GPUs, with `links` links.
fn all_of(gpus: std::ops::Range<u16>, links: u8) -> Vec<(u16, u16, u8)> {
    let with = |a| (a + 1..gpus.end).map(move |b| (a, b, links));
    gpus.clone().flat_map(with).collect()
}

/// The links of all pairs that `gpu` is not part of.
fn without(links: &[(u16, u16, u8)], gpu: u16) -> Vec<(u16, u16, u8)> {
    let kept = links.iter().filter(|link| link.0 != gpu && link.1 != gpu);
    kept.copied().collect()
}

/// The GPUs and the evidence of each finding about lost links.
fn degraded(all: &[GpuFinding]) -> Vec<(Vec<u16>, &str)> {
    let links = |finding: &&GpuFinding| finding.kind == GpuFindingKind::NvLinkDegraded;
    let gpus = |finding: &'_ GpuFinding| finding.gpus.clone();
    let all = all.iter().filter(links);
    all.map(|finding| (gpus(finding), finding.evidence.as_str()))
        .collect()
}

/// The findings about a host without peers and without a fabric.
fn alone(host: HostInventory) -> Vec<GpuFinding> {
    let mut inventory = GpuInventory::new();
    inventory.insert("host", host, 0).expect("a valid host");
    Analysis::new(&inventory, None, AnalysisConfig::default()).findings
}

/// A host with GPUs and links, and without adapters.
fn of_gpus(gpus: u16, family: LinkFamily, links: &[(u16, u16, u8)]) -> HostInventory {
    let mut host = HostInventory::empty(InventorySource::NvidiaSmi);
    let gpu = |index| Gpu {
        index,
        ..Gpu::default()
    };
    host.gpus = (0..gpus).map(gpu).collect();
    host.link_family = family;
    cabled(&mut host, links);
    host
}

const NVLINK: LinkFamily = LinkFamily::NvLink { generation: None };

#[test]
fn a_gpu_without_links_is_blamed_and_its_neighbours_are_not() {
    let found = |gpus, links: &[(u16, u16, u8)]| {
        let all = alone(of_gpus(gpus, NVLINK, links));
        let all = degraded(&all).into_iter();
        all.map(|(gpus, text)| (gpus, text.to_owned()))
            .collect::<Vec<_>>()
    };
    let only = |gpus: &[u16], text: &str| vec![(gpus.to_vec(), text.to_owned())];
    assert_eq!(found(8, &CUBE), []);
    for gpu in 0..8 {
        let text = format!("GPU{gpu} has 0 of 6 links");
        assert_eq!(found(8, &without(&CUBE, gpu)), only(&[gpu], &text));
    }
    let both = without(&without(&CUBE, 0), 3);
    assert_eq!(
        found(8, &both),
        only(&[0, 3], "GPU0 has 0 of 6 links, GPU3 has 0 of 6 links")
    );
    // A single lost cable blames the GPUs at both ends; two cables of one GPU blame that GPU.
    let mut cable = CUBE.to_vec();
    cable[3].2 = 1;
    assert_eq!(
        found(8, &cable),
        only(&[0, 4], "GPU0 has 5 of 6 links, GPU4 has 5 of 6 links")
    );
    cable[0].2 = 0;
    cable.remove(0);
    assert_eq!(found(8, &cable), only(&[0], "GPU0 has 4 of 6 links"));
    // In a full mesh each other GPU has lost its links to the blamed GPU.
    let mesh = all_of(0..4, 4);
    assert_eq!(found(4, &mesh), []);
    for gpu in 0..4 {
        let text = format!("GPU{gpu} has 0 of 12 links");
        assert_eq!(found(4, &without(&mesh, gpu)), only(&[gpu], &text));
    }
}

#[test]
fn gpus_that_have_no_nvlink_bridge_are_not_reported() {
    let found = |gpus, links: &[(u16, u16, u8)]| alone(of_gpus(gpus, NVLINK, links)).len();
    let pairs = [(0, 1, 12), (2, 3, 12)];
    assert_eq!(found(4, &pairs[..1]), 0);
    assert_eq!(found(4, &pairs), 0);
    assert_eq!(found(6, &pairs), 0);
    // Four of eight GPUs have a bridge; then two of three.
    assert_eq!(found(8, &all_of(0..4, 6)), 0);
    assert_eq!(found(3, &pairs[..1]), 0);
    // A bridge that has lost a link is reported, and the GPUs without a bridge are not.
    let all = alone(of_gpus(8, NVLINK, &[(0, 1, 12), (2, 3, 11)]));
    assert_eq!(degraded(&all)[0].0, [2, 3]);
    assert_eq!(all.len(), 1);
}

#[test]
fn a_lost_xgmi_link_is_found_in_a_full_mesh_or_among_peers() {
    let mesh = all_of(0..8, 1);
    let lost = |mesh: &[(u16, u16, u8)], at: usize| {
        let mut links = mesh.to_vec();
        links.remove(at);
        links
    };
    assert_eq!(alone(of_gpus(8, LinkFamily::Xgmi, &mesh)), []);
    let all = alone(of_gpus(8, LinkFamily::Xgmi, &lost(&mesh, 0)));
    let evidence = "GPU0 has 6 of 7 links, GPU1 has 6 of 7 links";
    assert_eq!(degraded(&all), [(vec![0, 1], evidence)]);
    let all = alone(of_gpus(8, LinkFamily::Xgmi, &without(&mesh, 5)));
    assert_eq!(degraded(&all), [(vec![5], "GPU5 has 0 of 7 links")]);

    // Dies have different numbers of links: only a comparison with other hosts shows a lost one.
    assert_eq!(alone(of_gpus(8, LinkFamily::Xgmi, &DIES)), []);
    assert_eq!(alone(of_gpus(8, LinkFamily::Xgmi, &lost(&DIES, 1))), []);
    let fleet = |change: &dyn Fn(usize, &mut HostInventory)| {
        let mut world = World::new(&fabric(16), FleetFaults::default());
        world.each_host(|place, host| {
            host.link_family = LinkFamily::Xgmi;
            cabled(host, &DIES);
            change(place, host);
        });
        findings(world)
    };
    assert_eq!(fleet(&|_, _| {}), []);
    let all = fleet(&|place, host| {
        if place == 3 || place == 9 {
            cabled(host, &lost(&DIES, 1));
        }
    });
    assert_eq!(
        degraded(&all),
        [(vec![0, 2], "GPU0 has 6 of 7 links, GPU2 has 6 of 7 links")]
    );
    assert_eq!((all.len(), all[0].hosts().count()), (1, 2));
}

#[test]
fn a_dgx_1_matrix_without_the_links_of_one_gpu_blames_that_gpu() {
    let Some(data) = samples() else { return };
    let name = "nvidia-smi-topo/msccl-dgx1-v100.txt";
    let text = std::fs::read_to_string(data.join(name)).expect("the sample");
    let lines = text.lines().enumerate().map(|(at, line)| {
        let mut cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let row = cells[0].clone();
        if (1..=8).contains(&at) && row.starts_with("GPU") {
            for (column, cell) in cells.iter_mut().enumerate().skip(1) {
                if cell.starts_with("NV") && (row == "GPU0" || column == 1) {
                    *cell = "SYS".to_owned();
                }
            }
        }
        cells.join("\t")
    });
    let text: Vec<String> = lines.collect();
    let host = import(InventoryFormat::NvidiaSmi, text.join("\n").as_bytes()).expect("a matrix");
    let all = alone(host);
    assert_eq!(degraded(&all), [(vec![0], "GPU0 has 0 of 6 links")]);
}

#[test]
fn only_the_degraded_samples_have_findings_about_links() {
    let Some(data) = samples() else { return };
    for (name, host) in every_sample(&data) {
        let all = alone(host);
        let found = degraded(&all);
        // GPU4 of this machine has lost its NVLinks (vLLM 16336).
        let is_broken = name.contains("vllm-16336");
        assert_eq!(!found.is_empty(), is_broken, "{name}: {found:?}");
    }
}

/// A matrix of two GPUs and an adapter whose legend is that of `-m`, or of `-mp`.
fn matrix(cell: &str, legend: &str) -> String {
    format!(
        "\tGPU0\tGPU1\tmlx5_0\nGPU0\t X \t{cell}\tPIX\nGPU1\t{cell}\t X \tNODE\n\
         mlx5_0\tPIX\tNODE\t X \n\nLegend:\n\n  X    = Self\n{legend}"
    )
}

#[test]
fn the_legend_of_a_matrix_decides_whether_absent_links_are_known_to_be_absent() {
    let of_m = "  NV#  = Connection traversing a bonded set of # NVLinks\n";
    let of_mp = "  PIX  = Connection traversing at most a single PCIe bridge\n";
    let known = |cell, legend: &str| {
        let host = read(InventoryFormat::NvidiaSmi, &matrix(cell, legend));
        (host.nvlinks_known, host.nvlinks_unclear, host.nvlinks.len())
    };
    assert_eq!(known("NV4", of_m), (true, false, 1));
    assert_eq!(known("NV4", ""), (true, false, 1));
    assert_eq!(known("SYS", of_m), (true, false, 0));
    assert_eq!(known("SYS", &format!("{of_mp}{of_m}")), (true, false, 0));
    assert_eq!(known("SYS", of_mp), (false, false, 0));
    // A text that was cut before its legend leaves the links unclear.
    assert_eq!(known("SYS", ""), (false, true, 0));
    let tagged = matrix("SYS", of_m).replace('\n', "\nn1: ");
    let host = read(InventoryFormat::NvidiaSmi, &format!("n1: {tagged}"));
    assert!(host.nvlinks_known);
}

/// The output of `nvidia-smi topo` for a host, with or without links, before its legend.
fn topo(host: &HostInventory, with_links: bool) -> String {
    let gpus = host.gpus.len();
    let device = |port: usize| host.hca_ports[port].device.clone().unwrap_or_default();
    let ports = 0..host.hca_ports.len();
    let names: Vec<String> = (host.gpus.iter().map(|gpu| format!("GPU{}", gpu.index)))
        .chain(ports.clone().map(device))
        .collect();
    let tier = |gpu, port| {
        host.tier(gpu, port)
            .map_or("SYS".to_owned(), |tier| tier.to_string())
    };
    let cell = |row: usize, column: usize| match (row < gpus, column < gpus) {
        _ if row == column => "X".to_owned(),
        (true, true) if with_links => format!("NV{}", host.links_between(row, column)),
        (true, false) => tier(row, column - gpus),
        (false, true) => tier(column, row - gpus),
        _ => "NODE".to_owned(),
    };
    let mut text = format!("\t{}\n", names.join("\t"));
    for (row, name) in names.iter().enumerate() {
        let cells: Vec<String> = (0..names.len()).map(|column| cell(row, column)).collect();
        text += &format!("{name}\t{}\n", cells.join("\t"));
    }
    text
}

/// The findings about links of four hosts, with and without the fabric: the hosts and the evidence
/// of each. `matrices` holds for each host whether its matrix lists links, and the legend.
fn of_matrices(matrices: [(bool, &str); 4]) -> [Vec<(Vec<String>, String)>; 2] {
    let mut world = World::new(&fabric(4), FleetFaults::default());
    world.each_host(|place, host| {
        let (with_links, legend) = matrices[place];
        let text = format!("{}\nLegend:\n\n{legend}", topo(host, with_links));
        *host = read(InventoryFormat::NvidiaSmi, &text);
    });
    let (netlist, inventory) = world.finish();
    let topology = Arc::new(Topology::from_netlist(&netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(&netlist, topology, None, 4096);
    [Some(fabric), None].map(|fabric| {
        let all = Analysis::new(&inventory, fabric, AnalysisConfig::default()).findings;
        let links = all
            .iter()
            .filter(|one| one.kind == GpuFindingKind::NvLinkDegraded);
        let hosts_and_evidence = |one: &GpuFinding| {
            (
                one.hosts().map(str::to_owned).collect(),
                one.evidence.clone(),
            )
        };
        links.map(hosts_and_evidence).collect()
    })
}

#[test]
fn a_matrix_without_links_is_reported_if_most_hosts_like_it_have_links() {
    let tiers = "  X    = Self\n  PIX  = Connection traversing at most a single PCIe bridge\n";
    let tiers_and_links =
        format!("{tiers}  NV#  = Connection traversing a bonded set of # NVLinks\n");
    let linked = (true, tiers_and_links.as_str());
    let second = vec!["host-002".to_owned()];
    // The legend is complete, absent, or cut.
    for (legend, evidence) in [
        (
            tiers_and_links.as_str(),
            "0 links at every GPU: 18 in 3 hosts like it",
        ),
        (
            "",
            "no link at any GPU: 18 in 3 hosts like it; its matrix has no legend, ",
        ),
        (
            "  X    = Self\n",
            "no link at any GPU: 18 in 3 hosts like it; its matrix has no legend, ",
        ),
    ] {
        for found in of_matrices([linked, (false, legend), linked, linked]) {
            let [(hosts, text)] = &found[..] else {
                panic!("{legend}: {found:?}");
            };
            assert_eq!(*hosts, second);
            assert!(text.starts_with(evidence), "{text}");
        }
    }
    // The option `-mp` lists no links; a machine type without NVLink has none with any legend.
    let none: [Vec<_>; 2] = Default::default();
    assert_eq!(of_matrices([linked, (false, tiers), linked, linked]), none);
    for legend in [tiers_and_links.as_str(), tiers, ""] {
        assert_eq!(of_matrices([(false, legend); 4]), none);
    }
    assert_eq!(
        of_matrices([
            (false, tiers_and_links.as_str()),
            (false, ""),
            (false, tiers),
            (false, tiers_and_links.as_str())
        ]),
        none
    );
    // One host with links is not a majority.
    assert_eq!(
        of_matrices([linked, (false, ""), (false, ""), (false, "")]),
        none
    );
}

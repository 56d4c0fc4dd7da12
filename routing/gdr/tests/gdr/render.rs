//! Tests of rendered files: they equal golden files, and can be read by the rules of the programs
//! for which they are made.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{FleetFaults, fleet};
use rsm_gdr::hosts::{GpuInventory, HostError};
use rsm_gdr::import::{InventoryFormat, import};
use rsm_gdr::inventory::{HostInventory, NvLinkDomain, Tier};
use rsm_gdr::job::{JobRequest, Pattern};
use rsm_gdr::render::{self, NcclVersion, RenderError};
use rsm_gdr::{Analysis, AnalysisConfig, JoinError};
use rsm_ids::{Guid, Lid};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::generate::generate;
use rsm_routing::topology::Topology;

const BEFORE_RAILS: NcclVersion = NcclVersion(2, 29, 0);

/// Two units whose hosts form NVLink domains of eight.
fn analysis() -> Analysis {
    let netlist = generate("superpod:su=2").expect("a published fabric");
    let fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    let mut inventory = GpuInventory::new();
    for (place, (name, record)) in (0u32..).zip(fleet.inventory.hosts()) {
        let mut host = (*record.inventory).clone();
        host.domain = Some(NvLinkDomain {
            cluster_uuid: "3f1a7c1e-0000-4000-8000-00000000beef".to_owned(),
            clique_id: place / 8,
        });
        inventory.insert(name, host, 0).expect("a plain host");
    }
    let topology = Arc::new(Topology::from_netlist(&fleet.netlist).expect("LIDs suffice"));
    let routing = route(EngineKind::UpDn, &topology, &Options::default(), None)
        .expect("a tree can be routed");
    let fabric = GpuFabric::from_netlist(
        &fleet.netlist,
        topology,
        Some(Arc::new(routing.tables)),
        4096,
    );
    Analysis::new(
        &inventory,
        Some(fabric),
        AnalysisConfig {
            sl: Some(1),
            ..AnalysisConfig::default()
        },
    )
}

/// Asserts that `actual` equals the golden file `name`. With `RSM_UPDATE_GOLDEN` in the environment
/// it first writes the file.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/files")
        .join(name);
    if std::env::var_os("RSM_UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder"))
            .expect("a folder for golden files");
        std::fs::write(&path, actual).expect("the golden file can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == actual,
        "{}: RSM_UPDATE_GOLDEN=1 writes\n{actual}",
        path.display()
    );
}

#[test]
fn rendered_files_equal_the_golden_files() {
    let analysis = analysis();
    let host = "host-001";
    let write = |name: &str, text: Result<String, RenderError>| {
        golden(
            name,
            &text.unwrap_or_else(|error| panic!("{name}: {error}")),
        );
    };
    write(
        "nccl.env",
        render::nccl_environment(&analysis, host, NcclVersion::RAILS),
    );
    write(
        "nccl-before-rails.env",
        render::nccl_environment(&analysis, host, BEFORE_RAILS),
    );
    write(
        "nccl-topology.xml",
        render::nccl_topology(&analysis, host, NcclVersion::RAILS),
    );
    write("ucx.sh", render::ucx_script(&analysis, host));
    write("nvshmem.sh", render::nvshmem_script(&analysis, host));
    write("mooncake.json", render::mooncake_json(&analysis, host));
    write("mooncake.sh", render::mooncake_script(&analysis, host));
    write("topology-tree.conf", render::slurm_tree(&analysis));
    write("topology-block.conf", render::slurm_block(&analysis));
    write("topology.yaml", render::slurm_yaml(&analysis));
    write("topograph.json", render::topograph_graph(&analysis));
    write(
        "kubernetes.sh",
        render::kubernetes_labels(&analysis, "fabric.topograph.run"),
    );
    write("volcano.yaml", render::volcano_hypernodes(&analysis));
    let slices = render::resource_slices(&analysis, "fabric.topograph.run");
    // The golden file holds the slices of the first of 64 hosts.
    write(
        "dra.yaml",
        slices.map(|text| text.split_inclusive("---\n").take(2).collect()),
    );
    let request = JobRequest {
        hosts: ["host-040", "host-002", "host-001"]
            .map(str::to_owned)
            .to_vec(),
        gpus_per_host: 2,
        left_out: 0,
        pattern: Pattern::Ring,
    };
    let plan = analysis.plan(&request).expect("known hosts");
    let ranks = render::launched_ranks(&analysis, &plan);
    let job = |name: &str| {
        let file = render::JobFile::named(name).expect("a format");
        file.render(&ranks)
    };
    golden("hostfile", &job("ompi-hostfile"));
    golden("rank-gpus.sh", &job("rank-gpus"));
    // There is no rank file: it would need numbers of cores, which inventories lack.
    assert!(render::JobFile::named("ompi-rankfile").is_none());
    golden("ports.tsv", &job("ports"));
    // The hosts are in the order of ranks, with a line or a slot for each rank.
    let hostfile = job("slurm-hostfile");
    let lines: Vec<&str> = hostfile.lines().collect();
    assert_eq!(lines[..2], ["host-001", "host-001"]);
    assert_eq!((lines.len(), lines[5]), (6, "host-040"));
    assert_eq!(
        job("mpich-hostfile"),
        "host-001:2\nhost-002:2\nhost-040:2\n"
    );
    golden(
        "host.txt",
        &render::describe(&analysis, host).expect("a known host"),
    );
}

#[test]
fn the_topology_for_nccl_reads_back_as_the_same_tiers() {
    let analysis = analysis();
    let host = &analysis.hosts[0];
    let text =
        render::nccl_topology(&analysis, &host.name, BEFORE_RAILS).expect("addresses are known");
    assert!(!text.contains("rail="));
    let again = import(InventoryFormat::NcclXml, text.as_bytes())
        .expect("the rendered file can be imported");
    let port = |inventory: &HostInventory, device: &str| {
        let found = inventory
            .hca_ports
            .iter()
            .position(|port| port.device.as_deref() == Some(device));
        found.expect("every port is in the file")
    };
    for gpu in 0..host.inventory.gpus.len() {
        let place = again
            .gpus
            .iter()
            .position(|other| other.pci == host.inventory.gpus[gpu].pci);
        for (at, of_host) in host.inventory.hca_ports.iter().enumerate() {
            let device = of_host.device.as_deref().expect("a name");
            let tier = again.tier(
                place.expect("every GPU is in the file"),
                port(&again, device),
            );
            assert_eq!(tier, host.inventory.tier(gpu, at));
        }
    }
    assert_eq!(again.tier(0, 0), Some(Tier::Pix));
}

/// A LID, and the service level and codes of MTU and rate of the path to it.
type AcmPath = (u16, [u8; 3]);

/// Reads a file as ibacm does: GUIDs by LID, and the paths of the block of one port.
fn acm(text: &str, mine: Guid) -> (BTreeMap<u16, Guid>, Vec<AcmPath>) {
    let (mut guids, mut paths, mut inside) = (BTreeMap::new(), Vec::new(), false);
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
    {
        if let Some(rest) = line.strip_prefix("Channel Adapter ") {
            let (guid, rest) = rest.split_once(',').expect("a comma after the GUID");
            let guid =
                Guid(u64::from_str_radix(guid.trim_start_matches("0x"), 16).expect("a GUID"));
            let at = rest.find("base LID").expect("a LID") + "base LID ".len();
            let lid = rest[at..]
                .split(',')
                .next()
                .expect("a LID")
                .parse()
                .expect("a decimal LID");
            guids.insert(lid, guid);
            inside = guid == mine;
        } else if inside {
            let (lid, rest) = line.split_once(' ').expect("LID and path");
            let numbers: Vec<u8> = rest
                .split(':')
                .map(|part| part.parse().expect("a code"))
                .collect();
            paths.push((
                lid.parse().expect("a LID"),
                [numbers[0], numbers[1], numbers[2]],
            ));
        }
    }
    (guids, paths)
}

#[test]
fn ibacm_finds_every_port_and_path() {
    let analysis = analysis();
    let text = render::ibacm_paths(&analysis, "host-001", |rate| (rate == 4000).then_some(21))
        .expect("a fabric");
    let fabric = analysis.fabric.as_ref().expect("a fabric");
    let mine = fabric.port(
        analysis.hosts[0].joined[0]
            .port()
            .expect("the port is joined with the fabric"),
    );
    let (guids, paths) = acm(&text, mine.guid);
    assert_eq!(guids.len(), fabric.ports().len());
    assert!(guids.iter().all(|(&lid, &guid)| {
        fabric
            .topology
            .destination_of(Lid(lid))
            .is_some_and(|to| to.guid == guid)
    }));
    assert_eq!(paths.len(), fabric.ports().len());
    assert!(
        paths
            .iter()
            .all(|&(lid, codes)| guids.contains_key(&lid) && codes == [1, 5, 21])
    );
    // A path whose rate has no code is written as unreachable.
    let none = render::ibacm_paths(&analysis, "host-001", |_| None).expect("a fabric");
    assert_eq!(
        none.matches("UNREACHABLE").count(),
        8 * fabric.ports().len()
    );
}

#[test]
fn the_ucx_script_selects_the_adapter_of_the_local_rank() {
    let analysis = analysis();
    let script = render::ucx_script(&analysis, "host-001").expect("names are known");
    let run = |rank: &str| {
        let program = format!("{script}\nprintf %s \"$UCX_NET_DEVICES\"");
        let output = std::process::Command::new("sh")
            .args(["-c", &program])
            .env("SLURM_LOCALID", rank)
            .env_remove("OMPI_COMM_WORLD_LOCAL_RANK")
            .output()
            .expect("a shell");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("UTF-8 output")
    };
    assert_eq!(run("3"), "mlx5_3:1");
    assert_eq!(run("7"), "mlx5_7:1");
}

#[test]
fn hostile_names_are_in_no_file() {
    let host = (*analysis().hosts[0].inventory).clone();
    let mut inventory = GpuInventory::new();
    for name in [
        "",
        "-rf",
        "a b",
        "a\nSwitchName=x",
        "a;reboot",
        "$(id)",
        "a\"b",
        "é",
        &"x".repeat(65),
    ] {
        assert!(
            matches!(
                inventory.insert(name, host.clone(), 0),
                Err(HostError::Name(_))
            ),
            "{name:?}"
        );
    }
    let mut evil = host.clone();
    evil.hca_ports[0].device = Some("mlx5_0;reboot".to_owned());
    assert!(matches!(
        inventory.insert("host", evil, 0),
        Err(HostError::Inventory(_))
    ));
    let mut evil = host.clone();
    evil.domain = Some(NvLinkDomain {
        cluster_uuid: "a b".to_owned(),
        clique_id: 1,
    });
    assert!(matches!(
        inventory.insert("host", evil, 0),
        Err(HostError::Inventory(_))
    ));
    assert!(inventory.hosts().is_empty());
    // Slurm accepts capitals, Kubernetes does not.
    let all = analysis();
    let mut renamed = GpuInventory::new();
    renamed.insert("HOST-01", host, 0).expect("a plain name");
    let fabric = all.fabric.clone();
    let renamed = Analysis::new(&renamed, fabric, AnalysisConfig::default());
    assert!(render::slurm_tree(&renamed).is_ok_and(|text| text.contains("Nodes=HOST-01")));
    assert!(matches!(
        render::kubernetes_labels(&renamed, "a.b"),
        Err(RenderError::Name { .. })
    ));
    assert!(matches!(
        render::volcano_hypernodes(&renamed),
        Err(RenderError::Name { .. })
    ));
    assert!(matches!(
        render::resource_slices(&renamed, "a.b"),
        Err(RenderError::Name { .. })
    ));
    assert!(matches!(
        render::kubernetes_labels(&all, "a b"),
        Err(RenderError::Name { .. })
    ));
}

#[test]
fn resource_slices_have_names_of_dns_labels_and_longer_names_are_refused() {
    let all = analysis();
    let slices = |name: &str, domain: &str| {
        let mut inventory = GpuInventory::new();
        let host = (*all.hosts[0].inventory).clone();
        inventory.insert(name, host, 0).expect("a plain name");
        let renamed = Analysis::new(&inventory, all.fabric.clone(), AnalysisConfig::default());
        render::resource_slices(&renamed, domain)
    };
    // A driver's name, which is the domain of attributes, has at most 63 characters.
    let domain = "a.".repeat(31) + "b";
    for length in [1, 44, 63] {
        let host = "h".repeat(length);
        let text = slices(&host, &domain).expect("names for Kubernetes");
        let keys = ["name: ", "driver: ", "nodeName: "];
        let line = |line: &'_ str| {
            let line = line.trim().trim_start_matches("- ");
            let name = keys.iter().find_map(|key| line.strip_prefix(key));
            name.map(|name| name.trim_matches('"').to_owned())
        };
        let names: Vec<String> = text.lines().filter_map(line).collect();
        assert!(names.contains(&host) && names.contains(&domain), "{text}");
        for name in names {
            let is_label = |label: &str| (1..=63).contains(&label.len());
            assert!(name.split('.').all(is_label), "{name}");
        }
    }
    let refused = |name: &str, error: Result<String, RenderError>| match error {
        Err(RenderError::Name {
            name: found, rule, ..
        }) => {
            assert_eq!(found, name);
            assert!(rule.contains("at most 63 characters"), "{rule}");
        }
        other => panic!("{other:?}"),
    };
    let host = "h".repeat(64);
    refused(&host, slices(&host, &domain));
    let domain = "a.".repeat(31) + "bc";
    refused(&domain, slices("host", &domain));
    assert!(render::kubernetes_labels(&all, &domain).is_ok());
}

#[test]
fn missing_data_is_reported_as_an_error() {
    let all = analysis();
    let mut host = (*all.hosts[0].inventory).clone();
    host.hca_ports[2].pci = None;
    let mut inventory = GpuInventory::new();
    inventory.insert("host", host, 0).expect("a plain host");
    let alone = Analysis::new(&inventory, None, AnalysisConfig::default());
    let no_address = RenderError::NoPciAddress("mlx5_2".to_owned());
    assert_eq!(
        render::nccl_topology(&alone, "host", NcclVersion::RAILS),
        Err(no_address)
    );
    let no_fabric = RenderError::Join(JoinError::NoFabric);
    assert_eq!(render::slurm_tree(&alone), Err(no_fabric));
    let unknown = RenderError::UnknownHost("x".to_owned());
    assert_eq!(render::mooncake_json(&alone, "x"), Err(unknown));
    assert!(
        render::nccl_environment(&alone, "host", NcclVersion::RAILS)
            .is_ok_and(|text| !text.contains(":1:0:0"))
    );
}

#[test]
fn files_about_all_hosts_are_refused_if_no_host_is_in_the_fabric() {
    let all = analysis();
    let join = |inventory: &GpuInventory| {
        Analysis::new(inventory, all.fabric.clone(), AnalysisConfig::default())
    };
    let none = join(&GpuInventory::new());
    let mut elsewhere = GpuInventory::new();
    let mut host = (*all.hosts[0].inventory).clone();
    for port in &mut host.hca_ports {
        (port.node_guid, port.port_guid, port.system_image_guid) = (None, None, None);
    }
    host.domain = None;
    elsewhere
        .insert("another-name", host, 0)
        .expect("a plain host");
    let apart = join(&elsewhere);
    for format in render::EXPORTERS.iter().filter(|format| !format.of_host) {
        // Without hosts the metrics are zeros, which monitoring needs.
        if format.name == "metrics" {
            continue;
        }
        let options = render::ExportOptions {
            host: String::new(),
            nccl: NcclVersion::RAILS,
            label_domain: render::ExportOptions::LABEL_DOMAIN.to_owned(),
        };
        let refusal = |error| Err(RenderError::Join(error));
        assert_eq!(format.render(&none, &options), refusal(JoinError::NoHosts));
        assert_eq!(
            format.render(&apart, &options),
            refusal(JoinError::NothingJoined { hosts: 1 }),
            "{}",
            format.name
        );
    }
}

#[test]
fn files_for_libraries_name_the_service_level_and_whether_it_routes_adaptively() {
    let mut analysis = analysis();
    let host = "host-001";
    let files = |analysis: &Analysis| {
        let nccl = render::nccl_environment(analysis, host, NcclVersion::RAILS).expect("NCCL");
        (nccl, render::ucx_script(analysis, host).expect("UCX"))
    };
    let (nccl, ucx) = files(&analysis);
    assert!(!nccl.contains("ADAPTIVE") && !ucx.contains("UCX_IB_AR_ENABLE"));
    for (sl, levels, nccl_lines, ucx_part) in [
        (
            None,
            0b1100,
            "NCCL_IB_SL=2\nNCCL_IB_ADAPTIVE_ROUTING=1\n",
            " UCX_IB_SL=2 UCX_IB_AR_ENABLE=try ",
        ),
        (
            Some(1),
            0b1100,
            "NCCL_IB_SL=1\nNCCL_IB_ADAPTIVE_ROUTING=0\n",
            " UCX_IB_SL=1 UCX_IB_AR_ENABLE=no ",
        ),
        (
            None,
            0xFFFF,
            "\nNCCL_IB_ADAPTIVE_ROUTING=1\n",
            ":1 UCX_IB_AR_ENABLE=try ",
        ),
    ] {
        (analysis.config.sl, analysis.config.adaptive_sls) = (sl, levels);
        let (nccl, ucx) = files(&analysis);
        assert!(nccl.ends_with(nccl_lines), "{nccl}");
        assert!(ucx.contains(ucx_part), "{ucx}");
    }
}

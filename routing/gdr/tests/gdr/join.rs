//! Tests of joins and findings on small fabrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_gdr::fabric::{AbsentHost, FormerPlace, GpuFabric};
use rsm_gdr::findings::GpuFindingKind;
use rsm_gdr::generate::{Fleet, FleetFaults, fleet};
use rsm_gdr::hints::HintReason;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::{HcaPort, HostInventory, LinkLayer, Tier};
use rsm_gdr::join::{JoinKey, Joined, NotJoined};
use rsm_gdr::roles::TrafficRole;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_ids::{Guid, PortNum};
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

/// One unit of a SuperPOD: 32 hosts of 8 GPUs.
fn unit() -> Fleet {
    let netlist = generate("superpod:su=1").expect("a published fabric");
    fleet(netlist, FleetFaults::default()).expect("hosts with plain names")
}

fn analyse(netlist: &Netlist, inventory: &GpuInventory, config: AnalysisConfig) -> Analysis {
    let topology = Arc::new(Topology::from_netlist(netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(netlist, topology, None, 4096);
    Analysis::new(inventory, Some(fabric), config)
}

/// The unit with the first host's inventory changed.
fn with_first(change: impl FnOnce(&mut HostInventory)) -> (Fleet, Analysis) {
    let mut fleet = unit();
    let (name, mut host) = first(&fleet);
    change(&mut host);
    fleet
        .inventory
        .insert(&name, host, 0)
        .expect("a plain host");
    let analysis = analyse(&fleet.netlist, &fleet.inventory, AnalysisConfig::default());
    (fleet, analysis)
}

/// The name and the inventory of the first host.
fn first(fleet: &Fleet) -> (String, HostInventory) {
    let (name, record) = fleet.inventory.hosts().iter().next().expect("hosts");
    (name.clone(), (*record.inventory).clone())
}

/// The unit without the cables of some adapters of the first host.
fn without_cables(fleet: &Fleet, devices: &[usize]) -> Netlist {
    let (_, host) = first(fleet);
    let (nodes, mut cables) = fleet.netlist.clone().into_parts();
    for &device in devices {
        let guid = host.hca_ports[device]
            .node_guid
            .expect("generated hosts have GUIDs");
        let node = nodes
            .iter()
            .position(|node| node.guid == guid)
            .expect("the adapter");
        cables.retain(|cable| cable.a.0 != node && cable.b.0 != node);
    }
    Netlist::new(nodes, cables).expect("fewer cables")
}

fn kinds(analysis: &Analysis) -> Vec<GpuFindingKind> {
    analysis
        .findings
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

fn forget_guids(host: &mut HostInventory) {
    for port in &mut host.hca_ports {
        port.port_guid = None;
        port.node_guid = None;
        port.system_image_guid = None;
    }
}

#[test]
fn every_key_finds_the_port() {
    let by = |change: fn(&mut HostInventory)| {
        let (_, analysis) = with_first(change);
        assert_eq!(analysis.findings, []);
        match analysis.hosts[0].joined[3] {
            Joined::Port { by, .. } => by,
            Joined::Not(reason) => panic!("{reason:?}"),
        }
    };
    assert_eq!(by(|_| {}), JoinKey::PortGuid);
    assert_eq!(
        by(|host| host.hca_ports[3].port_guid = None),
        JoinKey::NodeGuid
    );
    let system = |host: &mut HostInventory| {
        let port = &mut host.hca_ports[3];
        (port.port_guid, port.node_guid) = (None, None);
        assert!(port.system_image_guid.is_some());
    };
    assert_eq!(by(system), JoinKey::SystemImageGuid);
    assert_eq!(by(forget_guids), JoinKey::Description);
}

#[test]
fn keys_that_disagree_are_a_conflict_and_the_strongest_decides() {
    let (_, analysis) = with_first(|host| {
        // Two names are exchanged: the GUIDs and the descriptions find different ports.
        let [a, b] = [2, 5].map(|at| host.hca_ports[at].device.clone());
        (host.hca_ports[2].device, host.hca_ports[5].device) = (b, a);
        for port in &mut host.hca_ports {
            port.system_image_guid = None;
        }
    });
    let conflicts = kinds(&analysis)
        .iter()
        .filter(|&&kind| kind == GpuFindingKind::JoinConflict)
        .count();
    assert_eq!(conflicts, 2);
    assert!(matches!(
        analysis.hosts[0].joined[2],
        Joined::Port {
            by: JoinKey::PortGuid,
            ..
        }
    ));
    assert_eq!(analysis.hints[0][2].rail, Some(2));
}

#[test]
fn ports_claimed_by_two_hosts_belong_to_one_and_are_reported() {
    let mut fleet = unit();
    let (_, host) = first(&fleet);
    fleet
        .inventory
        .insert("zz-clone", host, 0)
        .expect("a plain name");
    let analysis = analyse(&fleet.netlist, &fleet.inventory, AnalysisConfig::default());
    let place = analysis
        .place("zz-clone")
        .expect("the analysis knows the clone");
    assert!(
        analysis.hosts[place]
            .joined
            .iter()
            .all(|port| *port == Joined::Not(NotJoined::Taken))
    );
    let claimed = analysis
        .findings
        .iter()
        .find(|finding| finding.kind == GpuFindingKind::PortClaimedTwice);
    assert_eq!(
        claimed.map(|finding| (finding.host.as_str(), finding.ports.len())),
        Some(("zz-clone", 8))
    );
}

#[test]
fn a_port_that_is_down_moves_no_other_off_its_rail() {
    let fleet = unit();
    let netlist = without_cables(&fleet, &[3]);
    let analysis = analyse(&netlist, &fleet.inventory, AnalysisConfig::default());
    // One fault, one finding: the port, with the GPU that has to use another one.
    assert_eq!(kinds(&analysis), [GpuFindingKind::Unjoined]);
    assert_eq!(analysis.findings[0].gpus, [3]);
    let hint = &analysis.hints[0][3];
    assert_eq!(
        (hint.reason, hint.tier),
        (HintReason::NearerIsDown, Some(Tier::Node))
    );
    for (gpu, hint) in analysis.hints[0]
        .iter()
        .enumerate()
        .filter(|(gpu, _)| *gpu != 3)
    {
        assert_eq!((hint.port(), hint.rail), (Some(gpu), Some(gpu as u16)));
    }
}

#[test]
fn misplaced_cable_is_reported_with_its_actual_and_its_expected_leaf() {
    let fleet = unit();
    let (_, host) = first(&fleet);
    let (nodes, mut cables) = fleet.netlist.clone().into_parts();
    let node = |device: usize| {
        let guid = host.hca_ports[device]
            .node_guid
            .expect("generated hosts have GUIDs");
        nodes
            .iter()
            .position(|node| node.guid == guid)
            .expect("the adapter")
    };
    let (moved, gone) = (node(1), node(6));
    // Port 6 loses its cable, and port 1 gets its place.
    cables.retain(|cable| cable.a.0 != moved && cable.b.0 != moved);
    for cable in &mut cables {
        for end in [&mut cable.a, &mut cable.b] {
            if end.0 == gone {
                end.0 = moved;
            }
        }
    }
    let netlist = Netlist::new(nodes, cables).expect("the same cables");
    let analysis = analyse(&netlist, &fleet.inventory, AnalysisConfig::default());
    let misplaced = analysis
        .findings
        .iter()
        .find(|finding| finding.kind == GpuFindingKind::RailCableMisplaced)
        .expect("a misplaced cable is reported");
    assert_eq!(misplaced.ports[0].device, "mlx5_1");
    assert!(
        misplaced.evidence.contains("expected MF0;su-01-leaf-02"),
        "{}",
        misplaced.evidence
    );
    assert!(
        misplaced.evidence.contains("leaf-07:MQM9700/U1 port 1"),
        "{}",
        misplaced.evidence
    );
}

#[test]
fn a_tie_is_broken_by_the_rail_without_a_finding() {
    // Each switch has two GPUs and two adapters. In one host, the addresses of two adapters are
    // exchanged.
    let pairs = |host: &mut HostInventory| {
        for gpu in 0..8 {
            host.tiers[gpu * 8 + (gpu ^ 1)] = Some(Tier::Pix);
        }
    };
    let mut fleet = unit();
    let all: Vec<(String, HostInventory)> = fleet
        .inventory
        .hosts()
        .iter()
        .map(|(name, record)| (name.clone(), (*record.inventory).clone()))
        .collect();
    for (place, (name, mut host)) in all.into_iter().enumerate() {
        pairs(&mut host);
        if place == 0 {
            let [a, b] = [0, 1].map(|at| host.hca_ports[at].pci);
            (host.hca_ports[0].pci, host.hca_ports[1].pci) = (b, a);
        }
        fleet
            .inventory
            .insert(&name, host, 0)
            .expect("a plain host");
    }
    let analysis = analyse(&fleet.netlist, &fleet.inventory, AnalysisConfig::default());
    let rails: Vec<_> = analysis.hints[0].iter().map(|hint| hint.rail).collect();
    assert_eq!(rails, (0..8).map(Some).collect::<Vec<_>>());
    assert_eq!(analysis.hints[0][0].reason, HintReason::TieByRail);
    let cables = [
        GpuFindingKind::RailCablesSwapped,
        GpuFindingKind::RailCableMisplaced,
        GpuFindingKind::RailOrderGpus,
    ];
    assert!(
        !kinds(&analysis).iter().any(|kind| cables.contains(kind)),
        "{:#?}",
        analysis.findings
    );
}

/// The unit with every host changed, the first host by `first` as well.
fn with_all(change: impl Fn(&mut HostInventory), first: impl Fn(&mut HostInventory)) -> Analysis {
    let fleet = unit();
    let mut inventory = GpuInventory::new();
    for (place, (name, record)) in fleet.inventory.hosts().iter().enumerate() {
        let mut host = (*record.inventory).clone();
        change(&mut host);
        if place == 0 {
            first(&mut host);
        }
        inventory.insert(name, host, 0).expect("a plain host");
    }
    analyse(&fleet.netlist, &inventory, AnalysisConfig::default())
}

#[test]
fn a_tie_between_ports_that_are_all_on_the_rails_of_the_gpu_is_not_broken_by_the_rail() {
    // Four GPUs, each with two adapters beside it, which are at the leaves of two rails.
    let change = |host: &mut HostInventory| {
        host.gpus.truncate(4);
        host.nvlinks.retain(|link| link.b < 4);
        let tier = |at: usize| match at / 8 == at % 8 / 2 {
            true => Tier::Pix,
            false => Tier::Node,
        };
        host.tiers = (0..32).map(|at| Some(tier(at))).collect();
    };
    let analysis = with_all(change, |_| {});
    for hint in &analysis.hints[0] {
        assert_eq!(hint.ports.len(), 2, "{hint:?}");
        assert_eq!(hint.reason, HintReason::TieByShare, "{hint:?}");
    }
}

#[test]
fn a_tie_between_ports_that_are_all_off_the_rail_of_the_gpu_is_not_broken_by_the_rail() {
    // Each switch has four GPUs and four adapters. In the first host the cables of two adapters of
    // different switches are exchanged: the port on the rail of GPU 0 is a far one.
    let change = |host: &mut HostInventory| {
        let tier = |at: usize| match at / 32 == at % 8 / 4 {
            true => Tier::Pix,
            false => Tier::Sys,
        };
        host.tiers = (0..64).map(|at| Some(tier(at))).collect();
    };
    let exchange = |host: &mut HostInventory| {
        let ports = &mut host.hca_ports;
        let guids = |port: &HcaPort| (port.node_guid, port.port_guid, port.system_image_guid);
        let (near, far) = (guids(&ports[0]), guids(&ports[4]));
        for (at, (node, port, system)) in [(0, far), (4, near)] {
            (ports[at].node_guid, ports[at].port_guid) = (node, port);
            ports[at].system_image_guid = system;
        }
    };
    let reasons = |analysis: &Analysis| -> Vec<HintReason> {
        analysis.hints[0].iter().map(|hint| hint.reason).collect()
    };
    let analysis = with_all(change, exchange);
    let hints = &analysis.hints[0];
    assert_eq!(
        (hints[0].ports[0], hints[0].rail),
        (0, Some(4)),
        "{hints:?}"
    );
    let mut expected = vec![HintReason::TieByRail; 8];
    assert_eq!(reasons(&with_all(change, |_| {})), expected);
    (expected[0], expected[4]) = (HintReason::TieByShare, HintReason::TieByShare);
    assert_eq!(reasons(&analysis), expected, "{hints:?}");
}

#[test]
fn without_an_own_inventory_cables_and_names_are_indistinguishable() {
    let netlist = generate("superpod:su=1").expect("a published fabric");
    let faults = FleetFaults {
        hca_order: 1,
        seed: 5,
        ..FleetFaults::default()
    };
    let fleet = fleet(netlist, faults).expect("hosts with plain names");
    let (_, host) = first(&unit());
    let mut inventory = GpuInventory::new();
    inventory
        .insert_machine_type("dgx", &host)
        .expect("the inventory has room for a machine type");
    inventory
        .set_default(Some("dgx"))
        .expect("the machine type was inserted");
    let analysis = analyse(&fleet.netlist, &inventory, AnalysisConfig::default());
    assert_eq!(kinds(&analysis), [GpuFindingKind::RailOrderUnknown]);
    assert_eq!(
        Some(&analysis.findings[0].host),
        fleet.expected[0].hosts.first()
    );
}

#[test]
fn gpus_without_an_adapter_at_their_processor_are_reported() {
    let (_, analysis) = with_first(|host| {
        for gpu in 4..8 {
            for port in 0..8 {
                host.tiers[gpu * 8 + port] = Some(Tier::Sys);
            }
        }
    });
    // The GPUs have NVLinks to others beside adapters: NCCL relays over these, and no level of
    // GPUDirect RDMA has to be allowed.
    assert_eq!(kinds(&analysis), [GpuFindingKind::HcaOnWrongNuma]);
    assert_eq!(analysis.findings[0].gpus, [4, 5, 6, 7]);
}

#[test]
fn inventories_past_the_configured_age_are_stale() {
    let mut fleet = unit();
    let (name, host) = first(&fleet);
    fleet
        .inventory
        .insert(&name, host, 900)
        .expect("a plain host");
    let config = |max_age| AnalysisConfig {
        now: 1000,
        max_age,
        ..AnalysisConfig::default()
    };
    let stale = |max_age| {
        let analysis = analyse(&fleet.netlist, &fleet.inventory, config(max_age));
        let findings = analysis.findings.iter();
        let stale = findings.filter(|finding| finding.kind == GpuFindingKind::StaleInventory);
        stale
            .map(|finding| finding.hosts().count())
            .collect::<Vec<usize>>()
    };
    assert_eq!(
        [
            stale(None),
            stale(Some(1000)),
            stale(Some(500)),
            stale(Some(50))
        ],
        [vec![], vec![], vec![31], vec![32]],
        "one finding for all hosts"
    );
}

#[test]
fn configured_roles_override_every_signal() {
    let fleet = unit();
    let (_, host) = first(&fleet);
    let guid: Guid = host.hca_ports[7]
        .port_guid
        .expect("generated hosts have GUIDs");
    let config = AnalysisConfig {
        roles: BTreeMap::from([(guid, TrafficRole::Storage)]),
        ..AnalysisConfig::default()
    };
    let analysis = analyse(&fleet.netlist, &fleet.inventory, config);
    assert_eq!(analysis.hosts[0].compute_ports(), [0, 1, 2, 3, 4, 5, 6]);
    assert_ne!(analysis.hints[0][7].port(), Some(7));
}

#[test]
fn pair_has_a_path_for_each_lid_of_the_lmc() {
    let fleet = unit();
    let (mut nodes, cables) = fleet.netlist.clone().into_parts();
    for node in &mut nodes {
        for spec in node.ports.values_mut() {
            spec.lmc = rsm_ids::Lmc::new(2).expect("an LMC below 8");
        }
    }
    let ports = nodes
        .iter()
        .filter(|node| node.ports.contains_key(&PortNum(1)))
        .count();
    assert!(ports > 0, "adapters of generated fabrics state their ports");
    let netlist = Netlist::new(nodes, cables).expect("the same nodes");
    let analysis = analyse(&netlist, &fleet.inventory, AnalysisConfig::default());
    let names: Vec<&str> = analysis
        .hosts
        .iter()
        .map(|host| host.name.as_str())
        .collect();
    let hint = analysis
        .pair((names[0], 0), (names[1], 0))
        .expect("known GPUs");
    let bits: Vec<u8> = hint.paths.iter().map(|path| path.path_bits).collect();
    assert_eq!(bits, [0, 1, 2, 3]);
    let (_, to) = hint.ends.expect("both are joined");
    assert!(
        hint.paths
            .iter()
            .all(|path| path.dlid.0 == to.lid.0 + u16::from(path.path_bits))
    );
    assert!(hint.paths.iter().all(|path| path.route.is_none()));
}

/// The adapters of a node as `ibstat` shows them: device, GUID and protocol.
fn ibstat(data: &std::path::Path) -> Vec<(String, Guid, LinkLayer)> {
    let path = data.join("nvidia-smi-topo/h200-mooncake-2039.ibstat.txt");
    let text = std::fs::read_to_string(path).expect("a sample");
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let layer = match words[words.len() - 1] {
            "InfiniBand" => LinkLayer::InfiniBand,
            _ => LinkLayer::Ethernet,
        };
        (
            words[0].to_owned(),
            words[3].parse().expect("a GUID"),
            layer,
        )
    };
    text.lines()
        .filter(|text| !text.starts_with('#'))
        .map(line)
        .collect()
}

/// The kinds and observations of the findings of a host.
fn observed(analysis: &Analysis, host: &str) -> Vec<(GpuFindingKind, String)> {
    let findings = analysis.findings_of(host);
    findings
        .map(|finding| (finding.kind, finding.evidence.clone()))
        .collect()
}

#[test]
fn one_host_under_a_long_and_a_short_name_is_one_finding() {
    let mut fleet = unit();
    let (name, mut host) = first(&fleet);
    forget_guids(&mut host);
    let long = format!("{name}.example.com");
    for name in [&name, &long] {
        let taken = fleet.inventory.insert(name, host.clone(), 0);
        taken.expect("a plain host");
    }
    let analysis = analyse(&fleet.netlist, &fleet.inventory, AnalysisConfig::default());
    let evidence =
        format!("{name} and {long} are one host in the fabric, and {name} keeps its ports");
    let expected = [(GpuFindingKind::PortClaimedTwice, evidence)];
    assert_eq!(observed(&analysis, &long), expected);
}

#[test]
fn a_finding_about_missing_ports_counts_them_and_says_that_the_fabric_lacks_the_name() {
    let mut fleet = unit();
    let (name, mut host) = first(&fleet);
    forget_guids(&mut host);
    fleet
        .inventory
        .insert("host-999", host, 0)
        .expect("a plain host");
    let netlist = without_cables(&fleet, &[0]);
    let analysis = analyse(&netlist, &fleet.inventory, AnalysisConfig::default());
    let unjoined = |host: &str| {
        let mut all = observed(&analysis, host).into_iter();
        all.find(|(kind, _)| *kind == GpuFindingKind::Unjoined)
            .expect("a port is missing")
            .1
    };
    let text = unjoined(&name);
    assert!(text.starts_with("1 port is not joined: "), "{text}");
    assert!(!text.contains("this host's name"), "{text}");
    let text = unjoined("host-999");
    assert!(text.starts_with("8 ports are not joined: "), "{text}");
    assert!(
        text.contains("no host of the fabric has this host's name"),
        "{text}"
    );
}

#[test]
fn a_real_node_joins_by_guid_and_its_ethernet_ports_stay_outside() {
    let Some(data) = crate::samples::samples() else {
        return;
    };
    let adapters = ibstat(&data);
    let (_, mut host) = crate::samples::every_sample(&data)
        .find(|sample| sample.0.ends_with("mooncake-2039-h200-12nic.txt"))
        .expect("a sample");
    for port in &mut host.hca_ports {
        let device = port.device.as_deref();
        let Some(known) = adapters
            .iter()
            .find(|known| Some(known.0.as_str()) == device)
        else {
            continue;
        };
        (port.node_guid, port.link_layer) = (Some(known.1), Some(known.2));
        port.port_guid = Some(known.1).filter(|_| known.2 == LinkLayer::InfiniBand);
    }
    // The fabric has the node's GUIDs at the leaves of rails 0 to 7, under other names.
    let near = |gpu: usize| {
        let mut ports =
            (0..host.hca_ports.len()).filter(|&port| host.tier(gpu, port) == Some(Tier::Pix));
        ports.find(|&port| host.hca_ports[port].may_be_infiniband())
    };
    let of_gpu: Vec<usize> = (0..8).map(|gpu| near(gpu).expect("an adapter")).collect();
    let netlist = generate("superpod:su=1").expect("a published fabric");
    let (mut nodes, cables) = netlist.into_parts();
    for (rail, &port) in of_gpu.iter().enumerate() {
        let name = format!("host-001 mlx5_{rail}");
        let node = nodes
            .iter_mut()
            .find(|node| node.name() == name)
            .expect("an adapter");
        match host.hca_ports[port].node_guid {
            Some(guid) => {
                node.guid = guid;
                node.description = b"MT4129 ConnectX7   Mellanox Technologies".to_vec();
            }
            // The sample lacks the GUID of one adapter, which joins by its name.
            None => node.description = b"h200 mlx5_9".to_vec(),
        }
    }
    let netlist = Netlist::new(nodes, cables).expect("other names");
    let mut fleet = fleet(netlist, FleetFaults::default()).expect("hosts with plain names");
    fleet
        .inventory
        .insert("h200", host, 0)
        .expect("a plain host");
    let analysis = analyse(&fleet.netlist, &fleet.inventory, AnalysisConfig::default());
    let place = analysis.place("h200").expect("the analysis knows the host");
    let h200 = &analysis.hosts[place];
    assert_eq!(h200.compute_ports().len(), 8);
    for (rail, (hint, port)) in analysis.hints[place].iter().zip(of_gpu).enumerate() {
        assert_eq!((hint.port(), hint.rail), (Some(port), Some(rail as u16)));
        assert!(h200.joined[port].port().is_some());
    }
    for (port, entry) in h200.inventory.hca_ports.iter().enumerate() {
        if entry.link_layer == Some(LinkLayer::Ethernet) {
            assert_eq!(
                h200.joined[port],
                Joined::Not(NotJoined::Ethernet),
                "{}",
                entry.label()
            );
        }
    }
    assert_eq!(
        analysis.findings_of("h200").count(),
        0,
        "{:#?}",
        analysis.findings
    );
}

#[test]
fn host_without_any_adapter_in_the_fabric_is_reported_with_its_former_place() {
    let fleet = unit();
    let (name, host) = first(&fleet);
    let (mut nodes, mut cables) = fleet.netlist.clone().into_parts();
    let begin = format!("{name} ");
    let is_gone: Vec<bool> = nodes
        .iter()
        .map(|node| node.name().starts_with(&begin))
        .collect();
    cables.retain(|cable| !is_gone[cable.a.0] && !is_gone[cable.b.0]);
    for (node, _) in nodes.iter_mut().zip(&is_gone).filter(|(_, gone)| **gone) {
        node.description = b"off".to_vec();
    }
    let netlist = Netlist::new(nodes, cables).expect("fewer cables");
    let topology = Arc::new(Topology::from_netlist(&netlist).expect("LIDs suffice"));
    let mut fabric = GpuFabric::from_netlist(&netlist, topology, None, 4096);
    let former = FormerPlace {
        place: "leaf-1 port 3".to_owned(),
        until: "2026-11-29 10:00:00 UTC".to_owned(),
        other_name: None,
    };
    let devices = (0..8).map(|device| (format!("mlx5_{device}"), former.clone()));
    let absent = AbsentHost {
        devices: devices.collect(),
        first: former.clone(),
        claimants: BTreeSet::new(),
    };
    fabric.absent.insert(name.clone(), absent);
    let mut of_type = GpuInventory::new();
    of_type
        .insert_machine_type("dgx", &host)
        .expect("the inventory has room for a machine type");
    of_type
        .set_default(Some("dgx"))
        .expect("the machine type was inserted");
    for inventory in [&fleet.inventory, &of_type] {
        let config = AnalysisConfig::default();
        let analysis = Analysis::new(inventory, Some(fabric.clone()), config);
        assert_eq!(analysis.hosts.len(), 32);
        assert_eq!(
            kinds(&analysis),
            [GpuFindingKind::HostAbsent],
            "{:#?}",
            analysis.findings
        );
        let finding = &analysis.findings[0];
        let evidence = "none of its ports is in the fabric: the first was at leaf-1 port 3 until 2026-11-29 10:00:00 UTC";
        assert_eq!(
            (&finding.host, finding.evidence.as_str()),
            (&name, evidence)
        );
    }
    // A host with GUIDs of the absent one is named, and does not take its place.
    let claimant = fleet.inventory.hosts().keys().nth(1).expect("32 hosts");
    let absent = fabric
        .absent
        .get_mut(&name)
        .expect("the absent host was added");
    absent.claimants.insert(claimant.clone());
    let config = AnalysisConfig::default();
    let analysis = Analysis::new(&fleet.inventory, Some(fabric), config);
    let expected = [GpuFindingKind::HostAbsent, GpuFindingKind::PortClaimedTwice];
    assert_eq!(kinds(&analysis), expected, "{:#?}", analysis.findings);
    let finding = &analysis.findings[1];
    let evidence = format!(
        "GUIDs of its inventory are those of {name}, which keeps its place: it was at leaf-1 port 3 until \
         2026-11-29 10:00:00 UTC"
    );
    assert_eq!((&finding.host, &finding.evidence), (claimant, &evidence));
}

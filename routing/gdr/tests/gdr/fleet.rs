//! Tests of faults injected into simulated fleets: each must be found, and nothing else. Tests of
//! plans for jobs on such fleets.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::findings::{GpuFinding, GpuFindingKind};
use rsm_gdr::generate::{ExpectedFinding, Fleet, FleetFaults, Storage, fleet};
use rsm_gdr::hints::Gdr;
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::Tier;
use rsm_gdr::job::{JobError, JobRequest, Pattern};
use rsm_gdr::pairs::PairClass;
use rsm_gdr::render::{JobFile, launched_ranks};
use rsm_gdr::roles::TrafficRole;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::engine::{EngineKind, Options, route};
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

/// The number of fleets with random faults.
const SEEDS: u64 = 200;

fn superpod(units: usize) -> Netlist {
    generate(&format!("superpod:su={units}")).expect("a published fabric")
}

/// A fleet of hosts for the fabric, with inventories, faults and the expected findings.
fn generated(netlist: Netlist, faults: FleetFaults) -> Fleet {
    fleet(netlist, faults).expect("hosts with plain names")
}

/// The analysis of a fleet, with routes if `routed`.
fn analyse(fleet: &Fleet, routed: bool) -> Analysis {
    let topology = Arc::new(Topology::from_netlist(&fleet.netlist).expect("LIDs suffice"));
    let tables = routed.then(|| {
        let routing = route(EngineKind::UpDn, &topology, &Options::default(), None);
        Arc::new(routing.expect("a tree can be routed").tables)
    });
    let fabric = GpuFabric::from_netlist(&fleet.netlist, topology, tables, 4096);
    Analysis::new(&fleet.inventory, Some(fabric), AnalysisConfig::default())
}

/// A finding in the form of an expectation, with ports and GPUs only for the kinds of faults that
/// state them.
fn found(finding: &GpuFinding) -> ExpectedFinding {
    let cables = finding.kind == GpuFindingKind::RailCablesSwapped;
    let mut hosts: BTreeSet<String> = finding.hosts().map(str::to_owned).collect();
    hosts.extend(finding.ports.iter().map(|port| port.host.clone()));
    ExpectedFinding {
        kind: finding.kind,
        hosts,
        ports: match cables {
            true => finding.ports.iter().map(ToString::to_string).collect(),
            false => BTreeSet::new(),
        },
        gpus: match finding.kind {
            GpuFindingKind::NvLinkDegraded => finding.gpus.clone(),
            _ => Vec::new(),
        },
    }
}

#[test]
fn a_clean_fleet_has_no_findings() {
    for storage in [Storage::None, Storage::Far, Storage::NearGpu] {
        let faults = FleetFaults {
            storage,
            ..FleetFaults::default()
        };
        let analysis = analyse(&generated(superpod(4), faults), false);
        assert_eq!(analysis.findings, [], "{storage:?}");
        assert_eq!(analysis.hosts.len(), 128);
        assert_eq!(analysis.rails.units.len(), 4);
        for (place, host) in analysis.hosts.iter().enumerate() {
            assert_eq!(host.compute_ports().len(), 8);
            let others = host
                .roles
                .iter()
                .filter(|role| role.0 == TrafficRole::Storage)
                .count();
            assert_eq!(others, host.roles.len() - 8, "{storage:?} {}", host.name);
            for (gpu, hint) in analysis.hints[place].iter().enumerate() {
                assert_eq!(
                    (hint.port(), hint.rail),
                    (Some(gpu), Some(gpu as u16)),
                    "{storage:?}"
                );
                assert_eq!((hint.tier, hint.gdr), (Some(Tier::Pix), Gdr::Local));
            }
        }
    }
}

#[test]
fn every_injected_fault_is_found_and_nothing_else() {
    let clean = superpod(4);
    for seed in 0..SEEDS {
        // 1, 5 and 20 % of 128 hosts in turn, with GPUs or adapters in another order.
        let hosts = [1, 6, 26][(seed % 3) as usize];
        let faults = FleetFaults {
            gpu_order: if seed % 2 == 0 { hosts } else { 0 },
            hca_order: if seed % 2 == 1 { hosts } else { 0 },
            swapped_cables: usize::from(seed % 5 < 3),
            nvlinks: usize::from(seed % 4 < 2),
            storage: [Storage::None, Storage::Far, Storage::NearGpu][(seed / 3 % 3) as usize],
            seed,
        };
        let fleet = generated(clean.clone(), faults);
        let analysis = analyse(&fleet, false);
        let mut seen: Vec<ExpectedFinding> = analysis.findings.iter().map(found).collect();
        seen.sort();
        let missing: Vec<_> = fleet
            .expected
            .iter()
            .filter(|fault| !seen.contains(fault))
            .collect();
        let false_alarms: Vec<_> = analysis
            .findings
            .iter()
            .filter(|finding| !fleet.expected.contains(&found(finding)))
            .collect();
        assert!(
            missing.is_empty() && false_alarms.is_empty(),
            "{faults:?}: {missing:#?} {false_alarms:#?}"
        );
        assert_eq!(seen.len(), fleet.expected.len(), "{faults:?}");
        assert!(hosts == 0 || !fleet.expected.is_empty());
    }
}

#[test]
fn hosts_of_the_default_machine_type_are_joined_by_names() {
    let mut fleet = generated(superpod(1), FleetFaults::default());
    let first = fleet
        .inventory
        .hosts()
        .values()
        .next()
        .expect("hosts")
        .inventory
        .clone();
    let mut inventory = GpuInventory::new();
    inventory
        .insert_machine_type("dgx", &first)
        .expect("the inventory has room for a machine type");
    inventory
        .set_default(Some("dgx"))
        .expect("the machine type was inserted");
    fleet.inventory = inventory;
    let analysis = analyse(&fleet, false);
    assert_eq!(analysis.hosts.len(), 32);
    assert_eq!(analysis.findings, []);
    assert!(
        analysis
            .hints
            .iter()
            .flatten()
            .all(|hint| hint.rail == Some(hint.gpu as u16))
    );
}

#[test]
fn pairs_are_classed_by_the_path_between_them() {
    let analysis = analyse(&generated(superpod(2), FleetFaults::default()), true);
    let names: Vec<&str> = analysis
        .hosts
        .iter()
        .map(|host| host.name.as_str())
        .collect();
    let (here, near, far) = (names[0], names[1], names[40]);
    let class = |to: (&str, u16)| analysis.pair((here, 3), to).expect("known GPUs");
    assert_eq!(class((here, 3)).class, PairClass::SameGpu);
    assert_eq!(class((here, 4)).class, PairClass::NvLink);
    let leaf = class((near, 3));
    assert_eq!(leaf.class, PairClass::SameLeaf);
    let hops = |hint: &rsm_gdr::pairs::PairHint| {
        let route = hint.paths[0]
            .route
            .clone()
            .expect("tables")
            .expect("a route to the peer");
        route.hops.len()
    };
    assert_eq!(hops(&leaf), 1);
    let unit = class((near, 5));
    assert_eq!((unit.class, unit.relay), (PairClass::SameUnit, Some(5)));
    assert_eq!(hops(&unit), 3);
    assert_eq!(class((far, 3)).class, PairClass::AcrossUnitsSameRail);
    let across = class((far, 2));
    assert_eq!(
        (across.class, across.mtu, across.rate_tenth_gbps),
        (PairClass::AcrossUnits, 4096, 4000)
    );
    assert_eq!(across.paths.len(), 1);
    let (from, to) = across.ends.expect("both are joined");
    assert_ne!(from.leaf, to.leaf);
    assert!(analysis.pair((here, 8), (near, 0)).is_err());
    assert!(analysis.pair(("nobody", 0), (near, 0)).is_err());
}

#[test]
fn a_plan_keeps_more_flows_under_a_leaf_than_the_given_order() {
    let faults = FleetFaults {
        gpu_order: 20,
        seed: 3,
        ..FleetFaults::default()
    };
    let analysis = analyse(&generated(superpod(2), faults), true);
    let mut hosts: Vec<String> = analysis
        .hosts
        .iter()
        .map(|host| host.name.clone())
        .collect();
    // The order is that of the reversed names, so that neighbours in the list are in different
    // units.
    hosts.sort_by_key(|host| host.bytes().rev().collect::<Vec<u8>>());
    let request = JobRequest {
        hosts,
        gpus_per_host: 8,
        left_out: 0,
        pattern: Pattern::Ring,
    };
    let plan = analysis.plan(&request).expect("known hosts");
    let (load, given) = (
        plan.load.expect("a load, because tables are given"),
        plan.load_as_given
            .expect("a load, because tables are given"),
    );
    assert_eq!((load.flows, load.lost), (64 * 8, 0));
    // Two of the 64 steps of the ring lead from one unit to the other.
    assert_eq!(load.leaf_local, 62 * 8);
    assert!(load.leaf_local > given.leaf_local && load.worst_link <= given.worst_link);
    for host in plan.ranks.chunks(8) {
        assert!(
            host.iter()
                .zip(0..)
                .all(|(rank, rail)| rank.rail == Some(rail))
        );
    }
    assert!(
        plan.warnings
            .iter()
            .any(|warning| warning.contains("rail-order-gpus"))
    );
    // Launchers know only hosts: without the script, the k-th process of twenty hosts would be on
    // another rail.
    let names_script = |warning: &&String| warning.contains("source the file rank-gpus");
    let warning = plan.warnings.iter().find(names_script).expect("a warning");
    assert!(
        warning.starts_with("20 hosts number their GPUs"),
        "{warning}"
    );
    let format = JobFile::named("rank-gpus").expect("a format");
    let script = format.render(&launched_ranks(&analysis, &plan));
    for ranks in plan.ranks.chunks(8) {
        let host = &analysis.hosts[ranks[0].host].name;
        for (number, rank) in ranks.iter().enumerate() {
            let of_rank = |visible: &str| visible_gpu(&script, host, number, visible);
            assert_eq!(of_rank(""), rank.gpu.to_string(), "{host} {number}");
        }
    }
    let host = &analysis.hosts[plan.ranks[0].host].name;
    let first = plan.ranks[0].gpu.to_string();
    let with_domain = format!("{host}.example.com");
    assert_eq!(
        visible_gpu(&script, &with_domain, 0, "0,1,2,3,4,5,6,7"),
        first
    );
    // A process that has one GPU keeps it; a host or a process that is not in the plan gets none.
    assert_eq!(visible_gpu(&script, host, 0, "GPU-1"), "GPU-1");
    assert_eq!(visible_gpu(&script, host, 8, ""), "");
    assert_eq!(visible_gpu(&script, "another", 0, ""), "");
    for pattern in Pattern::ALL {
        let plan = analysis
            .plan(&JobRequest {
                pattern,
                ..request.clone()
            })
            .expect("known hosts");
        assert!(
            plan.load
                .is_some_and(|load| load.lost == 0 && load.worst_link > 0),
            "{pattern}"
        );
    }
}

/// The value of `CUDA_VISIBLE_DEVICES` after the script, for a process with this local rank on a
/// host with this name. `visible` is the value before the script; if it is empty, the variable is
/// not set.
fn visible_gpu(script: &str, host: &str, rank: usize, visible: &str) -> String {
    let script = script.replace("$(uname -n)", host);
    let program = format!("{script}printf %s \"${{CUDA_VISIBLE_DEVICES-}}\"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-euc", &program]).env_clear();
    shell.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    shell.env("OMPI_COMM_WORLD_LOCAL_RANK", rank.to_string());
    if !visible.is_empty() {
        shell.env("CUDA_VISIBLE_DEVICES", visible);
    }
    let output = shell.output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8 output")
}

#[test]
fn a_job_of_all_hosts_leaves_out_hosts_with_too_few_gpus() {
    let mut fleet = generated(superpod(2), FleetFaults::default());
    let mut host = (*fleet.inventory.hosts()["host-003"].inventory).clone();
    host.remove_gpu(7);
    fleet
        .inventory
        .insert("host-003", host.clone(), 0)
        .expect("a plain host");
    // A login host, which has an adapter and no GPU, is not in the job, and no warning counts it.
    for gpu in (0..7).rev() {
        host.remove_gpu(gpu);
    }
    fleet
        .inventory
        .insert("login", host, 0)
        .expect("a plain host");
    let analysis = analyse(&fleet, false);
    let request = analysis.job_request(Vec::new(), 8, Pattern::Ring);
    let plan = analysis.plan(&request).expect("63 hosts");
    assert_eq!(plan.hosts.len(), 63);
    let counts_one = |warning: &String| warning.starts_with("1 host has fewer than 8 GPUs");
    assert!(plan.warnings.iter().any(counts_one), "{:?}", plan.warnings);
    // A host that the request names is not left out: the plan fails.
    let named = analysis.job_request(vec!["host-003".to_owned()], 8, Pattern::Ring);
    assert!(matches!(
        analysis.plan(&named),
        Err(JobError::Gpus { found: 7, .. })
    ));
}

#[test]
fn a_job_with_too_many_hosts_for_all_to_all_can_be_planned_as_a_ring() {
    let of_type = generated(superpod(1), FleetFaults::default());
    let host = of_type.inventory.hosts()["host-001"]
        .inventory
        .as_machine_type();
    let mut inventory = GpuInventory::new();
    for number in 0..4097 {
        let name = format!("n{number}");
        inventory
            .insert(&name, host.clone(), 0)
            .expect("a plain host");
    }
    let analysis = Analysis::new(&inventory, None, AnalysisConfig::default());
    let plan = |pattern| analysis.plan(&analysis.job_request(Vec::new(), 8, pattern));
    assert_eq!(
        plan(Pattern::Ring).map(|plan| plan.ranks.len()),
        Ok(4097 * 8)
    );
    assert_eq!(plan(Pattern::AllToAll), Err(JobError::AllToAll(4097)));
}

#[test]
fn impossible_jobs_are_refused() {
    let analysis = analyse(&generated(superpod(1), FleetFaults::default()), false);
    let name = analysis.hosts[0].name.clone();
    let plan = |hosts: &[&str], gpus_per_host| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        analysis.plan(&JobRequest {
            hosts,
            gpus_per_host,
            left_out: 0,
            pattern: Pattern::Ring,
        })
    };
    assert_eq!(plan(&[], 8), Err(JobError::HostCount(0)));
    assert_eq!(
        plan(&["nobody"], 8),
        Err(JobError::UnknownHost("nobody".to_owned()))
    );
    assert_eq!(
        plan(&[&name, &name], 8),
        Err(JobError::DuplicateHost(name.clone()))
    );
    assert!(matches!(
        plan(&[&name], 9),
        Err(JobError::Gpus { found: 8, .. })
    ));
    assert!(matches!(plan(&[&name], 0), Err(JobError::Gpus { .. })));
    let alone = plan(&[&name], 8).expect("one host is a job");
    assert_eq!((alone.ranks.len(), alone.load), (8, None));
}

//! The table of faults: fleets of 1, 16 and 200 hosts with each fault, by seed.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::findings::{GpuFinding, GpuFindingKind};
use rsm_gdr::generate::{FleetFaults, Storage};
use rsm_gdr::inventory::{HostInventory, PcieLink};
use rsm_gdr::render::describe;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

use crate::faults::{Expected, Fault, World, fabric, with};

/// The numbers of hosts.
const SIZES: [usize; 3] = [1, 16, 200];

pub(crate) fn findings(world: World) -> Vec<GpuFinding> {
    analysed(world).findings
}

/// The analysis of a world with its fabric.
pub(crate) fn analysed(world: World) -> Analysis {
    let (netlist, inventory) = world.finish();
    let topology = Arc::new(Topology::from_netlist(&netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(&netlist, topology, None, 4096);
    Analysis::new(&inventory, Some(fabric), AnalysisConfig::default())
}

/// Whether a finding has the kind, hosts and devices that a fault must cause.
fn is_expected(finding: &GpuFinding, expected: &Expected) -> bool {
    let hosts: BTreeSet<String> = finding.hosts().map(str::to_owned).collect();
    let of_ports = finding.ports.iter().map(|port| port.host.clone());
    let hosts: BTreeSet<String> = hosts.into_iter().chain(of_ports).collect();
    let ports: BTreeSet<String> = finding.ports.iter().map(ToString::to_string).collect();
    let gpus = expected.gpus.as_ref();
    finding.kind == expected.kind
        && hosts == expected.hosts
        && ports.is_superset(&expected.ports)
        && gpus.is_none_or(|gpus| *gpus == finding.gpus)
}

/// The outcomes of one fault at one size.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Cell {
    fleets: usize,
    /// The number of fleets in which exactly one finding has the fault's kind, hosts and devices.
    named: usize,
    /// The number of other findings.
    blamed: usize,
}

impl Cell {
    fn add(self, other: Cell) -> Cell {
        Cell {
            fleets: self.fleets + other.fleets,
            named: self.named + other.named,
            blamed: self.blamed + other.blamed,
        }
    }
}

/// The outcomes of a fault over `seeds`, and a text about the first fleet with a wrong outcome.
fn cell(fault: Fault, netlist: &Netlist, size: usize, seeds: Range<u64>) -> (Cell, Vec<String>) {
    let one = |seed: u64| {
        let (world, expected) = with(fault, netlist, size, seed);
        let all = findings(world);
        let (right, wrong): (Vec<_>, Vec<_>) =
            all.iter().partition(|one| is_expected(one, &expected));
        let cell = Cell {
            fleets: 1,
            named: usize::from(right.len() == 1),
            blamed: wrong.len() + right.len().saturating_sub(1),
        };
        let bad = right.len() != 1 || !wrong.is_empty();
        let text = bad.then(|| format!("{fault:?} {size} seed {seed}: {expected:?}: {all:#?}"));
        (cell, text)
    };
    let outcomes: Vec<(Cell, Option<String>)> = seeds.into_par_iter().map(one).collect();
    let sum = outcomes
        .iter()
        .fold(Cell::default(), |sum, one| sum.add(one.0));
    let texts = outcomes.into_iter().filter_map(|(_, text)| text);
    (sum, texts.take(1).collect())
}

/// Passes each line of the table of `faults` to `show`. Returns texts about fleets with missing or
/// additional findings.
fn table(faults: &[Fault], seeds: [Range<u64>; 3], show: impl Fn(&str)) -> Vec<String> {
    let mut wrong = Vec::new();
    show(&format!(
        "{:<24} hosts fleets  named blamed wrongly\n",
        "fault"
    ));
    for (size, seeds) in SIZES.into_iter().zip(seeds) {
        let netlist = fabric(size);
        for seed in seeds.clone() {
            let storage = [Storage::None, Storage::Far, Storage::NearGpu][(seed % 3) as usize];
            let faults = FleetFaults {
                storage,
                seed,
                ..FleetFaults::default()
            };
            let found = findings(World::new(&netlist, faults));
            if !found.is_empty() {
                wrong.push(format!("clean, {size} hosts, {storage:?}: {found:#?}"));
            }
        }
        for &fault in faults {
            if !fault.shows_among(size) {
                continue;
            }
            let (cell, texts) = cell(fault, &netlist, size, seeds.clone());
            show(&format!(
                "{:<24} {size:>5} {:>6} {:>6} {:>6}\n",
                format!("{fault:?}"),
                cell.fleets,
                cell.named,
                cell.blamed
            ));
            wrong.extend(texts);
        }
    }
    wrong
}

#[test]
fn every_fault_causes_its_one_finding_and_no_other() {
    // An odd seed gives several hosts the same fault.
    let wrong = table(&Fault::ALL, [0..6, 0..3, 1..2], |_| {});
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_host_of_a_grouped_finding_shows_it() {
    let (world, expected) = with(Fault::EthernetMode, &fabric(16), 16, 1);
    let analysis = analysed(world);
    assert_eq!((expected.hosts.len(), analysis.findings.len()), (3, 1));
    for host in &analysis.hosts {
        let has = analysis.findings_of(&host.name).count();
        let wording = describe(&analysis, &host.name).expect("a known host");
        let wanted = expected.hosts.contains(&host.name);
        assert_eq!(has, usize::from(wanted), "{}", host.name);
        assert_eq!(wording.contains("hca-ethernet-mode"), wanted, "{wording}");
    }
    assert_eq!(analysis.without_inventory().count(), 0);

    let (world, expected) = with(Fault::WithoutInventory, &fabric(16), 16, 1);
    let analysis = analysed(world);
    let without: BTreeSet<String> = analysis.without_inventory().map(str::to_owned).collect();
    assert_eq!((without.len(), without), (3, expected.hosts));
}

#[test]
fn faults_whose_devices_differ_by_host_are_one_finding_that_names_them() {
    for (fault, wording) in [
        (Fault::GuidUnknown, "and not under the inventory's GUIDs: "),
        (Fault::CableMisplaced, ": expected "),
        (Fault::StorageCable, ": expected a leaf without GPUs: "),
        (Fault::GpusPermuted, "the cables are right: "),
        (
            Fault::AdaptersPermuted,
            "are on other rails than 0,1,2,3,4,5,6,7: ",
        ),
    ] {
        let (world, expected) = with(fault, &fabric(16), 16, 1);
        let all = findings(world);
        assert_eq!(
            (expected.hosts.len(), all.len()),
            (3, 1),
            "{fault:?}: {all:#?}"
        );
        let evidence = &all[0].evidence;
        assert!(evidence.contains(wording), "{evidence}");
        for host in &expected.hosts {
            assert!(evidence.contains(&format!("{host} ")), "{evidence}");
        }
    }
}

/// The findings about 16 hosts after `change` of each, as hosts and evidence. Asserts that all are
/// about PCIe links.
fn pcie_findings(change: impl Fn(usize, &mut HostInventory)) -> Vec<(Vec<String>, String)> {
    let mut world = World::new(&fabric(16), FleetFaults::default());
    world.each_host(change);
    let degraded = |finding: &GpuFinding| finding.kind == GpuFindingKind::PcieDegraded;
    let all = findings(world);
    assert!(all.iter().all(degraded), "{all:#?}");
    let wording = |finding: GpuFinding| {
        let hosts = finding.hosts().map(str::to_owned).collect();
        (hosts, finding.evidence)
    };
    all.into_iter().map(wording).collect()
}

#[test]
fn pcie_links_are_compared_with_the_majority_or_their_own_ends() {
    let link = |text: &str| text.parse::<PcieLink>().ok();
    // Half of the hosts lack links, the others have them.
    let half = pcie_findings(|place, host| {
        if place % 2 == 0 {
            host.gpus.iter_mut().for_each(|gpu| gpu.pcie = None);
            host.hca_ports.iter_mut().for_each(|port| port.pcie = None);
        }
    });
    assert_eq!(half, []);
    // Two generations of hosts, half and half: no majority blames the older.
    let both = pcie_findings(|place, host| {
        let of_host = link(if place < 8 {
            "x16 16.0 GT/s"
        } else {
            "x16 32.0 GT/s"
        });
        host.hca_ports
            .iter_mut()
            .for_each(|port| port.pcie = of_host);
    });
    assert_eq!(both, []);
    // All hosts have links below what their ends support: this is how they are built.
    let wired = pcie_findings(|_, host| {
        for port in &mut host.hca_ports {
            (port.pcie, port.pcie_max) = (link("x8 32.0 GT/s"), link("x16 32.0 GT/s"));
        }
    });
    assert_eq!(wired, []);
    // Only one inventory has links, which are compared with what their ends support.
    let alone = pcie_findings(|place, host| {
        for port in &mut host.hca_ports {
            port.pcie = link("x8 32.0 GT/s").filter(|_| place == 3);
            port.pcie_max = link("x16 32.0 GT/s");
        }
        host.gpus.iter_mut().for_each(|gpu| gpu.pcie = None);
    });
    let wording = "mlx5_0 has a PCIe link of x8 32.0 GT/s, and both its ends can have x16 32.0 GT/s, \
                and 7 more devices below theirs";
    assert_eq!(alone, [(vec!["host-004".to_owned()], wording.to_owned())]);
    // Three hosts with one fault are one finding. That all links are below what their ends support
    // is not a fault.
    let three = pcie_findings(|place, host| {
        for gpu in &mut host.gpus {
            gpu.pcie_max = link("x16 64.0 GT/s");
        }
        if place < 3 {
            host.gpus[5].pcie = link("x4 32.0 GT/s");
        }
    });
    let hosts = ["host-001", "host-002", "host-003"]
        .map(str::to_owned)
        .to_vec();
    let wording =
        "GPU5 has a PCIe link of x4 32.0 GT/s, where most hosts like it have x16 32.0 GT/s";
    assert_eq!(three, [(hosts, wording.to_owned())]);
}

/// `RSM_FAULTS` names faults, separated by commas; without it the table has all.
#[test]
#[ignore = "minutes: 200 seeds, and prints the table"]
fn every_fault_causes_its_one_finding_with_200_seeds() {
    let names = std::env::var("RSM_FAULTS").unwrap_or_default();
    let is_asked = |fault: &Fault| {
        let name = format!("{fault:?}");
        names.is_empty() || names.split(',').any(|asked| asked == name)
    };
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(is_asked).collect();
    let wrong = table(&faults, [0..200, 0..200, 0..200], |line| {
        std::io::stdout()
            .write_all(line.as_bytes())
            .expect("an open output");
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

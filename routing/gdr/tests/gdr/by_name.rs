//! Tests of faults of hosts whose inventories have only names, as from `nvidia-smi topo -m`.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::ops::Range;

use rayon::prelude::*;
use rsm_gdr::findings::{GpuFinding, GpuFindingKind as Kind, Severity};
use rsm_gdr::generate::{FleetFaults, Storage};
use rsm_routing::netlist::Netlist;

use crate::faults::{Expected, Fault, World, fabric, with};
use crate::table::findings;

/// The kinds of findings that name a fault, or ask about it, without addresses and GUIDs; empty if
/// an inventory of names does not show the fault.
fn kinds(fault: Fault) -> &'static [Kind] {
    match fault {
        Fault::AdaptersPermuted => &[Kind::RailOrderHcas, Kind::RailOrderUnknown],
        Fault::GpusPermuted => &[Kind::RailOrderGpus, Kind::RailOrderUnknown],
        Fault::OneNvLink | Fault::AllNvLinks | Fault::AllNvLinksUnclear => &[Kind::NvLinkDegraded],
        Fault::AdapterUnderOtherSwitch => &[Kind::TierWorse, Kind::RailOrderUnknown],
        Fault::AdapterOffBus | Fault::HalfPopulated | Fault::TierWorse => &[Kind::TierWorse],
        Fault::GpuOffBus => &[Kind::GpuMissing],
        Fault::EthernetMode => &[Kind::Unjoined],
        Fault::StorageCable => &[Kind::StorageOnComputeLeaf],
        Fault::CablesSwapped => &[Kind::RailCablesSwapped, Kind::RailOrderUnknown],
        Fault::CableMisplaced => &[Kind::RailCableMisplaced],
        Fault::PortSlow => &[Kind::PortSlow],
        Fault::HostSlow => &[Kind::HostSlow],
        Fault::WithoutInventory => &[Kind::NoInventory],
        Fault::RackExchanged => &[Kind::RailOrderUnknown],
        Fault::HalfExchanged | Fault::UnitExchanged => {
            &[Kind::RailsDisagree, Kind::RailOrderUnknown]
        }
        Fault::NameTwice => &[Kind::HostNameTwice],
        Fault::LeafSlow => &[Kind::LeafSlow],
        Fault::GpuAtOtherNode => &[Kind::NumaDiffers],
        Fault::MostHalfPopulated
        | Fault::PcieNarrow
        | Fault::PcieSlow
        | Fault::GpuPcieNarrow
        | Fault::OldFirmware
        | Fault::GuidUnknown
        | Fault::GuidClaimed
        | Fault::OtherInventory
        | Fault::VirtualFunctions
        | Fault::WithoutGdr
        | Fault::AcsRedirect
        | Fault::IommuTranslates
        | Fault::StrictOrdering => &[],
    }
}

/// Whether a finding is an error about a host without the fault.
fn is_wrong(finding: &GpuFinding, expected: &Expected) -> bool {
    let ports = finding.ports.iter().map(|port| port.host.as_str());
    let mut hosts = finding.hosts().chain(ports);
    finding.kind.severity() > Severity::Info && !hosts.all(|host| expected.hosts.contains(host))
}

/// Whether a finding has one of `kinds` and names a host with the fault.
fn is_about_fault(finding: &GpuFinding, kinds: &[Kind], expected: &Expected) -> bool {
    let hosts: BTreeSet<&str> = finding.hosts().collect();
    let ports = finding.ports.iter().map(|port| port.host.as_str());
    let hosts: BTreeSet<&str> = hosts.into_iter().chain(ports).collect();
    kinds.contains(&finding.kind) && expected.hosts.iter().any(|host| hosts.contains(&host[..]))
}

/// The outcomes of one fault, as numbers of fleets.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Outcomes {
    /// All fleets.
    fleets: usize,
    /// Fleets with a finding that names the fault.
    named: usize,
    /// Other fleets with a finding that asks about the fault.
    asked: usize,
    /// Fleets without any finding about the fault.
    missed: usize,
    /// The number of errors about hosts without the fault.
    blamed_wrongly: usize,
}

/// The outcome of a fault in one fleet, and a text about the fleet if the outcome is wrong.
fn outcome(fault: Fault, netlist: &Netlist, size: usize, seed: u64) -> (Outcomes, Option<String>) {
    let (mut world, expected) = with(fault, netlist, size, seed);
    world.by_names();
    let all = findings(world);
    let about = all
        .iter()
        .filter(|one| is_about_fault(one, kinds(fault), &expected));
    let is_question =
        |one: &GpuFinding| matches!(one.kind, Kind::RailOrderUnknown | Kind::RailsDisagree);
    let (asked, named): (Vec<_>, Vec<_>) = about.partition(|one| is_question(one));
    let wrong = all.iter().filter(|one| is_wrong(one, &expected)).count();
    let outcomes = Outcomes {
        fleets: 1,
        named: usize::from(!named.is_empty()),
        asked: usize::from(named.is_empty() && !asked.is_empty()),
        missed: usize::from(named.is_empty() && asked.is_empty()),
        blamed_wrongly: wrong,
    };
    let bad = wrong > 0 || outcomes.missed > 0 && !kinds(fault).is_empty();
    let text = bad.then(|| format!("{fault:?} {size} seed {seed}: {expected:?}: {all:#?}"));
    (outcomes, text)
}

/// Passes each line of the table to `show`. Returns texts about fleets in which a fault was missed,
/// or a host without a fault was blamed.
fn table(faults: &[Fault], sizes: [(usize, Range<u64>); 2], show: impl Fn(&str)) -> Vec<String> {
    let mut wrong = Vec::new();
    show(&format!(
        "{:<24} hosts fleets named asked missed wrong\n",
        "fault"
    ));
    for (size, seeds) in sizes {
        let netlist = fabric(size);
        for &fault in faults.iter().filter(|fault| fault.shows_among(size)) {
            let each: Vec<(Outcomes, Option<String>)> = seeds
                .clone()
                .into_par_iter()
                .map(|seed| outcome(fault, &netlist, size, seed))
                .collect();
            let sum = |count: fn(&Outcomes) -> usize| -> usize {
                each.iter().map(|(outcomes, _)| count(outcomes)).sum()
            };
            show(&format!(
                "{:<24} {size:>5} {:>6} {:>5} {:>5} {:>6} {:>5}\n",
                format!("{fault:?}"),
                sum(|one| one.fleets),
                sum(|one| one.named),
                sum(|one| one.asked),
                sum(|one| one.missed),
                sum(|one| one.blamed_wrongly)
            ));
            wrong.extend(each.into_iter().find_map(|(_, text)| text));
        }
    }
    wrong
}

#[test]
fn clean_fleet_of_names_has_no_findings() {
    for storage in [Storage::None, Storage::Far] {
        let faults = FleetFaults {
            storage,
            ..FleetFaults::default()
        };
        let mut world = World::new(&fabric(16), faults);
        world.by_names();
        assert_eq!(findings(world), [], "{storage:?}");
    }
}

#[test]
fn each_fault_that_names_show_has_a_finding_and_no_other_host_is_blamed() {
    let wrong = table(&Fault::ALL, [(16, 0..4), (200, 1..2)], |_| {});
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `RSM_FAULTS` names faults, separated by commas; without it the table has all.
#[test]
#[ignore = "minutes: 200 seeds, and prints the table"]
fn each_fault_that_names_show_has_a_finding_with_200_seeds() {
    let names = std::env::var("RSM_FAULTS").unwrap_or_default();
    let is_asked = |fault: &Fault| {
        let name = format!("{fault:?}");
        names.is_empty() || names.split(',').any(|asked| asked == name)
    };
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(is_asked).collect();
    let wrong = table(&faults, [(16, 0..200), (200, 0..200)], |line| {
        std::io::stdout()
            .write_all(line.as_bytes())
            .expect("an open output");
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! The time of `fabric-tree` at 45,056 hosts and less, full and after faults.
//!
//! `cargo bench -p rsm-routing --bench fabric_tree [-- SUBSTRING]` prints medians of a few runs:
//! wall-clock time on all cores, and processor time, which other work on the machine blurs less.
//! Milliseconds.

#![expect(clippy::print_stdout, reason = "a bench prints")]

#[path = "../tests/routing/common.rs"]
mod common;
mod stopwatch;
mod trees;

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::engine::{Change, EngineKind, Options, Ranking, rebalance, replan, route};
use rsm_routing::mcast::Orientation;
use rsm_routing::tables::{Lft, Tables};
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{Candidate, ProvedTables, verify_changes, verify_whole};

use stopwatch::Taken;

const RUNS: usize = 5;

/// The switch and the port at one end of a cable.
type CableEnd = (Guid, PortNum);

/// "median wall (median cpu)", and the last result.
fn median<T>(work: impl FnMut() -> T) -> (String, T) {
    let (taken, result) = stopwatch::time(RUNS, work);
    let middle = |of: fn(&Taken) -> f64| {
        let mut times: Vec<f64> = taken.iter().map(of).collect();
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    };
    let (wall, cpu) = (middle(|taken| taken.wall_ms), middle(|taken| taken.cpu_ms));
    (format!("{wall:.2} ({cpu:.2} cpu)"), result)
}

/// The order in which ports get LIDs, behind the switches and from a whole block on.
#[derive(Clone, Copy)]
enum Layout {
    /// Leaf by leaf.
    ByLeaf,
    /// The first port of every leaf, then the second of every leaf, and so on.
    ByIndex,
    /// In an order independent of the fabric: by a product that wraps around. There is no seed.
    Scattered,
}

fn laid_out(topology: &Topology, layout: Layout) -> Topology {
    let mut ports: Vec<(usize, Lid)> = Vec::new();
    let mut lids: Vec<Lid> = (0..=topology.top_lid().0).map(Lid).collect();
    for switch in topology.indices() {
        let (switch_ports, hosts): (Vec<_>, Vec<_>) = topology
            .destinations_of(switch)
            .iter()
            .partition(|destination| !destination.kind.is_host());
        for port in switch_ports {
            lids[port.lid.index()] = Lid(switch.0 as u16 + 1);
        }
        ports.extend(
            hosts
                .iter()
                .enumerate()
                .map(|(index, host)| (index, host.lid)),
        );
    }
    match layout {
        Layout::ByLeaf => {}
        Layout::ByIndex => ports.sort_by_key(|&(index, _)| index),
        Layout::Scattered => {
            let mixed = |lid: Lid| u64::from(lid.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            ports.sort_unstable_by_key(|&(_, lid)| mixed(lid));
        }
    }
    let first = (topology.switch_count() + 1).next_multiple_of(64);
    for (number, (_, lid)) in ports.into_iter().enumerate() {
        lids[lid.index()] = Lid((first + number) as u16);
    }
    common::rebuilt(
        topology,
        |_| true,
        |destination| lids[destination.lid.index()],
    )
}

/// The number of Sets that each of some faults costs: those that packets between hosts wait for,
/// those that packets of hosts to switches wait for as well, and all.
///
/// The least cost of a middle switch of `pgft:3;32,32,44;1,32,16;1,1,2`: each of the 32 leaves
/// below it sent a 32nd of 45,024 destinations there, which are 22 blocks wherever their LIDs are
/// next to each other, and each of the 1,376 leaves elsewhere came down through it to a 32nd of the
/// pod's 1,024 hosts, which is one block: 2,080 with LIDs by index, and with none fewer as long as
/// loads are even. With the LIDs of switches it cannot be under 2,769 in the mean over all middle
/// switches: 34 LIDs (32 hosts, a leaf, a middle switch) are then to be in one block for each of
/// 1,408 pairs of pod and slot, and 768 blocks of 64 have room for one whole such group each.
fn faults(topology: &Topology) {
    let leaf = |switch: SwitchIdx| topology.hosts(switch) > 0;
    let next_to_leaf = |switch: SwitchIdx| {
        !leaf(switch) && topology.groups(switch).any(|group| leaf(group.neighbour))
    };
    let at = |guid| {
        topology
            .switch_by_guid(guid)
            .expect("a switch of this fabric")
    };
    let cables = topology.cables();
    let middle = |wanted: &dyn Fn(SwitchIdx) -> bool| {
        let found: Vec<SwitchIdx> = topology.indices().filter(|&s| wanted(s)).collect();
        found[found.len() / 2]
    };
    let cable = |wanted: &dyn Fn(SwitchIdx) -> bool| {
        let found: Vec<_> = cables
            .iter()
            .filter(|cable| wanted(at(cable.a.0)))
            .collect();
        // Not the cable whose index is that of the leaf: it also carries packets to the leaf
        // itself.
        found[found.len() / 2 + 5].a
    };
    let mid = middle(&next_to_leaf);
    let core = middle(&|switch| !leaf(switch) && !next_to_leaf(switch));
    let without = |gone: SwitchIdx| common::without_switches(topology, &[gone]);
    let broken: [(&str, &dyn Fn() -> Topology); 4] = [
        ("leaf link", &|| topology.without_cables(&[cable(&leaf)])),
        ("core link", &|| {
            topology.without_cables(&[cable(&next_to_leaf)])
        }),
        ("middle switch", &|| without(mid)),
        ("core switch", &|| without(core)),
    ];
    let before = route(EngineKind::FabricTree, topology, &Options::default(), None);
    let before = before.expect("a tree can be routed");
    for (name, broken) in broken {
        let broken = broken();
        let options = Options {
            previous_ranking: before.ranking.clone(),
            ..Options::default()
        };
        let after = route(EngineKind::FabricTree, &broken, &options, None);
        let after = after.expect("a broken tree can be routed");
        let held =
            |switch: &rsm_routing::topology::Switch| before.tables.lft(at(switch.guid)).clone();
        let old = Tables {
            lfts: broken.switches().iter().map(held).collect(),
        };
        let changes = changes(&old, &after.tables);
        let is_carried = carried(&broken, &after.tables, &changes);
        let blocks = |of: &dyn Fn(usize) -> bool| {
            let of = (0..changes.len()).filter(|&number| of(number));
            let found: BTreeSet<_> = of
                .map(|number| (changes[number].switch, changes[number].lid.0 / 64))
                .collect();
            found.len()
        };
        let is_host = |number: usize| {
            let destination = broken.destination_of(changes[number].lid);
            destination.is_some_and(|destination| destination.kind.is_host())
        };
        println!(
            "    {name:13}: {:6} blocks between hosts, {:6} with hosts to switches, {:6} in all; {} entries{}",
            blocks(&|number| is_carried[number] && is_host(number)),
            blocks(&|number| is_carried[number]),
            blocks(&|_| true),
            changes.len(),
            if after.reason.contains("while parts") {
                ", by another order"
            } else {
                ""
            },
        );
    }
}

/// Every entry that differs, by switch and LID.
fn changes(old: &Tables, new: &Tables) -> Vec<Change> {
    let none = Lft::default();
    let mut changes = Vec::new();
    for index in 0..old.lfts.len().max(new.lfts.len()) {
        let [was, is] = [old, new].map(|tables| tables.lfts.get(index).unwrap_or(&none));
        changes.extend(was.differing(is).map(|lid| Change {
            // Fewer switches than LIDs.
            switch: SwitchIdx(index as u32),
            lid,
            before: was.entry(lid),
            after: is.entry(lid),
        }));
    }
    changes
}

/// For each change: whether packets of hosts pass its entry in the new tables. Other changes serve
/// only packets to or from switches.
fn carried(topology: &Topology, new: &Tables, changes: &[Change]) -> Vec<bool> {
    let leaves: Vec<SwitchIdx> = topology
        .indices()
        .filter(|&switch| topology.hosts(switch) > 0)
        .collect();
    let mut lids: Vec<Lid> = changes.iter().map(|change| change.lid).collect();
    lids.sort_unstable();
    lids.dedup();
    let of_lid = |&lid: &Lid| {
        let mut passed = FixedBitSet::with_capacity(topology.switch_count());
        for &leaf in &leaves {
            let mut switch = leaf;
            // Packets at a switch that was passed have the same path from there.
            while !passed.put(switch.index()) {
                let entry = new.lft(switch).entry(lid);
                match topology.peer(switch, PortNum(entry)) {
                    Some((next, _)) => switch = next,
                    None => break,
                }
            }
        }
        passed
    };
    let passed: Vec<FixedBitSet> = lids.par_iter().map(of_lid).collect();
    let is_passed = |change: &Change| {
        let index = lids.partition_point(|&lid| lid < change.lid);
        passed[index].contains(change.switch.index())
    };
    changes.iter().map(is_passed).collect()
}

/// How many blocks a step of rebalancing may write, as by default.
const STEP_BLOCKS: usize = 256;

/// One of two parallel cables, or a single one in the middle.
fn core_cable(topology: &Topology) -> CableEnd {
    let is_leaf = |guid| {
        topology
            .switch_by_guid(guid)
            .is_some_and(|switch| topology.hosts(switch) > 0)
    };
    let cables = topology.cables();
    let mut above_leaves = cables
        .iter()
        .filter(|cable| !is_leaf(cable.a.0) && !is_leaf(cable.b.0));
    above_leaves.next().expect("it has three levels").a
}

/// Every hundredth cable between switches.
fn hundredth_cables(topology: &Topology) -> Vec<CableEnd> {
    let cables = topology.cables();
    let lost = cables.iter().skip(50).step_by(100);
    lost.map(|cable| cable.a).collect()
}

/// The load of the fullest link, and its share of the lower bound, after cables have gone for good.
fn rebalancing(title: &str, topology: &Topology, ranking: Option<&Ranking>, gone: &[CableEnd]) {
    let broken = topology.without_cables(gone);
    let with = |ranking: Option<&Ranking>| Options {
        previous_ranking: ranking.cloned(),
        ..Options::default()
    };
    let routed = route(EngineKind::FabricTree, &broken, &with(ranking), None);
    let mut routed = routed.expect("a broken tree can be routed");
    let mut fullest = Vec::new();
    let mut times = Vec::new();
    let end = loop {
        let proof = verify_whole(&broken, &routed.tables);
        fullest.push(proof.report.load.max);
        let options = with(routed.ranking.as_ref());
        let step = || rebalance(&broken, &options, &proof.tally, STEP_BLOCKS);
        let (mut taken, next) = stopwatch::time(1, step);
        times.append(&mut taken);
        match next {
            Ok(next) => routed = next.routing,
            Err(why) => break why,
        }
    };
    let slowest = times.iter().map(|taken| taken.wall_ms).fold(0.0, f64::max);
    println!(
        "  {title} less, rebalanced: fullest link {} -> {} paths, {} steps of at most {STEP_BLOCKS} blocks, the slowest {slowest:.1} ms; {end}",
        fullest[0],
        fullest[fullest.len() - 1],
        fullest.len() - 1
    );
}

fn bench(name: &str, topology: &Topology) {
    let options = Options::default();
    let (taken, routing) = median(|| route(EngineKind::FabricTree, topology, &options, None));
    let routing = routing.expect("a tree can be routed");
    println!("{name} hosts, {} switches", topology.switch_count());
    println!("  full {taken}");
    let kept = Options {
        previous_ranking: routing.ranking.clone(),
        ..Options::default()
    };
    let unprepared = Options {
        previous_ranking: routing.ranking.clone().map(Ranking::unprepared),
        ..Options::default()
    };
    let (taken, _) = median(|| route(EngineKind::FabricTree, topology, &unprepared, None));
    println!("  full, by a known order {taken}");
    let one_link = topology.without_cables(&[topology.cables()[topology.link_count() / 3].a]);
    let core = topology.indices().last().expect("it has switches");
    let one_switch = common::without_switches(topology, &[core]);
    let (taken, tally) = median(|| verify_whole(topology, &routing.tables).tally);
    println!("  proof of everything {taken}");
    for (name, broken) in [("one link", &one_link), ("one core switch", &one_switch)] {
        let (taken, again) = median(|| replan(broken, &kept).expect("only parts of it have gone"));
        println!(
            "  {name} less: replan {taken}, {} entries",
            again.changes().len()
        );
        let (taken, again) = median(|| {
            let again = replan(broken, &kept).expect("only parts of it have gone");
            again.into_routing(None)
        });
        println!("    with tables {taken}");
        let order = |of: &Topology, ranking: &Option<Ranking>| {
            let found = ranking
                .as_ref()
                .and_then(|ranking| Orientation::of(of, ranking));
            found.expect("it is ranked")
        };
        let (then, now) = (
            order(topology, &routing.ranking),
            order(broken, &again.ranking),
        );
        let proved_before = ProvedTables {
            topology,
            tables: &routing.tables,
            orientation: &then,
            tally: &tally,
        };
        let candidate = Candidate {
            topology: broken,
            tables: &again.tables,
            orientation: &now,
        };
        let (taken, changed) = median(|| verify_changes(&proved_before, &candidate));
        let pairs = changed.expect("the order is the same").pairs;
        println!("    proof of the changes {taken}: {pairs} pairs");
        let back = Options {
            previous_ranking: again.ranking.clone(),
            ..Options::default()
        };
        let (taken, _) = median(|| replan(topology, &back).expect("all of it is known"));
        println!("    and back {taken}");
    }
    for (title, gone) in [
        ("core link", vec![core_cable(topology)]),
        ("1 % of links", hundredth_cables(topology)),
    ] {
        rebalancing(title, topology, routing.ranking.as_ref(), &gone);
    }
    drop(routing);
    for (name, layout) in [
        ("leaf by leaf", Layout::ByLeaf),
        ("by index", Layout::ByIndex),
        ("scattered", Layout::Scattered),
    ] {
        println!("  LIDs {name}");
        faults(&laid_out(topology, layout));
    }
}

fn main() {
    let wanted = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    for (name, topology) in trees::named(wanted.as_deref()) {
        bench(name, &topology);
    }
}

//! Measures the time of `fabric-tree` on fabrics of up to 45,056 hosts, whole and after faults.
//!
//! `cargo bench -p rsm-routing --bench fabric_tree [-- SUBSTRING]` prints medians of a few runs, in
//! milliseconds: the wall-clock time on all cores, and the processor time, which other work on the
//! machine affects less. Only fabrics whose number of
//! hosts contains `SUBSTRING` are measured.

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

/// The number of runs for each median.
const RUNS: usize = 5;

/// The switch and the port at one end of a cable.
type CableEnd = (Guid, PortNum);

/// Measures `work` [`RUNS`] times. Returns the median times in milliseconds as the text
/// "WALL (CPU cpu)", and the last result.
fn median<T>(work: impl FnMut() -> T) -> (String, T) {
    let (taken, result) = stopwatch::time(RUNS, work);
    let median_of = |time: fn(&Taken) -> f64| {
        let mut times: Vec<f64> = taken.iter().map(time).collect();
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    };
    let (wall, cpu) = (median_of(|run| run.wall_ms), median_of(|run| run.cpu_ms));
    (format!("{wall:.2} ({cpu:.2} cpu)"), result)
}

/// The order in which host ports get LIDs. Their LIDs begin with the first whole block after the
/// LIDs of switches.
#[derive(Clone, Copy)]
enum Layout {
    /// LIDs ascend leaf by leaf.
    ByLeaf,
    /// LIDs ascend over the first port of every leaf, then over the second port, and so on.
    ByIndex,
    /// LIDs are in a pseudo-random order, equal in each run: sorted by a hash of the former LID.
    Scattered,
}

/// Rebuilds `topology` with the LIDs of `layout`.
fn laid_out(topology: &Topology, layout: Layout) -> Topology {
    let mut host_ports: Vec<(usize, Lid)> = Vec::new();
    let mut lids: Vec<Lid> = (0..=topology.top_lid().0).map(Lid).collect();
    for switch in topology.indices() {
        let (switch_ports, hosts): (Vec<_>, Vec<_>) = topology
            .destinations_of(switch)
            .iter()
            .partition(|destination| !destination.kind.is_host());
        for port in switch_ports {
            lids[port.lid.index()] = Lid(switch.0 as u16 + 1);
        }
        host_ports.extend(
            hosts
                .iter()
                .enumerate()
                .map(|(index, host)| (index, host.lid)),
        );
    }
    match layout {
        Layout::ByLeaf => {}
        Layout::ByIndex => host_ports.sort_by_key(|&(index, _)| index),
        Layout::Scattered => {
            let hash = |lid: Lid| u64::from(lid.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            host_ports.sort_unstable_by_key(|&(_, lid)| hash(lid));
        }
    }
    let first_host_lid = (topology.switch_count() + 1).next_multiple_of(64);
    for (offset, (_, lid)) in host_ports.into_iter().enumerate() {
        lids[lid.index()] = Lid((first_host_lid + offset) as u16);
    }
    common::rebuilt(
        topology,
        |_| true,
        |destination| lids[destination.lid.index()],
    )
}

/// Prints the number of Sets that the repair of each of four faults needs: Sets for packets between
/// hosts, Sets for packets from hosts to any destination, and all Sets.
///
/// If a middle switch of `pgft:3;32,32,44;1,32,16;1,1,2` fails, packets between hosts need at least
/// 2,080 Sets as long as loads are even, which LIDs by index reach. Each of the 32 leaves below the
/// switch sent a 32nd of 45,024 destinations through it: 22 blocks if their LIDs are adjacent. Each
/// of the other 1,376 leaves reached a 32nd of the pod's 1,024 hosts through it: one block.
///
/// With packets to switches, the mean over all middle switches is at least 2,769 Sets: for each of
/// 1,408 pairs of pod and slot, 34 LIDs (32 hosts, a leaf, a middle switch) would have to be in one
/// block, but only 768 blocks of 64 LIDs have room for one such group each.
fn print_faults(topology: &Topology) {
    let is_leaf = |switch: SwitchIdx| topology.hosts(switch) > 0;
    let is_next_to_leaf = |switch: SwitchIdx| {
        !is_leaf(switch)
            && topology
                .groups(switch)
                .any(|group| is_leaf(group.neighbour))
    };
    let index_of = |guid| {
        topology
            .switch_by_guid(guid)
            .expect("a switch of this fabric")
    };
    let cables = topology.cables();
    let middle_switch = |wanted: &dyn Fn(SwitchIdx) -> bool| {
        let candidates: Vec<SwitchIdx> = topology.indices().filter(|&s| wanted(s)).collect();
        candidates[candidates.len() / 2]
    };
    let middle_cable = |wanted: &dyn Fn(SwitchIdx) -> bool| {
        let candidates: Vec<_> = cables
            .iter()
            .filter(|cable| wanted(index_of(cable.a.0)))
            .collect();
        // The offset of 5 avoids the cable with the index of the leaf, which also carries the
        // packets to the leaf itself.
        candidates[candidates.len() / 2 + 5].a
    };
    let failed_middle = middle_switch(&is_next_to_leaf);
    let failed_core = middle_switch(&|switch| !is_leaf(switch) && !is_next_to_leaf(switch));
    let without = |gone: SwitchIdx| common::without_switches(topology, &[gone]);
    let scenarios: [(&str, &dyn Fn() -> Topology); 4] = [
        ("leaf link", &|| {
            topology.without_cables(&[middle_cable(&is_leaf)])
        }),
        ("core link", &|| {
            topology.without_cables(&[middle_cable(&is_next_to_leaf)])
        }),
        ("middle switch", &|| without(failed_middle)),
        ("core switch", &|| without(failed_core)),
    ];
    let before = route(EngineKind::FabricTree, topology, &Options::default(), None)
        .expect("a tree can be routed");
    for (name, break_topology) in scenarios {
        let broken = break_topology();
        let options = Options {
            previous_ranking: before.ranking.clone(),
            ..Options::default()
        };
        let after = route(EngineKind::FabricTree, &broken, &options, None)
            .expect("a broken tree can be routed");
        let lft_before = |switch: &rsm_routing::topology::Switch| {
            before.tables.lft(index_of(switch.guid)).clone()
        };
        let tables_before = Tables {
            lfts: broken.switches().iter().map(lft_before).collect(),
        };
        let changes = differences(&tables_before, &after.tables);
        let carries_host_packets = carries_packets_of_hosts(&broken, &after.tables, &changes);
        let count_blocks = |is_counted: &dyn Fn(usize) -> bool| {
            let counted = (0..changes.len()).filter(|&index| is_counted(index));
            let blocks: BTreeSet<_> = counted
                .map(|index| (changes[index].switch, changes[index].lid.0 / 64))
                .collect();
            blocks.len()
        };
        let is_to_host = |index: usize| {
            let destination = broken.destination_of(changes[index].lid);
            destination.is_some_and(|destination| destination.kind.is_host())
        };
        println!(
            "    {name:13}: {:6} blocks between hosts, {:6} with hosts to switches, {:6} in all; {} entries{}",
            count_blocks(&|index| carries_host_packets[index] && is_to_host(index)),
            count_blocks(&|index| carries_host_packets[index]),
            count_blocks(&|_| true),
            changes.len(),
            if after.reason.contains("while parts") {
                ", by another order"
            } else {
                ""
            },
        );
    }
}

/// The entries that differ between `old` and `new`, ascending by switch and LID. A switch that only
/// one of them has counts as a switch with an empty table in the other.
fn differences(old: &Tables, new: &Tables) -> Vec<Change> {
    let empty = Lft::default();
    let mut changes = Vec::new();
    for index in 0..old.lfts.len().max(new.lfts.len()) {
        let [old_lft, new_lft] = [old, new].map(|tables| tables.lfts.get(index).unwrap_or(&empty));
        changes.extend(old_lft.differing(new_lft).map(|lid| Change {
            // A fabric has fewer switches than LIDs.
            switch: SwitchIdx(index as u32),
            lid,
            before: old_lft.entry(lid),
            after: new_lft.entry(lid),
        }));
    }
    changes
}

/// For each change, whether packets from hosts use its entry in the new tables. Other entries serve
/// only packets from switches.
fn carries_packets_of_hosts(topology: &Topology, new: &Tables, changes: &[Change]) -> Vec<bool> {
    let leaves: Vec<SwitchIdx> = topology
        .indices()
        .filter(|&switch| topology.hosts(switch) > 0)
        .collect();
    let mut lids: Vec<Lid> = changes.iter().map(|change| change.lid).collect();
    lids.sort_unstable();
    lids.dedup();
    let passed_switches = |&lid: &Lid| {
        let mut passed = FixedBitSet::with_capacity(topology.switch_count());
        for &leaf in &leaves {
            let mut switch = leaf;
            // From a switch that was passed before, the remaining path is the same.
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
    let passed: Vec<FixedBitSet> = lids.par_iter().map(passed_switches).collect();
    let carries_packets = |change: &Change| {
        let index = lids.partition_point(|&lid| lid < change.lid);
        passed[index].contains(change.switch.index())
    };
    changes.iter().map(carries_packets).collect()
}

/// The maximum number of blocks that a step of rebalancing writes: the default of rsm.
const STEP_BLOCKS: usize = 256;

/// One end of the first cable between switches without hosts; the cable may have a parallel cable.
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
    above_leaves.next().expect("the tree has three levels").a
}

/// One end of every hundredth cable between switches.
fn hundredth_cables(topology: &Topology) -> Vec<CableEnd> {
    let cables = topology.cables();
    let lost = cables.iter().skip(50).step_by(100);
    lost.map(|cable| cable.a).collect()
}

/// Rebalances without the cables `gone` until no step helps. Prints the maximum link load before
/// and after, the number of steps, and the reason of the end, with the share of the lower bound.
fn print_rebalancing(
    title: &str,
    topology: &Topology,
    ranking: Option<&Ranking>,
    gone: &[CableEnd],
) {
    let broken = topology.without_cables(gone);
    let options_with = |ranking: Option<&Ranking>| Options {
        previous_ranking: ranking.cloned(),
        ..Options::default()
    };
    let mut routed = route(
        EngineKind::FabricTree,
        &broken,
        &options_with(ranking),
        None,
    )
    .expect("a broken tree can be routed");
    let mut max_loads = Vec::new();
    let mut times = Vec::new();
    let end_reason = loop {
        let proof = verify_whole(&broken, &routed.tables);
        max_loads.push(proof.report.load.max);
        let options = options_with(routed.ranking.as_ref());
        let step = || rebalance(&broken, &options, &proof.tally, STEP_BLOCKS);
        let (mut taken, next) = stopwatch::time(1, step);
        times.append(&mut taken);
        match next {
            Ok(next) => routed = next.routing,
            Err(reason) => break reason,
        }
    };
    let slowest = times.iter().map(|taken| taken.wall_ms).fold(0.0, f64::max);
    println!(
        "  {title} less, rebalanced: fullest link {} -> {} paths, {} steps of at most {STEP_BLOCKS} blocks, the slowest {slowest:.1} ms; {end_reason}",
        max_loads[0],
        max_loads[max_loads.len() - 1],
        max_loads.len() - 1
    );
}

/// Measures one fabric, and prints the results; `name` is its number of hosts.
fn bench(name: &str, topology: &Topology) {
    let options = Options::default();
    let (taken, routing) = median(|| route(EngineKind::FabricTree, topology, &options, None));
    let routing = routing.expect("a tree can be routed");
    println!("{name} hosts, {} switches", topology.switch_count());
    println!("  full {taken}");
    let prepared = Options {
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
    let core = topology.indices().last().expect("the fabric has switches");
    let one_switch = common::without_switches(topology, &[core]);
    let (taken, tally) = median(|| verify_whole(topology, &routing.tables).tally);
    println!("  proof of everything {taken}");
    for (name, broken) in [("one link", &one_link), ("one core switch", &one_switch)] {
        let (taken, replanned) =
            median(|| replan(broken, &prepared).expect("only parts of it have gone"));
        println!(
            "  {name} less: replan {taken}, {} entries",
            replanned.changes().len()
        );
        let (taken, replanned) = median(|| {
            let replanned = replan(broken, &prepared).expect("only parts of it have gone");
            replanned.into_routing(None)
        });
        println!("    with tables {taken}");
        let orientation = |of: &Topology, ranking: &Option<Ranking>| {
            let orientation = ranking
                .as_ref()
                .and_then(|ranking| Orientation::of(of, ranking));
            orientation.expect("fabric-tree ranks every tree")
        };
        let (order_before, order_after) = (
            orientation(topology, &routing.ranking),
            orientation(broken, &replanned.ranking),
        );
        let proved_before = ProvedTables {
            topology,
            tables: &routing.tables,
            orientation: &order_before,
            tally: &tally,
        };
        let candidate = Candidate {
            topology: broken,
            tables: &replanned.tables,
            orientation: &order_after,
        };
        let (taken, changed) = median(|| verify_changes(&proved_before, &candidate));
        let pairs = changed.expect("the order is the same").pairs;
        println!("    proof of the changes {taken}: {pairs} pairs");
        let restoring = Options {
            previous_ranking: replanned.ranking.clone(),
            ..Options::default()
        };
        let (taken, _) = median(|| replan(topology, &restoring).expect("all of it is known"));
        println!("    and back {taken}");
    }
    for (title, gone) in [
        ("core link", vec![core_cable(topology)]),
        ("1 % of links", hundredth_cables(topology)),
    ] {
        print_rebalancing(title, topology, routing.ranking.as_ref(), &gone);
    }
    drop(routing);
    for (name, layout) in [
        ("leaf by leaf", Layout::ByLeaf),
        ("by index", Layout::ByIndex),
        ("scattered", Layout::Scattered),
    ] {
        println!("  LIDs {name}");
        print_faults(&laid_out(topology, layout));
    }
}

fn main() {
    let substring = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    for (name, topology) in trees::named(substring.as_deref()) {
        bench(name, &topology);
    }
}

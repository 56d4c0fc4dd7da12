//! Checks all paths and all dependencies of a set of tables, block by block.

use rayon::prelude::*;
use rsm_ids::Lid;

use super::cycles::Waits;
use super::dependencies::{Dependencies, Turns, lid_blocks};
use super::fabric::{Blocks, Fabric, Sources};
use super::lanes::verify_lanes;
use super::tally::Tally;
use super::walk::Walker;
use super::{MAX_WITNESSES, PairCounts, Report, Witness};
use crate::lanes::Lanes;
use crate::tables::{BLOCK_LIDS, Tables};
use crate::topology::{Destination, EndpointKind, Topology};

/// The results of a check of all tables.
pub struct Verified<'a> {
    /// The result of the proof.
    pub report: Report,
    /// The sums behind the report.
    pub tally: Tally,
    /// The links that each link can wait for.
    pub dependencies: Dependencies<'a>,
}

/// Checks tables against a topology.
///
/// `tables` may hold anything, including tables for more or fewer switches: a missing entry has no
/// path.
pub fn verify(topology: &Topology, tables: &Tables) -> Report {
    verify_whole(topology, tables).report
}

/// Checks as [`verify`] does, and returns the intermediate results, which cost most of the work.
pub fn verify_whole<'a>(topology: &'a Topology, tables: &Tables) -> Verified<'a> {
    let fabric = Fabric::new(topology);
    let sources = StartingPorts::new(topology);
    let blocks = lid_blocks(topology);
    let share = blocks.len().div_ceil(rayon::current_num_threads()).max(1);
    let results: Vec<BlockResults> = blocks
        .par_chunks(share)
        .map(|blocks| check_blocks(&fabric, &sources, tables, blocks))
        .collect();

    let mut tally = Tally::new(fabric.channels());
    let mut loop_free = true;
    let (mut drops, mut loops) = (Vec::new(), Vec::new());
    let mut turns = Vec::with_capacity(results.len());
    for results in results {
        tally.add(&results.tally);
        loop_free &= results.loop_free;
        drops.extend(results.drops);
        loops.extend(results.loops);
        turns.push(results.turns);
    }
    let dependencies = Dependencies::from_parts(fabric, turns);
    let cycle = dependencies.cycle();
    let mut report = Report {
        loop_free,
        credit_loop_free: cycle.is_empty(),
        ..tally.report(topology)
    };
    report.witnesses = drops.into_iter().take(MAX_WITNESSES).collect();
    report
        .witnesses
        .extend(loops.into_iter().take(MAX_WITNESSES));
    if !cycle.is_empty() {
        let name = |channel| dependencies.fabric().name(channel);
        report.witnesses.push(Witness::CreditLoop {
            channels: cycle.into_iter().map(name).collect(),
        });
    }
    Verified {
        report,
        tally,
        dependencies,
    }
}

/// Checks as [`verify_whole`] does, for tables that need `lanes`: searches for credit loops over
/// (link, VL), with the service levels and the SLtoVLMappingTables that `lanes` states.
pub fn verify_on_lanes<'a>(topology: &'a Topology, tables: &Tables, lanes: &Lanes) -> Verified<'a> {
    let mut verified = verify_whole(topology, tables);
    if lanes.is_single() {
        return verified;
    }
    let report = &mut verified.report;
    let on_lanes = verify_lanes(topology, tables, lanes);
    report.credit_loop_free = on_lanes.is_sound();
    // A cycle of links is no fault: the VLs break it.
    report
        .witnesses
        .retain(|witness| !matches!(witness, Witness::CreditLoop { .. }));
    if !on_lanes.cycle.is_empty() {
        let channels = on_lanes.cycle;
        report
            .witnesses
            .push(Witness::CreditLoopOnLanes { channels });
    }
    if let Some(channel) = on_lanes.outside_vls {
        report.witnesses.push(Witness::OffLanes { channel });
    }
    verified
}

/// Whether switches may change from `old` to `new` in any order, one entry at a time, without a
/// loop or a credit loop in between: the dependencies of every mixture are acyclic.
///
/// Both tables use the switch numbers of `topology`, the current fabric: entries of `old` that
/// point to a missing link discard packets.
pub fn mixture_is_acyclic(topology: &Topology, old: &Tables, new: &Tables) -> bool {
    let mut dependencies = Dependencies::of(topology, new);
    dependencies.add_mixture(old, new);
    dependencies.is_acyclic()
}

/// The numbers of ports at which packets start.
pub(super) struct StartingPorts {
    /// The numbers for each switch.
    pub(super) by_switch: Vec<Sources>,
    /// The numbers for each component, by component number.
    pub(super) by_component: Vec<Sources>,
    all: Sources,
}

impl StartingPorts {
    pub(super) fn new(topology: &Topology) -> StartingPorts {
        let mut ports = StartingPorts {
            by_switch: vec![Sources::default(); topology.switch_count()],
            by_component: vec![Sources::default(); topology.components().len()],
            all: Sources::default(),
        };
        for destination in topology.destinations() {
            let source = Sources::one(destination.kind);
            ports.by_switch[destination.switch.index()] += source;
            ports.by_component[topology.component_of(destination.switch)] += source;
            ports.all += source;
        }
        ports
    }

    /// Counts the pairs that end at a LID of `destination`. Packets from the ports `arrived`
    /// arrive, and cables connect the ports `connected` with it; both include the destination's own
    /// port.
    pub(super) fn count(
        &self,
        destination: &Destination,
        (arrived, connected): (Sources, Sources),
        pairs: &mut PairCounts,
        switch_pairs: &mut PairCounts,
    ) {
        let all = self.all;
        if destination.kind == EndpointKind::Switch0 {
            // A switch and itself are no pair; its packets to itself are in `arrived`, unless its
            // own entry is wrong.
            let from_switches = arrived.switches().saturating_sub(1);
            switch_pairs.reachable += from_switches;
            switch_pairs.unreachable += connected.switches() - 1 - from_switches;
            switch_pairs.disconnected += all.switches() - connected.switches();
            pairs.reachable += arrived.ports();
            pairs.unreachable += connected.ports() - arrived.ports();
            pairs.disconnected += all.ports() - connected.ports();
        } else {
            let arrived = (arrived.ports() + arrived.switches()).saturating_sub(1);
            let connected = connected.ports() + connected.switches();
            pairs.reachable += arrived;
            pairs.unreachable += connected - 1 - arrived;
            pairs.disconnected += all.ports() + all.switches() - connected;
        }
    }
}

/// The results for some blocks of LIDs.
struct BlockResults {
    tally: Tally,
    loop_free: bool,
    turns: Turns,
    drops: Vec<Witness>,
    loops: Vec<Witness>,
}

/// Checks the paths and collects the dependencies of packets to the LIDs of some blocks, given as
/// block numbers with masks of LIDs.
fn check_blocks(
    fabric: &Fabric<'_>,
    sources: &StartingPorts,
    tables: &Tables,
    blocks: &[(usize, u64)],
) -> BlockResults {
    let mut walker = Walker::new(fabric, &sources.by_switch, &sources.by_component);
    let mut results = BlockResults {
        tally: Tally::default(),
        loop_free: true,
        turns: Turns::new(fabric),
        drops: Vec::new(),
        loops: Vec::new(),
    };
    let mut rows = Blocks::new(tables, fabric.switches);
    let mut block = Vec::new();
    let mut by_lid = vec![0; fabric.switches * BLOCK_LIDS];
    for &(index, mask) in blocks {
        rows.gather((index, mask), &mut block);
        results.turns.add_block(fabric, &block);
        transpose(&block, fabric.switches, &mut by_lid);
        for offset in (0..BLOCK_LIDS).filter(|offset| mask >> offset & 1 != 0) {
            // Blocks and offsets are derived from LIDs.
            let lid = Lid((index * BLOCK_LIDS + offset) as u16);
            let bytes = &by_lid[offset * fabric.switches..][..fabric.switches];
            if let Some(destination) = fabric.topology.destination_of(lid) {
                check_lid(
                    &mut walker,
                    sources,
                    fabric,
                    lid,
                    destination,
                    bytes,
                    &mut results,
                );
            }
        }
    }
    (results.tally.load, results.tally.hops) = walker.into_sums();
    results
}

/// Checks the paths to one LID; `bytes` holds its entry at each switch.
fn check_lid(
    walker: &mut Walker<'_, '_>,
    sources: &StartingPorts,
    fabric: &Fabric<'_>,
    lid: Lid,
    destination: &Destination,
    bytes: &[u8],
    results: &mut BlockResults,
) {
    let outcome = walker.walk(destination, bytes);
    let connected = sources.by_component[fabric.topology.component_of(destination.switch)];
    let all_arrived = outcome.arrived == connected;
    let tally = &mut results.tally;
    sources.count(
        destination,
        (outcome.arrived, connected),
        &mut tally.pairs,
        &mut tally.switch_pairs,
    );
    if destination.kind.is_host() {
        tally.host_pairs += outcome.arrived.hosts().saturating_sub(1);
    }
    if outcome.has_loop {
        results.loop_free = false;
        if results.loops.len() < MAX_WITNESSES {
            results.loops.extend(walker.find_loop(lid, bytes));
        }
    }
    if !all_arrived && results.drops.len() < MAX_WITNESSES {
        results
            .drops
            .extend(walker.find_drop(lid, destination, bytes));
    }
}

/// Transposes a block from switch-major to LID-major order.
fn transpose(block: &[u8], switches: usize, by_lid: &mut [u8]) {
    for (switch, row) in block.chunks_exact(BLOCK_LIDS).take(switches).enumerate() {
        for (offset, &byte) in row.iter().enumerate() {
            by_lid[offset * switches + switch] = byte;
        }
    }
}

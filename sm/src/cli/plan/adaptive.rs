//! `--adaptive`: plans groups for adaptive routing in addition to the routes, without hardware.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rsm_ids::Guid;
use rsm_plan::lids::Claims;
use rsm_plan::witness;
use rsm_routing::adaptive::{
    self, AdaptivePlan, AdaptiveTable, AdaptiveTables, Blocks, GroupIds, Request, blocks_changed,
};
use rsm_routing::engine::{self, EngineKind, Options, Ranking, Routing};
use rsm_routing::quality::{AdaptiveQuality, ByChoice, measure_adaptive};
use rsm_routing::tables::Tables;
use rsm_routing::topology::{SwitchIdx, Topology};
use rsm_routing::verify::{Held, Recovery, SetReport, recovery, verify_sets};
use serde::Serialize;

use super::Bench;
use super::stopwatch::{Stopwatch, milliseconds};
use super::verdict::loop_finding;

/// Results of `--adaptive`.
pub(super) struct Adaptive {
    groups: AdaptivePlan,
    report: SetReport,
    recovery: Recovery,
    quality: Option<AdaptiveQuality>,
    /// Writes that turn the earlier state of the switches into these groups.
    writes: Blocks,
    /// Whether the earlier state is that of the fabric without the faults of `--fail`. If false,
    /// the switches had no tables.
    after_faults: bool,
    /// Time of planning.
    plan: Duration,
    /// Time of the proof.
    verify: Duration,
}

/// Routes and groups of the fabric before the faults of `--fail`.
pub(super) struct Before {
    pub(super) bench: Bench,
    /// GUIDs of the switches, ascending, in the order of the tables.
    guids: Vec<Guid>,
    tables: Tables,
    groups: AdaptivePlan,
    ranking: Option<Ranking>,
}

impl Before {
    /// Routes the fabric, and plans groups for switches that hold `capacity` groups.
    pub(super) fn of(bench: Bench, kind: EngineKind, capacity: u16) -> anyhow::Result<Before> {
        let topology = &bench.topology;
        let routing = engine::route(kind, topology, &bench.options, None)?;
        let groups = groups(topology, &routing, capacity, &GroupIds::default())?;
        let guids = topology.switches().iter().map(|switch| switch.guid);
        Ok(Before {
            guids: guids.collect(),
            tables: routing.tables,
            groups,
            ranking: routing.ranking,
            bench,
        })
    }

    /// LIDs of all ports, as the manager remembers them when faults occur.
    pub(super) fn claims(&self) -> Claims {
        let ports = self.bench.fabric.end_ports();
        let claims = ports.filter_map(|(at, port)| {
            let key = self.bench.fabric.key(at);
            Some((port.guid, *self.bench.lids.lids.get(&key)?))
        });
        claims.collect()
    }

    /// Options that route the fabric after a fault as the manager does.
    pub(super) fn options(&self, options: &Options) -> Options {
        Options {
            previous_ranking: self.ranking.clone(),
            ..options.clone()
        }
    }

    /// Tables that the switches of `topology` held before the faults; empty for other switches.
    fn held(&self, topology: &Topology) -> (Tables, AdaptiveTables) {
        let (mut tables, mut groups) = (Tables::default(), AdaptiveTables::default());
        for switch in topology.switches() {
            let place = self.guids.binary_search(&switch.guid).ok();
            let lft = place.map(|place| self.tables.lfts[place].clone());
            tables.lfts.push(lft.unwrap_or_default());
            // A switch index has 32 bits.
            let at = place.map(|place| SwitchIdx(place as u32));
            let table = at.and_then(|at| self.groups.tables.table(at));
            groups
                .switches
                .push(table.cloned().unwrap_or_else(AdaptiveTable::default));
        }
        (tables, groups)
    }
}

/// Plans groups for `routing`. Fails if the engine follows no order of the switches, or takes
/// longer routes than the shortest.
fn groups(
    topology: &Topology,
    routing: &Routing,
    capacity: u16,
    ids: &GroupIds,
) -> anyhow::Result<AdaptivePlan> {
    let expected = "expected --engine fabric-tree, updn or dnup with --adaptive";
    let Some(ranking) = &routing.ranking else {
        anyhow::bail!(
            "{} follows no order of the switches, so that there are no groups for it: {expected}",
            routing.engine
        );
    };
    if !ranking.has_shortest_routes() {
        anyhow::bail!(
            "{} takes longer routes than the shortest by its order of the switches, so that there \
             are no groups for it: {expected}",
            routing.engine
        );
    }
    Ok(adaptive::plan(&Request {
        topology,
        tables: &routing.tables,
        order: &ranking.shortest(),
        capacities: &vec![capacity; topology.switch_count()],
        ids,
        in_order: &std::collections::BTreeSet::new(),
        before: None,
    })?)
}

/// Plans and proves groups for `routing`, and measures their load if `quality` is set.
pub(super) fn of(
    bench: &Bench,
    routing: &Routing,
    before: Option<&Before>,
    capacity: u16,
    quality: bool,
) -> anyhow::Result<Adaptive> {
    let topology = &bench.topology;
    let mut watch = Stopwatch::start();
    let none = GroupIds::default();
    let ids = before.map_or(&none, |before| &before.groups.ids);
    let groups = groups(topology, routing, capacity, ids)?;
    let plan = watch.lap();
    let held = Held {
        tables: &routing.tables,
        adaptive: &groups.tables,
    };
    let report = verify_sets(topology, held);
    let verify = watch.lap();
    let quality = quality.then(|| measure_adaptive(topology, held, bench.settings.seed));
    let (old_tables, old_groups) = before
        .map(|before| before.held(topology))
        .unwrap_or_default();
    let writes = blocks_changed((&old_tables, &old_groups), (held.tables, held.adaptive));
    Ok(Adaptive {
        quality: quality.flatten(),
        recovery: recovery(topology, held),
        report,
        writes,
        after_faults: before.is_some(),
        groups,
        plan,
        verify,
    })
}

/// Results of `--adaptive`, for output.
#[derive(Serialize)]
pub(super) struct AdaptivePart {
    leaves: usize,
    groups: usize,
    /// Number of groups that a switch holds, summed over all switches.
    held_groups: usize,
    /// Number of ports of these groups.
    group_ports: usize,
    free_entries: usize,
    fixed_entries: usize,
    verify: SetsPart,
    links: usize,
    /// Number of links that their switch cannot replace by another port of a group.
    sole_links: usize,
    writes: WritesPart,
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<QualityPart>,
    plan_ms: f64,
    verify_ms: f64,
    #[serde(skip)]
    witnesses: Vec<String>,
}

/// Proof for any choice of ports within the groups.
#[derive(Serialize)]
struct SetsPart {
    reachable_pairs: u64,
    unreachable_pairs: u64,
    disconnected_pairs: u64,
    absent_groups: u64,
    loop_free: bool,
    credit_loop_free: bool,
    max_hops: u32,
}

/// Sets that turn the earlier state of the switches into these groups.
#[derive(Serialize)]
struct WritesPart {
    after_faults: bool,
    groups: usize,
    group_blocks: usize,
    entry_blocks: usize,
    table_blocks: usize,
    switches: usize,
}

/// Loads of patterns of communication.
#[derive(Serialize)]
struct QualityPart {
    shift: LoadPart,
    /// Number of measured shifts.
    shifts: usize,
    /// Number of shifts of the pattern.
    of: usize,
    all_to_all: LoadPart,
}

/// Maximum link load relative to rate, for different choices of the switches.
#[derive(Serialize, Clone, Copy)]
struct LoadPart {
    /// Load under the forwarding tables, without groups.
    fixed: f64,
    /// Load with the best choices that were found.
    #[serde(skip_serializing_if = "Option::is_none")]
    well: Option<f64>,
    /// Load if each port of a group gets an equal share.
    evenly: f64,
    /// Load with the worst choices.
    badly: f64,
}

impl From<ByChoice> for LoadPart {
    fn from(load: ByChoice) -> LoadPart {
        LoadPart {
            fixed: load.fixed,
            well: load.well,
            evenly: load.evenly,
            badly: load.badly,
        }
    }
}

impl Adaptive {
    /// Whether the proof found no fault.
    pub(super) fn is_sound(&self) -> bool {
        self.report.is_sound()
    }

    /// Writes the groups beside `tables` into a file.
    pub(super) fn write_file(
        &self,
        file: &Path,
        topology: &Topology,
        tables: &Tables,
    ) -> anyhow::Result<()> {
        let written = || -> io::Result<()> {
            let mut out = io::BufWriter::new(File::create(file)?);
            adaptive::write_text(topology, tables, &self.groups.tables, &mut out)?;
            out.flush()
        };
        written().with_context(|| format!("cannot write {}", file.display()))
    }

    /// Groups, proof and quality, for output.
    pub(super) fn part(&self) -> AdaptivePart {
        let (held_groups, group_ports) = self.groups.tables.sizes();
        let report = &self.report;
        let quality = self.quality.as_ref().map(|quality| QualityPart {
            shift: quality.shift.into(),
            shifts: quality.shifts,
            of: quality.of,
            all_to_all: quality.all_to_all.into(),
        });
        AdaptivePart {
            leaves: self.groups.leaves,
            groups: self.groups.groups,
            held_groups,
            group_ports,
            free_entries: self.groups.free_entries,
            fixed_entries: self.groups.fixed_entries,
            verify: SetsPart {
                reachable_pairs: report.pairs.reachable,
                unreachable_pairs: report.pairs.unreachable,
                disconnected_pairs: report.pairs.disconnected,
                absent_groups: report.absent_groups,
                loop_free: report.loop_free,
                credit_loop_free: report.credit_loop_free,
                max_hops: report.max_hops,
            },
            links: self.recovery.links,
            sole_links: self.recovery.sole,
            writes: WritesPart {
                after_faults: self.after_faults,
                groups: self.writes.groups,
                group_blocks: self.writes.group_blocks,
                entry_blocks: self.writes.entry_blocks,
                table_blocks: self.writes.table_blocks,
                switches: self.writes.switches,
            },
            quality,
            plan_ms: milliseconds(self.plan),
            verify_ms: milliseconds(self.verify),
            witnesses: report.witnesses.iter().map(witness::unicast).collect(),
        }
    }
}

impl AdaptivePart {
    /// Writes the lines about adaptive routing.
    pub(super) fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "adaptive {} groups for {} leaves; switches hold {} with {:.1} ports each; {} entries of hosts have a group, {} keep one port",
            self.groups,
            self.leaves,
            self.held_groups,
            self.group_ports as f64 / self.held_groups.max(1) as f64,
            self.free_entries,
            self.fixed_entries
        )?;
        let sets = &self.verify;
        writeln!(
            out,
            "         any choice of ports: {} pairs reachable, {} not although cabled; {} hops at most",
            sets.reachable_pairs, sets.unreachable_pairs, sets.max_hops
        )?;
        writeln!(
            out,
            "         {}, {}, {} entries with an absent group",
            loop_finding(sets.loop_free, "forwarding loop"),
            loop_finding(sets.credit_loop_free, "credit loop"),
            sets.absent_groups
        )?;
        if !(sets.loop_free && sets.credit_loop_free && sets.unreachable_pairs == 0) {
            for witness in &self.witnesses {
                writeln!(out, "         {witness}")?;
            }
        }
        writeln!(
            out,
            "         fast recovery: {} of {} directions of links in use have another port in each group",
            self.links - self.sole_links,
            self.links
        )?;
        let writes = &self.writes;
        writeln!(
            out,
            "         {}: {} groups in {} blocks, {} blocks of entries, {} of forwarding tables, on {} switches",
            if writes.after_faults {
                "the faults change"
            } else {
                "empty switches get"
            },
            writes.groups,
            writes.group_blocks,
            writes.entry_blocks,
            writes.table_blocks,
            writes.switches
        )?;
        if let Some(quality) = &self.quality {
            write_load(out, "shift", quality.shift)?;
            writeln!(
                out,
                "         ({} of {} shifts)",
                quality.shifts, quality.of
            )?;
            write_load(out, "all-to-all", quality.all_to_all)?;
        }
        writeln!(
            out,
            "         groups in {:.1} ms, proof in {:.1} ms",
            self.plan_ms, self.verify_ms
        )
    }
}

/// Writes the loads of a pattern.
fn write_load(out: &mut dyn Write, pattern: &str, load: LoadPart) -> io::Result<()> {
    let well = load.well.map(|well| format!("{well:.0} chosen well, "));
    writeln!(
        out,
        "         {pattern:<15} fullest link: {:.0} by forwarding tables, {}{:.1} spread evenly, {:.0} chosen badly",
        load.fixed,
        well.unwrap_or_default(),
        load.evenly,
        load.badly
    )
}

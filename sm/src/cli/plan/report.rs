//! Prints the result of `rsm plan`, for people and programs.

use std::io::{self, Write};

use rsm_mad::wire::attr::NodeType;
use rsm_plan::{lids_in_use, witness};
use serde::Serialize;

use super::adaptive::{Adaptive, AdaptivePart};
use super::quality::QualityPart;
use super::stopwatch::{memory_peak, milliseconds};
use super::verdict::loop_finding;
use super::{Bench, Measured};
use crate::cli::gpu::Summary;

/// Result of `rsm plan`, for output.
#[derive(Serialize)]
pub(super) struct Planned {
    fabric: FabricPart,
    engine: EnginePart,
    order: OrderPart,
    timing_ms: TimingPart,
    memory_peak_bytes: Option<u64>,
    verify: VerifyPart,
    #[serde(skip_serializing_if = "Option::is_none")]
    quality: Option<QualityPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<AdaptivePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<Summary>,
}

/// Numbers of nodes, links and LIDs.
#[derive(Serialize)]
pub(super) struct FabricPart {
    switches: usize,
    cas: usize,
    routers: usize,
    links: usize,
    lids: u32,
}

/// Engine that routed, and why it was chosen.
#[derive(Serialize)]
struct EnginePart {
    name: &'static str,
    reason: String,
}

/// Order of hosts and rails by which engines spread routes.
#[derive(Serialize)]
struct OrderPart {
    compute_ports: usize,
    leaves: usize,
    places_per_leaf: u32,
    /// Number of ports with a known category.
    categories: usize,
}

/// Times in milliseconds.
#[derive(Serialize)]
struct TimingPart {
    read: f64,
    model: f64,
    route: f64,
    verify: f64,
    total: f64,
}

/// Verdict of the proof, with hops and loads.
#[derive(Serialize)]
pub(super) struct VerifyPart {
    reachable_pairs: u64,
    unreachable_pairs: u64,
    disconnected_pairs: u64,
    switch_pairs_reachable: u64,
    switch_pairs_unreachable: u64,
    loop_free: bool,
    credit_loop_free: bool,
    max_hops: u32,
    average_hops: f64,
    link_load_max: u64,
    link_load_mean: f64,
}

/// Collects the result for output.
pub(super) fn planned(bench: &Bench, measured: &Measured, gpu: Option<Summary>) -> Planned {
    let [read, model, route, verify] =
        [bench.read, bench.model, measured.route, measured.verify].map(milliseconds);
    Planned {
        fabric: fabric(bench),
        engine: EnginePart {
            name: measured.engine,
            reason: measured.reason.clone(),
        },
        order: OrderPart {
            compute_ports: bench.order.numbers.len(),
            leaves: bench.order.positions.leaves().len(),
            places_per_leaf: bench.order.positions.stride(),
            categories: bench.order.categories.len(),
        },
        timing_ms: TimingPart {
            read,
            model,
            route,
            verify,
            total: read + model + route + verify,
        },
        memory_peak_bytes: memory_peak(),
        verify: verification(measured),
        quality: measured
            .quality
            .as_ref()
            .map(|quality| QualityPart::new(quality, &bench.fabric)),
        adaptive: measured.adaptive.as_ref().map(Adaptive::part),
        gpu,
    }
}

/// Counts nodes, links and LIDs.
pub(super) fn fabric(bench: &Bench) -> FabricPart {
    let count = |kind| bench.fabric.count(kind);
    FabricPart {
        switches: count(NodeType::Switch),
        cas: count(NodeType::Ca),
        routers: count(NodeType::Router),
        links: bench.fabric.links().count(),
        lids: lids_in_use(&bench.lids),
    }
}

/// Result of the proof.
pub(super) fn verification(measured: &Measured) -> VerifyPart {
    let report = &measured.report;
    VerifyPart {
        reachable_pairs: report.reachable_pairs,
        unreachable_pairs: report.unreachable_pairs,
        disconnected_pairs: report.disconnected_pairs,
        switch_pairs_reachable: report.switch_pairs.reachable,
        switch_pairs_unreachable: report.switch_pairs.unreachable,
        loop_free: report.loop_free,
        credit_loop_free: report.credit_loop_free,
        max_hops: report.max_hops,
        average_hops: report.average_hops,
        link_load_max: report.load.max,
        link_load_mean: report.load.mean,
    }
}

/// Writes the line about the fabric.
pub(super) fn write_fabric(out: &mut dyn Write, bench: &Bench) -> io::Result<()> {
    let fabric = fabric(bench);
    writeln!(
        out,
        "fabric   {} switches, {} CAs, {} routers, {} links, {} LIDs up to {}",
        fabric.switches,
        fabric.cas,
        fabric.routers,
        fabric.links,
        fabric.lids,
        bench.topology.top_lid()
    )
}

/// Writes the result as text.
pub(super) fn write_text(
    out: &mut dyn Write,
    bench: &Bench,
    measured: &Measured,
    gpu: Option<Summary>,
) -> io::Result<()> {
    let Planned {
        timing_ms: timing,
        verify: verdict,
        memory_peak_bytes,
        quality,
        adaptive,
        order,
        gpu,
        ..
    } = planned(bench, measured, gpu);
    write_fabric(out, bench)?;
    writeln!(out, "engine   {}", measured.reason)?;
    if order.compute_ports > 0 {
        writeln!(
            out,
            "order    {} compute ports in the order of hosts and rails, at {} leaves with {} places each",
            order.compute_ports, order.leaves, order.places_per_leaf
        )?;
    }
    writeln!(
        out,
        "paths    {} pairs reachable, {} not although cabled, {} without a cable path; {} hops at most, {:.2} on average",
        verdict.reachable_pairs,
        verdict.unreachable_pairs,
        verdict.disconnected_pairs,
        verdict.max_hops,
        verdict.average_hops
    )?;
    writeln!(
        out,
        "switches {} pairs of switches reachable, {} not although cabled (they carry no data)",
        verdict.switch_pairs_reachable, verdict.switch_pairs_unreachable
    )?;
    writeln!(
        out,
        "proof    {}, {}",
        loop_finding(verdict.loop_free, "forwarding loop"),
        loop_finding(verdict.credit_loop_free, "credit loop")
    )?;
    for witness in &measured.report.witnesses {
        writeln!(out, "         {}", witness::unicast(witness))?;
    }
    writeln!(
        out,
        "load     {} paths on the fullest link, {:.1} on the mean one",
        verdict.link_load_max, verdict.link_load_mean
    )?;
    if let Some(quality) = &quality {
        quality.write_text(out)?;
    }
    if let Some(adaptive) = &adaptive {
        adaptive.write_text(out)?;
    }
    writeln!(
        out,
        "time     read {:.1} ms, model {:.1} ms, route {:.1} ms, verify {:.1} ms, total {:.1} ms",
        timing.read, timing.model, timing.route, timing.verify, timing.total
    )?;
    if let Some(bytes) = memory_peak_bytes {
        writeln!(out, "memory   {:.1} MB at most", bytes as f64 / 1e6)?;
    }
    match &gpu {
        Some(gpu) => gpu.write(out),
        None => Ok(()),
    }
}

//! `--whatif`: predicts the consequences of a loss.

use std::io::{self, Write};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use rsm_api::model::{PortId, Selector};
use rsm_api::resolve::{resolve_node, resolve_port};
use rsm_ids::PortKey;
use rsm_model::fabric::Fabric;
use rsm_model::text::count;
use rsm_plan::whatif::{Consequence, Loss, what_if};
use rsm_plan::{self, PlanJob};
use rsm_view::publish::Names;
use serde::Serialize;

use super::{Bench, exit_code, report};
use crate::cli::Format;
use crate::cli::output::{print, print_json};

/// Cable or node to lose, by name.
#[derive(Clone, Debug)]
pub(super) enum LossSpec {
    /// The cable at a port.
    Unlink(Selector),
    /// A node with all its cables.
    Remove(Selector),
}

impl FromStr for LossSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected unlink=NODE:PORT or remove=NODE";
        let (what, name) = text.split_once('=').ok_or(EXPECTED)?;
        let selector = name.parse().map_err(|error| format!("{error}"))?;
        match what {
            "unlink" => Ok(LossSpec::Unlink(selector)),
            "remove" => Ok(LossSpec::Remove(selector)),
            _ => Err(EXPECTED.to_owned()),
        }
    }
}

/// Consequences of a loss, for output.
#[derive(Serialize)]
struct LossReport {
    fabric: report::FabricPart,
    loss: String,
    cables: Vec<[String; 2]>,
    cut_off: Vec<String>,
    broken_pairs: u64,
    unreachable_pairs: u64,
    refused: Option<String>,
    engine: Option<String>,
    reason: Option<String>,
    entries: usize,
    switches: usize,
    blocks: usize,
    blocks_before: usize,
    switch_infos: usize,
    smps: usize,
    link_load_max_before: u64,
    link_load_max_after: u64,
    credit_loop_free: bool,
}

/// Prints the consequences. The exit code reports success if a new plan would be put into force.
pub(super) fn run(bench: &Bench, spec: &LossSpec, format: Format) -> anyhow::Result<ExitCode> {
    let fabric = Arc::new(bench.fabric.clone());
    let names = Names::new(fabric.clone(), bench.policy.ports.subnet_prefix);
    let loss = match spec {
        LossSpec::Unlink(selector) => {
            let PortId { node, number } = resolve_port(&names, selector)?;
            Loss::Cable(PortKey::new(node, number))
        }
        LossSpec::Remove(selector) => Loss::Node(resolve_node(&names, selector)?),
    };
    let job = PlanJob::first(fabric.clone(), Arc::new(bench.policy.clone()));
    let planned = rsm_plan::plan(&job).plan();
    let plan = planned.map_err(|refused| anyhow::anyhow!(refused.with_causes()))?;
    let consequence = what_if(&plan, loss)?;
    let loss_report = loss_report(bench, &fabric, loss, &consequence);
    match format {
        Format::Json => print_json(&loss_report)?,
        Format::Text => print(|out| {
            report::write_fabric(out, bench)?;
            write_text(out, &loss_report)
        })?,
    }
    Ok(exit_code(consequence.refused.is_none()))
}

/// Name of a port; for port 0, the name of the node.
fn name(fabric: &Fabric, key: PortKey) -> String {
    match fabric.node_of(key.node) {
        Some(node) if key.port.0 == 0 => node.name(),
        Some(_) => fabric.port_name(key),
        None => key.to_string(),
    }
}

/// Converts the consequences for output.
fn loss_report(
    bench: &Bench,
    fabric: &Fabric,
    loss: Loss,
    consequence: &Consequence,
) -> LossReport {
    let name = |key: PortKey| name(fabric, key);
    LossReport {
        fabric: report::fabric(bench),
        loss: match loss {
            Loss::Cable(port) => format!("the cable at {}", name(port)),
            Loss::Node(guid) => name(PortKey::new(guid, rsm_ids::PortNum::ZERO)),
        },
        cables: consequence
            .cables
            .iter()
            .map(|&(a, b)| [name(a), name(b)])
            .collect(),
        cut_off: consequence.cut_off.iter().map(|&key| name(key)).collect(),
        broken_pairs: consequence.broken_pairs,
        unreachable_pairs: consequence.unreachable_pairs,
        refused: consequence.refused.clone(),
        engine: consequence
            .engine
            .as_ref()
            .map(|(name, _)| (*name).to_owned()),
        reason: consequence
            .engine
            .as_ref()
            .map(|(_, reason)| reason.clone()),
        entries: consequence.entries,
        switches: consequence.switches,
        blocks: consequence.blocks,
        blocks_before: consequence.blocks_before,
        switch_infos: consequence.switch_infos,
        smps: consequence.smps(),
        link_load_max_before: consequence.max_load.0,
        link_load_max_after: consequence.max_load.1,
        credit_loop_free: consequence.credit_loop_free,
    }
}

/// Number of names of a list that the text shows; JSON shows all.
const SHOWN: usize = 8;

/// Joins the first [`SHOWN`] names, and counts the others.
fn list(names: &[String]) -> String {
    let mut text = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

/// Writes the consequences as text.
fn write_text(out: &mut dyn Write, consequence: &LossReport) -> io::Result<()> {
    let cables: Vec<String> = consequence
        .cables
        .iter()
        .map(|[a, b]| format!("{a} - {b}"))
        .collect();
    writeln!(
        out,
        "loss     {}: {} ({})",
        consequence.loss,
        count(cables.len(), "cable", "cables"),
        list(&cables)
    )?;
    match consequence.cut_off.as_slice() {
        [] => writeln!(out, "cut off  none")?,
        ports => writeln!(
            out,
            "cut off  {}: {}",
            count(ports.len(), "port", "ports"),
            list(ports)
        )?,
    }
    writeln!(
        out,
        "until repaired {} pairs of the ports that stay are lost",
        consequence.broken_pairs
    )?;
    if let Some(refused) = &consequence.refused {
        return writeln!(out, "REFUSED  {refused}");
    }
    writeln!(
        out,
        "repair   {} in {}: {}, {} more before them, {} SwitchInfo, {} in all",
        count(consequence.entries, "entry", "entries"),
        count(consequence.switches, "switch", "switches"),
        count(consequence.blocks, "block", "blocks"),
        consequence.blocks_before,
        consequence.switch_infos,
        count(consequence.smps, "SMP", "SMPs")
    )?;
    writeln!(
        out,
        "after    {} pairs lost, {} credit loop, {} paths on the fullest link (now {}); {}",
        consequence.unreachable_pairs,
        if consequence.credit_loop_free {
            "no"
        } else {
            "A"
        },
        consequence.link_load_max_after,
        consequence.link_load_max_before,
        consequence.reason.as_deref().unwrap_or_default()
    )
}

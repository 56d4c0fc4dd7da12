//! `rsm --dry-run`: reads a subnet, plans for it, and reports the Sets that rsm would send.
//!
//! A dry run sends only Gets: it sets no IsSM bit, answers neither SMInfo nor traps, runs no SA and
//! writes no store. It can run beside a master, which only receives a few Gets.

use std::path::PathBuf;

use anyhow::Context as _;
use rsm_config::Config;
use rsm_core::{Core, Effect, Event, Mode, SavedCoreState};
use rsm_hardware::push::Foreseen;
use rsm_mad::transport::{Datagram, Sinks};
use rsm_mad::wire::header::{MadHeader, Method};
use rsm_model::findings::FindingKind;
use rsm_view::publish::dry_run::DryRunReport;
use tokio::sync::mpsc;

use super::attachment::{self, FabricSpec, Line, Presence};
use super::clock::Clock;
use super::findings::DaemonFindings;
use super::{EVENTS_AT_ONCE, INBOX, ONCE_REPAIRS, compute, settings, sink, sleep_until};

/// Options of a dry run.
pub struct DryRunOptions {
    /// Fabric to read.
    pub fabric: FabricSpec,
    /// Configuration, with the command line applied.
    pub config: Config,
    /// File to write all datagrams to; `None` for no trace.
    pub trace: Option<PathBuf>,
    /// Whether routes with credit loops, which can deadlock, are accepted.
    pub accept_credit_loops: bool,
}

/// Reads the subnet once and reports the Sets that rsm would send.
///
/// # Errors
/// The port cannot be used, the local port does not answer, or no plan can be made.
pub async fn dry_run(options: DryRunOptions) -> anyhow::Result<DryRunReport> {
    compute::lower_pool_priority();
    let clock = Clock::start();
    let mut config = settings::core_config(&options.config, options.accept_credit_loops, None)?;
    config.mode = Mode::DryRun;
    let (inbox, mut events) = mpsc::channel(INBOX);
    let sinks = Sinks {
        others: sink(inbox),
        sa: None,
        performance: None,
    };
    let trace = options.trace.as_deref();
    // The trace is the only part of the daemon in a dry run that reports findings; the log shows
    // them.
    let findings = DaemonFindings::new();
    let now = move || clock.now();
    let (mut line, _simulated) = attachment::open(
        &options.fabric,
        options.config.sm.guid,
        trace,
        now,
        sinks,
        &findings,
        Presence::Observer,
    )
    .with_context(|| format!("cannot attach to {}", options.fabric))?;
    let mut core = Core::new(config, SavedCoreState::default());
    core.handle_deadline(clock.now());
    let report = loop {
        let mut sets = None;
        while let Some(effect) = core.poll_effect(clock.now()) {
            match effect {
                Effect::Send { datagram, timeout } => {
                    send_get(&mut line, &datagram, timeout, &mut core, clock)?;
                }
                Effect::Plan(job) => {
                    let generation = job.generation;
                    let outcome =
                        compute::run_on_thread("plan", move || rsm_plan::plan(&job)).await?;
                    let planned = Event::Planned {
                        generation,
                        outcome,
                    };
                    core.handle(planned, clock.now());
                }
                Effect::Foreseen(foreseen) => sets = Some(foreseen),
                Effect::Converged(_) => break,
                _ => {}
            }
        }
        if let Some(report) = report_if_planned(&core, sets, clock)? {
            break report;
        }
        let deadline = clock.instant(core.next_deadline());
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            _ = events.recv_many(&mut batch, EVENTS_AT_ONCE) => {
                for event in batch {
                    core.handle(event, clock.now());
                }
            }
            () = sleep_until(deadline) => core.handle_deadline(clock.now()),
        }
    };
    line.finish();
    Ok(report)
}

/// Sends a Get. Any other method is an error, because the core of a dry run sends only Gets.
fn send_get(
    line: &mut Line,
    datagram: &Datagram,
    timeout: std::time::Duration,
    core: &mut Core,
    clock: Clock,
) -> anyhow::Result<()> {
    let header = MadHeader::of(&datagram.mad);
    anyhow::ensure!(
        header.method() == Method::GET,
        "a dry run was about to send {header:?}"
    );
    if let Err(error) = line.transport().send(datagram, timeout) {
        tracing::debug!(
            error = &error as &dyn std::error::Error,
            "a datagram was not sent"
        );
        core.send_failed(datagram, clock.now());
    }
    Ok(())
}

/// Report of the planned Sets; `None` until the core has a plan. Fails with the reasons if no plan
/// can be made.
fn report_if_planned(
    core: &Core,
    sets: Option<Vec<Foreseen>>,
    clock: Clock,
) -> anyhow::Result<Option<DryRunReport>> {
    if let Some(sets) = sets {
        let snapshot = core.snapshot(clock.now());
        let report = DryRunReport::of(&sets, core.inventory(), &snapshot);
        let handover = core.handover().unwrap_or_default();
        return Ok(Some(report.with_handover(&handover, &sets)));
    }
    let is_refusal = |kind| {
        matches!(
            kind,
            FindingKind::RoutingRefused | FindingKind::LidSpaceExhausted
        )
    };
    let has_converged = core.history().next().is_some();
    let is_stuck = core.repairs() >= ONCE_REPAIRS;
    if !has_converged && !is_stuck {
        return Ok(None);
    }
    let snapshot = core.snapshot(clock.now());
    let findings = snapshot.findings.iter();
    let reasons: Vec<&str> = findings
        .filter(|finding| is_stuck || is_refusal(finding.kind))
        .map(|finding| finding.text.as_str())
        .collect();
    anyhow::bail!("no plan can be made: {}", reasons.join("; "))
}

//! The result of one run: the report of `rsm --once`.

use std::fmt;
use std::time::Duration;

use rsm_api::Label as _;
use rsm_api::model::SubnetState;
use rsm_model::expected::MissingCounts;
use rsm_model::findings::{Finding, FindingKind, Severity};
use rsm_model::text::count;
use rsm_state::Snapshot;
use serde::Serialize;

use super::state::{self, Counts};

/// The report of a run, as printed by `--format json`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OnceReport {
    /// `not-active`, `discovering`, `standby`, `converging`, `up` or `degraded`.
    pub state: &'static str,
    /// Number of switches.
    pub switches: u64,
    /// Number of channel adapters.
    pub cas: u64,
    /// Number of cables with both ends at answering nodes.
    pub links: u64,
    /// Number of assigned LIDs, counting each LID of a port with an LMC above 0.
    pub lids: u64,
    /// Number of physical ports with a link that are Active.
    pub ports_active: u64,
    /// Number of physical ports with a link that are not Active.
    pub ports_not_active: u64,
    /// Numbers of nodes and cables that were present and are missing.
    pub missing: MissingCounts,
    /// The routing engine; null if there are no routes.
    pub engine: Option<EngineSummary>,
    /// Number of pairs of ports whose packets do not arrive by the routes in force; null if it is
    /// unknown.
    pub unreachable_pairs: Option<u64>,
    /// Counts of the packets sent in the run.
    pub smps: Smps,
    /// Duration of the run, over all its convergences.
    pub timing_ms: TimingMs,
    /// Findings for the operator, the worst first.
    pub findings: Vec<Finding>,
    #[serde(skip)]
    complete: bool,
}

/// The routing engine in force.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EngineSummary {
    /// Name of the engine, as accepted by `--engine`.
    pub name: &'static str,
    /// Reason why this engine was chosen.
    pub reason: String,
}

/// Counts of subnet management packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Smps {
    /// Number of Gets sent, including repetitions.
    pub get: u64,
    /// Number of Sets sent, including repetitions.
    pub set: u64,
    /// Number of Gets and Sets that were repetitions.
    pub retries: u64,
    /// Number of attempts that were not answered in time.
    pub timeouts: u64,
    /// Number of requests that were sent, and withdrawn before they were answered or given up:
    /// overdue requests, which are sent again after all other requests, and requests of a stage
    /// that began again.
    pub withdrawn: u64,
}

/// Times in milliseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize)]
pub struct TimingMs {
    /// Time to read the hardware.
    pub discover: f64,
    /// Time to plan, with the proof.
    pub plan: f64,
    /// Time to write the plan.
    pub push: f64,
    /// Time from causes to ends, without pauses between convergences.
    pub total: f64,
}

impl OnceReport {
    /// Reports the run that ended with `snapshot`. The sums omit convergences beyond the core's
    /// [`HISTORY`](rsm_state::HISTORY).
    pub fn of(snapshot: &Snapshot) -> OnceReport {
        let counts = Counts::of(snapshot);
        let (state, _) = state::of(snapshot, &counts);
        let history = || snapshot.history.iter();
        let ms = |time: Duration| time.as_micros() as f64 / 1000.0;
        OnceReport {
            state: SubnetState::label(state.into()).unwrap_or_default(),
            switches: counts.switches,
            cas: counts.cas,
            links: counts.links,
            lids: counts.lids,
            ports_active: counts.ports_active,
            ports_not_active: counts.ports_not_active,
            missing: snapshot.expected.counts(&snapshot.fabric),
            engine: snapshot.plan.as_ref().map(|plan| EngineSummary {
                name: plan.routing.engine,
                reason: plan.summary(snapshot.reachability()),
            }),
            unreachable_pairs: snapshot
                .reachability()
                .map(|report| report.unreachable_pairs + report.disconnected_pairs),
            smps: Smps {
                get: snapshot.stats.sent_get,
                set: snapshot.stats.sent_set,
                retries: snapshot.stats.retries,
                timeouts: snapshot.stats.timeouts,
                withdrawn: snapshot.stats.withdrawn,
            },
            timing_ms: TimingMs {
                discover: ms(history().map(|entry| entry.discover).sum()),
                plan: ms(history().map(|entry| entry.plan).sum()),
                push: ms(history().map(|entry| entry.push).sum()),
                total: ms(history().map(|entry| entry.total).sum()),
            },
            findings: snapshot.findings.to_vec(),
            complete: snapshot.port_up
                && snapshot.fabric.local.is_some()
                && counts.unfinished == 0
                && !snapshot.findings.iter().any(fails_the_run),
        }
    }

    /// The report as text: one line about the subnet, and one line for each finding.
    pub fn text(&self) -> impl fmt::Display {
        let mut text = format!("{self}\n");
        for finding in &self.findings {
            let severity = finding.severity.name();
            text.push_str(&format!(
                "{severity:<8} {}: {}\n",
                finding.kind.code(),
                finding.text
            ));
        }
        text
    }

    /// Whether the subnet is as planned and all files are written: every port whose link is up, and
    /// whose peer is managed, is Active, and no finding makes the run fail. False for a subnet that
    /// could not be read.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Whether the finding makes the run fail, for scripts that rely on the exit code: devices do not
/// hold the plan, a part of the subnet has no plan, or a file is not written. Findings about parts
/// that rsm does not manage (no answer, no GUID, a loop-back plug) do not: the report lists these
/// parts, and all other parts are as planned.
fn fails_the_run(finding: &Finding) -> bool {
    match finding.kind {
        FindingKind::SetFailed
        | FindingKind::MKeyMismatch
        | FindingKind::RoutingRefused
        | FindingKind::MulticastRefused
        | FindingKind::LidSpaceExhausted
        // The finding is a warning if `sm.takeover = "trust"` lets the switch route adaptively.
        | FindingKind::AdaptiveRouting => finding.severity == Severity::Error,
        FindingKind::Storage => finding.severity > Severity::Info,
        _ => false,
    }
}

/// Writes the report on one line: `up: 720 switches, 3456 hosts, 10368 links; updn (…); 127034 SMPs
/// in 1.9 s`.
impl fmt::Display for OnceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}, {}, {}",
            self.state,
            count(self.switches, "switch", "switches"),
            count(self.cas, "host", "hosts"),
            count(self.links, "link", "links")
        )?;
        if self.missing != MissingCounts::default() {
            write!(f, "; {}", self.missing)?;
        }
        if let Some(engine) = &self.engine {
            write!(f, "; {} ({})", engine.name, engine.reason)?;
        }
        let smps = count(self.smps.get + self.smps.set, "SMP", "SMPs");
        match self.timing_ms.total {
            short if short < 1000.0 => write!(f, "; {smps} in {short:.0} ms")?,
            long => write!(f, "; {smps} in {:.1} s", long / 1000.0)?,
        }
        match self.findings.len() {
            0 => Ok(()),
            findings => write!(f, "; {}", count(findings, "finding", "findings")),
        }
    }
}

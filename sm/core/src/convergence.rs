//! Measures the time and counts the requests of each pass.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rsm_hardware::push::PushProgress;
use rsm_mad::Time;
use rsm_mad::client::ClientStats;
use rsm_model::whole::Whole;
use rsm_state::{Convergence, HISTORY, TablesWritten, Unwritten};

/// Records the pass under way as a convergence, and keeps past convergences.
#[derive(Clone, Default, Debug)]
pub(super) struct ConvergenceRecorder {
    /// The pass under way; `None` if there is none.
    running: Option<Running>,
    /// Past convergences, oldest first.
    history: VecDeque<Arc<Convergence>>,
}

/// The pass under way.
#[derive(Clone, Debug)]
struct Running {
    cause: String,
    began: Time,
    /// Time of the last [`ConvergenceRecorder::mark`]; at first, the start of the pass.
    stage_began: Time,
    /// Time spent in [`TimedStage::Discover`] so far.
    discover: Duration,
    /// Time spent in [`TimedStage::Plan`] so far.
    plan: Duration,
    /// Time spent in [`TimedStage::Push`] so far.
    push: Duration,
    /// Statistics of the client when the pass began.
    stats_at_start: ClientStats,
    /// Steps that were computed for the whole subnet, each with the reason.
    whole: BTreeSet<Whole>,
}

/// A stage of a convergence whose time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TimedStage {
    Discover,
    Plan,
    Push,
}

/// Results of the push of a pass.
#[derive(Clone, Default, Debug)]
pub(super) struct Pushed {
    /// Number of acknowledged blocks of linear forwarding tables, including interim tables.
    pub(super) lft_blocks: u64,
    /// Number of acknowledged blocks of multicast tables.
    pub(super) mft_blocks: u64,
    /// Number of switches on which a block was written.
    pub(super) switches_written: u64,
    /// Number of ports that became Active.
    pub(super) ports_activated: u64,
    /// Whether all Sets had their effect.
    pub(super) complete: bool,
    /// The switches that hold their planned tables.
    pub(super) tables: TablesWritten,
    /// The parts of the hardware that may not hold their planned content.
    pub(super) unwritten: Unwritten,
}

impl Pushed {
    /// Results of a pass that wrote nothing because of `reason`.
    pub(super) fn nothing(reason: String) -> Pushed {
        let unwritten = Unwritten {
            ended: Some(reason),
            ..Unwritten::default()
        };
        Pushed {
            unwritten,
            ..Pushed::default()
        }
    }
}

impl ConvergenceRecorder {
    /// Begins the record of a pass. `stats` are the statistics of the client at its start.
    pub(super) fn start(&mut self, cause: String, now: Time, stats: ClientStats) {
        self.running = Some(Running {
            cause,
            began: now,
            stage_began: now,
            discover: Duration::ZERO,
            plan: Duration::ZERO,
            push: Duration::ZERO,
            stats_at_start: stats,
            whole: BTreeSet::new(),
        });
    }

    /// Adds `cause` to the causes of the pass under way.
    pub(super) fn join(&mut self, cause: &str) {
        if let Some(running) = self.running.as_mut().filter(|_| !cause.is_empty()) {
            running.cause.push_str("; ");
            running.cause.push_str(cause);
        }
    }

    /// Records that the pass under way has computed steps for the whole subnet.
    pub(super) fn record_whole(&mut self, whole: impl IntoIterator<Item = Whole>) {
        if let Some(running) = &mut self.running {
            running.whole.extend(whole);
        }
    }

    /// Cause and start of the pass under way; `None` if there is none.
    pub(super) fn running(&self) -> Option<(&str, Time)> {
        let running = self.running.as_ref()?;
        Some((&running.cause, running.began))
    }

    /// Adds the time since the previous mark, or since the start of the pass, to `stage`.
    pub(super) fn mark(&mut self, stage: TimedStage, now: Time) {
        if let Some(running) = &mut self.running {
            let spent = now.since(running.stage_began);
            running.stage_began = now;
            match stage {
                TimedStage::Discover => running.discover += spent,
                TimedStage::Plan => running.plan += spent,
                TimedStage::Push => running.push += spent,
            }
        }
    }

    /// Whether the rest of the push probably takes longer than another discovery and plan. This is
    /// so if the push has already taken as long as the discovery and plan of this pass, and is less
    /// than half done.
    pub(super) fn rest_outlasts_plan(&self, progress: PushProgress, now: Time) -> bool {
        let is_long = self.running.as_ref().is_none_or(|running| {
            now.since(running.stage_began) >= running.discover + running.plan
        });
        is_long && progress.done * 2 < progress.expected
    }

    /// Ends the pass under way, and returns its record; `None` if no pass is under way.
    pub(super) fn finish(
        &mut self,
        pushed: Pushed,
        now: Time,
        stats: &ClientStats,
    ) -> Option<Convergence> {
        let running = self.running.take()?;
        let stats_before = running.stats_at_start;
        Some(Convergence {
            cause: running.cause,
            finished: now,
            discover: running.discover,
            plan: running.plan,
            push: running.push,
            total: now.since(running.began),
            gets: stats.sent_get - stats_before.sent_get,
            sets: stats.sent_set - stats_before.sent_set,
            retries: stats.retries - stats_before.retries,
            timeouts: stats.timeouts - stats_before.timeouts,
            lft_blocks: pushed.lft_blocks,
            mft_blocks: pushed.mft_blocks,
            switches_written: pushed.switches_written,
            ports_activated: pushed.ports_activated,
            complete: pushed.complete,
            tables: pushed.tables,
            unwritten: pushed.unwritten,
            whole: running.whole.into_iter().collect(),
        })
    }

    /// Adds a convergence to the history, which keeps the last [`HISTORY`] convergences.
    pub(super) fn record(&mut self, convergence: Arc<Convergence>) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(convergence);
    }

    /// The past convergences, oldest first.
    pub(super) fn history(&self) -> impl DoubleEndedIterator<Item = &Arc<Convergence>> {
        self.history.iter()
    }

    /// Drops the record of the pass under way, because the pass changed nothing or was abandoned.
    pub(super) fn discard(&mut self) {
        self.running = None;
    }
}

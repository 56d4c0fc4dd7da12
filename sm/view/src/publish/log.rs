//! Numbers the convergences of this run.

use std::collections::VecDeque;
use std::sync::Arc;

use rsm_api::v1;
use rsm_api::v1_fields::milliseconds;
use rsm_mad::Time;
use rsm_state::{Convergence, HISTORY};

/// A convergence, and the message that shows it.
#[derive(Debug)]
pub(super) struct Logged {
    pub(super) source: Arc<Convergence>,
    pub(super) shown: v1::Convergence,
}

/// The latest convergences, as many as the core keeps.
#[derive(Default)]
pub(super) struct ConvergenceLog {
    entries: VecDeque<Arc<Logged>>,
    last_sequence: u64,
}

impl ConvergenceLog {
    /// Adds the new entries of `history`, oldest first, and returns them. `stamp` returns the
    /// generation and the Unix time for the end of a convergence.
    pub(super) fn update(
        &mut self,
        history: &[Arc<Convergence>],
        stamp: impl Fn(Time) -> (u64, u64),
    ) -> Vec<Arc<Logged>> {
        let known = self.entries.back().and_then(|last| {
            history
                .iter()
                .rposition(|entry| Arc::ptr_eq(entry, &last.source))
        });
        let begin = known.map_or(0, |position| position + 1);
        let mut new_entries = Vec::new();
        for source in &history[begin..] {
            self.last_sequence += 1;
            let (generation, finished_unix_ms) = stamp(source.finished);
            let logged = Arc::new(Logged {
                source: source.clone(),
                shown: shown(source, self.last_sequence, generation, finished_unix_ms),
            });
            if self.entries.len() == HISTORY {
                self.entries.pop_front();
            }
            self.entries.push_back(logged.clone());
            new_entries.push(logged);
        }
        new_entries
    }

    pub(super) fn entries(&self) -> Vec<Arc<Logged>> {
        self.entries.iter().cloned().collect()
    }
}

fn shown(
    source: &Convergence,
    sequence: u64,
    generation: u64,
    finished_unix_ms: u64,
) -> v1::Convergence {
    v1::Convergence {
        sequence,
        generation,
        cause: source.cause.clone(),
        finished_unix_ms,
        timing_ms: Some(v1::Timing {
            discover: milliseconds(source.discover),
            plan: milliseconds(source.plan),
            push: milliseconds(source.push),
            total: milliseconds(source.total),
        }),
        smps: Some(v1::SmpCounts {
            get: source.gets,
            set: source.sets,
            retries: source.retries,
            timeouts: source.timeouts,
        }),
        lft_blocks: source.lft_blocks,
        mft_blocks: source.mft_blocks,
        ports_activated: source.ports_activated,
        complete: source.complete,
        whole: source.whole.iter().map(ToString::to_string).collect(),
    }
}

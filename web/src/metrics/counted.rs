//! Counts convergences as they end.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_api::v1::event::Change;
use rsm_api::{Subnet, v1};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

use super::text::Text;
use crate::limits::MAX_CONVERGENCES;

/// The upper bounds of the buckets of stages, in seconds: from the change of a single cable to the
/// cold start of a large fabric.
const BOUNDS: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// The classes of causes: the beginning of a cause's text, and the class. A cause with another
/// beginning has the class `other`: a port that was read and had changed, or an unknown cause.
const CAUSES: [(&str, &str); 16] = [
    ("start", "start"),
    ("trap ", "trap"),
    ("requested", "request"),
    ("configuration reloaded", "reload"),
    ("the local port came up", "local-port"),
    ("the master is gone", "takeover"),
    ("repair", "repair"),
    ("parts are drained", "drain"),
    ("drained parts are used again", "drain"),
    ("the set of unhealthy parts changed", "health"),
    ("GPU hosts", "gpu-hosts"),
    ("a flapping link is quiet", "flapping"),
    ("the engine before", "engine"),
    ("engine ", "engine"),
    ("ports read again", "audit"),
    ("rebalance", "rebalance"),
];

/// A histogram of durations in seconds.
#[derive(Debug, Default, Clone)]
struct Durations {
    /// The number of durations up to each of [`BOUNDS`].
    buckets: [u64; BOUNDS.len()],
    sum: f64,
    count: u64,
}

impl Durations {
    fn add(&mut self, seconds: f64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(BOUNDS) {
            *bucket += u64::from(seconds <= bound);
        }
        self.sum += seconds;
        self.count += 1;
    }
}

#[derive(Debug, Default)]
struct Counts {
    /// The sequence number of the last convergence counted.
    last: u64,
    by_cause: BTreeMap<&'static str, u64>,
    incomplete: u64,
    stages: BTreeMap<&'static str, Durations>,
    /// The number of steps computed for the whole subnet, by step.
    whole: BTreeMap<String, u64>,
    ports_activated: u64,
    lft_blocks: u64,
    mft_blocks: u64,
}

/// The maximum number of different steps in [`Counts::whole`]. rsm has fewer; the bound is for
/// steps with unexpected names.
const MAX_STEPS: usize = 64;

/// The convergences since the start.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    counts: Mutex<Counts>,
}

impl Counted {
    /// Counts the convergences of `subnet`, including the earlier convergences that it keeps, until
    /// `stopping`.
    pub(crate) fn start(
        subnet: &Arc<dyn Subnet>,
        mut stopping: watch::Receiver<bool>,
    ) -> Arc<Counted> {
        let counted = Arc::new(Counted::default());
        let (subnet, counter) = (Arc::clone(subnet), Arc::clone(&counted));
        let mut events = subnet.subscribe();
        tokio::spawn(async move {
            loop {
                counter.count_new(&subnet.convergences(MAX_CONVERGENCES).items);
                let received = tokio::select! {
                    received = wait_for_change(&mut events) => received,
                    _stopping = stopping.wait_for(|stopping| *stopping) => return,
                };
                if !received {
                    return;
                }
            }
        });
        counted
    }

    /// Counts the convergences that have not been counted yet.
    fn count_new(&self, convergences: &[v1::Convergence]) {
        let mut counts = self.counts.lock();
        for convergence in convergences {
            if convergence.sequence > counts.last {
                counts.last = convergence.sequence;
                counts.add(convergence);
            }
        }
    }

    pub(super) fn write(&self, text: &mut Text) {
        let counts = self.counts.lock();
        let mut family = text.counter(
            "rsm_convergences_total",
            "Convergences by the class of their first cause.",
        );
        for (cause, count) in &counts.by_cause {
            family.sample(&[("cause", cause)], count);
        }
        text.counter(
            "rsm_convergences_incomplete_total",
            "Convergences after which some hardware did not hold the plan.",
        )
        .sample(&[], counts.incomplete);
        let mut family = text.histogram(
            "rsm_convergence_stage_seconds",
            "Duration of the stages of a convergence.",
        );
        for (stage, durations) in &counts.stages {
            let buckets: Vec<(f64, u64)> = BOUNDS.into_iter().zip(durations.buckets).collect();
            family.buckets(
                &[("stage", stage)],
                &buckets,
                durations.sum,
                durations.count,
            );
        }
        let mut family = text.counter(
            "rsm_whole_steps_total",
            "Steps of convergences that were computed for the whole subnet, not for the change only.",
        );
        for (step, count) in &counts.whole {
            family.sample(&[("step", step)], count);
        }
        text.counter(
            "rsm_forwarding_blocks_written_total",
            "Blocks of linear forwarding tables that convergences have written.",
        )
        .sample(&[], counts.lft_blocks);
        text.counter(
            "rsm_multicast_blocks_written_total",
            "Blocks of multicast forwarding tables that convergences have written.",
        )
        .sample(&[], counts.mft_blocks);
        text.counter(
            "rsm_ports_activated_total",
            "Ports that convergences have made active.",
        )
        .sample(&[], counts.ports_activated);
    }
}

/// Waits for the end of a convergence, or for lost events. Returns whether more may come.
async fn wait_for_change(events: &mut tokio::sync::broadcast::Receiver<Arc<v1::Event>>) -> bool {
    loop {
        match events.recv().await {
            Ok(event) if matches!(event.change, Some(Change::ConvergenceFinished(_))) => {
                return true;
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
}

impl Counts {
    fn add(&mut self, convergence: &v1::Convergence) {
        *self.by_cause.entry(class(&convergence.cause)).or_default() += 1;
        self.incomplete += u64::from(!convergence.complete);
        self.ports_activated += convergence.ports_activated;
        self.lft_blocks += convergence.lft_blocks;
        self.mft_blocks += convergence.mft_blocks;
        if let Some(timing) = &convergence.timing_ms {
            let stages = [
                ("discover", timing.discover),
                ("plan", timing.plan),
                ("push", timing.push),
                ("total", timing.total),
            ];
            for (stage, milliseconds) in stages {
                self.stages
                    .entry(stage)
                    .or_default()
                    .add(milliseconds / 1e3);
            }
        }
        for whole in &convergence.whole {
            // The text is `step: reason`; only the step has a limited number of values.
            let step = whole
                .split_once(':')
                .map_or(whole.as_str(), |(step, _)| step);
            if self.whole.len() < MAX_STEPS || self.whole.contains_key(step) {
                *self.whole.entry(step.to_owned()).or_default() += 1;
            }
        }
    }
}

/// The class of a cause; of several causes, the class of the first.
fn class(cause: &str) -> &'static str {
    let known = CAUSES.iter().find(|(start, _)| cause.starts_with(start));
    known.map_or("other", |&(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convergence(sequence: u64, cause: &str) -> v1::Convergence {
        v1::Convergence {
            sequence,
            cause: cause.to_owned(),
            complete: sequence != 2,
            timing_ms: Some(v1::Timing {
                discover: 1.0,
                plan: 2.0,
                push: 3.0,
                total: 6.0,
            }),
            whole: vec!["routes: a cable is new".to_owned(), "strange".to_owned()],
            lft_blocks: 5,
            ..v1::Convergence::default()
        }
    }

    #[test]
    fn each_convergence_counts_once_by_class_and_stage() {
        let counted = Counted::default();
        let first = convergence(1, "start");
        let second = convergence(2, "trap 128 from \"leaf\"; repair");
        counted.count_new(std::slice::from_ref(&first));
        counted.count_new(&[first, second]);
        let mut text = Text::new();
        counted.write(&mut text);
        let text = text.finish();
        for line in [
            "rsm_convergences_total{cause=\"start\"} 1",
            "rsm_convergences_total{cause=\"trap\"} 1",
            "rsm_convergences_incomplete_total 1",
            "rsm_convergence_stage_seconds_bucket{stage=\"plan\",le=\"0.001\"} 0",
            "rsm_convergence_stage_seconds_bucket{stage=\"plan\",le=\"0.0025\"} 2",
            "rsm_convergence_stage_seconds_count{stage=\"total\"} 2",
            "rsm_whole_steps_total{step=\"routes\"} 2",
            "rsm_forwarding_blocks_written_total 10",
        ] {
            assert!(
                text.lines().any(|written| written == line),
                "{line} in\n{text}"
            );
        }
    }

    #[test]
    fn causes_that_contain_names_share_a_class() {
        assert_eq!(class("engine updn requested"), "engine");
        assert_eq!(class("host-1 mlx5_0:1 changed"), "other");
        assert_eq!(class(""), "other");
    }
}

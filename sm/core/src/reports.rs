//! Findings that the core keeps from pass to pass, and the state in the last snapshot.

use std::time::Duration;

use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind};

/// Findings that no part of the core can compute again, and the state last shown to readers.
#[derive(Default)]
pub(super) struct Reports {
    /// Findings of the last plan and push.
    of_pass: Vec<Finding>,
    /// Findings about the last refused configuration.
    of_configuration: Vec<Finding>,
    /// Findings of the daemon around the core.
    of_daemon: Vec<Finding>,
    /// Whether the last snapshot showed that the subnet is converging.
    pub(super) show_converging: bool,
    /// Time of the last snapshot.
    pub(super) shown_at: Option<Time>,
    /// Time at which changes that came too soon after the last snapshot are published.
    pub(super) show_at: Option<Time>,
    /// Whether the health of ports has changed since it was last published.
    pub(super) owes_health: bool,
    /// Whether the SA answers from a plan that this manager, as the master, served or published.
    pub(super) serve: bool,
    /// Whether the last snapshot shows suspects of the running sweep. The end of the sweep clears
    /// them at the latest.
    pub(super) show_suspects: bool,
}

/// Minimum time between two snapshots that differ only in findings. After a power dip, thousands of
/// ports report within a second, and each snapshot costs milliseconds.
const FINDINGS_PAUSE: Duration = Duration::from_millis(100);

impl Reports {
    /// Whether findings that changed at `now` are published at once. If not, sets
    /// [`Reports::show_at`] to the time at which they are.
    pub(super) fn shows_now(&mut self, now: Time) -> bool {
        let next = self.shown_at.map_or(now, |shown| shown + FINDINGS_PAUSE);
        let is_now = next <= now;
        self.show_at = (!is_now).then_some(next);
        is_now
    }

    /// Replaces the findings of the last pass by those of a new one.
    pub(super) fn begin_pass(&mut self, findings: Vec<Finding>) {
        self.of_pass = findings;
    }

    /// Adds findings of the pass.
    pub(super) fn add(&mut self, findings: Vec<Finding>) {
        self.of_pass.extend(findings);
    }

    /// Drops findings about failed Sets, because a new attempt has been made or is about to be.
    pub(super) fn forget_failed_sets(&mut self) {
        self.of_pass
            .retain(|finding| finding.kind != FindingKind::SetFailed);
    }

    /// Findings about failed Sets of the last push.
    pub(super) fn failed_sets(&self) -> impl Iterator<Item = &Finding> {
        let of_pass = self.of_pass.iter();
        of_pass.filter(|finding| finding.kind == FindingKind::SetFailed)
    }

    /// Replaces the findings about the configuration: the reasons of a refusal, or none after a
    /// configuration was accepted.
    pub(super) fn note_configuration(&mut self, refusals: Vec<Finding>) {
        self.of_configuration = refusals;
    }

    /// Replaces the findings of the daemon. Returns whether they have changed.
    pub(super) fn note_daemon(&mut self, findings: Vec<Finding>) -> bool {
        let is_news = self.of_daemon != findings;
        self.of_daemon = findings;
        is_news
    }

    /// The findings of the pass, of the configuration and of the daemon.
    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        let kept = self.of_pass.iter().chain(&self.of_configuration);
        kept.chain(&self.of_daemon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_within_a_pause_are_shown_together_at_its_end() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut reports = Reports::default();
        assert!(reports.shows_now(at(5)), "the first is shown at once");
        (reports.shown_at, reports.show_at) = (Some(at(5)), None);
        for ms in [6, 50, 104] {
            assert!(!reports.shows_now(at(ms)));
            assert_eq!(reports.show_at, Some(at(105)));
        }
        assert!(reports.shows_now(at(105)));
        assert_eq!(reports.show_at, None);
    }
}

//! Findings that the core keeps from pass to pass, and the state that the last snapshot showed.

use std::time::Duration;

use rsm_mad::Time;
use rsm_model::findings::{Finding, FindingKind};

/// Findings that no part of the core can compute again, and the state that readers saw last.
#[derive(Default)]
pub(super) struct Reports {
    /// Findings of the last plan and push.
    of_pass: Vec<Finding>,
    /// Findings about the last refused configuration.
    of_configuration: Vec<Finding>,
    /// Findings of the daemon around the core.
    of_daemon: Vec<Finding>,
    /// Whether the last snapshot showed that the subnet is converging.
    pub(super) shows_converging: bool,
    /// Time of the last snapshot.
    pub(super) published_at: Option<Time>,
    /// Time at which findings are published that changed too soon after the last snapshot; `None`
    /// if there are none.
    pub(super) publish_at: Option<Time>,
    /// Whether the health of ports has changed since it was last published.
    pub(super) has_unpublished_health: bool,
    /// Whether the SA answers from a plan that this manager, as the master, served or published.
    pub(super) sa_has_plan: bool,
    /// Whether the last snapshot shows suspects of the running sweep. The end of the sweep
    /// publishes a snapshot without them.
    pub(super) shows_suspects: bool,
}

/// Minimum time between two snapshots that differ only in findings. After a power dip, thousands of
/// ports report within a second, and each snapshot costs milliseconds.
const FINDINGS_PAUSE: Duration = Duration::from_millis(100);

impl Reports {
    /// Whether findings that changed at `now` are published at once. If not, sets
    /// [`Reports::publish_at`] to the time of their publication.
    pub(super) fn may_publish_at(&mut self, now: Time) -> bool {
        let next = self
            .published_at
            .map_or(now, |shown| shown + FINDINGS_PAUSE);
        let is_now = next <= now;
        self.publish_at = (!is_now).then_some(next);
        is_now
    }

    /// Replaces the findings of the last pass by the findings of a new pass.
    pub(super) fn begin_pass(&mut self, findings: Vec<Finding>) {
        self.of_pass = findings;
    }

    /// Replaces the findings about multicast by those of `findings`. Other findings of the last
    /// full pass stay.
    pub(super) fn replace_multicast(&mut self, findings: &[Finding]) {
        let is_multicast = |finding: &Finding| {
            matches!(
                finding.kind,
                FindingKind::MulticastUnserved | FindingKind::MulticastRefused
            )
        };
        self.of_pass.retain(|finding| !is_multicast(finding));
        let multicast = findings.iter().filter(|finding| is_multicast(finding));
        self.of_pass.extend(multicast.cloned());
    }

    /// Adds findings of the pass.
    pub(super) fn add(&mut self, findings: Vec<Finding>) {
        self.of_pass.extend(findings);
    }

    /// Drops findings about failed Sets: they have been repeated, or will be repeated now.
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
    pub(super) fn set_configuration_findings(&mut self, refusals: Vec<Finding>) {
        self.of_configuration = refusals;
    }

    /// Replaces the findings of the daemon. Returns whether they have changed.
    pub(super) fn set_daemon_findings(&mut self, findings: Vec<Finding>) -> bool {
        let is_news = self.of_daemon != findings;
        self.of_daemon = findings;
        is_news
    }

    /// Findings of the last plan and push of this manager.
    pub(super) fn of_pass(&self) -> &[Finding] {
        &self.of_pass
    }

    /// The findings of the configuration and of the daemon.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Finding> {
        self.of_configuration.iter().chain(&self.of_daemon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_within_a_pause_are_published_together_at_its_end() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut reports = Reports::default();
        assert!(
            reports.may_publish_at(at(5)),
            "the first is published at once"
        );
        (reports.published_at, reports.publish_at) = (Some(at(5)), None);
        for ms in [6, 50, 104] {
            assert!(!reports.may_publish_at(at(ms)));
            assert_eq!(reports.publish_at, Some(at(105)));
        }
        assert!(reports.may_publish_at(at(105)));
        assert_eq!(reports.publish_at, None);
    }
}

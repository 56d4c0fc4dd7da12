//! Findings that stay from pass to pass, and what the last snapshot showed.

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
    /// Whether the SA answers from a plan, which the core served or published as the master.
    pub(super) serve: bool,
    /// Whether the last snapshot has suspects of the sweep under way, which end with that sweep at
    /// the latest.
    pub(super) show_suspects: bool,
}

impl Reports {
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

    /// Records why a configuration was refused; empty if one was accepted.
    pub(super) fn note_configuration(&mut self, refusals: Vec<Finding>) {
        self.of_configuration = refusals;
    }

    /// Replaces the findings of the daemon. Returns whether they have changed.
    pub(super) fn note_daemon(&mut self, findings: Vec<Finding>) -> bool {
        let is_news = self.of_daemon != findings;
        self.of_daemon = findings;
        is_news
    }

    /// The findings kept here.
    pub(super) fn findings(&self) -> impl Iterator<Item = &Finding> {
        let kept = self.of_pass.iter().chain(&self.of_configuration);
        kept.chain(&self.of_daemon)
    }
}

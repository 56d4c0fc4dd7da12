//! Reports to readers: the findings that stay from pass to pass, and what the last snapshot said.

use rsm_model::findings::{Finding, FindingKind};

/// Findings that no part of the core can compute anew, and the state that readers were last shown.
#[derive(Default)]
pub(super) struct Reports {
    /// Findings of the last plan and push.
    of_pass: Vec<Finding>,
    /// Findings about the last refused configuration.
    of_configuration: Vec<Finding>,
    /// Findings of the daemon around the core.
    of_daemon: Vec<Finding>,
    /// The last snapshot said that the subnet converges.
    pub(super) show_converging: bool,
    /// The SA answers from a plan: the core served or published one as the master.
    pub(super) serve: bool,
    /// The last snapshot has suspects of the sweep under way; their end follows with the sweep's.
    pub(super) show_suspects: bool,
}

impl Reports {
    /// The findings of a pass that begins anew.
    pub(super) fn begin_pass(&mut self, findings: Vec<Finding>) {
        self.of_pass = findings;
    }

    /// Further findings of the pass.
    pub(super) fn add(&mut self, findings: Vec<Finding>) {
        self.of_pass.extend(findings);
    }

    /// Drops findings about failed Sets: a new attempt has been made, or is about to be.
    pub(super) fn forget_failed_sets(&mut self) {
        self.of_pass
            .retain(|finding| finding.kind != FindingKind::SetFailed);
    }

    /// The Sets of the last push that failed.
    pub(super) fn failed_sets(&self) -> impl Iterator<Item = &Finding> {
        let of_pass = self.of_pass.iter();
        of_pass.filter(|finding| finding.kind == FindingKind::SetFailed)
    }

    /// A configuration was refused, for these reasons; none: one was accepted.
    pub(super) fn note_configuration(&mut self, refusals: Vec<Finding>) {
        self.of_configuration = refusals;
    }

    /// Replaces the findings of the daemon. Returns whether they are other ones.
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

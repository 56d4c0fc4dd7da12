//! The report of a push: its progress, failed Sets, and ports that must be read afterwards.

use std::collections::BTreeSet;

use rsm_ids::{Guid, PortKey};

use super::task::{FailedSet, PushProgress, Task};

/// Achievements and failures of a push so far.
#[derive(Debug)]
pub struct PushReport {
    /// See [`PushReport::failures`].
    pub(super) failures: Vec<FailedSet>,
    pub(super) progress: PushProgress,
    /// See [`PushReport::learned`].
    pub(super) learned: bool,
    /// See [`PushReport::unread`].
    pub(super) unread: BTreeSet<PortKey>,
    /// See [`PushReport::reregistered`].
    pub(super) reregistered: BTreeSet<PortKey>,
    /// Whether a port must be read to know whether it holds the values of a Set.
    pub(super) has_unverified: bool,
    /// See [`PushReport::unopened`].
    pub(super) unopened: BTreeSet<PortKey>,
}

impl PushReport {
    /// The report of a push that has sent nothing yet.
    pub(super) fn new(progress: PushProgress) -> PushReport {
        PushReport {
            failures: Vec::new(),
            progress,
            learned: false,
            unread: BTreeSet::new(),
            reregistered: BTreeSet::new(),
            has_unverified: false,
            unopened: BTreeSet::new(),
        }
    }

    /// Whether no Set has failed, and the answers show that all ports hold their values.
    pub(super) fn is_complete(&self) -> bool {
        self.failures.is_empty() && !self.has_unverified
    }

    /// Whether the push learned a field that a kind of device does not keep.
    pub fn learned(&self) -> bool {
        self.learned
    }

    /// Ports that may have changed unnoticed during the push and must be read.
    ///
    /// A Set that clears PortStateChange also clears reports of changes since the ports were last
    /// read. The switch may have sent no traps about these changes: it had no LID or another
    /// manager, or sends none while the bit is set. A Set of LinearFDBTop hides a reset of the
    /// switch. A port whose answers were lost may or may not hold the values of the Set.
    pub fn unread(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.unread.iter().copied()
    }

    /// One end of each link that this push could not bring to Active although tables wait for it.
    /// The push ended before it wrote these tables.
    pub fn unopened(&self) -> impl Iterator<Item = PortKey> + '_ {
        self.unopened.iter().copied()
    }

    /// Ports that got ClientReregister when due.
    pub fn reregistered(&self) -> &BTreeSet<PortKey> {
        &self.reregistered
    }

    /// Sets that had no effect.
    pub fn failures(&self) -> &[FailedSet] {
        &self.failures
    }

    /// The switches with a table that this push failed to write.
    pub fn without_tables(&self) -> BTreeSet<Guid> {
        let of_tables = self
            .failures
            .iter()
            .filter(|failed| failed.task.is_of_table());
        of_tables.map(FailedSet::node).collect()
    }

    /// The progress so far.
    pub fn progress(&self) -> PushProgress {
        self.progress
    }

    /// Whether a Set of a multicast table has failed: the table then differs from the plan, and a
    /// later answer of the switch may not show it.
    pub fn owes_multicast(&self) -> bool {
        let mut failures = self.failures.iter();
        failures
            .any(|failure| matches!(failure.task, Task::Multicast { .. } | Task::MulticastTop(_)))
    }
}

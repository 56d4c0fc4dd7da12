//! Findings of the daemon's own parts: the store, the state folder, the dumps, the trace.
//!
//! A part reports on its own thread, and takes its report back when it works again. The shell hands
//! the reports to the core, which publishes them among its own findings.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::findings::{Finding, FindingKind, Severity, Subject};

/// A part of the daemon that can fail by itself while the subnet is managed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Part {
    /// Commits to the store.
    Store,
    /// What is written of registrations before they are acknowledged.
    Journal,
    /// The folder that the store is in.
    StateDir,
    /// Files in OpenSM's formats.
    Dumps,
    /// The record of all datagrams.
    Trace,
}

/// What the parts of the daemon report. Clones share the reports.
#[derive(Clone)]
pub(super) struct DaemonFindings {
    reports: Arc<Mutex<BTreeMap<Part, Vec<Finding>>>>,
    changed: Arc<watch::Sender<()>>,
}

impl DaemonFindings {
    /// No part has reported anything.
    pub(super) fn new() -> DaemonFindings {
        DaemonFindings {
            reports: Arc::default(),
            changed: Arc::new(watch::channel(()).0),
        }
    }

    /// Replaces what `part` reported before; without findings the part works. A change is logged.
    pub(super) fn report(&self, part: Part, findings: Vec<Finding>) {
        let mut reports = self.reports.lock();
        let before = reports.get(&part).map_or(&[][..], Vec::as_slice);
        if before == findings {
            return;
        }
        for finding in findings.iter().filter(|finding| !before.contains(finding)) {
            tracing::error!("{}", finding.text);
        }
        if findings.is_empty() {
            tracing::info!(?part, "works again");
            reports.remove(&part);
        } else {
            reports.insert(part, findings);
        }
        drop(reports);
        self.changed.send_replace(());
    }

    /// Reports that `part` cannot read or write what it has to, as a warning about the whole
    /// subnet.
    ///
    /// `text` says what is wrong and where, what it means, and what to do. It should be the same
    /// for as long as the cause is: each change of it is logged and published.
    pub(super) fn fail(&self, part: Part, text: String) {
        let (kind, severity) = (FindingKind::Storage, Severity::Warning);
        let finding = Finding::new(kind, Subject::Subnet, severity, text);
        self.report(part, vec![finding]);
    }

    /// Takes back what `part` reported: it works.
    pub(super) fn clear(&self, part: Part) {
        self.report(part, Vec::new());
    }

    /// Says when a report changes; changes before the call do not count.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Everything that is reported now, in the order of [`Part`].
    pub(super) fn all(&self) -> Vec<Finding> {
        self.reports.lock().values().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_stands_until_its_part_takes_it_back() {
        let findings = DaemonFindings::new();
        let changes = findings.subscribe();
        findings.fail(Part::Dumps, "disk full".to_owned());
        findings.fail(Part::Store, "read-only".to_owned());
        let texts = |findings: &DaemonFindings| -> Vec<String> {
            let all = findings.all().into_iter();
            all.map(|finding| finding.text).collect()
        };
        assert_eq!(texts(&findings), ["read-only", "disk full"]);
        assert!(changes.has_changed().unwrap());
        findings.clear(Part::Store);
        assert_eq!(texts(&findings), ["disk full"]);
        findings.clear(Part::Dumps);
        assert_eq!(findings.all(), []);
    }

    #[test]
    fn a_repeated_report_is_no_change() {
        let findings = DaemonFindings::new();
        findings.fail(Part::Trace, "disk full".to_owned());
        let changes = findings.subscribe();
        findings.fail(Part::Trace, "disk full".to_owned());
        findings.clear(Part::Store);
        assert!(!changes.has_changed().unwrap());
    }
}

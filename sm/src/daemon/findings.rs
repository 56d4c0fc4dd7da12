//! Collects findings of the daemon's own parts: the store, the state folder, the dumps, the trace.
//!
//! A part reports on its own thread, and withdraws its report when the part works again. The shell
//! passes the reports to the core, which publishes them among its own findings.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use tokio::sync::watch;

/// Part of the daemon that can fail alone while rsm manages the subnet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum DaemonPart {
    /// Commits to the store.
    Store,
    /// Stored settings that are lost or cannot be read.
    Damage,
    /// Store that several managers share.
    SharedStore,
    /// Journal, to which registrations are written before the SA acknowledges them.
    Journal,
    /// State folder.
    StateDir,
    /// History.
    History,
    /// Recorded counters of the past.
    Past,
    /// Errors before correction that grow.
    ErrorCorrection,
    /// Files in OpenSM's formats.
    Dumps,
    /// Trace of all datagrams.
    Trace,
    /// New reading of the configuration.
    Configuration,
    /// Socket of `rsmctl`.
    Socket,
    /// TCP address of the API.
    Api,
    /// Address of the web page and of metrics.
    Page,
    /// Files of roles, certificates and keys of tokens.
    Access,
    /// Audit log.
    Audit,
    /// GPU hosts and their cables.
    GpuHosts,
    /// GPU inventories in the store.
    GpuInventories,
    /// Joins of multicast groups.
    Joins,
    /// Receivers of events outside the fabric.
    Notify,
    /// IsSM of the local port, by which other subnet managers find this one.
    IsSm,
}

impl DaemonPart {
    /// Name of the part in the log.
    const fn name(self) -> &'static str {
        match self {
            DaemonPart::Store => "the store",
            DaemonPart::Damage => "every stored setting",
            DaemonPart::SharedStore => "the shared store",
            DaemonPart::Journal => "the journal of registrations",
            DaemonPart::StateDir => "the state folder",
            DaemonPart::History => "the history",
            DaemonPart::Past => "the past of the counters",
            DaemonPart::ErrorCorrection => "error correction of every link",
            DaemonPart::Dumps => "writing dumps",
            DaemonPart::Trace => "the trace",
            DaemonPart::Configuration => "the configuration",
            DaemonPart::Socket => "the socket of rsmctl",
            DaemonPart::Api => "the TCP address of the API",
            DaemonPart::Page => "the address of the web page",
            DaemonPart::Access => "access by files",
            DaemonPart::Audit => "the audit log",
            DaemonPart::GpuHosts => "every GPU host",
            DaemonPart::GpuInventories => "reading GPU inventories",
            DaemonPart::Joins => "every join of a multicast group",
            DaemonPart::Notify => "every receiver of events",
            DaemonPart::IsSm => "IsSM of the local port",
        }
    }
}

/// Reports of the daemon's parts. Clones share the reports.
#[derive(Clone)]
pub(super) struct DaemonFindings {
    reports: Arc<Mutex<BTreeMap<DaemonPart, Vec<Finding>>>>,
    changed: Arc<watch::Sender<()>>,
}

impl DaemonFindings {
    /// Creates an empty collection of reports.
    pub(super) fn new() -> DaemonFindings {
        DaemonFindings {
            reports: Arc::default(),
            changed: Arc::new(watch::channel(()).0),
        }
    }

    /// Replaces the earlier report of `part`; an empty list means that the part works. Logs each
    /// change.
    pub(super) fn report(&self, part: DaemonPart, findings: Vec<Finding>) {
        let mut reports = self.reports.lock();
        let before = reports.get(&part).map_or(&[][..], Vec::as_slice);
        if before == findings {
            return;
        }
        for finding in findings.iter().filter(|finding| !before.contains(finding)) {
            // Names in it are from hosts, which could begin a line of the log of their own.
            let text = rsm_api::printable(&finding.text);
            match finding.severity {
                Severity::Info => tracing::info!("{text}"),
                Severity::Warning | Severity::Error => tracing::error!("{text}"),
            }
        }
        if findings.is_empty() {
            tracing::info!("{} works again", part.name());
            reports.remove(&part);
        } else {
            reports.insert(part, findings);
        }
        drop(reports);
        self.changed.send_replace(());
    }

    /// Reports that `part` cannot read or write its files, as a warning about the whole subnet.
    ///
    /// `text` states the fault, its place, its consequence and the remedy. As long as the cause
    /// persists, callers should pass the same text, because each change is logged and published.
    pub(super) fn fail(&self, part: DaemonPart, text: String) {
        let (kind, severity) = (FindingKind::Storage, Severity::Warning);
        let finding = Finding::new(kind, Subject::Subnet, severity, text);
        self.report(part, vec![finding]);
    }

    /// Withdraws the report of `part`, which works again.
    pub(super) fn clear(&self, part: DaemonPart) {
        self.report(part, Vec::new());
    }

    /// Receiver that each later change of the reports wakes.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// All reports, in the order of [`DaemonPart`].
    pub(super) fn all(&self) -> Vec<Finding> {
        self.reports.lock().values().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_stays_until_its_part_works_again() {
        let findings = DaemonFindings::new();
        let changes = findings.subscribe();
        findings.fail(DaemonPart::Dumps, "disk full".to_owned());
        findings.fail(DaemonPart::Store, "read-only".to_owned());
        let texts = |findings: &DaemonFindings| -> Vec<String> {
            let all = findings.all().into_iter();
            all.map(|finding| finding.text).collect()
        };
        assert_eq!(texts(&findings), ["read-only", "disk full"]);
        assert!(changes.has_changed().unwrap());
        findings.clear(DaemonPart::Store);
        assert_eq!(texts(&findings), ["disk full"]);
        findings.clear(DaemonPart::Dumps);
        assert_eq!(findings.all(), []);
    }

    #[test]
    fn repeated_report_signals_no_change() {
        let findings = DaemonFindings::new();
        findings.fail(DaemonPart::Trace, "disk full".to_owned());
        let changes = findings.subscribe();
        findings.fail(DaemonPart::Trace, "disk full".to_owned());
        findings.clear(DaemonPart::Store);
        assert!(!changes.has_changed().unwrap());
    }
}

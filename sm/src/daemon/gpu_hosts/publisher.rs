//! Thread that passes inventories to the core, and findings about GPU hosts to the daemon's
//! findings.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use rsm_api::Gpus as _;
use rsm_gdr::Analysis;
use rsm_gdr::findings::GpuFinding;
use rsm_gdr::hosts::GpuInventory;
use rsm_model::findings::{Finding, FindingKind, Subject};

use super::GpuHosts;
use crate::daemon::findings::{DaemonFindings, DaemonPart};

/// Receives each new inventory.
pub(in crate::daemon) type InventorySink = Box<dyn Fn(Arc<GpuInventory>) + Send + Sync>;

/// Time between two checks for changes. Hosts report one by one; all reports within this time cause
/// only one new inventory, one plan and one analysis.
const PERIOD: Duration = Duration::from_secs(1);

/// Maximum number of findings that are published one by one; a further finding counts the others.
const MAX_FINDINGS: usize = 1_000;

/// Maximum number of hosts that a finding names; the finding counts the others.
const NAMES_SHOWN: usize = 10;

/// Starts the thread, which ends with `hosts`. `inventory_sink` receives each new inventory; the
/// faults of GPU hosts become `findings`.
///
/// # Errors
/// The thread cannot be started.
pub(in crate::daemon) fn publish(
    hosts: &Arc<GpuHosts>,
    inventory_sink: InventorySink,
    findings: DaemonFindings,
) -> std::io::Result<()> {
    let mut publisher = Publisher {
        passed_inventory: hosts.inventory(),
        hosts: Arc::downgrade(hosts),
        inventory_sink,
        findings,
        unreadable: BTreeSet::new(),
        published: None,
    };
    let named = thread::Builder::new().name("gpu-hosts".to_owned());
    named.spawn(move || {
        while publisher.pass_changes() {
            thread::sleep(PERIOD);
        }
    })?;
    Ok(())
}

/// State of the thread.
struct Publisher {
    hosts: Weak<GpuHosts>,
    inventory_sink: InventorySink,
    findings: DaemonFindings,
    /// Inventory that was passed to the core last.
    passed_inventory: Arc<GpuInventory>,
    /// Hosts whose inventories were reported as unreadable.
    unreadable: BTreeSet<String>,
    /// Analysis whose findings are published; `None` before the first one.
    published: Option<Arc<Analysis>>,
}

impl Publisher {
    /// Passes changes since the last call to the core and to the findings. Returns false once the
    /// [`GpuHosts`] are dropped.
    fn pass_changes(&mut self) -> bool {
        let Some(hosts) = self.hosts.upgrade() else {
            return false;
        };
        hosts.save_seen_if_due();
        self.report_unreadable(hosts.unreadable());
        let inventory = hosts.inventory();
        if !Arc::ptr_eq(&inventory, &self.passed_inventory) {
            self.passed_inventory = inventory.clone();
            (self.inventory_sink)(inventory.clone());
        }
        let is_empty = inventory.hosts().is_empty() && inventory.machine_types().is_empty();
        if is_empty && self.published.is_none() {
            return true;
        }
        let analysis = hosts.analysis();
        let is_new = |last: &Arc<Analysis>| !Arc::ptr_eq(last, &analysis);
        if self.published.as_ref().is_none_or(is_new) {
            self.findings
                .report(DaemonPart::GpuHosts, findings_of(&analysis.findings));
            self.published = (!is_empty).then_some(analysis);
        }
        true
    }
}

impl Publisher {
    /// Reports the unreadable inventories of the store.
    fn report_unreadable(&mut self, names: BTreeSet<String>) {
        if names == self.unreadable {
            return;
        }
        match unreadable(&names) {
            Some(text) => self.findings.fail(DaemonPart::GpuInventories, text),
            None => self.findings.clear(DaemonPart::GpuInventories),
        }
        self.unreadable = names;
    }
}

/// Text about unreadable inventories of the store; `None` if all are readable.
fn unreadable(names: &BTreeSet<String>) -> Option<String> {
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMES_SHOWN);
    let and_more = match more {
        0 => String::new(),
        _ => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "{} GPU inventories in the store cannot be read: {}{and_more}; hints and the check lack these hosts until their \
             agents report again, or `rsmctl gpu import` brings them",
            names.len(),
            shown.join(", ")
        )
    })
}

/// Converts GPU findings to the form of all other findings.
fn findings_of(findings: &[GpuFinding]) -> Vec<Finding> {
    let one = |finding: &GpuFinding| {
        let text = format!(
            "{}: {}; {}; {}",
            finding.subject(),
            finding.evidence,
            finding.kind.effect(),
            finding.kind.advice()
        );
        let kind = FindingKind::Gpu(finding.kind);
        Finding::new(kind, Subject::Subnet, finding.kind.severity(), text)
    };
    let mut all: Vec<Finding> = findings.iter().take(MAX_FINDINGS).map(one).collect();
    let rest = &findings[all.len()..];
    if let Some(worst) = rest.iter().max_by_key(|finding| finding.kind.severity()) {
        let count = rest.len();
        let mut summed = one(worst);
        summed.text = format!(
            "{count} more findings about GPU hosts; `rsmctl gpu check` lists all of them; the first \
             of the worst kind: {}",
            summed.text
        );
        all.push(summed);
    }
    all
}

#[cfg(test)]
mod tests {
    use rsm_gdr::findings::{GpuFindingKind, Severity};

    use super::*;

    #[test]
    fn findings_beyond_the_limit_are_counted_in_one() {
        let finding = |number: usize| {
            let evidence = format!("evidence {number}");
            GpuFinding::new(GpuFindingKind::NvLinkDegraded, "gpu-1", evidence)
        };
        let many: Vec<GpuFinding> = (0..MAX_FINDINGS + 7).map(finding).collect();
        let all = findings_of(&many);
        assert_eq!(all.len(), MAX_FINDINGS + 1);
        let last = &all[MAX_FINDINGS];
        assert!(
            last.text.starts_with("7 more findings about GPU hosts"),
            "{last:?}"
        );
        assert_eq!(last.severity, Severity::Error);
        assert_eq!(all[0].kind.code(), "nvlink-degraded");
        assert_eq!(findings_of(&many[..MAX_FINDINGS]).len(), MAX_FINDINGS);
    }
}

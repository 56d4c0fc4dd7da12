//! Reports stored settings that are lost or cannot be read.
//!
//! Settings that an operator made with commands exist in the store alone: partitions, the
//! limitation of the default partition, drains and disabled ports. If the store loses them, ports
//! lose P_Keys and disabled links come up; only the findings of this module tell the operator why.

use std::path::{Path, PathBuf};

use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_store::{LoadReport, Origin, Persisted};

use super::{drains, overlay};
use crate::daemon::findings::{DaemonFindings, DaemonPart};

/// File in the state folder that states a loss of settings until an operator removes it.
const LOST: &str = "settings-lost";

/// Largest part of [`LOST`] that a finding shows, in bytes.
const LOST_MAX: usize = 1024;

/// Damage of the store that this run has found, or that an earlier run found and no operator has
/// acknowledged.
#[derive(Default)]
pub(super) struct Damage {
    /// Path of the file [`LOST`]; `None` without a loss, or after an operator acknowledged it.
    lost: Option<PathBuf>,
    /// Findings that last until the end of this run.
    lasting: Vec<Finding>,
}

impl Damage {
    /// Finds the damage of the store in `dir`, and reports the damage. `report` names damaged
    /// files, `persisted` may contain rows that cannot be read, and `damaged_bytes` of the journal
    /// cannot be read. Without a folder, nothing can be damaged.
    pub(super) fn of(
        dir: Option<&Path>,
        report: &LoadReport,
        damaged_bytes: u64,
        persisted: &Persisted,
        findings: &DaemonFindings,
    ) -> Damage {
        let mut damage = Damage::default();
        let Some(dir) = dir else {
            return damage;
        };
        let path = dir.join(LOST);
        let is_empty = report.origin == Origin::Fresh;
        let mut lost = text_of(&path);
        if report.is_alarming() && is_empty {
            let text = report.to_string();
            if let Err(error) = std::fs::write(&path, format!("{text}\n")) {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "{} cannot be written", path.display());
            }
            lost = Some(text);
        } else if report.may_lack_records() {
            let text = format!(
                "the store was damaged ({report}): commands of the last moments before may be \
                 forgotten; compare `rsmctl partition list` and `rsmctl drained` with what should be \
                 there"
            );
            damage.lasting.push(finding(Severity::Warning, text));
        }
        let unreadable = overlay::unreadable(persisted)
            .into_iter()
            .chain(drains::unreadable(persisted));
        let unreadable: Vec<String> = unreadable.collect();
        if !unreadable.is_empty() {
            let text = format!(
                "{} of the store cannot be read, and {} not in force: {}. They are kept: start the \
                 version of rsm that wrote them, or make these settings again",
                match unreadable.len() {
                    1 => "1 setting".to_owned(),
                    count => format!("{count} settings"),
                },
                if unreadable.len() == 1 { "is" } else { "are" },
                name_list(&unreadable)
            );
            damage.lasting.push(finding(Severity::Error, text));
        }
        if damaged_bytes > 0 {
            let text = format!(
                "{damaged_bytes} bytes of the journal of registrations are damaged: \
                 registrations that were acknowledged may be forgotten, and hosts are asked \
                 to register again; look after the disk of the state folder"
            );
            damage.lasting.push(finding(Severity::Error, text));
        }
        if let Some(reason) = lost {
            let text = format!(
                "the store could not be used, and no copy of it: {reason}. Partitions made by \
                 command, the limitation of the default partition, drains and disabled ports are \
                 forgotten, and the hardware follows. Put a backup of the state folder in its place, \
                 or make them again; then remove {}",
                path.display()
            );
            let mut all = damage.lasting.clone();
            all.insert(0, finding(Severity::Error, text));
            damage.lost = Some(path);
            findings.report(DaemonPart::Damage, all);
        } else if !damage.lasting.is_empty() {
            findings.report(DaemonPart::Damage, damage.lasting.clone());
        }
        damage
    }

    /// Withdraws the finding about lost settings once the operator has removed the file.
    pub(super) fn check_acknowledgement(&mut self, findings: &DaemonFindings) {
        let is_acknowledged = self.lost.as_ref().is_some_and(|path| !path.exists());
        if is_acknowledged {
            self.lost = None;
            findings.report(DaemonPart::Damage, self.lasting.clone());
        }
    }
}

/// A finding about the storage of the subnet's state.
fn finding(severity: Severity, text: String) -> Finding {
    Finding::new(FindingKind::Storage, Subject::Subnet, severity, text)
}

/// Maximum number of settings that a finding names.
const MAX_NAMES: usize = 8;

/// Joins up to [`MAX_NAMES`] names, and tells the number of the others.
fn name_list(names: &[String]) -> String {
    let mut text = names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>();
    if names.len() > MAX_NAMES {
        text.push(format!("{} more", names.len() - MAX_NAMES));
    }
    text.join(", ")
}

/// The first line of the file, or the error if it cannot be read; `None` if there is no such file.
fn text_of(path: &Path) -> Option<String> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LOST_MAX)]);
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use rsm_store::Quarantined;

    use super::*;

    fn texts(findings: &DaemonFindings) -> Vec<(Severity, String)> {
        let all = findings.all().into_iter();
        all.map(|one| (one.severity, one.text)).collect()
    }

    #[test]
    fn lost_settings_are_a_finding_until_the_operator_removes_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let begin = |report: &LoadReport| {
            let findings = DaemonFindings::new();
            let damage = Damage::of(
                Some(dir.path()),
                report,
                0,
                &Persisted::default(),
                &findings,
            );
            (damage, findings)
        };
        let (_, findings) = begin(&LoadReport::default());
        assert_eq!(texts(&findings), []);
        let unusable = LoadReport {
            quarantined: Some(Quarantined {
                path: None,
                reason: "its digest differs".to_owned(),
            }),
            ..LoadReport::default()
        };
        let (_, findings) = begin(&unusable);
        let found = texts(&findings);
        assert_eq!(found[0].0, Severity::Error);
        assert!(found[0].1.contains("its digest differs"), "{found:?}");
        // The next start finds a whole store, which still lacks the settings.
        let (mut damage, findings) = begin(&LoadReport {
            origin: Origin::Clean,
            ..LoadReport::default()
        });
        assert_eq!(texts(&findings), found);
        damage.check_acknowledgement(&findings);
        assert_eq!(texts(&findings), found);
        std::fs::remove_file(dir.path().join(LOST)).unwrap();
        damage.check_acknowledgement(&findings);
        assert_eq!(texts(&findings), []);
    }
}

//! Prints the report for the operator.

use std::fmt::{self, Write as _};

use rsm_config::{ConfigSeverity, KeyGroup, SA_KEY_FILE};

use super::{Migration, Outputs};
use crate::daemon::Imported;

/// Prints the files that were read and their contents, then everything that is not adopted
/// unchanged.
impl fmt::Display for Migration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, content) in &self.sources {
            match content.is_empty() {
                true => writeln!(f, "read {}", path.display())?,
                false => writeln!(f, "read {}: {content}", path.display())?,
            }
        }
        if self.config.partitions.file.is_none() {
            let effect = "every port is a full member of the default partition";
            writeln!(f, "read no partitions: {effect}")?;
        }
        if let Some(routes) = &self.routes {
            write!(f, "{routes}")?;
        }
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        if !self.outcomes.is_empty() {
            let groups = KeyGroup::ALL.map(|group| {
                let keys = self.outcomes.iter().filter(|key| key.group == group);
                format!("{} {group}", keys.count())
            });
            writeln!(f, "keys: {}", groups.join(", "))?;
        }
        let count = |severity| {
            let all = self.findings.iter();
            all.filter(|finding| finding.severity == severity).count()
        };
        writeln!(
            f,
            "{} errors, {} warnings",
            count(ConfigSeverity::Error),
            count(ConfigSeverity::Warning)
        )
    }
}

impl Migration {
    /// Describes the files that a run without `--dry-run` would write.
    ///
    /// # Errors
    /// Fails as [`Migration::checked`] does.
    pub fn describe_dry_run(&self, to: &Outputs) -> Result<String, super::WriteError> {
        let text = self.checked(to)?;
        let mut out = String::new();
        let _ = writeln!(out, "would write {}:", to.config.display());
        for line in text.lines() {
            let _ = writeln!(out, "    {line}");
        }
        if let Some(key) = self.new_sa_key(to) {
            let _ = writeln!(out, "would make the key of the SA in {}", key.display());
        }
        let _ = writeln!(
            out,
            "would make the store in {}: {}",
            to.state_dir.display(),
            self.records()
        );
        Ok(out)
    }

    /// Describes the result of [`Migration::write`], and the next step.
    pub fn describe_written(&self, to: &Outputs, imported: Imported) -> String {
        let (config, state) = (to.config.display(), to.state_dir.display());
        let mut out = format!(
            "wrote {config}\nmade the store in {state}: {}\n",
            self.records()
        );
        if self.config.sm.sa_key.is_none() {
            let _ = writeln!(
                out,
                "the SA trusts requests that show the key in {}, and no other: give it to hosts that ask with saquery --smkey",
                to.config.with_file_name(SA_KEY_FILE).display()
            );
        }
        if imported.left_out > 0 {
            let _ = writeln!(
                out,
                "{} registrations contradict others or exceed the limits, and are left out: these hosts register anew \
                 when rsm starts",
                imported.left_out
            );
        }
        let _ = writeln!(
            out,
            "next: rsm --config {config} --dry-run, which lists the Sets of rsm and compares its routes with those in the \
             switches; then stop OpenSM and start rsm"
        );
        out
    }

    /// Describes the contents of the new store.
    fn records(&self) -> String {
        let saved = &self.registrations;
        format!(
            "LIDs of {} ports, {} groups, {} services, {} subscriptions, alias GUIDs of {} ports",
            self.claims.len(),
            saved.groups.len(),
            saved.services.len(),
            saved.subscriptions.len(),
            saved.guids.by_port.len(),
        )
    }
}

//! OpenSM's `qos-policy.conf`: service levels and other limits of paths, chosen by rules about
//! queries.
//!
//! The full policy has the sections `port-groups`, `qos-levels` and `qos-match-rules`; `qos-setup`
//! is parsed and has no effect, as with OpenSM. The rules of the simplified policy (`qos-ulps`)
//! follow all other rules. A line is a keyword that begins or ends a section, or `KEY : VALUE`; `#`
//! begins a comment. Where OpenSM uses the first or the last of two definitions with one name, rsm
//! reports an error; a file with an error has no effect at all.

mod build;
mod lines;
mod model;
mod ranges;
#[cfg(test)]
mod tests;
mod ulp;

use std::path::Path;

pub use self::model::{GroupKind, MatchRule, PortGroup, QosLevel, QosPolicy};
pub use self::ranges::Ranges;
use super::finding::{ConfigFinding, ConfigSeverity};
use super::partitions::report::{Report, quoted};
use super::text_file::{ConfigError, is_missing, read_text, usable};
use super::{Partitions, QosConfig};

/// Parses `text`, the content of `file`. The policy is usable only if no finding is an error.
pub fn parse_qos_policy(file: &Path, text: &str) -> (QosPolicy, Vec<ConfigFinding>) {
    let mut report = Report::new(file, text);
    let blocks = lines::blocks(text, &mut report);
    let policy = build::build(file, text, &blocks, &mut report);
    if policy.rules.is_empty() && policy.levels.is_empty() {
        let expected = "paths have the service levels of partitions and of the engine";
        report.warning(0, "no rule and no level", expected);
    }
    (policy, report.finish())
}

impl QosPolicy {
    /// Warns about each P_Key and partition that the policy names and `partitions` does not define:
    /// no query matches such a P_Key or partition until a definition exists.
    pub fn undefined_partitions(&self, partitions: &Partitions) -> Vec<ConfigFinding> {
        let finding = |line: usize, found: String| ConfigFinding {
            file: self.file.clone(),
            line,
            column: 1,
            severity: ConfigSeverity::Warning,
            found,
            expected: "no path matches it: define the partition, or delete it here".to_owned(),
        };
        let defines = |(first, last): &(u64, u64)| {
            let mut keys = partitions
                .list
                .iter()
                .map(|one| u64::from(one.p_key.base()));
            keys.any(|key| (*first..=*last).contains(&key))
        };
        let of_rules = self.rules.iter().map(|rule| (rule.line, &rule.p_keys));
        let of_levels = self.levels.iter().map(|level| (level.line, &level.p_keys));
        let of_groups = self.groups.iter().map(|group| (group.line, &group.p_keys));
        let lists = of_groups.chain(of_levels).chain(of_rules);
        let unknown = lists.flat_map(|(line, keys)| {
            let unknown = keys.iter().filter(|range| !defines(range));
            unknown.map(move |range| (line, Ranges::of(vec![range])))
        });
        let mut findings: Vec<_> = unknown
            .map(|(line, keys)| finding(line, format!("no partition has a P_Key of {keys}")))
            .collect();
        let has_name = |name: &str| partitions.list.iter().any(|one| one.name == name);
        for group in &self.groups {
            let unknown = group.partitions.iter().filter(|name| !has_name(name));
            findings.extend(unknown.map(|name| {
                finding(
                    group.line,
                    format!("there is no partition {}", quoted(name)),
                )
            }));
        }
        findings.sort_by_key(|finding| finding.line);
        findings
    }
}

/// Reads the policy file that `config` names. `None` if `config` names no file, if quality of
/// service is off, or if a file that may be missing does not exist.
///
/// # Errors
///
/// Fails if the file cannot be read, or has any error.
pub fn load_qos_policy(
    config: &QosConfig,
) -> Result<(Option<QosPolicy>, Vec<ConfigFinding>), ConfigError> {
    let Some(file) = config.policy_file.as_ref().filter(|_| config.enabled) else {
        return Ok((None, Vec::new()));
    };
    let text = match read_text(file) {
        Err(error) if config.policy_may_be_missing && is_missing(&error) => {
            let effect = "paths have the service levels of partitions and of the engine";
            let finding = ConfigFinding::no_such_file(file, effect);
            return Ok((None, vec![finding]));
        }
        text => text?,
    };
    let (policy, findings) = usable(parse_qos_policy(file, &text))?;
    Ok((Some(policy), findings))
}

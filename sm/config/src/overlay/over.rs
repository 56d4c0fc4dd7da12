//! Combines the overlay with the partitions of the file.

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_mad::wire::attr::PKey;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

use super::Overlay;
use super::protect::add_protection;
use crate::{Membership, Partition, PartitionMembers, Partitions, Rule};

/// Maximum number of conflicts with separate findings; one more finding counts all further
/// conflicts.
const SEPARATE_FINDINGS_MAX: usize = 32;

/// The combined partitions of file and overlay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CombinedPartitions {
    /// The partitions for the policy.
    pub partitions: Arc<Partitions>,
    /// Conflicts between file and overlay.
    pub findings: Vec<Finding>,
}

impl Overlay {
    /// Combines the overlay with the partitions of `file`. If the file defines a P_Key of the
    /// overlay, only the file's definition counts. If the file gives a name of the overlay to
    /// another P_Key, the partition of the overlay loses the name, and its P_Key becomes its name.
    pub fn over(&self, file: &Arc<Partitions>) -> CombinedPartitions {
        if self.is_empty() {
            return CombinedPartitions {
                partitions: file.clone(),
                findings: Vec::new(),
            };
        }
        let mut conflicts = Vec::new();
        let mut partitions = Partitions::clone(file);
        if self.limits_default {
            limit_default(&mut partitions.rules);
        }
        let names: BTreeMap<&str, PKey> = file
            .list
            .iter()
            .map(|one| (&*one.name, one.p_key))
            .collect();
        let mut added = Vec::new();
        for (&p_key, one) in &self.partitions {
            let key = PKey(p_key);
            let settings = &one.settings;
            if key != PKey::DEFAULT_LIMITED {
                if let Some(known) = file.find(key) {
                    conflicts.push(format!(
                        "the partition {key} (`{}`) is also defined in partitions.conf, with the name `{}`: the file counts \
                         alone, and the {} members of the API are not in force; take it out of one of the two",
                        settings.name,
                        known.name,
                        one.members.len()
                    ));
                    continue;
                }
                let mut name = settings.name.clone();
                if let Some(other) = names.get(&*name) {
                    conflicts.push(format!(
                        "partitions.conf gives the name `{name}` of the partition {key} to {other}: rules that name it mean the \
                         latter; rename one of the two"
                    ));
                    name = key.to_string();
                }
                let (ipoib, sl) = (settings.ipoib, settings.sl);
                let partition =
                    Partition::made(key, name, ipoib, (sl, settings.mtu, settings.rate));
                added.push(partition);
                let lost = add_protection(&mut partitions.protections, p_key, &one.protection);
                if !lost.is_empty() {
                    conflicts.push(format!(
                        "names of the partition {key} belong by partitions.conf to others: {}; the file counts alone; take \
                         them out of one of the two",
                        lost.join(", ")
                    ));
                }
            }
            partitions
                .rules
                .extend(one.members.iter().map(|(&guid, member)| Rule {
                    p_key: key,
                    members: PartitionMembers::Port(guid),
                    membership: member.membership,
                    index0: member.index0,
                }));
        }
        partitions.list.extend(added);
        partitions
            .list
            .sort_by_key(|partition| partition.p_key.base());
        CombinedPartitions {
            partitions: Arc::new(partitions),
            findings: findings(conflicts),
        }
    }
}

/// Limits the memberships that rules for all ports of a kind give in the default partition. Rules
/// for switches, for the subnet manager's port and for GUIDs stay as they are.
fn limit_default(rules: &mut Vec<Rule>) {
    let of_hosts = |members: PartitionMembers| match members {
        PartitionMembers::All
        | PartitionMembers::ChannelAdapters
        | PartitionMembers::Routers
        | PartitionMembers::VirtualAdapters => true,
        PartitionMembers::Switches | PartitionMembers::Own | PartitionMembers::Port(_) => false,
    };
    for rule in std::mem::take(rules) {
        if rule.p_key != PKey::DEFAULT_LIMITED || !of_hosts(rule.members) {
            rules.push(rule);
            continue;
        }
        rules.push(Rule {
            membership: Membership::Limited,
            ..rule
        });
        if rule.members == PartitionMembers::All {
            // A rule for all ports includes switches.
            rules.push(Rule {
                members: PartitionMembers::Switches,
                ..rule
            });
        }
    }
}

fn findings(conflicts: Vec<String>) -> Vec<Finding> {
    let finding = |text: String| {
        let kind = FindingKind::PartitionConflict;
        Finding::new(kind, Subject::Subnet, Severity::Warning, text)
    };
    let more = conflicts.len().saturating_sub(SEPARATE_FINDINGS_MAX);
    let mut findings: Vec<Finding> = conflicts
        .into_iter()
        .take(SEPARATE_FINDINGS_MAX)
        .map(finding)
        .collect();
    if more > 0 {
        let text = format!("{more} more partitions of the API conflict with partitions.conf");
        findings.push(finding(text));
    }
    findings
}

//! Failed Sets of a push: counts the misses of their nodes, and reports the Sets as findings.

use std::collections::{BTreeSet, HashSet};

use rsm_hardware::push::{Cause, FailedSet, Task};
use rsm_hardware::sweep::inventory::Inventory;
use rsm_ids::Guid;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};

/// Counts one miss for each node that left one or more Sets of this push unanswered.
pub(in super::super) fn count_misses(inventory: &mut Inventory, failures: &[FailedSet]) {
    let silent: BTreeSet<Guid> = failures
        .iter()
        .filter(|failure| failure.cause == Cause::Silence && !failure.task.is_of_vports())
        .map(FailedSet::node)
        .collect();
    for guid in silent {
        if let Some(node) = inventory.hardware.node_mut(guid) {
            node.missed = node.missed.saturating_add(1);
        }
    }
}

/// Findings about failed Sets. Sets of blocks of the same table that failed for the same cause
/// share a finding.
pub(in super::super) fn findings(inventory: &Inventory, failures: &[FailedSet]) -> Vec<Finding> {
    // A silent switch has hundreds of blocks with the same finding.
    let mut reported = HashSet::new();
    let is_first =
        |failure: &&FailedSet| reported.insert((failure.task.of_first_block(), failure.cause));
    let mut findings: Vec<Finding> = failures
        .iter()
        .filter(is_first)
        .map(|failure| {
            let (subject, what) = match failure.task {
                Task::Switch(guid) => (Subject::Node(guid), "SwitchInfo".to_owned()),
                Task::AdaptiveRouting(guid) => (Subject::Node(guid), "ARInfo".to_owned()),
                Task::Adaptive(guid, step) => {
                    (Subject::Node(guid), format!("its {}", step.attribute()))
                }
                Task::Block { switch, .. } => {
                    (Subject::Node(switch), "its forwarding table".to_owned())
                }
                Task::SlToVl { switch, .. } => {
                    (Subject::Node(switch), "an SLtoVLMappingTable".to_owned())
                }
                Task::Multicast { switch, .. } => (
                    Subject::Node(switch),
                    "its multicast forwarding table".to_owned(),
                ),
                Task::MulticastTop(guid) => (Subject::Node(guid), "MulticastFDBTop".to_owned()),
                Task::Port(key, _) | Task::Link(key, _) => {
                    (Subject::Port(key), format!("PortInfo of port {}", key.port))
                }
                Task::Managed(key) => (
                    Subject::Port(key.port),
                    format!("{} of port {}", key.attribute(), key.port.port),
                ),
                Task::Virtualization(key) => (
                    Subject::Port(key),
                    format!("VirtualizationInfo of port {}", key.port),
                ),
                Task::VPort(key, index) => (
                    Subject::Port(key),
                    format!("VPortInfo of vport {index} of port {}", key.port),
                ),
                Task::VPortPKeys(key, index, _) => (
                    Subject::Port(key),
                    format!("the P_Key table of vport {index} of port {}", key.port),
                ),
                Task::PKeys(key, _) => (
                    Subject::Port(key),
                    format!("the P_Key table of port {}", key.port),
                ),
            };
            let why = match failure.cause {
                Cause::Silence => "did not answer".to_owned(),
                Cause::NotSent => "did not answer another Set before".to_owned(),
                Cause::Refused(status) => format!("refused it: {status}"),
                Cause::NotHeld => "answered, but does not hold what was set".to_owned(),
                Cause::NotKept(fields) => {
                    format!(
                        "accepted it, but keeps another {}",
                        fields.names().join(", ")
                    )
                }
            };
            let text = format!(
                "{} was set on {}, which {why}; it is tried again",
                what,
                inventory.hardware.name(failure.node())
            );
            Finding::new(FindingKind::SetFailed, subject, Severity::Error, text)
        })
        .collect();
    findings.sort();
    findings.dedup();
    findings
}

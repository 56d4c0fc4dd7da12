//! Who is in which partition: the P_KeyTable of every end port, and of the switch ports that enforce it.

mod members;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_mad::wire::attr::{NodeType, PKey};

use self::members::EndPorts;
use self::table::{Arrangement, arrange};
use super::policy::Policy;
use crate::fabric::{Fabric, PortRef};
use crate::findings::{Finding, FindingKind, Severity, Subject};

/// Findings of one kind before they are only counted: one line of a file can concern every port.
const FINDINGS_SHOWN: usize = 100;

/// Keys that a finding names before it only counts them.
const KEYS_SHOWN: usize = 8;

/// At which side of a switch port packets of other partitions are dropped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Enforced {
    /// What comes in.
    pub inbound: bool,
    /// What goes out.
    pub outbound: bool,
}

/// The partitions of a fabric, port by port.
#[derive(Clone, Default, Debug)]
pub struct PartitionPlan {
    /// Of end ports, and of the ports in `enforced`. Equal ones are shared.
    tables: BTreeMap<PortRef, Arc<[PKey]>>,
    enforced: BTreeMap<PortRef, Enforced>,
    /// What the operator should know.
    pub findings: Vec<Finding>,
}

impl PartitionPlan {
    /// The P_KeyTable of a port, by index and up to the last key; [`PKey::INVALID`] where none is. `None` where none is planned:
    /// at ports that have no table, and at ports of switches that enforce nothing.
    pub fn table(&self, at: PortRef) -> Option<&Arc<[PKey]>> {
        self.tables.get(&at)
    }

    /// All planned tables.
    pub fn tables(&self) -> impl Iterator<Item = (PortRef, &Arc<[PKey]>)> {
        self.tables.iter().map(|(&at, table)| (at, table))
    }

    /// What an external port of a switch drops.
    pub fn enforced(&self, at: PortRef) -> Enforced {
        self.enforced.get(&at).copied().unwrap_or_default()
    }

    /// How many ports of switches enforce partitions.
    pub fn enforcing(&self) -> usize {
        self.enforced.len()
    }
}

/// The P_Keys by which the holders of two tables can talk to each other: those of the partitions that both are in, one of
/// them as a full member (IBA 10.9.3). By ascending partition, as the holder of `a` has them: as a full member where it is one.
pub fn in_common(a: &[PKey], b: &[PKey]) -> Vec<PKey> {
    let mut common: Vec<PKey> = a
        .iter()
        .copied()
        .filter(|key| key.is_valid())
        .filter(|key| {
            let talks =
                |other: &PKey| other.base() == key.base() && (other.is_full() || key.is_full());
            b.iter().any(talks)
        })
        .collect();
    common.sort_unstable_by_key(|key| (key.base(), !key.is_full()));
    common.dedup_by_key(|key| key.base());
    common
}

/// The tables of every end port of `fabric`, with the keys that it holds in their places.
pub(super) fn assign(fabric: &Fabric, policy: &Policy) -> PartitionPlan {
    let ports = EndPorts::of(fabric);
    let wanted = ports.members(&policy.partitions);
    let mut plan = PartitionPlan::default();
    let mut shared = Shared::default();
    let mut complaints = Complaints::default();
    for (index, &at) in ports.list().iter().enumerate() {
        let wanted = &wanted[index];
        if wanted.contested {
            complaints.add(
                FindingKind::PartitionIndexClaimed,
                fabric,
                at,
                format!(
                    "several partitions claim index 0 of its P_Key table; {}, the last in the file, gets it",
                    wanted.first
                ),
            );
        }
        let capacity = usize::from(fabric.p_key_capacity(at));
        let held = fabric.port(at).p_keys.as_deref();
        let first = Some(wanted.first);
        let Arrangement { keys, left_out } = arrange(held, &wanted.keys, first, capacity);
        let needs_none = capacity == 0 && wanted.is_default();
        if !left_out.is_empty() && !needs_none {
            let text = format!(
                "its P_Key table holds {capacity} keys: it is left out of {}",
                listed(&left_out)
            );
            complaints.add(FindingKind::PartitionTableTooSmall, fabric, at, text);
        }
        if capacity > 0 {
            plan.tables.insert(at, shared.table(keys));
        }
    }
    // Where everybody is a full member of the same one partition there is nothing to be dropped.
    if wanted.iter().any(|wanted| !wanted.is_default()) {
        for &at in ports.list() {
            enforce(fabric, at, policy, &mut plan, &mut shared, &mut complaints);
        }
    }
    plan.findings = complaints.finish();
    plan
}

/// Has the switch port that `at` is cabled to drop what `at` has no P_Key for.
fn enforce(
    fabric: &Fabric,
    at: PortRef,
    policy: &Policy,
    plan: &mut PartitionPlan,
    shared: &mut Shared,
    complaints: &mut Complaints,
) {
    let Some(peer) = fabric.port(at).peer else {
        return;
    };
    let Some(switch) = &fabric.node(peer.node).switch else {
        return;
    };
    let capacity = usize::from(switch.partition_enforcement_cap());
    let enforced = Enforced {
        inbound: policy.enforcement.inbound() && switch.inbound_enforcement_cap(),
        outbound: policy.enforcement.outbound() && switch.outbound_enforcement_cap(),
    };
    let is_switch = fabric.node(at.node).kind() == NodeType::Switch;
    if is_switch || capacity == 0 || enforced == Enforced::default() {
        return;
    }
    let Some(table) = plan.tables.get(&at) else {
        return;
    };
    // The key of full members stands for that of limited ones.
    let redundant = |key: PKey| !key.is_full() && table.contains(&PKey(key.0 | 0x8000));
    let keys: Vec<PKey> = table
        .iter()
        .copied()
        .filter(|&key| key.is_valid() && !redundant(key))
        .collect();
    let held = fabric.port(peer).p_keys.as_deref();
    let Arrangement { keys, left_out } = arrange(held, &keys, None, capacity);
    if left_out.is_empty() {
        plan.tables.insert(peer, shared.table(keys));
        plan.enforced.insert(peer, enforced);
    } else {
        let text = format!(
            "its P_Key table holds {capacity} keys, {} fewer than that of the port it is cabled to; it enforces no partitions, for \
             it would drop packets of {}",
            left_out.len(),
            listed(&left_out)
        );
        complaints.add(FindingKind::PartitionTableTooSmall, fabric, peer, text);
    }
}

/// Equal tables, once.
#[derive(Default)]
struct Shared(BTreeMap<Vec<PKey>, Arc<[PKey]>>);

impl Shared {
    fn table(&mut self, keys: Vec<PKey>) -> Arc<[PKey]> {
        match self.0.get(&keys) {
            Some(table) => table.clone(),
            None => {
                let table: Arc<[PKey]> = keys.as_slice().into();
                self.0.insert(keys, table.clone());
                table
            }
        }
    }
}

/// Findings about ports, counted past a bound.
#[derive(Default)]
struct Complaints {
    findings: Vec<Finding>,
    counts: BTreeMap<FindingKind, usize>,
}

impl Complaints {
    fn add(&mut self, kind: FindingKind, fabric: &Fabric, at: PortRef, text: String) {
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= FINDINGS_SHOWN {
            let place = format!("{} port {}", fabric.node(at.node).name(), at.port);
            self.findings.push(Finding::new(
                kind,
                Subject::Port(fabric.key(at)),
                Severity::Warning,
                format!("{place}: {text}"),
            ));
        }
    }

    fn finish(mut self) -> Vec<Finding> {
        for (kind, count) in self.counts {
            if count > FINDINGS_SHOWN {
                let text = format!("the same holds of {} more ports", count - FINDINGS_SHOWN);
                self.findings
                    .push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
            }
        }
        self.findings
    }
}

fn listed(keys: &[PKey]) -> String {
    let shown: Vec<String> = keys
        .iter()
        .take(KEYS_SHOWN)
        .map(ToString::to_string)
        .collect();
    let more = keys.len().saturating_sub(KEYS_SHOWN);
    let and_more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{and_more}", shown.join(", "))
}

//! Partitions: the P_KeyTable of every end port, and of the switch ports that enforce partitions.

mod follow;
mod foreseen;
mod isolated;
mod loss;
mod members;
mod table;
#[cfg(test)]
mod tests;
mod vports;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_config::{PartitionMembers, Partitions, Protections, Rule};
use rsm_ids::{Guid, PortKey};
use rsm_mad::wire::attr::{NodeType, PKey};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_model::vports::VPortKey;

pub(super) use self::follow::follow;
pub(super) use self::foreseen::foreseen;
pub(super) use self::isolated::isolated_hosts;
pub use self::isolated::{IsolatedPorts, isolated_ports};
pub use self::loss::{all_losses, loss_between};
use self::members::{EndPorts, WantedKeys};
use self::table::{Arrangement, Index0, arrange};
use super::policy::Policy;

/// Maximum number of findings of one kind that are listed; one more finding counts the others. A
/// single line of a file can concern every port.
const FINDINGS_SHOWN: usize = 100;

/// Maximum number of keys that a finding names; the finding counts the others.
const KEYS_SHOWN: usize = 8;

/// The directions in which a switch port drops packets with P_Keys that its table lacks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Enforced {
    /// Whether the port drops incoming packets.
    pub inbound: bool,
    /// Whether the port drops outgoing packets.
    pub outbound: bool,
}

/// The partitions of a fabric, port by port.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct PartitionPlan {
    /// Tables of end ports, and of the ports in `enforced`. Equal tables are shared.
    tables: BTreeMap<PortKey, Arc<[PKey]>>,
    /// Switch ports that enforce partitions, with the directions.
    enforced: BTreeMap<PortKey, Enforced>,
    /// Tables of virtual ports, except physical functions. Equal tables are shared.
    vports: BTreeMap<VPortKey, Arc<[PKey]>>,
    /// Number of end ports and virtual ports whose keys are not just full membership in the default
    /// partition.
    partitioned_ports: usize,
    /// Findings for the operator.
    pub findings: Vec<Finding>,
}

impl PartitionPlan {
    /// The P_KeyTable of a port by index, up to the last key, with [`PKey::INVALID`] at empty
    /// indices. `None` for ports without a table, and for switch ports that do not enforce
    /// partitions.
    pub fn table(&self, port: PortKey) -> Option<&Arc<[PKey]>> {
        self.tables.get(&port)
    }

    /// The P_KeyTable of a virtual port, in the form of [`PartitionPlan::table`]. `None` for a
    /// physical function, which uses the table of its port.
    pub fn vport_table(&self, vport: VPortKey) -> Option<&Arc<[PKey]>> {
        self.vports.get(&vport)
    }

    /// All planned tables of ports.
    pub fn tables(&self) -> impl Iterator<Item = (PortKey, &Arc<[PKey]>)> {
        self.tables.iter().map(|(&port, table)| (port, table))
    }

    /// The directions in which an external port of a switch enforces partitions.
    pub fn enforced(&self, port: PortKey) -> Enforced {
        self.enforced.get(&port).copied().unwrap_or_default()
    }

    /// Ports whose keys or enforcement differ from `other`.
    pub fn differing(&self, other: &PartitionPlan) -> BTreeSet<PortKey> {
        let mut differing = BTreeSet::new();
        if std::ptr::eq(self, other) {
            return differing;
        }
        for (one, other) in [(self, other), (other, self)] {
            let tables = one.tables.iter();
            let tables = tables.filter(|&(port, table)| other.tables.get(port) != Some(table));
            differing.extend(tables.map(|(&port, _)| port));
            let enforced = one.enforced.iter();
            let enforced = enforced.filter(|&(port, how)| other.enforced.get(port) != Some(how));
            differing.extend(enforced.map(|(&port, _)| port));
            let vports = one.vports.iter();
            let vports = vports.filter(|&(key, table)| other.vports.get(key) != Some(table));
            differing.extend(vports.map(|(key, _)| key.port));
        }
        differing
    }
}

/// Assigns the tables of every end port of `fabric`. A key that a port holds keeps its index.
pub(super) fn assign(fabric: &Fabric, policy: &Policy) -> PartitionPlan {
    let ports = EndPorts::of(fabric, fabric.end_ports().map(|(at, _)| at).collect());
    let mut assignment = Assignment::new(fabric, policy);
    let partitioned_ports = assignment.assign_tables(&ports);
    // If all ports are full members of a single partition, no packet must be dropped.
    if partitioned_ports > 0 {
        assignment.enforce(&ports);
    }
    PartitionPlan {
        partitioned_ports,
        ..assignment.finish()
    }
}

/// A port that would be a member of more partitions than its table can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overfull {
    /// The port.
    pub at: PortRef,
    /// Number of keys that the port would need.
    pub wanted: usize,
    /// Number of keys that its table holds.
    pub capacity: usize,
}

/// The first port among `guids` whose table cannot hold its keys in the partitions `after`, and
/// that has more keys there than in the partitions `before`. `None` if all tables suffice.
pub fn overfull(
    fabric: &Fabric,
    before: &Partitions,
    after: &Partitions,
    guids: &BTreeSet<Guid>,
) -> Option<Overfull> {
    let ports = fabric.end_ports();
    let ports = ports.filter(|(_, port)| guids.contains(&port.guid));
    let ports = EndPorts::of(fabric, ports.map(|(at, _)| at).collect());
    let wanted = |partitions: &Partitions| {
        let concerns = |rule: &Rule| match rule.members {
            PartitionMembers::Port(guid) => guids.contains(&guid),
            _ => true,
        };
        ports.members(&with_rules(partitions, concerns))
    };
    let (had, wants) = (wanted(before), wanted(after));
    let all = ports.list().iter().zip(had).zip(wants);
    let mut all = all.map(|((&at, had), wants)| (at, had.keys.len(), wants.keys.len()));
    all.find_map(|(at, had, wanted)| {
        let capacity = usize::from(fabric.p_key_capacity(at));
        (wanted > capacity && wanted > had).then_some(Overfull {
            at,
            wanted,
            capacity,
        })
    })
}

/// Copies only the rules of `partitions` for which `applies` returns true. The copy serves only to
/// compute the keys of ports.
fn with_rules(partitions: &Partitions, applies: impl Fn(&Rule) -> bool) -> Partitions {
    let rules = partitions.rules.iter().filter(|rule| applies(rule));
    Partitions {
        file: None,
        list: Vec::new(),
        rules: rules.copied().collect(),
        allow_both: partitions.allow_both,
        protections: Protections::default(),
    }
}

/// State of the assignment of tables.
struct Assignment<'a> {
    fabric: &'a Fabric,
    policy: &'a Policy,
    plan: PartitionPlan,
    shared: SharedTables,
    findings: PortFindings,
}

impl<'a> Assignment<'a> {
    fn new(fabric: &'a Fabric, policy: &'a Policy) -> Assignment<'a> {
        Assignment {
            fabric,
            policy,
            plan: PartitionPlan::default(),
            shared: SharedTables::default(),
            findings: PortFindings::default(),
        }
    }

    /// Assigns tables to end ports and their virtual ports. Returns the number of ports whose keys
    /// are not just full membership in the default partition.
    fn assign_tables(&mut self, ports: &EndPorts) -> usize {
        let wanted = ports.members(&self.policy.partitions);
        for (&at, wanted) in ports.list().iter().zip(&wanted) {
            self.assign_port(at, wanted);
        }
        let partitioned_ports = wanted.iter().filter(|wanted| !wanted.is_default()).count();
        partitioned_ports + self.assign_vports(ports)
    }

    /// Assigns the table of an end port, if the port has one.
    fn assign_port(&mut self, at: PortRef, wanted: &WantedKeys) {
        let fabric = self.fabric;
        if wanted.contested {
            self.findings.add(
                FindingKind::PartitionIndexClaimed,
                fabric,
                at,
                format!(
                    "several partitions claim index 0 of its P_Key table; {}, the last in the file, gets it",
                    wanted.index_0
                ),
            );
        }
        let capacity = usize::from(fabric.p_key_capacity(at));
        let held = fabric.port(at).p_keys.as_deref();
        let index_0 = match wanted.claimed {
            true => Index0::Claimed(wanted.index_0),
            false => Index0::Default(wanted.index_0),
        };
        let Arrangement { keys, left_out } = arrange(held, &wanted.keys, index_0, capacity);
        let needs_no_table = capacity == 0 && wanted.is_default();
        if !left_out.is_empty() && !needs_no_table {
            let text = format!(
                "its P_Key table holds {capacity} keys: the port is left out of {}",
                listed(&left_out)
            );
            self.findings
                .add(FindingKind::PartitionTableTooSmall, fabric, at, text);
        }
        if capacity > 0 {
            let table = self.shared.table(keys);
            self.plan.tables.insert(fabric.key(at), table);
        }
    }

    /// Makes the switch ports at end ports drop packets with a P_Key that the end port lacks.
    fn enforce(&mut self, ports: &EndPorts) {
        for &at in ports.list() {
            self.enforce_port(at);
        }
    }

    /// Makes the switch port at the end port `at` enforce partitions, if it can and its table is
    /// large enough.
    fn enforce_port(&mut self, at: PortRef) {
        let fabric = self.fabric;
        let Some(peer) = fabric.peer(at) else {
            return;
        };
        let Some(switch) = &fabric.node(peer.node).switch else {
            return;
        };
        let capacity = usize::from(switch.partition_enforcement_cap());
        let enforcement = self.policy.enforcement;
        let enforced = Enforced {
            inbound: enforcement.inbound() && switch.inbound_enforcement_cap(),
            outbound: enforcement.outbound() && switch.outbound_enforcement_cap(),
        };
        let is_switch = fabric.node(at.node).kind() == NodeType::Switch;
        if is_switch || capacity == 0 || enforced == Enforced::default() {
            return;
        }
        let Some(table) = self.keys_on_link(at) else {
            return;
        };
        // The key of a full member also admits packets of limited members.
        let is_redundant = |key: PKey| !key.is_full() && table.contains(&PKey(key.0 | 0x8000));
        let keys: Vec<PKey> = table
            .iter()
            .copied()
            .filter(|&key| key.is_valid() && !is_redundant(key))
            .collect();
        let held = fabric.port(peer).p_keys.as_deref();
        let Arrangement { keys, left_out } = arrange(held, &keys, Index0::Any, capacity);
        if left_out.is_empty() {
            let key = fabric.key(peer);
            self.plan.tables.insert(key, self.shared.table(keys));
            self.plan.enforced.insert(key, enforced);
        } else {
            let text = format!(
                "its P_Key table holds {capacity} keys, {} fewer than that of the port it is cabled to; the port enforces no \
                 partitions, because it would drop packets of {}",
                left_out.len(),
                listed(&left_out)
            );
            self.findings
                .add(FindingKind::PartitionTableTooSmall, fabric, peer, text);
        }
    }

    fn finish(self) -> PartitionPlan {
        PartitionPlan {
            findings: self.findings.finish(),
            ..self.plan
        }
    }
}

/// Shares equal tables.
#[derive(Default)]
struct SharedTables(BTreeMap<Vec<PKey>, Arc<[PKey]>>);

impl SharedTables {
    /// The shared table with these keys.
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

/// Collects findings about ports, with a bound for each kind.
#[derive(Default)]
struct PortFindings {
    findings: Vec<Finding>,
    applies: BTreeMap<FindingKind, usize>,
}

impl PortFindings {
    /// Adds a finding about a port, or only counts it beyond the bound.
    fn add(&mut self, kind: FindingKind, fabric: &Fabric, at: PortRef, text: String) {
        let count = self.applies.entry(kind).or_default();
        *count += 1;
        if *count <= FINDINGS_SHOWN {
            let name = fabric.port_name(fabric.key(at));
            self.findings.push(Finding::new(
                kind,
                Subject::Port(fabric.key(at)),
                Severity::Warning,
                format!("{name}: {text}"),
            ));
        }
    }

    /// The findings, with one finding for each kind about the ports that were only counted.
    fn finish(mut self) -> Vec<Finding> {
        for (kind, count) in self.applies {
            if count > FINDINGS_SHOWN {
                let text = format!("the same applies to {} more ports", count - FINDINGS_SHOWN);
                self.findings
                    .push(Finding::new(kind, Subject::Subnet, Severity::Warning, text));
            }
        }
        self.findings
    }
}

/// Lists the first [`KEYS_SHOWN`] keys, and counts the others.
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

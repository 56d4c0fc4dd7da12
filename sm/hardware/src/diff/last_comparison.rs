//! Limits the next comparison to the parts that may have changed since the last one.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_model::Mark;
use rsm_model::fabric::{Fabric, Node};
use rsm_model::habits::DeviceHabits;
use rsm_plan::Plan;

use super::{Changes, Comparison, NotKept};
use crate::sweep::inventory::Inventory;

/// The last comparison of all ports and tables, and the differences that it found. A port or table
/// needs a second comparison only if it has changed since, in the hardware or in the plan.
#[derive(Clone, Debug)]
pub struct LastComparison {
    plan: Arc<Plan>,
    fabric: Arc<Fabric>,
    not_kept: NotKept,
    habits: DeviceHabits,
    /// Ports that differed from the plan in PortInfo, P_KeyTable, MTU, VLs, managed attributes or
    /// virtual ports.
    ports: BTreeSet<PortKey>,
    /// Switches that differed from the plan.
    switches: BTreeSet<Guid>,
    /// Position in the log of writes to switches at the time of the comparison.
    mark: Mark,
    /// Position in the log of writes to managed attributes at the time of the comparison.
    managed_mark: Mark,
}

/// Ports and switches that may differ from the plan; a comparison is limited to them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ComparisonScope {
    /// Ports whose PortInfo, P_KeyTable, managed attributes or virtual ports may differ.
    pub ports: BTreeSet<PortKey>,
    /// Switches whose tables or SwitchInfo may differ.
    pub switches: BTreeSet<Guid>,
}

impl ComparisonScope {
    /// All ports and switches of the subnet; `fabric` is the model of `inventory`.
    pub(super) fn everything(inventory: &Inventory, fabric: &Fabric) -> ComparisonScope {
        ComparisonScope {
            ports: fabric.nodes().flat_map(ports_of).collect(),
            switches: inventory
                .hardware
                .switches()
                .map(|(guid, ..)| guid)
                .collect(),
        }
    }
}

impl LastComparison {
    /// Records that the comparison `compared` found `changes`.
    pub fn new(changes: &Changes, compared: &Comparison<'_>) -> LastComparison {
        let changed = changes.ports.keys().chain(changes.mismatches.keys());
        let changed = changed.chain(changes.managed.keys());
        let changed = changed.chain(changes.vports.keys());
        LastComparison {
            plan: compared.plan.clone(),
            fabric: compared.fabric.clone(),
            not_kept: compared.not_kept.clone(),
            habits: compared.inventory.hardware.habits.clone(),
            ports: changed.copied().collect(),
            switches: changes.switches.keys().copied().collect(),
            mark: compared.inventory.hardware.mark(),
            managed_mark: compared.inventory.hardware.managed_mark(),
        }
    }

    /// Ports and switches at which the plan of `now` may differ from the hardware.
    ///
    /// # Errors
    /// The reason why every port and switch may differ.
    pub fn scope(&self, now: &Comparison<'_>) -> Result<ComparisonScope, &'static str> {
        Ok(ComparisonScope {
            ports: self.ports(now)?,
            switches: self.switches(now)?,
        })
    }

    /// The ports that may differ now.
    ///
    /// # Errors
    /// The reason why every port may differ.
    fn ports(&self, now: &Comparison<'_>) -> Result<BTreeSet<PortKey>, &'static str> {
        let (fabric, plan) = (now.fabric, now.plan);
        let (policy, before) = (&plan.policy, &self.plan.policy);
        if !Arc::ptr_eq(policy, before) && !plan.policy_change.follows(before) {
            return Err("the configuration changed");
        }
        if self.plan.sm_lid != plan.sm_lid {
            return Err("the subnet manager has another LID");
        }
        if self.not_kept != *now.not_kept {
            return Err("devices do not keep a field");
        }
        let mut ports = self.ports.clone();
        ports.extend(now.reregister.due());
        if plan.policy.qos.is_some() {
            if !self.habits.bits().eq(now.inventory.hardware.habits.bits()) {
                return Err("devices do not take a table for quality of service");
            }
            if self.plan.routing.lanes.is_single() != plan.routing.lanes.is_single() {
                return Err("the routes need SLtoVLMappingTables, or no longer do");
            }
        }
        let policy = &plan.policy;
        let sets_extended_ports = policy.aggregation_nodes.is_some()
            || policy.adaptive.is_on()
            || policy.ports.links.fdr10.enables().is_some();
        if policy.qos.is_some() || policy.rate_limits.is_some() || sets_extended_ports {
            let written = now.inventory.hardware.managed_since(self.managed_mark);
            let nodes = written.filter_map(|guid| fabric.node_of(guid));
            ports.extend(nodes.flat_map(ports_of));
        }
        ports.extend(plan.lids.differing(&self.plan.lids));
        ports.extend(plan.partitions.differing(&self.plan.partitions));
        // The planned settings of a port depend on the port at the other end of its cable.
        let peers = peers(&self.fabric, &ports).chain(peers(fabric, &ports));
        let peers: Vec<PortKey> = peers.collect();
        ports.extend(peers);
        for node in self.fabric.differing_nodes(fabric) {
            ports.extend(ports_of(node));
            ports.extend(node.ports.iter().filter_map(|port| port.peer));
        }
        Ok(ports)
    }

    /// The switches whose tables or SwitchInfo may differ now.
    ///
    /// # Errors
    /// The reason why every switch may differ.
    fn switches(&self, now: &Comparison<'_>) -> Result<BTreeSet<Guid>, &'static str> {
        let (inventory, plan, interim) = (now.inventory, now.plan, now.interim);
        if self.plan.top() != plan.top() {
            return Err("the highest LID is another");
        }
        if !(self.plan.routing.lanes.is_single() && plan.routing.lanes.is_single()) {
            return Err("the routes need SLtoVLMappingTables");
        }
        let mut switches = self.switches.clone();
        switches.extend(inventory.hardware.written_since(self.mark));
        let planned = plan.topology.switches().iter().map(|switch| switch.guid);
        switches.extend(planned.filter(|&guid| {
            let is_as_before = |table| {
                let before = self.plan.last_table(guid);
                before.is_some_and(|before| before.is_shared_with(table))
                    && interim.iter().all(|tables| {
                        let interim = plan.table_of(tables, guid);
                        interim.is_none_or(|interim| interim.is_shared_with(table))
                    })
            };
            !plan.last_table(guid).is_some_and(is_as_before)
                || !is_adaptive_as_before(&self.plan, plan, guid)
        }));
        Ok(switches)
    }
}

/// Whether a switch has the same adaptive routing in both plans: groups, entries and trials.
fn is_adaptive_as_before(before: &Plan, plan: &Plan, guid: Guid) -> bool {
    let (before_tables, tables) = match (&before.adaptive, &plan.adaptive) {
        (None, None) => return true,
        (Some(before_tables), Some(tables)) => (before_tables, tables),
        _ => return false,
    };
    if Arc::ptr_eq(before_tables, tables) {
        return true;
    }
    before_tables.group_top == tables.group_top
        && before_tables.tests == tables.tests
        && before_tables.switches.contains(&guid) == tables.switches.contains(&guid)
        && before_tables.table(before, guid) == tables.table(plan, guid)
}

/// All ports of a node, including port 0.
fn ports_of(node: &Node) -> impl Iterator<Item = PortKey> + '_ {
    let numbers = (0..=u8::MAX).map(PortNum).take(node.ports.len());
    numbers.map(|number| PortKey::new(node.guid, number))
}

/// The ports at the other ends of the cables of `ports`.
fn peers<'a>(
    fabric: &'a Fabric,
    ports: &'a BTreeSet<PortKey>,
) -> impl Iterator<Item = PortKey> + 'a {
    let mut node: Option<&Node> = None;
    ports.iter().filter_map(move |port| {
        if node.is_none_or(|node| node.guid != port.node) {
            node = fabric.node_of(port.node);
        }
        node?.ports.get(port.port.index())?.peer
    })
}

//! Where the next difference has to be looked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};
use rsm_routing::tables::Tables;

use super::{Changes, NotKept, Reregister};
use crate::fabric::{Fabric, Node};
use crate::plan::Plan;
use crate::sweep::inventory::{Inventory, PortKey};
use crate::sweep::writes::Mark;

/// What all ports and tables were compared with last, and where something was to be written. A port or table that is as it
/// was then, and that is wanted as it was then, needs no second look.
#[derive(Clone, Debug)]
pub struct Looked {
    plan: Arc<Plan>,
    fabric: Arc<Fabric>,
    not_kept: NotKept,
    /// Ports that were not as they should be.
    ports: BTreeSet<PortKey>,
    /// Switches that were not.
    switches: BTreeSet<Guid>,
    /// When the tables of switches were compared.
    mark: Mark,
}

/// What may need something now.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Scope {
    /// Ports.
    pub ports: BTreeSet<PortKey>,
    /// Switches with their tables and SwitchInfo.
    pub switches: BTreeSet<Guid>,
}

impl Scope {
    /// All of a subnet; `fabric` is the model of `inventory`.
    pub(super) fn everything(inventory: &Inventory, fabric: &Fabric) -> Scope {
        Scope {
            ports: fabric.nodes().flat_map(ports_of).collect(),
            switches: inventory.switches().map(|(guid, ..)| guid).collect(),
        }
    }
}

impl Looked {
    /// `changes` is what was found.
    pub fn new(
        changes: &Changes,
        inventory: &Inventory,
        fabric: &Arc<Fabric>,
        plan: &Arc<Plan>,
        not_kept: &NotKept,
    ) -> Looked {
        Looked {
            plan: plan.clone(),
            fabric: fabric.clone(),
            not_kept: not_kept.clone(),
            ports: open_ports(changes),
            switches: changes.switches.keys().copied().collect(),
            mark: inventory.mark(),
        }
    }

    /// Where `plan`, with `interim` tables on the way, may want something else than the hardware holds.
    ///
    /// # Errors
    /// Why that may be everywhere.
    pub fn scope(
        &self,
        inventory: &Inventory,
        fabric: &Fabric,
        plan: &Plan,
        interim: &[Tables],
        not_kept: &NotKept,
        reregister: &Reregister,
    ) -> Result<Scope, &'static str> {
        Ok(Scope {
            ports: self.ports(fabric, plan, not_kept, reregister)?,
            switches: self.switches(inventory, plan, interim)?,
        })
    }

    /// The ports that may need something now.
    fn ports(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        not_kept: &NotKept,
        reregister: &Reregister,
    ) -> Result<BTreeSet<PortKey>, &'static str> {
        if !Arc::ptr_eq(&self.plan.policy, &plan.policy) {
            return Err("the configuration changed");
        }
        if self.plan.sm_lid != plan.sm_lid {
            return Err("the subnet manager has another LID");
        }
        if self.not_kept != *not_kept {
            return Err("devices do not keep a field");
        }
        if !reregister.is_empty() {
            return Err("hosts are to register anew");
        }
        let mut ports = self.ports.clone();
        for node in self.fabric.differing_nodes(fabric) {
            ports.extend(ports_of(node));
        }
        ports.extend(plan.lids.differing(&self.plan.lids));
        ports.extend(plan.partitions.differing(&self.plan.partitions));
        // What a port should be depends on what is at the other end of its cable.
        let peers: Vec<PortKey> = ports
            .iter()
            .flat_map(|&port| [&*self.fabric, fabric].map(|fabric| peer(fabric, port)))
            .flatten()
            .collect();
        ports.extend(peers);
        Ok(ports)
    }

    /// The switches of which more than ports may need something now.
    fn switches(
        &self,
        inventory: &Inventory,
        plan: &Plan,
        interim: &[Tables],
    ) -> Result<BTreeSet<Guid>, &'static str> {
        if self.plan.top() != plan.top() {
            return Err("the highest LID is another");
        }
        if !(self.plan.routing.lanes.is_single() && plan.routing.lanes.is_single()) {
            return Err("the routes need SLtoVLMappingTables");
        }
        let mut switches = self.switches.clone();
        switches.extend(inventory.written_since(self.mark));
        let planned = plan.topology.switches().iter().map(|switch| switch.guid);
        switches.extend(planned.filter(|&guid| {
            let is_as_before = |now| {
                let before = self.plan.last_table(guid);
                before.is_some_and(|before| before.is_shared_with(now))
                    && interim.iter().all(|tables| {
                        let on_the_way = plan.table_of(tables, guid);
                        on_the_way.is_none_or(|table| table.is_shared_with(now))
                    })
            };
            !plan.last_table(guid).is_some_and(is_as_before)
        }));
        Ok(switches)
    }
}

fn open_ports(changes: &Changes) -> BTreeSet<PortKey> {
    let changed = changes.ports.keys().chain(changes.mismatches.keys());
    changed.copied().collect()
}

fn ports_of(node: &Node) -> impl Iterator<Item = PortKey> + '_ {
    let numbers = (0..=u8::MAX).map(PortNum).take(node.ports.len());
    numbers.map(|number| PortKey::new(node.guid, number))
}

fn peer(fabric: &Fabric, port: PortKey) -> Option<PortKey> {
    fabric.port(fabric.find_port(port)?).peer
}

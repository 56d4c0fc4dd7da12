//! The plan: the immutable desired state of the subnet.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey, PortNum};
use rsm_model::Hardware;
use rsm_model::fabric::{Fabric, Node};
use rsm_model::findings::Finding;
use rsm_model::text::count;
use rsm_model::whole::Whole;
use rsm_routing::adaptive::AdaptiveTable;
use rsm_routing::engine::{EngineKind, Routing};
use rsm_routing::mcast::Mft;
use rsm_routing::tables::{BLOCK_LIDS, Lft, Tables};
use rsm_routing::topology::{SlowCable, Topology};
use rsm_routing::verify::{Report, Tally};

use crate::adaptive::Adaptive;
use crate::avoid::{LidsOver, NodeOrCable, Unplugged, lids_over};
use crate::avoided::Avoided;
use crate::lids::{Claim, LidPlan};
use crate::links::LinkPorts;
use crate::lint::Proved;
use crate::multicast::Multicast;
use crate::order::HostOrder;
use crate::partitions::PartitionPlan;
use crate::policy::{Policy, PolicyChange};
use crate::transition::Transition;

/// The desired state of the subnet. Clones share all large parts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of the plan; later plans have higher numbers.
    pub generation: u64,
    /// The subnet that the plan is for.
    pub fabric: Arc<Fabric>,
    /// The LIDs of all ports.
    pub lids: Arc<LidPlan>,
    /// The LID of the subnet manager's port.
    pub sm_lid: Lid,
    /// Cables that routes avoid, each given by either end: flapping cables, and cables of avoided
    /// parts.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// The parts that routes avoid.
    pub avoided: Arc<Avoided>,
    /// The switch graph with these LIDs, without the cables in `damped`.
    pub topology: Arc<Topology>,
    /// Categories, rails and order of the host ports by which routes are spread.
    pub order: HostOrder,
    /// The forwarding tables, and how they were computed.
    pub routing: Arc<Routing>,
    /// Proof of the forwarding tables.
    pub report: Report,
    /// Sums behind the proof, from which the proof of the next plan starts.
    pub tally: Arc<Tally>,
    /// The part of the tables that was proved.
    pub proved: Proved,
    /// Number of entries moved off the links with maximum load; `None` unless the job was to
    /// rebalance.
    pub relieved: Option<usize>,
    /// Whether every route takes only legal turns, by the ranking of `routing` or, if it has none,
    /// by distance from the hosts.
    pub follows_ranking: bool,
    /// Adaptive routing on these routes; `None` if packets follow only the forwarding tables.
    pub adaptive: Option<Arc<Adaptive>>,
    /// Multicast on these routes; `None` while the members are not known, so that multicast tables
    /// keep their content.
    pub multicast: Option<Arc<Multicast>>,
    /// The interim tables between the held tables and the tables of `routing`.
    pub transition: Transition,
    /// State of the links at switches.
    pub link_ports: Arc<LinkPorts>,
    /// The partitions of all ports.
    pub partitions: Arc<PartitionPlan>,
    /// The requested engine: one of the policy's engines, or `auto` if all of these failed.
    pub engine: EngineKind,
    /// The operator's decisions for this plan.
    pub policy: Arc<Policy>,
    /// Difference of `policy` from the policy of the previous plan.
    pub policy_change: PolicyChange,
    /// The cables between switches that are slower than most of their siblings.
    pub slow_cables: Arc<[SlowCable]>,
    /// Findings for the operator.
    pub findings: Vec<Finding>,
    /// The steps that were computed for the whole subnet.
    pub whole: Vec<Whole>,
}

impl Plan {
    /// The port that has `lid` according to `plan` or, before the first plan, according to
    /// `hardware`. `None` if no port has it.
    pub fn holder(plan: Option<&Plan>, hardware: &Hardware, lid: Lid) -> Option<PortKey> {
        match plan {
            Some(plan) => plan.held_by(hardware, lid),
            None => hardware.by_lid(lid),
        }
    }

    /// The planned table of the switch with this GUID; `None` if the topology lacks it.
    pub fn table(&self, guid: Guid) -> Option<&Lft> {
        self.table_of(&self.routing.tables, guid)
    }

    /// The port that has `lid` according to this plan, if `hardware` still shows the port there;
    /// `None` if no port has the LID. Searches no list, because traps come by the thousand, with
    /// any LID.
    fn held_by(&self, hardware: &Hardware, lid: Lid) -> Option<PortKey> {
        let destination = self.topology.destination_of(lid)?;
        let exit = PortKey::new(
            self.topology.switch(destination.switch).guid,
            destination.port,
        );
        let holder = match exit.port {
            PortNum::ZERO => exit,
            _ => hardware.port(exit)?.peer?,
        };
        let guid = hardware.port(holder)?.guid;
        let is_another = holder != exit && !guid.is_zero() && guid != destination.guid;
        (!is_another).then_some(holder)
    }

    /// The table that the switch with this GUID holds at the end of a push: [`Plan::table`], unless
    /// that table must wait for switches that do not answer.
    pub fn last_table(&self, guid: Guid) -> Option<&Lft> {
        match &self.transition.tables_beside_mute {
            Some(tables) if !self.transition.mute.contains(&guid) => self.table_of(tables, guid),
            _ => self.table(guid),
        }
    }

    /// The interim table of the switch with this GUID in stage `stage`, before [`Plan::table`].
    pub fn interim_table(&self, stage: usize, guid: Guid) -> Option<&Lft> {
        self.table_of(self.transition.interim.get(stage)?, guid)
    }

    /// The table of the switch with this GUID in `tables`, which must be in the order of
    /// [`Plan::topology`].
    pub fn table_of<'a>(&self, tables: &'a Tables, guid: Guid) -> Option<&'a Lft> {
        let switch = self.topology.switch_by_guid(guid)?;
        tables.lfts.get(switch.index())
    }

    /// The planned multicast forwarding table of the switch with this GUID; `None` if the topology
    /// lacks it, or no multicast is planned.
    pub fn multicast_table(&self, guid: Guid) -> Option<&Arc<Mft>> {
        let switch = self.topology.switch_by_guid(guid)?;
        self.multicast.as_ref()?.table(switch)
    }

    /// Summary of the routes for the operator, such as `3 levels, 144 roots, all pairs reachable`;
    /// for engines that do not rank switches, the engine's own sentence. `report` is the proof of
    /// these routes; without it, the summary says nothing about reachability.
    pub fn summary(&self, report: Option<&Report>) -> String {
        let Some(ranks) = &self.routing.ranks else {
            return self.routing.reason.clone();
        };
        let levels = ranks
            .iter()
            .max()
            .map_or(0, |&lowest| u64::from(lowest) + 1);
        let roots = ranks.iter().filter(|&&rank| rank == 0).count();
        let mut parts = vec![
            count(levels, "level", "levels"),
            count(roots, "root", "roots"),
        ];
        parts.extend(report.map(|report| {
            match report.unreachable_pairs + report.disconnected_pairs {
                0 => "all pairs reachable".to_owned(),
                pairs => count(pairs, "pair unreachable", "pairs unreachable"),
            }
        }));
        let ranking = self.routing.ranking.as_ref();
        if ranking.is_some_and(|ranking| ranking.is_interim) {
            parts.push("in another order while parts are missing".to_owned());
        }
        parts.join(", ")
    }

    /// LinearFDBTop of every switch: the highest LID in use.
    pub fn top(&self) -> Lid {
        self.topology.top_lid()
    }

    /// Number of blocks in each table, up to [`Plan::top`].
    pub fn blocks(&self) -> usize {
        self.top().index() / BLOCK_LIDS + 1
    }

    /// The LIDs of a port; `None` if the port has none.
    pub fn claim(&self, port: PortKey) -> Option<Claim> {
        self.lids.lids.get(&port).copied()
    }
}

impl Plan {
    /// The LIDs to which switches lead packets of other nodes over a part, without the LIDs of
    /// drained nodes and of drained ports of hosts. `table` returns the table of a switch. `None`
    /// if the part is absent, or one of its neighbours has no table.
    pub fn lids_over<'a>(
        &self,
        part: NodeOrCable,
        table: impl Fn(Guid) -> Option<&'a Lft>,
    ) -> Option<LidsOver> {
        lids_over(part, &self.fabric, self.top(), &self.unplugged(), table)
    }

    /// The switches, ports and LIDs that vanish when the drained parts are unplugged: those of
    /// drained nodes and of the aggregation nodes in them, and drained ports of hosts.
    pub fn unplugged(&self) -> Unplugged {
        let mut unplugged = Unplugged::default();
        for (part, _) in self.avoided.avoid.drained() {
            let Some(node) = self.fabric.node_of(part.node()) else {
                continue;
            };
            match part {
                NodeOrCable::Node(guid) => {
                    let own = node.end_ports();
                    unplugged
                        .ports
                        .extend(own.map(|(number, _)| PortKey::new(guid, number)));
                    if node.is_switch() {
                        unplugged.switches.insert(guid);
                        unplugged.ports.extend(self.aggregation_node_ports(node));
                    }
                }
                NodeOrCable::Port(key) if !node.is_switch() => {
                    unplugged.ports.insert(key);
                }
                NodeOrCable::Port(_) => {}
            }
        }
        for &port in &unplugged.ports {
            if let Some(claim) = self.claim(port) {
                let lids = 0..claim.lmc.lids();
                let lids = lids.map(|at| Lid(claim.base.0.saturating_add(at)));
                unplugged.lids.extend(lids);
            }
        }
        unplugged
    }

    /// The ports of the aggregation nodes in a switch.
    fn aggregation_node_ports(&self, switch: &Node) -> impl Iterator<Item = PortKey> {
        let guid = switch.guid;
        let peers = switch.cables().map(|(_, peer)| peer);
        peers.filter(move |&peer| {
            let at = self.fabric.find_port(peer);
            at.and_then(|at| self.fabric.switch_around(at)) == Some(guid)
        })
    }
}

impl Adaptive {
    /// The groups and entries of the switch with this GUID; `None` if the topology lacks it.
    pub fn table(&self, plan: &Plan, guid: Guid) -> Option<&AdaptiveTable> {
        let index = plan.topology.switch_by_guid(guid)?;
        self.tables.table(index)
    }
}

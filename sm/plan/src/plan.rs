//! The plan: the immutable desired state of the subnet.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_model::fabric::Fabric;
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
use crate::avoid::{Over, Part, over};
use crate::avoided::Avoided;
use crate::lids::{Claim, LidPlan};
use crate::links::LinkPorts;
use crate::lint::Proved;
use crate::multicast::Multicast;
use crate::order::HostOrder;
use crate::partitions::PartitionPlan;
use crate::policy::{Policy, PolicyChange};
use crate::transition::Transition;

/// The desired state of the subnet. A clone shares everything of size.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Counts plans; every later one is higher.
    pub generation: u64,
    /// The subnet it was made for.
    pub fabric: Arc<Fabric>,
    /// The LIDs of all ports.
    pub lids: Arc<LidPlan>,
    /// The LID of the subnet manager's port.
    pub sm_lid: Lid,
    /// Cables that routes avoid, by either end: damped ones, and those of avoided parts.
    pub damped: Arc<BTreeSet<PortKey>>,
    /// The parts that routes go around.
    pub avoided: Arc<Avoided>,
    /// The switch graph with these LIDs, without the cables in `damped`.
    pub topology: Arc<Topology>,
    /// Categories, rails and order of the host ports that routes are spread by.
    pub order: HostOrder,
    /// The forwarding tables, and their origin.
    pub routing: Arc<Routing>,
    /// Their proof.
    pub report: Report,
    /// The sums behind the proof, for the next plan's proof.
    pub tally: Arc<Tally>,
    /// How the tables were proved.
    pub proved: Proved,
    /// Number of entries moved off the fullest links; `None` for a plan of another purpose.
    pub relieved: Option<usize>,
    /// Whether every route takes legal turns only, by the ranking of `routing` or, without one, by
    /// distance from the hosts.
    pub follows_ranking: bool,
    /// Adaptive routing beside these routes; `None` where packets take the forwarding tables alone.
    pub adaptive: Option<Arc<Adaptive>>,
    /// Multicast on these routes; `None` while the members are not known: multicast tables stay as
    /// they are.
    pub multicast: Option<Arc<Multicast>>,
    /// The way from the tables held now to those of `routing`.
    pub transition: Transition,
    /// State of the links at switches.
    pub link_ports: Arc<LinkPorts>,
    /// The partitions of all ports.
    pub partitions: Arc<PartitionPlan>,
    /// The engine that was asked for routes: one of the policy's, or `auto` in the place of all.
    pub engine: EngineKind,
    /// The operator's decisions for this plan.
    pub policy: Arc<Policy>,
    /// The difference of `policy` from that of the plan before.
    pub policy_change: PolicyChange,
    /// The cables between switches that are slower than most of their siblings.
    pub slow_cables: Arc<[SlowCable]>,
    /// Findings for the operator.
    pub findings: Vec<Finding>,
    /// The steps that took the whole subnet into account.
    pub whole: Vec<Whole>,
}

impl Plan {
    /// The table of the switch with this GUID.
    pub fn table(&self, guid: Guid) -> Option<&Lft> {
        self.table_of(&self.routing.tables, guid)
    }

    /// The table that the switch with this GUID holds at the end of a push: [`Plan::table`], unless
    /// that has to wait for switches that do not answer.
    pub fn last_table(&self, guid: Guid) -> Option<&Lft> {
        match &self.transition.instead {
            Some(tables) if !self.transition.mute.contains(&guid) => self.table_of(tables, guid),
            _ => self.table(guid),
        }
    }

    /// The interim table of the switch with this GUID in stage `stage`, before [`Plan::table`].
    pub fn interim_table(&self, stage: usize, guid: Guid) -> Option<&Lft> {
        self.table_of(self.transition.interim.get(stage)?, guid)
    }

    /// The table of the switch with this GUID among `tables`, which are in the order of
    /// [`Plan::topology`].
    pub fn table_of<'a>(&self, tables: &'a Tables, guid: Guid) -> Option<&'a Lft> {
        let switch = self.topology.switch_by_guid(guid)?;
        tables.lfts.get(switch.index())
    }

    /// The multicast forwarding table of the switch with this GUID.
    pub fn multicast_table(&self, guid: Guid) -> Option<&Arc<Mft>> {
        let switch = self.topology.switch_by_guid(guid)?;
        self.multicast.as_ref()?.table(switch)
    }

    /// The routes in a few words for the operator, such as `3 levels, 144 roots, all pairs
    /// reachable`; for engines that do not rank switches, the engine's own sentence. `report` is
    /// the fate of packets by these routes, if it is known.
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

    /// LinearFDBTop for every switch: the highest LID in use.
    pub fn top(&self) -> Lid {
        self.topology.top_lid()
    }

    /// Blocks of each table: as many as reach [`Plan::top`].
    pub fn blocks(&self) -> usize {
        self.top().index() / BLOCK_LIDS + 1
    }

    /// The LIDs of a port.
    pub fn claim(&self, port: PortKey) -> Option<Claim> {
        self.lids.lids.get(&port).copied()
    }
}

impl Plan {
    /// The LIDs that the tables of switches, given by `table`, lead over a part, other than those of
    /// drained nodes and hosts' ports; `None` if the part is not there, or one of its neighbours has
    /// no table.
    pub fn lids_over<'a>(
        &self,
        part: Part,
        table: impl Fn(Guid) -> Option<&'a Lft>,
    ) -> Option<Over> {
        over(
            part,
            &self.fabric,
            self.top(),
            &self.lids_of_drained(),
            table,
        )
    }

    /// The LIDs of drained nodes and of drained ports of hosts.
    fn lids_of_drained(&self) -> BTreeSet<Lid> {
        let mut own = BTreeSet::new();
        for (part, _) in self.avoided.avoid.drained() {
            let Some(node) = self.fabric.node_of(part.node()) else {
                continue;
            };
            for (number, _) in node.end_ports() {
                let is_meant = match part {
                    Part::Node(_) => true,
                    Part::Port(key) => !node.is_switch() && key.port == number,
                };
                let claim = self.claim(PortKey::new(node.guid, number));
                if let Some(claim) = claim.filter(|_| is_meant) {
                    let lids = 0..claim.lmc.lids();
                    own.extend(lids.map(|at| Lid(claim.base.0.saturating_add(at))));
                }
            }
        }
        own
    }
}

impl Adaptive {
    /// The groups and entries of the switch with this GUID.
    pub fn table(&self, plan: &Plan, guid: Guid) -> Option<&AdaptiveTable> {
        let index = plan.topology.switch_by_guid(guid)?;
        self.tables.table(index)
    }
}

//! Predicts the effect of losing a cable or a node: plans for the subnet without the lost part, and
//! compares that plan with the plan in force.
//!
//! No packet is sent. The answer comes from the same planning, with the same proof, as after a real
//! loss.
//!
//! The predicted writes equal the real writes: a test removes a cable of a simulated fabric, and
//! compares both (`tests/tests/system/sim_engine.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_ids::{Guid, PortKey};
use rsm_model::fabric::{Fabric, PortRef};
use rsm_routing::tables::{Lft, Tables};
use rsm_routing::topology::Topology;
use rsm_routing::verify::verify;

use crate::{Plan, PlanJob};

/// The cable or node to lose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// The cable at a port.
    Cable(PortKey),
    /// A node with all its cables.
    Node(Guid),
}

/// The predicted consequences of a loss.
#[derive(Clone, Debug, Default)]
pub struct Consequence {
    /// Lost cables.
    pub cables: Vec<(PortKey, PortKey)>,
    /// Ports with a LID that the subnet manager would no longer reach, ascending by GUID. Excludes
    /// ports of lost nodes, of drained nodes and of the aggregation nodes in them, and drained
    /// ports of hosts.
    pub cut_off: Vec<PortKey>,
    /// Number of ordered pairs of the remaining ports whose packets are lost until the new tables
    /// are in force.
    pub broken_pairs: u64,
    /// Number of ordered pairs of the remaining ports that cables would still connect, but the new
    /// tables would not.
    pub unreachable_pairs: u64,
    /// The reason why no new plan would come into force; the counts below are then 0. `None` if a
    /// plan would come into force.
    pub refused: Option<String>,
    /// The engine that would compute the routes, and the reason; `None` if no plan would come into
    /// force.
    pub engine: Option<(&'static str, String)>,
    /// Number of forwarding table entries that would change.
    pub entries: usize,
    /// Number of switches whose table would change.
    pub switches: usize,
    /// Number of blocks of 64 entries that a push would write with the planned tables.
    pub blocks: usize,
    /// Number of blocks that a push would write with interim tables, if some mixture of old and new
    /// entries could close a loop.
    pub blocks_before: usize,
    /// Number of Sets of SwitchInfo that would change LinearFDBTop.
    pub switch_infos: usize,
    /// Maximum link load in paths of pairs of hosts, (now, then).
    pub max_load: (u64, u64),
    /// Whether the new tables would be free of credit loops.
    pub credit_loop_free: bool,
}

impl Consequence {
    /// Number of SMPs that would put the new tables in force, without the SMPs that detect the
    /// loss.
    pub fn smps(&self) -> usize {
        self.blocks + self.blocks_before + self.switch_infos
    }
}

/// Reason why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// The port has no cable.
    #[error("there is no cable at {port}")]
    NoCable {
        /// The port.
        port: PortKey,
    },
    /// The fabric has no such node.
    #[error("there is no node {guid}")]
    NoNode {
        /// GUID of the missing node.
        guid: Guid,
    },
    /// The subnet manager's own port would be cut off.
    #[error("the subnet manager itself would be cut off")]
    OwnPort,
}

/// Predicts the consequences of `loss` for the subnet in which `plan` is in force.
///
/// # Errors
/// Fails if the cable or node does not exist, or the subnet manager itself would be cut off.
pub fn what_if(plan: &Arc<Plan>, loss: Loss) -> Result<Consequence, WhatIfError> {
    what_if_all(plan, &[loss])
}

/// Predicts the consequences of several losses at the same time.
///
/// # Errors
/// Fails as [`what_if`] does.
pub fn what_if_all(plan: &Arc<Plan>, losses: &[Loss]) -> Result<Consequence, WhatIfError> {
    let cables = all_cables(&plan.fabric, losses)?;
    let cut: BTreeSet<PortKey> = cables.iter().map(|&(near, _)| near).collect();
    let fabric = Arc::new(plan.fabric.without(&cut));
    let local = fabric.local.filter(|&local| {
        // Port 0 of a switch needs no cable.
        fabric.port(local).peer.is_some() || fabric.node(local.node).is_switch()
    });
    if local.is_none_or(|local| losses.contains(&Loss::Node(fabric.node(local.node).guid))) {
        return Err(WhatIfError::OwnPort);
    }
    let job = PlanJob::after(plan, fabric.clone());
    let mut consequence = Consequence {
        cables,
        cut_off: cut_off(plan, losses, &fabric),
        max_load: (plan.report.load.max, 0),
        ..Consequence::default()
    };
    let lids = crate::lids::assign(&fabric, &job.claims, &job.policy);
    if let Ok(topology) = crate::topology(&fabric, &lids, &BTreeSet::new()) {
        let old = tables_for(plan, &topology);
        consequence.broken_pairs = verify(&topology, &old).unreachable_pairs;
    }
    match crate::plan(&job).plan() {
        Ok(next) => compare(&mut consequence, plan, &next),
        Err(error) => consequence.refused = Some(error.with_causes()),
    }
    Ok(consequence)
}

/// The lost cables of all losses, without duplicates.
fn all_cables(fabric: &Fabric, losses: &[Loss]) -> Result<Vec<(PortKey, PortKey)>, WhatIfError> {
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for &loss in losses {
        let lost = cables(fabric, loss)?.into_iter();
        all.extend(lost.filter(|&(near, far)| seen.insert(near.min(far))));
    }
    Ok(all)
}

/// The lost cables, each from the named end or from the lost node.
fn cables(fabric: &Fabric, loss: Loss) -> Result<Vec<(PortKey, PortKey)>, WhatIfError> {
    let cable = |at: PortRef| Some((fabric.key(at), fabric.port(at).peer?));
    match loss {
        Loss::Cable(port) => {
            let at = fabric.find_port(port);
            let found = at.and_then(cable).ok_or(WhatIfError::NoCable { port })?;
            Ok(vec![found])
        }
        Loss::Node(guid) => {
            let node = fabric.find(guid).ok_or(WhatIfError::NoNode { guid })?;
            let ports = 0..fabric.node(node).ports.len();
            let ports = ports.map(|number| PortRef {
                node,
                // A node has at most 255 ports.
                port: rsm_ids::PortNum(number as u8),
            });
            Ok(ports.filter_map(cable).collect())
        }
    }
}

/// The ports outside lost and drained nodes that are cut off in `fabric`, which lacks the lost
/// parts.
fn cut_off(plan: &Plan, losses: &[Loss], fabric: &Fabric) -> Vec<PortKey> {
    let unplugged = plan.unplugged().ports;
    let keys = plan.lids.lids.keys().copied();
    let keys = keys.filter(|key| !unplugged.contains(key));
    keys.filter(|&key| {
        // A host without its cable is no longer in the fabric; a switch stays in the fabric as long
        // as one of its cables is left.
        let found = fabric.find_port(key);
        found.is_none_or(|at| key.port.0 != 0 && fabric.port(at).peer.is_none())
    })
    .filter(|&key| {
        let at = plan.fabric.find_port(key);
        let around = at.and_then(|at| plan.fabric.switch_around(at));
        let nodes = [Some(key.node), around];
        let is_lost = |node| losses.contains(&Loss::Node(node));
        !nodes.into_iter().flatten().any(is_lost)
    })
    .collect()
}

/// The tables in force, in the order of the switches of another topology.
fn tables_for(plan: &Plan, topology: &Topology) -> Tables {
    let switches = topology.switches().iter();
    let lfts = switches.map(|switch| plan.table(switch.guid).cloned().unwrap_or_default());
    Tables {
        lfts: lfts.collect(),
    }
}

/// Records in `consequence` how the routes of `next` differ from those of `plan`, and the Sets that
/// a push would need.
fn compare(consequence: &mut Consequence, plan: &Plan, next: &Plan) {
    consequence.unreachable_pairs = next.report.unreachable_pairs;
    consequence.credit_loop_free = next.report.credit_loop_free;
    consequence.max_load.1 = next.report.load.max;
    consequence.engine = Some((next.routing.engine, next.summary(Some(&next.report))));
    let blocks = plan.blocks().max(next.blocks());
    for (switch, new) in next
        .topology
        .switches()
        .iter()
        .zip(&next.routing.tables.lfts)
    {
        let none = Lft::default();
        let old = plan.table(switch.guid).unwrap_or(&none);
        consequence.switch_infos += usize::from(plan.top() != next.top());
        if old == new {
            continue;
        }
        consequence.switches += 1;
        consequence.entries += old.differing(new).count();
        let mut held = old;
        for stage in 0..next.transition.interim.len() {
            let interim = next.interim_table(stage, switch.guid).unwrap_or(held);
            let differing = (0..blocks).filter(|&block| !interim.block_eq(held, block));
            consequence.blocks_before += differing.count();
            held = interim;
        }
        let differing = (0..blocks).filter(|&block| !new.block_eq(held, block));
        consequence.blocks += differing.count();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rsm_ids::PortNum;
    use rsm_mad::wire::attr::NodeType;
    use rsm_model::fabric::Node;
    use rsm_routing::generate::generate;
    use rsm_routing::netlist::Netlist;

    use super::*;
    use crate::avoid::{Avoid, Drained, NodeOrCable, Reason};
    use crate::policy::Policy;

    fn planned(spec: &str) -> Arc<Plan> {
        planned_for(&generate(spec).unwrap())
    }

    fn planned_for(netlist: &Netlist) -> Arc<Plan> {
        let fabric = Arc::new(Fabric::of_netlist(netlist));
        let job = PlanJob::first(fabric, Arc::new(Policy::default()));
        let planned = crate::plan(&job).plan();
        planned.unwrap_or_else(|refused| panic!("{}", refused.with_causes()))
    }

    /// The port of a switch that leads to a node of a kind.
    fn port_to(plan: &Plan, kind: NodeType) -> PortKey {
        let local = plan.fabric.local.unwrap().node;
        let mut links = plan.fabric.links();
        let (near, far) = links
            .find_map(|(a, b)| {
                let [near, far] = if plan.fabric.node(a.node).is_switch() {
                    [a, b]
                } else {
                    [b, a]
                };
                let fits = plan.fabric.node(far.node).kind() == kind && far.node != local;
                fits.then_some((near, far))
            })
            .unwrap();
        assert!(plan.fabric.node(far.node).kind() == kind);
        plan.fabric.key(near)
    }

    #[test]
    fn losing_a_link_between_switches_cuts_no_port_off() {
        let plan = planned("pgft:2;4,4;1,2;1,1");
        let port = port_to(&plan, NodeType::Switch);
        let found = what_if(&plan, Loss::Cable(port)).unwrap();
        assert_eq!(found.cables.len(), 1);
        assert_eq!(found.cut_off, []);
        assert!(found.broken_pairs > 0 && found.unreachable_pairs == 0);
        assert!(found.refused.is_none() && found.credit_loop_free);
        assert!(found.entries > 0 && found.switches > 0);
        // All LIDs of so small a fabric are in one block, which some switches write for an interim
        // table as well.
        assert!(found.smps() >= found.switches && found.smps() <= 2 * found.switches);
        assert_eq!(found.smps(), found.blocks + found.blocks_before);
        assert!(found.max_load.1 > found.max_load.0);
    }

    #[test]
    fn host_is_cut_off_by_the_loss_of_its_cable_and_not_by_its_own_loss() {
        let plan = planned("pgft:2;4,4;1,2;1,1");
        let port = port_to(&plan, NodeType::Ca);
        let by_cable = what_if(&plan, Loss::Cable(port)).unwrap();
        let host = by_cable.cables[0].1;
        assert_eq!(by_cable.cut_off, [host]);
        assert_eq!((by_cable.broken_pairs, by_cable.unreachable_pairs), (0, 0));
        // Every switch has an entry for the host.
        assert_eq!((by_cable.entries, by_cable.switches), (6, 6));
        let by_node = what_if(&plan, Loss::Node(host.node)).unwrap();
        assert_eq!(
            by_node.cut_off,
            [],
            "it is the host that the operator removes"
        );
        assert_eq!(by_node.entries, 6);
    }

    #[test]
    fn a_drained_host_is_not_cut_off_by_the_loss_of_its_cable() {
        let plan = planned("pgft:2;4,4;1,2;1,1");
        let port = port_to(&plan, NodeType::Ca);
        let host = what_if(&plan, Loss::Cable(port)).unwrap().cut_off[0];
        let drained = Drained::new("operator", 1);
        let mut avoid = Avoid::default();
        let parts = BTreeMap::from([(NodeOrCable::Node(host.node), Reason::Drained(drained))]);
        avoid.add(&parts).unwrap();
        let job = PlanJob {
            avoid: Arc::new(avoid),
            ..PlanJob::after(&plan, plan.fabric.clone())
        };
        let plan = crate::plan(&job).plan().expect("a host cuts no other off");
        assert_eq!(what_if(&plan, Loss::Cable(port)).unwrap().cut_off, []);
    }

    #[test]
    fn losing_both_spines_at_once_cuts_all_other_leaves_off() {
        let plan = planned("pgft:2;4,4;1,2;1,1");
        let switches = plan.fabric.switches().map(|(_, node)| node.guid);
        let spine = |&guid: &Guid| {
            let found = what_if(&plan, Loss::Node(guid));
            found.is_ok_and(|found| found.cut_off.is_empty())
        };
        let losses: Vec<Loss> = switches.filter(spine).map(Loss::Node).collect();
        assert_eq!(losses.len(), 2);
        let found = what_if_all(&plan, &losses).unwrap();
        assert_eq!(found.cables.len(), 8);
        // Three leaves have four hosts each; the fourth leaf has the subnet manager.
        assert_eq!(found.cut_off.len(), 15);
        let one = what_if_all(&plan, &[losses[0], losses[0]]).unwrap();
        assert_eq!(one.cables.len(), 4, "a cable is lost once");
    }

    #[test]
    fn losing_a_leaf_cuts_its_hosts_off_and_losing_a_spine_no_port() {
        check_loss_of_each_switch(&planned("pgft:2;4,4;1,2;1,1"));
    }

    #[test]
    fn aggregation_node_of_a_lost_switch_is_not_cut_off() {
        let netlist = generate("pgft:2;4,4;1,2;1,1").unwrap();
        let netlist = crate::aggregated::with_aggregation_nodes(netlist);
        let plan = planned_for(&netlist);
        assert_eq!(plan.lids.lids.len(), 16 + 2 * 6, "each switch has one");
        check_loss_of_each_switch(&plan);
    }

    /// Checks which ports the loss of each of four leaves, with four hosts each, and of each of two
    /// spines cuts off.
    fn check_loss_of_each_switch(plan: &Arc<Plan>) {
        let (mut leaves, mut spines) = (0, 0);
        for (_, node) in plan.fabric.switches() {
            let Ok(found) = what_if(plan, Loss::Node(node.guid)) else {
                // The leaf of the subnet manager's host is lost.
                leaves += 1;
                continue;
            };
            assert_eq!(found.unreachable_pairs, 0);
            match found.cut_off.len() {
                0 => spines += 1,
                4 => leaves += 1,
                other => panic!("{other} ports cut off by {}", node.description),
            }
            let hosts = found
                .cut_off
                .iter()
                .map(|key| plan.fabric.node_of(key.node));
            let hosts = hosts.map(|host| host.map_or("", Node::reported));
            for host in hosts {
                assert!(
                    host.starts_with("host-"),
                    "{host} goes with {}",
                    node.description
                );
            }
        }
        assert_eq!((leaves, spines), (4, 2));
    }

    #[test]
    fn losses_of_unknown_or_own_ports_are_refused() {
        let plan = planned("ring:4");
        let absent = Guid(0xdead);
        assert!(matches!(
            what_if(&plan, Loss::Node(absent)),
            Err(WhatIfError::NoNode { .. })
        ));
        let port = PortKey::new(absent, PortNum(1));
        assert!(matches!(
            what_if(&plan, Loss::Cable(port)),
            Err(WhatIfError::NoCable { .. })
        ));
        let own = plan.fabric.key(plan.fabric.local.unwrap());
        assert!(matches!(
            what_if(&plan, Loss::Cable(own)),
            Err(WhatIfError::OwnPort)
        ));
        assert!(matches!(
            what_if(&plan, Loss::Node(own.node)),
            Err(WhatIfError::OwnPort)
        ));
    }

    #[test]
    fn planning_the_same_fabric_again_changes_nothing() {
        let plan = planned("superpod:su=1");
        let again = PlanJob::after(&plan, plan.fabric.clone());
        let next = crate::plan(&again).plan().expect("it is not refused");
        let mut consequence = Consequence::default();
        compare(&mut consequence, &plan, &next);
        assert_eq!((consequence.entries, consequence.smps()), (0, 0));
    }
}

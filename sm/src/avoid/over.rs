//! Entries of forwarding tables that lead over a part: the evidence that it may be unplugged.

use std::collections::BTreeSet;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_routing::tables::Lft;

use super::Part;
use crate::fabric::Fabric;
use crate::plan::Plan;

/// The LIDs that tables lead over a part.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Over {
    /// Tables looked at: those of the switches at the other ends of the part's cables.
    pub tables: usize,
    /// LIDs looked at in each.
    pub lids: usize,
    /// LIDs that some of these tables leads over the part, other than those of drained nodes and
    /// hosts' ports, ascending.
    pub over: BTreeSet<Lid>,
}

/// The LIDs that the tables of switches, given by `table`, lead over `part` of the fabric of `plan`;
/// `None` if the part is not there, or one of its neighbours has no table.
pub fn over<'a>(part: Part, plan: &Plan, table: impl Fn(Guid) -> Option<&'a Lft>) -> Option<Over> {
    let top = plan.top();
    let exits = exits(part, &plan.fabric)?;
    let own = own_lids(plan);
    let switches: BTreeSet<Guid> = exits.iter().map(|exit| exit.node).collect();
    let mut found = Over {
        tables: switches.len(),
        lids: top.index(),
        over: BTreeSet::new(),
    };
    for switch in switches {
        let table = table(switch)?;
        let ports: BTreeSet<u8> = exits
            .iter()
            .filter(|exit| exit.node == switch)
            .map(|exit| exit.port.0)
            .collect();
        let lids = (1..=top.0).map(Lid);
        let over = lids.filter(|&lid| table.port(lid).is_some_and(|port| ports.contains(&port.0)));
        found.over.extend(over.filter(|lid| !own.contains(lid)));
    }
    Some(found)
}

/// The ports of switches from which packets go over a part.
fn exits(part: Part, fabric: &Fabric) -> Option<Vec<PortKey>> {
    let is_switch = |key: &PortKey| {
        fabric
            .node_of(key.node)
            .is_some_and(|node| node.is_switch())
    };
    let ends: Vec<PortKey> = match part {
        Part::Node(guid) => fabric
            .node_of(guid)?
            .cables()
            .map(|(_, there)| there)
            .collect(),
        Part::Port(key) => {
            let peer = fabric.port(fabric.find_port(key)?).peer?;
            vec![key, peer]
        }
    };
    Some(ends.into_iter().filter(is_switch).collect())
}

/// The LIDs of drained nodes and of drained ports of hosts.
fn own_lids(plan: &Plan) -> BTreeSet<Lid> {
    let fabric = &plan.fabric;
    let mut own = BTreeSet::new();
    for (part, _) in plan.avoided.avoid.drained() {
        let Some(node) = fabric.node_of(part.node()) else {
            continue;
        };
        for (number, _) in node.end_ports() {
            let is_meant = match part {
                Part::Node(_) => true,
                Part::Port(key) => !node.is_switch() && key.port == number,
            };
            let claim = plan.claim(PortKey::new(node.guid, number));
            if let Some(claim) = claim.filter(|_| is_meant) {
                let lids = 0..claim.lmc.lids();
                own.extend(lids.map(|at| Lid(claim.base.0.saturating_add(at))));
            }
        }
    }
    own
}

//! The LIDs to which forwarding tables lead over a part: the evidence whether the part can be
//! unplugged.

use std::collections::BTreeSet;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_model::fabric::Fabric;
use rsm_routing::tables::Lft;

use super::NodeOrCable;

/// The LIDs whose packets the forwarding tables lead over a part.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LidsOver {
    /// Number of tables examined: the tables of the switches at the far ends of the part's cables.
    pub tables: usize,
    /// Number of LIDs examined in each table.
    pub lids: usize,
    /// LIDs whose packets at least one of these tables leads over the part, ascending; without the
    /// LIDs of drained nodes and of drained ports of hosts.
    pub over: BTreeSet<Lid>,
}

/// Ports and switches that disappear from the subnet when the drained parts are unplugged.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Unplugged {
    /// End ports of drained nodes and of the aggregation nodes in them, and drained ports of hosts.
    pub ports: BTreeSet<PortKey>,
    /// LIDs of these ports.
    pub lids: BTreeSet<Lid>,
    /// Drained switches.
    pub switches: BTreeSet<Guid>,
}

/// Finds the LIDs up to `top`, except LIDs of `unplugged` ports, that switches lead over `part` of
/// `fabric`; `table` returns the table of a switch. A drained switch sends no packets of its own,
/// so an entry of its table counts only if packets for that LID enter the switch from another node.
/// `None` if the part is absent, or a neighbour has no table.
pub fn lids_over<'a>(
    part: NodeOrCable,
    fabric: &Fabric,
    top: Lid,
    unplugged: &Unplugged,
    table: impl Fn(Guid) -> Option<&'a Lft>,
) -> Option<LidsOver> {
    let exits = exits(part, fabric)?;
    let switches: BTreeSet<Guid> = exits.iter().map(|exit| exit.node).collect();
    let mut found = LidsOver {
        tables: switches.len(),
        lids: top.index(),
        over: BTreeSet::new(),
    };
    for switch in switches {
        let ports: BTreeSet<u8> = exits
            .iter()
            .filter(|exit| exit.node == switch)
            .map(|exit| exit.port.0)
            .collect();
        let own = table(switch)?;
        let lids = (1..=top.0).map(Lid);
        let over = lids.filter(|&lid| own.port(lid).is_some_and(|port| ports.contains(&port.0)));
        let mut over: BTreeSet<Lid> = over.filter(|lid| !unplugged.lids.contains(lid)).collect();
        if unplugged.switches.contains(&switch) {
            let entering = entering(switch, &ports, fabric, unplugged, &over, &table)?;
            over.retain(|lid| entering.contains(lid));
        }
        found.over.extend(over);
    }
    Some(found)
}

/// The LIDs among `lids` whose packets enter `switch` by a port that is not in `exits`. Hosts whose
/// port is not `unplugged` may send to every LID. `None` if a neighbour has no table.
fn entering<'a>(
    switch: Guid,
    exits: &BTreeSet<u8>,
    fabric: &Fabric,
    unplugged: &Unplugged,
    lids: &BTreeSet<Lid>,
    table: &impl Fn(Guid) -> Option<&'a Lft>,
) -> Option<BTreeSet<Lid>> {
    let mut entering = BTreeSet::new();
    for (here, there) in fabric.node_of(switch)?.cables() {
        if exits.contains(&here.port.0) || unplugged.ports.contains(&there) {
            continue;
        }
        if !fabric.is_switch(there.node) {
            return Some(lids.clone());
        }
        let table = table(there.node)?;
        let led = lids
            .iter()
            .filter(|&&lid| table.port(lid) == Some(there.port));
        entering.extend(led.copied());
    }
    Some(entering)
}

/// The switch ports whose cables lead to a part; `None` if the part is absent.
fn exits(part: NodeOrCable, fabric: &Fabric) -> Option<Vec<PortKey>> {
    let ends: Vec<PortKey> = match part {
        NodeOrCable::Node(guid) => fabric
            .node_of(guid)?
            .cables()
            .map(|(_, there)| there)
            .collect(),
        NodeOrCable::Port(key) => {
            let peer = fabric.port(fabric.find_port(key)?).peer?;
            vec![key, peer]
        }
    };
    let exits = ends.into_iter().filter(|key| fabric.is_switch(key.node));
    Some(exits.collect())
}

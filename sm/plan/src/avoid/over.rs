//! Entries of forwarding tables that lead over a part, as evidence whether the part can be
//! unplugged.

use std::collections::BTreeSet;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_model::fabric::Fabric;
use rsm_routing::tables::Lft;

use super::Part;

/// The LIDs whose packets the forwarding tables lead over a part.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Over {
    /// Number of tables examined: the tables of the switches at the far ends of the part's cables.
    pub tables: usize,
    /// Number of LIDs examined in each table.
    pub lids: usize,
    /// LIDs whose packets at least one of these tables leads over the part, ascending; without the
    /// LIDs of drained nodes and of drained ports of hosts.
    pub over: BTreeSet<Lid>,
}

/// Finds the LIDs up to `top`, except those in `own`, that switches lead over `part` of `fabric`;
/// `table` returns the table of a switch. `None` if the part is absent, or a neighbour has no
/// table.
pub fn over<'a>(
    part: Part,
    fabric: &Fabric,
    top: Lid,
    own: &BTreeSet<Lid>,
    table: impl Fn(Guid) -> Option<&'a Lft>,
) -> Option<Over> {
    let exits = exits(part, fabric)?;
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

/// The ports of switches by which packets enter a part; `None` if the part is absent.
fn exits(part: Part, fabric: &Fabric) -> Option<Vec<PortKey>> {
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
    let exits = ends.into_iter().filter(|key| fabric.is_switch(key.node));
    Some(exits.collect())
}

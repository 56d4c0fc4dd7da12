//! Entries of forwarding tables that lead over a part: the evidence that it may be unplugged.

use std::collections::BTreeSet;

use rsm_ids::{Guid, Lid, PortKey};
use rsm_model::fabric::Fabric;
use rsm_routing::tables::Lft;

use super::Part;

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

/// The LIDs, up to `top` and but for those in `own`, that the tables of switches, given by `table`,
/// lead over `part` of `fabric`; `None` if the part is not there, or one of its neighbours has no
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

/// The ports of switches from which packets go over a part.
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

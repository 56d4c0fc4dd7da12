//! Directed paths over the cables that are known.

use std::collections::{BTreeMap, VecDeque};

use rsm_ids::{Guid, PortNum};
use rsm_mad::ids::DirectedPath;
use rsm_mad::wire::attr::NodeType;

use super::inventory::{Inventory, PortKey};

/// Gives every node its shortest directed path from the local port, and a second one that enters it
/// elsewhere where there is one. Returns the nodes that no path reaches any more.
///
/// Only cables whose both ends are up count. Paths lead through a suspect only where no other way is left. Ports are tried in
/// their order, so that the paths are the same for the same inventory.
pub(super) fn refresh(inventory: &mut Inventory) -> Vec<Guid> {
    let Some(local) = inventory.local else {
        return inventory.nodes().map(|(guid, _)| guid).collect();
    };
    let mut found: BTreeMap<Guid, (DirectedPath, Option<DirectedPath>)> = BTreeMap::new();
    let mut queue = VecDeque::new();
    // Suspects that were reached; what is behind them comes last.
    let mut suspects = VecDeque::new();
    found.insert(local.node, (DirectedPath::new(), None));
    queue.push_back(local.node);
    while let Some(guid) = queue.pop_front().or_else(|| suspects.pop_front()) {
        let path = found[&guid].0;
        for (exit, peer) in exits(inventory, guid, local) {
            let Ok(next) = path.child(exit) else { continue };
            match found.get_mut(&peer.node) {
                Some((_, second)) => {
                    if second.is_none() && peer.node != local.node {
                        *second = Some(next);
                    }
                }
                None => {
                    found.insert(peer.node, (next, None));
                    if inventory.suspects.contains(&peer.node) {
                        suspects.push_back(peer.node);
                    } else {
                        queue.push_back(peer.node);
                    }
                }
            }
        }
    }
    let guids: Vec<Guid> = inventory.nodes().map(|(guid, _)| guid).collect();
    guids
        .into_iter()
        .filter(|guid| match (found.get(guid), inventory.node_mut(*guid)) {
            (Some(&(path, alternate)), Some(node)) => {
                node.path = path;
                node.alternate = alternate;
                false
            }
            _ => true,
        })
        .collect()
}

/// Whether a path, or a second one, that [`refresh`] gave out enters `to` by the cable from `from`.
pub(super) fn lead_over(inventory: &Inventory, from: PortKey, to: PortKey) -> bool {
    let (Some(near), Some(far)) = (inventory.node(from.node), inventory.node(to.node)) else {
        return false;
    };
    let Ok(way) = near.path.child(from.port) else {
        return false;
    };
    far.path == way || far.alternate == Some(way)
}

/// The cables by which an SMP can go on from `guid`: all of a switch, the local port of the local node.
fn exits(inventory: &Inventory, guid: Guid, local: PortKey) -> Vec<(PortNum, PortKey)> {
    let Some(node) = inventory.node(guid) else {
        return Vec::new();
    };
    node.external_ports()
        .filter(|(number, _)| {
            node.kind() == NodeType::Switch || PortKey::new(guid, *number) == local
        })
        .filter(|(_, port)| port.is_up())
        .filter_map(|(number, port)| port.peer.map(|peer| (number, peer)))
        .filter(|(_, peer)| peer.node != guid)
        .collect()
}

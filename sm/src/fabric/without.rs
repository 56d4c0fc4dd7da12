//! The subnet as it would be found without some of its cables.

use std::collections::{BTreeSet, HashMap};

use super::{Fabric, NodeIx, PortRef};
use crate::sweep::inventory::PortKey;

impl Fabric {
    /// What a sweep would find if `cables`, named by either end, were pulled: nodes that the subnet
    /// manager cannot reach any more are left out.
    pub fn without(&self, cables: &BTreeSet<PortKey>) -> Fabric {
        let mut fabric = self.clone();
        for &key in cables {
            let Some(at) = fabric.find_port(key) else {
                continue;
            };
            let peer = fabric.port(at).peer;
            for end in [Some(at), peer].into_iter().flatten() {
                let port = &mut fabric.nodes[end.node.0 as usize].ports[end.port.index()];
                port.peer = None;
                port.up = false;
            }
        }
        fabric.reachable()
    }

    fn reachable(self) -> Fabric {
        let mut found = vec![false; self.nodes.len()];
        let mut waiting: Vec<NodeIx> = self.local.iter().map(|local| local.node).collect();
        let mut first = true;
        while let Some(ix) = waiting.pop() {
            if std::mem::replace(&mut found[ix.0 as usize], true) {
                continue;
            }
            let node = self.node(ix);
            // Only switches pass a sweep on, and the node that it starts at.
            if node.is_switch() || std::mem::take(&mut first) {
                let peers = node.ports.iter().filter_map(|port| port.peer);
                waiting.extend(peers.map(|peer| peer.node));
            }
        }
        let mut kept = 0;
        let renumbered: Vec<Option<NodeIx>> = found
            .iter()
            .map(|&found| {
                found.then(|| {
                    kept += 1;
                    NodeIx(kept - 1)
                })
            })
            .collect();
        let moved = |at: PortRef| {
            let node = renumbered[at.node.0 as usize]?;
            Some(PortRef { node, ..at })
        };
        let local = self.local.and_then(moved);
        let mut nodes = Vec::with_capacity(kept as usize);
        for (mut node, found) in self.nodes.into_iter().zip(found) {
            if found {
                for port in &mut node.ports {
                    port.peer = port.peer.and_then(moved);
                }
                nodes.push(node);
            }
        }
        let index: HashMap<_, _> = nodes
            .iter()
            .enumerate()
            .map(|(position, node)| (node.guid, NodeIx(position as u32)))
            .collect();
        let managers = self.managers.into_iter();
        let managers = managers
            .filter_map(|(port, info)| Some((moved(port)?, info)))
            .collect();
        Fabric {
            nodes,
            local,
            index,
            managers,
        }
    }
}

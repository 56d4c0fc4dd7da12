//! The model of the subnet without some of its cables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_ids::PortKey;

use super::{Fabric, NodeIx, Port};

impl Fabric {
    /// Builds the model that a sweep would find if `cables`, each given by either end, were pulled.
    /// Nodes that the subnet manager could no longer reach are left out.
    pub fn without(&self, cables: &BTreeSet<PortKey>) -> Fabric {
        let mut fabric = self.clone();
        for &key in cables {
            let Some(at) = fabric.find_port(key) else {
                continue;
            };
            let peer = fabric.peer(at);
            for end in [Some(at), peer].into_iter().flatten() {
                let port = fabric.port_mut(end);
                port.peer = None;
                port.up = false;
            }
        }
        fabric.reachable()
    }

    /// The model without nodes that the subnet manager cannot reach, and without cables to them.
    fn reachable(self) -> Fabric {
        let mut reached = vec![false; self.len()];
        let mut to_visit: Vec<NodeIx> = self.local.iter().map(|local| local.node).collect();
        let mut is_first = true;
        while let Some(ix) = to_visit.pop() {
            if std::mem::replace(&mut reached[ix.0 as usize], true) {
                continue;
            }
            let node = self.node(ix);
            // SMPs pass only through switches, and leave from the node that the sweep starts at.
            let is_start = std::mem::take(&mut is_first);
            if node.is_switch() || is_start {
                to_visit.extend(self.links_of(ix, node).map(|(_, there)| there.node));
            }
        }
        let is_reached = |guid| self.find(guid).is_some_and(|ix| reached[ix.0 as usize]);
        let mut changes = BTreeMap::new();
        for (ix, node) in self.iter() {
            let ends_nowhere = |port: &Port| port.peer.is_some_and(|peer| !is_reached(peer.node));
            if !reached[ix.0 as usize] {
                changes.insert(node.guid, None);
            } else if node.ports.iter().any(ends_nowhere) {
                let mut node = node.clone();
                for port in &mut node.ports {
                    port.peer = port.peer.filter(|peer| is_reached(peer.node));
                }
                changes.insert(node.guid, Some(Arc::new(node)));
            }
        }
        let local = self.local.map(|local| self.key(local));
        let managers = self.managers.iter();
        let managers = managers.filter(|(port, _)| is_reached(port.node)).copied();
        Fabric::with(self.nodes.with(&changes), local, managers.collect())
    }
}

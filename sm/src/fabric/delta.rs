//! What distinguishes two models of the same subnet.

use rsm_ids::Guid;

use super::{Fabric, Node, PortRef};
use crate::sweep::inventory::PortKey;

/// What appeared, vanished or changed from one [`Fabric`] to the next; everything in the order of GUIDs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Delta {
    /// Nodes only the new fabric has.
    pub nodes_appeared: Vec<Guid>,
    /// Nodes only the old one had.
    pub nodes_vanished: Vec<Guid>,
    /// Nodes that both have, with another description, switch information or health.
    pub nodes_changed: Vec<Guid>,
    /// Cables only the new fabric has, from the end with the lower (GUID, port).
    pub links_appeared: Vec<(PortKey, PortKey)>,
    /// Cables only the old one had.
    pub links_vanished: Vec<(PortKey, PortKey)>,
    /// Ports of nodes that both have, which answer differently.
    pub ports_changed: Vec<PortKey>,
}

impl Delta {
    /// What turns `old` into `new`.
    pub fn between(old: &Fabric, new: &Fabric) -> Delta {
        let mut delta = Delta::default();
        for node in &old.nodes {
            if new.find(node.guid).is_none() {
                delta.nodes_vanished.push(node.guid);
            }
        }
        for (ix, node) in new.iter() {
            let Some(before) = old.find(node.guid).map(|before| old.node(before)) else {
                delta.nodes_appeared.push(node.guid);
                continue;
            };
            if before.description != node.description
                || !tells_the_same(before, node)
                || before.suspected != node.suspected
                || before.unmanageable != node.unmanageable
            {
                delta.nodes_changed.push(node.guid);
            }
            for (number, port) in node.ports.iter().enumerate() {
                if before
                    .ports
                    .get(number)
                    .is_none_or(|known| known.info != port.info)
                {
                    delta.ports_changed.push(new.key(PortRef {
                        node: ix,
                        port: rsm_ids::PortNum(number as u8),
                    }));
                }
            }
        }
        delta.links_appeared = links_missing(new, old);
        delta.links_vanished = links_missing(old, new);
        delta
    }

    /// Whether nodes or cables came or went.
    pub fn changes_cabling(&self) -> bool {
        !(self.nodes_appeared.is_empty()
            && self.nodes_vanished.is_empty()
            && self.links_appeared.is_empty()
            && self.links_vanished.is_empty())
    }

    /// Whether the two fabrics are the same.
    pub fn is_empty(&self) -> bool {
        *self == Delta::default()
    }
}

/// Whether SwitchInfo says the same of the switch. That it reports changed ports is no change by itself: the ports are.
fn tells_the_same(before: &Node, now: &Node) -> bool {
    let unreported = |node: &Node| {
        node.switch.map(|mut info| {
            info.set_port_state_change(false);
            info
        })
    };
    unreported(before) == unreported(now)
}

/// The cables of `from` that `other` does not have.
fn links_missing(from: &Fabric, other: &Fabric) -> Vec<(PortKey, PortKey)> {
    from.links()
        .map(|(a, b)| (from.key(a), from.key(b)))
        .filter(|&(a, b)| {
            let there = other
                .find_port(a)
                .and_then(|at| other.port(at).peer)
                .map(|peer| other.key(peer));
            there != Some(b)
        })
        .collect()
}

//! The difference between two models of the same subnet.

use rsm_ids::{Guid, PortKey, PortNum};

use super::{Fabric, Node, Port};

/// Nodes, cables and ports that appeared, vanished or changed from one [`Fabric`] to the next, all
/// in the order of GUIDs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Delta {
    /// Nodes that only the new fabric has.
    pub nodes_appeared: Vec<Guid>,
    /// Nodes that only the old fabric has.
    pub nodes_vanished: Vec<Guid>,
    /// Nodes in both fabrics whose description, switch information or health differs.
    pub nodes_changed: Vec<Guid>,
    /// Cables that only the new fabric has, from the end with the lower (GUID, port).
    pub links_appeared: Vec<(PortKey, PortKey)>,
    /// Cables that only the old fabric has, from the end with the lower (GUID, port).
    pub links_vanished: Vec<(PortKey, PortKey)>,
    /// Ports of nodes in both fabrics whose PortInfo or virtual ports differ.
    pub ports_changed: Vec<PortKey>,
}

impl Delta {
    /// Compares `old` with `new`. Nodes that the two fabrics share cost no time.
    pub fn between(old: &Fabric, new: &Fabric) -> Delta {
        let mut delta = Delta::default();
        for pair in old.differing(new) {
            match pair {
                (Some(before), None) => delta.nodes_vanished.push(before.guid),
                (None, Some(node)) => delta.nodes_appeared.push(node.guid),
                (Some(before), Some(node)) => delta.compare(before, node),
                (None, None) => {}
            }
            let (before, node) = pair;
            delta.links_vanished.extend(links_missing(before, node));
            delta.links_appeared.extend(links_missing(node, before));
        }
        delta
    }

    /// Records `node` and its ports if they differ from `before`.
    fn compare(&mut self, before: &Node, node: &Node) {
        if before.description != node.description
            || before.own_description != node.own_description
            || !has_same_switch_info(before, node)
            || before.suspected != node.suspected
            || before.unmanageable != node.unmanageable
        {
            self.nodes_changed.push(node.guid);
        }
        for (number, port) in (0..=u8::MAX).zip(&node.ports) {
            let earlier = before.ports.get(usize::from(number));
            let is_same =
                |earlier: &Port| earlier.info == port.info && earlier.vports == port.vports;
            if !earlier.is_some_and(is_same) {
                let key = PortKey::new(node.guid, PortNum(number));
                self.ports_changed.push(key);
            }
        }
    }

    /// Whether nodes or cables appeared or vanished.
    pub fn changes_cabling(&self) -> bool {
        !(self.nodes_appeared.is_empty()
            && self.nodes_vanished.is_empty()
            && self.links_appeared.is_empty()
            && self.links_vanished.is_empty())
    }

    /// Whether no change was found. Fabrics that differ only in PortStateChange count as equal.
    pub fn is_empty(&self) -> bool {
        *self == Delta::default()
    }
}

/// Whether the SwitchInfo of two nodes is equal, apart from PortStateChange. That bit announces
/// changes of ports, which are compared themselves.
fn has_same_switch_info(before: &Node, now: &Node) -> bool {
    let unreported = |node: &Node| {
        node.switch.map(|mut info| {
            info.set_port_state_change(false);
            info
        })
    };
    unreported(before) == unreported(now)
}

/// The cables at `from`, each from its first end, that `other` does not have at the same port.
fn links_missing<'a>(
    from: Option<&'a Node>,
    other: Option<&'a Node>,
) -> impl Iterator<Item = (PortKey, PortKey)> + 'a {
    let cables = from.into_iter().flat_map(Node::first_ends);
    cables.filter(move |&(here, there)| {
        let port = other.and_then(|other| other.ports.get(here.port.index()));
        port.and_then(|port| port.peer) != Some(there)
    })
}

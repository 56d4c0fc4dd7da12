//! Builds the port masks of a multicast tree from the link that leads up from each switch.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rsm_ids::PortNum;

use super::{Member, PortMask};
use crate::topology::SwitchIdx;

/// The link from a switch to its parent in a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct UpLink {
    /// The port of the lower switch.
    pub(super) port: PortNum,
    /// The parent, one hop nearer to the top.
    pub(super) parent: SwitchIdx,
    /// The port of the parent.
    pub(super) parent_port: PortNum,
}

/// A switch of a tree under construction.
#[derive(Default)]
struct Node {
    /// The link to the parent; `None` at the top.
    up: Option<UpLink>,
    /// The number of members at this switch and below.
    members: usize,
    /// The number of receiving members at this switch and below.
    receivers: usize,
    /// One of the children in the tree; `None` at a leaf of the tree.
    child: Option<SwitchIdx>,
    /// The number of children in the tree.
    children: usize,
    /// The ports to which the switch forwards packets of the group.
    mask: PortMask,
}

/// The masks of the tree below `top` that connects `members`. Both `members` and the result are
/// sorted by switch, and no mask is empty.
///
/// `depth` holds the number of hops from `top` for each switch, and `up` returns a switch's link to
/// a switch one hop nearer to `top`. Masks contain only the bits that packets need: for example, no
/// bits towards switches that have only senders. The tree begins at the switch where the paths to
/// members divide: switches above it are left out.
pub(super) fn grow(
    members: &[Member],
    top: SwitchIdx,
    depth: &[u16],
    up: impl Fn(SwitchIdx) -> Option<UpLink>,
) -> Vec<(SwitchIdx, PortMask)> {
    let mut nodes: BTreeMap<SwitchIdx, Node> = BTreeMap::new();
    for at_switch in members.chunk_by(|a, b| a.switch == b.switch) {
        climb(&mut nodes, at_switch[0].switch, top, &up);
        let node = nodes.entry(at_switch[0].switch).or_default();
        node.members += at_switch.len();
        for member in at_switch.iter().filter(|member| member.receives) {
            node.receivers += 1;
            node.mask.insert(member.port);
        }
    }
    let mut deepest_first: Vec<SwitchIdx> = nodes.keys().copied().collect();
    deepest_first.sort_by_key(|switch| (Reverse(depth[switch.index()]), *switch));
    for &switch in &deepest_first {
        let node = &nodes[&switch];
        let (up, members, receivers) = (node.up, node.members, node.receivers);
        if let Some(parent) = up.and_then(|up| nodes.get_mut(&up.parent)) {
            parent.members += members;
            parent.receivers += receivers;
            parent.children += 1;
            parent.child = Some(switch);
        }
    }
    let receivers = nodes.get(&top).map_or(0, |node| node.receivers);
    let mut top = top;
    while let Some(node) = nodes.get(&top)
        && let (1, Some(child)) = (node.children, node.child)
        && node.members == nodes[&child].members
    {
        nodes.remove(&top);
        top = child;
    }
    for &switch in deepest_first.iter().filter(|&&switch| switch != top) {
        let Some(node) = nodes.get_mut(&switch) else {
            continue;
        };
        let Some(up) = node.up else { continue };
        if receivers > node.receivers {
            node.mask.insert(up.port);
        }
        if node.receivers > 0
            && let Some(parent) = nodes.get_mut(&up.parent)
        {
            parent.mask.insert(up.parent_port);
        }
    }
    nodes
        .into_iter()
        .map(|(switch, node)| (switch, node.mask))
        .filter(|(_, mask)| !mask.is_empty())
        .collect()
}

/// Adds `switch` and the switches on its path to `top` to `nodes`, up to the first switch that
/// `nodes` has already.
fn climb(
    nodes: &mut BTreeMap<SwitchIdx, Node>,
    mut switch: SwitchIdx,
    top: SwitchIdx,
    up: &impl Fn(SwitchIdx) -> Option<UpLink>,
) {
    while !nodes.contains_key(&switch) {
        let link = if switch == top { None } else { up(switch) };
        let node = Node {
            up: link,
            ..Node::default()
        };
        nodes.insert(switch, node);
        match link {
            Some(link) => switch = link.parent,
            None => break,
        }
    }
}

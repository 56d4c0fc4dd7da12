//! Builds the masks of a tree from the link that leads up from each switch.

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
    pub(super) parent: SwitchIdx,
    /// The port of the parent.
    pub(super) parent_port: PortNum,
}

/// A switch of a tree under construction.
#[derive(Default)]
struct Node {
    up: Option<UpLink>,
    /// The number of members at this switch and below; `receivers` counts only receiving members.
    members: usize,
    receivers: usize,
    /// A child in the tree; `children` counts all children.
    child: Option<SwitchIdx>,
    children: usize,
    mask: PortMask,
}

/// The masks of the tree below `top` that connects `members`, which are sorted by switch. The masks
/// are sorted by switch, and none is empty.
///
/// `depth` holds the number of hops from `top` for each switch, and `up` returns a switch's link to
/// a switch one hop nearer to `top`. Masks have no bits that no packet needs, such as bits towards
/// switches with senders only. The tree begins at the switch where the paths to members divide; the
/// common part of the paths above that switch is left out.
pub(super) fn grow(
    members: &[Member],
    top: SwitchIdx,
    depth: &[u16],
    up: impl Fn(SwitchIdx) -> Option<UpLink>,
) -> Vec<(SwitchIdx, PortMask)> {
    let mut nodes: BTreeMap<SwitchIdx, Node> = BTreeMap::new();
    for at in members.chunk_by(|a, b| a.switch == b.switch) {
        climb(&mut nodes, at[0].switch, top, &up);
        let node = nodes.entry(at[0].switch).or_default();
        node.members += at.len();
        for member in at.iter().filter(|member| member.receives) {
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

/// Adds a switch and its path up to `top`, until it meets the tree.
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

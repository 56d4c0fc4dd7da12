//! The difference between the fabrics of two snapshots.

use rsm_model::fabric::{Fabric, Node, NodeIx};

/// The nodes that differ between two fabrics with the same set of nodes. Each node has the same
/// index in both fabrics, so that lists in the order of nodes can be compared by index.
pub(super) struct ChangedNodes<'a>(Vec<(NodeIx, &'a Node, &'a Node)>);

impl<'a> ChangedNodes<'a> {
    /// Compares two fabrics. `None` if a node has appeared or vanished, because later nodes then
    /// have other indices.
    pub(super) fn between(before: &'a Fabric, now: &'a Fabric) -> Option<ChangedNodes<'a>> {
        let differing = now.differing(before).into_iter();
        let changed = differing.map(|(now_node, before_node)| {
            let (now_node, before_node) = now_node.zip(before_node)?;
            Some((now.find(now_node.guid)?, before_node, now_node))
        });
        changed.collect::<Option<Vec<_>>>().map(ChangedNodes)
    }

    /// The differing nodes as (index, before, now), in the order of their GUIDs.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeIx, &'a Node, &'a Node)> + '_ {
        self.0.iter().copied()
    }
}

//! The list of nodes of a model; successive models share equal nodes.
//!
//! Nodes are kept in runs. Cloning costs a pointer for each run, a change copies one run, and a
//! comparison skips shared runs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::Guid;

use super::{Node, NodeIx};

/// Number of nodes in each run of a new list. A run is split at twice this size.
const RUN_LENGTH: usize = 64;

/// A run of consecutive nodes.
#[derive(Clone, Debug)]
struct Run {
    guids: Vec<Guid>,
    nodes: Vec<Arc<Node>>,
}

/// Nodes in the order of their GUIDs.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    /// Runs in the order of GUIDs; none is empty.
    runs: Vec<Arc<Run>>,
    /// Position of the first node of each run; the last entry is the number of nodes.
    starts: Vec<u32>,
}

impl PartialEq for Nodes {
    fn eq(&self, other: &Nodes) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Nodes {}

impl Nodes {
    /// Builds the list of `nodes`, which must be in the order of their GUIDs.
    pub(super) fn new(nodes: Vec<Arc<Node>>) -> Nodes {
        let mut list = Nodes::default();
        list.append(nodes);
        list.compute_starts();
        list
    }

    /// Appends new runs with these nodes. A call of [`Nodes::compute_starts`] must follow.
    fn append(&mut self, nodes: Vec<Arc<Node>>) {
        self.runs.extend(nodes.chunks(RUN_LENGTH).map(|nodes| {
            Arc::new(Run {
                guids: nodes.iter().map(|node| node.guid).collect(),
                nodes: nodes.to_vec(),
            })
        }));
    }

    /// Computes `starts` from the runs.
    fn compute_starts(&mut self) {
        let mut next = 0;
        let lengths = self.runs.iter().map(|run| run.nodes.len() as u32);
        let ends = lengths.map(|length| {
            next += length;
            next
        });
        self.starts = std::iter::once(0).chain(ends).collect();
    }

    /// Number of nodes.
    pub(super) fn len(&self) -> usize {
        self.starts.last().map_or(0, |&end| end as usize)
    }

    /// Index of the run with a node, and position of the node in the run.
    fn position(&self, ix: NodeIx) -> (usize, usize) {
        let run = self.starts.partition_point(|&start| start <= ix.0) - 1;
        (run, (ix.0 - self.starts[run]) as usize)
    }

    /// The node at `ix`.
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub(super) fn get(&self, ix: NodeIx) -> &Node {
        let (run, position) = self.position(ix);
        &self.runs[run].nodes[position]
    }

    /// The node, mutable. Afterwards the node is not shared.
    ///
    /// # Panics
    /// Panics if there is no such node.
    pub(super) fn get_mut(&mut self, ix: NodeIx) -> &mut Node {
        let (run, position) = self.position(ix);
        Arc::make_mut(&mut Arc::make_mut(&mut self.runs[run]).nodes[position])
    }

    /// The index of the node with this GUID; `None` if there is none.
    pub(super) fn find(&self, guid: Guid) -> Option<NodeIx> {
        let run = self.runs.partition_point(|run| run.guids[0] <= guid);
        let run = run.checked_sub(1)?;
        let position = self.runs[run].guids.binary_search(&guid).ok()?;
        Some(NodeIx(self.starts[run] + position as u32))
    }

    /// Number of nodes before the first GUID for which `is_before` is false. `is_before` must be
    /// true up to some GUID, and false from there on.
    pub(super) fn partition_point(&self, is_before: impl Fn(Guid) -> bool) -> usize {
        let run = self.runs.partition_point(|run| is_before(run.guids[0]));
        let Some(run) = run.checked_sub(1) else {
            return 0;
        };
        let guids = &self.runs[run].guids;
        self.starts[run] as usize + guids.partition_point(|&guid| is_before(guid))
    }

    /// All nodes, mutable. Afterwards no node is shared.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        let runs = self.runs.iter_mut().map(Arc::make_mut);
        runs.flat_map(|run| run.nodes.iter_mut().map(Arc::make_mut))
    }

    /// All nodes in the order of their GUIDs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.runs.iter().flat_map(|run| &run.nodes)
    }

    /// A copy of the list with `changes`: each GUID gets another node, or none.
    pub(super) fn with(&self, changes: &BTreeMap<Guid, Option<Arc<Node>>>) -> Nodes {
        let mut list = Nodes::default();
        let mut changes = changes.iter().peekable();
        for (index, run) in self.runs.iter().enumerate() {
            let next = self.runs.get(index + 1).map(|run| run.guids[0]);
            let is_here = |guid: &Guid| next.is_none_or(|next| *guid < next);
            if !changes.peek().is_some_and(|(guid, _)| is_here(guid)) {
                list.runs.push(run.clone());
                continue;
            }
            let nodes = run.guids.iter().zip(&run.nodes);
            let mut nodes: BTreeMap<Guid, Arc<Node>> =
                nodes.map(|(&guid, node)| (guid, node.clone())).collect();
            while let Some((&guid, node)) = changes.next_if(|(guid, _)| is_here(guid)) {
                match node {
                    Some(node) => nodes.insert(guid, node.clone()),
                    None => nodes.remove(&guid),
                };
            }
            let nodes: Vec<Arc<Node>> = nodes.into_values().collect();
            if (1..2 * RUN_LENGTH).contains(&nodes.len()) {
                list.runs.push(Arc::new(Run {
                    guids: nodes.iter().map(|node| node.guid).collect(),
                    nodes,
                }));
            } else {
                list.append(nodes);
            }
        }
        list.append(changes.filter_map(|(_, node)| node.clone()).collect());
        list.compute_starts();
        list
    }

    /// The nodes that the two lists do not share, as pairs (here, there), in the order of their
    /// GUIDs.
    pub(super) fn differing<'a>(
        &'a self,
        other: &'a Nodes,
    ) -> Vec<(Option<&'a Node>, Option<&'a Node>)> {
        let mut differing = Vec::new();
        let (mut here, mut there) = (Cursor::at(self), Cursor::at(other));
        loop {
            if let (Some(a), Some(b)) = (here.whole_run(), there.whole_run())
                && Arc::ptr_eq(a, b)
            {
                here.skip_run();
                there.skip_run();
                continue;
            }
            let order = match (here.node(), there.node()) {
                (None, None) => return differing,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((a, _)), Some((b, _))) => a.cmp(&b),
            };
            let mine = here.next_if(order.is_le());
            let theirs = there.next_if(order.is_ge());
            let is_shared = mine
                .zip(theirs)
                .is_some_and(|(mine, theirs)| Arc::ptr_eq(mine, theirs));
            if !is_shared {
                differing.push((mine.map(|node| &**node), theirs.map(|node| &**node)));
            }
        }
    }
}

/// A position in a list.
struct Cursor<'a> {
    /// The runs after the present one.
    runs: std::slice::Iter<'a, Arc<Run>>,
    /// The present run; `None` at the end of the list.
    run: Option<&'a Arc<Run>>,
    /// Position in the present run.
    position: usize,
}

impl<'a> Cursor<'a> {
    /// The start of a list.
    fn at(list: &'a Nodes) -> Cursor<'a> {
        let mut runs = list.runs.iter();
        let run = runs.next();
        Cursor {
            runs,
            run,
            position: 0,
        }
    }

    /// The run that begins at this position; `None` inside a run.
    fn whole_run(&self) -> Option<&'a Arc<Run>> {
        self.run.filter(|_| self.position == 0)
    }

    /// Moves to the start of the next run.
    fn skip_run(&mut self) {
        self.run = self.runs.next();
        self.position = 0;
    }

    /// The node at this position and its GUID; `None` at the end of the list.
    fn node(&self) -> Option<(Guid, &'a Arc<Node>)> {
        let run = self.run?;
        Some((run.guids[self.position], &run.nodes[self.position]))
    }

    /// Takes the node at this position if `wanted` is true.
    fn next_if(&mut self, wanted: bool) -> Option<&'a Arc<Node>> {
        let (_, node) = self.node().filter(|_| wanted)?;
        self.position += 1;
        if self.run.is_some_and(|run| run.nodes.len() == self.position) {
            self.skip_run();
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rsm_mad::wire::attr::NodeInfo;

    use super::*;

    /// A node whose distance is `version`.
    fn node(guid: u64, version: u8) -> Arc<Node> {
        Arc::new(Node {
            guid: Guid(guid),
            info: NodeInfo::default(),
            description: String::new(),
            own_description: None,
            ports: Vec::new(),
            switch: None,
            distance: version,
            suspected: false,
            unmanageable: false,
            locked: false,
        })
    }

    fn versions(nodes: &Nodes) -> Vec<(Guid, u8)> {
        nodes
            .iter()
            .map(|node| (node.guid, node.distance))
            .collect()
    }

    proptest! {
        #[test]
        fn changed_list_equals_a_list_of_the_present_nodes(
            first in prop::collection::btree_set(0u64..400, 0..300),
            steps in prop::collection::vec(
                prop::collection::btree_map(0u64..400, any::<Option<u8>>(), 0..200),
                0..6,
            ),
        ) {
            let mut held: BTreeMap<Guid, u8> = first.iter().map(|&guid| (Guid(guid), 0)).collect();
            let mut nodes = Nodes::new(first.iter().map(|&guid| node(guid, 0)).collect());
            for step in steps {
                let before = nodes.clone();
                let changes: BTreeMap<Guid, Option<Arc<Node>>> = step
                    .iter()
                    .map(|(&guid, version)| (Guid(guid), version.map(|version| node(guid, version))))
                    .collect();
                nodes = nodes.with(&changes);
                let known = held.clone();
                for (&guid, version) in &step {
                    match version {
                        Some(version) => held.insert(Guid(guid), *version),
                        None => held.remove(&Guid(guid)),
                    };
                }
                let expected: Vec<(Guid, u8)> = held.iter().map(|(&guid, &version)| (guid, version)).collect();
                prop_assert_eq!(versions(&nodes), expected);
                prop_assert_eq!(nodes.len(), held.len());
                for (position, guid) in held.keys().enumerate() {
                    let ix = NodeIx(position as u32);
                    prop_assert_eq!(nodes.find(*guid), Some(ix));
                    prop_assert_eq!(nodes.get(ix).guid, *guid);
                    prop_assert_eq!(nodes.partition_point(|other| other < *guid), position);
                }
                prop_assert_eq!(nodes.find(Guid(400)), None);
                // A node that replaced an equal one is not shared either.
                let touched = step.keys().map(|&guid| Guid(guid));
                let touched = touched.filter(|guid| known.contains_key(guid) || held.contains_key(guid));
                let differing = before.differing(&nodes);
                let guids = differing.iter().map(|pair| pair.0.or(pair.1).expect("one of the two").guid);
                prop_assert_eq!(guids.collect::<Vec<_>>(), touched.collect::<Vec<_>>());
                for (old, new) in differing {
                    let guid = old.or(new).expect("one of the two").guid;
                    prop_assert_eq!(old.map(|node| node.distance), known.get(&guid).copied());
                    prop_assert_eq!(new.map(|node| node.distance), held.get(&guid).copied());
                }
            }
        }
    }
}

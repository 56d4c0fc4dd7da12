//! Searches for cycles in a graph of waits.

use fixedbitset::FixedBitSet;

/// A directed graph in which nodes wait for other nodes.
pub(super) trait Waits {
    /// The number of nodes, which are numbered from 0.
    fn nodes(&self) -> usize;

    /// Visits all nodes for which a node waits.
    fn for_each_turn(&self, node: usize, visit: impl FnMut(usize));

    /// The nodes in cycles, and the nodes for which these wait, directly or indirectly; empty if
    /// there is no cycle.
    fn in_cycles(&self) -> FixedBitSet {
        let nodes = self.nodes();
        let mut waiters = vec![0u32; nodes];
        let mut remaining = FixedBitSet::with_capacity(nodes);
        for node in 0..nodes {
            self.for_each_turn(node, |turn| waiters[turn] += 1);
            remaining.insert(node);
        }
        let mut free: Vec<usize> = (0..nodes).filter(|&node| waiters[node] == 0).collect();
        while let Some(node) = free.pop() {
            remaining.remove(node);
            self.for_each_turn(node, |turn| {
                waiters[turn] -= 1;
                if waiters[turn] == 0 {
                    free.push(turn);
                }
            });
        }
        remaining
    }

    /// The nodes of one cycle, in order; empty if there is none.
    fn cycle(&self) -> Vec<usize> {
        let remaining = self.in_cycles();
        // Every remaining node has a remaining waiter, so that walking backwards along the waits
        // must close a cycle. Find the first waiter of each node.
        let mut waiter = vec![usize::MAX; self.nodes()];
        for node in remaining.ones() {
            self.for_each_turn(node, |turn| {
                if remaining.contains(turn) && waiter[turn] == usize::MAX {
                    waiter[turn] = node;
                }
            });
        }
        let Some(mut node) = remaining.ones().next() else {
            return Vec::new();
        };
        let mut place = vec![usize::MAX; self.nodes()];
        let mut walked = Vec::new();
        while place[node] == usize::MAX {
            place[node] = walked.len();
            walked.push(node);
            node = waiter[node];
        }
        let mut cycle = walked.split_off(place[node]);
        cycle.reverse();
        // The cycle starts at its lowest node, so that equal cycles are reported equally.
        if let Some(lowest) = (0..cycle.len()).min_by_key(|&place| cycle[place]) {
            cycle.rotate_left(lowest);
        }
        cycle
    }
}

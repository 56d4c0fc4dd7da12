//! Connects the roots of a ranking that has several peaks.
//!
//! In a tree with many roots, no up*/down* path joins two of them: both are at the top, and no
//! switch lies above. That matters as soon as a port is attached to the roots, such as that of an
//! aggregation node. Lifting a few switches above all others repairs it at next to no cost: every
//! root has one of them as a neighbour, and they have one peak among themselves. The best peak is a
//! leaf switch. Its neighbours are roots, or lead to them; all other leaves stay below all roots,
//! so that traffic between hosts has exactly the same paths as before.

use crate::topology::levels::distances;
use crate::topology::{Order, SwitchIdx, Topology};

/// Puts connecting switches on top of the order, in each part of the fabric that has several peaks.
/// Second, the number of switches that this lifted. `None` when every part already has a single
/// peak.
pub(super) fn with_connected_roots(topology: &Topology, order: &Order) -> Option<(Order, usize)> {
    let mut peaks_of = vec![Vec::new(); topology.components().len()];
    for peak in order.peaks(topology) {
        peaks_of[topology.component_of(peak)].push(peak);
    }
    let mut lifted = Vec::new();
    for (part, peaks) in topology.components().iter().zip(&peaks_of) {
        if peaks.len() > 1 {
            let from_leaf =
                connecting_switches(topology, best_leaf(topology, order, &part.switches), peaks);
            let from_peak = connecting_switches(topology, peaks[0], peaks);
            // A lifted switch carries more traffic than its place in the tree suggests, so fewer
            // lifted switches are better.
            lifted.extend(if from_leaf.len() <= from_peak.len() {
                from_leaf
            } else {
                from_peak
            });
        }
    }
    (!lifted.is_empty()).then(|| {
        let order = Order::new(topology, order.levels().to_vec(), &lifted);
        (order, lifted.len())
    })
}

/// The lowest switch with the most neighbours above it; on a tie, the one with the fewest hosts.
pub(super) fn best_leaf(topology: &Topology, order: &Order, part: &[SwitchIdx]) -> SwitchIdx {
    let key = |switch: &SwitchIdx| {
        let up = topology
            .groups(*switch)
            .filter(|group| order.is_above(group.neighbour, *switch))
            .count();
        let level = order.levels()[switch.index()];
        let hosts = topology.hosts(*switch);
        (
            level,
            up,
            std::cmp::Reverse(hosts),
            std::cmp::Reverse(*switch),
        )
    };
    part.iter().copied().max_by_key(key).unwrap_or(SwitchIdx(0))
}

/// `top` and the switches on shortest paths from it to the peaks, the nearest first.
fn connecting_switches(topology: &Topology, top: SwitchIdx, peaks: &[SwitchIdx]) -> Vec<SwitchIdx> {
    let hops = distances(topology, &[top]);
    let mut is_lifted = vec![false; topology.switch_count()];
    is_lifted[top.index()] = true;
    for &peak in peaks {
        let mut switch = peak;
        while switch != top {
            // Prefers a neighbour nearer to the top that is already lifted, else the one with the
            // lowest GUID: peaks share switches where possible.
            let nearer = topology
                .groups(switch)
                .map(|group| group.neighbour)
                .filter(|next| hops[next.index()] < hops[switch.index()])
                .max_by_key(|next| (is_lifted[next.index()], std::cmp::Reverse(*next)));
            let Some(next) = nearer else { break };
            is_lifted[next.index()] = true;
            switch = next;
        }
    }
    let mut connecting: Vec<SwitchIdx> = topology
        .indices()
        .filter(|switch| is_lifted[switch.index()])
        .collect();
    connecting.sort_by_key(|switch| (hops[switch.index()], *switch));
    connecting
}

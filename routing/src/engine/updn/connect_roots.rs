//! Connects the roots of a ranking that has several peaks.
//!
//! In a tree with several roots, no up*/down* path connects two roots, because no switch is above
//! them. That matters if ports are attached to roots, such as the ports of aggregation nodes.
//! Lifting a few switches above all others provides paths between roots at hardly any cost: every
//! root has a lifted switch as a neighbour, and the lifted switches have one peak among themselves.
//! The best peak is a leaf switch. The leaf's neighbours are roots or lead to roots. All other
//! leaves stay below all roots, so that the paths of traffic between hosts do not change.

use crate::topology::levels::distances;
use crate::topology::{Order, SwitchIdx, Topology};

/// Puts connecting switches on top of the order, in each component that has several peaks. Returns
/// the order and the number of lifted switches; `None` if every component has a single peak.
pub(super) fn with_connected_roots(topology: &Topology, order: &Order) -> Option<(Order, usize)> {
    let mut peaks_of = vec![Vec::new(); topology.components().len()];
    for peak in order.peaks(topology) {
        peaks_of[topology.component_of(peak)].push(peak);
    }
    let mut lifted = Vec::new();
    for (component, peaks) in topology.components().iter().zip(&peaks_of) {
        if peaks.len() > 1 {
            let from_leaf = connecting_switches(
                topology,
                best_leaf(topology, order, &component.switches),
                peaks,
            );
            let from_peak = connecting_switches(topology, peaks[0], peaks);
            // Fewer lifted switches are better: each carries more traffic than its place in the
            // tree suggests.
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

/// The switch of `component` at the deepest level that has the most neighbours above it; among
/// equals, the switch with the fewest hosts.
pub(super) fn best_leaf(topology: &Topology, order: &Order, component: &[SwitchIdx]) -> SwitchIdx {
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
    component
        .iter()
        .copied()
        .max_by_key(key)
        .unwrap_or(SwitchIdx(0))
}

/// The switch `top` and the switches on shortest paths from `top` to the peaks, the nearest first.
fn connecting_switches(topology: &Topology, top: SwitchIdx, peaks: &[SwitchIdx]) -> Vec<SwitchIdx> {
    let hops = distances(topology, &[top]);
    let mut is_lifted = vec![false; topology.switch_count()];
    is_lifted[top.index()] = true;
    for &peak in peaks {
        let mut switch = peak;
        while switch != top {
            // Prefer a neighbour nearer to `top` that is already lifted, so that peaks share
            // switches if possible; else take the one with the lowest GUID.
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

//! An order of the switches in which both detours and the paths of a tree are legal.
//!
//! Under the ranks of a tree, no path joins two roots, and a broken cable can cut the only path of
//! other pairs. The detours of such pairs turn from down to up at one switch, the *apex*, usually a
//! leaf. All paths nevertheless follow one order: the order of the tree with the links between the
//! apex and the switches above it reversed, so that the apex is the highest switch of all. The
//! paths of the tree follow this order as well, whichever parts are missing, as long as only one
//! path leads down from each switch above the apex to the apex: a path that changed direction twice
//! would have to descend from one of these switches elsewhere than to the apex.
//!
//! All paths, detours, stages, proofs and multicast trees can therefore use one order. The order
//! changes only with the apex, if a fault above the apex leaves a pair without a detour. A fabric
//! without an apex ranks a few switches above its roots instead (`updn/connect_roots.rs`).

use fixedbitset::FixedBitSet;

use crate::topology::{Order, SwitchIdx, Topology};

/// The switches of a fabric that can be an apex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Apexes {
    /// Candidates, the best first. No switch lies above two of them, except the peaks of the order,
    /// so that one fault affects only one candidate.
    candidates: Vec<SwitchIdx>,
    /// The best candidate of each component that has several peaks.
    joining: Vec<SwitchIdx>,
}

impl Apexes {
    /// Finds the apexes of a fabric with the order `order`. While no part is missing, detours
    /// through them connect all pairs. `None` if a component with several peaks has no candidate.
    pub(in super::super) fn of(known: &Topology, order: &Order) -> Option<Apexes> {
        let mut is_peak = FixedBitSet::with_capacity(known.switch_count());
        let mut peaks_of = vec![0; known.components().len()];
        for peak in order.peaks(known) {
            is_peak.insert(peak.index());
            peaks_of[known.component_of(peak)] += 1;
        }
        let mut places: Vec<SwitchIdx> = known.indices().collect();
        places.sort_by_cached_key(|&switch| {
            let above = known
                .groups(switch)
                .filter(|group| order.is_above(group.neighbour, switch));
            let level = order.levels()[switch.index()];
            let most_first = std::cmp::Reverse((level, above.count()));
            (most_first, known.hosts(switch), switch)
        });
        let mut is_claimed = FixedBitSet::with_capacity(known.switch_count());
        let mut candidates = Vec::new();
        for apex in places {
            let mut groups = known.groups(apex).map(|group| group.neighbour);
            let is_spoilt = |up| order.is_above(up, apex) && is_claimed.contains(up.index());
            if is_claimed.contains(apex.index()) || groups.any(is_spoilt) {
                continue;
            }
            let Some(above) = single_paths_up(known, order, apex) else {
                continue;
            };
            let peaks = above.iter().filter(|up| is_peak.contains(up.index()));
            if peaks.count() < peaks_of[known.component_of(apex)] {
                continue;
            }
            let own = || {
                let below_peaks = above.iter().filter(|up| !is_peak.contains(up.index()));
                below_peaks.map(|up| up.index()).chain([apex.index()])
            };
            if !own().any(|switch| is_claimed.contains(switch)) {
                is_claimed.extend(own());
                candidates.push(apex);
            }
        }
        let best_of = |part: usize| {
            let mut candidates = candidates.iter().copied();
            candidates.find(|&apex| known.component_of(apex) == part)
        };
        let several = (0..peaks_of.len()).filter(|&part| peaks_of[part] > 1);
        let joining = several.map(best_of).collect::<Option<_>>()?;
        Some(Apexes {
            candidates,
            joining,
        })
    }

    /// The candidates, the best first.
    pub(in super::super) fn candidates(&self) -> &[SwitchIdx] {
        &self.candidates
    }

    /// The apex of each component that needs detours while no part is missing.
    pub(in super::super) fn joining(&self) -> &[SwitchIdx] {
        &self.joining
    }
}

/// The switches above `apex`, at any distance, each after a switch below it; `None` if two paths
/// lead from one of them down to the apex.
fn single_paths_up(known: &Topology, order: &Order, apex: SwitchIdx) -> Option<Vec<SwitchIdx>> {
    let mut found = vec![apex];
    let mut is_found = FixedBitSet::with_capacity(known.switch_count());
    is_found.insert(apex.index());
    let mut next = 0;
    while let Some(&switch) = found.get(next) {
        next += 1;
        for group in known.groups(switch) {
            if order.is_above(group.neighbour, switch) {
                if is_found.put(group.neighbour.index()) {
                    return None;
                }
                found.push(group.neighbour);
            }
        }
    }
    found.remove(0);
    Some(found)
}

/// The port groups between `apex` and the switches above it, and between these switches and those
/// above them.
pub(super) fn groups_above<'a>(
    known: &'a Topology,
    order: &'a Order,
    apex: SwitchIdx,
) -> impl Iterator<Item = usize> + 'a {
    let above = single_paths_up(known, order, apex).unwrap_or_default();
    [apex].into_iter().chain(above).flat_map(move |switch| {
        let groups = known.group_range(switch);
        groups.filter(move |&group| order.is_above(known.group(group).neighbour, switch))
    })
}

/// Puts `apexes` on top of `order`. Each is followed, in reverse order, by the switches above it
/// for which `belongs(apex, switch)` is true.
pub(super) fn turned(
    known: &Topology,
    order: &Order,
    apexes: &[SwitchIdx],
    belongs: impl Fn(SwitchIdx, SwitchIdx) -> bool,
) -> Order {
    let mut is_listed = FixedBitSet::with_capacity(known.switch_count());
    let mut listed = Vec::with_capacity(known.switch_count());
    for &apex in apexes {
        let mut above: Vec<SwitchIdx> = single_paths_up(known, order, apex)
            .unwrap_or_default()
            .into_iter()
            .filter(|&switch| belongs(apex, switch))
            .chain([apex])
            .collect();
        above.sort_by_key(|&switch| std::cmp::Reverse(order.place(switch)));
        for switch in above {
            if !is_listed.put(switch.index()) {
                listed.push(switch);
            }
        }
    }
    let rest = order.highest_first().iter();
    listed.extend(rest.filter(|switch| !is_listed.contains(switch.index())));
    Order::listed(listed, order.levels().to_vec())
}

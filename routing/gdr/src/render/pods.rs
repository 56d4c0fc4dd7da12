//! Finds the levels between units and the whole fabric: pods of three-tier trees, and groups above
//! them.

use rsm_ids::Guid;
use rsm_routing::topology::{SwitchIdx, Topology};

use crate::Analysis;
use crate::rails::Sets;

/// The levels that separate units, lowest first; empty in a fabric of two tiers.
pub(super) struct Pods {
    levels: Vec<PodLevel>,
}

/// The pods of one level: sets of units that switches up to some height connect. The number of a
/// pod is the number of its lowest switch.
struct PodLevel {
    /// The pod of each switch, indexed by switch; `None` for a switch above several pods.
    pod: Vec<Option<usize>>,
    /// The GUID in the name of each pod, indexed by pod: the lowest GUID of its top switches.
    name: Vec<Option<Guid>>,
}

impl Pods {
    /// Finds the pods of the units' leaves. The height of a switch is the length of its path down
    /// to a unit's leaf. A level counts if it has fewer pods than the level below, and more than
    /// one for each connected part.
    pub(super) fn find(analysis: &Analysis, topology: &Topology) -> Pods {
        let units = &analysis.rails.units;
        let height = heights(analysis, topology);
        let highest = height.iter().flatten().copied().max().unwrap_or(0);
        let whole: Vec<usize> = units
            .iter()
            .map(|unit| topology.component_of(unit.leaves[0]))
            .collect();
        let (mut levels, mut below) = (Vec::new(), units.len());
        for limit in 1..highest {
            let mut sets = Sets::new(topology.switch_count());
            for unit in units {
                for pair in unit.leaves.windows(2) {
                    sets.join(pair[0].index(), pair[1].index());
                }
            }
            let is_low = |switch: SwitchIdx| height[switch.index()].is_some_and(|at| at <= limit);
            for switch in topology.indices().filter(|&switch| is_low(switch)) {
                for group in topology.groups(switch) {
                    if is_low(group.neighbour) {
                        sets.join(switch.index(), group.neighbour.index());
                    }
                }
            }
            let of_units: Vec<usize> = units
                .iter()
                .map(|unit| sets.lowest(unit.leaves[0].index()))
                .collect();
            let pods = distinct(&of_units);
            if pods < below && pods > distinct(&whole) {
                below = pods;
                levels.push(PodLevel::new(topology, &height, limit, &mut sets));
            }
        }
        Pods { levels }
    }

    /// The names of the pods around a leaf, smallest first.
    pub(super) fn around(&self, leaf: SwitchIdx) -> impl Iterator<Item = String> + '_ {
        (1..).zip(&self.levels).filter_map(move |(number, level)| {
            let guid = level.name[level.pod[leaf.index()]?]?;
            Some(match number {
                1 => format!("pod-{:016x}", guid.0),
                number => format!("pod{number}-{:016x}", guid.0),
            })
        })
    }
}

/// The number of distinct values.
fn distinct(values: &[usize]) -> usize {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values.len()
}

/// The number of links from each switch down to the nearest leaf of a unit; `None` if there is no
/// path.
fn heights(analysis: &Analysis, topology: &Topology) -> Vec<Option<u32>> {
    let mut height = vec![None; topology.switch_count()];
    let leaves = analysis.rails.units.iter().flat_map(|unit| &unit.leaves);
    let mut reached: Vec<SwitchIdx> = leaves.copied().collect();
    for leaf in &reached {
        height[leaf.index()] = Some(0);
    }
    let mut next = 0;
    while let Some(&switch) = reached.get(next) {
        next += 1;
        let above = height[switch.index()].map(|at| at + 1);
        for group in topology.groups(switch) {
            let of_neighbour = &mut height[group.neighbour.index()];
            if of_neighbour.is_none() {
                *of_neighbour = above;
                reached.push(group.neighbour);
            }
        }
    }
    height
}

impl PodLevel {
    /// The pods of the switches that `sets` connects, whose top switches have the height `limit`.
    fn new(topology: &Topology, height: &[Option<u32>], limit: u32, sets: &mut Sets) -> PodLevel {
        let mut pod: Vec<Option<usize>> = vec![None; height.len()];
        let mut name: Vec<Option<Guid>> = vec![None; height.len()];
        let mut by_height: Vec<(u32, SwitchIdx)> = topology
            .indices()
            .filter_map(|switch| Some((height[switch.index()]?, switch)))
            .collect();
        by_height.sort_unstable();
        for (at, switch) in by_height {
            let of_switch = match at <= limit {
                true => Some(sets.lowest(switch.index())),
                false => only_pod_below(topology, height, &pod, (at, switch)),
            };
            pod[switch.index()] = of_switch;
            if let Some(of_switch) = of_switch.filter(|_| at == limit) {
                let guid = topology.switch(switch).guid;
                let lowest = name[of_switch].map_or(guid, |lowest| lowest.min(guid));
                name[of_switch] = Some(lowest);
            }
        }
        PodLevel { pod, name }
    }
}

/// The pod of all switches one step below a switch; `None` if they are in several pods. A leaf
/// without GPUs gets its pod this way, because its height puts it above the switches of the pod.
fn only_pod_below(
    topology: &Topology,
    height: &[Option<u32>],
    pod: &[Option<usize>],
    (at, switch): (u32, SwitchIdx),
) -> Option<usize> {
    let below = topology.groups(switch).map(|group| group.neighbour);
    let mut pods = below
        .filter(|switch| height[switch.index()] == at.checked_sub(1))
        .map(|switch| pod[switch.index()]);
    let first = pods.next()??;
    pods.all(|pod| pod == Some(first)).then_some(first)
}

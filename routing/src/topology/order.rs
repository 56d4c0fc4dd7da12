//! A total order of the switches, by which each link has a direction up.

use super::{SwitchIdx, Topology};

/// A total order of the switches, the highest first. Of two neighbours, one is above the other, so
/// that every link has a direction *up*. Paths without a turn from down to up close no credit loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    highest_first: Vec<SwitchIdx>,
    /// The index of each switch in `highest_first`.
    position: Vec<u32>,
    /// The level of each switch: the distance from the top of the tree. Traffic is spread by level.
    levels: Vec<u8>,
}

impl Order {
    /// Creates the order by level. Switches of one level are ordered by
    /// [`SwitchRules::ids`](crate::topology::SwitchRules::ids), which default to the GUIDs. The
    /// `lifted` switches come before all other switches, in the given order.
    pub(crate) fn new(topology: &Topology, levels: Vec<u8>, lifted: &[SwitchIdx]) -> Order {
        let mut is_lifted = vec![false; levels.len()];
        for switch in lifted {
            is_lifted[switch.index()] = true;
        }
        let mut unlifted: Vec<SwitchIdx> = (0..levels.len() as u32)
            .map(SwitchIdx)
            .filter(|switch| !is_lifted[switch.index()])
            .collect();
        unlifted.sort_by_key(|switch| (levels[switch.index()], topology.order_id(*switch)));
        let highest_first: Vec<SwitchIdx> = lifted.iter().copied().chain(unlifted).collect();
        Order::listed(highest_first, levels)
    }

    /// Creates the order in which `highest_first` lists all switches, each once.
    pub(crate) fn listed(highest_first: Vec<SwitchIdx>, levels: Vec<u8>) -> Order {
        let mut position = vec![0; levels.len()];
        for (index, switch) in highest_first.iter().enumerate() {
            position[switch.index()] = index as u32;
        }
        Order {
            highest_first,
            position,
            levels,
        }
    }

    /// All switches, the highest first.
    pub(crate) fn highest_first(&self) -> &[SwitchIdx] {
        &self.highest_first
    }

    /// The level of each switch: the distance from the top of the tree. Traffic is spread by level.
    pub(crate) fn levels(&self) -> &[u8] {
        &self.levels
    }

    /// The position of a switch: the number of switches above it.
    pub(crate) fn place(&self, switch: SwitchIdx) -> usize {
        self.position[switch.index()] as usize
    }

    /// Whether `high` comes before `low` in the order; the two need not be neighbours.
    pub(crate) fn is_above(&self, high: SwitchIdx, low: SwitchIdx) -> bool {
        self.position[high.index()] < self.position[low.index()]
    }

    /// The peaks, the highest first: switches without a neighbour above them. A component with a
    /// single peak has an up*/down* path between any two of its switches, because an upward path
    /// leads from each of them to the peak.
    pub(crate) fn peaks(&self, topology: &Topology) -> Vec<SwitchIdx> {
        self.highest_first
            .iter()
            .copied()
            .filter(|&switch| {
                topology
                    .groups(switch)
                    .all(|group| self.is_above(switch, group.neighbour))
            })
            .collect()
    }
}

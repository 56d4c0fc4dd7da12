//! The direction, up or down, of links.

use rsm_ids::Guid;

use super::{Order, SwitchIdx, Topology, levels};

/// An order of all switches, so that every link between two of them has a direction up.
///
/// Routes and trees in which no packet turns up after going down have no credit loop: the order is
/// the proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orientation {
    highest_first: Vec<SwitchIdx>,
    /// The index of each switch in `highest_first`.
    position: Vec<u32>,
}

impl Orientation {
    /// Creates the orientation in which `highest_first` lists the switches; unknown and repeated
    /// GUIDs are ignored. `None` if the list lacks a switch.
    pub(crate) fn of_guids(topology: &Topology, highest_first: &[Guid]) -> Option<Orientation> {
        let mut is_listed = vec![false; topology.switch_count()];
        let mut listed = Vec::with_capacity(topology.switch_count());
        for guid in highest_first {
            if let Some(switch) = topology.switch_by_guid(*guid)
                && !std::mem::replace(&mut is_listed[switch.index()], true)
            {
                listed.push(switch);
            }
        }
        (listed.len() == topology.switch_count()).then(|| Orientation::listed(listed))
    }

    /// Guesses an orientation by distance from the hosts: the farther, the higher; the GUID breaks
    /// ties. In a tree, the routes of any engine usually follow it.
    pub fn guessed(topology: &Topology) -> Orientation {
        let levels = levels::from_edges(topology, levels::ANY_HOST);
        let order = Order::new(topology, levels, &[]);
        Orientation::listed(order.highest_first().to_vec())
    }

    /// The orientation in which switches are listed, each once.
    fn listed(highest_first: Vec<SwitchIdx>) -> Orientation {
        let mut position = vec![0; highest_first.len()];
        for (place, switch) in highest_first.iter().enumerate() {
            position[switch.index()] = place as u32;
        }
        Orientation {
            highest_first,
            position,
        }
    }

    /// Whether `high` lies above `low`.
    pub fn is_above(&self, high: SwitchIdx, low: SwitchIdx) -> bool {
        self.position[high.index()] < self.position[low.index()]
    }

    /// The number of switches higher than this one in the order.
    pub(crate) fn place(&self, switch: SwitchIdx) -> u32 {
        self.position[switch.index()]
    }

    /// The switches, the highest first.
    pub fn highest_first(&self) -> &[SwitchIdx] {
        &self.highest_first
    }
}

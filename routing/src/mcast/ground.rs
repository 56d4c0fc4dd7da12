//! What trees stand on: which way is up, and which switches can multicast.

use std::sync::OnceLock;

use rsm_ids::Lid;

use super::Orientation;
use super::reach::Reach;
use crate::topology::{SwitchIdx, Topology};

/// Everything about a fabric that trees depend on, whatever the groups are. Costly parts are
/// computed when they are first needed, and kept.
#[derive(Debug)]
pub struct Ground {
    pub(super) orientation: Orientation,
    pub(super) unicast_follows: bool,
    /// Ranges of multicast LIDs that the same switches have table entries for, lowest first.
    classes: Vec<Class>,
}

#[derive(Debug)]
struct Class {
    /// One past its last multicast LID, counted from 0xC000.
    end: u16,
    is_capable: Vec<bool>,
    reach: OnceLock<Reach>,
}

impl Ground {
    /// `capacities` has the MulticastFDBCap of each switch by number: how many multicast LIDs from
    /// 0xC000 on it has entries for, 0 for a switch without multicast (IBA 14.2.5.4). What it lacks
    /// counts as 0. `unicast_follows`: no unicast route goes up after it went down.
    pub fn new(
        topology: &Topology,
        capacities: &[u16],
        orientation: Orientation,
        unicast_follows: bool,
    ) -> Ground {
        let capacity = |switch: SwitchIdx| capacities.get(switch.index()).copied().unwrap_or(0);
        let mut ends: Vec<u16> = topology.indices().map(capacity).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|&end| end > 0);
        let classes = ends
            .into_iter()
            .map(|end| Class {
                end,
                is_capable: topology
                    .indices()
                    .map(|switch| capacity(switch) >= end)
                    .collect(),
                reach: OnceLock::new(),
            })
            .collect();
        Ground {
            orientation,
            unicast_follows,
            classes,
        }
    }

    /// Which way is up.
    pub fn orientation(&self) -> &Orientation {
        &self.orientation
    }

    /// The number of the class that a multicast LID is in; `None` where no switch has an entry for it.
    pub(super) fn class_of(&self, mlid: Lid) -> Option<usize> {
        let offset = offset(mlid);
        let class = self.classes.partition_point(|class| class.end <= offset);
        (class < self.classes.len()).then_some(class)
    }

    /// What can be reached over the switches of a class.
    pub(super) fn reach(&self, topology: &Topology, class: usize) -> &Reach {
        let class = &self.classes[class];
        class
            .reach
            .get_or_init(|| Reach::new(topology, &self.orientation, &class.is_capable))
    }
}

/// A multicast LID counted from 0xC000.
pub(super) fn offset(mlid: Lid) -> u16 {
    mlid.0 - Lid::MULTICAST_FIRST.0
}

//! Cables that are far slower than others beside them.

use super::{Cable, SwitchIdx, Topology};

/// A cable is far slower than another with at most one in so many of its rate: generations of
/// hardware differ by a factor of two, a link that has lost lanes by four or more.
const SLOWER_BY: u32 = 4;

/// A cable between two switches that both have far faster ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowCable {
    /// The cable.
    pub cable: Cable,
    /// Its rate, in the unit of the topology.
    pub rate: u32,
    /// The rate that both its switches have on another cable.
    pub beside: u32,
}

impl Topology {
    /// The cables that have at most a fourth of the rate of others at both of their ends: mostly
    /// cables that have trained with fewer lanes, or at a lower speed, than they should.
    pub fn slow_cables(&self) -> Vec<SlowCable> {
        let fastest: Vec<u32> = self.indices().map(|switch| self.fastest(switch)).collect();
        let mut slow = Vec::new();
        for switch in self.indices() {
            for group in self.groups(switch).filter(|group| group.neighbour > switch) {
                let beside = fastest[switch.index()].min(fastest[group.neighbour.index()]);
                let links = group.links.iter();
                let links = links.filter(|link| link.weight <= beside / SLOWER_BY);
                slow.extend(links.map(|link| SlowCable {
                    cable: Cable {
                        a: (self.switch(switch).guid, link.port),
                        b: (self.switch(group.neighbour).guid, link.peer_port),
                    },
                    rate: link.weight,
                    beside,
                }));
            }
        }
        slow.sort_unstable_by_key(|slow| slow.cable);
        slow
    }

    fn fastest(&self, switch: SwitchIdx) -> u32 {
        let links = self.groups(switch).flat_map(|group| group.links);
        links.map(|link| link.weight).max().unwrap_or(0)
    }
}

//! Places of the ports that can be multicast members.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rsm_ids::{Guid, PortNum};
use rsm_routing::mcast::BasisDelta;
use rsm_routing::topology::{Destination, SwitchIdx, Topology};

/// The switch at the other end of a port's cable, and its port number there; for port 0 of a
/// switch, the switch itself and 0.
pub(super) type Place = (Guid, PortNum);

/// A new list is built if more than one port in this many has moved.
const MOVED_SHARE: usize = 16;

/// Places by port GUID. The places of successive fabrics share a list.
#[derive(Debug)]
pub(super) struct Places {
    listed: Arc<HashMap<Guid, Place>>,
    /// Ports that moved or appeared since the list was built; `None` for ports that vanished.
    moved: BTreeMap<Guid, Option<Place>>,
    /// Whether several ports have one GUID; the last of these ports counts.
    is_ambiguous: bool,
}

impl Places {
    pub(super) fn of(topology: &Topology) -> Places {
        let mut listed = HashMap::with_capacity(topology.destinations().len());
        for switch in topology.indices() {
            listed.extend(places(topology, switch));
        }
        Places {
            is_ambiguous: listed.len() < topology.destinations().len(),
            listed: Arc::new(listed),
            moved: BTreeMap::new(),
        }
    }

    /// Updates `self`, the places of `before`, to `after`. Returns the places, equal to those of
    /// [`Places::of`], and the ports that differ.
    ///
    /// # Errors
    /// The reason why `self` cannot be updated, as a phrase.
    pub(super) fn follow(
        &self,
        before: &Topology,
        after: &Topology,
        delta: &BasisDelta,
    ) -> Result<(Places, BTreeSet<Guid>), &'static str> {
        const AMBIGUOUS: &str = "several ports have one GUID";
        if self.is_ambiguous {
            return Err(AMBIGUOUS);
        }
        let (mut vanished, mut appeared) = (BTreeMap::new(), BTreeMap::new());
        for switch in after.indices() {
            let old = delta.earlier(switch);
            let ends_before = old.map_or(&[][..], |old| before.destinations_of(old));
            let ends_after = after.destinations_of(switch);
            let key = |end: &Destination| (end.guid, end.port);
            if !ends_before.iter().map(key).eq(ends_after.iter().map(key)) {
                vanished.extend(old.into_iter().flat_map(|old| places(before, old)));
                for (guid, place) in places(after, switch) {
                    if appeared.insert(guid, place).is_some() {
                        return Err(AMBIGUOUS);
                    }
                }
            }
        }
        let gone = before.indices().filter(|&old| delta.number(old).is_none());
        vanished.extend(gone.flat_map(|old| places(before, old)));
        if appeared
            .keys()
            .any(|guid| !vanished.contains_key(guid) && self.find(*guid).is_some())
        {
            return Err(AMBIGUOUS);
        }
        let guids: BTreeSet<Guid> = vanished.keys().chain(appeared.keys()).copied().collect();
        let differs = |guid: &Guid| vanished.get(guid) != appeared.get(guid);
        let differing: BTreeSet<Guid> = guids.into_iter().filter(differs).collect();
        let mut moved = self.moved.clone();
        for &guid in &differing {
            let place = appeared.get(&guid).copied();
            if self.listed.get(&guid).copied() == place {
                moved.remove(&guid);
            } else {
                moved.insert(guid, place);
            }
        }
        let places = if moved.len() > self.listed.len() / MOVED_SHARE {
            Places::of(after)
        } else {
            Places {
                listed: self.listed.clone(),
                moved,
                is_ambiguous: false,
            }
        };
        Ok((places, differing))
    }

    /// The place of a port; `None` if the topology lacks the port.
    pub(super) fn find(&self, port: Guid) -> Option<Place> {
        match self.moved.get(&port) {
            Some(moved) => *moved,
            None => self.listed.get(&port).copied(),
        }
    }
}

/// The ports at a switch, by GUID, with their places.
fn places(topology: &Topology, switch: SwitchIdx) -> impl Iterator<Item = (Guid, Place)> + '_ {
    let guid = topology.switch(switch).guid;
    let ends = topology.destinations_of(switch).iter();
    ends.map(move |end| (end.guid, (guid, end.port)))
}

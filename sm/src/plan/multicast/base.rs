//! What trees stand on.

use std::collections::BTreeSet;

use rsm_ids::Guid;
use rsm_routing::mcast::{Ground, GroundDelta, Group, Member, Orientation};
use rsm_routing::topology::Topology;

use super::places::Places;
use crate::fabric::Fabric;
use crate::plan::groups::Members;

/// What trees stand on, and where ports are on it. Outlives changes of groups.
#[derive(Debug)]
pub struct Base {
    pub(super) ground: Ground,
    places: Places,
}

/// In what two bases differ.
#[derive(Debug, Default)]
pub(super) struct BaseDelta {
    pub(super) ground: GroundDelta,
    /// Ports that are elsewhere, or only there before or after.
    moved: BTreeSet<Guid>,
}

impl Base {
    pub(super) fn new(
        fabric: &Fabric,
        topology: &Topology,
        orientation: Orientation,
        unicast_follows: bool,
    ) -> Base {
        let capacities = capacities(fabric, topology);
        Base {
            ground: Ground::new(topology, &capacities, orientation, unicast_follows),
            places: Places::of(topology),
        }
    }

    /// What [`Base::new`] makes of `fabric` and `topology`, where this is that of `before`; and in
    /// what the two differ.
    ///
    /// # Errors
    /// Why that cannot be told, in a few words.
    pub(super) fn follow(
        &self,
        before: &Topology,
        fabric: &Fabric,
        topology: &Topology,
        orientation: Orientation,
        unicast_follows: bool,
    ) -> Result<(Base, BaseDelta), &'static str> {
        let capacities = capacities(fabric, topology);
        let (ground, delta) =
            self.ground
                .follow(before, topology, &capacities, orientation, unicast_follows)?;
        let (places, moved) = self.places.follow(before, topology, &delta)?;
        let delta = BaseDelta {
            ground: delta,
            moved,
        };
        Ok((Base { ground, places }, delta))
    }

    /// The members of a multicast LID where they are in the topology, sorted. A port that is not in
    /// it takes no part.
    pub(super) fn members(&self, topology: &Topology, members: &Members) -> Vec<Member> {
        let members = members.ports.iter();
        let members =
            members.filter_map(|(&guid, &receives)| self.member(topology, guid, receives));
        let mut members: Vec<Member> = members.collect();
        members.sort_unstable();
        members
    }

    fn member(&self, topology: &Topology, guid: Guid, receives: bool) -> Option<Member> {
        let (switch, port) = self.places.find(guid)?;
        let switch = topology.switch_by_guid(switch)?;
        Some(Member {
            switch,
            port,
            receives,
        })
    }

    /// What [`Base::members`] makes of `members`, where `known` is what it made of the members
    /// `before` on the base `earlier`, in the numbers of `topology`. `None`: it is the same.
    pub(super) fn follow_members(
        &self,
        topology: &Topology,
        members: &Members,
        (earlier, before, known): (&Base, &Members, &Group),
        delta: &BaseDelta,
    ) -> Option<Vec<Member>> {
        let mut differing = members.differing(before);
        let takes_part =
            |guid: &&Guid| members.ports.contains_key(guid) || before.ports.contains_key(guid);
        differing.extend(delta.moved.iter().filter(takes_part));
        let of = |base: &Base, members: &Members| -> BTreeSet<Member> {
            let found = differing.iter().filter_map(|&guid| {
                let &receives = members.ports.get(&guid)?;
                base.member(topology, guid, receives)
            });
            found.collect()
        };
        let (left, joined) = (of(earlier, before), of(self, members));
        if left == joined {
            return None;
        }
        let mut members = known.members.clone();
        members.retain(|member| !left.contains(member));
        members.extend(joined);
        // What is sorted but for its end is sorted fast.
        members.sort();
        Some(members)
    }
}

/// MulticastFDBCap of each switch by number (IBA 14.2.5.4).
fn capacities(fabric: &Fabric, topology: &Topology) -> Vec<u16> {
    let capacity = |guid: Guid| {
        let node = fabric.node_of(guid)?;
        Some(node.switch.as_ref()?.multicast_fdb_cap())
    };
    let switches = topology.switches().iter();
    switches
        .map(|switch| capacity(switch.guid).unwrap_or(0))
        .collect()
}

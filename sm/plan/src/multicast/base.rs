//! The base of multicast trees.

use std::collections::BTreeSet;

use rsm_ids::Guid;
use rsm_model::fabric::Fabric;
use rsm_routing::mcast::{Ground, GroundDelta, Group, Member, Orientation};
use rsm_routing::topology::Topology;

use super::places::Places;
use crate::groups::GroupMembers;

/// The ground of multicast trees, and the places of ports on it. Outlives changes of groups.
#[derive(Debug)]
pub struct Base {
    pub(super) ground: Ground,
    places: Places,
}

/// The difference between two bases.
#[derive(Debug, Default)]
pub(super) struct BaseDelta {
    pub(super) ground: GroundDelta,
    /// Ports that have moved, come or gone.
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

    /// The base of `fabric` and `topology`, equal to that of [`Base::new`], and the difference;
    /// `self` is the base of `before`.
    ///
    /// # Errors
    /// The difference is not conclusive; the reason as a phrase.
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

    /// The members of a multicast LID with their places in the topology, sorted. Leaves out ports
    /// that are not in it.
    pub(super) fn members(&self, topology: &Topology, members: &GroupMembers) -> Vec<Member> {
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

    /// The same result as [`Base::members`] for `members`, by the changes since `known`, its result
    /// for the members `before` on the base `earlier`, in the numbers of `topology`. `None`: it is
    /// unchanged.
    pub(super) fn follow_members(
        &self,
        topology: &Topology,
        members: &GroupMembers,
        (earlier, before, known): (&Base, &GroupMembers, &Group),
        delta: &BaseDelta,
    ) -> Option<Vec<Member>> {
        let mut differing = members.differing(before);
        let takes_part =
            |guid: &&Guid| members.ports.contains_key(guid) || before.ports.contains_key(guid);
        differing.extend(delta.moved.iter().filter(takes_part));
        let of = |base: &Base, members: &GroupMembers| -> BTreeSet<Member> {
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
        // The sort is fast: only the end is unsorted.
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

//! The base of multicast trees: topology and places of ports, without groups.

use std::collections::BTreeSet;

use rsm_ids::Guid;
use rsm_model::fabric::Fabric;
use rsm_routing::mcast::{BasisDelta, Group, Member, MulticastBasis, Orientation};
use rsm_routing::topology::Topology;

use super::places::Places;
use crate::groups::GroupMembers;

/// The topology that trees are built on, and the places of ports in it. The base does not depend on
/// groups.
#[derive(Debug)]
pub struct Base {
    pub(super) basis: MulticastBasis,
    places: Places,
}

/// The difference between two bases.
#[derive(Debug, Default)]
pub(super) struct BaseDelta {
    pub(super) basis: BasisDelta,
    /// Ports that moved, appeared or vanished.
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
            basis: MulticastBasis::new(topology, &capacities, orientation, unicast_follows),
            places: Places::of(topology),
        }
    }

    /// Updates `self`, the base of `before`, to `fabric` and `topology`. Returns the base, equal to
    /// that of [`Base::new`], and the difference.
    ///
    /// # Errors
    /// The reason why `self` cannot be updated, as a phrase.
    pub(super) fn follow(
        &self,
        before: &Topology,
        fabric: &Fabric,
        topology: &Topology,
        orientation: Orientation,
        unicast_follows: bool,
    ) -> Result<(Base, BaseDelta), &'static str> {
        let capacities = capacities(fabric, topology);
        let (basis, delta) =
            self.basis
                .follow(before, topology, &capacities, orientation, unicast_follows)?;
        let (places, moved) = self.places.follow(before, topology, &delta)?;
        let delta = BaseDelta {
            basis: delta,
            moved,
        };
        Ok((Base { basis, places }, delta))
    }

    /// The members of a multicast LID with their places in the topology, sorted. Ports outside the
    /// topology are omitted.
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

    /// Updates `known`, the group that `before` has on the base `earlier`, to `members` on this
    /// base. Returns the result of [`Base::members`], with switches numbered as in `topology`;
    /// `None` if no member has changed.
    pub(super) fn follow_members(
        &self,
        topology: &Topology,
        members: &GroupMembers,
        (earlier, before, known): (&Base, &GroupMembers, &Group),
        delta: &BaseDelta,
    ) -> Option<Vec<Member>> {
        let mut differing = members.differing(before);
        let is_member =
            |guid: &&Guid| members.ports.contains_key(guid) || before.ports.contains_key(guid);
        differing.extend(delta.moved.iter().filter(is_member));
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
        // Only the end of the list is unsorted, so that the sort is fast.
        members.sort();
        Some(members)
    }
}

/// MulticastFDBCap of each switch, by its number (IBA 14.2.5.4).
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

//! The ways out of a switch, and the rotation of their ports.

use rayon::prelude::*;

use super::super::super::slots::{self, Rates};
use crate::topology::{Group, HalfLink, Order, SwitchIdx, Topology};

/// A port group of the known fabric as a way out of one switch.
pub(super) struct Way<'a> {
    /// The switch to which the way leads, by its number in the known fabric.
    pub(super) neighbour: usize,
    /// The links of the group, missing ones included.
    pub(super) links: &'a [HalfLink],
    /// The cost of the way, in hops.
    pub(super) hops: u8,
    /// Whether the neighbour is above, in the order that paths follow now.
    pub(super) is_above: bool,
    /// Whether the neighbour is above, in the order that paths follow while no part is missing.
    pub(super) is_usually_above: bool,
    /// Whether the neighbour is on a higher level, by the levels that spread traffic.
    pub(super) is_up: bool,
    /// Whether the neighbour is on a lower level.
    pub(super) is_down: bool,
    /// Whether a link of the group is present.
    pub(super) is_live: bool,
}

impl Way<'_> {
    /// Returns whether the way exists, and whether it leads to a switch above.
    pub(super) fn presence_and_direction(&self, state: FabricState) -> (bool, bool) {
        match state {
            FabricState::Present => (self.is_live, self.is_above),
            FabricState::Complete => (true, self.is_usually_above),
        }
    }
}

/// A state of the fabric.
#[derive(Clone, Copy)]
pub(super) enum FabricState {
    /// The present fabric.
    Present,
    /// The known fabric with all of its parts.
    Complete,
}

/// For each switch, the round-robin list of the ports of all uplinks, missing ones included.
pub(in super::super) fn uplink_rotations(known: &Topology, order: &Order) -> Vec<Vec<u8>> {
    let level = |switch: SwitchIdx| order.levels()[switch.index()];
    let rotation_of = |switch: SwitchIdx| {
        let is_up = |group: &Group<'_>| level(group.neighbour) < level(switch);
        let mut rotation = Vec::new();
        slots::fill(
            &mut rotation,
            known
                .group_range(switch)
                .map(|group| known.group(group))
                .filter(is_up),
            Rates::HalfIsEqual,
        );
        rotation
    };
    (0..known.switch_count() as u32)
        .into_par_iter()
        .map(|switch| rotation_of(SwitchIdx(switch)))
        .collect()
}

/// Writes the round-robin list of the ports of some ways.
pub(super) fn fill_rotation<'w>(
    rotation: &mut Vec<u8>,
    ways: impl Iterator<Item = &'w Way<'w>> + Clone,
) {
    let group = |way: &'w Way<'w>| Group {
        // Switches are numbered as in the known fabric.
        neighbour: SwitchIdx(way.neighbour as u32),
        links: way.links,
    };
    slots::fill(rotation, ways.map(group), Rates::HalfIsEqual);
}

/// The round-robin list of the eligible ports of some ways. Faster ports that are not eligible do
/// not exclude slower ones.
pub(super) fn rotation_among<'w>(
    ways: impl Iterator<Item = &'w Way<'w>>,
    eligible: &[bool; 256],
) -> Vec<u8> {
    let is_eligible = |link: &&HalfLink| eligible[link.port.index()];
    let present = |way: &'w Way<'w>| {
        let links: Vec<HalfLink> = way.links.iter().filter(is_eligible).copied().collect();
        (way.neighbour, links)
    };
    let present: Vec<(usize, Vec<HalfLink>)> = ways.map(present).collect();
    let groups = present.iter().filter(|(_, links)| !links.is_empty());
    let mut rotation = Vec::new();
    slots::fill(
        &mut rotation,
        groups.map(|(neighbour, links)| Group {
            // Switches are numbered as in the known fabric.
            neighbour: SwitchIdx(*neighbour as u32),
            links,
        }),
        Rates::HalfIsEqual,
    );
    rotation
}

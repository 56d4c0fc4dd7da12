//! Proves tables while some switches cannot be written. Such a switch forwards by the entries that
//! it holds, or by other entries that were sent to it, whatever tables the other switches get.
//!
//! The dependencies of all these entries, together with the dependencies of the old and the new
//! tables of the other switches, must be acyclic. The proof needs no order of the switches.

use std::collections::BTreeMap;

use fixedbitset::FixedBitSet;
use rsm_ids::Lid;

use super::cycles::Waits;
use super::dependencies::Dependencies;
use crate::tables::{NO_PATH, Tables};
use crate::topology::{SwitchIdx, Topology};

/// The maximum number of entries, in addition to the table's own, that a switch may hold for one
/// LID; with more, no proof is tried, because the time grows with the square.
const MAX_OTHERS: usize = 4;

/// The switches that cannot be written, and the entries that they may hold.
///
/// All tables use the switch numbers of one topology, and contain the held tables of these
/// switches.
#[derive(Clone, Debug, Default)]
pub struct Unwritten {
    /// The switches that cannot be written.
    pub switches: Vec<SwitchIdx>,
    /// The entries, as (switch, LID, port), that these switches may hold instead of those in the
    /// tables.
    pub others: Vec<(SwitchIdx, Lid, u8)>,
}

impl Unwritten {
    /// Whether no mixture of two successive tables of `steps` closes a credit loop, whichever
    /// entries the unwritten switches hold. Also false if a switch may hold more than
    /// [`MAX_OTHERS`] other entries for a LID.
    pub fn permit(&self, topology: &Topology, steps: &[&Tables]) -> bool {
        let is_sound = |steps: &[&Tables]| {
            let dependencies = self.dependencies(topology, steps);
            dependencies.is_some_and(|dependencies| dependencies.is_acyclic())
        };
        match steps {
            [only] => is_sound(&[only]),
            steps => steps.windows(2).all(is_sound),
        }
    }

    /// The dependencies of all mixtures of `tables`, whichever entries the unwritten switches hold.
    /// `None` if a switch may hold more than [`MAX_OTHERS`] other entries for a LID.
    pub fn dependencies<'a>(
        &self,
        topology: &'a Topology,
        tables: &[&Tables],
    ) -> Option<Dependencies<'a>> {
        Some(dependencies(topology, &self.layers()?, tables))
    }

    /// Returns `planned` with the entries of `old` at unwritten switches, and without entries that
    /// could then close a credit loop; entries that `old` also has stay. `None` if that does not
    /// suffice, which cannot happen if the tables in force have no credit loop.
    pub fn reachable(&self, topology: &Topology, old: &Tables, planned: &Tables) -> Option<Tables> {
        let layers = self.layers()?;
        let mut reached = planned.clone();
        for &switch in &self.switches {
            reached.lfts[switch.index()] = old.lft(switch).clone();
        }
        // First remove only entries next to an unwritten switch, which usually suffices.
        for only_next_to_unwritten in [true, false] {
            let needs = dependencies(topology, &layers, &[&reached]);
            let in_cycles = needs.in_cycles();
            if in_cycles.is_clear() {
                return Some(reached);
            }
            let neighbours = only_next_to_unwritten.then(|| self.neighbours(topology));
            let cuts = self.changed_in(&needs, &in_cycles, (old, &reached), neighbours.as_ref());
            for (switch, lid) in cuts {
                reached.lfts[switch.index()].set_entry(lid, NO_PATH);
            }
        }
        let needs = dependencies(topology, &layers, &[&reached]);
        needs.is_acyclic().then_some(reached)
    }

    /// The entries of other switches (only of switches in `among`, if given) that differ from the
    /// old entries and lead to a channel in `in_cycles`.
    fn changed_in(
        &self,
        needs: &Dependencies<'_>,
        in_cycles: &FixedBitSet,
        (old, reached): (&Tables, &Tables),
        among: Option<&FixedBitSet>,
    ) -> Vec<(SwitchIdx, Lid)> {
        // There are fewer switches than LIDs.
        let switches = (0..reached.lfts.len()).map(|switch| SwitchIdx(switch as u32));
        let written = switches
            .filter(|switch| !self.switches.contains(switch))
            .filter(|switch| among.is_none_or(|among| among.contains(switch.index())));
        let cuts = written.flat_map(|switch| {
            let (before, after) = (old.lft(switch), reached.lft(switch));
            let changed = before.differing(after);
            let waits = move |lid: &Lid| {
                let channel = needs.fabric().channel(switch.index(), after.entry(*lid));
                in_cycles.contains(channel)
            };
            changed.filter(waits).map(move |lid| (switch, lid))
        });
        cuts.collect()
    }

    /// The switches next to unwritten switches.
    fn neighbours(&self, topology: &Topology) -> FixedBitSet {
        let mut neighbours = FixedBitSet::with_capacity(topology.switch_count());
        for &switch in &self.switches {
            neighbours.extend(topology.groups(switch).map(|group| group.neighbour.index()));
        }
        neighbours
    }

    /// Distributes `others` over layers, each with at most one entry for each switch and LID;
    /// `None` if more than [`MAX_OTHERS`] layers are needed.
    fn layers(&self) -> Option<Vec<Vec<(SwitchIdx, Lid, u8)>>> {
        let mut counts: BTreeMap<(SwitchIdx, Lid), usize> = BTreeMap::new();
        let mut layers: Vec<Vec<(SwitchIdx, Lid, u8)>> = Vec::new();
        for &(switch, lid, entry) in &self.others {
            let layer = counts.entry((switch, lid)).or_default();
            if layers.len() == *layer {
                layers.push(Vec::new());
            }
            layers[*layer].push((switch, lid, entry));
            *layer += 1;
        }
        (layers.len() <= MAX_OTHERS).then_some(layers)
    }
}

/// The dependencies of all mixtures of `steps`, with the entries of any layer in place of the
/// tables' entries.
fn dependencies<'a>(
    topology: &'a Topology,
    layers: &[Vec<(SwitchIdx, Lid, u8)>],
    steps: &[&Tables],
) -> Dependencies<'a> {
    let mut states: Vec<Tables> = steps.iter().copied().cloned().collect();
    for &step in steps {
        states.extend(layers.iter().map(|layer| {
            let mut tables = step.clone();
            for &(switch, lid, entry) in layer {
                tables.lfts[switch.index()].set_entry(lid, entry);
            }
            tables
        }));
    }
    let mut needs = Dependencies::of(topology, &states[0]);
    for (index, one) in states.iter().enumerate() {
        states[..index]
            .iter()
            .for_each(|other| needs.add_mixture(other, one));
    }
    needs
}

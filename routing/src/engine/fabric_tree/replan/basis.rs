//! The known fabric of a routing, and its differences from the known fabric of the previous
//! routing.

use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use super::super::super::Options;
use super::super::super::paths::{Tile, Ways};
use super::super::super::updn::{Unreached, kept_sentence};
use super::super::detours::Detours;
use super::super::known::KnownFabric;
use super::super::live::Live;
use super::super::numbering::{self, Numbering};
use super::super::whole::whole;
use super::super::{inferred_sentence, lids};
use super::mending::Repair;
use super::{State, Touched};
use crate::topology::{SwitchIdx, Topology};

/// A known fabric with its present parts, and the differences from the previous routing's.
pub(super) struct Basis {
    pub(super) fabric: KnownFabric,
    pub(super) live: Live,
    /// The previous detours, by the numbers of this known fabric.
    pub(super) detours: Arc<Detours>,
    /// Whether the known fabric has changed.
    pub(super) is_changed: bool,
    /// Switches at which a link or a destination has come or gone, and switches whose dividers have
    /// changed.
    pub(super) ends: FixedBitSet,
    pub(super) touched: Touched,
    /// The columns whose costs in the complete fabric have changed.
    pub(super) changed: BTreeSet<u32>,
}

impl Basis {
    /// Finds the known fabric for `topology`: the earlier one, extended by any parts that were
    /// never seen before.
    ///
    /// # Errors
    /// The reason why another known fabric changes the results everywhere.
    pub(super) fn of(
        earlier: &State,
        topology: &Topology,
        options: &Options,
        made: &str,
    ) -> Result<Basis, &'static str> {
        let fabric = &earlier.fabric;
        let live = match topology.changes_since(&earlier.present) {
            Some(changed) => earlier.live.follow(&fabric.known, topology, changed),
            None => Live::of(&fabric.known, topology),
        };
        let Some(live) = live else {
            return Basis::joined(earlier, topology, options, made);
        };
        Ok(Basis {
            ends: ends_among(&fabric.known, &earlier.live, &live),
            fabric: fabric.clone(),
            live,
            detours: earlier.detours.clone(),
            is_changed: false,
            touched: vec![Vec::new(); fabric.known.switch_count()],
            changed: BTreeSet::new(),
        })
    }

    /// The basis for a known fabric extended by the parts of `topology` that were never seen
    /// before.
    fn joined(
        earlier: &State,
        topology: &Topology,
        options: &Options,
        made: &str,
    ) -> Result<Basis, &'static str> {
        let was = &earlier.fabric;
        let fabric = joined_fabric(was, topology, options, made)?;
        let known = &fabric.known;
        let live = Live::of(known, topology).ok_or("the known fabric is too large")?;
        let mut basis = Basis {
            ends: ends_between((&was.known, &earlier.live), (known, &live)),
            detours: Arc::new(earlier.detours.renumbered(&was.known, known)),
            touched: vec![Vec::new(); known.switch_count()],
            changed: BTreeSet::new(),
            is_changed: true,
            fabric,
            live,
        };
        basis.add_other_numbers(&was.numbering);
        basis.fabric.intact = basis.repaired_intact(&was.intact);
        basis.fabric.even_out(options, None);
        basis.touch_other_ports(was);
        Ok(basis)
    }

    /// Adds to `ends` the switches whose divider has changed, and to `touched` the columns of
    /// destinations whose number has changed.
    fn add_other_numbers(&mut self, was: &Numbering) {
        let (known, now) = (&self.fabric.known, &self.fabric.numbering);
        for switch in known.indices() {
            let own = switch.index();
            if now.dividers[own] != was.dividers[own] {
                self.ends.insert(own);
            }
            if now.downward[own] != was.downward[own] {
                let neighbours = known.groups(switch).map(|group| group.neighbour.index());
                self.ends.extend(neighbours);
            }
        }
        let number = |numbering: &Numbering, position: usize| {
            let place = &numbering.places[position];
            (place.number, place.offset)
        };
        let differs = |&position: &usize| number(now, position) != number(was, position);
        let columns = columns_of(now, differs);
        for of_switch in &mut self.touched {
            of_switch.extend(&columns);
        }
    }

    /// The costs of the complete fabric.
    fn repaired_intact(&mut self, was: &[Arc<Tile>]) -> Vec<Arc<Tile>> {
        let known = &self.fabric.known;
        let mut all = FixedBitSet::with_capacity(known.group_count());
        all.insert_range(..);
        let repair = Repair {
            known,
            order: &self.fabric.order,
            numbering: &self.fabric.numbering,
            ways: Ways::new(&self.fabric.neighbours, &all),
            ends: &self.ends,
            absent: &FixedBitSet::new(),
        };
        repair.tiles(was, &mut self.touched, &mut self.changed)
    }

    /// The costs of the present parts.
    pub(super) fn costs(&mut self, earlier: &State) -> Vec<Arc<Tile>> {
        if earlier.live.is_complete() && self.live.is_complete() {
            return self.fabric.intact.clone();
        }
        let repair = Repair {
            known: &self.fabric.known,
            order: &self.fabric.order,
            numbering: &self.fabric.numbering,
            ways: Ways::new(&self.fabric.neighbours, &self.live.groups),
            ends: &self.ends,
            absent: &self.live.absent(),
        };
        repair.tiles(&earlier.tiles, &mut self.touched, &mut self.changed)
    }

    /// Adds to `touched` the columns of destinations for which a switch's exception to the closed
    /// form has changed.
    fn touch_other_ports(&mut self, was: &KnownFabric) {
        let (own, other) = (&self.fabric.own, &was.own);
        let differs = |&(switch, position, port): &(SwitchIdx, usize, u8)| {
            own.port(switch, position) != Some(port) || other.port(switch, position) != Some(port)
        };
        let numbering = &self.fabric.numbering;
        for (switch, position, _) in own.all().chain(other.all()).filter(differs) {
            let start = position as u32;
            let column = numbering.start.partition_point(|&first| first <= start) - 1;
            // Fewer columns than LIDs.
            self.touched[switch.index()].push(column as u32);
        }
    }

    /// The LID at each position, and the columns in which LIDs have changed.
    pub(super) fn lids(&self, earlier: &State) -> (Arc<Vec<u16>>, Vec<u32>) {
        if !self.is_changed && self.live.destinations == earlier.live.destinations {
            return (earlier.lids.clone(), Vec::new());
        }
        let lids = lids(&self.fabric.known, &self.live, &self.fabric.numbering);
        let differs = |&position: &usize| lids[position] != earlier.lids[position];
        let columns = columns_of(&self.fabric.numbering, differs);
        (Arc::new(lids), columns)
    }

    /// Whether pairs need a path that needed none before: pairs with a new switch, or pairs across
    /// components that are now connected.
    pub(super) fn asks_more(&self, earlier: &State, topology: &Topology) -> bool {
        let mut both = self.live.switches.iter().zip(&earlier.live.switches);
        topology.components().len() != 1
            || earlier.parts != 1
            || both.any(|(now, was)| now.is_some() && was.is_none())
    }
}

/// The known fabric extended by the parts of `topology` that were never seen before, still with the
/// earlier costs.
///
/// # Errors
/// The reason why another known fabric changes the results everywhere.
fn joined_fabric(
    was: &KnownFabric,
    topology: &Topology,
    options: &Options,
    made: &str,
) -> Result<KnownFabric, &'static str> {
    let joined = topology.joined_with(&was.known);
    if joined.switches() != was.known.switches() {
        return Err("a switch is where none was seen before");
    }
    let seen = joined.link_count();
    let known = Arc::new(whole(&joined, was.order.levels()).unwrap_or(joined));
    let columns = numbering::columns(&known, was.order.levels());
    if columns != was.numbering.columns {
        return Err("a cable joins other subtrees");
    }
    let numbering = Numbering::new(&known, was.order.levels(), columns, options);
    if numbering.start != was.numbering.start {
        return Err("hosts after a new one have other numbers");
    }
    let apexes = Unreached::Mended.mending(&known, &was.order);
    let apexes = apexes.unwrap_or_default();
    let intact = was.intact.clone();
    let mut fabric = KnownFabric::new(&known, &was.order, numbering, apexes, intact);
    fabric.reason = kept_sentence(&known, &was.order, made);
    let inferred = known.link_count() - seen;
    fabric.reason.push_str(&inferred_sentence(inferred));
    Ok(fabric)
}

/// The columns with a position for which `differs` is true.
fn columns_of(numbering: &Numbering, differs: impl Fn(&usize) -> bool) -> Vec<u32> {
    // Fewer columns than LIDs.
    let columns = 0..numbering.columns.len() as u32;
    columns
        .filter(|&column| numbering.range(column as usize).any(|at| differs(&at)))
        .collect()
}

/// The switches of a known fabric at which a link or a destination has come or gone.
fn ends_among(known: &Topology, was: &Live, now: &Live) -> FixedBitSet {
    let mut ends = FixedBitSet::with_capacity(known.switch_count());
    let mut links = now.links.clone();
    links.symmetric_difference_with(&was.links);
    let mut destinations = now.destinations.clone();
    destinations.symmetric_difference_with(&was.destinations);
    if !links.is_clear() {
        for switch in known.indices() {
            if links.contains_any_in_range(known.links_of(switch)) {
                ends.insert(switch.index());
            }
        }
    }
    for number in destinations.ones() {
        ends.insert(known.destinations()[number].switch.index());
    }
    ends
}

/// The switches whose links, destinations or present parts differ between two known fabrics that
/// have the same switches.
fn ends_between(was: (&Topology, &Live), now: (&Topology, &Live)) -> FixedBitSet {
    let links = |(known, live): (&Topology, &Live), switch| {
        let own = known.links_of(switch);
        own.map(|number| live.links.contains(number))
            .collect::<Vec<bool>>()
    };
    let destinations = |(known, live): (&Topology, &Live), switch| {
        let own = known.destination_range(switch);
        own.map(|number| live.destinations.contains(number))
            .collect::<Vec<bool>>()
    };
    let neighbours = |known: &Topology, switch| {
        let groups = known.groups(switch);
        groups
            .map(|group| (group.neighbour, group.links.len()))
            .collect::<Vec<_>>()
    };
    let differs = |&switch: &SwitchIdx| {
        was.0.links(switch) != now.0.links(switch)
            || was.0.destinations_of(switch) != now.0.destinations_of(switch)
            || neighbours(was.0, switch) != neighbours(now.0, switch)
            || links(was, switch) != links(now, switch)
            || destinations(was, switch) != destinations(now, switch)
    };
    let ends: Vec<SwitchIdx> = now.0.par_indices().filter(differs).collect();
    let mut found = FixedBitSet::with_capacity(now.0.switch_count());
    found.extend(ends.into_iter().map(SwitchIdx::index));
    found
}

//! The known fabric with its present parts, and the differences from the previous routing.

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
use super::super::whole::with_inferred_cables;
use super::super::{inferred_sentence, lids};
use super::mending::Repair;
use super::{State, Touched};
use crate::topology::{SwitchIdx, Topology};

/// The known fabric with its present parts, and the differences from the previous routing.
pub(super) struct Basis {
    pub(super) fabric: KnownFabric,
    pub(super) live: Live,
    /// The previous detours, renumbered for this known fabric.
    pub(super) detours: Arc<Detours>,
    /// Whether the known fabric has changed.
    pub(super) is_changed: bool,
    /// Switches that gained or lost a link or a destination, or whose divider
    /// ([`Numbering::dividers`]) has changed.
    pub(super) changed_switches: FixedBitSet,
    pub(super) touched: Touched,
    /// The columns whose costs in the complete fabric have changed.
    pub(super) changed: BTreeSet<u32>,
}

impl Basis {
    /// Finds the known fabric for `topology`: the earlier one, extended by the parts of `topology`
    /// that were never seen before.
    ///
    /// # Errors
    /// The extended fabric would change the routes to all destinations, so that only a full
    /// computation helps; the text names the cause.
    pub(super) fn of(
        earlier: &State,
        topology: &Topology,
        options: &Options,
        previous_reason: &str,
    ) -> Result<Basis, &'static str> {
        let fabric = &earlier.fabric;
        let live = match topology.changes_since(&earlier.present) {
            Some(changed) => earlier.live.follow(&fabric.known, topology, changed),
            None => Live::of(&fabric.known, topology),
        };
        let Some(live) = live else {
            return Basis::extended(earlier, topology, options, previous_reason);
        };
        Ok(Basis {
            changed_switches: changed_between_states(&fabric.known, &earlier.live, &live),
            fabric: fabric.clone(),
            live,
            detours: earlier.detours.clone(),
            is_changed: false,
            touched: vec![Vec::new(); fabric.known.switch_count()],
            changed: BTreeSet::new(),
        })
    }

    /// Computes the result of [`Basis::of`] if `topology` has parts that were never seen before.
    fn extended(
        earlier: &State,
        topology: &Topology,
        options: &Options,
        previous_reason: &str,
    ) -> Result<Basis, &'static str> {
        let previous = &earlier.fabric;
        let fabric = extended_fabric(previous, topology, options, previous_reason)?;
        let known = &fabric.known;
        let live = Live::of(known, topology).ok_or("the known fabric is too large")?;
        let mut basis = Basis {
            changed_switches: changed_between_fabrics(
                (&previous.known, &earlier.live),
                (known, &live),
            ),
            detours: Arc::new(earlier.detours.renumbered(&previous.known, known)),
            touched: vec![Vec::new(); known.switch_count()],
            changed: BTreeSet::new(),
            is_changed: true,
            fabric,
            live,
        };
        basis.add_renumbered(&previous.numbering);
        basis.fabric.intact = basis.complete_costs(&previous.intact);
        basis.fabric.even_out(options, None);
        basis.touch_exceptions(previous);
        Ok(basis)
    }

    /// Adds to `changed_switches` the switches whose divider has changed since the numbering
    /// `before`, and to `touched` the columns of destinations whose number has changed.
    fn add_renumbered(&mut self, before: &Numbering) {
        let (known, now) = (&self.fabric.known, &self.fabric.numbering);
        for switch in known.indices() {
            let own = switch.index();
            if now.dividers[own] != before.dividers[own] {
                self.changed_switches.insert(own);
            }
            if now.downward[own] != before.downward[own] {
                let neighbours = known.groups(switch).map(|group| group.neighbour.index());
                self.changed_switches.extend(neighbours);
            }
        }
        let number = |numbering: &Numbering, position: usize| {
            let place = &numbering.places[position];
            (place.number, place.offset)
        };
        let differs = |&position: &usize| number(now, position) != number(before, position);
        let columns = columns_of(now, differs);
        for of_switch in &mut self.touched {
            of_switch.extend(&columns);
        }
    }

    /// The costs in the complete known fabric, repaired from its costs `before`.
    fn complete_costs(&mut self, before: &[Arc<Tile>]) -> Vec<Arc<Tile>> {
        let known = &self.fabric.known;
        let mut all_groups = FixedBitSet::with_capacity(known.group_count());
        all_groups.insert_range(..);
        let repair = Repair {
            known,
            order: &self.fabric.order,
            numbering: &self.fabric.numbering,
            ways: Ways::new(&self.fabric.neighbours, &all_groups),
            changed_switches: &self.changed_switches,
            absent: &FixedBitSet::new(),
        };
        repair.tiles(before, &mut self.touched, &mut self.changed)
    }

    /// The costs over the present parts.
    pub(super) fn costs(&mut self, earlier: &State) -> Vec<Arc<Tile>> {
        if earlier.live.is_complete() && self.live.is_complete() {
            return self.fabric.intact.clone();
        }
        let repair = Repair {
            known: &self.fabric.known,
            order: &self.fabric.order,
            numbering: &self.fabric.numbering,
            ways: Ways::new(&self.fabric.neighbours, &self.live.groups),
            changed_switches: &self.changed_switches,
            absent: &self.live.absent(),
        };
        repair.tiles(&earlier.tiles, &mut self.touched, &mut self.changed)
    }

    /// Adds to `touched` the columns of destinations for which a switch's exception to the closed
    /// form has changed.
    fn touch_exceptions(&mut self, previous: &KnownFabric) {
        let (now, before) = (&self.fabric.exceptions, &previous.exceptions);
        let differs = |&(switch, position, port): &(SwitchIdx, usize, u8)| {
            now.port(switch, position) != Some(port) || before.port(switch, position) != Some(port)
        };
        let numbering = &self.fabric.numbering;
        for (switch, position, _) in now.all().chain(before.all()).filter(differs) {
            let start = position as u32;
            let column = numbering.start.partition_point(|&first| first <= start) - 1;
            // The cast loses nothing: there are fewer columns than LIDs.
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

    /// Whether some pairs may need a path that needed none before: a switch has come back, or the
    /// fabric has or had several components.
    pub(super) fn has_new_pairs(&self, earlier: &State, topology: &Topology) -> bool {
        let mut now_and_earlier = self.live.switches.iter().zip(&earlier.live.switches);
        topology.components().len() != 1
            || earlier.components != 1
            || now_and_earlier.any(|(now, was)| now.is_some() && was.is_none())
    }
}

/// Extends the known fabric by the parts of `topology` that were never seen before; its costs are
/// still the earlier ones. `previous_reason` is the previous routing's explanation of its ranking.
///
/// # Errors
/// The extended fabric would change the routes to all destinations, so that only a full computation
/// helps; the text names the cause.
fn extended_fabric(
    previous: &KnownFabric,
    topology: &Topology,
    options: &Options,
    previous_reason: &str,
) -> Result<KnownFabric, &'static str> {
    let united = topology.joined_with(&previous.known);
    if united.switches() != previous.known.switches() {
        return Err("a switch was added");
    }
    let seen = united.link_count();
    let order = &previous.order;
    let known = Arc::new(with_inferred_cables(&united, order.levels()).unwrap_or(united));
    let columns = numbering::columns(&known, order.levels());
    if columns != previous.numbering.columns {
        return Err("a cable connects subtrees that were separate");
    }
    let numbering = Numbering::new(&known, order.levels(), columns, options);
    if numbering.start != previous.numbering.start {
        return Err("a new host shifts the numbers of the hosts after it");
    }
    let apexes = Unreached::Mended.mending(&known, order).unwrap_or_default();
    let complete_costs = previous.intact.clone();
    let mut fabric = KnownFabric::new(&known, order, numbering, apexes, complete_costs);
    fabric.reason = kept_sentence(&known, order, previous_reason);
    let inferred = known.link_count() - seen;
    fabric.reason.push_str(&inferred_sentence(inferred));
    Ok(fabric)
}

/// The columns with a position for which `differs` is true.
fn columns_of(numbering: &Numbering, differs: impl Fn(&usize) -> bool) -> Vec<u32> {
    // The cast loses nothing: there are fewer columns than LIDs.
    let columns = 0..numbering.columns.len() as u32;
    columns
        .filter(|&column| numbering.range(column as usize).any(|at| differs(&at)))
        .collect()
}

/// The switches of a known fabric that gained or lost a link or a destination.
fn changed_between_states(known: &Topology, before: &Live, now: &Live) -> FixedBitSet {
    let mut changed = FixedBitSet::with_capacity(known.switch_count());
    let mut links = now.links.clone();
    links.symmetric_difference_with(&before.links);
    let mut destinations = now.destinations.clone();
    destinations.symmetric_difference_with(&before.destinations);
    if !links.is_clear() {
        for switch in known.indices() {
            if links.contains_any_in_range(known.links_of(switch)) {
                changed.insert(switch.index());
            }
        }
    }
    for number in destinations.ones() {
        changed.insert(known.destinations()[number].switch.index());
    }
    changed
}

/// The switches whose links, destinations or present parts differ between two known fabrics that
/// have the same switches.
fn changed_between_fabrics(before: (&Topology, &Live), now: (&Topology, &Live)) -> FixedBitSet {
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
        before.0.links(switch) != now.0.links(switch)
            || before.0.destinations_of(switch) != now.0.destinations_of(switch)
            || neighbours(before.0, switch) != neighbours(now.0, switch)
            || links(before, switch) != links(now, switch)
            || destinations(before, switch) != destinations(now, switch)
    };
    let differing: Vec<SwitchIdx> = now.0.par_indices().filter(differs).collect();
    let mut changed = FixedBitSet::with_capacity(now.0.switch_count());
    changed.extend(differing.into_iter().map(SwitchIdx::index));
    changed
}

//! Own ports of single destinations, where the closed form leaves links fuller than need be.
//!
//! On a regular tree no other tables are better than the closed form, and nothing is done here.
//! Where leaves have more or fewer hosts, subtrees more or fewer ways up, or where several ways
//! lead down to one leaf, some links get more than their share. Then this module looks through the
//! destinations of such links, one by one, and moves those that have a way whose fullest link stays
//! emptier. It relieves only the fullest links: the others keep the order of the closed form, which
//! is worth more to shifts than their last percents are to sums.
//!
//! The result is a function of the complete known fabric: missing parts do not affect it.

mod leveller;

use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

pub(super) use self::leveller::{Budget, Ground, Leveller, Target};
use super::super::order::Order;
use super::super::paths::Tile;
use super::detours::Detours;
use super::live::Live;
use super::numbering::Numbering;
use super::{Categories, Category};
use crate::tables::Lft;
use crate::topology::{SwitchIdx, Topology};

/// The most entries to look at: destinations times switches, as 8,000 hosts on 1,000 switches have.
/// They take some 0.6 s, once for each fabric that becomes known; 4,000 hosts on 700 switches take
/// 0.2 s.
const MAX_WORK: usize = 1 << 23;

/// Ports that single destinations have instead of the closed form's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// By switch: (position, port), by position.
    ports: Vec<Vec<(u32, u8)>>,
}

/// The result for a fabric.
pub(super) struct Evened {
    pub(super) own: Own,
    /// For the operator, as the end of a sentence; empty where there was nothing to do.
    pub(super) said: String,
}

impl Own {
    /// Whether a switch has none.
    pub(super) fn is_empty(&self, switch: SwitchIdx) -> bool {
        self.ports.get(switch.index()).is_none_or(Vec::is_empty)
    }

    /// The ports of its own that a switch has for some positions.
    pub(super) fn within(
        &self,
        switch: SwitchIdx,
        positions: std::ops::Range<usize>,
    ) -> &[(u32, u8)] {
        let Some(ports) = self.ports.get(switch.index()) else {
            return &[];
        };
        let from = ports.partition_point(|&(position, _)| (position as usize) < positions.start);
        let to = ports.partition_point(|&(position, _)| (position as usize) < positions.end);
        &ports[from..to]
    }

    /// The port of its own that a switch has for a position.
    pub(super) fn port(&self, switch: SwitchIdx, position: usize) -> Option<u8> {
        self.within(switch, position..position + 1)
            .first()
            .map(|&(_, port)| port)
    }

    /// The same, but for some positions of switches: (switch, position, port).
    pub(super) fn with(&self, others: impl Iterator<Item = (SwitchIdx, u32, u8)>) -> Own {
        let mut own = self.clone();
        for (switch, position, port) in others {
            if own.ports.len() <= switch.index() {
                own.ports.resize(switch.index() + 1, Vec::new());
            }
            let ports = &mut own.ports[switch.index()];
            match ports.binary_search_by_key(&position, |&(position, _)| position) {
                Ok(place) => ports[place].1 = port,
                Err(place) => ports.insert(place, (position, port)),
            }
        }
        own
    }

    /// Every such port: switch, position, port.
    pub(super) fn all(&self) -> impl Iterator<Item = (SwitchIdx, usize, u8)> {
        self.ports.iter().enumerate().flat_map(|(switch, ports)| {
            // As numbered in the known fabric.
            let switch = SwitchIdx(switch as u32);
            ports
                .iter()
                .map(move |&(position, port)| (switch, position as usize, port))
        })
    }
}

/// The inputs of tables for the complete fabric.
pub(super) struct Intact<'a> {
    pub(super) known: &'a Topology,
    /// All of it.
    pub(super) live: &'a Live,
    pub(super) order: &'a Order,
    pub(super) numbering: &'a Numbering,
    pub(super) tiles: &'a [Arc<Tile>],
    pub(super) detours: &'a Detours,
    pub(super) categories: &'a Categories,
    /// By switch: its table in closed form. Called once, and only where links may be loaded
    /// unevenly.
    pub(super) closed_form: &'a dyn Fn() -> Vec<Lft>,
}

/// Relieves the fullest links.
pub(super) fn even(intact: &Intact<'_>) -> Evened {
    let mut evened = Evened {
        own: Own::default(),
        said: String::new(),
    };
    let known = intact.known;
    if is_regular(known, intact.order.levels()) {
        return evened;
    }
    let mut by_category = vec![Vec::new(); Category::COUNT];
    for (column, &switch) in intact.numbering.columns.iter().enumerate() {
        for position in intact.numbering.range(column) {
            let place = &intact.numbering.places[position];
            let Some(number) = place.destination else {
                continue;
            };
            let found = &known.destinations()[number as usize];
            // The LIDs of a port that has several take ways apart from each other, which is left to
            // the closed form.
            if found.kind.is_host() && found.lmc.lids() == 1 {
                let category = Category::of(found, intact.categories);
                by_category[category as usize].push(Target {
                    lid: found.lid,
                    position,
                    column,
                    switch,
                });
            }
        }
    }
    let work = by_category.iter().map(Vec::len).sum::<usize>() * known.switch_count();
    if work > MAX_WORK {
        evened.said = format!(
            "; links are as the closed form loads them, the fabric is too large to even them out ({work} entries, at most \
             {MAX_WORK})"
        );
        return evened;
    }
    let closed_form = (intact.closed_form)();
    let mut lfts = closed_form.clone();
    let mut moved = 0;
    for targets in by_category.iter().filter(|targets| !targets.is_empty()) {
        let ground = Ground {
            known,
            live: intact.live,
            order: intact.order,
            tiles: intact.tiles,
            detours: intact.detours,
        };
        moved += Leveller::new(ground).level(targets, &mut lfts);
    }
    if moved == 0 {
        return evened;
    }
    let mut position_of = vec![None; known.top_lid().index() + 1];
    for target in by_category.iter().flatten() {
        // Fewer positions than LIDs.
        position_of[target.lid.index()] = Some(target.position as u32);
    }
    let of_switch = |(lft, closed_form): (&Lft, &Lft)| {
        let moved = lft.differing(closed_form);
        let moved = moved.filter_map(|lid| Some((position_of[lid.index()]?, lft.entry(lid))));
        let mut ports: Vec<(u32, u8)> = moved.collect();
        ports.sort_unstable();
        ports
    };
    let ports = lfts.par_iter().zip(&closed_form).map(of_switch).collect();
    evened.own = Own { ports };
    let count = evened.own.all().count();
    evened.said = format!("; {count} entries taken off the fullest links");
    evened
}

/// Whether all switches of a level are alike, and one way down leads to each leaf.
fn is_regular(known: &Topology, levels: &[u8]) -> bool {
    let level = |switch: SwitchIdx| levels[switch.index()];
    let mut like: Vec<Option<[usize; 5]>> = vec![None; 256];
    let mut rate = None;
    for switch in known.indices() {
        let mut shape = [known.hosts(switch), 0, 0, 0, 0];
        for group in known.groups(switch) {
            let side = match level(group.neighbour).cmp(&level(switch)) {
                std::cmp::Ordering::Less => 1,
                std::cmp::Ordering::Greater => 3,
                std::cmp::Ordering::Equal => return false,
            };
            shape[side] += 1;
            shape[side + 1] += group.links.len();
            for link in group.links {
                if *rate.get_or_insert(link.weight) != link.weight {
                    return false;
                }
            }
        }
        if *like[usize::from(level(switch))].get_or_insert(shape) != shape {
            return false;
        }
    }
    let mut deepest_first: Vec<SwitchIdx> = known.indices().collect();
    deepest_first.sort_by_key(|&switch| (std::cmp::Reverse(level(switch)), switch));
    let mut below = vec![FixedBitSet::with_capacity(known.switch_count()); known.switch_count()];
    for switch in deepest_first {
        let mut own = FixedBitSet::with_capacity(known.switch_count());
        if known.hosts(switch) > 0 {
            own.insert(switch.index());
        }
        for group in known.groups(switch) {
            if level(group.neighbour) > level(switch) {
                let theirs = &below[group.neighbour.index()];
                if !own.is_disjoint(theirs) {
                    return false;
                }
                own.union_with(theirs);
            }
        }
        below[switch.index()] = own;
    }
    true
}

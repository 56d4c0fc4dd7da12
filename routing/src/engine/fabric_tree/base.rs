//! The tree paths of a fabric, and the detours of pairs without a tree path.

use std::sync::Arc;

use fixedbitset::FixedBitSet;

use super::super::paths::{self, Neighbours, Tile, Ways};
use super::super::updn::{self, Rank, Unreached};
use super::super::{EngineError, Options, Ranking, prepare};
use super::apex::Apexes;
use super::detours::{self, Detours};
use super::live::Live;
use super::numbering::{self, Numbering};
use crate::topology::{Order, SwitchIdx, Topology};

/// The known fabric and its present parts, with the options of a routing.
pub(super) struct Site<'a> {
    pub(super) known: &'a Arc<Topology>,
    pub(super) present: &'a Topology,
    pub(super) live: &'a Live,
    pub(super) options: &'a Options,
}

/// The paths of the tree.
pub(super) struct Base {
    pub(super) rank: Rank,
    pub(super) numbering: Numbering,
    pub(super) apexes: Apexes,
    /// The costs in the complete known fabric.
    pub(super) intact: Vec<Arc<Tile>>,
    /// The costs in the present fabric.
    pub(super) tiles: Vec<Arc<Tile>>,
}

/// The paths of all pairs.
pub(super) struct Paths {
    pub(super) base: Base,
    pub(super) detours: Detours,
    /// The order of the paths until missing parts are back; `None` if that is the order of the
    /// tree.
    pub(super) interim: Option<Order>,
}

/// The order of the tree: that of an earlier ranking if it has all switches, else a new one from
/// `roots`, which may be empty.
pub(super) fn rank(known: &Topology, roots: &[SwitchIdx], earlier: Option<&Ranking>) -> Rank {
    let columns = |order: &Order| numbering::columns(known, order.levels());
    updn::rank(known, roots, earlier, Unreached::Mended, &columns)
}

impl Site<'_> {
    /// Computes paths by `rank`, which was made from `roots`.
    ///
    /// # Errors
    /// [`EngineError::PathTooLong`] if every path between two connected switches is too long.
    pub(super) fn paths(&self, roots: &[SwitchIdx], rank: Rank) -> Result<Paths, EngineError> {
        let mut base = self.base(rank);
        if let Some(detours) = Detours::of(&self.detour_inputs(&base)) {
            return Ok(Paths {
                base,
                detours,
                interim: None,
            });
        }
        let mut other = self.joined(roots);
        let mut interim = None;
        let detours = if self.live.is_complete() {
            // No part is missing, so cables were moved: the parts for which the earlier order was
            // made are gone for good.
            other.mending = Unreached::Mended.mending(self.known, &other.order);
            base = self.base(other);
            Detours::of(&self.detour_inputs(&base))
        } else {
            // The missing parts were the only legal path of some pairs, and no apex has detours for
            // all of them. Another order has paths for these pairs. The levels stay, and with them
            // the balance. The usual order returns with the missing parts.
            let order = extended_to_known(self.known, self.present, &other.order, &base.rank.order);
            base.tiles = self.costs(&order, &base.numbering.columns, &self.live.groups);
            let reason = &mut base.rank.reason;
            *reason = format!("{reason}; while parts are missing {}", other.reason);
            Detours::of(&detours::Inputs {
                order: interim.insert(order),
                apexes: &Apexes::default(),
                ..self.detour_inputs(&base)
            })
        };
        if detours.is_none()
            && let Some(switch) = paths::overlong(self.present, &paths::shortest(self.present))
        {
            return Err(prepare::path_too_long(self.present, switch));
        }
        let order = interim.as_ref().unwrap_or(&base.rank.order);
        Ok(Paths {
            detours: detours.unwrap_or_else(|| Detours::none(order)),
            base,
            interim,
        })
    }

    /// Computes the paths that follow an order.
    fn base(&self, mut rank: Rank) -> Base {
        let (columns, intact) = match rank.costs.take() {
            Some(chosen) => {
                let tiles = chosen.tiles.into_iter().map(Arc::new);
                (chosen.columns, tiles.collect())
            }
            None => {
                let columns = numbering::columns(self.known, rank.order.levels());
                let mut all_groups = self.live.groups.clone();
                all_groups.insert_range(..);
                let intact = self.costs(&rank.order, &columns, &all_groups);
                (columns, intact)
            }
        };
        let tiles = if self.live.is_complete() {
            intact.clone()
        } else {
            self.costs(&rank.order, &columns, &self.live.groups)
        };
        Base {
            numbering: Numbering::new(self.known, rank.order.levels(), columns, self.options),
            apexes: rank.mending.take().unwrap_or_default(),
            rank,
            intact,
            tiles,
        }
    }

    /// The costs of the paths in the known fabric that follow `order` and use only `groups`.
    fn costs(&self, order: &Order, columns: &[SwitchIdx], groups: &FixedBitSet) -> Vec<Arc<Tile>> {
        let neighbours = Neighbours::new(self.known, order);
        let tiles = paths::up_down_between(order, Ways::new(&neighbours, groups), columns);
        tiles.into_iter().map(Arc::new).collect()
    }

    /// The inputs for detours of pairs without a path in `base`.
    fn detour_inputs<'w>(&'w self, base: &'w Base) -> detours::Inputs<'w> {
        detours::Inputs {
            known: self.known,
            present: self.present,
            live: self.live,
            numbering: &base.numbering,
            order: &base.rank.order,
            tiles: &base.tiles,
            apexes: &base.apexes,
            connect_roots: self.options.connect_roots,
        }
    }

    /// Computes another order, for the present fabric, under which all pairs have paths without
    /// detours.
    fn joined(&self, roots: &[SwitchIdx]) -> Rank {
        let columns = |order: &Order| numbering::columns(self.present, order.levels());
        let roots = numbers_in(self.present, roots, self.known);
        updn::rank(self.present, &roots, None, Unreached::Joined, &columns)
    }
}

/// The numbers, in the topology, of some switches of the known fabric; switches that are missing
/// are left out.
fn numbers_in(topology: &Topology, switches: &[SwitchIdx], known: &Topology) -> Vec<SwitchIdx> {
    let guids = switches.iter().map(|&switch| known.switch(switch).guid);
    guids
        .filter_map(|guid| topology.switch_by_guid(guid))
        .collect()
}

/// Extends an order of the present switches by the missing ones, which come last, with the levels
/// of `usual`.
fn extended_to_known(known: &Topology, topology: &Topology, order: &Order, usual: &Order) -> Order {
    let guid = |switch: &SwitchIdx| topology.switch(*switch).guid;
    let here = order.highest_first().iter().map(guid);
    let mut listed: Vec<SwitchIdx> = here.filter_map(|guid| known.switch_by_guid(guid)).collect();
    let is_gone = |switch: &SwitchIdx| {
        let guid = known.switch(*switch).guid;
        topology.switch_by_guid(guid).is_none()
    };
    listed.extend(known.indices().filter(is_gone));
    Order::listed(listed, usual.levels().to_vec())
}

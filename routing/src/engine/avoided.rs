//! Finds switches to avoid, because all of their paths to a destination cross a far slower link.
//!
//! If one of a leaf's cables has trained at a fraction of its rate, the switch across that cable
//! has no other path down to the leaf. The costs of paths, in hops, do not show that. This module
//! marks the switch as one to avoid, so that switches before it take other paths of equal cost. A
//! switch without such another path is marked as well.

use rayon::prelude::*;

use super::paths::{Row, TILE, Tile, UNREACHED, nearer};
use super::slots;
use crate::topology::{Group, Order, SwitchIdx, Topology};

/// Switches to avoid, by tile, switch and column: 1 if packets to the column should avoid the
/// switch, else 0.
pub(super) struct Avoided {
    tiles: Vec<Vec<Row>>,
}

impl Avoided {
    /// Finds the switches to avoid on paths with the costs `tiles`, which are up*/down* paths if
    /// there is an `order`. `None` if no link is far slower than the fastest.
    pub(super) fn of(
        topology: &Topology,
        tiles: &[Tile],
        order: Option<&Order>,
    ) -> Option<Avoided> {
        let groups = || {
            topology
                .indices()
                .flat_map(|switch| topology.groups(switch))
        };
        let fastest = groups().map(rate).max()?;
        if !groups().any(|group| slots::is_negligible(rate(group), fastest)) {
            return None;
        }
        let search = Search {
            topology,
            order,
            fastest,
        };
        let tiles = tiles.par_iter().map(|tile| search.avoided(tile)).collect();
        Some(Avoided { tiles })
    }

    /// The row of a switch, by its number, in a tile.
    pub(super) fn row(&self, tile: usize, switch: SwitchIdx) -> &Row {
        &self.tiles[tile][switch.index()]
    }
}

/// The rate of the fastest link of the group.
fn rate(group: Group<'_>) -> u32 {
    let rates = group.links.iter().map(|link| link.weight);
    rates.max().unwrap_or(0)
}

/// The inputs of the search for avoided switches.
struct Search<'a> {
    topology: &'a Topology,
    order: Option<&'a Order>,
    /// The rate of the fastest link of the fabric.
    fastest: u32,
}

impl Search<'_> {
    /// For each switch, a row with 1 for the columns of a tile whose packets avoid it.
    fn avoided(&self, tile: &Tile) -> Vec<Row> {
        let switches = self.topology.switch_count();
        let mut avoided = vec![[0; TILE]; switches];
        let reached = |&cost: &u8| cost != UNREACHED;
        let costs = self.topology.indices().flat_map(|switch| tile.cost(switch));
        let max_cost = costs.copied().filter(reached).max().unwrap_or(0);
        // Process the nearest switches first: each result depends on those of nearer switches.
        for cost in 1..=max_cost {
            for switch in self.topology.indices() {
                let row = tile.cost(switch);
                if row.contains(&cost) {
                    let good_paths = self.good_paths(tile, switch, cost, &avoided);
                    for column in 0..TILE {
                        if row[column] == cost {
                            avoided[switch.index()][column] = u8::from(good_paths[column] == 0);
                        }
                    }
                }
            }
        }
        avoided
    }

    /// For each column at this cost, 1 if the switch has a path whose first link is not far slower
    /// than the fastest and whose next switch is not avoided.
    fn good_paths(&self, tile: &Tile, switch: SwitchIdx, cost: u8, avoided: &[Row]) -> Row {
        let mut good_paths = [0; TILE];
        let own = &tile.down[switch.index()];
        for group in self.topology.groups(switch) {
            if slots::is_negligible(rate(group), self.fastest) {
                continue;
            }
            let neighbour = group.neighbour;
            let goes_up = self
                .order
                .is_some_and(|order| order.is_above(neighbour, switch));
            let costs = if goes_up {
                tile.cost(neighbour)
            } else {
                &tile.down[neighbour.index()]
            };
            let avoided_at_neighbour = &avoided[neighbour.index()];
            let next = nearer(cost, self.topology.hops(switch, group));
            for column in 0..TILE {
                // A switch with a path down takes no path up.
                let is_choice = costs[column] == next && (own[column] == UNREACHED) == goes_up;
                good_paths[column] |= u8::from(is_choice && avoided_at_neighbour[column] == 0);
            }
        }
        good_paths
    }
}

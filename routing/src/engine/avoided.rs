//! Switches that packets avoid because a far slower link is next on every way from there.
//!
//! Where one of a leaf's cables has trained at a fraction of its rate, the switch across that cable
//! has no other way down to the leaf. The cost of its way is that of all others; the difference is
//! only seen from afar, and costs of whole hops cannot tell it. Here it is passed on from each
//! switch to those before it, as far as these have other ways of the same cost.

use rayon::prelude::*;

use super::paths::{Row, TILE, Tile, UNREACHED, nearer};
use super::slots;
use crate::topology::{Group, Order, SwitchIdx, Topology};

/// By tile, switch and column: 1 where packets to the column avoid the switch.
pub(super) struct Avoided {
    tiles: Vec<Vec<Row>>,
}

impl Avoided {
    /// For paths of the costs `tiles`, up and down by an order if there is one; `None` where no
    /// link is far slower than the fastest.
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

    /// The row of a switch in a tile, by its number.
    pub(super) fn row(&self, tile: usize, switch: SwitchIdx) -> &Row {
        &self.tiles[tile][switch.index()]
    }
}

/// The rate of the fastest link.
fn rate(group: Group<'_>) -> u32 {
    let rates = group.links.iter().map(|link| link.weight);
    rates.max().unwrap_or(0)
}

struct Search<'a> {
    topology: &'a Topology,
    order: Option<&'a Order>,
    /// The rate of the fastest link of all.
    fastest: u32,
}

impl Search<'_> {
    /// By switch: the columns of a tile for which packets avoid it.
    fn avoided(&self, tile: &Tile) -> Vec<Row> {
        let switches = self.topology.switch_count();
        let mut avoided = vec![[0; TILE]; switches];
        let reached = |&cost: &u8| cost != UNREACHED;
        let costs = self.topology.indices().flat_map(|switch| tile.cost(switch));
        let most = costs.copied().filter(reached).max().unwrap_or(0);
        // The nearest first: each depends on nearer ones.
        for cost in 1..=most {
            for switch in self.topology.indices() {
                let row = tile.cost(switch);
                if row.contains(&cost) {
                    let open = self.open(tile, switch, cost, &avoided);
                    for column in 0..TILE {
                        if row[column] == cost {
                            avoided[switch.index()][column] = u8::from(open[column] == 0);
                        }
                    }
                }
            }
        }
        avoided
    }

    /// By column at this cost: whether a way of a switch is no far slower link, nor leads to a
    /// switch that is avoided.
    fn open(&self, tile: &Tile, switch: SwitchIdx, cost: u8, avoided: &[Row]) -> Row {
        let mut open = [0; TILE];
        let own = &tile.down[switch.index()];
        for group in self.topology.groups(switch) {
            if slots::is_negligible(rate(group), self.fastest) {
                continue;
            }
            let there = group.neighbour;
            let goes_up = self
                .order
                .is_some_and(|order| order.is_above(there, switch));
            let costs = if goes_up {
                tile.cost(there)
            } else {
                &tile.down[there.index()]
            };
            let past = &avoided[there.index()];
            let next = nearer(cost, self.topology.hops(switch, group));
            for column in 0..TILE {
                // A switch with a way down takes no way up.
                let is_way = costs[column] == next && (own[column] == UNREACHED) == goes_up;
                open[column] |= u8::from(is_way && past[column] == 0);
            }
        }
        open
    }
}

//! Infers the cables that a regular tree lacks from the cables that it has.
//!
//! Between two levels of a regular tree, the switches form *blocks*: every lower switch of a block
//! has equally many cables to every upper switch of the block, and none to other switches of that
//! level. Cables that a block lacks are missing if they are few. Missing cables belong to the known
//! fabric even if the engine has never seen them. The routes are then the same as after a loss of
//! these cables, and when the cables come, only the entries that they concern change.
//!
//! A cable is inferred only if the block shows its ports: at either end, most switches of the block
//! have their cable to that switch in the same port, and that port is free.

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::PortNum;

use super::super::choose::FAULTY_IN;
use super::numbering::DisjointSets;
use crate::topology::{HalfLink, NewCable, SwitchIdx, Topology};

/// Adds to the fabric `seen` the cables that its blocks lack. `None` if they lack none, or so many
/// that the fabric seems to be built without them. `levels` are the distances of the switches from
/// the top.
pub(super) fn with_inferred_cables(seen: &Topology, levels: &[u8]) -> Option<Topology> {
    let mut missing: Vec<NewCable> = Vec::new();
    for uplinks in uplinks_by_levels(seen, levels).values() {
        let blocks: Vec<Block<'_>> = blocks(seen, uplinks);
        let lost: usize = blocks.iter().map(Block::lost).sum();
        let built: usize = blocks.iter().map(Block::built).sum();
        if lost > 0 && lost * FAULTY_IN < built {
            missing.extend(blocks.iter().flat_map(|block| block.missing(seen)));
        }
    }
    let mut used_ends = BTreeSet::new();
    missing.retain(|cable| {
        let is_free = cable.ends.iter().all(|end| !used_ends.contains(end));
        if is_free {
            used_ends.extend(cable.ends);
        }
        is_free
    });
    (!missing.is_empty()).then(|| seen.with_cables(&missing))
}

/// The cables from one switch to one above it.
struct Uplink<'a> {
    lower: SwitchIdx,
    upper: SwitchIdx,
    links: &'a [HalfLink],
}

/// For each pair of levels, upper and lower, the cables between them, ordered by lower switch.
fn uplinks_by_levels<'a>(seen: &'a Topology, levels: &[u8]) -> BTreeMap<(u8, u8), Vec<Uplink<'a>>> {
    let level = |switch: SwitchIdx| levels[switch.index()];
    let mut found: BTreeMap<(u8, u8), Vec<Uplink<'a>>> = BTreeMap::new();
    for lower in seen.indices() {
        // For most switches, all cables upwards end at one level.
        let above: Vec<_> = seen
            .groups(lower)
            .filter(|group| level(group.neighbour) < level(lower))
            .collect();
        for groups in above.chunk_by(|one, other| level(one.neighbour) == level(other.neighbour)) {
            let between = (level(groups[0].neighbour), level(lower));
            found
                .entry(between)
                .or_default()
                .extend(groups.iter().map(|group| Uplink {
                    lower,
                    upper: group.neighbour,
                    links: group.links,
                }));
        }
    }
    found
}

/// The blocks that `uplinks`, the cables between two levels, form.
fn blocks<'a>(seen: &Topology, uplinks: &[Uplink<'a>]) -> Vec<Block<'a>> {
    let mut sets = DisjointSets::new(seen.switch_count());
    for uplink in uplinks {
        sets.join(uplink.lower.0, uplink.upper.0);
    }
    // The block of each connected set of switches, by the switch that identifies the set.
    let mut block_of: Vec<Option<usize>> = vec![None; seen.switch_count()];
    let mut sides: Vec<Sides<'a>> = Vec::new();
    // The place of each switch on its side of its block.
    let mut places: Vec<Option<usize>> = vec![None; seen.switch_count()];
    for uplink in uplinks {
        let set = sets.find(uplink.lower.0) as usize;
        let block = *block_of[set].get_or_insert_with(|| {
            sides.push(Sides::default());
            sides.len() - 1
        });
        let sides = &mut sides[block];
        let row = sides.lower.place_of(uplink.lower, &mut places);
        let column = sides.upper.place_of(uplink.upper, &mut places);
        sides.cables.push((row, column, uplink.links));
    }
    sides.into_iter().filter_map(Block::of).collect()
}

/// The switches of one side of a block, by place.
#[derive(Default)]
struct Side(Vec<SwitchIdx>);

impl Side {
    /// The place of a switch, which is added if it has none.
    fn place_of(&mut self, switch: SwitchIdx, places: &mut [Option<usize>]) -> usize {
        *places[switch.index()].get_or_insert_with(|| {
            self.0.push(switch);
            self.0.len() - 1
        })
    }
}

/// A connected set of switches of two levels, and the cables between them, each with the places of
/// its ends.
#[derive(Default)]
struct Sides<'a> {
    lower: Side,
    upper: Side,
    cables: Vec<(usize, usize, &'a [HalfLink])>,
}

/// Switches of two levels, with the cables between them.
struct Block<'a> {
    lower: Vec<SwitchIdx>,
    upper: Vec<SwitchIdx>,
    /// The cables from each lower switch to each upper one, by lower switch and then by upper
    /// switch; each as seen from the lower one.
    links: Vec<&'a [HalfLink]>,
    /// The number of cables between two switches while none is missing.
    cables_per_pair: usize,
}

impl<'a> Block<'a> {
    /// Forms the block of these switches. `None` if the maximum number of cables between two
    /// switches is not the most frequent one, or if a switch lacks cables to more than half of the
    /// other side.
    fn of(sides: Sides<'a>) -> Option<Block<'a>> {
        let (lower, upper) = (sides.lower.0, sides.upper.0);
        if sides.cables.len() * 2 < lower.len() * upper.len() {
            return None;
        }
        let mut links: Vec<&[HalfLink]> = vec![&[]; lower.len() * upper.len()];
        for (row, column, cables) in sides.cables {
            links[row * upper.len() + column] = cables;
        }
        let most = links.iter().map(|links| links.len()).max()?;
        let mut counts = vec![0usize; most + 1];
        for links in &links {
            counts[links.len()] += 1;
        }
        let is_usual = counts.iter().all(|&pairs| pairs <= counts[most]);
        let block = Block {
            lower,
            upper,
            links,
            cables_per_pair: most,
        };
        (is_usual && block.is_mostly_whole()).then_some(block)
    }

    /// Whether each switch has all its cables to at least half of the switches of the other side.
    fn is_mostly_whole(&self) -> bool {
        let (height, width) = (self.lower.len(), self.upper.len());
        let is_full = |links: &&[HalfLink]| links.len() == self.cables_per_pair;
        let mut rows = self.links.chunks(width);
        let mut columns = 0..width;
        rows.all(|row| row.iter().copied().filter(is_full).count() * 2 >= width)
            && columns.all(|column| self.column(column).filter(is_full).count() * 2 >= height)
    }

    /// The cables of each lower switch to one upper switch.
    fn column(&self, column: usize) -> impl Iterator<Item = &'a [HalfLink]> {
        let links = self.links.iter().copied();
        links.skip(column).step_by(self.upper.len())
    }

    /// The number of cables of the block while none is missing.
    fn built(&self) -> usize {
        self.links.len() * self.cables_per_pair
    }

    /// The number of missing cables.
    fn lost(&self) -> usize {
        self.built() - self.links.iter().map(|links| links.len()).sum::<usize>()
    }

    /// The missing cables whose ports the block shows.
    fn missing(&self, seen: &Topology) -> Vec<NewCable> {
        let mut missing = Vec::new();
        if self.lost() == 0 {
            return missing;
        }
        let width = self.upper.len();
        let near = |links: &[HalfLink]| sorted_ports(links, |link| link.port);
        let far = |links: &[HalfLink]| sorted_ports(links, |link| link.peer_port);
        let columns = 0..width;
        let usual_near: Vec<Option<Vec<PortNum>>> = columns
            .map(|column| self.usual_ports(self.column(column), near))
            .collect();
        let weight = self.usual_weight();
        for (&lower, row) in self.lower.iter().zip(self.links.chunks(width)) {
            if row.iter().all(|links| links.len() == self.cables_per_pair) {
                continue;
            }
            let usual_far = self.usual_ports(row.iter().copied(), far);
            for ((links, &upper), usual_near) in row.iter().zip(&self.upper).zip(&usual_near) {
                let (Some(usual_near), Some(usual_far)) = (usual_near, &usual_far) else {
                    continue;
                };
                let near = free_ports(seen, lower, usual_near, &near(links));
                let far = free_ports(seen, upper, usual_far, &far(links));
                if [near.len(), far.len()] == [self.cables_per_pair - links.len(); 2] {
                    let ends = near.into_iter().zip(far);
                    missing.extend(ends.map(|(near, far)| NewCable {
                        ends: [(lower, near), (upper, far)],
                        weight,
                    }));
                }
            }
        }
        missing
    }

    /// The ports of one switch pair's cables, as `ports` returns them, in more than half of
    /// `cables`; pairs that lack a cable do not count. `None` if no ports are so frequent.
    fn usual_ports<'l>(
        &self,
        cables: impl Iterator<Item = &'l [HalfLink]>,
        ports: impl Fn(&[HalfLink]) -> Vec<PortNum>,
    ) -> Option<Vec<PortNum>> {
        most_frequent(
            cables
                .filter(|links| links.len() == self.cables_per_pair)
                .map(ports),
        )
    }

    /// The most frequent rate of the block's cables.
    fn usual_weight(&self) -> u32 {
        let mut weights: BTreeMap<u32, usize> = BTreeMap::new();
        for link in self.links.iter().copied().flatten() {
            *weights.entry(link.weight).or_default() += 1;
        }
        let usual = weights.iter().max_by_key(|&(_, cables)| cables);
        usual.map_or(1, |(&weight, _)| weight)
    }
}

/// One port of each link, ascending.
fn sorted_ports(links: &[HalfLink], port: impl Fn(&HalfLink) -> PortNum) -> Vec<PortNum> {
    let mut ports: Vec<PortNum> = links.iter().map(port).collect();
    ports.sort_unstable();
    ports
}

/// The value that more than half of all values equal; `None` if there is none.
fn most_frequent<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let total: usize = counts.values().sum();
    let most_common = counts.into_iter().max_by_key(|&(_, count)| count)?;
    (most_common.1 * 2 > total).then_some(most_common.0)
}

/// The ports among `usual` that are free and not among `used`.
fn free_ports(
    seen: &Topology,
    switch: SwitchIdx,
    usual: &[PortNum],
    used: &[PortNum],
) -> Vec<PortNum> {
    let uses = seen.port_uses(switch);
    let is_free = |port: &PortNum| uses.get(port.index()).is_some_and(|port| port.is_unused());
    let ports = usual.iter().copied();
    ports
        .filter(|port| !used.contains(port) && is_free(port))
        .collect()
}

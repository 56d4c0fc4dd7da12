//! Computes groups of ports for adaptive routing from a topology, its tables and their order.
//!
//! The planner runs after the engine, and uses only topology, tables and order. Every port of a
//! group leads nearer to the leaf, and every sequence of choices goes up and then down by the order
//! of the routes. `verify/sets.rs` proves the sets without knowing how they were made. The group of
//! a leaf has a permanent number, so that a fault changes the ports of groups, but not the numbers
//! in entries.

mod ids;

use std::collections::BTreeSet;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use rayon::prelude::*;
use rsm_ids::{Guid, Lid, PortNum};

pub use self::ids::GroupIds;
use super::paths::{self, Neighbours, Row, TILE, Tile, UNREACHED, Ways};
use crate::tables::{AdaptiveTable, AdaptiveTables, Lft, NO_GROUP, PortMask, Tables};
use crate::topology::{HalfLink, Order, SwitchIdx, Topology};

/// The input of [`plan`].
pub struct Request<'a> {
    /// The fabric.
    pub topology: &'a Topology,
    /// The forwarding tables that will be in force with the groups.
    pub tables: &'a Tables,
    /// All switches, highest first, in the order under which the tables take shortest paths
    /// ([`Ranking::shortest`](super::Ranking::shortest)).
    pub order: &'a [Guid],
    /// The number of groups that each switch holds, including the empty group (ARInfo GroupCap); 0
    /// without adaptive routing. Switches beyond the end have no groups.
    pub capacities: &'a [u16],
    /// The group numbers of the previous plan.
    pub ids: &'a GroupIds,
    /// The LIDs of hosts that accept packets only in order. These LIDs have no groups.
    pub in_order: &'a BTreeSet<Lid>,
    /// The tables of the previous plan; equal entries share memory with them.
    pub before: Option<&'a AdaptiveTables>,
}

/// The result of [`plan`].
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptivePlan {
    /// The groups and entries.
    pub tables: AdaptiveTables,
    /// The group of each leaf, for the next plan.
    pub ids: GroupIds,
    /// The number of leaves with hosts, each of which needs a group.
    pub leaves: usize,
    /// The number of groups; less than `leaves` if switches hold fewer groups.
    pub groups: usize,
    /// The number of entries, over all switches, for hosts' LIDs that have a group.
    pub free_entries: usize,
    /// The number of entries for hosts' LIDs that have no group, over switches with adaptive
    /// routing other than the LIDs' own leaves.
    pub fixed_entries: usize,
}

/// The reason why there are no groups.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdaptiveError {
    /// The order lacks a switch of the fabric.
    #[error("the order of the routes does not have switch {guid}")]
    Unordered {
        /// The GUID of the switch.
        guid: Guid,
    },
    /// The tables belong to another fabric.
    #[error("there are tables of {tables} switches, and the fabric has {switches}")]
    OtherFabric {
        /// The number of tables.
        tables: usize,
        /// The number of switches of the fabric.
        switches: usize,
    },
}

/// A link is left out of a group if the fastest link is more than this many times as fast.
/// Forwarding tables use links by the same rule.
const MAX_RATE_RATIO: u64 = 16;

/// Computes groups for the hosts of a fabric, one for each leaf: at each switch, the ports of the
/// shortest paths to the leaf under the order of the routes.
///
/// An entry has a group if the order has a path to the LID's leaf and the forwarding port belongs
/// to the group. Otherwise packets take only the forwarding port: at the LID's own leaf, on
/// detours, and if routes take a longer path. LIDs of switches and aggregation nodes have no
/// groups.
///
/// # Errors
/// See [`AdaptiveError`].
pub fn plan(request: &Request<'_>) -> Result<AdaptivePlan, AdaptiveError> {
    let topology = request.topology;
    let order = order_of(topology, request.order)?;
    if request.tables.lfts.len() != topology.switch_count() {
        return Err(AdaptiveError::OtherFabric {
            tables: request.tables.lfts.len(),
            switches: topology.switch_count(),
        });
    }
    let (leaves, others): (Vec<SwitchIdx>, Vec<SwitchIdx>) = super::by_subtree(topology)
        .into_iter()
        .partition(|&switch| topology.hosts(switch) > 0);
    let capacity = |switch: SwitchIdx| request.capacities.get(switch.index()).copied();
    let capacity = |switch: SwitchIdx| capacity(switch).unwrap_or(0);
    let capable = topology.indices().filter(|&switch| capacity(switch) > 0);
    let last = capable.map(capacity).min().map_or(0, |least| least - 1);
    let guids: Vec<Guid> = leaves
        .iter()
        .map(|&leaf| topology.switch(leaf).guid)
        .collect();
    let ids = request.ids.assigned(&guids, last);
    let groups: Vec<u16> = guids
        .iter()
        .map(|&leaf| ids.group_of(leaf).unwrap_or(NO_GROUP))
        .collect();

    let columns = [leaves.clone(), others].concat();
    let neighbours = Neighbours::new(topology, &order);
    let mut all_groups = FixedBitSet::with_capacity(topology.group_count());
    all_groups.insert_range(..);
    let ways = Ways::new(&neighbours, &all_groups);
    let tiles: Vec<Tile> = (0..leaves.len().div_ceil(TILE))
        .into_par_iter()
        .map(|number| paths::tile(&order, ways, &columns, number * TILE))
        .collect();
    let planner = Planner {
        topology,
        neighbours: &neighbours,
        tiles: &tiles,
        leaves: &leaves,
        groups: &groups,
        common: shared_with(
            request.before,
            entries(topology, &leaves, &groups, request.in_order),
        ),
    };
    let tables: Vec<(AdaptiveTable, Count)> = topology
        .par_indices()
        .map(|switch| match capacity(switch) {
            0 | 1 => Default::default(),
            _ => planner.table(switch, request.tables.lft(switch)),
        })
        .collect();
    let (switches, counts): (Vec<AdaptiveTable>, Vec<Count>) = tables.into_iter().unzip();
    let used: BTreeSet<u16> = groups.iter().copied().collect();
    Ok(AdaptivePlan {
        tables: AdaptiveTables { switches },
        leaves: leaves.len(),
        groups: used.iter().filter(|&&group| group != NO_GROUP).count(),
        ids,
        free_entries: counts.iter().map(|count| count.free).sum(),
        fixed_entries: counts.iter().map(|count| count.fixed).sum(),
    })
}

/// The order of the switches, from the list of their GUIDs.
fn order_of(topology: &Topology, highest_first: &[Guid]) -> Result<Order, AdaptiveError> {
    let mut seen = FixedBitSet::with_capacity(topology.switch_count());
    let listed: Vec<SwitchIdx> = highest_first
        .iter()
        .filter_map(|&guid| topology.switch_by_guid(guid))
        .filter(|switch| !seen.put(switch.index()))
        .collect();
    match seen.zeroes().next() {
        // Switches are numbered with 32 bits.
        Some(missing) => Err(AdaptiveError::Unordered {
            guid: topology.switch(SwitchIdx(missing as u32)).guid,
        }),
        None => Ok(Order::listed(listed, vec![0; topology.switch_count()])),
    }
}

/// For each LID, the group of its host's leaf; [`NO_GROUP`] for LIDs that are not hosts' or that
/// accept packets only in order.
fn entries(
    topology: &Topology,
    leaves: &[SwitchIdx],
    groups: &[u16],
    in_order: &BTreeSet<Lid>,
) -> Arc<[u16]> {
    let mut entries = vec![NO_GROUP; topology.top_lid().index() + 1];
    for (&leaf, &group) in leaves.iter().zip(groups) {
        for lid in host_lids(topology, leaf).filter(|lid| !in_order.contains(lid)) {
            entries[lid.index()] = group;
        }
    }
    entries.into()
}

/// The LIDs of the hosts of a leaf.
fn host_lids(topology: &Topology, leaf: SwitchIdx) -> impl Iterator<Item = Lid> + '_ {
    let hosts = topology
        .destinations_of(leaf)
        .iter()
        .filter(|end| end.kind.is_host());
    hosts.flat_map(|end| end.lids())
}

/// Returns `entries`, or equal ones of the previous plan, so that plans share memory.
fn shared_with(before: Option<&AdaptiveTables>, entries: Arc<[u16]>) -> Arc<[u16]> {
    let tables = before.into_iter().flat_map(|before| &before.switches);
    let mut known = tables.map(AdaptiveTable::common);
    match known.find(|known| !known.is_empty()) {
        Some(known) if **known == *entries => known.clone(),
        _ => entries,
    }
}

/// The number of a switch's entries for LIDs of hosts at other switches, with and without a group.
#[derive(Clone, Copy, Default)]
struct Count {
    free: usize,
    fixed: usize,
}

/// The inputs for the tables of all switches.
struct Planner<'a> {
    topology: &'a Topology,
    neighbours: &'a Neighbours,
    /// Tiles whose columns are the leaves.
    tiles: &'a [Tile],
    leaves: &'a [SwitchIdx],
    /// The group of each leaf.
    groups: &'a [u16],
    common: Arc<[u16]>,
}

impl Planner<'_> {
    /// Computes the groups and entries of one switch, which has the forwarding table `lft`.
    fn table(&self, switch: SwitchIdx, lft: &Lft) -> (AdaptiveTable, Count) {
        let (by_group, detoured_leaves) = self.ports_by_group(switch);
        let detoured = self.lids_of(&detoured_leaves);
        let mut table = AdaptiveTable::with_entries(self.common.clone());
        let mut is_used = vec![false; by_group.len()];
        let mut count = Count::default();
        let mut fixed = Vec::new();
        let ports = lft.iter().chain(std::iter::repeat(crate::tables::NO_PATH));
        for (lid, (&group, port)) in self.common.iter().zip(ports).enumerate() {
            if group == NO_GROUP {
                continue;
            }
            let ports = by_group[usize::from(group)];
            if ports.contains(PortNum(port)) && !detoured.contains(lid) {
                is_used[usize::from(group)] = true;
                count.free += 1;
            } else {
                // Tables are indexed by LID.
                fixed.push(Lid(lid as u16));
            }
        }
        let own = host_lids(self.topology, switch)
            .filter(|lid| self.common[lid.index()] != NO_GROUP)
            .count();
        // Groups have no ports to the switch's own hosts, so all of these hosts are among `fixed`.
        count.fixed = fixed.len() - own;
        table.clear_entries_of(&fixed);
        for (group, ports) in by_group.iter().enumerate() {
            if is_used[group] {
                table.set_group(group as u16, *ports);
            }
        }
        (table, count)
    }

    /// The LIDs of the hosts of some leaves.
    fn lids_of(&self, leaves: &[SwitchIdx]) -> FixedBitSet {
        let mut lids = FixedBitSet::new();
        if !leaves.is_empty() {
            lids.grow(self.common.len());
        }
        for lid in leaves
            .iter()
            .flat_map(|&leaf| host_lids(self.topology, leaf))
        {
            lids.insert(lid.index());
        }
        lids
    }

    /// For each group, the ports that lead towards all of its leaves to which the order has a path;
    /// and the other leaves whose group has ports.
    ///
    /// Packets to an unreached leaf take a detour. The port of the detour may be in the group
    /// because of another leaf with the same group; the other ports of the group then lead packets
    /// off the detour, and some back to this switch.
    fn ports_by_group(&self, switch: SwitchIdx) -> (Vec<PortMask>, Vec<SwitchIdx>) {
        let last = self.groups.iter().copied().max().unwrap_or(NO_GROUP);
        let mut by_group: Vec<Option<PortMask>> = vec![None; usize::from(last) + 1];
        let mut detoured: Vec<(usize, SwitchIdx)> = Vec::new();
        let links = SwitchLinks::of(self.topology, self.neighbours, switch);
        for tile in self.tiles {
            let [below, above] = [&links.below, &links.above].map(|ways| {
                ways.iter()
                    .map(|to_neighbour| (to_neighbour, tile_rows(tile, to_neighbour)))
                    .collect::<Vec<_>>()
            });
            let (down, taken) = (&tile.down[switch.index()], &tile.taken[switch.index()]);
            let leaves = self.leaves[tile.first..].iter().take(TILE);
            for (column, &leaf) in leaves.enumerate() {
                let group = usize::from(self.groups[tile.first + column]);
                if leaf == switch || group == usize::from(NO_GROUP) {
                    continue;
                }
                let ports = if down[column] != UNREACHED {
                    links.nearest(&below, column, down[column], |rows| rows.0)
                } else if taken[column] != UNREACHED {
                    links.nearest(&above, column, taken[column], |rows| rows.1)
                } else {
                    detoured.push((group, leaf));
                    continue;
                };
                let shared = by_group[group].get_or_insert(ports);
                *shared = shared.intersection(ports);
            }
        }
        let by_group: Vec<PortMask> = by_group
            .into_iter()
            .map(Option::unwrap_or_default)
            .collect();
        let detoured = detoured
            .into_iter()
            .filter(|&(group, _)| !by_group[group].is_empty())
            .map(|(_, leaf)| leaf)
            .collect();
        (by_group, detoured)
    }
}

/// The costs of the neighbour at the end of some links, as rows of [`Tile::down`] and
/// [`Tile::taken`].
fn tile_rows<'t>(tile: &'t Tile, to_neighbour: &NeighbourLinks<'_>) -> (&'t Row, &'t Row) {
    (
        &tile.down[to_neighbour.neighbour],
        &tile.taken[to_neighbour.neighbour],
    )
}

/// The links to one neighbour.
struct NeighbourLinks<'a> {
    neighbour: usize,
    links: &'a [HalfLink],
    ports: PortMask,
    /// The cost of the links, in hops.
    hops: u8,
}

/// The links of one switch.
struct SwitchLinks<'a> {
    below: Vec<NeighbourLinks<'a>>,
    above: Vec<NeighbourLinks<'a>>,
    /// Whether some links are too slow to be in a group with the fastest links.
    has_slow_links: bool,
}

impl<'a> SwitchLinks<'a> {
    fn of(topology: &'a Topology, neighbours: &Neighbours, switch: SwitchIdx) -> SwitchLinks<'a> {
        let ways = |of: &[(u32, u32)]| {
            let to_neighbour = |&(neighbour, group): &(u32, u32)| {
                let links = topology.group(group as usize).links;
                NeighbourLinks {
                    neighbour: neighbour as usize,
                    links,
                    ports: links.iter().map(|link| link.port).collect(),
                    hops: neighbours.hops(group),
                }
            };
            of.iter().map(to_neighbour).collect()
        };
        let rates = topology
            .links(switch)
            .iter()
            .map(|link| u64::from(link.weight));
        let (slowest, fastest) = (rates.clone().min(), rates.max());
        SwitchLinks {
            below: ways(neighbours.below(switch)),
            above: ways(neighbours.above(switch)),
            has_slow_links: slowest.unwrap_or(0) * MAX_RATE_RATIO < fastest.unwrap_or(0),
        }
    }

    /// The ports to the neighbours over which the switch reaches a leaf at cost `cost`; `costs`
    /// selects the row of costs.
    fn nearest<'t>(
        &self,
        ways: &[(&NeighbourLinks<'_>, (&'t Row, &'t Row))],
        column: usize,
        cost: u8,
        costs: impl Fn((&'t Row, &'t Row)) -> &'t Row,
    ) -> PortMask {
        let nearer = ways
            .iter()
            .filter(|(to_neighbour, rows)| {
                costs(*rows)[column] == paths::nearer(cost, to_neighbour.hops)
            })
            .map(|&(to_neighbour, _)| to_neighbour);
        if !self.has_slow_links {
            return nearer.fold(PortMask::EMPTY, |ports, to_neighbour| {
                ports.union(to_neighbour.ports)
            });
        }
        let links = nearer.flat_map(|to_neighbour| to_neighbour.links);
        let fastest = links.clone().map(|link| u64::from(link.weight)).max();
        links
            .filter(|link| u64::from(link.weight) * MAX_RATE_RATIO >= fastest.unwrap_or(0))
            .map(|link| link.port)
            .collect()
    }
}

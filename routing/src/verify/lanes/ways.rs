//! The paths of packets to all LIDs, processed by destination switch.

use rayon::prelude::*;
use rsm_ids::Lid;

use super::LaneChannel;
use super::graph::{Graph, Packets, Set};
use crate::tables::{NO_PATH, Tables};
use crate::topology::SwitchIdx;

/// The number of destination switches that are read together: their LIDs are usually adjacent in
/// tables.
const TOGETHER: usize = 32;

/// The padding behind the elements of a row. If rows were a power of two apart, all elements of a
/// column would compete for a few lines of the cache.
const SPACE: usize = 96;

/// Adds the packets to all LIDs, where each switch may follow any of some tables, and returns the
/// first place where a packet leaves the routing's VLs.
pub(super) fn add_all(graph: &Graph<'_>, tables: &[&Tables]) -> Option<LaneChannel> {
    let switches: Vec<SwitchIdx> = graph.topology().indices().collect();
    let parts: Vec<Option<LaneChannel>> = switches
        .par_chunks(TOGETHER)
        .map_init(
            || (Batch::default(), Packets::default()),
            |(batch, packets), to| {
                batch.read(graph, tables, to);
                batch.add_to(graph, packets)
            },
        )
        .collect();
    parts.into_iter().flatten().next()
}

/// The table entries and service levels of packets to some switches.
#[derive(Default)]
struct Batch {
    switches: usize,
    tables: usize,
    /// The LIDs of the switches' destinations, each with the index of its switch in the batch.
    lids: Vec<(Lid, usize)>,
    /// The table bytes, by LID, then by table, then by switch.
    bytes: Vec<u8>,
    /// The levels of packets, by destination switch and then by the switch where they start.
    levels: Vec<Set>,
}

impl Batch {
    fn read(&mut self, graph: &Graph<'_>, tables: &[&Tables], to: &[SwitchIdx]) {
        let topology = graph.topology();
        (self.switches, self.tables) = (topology.switch_count(), tables.len());
        self.lids.clear();
        for (number, &to) in to.iter().enumerate() {
            let destinations = topology.destinations_of(to).iter();
            let lids = destinations.flat_map(|destination| destination.lids());
            self.lids.extend(lids.map(|lid| (lid, number)));
        }
        self.read_bytes(tables, to);
        let row = self.switches + SPACE;
        self.levels.clear();
        self.levels.resize(to.len() * row, 0);
        for from in topology.indices() {
            for (number, &to) in to.iter().enumerate() {
                self.levels[number * row + from.index()] = graph.own_levels(from, to);
            }
        }
    }

    fn read_bytes(&mut self, tables: &[&Tables], to: &[SwitchIdx]) {
        let row = self.switches + SPACE;
        self.bytes.clear();
        self.bytes
            .resize(self.lids.len() * self.tables * row, NO_PATH);
        for (number, tables) in tables.iter().enumerate() {
            for (from, lft) in tables.lfts.iter().take(self.switches).enumerate() {
                for (place, &(lid, _)) in self.lids.iter().enumerate() {
                    self.bytes[(place * self.tables + number) * row + from] = lft.entry(lid);
                }
            }
        }
        // The destination switch itself sends to no other.
        let rows = self.bytes.chunks_exact_mut(row);
        for (place, bytes) in rows.enumerate() {
            let (_, number) = self.lids[place / self.tables];
            bytes[to[number].index()] = NO_PATH;
        }
    }

    /// Adds the packets to each LID, and returns the first place where one leaves the routing's
    /// VLs.
    fn add_to(&self, graph: &Graph<'_>, packets: &mut Packets) -> Option<LaneChannel> {
        let row = self.switches + SPACE;
        let of_lid = |place: usize| &self.bytes[place * self.tables * row..][..self.tables * row];
        let mut outside_vls = None;
        for (place, &(_, number)) in self.lids.iter().enumerate() {
            // LIDs of one switch usually share their paths.
            let is_known =
                place > 0 && self.lids[place - 1].1 == number && of_lid(place - 1) == of_lid(place);
            if is_known {
                continue;
            }
            let rows = of_lid(place).chunks_exact(row);
            let mut ways: Vec<&[u8]> = rows.map(|bytes| &bytes[..self.switches]).collect();
            ways.dedup();
            let own = &self.levels[number * row..][..self.switches];
            let here = packets.add_to(graph, &ways, own);
            outside_vls = outside_vls.or(here);
        }
        outside_vls
    }
}

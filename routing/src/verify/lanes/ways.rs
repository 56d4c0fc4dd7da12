//! The paths of packets to all LIDs, processed by destination switch.

use rayon::prelude::*;
use rsm_ids::Lid;

use super::LaneChannel;
use super::graph::{Graph, Packets, SlSet};
use crate::tables::{NO_PATH, Tables};
use crate::topology::SwitchIdx;

/// The number of destination switches in a batch. Reading several at once is faster, because their
/// LIDs are usually adjacent in tables.
const BATCH_SWITCHES: usize = 32;

/// The number of unused elements at the end of a row. Without them, rows could be a power of two
/// apart, and all elements of a column would compete for a few cache lines.
const ROW_PADDING: usize = 96;

/// Adds the packets to all LIDs to the graph; each switch may follow any of `tables`. Returns the
/// first channel where a packet leaves the routing's VLs, or `None` if no packet does.
pub(super) fn add_all(graph: &Graph<'_>, tables: &[&Tables]) -> Option<LaneChannel> {
    let switches: Vec<SwitchIdx> = graph.topology().indices().collect();
    let parts: Vec<Option<LaneChannel>> = switches
        .par_chunks(BATCH_SWITCHES)
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

/// The table entries and service levels of packets to a few destination switches.
#[derive(Default)]
struct Batch {
    /// The number of switches of the topology.
    switches: usize,
    /// The number of tables that each switch may follow.
    tables: usize,
    /// The LIDs of the switches' destinations, each with the index of its switch in the batch.
    lids: Vec<(Lid, usize)>,
    /// The table entries (port numbers), by LID, then by table, then by switch. A row has an
    /// element for each switch, and [`ROW_PADDING`] more.
    bytes: Vec<u8>,
    /// The service levels of packets, by destination switch and then by the switch where they
    /// start, in rows like those of `bytes`.
    levels: Vec<SlSet>,
}

impl Batch {
    /// Reads the entries and levels of packets to the switches `to`.
    fn read(&mut self, graph: &Graph<'_>, tables: &[&Tables], to: &[SwitchIdx]) {
        let topology = graph.topology();
        (self.switches, self.tables) = (topology.switch_count(), tables.len());
        self.lids.clear();
        for (to_index, &to) in to.iter().enumerate() {
            let destinations = topology.destinations_of(to).iter();
            let lids = destinations.flat_map(|destination| destination.lids());
            self.lids.extend(lids.map(|lid| (lid, to_index)));
        }
        self.read_bytes(tables, to);
        let row = self.switches + ROW_PADDING;
        self.levels.clear();
        self.levels.resize(to.len() * row, 0);
        for from in topology.indices() {
            for (to_index, &to) in to.iter().enumerate() {
                self.levels[to_index * row + from.index()] = graph.own_levels(from, to);
            }
        }
    }

    /// Reads the entries of `lids` from all tables.
    fn read_bytes(&mut self, tables: &[&Tables], to: &[SwitchIdx]) {
        let row = self.switches + ROW_PADDING;
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
        // The destination switch forwards these packets to no other switch.
        let rows = self.bytes.chunks_exact_mut(row);
        for (place, bytes) in rows.enumerate() {
            let (_, to_index) = self.lids[place / self.tables];
            bytes[to[to_index].index()] = NO_PATH;
        }
    }

    /// Adds the packets to each LID to the graph. Returns the first channel where a packet leaves
    /// the routing's VLs, or `None` if no packet does.
    fn add_to(&self, graph: &Graph<'_>, packets: &mut Packets) -> Option<LaneChannel> {
        let row = self.switches + ROW_PADDING;
        let of_lid = |place: usize| &self.bytes[place * self.tables * row..][..self.tables * row];
        let mut outside_vls = None;
        for (place, &(_, to_index)) in self.lids.iter().enumerate() {
            // LIDs of one switch usually share their paths.
            let is_known = place > 0
                && self.lids[place - 1].1 == to_index
                && of_lid(place - 1) == of_lid(place);
            if is_known {
                continue;
            }
            let rows = of_lid(place).chunks_exact(row);
            let mut distinct_rows: Vec<&[u8]> = rows.map(|bytes| &bytes[..self.switches]).collect();
            distinct_rows.dedup();
            let own = &self.levels[to_index * row..][..self.switches];
            let first_outside_vls = packets.add_to(graph, &distinct_rows, own);
            outside_vls = outside_vls.or(first_outside_vls);
        }
        outside_vls
    }
}

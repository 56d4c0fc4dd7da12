//! Maps the tables of a file to the switches and LIDs of a fabric.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};

use super::{Dump, DumpedSwitch};
use crate::tables::{Lft, Tables};
use crate::topology::{Destination, EndpointKind, Topology};

/// The maximum number of [`Fit::missing_port_examples`]: enough to see a pattern, few enough to
/// read.
const MAX_EXAMPLES: usize = 8;

/// The tables of a file, by the switch numbers of a topology, and the parts that did not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// A table for each switch of the topology; empty if the file has none.
    pub tables: Tables,
    /// Switches of the topology for which the file has no table.
    pub without_table: Vec<Guid>,
    /// Switches of the file that the topology does not have.
    pub unknown_switches: Vec<Guid>,
    /// The number of LIDs of the file that were replaced by the present LIDs of their ports.
    pub moved_lids: usize,
    /// The number of LIDs of the file that belong to no port, or to another port than the file
    /// says; their entries are left out.
    pub unknown_lids: usize,
    /// The number of entries with a port that the switch does not have; they are left out.
    pub missing_ports: usize,
    /// The first entries with a missing port: the switch, the LID as in the file, and the port.
    pub missing_port_examples: Vec<(Guid, Lid, u8)>,
}

/// The translation of LIDs of the file to present LIDs.
struct Renumbering {
    /// The present LID for each unicast LID in the file; `None` if its port is unknown.
    present: Vec<Option<Lid>>,
    /// The number of LIDs for which the present LID differs.
    moved: usize,
}

impl Dump {
    /// Fits the tables to the switches of `topology`.
    ///
    /// If the file names the port of a LID and that port has other LIDs now, the entries for the
    /// LID apply to a present LID of that port.
    pub fn fit(&self, topology: &Topology) -> Fit {
        let renumbering = self.renumber(topology);
        let lids_of_file = self.switches.iter().flat_map(|switch| &switch.entries);
        let mut unknown: Vec<Lid> = lids_of_file
            .map(|&(lid, _)| lid)
            .filter(|lid| renumbering.present[lid.index()].is_none())
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        let mut fit = Fit {
            tables: Tables {
                lfts: vec![Lft::default(); topology.switch_count()],
            },
            moved_lids: renumbering.moved,
            unknown_lids: unknown.len(),
            ..Fit::default()
        };
        let mut has_table = vec![false; topology.switch_count()];
        for dumped in &self.switches {
            let Some(switch) = topology.switch_by_guid(dumped.guid) else {
                fit.unknown_switches.push(dumped.guid);
                continue;
            };
            has_table[switch.index()] = true;
            let num_ports = topology.switch(switch).num_ports;
            let lft = fill(dumped, num_ports, topology, &renumbering, &mut fit);
            fit.tables.lfts[switch.index()] = lft;
        }
        fit.without_table = topology
            .switches()
            .iter()
            .zip(has_table)
            .filter(|(_, has_table)| !has_table)
            .map(|(switch, _)| switch.guid)
            .collect();
        fit
    }

    /// Finds the present LID for each LID of the file.
    fn renumber(&self, topology: &Topology) -> Renumbering {
        let by_guid: BTreeMap<Guid, &Destination> = topology
            .destinations()
            .iter()
            .map(|destination| (destination.guid, destination))
            .collect();
        let mut moved = 0;
        let present = (0..=Lid::UNICAST_LAST.0)
            .map(Lid)
            .map(|lid| {
                let holder = topology.destination_of(lid);
                let Some(&owner) = self.owners.get(&lid) else {
                    return holder.map(|_| lid);
                };
                let Some(port) = by_guid.get(&owner) else {
                    // Port 0 may have a GUID that differs from its switch's.
                    return holder
                        .filter(|holder| holder.kind == EndpointKind::Switch0)
                        .map(|_| lid);
                };
                if port.lids().any(|own| own == lid) {
                    return Some(lid);
                }
                moved += 1;
                // The offset within the port's LIDs stays, modulo the present number of its LIDs.
                Some(Lid(port.lid.0 + lid.0 % port.lmc.lids()))
            })
            .collect();
        Renumbering { present, moved }
    }
}

/// Returns the table of one switch, and counts entries with missing ports in `fit`.
fn fill(
    dumped: &DumpedSwitch,
    num_ports: u8,
    topology: &Topology,
    renumbering: &Renumbering,
    fit: &mut Fit,
) -> Lft {
    let mut lft = Lft::new(topology.top_lid().index() + 1);
    let renumbered = |&&(lid, _): &&(Lid, u8)| renumbering.present[lid.index()] != Some(lid);
    // A later entry overwrites an earlier one. Unchanged LIDs come last, so that they win; among
    // several old LIDs for one present LID, the lowest wins.
    let (others, same): (Vec<_>, Vec<_>) = dumped.entries.iter().rev().partition(renumbered);
    for &(lid, port) in others.into_iter().chain(same) {
        let Some(new_lid) = renumbering.present[lid.index()] else {
            continue;
        };
        if PortNum(port) > PortNum(num_ports) {
            fit.missing_ports += 1;
            if fit.missing_port_examples.len() < MAX_EXAMPLES {
                fit.missing_port_examples.push((dumped.guid, lid, port));
            }
            continue;
        }
        lft.set_entry(new_lid, port);
    }
    lft
}

//! Tables of a file as tables of a fabric.

use std::collections::BTreeMap;

use rsm_ids::{Guid, Lid, PortNum};

use super::{Dump, DumpedSwitch};
use crate::tables::{Lft, Tables};
use crate::topology::{Destination, EndpointKind, Topology};

/// How many entries through missing ports are named; the count is exact.
/// Enough to see a pattern, few enough to read.
const MAX_NAMED: usize = 8;

/// The tables of a file, by the switch numbers of a topology, and the parts that did not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// A table for each switch of the topology; empty where the file has none.
    pub tables: Tables,
    /// Switches of the topology that the file has no table for.
    pub without_table: Vec<Guid>,
    /// Switches of the file that the topology does not have.
    pub unknown_switches: Vec<Guid>,
    /// How many LIDs of the file were read as others, because their port has other LIDs now.
    pub moved_lids: usize,
    /// How many LIDs of the file belong to no port, or to another port than the file says; entries
    /// for them are left out.
    pub unknown_lids: usize,
    /// How many entries name a port that the switch does not have; they are left out.
    pub missing_ports: usize,
    /// The first of these: switch, LID as in the file, port.
    pub missing_port_examples: Vec<(Guid, Lid, u8)>,
}

/// The present LID of each LID of the file.
struct Renumbering {
    /// By LID of the file.
    now: Vec<Option<Lid>>,
    moved: usize,
}

impl Dump {
    /// The tables for the switches of `topology`.
    ///
    /// Where the file names the port behind a LID and that port has other LIDs now, its entries are
    /// those of its LIDs now.
    pub fn fit(&self, topology: &Topology) -> Fit {
        let renumbering = self.renumber(topology);
        let lids_of_file = self.switches.iter().flat_map(|switch| &switch.entries);
        let mut unknown: Vec<Lid> = lids_of_file
            .map(|&(lid, _)| lid)
            .filter(|lid| renumbering.now[lid.index()].is_none())
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

    fn renumber(&self, topology: &Topology) -> Renumbering {
        let by_guid: BTreeMap<Guid, &Destination> = topology
            .destinations()
            .iter()
            .map(|destination| (destination.guid, destination))
            .collect();
        let mut moved = 0;
        let now = (0..=Lid::UNICAST_LAST.0)
            .map(Lid)
            .map(|lid| {
                let holder = topology.destination_of(lid);
                let Some(&owner) = self.owners.get(&lid) else {
                    return holder.map(|_| lid);
                };
                let Some(port) = by_guid.get(&owner) else {
                    // Port 0 may have a GUID that is not its switch's.
                    return holder
                        .filter(|holder| holder.kind == EndpointKind::Switch0)
                        .map(|_| lid);
                };
                if port.lids().any(|own| own == lid) {
                    return Some(lid);
                }
                moved += 1;
                // The path of the same number, as far as the port has so many LIDs.
                Some(Lid(port.lid.0 + lid.0 % port.lmc.lids()))
            })
            .collect();
        Renumbering { now, moved }
    }
}

fn fill(
    dumped: &DumpedSwitch,
    num_ports: u8,
    topology: &Topology,
    renumbering: &Renumbering,
    fit: &mut Fit,
) -> Lft {
    let mut lft = Lft::new(topology.top_lid().index() + 1);
    let renumbered = |&&(lid, _): &&(Lid, u8)| renumbering.now[lid.index()] != Some(lid);
    // Unchanged LIDs come last, and of several old LIDs of one new LID the lowest: those win.
    let (others, same): (Vec<_>, Vec<_>) = dumped.entries.iter().rev().partition(renumbered);
    for &(lid, port) in others.into_iter().chain(same) {
        let Some(now) = renumbering.now[lid.index()] else {
            continue;
        };
        if PortNum(port) > PortNum(num_ports) {
            fit.missing_ports += 1;
            if fit.missing_port_examples.len() < MAX_NAMED {
                fit.missing_port_examples.push((dumped.guid, lid, port));
            }
            continue;
        }
        lft.set_entry(now, port);
    }
    lft
}

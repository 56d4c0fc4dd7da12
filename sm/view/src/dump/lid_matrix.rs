//! Writes the hops between switches in the form of OpenSM's LID matrix.

use std::io::{self, Write};

use rsm_ids::PortNum;

use super::hops::NO_PATH;
use super::source::DumpSource;

/// Writes `opensm-lid-matrix.dump`: the number of hops from each switch, through each of its ports,
/// to each switch. OpenSM reads the file with `-M`.
///
/// # Errors
/// The file cannot be written.
pub fn lid_matrix(source: &DumpSource<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (from, node, _) in source.switches() {
        writeln!(out, "Switch: guid {}", node.guid)?;
        for lid in 1..=source.max_lid() {
            let Some((to, destination, port)) = source.owner(lid) else {
                continue;
            };
            // OpenSM keeps hops only for base LIDs: all LIDs of a switch have the same number of
            // hops.
            if destination.tables.is_none() || port.lid.index() != lid {
                continue;
            }
            if source.hops.least(from, to) == NO_PATH {
                continue;
            }
            write!(out, "0x{lid:04x}:")?;
            for hops in source.hops.by_port(from, to, usize::from(node.num_ports)) {
                write!(out, " {hops:02x}")?;
            }
            let guid = destination
                .ports
                .get(&PortNum::ZERO)
                .map_or(destination.guid, |port| port.guid);
            writeln!(out, " # portguid {guid}")?;
        }
    }
    Ok(())
}

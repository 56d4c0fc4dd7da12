use std::io::{self, Write};

use rsm_ids::PortNum;

use super::hops::NO_PATH;
use super::source::DumpSource;

/// Writes `opensm-lid-matrix.dump`: the hops from each switch by each of its ports to each switch,
/// which OpenSM reads back with `-M`.
pub fn lid_matrix(source: &DumpSource<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (from, node, _) in source.switches() {
        writeln!(out, "Switch: guid {}", node.guid)?;
        for lid in 1..=source.max_lid() {
            let Some((to, owner, port)) = source.owner(lid) else {
                continue;
            };
            // OpenSM keeps hops only for base LIDs; the same paths reach a switch's other LIDs.
            if owner.tables.is_none() || port.lid.index() != lid {
                continue;
            }
            if source.hops.least(from, to) == NO_PATH {
                continue;
            }
            write!(out, "0x{lid:04x}:")?;
            for hops in source.hops.by_port(from, to, usize::from(node.num_ports)) {
                write!(out, " {hops:02x}")?;
            }
            let guid = owner
                .ports
                .get(&PortNum::ZERO)
                .map_or(owner.guid, |p| p.guid);
            writeln!(out, " # portguid {guid}")?;
        }
    }
    Ok(())
}

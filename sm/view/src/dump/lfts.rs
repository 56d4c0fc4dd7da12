use std::io::{self, Write};

use rsm_ids::PortNum;

use super::source::DumpSource;
use super::text;

/// Writes `opensm-lfts.dump`: the forwarding tables, which OpenSM reads back with `-U`.
pub fn lfts(source: &DumpSource<'_>, out: &mut dyn Write) -> io::Result<()> {
    let max = source.max_lid();
    for (_, node, tables) in source.switches() {
        let lid = node.ports.get(&PortNum::ZERO).map_or(0, |port| port.lid.0);
        write!(
            out,
            "Unicast lids [0-{max}] of switch Lid {lid} guid {} ('",
            node.guid
        )?;
        text::description(out, node.description)?;
        writeln!(out, "'):")?;
        for (lid, port) in tables.linear.iter().enumerate().take(max + 1) {
            if port > node.num_ports {
                continue;
            }
            write!(out, "0x{lid:04x} {port:03} # ")?;
            match source.owner(lid) {
                Some((_, owner, port)) => {
                    write!(out, "{} portguid {}: '", text::kind(owner.kind), port.guid)?;
                    text::description(out, owner.description)?;
                    writeln!(out, "'")?;
                }
                None => writeln!(out, "unknown node and type")?,
            }
        }
        // OpenSM writes the highest LID here, not the number of entries.
        writeln!(out, "{max} lids dumped")?;
    }
    Ok(())
}

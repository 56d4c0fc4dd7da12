use std::collections::BTreeMap;
use std::io::{self, Write};

use super::source::DumpSource;

/// Writes `guid2lid`: the LIDs of each port, which OpenSM reads at its start.
pub fn guid2lid(source: &DumpSource<'_>, out: &mut dyn Write) -> io::Result<()> {
    let ports = source.nodes.iter().flat_map(|node| node.ports.values());
    let claims: BTreeMap<_, _> = ports
        .filter(|port| port.lid.is_unicast())
        .map(|port| (port.guid, port))
        .collect();
    for (guid, port) in claims {
        let first = port.lid.0;
        let last = first.saturating_add(port.lmc.lids() - 1);
        write!(out, "{guid} 0x{first:04x} 0x{last:04x}\n\n")?;
    }
    Ok(())
}

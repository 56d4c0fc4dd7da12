//! Groups and entries as text, for programs that check them.

use std::io::{self, Write};

use rsm_ids::Lid;

use super::{AdaptiveTables, NO_GROUP};
use crate::tables::Tables;
use crate::topology::Topology;

/// Writes the ports of each group of each switch, then the port and the group of each LID:
///
/// ```text
/// Switch 0x1070fd0300000040
/// Group  : Ports
/// 0x0001 : 005 006
/// LID    : Port : Group
/// 0x0001 : 000  : none
/// 0x0015 : 005  : 0x0001
/// ```
///
/// Packets to a LID leave by any port of its group. Packets that must stay in order, and packets to
/// a LID without a group, leave by the LID's port. LIDs without a port have no line.
///
/// # Errors
/// Errors of writing to `out`.
pub fn write_text(
    topology: &Topology,
    tables: &Tables,
    adaptive: &AdaptiveTables,
    out: &mut dyn Write,
) -> io::Result<()> {
    for switch in topology.indices() {
        writeln!(out, "Switch {}", topology.switch(switch).guid)?;
        let table = adaptive.table(switch);
        writeln!(out, "Group  : Ports")?;
        for (group, ports) in table.into_iter().flat_map(|table| table.groups()) {
            write!(out, "{group:#06x} :")?;
            for port in ports.ports() {
                write!(out, " {:03}", port.0)?;
            }
            writeln!(out)?;
        }
        writeln!(out, "LID    : Port : Group")?;
        for lid in (1..=topology.top_lid().0).map(Lid) {
            let Some(port) = tables.lft(switch).port(lid) else {
                continue;
            };
            write!(out, "{:#06x} : {:03}  : ", lid.0, port.0)?;
            match table.map_or(NO_GROUP, |table| table.group_of(lid)) {
                NO_GROUP => writeln!(out, "none")?,
                group => writeln!(out, "{group:#06x}")?,
            }
        }
    }
    Ok(())
}

use std::io::{self, Write};

use rsm_ids::{Lid, PortNum};

use super::hops::NO_PATH;
use super::source::DumpSource;

/// Port number in a linear forwarding table that makes the switch drop packets.
const DROP: u8 = 0xff;

/// Writes `opensm.fdbs`: the port by which each switch sends packets to each LID, and whether the
/// path is a shortest one.
pub fn fdbs(source: &DumpSource<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (switch, node, tables) in source.switches() {
        writeln!(out, "dump_ucast_routes: Switch {}", node.guid)?;
        writeln!(out, "LID    : Port : Hops : Optimal")?;
        for lid in 1..=source.max_lid() {
            write!(out, "0x{lid:04X} : ")?;
            let port = tables.linear.entry(Lid(lid as u16));
            match source.owner(lid) {
                Some(owner) if port != DROP => {
                    let target = Target::of(source, owner);
                    write_entry(source, out, switch, PortNum(port), target)?;
                }
                _ => writeln!(out, "UNREACHABLE")?,
            }
        }
    }
    Ok(())
}

/// Destination of a LID, as switches route to it.
struct Target {
    /// Node index of the switch that owns the LID, or to which the owner is cabled; `None` if the
    /// owner is not cabled to a switch.
    switch: Option<usize>,
    /// Port of that switch that leads to the owner; `None` if the switch itself owns the LID.
    leaf_port: Option<PortNum>,
}

impl Target {
    fn of(
        source: &DumpSource<'_>,
        (index, node, port): (usize, &super::DumpNode<'_>, &super::DumpPort),
    ) -> Target {
        if node.tables.is_some() {
            let switch = Some(index);
            let leaf_port = None;
            return Target { switch, leaf_port };
        }
        let link = port.link;
        let peer = link.and_then(|link| super::source::index_of(&source.nodes, link.node));
        Target {
            switch: peer.filter(|&peer| source.nodes[peer].tables.is_some()),
            leaf_port: link.map(|link| link.port),
        }
    }
}

fn write_entry(
    source: &DumpSource<'_>,
    out: &mut dyn Write,
    switch: usize,
    port: PortNum,
    target: Target,
) -> io::Result<()> {
    let at_leaf = target.switch == Some(switch) && target.leaf_port.is_some();
    let hops = match target.switch {
        Some(_) if at_leaf => 0,
        Some(to) => source.hops.via(switch, port, to),
        None => NO_PATH,
    };
    let Some(to) = target.switch.filter(|_| hops != NO_PATH) else {
        return writeln!(out, "{:03}  : HOPS UNKNOWN", port.0);
    };
    // The last hop leads from the leaf switch to the end node.
    let last = u8::from(target.leaf_port.is_some());
    let least = source.hops.least(switch, to);
    write!(
        out,
        "{:03}  : {:02}   : ",
        port.0,
        hops.saturating_add(last)
    )?;
    if hops == least {
        return writeln!(out, "yes");
    }
    let best = (1..=source.nodes[switch].num_ports)
        .map(PortNum)
        .find(|&port| source.hops.via(switch, port, to) == least)
        .unwrap_or_default();
    let least = least.saturating_add(last);
    writeln!(out, "No {least} hop path possible via port {best}!")
}

/// Writes `opensm.mcfdbs`: the ports by which each switch sends packets to each multicast LID.
pub fn mcfdbs(source: &DumpSource<'_>, out: &mut dyn Write) -> io::Result<()> {
    for (_, node, tables) in source.switches() {
        let mut groups = tables
            .multicast
            .iter()
            .filter(|(_, ports)| !ports.is_empty());
        let Some(first) = groups.next() else { continue };
        write!(out, "\nSwitch {}\nLID    : Out Port(s)\n", node.guid)?;
        for (Lid(lid), ports) in std::iter::once(first).chain(groups) {
            write!(out, "0x{lid:04X} :")?;
            for PortNum(port) in ports {
                write!(out, " 0x{port:03X} ")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

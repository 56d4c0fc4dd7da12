//! Writes netlists in the form of `ibnetdiscover`.

use std::io::{self, Write};

use rsm_ids::{Lid, Lmc, PortNum};

use super::text::escape;
use crate::netlist::{CableEnd, Netlist, Node, NodeKind};

/// Writes a fabric as `ibnetdiscover` would print it.
///
/// [`parse`](super::parse) reads the same netlist back from the output. `ibsim` can read the output
/// if no line has more than 254 bytes, as is so if descriptions need few escapes. The output
/// depends only on the netlist: it has no date and no user's name.
///
/// # Errors
/// The errors of `out`. The output is written in many small pieces, so `out` should be buffered.
pub fn write(netlist: &Netlist, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "#\n# Topology file: {} switches, {} channel adapters, {} routers, {} cables\n#",
        netlist.count(NodeKind::Switch),
        netlist.count(NodeKind::Ca),
        netlist.count(NodeKind::Router),
        netlist.cables().len(),
    )?;
    let mut quoted = Vec::new();
    for (index, node) in netlist.nodes().iter().enumerate() {
        write_header(node, &mut quoted, out)?;
        for port in (1..=node.num_ports).map(PortNum) {
            write_port(netlist, (index, port), &mut quoted, out)?;
        }
    }
    Ok(())
}

/// Writes a node's attributes and its header. `quoted` is memory for reuse.
fn write_header(node: &Node, quoted: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nvendid={:#x}", node.vendor_id)?;
    writeln!(out, "devid={:#x}", node.device_id)?;
    if !node.system_image_guid.is_zero() {
        writeln!(out, "sysimgguid={:#x}", node.system_image_guid.0)?;
    }
    let (attribute, word) = match node.kind {
        NodeKind::Switch => ("switchguid", "Switch"),
        NodeKind::Ca => ("caguid", "Ca"),
        NodeKind::Router => ("rtguid", "Rt"),
    };
    write!(out, "{attribute}={:#x}", node.guid.0)?;
    // Switches have no line for port 0: its address is in the header.
    let port0 = (node.kind == NodeKind::Switch).then(|| node.ports.get(&PortNum::ZERO));
    if let Some(Some(spec)) = port0 {
        write!(out, "({:x})", spec.guid.0)?;
    }
    write!(
        out,
        "\n{word}\t{} \"{}\"\t\t# \"",
        node.num_ports,
        node.id()
    )?;
    write_description(node, quoted, out)?;
    out.write_all(b"\"")?;
    if let Some(spec) = port0 {
        write!(
            out,
            " {} port 0 lid {} lmc {}",
            if node.enhanced_port0 {
                "enhanced"
            } else {
                "base"
            },
            spec.map_or(Lid::NONE, |spec| spec.lid),
            spec.map_or(Lmc::ZERO, |spec| spec.lmc),
        )?;
    }
    out.write_all(b"\n")
}

/// Writes the line of a port: a link, or a comment for a port without a cable that has an address.
fn write_port(
    netlist: &Netlist,
    end: CableEnd,
    quoted: &mut Vec<u8>,
    out: &mut impl Write,
) -> io::Result<()> {
    let node = &netlist.nodes()[end.0];
    let own = node
        .ports
        .get(&end.1)
        .filter(|_| node.kind != NodeKind::Switch);
    let Some(cable) = netlist.cable(end) else {
        return match own {
            Some(spec) => writeln!(
                out,
                "# [{}]({:x}) lid {} lmc {}",
                end.1, spec.guid.0, spec.lid, spec.lmc
            ),
            None => Ok(()),
        };
    };
    write!(out, "[{}]", end.1)?;
    if let Some(spec) = own {
        write!(out, "({:x}) ", spec.guid.0)?;
    }
    let (peer_index, peer_port) = cable.across(end);
    let peer = &netlist.nodes()[peer_index];
    write!(out, "\t\"{}\"[{peer_port}]", peer.id())?;
    if peer.kind != NodeKind::Switch
        && let Some(spec) = peer.ports.get(&peer_port)
    {
        write!(out, "({:x}) ", spec.guid.0)?;
    }
    out.write_all(b"\t\t# ")?;
    if node.kind != NodeKind::Switch {
        let spec = node.port(end.1);
        write!(out, "lid {} lmc {} ", spec.lid, spec.lmc)?;
    }
    out.write_all(b"\"")?;
    write_description(peer, quoted, out)?;
    writeln!(out, "\" lid {} {}", peer.port(peer_port).lid, cable.rate())
}

/// Writes a node's description with escapes.
fn write_description(node: &Node, quoted: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    quoted.clear();
    escape(&node.description, quoted);
    out.write_all(quoted)
}

use std::io::{self, Write};

use rsm_ids::{Lid, PortNum};
use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};

use super::source::{DumpLink, DumpNode, DumpSource, LinkState, index_of};
use super::text;

/// Writes `opensm-subnet.lst`: one line for each end of each link.
pub fn subnet_lst(source: &DumpSource<'_>, out: &mut dyn Write) -> io::Result<()> {
    for node in &source.nodes {
        for (&number, port) in &node.ports {
            let Some(link) = port.link.filter(|_| number != PortNum::ZERO) else {
                continue;
            };
            let Some(peer) = index_of(&source.nodes, link.node) else {
                continue;
            };
            // OpenSM writes the vendor with 6 digits at the near end, and with 8 at the far end.
            // OpenSM also shifts the far end's device by 16 bits, a mistake that rsm does not
            // repeat; ibdmchk accepts both.
            end(source, out, node, number, 6)?;
            end(source, out, &source.nodes[peer], link.port, 8)?;
            let DumpLink {
                width,
                speed,
                state,
                ..
            } = link;
            let (width, state, speed) = (width_text(width), state_text(state), speed_text(speed));
            writeln!(out, "PHY={width} LOG={state} SPD={speed}")?;
        }
    }
    Ok(())
}

/// Writes one end of a link; `vendor_width` is the number of digits of the vendor ID.
fn end(
    source: &DumpSource<'_>,
    out: &mut dyn Write,
    node: &DumpNode<'_>,
    number: PortNum,
    vendor_width: usize,
) -> io::Result<()> {
    let kind = match node.kind {
        NodeKind::Switch => "SW",
        NodeKind::Ca => "CA",
        NodeKind::Router => "Rt",
    };
    let port = node.ports.get(&number).copied().unwrap_or_default();
    // Port 0 of a switch has the switch's LID.
    let lid = match node.kind {
        NodeKind::Switch => node.ports.get(&PortNum::ZERO).map(|p| p.lid),
        _ => Some(port.lid),
    };
    let lid = lid.unwrap_or_default();
    let is_sm = lid != Lid::NONE && lid == source.sm_lid;
    let sm = if is_sm { "-SM" } else { "" };
    let DumpNode {
        num_ports,
        system_image_guid,
        guid,
        vendor_id,
        device_id,
        revision,
        ..
    } = node;
    write!(
        out,
        "{{ {kind}{sm} Ports:{num_ports:02X} SystemGUID:{:016x} NodeGUID:{:016x} PortGUID:{:016x} \
         VenID:{vendor_id:0vendor_width$X} DevID:{device_id:04X} Rev:{revision:08X} {{",
        system_image_guid.0, guid.0, port.guid.0
    )?;
    text::description(out, node.description)?;
    write!(out, "}} LID:{:04X} PN:{:02X} }} ", lid.0, number.0)
}

const fn width_text(width: LinkWidth) -> &'static str {
    match width {
        LinkWidth::X1 => "1x",
        LinkWidth::X2 => "2x",
        LinkWidth::X4 => "4x",
        LinkWidth::X8 => "8x",
        LinkWidth::X12 => "12x",
    }
}

/// The speed of one lane in Gb/s. For speeds that OpenSM does not know, OpenSM writes `??`; rsm
/// continues the series.
const fn speed_text(speed: LinkSpeed) -> &'static str {
    match speed {
        LinkSpeed::Sdr => "2.5",
        LinkSpeed::Ddr => "5",
        LinkSpeed::Qdr => "10",
        LinkSpeed::Fdr10 => "FDR10",
        LinkSpeed::Fdr => "14",
        LinkSpeed::Edr => "25",
        LinkSpeed::Hdr => "50",
        LinkSpeed::Ndr => "100",
        LinkSpeed::Xdr => "200",
    }
}

const fn state_text(state: LinkState) -> &'static str {
    match state {
        LinkState::Down => "DWN",
        LinkState::Init => "INI",
        LinkState::Armed => "ARM",
        LinkState::Active => "ACT",
    }
}

//! Explains why a host, or a device of a host, is missing.

use std::fmt::Write as _;

use crate::Analysis;
use crate::fabric::FormerPlace;
use crate::host::Host;
use crate::join::{Joined, NotJoined};

/// Writes each port of the host that is not in the fabric, with the reason and the remedy; writes
/// nothing if all ports are in the fabric.
pub(super) fn missing_ports(
    out: &mut String,
    analysis: &Analysis,
    host: &Host,
) -> std::fmt::Result {
    let fabric = analysis.fabric.as_ref();
    let absent = fabric.and_then(|fabric| fabric.absent_host(&host.name));
    let ports = host.inventory.hca_ports.iter().zip(&host.joined);
    let missing = ports.filter_map(|(port, joined)| match joined {
        Joined::Not(reason) => Some((port, *reason)),
        Joined::Port { .. } => None,
    });
    for (place, (port, reason)) in missing.enumerate() {
        if place == 0 {
            writeln!(out, "\nnot in the fabric")?;
        }
        let device = port.device.as_ref();
        let former = absent.and_then(|absent| absent.devices.get(device?));
        match (reason, former) {
            (NotJoined::Down | NotJoined::NotInFabric, Some(former)) => {
                writeln!(out, "  {:<12} {}", port.label(), former_place(former))?;
            }
            _ => writeln!(out, "  {:<12} {}", port.label(), reason_and_remedy(reason))?,
        }
    }
    Ok(())
}

/// The sentence about the place where a port was last.
fn former_place(former: &FormerPlace) -> String {
    format!("it was at {former}: look at the cable there, and at `ibstat` on the host")
}

/// The reason why a port is not in the fabric, and what to do.
const fn reason_and_remedy(reason: NotJoined) -> &'static str {
    match reason {
        NotJoined::Ethernet => {
            "its link type is Ethernet; for InfiniBand: `mlxconfig -d ADDRESS set LINK_TYPE_P1=1`, and restart the host"
        }
        NotJoined::Down => {
            "the host says that it is not Active: look at its cable, and at `ibstat`"
        }
        NotJoined::NotInFabric => {
            "no port of the fabric has its GUIDs or its name: look at its cable; a matrix has no GUIDs, `rsmctl gpu probe` has"
        }
        NotJoined::Ambiguous => {
            "several ports of the fabric have its name: import `rsmctl gpu probe`, which has GUIDs"
        }
        NotJoined::Taken => "another host claims the port: import the inventories of both again",
        NotJoined::VirtualFunction => "a virtual function: hints name its physical function",
    }
}

/// Explains why a host without an inventory is unknown, and what to do.
pub fn why_unknown(analysis: &Analysis, host: &str) -> String {
    let shown = host.escape_debug();
    let mut out = format!("nothing is known of GPU host `{shown}`: ");
    let Some(fabric) = &analysis.fabric else {
        out.push_str("it has no inventory, and there is no fabric yet");
        return out;
    };
    let absent = fabric.absent_host(host);
    // Writing to a string cannot fail.
    let _ = match (fabric.devices(host), absent) {
        (Some(devices), _) => write!(
            out,
            "the fabric has {} devices of it, and it has no inventory: run `rsm-agent` there, or import \
             `rsmctl gpu probe` of it, or a machine type",
            devices.len()
        ),
        (None, Some(absent)) => write!(
            out,
            "it has no inventory, and left the fabric: its first port was at {}",
            absent.first
        ),
        (None, None) => write!(
            out,
            "it has no inventory, and no device of the fabric is named after it. On the host, `ibstat` lists the \
             adapters: without any, load the driver (`modprobe mlx5_ib`); with link type Ethernet, set \
             LINK_TYPE_P1=1; with state Down, look at the cables; with another name, see its first line. \
             `rsmctl gpu hosts` lists the hosts that are known"
        ),
    };
    out
}

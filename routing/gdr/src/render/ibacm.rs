use std::fmt::Write as _;

use super::RenderError;
use super::ports::{find_host, of_fabric};
use crate::fabric::FabricPort;
use crate::hints::walk;
use crate::{Analysis, JoinError};

/// Writes the paths of a host's ports for ibacm (`route_preload opensm_full_v1`). A block for each
/// port of the fabric tells ibacm the owner of each LID; the blocks of this host's ports also
/// contain paths.
///
/// `rate_code` returns the code of a rate in tenths of Gb/s (IBA 15.2.5.16). Destinations with a
/// rate or MTU without a code, or without a path in the tables, are marked `UNREACHABLE`. ibacm
/// accepts only base LIDs.
///
/// # Errors
/// There is no fabric, the host is unknown, or none of its ports is in the fabric.
pub fn ibacm_paths(
    analysis: &Analysis,
    host: &str,
    rate_code: impl Fn(u16) -> Option<u8>,
) -> Result<String, RenderError> {
    let (_, entry) = find_host(analysis, host)?;
    let fabric = analysis.fabric.as_ref().ok_or(JoinError::NoFabric)?;
    let mut mine: Vec<&FabricPort> = (0..entry.joined.len())
        .filter_map(|port| of_fabric(analysis, entry, port))
        .collect();
    mine.sort_by_key(|port| port.guid);
    if mine.is_empty() {
        return Err(RenderError::NotInFabric(host.to_owned()));
    }
    // Zero is the default service level of a queue pair.
    let sl = analysis.config.sl.unwrap_or_default();
    let mut out = String::new();
    for port in fabric.ports() {
        let _ = writeln!(
            out,
            "Channel Adapter {}, base LID {}, LMC {}",
            port.guid, port.lid, port.lmc
        );
        if mine
            .binary_search_by_key(&port.guid, |port| port.guid)
            .is_err()
        {
            continue;
        }
        for peer in fabric.ports() {
            let arrives = fabric.tables.as_ref().is_none_or(|tables| {
                walk(&fabric.topology, tables, port.leaf, peer.lid, |_, _| {}).is_ok()
            });
            let rate = rate_code(port.rate_tenth_gbps.min(peer.rate_tenth_gbps));
            match (arrives, rate, mtu_code(port.mtu.min(peer.mtu))) {
                (true, Some(rate), Some(mtu)) => {
                    let _ = writeln!(out, "{} {sl}:{mtu}:{rate}", peer.lid);
                }
                _ => {
                    let _ = writeln!(out, "{} UNREACHABLE", peer.lid);
                }
            }
        }
    }
    Ok(out)
}

/// The code of an MTU in bytes (IBA 15.2.5.16); `None` for any other size.
const fn mtu_code(bytes: u16) -> Option<u8> {
    match bytes {
        256 => Some(1),
        512 => Some(2),
        1024 => Some(3),
        2048 => Some(4),
        4096 => Some(5),
        _ => None,
    }
}

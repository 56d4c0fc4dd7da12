//! Ports of the fabric that several hosts claim, and inventories that belong to another host.

use std::collections::{BTreeMap, BTreeSet};

use super::fabric::GpuFabric;
use super::hosts::HostRecord;
use super::join::{HostJoin, JoinKey, Joined, NotJoined, described, join};

/// A port of a host that has the GUIDs of another host's port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// The position of the port in the inventory of the host that lost the claim.
    pub(super) port: usize,
    /// The position of the host that holds the fabric's port.
    pub(super) holder: usize,
    /// The position of the port in the holder's inventory.
    pub(super) holders_port: usize,
}

/// The origin of an inventory that is not the host's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum InventoryOrigin {
    /// The GUIDs belong to this host of the fabric.
    OtherHost(String),
    /// The fabric has none of the inventory's GUIDs, and has all of the host's ports under other
    /// GUIDs.
    Unknown,
}

/// The faults in the match of one host's ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct JoinFaults {
    /// The conflicts between keys.
    pub(super) conflicts: Vec<super::join::JoinConflict>,
    /// The ports that the fabric has by name, but with other GUIDs.
    pub(super) unknown_guids: Vec<usize>,
    /// The ports that another host holds.
    pub(super) claims: Vec<Claim>,
    /// The origin of the inventory, if it is not this host.
    pub(super) foreign: Option<InventoryOrigin>,
}

/// Decides which host holds each port of the fabric, and returns the matches with their faults, by
/// host.
pub(super) fn resolve_claims(
    records: &[(String, HostRecord)],
    joins: Vec<HostJoin>,
    fabric: &GpuFabric,
) -> Vec<(Vec<Joined>, JoinFaults)> {
    let mut out: Vec<(Vec<Joined>, JoinFaults)> = records
        .iter()
        .zip(joins)
        .map(|((name, record), own)| {
            let foreign = foreign_origin(name, &own, fabric);
            let own = match foreign {
                // A foreign inventory is used like a machine type: its names belong to this host,
                // its GUIDs do not.
                Some(_) => HostJoin {
                    unknown_guids: Vec::new(),
                    ..join(name, &record.inventory.as_machine_type(), fabric)
                },
                None => own,
            };
            let faults = JoinFaults {
                conflicts: own.conflicts,
                unknown_guids: own.unknown_guids,
                claims: Vec::new(),
                foreign,
            };
            (own.joined, faults)
        })
        .collect();
    let mut claimed: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    for (place, (joined, _)) in out.iter().enumerate() {
        for (port, joined) in joined.iter().enumerate() {
            if let Some(index) = joined.port() {
                claimed.entry(index).or_default().push((place, port));
            }
        }
    }
    let mut taken: BTreeSet<u32> = claimed.keys().copied().collect();
    for (index, mut claims) in claimed {
        if claims.len() < 2 {
            continue;
        }
        // The holder is the host in the node's description, else the host with the strongest key,
        // else the first host.
        claims.sort_by_key(|&(place, port)| {
            let (name, record) = &records[place];
            let names_it =
                described(name, &record.inventory.hca_ports[port], fabric) == Some(index);
            let join_key = match out[place].0[port] {
                Joined::Port { by, .. } => by,
                Joined::Not(_) => JoinKey::Description,
            };
            (!names_it, join_key, place, port)
        });
        let (holder, holders_port) = claims[0];
        for &(place, port) in &claims[1..] {
            let (name, record) = &records[place];
            let (joined, faults) = &mut out[place];
            let own = described(name, &record.inventory.hca_ports[port], fabric);
            joined[port] = match own.filter(|own| taken.insert(*own)) {
                Some(fabric) => Joined::Port {
                    fabric,
                    by: JoinKey::Description,
                },
                None => Joined::Not(NotJoined::Taken),
            };
            faults.conflicts.retain(|conflict| conflict.port != port);
            faults.claims.push(Claim {
                port,
                holder,
                holders_port,
            });
        }
    }
    out
}

/// The real origin of an inventory whose GUIDs are not this host's: the host of the fabric that has
/// at least three quarters of the GUIDs, or an unknown host if the fabric has none of them. `None`
/// if the inventory is the host's own, or if the fabric does not have the host by name.
fn foreign_origin(name: &str, own: &HostJoin, fabric: &GpuFabric) -> Option<InventoryOrigin> {
    let name = fabric.described_host(name)?;
    let by_guid =
        |joined: &&Joined| matches!(joined, Joined::Port { by, .. } if *by < JoinKey::Description);
    let joined: Vec<u32> = own
        .joined
        .iter()
        .filter(by_guid)
        .filter_map(|joined| joined.port())
        .collect();
    let known = joined.len();
    if known == 0 {
        let unknown = own.unknown_guids.len();
        return (unknown > 1).then_some(InventoryOrigin::Unknown);
    }
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for &index in &joined {
        if let Some((host, _)) = fabric.port(index).host_and_device()
            && host != name
        {
            *others.entry(host).or_default() += 1;
        }
    }
    let (host, count) = others.into_iter().max_by_key(|&(_, count)| count)?;
    (known > 1 && 4 * count >= 3 * known).then(|| InventoryOrigin::OtherHost(host.to_owned()))
}

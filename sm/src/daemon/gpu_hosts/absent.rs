//! Finds the hosts of nodes that have left the fabric.

use std::collections::{BTreeMap, BTreeSet};

use rsm_gdr::fabric::{AbsentHost, FormerPlace, GpuFabric, host_and_device};
use rsm_gdr::hosts::GpuInventory;
use rsm_ids::Guid;
use rsm_view::publish::GoneNode;

/// A host and one of its devices, by name.
type Device<'a> = (&'a str, &'a str);

/// Hosts whose nodes are missing, each with the former places of its devices.
///
/// A node belongs to the host in its description, or to the host of the inventory that has its GUID
/// if the description names none. An inventory under another name is believed if no inventory has
/// the described name, and the fabric has no node of the inventory's name: one host then has two
/// names. Every other inventory with the GUID is a claimant's.
pub(super) fn absent(
    gone: &[GoneNode],
    inventory: &GpuInventory,
    fabric: &GpuFabric,
) -> BTreeMap<String, AbsentHost> {
    let mut hosts: BTreeMap<String, AbsentHost> = BTreeMap::new();
    if gone.is_empty() {
        return hosts;
    }
    let mut claims: BTreeMap<Guid, Vec<Device<'_>>> = BTreeMap::new();
    for (host, record) in inventory.hosts() {
        for port in &record.inventory.hca_ports {
            if let Some((guid, device)) = port.node_guid.zip(port.device.as_deref()) {
                let of_node = claims.entry(guid).or_default();
                // The ports of one adapter have one node GUID.
                if of_node.last() != Some(&(host, device)) {
                    of_node.push((host, device));
                }
            }
        }
    }
    let described = gone
        .iter()
        .filter_map(|node| host_and_device(&node.description));
    let names = Names {
        inventories: inventory.hosts().keys().map(|name| first(name)).collect(),
        gone: described.map(|(name, _)| first(name)).collect(),
        fabric,
    };
    for node in gone {
        let claims = claims.get(&node.guid).map_or(&[][..], Vec::as_slice);
        let described = host_and_device(&node.description);
        let Some((host, device)) = names.owner(described, claims) else {
            continue;
        };
        let described = described.map(|(name, _)| name);
        let former = FormerPlace {
            place: node.place.clone(),
            until: node.until.clone(),
            other_name: described
                .filter(|name| !is_one_host(name, host))
                .map(str::to_owned),
        };
        let of_host = hosts.entry(host.to_owned()).or_insert_with(|| AbsentHost {
            devices: BTreeMap::new(),
            first: former.clone(),
            claimants: BTreeSet::new(),
        });
        of_host.devices.insert(device.to_owned(), former);
        let claimants = claims.iter().map(|&(claimant, _)| claimant);
        let claimants = claimants.filter(|claimant| !is_one_host(claimant, host));
        of_host.claimants.extend(claimants.map(str::to_owned));
    }
    hosts
}

/// Names of hosts that distinguish a second name of a host from another host.
struct Names<'a> {
    /// First parts of the names of inventories.
    inventories: BTreeSet<&'a str>,
    /// First parts of the names in the descriptions of missing nodes.
    gone: BTreeSet<&'a str>,
    fabric: &'a GpuFabric,
}

impl Names<'_> {
    /// The host and the device that a node was, from the node's description and the inventories
    /// that have its GUID; `None` if neither names a host.
    fn owner<'a>(
        &self,
        described: Option<Device<'a>>,
        claims: &[Device<'a>],
    ) -> Option<Device<'a>> {
        let Some((host, _)) = described else {
            return claims.first().copied();
        };
        let own = claims.iter().find(|(name, _)| is_one_host(name, host));
        let alias = match claims {
            [only] if !self.inventories.contains(first(host)) && !self.is_node(only.0) => {
                Some(only)
            }
            _ => None,
        };
        own.or(alias).copied().or(described)
    }

    /// Whether a node, present or missing, is described as a device of the host.
    fn is_node(&self, host: &str) -> bool {
        self.gone.contains(first(host)) || self.fabric.described_host(host).is_some()
    }
}

/// Whether two names can be those of one host: they are equal, or only one of them has a domain.
fn is_one_host(one: &str, other: &str) -> bool {
    one == other || first(one) == other || one == first(other)
}

/// First part of a host's name, without the domain.
fn first(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rsm_gdr::import::{InventoryFormat, import};
    use rsm_routing::generate::generate;
    use rsm_routing::topology::Topology;

    use super::*;

    /// Node GUID of the adapter of `host-900`, which has left the fabric.
    const GONE: u64 = 0x900;

    /// The missing hosts after the adapter of `host-900` has left; each inventory has one adapter,
    /// `mlx5_0`, with that node GUID.
    fn absent_after(description: &str, inventories: &[(&str, u64)]) -> Vec<(String, AbsentHost)> {
        let netlist = generate("superpod:su=1").expect("a published fabric");
        let topology = Arc::new(Topology::from_netlist(&netlist).expect("LIDs suffice"));
        let fabric = GpuFabric::from_netlist(&netlist, topology, None, 4096);
        let mut inventory = GpuInventory::new();
        for &(name, guid) in inventories {
            let text = r#"{"version":1,"gpus":[{"index":0}],"tiers":[["PIX"]],
                "hca_ports":[{"device":"mlx5_0","port":1}]}"#;
            let host = import(InventoryFormat::Json, text.as_bytes());
            let mut host = host.expect("our own format");
            host.hca_ports[0].node_guid = Some(Guid(guid));
            inventory.insert(name, host, 0).expect("a plain name");
        }
        let gone = GoneNode {
            guid: Guid(GONE),
            description: description.to_owned(),
            place: "leaf-01 port 9".to_owned(),
            until: "noon".to_owned(),
        };
        absent(&[gone], &inventory, &fabric).into_iter().collect()
    }

    /// The name of the only missing host, its other name, and the claimants of its place.
    fn only(hosts: &[(String, AbsentHost)]) -> (&str, Option<&str>, Vec<&str>) {
        let [(name, host)] = hosts else {
            panic!("{hosts:?}");
        };
        let claimants = host.claimants.iter().map(String::as_str).collect();
        (name, host.first.other_name.as_deref(), claimants)
    }

    #[test]
    fn a_missing_node_belongs_to_the_host_of_its_description_whoever_claims_its_guid() {
        let own = ("host-900", GONE);
        type Case<'a> = (&'a [(&'a str, u64)], &'a [&'a str]);
        let cases: [Case<'_>; 7] = [
            (&[], &[]),
            (&[own], &[]),
            (&[("host-900.example.com", GONE)], &[]),
            // A host of the fabric, a name before and a name behind the right one.
            (&[("host-001", GONE)], &["host-001"]),
            (&[own, ("a", GONE), ("z", GONE)], &["a", "z"]),
            // The host's inventory has other GUIDs since its adapter was exchanged.
            (&[("host-900", 0x901), ("z", GONE)], &["z"]),
            (&[("a", GONE), ("z", GONE)], &["a", "z"]),
        ];
        for (inventories, claimants) in cases {
            let hosts = absent_after("host-900 mlx5_0", inventories);
            let (name, other_name, found) = only(&hosts);
            assert_eq!(first(name), "host-900", "{inventories:?}");
            assert_eq!((other_name, &found[..]), (None, claimants));
        }
    }

    #[test]
    fn the_only_inventory_with_the_guid_of_a_missing_node_may_be_a_second_name_of_its_host() {
        let hosts = absent_after("host-900 mlx5_0", &[("gpu-9", GONE)]);
        assert_eq!(only(&hosts), ("gpu-9", Some("host-900"), vec![]));
        let shown = hosts[0].1.first.to_string();
        assert_eq!(shown, "leaf-01 port 9 until noon (there called host-900)");
    }

    #[test]
    fn a_missing_node_without_a_host_in_its_description_belongs_to_the_first_claimant() {
        let model = "MT4129 ConnectX7   Mellanox Technologies";
        assert_eq!(absent_after(model, &[]), []);
        let hosts = absent_after(model, &[("gpu-9", GONE), ("gpu-8", GONE)]);
        assert_eq!(only(&hosts), ("gpu-8", None, vec!["gpu-9"]));
    }
}

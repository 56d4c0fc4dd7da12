//! Tests of hosts whose names have a domain in the fabric, in the inventories, or in both.

use std::sync::Arc;

use rsm_gdr::fabric::GpuFabric;
use rsm_gdr::generate::{Fleet, FleetFaults, fleet};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::render::slurm_tree;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_routing::generate::generate;
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

const DOMAIN: &str = "gpu.example.com";

fn unit() -> Fleet {
    let netlist = generate("superpod:su=1").expect("a published fabric");
    fleet(netlist, FleetFaults::default()).expect("hosts with plain names")
}

/// A copy of the fabric in which the node descriptions have `name(host)` as the name of each host.
fn described(netlist: &Netlist, name: impl Fn(&str) -> String) -> Netlist {
    let (mut nodes, cables) = netlist.clone().into_parts();
    for node in &mut nodes {
        let text = node.name();
        if let Some((host, device)) = text.split_once(' ')
            && host.starts_with("host-")
        {
            node.description = format!("{} {device}", name(host)).into_bytes();
        }
    }
    Netlist::new(nodes, cables).expect("other names")
}

/// The inventories under the names `name(host)`, with GUIDs only if `guids` is set.
fn named(fleet: &Fleet, guids: bool, name: impl Fn(&str) -> String) -> GpuInventory {
    let mut inventory = GpuInventory::new();
    for (host, record) in fleet.inventory.hosts() {
        let mut own = HostInventory::clone(&record.inventory);
        for port in own.hca_ports.iter_mut().filter(|_| !guids) {
            (port.port_guid, port.node_guid, port.system_image_guid) = (None, None, None);
        }
        inventory.insert(&name(host), own, 0).expect("a plain name");
    }
    inventory
}

fn analyse(netlist: &Netlist, inventory: &GpuInventory) -> Analysis {
    let topology = Arc::new(Topology::from_netlist(netlist).expect("LIDs suffice"));
    let fabric = GpuFabric::from_netlist(netlist, topology, None, 4096);
    Analysis::new(inventory, Some(fabric), AnalysisConfig::default())
}

fn with_domain(host: &str) -> String {
    format!("{host}.{DOMAIN}")
}

#[test]
fn hosts_with_a_domain_on_either_side_join_by_the_name_before_the_first_dot() {
    let fleet = unit();
    let long = described(&fleet.netlist, with_domain);
    for guids in [true, false] {
        for (netlist, inventory) in [
            (&fleet.netlist, named(&fleet, guids, with_domain)),
            (&long, named(&fleet, guids, str::to_owned)),
            (&long, named(&fleet, guids, with_domain)),
        ] {
            let mut inventory = inventory;
            let like = inventory
                .hosts()
                .values()
                .next()
                .expect("hosts")
                .inventory
                .clone();
            // A host of the fabric without an inventory would be one more host of the machine type.
            inventory
                .insert_machine_type("dgx", &like)
                .expect("the inventory has room for a machine type");
            inventory
                .set_default(Some("dgx"))
                .expect("the machine type was inserted");
            let analysis = analyse(netlist, &inventory);
            assert_eq!(analysis.hosts.len(), 32);
            assert_eq!(analysis.findings, []);
            assert!(
                analysis
                    .hints
                    .iter()
                    .flatten()
                    .all(|hint| hint.rail.is_some())
            );
            let tree = slurm_tree(&analysis).expect("hosts in the fabric");
            let nodes: Vec<&str> = tree.split(" Nodes=").skip(1).collect();
            assert_eq!(nodes.len(), 1, "{tree}");
            let one = inventory.hosts().keys().next().expect("hosts");
            let folded = one.contains('.') || nodes[0].trim() == "host-[001-032]";
            assert!(folded && nodes[0].split(',').count() <= 32, "{tree}");
        }
    }
}

#[test]
fn hosts_of_the_same_name_in_two_domains_are_two_hosts() {
    let fleet = unit();
    let other = |host: &str| format!("{host}.{}", if host < "host-017" { "a" } else { "b" });
    // Hosts 1 to 16 of one domain have the names of hosts 17 to 32 of the other.
    let twice = |host: &str| {
        let number: usize = host["host-".len()..].parse().expect("a number");
        other(host).replace(host, &format!("host-{:03}", (number - 1) % 16 + 1))
    };
    let netlist = described(&fleet.netlist, twice);
    let analysis = analyse(&netlist, &named(&fleet, false, twice));
    assert_eq!(analysis.findings, []);
    assert_eq!(analysis.hosts.len(), 32);
    // A name without a domain fits a host of each domain, so that it joins neither.
    let mut inventory = GpuInventory::new();
    let host = &fleet.inventory.hosts()["host-001"].inventory;
    let mut host = HostInventory::clone(host);
    for port in &mut host.hca_ports {
        (port.port_guid, port.node_guid, port.system_image_guid) = (None, None, None);
    }
    inventory.insert("host-001", host, 0).expect("a plain name");
    let analysis = analyse(&netlist, &inventory);
    assert!(
        analysis.hosts[0]
            .joined
            .iter()
            .all(|joined| joined.port().is_none())
    );
}

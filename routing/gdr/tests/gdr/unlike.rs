//! Tests of hosts with more devices than their peers, or with other devices.

use rsm_gdr::findings::GpuFindingKind as Kind;
use rsm_gdr::generate::{FleetFaults, Storage};
use rsm_gdr::inventory::{Gpu, HcaPort, HostInventory, LinkLayer, NvLink, Tier};

use crate::faults::{World, fabric};
use crate::table::findings;

/// Adds a port with the tier NODE to every GPU.
fn add_port(host: &mut HostInventory, port: HcaPort) {
    let ports = host.hca_ports.len();
    let rows: Vec<Vec<Option<Tier>>> = host.tiers.chunks(ports).map(<[_]>::to_vec).collect();
    host.hca_ports.push(port);
    let longer = |mut row: Vec<Option<Tier>>| {
        row.push(Some(Tier::Node));
        row
    };
    host.tiers = rows.into_iter().flat_map(longer).collect();
}

fn ethernet(name: &str, pci: &str) -> HcaPort {
    let mut port = HcaPort::new(Some(name.to_owned()));
    port.pci = pci.parse().ok();
    port.link_layer = Some(LinkLayer::Ethernet);
    port.active = Some(true);
    port
}

/// The findings about 16 hosts with eight compute adapters and two storage adapters each, after
/// `change` of the fourth host: the kind, the ports and the host of each finding.
fn world(change: impl Fn(&mut World, &str)) -> Vec<(Kind, Vec<String>, String)> {
    let faults = FleetFaults {
        storage: Storage::Far,
        ..FleetFaults::default()
    };
    let mut world = World::new(&fabric(16), faults);
    change(&mut world, "host-004");
    let summary = |finding: &rsm_gdr::findings::GpuFinding| {
        let ports = finding.ports.iter().map(|port| port.device.clone());
        (finding.kind, ports.collect(), finding.host.clone())
    };
    findings(world).iter().map(summary).collect()
}

#[test]
fn an_additional_ethernet_adapter_does_not_replace_a_missing_adapter() {
    let host = "host-004".to_owned();
    let found = world(|world, name| {
        world.remove_port(name, 2);
        add_port(world.host(name), ethernet("mlx5_20", "00f0:01:00.0"));
    });
    assert_eq!(found, [(Kind::HcaMissing, vec![], host)]);
    // An additional Ethernet adapter makes no other machine type.
    let found = world(|world, name| {
        add_port(world.host(name), ethernet("mlx5_20", "00f0:01:00.0"));
    });
    assert_eq!(found, []);
}

#[test]
fn a_moved_storage_adapter_and_a_missing_compute_adapter_are_two_findings() {
    let host = "host-004".to_owned();
    let found = world(|world, name| {
        world.remove_port(name, 2);
        // The second storage adapter, now at position 8 of the list, gets another address.
        world.host(name).hca_ports[8].pci = "00f0:01:00.0".parse().ok();
    });
    let kinds: Vec<_> = found.iter().map(|found| (found.0, &found.1[..])).collect();
    let moved = ["mlx5_9".to_owned()];
    assert_eq!(
        kinds,
        [(Kind::HcaMissing, &[][..]), (Kind::HcaMoved, &moved[..])]
    );
    assert!(found.iter().all(|found| found.2 == host));
}

#[test]
fn a_host_with_one_gpu_more_is_of_another_machine_type() {
    let found = world(|world, name| {
        let host = world.host(name);
        let ports = host.hca_ports.len();
        let (first, index) = (host.gpus[0].clone(), host.gpus.len() as u16);
        let pci = "00f0:02:00.0".parse().ok();
        host.gpus.push(Gpu {
            index,
            pci,
            ..first
        });
        let row = host.tiers[..ports].to_vec();
        host.tiers.extend(row);
        let links = host.nvlinks[0].links;
        host.nvlinks
            .extend((0..index).map(|a| NvLink { a, b: index, links }));
        host.nvlinks.sort_by_key(|link| (link.a, link.b));
    });
    assert_eq!(
        found,
        [(Kind::OtherMachineType, vec![], "host-004".to_owned())]
    );
}

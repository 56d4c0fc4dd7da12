//! Hosts that have more than those built like them, or other devices.

use rsm_gdr::findings::GpuFindingKind as Kind;
use rsm_gdr::generate::{FleetFaults, Storage};
use rsm_gdr::inventory::{Gpu, HcaPort, HostInventory, LinkLayer, NvLink, Tier};

use crate::faults::{World, fabric};
use crate::table::findings;

/// Adds a port without a GPU near it.
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

/// 16 hosts with eight compute adapters and two for storage, of which the fourth is changed.
fn world(change: impl Fn(&mut World, &str)) -> Vec<(Kind, Vec<String>, String)> {
    let faults = FleetFaults {
        storage: Storage::Far,
        ..FleetFaults::default()
    };
    let mut world = World::new(&fabric(16), faults);
    change(&mut world, "host-004");
    let told = |finding: &rsm_gdr::findings::GpuFinding| {
        let ports = finding.ports.iter().map(|port| port.device.clone());
        (finding.kind, ports.collect(), finding.host.clone())
    };
    findings(world).iter().map(told).collect()
}

#[test]
fn an_ethernet_adapter_is_not_the_one_that_is_missing() {
    let host = "host-004".to_owned();
    let found = world(|world, name| {
        world.remove_port(name, 2);
        add_port(world.host(name), ethernet("mlx5_20", "00f0:01:00.0"));
    });
    assert_eq!(found, [(Kind::HcaMissing, vec![], host)]);
    // More Ethernet than others is no other machine type.
    let found = world(|world, name| {
        add_port(world.host(name), ethernet("mlx5_20", "00f0:01:00.0"));
    });
    assert_eq!(found, []);
}

#[test]
fn a_storage_adapter_in_another_slot_is_not_a_missing_compute_adapter() {
    let host = "host-004".to_owned();
    let found = world(|world, name| {
        world.remove_port(name, 2);
        // The second storage adapter, in the list now at 8, has another address.
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

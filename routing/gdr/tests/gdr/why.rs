//! Answers to "why do I see no device", for a host by its name.

use std::collections::BTreeMap;

use rsm_gdr::fabric::{AbsentHost, FormerPlace};
use rsm_gdr::render::{describe, why_unknown};

use crate::faults::{Fault, fabric, with};
use crate::table::analysed;

#[test]
fn adapter_outside_the_fabric_has_its_reason_and_the_command_that_mends_it() {
    let (world, expected) = with(Fault::EthernetMode, &fabric(16), 16, 0);
    let analysis = analysed(world);
    for host in &analysis.hosts {
        let told = describe(&analysis, &host.name).expect("a known host");
        let is_ethernet = told.contains("\nnot in the fabric\n")
            && told.contains("its link type is Ethernet")
            && told.contains("set LINK_TYPE_P1=1");
        assert_eq!(is_ethernet, expected.hosts.contains(&host.name), "{told}");
    }
}

#[test]
fn settings_of_pcie_are_told_with_their_commands() {
    for (fault, command) in [
        (Fault::AcsRedirect, "ECAP_ACS+6.w=0"),
        (Fault::IommuTranslates, "iommu.passthrough=1"),
        (Fault::StrictOrdering, "CAP_EXP+8.w=10:10"),
        (Fault::WithoutGdr, "modprobe nvidia_peermem"),
    ] {
        let (world, expected) = with(fault, &fabric(16), 16, 0);
        let analysis = analysed(world);
        for host in &expected.hosts {
            let told = describe(&analysis, host).expect("a known host");
            assert!(told.contains(command), "{fault:?}: {told}");
        }
    }
}

fn former() -> FormerPlace {
    FormerPlace {
        place: "leaf-01 port 7".to_owned(),
        until: "an hour ago".to_owned(),
    }
}

#[test]
fn adapter_that_left_the_fabric_has_the_cable_where_it_was() {
    let (world, expected) = with(Fault::GuidUnknown, &fabric(16), 16, 0);
    let mut analysis = analysed(world);
    let host = expected.hosts.first().expect("a host").clone();
    let device = expected.ports.first().expect("a port").split(' ').nth(1);
    let device = device.expect("host and device").to_owned();
    let told = describe(&analysis, &host).expect("a known host");
    assert!(
        told.contains("no port of the fabric has its GUIDs"),
        "{told}"
    );
    let absent = AbsentHost {
        devices: BTreeMap::from([(device.clone(), former())]),
        first: former(),
    };
    let fabric = analysis.fabric.as_mut().expect("a fabric");
    fabric.absent.insert(host.clone(), absent);
    let told = describe(&analysis, &host).expect("a known host");
    let line = told.lines().find(|line| line.contains(" it was at "));
    let line = line.unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(&device), "{line}");
    assert!(
        line.contains("at leaf-01 port 7 until an hour ago: look at the cable there"),
        "{line}"
    );
}

#[test]
fn host_without_inventory_is_told_from_one_that_left_and_one_that_never_came() {
    let (world, expected) = with(Fault::WithoutInventory, &fabric(16), 16, 0);
    let mut analysis = analysed(world);
    let host = expected.hosts.first().expect("a host");
    let told = why_unknown(&analysis, host);
    assert!(told.contains("the fabric has 10 devices of it"), "{told}");
    assert!(told.contains("rsm-agent"), "{told}");
    let absent = AbsentHost {
        devices: BTreeMap::new(),
        first: former(),
    };
    let fabric = analysis.fabric.as_mut().expect("a fabric");
    fabric.absent.insert("host-900".to_owned(), absent);
    let told = why_unknown(&analysis, "host-900.example.com");
    assert!(
        told.contains("at leaf-01 port 7 until an hour ago"),
        "{told}"
    );
    let told = why_unknown(&analysis, "nobody\n");
    assert!(
        told.contains("`nobody\\n`") && told.contains("modprobe mlx5_ib"),
        "{told}"
    );
}

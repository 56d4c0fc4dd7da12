use std::collections::BTreeMap;

use rsm_ids::Lmc;

use super::*;

fn node(kind: NodeKind, guid: u64, num_ports: u8) -> Node {
    Node {
        kind,
        guid: Guid(guid),
        system_image_guid: Guid::ZERO,
        vendor_id: 0x2c9,
        device_id: 0xd2f0,
        description: format!("node {guid}").into_bytes(),
        num_ports,
        enhanced_port0: false,
        ports: BTreeMap::new(),
    }
}

fn cable(a: (usize, u8), b: (usize, u8)) -> Cable {
    Cable {
        a: (a.0, PortNum(a.1)),
        b: (b.0, PortNum(b.1)),
        width: LinkWidth::X4,
        speed: LinkSpeed::Hdr,
    }
}

/// Two switches with four ports, and a host with two.
fn two_switches_and_a_host() -> Vec<Node> {
    vec![
        node(NodeKind::Switch, 0x10, 4),
        node(NodeKind::Switch, 0x20, 4),
        node(NodeKind::Ca, 0x30, 2),
    ]
}

#[test]
fn cables_given_in_any_order_are_found_from_both_ends() {
    let forward = [
        cable((0, 1), (1, 2)),
        cable((2, 1), (0, 3)),
        cable((1, 3), (1, 4)),
    ];
    let mut backward = forward.map(|c| Cable {
        a: c.b,
        b: c.a,
        ..c
    });
    backward.reverse();
    let netlist = Netlist::new(two_switches_and_a_host(), forward.to_vec()).unwrap();
    assert_eq!(
        netlist,
        Netlist::new(two_switches_and_a_host(), backward.to_vec()).unwrap()
    );

    let peer = |node, port| netlist.peer((node, PortNum(port))).map(|(n, p)| (n, p.0));
    assert_eq!(peer(0, 1), Some((1, 2)));
    assert_eq!(peer(1, 2), Some((0, 1)));
    assert_eq!(peer(0, 3), Some((2, 1)));
    assert_eq!(peer(1, 4), Some((1, 3)));
    assert_eq!(peer(0, 2), None);
    assert_eq!(peer(0, 0), None);
    assert_eq!(peer(0, 5), None);
    assert_eq!(peer(3, 1), None);
}

#[test]
fn a_loop_back_plug_is_its_own_peer() {
    let netlist = Netlist::new(two_switches_and_a_host(), vec![cable((0, 1), (0, 1))]).unwrap();
    let end = (0, PortNum(1));
    assert_eq!(netlist.peer(end), Some(end));
    assert!(netlist.cables()[0].is_loop());
}

#[test]
fn names_are_identifiers_guids_and_unambiguous_descriptions() {
    let mut nodes = two_switches_and_a_host();
    nodes[1].description = b"twin".to_vec();
    nodes[2].description = b"twin".to_vec();
    let netlist = Netlist::new(nodes, vec![]).unwrap();
    assert_eq!(netlist.by_name("S-0000000000000020"), Some(1));
    assert_eq!(netlist.by_name("H-0000000000000020"), None);
    assert_eq!(netlist.by_name("0x30"), Some(2));
    assert_eq!(netlist.by_name("node 16"), Some(0));
    assert_eq!(netlist.by_name("twin"), None);
}

#[test]
fn unstated_ports_have_derived_guids_and_no_lid() {
    let mut nodes = two_switches_and_a_host();
    let stated = PortSpec {
        guid: Guid(0x99),
        lid: Lid(7),
        lmc: Lmc::ZERO,
    };
    nodes[2].ports.insert(PortNum(2), stated);
    assert_eq!(nodes[0].port(PortNum(3)).guid, Guid(0x10));
    assert_eq!(nodes[2].port(PortNum(1)).guid, Guid(0x31));
    assert_eq!(nodes[2].port(PortNum(1)).lid, Lid::NONE);
    assert_eq!(nodes[2].port(PortNum(2)), stated);
    let netlist = Netlist::new(nodes, vec![]).unwrap();
    assert_eq!(netlist.by_port_guid(Guid(0x99)), Some((2, PortNum(2))));
}

#[test]
fn impossible_fabrics_are_refused() {
    let with = |change: fn(&mut Vec<Node>), cables: &[Cable]| {
        let mut nodes = two_switches_and_a_host();
        change(&mut nodes);
        Netlist::new(nodes, cables.to_vec()).map(|_| ())
    };
    let keep = |_: &mut Vec<Node>| {};
    let spec = PortSpec {
        guid: Guid(0x99),
        lid: Lid::NONE,
        lmc: Lmc::ZERO,
    };
    let id = || "S-0000000000000010".to_owned();

    assert_eq!(
        with(keep, &[cable((0, 1), (1, 1)), cable((2, 1), (0, 1))]),
        Err(NetlistError::PortInUse {
            id: id(),
            port: PortNum(1)
        })
    );
    assert_eq!(
        with(keep, &[cable((0, 5), (1, 1))]),
        Err(NetlistError::NoSuchPort {
            id: id(),
            port: PortNum(5),
            num_ports: 4
        })
    );
    assert_eq!(
        with(keep, &[cable((0, 0), (1, 1))]),
        Err(NetlistError::NoSuchPort {
            id: id(),
            port: PortNum(0),
            num_ports: 4
        })
    );
    assert_eq!(
        with(keep, &[cable((0, 1), (3, 1))]),
        Err(NetlistError::NoSuchNode {
            cable: 0,
            node: 3,
            count: 3
        })
    );
    assert_eq!(
        with(|nodes| nodes[2].guid = Guid(0x10), &[]),
        Err(NetlistError::DuplicateNodeGuid {
            guid: Guid(0x10),
            first: 0,
            second: 2
        })
    );
    assert_eq!(
        with(|nodes| nodes[1].guid = Guid::ZERO, &[]),
        Err(NetlistError::ZeroGuid { index: 1 })
    );
    assert_eq!(
        with(|nodes| nodes[0].num_ports = 255, &[]),
        Err(NetlistError::PortCount {
            id: id(),
            num_ports: 255
        })
    );
    assert_eq!(
        with(|nodes| nodes[0].description = vec![b'x'; 65], &[]),
        Err(NetlistError::DescriptionTooLong { id: id(), len: 65 })
    );
    assert_eq!(
        with(|nodes| nodes[0].description = b"a\0b".to_vec(), &[]),
        Err(NetlistError::DescriptionNul {
            id: id(),
            offset: 1
        })
    );
    assert_eq!(
        with(|nodes| nodes[0].vendor_id = 1 << 24, &[]),
        Err(NetlistError::VendorId {
            id: id(),
            vendor_id: 1 << 24
        })
    );
    assert_eq!(
        with(|nodes| nodes[2].enhanced_port0 = true, &[]),
        Err(NetlistError::PortZeroOfNoSwitch {
            id: "H-0000000000000030".to_owned()
        })
    );

    let mut nodes = two_switches_and_a_host();
    nodes[0].ports.insert(PortNum(1), spec);
    assert_eq!(
        Netlist::new(nodes, vec![]),
        Err(NetlistError::NotAnEndPort {
            id: id(),
            port: PortNum(1)
        })
    );
    let mut nodes = two_switches_and_a_host();
    nodes[0].ports.insert(PortNum(0), spec);
    nodes[2].ports.insert(PortNum(2), spec);
    assert_eq!(
        Netlist::new(nodes, vec![]),
        Err(NetlistError::DuplicatePortGuid {
            guid: Guid(0x99),
            first: 0,
            first_port: PortNum(0),
            second: 2,
            second_port: PortNum(2),
        })
    );
    let mut nodes = two_switches_and_a_host();
    nodes.resize_with(MAX_NODES + 1, || node(NodeKind::Ca, 1, 1));
    assert_eq!(
        Netlist::new(nodes, vec![]),
        Err(NetlistError::TooManyNodes {
            count: MAX_NODES + 1
        })
    );
}

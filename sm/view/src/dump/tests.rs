use std::collections::BTreeMap;
use std::io::{self, Write};

use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};
use rsm_routing::tables::Lft;

use super::*;

const SPINE: Guid = Guid(0x10);
const LEAF: Guid = Guid(0x20);
const OTHER: Guid = Guid(0x30);
const HOST: Guid = Guid(0x40);

fn link(node: Guid, port: u8) -> Option<DumpLink> {
    Some(DumpLink {
        node,
        port: PortNum(port),
        width: LinkWidth::X4,
        speed: LinkSpeed::Ndr,
        state: LinkState::Active,
    })
}

fn node<'a>(guid: Guid, kind: NodeKind, lid: u16, links: &[(u8, Guid, u8)]) -> DumpNode<'a> {
    let switch = kind == NodeKind::Switch;
    let port = |link| DumpPort {
        guid,
        lid: if switch { Lid::NONE } else { Lid(lid) },
        lmc: Lmc::ZERO,
        link,
    };
    let mut ports: BTreeMap<PortNum, DumpPort> = links
        .iter()
        .map(|&(number, peer, at)| (PortNum(number), port(link(peer, at))))
        .collect();
    if switch {
        let lid = Lid(lid);
        ports.insert(PortNum::ZERO, DumpPort { lid, ..port(None) });
    }
    DumpNode {
        kind,
        guid,
        system_image_guid: guid,
        vendor_id: 0x2c9,
        device_id: 0xd2f2,
        revision: 0xa0,
        description: b"sw\n{1}\0rest",
        num_ports: 3,
        ports,
        tables: switch.then(DumpTables::default),
    }
}

/// Two leaves under a spine, a link between the leaves, and a host on one of them.
fn triangle<'a>() -> Vec<DumpNode<'a>> {
    vec![
        node(HOST, NodeKind::Ca, 4, &[(1, LEAF, 3)]),
        node(SPINE, NodeKind::Switch, 1, &[(1, LEAF, 1), (2, OTHER, 1)]),
        node(
            LEAF,
            NodeKind::Switch,
            2,
            &[(1, SPINE, 1), (2, OTHER, 2), (3, HOST, 1)],
        ),
        node(OTHER, NodeKind::Switch, 3, &[(1, SPINE, 2), (2, LEAF, 2)]),
    ]
}

type Writer = fn(&DumpSource<'_>, &mut dyn Write) -> io::Result<()>;

fn text(write: Writer, source: &DumpSource<'_>) -> String {
    let mut out = Vec::new();
    write(source, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn up_down_hops_leave_out_illegal_turns() {
    let shortest = DumpSource::new(triangle(), Lid(4), HopRule::Shortest).unwrap();
    assert_eq!(
        text(lid_matrix, &shortest).lines().nth(6),
        Some("0x0002: 00 02 02 ff # portguid 0x0000000000000020")
    );
    // LEAF lies above OTHER: no legal path leads from SPINE over OTHER to LEAF.
    let order = [SPINE, LEAF, OTHER];
    let ranked = DumpSource::new(triangle(), Lid(4), HopRule::UpDown(&order)).unwrap();
    let shown = text(lid_matrix, &ranked);
    let rows: Vec<_> = shown
        .lines()
        .map(|line| line.split(" #").next().unwrap())
        .collect();
    assert_eq!(
        rows,
        [
            "Switch: guid 0x0000000000000010",
            "0x0001: 00 ff ff ff",
            "0x0002: 01 01 ff ff",
            "0x0003: 01 02 01 ff",
            "Switch: guid 0x0000000000000020",
            "0x0001: 01 01 ff ff",
            "0x0002: 00 02 ff ff",
            "0x0003: 01 02 01 ff",
            "Switch: guid 0x0000000000000030",
            "0x0001: 01 01 02 ff",
            "0x0002: 01 02 01 ff",
            "0x0003: 00 02 02 ff",
        ]
    );
    // Unlisted switches are below all others.
    let partly = DumpSource::new(triangle(), Lid(4), HopRule::UpDown(&order[..1])).unwrap();
    assert_eq!(text(lid_matrix, &partly), shown);
}

#[test]
fn fdbs_names_the_better_port_of_a_detour() {
    let mut nodes = triangle();
    nodes[1].tables = Some(DumpTables {
        linear: Lft::from_entries(&[255, 0, 1, 1, 1]),
        ..DumpTables::default()
    });
    nodes[2].tables = Some(DumpTables {
        linear: Lft::from_entries(&[255, 2, 0, 9, 3]),
        ..DumpTables::default()
    });
    nodes[3].tables = Some(DumpTables {
        linear: Lft::from_entries(&[255, 1, 2]),
        ..DumpTables::default()
    });
    let source = DumpSource::new(nodes, Lid(4), HopRule::Shortest).unwrap();
    let shown = text(fdbs, &source);
    let rows: Vec<_> = shown
        .lines()
        .filter(|line| line.starts_with("0x"))
        .collect();
    assert_eq!(
        rows,
        [
            "0x0001 : 000  : 00   : yes",
            "0x0002 : 001  : 01   : yes",
            "0x0003 : 001  : 02   : No 1 hop path possible via port 2!",
            "0x0004 : 001  : 02   : yes",
            "0x0001 : 002  : 02   : No 1 hop path possible via port 1!",
            "0x0002 : 000  : 00   : yes",
            "0x0003 : 009  : HOPS UNKNOWN",
            "0x0004 : 003  : 01   : yes",
            "0x0001 : 001  : 01   : yes",
            "0x0002 : 002  : 01   : yes",
            "0x0003 : UNREACHABLE",
            "0x0004 : UNREACHABLE",
        ]
    );
}

#[test]
fn tables_are_read_back_from_either_dump() {
    let mut nodes = triangle();
    for (node, entries) in [
        (1, &[255, 0, 1, 2, 1][..]),
        (2, &[255, 1, 0, 2, 3]),
        (3, &[255, 1, 2]),
    ] {
        nodes[node].tables = Some(DumpTables {
            linear: Lft::from_entries(entries),
            ..DumpTables::default()
        });
    }
    let source = DumpSource::new(nodes, Lid(4), HopRule::Shortest).unwrap();
    for (write, owners) in [(lfts as Writer, 4), (fdbs, 0)] {
        let shown = text(write, &source);
        let dump = rsm_routing::lfts::parse(shown.as_bytes(), "dump").unwrap();
        let ports = |switch: usize| -> Vec<u8> {
            let entries = dump.switches[switch].entries.iter();
            entries.map(|&(_, port)| port).collect()
        };
        let guids: Vec<Guid> = dump.switches.iter().map(|switch| switch.guid).collect();
        assert_eq!(guids, [SPINE, LEAF, OTHER]);
        assert_eq!(ports(0), [0, 1, 2, 1]);
        assert_eq!(ports(1), [1, 0, 2, 3]);
        assert_eq!(ports(2), [1, 2]);
        assert_eq!(dump.owners.len(), owners);
    }
}

#[test]
fn line_breaks_in_descriptions_are_replaced() {
    let source = DumpSource::new(triangle(), Lid(4), HopRule::Shortest).unwrap();
    let shown = text(subnet_lst, &source);
    assert_eq!(
        shown.lines().last().unwrap(),
        "{ CA-SM Ports:03 SystemGUID:0000000000000040 NodeGUID:0000000000000040 \
         PortGUID:0000000000000040 VenID:0002C9 DevID:D2F2 Rev:000000A0 {sw?{1}} LID:0004 PN:01 } \
         { SW Ports:03 SystemGUID:0000000000000020 NodeGUID:0000000000000020 \
         PortGUID:0000000000000020 VenID:000002C9 DevID:D2F2 Rev:000000A0 {sw?{1}} LID:0002 PN:03 } \
         PHY=4x LOG=ACT SPD=100"
    );
    // Each end of each link has a line.
    assert_eq!(shown.lines().count(), 8);
}

#[test]
fn every_lid_of_a_port_with_an_lmc_is_dumped() {
    let mut nodes = triangle();
    let port = nodes[0].ports.get_mut(&PortNum(1)).unwrap();
    (port.lid, port.lmc) = (Lid(8), Lmc::new(2).unwrap());
    nodes[2].tables = Some(DumpTables {
        linear: Lft::from_entries(&[255, 1, 0, 2, 255, 255, 255, 255, 3, 3, 3, 3]),
        ..DumpTables::default()
    });
    let source = DumpSource::new(nodes, Lid(8), HopRule::Shortest).unwrap();
    let shown = text(guid2lid, &source);
    assert!(
        shown.ends_with("0x0000000000000040 0x0008 0x000b\n\n"),
        "{shown}"
    );
    assert!(text(lfts, &source).contains("0x000b 003 # Channel Adapter portguid"));
    assert!(text(fdbs, &source).contains("0x000B : 003  : 01   : yes"));
}

#[test]
fn multicast_tables_list_only_groups_with_ports() {
    let mut nodes = triangle();
    let groups = [
        (Lid(0xC000), vec![PortNum(2), PortNum(3)]),
        (Lid(0xC001), vec![]),
    ];
    nodes[2].tables = Some(DumpTables {
        multicast: BTreeMap::from(groups),
        ..DumpTables::default()
    });
    let source = DumpSource::new(nodes, Lid(4), HopRule::Shortest).unwrap();
    assert_eq!(
        text(mcfdbs, &source),
        "\nSwitch 0x0000000000000020\nLID    : Out Port(s)\n0xC000 : 0x002  0x003 \n"
    );
}

#[test]
fn contradictions_are_refused() {
    let build = |nodes| DumpSource::new(nodes, Lid(4), HopRule::Shortest).map(drop);
    let mut nodes = triangle();
    nodes[0].guid = LEAF;
    assert_eq!(build(nodes), Err(SourceError::DuplicateNode(LEAF)));
    let mut nodes = triangle();
    nodes[0].ports.get_mut(&PortNum(1)).unwrap().lid = Lid(3);
    let (lid, a, b) = (Lid(3), OTHER, HOST);
    assert_eq!(build(nodes), Err(SourceError::DuplicateLid { lid, a, b }));
    let mut nodes = triangle();
    nodes.remove(0);
    assert!(matches!(build(nodes), Err(SourceError::Dangling { .. })));
}

#[test]
fn empty_fabric_yields_empty_files() {
    let source = DumpSource::new(Vec::new(), Lid::NONE, HopRule::Shortest).unwrap();
    for write in [subnet_lst, fdbs, mcfdbs, lfts, lid_matrix, guid2lid] {
        assert_eq!(text(write, &source), "");
    }
}

#[test]
fn files_are_replaced_as_a_whole_and_errors_name_them() {
    let dir = tempfile::tempdir().unwrap();
    let source = DumpSource::new(triangle(), Lid(4), HopRule::Shortest).unwrap();
    let target = dir.path().join("dump");
    write_all(&target, &source).unwrap();
    let written = std::fs::read_dir(&target).unwrap().count();
    assert_eq!(written, 6);
    let lst = target.join("opensm-subnet.lst");
    let before = std::fs::read(&lst).unwrap();
    let error = write_file(&target, "opensm-subnet.lst", |out| {
        out.write_all(b"half")?;
        Err(io::ErrorKind::StorageFull.into())
    })
    .unwrap_err();
    assert_eq!(error.to_string(), format!("cannot write {}", lst.display()));
    assert_eq!(std::fs::read(&lst).unwrap(), before);
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), written);
    std::fs::write(dir.path().join("file"), b"").unwrap();
    assert!(write_all(&dir.path().join("file"), &source).is_err());
}

#[test]
fn ports_without_a_lid_are_not_marked_as_a_manager_without_a_lid() {
    let host = node(HOST, NodeKind::Ca, 0, &[(1, LEAF, 3)]);
    let leaf = node(LEAF, NodeKind::Switch, 2, &[(3, HOST, 1)]);
    let source = DumpSource::new(vec![host, leaf], Lid::NONE, HopRule::Shortest).unwrap();
    let shown = text(subnet_lst, &source);
    assert!(
        shown.contains("LID:0000") && !shown.contains("-SM"),
        "{shown}"
    );
}

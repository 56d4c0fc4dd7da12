//! Fabrics as sites hand them over: dumps of ibdiagnet, labels of ports, LIDs without numbers,
//! anonymised GUIDs, lines that are cut off.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::ibnetdiscover::{LeftOut, Parsed, Strictness, WarningKind, parse, parse_as};
use rsm_routing::netlist::Netlist;
use rsm_routing::topology::Topology;

/// Two switches of one chassis and two hosts. All of it is right.
pub(crate) const CHASSIS: &str = "\
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x10
switchguid=0x10(10)
Switch\t41 \"S-0000000000000010\"\t\t# \"line 1\" base port 0 lid 1 lmc 0
[1]\t\"H-0000000000000030\"[1](31) \t\t# \"host 1\" lid 3 4xHDR
[2]\t\"S-0000000000000020\"[2]\t\t# \"line 2\" lid 2 4xHDR

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x10
switchguid=0x20(20)
Switch\t41 \"S-0000000000000020\"\t\t# \"line 2\" base port 0 lid 2 lmc 0
[1]\t\"H-0000000000000040\"[1](41) \t\t# \"host 2\" lid 4 4xHDR
[2]\t\"S-0000000000000010\"[2]\t\t# \"line 1\" lid 1 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x30
caguid=0x30
Ca\t1 \"H-0000000000000030\"\t\t# \"host 1\"
[1](31) \t\"S-0000000000000010\"[1]\t\t# lid 3 lmc 0 \"line 1\" lid 1 4xHDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x40
caguid=0x40
Ca\t1 \"H-0000000000000040\"\t\t# \"host 2\"
[1](41) \t\"S-0000000000000020\"[1]\t\t# lid 4 lmc 0 \"line 2\" lid 2 4xHDR
";

fn strict(text: &str) -> Parsed {
    parse(text.as_bytes(), "site.txt").unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn lenient(text: &str) -> Parsed {
    let parsed = parse_as(text.as_bytes(), "site.txt", Strictness::Lenient);
    parsed.unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(text: &str) -> String {
    let parsed = parse(text.as_bytes(), "site.txt");
    parsed.expect_err("a line that cannot be read").to_string()
}

fn messages(parsed: &Parsed) -> Vec<String> {
    parsed.warnings.iter().map(ToString::to_string).collect()
}

fn replaced(from: &str, to: &str) -> String {
    assert!(CHASSIS.contains(from), "{from}");
    CHASSIS.replace(from, to)
}

/// Nodes and cables.
pub(crate) fn counts(netlist: &Netlist) -> (usize, usize) {
    (netlist.nodes().len(), netlist.cables().len())
}

#[test]
fn system_image_guids_in_place_of_node_guids_merge_no_switches() {
    let text = replaced("switchguid=0x20(20)", "switchguid=0x10(10)");
    let parsed = strict(&text);
    assert_eq!(counts(&parsed.netlist), (4, 3));
    for guid in [0x10, 0x20] {
        let index = parsed.netlist.by_guid(Guid(guid)).expect("a switch");
        let port0 = parsed.netlist.nodes()[index].port(PortNum::ZERO);
        assert_eq!(port0.guid, Guid(guid));
    }
    let only = "line 13: GUID of the system image above the header (nodes: 1); the identifier \
        counts";
    assert_eq!(messages(&parsed), [only]);
    // Of an adapter, too: of a card with several nodes.
    let both = text.replace(
        "sysimgguid=0x40\ncaguid=0x40",
        "sysimgguid=0x30\ncaguid=0x30",
    );
    let parsed = strict(&both);
    assert_eq!(counts(&parsed.netlist), (4, 3));
    let kind = WarningKind::SystemImageGuid { nodes: 2 };
    assert_eq!(parsed.warnings[0].kind, kind);
}

#[test]
fn the_identifier_names_the_switch_where_another_guid_stands_above_it() {
    let text = replaced("switchguid=0x20(20)", "switchguid=0x99(99)");
    let parsed = strict(&text);
    assert_eq!(counts(&parsed.netlist), (4, 3));
    assert_eq!(
        messages(&parsed),
        [
            "line 13: the identifier says GUID 0x0000000000000020, and the line above it \
             0x0000000000000099, expected the same GUID in both; the identifier counts"
        ]
    );
}

#[test]
fn labels_of_ports_are_skipped_at_both_ends() {
    let text = CHASSIS
        .replace("[1]\t\"H", "[1](1/1/1)\t\"H")
        .replace(
            "[2]\t\"S-0000000000000020\"[2]",
            "[2](swp2)\t\"S-0000000000000020\"[2](1/2/1/1)",
        )
        .replace(
            "[2]\t\"S-0000000000000010\"[2]",
            "[2]()\t\"S-0000000000000010\"[2](N/A)",
        )
        .replace("[1](41) \t", "[1](HCA-1) \t");
    let parsed = strict(&text);
    assert_eq!(parsed, strict(CHASSIS));
    // The GUID of a switch's port is that of its port 0, not that of the label's place.
    let text = replaced("[2]\t\"S", "[2](0002c90300001234)\t\"S");
    assert_eq!(strict(&text), strict(CHASSIS));
}

#[test]
fn lids_without_numbers_are_none_and_assigned() {
    let text = CHASSIS
        .replace("lid 1 lmc 0", "lid  lmc 0")
        .replace("lid 2 lmc 0", "lid")
        .replace("# lid 3 lmc 0", "# lid  lmc ")
        .replace("# lid 4 lmc 0", "#")
        .replace("lid 1 4x", "lid 4x")
        .replace("lid 2 4x", "lid  4x")
        .replace("lid 3 4x", "4x")
        .replace("lid 4 4x", "lid N/A 4x");
    let parsed = strict(&text);
    assert_eq!(messages(&parsed), [""; 0]);
    for node in parsed.netlist.nodes() {
        assert!(
            node.end_ports()
                .all(|port| node.port(port).lid == Lid::NONE)
        );
    }
    let topology = Topology::from_netlist(&parsed.netlist).expect("LIDs suffice");
    let mut lids: Vec<_> = topology.destinations().iter().map(|to| to.lid.0).collect();
    lids.sort_unstable();
    assert_eq!(lids, [1, 2, 3, 4]);
}

#[test]
fn comments_of_chassis_mode_follow_attributes() {
    let text = CHASSIS
        .replace(
            "sysimgguid=0x10\n",
            "sysimgguid=0x10\t\t# Chassis 1 (big) slot 3\n",
        )
        .replace(
            "switchguid=0x20(20)",
            "switchguid=0x20(20)\t# Line 2 Chip 1",
        );
    assert_eq!(strict(&text), strict(CHASSIS));
}

#[test]
fn letters_beyond_f_are_an_error_with_line_and_remedy() {
    let text = replaced("0000000000000040", "00000000000xyz40");
    assert_eq!(
        refusal(&text),
        "site.txt:14: `\\\"H-00000000000xyz40\\\"[1](` at column 5, expected an identifier like \
         `\"S-0002c90300001234\"`"
    );
    let text = replaced("(41)", "(2c90300zz41)");
    assert!(refusal(&text).starts_with("site.txt:14: `2c90300zz41) "));
    let text = replaced("caguid=0x40", "caguid=0x4000x");
    assert!(refusal(&text).starts_with("site.txt:27: `caguid` has the value `0x4000x`"));
}

#[test]
fn a_lenient_reading_leaves_out_a_node_without_guid_and_its_cables() {
    let text = replaced("0000000000000040", "00000000000xyz40");
    let parsed = lenient(&text);
    assert_eq!(counts(&parsed.netlist), (3, 2));
    let identifier = "expected an identifier like `\"S-0002c90300001234\"`";
    assert_eq!(
        messages(&parsed),
        [
            format!(
                "line 14: `\\\"H-00000000000xyz40\\\"[1](` at column 5, {identifier}; left out up \
                 to line 14"
            ),
            format!(
                "line 28: `\\\"H-00000000000xyz40\\\"\\t\\t# ` at column 6, {identifier}; the node is \
                 left out with its links, up to line 29"
            ),
        ]
    );
}

#[test]
fn a_lenient_reading_leaves_out_the_smallest_part() {
    const LINK: &str = "[2]\t\"S-0000000000000010\"[2]";
    const HOST: &str = "Ca\t1 \"H-0000000000000040\"";
    // A text, what replaces it, and the numbers of nodes and cables that are left.
    let cases = [
        ("vendid=0x2c9", "vendid=M", (4, 3)),
        ("caguid=0x40", "caguid=0x4x", (4, 3)),
        ("caguid=0x40", "caguid=0x41", (4, 3)),
        // The other end still states the link.
        (LINK, "[2\t\"S-0000000000000010\"[2]", (4, 3)),
        (LINK, "\"S-0000000000000010\"[2]", (4, 3)),
        (LINK, "[99]\t\"S-0000000000000010\"[2]", (4, 3)),
        (LINK, "[1]\t\"S-0000000000000010\"[2]", (4, 3)),
        // The line contradicts the other end.
        (LINK, "[2]\t\"S-0000000000000010\"[200]", (4, 2)),
        (LINK, "[2]\t\"S-0000000000000010\"[1]", (4, 2)),
        ("(41) \t\"S", "(31) \t\"S", (4, 3)),
        ("lid 4 lmc 0", "lid 70000 lmc 0", (4, 3)),
        (HOST, "Ca\t0 \"H-0000000000000040\"", (3, 2)),
        (HOST, "Ca\t1 \"H-0000000000000030\"", (3, 2)),
        (HOST, "Ca\t1 \"H-0000000000000020\"", (3, 2)),
        (HOST, "C?\t1 \"H-0000000000000040\"", (3, 2)),
        (
            "\t41 \"S-0000000000000020\"",
            "\t41 \"S-000000000000002g\"",
            (3, 1),
        ),
    ];
    for (from, to, expected) in cases {
        assert!(CHASSIS.contains(from), "{from}");
        let text = CHASSIS.replace(from, to);
        refusal(&text);
        let parsed = lenient(&text);
        assert_eq!(counts(&parsed.netlist), expected, "{to}");
        let left_out = |kind: &WarningKind| matches!(kind, WarningKind::LeftOut { .. });
        assert!(
            parsed
                .warnings
                .iter()
                .any(|warning| left_out(&warning.kind)),
            "{to}"
        );
    }
}

#[test]
fn links_of_a_lost_header_join_no_other_node() {
    let header = "Ca\t1 \"H-0000000000000040\"\t\t# \"host 2\"\n";
    let text = replaced(header, "");
    assert!(refusal(&text).starts_with("site.txt:28: the port belongs to no node"));
    let parsed = lenient(&text);
    assert_eq!(counts(&parsed.netlist), (3, 2));
    let warning = parsed.warnings.last().expect("a warning");
    assert_eq!(warning.line, 28);
    let WarningKind::LeftOut { part, .. } = warning.kind else {
        panic!("{warning}");
    };
    assert_eq!(part, LeftOut::Lines { last_line: 28 });
}

#[test]
fn attributes_of_a_lost_header_do_not_pass_to_the_next_node() {
    let from = CHASSIS
        .find("Ca\t1 \"H-0000000000000030\"")
        .expect("a header");
    let to = CHASSIS
        .find("vendid=0x2c9\ndevid=0x101b\nsysimgguid=0x40")
        .expect("a node");
    let text = format!(
        "{}{}",
        &CHASSIS[..from],
        &CHASSIS[to..].replace("sysimgguid=0x40\n", "")
    );
    let parsed = strict(&text);
    let host = &parsed.netlist.nodes()[parsed.netlist.by_guid(Guid(0x40)).expect("a host")];
    assert_eq!(host.system_image_guid, Guid::ZERO);
    let lost = "line 17: attributes of no node; left out";
    assert!(
        messages(&parsed).contains(&lost.to_owned()),
        "{:?}",
        messages(&parsed)
    );
}

#[test]
fn a_file_of_which_nothing_is_left_is_an_error() {
    let text = "Switch 4 \"S-00000000000000zz\" # \"a\"\n[1] \"S-00000000000000yy\"[1] # \"b\"\n";
    for strictness in [Strictness::Strict, Strictness::Lenient] {
        let error = parse_as(text.as_bytes(), "site.txt", strictness).expect_err("no node");
        assert!(
            error
                .to_string()
                .starts_with("site.txt:1: `\\\"S-00000000000000zz"),
            "{error}"
        );
    }
    for text in ["", "\n\n", "hello\n", "vendid=0x2c9\n", "\0\0\0"] {
        assert!(
            parse_as(text.as_bytes(), "x", Strictness::Lenient).is_err(),
            "{text}"
        );
    }
}

#[test]
fn a_last_line_without_line_feed_is_reported() {
    let cut = CHASSIS.trim_end();
    let parsed = strict(cut);
    assert_eq!(parsed.netlist, strict(CHASSIS).netlist);
    assert_eq!(
        messages(&parsed),
        ["line 29: no line feed at the end; may be cut off"]
    );
    let half = &CHASSIS[..CHASSIS.len() - 40];
    assert!(refusal(half).starts_with("site.txt:29: "));
    assert_eq!(counts(&lenient(half).netlist), (4, 3));
}

#[test]
fn ports_without_a_cable_get_and_reserve_no_lid() {
    // The second port of host 1 holds, without a cable, the LID of line 2, and one of the lowest
    // LIDs is missing for host 2.
    let text = CHASSIS
        .replace(
            "Ca\t1 \"H-0000000000000030\"",
            "Ca\t2 \"H-0000000000000030\"",
        )
        .replace(
            "lid 3 lmc 0 \"line 1\" lid 1 4xHDR\n",
            "lid 3 lmc 0 \"line 1\" lid 1 4xHDR\n# [2](32) lid 2 lmc 0\n",
        )
        .replace("lid 4 lmc 0", "lid 0 lmc 0")
        .replace("lid 4 4x", "lid 0 4x");
    let netlist = strict(&text).netlist;
    // Once more with the adapter before the switches.
    let (mut nodes, cables) = netlist.clone().into_parts();
    nodes.rotate_left(2);
    let rotated = cables.into_iter().map(|mut cable| {
        for end in [&mut cable.a, &mut cable.b] {
            end.0 = (end.0 + 2) % 4;
        }
        cable
    });
    let rotated = Netlist::new(nodes, rotated.collect()).expect("the same fabric");
    for netlist in [netlist, rotated] {
        let topology = Topology::from_netlist(&netlist).expect("LIDs suffice");
        let mut lids: Vec<_> = topology
            .destinations()
            .iter()
            .map(|to| (to.guid.0, to.lid.0))
            .collect();
        lids.sort_unstable();
        assert_eq!(lids, [(0x10, 1), (0x20, 2), (0x31, 3), (0x41, 4)]);
    }
}

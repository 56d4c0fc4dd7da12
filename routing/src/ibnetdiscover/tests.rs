use rsm_ids::{Lid, Lmc, PortNum};

use super::*;
use crate::netlist::LinkRate;

fn read_ok(text: &str) -> Parsed {
    parse(text.as_bytes(), "test").unwrap_or_else(|error| panic!("{error}"))
}

fn message(text: &str) -> String {
    match parse(text.as_bytes(), "fabric.txt") {
        Ok(parsed) => panic!("was read: {parsed:?}"),
        Err(error) => error.to_string(),
    }
}

const PAIR: &str = "\
vendid=0x2c9
devid=0xd2f0
sysimgguid=0x10
switchguid=0x10(11)
Switch\t41 \"S-0000000000000010\"\t\t# \"leaf\" enhanced port 0 lid 73 lmc 2
[1]\t\"H-0000000000000020\"[2](22) \t\t# \"host\" lid 5 4xHDR

caguid=0x20
Ca\t2 \"H-0000000000000020\"\t\t# \"host\"
[2](22) \t\"S-0000000000000010\"[1]\t\t# lid 5 lmc 1 \"leaf\" lid 73 4xHDR
";

#[test]
fn all_statements_of_a_file_are_kept() {
    let Parsed { netlist, warnings } = read_ok(PAIR);
    assert_eq!(warnings, []);
    let [leaf, host] = netlist.nodes() else {
        panic!("{netlist:?}")
    };
    assert_eq!(leaf.kind, NodeKind::Switch);
    assert_eq!(
        (leaf.vendor_id, leaf.device_id, leaf.num_ports),
        (0x2c9, 0xd2f0, 41)
    );
    assert_eq!(leaf.system_image_guid, Guid(0x10));
    assert_eq!(leaf.description, b"leaf");
    assert!(leaf.enhanced_port0);
    let port0 = leaf.port(PortNum(0));
    assert_eq!(
        (port0.guid, port0.lid, port0.lmc.get()),
        (Guid(0x11), Lid(73), 2)
    );
    assert_eq!((host.vendor_id, host.system_image_guid), (0, Guid::ZERO));
    let port2 = host.ports[&PortNum(2)];
    assert_eq!(
        (port2.guid, port2.lid, port2.lmc.get()),
        (Guid(0x22), Lid(5), 1)
    );
    assert!(!host.ports.contains_key(&PortNum(1)));
    assert_eq!(netlist.peer((0, PortNum(1))), Some((1, PortNum(2))));
    assert_eq!(netlist.cables()[0].rate().to_string(), "4xHDR");
}

#[test]
fn layout_does_not_change_the_fabric() {
    let log = PAIR
        .replace('\t', "")
        .replace('\n', "\r\n")
        .replace("[1]\"H", "[1][ext 3]\"H")
        .replace("lid 5 4xHDR", "lid 5 4xHDR s=4 w=2 v=4 e=4");
    let log = format!("=~= PuTTY log =~=\r\n> ibnetdiscover\r\n{log}admin@ufm #\r\n");
    let Parsed { netlist, warnings } = read_ok(&log);
    assert_eq!(netlist, read_ok(PAIR).netlist);
    let ignored: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        ignored,
        [
            "line 1: skipped up to line 2: not part of a topology",
            "line 13: skipped up to line 13: not part of a topology",
        ]
    );
}

#[test]
fn a_link_that_one_end_states_is_a_cable() {
    let text = PAIR.replace("[2](22) \t\"S-0000000000000010\"[1]", "# ");
    let Parsed { netlist, warnings } = read_ok(&text);
    assert_eq!(
        warnings,
        [Warning {
            line: 6,
            kind: WarningKind::OneSided {
                id: "H-0000000000000020".to_owned(),
                port: PortNum(2)
            }
        }]
    );
    assert_eq!(netlist.peer((1, PortNum(2))), Some((0, PortNum(1))));
    let spec = netlist.nodes()[1].ports[&PortNum(2)];
    assert_eq!((spec.guid, spec.lid), (Guid(0x22), Lid(5)));
}

#[test]
fn link_to_an_absent_node_is_reported_and_left_out() {
    let text = PAIR.split("\ncaguid").next().unwrap();
    let Parsed { netlist, warnings } = read_ok(text);
    assert_eq!(netlist.cables(), []);
    let warning = warnings[0].to_string();
    assert_eq!(
        warning,
        "line 6: link to H-0000000000000020, which is not in the file; left out"
    );
}

#[test]
fn contradictory_statements_of_two_ends_are_reported() {
    let text = PAIR
        .replace("lid 73 4xHDR", "lid 74 2xNDR")
        .replace("[2](22) \t\t#", "[2](23) \t\t#");
    let Parsed { netlist, warnings } = read_ok(&text);
    let rate: LinkRate = "2xHDR".parse().unwrap();
    assert_eq!(netlist.cables()[0].rate(), rate);
    let kinds: Vec<_> = warnings.into_iter().map(|w| (w.line, w.kind)).collect();
    let rates = WarningKind::RateMismatch {
        here: "4xHDR".parse().unwrap(),
        there: "2xNDR".parse().unwrap(),
        other_line: 10,
    };
    let guids = WarningKind::PeerGuidMismatch {
        here: Guid(0x23),
        there: Guid(0x22),
    };
    let lids = WarningKind::PeerLidMismatch {
        here: Lid(74),
        there: Lid(73),
    };
    assert_eq!(kinds, [(6, guids), (6, rates), (10, lids)]);
}

#[test]
fn unreadable_rate_counts_as_the_slowest() {
    let Parsed { netlist, warnings } = read_ok(&PAIR.replace("4xHDR", "4x???"));
    assert_eq!(netlist.cables()[0].rate().to_string(), "4xSDR");
    assert!(warnings.iter().all(|w| w.kind == WarningKind::NoRate));
    assert_eq!(warnings.len(), 2);
}

#[test]
fn long_names_from_a_name_map_are_cut_off() {
    let text = PAIR.replace("# \"host\"", &format!("# \"{}\"", "x".repeat(65)));
    let Parsed { netlist, warnings } = read_ok(&text);
    assert_eq!(netlist.nodes()[1].description.len(), 64);
    assert_eq!(warnings[0].kind, WarningKind::LongDescription { len: 65 });
}

#[test]
fn quotes_in_descriptions_need_no_escape() {
    let text = PAIR.replace("\"host\"", "\"rack \"7\" lid 3\"");
    assert_eq!(
        read_ok(&text).netlist.nodes()[1].description,
        b"rack \"7\" lid 3"
    );
}

#[test]
fn malformed_lines_are_refused_with_position_and_reason() {
    let cases = [
        (
            "[1]\t\"H",
            "[1]\t\"X",
            "fabric.txt:6: `\\\"X-0000000000000020\\\"[2](` at column 5, expected an identifier like `\"S-0002c90300001234\"`",
        ),
        (
            "[1]\t\"H",
            "[1\t\"H",
            "fabric.txt:6: `\\t\\\"H-0000000000000020\\\"[2]` at column 3, expected a port number like `[7]`",
        ),
        (
            "[1]\t\"H",
            "\"H",
            "fabric.txt:6: `\\\"H-0000000000000020\\\"[2](` at column 1, expected a node like `Switch 41 \"S-…\"` or a port like `[7] \"S-…\"`",
        ),
        (
            "[1]\t\"H",
            "[42]\t\"H",
            "fabric.txt:6: port 42 of a node that has 41, expected 1 to 41",
        ),
        (
            "[1]\t\"H",
            "[0]\t\"H",
            "fabric.txt:6: port 0 of a node that has 41, expected 1 to 41",
        ),
        (
            "Switch\t41",
            "Switch\t255",
            "fabric.txt:5: the node has 255 ports, expected 1 to 254",
        ),
        (
            "Switch\t41",
            "Switch\t99999999999999999999999",
            "fabric.txt:5: the node has 18446744073709551615 ports, expected 1 to 254",
        ),
        (
            "lid 5 4xHDR",
            "lid 5 4xFOO",
            "fabric.txt:6: `4xFOO` at column 1, expected a rate of width and speed, such as `4xHDR`",
        ),
        (
            "Ca\t2",
            "Switch\t2",
            "fabric.txt:9: the identifier `H-0000000000000020` is not that of a switch, expected an identifier that starts with `S-`",
        ),
        (
            "caguid=0x20",
            "caguid=0x21",
            "fabric.txt:9: the identifier says GUID 0x0000000000000020, and the line above it 0x0000000000000021, expected the same GUID in both",
        ),
        (
            "vendid=0x2c9",
            "vendid=Mellanox",
            "fabric.txt:1: `vendid` has the value `Mellanox`, expected a vendor's OUI, 0x0 to 0xffffff",
        ),
        (
            "devid=0xd2f0",
            "devid=0x1d2f0",
            "fabric.txt:2: `devid` has the value `0x1d2f0`, expected a device number, 0x0 to 0xffff",
        ),
        (
            "lid 73 lmc 2",
            "lid 65536 lmc 2",
            "fabric.txt:5: the LID 65536, expected 0 to 65535",
        ),
        (
            "lid 73 lmc 2",
            "lid 73 lmc 8",
            "fabric.txt:5: the LMC 8, expected 0 to 7",
        ),
        (
            "# \"host\"\n",
            "# host\n",
            "fabric.txt:9: `# host` at column 28, expected `#` and a description between double quotes",
        ),
        (
            "# \"host\"\n",
            "# \"host\n",
            "fabric.txt:9: the description has no closing quote, expected a description between double quotes",
        ),
        (
            "# \"host\"\n",
            "# \"ho\0st\"\n",
            "fabric.txt:9: the description contains a NUL byte, expected text without NUL",
        ),
        (
            "\n[1]",
            "\nvendid=0x1\n[1]",
            "fabric.txt:7: the port belongs to no node, expected a line like `Switch 41 \"S-0002c90300001234\"` before it",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(PAIR.contains(from), "{from}");
        assert_eq!(message(&PAIR.replacen(from, to, 1)), expected);
    }
    assert_eq!(
        message(&format!("{PAIR}{}", "x".repeat(MAX_LINE + 1))),
        "fabric.txt:11: the line has 1025 bytes, expected at most 1024"
    );
    assert_eq!(
        message("hello\n"),
        "fabric.txt:2: the file names no node, expected the output of ibnetdiscover"
    );
}

#[test]
fn a_port_guid_that_cannot_be_derived_is_refused_at_its_line() {
    let text = PAIR
        .replace("0000000000000020", "ffffffffffffffff")
        .replace("caguid=0x20", "caguid=0xffffffffffffffff")
        .replace("[2](22)", "[1]");
    assert_eq!(
        message(&text),
        "fabric.txt:10: port 1 of node H-ffffffffffffffff has the GUID 0, which names nothing, expected a fabric that can exist"
    );
}

#[test]
fn contradictions_name_both_lines() {
    assert_eq!(
        message(&format!("{PAIR}{PAIR}")),
        "fabric.txt:15: node S-0000000000000010 has been described in line 5, expected each node once"
    );
    assert_eq!(
        message(&format!("{PAIR}Ca 1 \"H-0000000000000010\" # \"twin\"\n")),
        "fabric.txt:11: node with GUID 0x0000000000000010 has been described in line 5, expected each node once"
    );
    let port = "[2](22) \t\"S-0000000000000010\"[1]\t\t# lid 5 lmc 1 \"leaf\" lid 73 4xHDR\n";
    assert_eq!(
        message(&format!("{PAIR}{port}")),
        "fabric.txt:11: port 2 of this node has been described in line 10, expected each port once"
    );
    assert_eq!(
        message(&format!("{PAIR}# [2](22) lid 5 lmc 1\n")),
        "fabric.txt:11: port 2 of this node has been described in line 10, expected each port once"
    );
    let third = "Ca 1 \"H-0000000000000030\" # \"third\"\n[1](31) \"S-0000000000000010\"[1] # lid 9 lmc 0 \"leaf\" lid 73 4xHDR\n";
    assert_eq!(
        message(&format!("{PAIR}{third}")),
        "fabric.txt:12: the link ends in port 1 of S-0000000000000010, which line 6 connects elsewhere, expected both ends to name each other"
    );
    let third = third.replace("(31)", "(22)").replace("[1] #", "[2] #");
    assert_eq!(
        message(&format!("{PAIR}{third}")),
        "fabric.txt:12: the port GUID 0x0000000000000022 has been given to another port in line 10, expected a GUID of its own for each port"
    );
}

#[test]
fn two_one_sided_links_into_one_port_contradict_each_other() {
    let text = "\
Switch 4 \"S-0000000000000010\" # \"a\" base port 0 lid 0 lmc 0
[1] \"S-0000000000000030\"[1] # \"c\" lid 0 4xHDR
Switch 4 \"S-0000000000000020\" # \"b\" base port 0 lid 0 lmc 0
[1] \"S-0000000000000030\"[1] # \"c\" lid 0 4xHDR
Switch 4 \"S-0000000000000030\" # \"c\" base port 0 lid 0 lmc 0
";
    assert_eq!(
        message(text),
        "fabric.txt:4: the link ends in port 1 of S-0000000000000030, which line 2 connects elsewhere, expected both ends to name each other"
    );
}

#[test]
fn fabric_with_too_many_nodes_is_refused_at_the_first_excess_node() {
    let text: String = (1..=MAX_NODES + 1)
        .map(|guid| format!("Ca 1 \"H-{guid:016x}\"\n"))
        .collect();
    let error = parse(text.as_bytes(), "large").unwrap_err();
    assert_eq!(error.line, MAX_NODES + 1);
    assert_eq!(error.reason, ParseReason::TooManyNodes);
    assert_eq!(error.expected(), "at most 49151");
}

#[test]
fn a_port_without_cable_is_written_as_a_comment() {
    let text = "Ca 2 \"H-0000000000000020\" # \"host\"\n# [2](22) lid 5 lmc 1\n# [9](1) lid 5 lmc 1\n# [2] is broken\n";
    let netlist = read_ok(text).netlist;
    let spec = netlist.nodes()[0].ports[&PortNum(2)];
    assert_eq!(
        (spec.guid, spec.lid, spec.lmc),
        (Guid(0x22), Lid(5), Lmc::from_bits(1))
    );
    let mut out = Vec::new();
    write(&netlist, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.ends_with("\n# [2](22) lid 5 lmc 1\n"), "{out}");
    assert_eq!(read_ok(&out).netlist, netlist);
}

#[test]
fn written_text_equals_the_output_of_the_tools() {
    let mut out = Vec::new();
    write(&read_ok(PAIR).netlist, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let body = PAIR.replace("caguid", "vendid=0x0\ndevid=0x0\ncaguid");
    let head = "#\n# Topology file: 1 switches, 1 channel adapters, 0 routers, 1 cables\n#\n\n";
    assert_eq!(out, format!("{head}{body}"));
}

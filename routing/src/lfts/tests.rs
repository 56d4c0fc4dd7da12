use proptest::prelude::*;
use rsm_ids::{Lmc, PortNum};

use super::*;
use crate::topology::{Topology, TopologyBuilder};

const OPENSM: &[u8] = b"Unicast lids [0-6] of switch Lid 1 guid 0x0000000000200000 ('Switch1'):\n\
0x0001 000 # Switch portguid 0x0000000000200000: 'Switch1'\n\
0x0002 001 # Channel Adapter portguid 0x0000000000100001: 'a portguid 0x1 in the name'\n\
0x0004 002 # unknown node and type\n\
6 lids dumped\n\
Unicast lids [0-6] of switch Lid 3 guid 0x0000000000200001 ('Switch2'):\n\
0x0001 005 # Switch portguid 0x0000000000200000: 'Switch1'\n\
6 lids dumped\n";

const IBROUTE: &[u8] = b"Unicast lids [0x0-0x6] of switch DR path slid 0; dlid 0; 0,1 guid 0x0000000000200000 (Switch1):\r\n\
  Lid  Out   Destination\r\n\
       Port     Info \r\n\
0x0000 000 : (illegal port)\r\n\
0x0001 000 : (Switch portguid 0x0000000000200000: 'Switch1')\r\n\
0x0002 001 : (Channel Adapter portguid 0x0000000000100001: 'Hca1')\r\n\
0x0003 255 : (illegal port)\r\n\
0x0004 002 : (path #2 out of 2: portguid 0x0000000000100003)\r\n\
0x0005 002\r\n\
4 valid lids dumped \r\n";

const FDBS: &[u8] = b"# written by ibdiagnet\n\
osm_ucast_mgr_dump_ucast_routes: Switch 0x0000000000200000\n\
LID    : Port : Hops : Optimal\n\
0x0001 : 000  : 00   : yes\n\
0x0002 : 001  : 01   : yes\n\
0x0003 : UNREACHABLE\n\
0x0004 : 002  : HOPS UNKNOWN\n\
0x0005 : 002  : 03   : No 2 hop path possible via port 1!\n\
\n\
dump_ucast_routes: Switch 0x0000000000200001\n\
LID    : Port : Hops : Optimal\n";

fn lids(entries: &[(Lid, u8)]) -> Vec<(u16, u8)> {
    entries.iter().map(|&(lid, port)| (lid.0, port)).collect()
}

#[test]
fn dumps_of_opensm_are_read() {
    let dump = parse(OPENSM, "f").unwrap();
    let [one, two] = &dump.switches[..] else {
        panic!("{dump:?}")
    };
    assert_eq!((one.guid, one.line), (Guid(0x20_0000), 1));
    assert_eq!(lids(&one.entries), [(1, 0), (2, 1), (4, 2)]);
    assert_eq!((two.guid, two.line), (Guid(0x20_0001), 6));
    assert_eq!(lids(&two.entries), [(1, 5)]);
    let owners = [(Lid(1), Guid(0x20_0000)), (Lid(2), Guid(0x10_0001))];
    assert_eq!(dump.owners, BTreeMap::from(owners));
}

#[test]
fn output_of_ibroute_is_read() {
    let dump = parse(IBROUTE, "f").unwrap();
    let entries = lids(&dump.switches[0].entries);
    assert_eq!(entries, [(1, 0), (2, 1), (4, 2), (5, 2)]);
    assert_eq!(dump.owners[&Lid(4)], Guid(0x10_0003));
}

#[test]
fn fdbs_are_read() {
    let dump = parse(FDBS, "f").unwrap();
    let entries = lids(&dump.switches[0].entries);
    assert_eq!(entries, [(1, 0), (2, 1), (4, 2), (5, 2)]);
    assert_eq!(dump.switches[1].entries, []);
    assert!(dump.owners.is_empty());
}

#[test]
fn malformed_tables_are_refused_with_line_and_expected_form() {
    const HEAD: &str = "Unicast lids [0-6] of switch Lid 1 guid 0x0000000000200000 ('Switch1'):\n";
    let twice = format!("{HEAD}{HEAD}");
    let guid = "expected a GUID like `0x0002c90300001234`";
    let cases = [
        (
            "",
            "f:1: the file has no forwarding table, expected the tables that",
        ),
        (
            "0x0001 1\n",
            "f:1: the entry belongs to no switch, expected a line like",
        ),
        (
            "\nhello",
            "f:2: `hello` belongs to no forwarding table, expected a line like",
        ),
        (
            "Multicast mlids [0xc000-0xc3ff]",
            "f:1: a multicast forwarding table begins here",
        ),
        ("Unicast lids [0-6] of switch Lid 1", guid),
        (
            "Unicast lids of switch guid 0xg",
            "f:1: `0xg` in place of the switch's GUID",
        ),
        ("dump_ucast_routes: Switch 0x0", guid),
        (
            &twice,
            "f:2: the table of switch 0x0000000000200000 has begun in line 1",
        ),
    ];
    for (text, message) in cases {
        let error = parse(text.as_bytes(), "f").unwrap_err().to_string();
        assert!(error.contains(message), "{text:?}: {error}");
    }
    let entries = [
        (
            "0x0002",
            "f:2: the port ``, expected 000 to 255, or UNREACHABLE",
        ),
        ("0x0002 256", "f:2: the port `256`"),
        ("0x0002 : UNREACHABLES", "f:2: the port `UNREACHABLES`"),
        ("0x0002 0x1", "f:2: the port `0x1`"),
        (
            "0xc000 1",
            "f:2: the LID `0xc000 1`, expected 0x0001 to 0xbfff",
        ),
        ("0x12345 1", "f:2: the LID `0x12345 1`"),
        ("0x 1", "f:2: the LID `0x 1`"),
        (
            "0x0002 1\n0x0002 2",
            "f:3: line 2 sends LID 2 out of another port",
        ),
        (
            "0x0002 001 # Router portguid 0x: 'x'",
            "f:2: the port GUID `0x: \\'x\\'`",
        ),
        (
            "0x2 1 # Switch portguid 0x5: 'x'\n0x2 1 # Switch portguid 0x6: 'x'",
            "f:3: LID 2 belongs to 0x0000000000000006 here, and to 0x0000000000000005 in line 2",
        ),
    ];
    for (text, message) in entries {
        let error = parse(format!("{HEAD}{text}").as_bytes(), "f").unwrap_err();
        assert!(error.to_string().contains(message), "{text:?}: {error}");
    }
    let long = [HEAD.as_bytes(), &[b'x'; MAX_LINE + 1]].concat();
    let error = parse(&long, "f").unwrap_err().to_string();
    assert!(
        error.contains("f:2: the line has 1025 bytes, expected at most 1024"),
        "{error}"
    );
}

#[test]
fn a_repeated_entry_is_no_contradiction() {
    let text = "Unicast lids of switch guid 0x9 x\n0x2 1\n0x2 1\nUnicast lids of switch guid 0x8 x\n0x2 2\n";
    let dump = parse(text.as_bytes(), "f").unwrap();
    assert_eq!(lids(&dump.switches[0].entries), [(2, 1)]);
    assert_eq!(lids(&dump.switches[1].entries), [(2, 2)]);
}

/// Two switches, 0x20 and 0x21, with a host each: 0x10 with LIDs 12 and 13, 0x11 with LIDs 14 and
/// 15.
fn fabric() -> Topology {
    let mut builder = TopologyBuilder::new();
    let one = Lmc::new(1).unwrap();
    let [a, b] = [(0x20, 1), (0x21, 2)].map(|(guid, lid)| {
        builder
            .add_switch(Guid(guid), 4, Lid(lid), Lmc::ZERO, 100)
            .unwrap()
    });
    builder.add_link(a, PortNum(1), b, PortNum(1), 1).unwrap();
    for (switch, guid, lid) in [(a, 0x10, 12), (b, 0x11, 14)] {
        let kind = crate::topology::EndpointKind::Ca;
        builder
            .add_endport(switch, PortNum(2), Guid(guid), Lid(lid), one, kind)
            .unwrap();
    }
    builder.build().unwrap()
}

#[test]
fn entries_follow_ports_to_their_present_lids() {
    // In the file, port 0x10 had the LIDs 4 and 5, port 0x11 had LID 12, and port 0x12, which has
    // gone, had LID 13. Port 0x10 now has the LIDs 12 and 13.
    let text = "Unicast lids of switch guid 0x20 x\n\
        0x0004 002 # Channel Adapter portguid 0x10: 'a'\n\
        0x0005 003 # Channel Adapter portguid 0x10: 'a'\n\
        0x000c 001 # Channel Adapter portguid 0x11: 'b'\n\
        0x000d 004 # Channel Adapter portguid 0x12: 'gone'\n\
        0x0002 001\n\
        0x0009 001\n\
        0x0001 009\n\
        Unicast lids of switch guid 0x77 x\n";
    let fit = parse(text.as_bytes(), "f").unwrap().fit(&fabric());
    let table = fit.tables.lfts[0].block(0);
    assert_eq!(table[12..16], [2, 3, 1, NO_PATH]);
    assert_eq!(table[1..3], [NO_PATH, 1]);
    assert_eq!(fit.tables.lfts[1].top(), None);
    assert_eq!(fit.without_table, [Guid(0x21)]);
    assert_eq!(fit.unknown_switches, [Guid(0x77)]);
    assert_eq!(fit.moved_lids, 3);
    // LID 9 belongs to no port, and LID 13 belonged to a port that has gone.
    assert_eq!(fit.unknown_lids, 2);
    assert_eq!(fit.missing_ports, 1);
    assert_eq!(fit.missing_port_examples, [(Guid(0x20), Lid(1), 9)]);
}

#[test]
fn entry_of_an_unchanged_lid_wins_over_one_of_a_moved_lid() {
    // In the file, LID 4 belonged to port 0x10, whose first LID is now 12. The file names no owner
    // of LID 12, which therefore stays LID 12.
    let text = "Unicast lids of switch guid 0x20 x\n0x0004 3 # CA portguid 0x10: 'a'\n0x000c 2\n";
    let fit = parse(text.as_bytes(), "f").unwrap().fit(&fabric());
    assert_eq!(fit.tables.lfts[0].entry(Lid(12)), 2);
}

proptest! {
    #[test]
    fn any_bytes_parse_and_fit_without_panic(
        text in proptest::collection::vec(any::<u8>(), 0..400),
        at in any::<prop::sample::Index>(),
        sample in 0usize..3,
    ) {
        let _ = parse(&text, "f");
        // The file is cut in the middle of a valid line.
        let sample = [OPENSM, IBROUTE, FDBS][sample];
        let at = at.index(sample.len());
        let torn = [&sample[..at], &text, &sample[at..]].concat();
        if let Ok(dump) = parse(&torn, "f") {
            dump.fit(&fabric());
        }
    }
}

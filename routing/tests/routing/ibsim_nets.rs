//! Netlists of ibsim, read without ibsim.

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::ibnetdiscover::{Strictness, parse, parse_as};
use rsm_routing::netlist::{Netlist, NodeKind};

/// A netlist with everything that rsm and ibsim read in the same way.
pub(crate) const NET: &str = "\
# Net configuration file
Switch\t8 \"Switch1\"
[1]\t\"Hca1\"[1]
[2]\t\"Hca2\"[2]\tw=8
[3]\t\"Switch2\"[3] s=7 e=7
[4]\t\"Switch2\"[4] e=7 s=5

vendid=0x2c9
devid=54000
sysimgguid=0x777
Switch 8 \"Switch2\" # \"the other switch\" enhanced port 0 lid 9 lmc 0
[3]\t\"Switch1\"[3] s=7 e=3
[4]\t\"Switch1\"[4] e=7 s=7

Hca\t2 \"Hca1\"
[1]\t\"Switch1\"

hcaguids=0x500
Hca\t2 \"Hca2\"
[2]\t\"Switch1\"[2] w=8 # lid 5 lmc 1 \"Switch1\" lid 0 12xSDR

module=\"pod1\"
switchguid=0x300000
switchguid+16
speed=7
Switch 4 \"Late\" # a late switch base port 0 lid 12 lmc 0
[1] \"pod2#Leaf\" s=3

module=\"pod2\"
switchguid=4096
Switch 4 \"Leaf\"
[1] \"pod1#Late\"[1]
[2] \"Host\"[1]  # \"\" lid 0 4xEDR

switchguid=010
Switch 2 \"Spare\"

Ca 1 \"Host\"
[1] \"Leaf\"[2] # lid 0 lmc 0 \"\" lid 0 4xHDR
";

fn net(text: &str) -> Netlist {
    let parsed = parse(text.as_bytes(), "net").unwrap_or_else(|error| panic!("{error}"));
    parsed.netlist
}

fn refusal(text: &str) -> String {
    let parsed = parse(text.as_bytes(), "net");
    parsed.expect_err("a line that cannot be read").to_string()
}

/// The GUID of each node, by its description.
fn guids(netlist: &Netlist) -> Vec<(String, u64)> {
    let nodes = netlist.nodes().iter();
    nodes.map(|node| (node.name(), node.guid.0)).collect()
}

/// A cable as `node[port] - node[port] rate`.
fn cables(netlist: &Netlist) -> Vec<String> {
    let end = |(node, port): (usize, PortNum)| format!("{}[{port}]", netlist.nodes()[node].name());
    let cables = netlist.cables().iter();
    let text = cables.map(|cable| format!("{} - {} {}", end(cable.a), end(cable.b), cable.rate()));
    text.collect()
}

#[test]
fn nodes_have_the_guids_that_ibsim_gives_them() {
    let netlist = net(NET);
    let expected: Vec<_> = [
        ("Switch1", 0x20_0000),
        ("the other switch", 0x20_0001),
        ("Hca1", 0x10_0000),
        ("Hca2", 0x500),
        ("a late switch", 0x30_0010),
        ("pod2#Leaf", 4096),
        ("pod2#Spare", 8),
        ("pod2#Host", 0x503),
    ]
    .map(|(name, guid)| (name.to_owned(), guid))
    .into();
    assert_eq!(guids(&netlist), expected);
    // Adapters' GUIDs leave room for those of their ports; routers have GUIDs, too.
    let more = "Ca 3 \"a\"\n\nCa 1 \"b\"\n\nRt 2 \"c\"\n\nRt 2 \"d\"\n";
    let more: Vec<_> = guids(&net(more))
        .into_iter()
        .map(|(_, guid)| guid)
        .collect();
    assert_eq!(more, [0x10_0000, 0x10_0004, 0x30_0000, 0x30_0003]);
}

#[test]
fn links_are_by_name_and_have_the_rate_that_both_ends_enable() {
    assert_eq!(
        cables(&net(NET)),
        [
            "Switch1[1] - Hca1[1] 4xSDR",
            "Switch1[2] - Hca2[2] 12xSDR",
            "Switch1[3] - the other switch[3] 4xEDR",
            "Switch1[4] - the other switch[4] 4xHDR",
            "a late switch[1] - pod2#Leaf[1] 4xDDR",
            "pod2#Leaf[2] - pod2#Host[1] 4xEDR",
        ]
    );
}

#[test]
fn attributes_of_a_net_apply_as_in_ibsim() {
    let netlist = net(NET);
    let nodes = netlist.nodes();
    let identity = |index: usize| {
        let node = &nodes[index];
        (node.vendor_id, node.device_id, node.system_image_guid.0)
    };
    assert_eq!(identity(0), (0, 0, 0x20_0000));
    assert_eq!(identity(1), (0x2c9, 54000, 0x777));
    assert_eq!(identity(2), (0, 54000, 0x10_0000));
    assert!(nodes[1].enhanced_port0);
    assert_eq!(nodes[1].port(PortNum::ZERO).lid, Lid(9));
    assert_eq!(nodes[4].port(PortNum::ZERO).lid, Lid(12));
    let host = nodes[3].port(PortNum(2));
    assert_eq!(
        (host.lid, host.lmc.get(), host.guid),
        (Lid(5), 1, Guid(0x502))
    );
}

#[test]
fn port_guids_of_a_net_are_read() {
    let text =
        "switchguid=0x10(11)\nSwitch 4 \"S\"\n[1] \"H\"[1](99)\n\nCa 1 \"H\"\n[1](99) \"S\"[1]\n";
    let netlist = net(text);
    assert_eq!(netlist.nodes()[0].port(PortNum::ZERO).guid, Guid(0x11));
    assert_eq!(netlist.nodes()[1].port(PortNum(1)).guid, Guid(0x99));
}

#[test]
fn a_file_with_names_instead_of_guids_is_read_as_a_net() {
    let named = "Switch 4 \"S-leaf\"\n[1] \"H-1\"[1]\n\nCa 1 \"H-1\"\n[1] \"S-leaf\"[1]\n";
    assert_eq!(net(named).nodes()[0].guid, Guid(0x20_0000));
    // Short GUIDs and no other identifiers: no net.
    let short =
        "Switch 4 \"S-a0\" # \"leaf\"\n[1] \"H-1\"[1] # \"host\" lid 0 4xHDR\nCa 1 \"H-1\"\n";
    assert_eq!(net(short).nodes()[0].guid, Guid(0xa0));
    // Beside a GUID as tools print it, a name is a mistake.
    let mixed = "Switch 4 \"S-0002c90300001234\"\nCa 1 \"host\"\n";
    assert!(
        refusal(mixed).starts_with("net:2: `\\\"host\\\"`"),
        "{}",
        refusal(mixed)
    );
}

#[test]
fn unsupported_lines_of_a_net_are_refused_with_what_is_expected() {
    let cases = [
        (
            "include \"other.net\"",
            "expected the lines of that file in its place",
        ),
        (
            "do Unlink \"Switch1\"[3]",
            "expected a file without commands of ibsim's console",
        ),
        (
            "@[5] \"out\"",
            "expected a port without alias, like `[7] \"S1\"`",
        ),
        (
            "[5] \"pod@out\"",
            "expected a node's name like `\"S1\"`, without `@`",
        ),
        (
            "width=32",
            "`width` has the value `32`, expected the bits of link widths, 1 to 31",
        ),
        (
            "speed=0",
            "`speed` has the value `0`, expected the bits of link speeds, 1 to 7",
        ),
        ("switchguid=0x100x", "expected a GUID like 0x2c90300001234"),
        (
            "[5] \"Hca3\"[1] w=0",
            "`w` has the value `0`, expected the bits of link widths, 1 to 31",
        ),
        (
            "Switch 4 \"Switch1\"",
            "node Switch1 has been described in line 2, expected each node once",
        ),
        (
            "switchguid=0\nSwitch 4 \"zero\"",
            "node 1 has the GUID 0, which names nothing",
        ),
        (
            "switchguid=0x200000\nSwitch 4 \"twin\"",
            "node S-0000000000200000 has been described",
        ),
    ];
    for (line, expected) in cases {
        let header = "Switch\t8 \"Switch1\"\n";
        let text = NET.replacen(header, &format!("{header}{line}\n"), 1);
        let message = refusal(&text);
        assert!(message.contains(expected), "{message}");
        let rest = parse_as(text.as_bytes(), "net", Strictness::Lenient)
            .unwrap_or_else(|error| panic!("{error}"));
        assert!(rest.netlist.count(NodeKind::Switch) >= 4, "{line}");
    }
}

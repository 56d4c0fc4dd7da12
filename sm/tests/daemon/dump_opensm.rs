//! Compares rsm's dump files with OpenSM's, and checks them with the tool that reads such files.
//!
//! OpenSM brings a simulated fabric up and writes its files; the test reads these files into a
//! source, writes the source as files again, and compares the bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rsm_ids::{Guid, Lid, PortNum};
use rsm_routing::netlist::{LinkSpeed, LinkWidth, NodeKind};
use rsm_routing::tables::Lft;
use rsm_view::dump::{
    DumpLink, DumpNode, DumpPort, DumpSource, DumpTables, HopRule, LinkState, write_all,
};

/// Folder of ibsim's example fabrics.
const EXAMPLES: &str = "/usr/share/doc/ibsim-utils/net-examples";

/// Whether all programs are installed. Panics if one is missing and peers are required.
fn are_installed(programs: &[(&str, &str)]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    // OpenSM is in a directory that is not in the search path of ordinary users.
    let dirs: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .collect();
    for (program, package) in programs {
        if !dirs.iter().any(|dir| dir.join(program).exists()) {
            let required = std::env::var_os("RSM_REQUIRE_PEERS").is_some_and(|v| v == "1");
            assert!(!required, "{program} is missing: install {package}");
            let mut err = std::io::stderr();
            let _ = writeln!(err, "ignored: {program} is missing, install {package}");
            return false;
        }
    }
    true
}

/// Child process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs OpenSM at `host` of the fabric `net`; OpenSM writes its files to `dir`.
fn run_opensm(net: &Path, host: &str, engine: &str, dir: &Path) {
    let socket = format!("rsm-dump-{}-{}", std::process::id(), dir.display());
    let socket = socket.replace('/', "-");
    let sim = Command::new("ibsim")
        .arg("-s")
        .arg(net)
        .env("IBSIM_SOCKNAME", &socket)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut sim = Running(sim);
    let mut out = BufReader::new(sim.0.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "ibsim ended");
    }
    // A thread must continue to read, or the simulator blocks on a full pipe.
    let drain = std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    let status = Command::new("ibsim-run")
        .args(["opensm", "-o", "-D", "0x43", "-R", engine, "-f", "osm.log"])
        .env("IBSIM_SOCKNAME", &socket)
        .env("SIM_HOST", host)
        .env("OSM_CACHE_DIR", dir)
        .env("OSM_TMP_DIR", dir)
        .env(
            "PATH",
            format!("{}:/usr/sbin", std::env::var("PATH").unwrap()),
        )
        .current_dir(dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "opensm: {status}");
    drop(sim);
    drain.join().unwrap().unwrap();
}

/// One end of a line of `opensm-subnet.lst`.
struct End {
    node: DumpNode<'static>,
    number: PortNum,
    port_guid: Guid,
    lid: Lid,
    is_sm: bool,
}

/// The word after `name` in `text`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let rest = &text[text.find(name).unwrap() + name.len()..];
    rest.split([' ', '}']).next().unwrap()
}

/// The hexadecimal number after `name` in `text`.
fn hex(text: &str, name: &str) -> u64 {
    u64::from_str_radix(field(text, name), 16).unwrap()
}

/// Parses one end of a line of `opensm-subnet.lst`.
fn end(text: &str) -> End {
    let kind = text
        .trim_start_matches(['{', ' '])
        .split(' ')
        .next()
        .unwrap();
    let open = text.rfind(" {").unwrap() + 2;
    let close = text.rfind("} LID:").unwrap();
    let description: &'static [u8] = Vec::leak(text.as_bytes()[open..close].to_vec());
    let node = DumpNode {
        kind: match &kind[..2] {
            "SW" => NodeKind::Switch,
            "CA" => NodeKind::Ca,
            "Rt" => NodeKind::Router,
            other => panic!("{other}"),
        },
        guid: Guid(hex(text, "NodeGUID:")),
        system_image_guid: Guid(hex(text, "SystemGUID:")),
        vendor_id: hex(text, "VenID:") as u32,
        device_id: hex(text, "DevID:") as u16,
        revision: hex(text, "Rev:") as u32,
        description,
        num_ports: hex(text, "Ports:") as u8,
        ports: BTreeMap::new(),
        tables: None,
    };
    End {
        node,
        number: PortNum(hex(text, " PN:") as u8),
        port_guid: Guid(hex(text, "PortGUID:")),
        lid: Lid(hex(text, "} LID:") as u16),
        is_sm: kind.ends_with("-SM"),
    }
}

/// Reads OpenSM's files: the nodes, and the LID of the subnet manager.
fn read_dir(dir: &Path) -> (Vec<DumpNode<'static>>, Lid) {
    let mut nodes: BTreeMap<Guid, DumpNode<'static>> = BTreeMap::new();
    let mut sm_lid = Lid::NONE;
    let text = fs::read(dir.join("opensm-subnet.lst")).unwrap();
    for line in String::from_utf8_lossy(&text).lines() {
        let middle = line.find(" } { ").unwrap();
        let (near, rest) = (end(&line[..middle]), &line[middle + 3..]);
        let far_end = rest.rfind(" } PHY=").unwrap();
        let far = end(&rest[..far_end]);
        let words = &rest[far_end..];
        let link = DumpLink {
            node: far.node.guid,
            port: far.number,
            width: field(words, "PHY=").parse().unwrap(),
            speed: match field(words, "SPD=").trim() {
                "2.5" => LinkSpeed::Sdr,
                "5" => LinkSpeed::Ddr,
                "10" => LinkSpeed::Qdr,
                "14" => LinkSpeed::Fdr,
                "25" => LinkSpeed::Edr,
                "50" => LinkSpeed::Hdr,
                "FDR10" => LinkSpeed::Fdr10,
                other => panic!("{other}"),
            },
            state: match field(words, "LOG=") {
                "ACT" => LinkState::Active,
                "ARM" => LinkState::Armed,
                "INI" => LinkState::Init,
                _ => LinkState::Down,
            },
        };
        if near.is_sm {
            sm_lid = near.lid;
        }
        let switch = near.node.kind == NodeKind::Switch;
        let node = nodes.entry(near.node.guid).or_insert(near.node);
        let mut port = DumpPort {
            guid: near.port_guid,
            link: Some(link),
            ..DumpPort::default()
        };
        if switch {
            let guid = near.port_guid;
            let lid = near.lid;
            let zero = DumpPort {
                guid,
                lid,
                ..DumpPort::default()
            };
            node.ports.insert(PortNum::ZERO, zero);
        } else {
            port.lid = near.lid;
        }
        node.ports.insert(near.number, port);
    }
    read_tables(dir, &mut nodes);
    (nodes.into_values().collect(), sm_lid)
}

/// Adds the forwarding tables of `opensm-lfts.dump` to `nodes`.
fn read_tables(dir: &Path, nodes: &mut BTreeMap<Guid, DumpNode<'static>>) {
    let text = fs::read(dir.join("opensm-lfts.dump")).unwrap();
    let mut switch = Guid::ZERO;
    let mut table = Vec::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["Unicast", "lids", range, ..] => {
                let max: usize = range[3..range.len() - 1].parse().unwrap();
                table = vec![0xff; max + 1];
                switch = line.split(" guid ").nth(1).unwrap()[..18].parse().unwrap();
            }
            [_, "lids", "dumped"] => {
                let node = nodes.get_mut(&switch).unwrap();
                node.tables = Some(DumpTables {
                    linear: Lft::from_entries(&std::mem::take(&mut table)),
                    ..DumpTables::default()
                });
            }
            [lid, port, ..] => {
                let lid: Lid = lid.parse().unwrap();
                table[lid.index()] = port.parse().unwrap();
            }
            _ => panic!("{line}"),
        }
    }
}

/// Switches in ascending order of their distance from the switches for which `top` is true.
fn ranked(nodes: &[DumpNode<'_>], top: impl Fn(&DumpNode<'_>) -> bool) -> Vec<Guid> {
    let switches = || nodes.iter().filter(|node| node.tables.is_some());
    let mut order: Vec<Guid> = switches().filter(|n| top(n)).map(|n| n.guid).collect();
    let mut at = 0;
    while let Some(&guid) = order.get(at) {
        let node = switches().find(|n| n.guid == guid).unwrap();
        let peers = node
            .ports
            .values()
            .filter_map(|p| p.link)
            .map(|link| link.node);
        for peer in peers {
            if !order.contains(&peer) && switches().any(|n| n.guid == peer) {
                order.push(peer);
            }
        }
        at += 1;
    }
    order
}

/// Line of OpenSM's file with the far end's device ID in its low bits: OpenSM swaps the bytes of
/// the 16 bits as a number of 32 bits.
fn with_far_device_id(line: &str) -> String {
    let Some((before, after)) = line.rsplit_once(" DevID:") else {
        return line.to_owned();
    };
    match after.split_at_checked(8) {
        Some((device, rest)) if device.ends_with("0000") => {
            format!("{before} DevID:{}{rest}", &device[..4])
        }
        _ => line.to_owned(),
    }
}

/// Writes `nodes` as rsm's files, and compares them with OpenSM's files in `theirs`. Returns the
/// folder of rsm's files.
fn compare(
    theirs: &Path,
    nodes: Vec<DumpNode<'static>>,
    sm_lid: Lid,
    rule: HopRule<'_>,
) -> PathBuf {
    let ours = theirs.join("ours");
    let source = DumpSource::new(nodes, sm_lid, rule).unwrap();
    write_all(&ours, &source).unwrap();
    for name in [
        "opensm-subnet.lst",
        "opensm-lfts.dump",
        "opensm-lid-matrix.dump",
        "opensm.fdbs",
        "opensm.mcfdbs",
    ] {
        let (a, b) = (
            fs::read(theirs.join(name)).unwrap(),
            fs::read(ours.join(name)).unwrap(),
        );
        let lines = |bytes: &[u8]| bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        let (theirs, ours): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (lines(&a), lines(&b));
        for (at, (x, y)) in theirs.iter().zip(&ours).enumerate() {
            let (x, y) = (String::from_utf8_lossy(x), String::from_utf8_lossy(y));
            assert_eq!(with_far_device_id(&x), y, "{name}, line {}", at + 1);
        }
        assert_eq!(theirs.len(), ours.len(), "{name}");
    }
    // OpenSM's file is in the order of its hash table.
    let claims = |dir: &Path| {
        let file = dir.join("guid2lid");
        rsm_config::parse_guid2lid(&file, &fs::read_to_string(&file).unwrap())
    };
    let (a, b) = (claims(theirs), claims(&ours));
    assert_eq!(a.claims, b.claims);
    assert!(a.findings.is_empty() && b.findings.is_empty());
    let sorted = |dir: &Path| {
        let text = fs::read_to_string(dir.join("guid2lid")).unwrap();
        let mut entries: Vec<String> = text.split_inclusive("\n\n").map(str::to_owned).collect();
        entries.sort();
        entries
    };
    assert_eq!(sorted(theirs), sorted(&ours));
    ours
}

/// Runs ibdmchk on rsm's files, and returns its output.
fn ibdmchk(dir: &Path) -> String {
    let output = Command::new("ibdmchk")
        .args(["-v", "-s", "opensm-subnet.lst", "-f", "opensm.fdbs"])
        .args(["-m", "opensm.mcfdbs", "-l", "0"])
        .current_dir(dir)
        .output()
        .unwrap();
    // The exit code is ignored, because some builds crash at exit, after the last line.
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.contains("-E-"), "{output}");
    assert!(output.contains("-I- no credit loops found"), "{output}");
    output
}

/// Programs that a run of OpenSM requires, and their packages.
const OPENSM: [(&str, &str); 3] = [
    ("opensm", "opensm"),
    ("ibsim", "ibsim-utils"),
    ("ibsim-run", "ibsim-utils"),
];

#[test]
fn dumps_of_ibsim_examples_equal_those_of_opensm() {
    if !are_installed(&OPENSM) {
        return;
    }
    for name in [
        "net",
        "net.1",
        "net.2sw2path",
        "net.2sw2path4hca",
        "net.2sw2path4hca2port",
    ] {
        let dir = tempfile::tempdir().unwrap();
        run_opensm(
            &Path::new(EXAMPLES).join(name),
            "Hca1",
            "minhop",
            dir.path(),
        );
        let (nodes, sm_lid) = read_dir(dir.path());
        assert!(sm_lid.is_unicast(), "{name}");
        compare(dir.path(), nodes, sm_lid, HopRule::Shortest);
    }
}

/// Two spines, three leaves with two cables to each spine, two hosts on each leaf, with NDR links.
fn tree() -> String {
    let mut out = String::new();
    for leaf in 0..3 {
        out += &format!("Switch 8 \"leaf{leaf}\"\n");
        for port in 0..4 {
            let (spine, at) = (port / 2, leaf * 2 + port % 2 + 1);
            out += &format!("[{}] \"spine{spine}\"[{at}]\n", port + 1);
        }
        for host in 0..2 {
            out += &format!("[{}] \"host{leaf}{host}\"[1]\n", host + 5);
        }
        out.push('\n');
    }
    for spine in 0..2 {
        out += &format!("Switch 8 \"spine{spine}\"\n");
        for port in 0..6 {
            let (leaf, at) = (port / 2, spine * 2 + port % 2 + 1);
            out += &format!("[{}] \"leaf{leaf}\"[{at}]\n", port + 1);
        }
        out.push('\n');
    }
    for leaf in 0..3 {
        for host in 0..2 {
            out += &format!(
                "Hca 1 \"host{leaf}{host}\"\n[1] \"leaf{leaf}\"[{}]\n\n",
                host + 5
            );
        }
    }
    out
}

#[test]
fn dumps_of_up_down_routes_equal_those_of_opensm() {
    if !are_installed(&OPENSM) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let net = dir.path().join("tree.net");
    fs::write(&net, tree()).unwrap();
    run_opensm(&net, "host00", "updn", dir.path());
    let (nodes, sm_lid) = read_dir(dir.path());
    let order = ranked(&nodes, |node| node.description.starts_with(b"spine"));
    assert_eq!(order.len(), 5);
    compare(dir.path(), nodes, sm_lid, HopRule::UpDown(&order));
}

/// A ring of four switches with one host each, the tables `tables` and links of `speed`.
fn ring(speed: LinkSpeed, tables: [&'static [u8]; 4]) -> Vec<DumpNode<'static>> {
    let switch = |i: u64| Guid(0x10 + i % 4);
    let link = |node, port| {
        Some(DumpLink {
            node,
            port: PortNum(port),
            width: LinkWidth::X4,
            speed,
            state: LinkState::Active,
        })
    };
    let port = |guid, lid, link| DumpPort {
        guid,
        lid,
        link,
        ..DumpPort::default()
    };
    let node = |kind, guid, num_ports, ports: Vec<(PortNum, DumpPort)>, tables| DumpNode {
        kind,
        guid,
        system_image_guid: guid,
        vendor_id: 0x2c9,
        device_id: 0xd2f2,
        revision: 0,
        description: b"ring",
        num_ports,
        ports: ports.into_iter().collect(),
        tables,
    };
    let mut nodes = Vec::new();
    for (i, linear) in (0..4u64).zip(tables) {
        let (own, host) = (switch(i), Guid(0x20 + i));
        let ports = vec![
            (PortNum(0), port(own, Lid(1 + i as u16), None)),
            (PortNum(1), port(own, Lid::NONE, link(switch(i + 1), 2))),
            (PortNum(2), port(own, Lid::NONE, link(switch(i + 3), 1))),
            (PortNum(3), port(own, Lid::NONE, link(host, 1))),
        ];
        let tables = Some(DumpTables {
            linear: Lft::from_entries(linear),
            ..DumpTables::default()
        });
        nodes.push(node(NodeKind::Switch, own, 3, ports, tables));
        let ports = vec![(PortNum(1), port(host, Lid(5 + i as u16), link(own, 3)))];
        nodes.push(node(NodeKind::Ca, host, 1, ports, None));
    }
    nodes
}

#[test]
fn ibdmchk_accepts_dump_files() {
    if !are_installed(&[("ibdmchk", "ibutils")]) {
        return;
    }
    // The tables avoid the link between the last and the first switch, so there is no credit loop.
    let line: [&[u8]; 4] = [
        &[255, 0, 1, 1, 1, 3, 1, 1, 1],
        &[255, 2, 0, 1, 1, 2, 3, 1, 1],
        &[255, 2, 2, 0, 1, 2, 2, 3, 1],
        &[255, 2, 2, 2, 0, 2, 2, 2, 3],
    ];
    for speed in LinkSpeed::ALL {
        let dir = tempfile::tempdir().unwrap();
        let source = DumpSource::new(ring(speed, line), Lid(5), HopRule::Shortest).unwrap();
        write_all(dir.path(), &source).unwrap();
        let output = ibdmchk(dir.path());
        assert!(
            output.contains("-I- Scanned:12 CA to CA paths"),
            "{speed}: {output}"
        );
    }
}

#[test]
fn ibdmchk_finds_a_credit_loop_in_dump_files() {
    if !are_installed(&[("ibdmchk", "ibutils")]) {
        return;
    }
    // The tables always lead forward, so every link of the ring waits for the next.
    let round: [&[u8]; 4] = [
        &[255, 0, 1, 1, 1, 3, 1, 1, 1],
        &[255, 1, 0, 1, 1, 1, 3, 1, 1],
        &[255, 1, 1, 0, 1, 1, 1, 3, 1],
        &[255, 1, 1, 1, 0, 1, 1, 1, 3],
    ];
    let dir = tempfile::tempdir().unwrap();
    let source = DumpSource::new(ring(LinkSpeed::Edr, round), Lid(5), HopRule::Shortest).unwrap();
    write_all(dir.path(), &source).unwrap();
    let output = Command::new("ibdmchk")
        .args(["-s", "opensm-subnet.lst", "-f", "opensm.fdbs"])
        .args(["-m", "opensm.mcfdbs", "-l", "0"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(!output.contains("no credit loops found"), "{output}");
    assert!(output.contains("credit loop"), "{output}");
}

#[test]
#[ignore = "compares with the files of an OpenSM run by minhop in the directory that RSM_TEST_OPENSM_DIR names"]
fn dumps_of_a_given_fabric_equal_those_of_opensm() {
    let dir = PathBuf::from(std::env::var_os("RSM_TEST_OPENSM_DIR").unwrap());
    let (nodes, sm_lid) = read_dir(&dir);
    compare(&dir, nodes, sm_lid, HopRule::Shortest);
}

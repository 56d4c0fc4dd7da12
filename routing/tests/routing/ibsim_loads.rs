//! `ibsim`, the simulator of the OpenFabrics tools, starts from the written files, and sees the
//! same cables.
//!
//! Without `ibsim` (Debian: ibsim-utils) the tests say so and pass, unless `RSM_REQUIRE_PEERS` is
//! `1`.

#![expect(clippy::print_stderr, reason = "skipped tests are reported")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rsm_ids::PortNum;
use rsm_routing::generate::{generate, specs};
use rsm_routing::ibnetdiscover::{parse, write};
use rsm_routing::netlist::{LinkSpeed, Netlist, Node};

const IBSIM: &str = "/usr/bin/ibsim";

/// A connected port as both programs name it: node, port, node, port.
type Link = (String, String, String, String);

fn has_ibsim() -> bool {
    if Path::new(IBSIM).exists() {
        return true;
    }
    let required = env::var("RSM_REQUIRE_PEERS").is_ok_and(|value| value == "1");
    assert!(!required, "{IBSIM} is missing: install ibsim-utils");
    eprintln!("skipped: {IBSIM} is missing (package ibsim-utils)");
    false
}

fn links(netlist: &Netlist) -> BTreeSet<Link> {
    let name = |(node, port): (usize, PortNum)| {
        let node: &Node = &netlist.nodes()[node];
        (node.id(), port.to_string())
    };
    let mut links = BTreeSet::new();
    for cable in netlist.cables() {
        for end in [cable.a, cable.b] {
            let ((here, port), (there, peer)) = (name(end), name(cable.across(end)));
            links.insert((here, port, there, peer));
        }
    }
    links
}

/// The text between the first `open` and the `close` after it.
fn between(text: &str, open: char, close: char) -> Option<&str> {
    text.split_once(open)?
        .1
        .split_once(close)
        .map(|pair| pair.0)
}

/// The links in the output of ibsim's `dump`: a header with the node's name in quotes, and ports
/// like `guid [3] "peer"[4] … Init/LinkUp`.
fn dumped(output: &str) -> BTreeSet<Link> {
    let mut node = "";
    let mut links = BTreeSet::new();
    for line in output.lines() {
        if ["Switch ", "Ca ", "Router "]
            .iter()
            .any(|kind| line.starts_with(kind))
        {
            node = between(line, '"', '"').unwrap_or("");
        } else if line.ends_with("Init/LinkUp")
            && let Some(port) = between(line, '[', ']')
            && let Some(peer) = between(line, '"', '"')
            && let Some((_, rest)) = line.split_once("\"[")
            && let Some((peer_port, _)) = rest.split_once(']')
        {
            links.insert((
                node.to_owned(),
                port.to_owned(),
                peer.to_owned(),
                peer_port.to_owned(),
            ));
        }
    }
    links
}

fn assert_loads(name: &str, netlist: &Netlist) {
    let mut text = Vec::new();
    write(netlist, &mut text).unwrap();
    let (stdout, stderr) = dump(name, &text);
    assert_eq!(stderr, "", "{name}");
    let (here, there) = (links(netlist), dumped(&stdout));
    let difference: Vec<_> = here.symmetric_difference(&there).take(5).collect();
    assert!(difference.is_empty(), "{name}: {difference:?}");
}

/// The dump by ibsim of a fabric that it simulates, and its warnings.
fn dump(name: &str, text: &[u8]) -> (String, String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let unique = format!(
        "rsm-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{unique}.txt"));
    fs::write(&file, text).unwrap();

    let mut child = Command::new(IBSIM)
        .args([
            "-N", "60000", "-S", "6000", "-P", "500000", "-L", "1024", "-s",
        ])
        .arg(&file)
        .env("IBSIM_SOCKNAME", &unique)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // If ibsim has stopped early, its own message counts, not the failure of this write.
    let console = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(b"dump\nquit\n"));
    let output = child.wait_with_output().unwrap();
    fs::remove_file(&file).unwrap();

    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{name}: {stderr}");
    assert!(matches!(console, Some(Ok(()))), "{name}: {console:?}");
    assert!(
        stdout.contains("Network simulator ready"),
        "{name}: {stdout}"
    );
    (stdout, stderr)
}

#[test]
fn ibsim_loads_generated_fabrics() {
    if !has_ibsim() {
        return;
    }
    let examples = specs().map(|spec| spec.example.to_owned());
    let more = [
        "superpod:su=9",
        "superpod,faults=links:5%,switches:3,seed=7",
        "pgft:3;4,4,4;2,2,2;1,2,1,faults=switches:5,seed=1",
    ];
    for spec in examples.chain(more.map(str::to_owned)) {
        // Released versions know nothing faster than HDR.
        let spec = match spec.split_once(",faults") {
            Some((fabric, faults)) => format!("{fabric},speed=HDR,faults{faults}"),
            None if spec.contains([':', ',']) => format!("{spec},speed=HDR"),
            None => format!("{spec}:speed=HDR"),
        };
        assert_loads(&spec, &generate(&spec).unwrap());
    }
}

#[test]
fn ibsim_loads_every_speed_it_knows() {
    if !has_ibsim() {
        return;
    }
    for speed in LinkSpeed::ALL
        .into_iter()
        .filter(|speed| *speed <= LinkSpeed::Hdr)
    {
        let spec = format!("ring:4,speed={speed}");
        assert_loads(&spec, &generate(&spec).unwrap());
    }
}

#[test]
fn ibsim_loads_real_fabrics_that_have_been_read_and_written() {
    if !has_ibsim() {
        return;
    }
    for file in [
        "synthetic-oddities.txt",
        "ibtopotool-1-manpage-voltaire-sdr.txt",
        "nvidia-ufmlab-small.txt",
        "tartu-rocket-qdr-fdr10.txt",
        "superbench-faked-hdr-full.txt",
        "nvidia-sat11-director-puttylog.txt",
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("../../shared/data/topologies")
            .join(file);
        let Ok(text) = fs::read(&path) else {
            eprintln!("skipped: {} is missing", path.display());
            continue;
        };
        assert_loads(file, &parse(&text, file).unwrap().netlist);
    }
}

/// Node GUIDs, and the links between them, in the output of ibsim's `dump`, with their rates.
type Simulated = (BTreeSet<u64>, BTreeSet<(u64, u8, u64, u8, String)>);

fn simulated(output: &str) -> Simulated {
    let mut guid_of = BTreeMap::new();
    let mut found = Vec::new();
    let mut here = 0;
    for line in output.lines() {
        if let Some((header, rest)) = line.split_once("nodeguid ") {
            let guid = rest.split_whitespace().next().unwrap_or("");
            here = u64::from_str_radix(guid, 16).expect("a GUID");
            guid_of.insert(between(header, '"', '"').unwrap_or("").to_owned(), here);
        } else if let Some(rest) = line.strip_suffix(" Init/LinkUp") {
            let number = |text: &str| between(text, '[', ']').and_then(|n| n.parse().ok());
            let (_, across) = rest.split_once("\"[").expect("a link");
            let mut rate = rest.split_whitespace().rev();
            let (speed, width) = (rate.next().unwrap_or(""), rate.next().unwrap_or(""));
            let peer = between(rest, '"', '"').unwrap_or("").to_owned();
            let ports = (number(rest), number(&format!("[{across}")));
            found.push((
                here,
                ports.0.unwrap_or(0),
                peer,
                ports.1.unwrap_or(0),
                format!("{width} {speed}"),
            ));
        }
    }
    let links = found.into_iter();
    let links =
        links.map(|(node, port, peer, there, rate)| (node, port, guid_of[&peer], there, rate));
    (guid_of.values().copied().collect(), links.collect())
}

fn stated(netlist: &Netlist) -> Simulated {
    let guid = |node: usize| netlist.nodes()[node].guid.0;
    let guids = (0..netlist.nodes().len()).map(guid).collect();
    let mut links = BTreeSet::new();
    for cable in netlist.cables() {
        let speed = match cable.speed {
            LinkSpeed::Sdr => " 2.5G",
            LinkSpeed::Ddr => " 5.0G",
            LinkSpeed::Qdr => "10.0G",
            LinkSpeed::Edr => "25G",
            LinkSpeed::Hdr => "50G",
            other => panic!("{other}"),
        };
        let rate = format!("{} {}", cable.width, speed.trim());
        for end in [cable.a, cable.b] {
            let across = cable.across(end);
            links.insert((
                guid(end.0),
                end.1.0,
                guid(across.0),
                across.1.0,
                rate.clone(),
            ));
        }
    }
    (guids, links)
}

#[test]
fn nets_are_read_as_ibsim_simulates_them() {
    if !has_ibsim() {
        return;
    }
    let mut nets = vec![("NET".to_owned(), super::ibsim_nets::NET.as_bytes().to_vec())];
    for entry in fs::read_dir("/usr/share/doc/ibsim-utils/net-examples")
        .into_iter()
        .flatten()
    {
        let path = entry.unwrap().path();
        let name = path.display().to_string();
        if !name.ends_with("README") {
            nets.push((name, fs::read(&path).unwrap()));
        }
    }
    for (name, text) in nets {
        let (stdout, _) = dump(&name, &text);
        let parsed = parse(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(stated(&parsed.netlist), simulated(&stdout), "{name}");
    }
}

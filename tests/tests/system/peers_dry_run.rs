//! Runs `rsm --dry-run`, among others beside a running OpenSM: the subnet stays unchanged, and rsm
//! lists the Sets that it would send if it took over.

use std::path::Path;
use std::time::Duration;

use rsm_ids::PortNum;
use rsm_mad::ids::Tid;
use rsm_mad::transport::{Datagram, RemoteAddress, Transport};
use rsm_mad::wire::attr::{Attribute, LinearForwardingTable};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::smp::{Smp, SmpRequest};
use rsm_routing::generate::generate;
use rsm_routing::netlist::NodeKind;
use rsm_tests::bringup::{LIMIT, PEERS, QUIET, SMALL};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::hosted::Hosted;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;
use rsm_tests::process::Invocation;
use rsm_tests::sm::{OnceReport, OpenSm, Rsm, check_states, rsm_once};
use rsm_tests::tap::{Tap, attribute, method};
use rsm_tests::{binaries, served};
use serde_json::Value;

/// The exit code of `--dry-run` if rsm would set nothing.
const NOTHING_TO_SET: i32 = 0;
/// The exit code of `--dry-run` if rsm would send Sets.
const SETS_LISTED: i32 = 3;

/// The report of `rsm --dry-run --format json`, which must exit with the code `expected`.
fn dry_run(rsm: Invocation, arguments: &[&str], expected: i32) -> Value {
    let rsm = rsm.args(["--fabric", "umad", "--dry-run", "--format", "json"]);
    let finished = rsm.args(arguments).run(LIMIT).unwrap();
    assert_eq!(finished.status.code(), Some(expected), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

/// The Sets in a report, as `(attribute, modifier)`, sorted.
fn listed(report: &Value) -> Vec<(String, u64)> {
    let sets = report["sets"].as_array().unwrap().iter();
    let mut listed: Vec<(String, u64)> = sets
        .map(|set| {
            let attribute = set["attribute"].as_str().unwrap().to_owned();
            (attribute, set["modifier"].as_u64().unwrap())
        })
        .collect();
    listed.sort();
    listed
}

/// Has OpenSM read and route the whole subnet again; returns its dump of the forwarding tables.
fn dump(opensm: &mut OpenSm) -> String {
    let sweeps = opensm.sweeps();
    opensm.hang_up();
    assert!(opensm.wait_subnet_up(sweeps + 1, LIMIT), "{}", opensm.log());
    tables(opensm.directory())
}

/// OpenSM's last dump of the forwarding tables.
fn tables(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("opensm-lfts.dump")).unwrap()
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn dry_run_beside_opensm_changes_nothing_and_lists_the_sets_of_a_takeover() {
    if !require_peers(PEERS) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let arguments = &["-D", "0x43", "-R", "updn"];
    let mut opensm = OpenSm::start(&ibsim, None, "Hca1", arguments, LIMIT).unwrap();
    let (states, routes) = (check_states(&ibsim, "Hca3").unwrap(), dump(&mut opensm));

    let tap = Tap::open(&ibsim).unwrap();
    let rsm = ibsim
        .client_through(tap.socket_name(), "Hca2", binaries::rsm())
        .unwrap();
    let report = dry_run(rsm, &[], SETS_LISTED);
    for tables in ["held", "planned"] {
        let paths = report["routes"][tables]["fullest_link"].as_f64();
        assert!(paths.is_some_and(|paths| paths > 0.0), "{report}");
    }
    assert!(tap.wait_quiet(QUIET, LIMIT));
    let tally = tap.tally();
    assert!(tally.gets() > 0 && tally.total() == tally.gets(), "{tally}");
    assert_eq!(check_states(&ibsim, "Hca3").unwrap(), states);
    assert_eq!(dump(&mut opensm), routes);

    // In OpenSM's place rsm sends the listed Sets. Sets for multicast and hosts' registrations
    // follow later, after requests of hosts.
    opensm.stop().unwrap();
    ibsim.detach_dead_clients().unwrap();
    tap.clear();
    let state = ibsim.directory().join("state");
    let once = rsm_once(&ibsim, Some(&tap), "Hca1", &state).unwrap();
    OnceReport::of(&once.run(LIMIT).unwrap().success().unwrap()).unwrap();
    let is_listed =
        |id: u16| id == attribute::PORT_INFO || id == attribute::LINEAR_FORWARDING_TABLE;
    let mut sent: Vec<(String, u64)> = tap
        .packets()
        .iter()
        .filter(|packet| packet.method() == method::SET && is_listed(packet.attribute()))
        .map(|packet| {
            (
                attribute::name(packet.attribute()),
                u64::from(packet.modifier()),
            )
        })
        .collect();
    sent.sort();
    let mut expected = listed(&report);
    expected.retain(|(name, _)| name == "PortInfo" || name == "LinearForwardingTable");
    assert_eq!(sent, expected);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm")]
fn dry_run_with_opensms_tables_as_plan_lists_the_one_block_that_was_broken_by_hand() {
    if !require_peers(&["opensm"]) {
        return;
    }
    let netlist = generate("fat-tree:k=4,levels=2").unwrap();
    let hosted = Hosted::start(&netlist).unwrap();
    let opensm = hosted.client("opensm").unwrap();
    let mut opensm = OpenSm::run(opensm, &["-D", "0x43", "-R", "updn"], LIMIT).unwrap();
    assert!(hosted.wait_quiet(Duration::from_secs(2), LIMIT).unwrap());
    dump(&mut opensm);
    assert!(hosted.wait_quiet(Duration::from_secs(2), LIMIT).unwrap());
    let config = hosted.directory().join("rsm.toml");
    let file = opensm.directory().join("opensm-lfts.dump");
    let text = format!("[routing]\nengine = \"file\"\ntables_file = {:?}\n", file);
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap().to_owned();
    let sets = || hosted.sim.with(|sim| sim.counters().sets()).unwrap();
    let blocks = |report: &Value| {
        let all = report["sets"].as_array().unwrap().clone();
        let (blocks, others): (Vec<Value>, Vec<Value>) = all
            .into_iter()
            .partition(|set| set["attribute"] == "LinearForwardingTable");
        (blocks, others)
    };

    // The dry run is on OpenSM's own host, where OpenSM holds the management classes.
    let before = sets();
    let rsm = hosted.client(binaries::rsm()).unwrap();
    let report = dry_run(rsm, &["--config", &config], SETS_LISTED);
    let (unbroken, others) = blocks(&report);
    // OpenSM leaves a spine without a path to another spine; the engine adds these entries, and
    // changes none.
    let added = |set: &Value| {
        let changes = set["changes"].as_array().unwrap();
        changes.iter().all(|change| change["from"] == "no path")
    };
    assert!(unbroken.iter().all(added), "{unbroken:?}");
    assert_eq!(sets(), before);

    let nodes = netlist.nodes();
    let switch = nodes
        .iter()
        .rev()
        .filter(|node| node.kind == NodeKind::Switch)
        .find(|node| {
            unbroken
                .iter()
                .all(|set| set["guid"] != node.guid.to_string())
        })
        .unwrap();
    let switch_guid = switch.guid;
    let host = nodes
        .iter()
        .rev()
        .find(|node| node.kind == NodeKind::Ca)
        .unwrap()
        .guid;
    let (lid, table) = hosted
        .sim
        .with(move |sim| {
            let lid = sim.port_info(switch_guid, PortNum::ZERO).unwrap().lid();
            (lid, sim.lft(switch_guid).unwrap().to_vec())
        })
        .unwrap();
    let mut broken = [255; 64];
    broken.copy_from_slice(&table[..64]);
    let entry = broken.iter().rposition(|&port| port != 255).unwrap();
    broken[entry] = 255;
    let mut transport = hosted
        .sim
        .attach(
            host,
            PortNum(1),
            Box::new(|_| {}) as rsm_mad::transport::Sink,
        )
        .unwrap();
    let smp = Smp::lid_routed(&SmpRequest {
        method: Method::SET,
        attribute: LinearForwardingTable::ID,
        modifier: 0,
        tid: Tid(7),
        m_key: 0,
        data: broken,
    });
    let set = Datagram {
        mad: *smp.as_bytes(),
        remote: RemoteAddress::smi(lid),
    };
    transport.send(&set, Duration::from_secs(1)).unwrap();
    assert!(hosted.wait_quiet(Duration::from_secs(1), LIMIT).unwrap());
    drop(transport);

    let rsm = served::client(
        hosted.directory(),
        &hosted.directory().join("fabric.sock"),
        &host.to_string(),
        binaries::rsm(),
    );
    let report = dry_run(rsm.unwrap(), &["--config", &config], SETS_LISTED);
    let (mut found, rest) = blocks(&report);
    assert_eq!(rest, others);
    assert!(unbroken.iter().all(|set| found.contains(set)));
    found.retain(|set| !unbroken.contains(set));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["guid"], switch_guid.to_string());
    assert_eq!(found[0]["modifier"], 0);
    let changes = found[0]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0]["field"], format!("LID {entry}"));
    assert_eq!(changes[0]["from"], "no path");
    opensm.stop().unwrap();
}

#[test]
fn dry_run_after_a_bring_up_by_rsm_lists_nothing() {
    let netlist = generate("fat-tree:k=4,levels=2").unwrap();
    let hosted = Hosted::start(&netlist).unwrap();
    let rsm = || hosted.client(binaries::rsm()).unwrap();
    let once = rsm().args(["--fabric", "umad", "--once"]);
    once.run(LIMIT).unwrap().success().unwrap();
    let report = dry_run(rsm(), &[], NOTHING_TO_SET);
    assert_eq!(report["would_set"], 0);
    let text = rsm().args(["--fabric", "umad", "--dry-run"]);
    let text = text.run(LIMIT).unwrap().success().unwrap().stdout;
    assert!(text.contains("nothing would be set"), "{text}");
}

#[test]
fn dry_run_predicts_the_number_of_reregistration_sets_of_a_first_start() {
    let netlist = generate("fat-tree:k=4,levels=2").unwrap();
    let hosted = Hosted::start(&netlist).unwrap();
    let once = hosted.client(binaries::rsm()).unwrap();
    let once = once.args(["--fabric", "umad", "--once", "--state-dir", "first"]);
    once.run(LIMIT).unwrap().success().unwrap();
    let rsm = hosted.client(binaries::rsm()).unwrap();
    let report = dry_run(rsm, &[], NOTHING_TO_SET);
    assert_eq!(report["would_set"], 0, "{report}");
    let takeover = &report["takeover"];
    assert_eq!(takeover["new_master_lids"], 0, "{takeover}");
    let text = hosted.client(binaries::rsm()).unwrap();
    let text = text.args(["--fabric", "umad", "--dry-run"]);
    let text = text.run(LIMIT).unwrap().success().unwrap().stdout;
    assert!(text.contains("ClientReregister to "), "{text}");

    let sets = || hosted.sim.with(|sim| sim.counters().sets()).unwrap();
    let before = sets();
    let state = hosted.directory().join("state");
    let rsm = hosted.client(binaries::rsm()).unwrap();
    let rsm = Rsm::run(rsm, &state, &[], LIMIT).unwrap();
    assert!(hosted.wait_quiet(QUIET, LIMIT).unwrap());
    assert_eq!(takeover["more_sets"], sets() - before, "{takeover}");
    rsm.stop().unwrap().success().unwrap();
}

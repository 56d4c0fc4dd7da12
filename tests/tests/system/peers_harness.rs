//! Tests of the harness itself with OpenSM, independent of rsm.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rsm_tests::bringup::{LIMIT, QUIET, SMALL};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::parse::{ibroute, ibtracert, sminfo};
use rsm_tests::peer::require_peers;
use rsm_tests::sm::{OpenSm, check_dumps, check_states, opensm_once};
use rsm_tests::tap::{Packet, Tally, Tap, attribute, method};

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn tap_counts_the_requests_that_ibsim_prints() {
    if !require_peers(&["ibsim", "ibsim-run", "opensm"]) {
        return;
    }
    // At this verbosity ibsim dumps every packet that it receives.
    let ibsim = Ibsim::start_with(&ibsim_example(SMALL), &["-v", "-v", "-v"]).unwrap();
    let tap = Tap::open(&ibsim).unwrap();
    let opensm = opensm_once(&ibsim, Some(&tap), "Hca1").unwrap();
    opensm.run(LIMIT).unwrap().success().unwrap();

    let printed = printed_requests(&ibsim.console_output());
    assert_eq!(tap.tally(), printed);
    assert_eq!(
        printed.of(method::GET, attribute::NODE_DESCRIPTION),
        6,
        "{printed}"
    );
    assert!(
        printed.of(method::SET, attribute::LINEAR_FORWARDING_TABLE) >= 2,
        "{printed}"
    );
}

/// Counts Get and Set SMPs in ibsim's hexadecimal dump: a line `--- packet ---` followed by lines
/// of sixteen bytes.
fn printed_requests(output: &str) -> Tally {
    let mut tally = Tally::default();
    for packet in output.split("--- packet ---").skip(1) {
        let bytes: Vec<u8> = packet
            .lines()
            .skip(1)
            .take(2)
            .flat_map(dumped_bytes)
            .collect();
        let (class, method) = (bytes[1], bytes[3]);
        if matches!(class, 0x01 | 0x81) && matches!(method, method::GET | method::SET) {
            tally.add(method, u16::from_be_bytes([bytes[16], bytes[17]]));
        }
    }
    tally
}

/// The bytes in a line of the dump, which begins with their hexadecimal digits.
fn dumped_bytes(line: &str) -> Vec<u8> {
    let digits: String = line
        .chars()
        .take_while(|c| c.is_ascii_hexdigit() || *c == ' ')
        .collect();
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn the_output_of_all_diagnostics_parses() {
    if !require_peers(&[
        "ibsim",
        "opensm",
        "iblinkinfo",
        "ibroute",
        "ibtracert",
        "ibdmchk",
    ]) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    assert_eq!(ibsim.hosts(), ["Hca1", "Hca2", "Hca3", "Hca4"]);
    let before = check_states(&ibsim, "Hca2").unwrap();
    assert_eq!(
        (before.active, before.not_active.len(), before.links),
        (0, 12, 6)
    );

    // Level 0x43 logs errors, information and the routing dumps.
    let opensm = OpenSm::start(&ibsim, None, "Hca1", &["-D", "0x43"], LIMIT).unwrap();
    let states = check_states(&ibsim, "Hca2").unwrap();
    assert_eq!(
        (states.active, states.links, states.lids.len()),
        (12, 6, 6),
        "{states:?}"
    );
    let master = ibsim
        .diagnose("Hca3", "sminfo", &[])
        .unwrap()
        .success()
        .unwrap();
    let master = sminfo::parse(&master.stdout).unwrap();
    assert_eq!((master.guid, master.state), (0x10_0001, 3));

    let verdict = check_dumps(opensm.directory()).unwrap();
    assert_eq!(verdict.scanned_pairs, 4 * 3, "{verdict:?}");
    assert!(
        verdict.complaints.is_empty() && verdict.credit_loop_free,
        "{verdict:?}"
    );

    // The route to every LID in ibtracert begins with the entry in the table of the first switch.
    let table = ibsim
        .diagnose("Hca4", "ibroute", &["-G", "0x200000"])
        .unwrap();
    let table = ibroute::parse(&table.success().unwrap().stdout).unwrap();
    assert_eq!(table.len(), 6);
    for lid in states.lids.values() {
        let arguments = [master.lid.to_string(), lid.to_string()];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let trace = ibsim
            .diagnose("Hca4", "ibtracert", &arguments)
            .unwrap()
            .success()
            .unwrap();
        let hops = ibtracert::parse(&trace.stdout).unwrap();
        if let Some(second) = hops.get(1) {
            assert_eq!(second.out_port, table[lid], "lid {lid}: {hops:?}");
        }
    }
    opensm.stop().unwrap();
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn console_commands_unlink_and_relink_cables() {
    if !require_peers(&["ibsim", "opensm", "iblinkinfo"]) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let tap = Tap::open(&ibsim).unwrap();
    let mut opensm = OpenSm::start(&ibsim, Some(&tap), "Hca1", &["-s", "0"], LIMIT).unwrap();

    assert!(tap.wait_quiet(QUIET, LIMIT));
    tap.clear();
    ibsim.unlink("Switch1", 5).unwrap();
    assert!(tap.wait_packet(LIMIT, Packet::is_trap), "no trap");
    assert!(opensm.wait_subnet_up(2, LIMIT), "no sweep after the trap");
    assert_eq!(check_states(&ibsim, "Hca2").unwrap().links, 5);
    assert!(
        tap.tally()
            .of(method::SET, attribute::LINEAR_FORWARDING_TABLE)
            > 0
    );

    assert!(tap.wait_quiet(QUIET, LIMIT));
    let sweeps = opensm.sweeps();
    ibsim.relink("Switch1", 5).unwrap();
    assert!(
        opensm.wait_subnet_up(sweeps + 1, LIMIT),
        "no sweep after the second trap"
    );
    assert_eq!(check_states(&ibsim, "Hca2").unwrap().links, 6);

    // A killed client stays attached until it is detached. Then another client can use its node.
    drop(opensm);
    assert_eq!(
        ibsim.command("Attached").unwrap().matches("Client").count(),
        1
    );
    ibsim.detach_dead_clients().unwrap();
    assert_eq!(
        ibsim.command("Attached").unwrap().matches("Client").count(),
        0
    );
    OpenSm::start(&ibsim, Some(&tap), "Hca1", &[], LIMIT).unwrap();
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn ibsim_reports_losses_to_the_sender() {
    if !require_peers(&["ibsim", "ibnetdiscover"]) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let tap = Tap::open(&ibsim).unwrap();
    ibsim.lose(100, Some(attribute::NODE_DESCRIPTION)).unwrap();
    let client = ibsim
        .client_through(tap.socket_name(), "Hca1", "ibnetdiscover")
        .unwrap();
    client.run(LIMIT).unwrap();
    let packets = tap.packets();
    let lost: Vec<_> = packets.iter().filter(|packet| packet.is_loss()).collect();
    assert!(!lost.is_empty());
    assert!(
        lost.iter()
            .all(|packet| packet.attribute() == attribute::NODE_DESCRIPTION)
    );
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn a_file_that_is_no_fabric_is_refused() {
    if !require_peers(&["ibsim"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let net = directory.path().join("net");
    std::fs::write(&net, "Switch 8 \"S\"\n[1] \"nowhere\"[1]\n").unwrap();
    let error = Ibsim::start(&net).unwrap_err();
    assert!(matches!(error, rsm_tests::Error::Refused { .. }), "{error}");
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn client_attaches_after_a_killed_client_while_other_processes_start() {
    if !require_peers(&["ibsim", "opensm"]) {
        return;
    }
    const CLIENTS: usize = 20;
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let tap = Tap::open(&ibsim).unwrap();
    let done = AtomicBool::new(false);
    let start_processes = || {
        while !done.load(Ordering::Relaxed) {
            Command::new("true").status().unwrap();
        }
    };
    let outcome = std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(start_processes);
        }
        let outcome = (0..CLIENTS).try_for_each(|_| {
            drop(OpenSm::start(&ibsim, Some(&tap), "Hca1", &[], LIMIT)?);
            ibsim.detach_dead_clients()
        });
        done.store(true, Ordering::Relaxed);
        outcome
    });
    outcome.unwrap();
}

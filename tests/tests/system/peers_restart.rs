//! SIGKILL at any point, then a restart: LIDs stay, and a correctly configured fabric gets no Set.

use std::sync::atomic::{AtomicUsize, Ordering};

use rsm_tests::bringup::{LIMIT, PEERS, QUIET, SMALL, assert_diagnostics_agree, generated, once};
use rsm_tests::fabrics::ibsim_example;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::peer::require_peers;
use rsm_tests::sm::{Rsm, check_states};
use rsm_tests::tap::{Packet, Tap, attribute, method};

/// Starts rsm and kills it at the moment when the `count`-th packet that `matches` leaves it.
///
/// Returns false if rsm completes a convergence before that.
fn kill_after(
    ibsim: &Ibsim,
    host: &str,
    state: &std::path::Path,
    count: usize,
    matches: fn(&Packet) -> bool,
) -> bool {
    let tap = Tap::open(ibsim).unwrap();
    let mut rsm = Rsm::spawn(ibsim, Some(&tap), host, state).unwrap();
    let killer = rsm.process().killer().unwrap();
    let seen = AtomicUsize::new(0);
    tap.on_packet(move |packet| {
        if matches(packet) && seen.fetch_add(1, Ordering::Relaxed) + 1 == count {
            killer.kill();
        }
    });
    let hit = rsm_tests::clock::wait_for(LIMIT, || {
        let gone = !rsm.process().is_running();
        (gone || rsm.history().is_ok_and(|history| !history.is_empty())).then_some(gone)
    });
    drop(rsm);
    drop(tap);
    ibsim.detach_dead_clients().unwrap();
    hit == Some(true)
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn restart_after_sigkill_at_rest_sets_nothing() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let ibsim = generated("fat-tree:k=8,levels=3", directory.path());
    let (host, state) = (ibsim.hosts()[0], ibsim.directory().join("state"));
    let rsm = Rsm::start(&ibsim, None, host, &state, LIMIT).unwrap();
    let before = check_states(&ibsim, host).unwrap();
    rsm.kill().unwrap();
    ibsim.detach_dead_clients().unwrap();

    let tap = Tap::open(&ibsim).unwrap();
    let rsm = Rsm::start(&ibsim, Some(&tap), host, &state, LIMIT).unwrap();
    assert!(tap.wait_quiet(QUIET, LIMIT));
    assert_eq!(tap.tally().sets(), 0, "{}", tap.tally());
    assert_eq!(check_states(&ibsim, host).unwrap(), before);
    rsm.stop().unwrap().success().unwrap();
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn a_restart_without_the_store_keeps_lids_and_tables() {
    if !require_peers(PEERS) {
        return;
    }
    let ibsim = Ibsim::start(&ibsim_example(SMALL)).unwrap();
    let host = ibsim.hosts()[0];
    let (report, up) = once(&ibsim, None, host, &ibsim.directory().join("state"));
    assert!(up);
    let before = assert_diagnostics_agree(&ibsim, host, &report);
    let tap = Tap::open(&ibsim).unwrap();
    let (_, up) = once(&ibsim, Some(&tap), host, &ibsim.directory().join("another"));
    assert!(up);
    // ibsim accepts some fields of PortInfo and does not keep them. rsm learns that by writing them
    // once, and stores it; it writes nothing else.
    let tally = tap.tally();
    let port_infos = tally.of(method::SET, attribute::PORT_INFO);
    assert_eq!(tally.sets(), port_infos, "{tally}");
    assert_eq!(check_states(&ibsim, host).unwrap(), before);
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn sigkill_during_a_sweep_changes_nothing() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let ibsim = generated("fat-tree:k=4,levels=3", directory.path());
    let (host, state) = (ibsim.hosts()[0], ibsim.directory().join("state"));
    let (_, up) = once(&ibsim, None, host, &state);
    assert!(up);
    let before = check_states(&ibsim, host).unwrap();
    for gets in [1, 10, 60] {
        assert!(
            kill_after(&ibsim, host, &state, gets, Packet::is_request),
            "{gets} requests"
        );
        assert_eq!(
            check_states(&ibsim, host).unwrap(),
            before,
            "{gets} requests"
        );
    }
    let tap = Tap::open(&ibsim).unwrap();
    let (_, up) = once(&ibsim, Some(&tap), host, &state);
    assert!(up);
    assert_eq!(tap.tally().sets(), 0, "{}", tap.tally());
    assert_eq!(check_states(&ibsim, host).unwrap(), before);
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs ibsim-utils, opensm, infiniband-diags and ibutils"
)]
fn after_sigkill_during_a_push_the_next_start_completes_it() {
    if !require_peers(PEERS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for sets in [1, 7, 30, 60, 100] {
        let ibsim = generated("fat-tree:k=4,levels=3", directory.path());
        let (host, state) = (ibsim.hosts()[0], ibsim.directory().join("state"));
        assert!(
            kill_after(&ibsim, host, &state, sets, Packet::is_set),
            "{sets} Sets"
        );
        let before = check_states(&ibsim, host).unwrap();
        let (report, up) = once(&ibsim, None, host, &state);
        assert!(up);
        let after = assert_diagnostics_agree(&ibsim, host, &report);
        for (guid, lid) in before.lids.iter().filter(|(_, lid)| **lid != 0) {
            assert_eq!(after.lids[guid], *lid, "{guid:#018x} after {sets} Sets");
        }
    }
}

//! Managers that share a store: real rsm processes on one served fabric, with a real etcd.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_mad::wire::sa::{McMemberRecord, ServiceRecord};
use rsm_tests::answering::Host;
use rsm_tests::clock::{Stopwatch, wait_for_every};
use rsm_tests::etcd::PEERS;
use rsm_tests::peer::require_peers;
use rsm_tests::sharing::{Site, all, gids, register};
use rsm_tests::virtual_time::seeds;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// A time longer than rsm takes to store a registration.
const WRITE_TIME: Duration = Duration::from_secs(2);
/// A time longer than repairs of so small a fabric take.
const QUIET_TIME: Duration = Duration::from_secs(2);

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn manager_with_an_empty_folder_has_everything_after_sigkill_and_sets_nothing() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    let mut hosts: Vec<Host> = (2..6).map(|place| site.fabric.host(place)).collect();
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let alias = register(&site.fabric, &mut hosts);
    std::thread::sleep(WRITE_TIME);
    rsm.wait_stored();
    let lids = site.fabric.lids();
    let members: Vec<McMemberRecord> = all(&mut hosts[0]);
    let tables = site.fabric.multicast_tables();
    let requests: Vec<u32> = hosts.iter().map(Host::reregistrations).collect();
    rsm.process.kill().unwrap();
    site.fabric.sets_by_sender();

    // The folder is lost with its machine; the port stays the same.
    let rsm = site.rsm(0, "two", "");
    site.wait_answer(&mut hosts[0], 0);
    std::thread::sleep(QUIET_TIME);
    let log = rsm.process.stderr_so_far();
    assert_eq!(site.fabric.sets_by_sender(), BTreeMap::new(), "{log}");
    assert_eq!(site.fabric.lids(), lids);
    assert_eq!(site.fabric.multicast_tables(), tables);
    assert_eq!(gids(&all(&mut hosts[0])), gids(&members));
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1);
    assert_eq!(site.fabric.guids(3).get(2), Some(&alias));
    let subscriptions = rsm.ask(&["subscriptions"]).unwrap_or_default().to_string();
    assert!(subscriptions.contains("0x"), "{subscriptions}\n{log}");
    let after: Vec<u32> = hosts.iter().map(Host::reregistrations).collect();
    assert_eq!(after, requests, "no host registers again");
    assert_eq!(rsm.status()["shared_store"]["epoch"], 2, "{}", rsm.status());
    rsm.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn fabric_is_managed_while_etcd_is_away_and_etcd_gets_the_changes_later() {
    if !require_peers(PEERS) {
        return;
    }
    let mut site = Site::start(FABRIC, 1);
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    rsm.wait_stored();
    site.etcd.kill(0).unwrap();
    rsm.wait_finding("store-unreachable", true);
    assert!(rsm.findings().contains("since 2"), "{}", rsm.findings());
    // A fault is repaired, and hosts register.
    let cable = site.fabric.cables()[0];
    let before = site.fabric.fabric.blocks_written().unwrap();
    site.fabric.set_link(cable, false);
    let repaired = wait_for_every(POLL, LIMIT, || {
        (site.fabric.fabric.blocks_written().unwrap() > before).then_some(())
    });
    assert!(repaired.is_some(), "{}", rsm.process.stderr_so_far());
    let mut hosts: Vec<Host> = (2..6).map(|place| site.fabric.host(place)).collect();
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    register(&site.fabric, &mut hosts);
    std::thread::sleep(WRITE_TIME);
    let store = rsm.status()["shared_store"].clone();
    assert!(store["waiting_rows"].as_u64() > Some(0), "{store}");
    site.etcd.restart(0).unwrap();
    rsm.wait_finding("store-unreachable", false);
    rsm.wait_stored();
    rsm.process.kill().unwrap();
    let rsm = site.rsm(0, "two", "");
    site.wait_answer(&mut hosts[0], 0);
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1);
    rsm.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn fabric_comes_up_without_etcd_at_the_start() {
    if !require_peers(PEERS) {
        return;
    }
    let mut site = Site::start(FABRIC, 1);
    site.etcd.kill(0).unwrap();
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    rsm.wait_finding("store-unreachable", true);
    site.etcd.restart(0).unwrap();
    rsm.wait_stored();
    rsm.wait_finding("store-unreachable", false);
    let lids = site.fabric.lids();
    rsm.process.kill().unwrap();
    let rsm = site.rsm(1, "two", "[sm]\nlid = \"port\"\n");
    rsm.wait_state("up");
    assert_eq!(site.fabric.lids(), lids);
    rsm.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn start_fails_and_names_the_key_if_etcd_has_keys_of_other_programs() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let key = "/rsm/fe80000000000000/registry/pods";
    site.etcd.ctl(&["put", key, "x"]).unwrap();
    let (rsm, _) = site.invocation(0, "one", "");
    let finished = rsm.run(LIMIT).unwrap();
    assert!(finished.stderr.contains(key), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("store.prefix"),
        "{}",
        finished.stderr
    );
    finished.success().unwrap_err();
    let kept = site.etcd.ctl(&["get", "--prefix", "/rsm"]).unwrap().stdout;
    assert_eq!(kept.lines().count(), 2, "{kept}");
}

/// The master is suspended at varying moments while cables come and go; the other manager takes
/// over; the master is resumed.
#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn deposed_master_sets_nothing_after_sigcont() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let poll = "[sm]\npoll_interval_ms = 300\n";
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", poll);
    first.wait_state("up");
    let second = site.rsm(last, "two", poll);
    second.wait_state("standby");
    let managers = [
        (first, site.fabric.hosts[0].0),
        (second, site.fabric.hosts[last].0),
    ];
    let cables = site.fabric.cables();
    let lids = site.fabric.lids();
    for round in 0..6_usize {
        let (master, standby) = match managers[0].0.state().contains("standby") {
            true => (&managers[1], &managers[0]),
            false => (&managers[0], &managers[1]),
        };
        master.0.wait_state("up");
        standby.0.wait_state("standby");
        // The master is suspended at some point of its reaction to a lost cable.
        let cable = cables[round % cables.len()];
        site.fabric.set_link(cable, false);
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        master.0.process.suspend();
        let log = || {
            let logs = managers
                .each_ref()
                .map(|(rsm, _)| rsm.process.stderr_so_far());
            logs.join("\n----\n")
        };
        let taken_over = wait_for_every(POLL, LIMIT, || {
            standby.0.state().contains("up").then_some(())
        });
        assert!(
            taken_over.is_some(),
            "round {round}: {}\n{}",
            standby.0.status(),
            log()
        );
        site.fabric.sets_by_sender();
        site.fabric.set_link(cable, true);
        master.0.process.resume();
        std::thread::sleep(Duration::from_millis(1500));
        site.fabric
            .set_link(cables[(round + 3) % cables.len()], false);
        std::thread::sleep(Duration::from_millis(500));
        site.fabric
            .set_link(cables[(round + 3) % cables.len()], true);
        master.0.wait_state("standby");
        let sets = site.fabric.sets_by_sender();
        assert_eq!(
            sets.get(&master.1),
            None,
            "round {round}: {sets:?}\n{}",
            log()
        );
        assert!(sets.contains_key(&standby.1), "round {round}: {sets:?}");
        let mut present = site.fabric.lids();
        present.sort();
        let mut expected = lids.clone();
        expected.sort();
        assert_eq!(present, expected, "round {round}");
        assert_eq!(site.fabric.lids()[1..last], lids[1..last], "round {round}");
    }
    for (rsm, _) in managers {
        rsm.stop();
    }
}

/// The master is suspended until another manager has taken over, then resumed at varying moments,
/// some of them while the other manager requests its SMInfo.
#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn deposed_master_stands_by_after_sigcont_and_the_epoch_stays() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    let managers = [first, second];
    let hosts = [0, last].map(|place| site.fabric.hosts[place].0);
    // Each round takes ten seconds; virtual time has hundreds of rounds (`sim_fencing`).
    for round in 0..seeds::number("RSM_SEEDS").unwrap_or(4) {
        let master = (round % 2) as usize;
        let (stopped, other) = (&managers[master], &managers[1 - master]);
        stopped.wait_state("up");
        other.wait_state("standby");
        let log = || {
            let logs = managers.each_ref().map(|rsm| rsm.process.stderr_so_far());
            logs.join("\n----\n")
        };
        stopped.process.suspend();
        let taken_over = wait_for_every(POLL, LIMIT, || other.state().contains("up").then_some(()));
        assert!(taken_over.is_some(), "round {round}\n{}", log());
        // The pause varies, so that the master resumes at various points between two requests of
        // the successor.
        std::thread::sleep(Duration::from_millis(137 * round));
        let epoch = other.status()["shared_store"]["epoch"].clone();
        site.fabric.sets_by_sender();
        stopped.process.resume();
        std::thread::sleep(QUIET_TIME);
        let store = other.status()["shared_store"].clone();
        assert_eq!(store["epoch"], epoch, "round {round}: {store}\n{}", log());
        assert_eq!(store["held"], true, "round {round}: {store}\n{}", log());
        stopped.wait_state("standby");
        let sets = site.fabric.sets_by_sender();
        assert_eq!(sets.get(&hosts[master]), None, "round {round}: {sets:?}");
    }
    for rsm in managers {
        rsm.stop();
    }
}

/// `--nocapture` shows the figures of the takeover.
#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
#[expect(clippy::print_stdout, reason = "a measurement shows its figures")]
fn standby_takes_over_lids_and_registrations_of_a_killed_master() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 3);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    let master_lids = site.fabric.master_lids();
    let mut hosts: Vec<Host> = (2..6).map(|place| site.fabric.host(place)).collect();
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let alias = register(&site.fabric, &mut hosts);
    std::thread::sleep(WRITE_TIME);
    first.wait_stored();
    let lids = site.fabric.lids();
    let members: Vec<McMemberRecord> = all(&mut hosts[0]);
    let tables = site.fabric.multicast_tables();
    let registrations: Vec<u32> = hosts.iter().map(Host::reregistrations).collect();
    site.fabric.sets_by_sender();

    first.process.kill().unwrap();
    let watch = Stopwatch::start();
    // The SA answers at the former LID, which moves with the manager.
    site.wait_answer_at(&mut hosts[0], lids[0]);
    let answers = watch.elapsed();
    std::thread::sleep(QUIET_TIME);
    let log = second.process.stderr_so_far();
    let sets = site.fabric.sets_by_sender();
    let mut expected = lids.clone();
    expected.swap(0, last);
    assert_eq!(
        site.fabric.lids(),
        expected,
        "only the two managers' ports change LIDs\n{log}"
    );
    assert_eq!(
        site.fabric.master_lids(),
        master_lids,
        "no port is told another LID\n{log}"
    );
    let again: Vec<u32> = hosts.iter().map(Host::reregistrations).collect();
    assert_eq!(again, registrations, "no host registers again\n{log}");
    assert_eq!(gids(&all(&mut hosts[0])), gids(&members), "{log}");
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1);
    assert_eq!(site.fabric.multicast_tables(), tables);
    assert_eq!(site.fabric.guids(3).get(2), Some(&alias));
    let subscriptions = second.ask(&["subscriptions"]).unwrap_or_default();
    assert!(
        subscriptions.to_string().contains("0x"),
        "{subscriptions}\n{log}"
    );
    let cable = site.fabric.cables()[0];
    let before = site.fabric.fabric.blocks_written().unwrap();
    let watch = Stopwatch::start();
    site.fabric.set_link(cable, false);
    let repaired = wait_for_every(POLL, LIMIT, || {
        (site.fabric.fabric.blocks_written().unwrap() > before).then_some(())
    });
    assert!(repaired.is_some(), "{log}");
    println!(
        "after SIGKILL: the SA answers in {answers:?}, Sets {sets:?}, a fault repaired in {:?}",
        watch.elapsed()
    );
    assert!(answers < Duration::from_secs(10), "{answers:?}\n{log}");

    // The first manager comes back, and becomes standby although its GUID is lower.
    let first = site.rsm(0, "one", "");
    first.wait_state("standby");
    second.wait_state("up");
    assert_eq!(second.status()["priority"], 14, "{}", second.status());
    first.stop();
    second.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn different_settings_and_managers_that_are_not_allowed_are_findings() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", "[lids]\nlmc = 0\n");
    first.wait_state("up");
    let second = site.rsm(last, "two", "[lids]\nlmc = 1\n[flap]\nthreshold = 9\n");
    second.wait_state("standby");
    for rsm in [&first, &second] {
        rsm.wait_finding("config-differs", true);
        let findings = rsm.findings();
        assert!(findings.contains("[flap], [lids]"), "{findings}");
    }
    let file = second.directory.join("rsm.toml");
    std::fs::write(&file, site.config("")).unwrap();
    second.process.hang_up();
    for rsm in [&first, &second] {
        rsm.wait_finding("config-differs", false);
    }
    second.stop();

    // Only the first manager is allowed: the other manager cannot take over, however high its
    // priority is.
    let own = site.fabric.hosts[0];
    let own = site
        .fabric
        .fabric
        .sim
        .with(move |sim| sim.port_guid(own.0, own.1));
    let own = own.expect("it runs").expect("it is there");
    let allowed = format!("[sm]\nallowed_sm_guids = \"{own}\"\n");
    std::fs::write(first.directory.join("rsm.toml"), site.config(&allowed)).unwrap();
    first.process.hang_up();
    let third = site.rsm(last, "three", "[sm]\npriority = 15\n");
    third.wait_state("standby");
    first.wait_finding("manager-not-allowed", true);
    std::thread::sleep(QUIET_TIME);
    first.wait_state("up");
    third.wait_state("standby");
    third.stop();
    first.stop();
}

//! Managers that share an etcd whose members die, whose disk is slow, or which only one manager
//! reaches: the fabric is managed all the time, and no acknowledged change is lost.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use rsm_mad::wire::sa::{McMemberRecord, ServiceRecord};
use rsm_tests::answering::Host;
use rsm_tests::clock::{Stopwatch, wait_for_every};
use rsm_tests::etcd::{PEERS, SLOW_DISK_PEERS};
use rsm_tests::peer::require_peers;
use rsm_tests::sharing::{Manager, Site, all, gids, register};
use rsm_tests::slow_link::SlowLink;
use rsm_tests::virtual_time::partitions;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// A time longer than rsm takes to pass a registration to the shared store.
const WRITE_TIME: Duration = Duration::from_secs(2);
/// A time longer than a repair that waits only for the fabric, in a debug build beside other
/// programs.
const REPAIR_LIMIT: Duration = Duration::from_secs(10);
/// A time longer than the two seconds of a takeover from a master whose store hangs, in a debug
/// build beside other programs, and shorter than the successive time limits of etcd's calls.
const HANGS_LIMIT: Duration = Duration::from_secs(5);

/// Attaches the hosts 2 to 5.
fn attach_hosts(site: &Site) -> Vec<Host> {
    (2..6).map(|place| site.fabric.host(place)).collect()
}

/// Starts a proxy in front of the first member; returns it with its endpoint.
fn proxy(site: &Site) -> (SlowLink, String) {
    let endpoint = site.etcd.endpoints().remove(0);
    let address = endpoint.strip_prefix("http://").unwrap_or(&endpoint);
    let address: SocketAddr = address.parse().unwrap();
    let link = SlowLink::start(address).unwrap();
    let endpoint = format!("http://{}", link.address());
    (link, endpoint)
}

/// Breaks a cable, waits until it is routed around, and reconnects it.
fn repair(site: &Site, rsm: &Manager, number: usize) {
    let cable = site.fabric.cables()[number];
    let before = site.fabric.fabric.blocks_written().unwrap();
    let watch = Stopwatch::start();
    site.fabric.set_link(cable, false);
    let repaired = wait_for_every(POLL, LIMIT, || {
        (site.fabric.fabric.blocks_written().unwrap() > before).then_some(())
    });
    assert!(repaired.is_some(), "{}", rsm.process.stderr_so_far());
    assert!(watch.elapsed() < REPAIR_LIMIT, "{:?}", watch.elapsed());
    site.fabric.set_link(cable, true);
}

/// Kills the master, and asserts that a manager at its host with the empty state folder `name` has
/// everything that was acknowledged.
fn assert_nothing_lost(site: &Site, rsm: Manager, hosts: &mut [Host], name: &str) {
    let lids = site.fabric.lids();
    let alias = site.fabric.guids(3);
    rsm.process.kill().unwrap();
    let rsm = site.rsm(0, name, "");
    site.wait_answer(&mut hosts[0], 0);
    let log = rsm.process.stderr_so_far();
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1, "{log}");
    assert_eq!(site.fabric.lids(), lids, "{log}");
    assert_eq!(site.fabric.guids(3), alias, "{log}");
    rsm.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn partition_created_on_the_master_stays_in_force_after_a_takeover() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    let members: Vec<(rsm_ids::Guid, rsm_ids::PortNum)> = site.fabric.hosts[3..5].to_vec();
    let sim = &site.fabric.fabric.sim;
    let guids: Vec<String> = members
        .iter()
        .map(|&(node, port)| {
            let guid = sim.with(move |sim| sim.port_guid(node, port)).unwrap();
            guid.unwrap().to_string()
        })
        .collect();
    let create = [
        "partition",
        "create",
        "0x10",
        &guids[0],
        &guids[1],
        "--name",
        "blue",
    ];
    first.command(&create);
    let p_keys = || -> Vec<BTreeSet<u16>> {
        let tables = members.iter().map(|&port| {
            let keys = sim.with(move |sim| partitions::held(sim, port)).unwrap();
            keys.iter()
                .map(|key| key.0)
                .filter(|&key| key != 0)
                .collect()
        });
        tables.collect()
    };
    let expected = BTreeSet::from([0xffff, 0x8010]);
    assert_eq!(p_keys(), [expected.clone(), expected.clone()]);
    // The standby makes no changes.
    let refused = second.ask(&["partition", "delete", "0x10"]);
    assert_eq!(refused, None);
    first.wait_stored();
    first.process.kill().unwrap();
    second.wait_state("up");
    assert_eq!(p_keys(), [expected.clone(), expected]);
    let listed = second.command(&["partition", "list"]);
    assert!(listed.contains("blue"), "{listed}");
    let shown = second.command(&["partition", "show", "0x10"]);
    assert!(guids.iter().all(|guid| shown.contains(guid)), "{shown}");
    // The successor may change it.
    second.command(&["partition", "delete", "0x10", "--yes"]);
    let expected = BTreeSet::from([0xffff]);
    assert_eq!(p_keys(), [expected.clone(), expected]);
    second.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn one_dead_member_of_etcd_delays_nothing_and_all_dead_delay_only_the_store() {
    if !require_peers(PEERS) {
        return;
    }
    let mut site = Site::start(FABRIC, 3);
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    rsm.wait_stored();
    site.etcd.kill(1).unwrap();
    repair(&site, &rsm, 0);
    let mut hosts = attach_hosts(&site);
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    std::thread::sleep(WRITE_TIME);
    rsm.wait_stored();
    rsm.wait_finding("store-unreachable", false);

    for member in [0, 2] {
        site.etcd.kill(member).unwrap();
    }
    rsm.wait_finding("store-unreachable", true);
    repair(&site, &rsm, 1);
    register(&site.fabric, &mut hosts);
    std::thread::sleep(WRITE_TIME);
    let store = rsm.status()["shared_store"].clone();
    assert!(store["waiting_rows"].as_u64() > Some(0), "{store}");
    assert!(store["lag_ms"].as_u64() > Some(0), "{store}");
    for member in 0..3 {
        site.etcd.restart(member).unwrap();
    }
    rsm.wait_finding("store-unreachable", false);
    rsm.wait_stored();
    assert_nothing_lost(&site, rsm, &mut hosts, "two");
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn an_etcd_that_takes_half_a_second_for_a_write_delays_no_host_and_loses_nothing() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let (link, endpoint) = proxy(&site);
    let rsm = site.rsm_at(0, "one", &endpoint);
    rsm.wait_state("up");
    rsm.wait_stored();
    link.set_delay(Duration::from_millis(500));
    repair(&site, &rsm, 0);
    let mut hosts = attach_hosts(&site);
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    register(&site.fabric, &mut hosts);
    let lags = wait_for_every(POLL, LIMIT, || {
        let store = &rsm.status()["shared_store"];
        (store["lag_ms"].as_u64() > Some(0)).then_some(())
    });
    assert!(lags.is_some(), "{}", rsm.status());
    repair(&site, &rsm, 1);
    std::thread::sleep(WRITE_TIME);
    rsm.wait_stored();
    assert_nothing_lost(&site, rsm, &mut hosts, "two");
}

#[test]
#[cfg_attr(
    not(peers),
    ignore = "needs etcd-server, etcd-client, openssl and strace"
)]
fn an_etcd_whose_disk_takes_half_a_second_for_an_fsync_delays_no_host_and_loses_nothing() {
    if !require_peers(SLOW_DISK_PEERS) {
        return;
    }
    let site = Site::start_on_slow_disk(FABRIC, Duration::from_millis(500));
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    repair(&site, &rsm, 0);
    let mut hosts = attach_hosts(&site);
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let watch = Stopwatch::start();
    register(&site.fabric, &mut hosts);
    assert!(watch.elapsed() < REPAIR_LIMIT, "{:?}", watch.elapsed());
    // A round of writes has at least one fsync: the store lags behind the state in force.
    let lags = wait_for_every(POLL, LIMIT, || {
        let store = &rsm.status()["shared_store"];
        (store["lag_ms"].as_u64() >= Some(200)).then_some(())
    });
    assert!(lags.is_some(), "{}", rsm.status());
    repair(&site, &rsm, 1);
    std::thread::sleep(WRITE_TIME);
    rsm.wait_stored();
    assert_nothing_lost(&site, rsm, &mut hosts, "two");
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn a_master_cut_off_from_etcd_stays_master_and_a_later_standby_gets_everything() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let (link, endpoint) = proxy(&site);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm_at(0, "one", &endpoint);
    first.wait_state("up");
    first.wait_stored();
    link.set_cut(true);
    first.wait_finding("store-unreachable", true);
    let mut hosts = attach_hosts(&site);
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let alias = register(&site.fabric, &mut hosts);
    repair(&site, &first, 0);
    // The pause is longer than an epoch lasts without a sign of life.
    std::thread::sleep(Duration::from_secs(5));
    first.wait_state("up");
    let store = first.status()["shared_store"].clone();
    assert!(store["waiting_rows"].as_u64() > Some(0), "{store}");
    link.set_cut(false);
    first.wait_finding("store-unreachable", false);
    first.wait_stored();
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    let lids = site.fabric.lids();
    first.process.kill().unwrap();
    site.wait_answer_at(&mut hosts[0], lids[0]);
    let log = second.process.stderr_so_far();
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1, "{log}");
    assert_eq!(site.fabric.guids(3).get(2), Some(&alias), "{log}");
    assert_eq!(site.fabric.lids()[1..last], lids[1..last], "{log}");
    second.stop();
}

/// The number of times that each host was asked to reregister.
fn reregistrations(hosts: &[Host]) -> Vec<u32> {
    hosts.iter().map(Host::reregistrations).collect()
}

/// Waits until each host was asked once more than `before`.
fn wait_reregistration(hosts: &[Host], before: &[u32], rsm: &Manager) {
    let once: Vec<u32> = before.iter().map(|times| times + 1).collect();
    let is_asked = wait_for_every(POLL, LIMIT, || {
        (reregistrations(hosts) == once).then_some(())
    });
    let log = rsm.process.stderr_so_far();
    assert!(
        is_asked.is_some(),
        "{:?} {before:?}\n{log}",
        reregistrations(hosts)
    );
}

/// Registrations that the master acknowledged while it was cut off are lost with it: its successor
/// reports that.
#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn the_successor_of_a_master_that_was_cut_off_from_etcd_asks_hosts_to_register_again() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let (link, endpoint) = proxy(&site);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm_at(0, "one", &endpoint);
    first.wait_state("up");
    first.wait_stored();
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    let mut hosts = attach_hosts(&site);
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let before = reregistrations(&hosts);
    link.set_cut(true);
    first.wait_finding("store-unreachable", true);
    register(&site.fabric, &mut hosts);
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(reregistrations(&hosts), before);
    let lid = site.fabric.lid(0);
    first.process.kill().unwrap();
    site.wait_answer_at(&mut hosts[0], lid);
    second.wait_finding("registrations-lost", true);
    wait_reregistration(&hosts, &before, &second);
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 0);
    for host in &mut hosts {
        site.wait_answer_at(host, lid);
    }
    register(&site.fabric, &mut hosts);
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1);
    second.wait_stored();
    second.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn takeover_while_etcd_is_away_continues_with_the_state_last_read_from_etcd() {
    if !require_peers(PEERS) {
        return;
    }
    let mut site = Site::start(FABRIC, 1);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    let mut hosts = attach_hosts(&site);
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let alias = register(&site.fabric, &mut hosts);
    std::thread::sleep(WRITE_TIME);
    first.wait_stored();
    // The pause is longer than a standby takes to follow.
    std::thread::sleep(Duration::from_secs(7));
    let members = gids(&all::<McMemberRecord>(&mut hosts[0]));
    let (lids, before) = (site.fabric.lids(), reregistrations(&hosts));
    site.etcd.kill(0).unwrap();
    second.wait_finding("store-unreachable", true);
    first.process.kill().unwrap();
    second.wait_state("up");
    site.wait_answer(&mut hosts[0], last);
    let log = second.process.stderr_so_far();
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1, "{log}");
    assert_eq!(gids(&all::<McMemberRecord>(&mut hosts[0])), members);
    assert_eq!(site.fabric.guids(3).get(2), Some(&alias), "{log}");
    assert_eq!(site.fabric.lids(), lids, "{log}");
    second.wait_finding("registrations-lost", true);
    wait_reregistration(&hosts, &before, &second);

    site.etcd.restart(0).unwrap();
    second.wait_finding("store-unreachable", false);
    second.wait_stored();
    second.process.kill().unwrap();
    // The LID of the manager moves with it.
    let third = site.rsm(0, "three", "");
    third.wait_state("up");
    site.wait_answer_at(&mut hosts[0], site.fabric.master_lid(2));
    let log = third.process.stderr_so_far();
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1, "{log}");
    assert_eq!(gids(&all::<McMemberRecord>(&mut hosts[0])), members);
    assert_eq!(site.fabric.guids(3).get(2), Some(&alias), "{log}");
    third.stop();
}

/// A master and a standby, which exchange their roles at each takeover.
struct Pair {
    /// The managers; `None` for a manager that was killed and not replaced yet.
    managers: [Option<Manager>; 2],
    /// The index of each manager's host.
    places: [usize; 2],
    /// The index of the master among `managers`.
    master: usize,
    /// The number of starts of managers so far.
    starts: usize,
}

impl Pair {
    fn start(site: &Site) -> Pair {
        let places = [0, site.fabric.hosts.len() - 1];
        let first = site.rsm(places[0], "m0", "");
        first.wait_state("up");
        let second = site.rsm(places[1], "m1", "");
        second.wait_state("standby");
        Pair {
            managers: [Some(first), Some(second)],
            places,
            master: 0,
            starts: 2,
        }
    }

    fn standby(&self) -> &Manager {
        self.managers[1 - self.master].as_ref().unwrap()
    }

    fn kill_master(&mut self) {
        let master = self.managers[self.master].take().unwrap();
        master.process.kill().unwrap();
    }

    /// Waits until the standby has become master, and starts another manager in place of the killed
    /// manager.
    fn replace(&mut self, site: &Site) {
        self.standby().wait_state("up");
        let name = format!("m{}", self.starts);
        self.starts += 1;
        let again = site.rsm(self.places[self.master], &name, "");
        again.wait_state("standby");
        self.managers[self.master] = Some(again);
        self.master = 1 - self.master;
    }
}

/// `--nocapture` shows the figures of takeovers while all members of etcd hang.
#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
#[expect(clippy::print_stdout, reason = "a measurement shows its figures")]
fn a_master_that_dies_while_etcd_hangs_is_replaced_and_faults_are_repaired() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 3);
    let mut pair = Pair::start(&site);
    for (round, gap_ms) in [0, 50, 300, 900, 1500, 4000].into_iter().enumerate() {
        // The pause is longer than the standby takes to read the subnet and the store.
        std::thread::sleep(Duration::from_secs(7));
        site.etcd.suspend();
        std::thread::sleep(Duration::from_millis(gap_ms));
        let cable = site.fabric.cables()[round];
        let before = site.fabric.fabric.blocks_written().unwrap();
        pair.kill_master();
        let watch = Stopwatch::start();
        site.fabric.set_link(cable, false);
        let repaired = wait_for_every(POLL, LIMIT, || {
            (site.fabric.fabric.blocks_written().unwrap() > before).then_some(())
        });
        let log = pair.standby().process.stderr_so_far();
        assert!(repaired.is_some(), "{log}");
        println!(
            "etcd hangs {gap_ms} ms before the master dies: a fault repaired in {:?}",
            watch.elapsed()
        );
        assert!(
            watch.elapsed() < HANGS_LIMIT,
            "{:?}\n{log}",
            watch.elapsed()
        );
        site.fabric.set_link(cable, true);
        site.etcd.resume();
        pair.replace(&site);
        pair.managers[pair.master].as_ref().unwrap().wait_stored();
    }
}

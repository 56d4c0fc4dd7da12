//! Managers that share a store: real rsm processes on one served fabric, with a real etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{PKey, Trap};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{
    ClassPortInfo, ComponentMask, GuidInfoRecord, InformInfo, JoinState, McMemberRecord, Record,
    ServiceRecord,
};
use rsm_tests::answering::Host;
use rsm_tests::binaries;
use rsm_tests::clock::{Stopwatch, wait_for_every};
use rsm_tests::etcd::{Etcd, PEERS};
use rsm_tests::managed::Managed;
use rsm_tests::peer::require_peers;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::served;

/// 20 switches, 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);
/// Longer than rsm takes to store a registration.
const WRITTEN: Duration = Duration::from_secs(2);
/// Longer than repairs of so small a fabric take.
const QUIET: Duration = Duration::from_secs(2);
/// rsm's default.
const SM_KEY: u64 = 1;
const PREFIX: u64 = 0xFE80_0000_0000_0000;
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// A served fabric and an etcd.
struct Site {
    fabric: Managed,
    etcd: Etcd,
}

/// An rsm process at a host of the fabric, with a state folder of its own.
struct Manager {
    process: Running,
    server: String,
    directory: PathBuf,
}

impl Site {
    fn start(members: usize) -> Site {
        Site {
            fabric: Managed::start(FABRIC),
            etcd: Etcd::start(members).unwrap(),
        }
    }

    fn config(&self, more: &str) -> String {
        let endpoints = self.etcd.endpoints().join(",");
        format!("[store]\nbackend = \"etcd\"\nendpoints = \"{endpoints}\"\n{more}")
    }

    /// An rsm at the host with this index, with a new state folder `name`.
    fn invocation(&self, place: usize, name: &str, more: &str) -> (Invocation, PathBuf) {
        let directory = self.fabric.fabric.directory().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let config = directory.join("rsm.toml");
        std::fs::write(&config, self.config(more)).unwrap();
        let socket = self.fabric.fabric.directory().join("fabric.sock");
        let host = self.fabric.hosts[place].0.to_string();
        let at = self.fabric.fabric.directory();
        let rsm = served::client(at, &socket, &host, binaries::rsm()).unwrap();
        let rsm = rsm.args(["--listen", "off", "--fabric", "umad", "--config"]);
        (
            rsm.arg(config).arg("--state-dir").arg(&directory),
            directory,
        )
    }

    fn rsm(&self, place: usize, name: &str, more: &str) -> Manager {
        let (rsm, directory) = self.invocation(place, name, more);
        Manager {
            process: rsm.spawn().unwrap(),
            server: format!("unix:{}", directory.join("rsm.sock").display()),
            directory,
        }
    }

    /// The LIDs of all hosts, by their index.
    fn lids(&self) -> Vec<Lid> {
        (0..self.fabric.hosts.len())
            .map(|place| self.fabric.lid(place))
            .collect()
    }

    /// MasterSMLID of all hosts, by their index.
    fn master_lids(&self) -> Vec<Lid> {
        let hosts = self.fabric.hosts.clone();
        let lids = self.fabric.fabric.sim.with(move |sim| {
            let lid = |&(node, port)| {
                sim.port_info(node, port)
                    .expect("it is there")
                    .master_sm_lid()
            };
            hosts.iter().map(lid).collect()
        });
        lids.expect("it runs")
    }

    fn gid(&self, place: usize) -> Gid {
        let (node, port) = self.fabric.hosts[place];
        let guid = self.fabric.fabric.sim.with(move |sim| {
            let guid = sim.port_guid(node, port);
            guid.expect("it is there")
        });
        Gid::new(PREFIX, guid.expect("it runs"))
    }

    /// Sets that took effect since the last call, by the node of their sender.
    fn sets(&self) -> BTreeMap<Guid, usize> {
        let taken = self.fabric.fabric.sim.with(|sim| {
            let journal = sim.take_journal();
            sim.start_journal(1 << 20);
            journal
        });
        let mut senders = BTreeMap::new();
        let journal = taken.expect("it runs");
        for entry in journal.iter().flat_map(|journal| journal.entries()) {
            if let Some((node, _)) = entry.sender {
                *senders.entry(node).or_insert(0) += 1;
            }
        }
        senders
    }

    /// Takes a cable between switches down or up.
    fn set_link(&self, (node, port): (Guid, PortNum), up: bool) {
        let set = self.fabric.fabric.sim.with(move |sim| match up {
            true => sim.relink(node, port),
            false => sim.unlink(node, port),
        });
        set.expect("it runs").expect("it is a cable");
    }

    /// A port of each cable between switches.
    fn cables(&self) -> Vec<(Guid, PortNum)> {
        let found = self.fabric.fabric.sim.with(|sim| {
            let kinds: BTreeMap<Guid, _> = sim.nodes().collect();
            let is_switch =
                |guid: &Guid| kinds.get(guid) == Some(&rsm_routing::netlist::NodeKind::Switch);
            let mut cables = Vec::new();
            for &guid in kinds.keys().filter(|guid| is_switch(guid)) {
                for number in 1..=4_u8 {
                    let port = PortNum(number);
                    if let Ok(Some(peer)) = sim.peer(guid, port)
                        && is_switch(&peer.0)
                        && guid < peer.0
                    {
                        cables.push((guid, port));
                    }
                }
            }
            cables
        });
        found.expect("it runs")
    }

    /// Waits until the SA answers `host` through the manager at `place`; returns how long it took.
    fn wait_answer(&self, host: &mut Host, place: usize) -> Duration {
        self.wait_answer_at(host, self.fabric.lid(place))
    }

    fn wait_answer_at(&self, host: &mut Host, lid: Lid) -> Duration {
        let watch = Stopwatch::start();
        let answers = wait_for_every(LOOK, LIMIT, || {
            host.ask_lid(lid);
            let question = (Method::GET, ComponentMask::NONE, 0);
            let patience = Duration::from_millis(100);
            let answer = host.try_ask(patience, question, &ClassPortInfo::default())?;
            (answer.status() == Status::OK).then_some(())
        });
        assert!(answers.is_some());
        watch.elapsed()
    }
}

impl Manager {
    fn ask(&self, arguments: &[&str]) -> Option<serde_json::Value> {
        let rsmctl = Invocation::new(binaries::rsmctl(), &self.directory);
        let rsmctl = rsmctl.args(["--server", &self.server]).args(arguments);
        let answer = rsmctl.args(["--format", "json"]).run(LIMIT).ok()?;
        serde_json::from_str(&answer.success().ok()?.stdout).ok()
    }

    fn status(&self) -> serde_json::Value {
        self.ask(&["status"]).unwrap_or_default()
    }

    fn state(&self) -> String {
        self.status()["state"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase()
    }

    fn wait_state(&self, expected: &str) {
        let there = wait_for_every(LOOK, LIMIT, || {
            self.state().contains(expected).then_some(())
        });
        let log = self.process.stderr_so_far();
        assert!(there.is_some(), "{expected}: {}\n{log}", self.status());
    }

    fn findings(&self) -> String {
        self.ask(&["findings"]).unwrap_or_default().to_string()
    }

    fn wait_finding(&self, kind: &str, holds: bool) {
        let there = wait_for_every(LOOK, LIMIT, || {
            (self.findings().contains(kind) == holds).then_some(())
        });
        let log = self.process.stderr_so_far();
        assert!(
            there.is_some(),
            "{kind} {holds}: {}\n{log}",
            self.findings()
        );
    }

    /// Whether nothing waits for the shared store.
    fn wait_stored(&self) {
        let stored = wait_for_every(LOOK, LIMIT, || {
            let store = &self.status()["shared_store"];
            let waiting = store["waiting_rows"].as_u64().unwrap_or(0);
            (store["held"] == true && waiting == 0).then_some(())
        });
        assert!(stored.is_some(), "{}", self.status());
    }

    fn stop(self) {
        self.process.terminate(LIMIT).unwrap().success().unwrap();
    }
}

fn all<R: Record + Default>(host: &mut Host) -> Vec<R> {
    let question = (Method::GET_TABLE, ComponentMask::NONE, SM_KEY);
    let answer = host.try_ask(LIMIT, question, &R::default());
    answer.expect("there is an answer").records()
}

/// Members of the broadcast group, a service, a subscription and an alias GUID.
fn register(site: &Site, hosts: &mut [Host]) -> Guid {
    let named = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    for (index, host) in hosts.iter_mut().enumerate() {
        let mut record = McMemberRecord::default();
        record
            .set_mgid(BROADCAST)
            .set_port_gid(site.gid(index + 2))
            .set_p_key(PKey::DEFAULT_FULL)
            .set_join_state(JoinState::FULL_MEMBER);
        assert_eq!(host.ask(Method::SET, named, &record).status(), Status::OK);
    }
    let mut service = ServiceRecord::default();
    service.set_service_id(7).set_service_gid(site.gid(2));
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    let answer = hosts[0].ask(Method::SET, mask, &service);
    assert_eq!(answer.status(), Status::OK);
    let mut subscription = InformInfo::default();
    subscription
        .set_lid_range_begin(InformInfo::LID_RANGE_ALL)
        .set_is_generic(1)
        .set_subscribe(1)
        .set_notice_type(InformInfo::ALL)
        .set_trap_number(Trap::GID_IN_SERVICE)
        .set_vendor_id(InformInfo::ALL_PRODUCERS);
    let answer = hosts[1].ask(Method::SET, ComponentMask::NONE, &subscription);
    assert_eq!(answer.status(), Status::OK);
    let mut record = GuidInfoRecord::default();
    record.set_lid(site.fabric.lid(3)).set_block_num(0);
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
    let mask = mask | GuidInfoRecord::guid_component(2).expect("there is an index");
    let answer: GuidInfoRecord = hosts[1].ask(Method::SET, mask, &record).record();
    let alias = answer.guid_info().guid(2).expect("there is an index");
    let held = wait_for_every(LOOK, LIMIT, || {
        (site.fabric.guids(3).get(2) == Some(&alias)).then_some(())
    });
    assert!(held.is_some(), "{:?}", site.fabric.guids(3));
    alias
}

fn gids(members: &[McMemberRecord]) -> BTreeSet<Gid> {
    members.iter().map(|record| record.port_gid()).collect()
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn after_sigkill_a_manager_with_an_empty_folder_continues_with_everything_and_sets_nothing() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(1);
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    let mut hosts: Vec<Host> = (2..6).map(|place| site.fabric.host(place)).collect();
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let alias = register(&site, &mut hosts);
    std::thread::sleep(WRITTEN);
    rsm.wait_stored();
    let lids = site.lids();
    let members: Vec<McMemberRecord> = all(&mut hosts[0]);
    let tables = site.fabric.multicast_tables();
    let told: Vec<u32> = hosts.iter().map(Host::reregistrations).collect();
    rsm.process.kill().unwrap();
    site.sets();

    // Its folder is lost with its machine; the port is the same.
    let rsm = site.rsm(0, "two", "");
    site.wait_answer(&mut hosts[0], 0);
    std::thread::sleep(QUIET);
    let log = rsm.process.stderr_so_far();
    assert_eq!(site.sets(), BTreeMap::new(), "{log}");
    assert_eq!(site.lids(), lids);
    assert_eq!(site.fabric.multicast_tables(), tables);
    assert_eq!(gids(&all(&mut hosts[0])), gids(&members));
    assert_eq!(all::<ServiceRecord>(&mut hosts[0]).len(), 1);
    assert_eq!(site.fabric.guids(3).get(2), Some(&alias));
    let subscriptions = rsm.ask(&["subscriptions"]).unwrap_or_default().to_string();
    assert!(subscriptions.contains("0x"), "{subscriptions}\n{log}");
    let after: Vec<u32> = hosts.iter().map(Host::reregistrations).collect();
    assert_eq!(after, told, "no host registers again");
    assert_eq!(rsm.status()["shared_store"]["epoch"], 2, "{}", rsm.status());
    rsm.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn the_fabric_is_managed_while_etcd_is_away_and_the_changes_follow() {
    if !require_peers(PEERS) {
        return;
    }
    let mut site = Site::start(1);
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    rsm.wait_stored();
    site.etcd.kill(0).unwrap();
    rsm.wait_finding("store-unreachable", true);
    assert!(rsm.findings().contains("since 2"), "{}", rsm.findings());
    // A fault is repaired, and hosts register.
    let cable = site.cables()[0];
    let before = site.fabric.fabric.blocks_written().unwrap();
    site.set_link(cable, false);
    let repaired = wait_for_every(LOOK, LIMIT, || {
        (site.fabric.fabric.blocks_written().unwrap() > before).then_some(())
    });
    assert!(repaired.is_some(), "{}", rsm.process.stderr_so_far());
    let mut hosts: Vec<Host> = (2..6).map(|place| site.fabric.host(place)).collect();
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    register(&site, &mut hosts);
    std::thread::sleep(WRITTEN);
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
fn without_etcd_at_the_start_the_fabric_comes_up() {
    if !require_peers(PEERS) {
        return;
    }
    let mut site = Site::start(1);
    site.etcd.kill(0).unwrap();
    let rsm = site.rsm(0, "one", "");
    rsm.wait_state("up");
    rsm.wait_finding("store-unreachable", true);
    site.etcd.restart(0).unwrap();
    rsm.wait_stored();
    rsm.wait_finding("store-unreachable", false);
    let lids = site.lids();
    rsm.process.kill().unwrap();
    let rsm = site.rsm(1, "two", "[sm]\nlid = \"port\"\n");
    rsm.wait_state("up");
    assert_eq!(site.lids(), lids);
    rsm.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn keys_of_other_programs_are_refused_at_the_start_with_their_name() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(1);
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

/// SIGSTOP of the master at varying moments while cables come and go; the other takes over;
/// SIGCONT.
#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn a_deposed_master_that_wakes_up_sets_nothing() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(1);
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
    let cables = site.cables();
    let lids = site.lids();
    for round in 0..6_usize {
        let (master, standby) = match managers[0].0.state().contains("standby") {
            true => (&managers[1], &managers[0]),
            false => (&managers[0], &managers[1]),
        };
        master.0.wait_state("up");
        standby.0.wait_state("standby");
        // The master is stopped somewhere in the reaction to a lost cable.
        let cable = cables[round % cables.len()];
        site.set_link(cable, false);
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        master.0.process.suspend();
        let log = || {
            let logs = managers
                .each_ref()
                .map(|(rsm, _)| rsm.process.stderr_so_far());
            logs.join("\n----\n")
        };
        let taken = wait_for_every(LOOK, LIMIT, || {
            standby.0.state().contains("up").then_some(())
        });
        assert!(
            taken.is_some(),
            "round {round}: {}\n{}",
            standby.0.status(),
            log()
        );
        site.sets();
        site.set_link(cable, true);
        master.0.process.resume();
        std::thread::sleep(Duration::from_millis(1500));
        site.set_link(cables[(round + 3) % cables.len()], false);
        std::thread::sleep(Duration::from_millis(500));
        site.set_link(cables[(round + 3) % cables.len()], true);
        master.0.wait_state("standby");
        let sets = site.sets();
        assert_eq!(
            sets.get(&master.1),
            None,
            "round {round}: {sets:?}\n{}",
            log()
        );
        assert!(sets.contains_key(&standby.1), "round {round}: {sets:?}");
        let mut present = site.lids();
        present.sort();
        let mut expected = lids.clone();
        expected.sort();
        assert_eq!(present, expected, "round {round}");
        assert_eq!(site.lids()[1..last], lids[1..last], "round {round}");
    }
    for (rsm, _) in managers {
        rsm.stop();
    }
}

/// Figures of a takeover: `--nocapture` shows them.
#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
#[expect(clippy::print_stdout, reason = "a takeover's figures are worth a line")]
fn a_standby_takes_over_from_a_killed_master_with_everything() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(3);
    let last = site.fabric.hosts.len() - 1;
    let first = site.rsm(0, "one", "");
    first.wait_state("up");
    let second = site.rsm(last, "two", "");
    second.wait_state("standby");
    let told = site.master_lids();
    let mut hosts: Vec<Host> = (2..6).map(|place| site.fabric.host(place)).collect();
    for host in &mut hosts {
        site.wait_answer(host, 0);
    }
    let alias = register(&site, &mut hosts);
    std::thread::sleep(WRITTEN);
    first.wait_stored();
    let lids = site.lids();
    let members: Vec<McMemberRecord> = all(&mut hosts[0]);
    let tables = site.fabric.multicast_tables();
    let registrations: Vec<u32> = hosts.iter().map(Host::reregistrations).collect();
    site.sets();

    first.process.kill().unwrap();
    let watch = Stopwatch::start();
    // By the LID of before: it goes with the manager.
    site.wait_answer_at(&mut hosts[0], lids[0]);
    let answers = watch.elapsed();
    std::thread::sleep(QUIET);
    let log = second.process.stderr_so_far();
    let sets = site.sets();
    let mut expected = lids.clone();
    expected.swap(0, last);
    assert_eq!(
        site.lids(),
        expected,
        "only the two managers' ports change LIDs\n{log}"
    );
    assert_eq!(
        site.master_lids(),
        told,
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
    let cable = site.cables()[0];
    let before = site.fabric.fabric.blocks_written().unwrap();
    let watch = Stopwatch::start();
    site.set_link(cable, false);
    let repaired = wait_for_every(LOOK, LIMIT, || {
        (site.fabric.fabric.blocks_written().unwrap() > before).then_some(())
    });
    assert!(repaired.is_some(), "{log}");
    println!(
        "after SIGKILL: the SA answers in {answers:?}, Sets {sets:?}, a fault repaired in {:?}",
        watch.elapsed()
    );
    assert!(answers < Duration::from_secs(10), "{answers:?}\n{log}");

    // The first one comes back, and stands by although its GUID is lower.
    let first = site.rsm(0, "one", "");
    first.wait_state("standby");
    second.wait_state("up");
    assert_eq!(second.status()["priority"], 14, "{}", second.status());
    first.stop();
    second.stop();
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn other_settings_and_managers_that_are_not_allowed_are_findings() {
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(1);
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

    // Only the first manager is allowed: the other one is no heir, however high its priority.
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
    std::thread::sleep(QUIET);
    first.wait_state("up");
    third.wait_state("standby");
    third.stop();
    first.stop();
}

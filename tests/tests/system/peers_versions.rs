//! Two versions side by side: managers of an earlier version and of this version take over from
//! each other on one state folder and on one shared store, in both directions.
//!
//! The earlier version reads and writes the rows that it knows, and keeps the rows that it does not
//! know. Each of these tests needs its program, at the path in `RSM_OLD_BIN`; f07ebaa3 is the last
//! version whose rows differ from the rows of the current version:
//!
//! ```sh
//! git worktree add ../rsm-old f07ebaa3
//! (cd ../rsm-old && cargo build -p rsm --bins)
//! RSM_OLD_BIN=$PWD/../rsm-old/target/debug/rsm \
//!     cargo test -p rsm-tests --test system peers_versions -- --ignored
//! git worktree remove --force ../rsm-old
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::sa::{McMemberRecord, ServiceRecord};
use rsm_tests::answering::Host;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::etcd::PEERS;
use rsm_tests::managed::Masks;
use rsm_tests::peer::require_peers;
use rsm_tests::sa_key;
use rsm_tests::sharing::{Manager, Site, all, join, offer, subscribe, take_alias};
use rsm_tests::virtual_time::partitions;
use serde_json::Value;

/// A fabric of 20 switches and 16 hosts with a port each.
const FABRIC: &str = "fat-tree:k=4,levels=3";
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// A time longer than rsm takes to store a registration.
const WRITE_TIME: Duration = Duration::from_secs(2);
/// A time longer than a bring-up of so small a fabric takes, repairs included.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// The index of the first host that registers; the next host registers with the next manager.
const FIRST_HOST: usize = 2;
/// The service of the host with index 0; the number of each further host is one higher.
const SERVICE: u64 = 0x100;
/// The partition of the host with index 0; the number of each further host is one higher.
const PARTITION: u16 = 0x10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    /// The version at `RSM_OLD_BIN`.
    Older,
    /// The current version.
    New,
}

use Version::{New, Older};

impl Version {
    fn program(self) -> PathBuf {
        match self {
            Older => binaries::older_rsm(),
            New => binaries::rsm(),
        }
    }

    /// The SM_Key of subscribers. Only this version has a row for trusted subscribers.
    fn sm_key_of_subscribers(self) -> u64 {
        match self {
            Older => 0,
            New => sa_key::SA_KEY,
        }
    }
}

/// A configuration that both versions read: the earlier version reads the SA's key from no file.
fn with_key(rest: &str) -> String {
    format!("[sm]\nsa_key = \"{}\"\n{rest}", sa_key::text())
}

/// A manager at a host, and the version of its program.
struct Turn {
    manager: Manager,
    version: Version,
}

impl Turn {
    fn start(site: &Site, version: Version, (place, folder): (usize, &str), rest: &str) -> Turn {
        let manager = site.rsm_of(&version.program(), (place, folder), &with_key(rest));
        Turn { manager, version }
    }

    /// Kills the manager, after checking its log.
    fn kill(self) {
        let log = self.manager.process.stderr_so_far();
        for unread in ["not readable", "damaged", "panicked", "quarantined"] {
            assert!(!log.contains(unread), "{:?}: {log}", self.version);
        }
        self.manager.process.kill().unwrap();
    }

    /// The kinds of the manager's findings, except the finding about the master beside a standby.
    fn findings(&self) -> BTreeSet<String> {
        let findings = self.manager.ask(&["findings"]).unwrap_or_default();
        let kinds = findings.as_array().into_iter().flatten();
        let kinds = kinds.filter_map(|finding| finding["kind"].as_str());
        let kinds = kinds.filter(|&kind| kind != "other-master");
        kinds.map(str::to_owned).collect()
    }
}

/// The state of hosts as a manager shows it, and as hosts and switches hold it.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct SeenState {
    /// The LIDs of hosts without a manager, by the host's index.
    lids: BTreeMap<usize, Lid>,
    /// The LIDs of the managers' ports, which a takeover exchanges.
    lids_of_managers: BTreeSet<Lid>,
    /// The MasterSMLID of each host.
    master_lids: Vec<Lid>,
    /// The members of multicast groups, as MGID and port GID.
    members: BTreeSet<(Gid, Gid)>,
    /// The ServiceIDs.
    services: BTreeSet<u64>,
    /// The subscriptions by port and number, each with whether it is trusted.
    subscriptions: BTreeMap<(String, u64), bool>,
    /// The GUIDInfo of each host without a manager.
    guids: Vec<Vec<Guid>>,
    /// The P_KeyTable of each host.
    p_keys: Vec<Vec<u16>>,
    /// The settings and members of partitions.
    partitions: Vec<Value>,
    gpu_hosts: BTreeSet<String>,
    multicast_tables: BTreeMap<Guid, Masks>,
    /// The number of times that each host was asked to register again.
    reregistrations: Vec<u32>,
}

impl SeenState {
    /// Reads the state from `manager`, from the fabric, and from the SA by the first of `hosts`.
    fn ask(site: &Site, manager: &Manager, hosts: &mut [Host]) -> SeenState {
        let reregistrations = hosts.iter().map(Host::reregistrations).collect();
        let (fabric, host) = (&site.fabric, &mut hosts[0]);
        let last = fabric.hosts.len() - 1;
        let lids = fabric.lids();
        let others = lids.iter().copied().enumerate();
        let members: Vec<McMemberRecord> = all(host);
        let services: Vec<ServiceRecord> = all(host);
        let members = members.iter();
        let services = services.iter();
        let p_keys = fabric.hosts.iter().map(|&port| {
            let held = fabric
                .fabric
                .sim
                .with(move |sim| partitions::held(sim, port));
            held.unwrap().iter().map(|key| key.0).collect()
        });
        SeenState {
            lids: others
                .filter(|(place, _)| ![0, last].contains(place))
                .collect(),
            lids_of_managers: [lids[0], lids[last]].into(),
            master_lids: fabric.master_lids(),
            members: members
                .map(|record| (record.mgid(), record.port_gid()))
                .collect(),
            services: services.map(ServiceRecord::service_id).collect(),
            subscriptions: subscriptions(manager),
            guids: (1..last).map(|place| fabric.guids(place)).collect(),
            p_keys: p_keys.collect(),
            partitions: shown_partitions(manager),
            gpu_hosts: gpu_hosts(manager),
            multicast_tables: fabric.multicast_tables(),
            reregistrations,
        }
    }

    /// The state as managers of `version` show it: the earlier version trusts no subscription that
    /// another process has accepted.
    fn as_shown_by(&self, version: Version) -> SeenState {
        let mut shown = self.clone();
        if version == Older {
            shown
                .subscriptions
                .values_mut()
                .for_each(|trusted| *trusted = false);
        }
        shown
    }
}

/// The JSON list that a command of rsmctl prints.
fn rows(manager: &Manager, arguments: &[&str]) -> Vec<Value> {
    let answer = manager.ask(arguments);
    let answer = answer.unwrap_or_else(|| panic!("no answer to {arguments:?}"));
    answer.as_array().cloned().unwrap_or_default()
}

fn subscriptions(manager: &Manager) -> BTreeMap<(String, u64), bool> {
    let rows = rows(manager, &["subscriptions"]);
    let row = |row: &Value| {
        let port = row["port_guid"].as_str().unwrap().to_owned();
        let number = row["number"].as_u64().unwrap_or(0);
        ((port, number), row["trusted"] == true)
    };
    rows.iter().map(row).collect()
}

fn shown_partitions(manager: &Manager) -> Vec<Value> {
    let made = |place: usize| {
        let key = format!("{:#x}", PARTITION + u16::try_from(place).unwrap());
        manager.ask(&["partition", "show", &key])
    };
    (FIRST_HOST..FIRST_HOST + 4).filter_map(made).collect()
}

fn gpu_hosts(manager: &Manager) -> BTreeSet<String> {
    let rows = rows(manager, &["gpu", "hosts"]);
    let own = rows.iter().filter(|host| host["own"] == true);
    let names = own.filter_map(|host| host["name"].as_str());
    names.map(str::to_owned).collect()
}

/// Registers one item of every kind with the manager of `turn`, all for the host with index
/// `place`, and waits until the fabric is at rest.
fn register(site: &Site, turn: &Turn, host: &mut Host, place: usize) {
    let fabric = &site.fabric;
    join(fabric, host, place);
    take_alias(fabric, host, place);
    offer(fabric, host, place, SERVICE + place as u64);
    subscribe(host, turn.version.sm_key_of_subscribers());
    let guid = fabric.guids(place)[0].to_string();
    let p_key = format!("{:#x}", PARTITION + u16::try_from(place).unwrap());
    let name = format!("part-{place}");
    let create = ["partition", "create", &p_key, &guid, "--name", &name];
    turn.manager.command(&create);
    let file = turn.manager.directory.join("gpu.inventory");
    let inventory = format!(
        r#"{{"version":1,"gpus":[{{"index":0}}],"hca_ports":[{{"device":"mlx5_0","port":1,"port_guid":"{guid}"}}],"tiers":[["PIX"]]}}"#
    );
    std::fs::write(&file, inventory).unwrap();
    let file = file.to_str().unwrap();
    let gpu = format!("gpu-{place}");
    turn.manager
        .command(&["gpu", "import", "--host", &gpu, file]);
    std::thread::sleep(WRITE_TIME);
    assert!(
        fabric.fabric.wait_quiet(QUIET_TIME, LIMIT).unwrap(),
        "no rest"
    );
}

/// Asserts that `turn` has everything that the earlier managers had, and that no host registers
/// again.
fn assert_kept(site: &Site, turn: &Turn, hosts: &mut [Host], known: &SeenState) {
    let expected = known.as_shown_by(turn.version);
    let mut ask = || SeenState::ask(site, &turn.manager, hosts);
    let mut shown = ask();
    // GPU hosts and partitions are available after the first answers to hosts.
    wait_for_every(POLL, LIMIT / 6, || {
        shown = ask();
        (shown == expected).then_some(())
    });
    let log = turn.manager.process.stderr_so_far();
    assert_eq!(shown, expected, "{:?}: {log}", turn.version);
    let findings = turn.findings();
    assert_eq!(findings, BTreeSet::new(), "{:?}", turn.version);
}

/// Attaches the four hosts that register.
fn attach_hosts(site: &Site) -> Vec<Host> {
    let places = FIRST_HOST..FIRST_HOST + 4;
    places.map(|place| site.fabric.host(place)).collect()
}

#[test]
#[ignore = "needs an rsm of an earlier version, at RSM_OLD_BIN"]
fn versions_in_turn_on_one_state_folder_keep_each_others_rows_and_set_nothing() {
    let _ = Older.program();
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let mut hosts = attach_hosts(&site);
    let mut known: Option<SeenState> = None;
    let mut sets = 0;
    for (index, version) in [Older, New, Older, New].into_iter().enumerate() {
        let place = FIRST_HOST + index;
        let turn = Turn::start(&site, version, (0, "folder"), "");
        if known.is_none() {
            turn.manager.wait_state("up");
        }
        for host in &mut hosts {
            site.wait_answer(host, 0);
        }
        if let Some(known) = &known {
            std::thread::sleep(QUIET_TIME);
            assert_eq!(site.fabric.sets(), sets, "{index}: {version:?}");
            assert_kept(&site, &turn, &mut hosts, known);
        }
        register(&site, &turn, &mut hosts[index], place);
        let mut now = SeenState::ask(&site, &turn.manager, &mut hosts);
        restore_trust(&mut now, known.as_ref());
        sets = site.fabric.sets();
        // The last registrations are not in a database: the next version reads them from the
        // journal.
        let late = 2 * SERVICE + place as u64;
        offer(&site.fabric, &mut hosts[index], place, late);
        turn.kill();
        now.services.insert(late);
        known = Some(now);
    }
}

/// Restores trust in subscriptions: a manager of the earlier version shows no subscription as
/// trusted, and a manager of the new version will trust the subscriptions of `before` again.
fn restore_trust(now: &mut SeenState, before: Option<&SeenState>) {
    let before = before.into_iter().flat_map(|before| &before.subscriptions);
    for (key, &trusted) in before {
        if let Some(now) = now.subscriptions.get_mut(key) {
            *now |= trusted;
        }
    }
}

#[test]
#[ignore = "needs an rsm of an earlier version, at RSM_OLD_BIN"]
fn versions_that_share_an_etcd_take_over_from_each_other_with_everything() {
    let _ = Older.program();
    if !require_peers(PEERS) {
        return;
    }
    let site = Site::start(FABRIC, 1);
    let rest = site.config("");
    let last = site.fabric.hosts.len() - 1;
    let places = |version| match version {
        Older => (0, "older"),
        New => (last, "new"),
    };
    let start = |version| Turn::start(&site, version, places(version), &rest);
    let mut hosts = attach_hosts(&site);
    let mut known: Option<SeenState> = None;
    let mut master = start(Older);
    master.manager.wait_state("up");
    let lid = site.fabric.lid(0);
    for index in 0..4 {
        for host in &mut hosts {
            site.wait_answer_at(host, lid);
        }
        let standby = start(match master.version {
            Older => New,
            New => Older,
        });
        standby.manager.wait_state("standby");
        register(&site, &master, &mut hosts[index], FIRST_HOST + index);
        master.manager.wait_stored();
        let mut now = SeenState::ask(&site, &master.manager, &mut hosts);
        restore_trust(&mut now, known.as_ref());
        assert_eq!(standby.findings(), BTreeSet::new(), "{:?}", standby.version);
        master.kill();
        site.wait_answer_at(&mut hosts[0], lid);
        standby.manager.wait_state("up");
        assert!(site.fabric.fabric.wait_quiet(QUIET_TIME, LIMIT).unwrap());
        assert_kept(&site, &standby, &mut hosts, &now);
        let store = standby.manager.status()["shared_store"].clone();
        assert_eq!(store["epoch"], index as u64 + 2, "{store}");
        known = Some(now);
        master = standby;
    }
    master.manager.stop();
}

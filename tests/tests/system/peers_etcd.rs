//! The shared store in a real etcd: one manager loads what another manager has stored, and no
//! manager writes once another manager holds the epoch.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rsm_ids::{Guid, Lid, Lmc};
use rsm_model::LidClaim;
use rsm_store::etcd::{EtcdOptions, EtcdStore, TlsFiles};
use rsm_store::replica::{BEAT, Claim, Health, ReplicaEvent, ReplicaHandle, STALE};
use rsm_store::{
    ChangeSet, ClaimCondition, Epoch, Namespace, Persisted, SharedStore, Store, StoreError,
};
use rsm_tests::certificates::Certificates;
use rsm_tests::clock::{Stopwatch, wait_for};
use rsm_tests::etcd::{Etcd, PEERS};
use rsm_tests::peer::require_peers;
use rsm_tests::web;

const LIMIT: Duration = Duration::from_secs(30);
const PREFIX: &str = "/rsm/fe80000000000000";
/// The GUIDs of two managers.
const FIRST_MANAGER: Guid = Guid(0x0002_c903_0000_0001);
const SECOND_MANAGER: Guid = Guid(0x0002_c903_0000_0002);

fn options(etcd: &Etcd) -> EtcdOptions {
    EtcdOptions {
        endpoints: etcd.endpoints(),
        prefix: PREFIX.to_owned(),
        ..EtcdOptions::default()
    }
}

fn store(etcd: &Etcd) -> EtcdStore {
    EtcdStore::new(&options(etcd)).unwrap()
}

/// A store whose epoch `holder` has claimed.
fn claimed(etcd: &Etcd, holder: Guid) -> EtcdStore {
    let mut store = store(etcd);
    let seen = store.observe().unwrap();
    let epoch = store
        .claim(holder, seen, ClaimCondition::Unconditional)
        .unwrap()
        .expect("the claim is the only one");
    assert_eq!(epoch.holder, holder);
    store
}

fn table(name: &str) -> Namespace {
    Namespace::new(name).unwrap()
}

/// Changes with the LID claims of `ports` ports, and as many rows in each of two tables. `value` is
/// the value of the rows in one table.
fn changes(ports: u16, value: &[u8]) -> ChangeSet {
    let mut changes = ChangeSet::new();
    for number in 1..=ports {
        let guid = Guid(0x0002_c903_0010_0000 + u64::from(number));
        let claim = LidClaim {
            lid: Lid(number),
            lmc: Lmc::ZERO,
            last_seen: 1,
        };
        changes.set_claim(guid, claim).unwrap();
        let key = guid.0.to_be_bytes();
        changes.set_record(&table("members"), &key, value).unwrap();
        changes
            .set_record(&table("services"), &key, &[7; 200])
            .unwrap();
    }
    changes.set_plan_generation(u64::from(ports));
    changes
}

/// The state after `changes` to an empty store.
fn state(changes: &ChangeSet) -> Persisted {
    let mut state = Persisted::default();
    state.apply(changes);
    state
}

/// A replica of `etcd`, and its events.
fn replica(etcd: &Etcd) -> (ReplicaHandle, Receiver<ReplicaEvent>) {
    let (sender, events) = channel();
    let tell = Box::new(move |event| drop(sender.send(event)));
    let replica = ReplicaHandle::start(Box::new(store(etcd)), tell).unwrap();
    (replica, events)
}

/// The next event for which `wanted` returns a value.
fn next<T>(
    events: &Receiver<ReplicaEvent>,
    mut wanted: impl FnMut(&ReplicaEvent) -> Option<T>,
) -> T {
    loop {
        let event = events.recv_timeout(LIMIT).expect("the event comes");
        if let Some(found) = wanted(&event) {
            return found;
        }
    }
}

/// The epoch of a granted claim, and the state to continue with; `None` for the claimant's own
/// state.
fn granted(event: &ReplicaEvent) -> Option<(Epoch, Option<Persisted>)> {
    match event {
        ReplicaEvent::Granted { epoch, state, .. } => Some((*epoch, state.as_deref().cloned())),
        _ => None,
    }
}

/// The claim of a standby with an empty state on the epoch of `over`.
fn claim(own: Guid, over: Option<Guid>) -> Claim {
    Claim {
        own,
        over,
        insists: false,
        state: Persisted::default(),
        held_before: 0,
        is_master: false,
        number: 1,
    }
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn a_deposed_manager_writes_nothing_and_its_successor_has_everything() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(1).unwrap();
    let mut first = store(&etcd);
    assert_eq!(first.observe().unwrap(), None);
    let refused = first.commit(&changes(1, b"early")).unwrap_err();
    assert!(matches!(refused, StoreError::NoEpoch), "{refused}");
    let epoch = first
        .claim(FIRST_MANAGER, None, ClaimCondition::Unconditional)
        .unwrap()
        .expect("it is free");
    assert_eq!((epoch.number, epoch.holder), (1, FIRST_MANAGER));
    // These are enough rows for several transactions.
    let mut stored = changes(3_000, b"value");
    first.commit(&stored).unwrap();
    let mut wide = ChangeSet::new();
    wide.set_record(&table("members"), b"wide", &[1; 60_000])
        .unwrap();
    first.commit(&wide).unwrap();
    stored.merge(wide);
    let mut removed = ChangeSet::new();
    removed.remove_record(&table("members"), b"wide");
    removed.remove_claim(Guid(0x0002_c903_0010_0001));
    first.commit(&removed).unwrap();
    stored.merge(removed);

    let mut second = store(&etcd);
    let seen = second.observe().unwrap().expect("there is an epoch");
    assert_eq!(seen.epoch, epoch);
    // A claim on an epoch that has ended gets nothing.
    let stale = rsm_store::SeenEpoch {
        revision: 1,
        ..seen
    };
    assert_eq!(
        second
            .claim(SECOND_MANAGER, Some(stale), ClaimCondition::Unconditional)
            .unwrap(),
        None
    );
    first.beat().unwrap();
    let next = second
        .claim(SECOND_MANAGER, Some(seen), ClaimCondition::Unconditional)
        .unwrap()
        .expect("the beat changes no epoch");
    assert_eq!((next.number, next.holder), (2, SECOND_MANAGER));
    assert_eq!(second.state(), state(&stored));

    for refused in [first.beat(), first.commit(&changes(1, b"late"))] {
        let refused = refused.unwrap_err();
        let is_deposed = matches!(&refused, StoreError::Deposed(by) if *by == next);
        assert!(
            is_deposed || matches!(refused, StoreError::NoEpoch),
            "{refused}"
        );
    }
    assert_eq!(store(&etcd).load().unwrap().0, state(&stored));
}

/// The number of requests to read and write keys that etcd has received.
fn requests(etcd: &Etcd) -> u64 {
    let endpoint = etcd.endpoints().remove(0);
    let address = endpoint.trim_start_matches("http://");
    let metrics = web::get(address, "/metrics").text();
    let counts = metrics.lines().filter(|line| {
        line.starts_with("grpc_server_started_total{") && line.contains("etcdserverpb.KV")
    });
    let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum::<f64>() as u64
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn standby_that_follows_needs_at_most_three_requests_to_claim_the_epoch_and_load_the_state() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(1).unwrap();
    let mut first = claimed(&etcd, FIRST_MANAGER);
    let mut stored = changes(10, b"value");
    first.commit(&stored).unwrap();
    let mut second = store(&etcd);
    second.follow().unwrap();
    let seen = second.observe().unwrap();
    // Changes after the observation: new rows, and rows and a page that are removed.
    let mut later = changes(5, b"later");
    for port in 6..=10 {
        later.remove_claim(Guid(0x0002_c903_0010_0000 + port));
    }
    let gone = 0x0002_c903_0010_0006_u64.to_be_bytes();
    later.remove_record(&table("services"), &gone);
    first.commit(&later).unwrap();
    stored.merge(later);
    let before = requests(&etcd);
    assert!(before > 0, "etcd counts requests");
    let epoch = second
        .claim(SECOND_MANAGER, seen, ClaimCondition::HolderSilent)
        .unwrap();
    let asked = requests(&etcd) - before;
    assert_eq!(epoch.map(|epoch| epoch.holder), Some(SECOND_MANAGER));
    assert_eq!(second.state(), state(&stored));
    // The requests are the claim, the changes since the observation, and a request for the names of
    // keys, because some keys were removed.
    assert_eq!(asked, 3);

    // Nothing changes until the next claim.
    first.follow().unwrap();
    let seen = first.observe().unwrap();
    let before = requests(&etcd);
    let epoch = first
        .claim(FIRST_MANAGER, seen, ClaimCondition::HolderSilent)
        .unwrap();
    assert_eq!(requests(&etcd) - before, 2);
    assert_eq!(epoch.map(|epoch| epoch.holder), Some(FIRST_MANAGER));
    assert_eq!(first.state(), state(&stored));
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn claim_fails_after_a_beat_or_a_change_of_format_since_the_observation() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(1).unwrap();
    let mut first = claimed(&etcd, FIRST_MANAGER);
    first.commit(&changes(10, b"value")).unwrap();
    let mut second = store(&etcd);
    second.follow().unwrap();
    let seen = second.observe().unwrap();
    first.beat().unwrap();
    assert_eq!(
        second
            .claim(SECOND_MANAGER, seen, ClaimCondition::HolderSilent)
            .unwrap(),
        None
    );
    first.beat().unwrap();
    etcd.ctl(&["put", "/rsm/fe80000000000000/format", "rsm-store 2"])
        .unwrap();
    let error = second
        .claim(SECOND_MANAGER, seen, ClaimCondition::Unconditional)
        .unwrap_err();
    assert!(error.to_string().contains("rsm-store 2"), "{error}");
    first.beat().unwrap();
    etcd.ctl(&["put", "/rsm/fe80000000000000/format", "rsm-store 1"])
        .unwrap();
    let epoch = second
        .claim(SECOND_MANAGER, seen, ClaimCondition::Unconditional)
        .unwrap();
    assert_eq!(epoch.map(|epoch| epoch.number), Some(2));
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn keys_of_other_programs_and_damaged_pages_are_refused_and_not_overwritten() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(1).unwrap();
    let dump = |etcd: &Etcd| etcd.ctl(&["get", "--prefix", ""]).unwrap().stdout;
    etcd.ctl(&["put", "/rsm/fe80000000000000/registry/pods", "x"])
        .unwrap();
    // A longer prefix belongs to another subnet.
    etcd.ctl(&["put", "/rsm/fe80000000000000f/format", "rsm-store 1"])
        .unwrap();
    let before = dump(&etcd);
    let mut first = store(&etcd);
    for error in [
        first
            .claim(FIRST_MANAGER, None, ClaimCondition::Unconditional)
            .unwrap_err(),
        first.load().unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        assert!(error.to_string().contains("/registry/pods"), "{error}");
    }
    assert_eq!(dump(&etcd), before);
    etcd.ctl(&["del", "/rsm/fe80000000000000/registry/pods"])
        .unwrap();

    first
        .claim(FIRST_MANAGER, None, ClaimCondition::Unconditional)
        .unwrap()
        .expect("it is free");
    first.commit(&changes(2, b"value")).unwrap();
    let keys = etcd
        .ctl(&["get", "--prefix", "--keys-only", PREFIX])
        .unwrap()
        .stdout;
    let page = keys
        .lines()
        .find(|key| key.contains("/pages/members/"))
        .unwrap();
    let seen = first.observe().unwrap();
    for (key, value) in [(page, "torn"), ("/rsm/fe80000000000000/generation", "many")] {
        etcd.ctl(&["put", key, value]).unwrap();
        let before = dump(&etcd);
        let error = store(&etcd)
            .claim(SECOND_MANAGER, seen, ClaimCondition::Unconditional)
            .unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains(key), "{error}");
        assert_eq!(dump(&etcd), before, "nothing is overwritten");
        // The first page is missing at the second key.
        etcd.ctl(&["del", key]).unwrap();
    }
    etcd.ctl(&["put", "/rsm/fe80000000000000/format", "rsm-store 2"])
        .unwrap();
    let error = store(&etcd)
        .claim(SECOND_MANAGER, seen, ClaimCondition::Unconditional)
        .unwrap_err();
    assert!(error.to_string().contains("rsm-store 2"), "{error}");
    etcd.ctl(&["put", "/rsm/fe80000000000000/format", "rsm-store 1"])
        .unwrap();
    etcd.ctl(&["put", "/rsm/fe80000000000000/epoch", "mine"])
        .unwrap();
    let error = first.observe().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn changes_are_stored_by_two_of_three_members_and_changes_of_an_outage_after_it() {
    if !require_peers(PEERS) {
        return;
    }
    let mut etcd = Etcd::start(3).unwrap();
    let (replica, events) = replica(&etcd);
    replica.claim(claim(FIRST_MANAGER, None));
    assert_eq!(next(&events, granted).1, None);
    let written = || wait_for(LIMIT, || (replica.lag().rows == 0).then_some(()));

    replica.put(changes(100, b"all three"));
    assert!(written().is_some());
    etcd.kill(0).unwrap();
    replica.put(changes(100, b"two are left"));
    assert!(written().is_some(), "{:?}", replica.lag());

    etcd.kill(1).unwrap();
    etcd.kill(2).unwrap();
    replica.put(changes(100, b"meanwhile"));
    let failing = |event: &ReplicaEvent| match event {
        ReplicaEvent::Health(Health::Failing(text)) => Some(text.clone()),
        _ => None,
    };
    let text = next(&events, failing);
    assert!(text.contains("does not answer"), "{text}");
    replica.put(changes(200, b"and later"));
    replica.check();
    next(&events, |event| {
        matches!(event, ReplicaEvent::Unreachable { .. }).then_some(())
    });
    let lag = replica.lag();
    assert_eq!(lag.rows, 600, "three rows of each port: {lag:?}");
    assert!(lag.oldest > Duration::ZERO);
    for member in 0..3 {
        etcd.restart(member).unwrap();
    }
    let good =
        |event: &ReplicaEvent| matches!(event, ReplicaEvent::Health(Health::Good)).then_some(());
    next(&events, good);
    assert!(written().is_some(), "{:?}", replica.lag());
    replica.close();
    etcd.wait_healthy().unwrap();
    let loaded = store(&etcd).load().unwrap().0;
    assert_eq!(loaded, state(&changes(200, b"and later")));
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn a_store_that_hangs_delays_no_caller_and_gets_every_change() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(1).unwrap();
    let (replica, events) = replica(&etcd);
    replica.claim(claim(FIRST_MANAGER, None));
    next(&events, granted);
    let mut slowest = Duration::ZERO;
    for round in 0..5_u8 {
        etcd.suspend();
        for row in 0..50_u8 {
            let mut change = ChangeSet::new();
            change
                .set_record(&table("members"), &[round, row], b"value")
                .unwrap();
            let watch = Stopwatch::start();
            replica.put(change);
            slowest = slowest.max(watch.elapsed());
            std::thread::sleep(Duration::from_millis(10));
        }
        etcd.resume();
    }
    assert!(slowest < Duration::from_millis(100), "{slowest:?}");
    assert!(wait_for(LIMIT, || (replica.lag().rows == 0).then_some(())).is_some());
    replica.close();
    let loaded = store(&etcd).load().unwrap().0;
    assert_eq!(loaded.records[&table("members")].len(), 250);
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn managers_use_the_other_members_if_one_hangs() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(3).unwrap();
    let mut master = claimed(&etcd, FIRST_MANAGER);
    let mut standby = store(&etcd);
    standby.follow().unwrap();
    // Both managers have used this member so far. If it led the cluster, the other members first
    // elect another leader.
    etcd.suspend_member(0);
    let seen = wait_for(LIMIT, || standby.observe().ok());
    let seen = seen.expect("two members answer");
    let claim = || {
        standby
            .claim(SECOND_MANAGER, seen, ClaimCondition::Unconditional)
            .ok()
            .flatten()
    };
    let epoch = wait_for(LIMIT, claim).expect("two members answer");
    assert_eq!((epoch.number, epoch.holder), (2, SECOND_MANAGER));
    let deposed = wait_for(LIMIT, || match master.beat() {
        Err(StoreError::Deposed(by)) => Some(by),
        _ => None,
    });
    assert_eq!(deposed, Some(epoch));
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn epoch_of_a_holder_that_beats_passes_on_only_to_an_insistent_claim_or_by_release() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(1).unwrap();
    let (first, events) = replica(&etcd);
    first.claim(claim(FIRST_MANAGER, None));
    let (epoch, _) = next(&events, granted);
    let stored = changes(10, b"value");
    first.put(stored.clone());
    assert!(wait_for(LIMIT, || (first.lag().rows == 0).then_some(())).is_some());

    // The holder beats: a claim on the epoch of another manager, or of any manager, is refused.
    let (second, others) = replica(&etcd);
    let refused = |event: &ReplicaEvent| match event {
        ReplicaEvent::Refused(holder) => Some(*holder),
        _ => None,
    };
    second.claim(claim(SECOND_MANAGER, Some(Guid(9))));
    assert_eq!(next(&others, refused), epoch);
    second.claim(claim(SECOND_MANAGER, None));
    assert_eq!(next(&others, refused), epoch);
    std::thread::sleep(STALE + 4 * BEAT);
    assert!(
        others.try_iter().all(|event| granted(&event).is_none()),
        "the holder beats"
    );
    second.release();

    // The holder does not answer in the fabric, but beats: it is busy.
    second.claim(claim(SECOND_MANAGER, Some(FIRST_MANAGER)));
    assert_eq!(next(&others, refused), epoch);
    // The claimant insists, because the holder has not answered in the fabric for long.
    let mut insisting = claim(SECOND_MANAGER, Some(FIRST_MANAGER));
    insisting.insists = true;
    second.claim(insisting);
    let (taken, loaded) = next(&others, granted);
    assert_eq!(
        (taken.number, taken.holder),
        (epoch.number + 1, SECOND_MANAGER)
    );
    assert_eq!(loaded, Some(state(&stored)));
    let deposed = |event: &ReplicaEvent| match event {
        ReplicaEvent::Deposed { ended, by } => Some((*ended, *by)),
        _ => None,
    };
    assert_eq!(
        next(&events, deposed),
        (epoch, taken),
        "its next beat fails"
    );
    first.put(changes(20, b"late"));
    assert_eq!(first.lag().rows, 0, "a deposed manager keeps no changes");

    // The second manager ends and releases its epoch. The first manager was master in the meantime,
    // without the store: its state replaces the state of the store.
    second.close();
    let mut own = claim(FIRST_MANAGER, None);
    own.state = state(&changes(12, b"mine"));
    own.held_before = epoch.number;
    own.is_master = true;
    first.claim(own);
    let (again, merged) = next(&events, granted);
    assert_eq!(again.number, taken.number + 1);
    assert_eq!(merged, Some(state(&changes(12, b"mine"))));

    // The first manager restarts: its state is newer than the store's.
    assert!(wait_for(LIMIT, || (first.lag().rows == 0).then_some(())).is_some());
    first.close();
    let (third, events) = replica(&etcd);
    let mut own = claim(FIRST_MANAGER, None);
    own.state = state(&changes(5, b"newest"));
    own.held_before = again.number;
    third.claim(own);
    assert_eq!(next(&events, granted).1, None);
    third.close();
    assert_eq!(
        store(&etcd).load().unwrap().0,
        state(&changes(5, b"newest"))
    );
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn store_uses_certificates_and_users_of_etcd_and_says_why_access_fails() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start_with(1, "https", |directory| {
        certify(directory);
        let file = |name: &str| directory.join(name).display().to_string();
        vec![
            format!("--cert-file={}", file("server.pem")),
            format!("--key-file={}", file("server.key")),
            format!("--trusted-ca-file={}", file("ca.pem")),
            "--client-cert-auth".to_owned(),
        ]
    })
    .unwrap();
    let file = |name: &str| Some(etcd.directory().join(name));
    let trusted = TlsFiles {
        ca: file("ca.pem"),
        certificate: file("client.pem"),
        key: file("client.key"),
    };
    let with = |tls: &TlsFiles, user: Option<(&str, &str)>| {
        let user = user.map(|(name, password)| {
            let file = etcd.directory().join(password);
            std::fs::write(&file, format!("{password}\n")).unwrap();
            (name.to_owned(), file)
        });
        EtcdStore::new(&EtcdOptions {
            tls: tls.clone(),
            user,
            ..options(&etcd)
        })
    };
    let mut store = with(&trusted, None).unwrap();
    assert!(
        wait_for(LIMIT, || store.observe().ok()).is_some(),
        "{}",
        etcd.log()
    );

    let [ca, certificate, key] = ["ca.pem", "client.pem", "client.key"];
    let tls = ["--cacert", ca, "--cert", certificate, "--key", key];
    let ctl = |arguments: &[&str]| etcd.ctl(&[&tls[..], arguments].concat()).unwrap();
    ctl(&["user", "add", "root:secret"]);
    ctl(&["user", "grant-role", "root", "root"]);
    ctl(&["user", "add", "rsm:word"]);
    ctl(&["role", "add", "rsm"]);
    ctl(&[
        "role",
        "grant-permission",
        "rsm",
        "--prefix=true",
        "readwrite",
        "/rsm/fe80000000000000/",
    ]);
    ctl(&["user", "grant-role", "rsm", "rsm"]);
    ctl(&["auth", "enable"]);
    let mut store = with(&trusted, Some(("rsm", "word"))).unwrap();
    store
        .claim(FIRST_MANAGER, None, ClaimCondition::Unconditional)
        .unwrap()
        .expect("it is free");
    store.commit(&changes(10, b"value")).unwrap();
    let refused = with(&trusted, Some(("rsm", "wrong")))
        .unwrap()
        .observe()
        .unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");

    let stranger = TlsFiles {
        certificate: None,
        key: None,
        ..trusted.clone()
    };
    let silent = with(&stranger, None).unwrap().observe().unwrap_err();
    assert!(matches!(silent, StoreError::Unreachable { .. }), "{silent}");
    let missing = TlsFiles {
        ca: file("none.pem"),
        ..trusted
    };
    let error = with(&missing, None).err().expect("there is no such file");
    assert!(error.to_string().contains("none.pem"), "{error}");
}

#[test]
#[cfg_attr(not(peers), ignore = "needs etcd-server, etcd-client and openssl")]
fn renewed_certificate_and_password_are_used_without_a_restart() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start_with(1, "https", |directory| {
        certify(directory);
        let file = |name: &str| directory.join(name).display().to_string();
        vec![
            format!("--cert-file={}", file("server.pem")),
            format!("--key-file={}", file("server.key")),
            format!("--trusted-ca-file={}", file("ca.pem")),
            "--client-cert-auth".to_owned(),
        ]
    })
    .unwrap();
    let file = |name: &str| etcd.directory().join(name);
    let certificates = Certificates::at(etcd.directory());
    certificates.authority("other").unwrap();
    certificates
        .sign("manager", "other", "IP:127.0.0.1")
        .unwrap();
    let tls = TlsFiles {
        ca: Some(file("ca.pem")),
        certificate: Some(file("manager.pem")),
        key: Some(file("manager.key")),
    };
    let with = |user| EtcdOptions {
        tls: tls.clone(),
        user,
        ..options(&etcd)
    };
    let mut store = EtcdStore::new(&with(None)).unwrap();
    let silent = store.observe().unwrap_err();
    assert!(matches!(silent, StoreError::Unreachable { .. }), "{silent}");
    certificates.sign("manager", "ca", "IP:127.0.0.1").unwrap();
    assert!(wait_for(LIMIT, || store.observe().ok()).is_some());

    let [ca, certificate, key] = ["ca.pem", "client.pem", "client.key"];
    let tls = ["--cacert", ca, "--cert", certificate, "--key", key];
    let ctl = |arguments: &[&str]| etcd.ctl(&[&tls[..], arguments].concat()).unwrap();
    ctl(&["user", "add", "root:secret"]);
    ctl(&["user", "grant-role", "root", "root"]);
    ctl(&["auth", "enable"]);
    let password = file("password");
    std::fs::write(&password, "former\n").unwrap();
    let user = Some(("root".to_owned(), password.clone()));
    let mut store = EtcdStore::new(&with(user)).unwrap();
    let refused = store.observe().unwrap_err();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    std::fs::write(&password, "secret\n").unwrap();
    store.observe().unwrap();
}

/// Creates an authority, and certificates of a server and of a client at 127.0.0.1.
fn certify(directory: &Path) {
    let certificates = Certificates::at(directory);
    certificates.authority("ca").unwrap();
    for name in ["server", "client"] {
        certificates.sign(name, "ca", "IP:127.0.0.1").unwrap();
    }
}

/// Loads the state of a fabric of 45,056 hosts: claims, positions, members, services, subscriptions
/// and alias GUIDs.
///
/// Run with `cargo test -p rsm-tests --test system -- --ignored --nocapture
/// standby_loads_the_state_of_45056_hosts_within_ten_seconds`.
#[test]
#[ignore = "a measurement: writes and reads some 30 MB"]
#[expect(clippy::print_stdout, reason = "a measurement shows its figures")]
fn standby_loads_the_state_of_45056_hosts_within_ten_seconds() {
    if !require_peers(PEERS) {
        return;
    }
    let etcd = Etcd::start(3).unwrap();
    let mut master = claimed(&etcd, FIRST_MANAGER);
    let tables: BTreeMap<&str, (u64, usize)> = BTreeMap::from([
        ("positions", (1, 12)),
        ("members", (4, 48)),
        ("services", (1, 176)),
        ("subscriptions", (1, 64)),
        ("guids", (8, 16)),
    ]);
    let mut all = ChangeSet::new();
    for host in 0..45_056_u16 {
        let guid = 0x0002_c903_0010_0000 + u64::from(host);
        let claim = LidClaim {
            lid: Lid(host + 1),
            lmc: Lmc::ZERO,
            last_seen: 1,
        };
        all.set_claim(Guid(guid), claim).unwrap();
        for (name, &(rows, bytes)) in &tables {
            for row in 0..rows {
                let key = [guid.to_be_bytes(), row.to_be_bytes()].concat();
                all.set_record(&table(name), &key, &vec![9; bytes]).unwrap();
            }
        }
    }
    let watch = Stopwatch::start();
    master.commit(&all).unwrap();
    let write = watch.elapsed();
    let mut standby = store(&etcd);
    let seen = standby.observe().unwrap();
    let watch = Stopwatch::start();
    standby
        .claim(SECOND_MANAGER, seen, ClaimCondition::Unconditional)
        .unwrap()
        .expect("the claim is the only one");
    let loaded = standby.state();
    let load = watch.elapsed();
    assert_eq!(loaded, state(&all));
    println!(
        "{} rows: written in {write:?}, claimed and loaded in {load:?}",
        all.len()
    );
    assert!(load < Duration::from_secs(10), "{load:?}");
}

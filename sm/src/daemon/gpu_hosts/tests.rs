//! Tests of the inventories of GPU hosts.

use std::sync::atomic::{AtomicU64, Ordering};

use rsm_gdr::findings::GpuFindingKind;
use rsm_gdr::import::{InventoryFormat, import};
use rsm_store::{ChangeSet, Persisted};

use super::*;
use crate::daemon::persistence::GpuRows;

/// A clock that the test sets, in seconds.
#[derive(Clone)]
struct TestClock(Arc<AtomicU64>);

impl rsm_view::publish::UnixClock for TestClock {
    fn now(&self) -> rsm_mad::Time {
        rsm_mad::Time::ZERO
    }

    fn unix_ms(&self, _: rsm_mad::Time) -> u64 {
        self.0.load(Ordering::Relaxed) * 1000
    }
}

/// A store to which GPU hosts write, and which they read again after a restart.
#[derive(Clone, Default)]
struct TestStore(Arc<Mutex<(GpuRows, Persisted)>>);

impl TestStore {
    fn put(&self, saved: SavedGpus) {
        let (rows, persisted) = &mut *self.0.lock();
        let mut changes = ChangeSet::new();
        rows.changes(persisted, saved, &mut changes);
        persisted.apply(&changes);
    }

    fn read(&self) -> StoredGpus {
        let (rows, persisted) = &mut *self.0.lock();
        rows.reader.read(persisted)
    }

    /// GPU hosts with the content of the store, and their clock.
    fn open(&self, max_age: Option<u64>) -> (GpuHosts, Arc<AtomicU64>) {
        let clock = Arc::new(AtomicU64::new(5));
        let test_clock = TestClock(clock.clone());
        let view = Arc::new(View::new("sim:test".to_owned(), true, Box::new(test_clock)));
        let test_store = self.clone();
        let keep = Box::new(move |saved| test_store.put(saved));
        (GpuHosts::new(view, keep, self.read(), max_age), clock)
    }
}

fn read(json: &str) -> HostInventory {
    import(InventoryFormat::Json, json.as_bytes()).expect("our own format")
}

fn host() -> HostInventory {
    read(
        r#"{"version":1,"gpus":[{"index":0}],"hca_ports":[{"device":"mlx5_0","port":1}],"tiers":[["PIX"]]}"#,
    )
}

/// A host with one adapter, whose GUID is `guid`.
fn host_with(guid: u64) -> HostInventory {
    let mut host = host();
    host.hca_ports[0].port_guid = Some(Guid(guid));
    host
}

fn report(name: &str, inventory: HostInventory, digest: u8) -> GpuImport {
    GpuImport {
        host: name.to_owned(),
        inventory,
        digest: [digest; 32],
    }
}

fn default_type(hosts: &GpuHosts) -> Option<String> {
    hosts.inventory().default_machine_type().map(str::to_owned)
}

#[test]
fn inventories_survive_restarts_until_forgotten() {
    let test_store = TestStore::default();
    let (first, _) = test_store.open(None);
    let reports = vec![report("gpu-1", host(), 1), report("gpu-2", host(), 1)];
    assert_eq!(first.import_hosts(reports).expect("room"), 2);
    for name in ["zeta", "dgx"] {
        first.import_machine_type(name, host()).expect("room");
    }
    drop(first);
    let (again, _) = test_store.open(None);
    let analysis = again.analysis();
    assert_eq!(analysis.hosts.len(), 2);
    assert_eq!(analysis.hints[0][0].port(), Some(0));
    assert_eq!(default_type(&again).as_deref(), Some("dgx"));
    let forget = |subject| again.forget(&[subject]).is_empty();
    // A host and a machine type of the same name are distinct.
    assert!(!forget(GpuSubject::Host("dgx")));
    for name in ["gpu-1", "gpu-2"] {
        assert!(forget(GpuSubject::Host(name)));
        assert!(!forget(GpuSubject::Host(name)));
    }
    let (later, _) = test_store.open(None);
    assert!(later.analysis().hosts.is_empty());
    assert_eq!(default_type(&later).as_deref(), Some("dgx"));
    assert!(!forget(GpuSubject::MachineType("zeta")));
    assert!(forget(GpuSubject::MachineType("dgx")));
    assert!(!forget(GpuSubject::MachineType("dgx")));
    assert_eq!(default_type(&test_store.open(None).0), None);
}

#[test]
fn repeated_report_changes_nothing_but_the_age() {
    let test_store = TestStore::default();
    let (hosts, clock) = test_store.open(None);
    let changes = hosts.changes();
    assert!(!hosts.check("gpu-1", &[1; 32]));
    let imported = hosts.import_hosts(vec![report("gpu-1", host(), 1)]);
    assert_eq!(imported.expect("room"), 1);
    let inventory = hosts.inventory();
    clock.store(100, Ordering::Relaxed);
    assert!(hosts.check("gpu-1", &[1; 32]));
    assert!(!hosts.check("gpu-1", &[2; 32]));
    // After a restart of its server, a host sends the same inventory in different text.
    let imported = hosts.import_hosts(vec![report("gpu-1", host(), 2)]);
    assert_eq!(imported.expect("room"), 0);
    assert!(hosts.check("gpu-1", &[2; 32]));
    assert!(Arc::ptr_eq(&inventory, &hosts.inventory()));
    assert_eq!(*changes.borrow(), 1);
    clock.store(130, Ordering::Relaxed);
    assert_eq!(hosts.ages().ages, [(30, "gpu-1".to_owned())]);
    // The store holds the time of the last report.
    hosts.save_seen();
    let (again, clock) = test_store.open(None);
    clock.store(160, Ordering::Relaxed);
    assert_eq!(again.ages().ages, [(60, "gpu-1".to_owned())]);
}

#[test]
fn silent_hosts_are_stale_in_one_finding_until_they_report() {
    let test_store = TestStore::default();
    let (hosts, clock) = test_store.open(Some(60));
    let names = ["gpu-1", "gpu-2", "gpu-3"];
    let reports = names.iter().map(|name| report(name, host(), 1)).collect();
    hosts.import_hosts(reports).expect("room");
    let stale = || -> Vec<Vec<String>> {
        let analysis = hosts.analysis();
        let of_kind = analysis.findings.iter();
        let of_kind = of_kind.filter(|one| one.kind == GpuFindingKind::StaleInventory);
        of_kind
            .map(|one| one.hosts().map(str::to_owned).collect())
            .collect()
    };
    clock.store(65, Ordering::Relaxed);
    assert_eq!(stale(), Vec::<Vec<String>>::new());
    assert!(hosts.check("gpu-2", &[1; 32]));
    clock.store(66, Ordering::Relaxed);
    assert_eq!(stale(), [["gpu-1", "gpu-3"]]);
    assert!(hosts.check("gpu-1", &[1; 32]));
    assert_eq!(stale(), [["gpu-3"]]);
    assert!(hosts.check("gpu-3", &[1; 32]));
    assert_eq!(stale(), Vec::<Vec<String>>::new());
}

#[test]
fn second_machine_of_one_name_is_refused_until_the_first_is_silent_or_forgotten() {
    let test_store = TestStore::default();
    let (hosts, clock) = test_store.open(Some(60));
    let import = |guid| hosts.import_hosts(vec![report("gpu-1", host_with(guid), 1)]);
    assert_eq!(import(1).expect("room"), 1);
    let refused = import(2).expect_err("another machine");
    assert!(
        refused.to_string().contains("two hosts may have one name"),
        "{refused}"
    );
    assert_eq!(hosts.ages().names_taken_twice, ["gpu-1"]);
    // One refused import refuses the whole bulk import.
    let bulk = vec![report("gpu-0", host(), 1), report("gpu-1", host_with(2), 1)];
    assert!(hosts.import_hosts(bulk).is_err());
    assert_eq!(hosts.inventory().hosts().len(), 1);
    // The first host's inventory stays in force.
    let kept = hosts.inventory();
    let known = &kept.hosts()["gpu-1"].inventory;
    assert_eq!(known.hca_ports[0].port_guid, Some(Guid(1)));
    clock.store(66, Ordering::Relaxed);
    assert_eq!(import(2).expect("the first one is silent"), 1);
    assert_eq!(hosts.ages().names_taken_twice, Vec::<String>::new());
    assert!(import(3).is_err());
    assert!(hosts.forget(&[GpuSubject::Host("gpu-1")]).is_empty());
    assert_eq!(import(3).expect("forgotten"), 1);
}

#[test]
fn an_import_of_many_names_each_host_that_would_lose_its_guids() {
    let (hosts, _) = TestStore::default().open(None);
    let all = |inventory: fn(u64) -> HostInventory| {
        let names = (1..=3).map(|number| report(&format!("gpu-{number}"), inventory(number), 1));
        names.collect::<Vec<_>>()
    };
    hosts.import_hosts(all(host_with)).expect("room");
    let refused = hosts.import_hosts(all(|_| host())).expect_err("no GUIDs");
    let text = refused.to_string();
    assert!(
        text.contains("the inventories of gpu-[1-3] have no GUID"),
        "{text}"
    );
    let mut mixed = all(|_| host());
    mixed[1].inventory = host_with(7);
    let text = hosts.import_hosts(mixed).expect_err("others").to_string();
    for part in ["gpu-[1,3] have no GUID", "gpu-2 are other machines"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let one = hosts.import_hosts(vec![report("gpu-2", host(), 1)]);
    assert!(matches!(one, Err(GpuImportError::WithoutGuids { .. })));
}

#[test]
fn an_unknown_name_among_many_keeps_all_inventories() {
    let (hosts, _) = TestStore::default().open(None);
    let reports = vec![report("gpu-1", host(), 1), report("gpu-2", host(), 1)];
    hosts.import_hosts(reports).expect("room");
    let names = ["gpu-1", "gpu-2", "gpu-9"].map(GpuSubject::Host);
    assert_eq!(hosts.forget(&names), ["gpu-9"]);
    assert_eq!(hosts.ages().ages.len(), 2);
    assert!(hosts.forget(&names[..2]).is_empty());
    assert!(hosts.ages().ages.is_empty());
}

/// A host with one adapter for each of the GUIDs.
fn host_of(guids: &[u64]) -> HostInventory {
    let mut host = host();
    let first = host.hca_ports.remove(0);
    host.tiers.clear();
    for (number, &guid) in guids.iter().enumerate() {
        let mut port = first.clone();
        port.device = Some(format!("mlx5_{number}"));
        port.port_guid = Some(Guid(guid));
        host.hca_ports.push(port);
        host.tiers.push(None);
    }
    host
}

#[test]
fn inventory_without_most_guids_of_the_known_one_does_not_replace_it() {
    let (hosts, clock) = TestStore::default().open(Some(60));
    let import = |host| hosts.import_hosts(vec![report("gpu-1", host, 1)]);
    // An inventory without GUIDs has none to lose.
    assert_eq!(import(host()).expect("the first"), 1);
    assert_eq!(import(host_of(&[1, 2, 3, 4])).expect("with GUIDs"), 1);
    let empty = read(r#"{"version":1,"gpus":[{"index":0}],"tiers":[[]]}"#);
    for without in [empty, host()] {
        let refused = import(without).expect_err("it would hide the adapters");
        let text = refused.to_string();
        assert!(
            matches!(refused, GpuImportError::WithoutGuids { .. }),
            "{text}"
        );
        assert!(text.contains("forget the host `gpu-1` first"), "{text}");
    }
    // A single common GUID may be a copy; adapters are lost and exchanged a few at a time.
    for other in [&[1][..], &[1, 9, 8, 7], &[1, 2, 3, 4, 5, 6, 7, 8, 9]] {
        let refused = import(host_of(other)).expect_err("most GUIDs are others");
        assert!(
            matches!(refused, GpuImportError::NameTaken { .. }),
            "{refused}"
        );
    }
    let kept = hosts.inventory();
    assert_eq!(*kept.hosts()["gpu-1"].inventory, host_of(&[1, 2, 3, 4]));
    for same in [&[1, 2, 3, 9][..], &[1, 2], &[1, 2, 3, 4]] {
        assert_eq!(import(host_of(same)).expect("the same machine"), 1);
    }
    // Virtual functions do not count, because they appear and disappear often.
    let mut many = host_of(&[1, 2, 3, 4, 11, 12, 13, 14, 15, 16]);
    for port in &mut many.hca_ports[4..] {
        port.virtual_function = true;
    }
    assert_eq!(import(many).expect("the same machine"), 1);
    clock.store(66, Ordering::Relaxed);
    assert_eq!(import(host()).expect("the known one is stale"), 1);
}

#[test]
fn inventory_that_the_store_cannot_hold_is_refused_and_changes_nothing() {
    let test_store = TestStore::default();
    let (hosts, _) = test_store.open(None);
    hosts
        .import_hosts(vec![report("gpu-1", host(), 1)])
        .expect("room");
    let mut long = host();
    long.gpus[0].model = Some("x".repeat(TEXT_MAX));
    let bulk = vec![report("gpu-1", host_with(7), 2), report("gpu-2", long, 2)];
    let refused = hosts.import_hosts(bulk).expect_err("it is too long");
    assert!(matches!(refused, GpuImportError::Kept(_)), "{refused}");
    assert_eq!(*hosts.inventory().hosts()["gpu-1"].inventory, host());
    assert!(hosts.check("gpu-1", &[1; 32]));
    let stored = test_store.read().inventory;
    assert_eq!(stored.hosts().keys().collect::<Vec<_>>(), ["gpu-1"]);
    assert!(hosts.import_hosts(vec![report("../x", host(), 0)]).is_err());
}

#[test]
fn inventories_of_the_master_replace_all_but_later_reports() {
    let (ours, theirs) = (TestStore::default(), TestStore::default());
    let (master, clock) = theirs.open(None);
    let names = ["gone", "changed", "both"];
    let all = |guid| {
        let reports = names.iter().map(|name| report(name, host_with(guid), 1));
        reports.collect()
    };
    master.import_hosts(all(1)).expect("room");
    ours.open(None).0.import_hosts(all(1)).expect("room");
    // After the restart, this manager has received none of these inventories itself.
    let (standby, own_clock) = ours.open(None);
    assert!(master.forget(&[GpuSubject::Host("gone")]).is_empty());
    clock.store(10, Ordering::Relaxed);
    let mut other = host_with(1);
    other.gpus[0].model = Some("other".to_owned());
    let later = vec![
        report("changed", other, 2),
        report("both", host_with(1), 1),
        report("new", host_with(3), 3),
    ];
    master.import_hosts(later).expect("room");
    master.import_machine_type("dgx", host()).expect("room");
    own_clock.store(20, Ordering::Relaxed);
    standby
        .import_hosts(vec![report("both", host_with(1), 9)])
        .expect("room");
    standby
        .import_hosts(vec![report("ours", host_with(8), 8)])
        .expect("room");
    let adopted = standby.adopt(theirs.read());
    let known: Vec<&str> = adopted.hosts().keys().map(String::as_str).collect();
    assert_eq!(known, ["both", "changed", "new", "ours"]);
    let changed = &adopted.hosts()["changed"].inventory;
    assert_eq!(changed.gpus[0].model.as_deref(), Some("other"));
    assert_eq!(adopted.default_machine_type(), Some("dgx"));
    // Only inventories that this manager has received are known by their digest.
    assert!(standby.check("both", &[9; 32]));
    assert!(!standby.check("changed", &[2; 32]));
    // All inventories are also in this manager's store.
    assert_eq!(ours.read().inventory.hosts().len(), 4);
    let changes = standby.changes();
    let before = *changes.borrow();
    assert!(Arc::ptr_eq(&standby.adopt(theirs.read()), &adopted));
    assert_eq!(*changes.borrow(), before, "nothing new comes twice");
}

#[test]
fn store_of_an_earlier_version_removes_no_inventory() {
    let test_store = TestStore::default();
    let (hosts, _) = test_store.open(None);
    hosts
        .import_hosts(vec![report("gpu-1", host(), 1)])
        .expect("room");
    let (hosts, _) = test_store.open(None);
    assert_eq!(hosts.adopt(StoredGpus::default()).hosts().len(), 1);
    let emptied = StoredGpus {
        is_complete: true,
        ..StoredGpus::default()
    };
    assert_eq!(hosts.adopt(emptied).hosts().len(), 0);
}

#[test]
fn unreadable_inventory_is_named_until_the_host_reports() {
    let test_store = TestStore::default();
    let (hosts, _) = test_store.open(None);
    let reports = vec![report("gpu-1", host(), 1), report("gpu-2", host(), 1)];
    hosts.import_hosts(reports).expect("room");
    let mut stored = test_store.read();
    stored.inventory.remove("gpu-1");
    stored.unreadable.insert("gpu-1".to_owned());
    let (hosts, _) = test_store.open(None);
    hosts.adopt(stored);
    assert_eq!(hosts.unreadable(), BTreeSet::from(["gpu-1".to_owned()]));
    hosts
        .import_hosts(vec![report("gpu-1", host(), 1)])
        .expect("room");
    assert_eq!(hosts.unreadable(), BTreeSet::new());
}

#[test]
fn report_times_are_stored_at_most_once_per_interval() {
    let test_store = TestStore::default();
    let (hosts, clock) = test_store.open(None);
    clock.store(1_000, Ordering::Relaxed);
    hosts
        .import_hosts(vec![report("gpu-1", host(), 1)])
        .expect("room");
    hosts.save_seen_if_due();
    let seen = |test_store: &TestStore| test_store.read().seen.get("gpu-1").copied();
    assert_eq!(seen(&test_store), Some(1_000));
    clock.store(1_000 + SAVE_SEEN - 1, Ordering::Relaxed);
    assert!(hosts.check("gpu-1", &[1; 32]));
    hosts.save_seen_if_due();
    assert_eq!(seen(&test_store), Some(1_000));
    clock.store(1_000 + SAVE_SEEN, Ordering::Relaxed);
    hosts.save_seen_if_due();
    assert_eq!(seen(&test_store), Some(1_000 + SAVE_SEEN - 1));
}

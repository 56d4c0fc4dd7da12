//! The inventories of GPU hosts, joined with the snapshot in force.

mod files;
mod publisher;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_api::limits::MAX_STATUS_NAMES;
use rsm_api::{GpuAges, GpuImport, GpuImportError, GpuSubject, Gpus, InventoryDigest};
use rsm_gdr::hosts::{GpuInventory, HostError};
use rsm_gdr::import::to_json;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_ids::Guid;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

use self::files::Files;
pub(super) use self::publisher::{Tell, publish};
use crate::core::snapshot::Snapshot;
use crate::plan::gpu;
use crate::plan::order::roles;
use crate::publish::View;

/// Subfolders of the inventories' folder: one with a file for each host, and one for the machine
/// type.
const HOSTS: &str = "hosts";
const MACHINE_TYPE: &str = "machine-type";

/// Keeps inventories, and joins them with the fabric on request.
pub(super) struct GpuHosts {
    view: Arc<View>,
    files: Files,
    /// Seconds after which an inventory is stale; `None`: never.
    max_age: Option<u64>,
    state: Mutex<State>,
    /// The last analysis. Apart from the state: hosts report while an analysis is made.
    joined: Mutex<Option<Joined>>,
    /// Number of changes of the inventories.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    inventory: Arc<GpuInventory>,
    /// When hosts have reported, by name; each has an inventory of its own.
    reports: BTreeMap<String, Report>,
    /// Names under which a second machine has reported.
    taken_twice: BTreeSet<String>,
}

/// The last report of a host.
#[derive(Clone, Copy)]
struct Report {
    /// When it came, in seconds since the Unix epoch.
    seen: u64,
    /// The digest of the content that it came as; after a restart, of what an agent of this
    /// version sends.
    digest: InventoryDigest,
}

/// An analysis and its input.
struct Joined {
    generation: u64,
    inventory: Arc<GpuInventory>,
    /// Hosts with stale inventories.
    stale: Vec<String>,
    analysis: Arc<Analysis>,
}

/// Loads the inventories in `dir`.
///
/// # Errors
/// The folder cannot be read. Another file than an inventory in it only gives a warning: hosts can
/// be imported again.
pub(super) fn kept(dir: Option<&Path>) -> anyhow::Result<GpuInventory> {
    let mut inventory = GpuInventory::new();
    if let Some(dir) = dir {
        files::load(&dir.join(HOSTS), |name, host, seen| {
            inventory.insert(name, host, seen)
        })?;
        files::load(&dir.join(MACHINE_TYPE), |name, host, _| {
            like(&mut inventory, name, &host)
        })?;
    }
    Ok(inventory)
}

impl GpuHosts {
    /// Joins `inventory`, which is kept in `dir`, with the snapshots of `view`.
    pub(super) fn new(
        view: Arc<View>,
        dir: Option<PathBuf>,
        inventory: Arc<GpuInventory>,
        max_age: Option<u64>,
    ) -> GpuHosts {
        let hosts = inventory.hosts().iter();
        let reports = hosts.map(|(name, record)| {
            let digest = Sha256::digest(to_json(&record.inventory)).into();
            let seen = record.seen;
            (name.clone(), Report { seen, digest })
        });
        GpuHosts {
            view,
            files: Files(dir),
            max_age,
            state: Mutex::new(State {
                reports: reports.collect(),
                inventory,
                taken_twice: BTreeSet::new(),
            }),
            joined: Mutex::new(None),
            changes: watch::Sender::new(0),
        }
    }

    /// The inventory in force.
    fn inventory(&self) -> Arc<GpuInventory> {
        self.state.lock().inventory.clone()
    }

    /// Replaces the inventory in force.
    fn replace(&self, state: &mut State, inventory: GpuInventory) {
        state.inventory = Arc::new(inventory);
        self.changes.send_modify(|count| *count += 1);
    }

    fn seconds(&self) -> u64 {
        self.view.unix_ms() / 1000
    }

    fn is_stale(&self, seen: u64, now: u64) -> bool {
        let age = now.saturating_sub(seen);
        self.max_age.is_some_and(|most| age > most)
    }

    /// The inventory in force with the times of the last reports, and the hosts that are stale.
    fn reported(&self, now: u64) -> (Arc<GpuInventory>, Vec<String>, Vec<(String, u64)>) {
        let state = self.state.lock();
        let reports = state.reports.iter();
        let seen: Vec<_> = reports
            .map(|(name, report)| (name.clone(), report.seen))
            .collect();
        let stale = seen.iter().filter(|(_, seen)| self.is_stale(*seen, now));
        let stale = stale.map(|(name, _)| name.clone()).collect();
        (state.inventory.clone(), stale, seen)
    }

    /// Whether `import` can be of another machine than the inventory of the same name, which is
    /// not stale: adapters are exchanged, added and lost a few at a time, so that at least half of
    /// the GUIDs of both are the same.
    fn refuse_other_machine(
        &self,
        state: &mut State,
        import: &GpuImport,
        now: u64,
    ) -> Result<(), GpuImportError> {
        let (Some(record), Some(report)) = (
            state.inventory.hosts().get(&import.host),
            state.reports.get(&import.host),
        ) else {
            return Ok(());
        };
        let (known, new) = (guids(&record.inventory), guids(&import.inventory));
        let common = known.intersection(&new).count();
        let is_same = known.is_empty() || 2 * common >= known.len().max(new.len());
        if is_same || self.is_stale(report.seen, now) {
            return Ok(());
        }
        let age = now.saturating_sub(report.seen);
        let host = import.host.clone();
        if new.is_empty() {
            return Err(GpuImportError::WithoutGuids { host, age });
        }
        if state.taken_twice.len() < MAX_STATUS_NAMES {
            state.taken_twice.insert(host.clone());
        }
        let (known, new) = (known.len(), new.len());
        Err(GpuImportError::NameTaken {
            host,
            age,
            common,
            known,
            new,
        })
    }
}

/// The GUIDs of a host's adapters and their ports; those of virtual functions come and go.
fn guids(host: &HostInventory) -> BTreeSet<Guid> {
    let physical = (0..host.hca_ports.len()).filter(|&port| !host.is_virtual_function(port));
    physical
        .map(|port| &host.hca_ports[port])
        .flat_map(|port| [port.node_guid, port.port_guid])
        .flatten()
        .collect()
}

/// Makes a host the machine type of the other hosts.
fn like(inventory: &mut GpuInventory, name: &str, host: &HostInventory) -> Result<(), HostError> {
    inventory.insert_machine_type(name, host)?;
    inventory.set_default(Some(name))
}

/// The name and the inventory of an import.
fn fields<'a>(import: &&'a GpuImport) -> (&'a str, &'a HostInventory) {
    (&import.host, &import.inventory)
}

/// Turns a failure of the disk into that of an import.
fn not_kept(error: std::io::Error) -> GpuImportError {
    GpuImportError::Kept(error.to_string())
}

/// The service levels on which switches pick among several ports now.
fn adaptive_levels(snapshot: &Snapshot) -> u16 {
    let plan = snapshot.plan.as_deref();
    let adaptive = plan.and_then(|plan| plan.adaptive.as_deref());
    let in_force = adaptive.filter(|_| !snapshot.adaptive.is_empty());
    in_force.map_or(0, |adaptive| adaptive.sls)
}

impl Gpus for GpuHosts {
    fn analysis(&self) -> Arc<Analysis> {
        let mut joined = self.joined.lock();
        let now = self.seconds();
        let (generation, snapshot) = self.view.latest();
        let (inventory, stale, seen) = self.reported(now);
        if let Some(last) = &*joined
            && last.generation == generation
            && Arc::ptr_eq(&last.inventory, &inventory)
            && last.stale == stale
        {
            return last.analysis.clone();
        }
        let plan = snapshot.plan.as_ref();
        let fabric = plan.map(|plan| {
            // The plan owns its tables together with their origin, so they must be copied.
            let tables = Arc::new(plan.routing.tables.clone());
            let mut fabric =
                gpu::fabric(&snapshot.fabric, &plan.topology, Some(tables), generation);
            fabric.positions = plan.order.positions.clone();
            fabric
        });
        let config = AnalysisConfig {
            roles: plan.map_or_else(BTreeMap::new, |plan| roles(&plan.policy.categories)),
            adaptive_sls: adaptive_levels(&snapshot),
            max_age: self.max_age,
            now,
            ..AnalysisConfig::default()
        };
        let mut timed = GpuInventory::clone(&inventory);
        for (name, seen) in seen {
            timed.saw(&name, seen);
        }
        let analysis = Arc::new(Analysis::new(&timed, fabric, config));
        *joined = Some(Joined {
            generation,
            inventory,
            stale,
            analysis: analysis.clone(),
        });
        analysis
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn import_machine_type(&self, name: &str, host: HostInventory) -> Result<(), GpuImportError> {
        let mut state = self.state.lock();
        let mut inventory = GpuInventory::clone(&state.inventory);
        like(&mut inventory, name, &host)?;
        let kept = host.as_machine_type();
        self.files
            .keep(MACHINE_TYPE, [(name, &kept)].into_iter())
            .and_then(|()| self.files.remove_all_but(MACHINE_TYPE, name))
            .map_err(not_kept)?;
        self.replace(&mut state, inventory);
        Ok(())
    }

    fn import_hosts(&self, hosts: Vec<GpuImport>) -> Result<usize, GpuImportError> {
        let now = self.seconds();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        for import in &hosts {
            self.refuse_other_machine(state, import, now)?;
        }
        let known = state.inventory.hosts();
        let differs = |import: &&GpuImport| {
            let record = known.get(&import.host);
            record.is_none_or(|record| *record.inventory != import.inventory)
        };
        let changed: Vec<&GpuImport> = hosts.iter().filter(differs).collect();
        let count = changed.len();
        if count > 0 {
            state.inventory.may_insert(changed.iter().map(fields))?;
            let kept = self.files.keep(HOSTS, changed.iter().map(fields));
            kept.map_err(not_kept)?;
            // Copied only while an analysis holds it, and not for each of many first reports.
            let inventory = Arc::make_mut(&mut state.inventory);
            for import in &changed {
                inventory.insert(&import.host, import.inventory.clone(), now)?;
            }
            self.changes.send_modify(|count| *count += 1);
        }
        for import in hosts {
            state.taken_twice.remove(&import.host);
            let (seen, digest) = (now, import.digest);
            state.reports.insert(import.host, Report { seen, digest });
        }
        Ok(count)
    }

    fn check(&self, host: &str, digest: &InventoryDigest) -> bool {
        let now = self.seconds();
        let mut state = self.state.lock();
        let report = state.reports.get_mut(host);
        let Some(report) = report.filter(|report| report.digest == *digest) else {
            return false;
        };
        report.seen = now;
        drop(state);
        self.files.touch(HOSTS, host, now);
        true
    }

    fn ages(&self) -> GpuAges {
        let now = self.seconds();
        let state = self.state.lock();
        let reports = state.reports.iter();
        let mut ages: Vec<(u64, String)> = reports
            .map(|(name, report)| (now.saturating_sub(report.seen), name.clone()))
            .collect();
        ages.sort_unstable();
        GpuAges {
            ages,
            max_age: self.max_age,
            names_taken_twice: state.taken_twice.iter().cloned().collect(),
        }
    }

    fn forget(&self, subject: GpuSubject<'_>) -> Result<bool, GpuImportError> {
        let mut state = self.state.lock();
        let mut inventory = GpuInventory::clone(&state.inventory);
        let (folder, name, known) = match subject {
            GpuSubject::Host(name) => (HOSTS, name, inventory.remove(name)),
            GpuSubject::MachineType(name) => {
                (MACHINE_TYPE, name, inventory.remove_machine_type(name))
            }
        };
        if !known {
            return Ok(false);
        }
        // Known names are no paths.
        self.files.remove(folder, name).map_err(not_kept)?;
        if let GpuSubject::Host(name) = subject {
            state.reports.remove(name);
            state.taken_twice.remove(name);
        }
        self.replace(&mut state, inventory);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rsm_gdr::findings::GpuFindingKind;
    use rsm_gdr::import::{InventoryFormat, import};

    use super::*;

    /// A clock that the test sets, in seconds.
    #[derive(Clone)]
    struct Hands(Arc<AtomicU64>);

    impl crate::publish::UnixClock for Hands {
        fn now(&self) -> rsm_mad::Time {
            rsm_mad::Time::ZERO
        }

        fn unix_ms(&self, _: rsm_mad::Time) -> u64 {
            self.0.load(Ordering::Relaxed) * 1000
        }
    }

    /// The hosts of a folder, and their clock.
    fn open(dir: &Path, max_age: Option<u64>) -> (GpuHosts, Arc<AtomicU64>) {
        let clock = Arc::new(AtomicU64::new(5));
        let hands = Hands(clock.clone());
        let view = Arc::new(View::new("sim:test".to_owned(), true, Box::new(hands)));
        let inventory = Arc::new(kept(Some(dir)).expect("a folder of ours"));
        (
            GpuHosts::new(view, Some(dir.to_owned()), inventory, max_age),
            clock,
        )
    }

    fn read(json: &str) -> HostInventory {
        import(InventoryFormat::Json, json.as_bytes()).expect("our own format")
    }

    fn host() -> HostInventory {
        read(
            r#"{"version":1,"gpus":[{"index":0}],"hca_ports":[{"device":"mlx5_0","port":1}],"tiers":[["PIX"]]}"#,
        )
    }

    /// A host with an adapter of this GUID.
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
        let dir = tempfile::tempdir().expect("a folder");
        let (first, _) = open(dir.path(), None);
        let reports = vec![report("gpu-1", host(), 1), report("gpu-2", host(), 1)];
        assert_eq!(first.import_hosts(reports).expect("room"), 2);
        for name in ["zeta", "dgx"] {
            first.import_machine_type(name, host()).expect("room");
        }
        drop(first);
        let (again, _) = open(dir.path(), None);
        let analysis = again.analysis();
        assert_eq!(analysis.hosts.len(), 2);
        assert_eq!(analysis.hints[0][0].port(), Some(0));
        assert_eq!(default_type(&again).as_deref(), Some("dgx"));
        let forget = |subject| again.forget(subject).expect("files of ours");
        // A host and a machine type of one name are two.
        assert!(!forget(GpuSubject::Host("dgx")));
        for name in ["gpu-1", "gpu-2"] {
            assert!(forget(GpuSubject::Host(name)));
            assert!(!forget(GpuSubject::Host(name)));
        }
        let (later, _) = open(dir.path(), None);
        assert!(later.analysis().hosts.is_empty());
        assert_eq!(default_type(&later).as_deref(), Some("dgx"));
        assert!(!forget(GpuSubject::MachineType("zeta")));
        assert!(forget(GpuSubject::MachineType("dgx")));
        assert!(!forget(GpuSubject::MachineType("dgx")));
        assert_eq!(default_type(&open(dir.path(), None).0), None);
    }

    #[test]
    fn invalid_inventory_file_does_not_prevent_the_start() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join(HOSTS)).expect("a new folder");
        fs::write(dir.path().join(HOSTS).join("gpu-1.json"), "{").expect("room");
        fs::write(dir.path().join(HOSTS).join(".gpu-2.new"), "{").expect("room");
        let (hosts, _) = open(dir.path(), None);
        assert!(hosts.analysis().hosts.is_empty());
        assert!(hosts.import_hosts(vec![report("../x", host(), 0)]).is_err());
    }

    #[test]
    fn repeated_report_changes_nothing_but_the_age() {
        let dir = tempfile::tempdir().expect("a folder");
        let (hosts, clock) = open(dir.path(), None);
        let changes = hosts.changes();
        assert!(!hosts.check("gpu-1", &[1; 32]));
        let imported = hosts.import_hosts(vec![report("gpu-1", host(), 1)]);
        assert_eq!(imported.expect("room"), 1);
        let inventory = hosts.inventory();
        clock.store(100, Ordering::Relaxed);
        assert!(hosts.check("gpu-1", &[1; 32]));
        assert!(!hosts.check("gpu-1", &[2; 32]));
        // The same inventory in other words, as after a restart of the server.
        let imported = hosts.import_hosts(vec![report("gpu-1", host(), 2)]);
        assert_eq!(imported.expect("room"), 0);
        assert!(hosts.check("gpu-1", &[2; 32]));
        assert!(Arc::ptr_eq(&inventory, &hosts.inventory()));
        assert_eq!(*changes.borrow(), 1);
        clock.store(130, Ordering::Relaxed);
        assert_eq!(hosts.ages().ages, [(30, "gpu-1".to_owned())]);
        // The file has the time of the last report.
        let (again, clock) = open(dir.path(), None);
        clock.store(160, Ordering::Relaxed);
        assert_eq!(again.ages().ages, [(60, "gpu-1".to_owned())]);
    }

    #[test]
    fn silent_hosts_are_stale_in_one_finding_until_they_report() {
        let dir = tempfile::tempdir().expect("a folder");
        let (hosts, clock) = open(dir.path(), Some(60));
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
        let dir = tempfile::tempdir().expect("a folder");
        let (hosts, clock) = open(dir.path(), Some(60));
        let import = |guid| hosts.import_hosts(vec![report("gpu-1", host_with(guid), 1)]);
        assert_eq!(import(1).expect("room"), 1);
        let refused = import(2).expect_err("another machine");
        assert!(
            refused.to_string().contains("two hosts may have one name"),
            "{refused}"
        );
        assert_eq!(hosts.ages().names_taken_twice, ["gpu-1"]);
        // All of a bulk import is refused with it.
        let bulk = vec![report("gpu-0", host(), 1), report("gpu-1", host_with(2), 1)];
        assert!(hosts.import_hosts(bulk).is_err());
        assert_eq!(hosts.inventory().hosts().len(), 1);
        // The inventory of the first one holds.
        let kept = hosts.inventory();
        let known = &kept.hosts()["gpu-1"].inventory;
        assert_eq!(known.hca_ports[0].port_guid, Some(Guid(1)));
        clock.store(66, Ordering::Relaxed);
        assert_eq!(import(2).expect("the first one is silent"), 1);
        assert_eq!(hosts.ages().names_taken_twice, Vec::<String>::new());
        assert!(import(3).is_err());
        assert!(
            hosts
                .forget(GpuSubject::Host("gpu-1"))
                .expect("a file of ours")
        );
        assert_eq!(import(3).expect("forgotten"), 1);
    }

    /// A host with an adapter for each of these GUIDs.
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
        let dir = tempfile::tempdir().expect("a folder");
        let (hosts, clock) = open(dir.path(), Some(60));
        let import = |host| hosts.import_hosts(vec![report("gpu-1", host, 1)]);
        // Without any GUID there is nothing to lose.
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
            assert!(text.contains("rsmctl gpu forget gpu-1"), "{text}");
        }
        // One GUID out of many can be copied; adapters are lost and exchanged a few at a time.
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
        // Virtual functions come and go.
        let mut many = host_of(&[1, 2, 3, 4, 11, 12, 13, 14, 15, 16]);
        for port in &mut many.hca_ports[4..] {
            port.virtual_function = true;
        }
        assert_eq!(import(many).expect("the same machine"), 1);
        clock.store(66, Ordering::Relaxed);
        assert_eq!(import(host()).expect("the known one is stale"), 1);
    }

    #[test]
    fn hosts_are_known_by_digest_after_a_restart() {
        let dir = tempfile::tempdir().expect("a folder");
        let (hosts, _) = open(dir.path(), None);
        let digest: InventoryDigest = Sha256::digest(to_json(&host_with(7))).into();
        let mut sent = report("gpu-1", host_with(7), 0);
        sent.digest = digest;
        hosts.import_hosts(vec![sent]).expect("room");
        drop(hosts);
        let (again, clock) = open(dir.path(), None);
        clock.store(100, Ordering::Relaxed);
        assert!(!again.check("gpu-1", &[0; 32]));
        assert!(again.check("gpu-1", &digest));
        assert_eq!(again.ages().ages, [(0, "gpu-1".to_owned())]);
    }

    #[test]
    fn import_of_one_host_copies_the_others_only_for_a_reader() {
        let dir = tempfile::tempdir().expect("a folder");
        let (hosts, _) = open(dir.path(), None);
        let import = |name, guid| {
            let one = vec![report(name, host_with(guid), 1)];
            hosts.import_hosts(one).expect("room");
            Arc::as_ptr(&hosts.state.lock().inventory)
        };
        let first = import("gpu-1", 1);
        assert_eq!(import("gpu-2", 2), first);
        let reader = hosts.inventory();
        assert_ne!(import("gpu-3", 3), first);
        assert_eq!(
            (reader.hosts().len(), hosts.inventory().hosts().len()),
            (2, 3)
        );
        let changes = hosts.changes();
        assert_eq!(*changes.borrow(), 3);
    }

    #[test]
    fn failed_write_changes_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let (hosts, _) = open(dir.path(), None);
        hosts
            .import_hosts(vec![report("gpu-1", host(), 1)])
            .expect("room");
        let folder = dir.path().join(HOSTS);
        // The new file of gpu-2 cannot be written where a folder is.
        fs::create_dir(folder.join(".gpu-2.new")).expect("a new folder");
        let bulk = vec![report("gpu-1", host_with(7), 2), report("gpu-2", host(), 2)];
        let refused = hosts
            .import_hosts(bulk)
            .expect_err("a folder is in the way");
        assert!(matches!(refused, GpuImportError::Kept(_)), "{refused}");
        assert_eq!(*hosts.inventory().hosts()["gpu-1"].inventory, host());
        let kept = fs::read_to_string(folder.join("gpu-1.json")).expect("a file of ours");
        assert_eq!(kept, to_json(&host()));
        assert!(hosts.check("gpu-1", &[1; 32]));
    }
}

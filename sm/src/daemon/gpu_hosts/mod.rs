//! Keeps the inventories of GPU hosts, and joins them with the snapshot in force.
//!
//! A host reports the digest of its inventory, and sends the inventory only if the manager does not
//! know the digest. The time of a host's report is kept beside the inventory: a report without
//! changes causes no new inventory, no plan and no analysis, and the store writes only changed
//! inventories. A thread passes all inventories that arrive within one second to the core together.

mod absent;
mod adoption;
mod publisher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rsm_api::limits::MAX_STATUS_NAMES;
use rsm_api::{GpuAges, GpuImport, GpuImportError, GpuSubject, Gpus, InventoryDigest};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::inventory::HostInventory;
use rsm_gdr::{Analysis, AnalysisConfig};
use rsm_ids::Guid;
use rsm_plan::gpu;
use rsm_plan::order::roles;
use rsm_state::Snapshot;
use rsm_view::publish::View;
use tokio::sync::watch;

use self::absent::absent;
pub(super) use self::publisher::{InventorySink, publish};
use super::persistence::{StoredGpus, TEXT_MAX, set_machine_type, stored_bytes};

/// Largest size of all inventories in the store, in bytes: ten times the inventories of 5,632 hosts
/// with eight GPUs.
const TEXTS_MAX: usize = 256 << 20;

/// Time between two writes of report times to the store, in seconds. Hosts report about every
/// minute even without changes, and each write would change a row.
const SAVE_SEEN: u64 = 300;

/// Inventories for the store.
pub(super) struct SavedGpus {
    /// Inventories, with the times of their imports.
    pub(super) inventory: Arc<GpuInventory>,
    /// Host name → time of the last report, in seconds since the Unix epoch; `None` keeps the
    /// stored times.
    pub(super) seen: Option<BTreeMap<String, u64>>,
}

/// Passes inventories to the store. Does not wait.
pub(super) type StoreSink = Box<dyn Fn(SavedGpus) + Send + Sync>;

/// Inventories of GPU hosts, which are joined with the fabric on request.
pub(super) struct GpuHosts {
    view: Arc<View>,
    store_sink: StoreSink,
    /// Age in seconds above which an inventory is stale; `None` for no limit.
    max_age: Option<u64>,
    state: Mutex<State>,
    /// Last analysis. Has its own lock, because hosts report while an analysis is made.
    last_analysis: Mutex<Option<LastAnalysis>>,
    /// Number of changes of the inventories.
    changes: watch::Sender<u64>,
}

/// Inventories in force, and the reports of hosts.
#[derive(Default)]
struct State {
    inventory: Arc<GpuInventory>,
    /// Host name → last report of the host. Contains only hosts with an inventory of their own.
    reports: BTreeMap<String, Report>,
    /// Host names under which a second machine has reported.
    contested_names: BTreeSet<String>,
    /// Hosts whose inventories in the store cannot be read, until they report again.
    unreadable: BTreeSet<String>,
    /// Size of all inventories in the store, in bytes.
    bytes: usize,
    /// Whether hosts have reported since `saved_at`.
    has_news: bool,
    /// Time when the store last received report times, in seconds since the Unix epoch.
    saved_at: u64,
}

/// Last report of a host.
#[derive(Clone, Copy)]
struct Report {
    /// Time of the report, in seconds since the Unix epoch.
    seen: u64,
    /// Digest of the inventory; `None` after a restart or a takeover.
    digest: Option<InventoryDigest>,
    /// Whether this manager received the report in this run.
    is_own: bool,
    /// Size of the inventory in the store, in bytes.
    bytes: usize,
}

/// Analysis and its inputs.
struct LastAnalysis {
    /// Generation of the snapshot.
    generation: u64,
    inventory: Arc<GpuInventory>,
    /// Hosts with stale inventories.
    stale: Vec<String>,
    analysis: Arc<Analysis>,
}

impl GpuHosts {
    /// Joins `stored` with the snapshots of `view`. `store_sink` passes changes to the store.
    pub(super) fn new(
        view: Arc<View>,
        store_sink: StoreSink,
        stored: StoredGpus,
        max_age: Option<u64>,
    ) -> GpuHosts {
        GpuHosts {
            view,
            store_sink,
            max_age,
            state: Mutex::new(State::of(stored)),
            last_analysis: Mutex::new(None),
            changes: watch::Sender::new(0),
        }
    }

    /// Inventory in force.
    fn inventory(&self) -> Arc<GpuInventory> {
        self.state.lock().inventory.clone()
    }

    /// Replaces the inventory in force.
    fn replace(&self, state: &mut State, inventory: GpuInventory) {
        state.inventory = Arc::new(inventory);
        self.store_and_notify(state);
    }

    /// Stores the changed inventory in force, and wakes its readers.
    fn store_and_notify(&self, state: &State) {
        self.keep_inventory(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Stores the inventory in force.
    fn keep_inventory(&self, state: &State) {
        (self.store_sink)(SavedGpus {
            inventory: state.inventory.clone(),
            seen: None,
        });
    }

    /// Stores the times of reports, if a report arrived since the last call.
    pub(super) fn save_seen(&self) {
        let now = self.seconds();
        let mut state = self.state.lock();
        if std::mem::take(&mut state.has_news) {
            state.saved_at = now;
            let reports = state.reports.iter();
            let seen = reports.map(|(name, report)| (name.clone(), report.seen));
            (self.store_sink)(SavedGpus {
                inventory: state.inventory.clone(),
                seen: Some(seen.collect()),
            });
        }
    }

    /// Stores the times of reports, if a report arrived since the last call and [`SAVE_SEEN`]
    /// seconds have passed.
    fn save_seen_if_due(&self) {
        let saved_at = self.state.lock().saved_at;
        if self.seconds().saturating_sub(saved_at) >= SAVE_SEEN {
            self.save_seen();
        }
    }

    /// Hosts with an unreadable inventory in the store that have not reported since.
    fn unreadable(&self) -> BTreeSet<String> {
        self.state.lock().unreadable.clone()
    }

    /// Present time in seconds since the Unix epoch.
    fn seconds(&self) -> u64 {
        self.view.unix_ms() / 1000
    }

    /// Whether an inventory that was last reported at `seen` is too old.
    fn is_stale(&self, seen: u64, now: u64) -> bool {
        let age = now.saturating_sub(seen);
        self.max_age.is_some_and(|most| age > most)
    }

    /// Inventory in force, the names of hosts whose inventory is stale, and the name of each host
    /// with the time of its last report.
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

    /// Refuses all of `hosts` if [`GpuHosts::refuse_other_machine`] refuses one; the error names
    /// each refused host.
    fn refuse_other_machines(
        &self,
        state: &mut State,
        hosts: &[GpuImport],
        now: u64,
    ) -> Result<(), GpuImportError> {
        let (mut without_guids, mut other_machines) = (Vec::new(), Vec::new());
        let mut last = None;
        for import in hosts {
            let Err(error) = self.refuse_other_machine(state, import, now) else {
                continue;
            };
            match error {
                GpuImportError::WithoutGuids { .. } => without_guids.push(import.host.clone()),
                _ => other_machines.push(import.host.clone()),
            }
            last = Some(error);
        }
        match (last, without_guids.len() + other_machines.len()) {
            (None, _) => Ok(()),
            (Some(only), 1) => Err(only),
            (Some(_), _) => Err(GpuImportError::Several {
                without_guids,
                other_machines,
            }),
        }
    }

    /// Refuses `import` if it comes from another machine than the inventory of the same name,
    /// unless this inventory is stale. Adapters are exchanged, added and lost a few at a time, so
    /// inventories of one machine have at least half of their GUIDs in common.
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
        if state.contested_names.len() < MAX_STATUS_NAMES {
            state.contested_names.insert(host.clone());
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

/// GUIDs of a host's adapters and their ports, without virtual functions, which appear and
/// disappear often.
fn guids(host: &HostInventory) -> BTreeSet<Guid> {
    let physical = (0..host.hca_ports.len()).filter(|&port| !host.is_virtual_function(port));
    physical
        .map(|port| &host.hca_ports[port])
        .flat_map(|port| [port.node_guid, port.port_guid])
        .flatten()
        .collect()
}

/// Size of an inventory in the store, in bytes; an error if the inventory is too long.
fn checked_bytes(host: &HostInventory) -> Result<usize, GpuImportError> {
    let bytes = stored_bytes(host);
    if bytes > TEXT_MAX {
        let reason = format!("it has {bytes} bytes, the store takes {TEXT_MAX} of a host");
        return Err(GpuImportError::Kept(reason));
    }
    Ok(bytes)
}

/// Service levels on which switches currently choose among several ports, one bit each.
fn adaptive_levels(snapshot: &Snapshot) -> u16 {
    let plan = snapshot.plan.as_deref();
    let adaptive = plan.and_then(|plan| plan.adaptive.as_deref());
    let in_force = adaptive.filter(|_| !snapshot.adaptive.is_empty());
    in_force.map_or(0, |adaptive| adaptive.sls)
}

impl Gpus for GpuHosts {
    fn analysis(&self) -> Arc<Analysis> {
        let mut last_analysis = self.last_analysis.lock();
        let now = self.seconds();
        let (generation, snapshot) = self.view.latest();
        let (inventory, stale, seen) = self.reported(now);
        if let Some(last) = &*last_analysis
            && last.generation == generation
            && Arc::ptr_eq(&last.inventory, &inventory)
            && last.stale == stale
        {
            return last.analysis.clone();
        }
        let plan = snapshot.plan.as_ref();
        let fabric = plan.map(|plan| {
            // The plan owns its tables together with their origin, so the tables must be copied.
            let tables = Arc::new(plan.routing.tables.clone());
            let mut fabric =
                gpu::fabric(&snapshot.fabric, &plan.topology, Some(tables), generation);
            fabric.positions = plan.order.positions.clone();
            let gone = self.view.gone_nodes(&snapshot);
            fabric.absent = absent(&gone, &inventory, &fabric);
            fabric
        });
        let config = AnalysisConfig {
            roles: plan.map_or_else(BTreeMap::new, |plan| roles(&plan.policy.order.categories)),
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
        *last_analysis = Some(LastAnalysis {
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
        checked_bytes(&host)?;
        let mut state = self.state.lock();
        let mut inventory = GpuInventory::clone(&state.inventory);
        set_machine_type(&mut inventory, name, &host)?;
        self.replace(&mut state, inventory);
        Ok(())
    }

    fn import_hosts(&self, hosts: Vec<GpuImport>) -> Result<usize, GpuImportError> {
        let now = self.seconds();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        self.refuse_other_machines(state, &hosts, now)?;
        let known = state.inventory.hosts();
        let differs = |import: &&GpuImport| {
            let record = known.get(&import.host);
            record.is_none_or(|record| *record.inventory != import.inventory)
        };
        let mut changed = Vec::new();
        let mut bytes = state.bytes;
        for import in hosts.iter().filter(differs) {
            let new = checked_bytes(&import.inventory)?;
            let old = state.reports.get(&import.host);
            bytes = bytes.saturating_sub(old.map_or(0, |old| old.bytes)) + new;
            changed.push((import, new));
        }
        if bytes > TEXTS_MAX {
            let reason = format!("all inventories have {bytes} bytes, the store takes {TEXTS_MAX}");
            return Err(GpuImportError::Kept(reason));
        }
        let count = changed.len();
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        if count > 0 {
            let imports = changed.iter().map(|(import, _)| import);
            state
                .inventory
                .may_insert(imports.map(|import| (&*import.host, &import.inventory)))?;
            // `make_mut` copies only while an analysis or the store holds the inventory.
            let inventory = Arc::make_mut(&mut state.inventory);
            for (import, new) in changed {
                inventory.insert(&import.host, import.inventory.clone(), now)?;
                sizes.insert(import.host.clone(), new);
            }
            state.bytes = bytes;
            self.store_and_notify(state);
        }
        state.has_news = true;
        for import in hosts {
            state.contested_names.remove(&import.host);
            state.unreadable.remove(&import.host);
            let known = state.reports.get(&import.host).map_or(0, |old| old.bytes);
            let report = Report {
                seen: now,
                digest: Some(import.digest),
                is_own: true,
                bytes: sizes.get(&import.host).copied().unwrap_or(known),
            };
            state.reports.insert(import.host, report);
        }
        Ok(count)
    }

    fn check(&self, host: &str, digest: &InventoryDigest) -> bool {
        let now = self.seconds();
        let mut state = self.state.lock();
        let report = state.reports.get_mut(host);
        let Some(report) = report.filter(|report| report.digest.as_ref() == Some(digest)) else {
            return false;
        };
        report.seen = now;
        state.has_news = true;
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
            names_taken_twice: state.contested_names.iter().cloned().collect(),
        }
    }

    fn forget(&self, subjects: &[GpuSubject<'_>]) -> Vec<String> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut inventory = GpuInventory::clone(&state.inventory);
        let is_unknown = |subject: &&GpuSubject<'_>| match subject {
            GpuSubject::Host(name) => !inventory.remove(name),
            GpuSubject::MachineType(name) => !inventory.remove_machine_type(name),
        };
        let unknown = subjects.iter().filter(is_unknown);
        let unknown: Vec<String> = unknown.map(|subject| subject.name().to_owned()).collect();
        if !unknown.is_empty() {
            return unknown;
        }
        for subject in subjects {
            if let GpuSubject::Host(name) = subject {
                let report = state.reports.remove(*name);
                let bytes = report.map_or(0, |report| report.bytes);
                state.bytes = state.bytes.saturating_sub(bytes);
                state.contested_names.remove(*name);
                state.unreadable.remove(*name);
            }
        }
        self.replace(state, inventory);
        Vec::new()
    }
}

#[cfg(test)]
mod tests;

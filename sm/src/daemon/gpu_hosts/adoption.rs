//! Takes over inventories of the store: at the start, and from the master.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rsm_gdr::hosts::GpuInventory;

use super::{GpuHosts, Report, State};
use crate::daemon::persistence::{StoredGpus, set_machine_type, stored_bytes};

impl GpuHosts {
    /// Takes over the inventories of a store, and returns the inventories in force. The inventory
    /// of a host stays if the host has reported to this manager in this run, and the store has no
    /// later report. A host that the store lacks is forgotten, unless the host has reported in this
    /// run or an earlier version wrote the store.
    pub(in crate::daemon) fn adopt(&self, stored: StoredGpus) -> Arc<GpuInventory> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let (inventory, reports) = merged(state, &stored);
        let is_new = !is_same(&inventory, &state.inventory);
        let has_more = !is_same(&inventory, &stored.inventory);
        state.set_reports(reports, stored.unreadable, &inventory);
        if is_new {
            self.replace(state, inventory);
        } else if has_more {
            self.keep_inventory(state);
        }
        state.inventory.clone()
    }
}

impl State {
    /// State at the start.
    pub(super) fn of(stored: StoredGpus) -> State {
        let mut state = State::default();
        let (inventory, reports) = merged(&state, &stored);
        state.set_reports(reports, stored.unreadable, &inventory);
        state.inventory = Arc::new(inventory);
        state
    }

    /// Takes over everything except the inventories.
    fn set_reports(
        &mut self,
        reports: BTreeMap<String, Report>,
        unreadable: BTreeSet<String>,
        inventory: &GpuInventory,
    ) {
        let hosts = inventory.hosts();
        self.bytes = reports.values().map(|report| report.bytes).sum();
        self.reports = reports;
        self.contested_names.retain(|name| hosts.contains_key(name));
        self.unreadable = unreadable;
        self.unreadable.retain(|name| !hosts.contains_key(name));
    }
}

/// Merges the inventories of the store with the inventories of this run that stay. Also returns the
/// last reports of all hosts.
fn merged(state: &State, stored: &StoredGpus) -> (GpuInventory, BTreeMap<String, Report>) {
    let mut inventory = stored.inventory.clone();
    let mut reports = BTreeMap::new();
    let stored_hosts = stored.inventory.hosts();
    for (name, record) in stored_hosts {
        let seen = stored.seen.get(name).copied().unwrap_or(0);
        let seen = seen.max(record.seen);
        let known = state.inventory.hosts().get(name);
        let is_known = known.is_some_and(|known| Arc::ptr_eq(&known.inventory, &record.inventory));
        let bytes = match state.reports.get(name).filter(|_| is_known) {
            Some(report) => report.bytes,
            None => stored_bytes(&record.inventory),
        };
        let report = Report {
            seen,
            digest: None,
            is_own: false,
            bytes,
        };
        reports.insert(name.clone(), report);
    }
    for (name, record) in state.inventory.hosts() {
        let Some(own) = state.reports.get(name) else {
            continue;
        };
        let stays = match reports.get(name) {
            Some(report) => own.is_own && own.seen >= report.seen,
            None => own.is_own || !stored.is_complete,
        };
        if !stays {
            continue;
        }
        match inventory.insert_shared(name, record.inventory.clone(), record.seen) {
            Ok(()) => drop(reports.insert(name.clone(), *own)),
            Err(error) => tracing::warn!("the inventory of {name} is left out: {error}"),
        }
    }
    let own = state.inventory.default_machine_type();
    let own = own.filter(|_| inventory.default_machine_type().is_none() && !stored.is_complete);
    if let Some((name, host)) = own.and_then(|name| {
        let host = state.inventory.machine_types().get(name)?;
        Some((name, host))
    }) && let Err(error) = set_machine_type(&mut inventory, name, host)
    {
        tracing::warn!("the machine type {name} is left out: {error}");
    }
    (inventory, reports)
}

/// Whether two sets hold the same inventories, regardless of their import times.
fn is_same(one: &GpuInventory, other: &GpuInventory) -> bool {
    let (hosts, others) = (one.hosts(), other.hosts());
    let is_alike = |name: &String| match (hosts.get(name), others.get(name)) {
        (Some(a), Some(b)) => Arc::ptr_eq(&a.inventory, &b.inventory) || a.inventory == b.inventory,
        _ => false,
    };
    hosts.len() == others.len()
        && hosts.keys().all(is_alike)
        && one.default_machine_type() == other.default_machine_type()
        && one.machine_types() == other.machine_types()
}

//! Creates a store from the LIDs and registrations of another subnet manager.

use std::collections::BTreeMap;
use std::path::Path;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_model::LidClaim;
use rsm_sa::SavedSaState;
use rsm_sa::events::Events;
use rsm_sa::guids::AliasRegistry;
use rsm_sa::mcast::{GroupRegistry, GroupRegistryConfig};
use rsm_sa::services::ServiceRegistry;
use rsm_store::{ChangeError, ChangeSet, Persisted, SledStore, Store, StoreError, StoreFabric};
use rsm_view::publish::UnixClock as _;

use super::super::clock::Clock;
use super::{groups, guids, services, subscriptions, table};

/// Name of a table that has one row from the import until a daemon uses the store. While the row
/// exists, hosts may have registered with the other manager after it wrote its files.
const IMPORTED: &str = "imported";
/// Key of the row in [`IMPORTED`]; its value is empty.
const FRESH: &[u8] = b"registrations";

/// The reason why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The store is in use, or cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store already holds records, which an import would replace.
    #[error("the store has {records} records already")]
    NotEmpty {
        /// Number of the records that an import would replace.
        records: usize,
    },
    /// A claim contains LIDs that no port can have.
    #[error(transparent)]
    Claim(#[from] ChangeError),
}

/// The result of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Number of omitted registrations: they contradict other registrations, or exceed the SA's
    /// limits.
    pub left_out: usize,
}

/// Creates the store in the folder `dir` from the LIDs of ports and the registrations of hosts. On
/// return, the disk holds all of them.
///
/// # Errors
/// The store holds records, is in use, or cannot be written, or a claim is not valid.
pub fn import(
    dir: &Path,
    claims: &BTreeMap<Guid, LidClaim>,
    registrations: SavedSaState,
) -> Result<Imported, ImportError> {
    let mut store = SledStore::open(dir, StoreFabric::Hardware)?;
    let (persisted, _) = store.load()?;
    // The mark of an earlier import is no record that this import would replace.
    let records = persisted.len() - usize::from(is_fresh(&persisted));
    if records > 0 {
        return Err(ImportError::NotEmpty { records });
    }
    let mut changes = ChangeSet::new();
    for (&port, &claim) in claims {
        changes.set_claim(port, claim)?;
    }
    let left_out = add_registrations(&persisted, registrations, &mut changes);
    table::put(&persisted, IMPORTED, FRESH, Some(b""), &mut changes);
    store.commit(&changes)?;
    store.close()?;
    Ok(Imported { left_out })
}

/// Adds to `changes` the registrations that the SA would restore at a start. Returns the number of
/// registrations that the SA would refuse.
fn add_registrations(persisted: &Persisted, saved: SavedSaState, changes: &mut ChangeSet) -> usize {
    let clock = Clock::start();
    let (now, never) = (clock.now(), Time::MAX);
    let mut group_registry = GroupRegistry::new(GroupRegistryConfig::default());
    let mut left_out = group_registry.restore(saved.groups, never);
    groups::changes(persisted, &group_registry.view(), changes);
    let mut service_registry = ServiceRegistry::default();
    left_out += service_registry.restore(saved.services, now);
    services::changes(persisted, &service_registry.view(), &clock, changes);
    let mut aliases = AliasRegistry::default();
    left_out += aliases.restore(&saved.guids, never);
    guids::changes(persisted, aliases.alias_index().aliases(), changes);
    let mut events = Events::default();
    left_out += events.restore(saved.subscriptions, never);
    subscriptions::changes(persisted, &events.view(), changes);
    left_out
}

/// Whether the store was imported and no daemon has used it since.
pub(super) fn is_fresh(persisted: &Persisted) -> bool {
    let mut rows = table::read(persisted, IMPORTED, |key, _| (key == FRESH).then_some(()));
    rows.pop().is_some()
}

/// Adds to `changes` the record that a daemon uses the store.
pub(super) fn mark_used(persisted: &Persisted, changes: &mut ChangeSet) {
    table::put(persisted, IMPORTED, FRESH, None, changes);
}

/// The current time, in seconds since the Unix epoch.
pub fn unix_seconds() -> u64 {
    let clock = Clock::start();
    clock.unix_ms(clock.now()) / 1000
}

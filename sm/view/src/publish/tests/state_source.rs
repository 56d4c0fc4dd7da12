//! A state of the SA that does not change.

use std::sync::Arc;

use rsm_api::{BoxFuture, SaError};
use rsm_sa::{Holdings, Sa, SaCounters, SaSnapshot};
use rsm_state::Snapshot;

use super::world::World;
use crate::publish::{PublishedSa, SaStateSource};

/// The state of an SA at one moment.
pub(super) struct FixedSaState {
    pub(super) counters: SaCounters,
    pub(super) holdings: Holdings,
    pub(super) sa_snapshot: SaSnapshot,
}

impl FixedSaState {
    pub(super) fn of(sa: &Sa, snapshot: &Snapshot) -> FixedSaState {
        FixedSaState {
            counters: sa.counters(),
            holdings: sa.holdings(),
            sa_snapshot: SaSnapshot::of(snapshot, None),
        }
    }

    /// This state in the form of the API.
    pub(super) fn shown(self, world: &World) -> PublishedSa {
        PublishedSa::new(world.view.clone(), Arc::new(self))
    }
}

impl SaStateSource for FixedSaState {
    fn counters(&self) -> SaCounters {
        self.counters.clone()
    }

    fn sa_snapshot(&self) -> SaSnapshot {
        self.sa_snapshot.clone()
    }

    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, SaError>> {
        Box::pin(async { Ok(self.holdings.clone()) })
    }
}

/// The result of a future that is ready.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

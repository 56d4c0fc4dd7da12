//! The SA that stands still.

use std::sync::Arc;

use rsm_api::{BoxFuture, SaError};

use super::world::World;
use crate::core::snapshot::Snapshot;
use crate::publish::{Desk, PublishedSa};
use crate::sa::{Counters, Holdings, Sa, Standing};

/// What it was like once.
pub(super) struct Held {
    pub(super) counters: Counters,
    pub(super) holdings: Holdings,
    pub(super) standing: Standing,
}

impl Held {
    pub(super) fn of(sa: &Sa, snapshot: &Snapshot) -> Held {
        Held {
            counters: sa.counters(),
            holdings: sa.holdings(),
            standing: Standing::of(snapshot, None),
        }
    }

    /// It, as the API shows it.
    pub(super) fn shown(self, world: &World) -> PublishedSa {
        PublishedSa::new(world.view.clone(), Arc::new(self))
    }
}

impl Desk for Held {
    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn standing(&self) -> Standing {
        self.standing.clone()
    }

    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, SaError>> {
        Box::pin(async { Ok(self.holdings.clone()) })
    }
}

/// Waits for what is there already.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

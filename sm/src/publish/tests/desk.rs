//! Subnet administration that stands still.

use std::sync::Arc;

use rsm_api::{AdministrationError, BoxFuture};

use super::world::World;
use crate::core::snapshot::Snapshot;
use crate::publish::{Administered, Desk};
use crate::sa::{Administration, Counters, Holdings, Standing};

/// What it was like once.
pub(super) struct Held {
    pub(super) counters: Counters,
    pub(super) holdings: Holdings,
    pub(super) standing: Standing,
}

impl Held {
    pub(super) fn of(administration: &Administration, snapshot: &Snapshot) -> Held {
        Held {
            counters: administration.counters(),
            holdings: administration.holdings(),
            standing: Standing::of(snapshot, None),
        }
    }

    /// It, as the API shows it.
    pub(super) fn shown(self, world: &World) -> Administered {
        Administered::new(world.view.clone(), Arc::new(self))
    }
}

impl Desk for Held {
    fn counters(&self) -> Counters {
        self.counters.clone()
    }

    fn standing(&self) -> Standing {
        self.standing.clone()
    }

    fn holdings(&self) -> BoxFuture<'_, Result<Holdings, AdministrationError>> {
        Box::pin(async { Ok(self.holdings.clone()) })
    }
}

/// Waits for what is there already.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

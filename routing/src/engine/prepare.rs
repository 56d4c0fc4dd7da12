//! Common steps of engines: checks before they route, and threads.

use rsm_ids::Lid;

use super::paths::MAX_COST;
use super::{DEFAULT_VLS, EngineError, Options};
use crate::topology::{SwitchIdx, Topology};

/// Fails if a switch cannot hold an entry for every LID in use.
pub(super) fn check_capacities(topology: &Topology) -> Result<(), EngineError> {
    let top = topology.top_lid();
    if top == Lid::NONE {
        return Ok(());
    }
    match topology
        .switches()
        .iter()
        .find(|switch| switch.linear_fdb_cap <= top.0)
    {
        None => Ok(()),
        Some(switch) => Err(EngineError::TableTooSmall {
            guid: switch.guid,
            capacity: switch.linear_fdb_cap,
            top: top.0,
        }),
    }
}

/// A note for the operator on tables that need certain service levels.
pub(super) const FIXED_LEVELS: &str = "; programs that set one service level for all their packets, \
     as NCCL does, ignore the lanes and are not covered by the proof";

/// Whether every link has at least `needed` data VLs.
pub(super) fn has_lanes(needed: u8, options: &Options) -> bool {
    needed <= options.max_vls.unwrap_or(DEFAULT_VLS)
}

/// Fails if `engine` needs more data VLs than every link has.
pub(super) fn check_lanes(
    engine: &'static str,
    needed: u8,
    options: &Options,
) -> Result<(), EngineError> {
    if has_lanes(needed, options) {
        return Ok(());
    }
    Err(EngineError::TooFewLanes {
        engine,
        needed,
        available: options.max_vls.unwrap_or(DEFAULT_VLS),
    })
}

/// Runs `work` with the number of threads that the options ask for.
pub(super) fn in_pool<T: Send>(
    options: &Options,
    work: impl FnOnce() -> T + Send,
) -> Result<T, EngineError> {
    if options.threads == 0 {
        return Ok(work());
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(options.threads)
        .build()
        .map(|pool| pool.install(work))
        .map_err(|error| EngineError::Threads {
            threads: options.threads,
            reason: error.to_string(),
        })
}

/// The error of a path from `switch` that is longer than costs can represent.
pub(super) fn too_long(topology: &Topology, switch: SwitchIdx) -> EngineError {
    EngineError::PathTooLong {
        guid: topology.switch(switch).guid,
        limit: MAX_COST,
    }
}

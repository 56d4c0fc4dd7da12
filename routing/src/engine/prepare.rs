//! Common parts of the engines: checks before routing, the thread pool, and errors.

use rsm_ids::Lid;

use super::paths::MAX_COST;
use super::{DEFAULT_VLS, EngineError, Options};
use crate::topology::{SwitchIdx, Topology};

/// Fails if a switch cannot hold an entry for every LID in use.
pub(super) fn check_capacities(topology: &Topology) -> Result<(), EngineError> {
    let top_lid = topology.top_lid();
    if top_lid == Lid::NONE {
        return Ok(());
    }
    match topology
        .switches()
        .iter()
        .find(|switch| switch.linear_fdb_cap <= top_lid.0)
    {
        None => Ok(()),
        Some(switch) => Err(EngineError::TableTooSmall {
            guid: switch.guid,
            capacity: switch.linear_fdb_cap,
            top: top_lid.0,
        }),
    }
}

/// The end of an engine's reason, for the operator, if its tables need several service levels.
pub(super) const SEVERAL_SLS: &str = "; programs that set one service level for all their packets, \
     as NCCL does, ignore the lanes and are not covered by the proof";

/// Whether every link has at least `needed` data VLs by the options.
pub(super) fn has_data_vls(needed: u8, options: &Options) -> bool {
    needed <= options.max_vls.unwrap_or(DEFAULT_VLS)
}

/// Fails if `engine` needs more data VLs than every link has.
pub(super) fn check_data_vls(
    engine: &'static str,
    needed: u8,
    options: &Options,
) -> Result<(), EngineError> {
    if has_data_vls(needed, options) {
        return Ok(());
    }
    Err(EngineError::TooFewLanes {
        engine,
        needed,
        available: options.max_vls.unwrap_or(DEFAULT_VLS),
    })
}

/// Runs `work` in a pool of as many threads as the options say, or in the current pool if they say
/// 0. Fails if the threads cannot be started.
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

/// The error for a path from `switch` that costs more than [`MAX_COST`].
pub(super) fn path_too_long(topology: &Topology, switch: SwitchIdx) -> EngineError {
    EngineError::PathTooLong {
        guid: topology.switch(switch).guid,
        limit: MAX_COST,
    }
}

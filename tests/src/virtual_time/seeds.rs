//! Runs a scenario for many seeds.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The environment variable that selects a single seed.
const SEED_VARIABLE: &str = "RSM_SEED";

/// The number of failing seeds after which a run stops: more failures rarely add information.
const MAX_FAILURES: usize = 8;

/// The number of threads that share the seeds. Runs share nothing, so the number affects only the
/// duration.
const THREADS: usize = 2;

/// Runs `scenario` for each of the first `count` seeds, or for the seed that `RSM_SEED` names.
///
/// # Panics
///
/// A run panics; the message has its seed and the command to repeat it.
pub fn run(test: &str, count: u64, scenario: impl Fn(u64) + Sync) {
    if let Some(seed) = number(SEED_VARIABLE) {
        scenario(seed);
        return;
    }
    let next = AtomicU64::new(0);
    let failures = Mutex::new(BTreeMap::new());
    let worker = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count || failures.lock().len() >= MAX_FAILURES {
                break;
            }
            if let Err(cause) = catch_unwind(AssertUnwindSafe(|| scenario(seed))) {
                failures.lock().insert(seed, message(&*cause));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(worker);
        }
    });
    let failures = failures.into_inner();
    if let Some((seed, cause)) = failures.first_key_value() {
        panic!(
            "seeds {:?} fail; repeat one with \
             {SEED_VARIABLE}={seed} cargo test -p rsm-tests {test}\nseed {seed}: {cause}",
            failures.keys()
        );
    }
}

/// The number in an environment variable; `None` if the variable is not set.
///
/// # Panics
///
/// The variable is set, but is not a number.
#[must_use]
pub fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable}={text}: expected a number"),
    }
}

/// The message of a panic; empty if the panic has no text.
fn message(cause: &(dyn std::any::Any + Send)) -> String {
    cause
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| cause.downcast_ref::<&str>().map(|&text| text.to_owned()))
        .unwrap_or_default()
}

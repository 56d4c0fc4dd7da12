//! Where routes and proofs are computed: on threads that give way.
//!
//! A plan of a large subnet has every processor busy for a while. Who receives, answers hosts or
//! drives the sweep takes microseconds, and is to have a processor at once.

use rayon::ThreadPoolBuilder;

/// How far the threads step back, of 19. A thread at 5 has a third of what one at 0 has where both
/// want the same processor, so that a plan still comes to its end under a flood of questions.
const NICE: i32 = 5;

/// Has what is computed in parallel give way from now on, in the whole process. To be called before
/// anything is.
pub(super) fn give_way() {
    // There is such a pool already where a process runs more than one daemon.
    if let Err(error) = threads().build_global() {
        tracing::debug!(%error, "the threads that compute are kept as they are");
    }
}

fn threads() -> ThreadPoolBuilder {
    ThreadPoolBuilder::new()
        .thread_name(|index| format!("compute-{index}"))
        .start_handler(|_| step_back())
}

/// Runs `work` on one of these threads, and waits for it.
///
/// # Panics
/// When `work` does.
pub(super) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| work())
}

/// Has the thread that calls this give way.
pub(super) fn step_back() {
    // On Linux this is about the thread, elsewhere it would be about the process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread that computes does not give way");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_gives_way_and_others_do_not() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let own = nice();
        let pool = threads().num_threads(2).build().unwrap();
        let all = pool.broadcast(|_| nice());
        assert_eq!(all, [NICE, NICE]);
        assert_eq!(pool.install(|| run(nice)), NICE);
        assert_eq!(nice(), own);
    }
}

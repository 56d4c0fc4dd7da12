//! Threads of low priority that compute routes and proofs.
//!
//! A plan of a large subnet keeps every processor busy for a while. The threads that receive,
//! answer hosts or drive the sweep need microseconds, and must get a processor at once.

use rayon::ThreadPoolBuilder;

/// The nice value of these threads, of 19. At 5, a thread gets a third of the share of a thread at
/// 0, so that a plan still ends under a flood of SA requests.
const NICE: i32 = 5;

/// Lowers the priority of all parallel computation in the process. Call it before the first one.
pub(super) fn give_way() {
    // A process that runs more than one daemon has this pool already.
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

/// Lowers the priority of the calling thread.
pub(super) fn step_back() {
    // On Linux this concerns the thread, elsewhere the process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread that computes does not give way");
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn compute_threads_are_nice_and_the_caller_is_not() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let own = nice();
        let pool = threads().num_threads(2).build().unwrap();
        let all = pool.broadcast(|_| nice());
        assert_eq!(all, [NICE, NICE]);
        assert_eq!(pool.install(|| run(nice)), NICE);
        assert_eq!(nice(), own);
    }
}

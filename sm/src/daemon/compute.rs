//! Sets priorities of threads: low for the threads that compute routes and proofs, high for the
//! thread of the SA.
//!
//! The plan of a large subnet occupies every processor for a while. The threads that receive,
//! answer hosts or drive the sweep need only microseconds, but without delay.

use anyhow::Context as _;
use rayon::ThreadPoolBuilder;
use tokio::sync::oneshot;

/// Nice value of computing threads, at most 19. A thread at 5 gets a third of the processor time
/// that a thread at 0 gets, so a plan still ends under a flood of SA requests.
const NICE: i32 = 5;

/// Lowers the priority of all parallel computation in the process. Must be called before the first
/// computation.
pub(super) fn lower_pool_priority() {
    // In a process with more than one daemon, the thread pool exists already.
    if let Err(error) = threads().build_global() {
        tracing::debug!(%error, "the threads that compute keep their priority");
    }
}

/// The pool of computing threads, which lower their priority when they start.
fn threads() -> ThreadPoolBuilder {
    ThreadPoolBuilder::new()
        .thread_name(|index| format!("compute-{index}"))
        .start_handler(|_| lower_priority())
}

/// Runs `work` on one of the computing threads, and waits for its end.
///
/// # Panics
/// `work` panics.
pub(super) fn run<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| work())
}

/// Runs `work` like [`run`], from a separate thread called `name`. The runtime's threads for
/// blocking work serve readers, and the loop's work must not wait until one of them is free.
///
/// # Errors
/// `work` panics, or the operating system starts no thread.
pub(super) async fn run_on_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<T> {
    let (done, result) = oneshot::channel();
    // The receiver is gone while the daemon ends.
    let working = move || drop(done.send(run(work)));
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(working).context("no thread can be started")?;
    result.await.context("its thread panicked")
}

/// Lowers the priority of the calling thread.
pub(super) fn lower_priority() {
    // On Linux the call concerns the calling thread, elsewhere the process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "a thread that computes keeps its priority");
    }
}

/// Difference between the nice values of the SA's thread and of the other threads. At 2, the core
/// still gets two fifths of a processor that it shares with the SA under a flood of requests.
const AHEAD: i32 = 2;

/// Raises the priority of the calling thread above the core's: an answer to a host takes
/// microseconds, and a turn of the core after a change of the fabric takes milliseconds. The higher
/// priority requires CAP_SYS_NICE.
pub(super) fn raise_priority() {
    // On Linux the call concerns the calling thread, elsewhere the process.
    #[cfg(target_os = "linux")]
    {
        let ahead = rustix::process::getpriority_process(None)
            .and_then(|own| rustix::process::setpriority_process(None, own - AHEAD));
        if let Err(error) = ahead {
            tracing::info!(
                %error,
                "the SA has the same priority as the rest of rsm (CAP_SYS_NICE is missing): hosts \
                 wait longer for answers while the fabric changes"
            );
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn compute_threads_have_a_lower_priority_than_the_caller() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let own = nice();
        let pool = threads().num_threads(2).build().unwrap();
        let all = pool.broadcast(|_| nice());
        assert_eq!(all, [NICE, NICE]);
        assert_eq!(pool.install(|| run(nice)), NICE);
        assert_eq!(nice(), own);
    }

    #[test]
    fn work_on_a_separate_thread_does_not_wait_for_blocking_readers() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.max_blocking_threads(1).build().unwrap();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let reader = runtime.spawn_blocking(move || released.recv());
        let done = runtime.block_on(run_on_thread("plan", || 7));
        assert_eq!(done.unwrap(), 7);
        assert!(!reader.is_finished());
        drop(release);
    }

    #[test]
    fn panic_of_work_on_a_separate_thread_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let done = runtime.block_on(run_on_thread("plan", || panic!("as the test wants")));
        let done: anyhow::Result<()> = done;
        assert!(done.unwrap_err().to_string().contains("panicked"));
    }

    #[test]
    fn raised_priority_applies_only_to_the_calling_thread() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let own = nice();
        let ahead = std::thread::spawn(move || {
            raise_priority();
            nice()
        });
        // Without CAP_SYS_NICE the priority stays unchanged.
        assert!([own, own - AHEAD].contains(&ahead.join().unwrap()));
        assert_eq!(nice(), own);
    }
}

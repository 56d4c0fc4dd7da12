//! Work on threads that may block.

use tokio::task::JoinError;

/// Runs `work` on a thread for blocking work. `held`, such as a place or a lock, stays with the work
/// until it ends, also when the caller has gone, and comes back with the result.
///
/// # Errors
/// The work panicked, or the runtime ends.
pub async fn holding<H: Send + 'static, T: Send + 'static>(
    held: H,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(H, T), JoinError> {
    let working = tokio::task::spawn_blocking(move || {
        let done = work();
        (held, done)
    });
    working.await
}

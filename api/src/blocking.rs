//! Work on threads that may block.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Runs `work` on a thread for blocking work. `held`, such as a permit or a lock, is kept until the
/// work ends, even if the caller drops the future, and is returned with the result.
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

/// Runs `work` on a thread for blocking work as soon as `permits` has a free permit. The work keeps
/// the permit until it ends, even if the caller drops the future, so that the permits bound the
/// number of threads with such work.
///
/// # Errors
/// The work panicked, or the runtime ends.
pub async fn at_place<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    // The error means that the semaphore is closed, which never happens.
    let permit = Arc::clone(permits).acquire_owned().await;
    let (_, done) = holding(permit, work).await?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_keeps_its_permit_until_it_ends_after_its_caller_is_aborted() {
        let permits = Arc::new(Semaphore::new(1));
        let (begin, begun) = tokio::sync::oneshot::channel();
        let (release, released) = mpsc::channel::<()>();
        let caller = tokio::spawn({
            let permits = Arc::clone(&permits);
            async move {
                let work = move || {
                    let _ = begin.send(());
                    let _ = released.recv();
                };
                at_place(&permits, work).await
            }
        });
        begun.await.expect("the work begins");
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        assert_eq!(permits.available_permits(), 0);
        drop(release);
        assert_eq!(at_place(&permits, || 7).await.unwrap(), 7);
    }
}

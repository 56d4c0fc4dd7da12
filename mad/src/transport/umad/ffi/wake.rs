//! Lets another thread end the wait for a port.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{OpenPort, last_error, wait_for_input};

/// Ends the wait of another thread in [`Wake::wait`].
pub(in super::super) struct Wake {
    event: c_int,
    /// Whether the event is set or about to be set, so that further calls need no system call.
    pending: AtomicBool,
}

/// The result of [`Wake::wait`] for the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Readiness {
    /// A datagram may be waiting.
    Readable,
    /// The device has failed or was removed.
    Failed,
    /// Nothing happened at the port: the timeout has passed, or another thread has ended the wait.
    Nothing,
}

impl Wake {
    pub(in super::super) fn new() -> io::Result<Wake> {
        // SAFETY: the function takes only numbers.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(last_error(libc::EMFILE));
        }
        Ok(Wake {
            event,
            pending: AtomicBool::new(false),
        })
    }

    /// Ends the present wait; without a present wait, ends the next wait.
    pub(in super::super) fn wake(&self) {
        if self.pending.swap(true, Ordering::AcqRel) {
            return;
        }
        let one = 1u64;
        // SAFETY: the number has as many bytes as the last argument says. The call fails only if
        // the event is set already.
        unsafe { libc::write(self.event, (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Waits until `port` may have a datagram to receive, until another thread calls
    /// [`Wake::wake`], or until `timeout_ms` have passed.
    pub(in super::super) fn wait(&self, port: Option<&OpenPort>, timeout_ms: u32) -> Readiness {
        let port = port.map_or(-1, OpenPort::fd);
        let timeout = c_int::try_from(timeout_ms).unwrap_or(c_int::MAX);
        let [woken, events] = wait_for_input([self.event, port], timeout);
        if woken != 0 {
            self.clear();
        }
        match events {
            0 => Readiness::Nothing,
            some if some & libc::POLLIN != 0 => Readiness::Readable,
            _ => Readiness::Failed,
        }
    }

    /// Clears a call of `wake`, so that the next call ends the next wait.
    fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: the number has as many bytes as the last argument says.
        unsafe { libc::read(self.event, (&raw mut count).cast(), size_of::<u64>()) };
        // Clear the flag after reading the event: a call of `wake` from here on sets the event
        // again. The caller looks for work after this, and finds everything that arrived before
        // such a call.
        self.pending.swap(false, Ordering::AcqRel);
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        // SAFETY: `Wake::new` opened the descriptor, and it is closed once.
        unsafe { libc::close(self.event) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_calls_of_wake_end_one_wait() {
        let wake = Wake::new().unwrap();
        wake.wake();
        wake.wake();
        // Without the event this call would wait for minutes.
        assert_eq!(wake.wait(None, 1_000_000), Readiness::Nothing);
        assert!(!wake.pending.load(Ordering::Relaxed));
        assert_eq!(wake.wait(None, 0), Readiness::Nothing);
        std::thread::scope(|scope| {
            scope.spawn(|| wake.wake());
            wake.wait(None, 1_000_000);
        });
    }
}

//! Queue of the calls to the SA's thread. The queue is nearly always empty; its memory grows with
//! the number of waiting calls, to about twenty megabytes at the maximum.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use rsm_mad::transport::SaPort;

use super::gate::Call;

/// Sending end, for any number of threads.
#[derive(Clone)]
pub(super) struct Inbox {
    calls: Sender<Call>,
    waiting: Arc<AtomicUsize>,
    /// Maximum number of waiting calls.
    max_waiting: usize,
    /// Port of the SA; empty before [`Inbox::attach`]. The reference is weak, because the transport
    /// holds the gate, which holds this inbox: a strong reference would keep the port alive.
    port: Arc<OnceLock<Weak<dyn SaPort>>>,
}

/// Receiving end, for the thread that answers.
pub(super) struct Calls {
    calls: Receiver<Call>,
    waiting: Arc<AtomicUsize>,
}

/// The inbox is full, or its receiver was dropped.
#[derive(Debug)]
pub(super) struct NoRoom;

/// Creates an inbox in which at most `max_waiting` calls may wait.
pub(super) fn inbox(max_waiting: usize) -> (Inbox, Calls) {
    let (sender, receiver) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let inbox = Inbox {
        calls: sender,
        waiting: Arc::clone(&waiting),
        max_waiting,
        port: Arc::default(),
    };
    let calls = Calls {
        calls: receiver,
        waiting,
    };
    (inbox, calls)
}

impl Inbox {
    /// Number of waiting calls.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Sets the port at which the thread may wait.
    pub(super) fn attach(&self, port: &Arc<dyn SaPort>) {
        // Only the first call has an effect, because an SA has one port.
        let _ = self.port.set(Arc::downgrade(port));
    }

    /// Port of the SA; `None` before [`Inbox::attach`], and after the port was dropped.
    pub(super) fn port(&self) -> Option<Arc<dyn SaPort>> {
        self.port.get().and_then(Weak::upgrade)
    }

    /// Appends `call` to the queue, without waiting. Does not wake a thread that waits at the port:
    /// the port itself wakes the thread for messages.
    ///
    /// # Errors
    /// The inbox is full, or its receiver was dropped.
    pub(super) fn put(&self, call: Call) -> Result<(), NoRoom> {
        // Counting precedes sending: the receiver must not subtract the call before it was added.
        let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) < self.max_waiting;
        if has_room && self.calls.send(call).is_ok() {
            return Ok(());
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Err(NoRoom)
    }

    /// Appends a call that does not come from the port, without waiting, and wakes a thread that
    /// waits at the port.
    ///
    /// # Errors
    /// The errors of [`Inbox::put`].
    pub(super) fn post(&self, call: Call) -> Result<(), NoRoom> {
        let put = self.put(call);
        if let Some(port) = self.port() {
            port.wake();
        }
        put
    }

    /// Wakes the thread. If the inbox is full, the thread is awake already.
    pub(super) fn wake(&self) {
        let _ = self.post(Call::Wake);
    }
}

impl Calls {
    /// Whether no call waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Takes the first waiting call, without waiting for a call.
    ///
    /// # Errors
    /// No call waits, or all senders were dropped.
    pub(super) fn try_take(&self) -> Result<Call, TryRecvError> {
        let call = self.calls.try_recv()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(call)
    }

    /// Takes the first call; waits up to `timeout` for a call.
    ///
    /// # Errors
    /// No call came in time, or all senders were dropped.
    pub(super) fn take_within(&self, timeout: Duration) -> Result<Call, RecvTimeoutError> {
        let call = self.calls.recv_timeout(timeout)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_inbox_refuses_calls_until_one_is_taken() {
        let (inbox, calls) = inbox(2);
        assert!(inbox.put(Call::Wake).is_ok());
        assert!(inbox.put(Call::Wake).is_ok());
        assert!(inbox.put(Call::Wake).is_err());
        assert_eq!(inbox.waiting(), 2);
        assert!(matches!(calls.try_take(), Ok(Call::Wake)));
        assert!(inbox.put(Call::Wake).is_ok());
        assert!(calls.take_within(Duration::ZERO).is_ok());
        assert!(calls.take_within(Duration::ZERO).is_ok());
        assert!(matches!(calls.try_take(), Err(TryRecvError::Empty)));
        assert_eq!(inbox.waiting(), 0);
        drop(calls);
        assert!(inbox.put(Call::Wake).is_err());
        assert_eq!(inbox.waiting(), 0);
    }
}

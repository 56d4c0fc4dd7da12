//! The queue of the SA's thread. Its memory follows the waiting calls, not its bound. At its bound
//! it takes some twenty megabytes; nearly always it is empty.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use rsm_mad::transport::SaPort;

use super::gate::Call;

/// The sending end, for any number of threads.
#[derive(Clone)]
pub(super) struct Inbox {
    calls: Sender<Call>,
    waiting: Arc<AtomicUsize>,
    room: usize,
    /// The SA's port. Weak: the transport holds the gate, and so this, and must not keep the port
    /// alive.
    port: Arc<OnceLock<Weak<dyn SaPort>>>,
}

/// The receiving end, for the thread that answers.
pub(super) struct Calls {
    calls: Receiver<Call>,
    waiting: Arc<AtomicUsize>,
}

/// The inbox is full, or its receiver is gone.
#[derive(Debug)]
pub(super) struct NoRoom;

/// An inbox in which `room` calls may wait.
pub(super) fn inbox(room: usize) -> (Inbox, Calls) {
    let (sender, receiver) = channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let inbox = Inbox {
        calls: sender,
        waiting: Arc::clone(&waiting),
        room,
        port: Arc::default(),
    };
    let calls = Calls {
        calls: receiver,
        waiting,
    };
    (inbox, calls)
}

impl Inbox {
    /// How many calls wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Names the port at which the thread may wait.
    pub(super) fn attach(&self, port: &Arc<dyn SaPort>) {
        // The first call counts: an SA has one port.
        let _ = self.port.set(Arc::downgrade(port));
    }

    /// The SA's port, while it exists.
    pub(super) fn port(&self) -> Option<Arc<dyn SaPort>> {
        self.port.get().and_then(Weak::upgrade)
    }

    /// Puts `call` at the end of the queue. Does not wait, and does not end a wait at the port: the
    /// port does that for messages.
    pub(super) fn put(&self, call: Call) -> Result<(), NoRoom> {
        // Count before sending: the receiver must not count the call off first.
        let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) < self.room;
        if has_room && self.calls.send(call).is_ok() {
            return Ok(());
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Err(NoRoom)
    }

    /// As [`Inbox::put`], for calls from outside the port.
    pub(super) fn post(&self, call: Call) -> Result<(), NoRoom> {
        let put = self.put(call);
        if let Some(port) = self.port() {
            port.wake();
        }
        put
    }

    /// Wakes the thread. A full inbox means that it is awake.
    pub(super) fn wake(&self) {
        let _ = self.post(Call::Wake);
    }
}

impl Calls {
    /// Whether no call waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    /// The first call, if one waits.
    pub(super) fn try_take(&self) -> Result<Call, TryRecvError> {
        let call = self.calls.try_recv()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(call)
    }

    /// The first call. Waits for one for at most `timeout`.
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

//! The queue of the SA's thread. Its memory follows the waiting calls, not its bound. At its bound
//! it takes some twenty megabytes; nearly always it is empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use super::gate::Call;

/// The sending end, for any number of threads.
#[derive(Clone)]
pub(super) struct Inbox {
    calls: Sender<Call>,
    waiting: Arc<AtomicUsize>,
    room: usize,
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

    /// Puts `call` at the end of the queue. Does not wait.
    pub(super) fn put(&self, call: Call) -> Result<(), NoRoom> {
        // Count before sending: the receiver must not count the call off first.
        let has_room = self.waiting.fetch_add(1, Ordering::Relaxed) < self.room;
        if has_room && self.calls.send(call).is_ok() {
            return Ok(());
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Err(NoRoom)
    }

    /// Wakes the thread. A full inbox means that it is awake.
    pub(super) fn wake(&self) {
        let _ = self.put(Call::Wake);
    }
}

impl Calls {
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

use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Lid;

use super::TransactionKey;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::Time;
use crate::transport::RemoteAddress;
use crate::wire::MadBytes;

/// The state of a transfer.
#[derive(Debug)]
pub(super) enum Phase {
    /// This side is receiving a message.
    Receiving(Box<Receiver>),
    /// A message has arrived; this side repeats its last acknowledgement if the acknowledgement was
    /// lost.
    Received {
        /// The last acknowledgement.
        ack: Box<MadBytes>,
        /// The number of segments of the answer that the other side accepts without an
        /// acknowledgement.
        window: u32,
        /// The time at which this side forgets the transfer.
        until: Time,
    },
    /// This side is sending a message.
    Sending(Box<Sender>),
    /// A request was sent and waits for its answer.
    Awaiting {
        /// The time at which the request fails.
        until: Time,
        /// The last acknowledgement of a request with segments, after which the other side sends
        /// the answer (IBA 13.6.4). This side repeats the acknowledgement if it was lost. `None` if
        /// the request was one datagram.
        last_request_ack: Option<Box<MadBytes>>,
    },
}

/// A transfer, or a request that waits for its answer.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) remote: RemoteAddress,
    pub(super) phase: Phase,
    /// The timeout of the answer to a request of this side.
    pub(super) patience: std::time::Duration,
    /// The last acknowledgement of a request of many segments, kept while the answer is sent.
    pub(super) request_ack: Option<Box<MadBytes>>,
    /// The request, kept while the answer is sent; `None` if it is longer than one datagram or
    /// unknown.
    pub(super) request: Option<Box<MadBytes>>,
    /// Whether the transfer is in the queue of transfers with segments to send.
    pub(super) is_queued: bool,
    /// The time of the transfer's timer, as in [`Transfers::timers`].
    timer: Option<Time>,
}

impl Transfer {
    pub(super) fn new(remote: RemoteAddress, phase: Phase) -> Transfer {
        Transfer {
            remote,
            phase,
            patience: std::time::Duration::ZERO,
            request_ack: None,
            request: None,
            is_queued: false,
            timer: None,
        }
    }

    /// The time of the transfer's next timer in its present phase.
    fn next_deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Receiving(receiver) => receiver.next_deadline(),
            Phase::Received { until, .. } | Phase::Awaiting { until, .. } => Some(*until),
            Phase::Sending(sender) => sender.next_deadline(),
        }
    }
}

/// The bound that does not permit another transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// There are too many transfers.
    Total,
    /// There are too many transfers with one LID.
    Client,
}

/// The transfers by their keys, with their deadlines, limited in number.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    by_key: BTreeMap<TransactionKey, Transfer>,
    /// The number of transfers with each LID; LIDs without transfers have no entry.
    per_client: BTreeMap<Lid, usize>,
    /// The timers of all transfers, earliest first.
    timers: BTreeSet<(Time, TransactionKey)>,
    /// Finished transfers that are kept for a while, oldest first. Other transfers that need room
    /// displace them.
    finished: BTreeSet<(Time, TransactionKey)>,
}

impl Transfers {
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get(&self, key: &TransactionKey) -> Option<&Transfer> {
        self.by_key.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &TransactionKey) -> Option<&mut Transfer> {
        self.by_key.get_mut(key)
    }

    /// Adds or replaces a transfer. At a bound, the oldest finished transfer is forgotten. The
    /// bounds are the numbers of all transfers and of transfers with one LID.
    ///
    /// # Errors
    /// A bound is reached, and there is no finished transfer to forget.
    pub(super) fn insert(
        &mut self,
        key: TransactionKey,
        transfer: Transfer,
        [max_transfers, max_per_client]: [usize; 2],
    ) -> Result<(), Full> {
        self.remove(&key);
        if self.per_client.get(&key.lid).copied().unwrap_or(0) >= max_per_client {
            let oldest = self.oldest_of(key.lid).ok_or(Full::Client)?;
            self.remove(&oldest);
        }
        if self.by_key.len() >= max_transfers {
            let oldest = self.finished.first().map(|&(_, key)| key);
            self.remove(&oldest.ok_or(Full::Total)?);
        }
        *self.per_client.entry(key.lid).or_default() += 1;
        self.by_key.insert(key, transfer);
        self.update_timer(&key);
        Ok(())
    }

    /// The oldest finished transfer with `lid`. The search visits all transfers with this LID,
    /// which are few.
    fn oldest_of(&self, lid: Lid) -> Option<TransactionKey> {
        let from = TransactionKey {
            lid,
            qpn: 0,
            tid: crate::ids::Tid(0),
            class: crate::wire::header::Class(0),
            answers: false,
        };
        self.by_key
            .range(from..)
            .take_while(|(key, _)| key.lid == lid)
            .filter_map(|(key, transfer)| match transfer.phase {
                Phase::Received { until, .. } => Some((until, *key)),
                _ => None,
            })
            .min()
            .map(|(_, key)| key)
    }

    pub(super) fn remove(&mut self, key: &TransactionKey) -> Option<Transfer> {
        let transfer = self.by_key.remove(key)?;
        if let Some(timer) = transfer.timer {
            self.timers.remove(&(timer, *key));
            self.finished.remove(&(timer, *key));
        }
        if let Some(count) = self.per_client.get_mut(&key.lid) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&key.lid);
            }
        }
        Some(transfer)
    }

    /// Sets the timer of a transfer according to its phase.
    pub(super) fn update_timer(&mut self, key: &TransactionKey) {
        let Some(transfer) = self.by_key.get_mut(key) else {
            return;
        };
        let (before, after) = (transfer.timer, transfer.next_deadline());
        transfer.timer = after;
        let finished = matches!(transfer.phase, Phase::Received { .. });
        if let Some(before) = before {
            self.timers.remove(&(before, *key));
            self.finished.remove(&(before, *key));
        }
        if let Some(after) = after {
            self.timers.insert((after, *key));
            if finished {
                self.finished.insert((after, *key));
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|&(time, _)| time)
    }

    /// The first transfer with a timer due at `now`.
    pub(super) fn due(&self, now: Time) -> Option<TransactionKey> {
        let &(time, key) = self.timers.first()?;
        (time <= now).then_some(key)
    }
}

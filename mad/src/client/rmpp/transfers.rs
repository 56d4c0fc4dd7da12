use std::collections::{BTreeMap, BTreeSet};

use rsm_ids::Lid;

use super::TransactionKey;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::Time;
use crate::transport::RemoteAddress;
use crate::wire::MadBytes;

/// Where a transfer is.
#[derive(Debug)]
pub(super) enum Phase {
    /// A message is on its way to here.
    Receiving(Box<Receiver>),
    /// A message has arrived; its last acknowledgement is repeated where it was lost.
    Received {
        /// The acknowledgement.
        ack: Box<MadBytes>,
        /// How many segments of the answer the other side takes unasked.
        window: u32,
        /// When it is forgotten.
        until: Time,
    },
    /// A message is on its way from here.
    Sending(Box<Sender>),
    /// A request is out; its answer is waited for.
    Awaiting {
        /// Until when.
        until: Time,
        /// What turned the transfer round, where the request had segments; repeated where it was
        /// lost.
        turn: Option<Box<MadBytes>>,
    },
}

/// A transfer, or a request that waits.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) remote: RemoteAddress,
    pub(super) phase: Phase,
    /// How long the answer is waited for, where this side asks.
    pub(super) patience: std::time::Duration,
    /// The last acknowledgement of a question of many segments, while its answer is sent.
    pub(super) question_ack: Option<Box<MadBytes>>,
    /// The question of one datagram, while its answer is sent, where it is known.
    pub(super) question: Option<Box<MadBytes>>,
    /// Whether it stands in the queue of those that have something to send.
    pub(super) queued: bool,
    timer: Option<Time>,
}

impl Transfer {
    pub(super) fn new(remote: RemoteAddress, phase: Phase) -> Transfer {
        Transfer {
            remote,
            phase,
            patience: std::time::Duration::ZERO,
            question_ack: None,
            question: None,
            queued: false,
            timer: None,
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        match &self.phase {
            Phase::Receiving(receiver) => receiver.next_deadline(),
            Phase::Received { until, .. } | Phase::Awaiting { until, .. } => Some(*until),
            Phase::Sending(sender) => sender.next_deadline(),
        }
    }
}

/// There is no room for another transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    Total,
    Client,
}

/// Transfers by their keys, with their deadlines, within bounds.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    by_key: BTreeMap<TransactionKey, Transfer>,
    per_client: BTreeMap<Lid, usize>,
    timers: BTreeSet<(Time, TransactionKey)>,
    /// Those that are only remembered, oldest first: they make room for others.
    remembered: BTreeSet<(Time, TransactionKey)>,
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

    /// Adds a transfer, or replaces it. Room is made by forgetting the oldest that is only
    /// remembered.
    pub(super) fn insert(
        &mut self,
        key: TransactionKey,
        transfer: Transfer,
        [most, most_per_client]: [usize; 2],
    ) -> Result<(), Full> {
        self.remove(&key);
        if self.per_client.get(&key.lid).copied().unwrap_or(0) >= most_per_client {
            let oldest = self.oldest_of(key.lid).ok_or(Full::Client)?;
            self.remove(&oldest);
        }
        if self.by_key.len() >= most {
            let oldest = self.remembered.first().map(|&(_, key)| key);
            self.remove(&oldest.ok_or(Full::Total)?);
        }
        *self.per_client.entry(key.lid).or_default() += 1;
        self.by_key.insert(key, transfer);
        self.refresh(&key);
        Ok(())
    }

    /// The oldest transfer with `lid` that is only remembered. There are few with one LID.
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
            self.remembered.remove(&(timer, *key));
        }
        if let Some(count) = self.per_client.get_mut(&key.lid) {
            *count -= 1;
            if *count == 0 {
                self.per_client.remove(&key.lid);
            }
        }
        Some(transfer)
    }

    /// Sets the timer of a transfer as its phase now has it.
    pub(super) fn refresh(&mut self, key: &TransactionKey) {
        let Some(transfer) = self.by_key.get_mut(key) else {
            return;
        };
        let (before, after) = (transfer.timer, transfer.next_deadline());
        transfer.timer = after;
        let remembered = matches!(transfer.phase, Phase::Received { .. });
        if let Some(before) = before {
            self.timers.remove(&(before, *key));
            self.remembered.remove(&(before, *key));
        }
        if let Some(after) = after {
            self.timers.insert((after, *key));
            if remembered {
                self.remembered.insert((after, *key));
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|&(time, _)| time)
    }

    /// The first transfer with something due at `now`.
    pub(super) fn due(&self, now: Time) -> Option<TransactionKey> {
        let &(time, key) = self.timers.first()?;
        (time <= now).then_some(key)
    }
}

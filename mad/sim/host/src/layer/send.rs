//! Datagrams and messages that programs send, with their retries and time-outs.

use std::ops::RangeInclusive;
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::header::{Class, MadHeader};
use rsm_mad::wire::{MAD_LEN, MadBytes};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::agents::{Agent, AgentId, agent_of};
use super::class::{self, MAD_HEADER_LEN, RMPP_HEADER_LEN};
use super::rmpp::{BURST_PAUSE, Flags, RmppHeader, Sender};
use super::{FileId, LayerEffect, MAX_SENDS, MadLayer, Timer};
use crate::abi::UserMadHeader;
use crate::protocol::MAX_MESSAGE;

/// The maximum time to wait for an acknowledgement.
const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(2);

/// The key of a pending send: the agent, the transaction, and the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SendKey {
    pub(super) agent: AgentId,
    pub(super) tid: u64,
    serial: u64,
}

impl SendKey {
    /// The keys of every send of an agent.
    pub(super) fn all_of(agent: AgentId) -> RangeInclusive<SendKey> {
        let key = |tid, serial| SendKey { agent, tid, serial };
        key(0, 0)..=key(u64::MAX, u64::MAX)
    }

    /// The keys of every send of an agent in a transaction.
    pub(super) fn all_in(agent: AgentId, tid: u64) -> RangeInclusive<SendKey> {
        let key = |serial| SendKey { agent, tid, serial };
        key(0)..=key(u64::MAX)
    }
}

/// A send that waits for a response or an acknowledgement.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) file: FileId,
    /// The header that the program wrote.
    header: UserMadHeader,
    pub(super) remote: RemoteAddress,
    pub(super) kind: Sending,
    /// The time to wait for a response; zero if no response is expected.
    pub(super) timeout: Duration,
    pub(super) retries_left: u32,
}

/// The form of a send.
#[derive(Debug)]
pub(super) enum Sending {
    /// A message in one datagram.
    Single(MadBytes),
    /// A message in segments.
    Multi {
        sender: Sender,
        /// The common header of the datagram.
        head: [u8; MAD_HEADER_LEN],
        /// Whether the timer runs until the next burst; if not, it limits the wait for an
        /// acknowledgement.
        is_pausing: bool,
    },
}

impl Sending {
    /// The common header of the message.
    fn head(&self) -> [u8; MAD_HEADER_LEN] {
        match self {
            Sending::Single(mad) => {
                let mut head = [0; MAD_HEADER_LEN];
                head.copy_from_slice(&mad[..MAD_HEADER_LEN]);
                head
            }
            Sending::Multi { head, .. } => *head,
        }
    }
}

impl Pending {
    pub(super) fn class(&self) -> Class {
        Class(self.kind.head()[1])
    }

    /// Whether the message is a response.
    pub(super) fn is_response(&self) -> bool {
        class::is_response(&header_of(&self.kind.head()))
    }

    /// The number of retries that the program requested.
    pub(super) fn requested_retries(&self) -> u32 {
        self.header.retries
    }

    /// The time to wait for an acknowledgement.
    pub(super) fn ack_timeout(&self) -> Duration {
        if self.timeout.is_zero() {
            ACKNOWLEDGE_WITHIN
        } else {
            self.timeout.min(ACKNOWLEDGE_WITHIN)
        }
    }
}

/// The common header in the bytes `head`.
fn header_of(head: &[u8; MAD_HEADER_LEN]) -> MadHeader {
    let mut mad = [0; MAD_LEN];
    mad[..MAD_HEADER_LEN].copy_from_slice(head);
    *MadHeader::of(&mad)
}

/// The remote address in a header, without a GRH.
fn address(header: &UserMadHeader) -> RemoteAddress {
    let mut remote = RemoteAddress::gsi(Lid(header.lid.get()), header.sl & 0xF);
    remote.qpn = header.qpn.get();
    remote.qkey = header.qkey.get();
    remote.pkey_index = header.pkey_index;
    remote.path_bits = header.path_bits & 0x7F;
    remote
}

impl MadLayer {
    /// Sends the header and message that a program wrote.
    ///
    /// # Errors
    /// EINVAL if the message is too short, is too long for a datagram without RMPP, names no agent
    /// of the file, or belongs to a transaction that is pending; ENOMEM beyond [`MAX_SENDS`] and
    /// [`MAX_MESSAGE`]; EBADF if the file is not open.
    pub fn write(&mut self, file: FileId, bytes: &[u8], now: Time) -> Result<(), Errno> {
        let state = self.files.get(&file).ok_or(Errno::BADF)?;
        let header_len = state.header_len();
        if bytes.len() < header_len + RMPP_HEADER_LEN {
            return Err(Errno::INVAL);
        }
        let (written, message) = bytes.split_at(header_len);
        let mut header = UserMadHeader::default();
        header.as_mut_bytes()[..header_len].copy_from_slice(written);
        let slot = state.agents.get(header.id as usize);
        let agent_id = slot.copied().flatten().ok_or(Errno::INVAL)?;
        let agent = self.agents.get(agent_id).ok_or(Errno::INVAL)?;

        // The message is at least as long as the RMPP header.
        let mut first = [0; MAD_LEN];
        let copied = message.len().min(MAD_LEN);
        first[..copied].copy_from_slice(&message[..copied]);
        let class = MadHeader::of(&first).class();
        let is_segmented =
            agent.uses_rmpp && class::has_rmpp(class) && RmppHeader::of(&first).has(Flags::ACTIVE);
        if message.len() < class::data_offset(class) || !is_segmented && message.len() > MAD_LEN {
            return Err(Errno::INVAL);
        }
        if message.len() > MAX_MESSAGE || self.sends.len() >= MAX_SENDS {
            return Err(Errno::NOMEM);
        }
        let is_response = class::is_response(MadHeader::of(&first));
        if !is_response {
            first[8..12].copy_from_slice(&agent_id.to_be_bytes());
        }
        let pending = Pending {
            file,
            header,
            remote: address(&header),
            kind: Sending::Single(first),
            timeout: Duration::from_millis(u64::from(header.timeout_ms)),
            retries_left: header.retries,
        };
        if self.is_under_way(agent_id, &agent, &pending, &first) {
            return Err(Errno::INVAL);
        }
        if is_segmented {
            let mut numbered = message.to_vec();
            numbered[..MAD_HEADER_LEN].copy_from_slice(&first[..MAD_HEADER_LEN]);
            self.send_in_segments(agent_id, pending, numbered, &first, now);
        } else {
            self.send_single(agent_id, pending, now);
        }
        Ok(())
    }

    /// Sends a message in one datagram, and keeps it if the program waits for a response.
    fn send_single(&mut self, agent: AgentId, pending: Pending, now: Time) {
        let Sending::Single(mad) = pending.kind else {
            return;
        };
        self.emit(mad, pending.remote);
        if !pending.timeout.is_zero() {
            let due = now + pending.timeout;
            let key = self.add_pending(agent, &mad, pending);
            self.start_timer(Timer::Send(key), due);
        }
    }

    /// Keeps a message that is sent in segments, and sends the first segments.
    fn send_in_segments(
        &mut self,
        agent: AgentId,
        mut pending: Pending,
        message: Vec<u8>,
        first: &MadBytes,
        now: Time,
    ) {
        let window = self.answer_window(agent, first, pending.remote.lid);
        let offset = class::data_offset(MadHeader::of(first).class());
        let mut head = [0; MAD_HEADER_LEN];
        head.copy_from_slice(&first[..MAD_HEADER_LEN]);
        pending.kind = Sending::Multi {
            sender: Sender::new(message, offset, window),
            head,
            is_pausing: false,
        };
        let key = self.add_pending(agent, first, pending);
        self.send_more(key, now);
    }

    /// Adds a pending send, and returns its key.
    fn add_pending(&mut self, agent: AgentId, mad: &MadBytes, pending: Pending) -> SendKey {
        self.serial += 1;
        let key = SendKey {
            agent,
            tid: MadHeader::of(mad).tid().0,
            serial: self.serial,
        };
        self.sends.insert(key, pending);
        key
    }

    /// Sends the segments that the window allows, and starts the timer for an acknowledgement or
    /// the next burst.
    pub(super) fn send_more(&mut self, key: SendKey, now: Time) {
        let Some(pending) = self.sends.get_mut(&key) else {
            return;
        };
        let (remote, wait) = (pending.remote, pending.ack_timeout());
        let Sending::Multi {
            sender, is_pausing, ..
        } = &mut pending.kind
        else {
            return;
        };
        let (segments, is_window_open) = sender.burst();
        *is_pausing = is_window_open;
        for segment in segments {
            self.emit(segment, remote);
        }
        let due = now + if is_window_open { BURST_PAUSE } else { wait };
        self.start_timer(Timer::Send(key), due);
    }

    /// Handles the timer of a send: sends the message again, or returns it to the program.
    pub(super) fn send_is_due(&mut self, key: SendKey, now: Time) {
        let Some(pending) = self.sends.get_mut(&key) else {
            return;
        };
        if let Sending::Multi {
            is_pausing: true, ..
        } = pending.kind
        {
            return self.send_more(key, now);
        }
        // Once all segments have arrived, only the answer is missing.
        let is_delivered = match &pending.kind {
            Sending::Multi { sender, .. } => sender.is_acknowledged(),
            Sending::Single(_) => false,
        };
        if is_delivered || pending.retries_left == 0 {
            if let Some(pending) = self.finish(key) {
                let (header, head) = (pending.header, pending.kind.head());
                self.return_to_program(pending.file, header, &head, Errno::TIMEDOUT);
            }
            return;
        }
        pending.retries_left -= 1;
        match &mut pending.kind {
            Sending::Single(mad) => {
                let (mad, remote, timeout) = (*mad, pending.remote, pending.timeout);
                self.emit(mad, remote);
                self.start_timer(Timer::Send(key), now + timeout);
            }
            Sending::Multi { sender, .. } => {
                sender.rewind();
                self.send_more(key, now);
            }
        }
    }

    /// Returns a datagram that [`write`](MadLayer::write) refused with `error` to a program that
    /// did not wait for the result of the write. A datagram that is too short to have a transaction
    /// identifier is dropped.
    pub fn refuse_write(&mut self, file: FileId, bytes: &[u8], error: Errno) {
        let Some(header_len) = self.files.get(&file).map(super::File::header_len) else {
            return;
        };
        let mut header = UserMadHeader::default();
        if let Some((written, message)) = bytes.split_at_checked(header_len)
            && let Some(beginning) = message.first_chunk::<MAD_HEADER_LEN>()
        {
            header.as_mut_bytes()[..header_len].copy_from_slice(written);
            self.return_to_program(file, header, beginning, error);
        }
    }

    /// Ends a pending send, and stops its timer; `None` if there is no such send.
    pub(super) fn finish(&mut self, key: SendKey) -> Option<Pending> {
        self.stop_timer(Timer::Send(key));
        self.sends.remove(&key)
    }

    /// Returns a datagram to the program: the user header with the error, and the common header of
    /// the datagram.
    fn return_to_program(
        &mut self,
        file: FileId,
        mut header: UserMadHeader,
        head: &[u8; MAD_HEADER_LEN],
        error: Errno,
    ) {
        header.status = error.raw_os_error() as u32;
        self.deliver(file, header, head);
    }

    /// Queues a datagram to leave through the port.
    pub(super) fn emit(&mut self, mad: MadBytes, remote: RemoteAddress) {
        self.effects
            .push_back(LayerEffect::Send(Datagram { mad, remote }));
    }

    /// Whether the open device already has a message pending in the transaction of `pending`: a
    /// request, or a response to the same destination.
    fn is_under_way(
        &self,
        agent: AgentId,
        agent_state: &Agent,
        pending: &Pending,
        first: &MadBytes,
    ) -> bool {
        let class = pending.class();
        // A program that does RMPP itself sends many datagrams in a transaction.
        if !agent_state.uses_rmpp
            && class::has_rmpp(class)
            && RmppHeader::of(first).has(Flags::ACTIVE)
        {
            return false;
        }
        let is_response = pending.is_response();
        debug_assert!(is_response || agent_of(MadHeader::of(first).tid()) == agent);
        let mut pending_sends = self
            .sends
            .range(SendKey::all_in(agent, MadHeader::of(first).tid().0));
        pending_sends.any(|(_, send)| {
            send.class() == class
                && send.is_response() == is_response
                && (!is_response || send.remote.lid == pending.remote.lid)
        })
    }
}

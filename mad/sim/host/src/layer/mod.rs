//! The MAD layer of one port, between open devices and the wire.
//!
//! The layer is a state machine without I/O. For programs, the server calls
//! [`open`](MadLayer::open), [`register`](MadLayer::register), [`write`](MadLayer::write) and so
//! on; it calls [`receive`](MadLayer::receive) for arriving datagrams and [`tick`](MadLayer::tick)
//! for time-outs. [`poll_effect`](MadLayer::poll_effect) returns the results. The layer behaves
//! like Linux (`ib_mad`, `ib_umad`): see the [crate].

mod agents;
mod class;
mod multi;
mod receive;
mod rmpp;
mod send;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rsm_mad::Time;
use rsm_mad::transport::Datagram;
use rustix::io::Errno;
use zerocopy::IntoBytes;

pub use agents::Registration;

use crate::abi::{HEADER_LEN, MAX_AGENTS, OLD_HEADER_LEN, UserMadHeader};
use agents::{AgentId, Agents};
use multi::ReceptionKey;
use rmpp::Reception;
use send::{Pending, SendKey};

/// The maximum number of pending requests and multi-packet messages at one port; a further send
/// fails with ENOMEM. Linux is bounded only by memory; a subnet manager that does not wait for
/// answers has some thousands of requests pending.
pub const MAX_SENDS: usize = 1 << 16;

/// The maximum number of multi-packet messages at one port that are arriving or arrived in the last
/// 10 s; the layer stops a further message with RMPPStatus "resources exhausted". Linux is bounded
/// only by memory. Sixteen clients that each fetch 5,000 tables a second come near this number.
pub const MAX_RECEPTIONS: usize = 1 << 20;

/// An open device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// An output of the layer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "most effects are datagrams; a box for each would cost more than the copy"
)]
pub enum LayerEffect {
    /// A datagram leaves through the port.
    Send(Datagram),
    /// A program can read a message from an open device.
    Deliver(FileId, ReadResult),
}

/// The result of one `read`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// The header and the message.
    pub bytes: Vec<u8>,
    /// The minimum size in bytes of the buffer of `read`: the header and the first segment.
    pub min_buffer: usize,
}

/// The state of an open device.
#[derive(Debug, Default)]
struct File {
    /// Whether the header contains a P_Key index.
    has_pkey: bool,
    /// Whether an agent was registered, so that [`File::has_pkey`] is fixed.
    had_agent: bool,
    /// The agents, by their number at this device.
    agents: [Option<AgentId>; MAX_AGENTS as usize],
}

impl File {
    fn header_len(&self) -> usize {
        if self.has_pkey {
            HEADER_LEN
        } else {
            OLD_HEADER_LEN
        }
    }
}

/// The send or the arriving message whose time-out a timer measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Send(SendKey),
    Reception(ReceptionKey),
}

/// The MAD layer of one port.
#[derive(Debug, Default)]
pub struct MadLayer {
    files: BTreeMap<FileId, File>,
    /// The number of devices that were opened so far.
    opened: u32,
    agents: Agents,
    /// The sends that wait for a response or an acknowledgement.
    sends: BTreeMap<SendKey, Pending>,
    /// The number of sends so far that waited for a response or an acknowledgement.
    serial: u64,
    /// The multi-packet messages that are arriving or arrived in the last 10 s.
    receptions: BTreeMap<ReceptionKey, Reception>,
    /// The running timers, in the order of their due times.
    timers: BTreeSet<(Time, Timer)>,
    /// The time at which each timer is due; a timer is stopped by this time.
    due: BTreeMap<Timer, Time>,
    effects: VecDeque<LayerEffect>,
}

impl MadLayer {
    /// Creates a layer without open devices.
    pub fn new() -> MadLayer {
        MadLayer::default()
    }

    /// Creates a layer without open devices that follows an earlier layer of the same port with
    /// `registered` agents. New agents get higher numbers, because a kernel never reuses a number:
    /// transaction identifiers contain it, and a datagram for an old agent would otherwise reach a
    /// new agent.
    pub fn after(registered: u32) -> MadLayer {
        MadLayer {
            agents: Agents::after(registered),
            ..MadLayer::default()
        }
    }

    /// The number of agents that were registered so far, including the agents of earlier layers of
    /// the port.
    pub fn registered(&self) -> u32 {
        self.agents.registered()
    }

    /// Opens a device of the port.
    pub fn open(&mut self) -> FileId {
        self.opened += 1;
        let id = FileId(self.opened);
        self.files.insert(id, File::default());
        id
    }

    /// Closes a device: its agents are unregistered and their pending sends are dropped.
    pub fn close(&mut self, file: FileId) {
        let closed = self.files.remove(&file).unwrap_or_default();
        for agent in closed.agents.into_iter().flatten() {
            self.drop_agent(agent);
        }
    }

    /// Whether no device is open at the port.
    pub fn is_idle(&self) -> bool {
        self.files.is_empty()
    }

    /// Makes `file` use the header with a P_Key index.
    ///
    /// # Errors
    /// EINVAL if an agent was registered on the file, EBADF if the file is not open.
    pub fn enable_pkey(&mut self, file: FileId) -> Result<(), Errno> {
        let file = self.files.get_mut(&file).ok_or(Errno::BADF)?;
        if file.had_agent {
            return Err(Errno::INVAL);
        }
        file.has_pkey = true;
        Ok(())
    }

    /// Registers an agent, and returns its number on `file`. If `current` is set and the agent is
    /// the file's first, the device uses the header with a P_Key index.
    ///
    /// # Errors
    /// EINVAL if the registration is invalid, or another agent of the port has one of the methods;
    /// ENOMEM if the file has 32 agents; EBADF if the file is not open.
    pub fn register(
        &mut self,
        file: FileId,
        wanted: &Registration,
        current: bool,
    ) -> Result<u32, Errno> {
        let state = self.files.get_mut(&file).ok_or(Errno::BADF)?;
        if wanted.qpn > 1 {
            return Err(Errno::INVAL);
        }
        let slot = state.agents.iter_mut().enumerate();
        let (id, slot) = slot
            .into_iter()
            .find(|(_, slot)| slot.is_none())
            .ok_or(Errno::NOMEM)?;
        let id = id as u32;
        *slot = Some(self.agents.register(file, id, wanted)?);
        state.has_pkey |= current && !state.had_agent;
        state.had_agent = true;
        Ok(id)
    }

    /// Unregisters an agent, and drops its pending sends.
    ///
    /// # Errors
    /// EINVAL if there is no such agent, EBADF if the file is not open.
    pub fn unregister(&mut self, file: FileId, id: u32) -> Result<(), Errno> {
        let file = self.files.get_mut(&file).ok_or(Errno::BADF)?;
        let slot = file.agents.get_mut(id as usize);
        let agent = slot.and_then(Option::take).ok_or(Errno::INVAL)?;
        self.drop_agent(agent);
        Ok(())
    }

    /// Unregisters an agent, and drops its pending sends and its arriving messages.
    fn drop_agent(&mut self, agent: AgentId) {
        self.agents.unregister(agent);
        let sends = self.sends.range(SendKey::all_of(agent));
        for key in sends.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.sends.remove(&key);
            self.stop_timer(Timer::Send(key));
        }
        let receptions = self.receptions.range(ReceptionKey::all_of(agent));
        for key in receptions.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.receptions.remove(&key);
            self.stop_timer(Timer::Reception(key));
        }
    }

    /// Takes the next output; `None` if no output waits.
    pub fn poll_effect(&mut self) -> Option<LayerEffect> {
        self.effects.pop_front()
    }

    /// The next time to call [`tick`](MadLayer::tick); `None` if no timer runs.
    pub fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Handles the timers due at `now`.
    pub fn tick(&mut self, now: Time) {
        while let Some(&(due, timer)) = self.timers.first()
            && due <= now
        {
            self.stop_timer(timer);
            match timer {
                Timer::Send(key) => self.send_is_due(key, now),
                Timer::Reception(key) => self.reception_is_due(&key),
            }
        }
    }

    fn start_timer(&mut self, timer: Timer, due: Time) {
        self.stop_timer(timer);
        self.due.insert(timer, due);
        self.timers.insert((due, timer));
    }

    fn stop_timer(&mut self, timer: Timer) {
        if let Some(due) = self.due.remove(&timer) {
            self.timers.remove(&(due, timer));
        }
    }

    /// Delivers a message with its header to a file, if the file is open.
    fn deliver(&mut self, file: FileId, mut header: UserMadHeader, message: &[u8]) {
        let Some(state) = self.files.get(&file) else {
            return;
        };
        let header_len = state.header_len();
        if header.status == 0 {
            header.length = (header_len + message.len()) as u32;
        }
        let mut bytes = Vec::with_capacity(header_len + message.len());
        bytes.extend_from_slice(&header.as_bytes()[..header_len]);
        bytes.extend_from_slice(message);
        let min_buffer = header_len + message.len().min(rsm_mad::wire::MAD_LEN);
        self.effects
            .push_back(LayerEffect::Deliver(file, ReadResult { bytes, min_buffer }));
    }
}

//! One agent of performance management: its capabilities, and the reading under way.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{PortKey, PortNum};
use rsm_mad::Time;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::attr::NodeType;
use rsm_mad::wire::header::Status;
use rsm_mad::wire::perf::{Counter, CounterSet, PERF_DATA_LEN};
use rsm_mad::wire::vendor::GeneralInfoMad;
use rsm_model::capabilities::is_nvidia;
use rsm_model::fabric::{Node, Port};

use crate::correction;

use super::causes::{Corrections, RcvCauses, XmitCauses};
use super::config::CountersConfig;
use super::port::{NarrowEnd, PortReading, Sample, TRAFFIC};
use super::request::{Capabilities, Redirect, Redirection, Request, class_port_info};
use super::snapshot::{AgentCounters, AgentState, DeviceFirmware};

/// Time after which an agent's capabilities and refused attributes are read again, because its
/// firmware may have changed.
const CAPABILITIES_EVERY: Duration = Duration::from_secs(3600);

/// Time after which the firmware of a device is read again: an update restarts the device.
const FIRMWARE_EVERY: Duration = Duration::from_secs(3600);

/// Longest pause before an agent that does not answer is asked again.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// Shortest time until a busy agent is asked again.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Maximum number of redirections that are followed in one reading.
const MAX_REDIRECTIONS: u8 = 3;

/// The attributes that an agent has refused.
#[derive(Clone, Copy, Default, Debug)]
struct Refused {
    /// The sums of all ports (AllPortSelect).
    sums: bool,
    /// PortCountersExtended.
    wide: bool,
    /// PortCounters.
    narrow: bool,
    /// PortRcvErrorDetails.
    rcv_causes: bool,
    /// PortXmitDiscardDetails.
    xmit_causes: bool,
    /// PortExtendedSpeedsCounters.
    corrections: bool,
}

/// The reading of an agent's counters that is under way.
#[derive(Clone, Debug)]
struct CurrentReading {
    begun: Time,
    /// Whether the ports are read, and not only their sums.
    reads_ports: bool,
    /// Whether 32-bit error counters of the ports are read.
    reads_errors: bool,
    has_read_sums: bool,
    /// Index of the port to read next, or of the port whose second attribute is missing.
    cursor: usize,
    /// Answer to the first attribute of the port at the cursor.
    partial: Option<Sample>,
    /// Requests for the causes of errors, which precede the next port; the last request is sent
    /// first. At most three.
    causes: Vec<Request>,
    /// Number of redirections so far.
    redirections: u8,
    /// Number of unanswered attempts of the request under way.
    attempt: u8,
}

/// An agent of performance management, and its readings.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) published: Arc<AgentCounters>,
    /// Time of the agent's turn in the collector's queue; `None` while a request is in flight.
    pub(super) due: Option<Time>,
    /// Whether each port, by index, has a cable whose link is up.
    linked: Box<[bool]>,
    /// Other end of each port's present or former cable, by index.
    cables: Box<[Option<PortKey>]>,
    /// Time of the next reading of the sums.
    sums_at: Time,
    /// Time of the next reading of the ports.
    ports_at: Time,
    /// Time before which no port is read, so that a sum that always moves does not cause constant
    /// reading of all ports.
    ports_not_before: Time,
    /// Whether a sum of error counters has moved since the ports were read.
    has_moved: bool,
    /// Time at which the capabilities are read next.
    capabilities_at: Time,
    /// Time of the next request for the firmware; `None` if the firmware is not read.
    firmware_at: Option<Time>,
    refused: Refused,
    narrow_end: NarrowEnd,
    /// The sums at the last reading; `None` before the first reading.
    sums: Option<Box<CounterSet>>,
    /// Target of the requests; `None` if the agent has not redirected requests.
    redirect: Option<Box<Redirect>>,
    current: Option<Box<CurrentReading>>,
    /// Number of successive turns in which the agent did not answer.
    failures: u16,
}

/// Next step of the collector after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Send the next request of the reading.
    Continue,
    /// Wait for the agent's next turn.
    Wait,
}

/// Kind of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Read { reset: bool },
    Refused,
    Busy,
    Redirected,
}

impl Agent {
    /// Creates the agent of the end port `key`, with its first reading at `first`.
    pub(super) fn new(node: &Node, key: PortKey, first: Time) -> Agent {
        let is_switch = node.kind() == NodeType::Switch;
        let (start, count) = match is_switch {
            true => (PortNum::ZERO, node.ports.len()),
            false => (key.port, 1),
        };
        let published = AgentCounters {
            key,
            lid: rsm_ids::Lid::NONE,
            is_switch,
            state: AgentState::New,
            capabilities: Default::default(),
            capabilities2: Default::default(),
            firmware: match is_nvidia(&node.info) {
                true => DeviceFirmware::New,
                false => DeviceFirmware::OtherVendor,
            },
            took: None,
            first: start,
            ports: vec![PortReading::default(); count].into(),
        };
        let mut agent = Agent {
            published: Arc::new(published),
            due: None,
            linked: vec![false; count].into(),
            cables: vec![None; count].into(),
            sums_at: first,
            ports_at: first,
            ports_not_before: first,
            has_moved: false,
            capabilities_at: first,
            firmware_at: is_nvidia(&node.info).then_some(first),
            refused: Refused::default(),
            narrow_end: NarrowEnd::Unknown,
            sums: None,
            redirect: None,
            current: None,
            failures: 0,
        };
        agent.follow(node);
        agent
    }

    /// Copies LID and links from `node`. Forgets the rates and the recent errors of a port whose
    /// cable now leads to another port.
    pub(super) fn follow(&mut self, node: &Node) {
        let key = self.published.key;
        let lid = node
            .ports
            .get(key.port.index())
            .map_or(rsm_ids::Lid::NONE, Port::lid);
        let first = self.published.first.index();
        let published = Arc::make_mut(&mut self.published);
        if published.lid != lid {
            published.lid = lid;
            // Another device may have the LID now.
            self.redirect = None;
        }
        for (index, reading) in published.ports.iter_mut().enumerate() {
            let number = first + index;
            let Some(port) = node.ports.get(number) else {
                continue;
            };
            // A link that was down in the meantime has the same cable, so its errors continue to
            // count.
            if let Some(peer) = port.peer
                && self.cables[index]
                    .replace(peer)
                    .is_some_and(|last| last != peer)
            {
                reading.forget_former_cable();
            }
            let is_external = !published.is_switch || number != 0;
            self.linked[index] = is_external && port.up && port.peer.is_some();
            reading.set_link(link_bytes(port), mendable_per_s(port));
        }
    }

    /// Whether the agent has as many ports as `node`. Always true for a channel adapter or router,
    /// because each of their ports has an agent of its own.
    pub(super) fn fits(&self, node: &Node) -> bool {
        !self.published.is_switch || self.published.ports.len() == node.ports.len()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mask: self.published.capabilities,
            mask2: self.published.capabilities2,
        }
    }

    fn has_sums(&self) -> bool {
        self.published.is_switch && !self.refused.sums && self.capabilities().has_sums()
    }

    fn has_wide(&self) -> bool {
        !self.refused.wide && self.capabilities().has_wide()
    }

    /// Whether a single answer contains all counters of a port.
    fn has_wide_errors(&self) -> bool {
        self.has_wide() && self.capabilities().has_wide_errors()
    }

    fn is_readable(&self) -> bool {
        self.has_wide() || !self.refused.narrow
    }

    /// The time at which the agent's next turn is due.
    pub(super) fn next_turn(&self) -> Time {
        let reading = match self.has_sums() {
            true => self.sums_at.min(self.ports_at),
            false => self.ports_at,
        };
        match self.published.state {
            AgentState::Unreadable => self.capabilities_at,
            _ => reading,
        }
    }

    pub(super) fn redirect(&self) -> Option<&Redirect> {
        self.redirect.as_deref()
    }

    /// The next request of the reading under way, or of a reading that begins now; `None` if there
    /// is nothing to read.
    pub(super) fn next_request(&mut self, now: Time) -> Option<Request> {
        if self.current.is_none() {
            self.current = Some(Box::new(CurrentReading {
                begun: now,
                reads_ports: now >= self.ports_at,
                reads_errors: !self.has_sums() || self.sums.is_none(),
                has_read_sums: false,
                cursor: 0,
                partial: None,
                causes: Vec::new(),
                redirections: 0,
                attempt: 0,
            }));
        }
        if now >= self.capabilities_at {
            self.refused = Refused::default();
            return Some(Request::Capabilities);
        }
        if self.firmware_at.is_some_and(|at| now >= at) {
            return Some(Request::Firmware);
        }
        let (has_sums, has_wide) = (self.has_sums(), self.has_wide());
        let (wide_errors, is_readable) = (self.has_wide_errors(), self.is_readable());
        let current = self.current.as_deref_mut()?;
        if !is_readable {
            return None;
        }
        if has_sums && !current.has_read_sums {
            return Some(Request::sums(wide_errors || self.refused.narrow));
        }
        if let Some(&causes) = current.causes.last() {
            return Some(causes);
        }
        if !current.reads_ports {
            return None;
        }
        while !self.linked.get(current.cursor).copied()? {
            current.cursor += 1;
        }
        let port = self.published.first.0 + current.cursor as u8;
        Some(match has_wide && current.partial.is_none() {
            true => Request::Wide(port),
            false => Request::Narrow(port),
        })
    }

    /// Counts an unanswered attempt of the request under way. Returns whether the request may be
    /// repeated, given the limit `repetitions`.
    pub(super) fn may_repeat(&mut self, repetitions: u8) -> bool {
        let Some(current) = &mut self.current else {
            return false;
        };
        current.attempt += 1;
        current.attempt <= repetitions
    }

    /// Handles the status and the bytes of an answer to a request for the firmware; `None` if there
    /// was no answer.
    pub(super) fn handle_firmware_answer(
        &mut self,
        answer: Option<(Status, &MadBytes)>,
        now: Time,
    ) {
        self.firmware_at = Some(now + FIRMWARE_EVERY);
        if let Some(current) = &mut self.current {
            current.attempt = 0;
        }
        let firmware = match answer {
            None => DeviceFirmware::Silent,
            Some((status, mad)) if status.is_ok() => {
                let info = GeneralInfoMad::from_bytes(mad);
                DeviceFirmware::Known {
                    version: info.firmware(),
                    psid: String::from_utf8_lossy(info.psid()).into_owned(),
                }
            }
            Some(_) => DeviceFirmware::Refused,
        };
        if self.published.firmware != firmware {
            Arc::make_mut(&mut self.published).firmware = firmware;
        }
    }

    /// Ends the reading under way, and schedules the next readings.
    pub(super) fn end_reading(&mut self, config: &CountersConfig, now: Time) {
        let Some(current) = self.current.take() else {
            return;
        };
        if current.has_read_sums {
            self.sums_at = next_time(self.sums_at, config.interval, now);
        }
        if current.reads_ports {
            let every = match self.published.is_switch {
                true => config.ports_interval,
                false => config.adapters_interval,
            };
            self.ports_at = next_time(self.ports_at, every, now);
            Arc::make_mut(&mut self.published).took = Some(now.since(current.begun));
            self.ports_not_before = now + config.interval * 2;
            self.has_moved = false;
        } else if self.ports_at <= now {
            // No counter of this agent can be read.
            self.ports_at = now + config.ports_interval;
        }
    }

    /// Schedules the next turn of an agent that did not answer. Each successive failure doubles the
    /// pause, up to [`LONGEST_PAUSE`].
    pub(super) fn fail(&mut self, config: &CountersConfig, now: Time) {
        self.failures = self.failures.saturating_add(1);
        if self.redirect.take().is_some() {
            // The target of the redirection may have vanished, so ClassPortInfo is read again.
            self.capabilities_at = now;
        }
        let doubled = config.interval * (1u32 << self.failures.min(16));
        self.pause(doubled.min(LONGEST_PAUSE.max(config.interval)), now);
        self.set_state(AgentState::Silent(self.failures));
    }

    /// Schedules the next turn of a busy agent, after the usual interval and at least
    /// [`BUSY_PAUSE`].
    pub(super) fn postpone(&mut self, config: &CountersConfig, now: Time) {
        self.pause(config.interval.max(BUSY_PAUSE), now);
        self.set_state(AgentState::Silent(self.failures.max(1)));
    }

    fn pause(&mut self, pause: Duration, now: Time) {
        self.current = None;
        (self.sums_at, self.ports_at) = (now + pause, now + pause);
    }

    fn set_state(&mut self, state: AgentState) {
        if self.published.state != state {
            Arc::make_mut(&mut self.published).state = state;
        }
    }

    /// Handles the answer to `request`.
    pub(super) fn handle_answer(
        &mut self,
        request: Request,
        status: Status,
        data: &[u8; PERF_DATA_LEN],
        now: Time,
    ) -> (Verdict, Next) {
        if status.is_busy() {
            return (Verdict::Busy, Next::Wait);
        }
        if let Some(current) = &mut self.current {
            current.attempt = 0;
        }
        if status.0 & Status::REDIRECT.0 != 0 {
            return (
                Verdict::Redirected,
                self.follow_redirection(class_port_info(data).1, now),
            );
        }
        self.failures = 0;
        if !status.is_ok() {
            return (Verdict::Refused, self.refuse(request, status, now));
        }
        let mut reset = false;
        let next = match request {
            Request::Firmware => Next::Continue,
            Request::Capabilities => self.record_capabilities(data, now),
            Request::Wide(_) | Request::Narrow(_) if request.is_of_all_ports() => {
                self.record_sums(request, data, now)
            }
            Request::Wide(_) | Request::Narrow(_) => {
                reset = self.record_port(request, data, now);
                Next::Continue
            }
            Request::RcvCauses(port) | Request::XmitCauses(port) | Request::Corrections(port) => {
                self.record_causes(request, port, data, now);
                Next::Continue
            }
        };
        if next == Next::Continue {
            self.set_state(AgentState::Answers);
        }
        (Verdict::Read { reset }, next)
    }

    /// Follows a redirection; gives up if the redirection is unusable, or if a reading has more
    /// than [`MAX_REDIRECTIONS`].
    fn follow_redirection(&mut self, redirection: Redirection, now: Time) -> Next {
        let count = self.current.as_mut().map_or(0, |current| {
            current.redirections += 1;
            current.redirections
        });
        match redirection {
            Redirection::To(to) if count <= MAX_REDIRECTIONS => {
                self.redirect = Some(Box::new(to));
                Next::Continue
            }
            _ => self.give_up(now),
        }
    }

    /// Stops reading the agent until its capabilities are read again.
    fn give_up(&mut self, now: Time) -> Next {
        self.capabilities_at = now + CAPABILITIES_EVERY;
        self.redirect = None;
        self.set_state(AgentState::Unreadable);
        Next::Wait
    }

    fn record_capabilities(&mut self, data: &[u8; PERF_DATA_LEN], now: Time) -> Next {
        let (capabilities, redirection) = class_port_info(data);
        let published = Arc::make_mut(&mut self.published);
        published.capabilities = capabilities.mask;
        published.capabilities2 = capabilities.mask2;
        match redirection {
            // The target of a redirection may redirect to itself.
            Redirection::To(to) if self.redirect.as_deref() != Some(&to) => {
                self.follow_redirection(Redirection::To(to), now)
            }
            Redirection::Unusable => self.give_up(now),
            Redirection::None | Redirection::To(_) => {
                self.capabilities_at = now + CAPABILITIES_EVERY;
                Next::Continue
            }
        }
    }

    /// Records the sums of all ports, and decides whether and how the ports are read.
    fn record_sums(&mut self, request: Request, data: &[u8; PERF_DATA_LEN], now: Time) -> Next {
        let mut sample = Sample::default();
        self.capabilities().read(request, data, &mut sample);
        let before = self.sums.replace(Box::new(sample.values));
        let Some(current) = &mut self.current else {
            return Next::Wait;
        };
        current.has_read_sums = true;
        let is_full = |counter: Counter| {
            sample.narrow.has(counter) && counter.narrow_max() == Some(sample.values[counter])
        };
        // A sum at its highest value hides which counters move.
        let moves = |counter: &Counter| {
            let value = sample.values[*counter];
            let differs = before
                .as_ref()
                .is_none_or(|before| before[*counter] != value);
            sample.present.has(*counter) && (differs || is_full(*counter))
        };
        let mut errors = Counter::ALL.iter().filter(|one| !TRAFFIC.contains(one));
        let moved = errors.any(moves);
        self.has_moved |= moved && before.is_some();
        current.reads_errors |= self.has_moved || moved || moves(&Counter::XmitWait);
        current.reads_ports |= self.has_moved && now >= self.ports_not_before;
        Next::Continue
    }

    /// Records an attribute of a port, and stores the sample once no other attribute is missing.
    /// Returns whether a counter was reset.
    fn record_port(&mut self, request: Request, data: &[u8; PERF_DATA_LEN], now: Time) -> bool {
        let capabilities = self.capabilities();
        let wide_errors = self.has_wide_errors();
        let can_narrow = !self.refused.narrow;
        let Some(current) = &mut self.current else {
            return false;
        };
        let mut sample = current.partial.take().unwrap_or_default();
        capabilities.read(request, data, &mut sample);
        let needs_narrow = matches!(request, Request::Wide(_)) && !wide_errors && can_narrow;
        if needs_narrow && current.reads_errors {
            current.partial = Some(sample);
            return false;
        }
        self.store(&sample, now)
    }

    /// Stores the sample of the port at the cursor, and moves to the next port. Returns whether a
    /// counter was reset.
    fn store(&mut self, sample: &Sample, now: Time) -> bool {
        let refused = self.refused;
        let has_corrections = self.capabilities().has_corrections() && !refused.corrections;
        let Some(current) = &mut self.current else {
            return false;
        };
        let port = self.published.first.0 + current.cursor as u8;
        let key = PortKey::new(self.published.key.node, PortNum(port));
        let published = Arc::make_mut(&mut self.published);
        let Some(reading) = published.ports.get_mut(current.cursor) else {
            return false;
        };
        current.cursor += 1;
        let result = reading.record(sample, self.narrow_end, now);
        if let Some(end) = result.narrow_end {
            self.narrow_end = end;
        }
        if result.rcv_moved && !refused.rcv_causes {
            current.causes.push(Request::RcvCauses(port));
        }
        if result.xmit_moved && !refused.xmit_causes {
            current.causes.push(Request::XmitCauses(port));
        }
        let is_due = result.link_moved || reading.is_correction_due(key, now);
        if is_due && has_corrections {
            current.causes.push(Request::Corrections(port));
        }
        result.reset
    }

    fn record_causes(&mut self, request: Request, port: u8, data: &[u8; PERF_DATA_LEN], now: Time) {
        self.finish_causes_request();
        let published = Arc::make_mut(&mut self.published);
        let index = usize::from(port).wrapping_sub(published.first.index());
        let Some(reading) = published.ports.get_mut(index) else {
            return;
        };
        match request {
            Request::Corrections(_) => reading.record_corrections(Corrections::read(data), now),
            Request::RcvCauses(_) => {
                reading.set_causes(|causes| causes.rcv = Some(RcvCauses::read(data)));
            }
            _ => reading.set_causes(|causes| causes.xmit = Some(XmitCauses::read(data))),
        }
    }

    /// Removes the request for causes that the agent has just answered or refused.
    fn finish_causes_request(&mut self) {
        if let Some(current) = &mut self.current {
            current.causes.pop();
        }
    }

    /// Handles an error status: the agent does not know the attribute, or refuses the port.
    fn refuse(&mut self, request: Request, status: Status, now: Time) -> Next {
        let refuses_port = status.code() == Status::INVALID_FIELD && !request.is_of_all_ports();
        match request {
            Request::Firmware => {}
            // An agent without capabilities has at least PortCounters.
            Request::Capabilities => self.capabilities_at = now + CAPABILITIES_EVERY,
            Request::RcvCauses(_) => {
                self.refused.rcv_causes |= !refuses_port;
                self.finish_causes_request();
            }
            Request::XmitCauses(_) => {
                self.refused.xmit_causes |= !refuses_port;
                self.finish_causes_request();
            }
            Request::Corrections(_) => {
                self.refused.corrections |= !refuses_port;
                self.finish_causes_request();
            }
            _ if request.is_of_all_ports() => self.refused.sums = true,
            Request::Wide(_) | Request::Narrow(_) if refuses_port => {
                // The port is beyond the agent's last port. The counters of the other attribute are
                // kept.
                self.keep_partial(now);
            }
            Request::Wide(_) => self.refused.wide = true,
            Request::Narrow(_) => {
                self.refused.narrow = true;
                if self
                    .current
                    .as_ref()
                    .is_some_and(|current| current.partial.is_some())
                {
                    self.keep_partial(now);
                }
            }
        }
        if self.is_readable() {
            Next::Continue
        } else {
            self.give_up(now)
        }
    }

    /// Stores what is known about the port at the cursor, and moves to the next port.
    fn keep_partial(&mut self, now: Time) {
        let partial = self
            .current
            .as_mut()
            .and_then(|current| current.partial.take());
        match (partial, &mut self.current) {
            (Some(sample), _) => {
                self.store(&sample, now);
            }
            (None, Some(current)) => current.cursor += 1,
            (None, None) => {}
        }
    }
}

/// The time `every` after `at`; if that time has already passed, the time `every` after `now`.
fn next_time(at: Time, every: Duration, now: Time) -> Time {
    let next = at + every;
    if next > now { next } else { now + every }
}

/// Symbols per second that the error correction of a link can correct; zero without error
/// correction.
fn mendable_per_s(port: &Port) -> f32 {
    let rate = port.link_rate().filter(|_| port.up);
    let mendable = rate.and_then(|rate| {
        let mbps = f64::from(rate.data_mbps());
        correction::mendable_per_s(rate.speed, port.error_correction, mbps)
    });
    mendable.unwrap_or(0.0) as f32
}

/// Bytes per second that a link carries in one direction; zero if its rate is not known.
fn link_bytes(port: &Port) -> f32 {
    let rate = port.link_rate();
    rate.map_or(0.0, |rate| rate.data_mbps() as f32 * 125_000.0)
}

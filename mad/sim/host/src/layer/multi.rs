//! RMPP messages that the port sends and receives (IBA 13.6).

use std::ops::RangeInclusive;
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::MadHeader;

use super::agents::AgentId;
use super::rmpp::{
    ABORT_CODES, Acknowledged, Flags, Kind, Reception, RmppHeader, RmppStatusCode, Taken, turned,
};
use super::send::Sending;
use super::{MAX_RECEPTIONS, MadLayer, Timer};

/// The longest time for a message to arrive.
const ARRIVE_WITHIN: Duration = Duration::from_secs(40);

/// The time for which a received message is kept, so that its segments can be acknowledged again.
const REMEMBER_FOR: Duration = Duration::from_secs(10);

/// The key of an arriving message: agent, sender and transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ReceptionKey {
    agent: AgentId,
    tid: u64,
    slid: u16,
    qpn: u32,
    class: u8,
    class_version: u8,
    method: u8,
}

impl ReceptionKey {
    fn of(agent: AgentId, datagram: &Datagram) -> ReceptionKey {
        let header = MadHeader::of(&datagram.mad);
        ReceptionKey {
            agent,
            tid: header.tid().0,
            slid: datagram.remote.lid.0,
            qpn: datagram.remote.qpn,
            class: header.class().0,
            class_version: header.class_version(),
            method: header.method().0,
        }
    }

    /// The keys of every message to an agent.
    pub(super) fn all_of(agent: AgentId) -> RangeInclusive<ReceptionKey> {
        ReceptionKey::least(agent, 0)..=ReceptionKey::most(agent, u64::MAX)
    }

    /// The keys of every message to an agent in a transaction.
    fn all_in(agent: AgentId, tid: u64) -> RangeInclusive<ReceptionKey> {
        ReceptionKey::least(agent, tid)..=ReceptionKey::most(agent, tid)
    }

    /// The lowest key of a message to an agent in a transaction.
    fn least(agent: AgentId, tid: u64) -> ReceptionKey {
        ReceptionKey {
            agent,
            tid,
            slid: 0,
            qpn: 0,
            class: 0,
            class_version: 0,
            method: 0,
        }
    }

    /// The highest key of a message to an agent in a transaction.
    fn most(agent: AgentId, tid: u64) -> ReceptionKey {
        ReceptionKey {
            agent,
            tid,
            slid: u16::MAX,
            qpn: u32::MAX,
            class: u8::MAX,
            class_version: u8::MAX,
            method: u8::MAX,
        }
    }
}

impl MadLayer {
    /// Handles a datagram with an active RMPP header for an agent whose RMPP the layer does.
    /// Returns the message if it is complete now.
    pub(super) fn segment_arrived(
        &mut self,
        agent: AgentId,
        datagram: &Datagram,
        now: Time,
    ) -> Option<Vec<u8>> {
        let header = RmppHeader::of(&datagram.mad);
        if header.version != 1 {
            self.break_off(agent, datagram, RmppStatusCode::UNSUPPORTED_VERSION);
            return None;
        }
        match header.kind {
            Kind::DATA => return self.data_arrived(agent, datagram, &header, now),
            Kind::ACK => self.acknowledgement_arrived(agent, datagram, &header, now),
            Kind::STOP if header.status == RmppStatusCode::RESOURCES_EXHAUSTED => {
                self.abandon(agent, datagram);
            }
            Kind::ABORT if ABORT_CODES.contains(&header.status) => self.abandon(agent, datagram),
            Kind::STOP | Kind::ABORT => {
                self.break_off(agent, datagram, RmppStatusCode::ILLEGAL_STATUS)
            }
            _ => self.break_off(agent, datagram, RmppStatusCode::BAD_TYPE),
        }
        None
    }

    /// Handles a segment. Returns the message if it is complete now.
    fn data_arrived(
        &mut self,
        agent: AgentId,
        datagram: &Datagram,
        header: &RmppHeader,
        now: Time,
    ) -> Option<Vec<u8>> {
        let Datagram { mad, remote } = datagram;
        let is_first = header.segment.get() == 1;
        let wrong = if header.status != 0 {
            Some(RmppStatusCode::ILLEGAL_STATUS)
        } else if is_first != header.has(Flags::FIRST) {
            Some(RmppStatusCode::INCONSISTENT_FIRST)
        } else {
            None
        };
        if let Some(status) = wrong {
            self.end(mad, *remote, Kind::ABORT, status);
            return None;
        }
        let key = ReceptionKey::of(agent, datagram);
        let full = self.receptions.len() >= MAX_RECEPTIONS;
        let taken = match self.receptions.get_mut(&key) {
            Some(reception) => reception.take(mad),
            None if !is_first => return None,
            None if full => Taken::TooLong,
            None => {
                let (reception, taken) = Reception::start(mad, *remote);
                self.receptions.insert(key, reception);
                self.start_timer(Timer::Reception(key), now + ARRIVE_WITHIN);
                taken
            }
        };
        match taken {
            Taken::Nothing => None,
            Taken::Acknowledge(ack) => {
                self.emit(ack, *remote);
                None
            }
            Taken::Complete(ack, message) => {
                self.emit(ack, *remote);
                self.start_timer(Timer::Reception(key), now + REMEMBER_FOR);
                Some(message)
            }
            Taken::TooLong => {
                self.receptions.remove(&key);
                self.stop_timer(Timer::Reception(key));
                self.end(
                    mad,
                    *remote,
                    Kind::STOP,
                    RmppStatusCode::RESOURCES_EXHAUSTED,
                );
                None
            }
        }
    }

    /// Handles an acknowledgement.
    fn acknowledgement_arrived(
        &mut self,
        agent: AgentId,
        datagram: &Datagram,
        header: &RmppHeader,
        now: Time,
    ) {
        let (segment, window) = (header.segment.get(), header.length_or_window.get());
        if header.status != 0 {
            return self.break_off(agent, datagram, RmppStatusCode::ILLEGAL_STATUS);
        }
        if window < segment {
            return self.break_off(agent, datagram, RmppStatusCode::WINDOW_TOO_SMALL);
        }
        let found = self.answered(agent, datagram);
        let Some((key, pending)) = found.and_then(|key| Some((key, self.sends.get_mut(&key)?)))
        else {
            if segment == 0 {
                // The other end is ready for the answer to a message received here.
                let reception = self.receptions.get_mut(&ReceptionKey::of(agent, datagram));
                if let Some(reception) = reception.filter(|reception| reception.is_complete()) {
                    reception.answer_window = window;
                }
            }
            return;
        };
        let Sending::Multi { sender, .. } = &mut pending.kind else {
            return;
        };
        match sender.acknowledge(header) {
            Acknowledged::Nothing => {}
            Acknowledged::Wrong(status) => self.break_off(agent, datagram, status),
            Acknowledged::More { progress } => {
                if progress {
                    pending.retries_left = pending.retries_at_first();
                }
                self.send_more(key, now);
            }
            Acknowledged::All if pending.timeout.is_zero() => drop(self.finish(key)),
            Acknowledged::All => {
                let due = now + pending.timeout;
                self.start_timer(Timer::Send(key), due);
                self.turn_around(datagram);
            }
            Acknowledged::AllAgain => self.turn_around(datagram),
        }
    }

    /// Acknowledges the last acknowledgement of a request (IBA 13.6.4), so that the answer may be
    /// sent; at first only one segment of it.
    fn turn_around(&mut self, datagram: &Datagram) {
        let mut ack = turned(&datagram.mad);
        RmppHeader {
            version: 1,
            kind: Kind::ACK,
            time_and_flags: Flags::ACTIVE.0,
            status: 0,
            segment: 0.into(),
            length_or_window: 1.into(),
        }
        .put(&mut ack);
        self.emit(ack, datagram.remote);
    }

    /// Stops sending a message that the other end refused. The program gets no error, as on Linux.
    fn abandon(&mut self, agent: AgentId, datagram: &Datagram) {
        let Some(key) = self.answered(agent, datagram) else {
            return;
        };
        let is_under_way = |pending: &super::Pending| matches!(&pending.kind, Sending::Multi { sender, .. } if !sender.is_acknowledged());
        let single = |pending: &super::Pending| matches!(pending.kind, Sending::Single(_));
        if self
            .sends
            .get(&key)
            .is_some_and(|pending| is_under_way(pending) || single(pending))
        {
            self.finish(key);
        }
    }

    /// Ends a transaction at both ends because the other end violated the protocol.
    fn break_off(&mut self, agent: AgentId, datagram: &Datagram, status: u8) {
        self.abandon(agent, datagram);
        self.end(&datagram.mad, datagram.remote, Kind::ABORT, status);
    }

    /// Sends the other end the packet that ends the transaction.
    fn end(&mut self, mad: &MadBytes, remote: RemoteAddress, kind: u8, status: u8) {
        let mut end = turned(mad);
        RmppHeader {
            version: 1,
            kind,
            time_and_flags: Flags::ACTIVE.0,
            status,
            ..RmppHeader::default()
        }
        .put(&mut end);
        self.emit(end, remote);
    }

    /// Ends an arriving message that took too long, or forgets one that has arrived.
    pub(super) fn reception_is_due(&mut self, key: &ReceptionKey) {
        let Some(reception) = self.receptions.remove(key) else {
            return;
        };
        if !reception.is_complete() {
            let first = *reception.first();
            self.end(
                &first,
                reception.remote,
                Kind::ABORT,
                RmppStatusCode::TOTAL_TIME_TOO_LONG,
            );
        }
    }

    /// The number of segments of a message that the layer may send at first: 1, unless the message
    /// answers a segmented request whose sender opened a wider window.
    pub(super) fn answer_window(&self, agent: AgentId, first: &MadBytes, to: Lid) -> u32 {
        let header = MadHeader::of(first);
        if !header.method().is_response() {
            return 1;
        }
        let mut requests = self
            .receptions
            .range(ReceptionKey::all_in(agent, header.tid().0));
        requests
            .find(|(key, _)| {
                key.class == header.class().0
                    && key.class_version == header.class_version()
                    && key.slid == to.0
                    && !rsm_mad::wire::header::Method(key.method).is_response()
            })
            .map_or(1, |(_, reception)| reception.answer_window)
    }
}

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
    ABORT_CODES, Acknowledged, Flags, Kind, Reception, RmppHeader, RmppStatusCode, SegmentOutcome,
    reply_headers,
};
use super::send::Sending;
use super::{MAX_RECEPTIONS, MadLayer, Timer};

/// The maximum time between the first and the last segment of an arriving message.
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

    /// The keys of all messages to an agent.
    pub(super) fn all_of(agent: AgentId) -> RangeInclusive<ReceptionKey> {
        ReceptionKey::lowest(agent, 0)..=ReceptionKey::highest(agent, u64::MAX)
    }

    /// The keys of all messages to an agent in a transaction.
    fn all_in(agent: AgentId, tid: u64) -> RangeInclusive<ReceptionKey> {
        ReceptionKey::lowest(agent, tid)..=ReceptionKey::highest(agent, tid)
    }

    /// The lowest key of a message to an agent in a transaction.
    fn lowest(agent: AgentId, tid: u64) -> ReceptionKey {
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
    fn highest(agent: AgentId, tid: u64) -> ReceptionKey {
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
            self.abort(agent, datagram, RmppStatusCode::UNSUPPORTED_VERSION);
            return None;
        }
        match header.kind {
            Kind::DATA => return self.data_arrived(agent, datagram, &header, now),
            Kind::ACK => self.acknowledgement_arrived(agent, datagram, &header, now),
            Kind::STOP if header.status == RmppStatusCode::RESOURCES_EXHAUSTED => {
                self.stop_sending(agent, datagram);
            }
            Kind::ABORT if ABORT_CODES.contains(&header.status) => {
                self.stop_sending(agent, datagram)
            }
            Kind::STOP | Kind::ABORT => self.abort(agent, datagram, RmppStatusCode::ILLEGAL_STATUS),
            _ => self.abort(agent, datagram, RmppStatusCode::BAD_TYPE),
        }
        None
    }

    /// Handles a DATA packet. Returns the message if it is complete now.
    fn data_arrived(
        &mut self,
        agent: AgentId,
        datagram: &Datagram,
        header: &RmppHeader,
        now: Time,
    ) -> Option<Vec<u8>> {
        let Datagram { mad, remote } = datagram;
        let is_first = header.segment.get() == 1;
        let error_status = if header.status != 0 {
            Some(RmppStatusCode::ILLEGAL_STATUS)
        } else if is_first != header.has(Flags::FIRST) {
            Some(RmppStatusCode::INCONSISTENT_FIRST)
        } else {
            None
        };
        if let Some(status) = error_status {
            self.end_transaction(mad, *remote, Kind::ABORT, status);
            return None;
        }
        let key = ReceptionKey::of(agent, datagram);
        let is_full = self.receptions.len() >= MAX_RECEPTIONS;
        let outcome = match self.receptions.get_mut(&key) {
            Some(reception) => reception.handle_segment(mad),
            None if !is_first => return None,
            None if is_full => SegmentOutcome::TooLong,
            None => {
                let (reception, outcome) = Reception::start(mad, *remote);
                self.receptions.insert(key, reception);
                self.start_timer(Timer::Reception(key), now + ARRIVE_WITHIN);
                outcome
            }
        };
        match outcome {
            SegmentOutcome::Nothing => None,
            SegmentOutcome::Acknowledge(ack) => {
                self.emit(ack, *remote);
                None
            }
            SegmentOutcome::Complete(ack, message) => {
                self.emit(ack, *remote);
                self.start_timer(Timer::Reception(key), now + REMEMBER_FOR);
                Some(message)
            }
            SegmentOutcome::TooLong => {
                self.receptions.remove(&key);
                self.stop_timer(Timer::Reception(key));
                self.end_transaction(
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
            return self.abort(agent, datagram, RmppStatusCode::ILLEGAL_STATUS);
        }
        if window < segment {
            return self.abort(agent, datagram, RmppStatusCode::WINDOW_TOO_SMALL);
        }
        let key = self.matching_send(agent, datagram);
        let Some((key, pending)) = key.and_then(|key| Some((key, self.sends.get_mut(&key)?)))
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
            Acknowledged::Wrong(status) => self.abort(agent, datagram, status),
            Acknowledged::More { is_progress } => {
                if is_progress {
                    pending.retries_left = pending.requested_retries();
                }
                self.send_more(key, now);
            }
            Acknowledged::All if pending.timeout.is_zero() => drop(self.finish(key)),
            Acknowledged::All => {
                let due = now + pending.timeout;
                self.start_timer(Timer::Send(key), due);
                self.acknowledge_last_ack(datagram);
            }
            Acknowledged::AllAgain => self.acknowledge_last_ack(datagram),
        }
    }

    /// Acknowledges the last acknowledgement of a request (IBA 13.6.4), which permits the other end
    /// to send the first segment of the answer.
    fn acknowledge_last_ack(&mut self, datagram: &Datagram) {
        let mut ack = reply_headers(&datagram.mad);
        RmppHeader {
            version: 1,
            kind: Kind::ACK,
            time_and_flags: Flags::ACTIVE.0,
            status: 0,
            segment: 0.into(),
            length_or_window: 1.into(),
        }
        .write_into(&mut ack);
        self.emit(ack, datagram.remote);
    }

    /// Stops sending the message that `datagram`, a STOP or an ABORT, refuses. The program gets no
    /// error, as on Linux.
    fn stop_sending(&mut self, agent: AgentId, datagram: &Datagram) {
        let Some(key) = self.matching_send(agent, datagram) else {
            return;
        };
        let is_under_way = |pending: &super::Pending| matches!(&pending.kind, Sending::Multi { sender, .. } if !sender.is_acknowledged());
        let is_single = |pending: &super::Pending| matches!(pending.kind, Sending::Single(_));
        if self
            .sends
            .get(&key)
            .is_some_and(|pending| is_under_way(pending) || is_single(pending))
        {
            self.finish(key);
        }
    }

    /// Ends a transaction at both ends because the other end violated the protocol.
    fn abort(&mut self, agent: AgentId, datagram: &Datagram, status: u8) {
        self.stop_sending(agent, datagram);
        self.end_transaction(&datagram.mad, datagram.remote, Kind::ABORT, status);
    }

    /// Sends the other end a STOP or an ABORT (`kind`) with `status`.
    fn end_transaction(&mut self, mad: &MadBytes, remote: RemoteAddress, kind: u8, status: u8) {
        let mut end_packet = reply_headers(mad);
        RmppHeader {
            version: 1,
            kind,
            time_and_flags: Flags::ACTIVE.0,
            status,
            ..RmppHeader::default()
        }
        .write_into(&mut end_packet);
        self.emit(end_packet, remote);
    }

    /// Aborts an arriving message that took too long, or forgets a message that has arrived.
    pub(super) fn reception_is_due(&mut self, key: &ReceptionKey) {
        let Some(reception) = self.receptions.remove(key) else {
            return;
        };
        if !reception.is_complete() {
            let first = *reception.first();
            self.end_transaction(
                &first,
                reception.remote,
                Kind::ABORT,
                RmppStatusCode::TOTAL_TIME_TOO_LONG,
            );
        }
    }

    /// The number of segments of a message that the layer may send before the first
    /// acknowledgement: 1, unless the message answers a segmented request whose sender opened a
    /// wider window.
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

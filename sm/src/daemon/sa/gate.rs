//! Admits or refuses the SA's messages, on the thread that reads them, without ever waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::transport::{RemoteAddress, SaInbound, SaSink};
use rsm_mad::wire::attr::Notice;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::rmpp::{RmppHeader, RmppType};
use rsm_mad::wire::sa::{SA_HEADER_LEN, SaHeader};
use rsm_mad::wire::{MAD_LEN, MadBytes};
use rsm_sa::Statistics;

use super::TimeSource;
use super::admission::Admission;
use super::inbox::Inbox;
use super::worker::READ_AT_ONCE;

/// Maximum number of messages that wait for an answer, which take 20 MB: one request from every
/// unicast LID, and a reserve for other messages. The room admits the requests of a whole subnet
/// that starts at once. At more than a hundred thousand answers a second, the last message waits
/// half a second. A host repeats a request only after a second, and after BUSY even later.
pub(super) const ROOM: usize = LIDS + RESERVED;

/// Number of unicast LIDs (IBA 4.1.3).
const LIDS: usize = 0xBFFF;

/// Reserve for messages other than requests: acknowledgements and answers, which free room.
const RESERVED: usize = 1024;

/// Number of waiting messages above which each requester is limited to its rate: the number of
/// messages that the thread reads at once. With fewer messages, an answer takes at most a
/// millisecond.
const CONTENDED: usize = READ_AT_ONCE;

/// Message and its time of arrival.
pub(super) struct Arrival {
    pub(super) message: SaInbound,
    pub(super) at: Time,
}

/// Item for the thread of the SA.
pub(super) enum Call {
    /// A message.
    Arrival(Arrival),
    /// Notice from a port to the subnet manager.
    Notice(Box<Notice>),
    /// Number of messages from a LID that were refused since the last report, because they exceeded
    /// the LID's rate.
    Refused(Lid, u64),
    /// Wakes the thread for other work.
    Wake,
}

/// Admits messages to the inbox, or refuses them.
pub(super) struct Gate {
    pub(super) inbox: Inbox,
    pub(super) statistics: Arc<Statistics>,
    /// Whether the SA answers requests. If not, requests that find no room get no BUSY either.
    pub(super) is_serving: Arc<AtomicBool>,
    pub(super) clock: TimeSource,
}

impl Gate {
    /// Sink for the transport's SA messages.
    pub(super) fn into_sink(self) -> SaSink {
        let mut admission = Admission::new();
        Box::new(move |message| self.admit(message, &mut admission))
    }

    /// Admits a message to the inbox, or refuses it.
    fn admit(&self, message: SaInbound, admission: &mut Admission) {
        let at = (self.clock)();
        let waiting = self.inbox.waiting();
        let question = question(&message);
        let sender = sender(&message);
        let has_token = match (&question, sender) {
            (Some(_), Some(lid)) => admission.take(lid, at),
            (None, Some(lid)) => admission.take_packet(lid, at),
            (_, None) => true,
        };
        let is_above_rate = !has_token && waiting >= CONTENDED;
        let has_room = !is_above_rate && (question.is_none() || waiting < ROOM - RESERVED);
        if has_room
            && self
                .inbox
                .put(Call::Arrival(Arrival { message, at }))
                .is_ok()
        {
            return;
        }
        if is_above_rate
            && let Some(lid) = sender
            && let Some(refused) = admission.refuse(lid)
        {
            self.report(lid, refused);
        }
        match question {
            Some(question) => self.refuse(&question),
            None => self.statistics.dropped(),
        }
    }

    /// Reports refused messages for a finding.
    fn report(&self, lid: Lid, refused: u64) {
        // If the inbox is full, the next report follows when the number of refusals has doubled.
        if self.inbox.put(Call::Refused(lid, refused)).is_err() {
            self.statistics.dropped();
        }
    }

    /// Answers BUSY, if the SA answers requests.
    fn refuse(&self, question: &Question) {
        if !self.is_serving.load(Ordering::Relaxed) {
            return self.statistics.unserved();
        }
        let answer = refusal(&question.header, Status::BUSY);
        let sent = answer.zip(self.inbox.port()).is_some_and(|(answer, port)| {
            port.send(&answer, &question.remote, Duration::ZERO).is_ok()
        });
        if sent {
            self.statistics.busy();
        } else {
            self.statistics.dropped();
        }
    }
}

/// Message that needs an answer.
struct Question {
    header: SaHeader,
    remote: RemoteAddress,
}

/// Source LID of a message; `None` for a failure to send.
fn sender(what: &SaInbound) -> Option<Lid> {
    match what {
        SaInbound::Datagram(datagram) => Some(datagram.remote.lid),
        SaInbound::Message(message) => Some(message.remote.lid),
        SaInbound::SendFailed { .. } => None,
    }
}

/// Extracts the question from a message: a request, or the first packet of a multi-packet request.
fn question(what: &SaInbound) -> Option<Question> {
    let (bytes, remote) = match what {
        SaInbound::Datagram(datagram) => (&datagram.mad[..], datagram.remote),
        SaInbound::Message(message) => (&message.bytes[..], message.remote),
        SaInbound::SendFailed { .. } => return None,
    };
    let (header, _) = SaHeader::split(bytes)?;
    if !header.expects_answer() {
        return None;
    }
    let rmpp = header.rmpp();
    let is_packet = matches!(what, SaInbound::Datagram(_)) && rmpp.is_active();
    let begins = rmpp.rmpp_type() == RmppType::Data && rmpp.segment_number() == 1;
    (!is_packet || begins).then_some(Question {
        header: *header,
        remote,
    })
}

/// Answer without records, in one datagram: the answer to a request with this header, or a
/// replacement of the answer with this header. `None` if the method has no answer.
pub(super) fn refusal(header: &SaHeader, status: Status) -> Option<MadBytes> {
    let method = header.mad().method();
    let mut answer = if method.is_response() {
        let mut answer = *header;
        *answer.rmpp_mut() = RmppHeader::default();
        answer.set_attribute_offset(0).mad_mut().set_status(status);
        answer
    } else {
        // TrapRepress carries no status.
        method.response().filter(|_| method != Method::TRAP)?;
        header.response(status)
    };
    answer.set_sm_key(0);
    let mut mad = [0; MAD_LEN];
    mad[..SA_HEADER_LEN].copy_from_slice(answer.as_bytes());
    Some(mad)
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeMap;

    use parking_lot::Mutex;
    use rsm_ids::{Guid, PortNum};
    use rsm_mad::ids::Tid;
    use rsm_mad::transport::{Datagram, LocalPort, SaPort, SendError};
    use rsm_mad::wire::attr::PortState;
    use rsm_mad::wire::rmpp::RmppFlags;
    use rsm_mad::wire::sa::PathRecord;

    use super::super::inbox::inbox;
    use super::*;

    /// Port that keeps the sent messages.
    #[derive(Default)]
    struct Outbox(Mutex<Vec<(Lid, Vec<u8>)>>);

    impl SaPort for Outbox {
        fn does_rmpp(&self) -> bool {
            false
        }

        fn send(&self, bytes: &[u8], remote: &RemoteAddress, _: Duration) -> Result<(), SendError> {
            self.0.lock().push((remote.lid, bytes.to_vec()));
            Ok(())
        }

        fn local_port(&self) -> LocalPort {
            LocalPort {
                ca: "none".to_owned(),
                port: PortNum(1),
                node_guid: Guid::ZERO,
                port_guid: Guid::ZERO,
                lid: Lid(1),
                sm_lid: Lid(1),
                state: PortState::Active,
            }
        }
    }

    fn datagram(lid: u16, method: Method, change: impl FnOnce(&mut RmppHeader)) -> SaInbound {
        let mut header = SaHeader::request::<PathRecord>(method, Tid(7));
        header.set_sm_key(99);
        change(header.rmpp_mut());
        let mut mad = [0xEE; MAD_LEN];
        mad[..SA_HEADER_LEN].copy_from_slice(header.as_bytes());
        let remote = RemoteAddress::gsi(Lid(lid), 0);
        SaInbound::Datagram(Box::new(Datagram { mad, remote }))
    }

    fn ask(lid: u16) -> SaInbound {
        datagram(lid, Method::GET_TABLE, |_| ())
    }

    #[test]
    fn flooding_requester_gets_busy_and_others_are_admitted() {
        let (inbox, calls) = inbox(ROOM);
        let outbox = Arc::new(Outbox::default());
        let statistics = Arc::new(Statistics::default());
        let port: Arc<dyn SaPort> = outbox.clone();
        inbox.attach(&port);
        let gate = Gate {
            inbox,
            statistics: Arc::clone(&statistics),
            is_serving: Arc::new(AtomicBool::new(true)),
            clock: Arc::new(|| Time::from_nanos(1)),
        };
        let mut sink = gate.into_sink();
        let flood = 100_000;
        for _ in 0..flood {
            sink(ask(5));
        }
        let refused = outbox.0.lock().len();
        // Expects the uncontended room, a burst, and the tokens that the rate has added meanwhile.
        assert!((CONTENDED..ROOM / 2).contains(&(flood - refused)));
        assert_eq!(statistics.counters().busy, refused as u64);

        let (lid, answer) = outbox.0.lock().pop().unwrap();
        let (header, data) = SaHeader::split(&answer).unwrap();
        assert_eq!(lid, Lid(5));
        assert_eq!(header.mad().method(), Method::GET_TABLE_RESPONSE);
        assert_eq!(header.mad().status(), Status::BUSY);
        assert_eq!((header.mad().tid(), header.sm_key()), (Tid(7), 0));
        assert_eq!(*data, [0; 200]);

        // Other requesters are admitted while the flooding requester is refused.
        let before = outbox.0.lock().len();
        for lid in 100..200 {
            sink(ask(lid));
        }
        assert_eq!(outbox.0.lock().len(), before);
        // The room fills up although no requester exceeds its rate.
        for round in 0..600 {
            for lid in 1000..1100 {
                sink(ask(lid + round));
            }
        }
        assert!(outbox.0.lock().len() > before);
        let mut reported = BTreeMap::<u16, u64>::new();
        let mut take_all = || {
            let calls = std::iter::from_fn(|| calls.try_take().ok());
            let of_arrivals = calls.filter(|call| match call {
                Call::Refused(lid, refused) => {
                    *reported.entry(lid.0).or_default() += refused;
                    false
                }
                _ => true,
            });
            of_arrivals.count()
        };
        let waiting = take_all();
        let reports = ROOM - RESERVED - waiting;
        assert!((1..100).contains(&reports), "{reports}");

        // An acknowledgement finds room when requests do not, and gets no answer; a flood of
        // acknowledgements finds none.
        let before = outbox.0.lock().len();
        let ack = |lid| {
            datagram(lid, Method::GET_TABLE, |rmpp| {
                rmpp.set_flags(RmppFlags::ACTIVE)
                    .set_rmpp_type(RmppType::Ack);
            })
        };
        for lid in 0..ROOM as u16 {
            sink(ack(2000 + lid % 40_000));
        }
        assert_eq!(take_all(), ROOM);
        for _ in 0..ROOM {
            sink(ack(5));
        }
        let admitted = take_all();
        assert!((CONTENDED..ROOM / 2).contains(&admitted), "{admitted}");
        assert_eq!(outbox.0.lock().len(), before);
        // Only the flooding requester is reported, with at least half of the refused messages.
        assert_eq!(reported.keys().copied().collect::<Vec<_>>(), [5]);
        assert!(2 * reported[&5] > refused as u64);
    }

    #[test]
    fn only_requests_with_an_answer_are_refused() {
        let asked = |what| question(&what).and_then(|q| refusal(&q.header, Status::BUSY));
        assert!(asked(datagram(1, Method::GET, |_| ())).is_some());
        assert!(asked(datagram(1, Method::REPORT_RESPONSE, |_| ())).is_none());
        assert!(asked(datagram(1, Method::TRAP_REPRESS, |_| ())).is_none());
        assert!(asked(datagram(1, Method::TRAP, |_| ())).is_none());
        assert!(asked(datagram(1, Method(0x55), |_| ())).is_none());
        for (segment, answered) in [(1, true), (2, false)] {
            let data = datagram(1, Method::GET_MULTI, |rmpp| {
                rmpp.set_flags(RmppFlags::ACTIVE)
                    .set_rmpp_type(RmppType::Data)
                    .set_segment_number(segment);
            });
            assert_eq!(asked(data).is_some(), answered);
        }
        let failed = SaInbound::SendFailed {
            tid: Tid(1),
            kind: rsm_mad::transport::SendFailure::TimedOut,
        };
        assert!(question(&failed).is_none());
    }
}

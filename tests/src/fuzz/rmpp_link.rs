//! Fuzzes both ends of RMPP, with an arbitrary fate for each packet between the ends. Either a
//! message arrives complete and once, or an end reports the failure; afterwards, both ends forget
//! the transfer.
//!
//! An input begins with a head of six bytes: flags, window, request length (two bytes) and answer
//! length (two bytes). Flag bit 0 sends the request by RMPP; flag bit 1 streams the answer. One
//! byte for each packet follows, which determines whether the packet is lost, duplicated, late or
//! corrupted. Packets after the last byte arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::client::rmpp::{Rmpp, RmppConfig};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{
    Datagram, Message, Outgoing, Records, RemoteAddress, SA_HEADER_LEN, Streamed,
};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::rmpp::RmppFlags;
use rsm_mad::wire::sa::{PathRecord, SaHeader};

use super::Seed;
use super::bytes::Bytes;

const CLIENT: Lid = Lid(1);
const SERVER: Lid = Lid(2);

/// The time for which the client waits for an answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// The time from sending a packet to its arrival, unless the packet is late.
const LATENCY: Duration = Duration::from_micros(10);

/// The maximum number of packets and deadlines without an event: far more than the longest message
/// needs if every segment takes all retries.
const MAX_STEPS: usize = 200_000;

/// The fate of a packet, selected by the low four bits of its byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    OnTime,
    Lost,
    Duplicated,
    /// Delayed by up to 60 times [`LATENCY`], by the high four bits of the byte.
    Late,
    Corrupted,
}

impl Fate {
    /// The fate that a byte of the input selects; most bytes let the packet arrive.
    fn of(byte: u8) -> Fate {
        match byte & 0x0F {
            1 | 2 => Fate::Lost,
            3 => Fate::Duplicated,
            4 | 5 => Fate::Late,
            6 => Fate::Corrupted,
            _ => Fate::OnTime,
        }
    }
}

/// The two ends, and the packets between them.
struct Link<'a> {
    now: Time,
    /// The ends by LID.
    ends: BTreeMap<Lid, Rmpp>,
    /// The bytes that determine the fates of the next packets.
    fates: Bytes<'a>,
    /// The packets in flight, each with its sender and its receiver, by time of arrival and then in
    /// the order of sending.
    flights: BTreeMap<(Time, usize), (Lid, Lid, MadBytes)>,
    /// The number of packets sent so far, without lost packets.
    sent: usize,
    /// Whether a packet was corrupted: an end may then receive data that the other end did not
    /// send.
    corrupted: bool,
}

/// Runs an input: the client sends one request, and the server answers it.
///
/// # Panics
///
/// A message neither arrives complete and once nor fails, or an end keeps the transfer.
pub(super) fn run(input: &[u8]) {
    let mut input = Bytes(input);
    let Some([flags, window, request_1, request_0, answer_1, answer_0]) = input.padded::<6>()
    else {
        return;
    };
    let request_length = usize::from(u16::from_be_bytes([request_1, request_0])) % 5000;
    let answer_length = usize::from(u16::from_be_bytes([answer_1, answer_0]));
    let config = RmppConfig {
        window: u32::from(window).max(1),
        ..RmppConfig::default()
    };
    let mut link = Link {
        now: Time::ZERO,
        ends: [CLIENT, SERVER]
            .map(|lid| (lid, Rmpp::new(config.clone())))
            .into(),
        fates: input,
        flights: BTreeMap::new(),
        sent: 0,
        corrupted: false,
    };
    let by_rmpp = flags & 1 != 0;
    let method = if by_rmpp {
        Method::GET_MULTI
    } else {
        Method::GET_TABLE
    };
    let request_length = if by_rmpp {
        request_length
    } else {
        // A request without RMPP fits into one packet.
        request_length % 201
    };
    let request = message(method, by_rmpp, &pattern(request_length), SERVER);
    let client = link.ends.get_mut(&CLIENT).expect("the link has two ends");
    let sent = client.send(request, ANSWER_LIMIT, link.now);
    sent.expect("the client has room for one request");
    let is_streamed = flags & 2 != 0;
    let (mut answers, mut failures) = (0, 0);
    while let Some((end, event)) = link.next_event() {
        match event {
            Event::Message(arrived) if end == SERVER => {
                if !link.corrupted && by_rmpp {
                    assert_eq!(arrived.data(), pattern(request_length));
                }
                link.answer(&arrived, answer_length, is_streamed);
            }
            Event::Message(arrived) => {
                answers += 1;
                assert!(link.corrupted || arrived.data() == pattern(answer_length));
            }
            Event::Failed(is_responder) if end == CLIENT && !is_responder => failures += 1,
            Event::Failed(_) => {}
        }
    }
    assert!(
        link.corrupted || answers + failures == 1,
        "{answers} answers and {failures} failures"
    );
    for (lid, end) in &link.ends {
        assert_eq!(end.stats().transactions, 0, "{lid}");
    }
}

/// An event at one end.
enum Event {
    Message(Message),
    /// A failed transfer: true if this end answers a request, false if it makes the request.
    Failed(bool),
}

impl Link<'_> {
    /// Runs until an end has an event; `None` if no packet or deadline is left.
    fn next_event(&mut self) -> Option<(Lid, Event)> {
        for _ in 0..MAX_STEPS {
            for (&lid, end) in &mut self.ends {
                if let Some(message) = end.poll_message() {
                    return Some((lid, Event::Message(message)));
                }
                if let Some(failed) = end.poll_failure() {
                    return Some((lid, Event::Failed(failed.key.answers)));
                }
            }
            self.transmit();
            let arrival = self.flights.keys().next().map(|&(time, _)| time);
            let deadline = self.ends.values().filter_map(Rmpp::next_deadline).min();
            let next_time = arrival.into_iter().chain(deadline).min()?;
            self.now = self.now.max(next_time);
            match self.flights.first_entry() {
                Some(flight) if flight.key().0 <= next_time => {
                    let (from, to, mad) = flight.remove();
                    let remote = RemoteAddress::gsi(from, 0);
                    let end = self.ends.get_mut(&to).expect("the link has two ends");
                    end.handle(&Datagram { mad, remote }, self.now);
                }
                _ => {
                    for end in self.ends.values_mut() {
                        end.handle_deadline(self.now);
                    }
                }
            }
        }
        panic!("no event after {MAX_STEPS} steps");
    }

    /// Sends the packets that the ends have ready.
    fn transmit(&mut self) {
        for from in [CLIENT, SERVER] {
            let end = self.ends.get_mut(&from).expect("the link has two ends");
            let sent: Vec<Datagram> = std::iter::from_fn(|| end.poll_transmit(self.now))
                .map(|transmit| transmit.datagram)
                .collect();
            for datagram in sent {
                self.launch(from, datagram);
            }
        }
    }

    /// Sends a packet from the end `from`; the next byte of the input determines the packet's fate.
    fn launch(&mut self, from: Lid, datagram: Datagram) {
        let byte = self.fates.byte().unwrap_or(0);
        let (mut mad, to) = (datagram.mad, datagram.remote.lid);
        let mut arrival = self.now + LATENCY;
        let copies = match Fate::of(byte) {
            Fate::OnTime => 1,
            Fate::Lost => 0,
            Fate::Duplicated => 2,
            Fate::Late => {
                arrival += LATENCY * 4 * u32::from(byte >> 4);
                1
            }
            Fate::Corrupted => {
                self.corrupted = true;
                // The corrupted byte belongs to the RMPP header or precedes it.
                mad[usize::from(byte >> 4) + 20] ^= byte;
                1
            }
        };
        for _ in 0..copies {
            self.sent += 1;
            self.flights.insert((arrival, self.sent), (from, to, mad));
        }
    }

    /// Lets the server send an answer of `length` bytes.
    fn answer(&mut self, request: &Message, length: usize, is_streamed: bool) {
        let header = request.header().expect("the request is complete");
        let Some(method) = header.method().response() else {
            return;
        };
        let mut answer = message(method, true, &pattern(length), request.remote.lid);
        answer.bytes[8..16].copy_from_slice(&header.tid().0.to_be_bytes());
        let outgoing = if is_streamed {
            let headers = answer
                .bytes
                .first_chunk()
                .expect("the answer begins with its headers");
            let records: Vec<[u8; 1]> = answer.data().iter().map(|&byte| [byte]).collect();
            Outgoing::Streamed(Streamed {
                header: *headers,
                data: Box::new(Records::new(records.into_iter())),
                remote: answer.remote,
            })
        } else {
            answer.into()
        };
        // `send` refuses a second answer to a repeated request.
        let server = self.ends.get_mut(&SERVER).expect("the link has two ends");
        let _ = server.send(outgoing, Duration::ZERO, self.now);
    }
}

/// Data of `length` bytes in which no two segments are equal.
fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|index| (index ^ ((index >> 8) * 31)) as u8)
        .collect()
}

/// A message to `lid`, with the flag of an active RMPP header if `by_rmpp`.
fn message(method: Method, by_rmpp: bool, data: &[u8], lid: Lid) -> Message {
    let mut header = SaHeader::request::<PathRecord>(method, Tid(0x77));
    if by_rmpp {
        header.rmpp_mut().set_flags(RmppFlags::ACTIVE);
    }
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(data);
    debug_assert!(bytes.len() >= SA_HEADER_LEN);
    Message {
        bytes,
        remote: RemoteAddress::gsi(lid, 0),
    }
}

/// The inputs from which fuzzing starts.
pub(super) fn seeds() -> Vec<Seed> {
    let head = |flags: u8, window: u8, request_length: u16, answer_length: u16| -> Vec<u8> {
        let mut head = vec![flags, window];
        head.extend_from_slice(&request_length.to_be_bytes());
        head.extend_from_slice(&answer_length.to_be_bytes());
        head
    };
    let with_fates = |mut head: Vec<u8>, fates: &[u8]| {
        head.extend_from_slice(fates);
        head
    };
    [
        ("quiet", head(0, 32, 64, 3000)),
        ("streamed", head(2, 32, 64, 9000)),
        ("both-ways", head(3, 8, 3000, 9000)),
        (
            "loss",
            with_fates(head(1, 32, 900, 2000), &[0, 1, 0, 0, 1, 0, 2, 0, 1]),
        ),
        (
            "late",
            with_fates(
                head(3, 4, 2000, 2000),
                &[0x44, 0, 0x24, 3, 0x84, 0xF5, 0, 3, 3],
            ),
        ),
        (
            "lies",
            with_fates(
                head(3, 4, 2000, 2000),
                &[0, 0, 0x66, 0, 0, 0x76, 0, 0x86, 0x96, 0xA6],
            ),
        ),
        ("dead", with_fates(head(3, 32, 2000, 2000), &[1; 300])),
    ]
    .map(|(name, bytes)| Seed::new(name, bytes))
    .into()
}

//! A server and its clients with a link between them that loses, duplicates and reorders packets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::client::rmpp::{Failed, Rmpp, RmppConfig};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{
    Datagram, Message, Outgoing, Records, RemoteAddress, SA_HEADER_LEN, Streamed,
};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{Class, MadHeader, Method};
use rsm_mad::wire::rmpp::{RmppFlags, RmppHeader};
use zerocopy::{FromBytes, IntoBytes};

pub(crate) const SERVER: Lid = Lid(1);
pub(crate) const CLIENT: Lid = Lid(2);

/// The time that a client waits for an answer.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The headers of a message. If `has_rmpp` is set, the RMPP header is active.
pub(crate) fn headers(method: Method, tid: u64, has_rmpp: bool) -> [u8; SA_HEADER_LEN] {
    let mut bytes = [0; SA_HEADER_LEN];
    let (header, after_header) = MadHeader::mut_from_prefix(&mut bytes).unwrap();
    header
        .set_base_version(1)
        .set_class(Class::SUBNET_ADMINISTRATION)
        .set_class_version(2)
        .set_method(method)
        .set_tid(Tid(tid));
    let (rmpp, class) = RmppHeader::mut_from_prefix(after_header).unwrap();
    if has_rmpp {
        rmpp.set_flags(RmppFlags::ACTIVE);
    }
    class.fill(0xCC);
    bytes
}

pub(crate) fn message(method: Method, tid: u64, data: &[u8], lid: Lid, has_rmpp: bool) -> Message {
    let mut bytes = headers(method, tid, has_rmpp).to_vec();
    bytes.extend_from_slice(data);
    Message {
        bytes,
        remote: RemoteAddress::gsi(lid, 0),
    }
}

/// `length` bytes of data in which no segment equals another.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at ^ ((at >> 8) * 31)) as u8)
        .collect()
}

/// A request that contains the length of its answer. With `extra`, it is segmented, and `extra`
/// more bytes follow.
pub(crate) fn question(tid: u64, answer: u32, extra: Option<usize>) -> Message {
    let mut data = answer.to_be_bytes().to_vec();
    let method = match extra {
        Some(extra) => {
            data.extend(pattern(extra));
            Method::GET_MULTI
        }
        None => Method::GET_TABLE,
    };
    message(method, tid, &data, SERVER, extra.is_some())
}

/// The header of an RMPP packet.
pub(crate) fn rmpp_of(mad: &MadBytes) -> &RmppHeader {
    RmppHeader::of(mad)
}

/// The random number generator SplitMix64: small, and equal on every machine.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn percent(&mut self, chance: u32) -> bool {
        self.next() % 100 < u64::from(chance)
    }
}

/// The faults of the link in percent, and the extent to which it reorders packets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link {
    pub(crate) loss: u32,
    pub(crate) duplicate: u32,
    pub(crate) jitter: Duration,
}

const LATENCY: Duration = Duration::from_micros(10);

/// A packet on the wire.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PacketOnWire {
    to: Lid,
    from: Lid,
    mad: Box<MadBytes>,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) server: Rmpp,
    pub(crate) clients: BTreeMap<Lid, Rmpp>,
    /// The answers that reached the clients.
    pub(crate) answers: Vec<(Lid, Message)>,
    pub(crate) failures: Vec<(Lid, Failed)>,
    /// The requests that reached the server.
    pub(crate) requests_received: Vec<Message>,
    /// Every packet that was sent, with its sender.
    pub(crate) transcript: Vec<(Time, Lid, MadBytes)>,
    /// Whether the server produces its answers while it sends them.
    pub(crate) has_streamed_answers: bool,
    pub(crate) link: Link,
    random: Random,
    packets_on_wire: BinaryHeap<Reverse<(Time, u64, PacketOnWire)>>,
    next_order: u64,
}

impl World {
    pub(crate) fn new(config: RmppConfig, link: Link, seed: u64) -> World {
        // The limit applies to the server only; clients receive tables.
        let client = RmppConfig {
            max_received: 64 << 20,
            ..config.clone()
        };
        World {
            now: Time::from_nanos(1),
            server: Rmpp::new(config),
            clients: BTreeMap::from([(CLIENT, Rmpp::new(client))]),
            answers: Vec::new(),
            failures: Vec::new(),
            requests_received: Vec::new(),
            transcript: Vec::new(),
            has_streamed_answers: false,
            link,
            random: Random(seed),
            packets_on_wire: BinaryHeap::new(),
            next_order: 0,
        }
    }

    pub(crate) fn ask(&mut self, question: Message) {
        let client = self.clients.get_mut(&CLIENT).unwrap();
        client.send(question, ANSWER_TIMEOUT, self.now).unwrap();
    }

    /// Runs until no event is left.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000_000u32 {
            self.transmit();
            if !self.step(Time::MAX) {
                return;
            }
        }
        panic!("the transfers do not end");
    }

    /// Runs up to `end`.
    pub(crate) fn run_until(&mut self, end: Time) {
        loop {
            self.transmit();
            if !self.step(end) {
                return;
            }
        }
    }

    fn transmit(&mut self) {
        while let Some(sent) = self.server.poll_transmit(self.now) {
            self.put_on_wire(SERVER, &sent.datagram);
        }
        let lids: Vec<Lid> = self.clients.keys().copied().collect();
        for lid in lids {
            while let Some(sent) = self.clients.get_mut(&lid).unwrap().poll_transmit(self.now) {
                self.put_on_wire(lid, &sent.datagram);
            }
        }
    }

    fn put_on_wire(&mut self, from: Lid, datagram: &Datagram) {
        self.transcript.push((self.now, from, datagram.mad));
        let copies = if self.random.percent(self.link.loss) {
            0
        } else if self.random.percent(self.link.duplicate) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let jitter_bound = self.link.jitter.as_nanos() as u64 + 1;
            let jitter = Duration::from_nanos(self.random.next() % jitter_bound);
            self.next_order += 1;
            let on_wire = PacketOnWire {
                to: datagram.remote.lid,
                from,
                mad: Box::new(datagram.mad),
            };
            let due = self.now + LATENCY + jitter;
            self.packets_on_wire
                .push(Reverse((due, self.next_order, on_wire)));
        }
    }

    /// Runs the next event up to `end`. Returns whether an event occurred.
    fn step(&mut self, end: Time) -> bool {
        let arrival = self.packets_on_wire.peek().map(|Reverse((time, ..))| *time);
        let deadlines = self.clients.values().filter_map(Rmpp::next_deadline);
        let deadline = deadlines.chain(self.server.next_deadline()).min();
        let Some(next) = arrival.into_iter().chain(deadline).min() else {
            return false;
        };
        if next > end {
            return false;
        }
        self.now = self.now.max(next);
        if arrival.is_some_and(|arrival| arrival <= next) {
            let Reverse((_, _, on_wire)) = self.packets_on_wire.pop().unwrap();
            let datagram = Datagram {
                mad: *on_wire.mad,
                remote: RemoteAddress::gsi(on_wire.from, 0),
            };
            if on_wire.to == SERVER {
                self.server.handle(&datagram, self.now);
            } else if let Some(client) = self.clients.get_mut(&on_wire.to) {
                client.handle(&datagram, self.now);
            }
        } else {
            self.server.handle_deadline(self.now);
            for client in self.clients.values_mut() {
                client.handle_deadline(self.now);
            }
        }
        self.collect_messages();
        true
    }

    fn collect_messages(&mut self) {
        while let Some(question) = self.server.poll_message() {
            self.answer(&question);
            self.requests_received.push(question);
        }
        while let Some(failed) = self.server.poll_failure() {
            self.failures.push((SERVER, failed));
        }
        for (&lid, client) in &mut self.clients {
            while let Some(message) = client.poll_message() {
                self.answers.push((lid, message));
            }
            while let Some(failed) = client.poll_failure() {
                self.failures.push((lid, failed));
            }
        }
    }

    fn answer(&mut self, question: &Message) {
        let header = question.header().unwrap();
        let Some(method) = header.method().response() else {
            return;
        };
        let length = u32::from_be_bytes(*question.data().first_chunk().unwrap()) as usize;
        let data = pattern(length);
        let (tid, remote) = (header.tid().0, question.remote);
        let answer = if self.has_streamed_answers {
            let records: Vec<[u8; 1]> = data.iter().map(|&byte| [byte]).collect();
            Outgoing::Streamed(Streamed {
                header: headers(method, tid, true),
                data: Box::new(Records::new(records.into_iter())),
                remote,
            })
        } else {
            message(method, tid, &data, remote.lid, true).into()
        };
        // RMPP refuses the answer to a repeated request while the first answer is being sent.
        let _ = self.server.send(answer, Duration::ZERO, self.now);
    }
}

/// A packet without data; `change` sets its RMPP header.
pub(crate) fn packet(method: Method, tid: u64, change: impl FnOnce(&mut RmppHeader)) -> MadBytes {
    let mut mad = [0; 256];
    mad[..SA_HEADER_LEN].copy_from_slice(&headers(method, tid, true));
    let (rmpp, _) = RmppHeader::mut_from_prefix(&mut mad[24..]).unwrap();
    rmpp.set_version(1);
    change(rmpp);
    debug_assert_eq!(rmpp.as_bytes().len(), RmppHeader::LEN);
    mad
}

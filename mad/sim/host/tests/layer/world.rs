//! Two hosts with a wire between them, in virtual time.

use std::collections::VecDeque;
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::MadBytes;
use rsm_sim_host::abi::{HEADER_LEN, UserMadHeader};
use rsm_sim_host::layer::{FileId, LayerEffect, MadLayer, ReadResult, Registration};
use zerocopy::{FromBytes, IntoBytes};

/// The management class of the SA.
pub(super) const SA: u8 = 0x03;
pub(super) const GET: u8 = 0x01;
pub(super) const GET_RESP: u8 = 0x81;
pub(super) const GET_TABLE: u8 = 0x12;
pub(super) const GET_TABLE_RESP: u8 = 0x92;

/// The time for which a datagram is on the wire.
pub(super) const LATENCY: Duration = Duration::from_micros(10);

/// A function of the index and the content of a datagram on the wire; it returns how many copies
/// arrive.
pub(super) type CopyCount = Box<dyn FnMut(usize, &Datagram) -> usize>;

/// Two ports, with LIDs 1 and 2, and the wire between them.
pub(super) struct World {
    pub(super) hosts: [MadLayer; 2],
    pub(super) now: Time,
    /// The datagrams on the wire, each with the time of arrival and the index of the receiver.
    wire: VecDeque<(Time, usize, Datagram)>,
    /// The number of datagrams that were put on the wire.
    sent_count: usize,
    /// The function that returns how many copies of a datagram arrive: 1 without faults.
    pub(super) copies_of: CopyCount,
    /// The messages that programs received, by host; a test removes the messages that it has
    /// checked.
    pub(super) read: [Vec<(FileId, ReadResult)>; 2],
    /// For each sender, every datagram that was put on the wire.
    pub(super) sent: [Vec<Datagram>; 2],
}

impl World {
    pub(super) fn new() -> World {
        World {
            hosts: [MadLayer::new(), MadLayer::new()],
            now: Time::ZERO,
            wire: VecDeque::new(),
            sent_count: 0,
            copies_of: Box::new(|_, _| 1),
            read: [Vec::new(), Vec::new()],
            sent: [Vec::new(), Vec::new()],
        }
    }

    /// Opens a device with the current header and registers one agent.
    pub(super) fn agent(&mut self, host: usize, wanted: &Registration) -> (FileId, u32) {
        let file = self.hosts[host].open();
        self.hosts[host].enable_pkey(file).unwrap();
        let id = self.hosts[host].register(file, wanted, false).unwrap();
        (file, id)
    }

    pub(super) fn write(&mut self, host: usize, file: FileId, bytes: &[u8]) {
        self.hosts[host].write(file, bytes, self.now).unwrap();
        self.execute_effects();
    }

    /// Executes the effects of the layers.
    pub(super) fn execute_effects(&mut self) {
        for host in 0..2 {
            while let Some(effect) = self.hosts[host].poll_effect() {
                match effect {
                    LayerEffect::Deliver(file, result) => self.read[host].push((file, result)),
                    LayerEffect::Send(mut datagram) => {
                        self.sent[host].push(datagram);
                        self.sent_count += 1;
                        let copies = (self.copies_of)(self.sent_count, &datagram);
                        let to = usize::from(datagram.remote.lid.0 - 1);
                        datagram.remote.lid = Lid(host as u16 + 1);
                        for _ in 0..copies {
                            self.wire.push_back((self.now + LATENCY, to, datagram));
                        }
                    }
                }
            }
        }
    }

    /// Advances time up to `until`, or until no event is left.
    pub(super) fn run(&mut self, until: Time) {
        loop {
            let deadlines = self.hosts.iter().filter_map(MadLayer::next_deadline);
            let arrivals = self.wire.iter().map(|(at, ..)| *at);
            let Some(next) = deadlines
                .chain(arrivals)
                .min()
                .filter(|next| *next <= until)
            else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            while let Some(position) = self.wire.iter().position(|(at, ..)| *at <= self.now) {
                let (_, to, datagram) = self.wire.remove(position).unwrap();
                self.hosts[to].receive(&datagram, self.now);
                self.execute_effects();
            }
            for host in &mut self.hosts {
                host.tick(self.now);
            }
            self.execute_effects();
        }
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        self.run(self.now + time);
    }

    /// Removes and returns the only message to read at a host.
    pub(super) fn only_read(&mut self, host: usize) -> (UserMadHeader, Vec<u8>) {
        let (_, result) = self.read[host].pop().unwrap();
        assert!(self.read[host].is_empty(), "{:?}", self.read[host]);
        split_result(&result)
    }
}

/// The registration of an agent for the class of the SA: a server for the methods whose bits are
/// set, or a client if no bit is set.
pub(super) fn sa(methods: u128) -> Registration {
    Registration {
        qpn: 1,
        class: SA,
        version: 2,
        methods,
        rmpp_version: 1,
        ..Registration::default()
    }
}

/// The bits of the methods of a server.
pub(super) const SERVES: u128 = 1 << GET | 1 << GET_TABLE;

/// A message that a program writes.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) id: u32,
    pub(super) lid: u16,
    pub(super) timeout_ms: u32,
    pub(super) retries: u32,
}

impl Written {
    pub(super) fn bytes(&self, message: &[u8]) -> Vec<u8> {
        let header = UserMadHeader {
            id: self.id,
            timeout_ms: self.timeout_ms,
            retries: self.retries,
            lid: self.lid.into(),
            qpn: 1.into(),
            ..UserMadHeader::default()
        };
        [header.as_bytes(), message].concat()
    }
}

/// A message of the SA with `len` bytes of data. If `is_segmented` is set, its RMPP header is
/// active.
pub(super) fn message(method: u8, tid: u64, len: usize, is_segmented: bool) -> Vec<u8> {
    let mut message = vec![0; 56 + len];
    message[..4].copy_from_slice(&[1, SA, 2, method]);
    message[8..16].copy_from_slice(&tid.to_be_bytes());
    message[26] = u8::from(is_segmented);
    for (index, byte) in message[56..].iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    message
}

pub(super) fn tid_of(message: &[u8]) -> u64 {
    u64::from_be_bytes(message[8..16].try_into().unwrap())
}

/// The header and the message of a [`ReadResult`].
pub(super) fn split_result(result: &ReadResult) -> (UserMadHeader, Vec<u8>) {
    let header = UserMadHeader::read_from_bytes(&result.bytes[..HEADER_LEN]).unwrap();
    (header, result.bytes[HEADER_LEN..].to_vec())
}

/// A datagram as it arrives from the other host.
pub(super) fn arrived(mad: MadBytes) -> Datagram {
    Datagram {
        mad,
        remote: RemoteAddress::gsi(Lid(2), 0),
    }
}

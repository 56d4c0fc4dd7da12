//! Fuzzes one end of RMPP with arbitrary packets: the end must not panic or grow, and every
//! transfer must end.
//!
//! An input is a sequence of steps of 16 bytes: the action, the peer, and numbers.

use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::client::rmpp::{MAX_SEND_WINDOW, Rmpp, RmppConfig};
use rsm_mad::ids::Tid;
use rsm_mad::transport::{
    Datagram, Message, Outgoing, Records, RemoteAddress, SA_HEADER_LEN, Streamed,
};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::rmpp::{RmppFlags, RmppHeader, RmppStatus, RmppType};
use rsm_mad::wire::sa::{PathRecord, SaHeader, SaMad};

use super::Seed;
use super::bytes::Bytes;

/// The maximum number of transactions: small, so that inputs reach the bounds.
const MAX_TRANSACTIONS: usize = 5;
/// The maximum number of transactions of one peer.
const MAX_PER_CLIENT: usize = 3;
/// The maximum number of bytes of a received message.
const MAX_RECEIVED: usize = 2000;

/// The maximum number of deadlines after the last packet, far above the number that occurs: one for
/// each attempt of every transfer, and one for the end of the transfer.
const MAX_DEADLINES: usize = 1000;

/// The action that receives a packet of RMPP.
const PACKET: u8 = 0;
/// The action that receives arbitrary bytes.
const NOISE: u8 = 1;
/// The action that sends an answer.
const ANSWER: u8 = 2;
/// The action that sends an answer whose data are produced during sending.
const STREAM: u8 = 3;
/// The action that sends a request.
const REQUEST: u8 = 4;
/// The action that advances the time.
const WAIT: u8 = 5;
/// The number of actions.
const NUM_ACTIONS: u8 = 6;

/// Runs one input.
pub(super) fn run(input: &[u8]) {
    let config = RmppConfig {
        max_transactions: MAX_TRANSACTIONS,
        max_per_client: MAX_PER_CLIENT,
        max_received: MAX_RECEIVED,
        ..RmppConfig::default()
    };
    let mut rmpp = Rmpp::new(config.clone());
    let mut now = Time::ZERO;
    let mut input = Bytes(input);
    while let Some(step) = input.padded::<16>() {
        execute(&mut rmpp, &step, &mut now);
        assert!(rmpp.stats().transactions <= MAX_TRANSACTIONS);
        drain(&mut rmpp, now);
    }
    // Without further packets, every transfer ends within its configured time.
    let longest = config.total_time + config.linger + Duration::from_secs(1);
    let last = now + longest;
    for _ in 0..MAX_DEADLINES {
        let Some(next) = rmpp.next_deadline() else {
            assert_eq!(rmpp.stats().transactions, 0);
            return;
        };
        assert!(next > now, "the deadline {next:?} has passed already");
        assert!(next <= last, "{next:?} is long after {now:?}");
        now = next;
        rmpp.handle_deadline(now);
        drain(&mut rmpp, now);
    }
    panic!("more than {MAX_DEADLINES} deadlines after the last packet");
}

/// Executes one step.
fn execute(rmpp: &mut Rmpp, step: &[u8; 16], now: &mut Time) {
    let remote = RemoteAddress::gsi(Lid(u16::from(step[1] % 4) + 1), 0);
    let tid = Tid(u64::from(step[1] >> 4 & 3));
    let method = [
        Method::GET_TABLE,
        Method::GET_MULTI,
        Method::GET_TABLE_RESPONSE,
        Method::GET_MULTI_RESPONSE,
    ][usize::from(step[2] % 4)];
    let length = usize::from(u16::from_be_bytes([step[14], step[15]])) % 40_000;
    match step[0] % NUM_ACTIONS {
        PACKET | NOISE => {
            let mad = if step[0] % NUM_ACTIONS == PACKET {
                packet(step, method, tid)
            } else {
                std::array::from_fn(|at| step[at % 16] ^ (at / 16) as u8)
            };
            rmpp.handle(&Datagram { mad, remote }, *now);
        }
        kind @ (ANSWER | STREAM | REQUEST) => {
            let mut header = SaHeader::request::<PathRecord>(method, tid);
            let by_rmpp = kind != REQUEST || step[3] & 1 == 0;
            if by_rmpp {
                header.rmpp_mut().set_flags(RmppFlags::ACTIVE);
            }
            let patience = Duration::from_millis(u64::from(step[4]) * 100);
            let outgoing = if kind == STREAM {
                Outgoing::Streamed(Streamed {
                    header: *header.as_bytes(),
                    data: Box::new(Records::new((0..length as u64).map(u64::to_be_bytes))),
                    remote,
                })
            } else {
                let mut bytes = header.as_bytes().to_vec();
                bytes.resize(SA_HEADER_LEN + length, step[5]);
                Message { bytes, remote }.into()
            };
            // `send` may refuse, because there is no room or because the bytes are not a message.
            let _ = rmpp.send(outgoing, patience, *now);
        }
        _ => {
            *now += Duration::from_millis(length as u64);
            rmpp.handle_deadline(*now);
            assert!(rmpp.next_deadline().is_none_or(|next| next > *now));
        }
    }
}

/// The packet of RMPP whose fields a step contains.
fn packet(step: &[u8; 16], method: Method, tid: Tid) -> MadBytes {
    let number =
        |at: usize| u32::from_be_bytes([step[at], step[at + 1], step[at + 2], step[at + 3]]);
    let mut mad = SaMad::from_bytes(&[0xA5; 256]).to_owned();
    mad.header = SaHeader::request::<PathRecord>(method, tid);
    mad.header
        .rmpp_mut()
        // Byte 3 is 0 in the seeds, which gives version 1; any other value gives an invalid
        // version.
        .set_version(step[3].wrapping_add(1))
        .set_rmpp_type(RmppType::from_code(step[4]))
        .set_flags(RmppFlags(step[5]))
        .set_status(RmppStatus::from_code(step[6]))
        .set_segment_number(number(8))
        .set_payload_length(number(12));
    *mad.as_bytes()
}

/// Polls all outputs, and checks their number and size.
fn drain(rmpp: &mut Rmpp, now: Time) {
    // Each transaction has at most a window of packets under way, plus one packet.
    let most = MAX_TRANSACTIONS * (MAX_SEND_WINDOW as usize + 1);
    let mut sent = 0;
    while let Some(transmit) = rmpp.poll_transmit(now) {
        assert!(
            !SaMad::from_bytes(&transmit.datagram.mad)
                .header
                .rmpp()
                .is_active()
                || RmppHeader::of(&transmit.datagram.mad).version() == 1
        );
        sent += 1;
        assert!(sent <= most, "{sent} datagrams at once");
    }
    while let Some(message) = rmpp.poll_message() {
        assert!(message.data().len() <= MAX_RECEIVED);
    }
    while rmpp.poll_failure().is_some() {}
}

/// A step with a packet.
fn packet_step(peer: u8, method: u8, kind: u8, flags: u8, numbers: [u32; 2]) -> [u8; 16] {
    let mut step = [0; 16];
    step[..6].copy_from_slice(&[PACKET, peer, method, 0, kind, flags]);
    step[8..12].copy_from_slice(&numbers[0].to_be_bytes());
    step[12..].copy_from_slice(&numbers[1].to_be_bytes());
    step
}

/// A step with a length or a time.
fn length_step(kind: u8, peer: u8, method: u8, length: u16) -> [u8; 16] {
    let mut step = [0; 16];
    step[..5].copy_from_slice(&[kind, peer, method, 0, 100]);
    step[14..].copy_from_slice(&length.to_be_bytes());
    step
}

pub(super) fn seeds() -> Vec<Seed> {
    const ACTIVE: u8 = RmppFlags::ACTIVE.0;
    const FIRST: u8 = RmppFlags::FIRST.0;
    const LAST: u8 = RmppFlags::LAST.0;
    let [data, ack] = [RmppType::Data, RmppType::Ack].map(RmppType::code);
    let [stop, abort] = [RmppType::Stop, RmppType::Abort].map(RmppType::code);
    let question = [
        packet_step(1, 1, data, ACTIVE | FIRST, [1, 0]),
        packet_step(1, 1, data, ACTIVE, [2, 0]),
        packet_step(1, 1, data, ACTIVE | LAST, [3, 60]),
        packet_step(1, 1, ack, ACTIVE, [0, 32]),
        length_step(ANSWER, 1, 3, 900),
        packet_step(1, 1, ack, ACTIVE, [5, 37]),
    ];
    let table = [
        length_step(STREAM, 2, 2, 700),
        packet_step(2, 0, ack, ACTIVE, [1, 33]),
        packet_step(2, 0, ack, ACTIVE, [16, 48]),
        packet_step(2, 0, ack, ACTIVE, [16, 48]),
        packet_step(2, 0, ack, ACTIVE, [28, 60]),
    ];
    let asked = [
        length_step(REQUEST, 3, 1, 500),
        packet_step(3, 3, ack, ACTIVE, [3, 3]),
        packet_step(3, 3, data, ACTIVE | FIRST, [1, 0]),
        packet_step(3, 3, data, ACTIVE | LAST, [2, 100]),
    ];
    let given_up = [
        length_step(STREAM, 1, 2, 9000),
        packet_step(1, 0, stop, ACTIVE, [0, 0]),
        length_step(REQUEST, 2, 1, 0),
        packet_step(2, 3, abort, ACTIVE, [0, 0]),
        packet_step(3, 1, data, ACTIVE | FIRST, [1, 0]),
        length_step(WAIT, 0, 0, 39_999),
    ];
    let crowd: Vec<[u8; 16]> = (0..16)
        .map(|peer| packet_step(peer << 4 | peer, 1, data, ACTIVE | FIRST, [1, 0]))
        .chain((0..16).map(|peer| length_step(STREAM, peer << 4 | peer, 2, 5000)))
        .collect();
    [
        ("question-of-many-segments", &question[..]),
        ("table-with-a-gap", &table),
        ("asked-by-many-segments", &asked),
        ("given-up", &given_up),
        ("crowd", &crowd),
    ]
    .map(|(name, steps)| Seed::new(name, steps.concat()))
    .into()
}

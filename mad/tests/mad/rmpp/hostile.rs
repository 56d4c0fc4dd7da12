//! Tests with packets of any kind in any order: nothing panics, memory does not grow, and every
//! transfer ends.

use std::time::Duration;

use proptest::prelude::*;
use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::client::rmpp::{Rmpp, RmppConfig};
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::header::Method;
use rsm_mad::wire::rmpp::{RmppFlags, RmppStatus, RmppType};

use crate::rmpp::world::{message, packet, pattern};

#[derive(Debug, Clone)]
enum Action {
    Packet {
        lid: u16,
        method: u8,
        tid: u64,
        version: u8,
        kind: u8,
        flags: u8,
        status: u8,
        data1: u32,
        data2: u32,
    },
    Noise(Vec<u8>),
    Answer {
        lid: u16,
        tid: u64,
        length: usize,
    },
    Request {
        lid: u16,
        tid: u64,
        length: usize,
        has_rmpp: bool,
    },
    Wait(u64),
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![6 => 0u32..40, 1 => Just(220), 1 => Just(u32::MAX), 1 => any::<u32>()]
}

fn action() -> impl Strategy<Value = Action> {
    let method = prop_oneof![
        Just(Method::GET_TABLE.0),
        Just(Method::GET_MULTI.0),
        Just(Method::GET_TABLE_RESPONSE.0),
        Just(Method::GET_MULTI_RESPONSE.0),
        any::<u8>(),
    ];
    let version = prop_oneof![9 => Just(1u8), 1 => any::<u8>()];
    let kind = prop_oneof![9 => 1u8..5, 1 => any::<u8>()];
    let status = prop_oneof![6 => Just(0u8), 1 => Just(1u8), 2 => any::<u8>()];
    let fields = (
        1u16..4,
        method,
        0u64..4,
        version,
        kind,
        0u8..8,
        status,
        number(),
        number(),
    );
    prop_oneof![
        20 => fields.prop_map(|(lid, method, tid, version, kind, flags, status, data1, data2)| {
            Action::Packet { lid, method, tid, version, kind, flags, status, data1, data2 }
        }),
        2 => prop::collection::vec(any::<u8>(), 256).prop_map(Action::Noise),
        3 => (1u16..4, 0u64..4, 0usize..20_000)
            .prop_map(|(lid, tid, length)| Action::Answer { lid, tid, length }),
        3 => (1u16..4, 0u64..4, 0usize..200, any::<bool>())
            .prop_map(|(lid, tid, length, has_rmpp)| {
                Action::Request { lid, tid, length, has_rmpp }
            }),
        3 => (0u64..5_000).prop_map(Action::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_end_without_panic_or_growth(actions in prop::collection::vec(action(), 1..200)) {
        let config = RmppConfig { max_transactions: 5, max_per_client: 3, ..RmppConfig::default() };
        let mut rmpp = Rmpp::new(config);
        let mut now = Time::ZERO;
        for action in actions {
            match action {
                Action::Packet { lid, method, tid, version, kind, flags, status, data1, data2 } => {
                    let mad = packet(Method(method), tid, |rmpp| {
                        rmpp.set_version(version)
                            .set_rmpp_type(RmppType::from_code(kind))
                            .set_flags(RmppFlags(flags))
                            .set_status(RmppStatus::from_code(status))
                            .set_segment_number(data1)
                            .set_payload_length(data2);
                    });
                    let remote = RemoteAddress::gsi(Lid(lid), 0);
                    rmpp.handle(&Datagram { mad, remote }, now);
                }
                Action::Noise(bytes) => {
                    let mad = bytes.try_into().unwrap();
                    let remote = RemoteAddress::gsi(Lid(1), 0);
                    rmpp.handle(&Datagram { mad, remote }, now);
                }
                Action::Answer { lid, tid, length } => {
                    let method = Method::GET_TABLE_RESPONSE;
                    let answer = message(method, tid, &pattern(length), Lid(lid), true);
                    let _ = rmpp.send(answer, Duration::ZERO, now);
                }
                Action::Request { lid, tid, length, has_rmpp } => {
                    let method = if has_rmpp { Method::GET_MULTI } else { Method::GET_TABLE };
                    let request = message(method, tid, &pattern(length), Lid(lid), has_rmpp);
                    let _ = rmpp.send(request, Duration::from_secs(1), now);
                }
                Action::Wait(milliseconds) => {
                    now += Duration::from_millis(milliseconds);
                    rmpp.handle_deadline(now);
                    prop_assert!(rmpp.next_deadline().is_none_or(|next| next > now));
                }
            }
            prop_assert!(rmpp.stats().transactions <= 5);
            let sent = std::iter::from_fn(|| rmpp.poll_transmit(now)).count();
            // There are never more datagrams than the sum of all windows.
            prop_assert!(sent <= 5 * 33);
            while let Some(message) = rmpp.poll_message() {
                prop_assert!(message.bytes.len() <= 56 + (64 << 10));
            }
            while rmpp.poll_failure().is_some() {}
        }
        // If no further packets arrive, every transfer ends.
        for _ in 0..1_000 {
            while rmpp.poll_transmit(now).is_some() {}
            let Some(next) = rmpp.next_deadline() else { break };
            now = next;
            rmpp.handle_deadline(now);
        }
        prop_assert_eq!(rmpp.stats().transactions, 0);
    }
}

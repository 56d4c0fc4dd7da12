//! Tests of the change from request to answer, of bounds, and of timeouts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::client::rmpp::{MAX_SEND_WINDOW, Refused, Rmpp, RmppConfig, TransferFailure};
use rsm_mad::transport::{Datagram, Filled, Outgoing, RemoteAddress, Source, Streamed};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{MadHeader, Method};
use rsm_mad::wire::rmpp::{RmppFlags, RmppStatus, RmppType};

use crate::rmpp::world::{
    ANSWER_TIMEOUT, CLIENT, Link, SERVER, World, headers, message, packet, pattern, question,
    rmpp_of,
};

const NOW: Time = Time::from_nanos(1);

fn packet_headers(world: &World, sender: Lid) -> Vec<(RmppType, u32, u32)> {
    let packets = world.transcript.iter().filter(|(_, lid, _)| *lid == sender);
    packets
        .map(|(_, _, mad)| rmpp_of(mad))
        .map(|rmpp| {
            (
                rmpp.rmpp_type(),
                rmpp.segment_number(),
                rmpp.new_window_last(),
            )
        })
        .collect()
}

#[test]
fn segmented_request_gets_its_answer_in_the_same_transfer() {
    let mut world = World::new(RmppConfig::default(), Link::default(), 1);
    world.ask(question(1, 40 * 200, Some(396)));
    world.run();
    assert_eq!(world.answers[0].1.data(), pattern(8_000));
    use RmppType::{Ack, Data};
    let client = packet_headers(&world, CLIENT);
    assert_eq!(client[0], (Data, 1, 440));
    assert_eq!(client[1], (Data, 2, 220));
    // The ACK of segment 0 starts the answer and opens a whole window for it.
    assert_eq!(client[2], (Ack, 0, 32));
    let server = packet_headers(&world, SERVER);
    assert_eq!(server[..2], [(Ack, 1, 33), (Ack, 2, 2)]);
    assert_eq!(server.len(), 2 + 40, "no packet is sent twice");
    let methods: Vec<Method> = world
        .transcript
        .iter()
        .filter(|(_, lid, _)| *lid == CLIENT)
        .map(|(_, _, mad)| MadHeader::of(mad).method())
        .collect();
    assert!(methods.iter().all(|&method| method == Method::GET_MULTI));
}

fn stalled(method: Method, tid: u64) -> Outgoing {
    message(method, tid, &pattern(100_000), CLIENT, true).into()
}

/// Runs a server without a client until all its deadlines have passed. Returns the final time and
/// the sent packets.
fn run_without_client(server: &mut Rmpp) -> (Time, Vec<MadBytes>) {
    let mut now = NOW;
    let mut sent = Vec::new();
    loop {
        while let Some(transmit) = server.poll_transmit(now) {
            sent.push(transmit.datagram.mad);
        }
        let Some(next) = server.next_deadline() else {
            return (now, sent);
        };
        now = next;
        server.handle_deadline(now);
    }
}

#[test]
fn transfer_to_a_client_that_never_acknowledges_ends() {
    let config = RmppConfig::default();
    let mut server = Rmpp::new(config.clone());
    server
        .send(stalled(Method::GET_TABLE_RESPONSE, 1), Duration::ZERO, NOW)
        .unwrap();
    let (end, sent) = run_without_client(&mut server);
    assert_eq!(
        server.poll_failure().unwrap().failure,
        TransferFailure::Silence
    );
    // The first segment is sent at each attempt, and then the transfer ends: after 0.5 + 1 + 2 + 2
    // + 2 + 2 s.
    assert_eq!(sent.len(), 1 + usize::from(config.retries) + 1);
    assert_eq!(end.since(NOW), Duration::from_millis(9_500));
    let abort = rmpp_of(sent.last().unwrap());
    assert_eq!(abort.rmpp_type(), RmppType::Abort);
    assert_eq!(abort.status(), RmppStatus::TooManyRetries);
}

#[test]
fn transfer_to_a_client_that_acknowledges_too_slowly_ends() {
    let config = RmppConfig::default();
    let mut server = Rmpp::new(config.clone());
    server
        .send(stalled(Method::GET_TABLE_RESPONSE, 1), Duration::ZERO, NOW)
        .unwrap();
    let mut now = NOW;
    let mut last = None;
    for segment in 1.. {
        while let Some(transmit) = server.poll_transmit(now) {
            last = Some(transmit.datagram.mad);
        }
        if server.stats().transactions == 0 {
            break;
        }
        now += Duration::from_secs(1);
        server.handle_deadline(now);
        let mad = packet(Method::GET_TABLE, 1, |rmpp| {
            rmpp.set_rmpp_type(RmppType::Ack)
                .set_segment_number(segment)
                .set_new_window_last(segment + 1);
        });
        let remote = RemoteAddress::gsi(CLIENT, 0);
        server.handle(&Datagram { mad, remote }, now);
    }
    assert_eq!(
        server.poll_failure().unwrap().failure,
        TransferFailure::TotalTime
    );
    assert_eq!(now.since(NOW), config.total_time);
    assert_eq!(
        rmpp_of(&last.unwrap()).status(),
        RmppStatus::TotalTimeTooLong
    );
}

#[test]
fn transfers_are_limited_per_client_and_in_total() {
    let config = RmppConfig {
        max_transactions: 10,
        max_per_client: 4,
        ..RmppConfig::default()
    };
    let mut server = Rmpp::new(config);
    let mut send = |lid, tid| {
        let answer = message(Method::GET_TABLE_RESPONSE, tid, &[1], Lid(lid), true);
        server.send(answer, Duration::ZERO, NOW)
    };
    for tid in 0..4 {
        assert_eq!(send(7, tid), Ok(()));
    }
    assert_eq!(send(7, 4), Err(Refused::ClientFull));
    for lid in 8..14 {
        assert_eq!(send(lid, 0), Ok(()));
    }
    assert_eq!(send(14, 0), Err(Refused::Full));

    // A segmented request gets STOP at once if there is no room for it.
    let mad = packet(Method::GET_MULTI, 9, |rmpp| {
        rmpp.set_rmpp_type(RmppType::Data)
            .set_flags(RmppFlags::ACTIVE | RmppFlags::FIRST)
            .set_segment_number(1);
    });
    while server.poll_transmit(NOW).is_some() {}
    let remote = RemoteAddress::gsi(Lid(20), 0);
    server.handle(&Datagram { mad, remote }, NOW);
    let stop = server.poll_transmit(NOW).unwrap().datagram.mad;
    assert_eq!(rmpp_of(&stop).rmpp_type(), RmppType::Stop);
    assert_eq!(rmpp_of(&stop).status(), RmppStatus::ResourcesExhausted);
    assert_eq!(server.stats().stopped, 1);
    run_without_client(&mut server);
    assert_eq!(server.stats().transactions, 0);
}

#[test]
fn lingering_transfers_are_replaced_by_new_transfers() {
    let config = RmppConfig {
        max_transactions: 6,
        max_per_client: 2,
        ..RmppConfig::default()
    };
    let mut server = Rmpp::new(config);
    let mut ask = |lid, tid| {
        let mad = packet(Method::GET_MULTI, tid, |rmpp| {
            rmpp.set_rmpp_type(RmppType::Data)
                .set_flags(RmppFlags::ACTIVE | RmppFlags::FIRST | RmppFlags::LAST)
                .set_segment_number(1)
                .set_payload_length(24);
        });
        let remote = RemoteAddress::gsi(Lid(lid), 0);
        server.handle(&Datagram { mad, remote }, NOW);
        server.poll_message().is_some()
    };
    for tid in 0..5 {
        assert!(ask(7, tid));
    }
    for lid in 20..30 {
        assert!(ask(lid, 0));
    }
    assert_eq!(server.stats().transactions, 6);
}

#[test]
fn the_last_acknowledgement_is_repeated() {
    let mut server = Rmpp::new(RmppConfig::default());
    let mad = packet(Method::GET_MULTI, 9, |rmpp| {
        rmpp.set_rmpp_type(RmppType::Data)
            .set_flags(RmppFlags::ACTIVE | RmppFlags::FIRST | RmppFlags::LAST)
            .set_segment_number(1)
            .set_payload_length(24);
    });
    let remote = RemoteAddress::gsi(CLIENT, 0);
    let ask = |server: &mut Rmpp| {
        server.handle(&Datagram { mad, remote }, NOW);
        let acks = std::iter::from_fn(|| server.poll_transmit(NOW))
            .filter(|sent| rmpp_of(&sent.datagram.mad).rmpp_type() == RmppType::Ack)
            .count();
        (acks, server.poll_message().is_some())
    };
    assert_eq!(ask(&mut server), (1, true));
    assert_eq!(ask(&mut server), (1, false));
    // The acknowledgement is also repeated while the answer is being sent.
    let answer = message(Method::GET_MULTI_RESPONSE, 9, &[1; 600], CLIENT, true);
    server.send(answer, Duration::ZERO, NOW).unwrap();
    assert_eq!(ask(&mut server), (1, false));
}

/// A source of endless data that counts the produced bytes.
struct Counted(Arc<AtomicUsize>);

impl Source for Counted {
    fn fill(&mut self, room: &mut [u8]) -> Filled {
        self.0.fetch_add(room.len(), Ordering::Relaxed);
        Filled {
            bytes: room.len(),
            ended: false,
        }
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

#[test]
fn a_stream_is_produced_only_up_to_the_window() {
    let produced = Arc::new(AtomicUsize::new(0));
    let mut server = Rmpp::new(RmppConfig::default());
    let streamed = Outgoing::Streamed(Streamed {
        header: headers(Method::GET_TABLE_RESPONSE, 1, true),
        data: Box::new(Counted(Arc::clone(&produced))),
        remote: RemoteAddress::gsi(CLIENT, 0),
    });
    server.send(streamed, Duration::ZERO, NOW).unwrap();
    let segments = |server: &mut Rmpp| std::iter::from_fn(|| server.poll_transmit(NOW)).count();
    assert_eq!(segments(&mut server), 1);
    let ack = |segment, last| {
        let mad = packet(Method::GET_TABLE, 1, |rmpp| {
            rmpp.set_rmpp_type(RmppType::Ack)
                .set_segment_number(segment)
                .set_new_window_last(last);
        });
        let remote = RemoteAddress::gsi(CLIENT, 0);
        Datagram { mad, remote }
    };
    server.handle(&ack(1, u32::MAX), NOW);
    assert_eq!(segments(&mut server), MAX_SEND_WINDOW as usize);
    assert_eq!(produced.load(Ordering::Relaxed), 34 * 200);
    server.handle(&ack(33, u32::MAX), NOW);
    assert_eq!(segments(&mut server), MAX_SEND_WINDOW as usize);
}

#[test]
fn a_single_datagram_passes_both_ways_and_ends_a_request() {
    let mut client = Rmpp::new(RmppConfig::default());
    let ask = message(Method::GET, 5, &[1, 2], SERVER, false);
    client.send(ask, ANSWER_TIMEOUT, NOW).unwrap();
    let sent = client.poll_transmit(NOW).unwrap();
    assert_eq!(sent.timeout, ANSWER_TIMEOUT);
    assert_eq!(sent.datagram.mad[56..60], [1, 2, 0, 0]);
    assert_eq!(client.next_deadline(), Some(NOW + ANSWER_TIMEOUT));

    let mut mad = sent.datagram.mad;
    mad[3] = Method::GET_RESPONSE.0;
    let remote = RemoteAddress::gsi(SERVER, 0);
    client.handle(&Datagram { mad, remote }, NOW);
    assert_eq!(client.poll_message().unwrap().bytes, mad);
    assert_eq!(client.next_deadline(), None);

    let ask = message(Method::GET, 6, &[], SERVER, false);
    client.send(ask, ANSWER_TIMEOUT, NOW).unwrap();
    client.handle_deadline(NOW + ANSWER_TIMEOUT);
    let failed = client.poll_failure().unwrap();
    assert_eq!(
        (failed.key.tid.0, failed.failure),
        (6, TransferFailure::Silence)
    );
}

#[test]
fn transfers_take_turns() {
    let mut server = Rmpp::new(RmppConfig::default());
    for tid in 1..=3 {
        server
            .send(
                stalled(Method::GET_TABLE_RESPONSE, tid),
                Duration::ZERO,
                NOW,
            )
            .unwrap();
    }
    while server.poll_transmit(NOW).is_some() {}
    for tid in 1..=3 {
        let mad = packet(Method::GET_TABLE, tid, |rmpp| {
            rmpp.set_rmpp_type(RmppType::Ack)
                .set_segment_number(1)
                .set_new_window_last(4);
        });
        let remote = RemoteAddress::gsi(CLIENT, 0);
        server.handle(&Datagram { mad, remote }, NOW);
    }
    let order: Vec<u64> = std::iter::from_fn(|| server.poll_transmit(NOW))
        .map(|sent| MadHeader::of(&sent.datagram.mad).tid().0)
        .collect();
    assert_eq!(order, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
}

/// A source of records that finds each record only after several calls.
struct Sparse {
    calls: u32,
    records: u8,
}

impl Source for Sparse {
    fn fill(&mut self, room: &mut [u8]) -> Filled {
        self.calls += 1;
        let is_found = self.calls.is_multiple_of(5);
        if is_found {
            room[..64].fill(self.records);
            self.records -= 1;
        }
        Filled {
            bytes: if is_found { 64 } else { 0 },
            ended: self.records == 0,
        }
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

#[test]
fn a_slow_source_blocks_no_other_transfer() {
    let mut server = Rmpp::new(RmppConfig::default());
    let streamed = Outgoing::Streamed(Streamed {
        header: headers(Method::GET_TABLE_RESPONSE, 1, true),
        data: Box::new(Sparse {
            calls: 0,
            records: 4,
        }),
        remote: RemoteAddress::gsi(CLIENT, 0),
    });
    server.send(streamed, Duration::ZERO, NOW).unwrap();
    let answer = message(Method::GET_TABLE_RESPONSE, 2, &[7], CLIENT, true);
    server.send(answer, Duration::ZERO, NOW).unwrap();
    assert!(server.poll_transmit(NOW).is_none() && server.is_working());
    // The other transfer takes its turn after one call of the source.
    let other_transfer = server.poll_transmit(NOW).unwrap().datagram.mad;
    assert_eq!(MadHeader::of(&other_transfer).tid().0, 2);
    let ack = |tid| {
        let mad = packet(Method::GET_TABLE, tid, |rmpp| {
            rmpp.set_rmpp_type(RmppType::Ack)
                .set_segment_number(1)
                .set_new_window_last(9);
        });
        let remote = RemoteAddress::gsi(CLIENT, 0);
        Datagram { mad, remote }
    };
    server.handle(&ack(2), NOW);

    // No segment was sent yet, so no acknowledgement is due.
    let later = NOW + Duration::from_secs(30);
    server.handle_deadline(later);
    let mut calls = 1;
    let first = loop {
        assert!(server.is_working());
        calls += 1;
        if let Some(sent) = server.poll_transmit(later)
            && MadHeader::of(&sent.datagram.mad).tid().0 == 1
        {
            break sent.datagram.mad;
        }
    };
    assert_eq!(calls, 20);
    let flags = RmppFlags::ACTIVE | RmppFlags::FIRST;
    assert_eq!(rmpp_of(&first).flags(), flags);
    assert_eq!(
        rmpp_of(&first).payload_length(),
        0,
        "the length is not known yet"
    );
    server.handle(&ack(1), later);
    let last = server.poll_transmit(later).unwrap().datagram.mad;
    assert_eq!(rmpp_of(&last).flags(), RmppFlags::ACTIVE | RmppFlags::LAST);
    assert_eq!(rmpp_of(&last).payload_length(), 20 + 56);
    assert_eq!(last[56..56 + 56], [1; 56]);
}

#[test]
fn queued_datagrams_count_as_work() {
    let mut server = Rmpp::new(RmppConfig::default());
    assert!(!server.is_working());
    for tid in 0..3 {
        let answer = message(Method::GET_RESPONSE, tid, &[], CLIENT, false);
        server.send(answer, Duration::ZERO, NOW).unwrap();
    }
    for _ in 0..3 {
        assert!(server.is_working());
        server.poll_transmit(NOW).unwrap();
    }
    assert!(!server.is_working());
}

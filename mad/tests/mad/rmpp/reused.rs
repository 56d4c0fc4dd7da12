//! Tests of reused transaction identifiers: a program has ended, and its successor starts with the
//! same identifiers.

use std::time::Duration;

use rsm_mad::Time;
use rsm_mad::client::rmpp::{Rmpp, RmppConfig};
use rsm_mad::transport::{Datagram, Message, RemoteAddress};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::rmpp::RmppType;

use crate::rmpp::world::{CLIENT, message, packet, pattern, question, rmpp_of};

const NOW: Time = Time::from_nanos(1);

fn datagram(question: &Message) -> Datagram {
    let mut mad: MadBytes = [0; 256];
    mad[..question.bytes.len()].copy_from_slice(&question.bytes);
    let remote = RemoteAddress::gsi(CLIENT, 0);
    Datagram { mad, remote }
}

fn acknowledge(server: &mut Rmpp, segment: u32, now: Time) {
    let mad = packet(Method::GET_TABLE, 1, |rmpp| {
        rmpp.set_rmpp_type(RmppType::Ack)
            .set_segment_number(segment)
            .set_new_window_last(segment + 1);
    });
    let remote = RemoteAddress::gsi(CLIENT, 0);
    server.handle(&Datagram { mad, remote }, now);
}

/// A server that is sending the answer to `request`. The client acknowledged two segments before
/// the client ended.
fn server_that_answers(request: &Datagram) -> Rmpp {
    let mut server = Rmpp::new(RmppConfig::default());
    server.handle(request, NOW);
    answer(&mut server, NOW);
    for segment in 1..3 {
        acknowledge(&mut server, segment, NOW);
        while server.poll_transmit(NOW).is_some() {}
    }
    server
}

/// Answers the waiting request, and returns the first segment of the answer.
fn answer(server: &mut Rmpp, now: Time) -> MadBytes {
    let question = server.poll_message().expect("the request has arrived");
    let tid = question.header().unwrap().tid().0;
    let table = message(
        Method::GET_TABLE_RESPONSE,
        tid,
        &pattern(5_000),
        CLIENT,
        true,
    );
    server.send(table, Duration::ZERO, now).unwrap();
    let first = server.poll_transmit(now).unwrap().datagram.mad;
    assert!(
        server.poll_transmit(now).is_none(),
        "the window has one segment"
    );
    first
}

#[test]
fn another_request_in_the_same_transaction_is_answered_at_once() {
    let mut server = server_that_answers(&datagram(&question(1, 5_000, None)));
    server.handle(&datagram(&question(1, 7_000, None)), NOW);
    let first = answer(&mut server, NOW);
    assert_eq!(rmpp_of(&first).segment_number(), 1);
    // The acknowledgement is for the new answer.
    acknowledge(&mut server, 1, NOW);
    let second = server.poll_transmit(NOW).unwrap().datagram.mad;
    assert_eq!(rmpp_of(&second).segment_number(), 2);
    assert_eq!(server.stats().transactions, 1);
    assert_eq!((server.stats().repeated, server.stats().failed), (0, 0));
}

#[test]
fn the_same_request_is_a_repetition_while_its_answer_progresses() {
    let request = datagram(&question(1, 5_000, None));
    let mut server = server_that_answers(&request);
    server.handle(&request, NOW);
    assert_eq!(server.poll_message(), None);
    assert_eq!(server.stats().repeated, 1);
    acknowledge(&mut server, 3, NOW);
    let next = server.poll_transmit(NOW).unwrap().datagram.mad;
    assert_eq!(rmpp_of(&next).segment_number(), 4);
}

#[test]
fn the_same_request_is_new_once_its_answer_stalls() {
    let request = datagram(&question(1, 5_000, None));
    let mut server = server_that_answers(&request);
    let mut now = NOW;
    for attempt in 1..=2 {
        server.handle(&request, now);
        assert_eq!(server.poll_message(), None, "attempt {attempt}");
        now = server.next_deadline().unwrap();
        server.handle_deadline(now);
        let repeated = server.poll_transmit(now).unwrap().datagram.mad;
        assert_eq!(rmpp_of(&repeated).segment_number(), 3);
    }
    assert_eq!(now.since(NOW), Duration::from_millis(1_500));
    server.handle(&request, now);
    let first = answer(&mut server, now);
    assert_eq!(rmpp_of(&first).segment_number(), 1);
    assert_eq!(server.stats().transactions, 1);
}

//! Tests that packets have the form of the specification (IBA 13.6.2), and tests of the answers to
//! invalid packets.

use std::time::Duration;

use rsm_mad::Time;
use rsm_mad::client::rmpp::{Refused, Rmpp, RmppConfig, TransferFailure};
use rsm_mad::transport::{Datagram, RemoteAddress};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{MadHeader, Method};
use rsm_mad::wire::rmpp::{RmppFlags, RmppHeader, RmppStatus, RmppType};

use crate::rmpp::world::{CLIENT, SERVER, message, packet, pattern, rmpp_of};

const NOW: Time = Time::from_nanos(1);

fn from_client(mad: MadBytes) -> Datagram {
    Datagram {
        mad,
        remote: RemoteAddress::gsi(CLIENT, 0),
    }
}

fn poll_all(rmpp: &mut Rmpp, now: Time) -> Vec<MadBytes> {
    std::iter::from_fn(|| rmpp.poll_transmit(now))
        .map(|sent| sent.datagram.mad)
        .collect()
}

fn server_that_answers(length: usize) -> Rmpp {
    let mut server = Rmpp::new(RmppConfig::default());
    let answer = message(
        Method::GET_TABLE_RESPONSE,
        9,
        &pattern(length),
        CLIENT,
        true,
    );
    server.send(answer, Duration::ZERO, NOW).unwrap();
    server
}

fn ack(segment: u32, window_last: u32) -> MadBytes {
    packet(Method::GET_TABLE, 9, |rmpp| {
        rmpp.set_rmpp_type(RmppType::Ack)
            .set_segment_number(segment)
            .set_new_window_last(window_last);
    })
}

fn data(segment: u32, flags: RmppFlags, payload: u32) -> MadBytes {
    packet(Method::GET_MULTI, 9, |rmpp| {
        rmpp.set_rmpp_type(RmppType::Data)
            .set_flags(RmppFlags::ACTIVE | flags)
            .set_segment_number(segment)
            .set_payload_length(payload);
    })
}

const FIRST: RmppFlags = RmppFlags::FIRST;
const LAST: RmppFlags = RmppFlags::LAST;
const MIDDLE: RmppFlags = RmppFlags::NONE;

#[test]
fn segments_have_their_flags_and_lengths() {
    let mut server = server_that_answers(450);
    let first = poll_all(&mut server, NOW);
    assert_eq!(first.len(), 1, "one segment is sent before the first ACK");
    server.handle(&from_client(ack(1, 33)), NOW);
    let later_packets = poll_all(&mut server, NOW);
    let packets: Vec<_> = first.iter().chain(&later_packets).collect();
    let headers: Vec<_> = packets
        .iter()
        .map(|mad| {
            let rmpp = rmpp_of(mad);
            assert_eq!(rmpp.version(), 1);
            assert_eq!(rmpp.rmpp_type(), RmppType::Data);
            assert_eq!(rmpp.resp_time(), RmppHeader::RESP_TIME_NONE);
            assert_eq!(mad[36..56], [0xCC; 20]);
            let flags = rmpp.flags();
            (rmpp.segment_number(), flags, rmpp.payload_length())
        })
        .collect();
    let active = RmppFlags::ACTIVE;
    // PayloadLength counts 450 bytes of data, and 20 bytes of the class's header in each segment.
    let expected = [
        (1, active | FIRST, 510),
        (2, active, 0),
        (3, active | LAST, 70),
    ];
    assert_eq!(headers, expected);
    let joined: Vec<u8> = packets.iter().flat_map(|mad| &mad[56..]).copied().collect();
    assert_eq!(joined[..450], pattern(450));
    assert_eq!(joined[450..], [0; 150]);
}

#[test]
fn no_data_is_one_segment() {
    let mut server = server_that_answers(0);
    let sent = poll_all(&mut server, NOW);
    let rmpp = rmpp_of(&sent[0]);
    assert_eq!(rmpp.flags(), RmppFlags::ACTIVE | FIRST | LAST);
    assert_eq!((rmpp.segment_number(), rmpp.payload_length()), (1, 20));
    server.handle(&from_client(ack(1, 1)), NOW);
    assert_eq!((server.stats().sent, server.stats().transactions), (1, 0));
}

#[test]
fn acknowledgements_have_the_method_with_the_r_bit_inverted() {
    let mut server = Rmpp::new(RmppConfig::default());
    server.handle(&from_client(data(1, FIRST, 0)), NOW);
    let sent = poll_all(&mut server, NOW);
    let rmpp = rmpp_of(&sent[0]);
    assert_eq!(MadHeader::of(&sent[0]).method(), Method::GET_MULTI_RESPONSE);
    assert_eq!(rmpp.rmpp_type(), RmppType::Ack);
    assert_eq!(rmpp.flags(), RmppFlags::ACTIVE);
    assert_eq!((rmpp.segment_number(), rmpp.new_window_last()), (1, 33));
    // After the first segment, every half window is acknowledged.
    for segment in 2..=17 {
        assert!(poll_all(&mut server, NOW).is_empty());
        server.handle(&from_client(data(segment, MIDDLE, 0)), NOW);
    }
    let sent = poll_all(&mut server, NOW);
    let rmpp = rmpp_of(&sent[0]);
    assert_eq!((rmpp.segment_number(), rmpp.new_window_last()), (17, 49));
}

/// The status and the failure with which a server that has sent three segments answers the packet
/// `invalid`.
fn ending_of_sender(invalid: MadBytes) -> (Option<RmppStatus>, Option<TransferFailure>) {
    let mut server = server_that_answers(2_000);
    poll_all(&mut server, NOW);
    server.handle(&from_client(ack(1, 3)), NOW);
    poll_all(&mut server, NOW);
    server.handle(&from_client(invalid), NOW);
    end_of_transfer(&mut server)
}

/// The status and the failure with which a server that has received two segments answers the packet
/// `invalid`.
fn ending_of_receiver(invalid: MadBytes) -> (Option<RmppStatus>, Option<TransferFailure>) {
    let mut server = Rmpp::new(RmppConfig::default());
    server.handle(&from_client(data(1, FIRST, 0)), NOW);
    server.handle(&from_client(data(2, MIDDLE, 0)), NOW);
    poll_all(&mut server, NOW);
    server.handle(&from_client(invalid), NOW);
    end_of_transfer(&mut server)
}

fn end_of_transfer(server: &mut Rmpp) -> (Option<RmppStatus>, Option<TransferFailure>) {
    let sent = poll_all(server, NOW);
    let failure = server.poll_failure().map(|failed| failed.failure);
    assert_eq!(failure.is_some(), server.stats().transactions == 0);
    let last_packet = sent
        .iter()
        .find(|mad| matches!(rmpp_of(mad).rmpp_type(), RmppType::Abort | RmppType::Stop));
    (last_packet.map(|mad| rmpp_of(mad).status()), failure)
}

fn changed(mad: MadBytes, change: impl FnOnce(&mut RmppHeader)) -> MadBytes {
    let rmpp = *rmpp_of(&mad);
    packet(MadHeader::of(&mad).method(), 9, |header| {
        *header = rmpp;
        change(header);
    })
}

fn ended_by(mad: MadBytes, kind: RmppType, status: RmppStatus) -> MadBytes {
    changed(mad, |rmpp| {
        rmpp.set_rmpp_type(kind).set_status(status);
    })
}

#[test]
fn a_sender_aborts_on_an_invalid_packet_with_its_status() {
    use RmppStatus::*;
    let version = changed(ack(1, 3), |rmpp| {
        rmpp.set_version(2);
    });
    let kind = changed(ack(1, 3), |rmpp| {
        rmpp.set_rmpp_type(RmppType::Unknown(7));
    });
    let status = changed(ack(1, 3), |rmpp| {
        rmpp.set_status(Unspecified);
    });
    for (invalid, expected) in [
        (version, UnsupportedVersion),
        (kind, BadType),
        (status, IllegalStatus),
        (ack(2, 1), NewWindowLastTooSmall),
        (ack(4, 9), SegmentNumberTooBig),
        (ended_by(ack(1, 3), RmppType::Stop, Normal), IllegalStatus),
        (
            ended_by(ack(1, 3), RmppType::Abort, ResourcesExhausted),
            IllegalStatus,
        ),
    ] {
        let ending = ending_of_sender(invalid);
        assert_eq!(
            ending,
            (Some(expected), Some(TransferFailure::Violation(expected)))
        );
    }
}

#[test]
fn a_receiver_aborts_on_an_invalid_packet_with_its_status() {
    use RmppStatus::*;
    let version = changed(data(3, MIDDLE, 0), |rmpp| {
        rmpp.set_version(0);
    });
    let kind = changed(data(3, MIDDLE, 0), |rmpp| {
        rmpp.set_rmpp_type(RmppType::None);
    });
    let status = changed(data(3, MIDDLE, 0), |rmpp| {
        rmpp.set_status(ResourcesExhausted);
    });
    for (invalid, expected) in [
        (version, UnsupportedVersion),
        (kind, BadType),
        (status, IllegalStatus),
        (data(3, FIRST, 0), InconsistentFirst),
        (data(1, MIDDLE, 0), InconsistentFirst),
        (data(34, MIDDLE, 0), SegmentNumberTooBig),
        (data(3, LAST, 19), InconsistentLast),
        (data(3, LAST, 221), InconsistentLast),
    ] {
        let ending = ending_of_receiver(invalid);
        assert_eq!(
            ending,
            (Some(expected), Some(TransferFailure::Violation(expected)))
        );
    }
}

#[test]
fn a_message_that_contradicts_its_announced_length_is_refused() {
    let receive_announced = |announced, last: &[(u32, RmppFlags, u32)]| {
        let mut server = Rmpp::new(RmppConfig::default());
        server.handle(&from_client(data(1, FIRST, announced)), NOW);
        for &(segment, flags, payload) in last {
            server.handle(&from_client(data(segment, flags, payload)), NOW);
        }
        let length = server.poll_message().map(|message| message.data().len());
        let failure = server.poll_failure().map(|failed| failed.failure);
        (length, failure)
    };
    let inconsistent = Some(TransferFailure::Violation(RmppStatus::InconsistentLast));
    assert_eq!(receive_announced(270, &[(2, LAST, 50)]), (Some(230), None));
    assert_eq!(receive_announced(0, &[(2, LAST, 50)]), (Some(230), None));
    assert_eq!(
        receive_announced(271, &[(2, LAST, 50)]),
        (None, inconsistent)
    );
    assert_eq!(
        receive_announced(440, &[(2, MIDDLE, 0)]),
        (None, inconsistent)
    );
    assert_eq!(receive_announced(220, &[]), (None, inconsistent));
    // A message longer than the server accepts is detected at its start and at its end.
    let max_received = RmppConfig::default().max_received as u32;
    assert_eq!(
        receive_announced(2 * max_received, &[]),
        (None, Some(TransferFailure::TooLong))
    );
    let without_last: Vec<_> = (2..)
        .take(400)
        .map(|segment| (segment, MIDDLE, 0))
        .collect();
    assert_eq!(
        receive_announced(0, &without_last),
        (None, Some(TransferFailure::TooLong))
    );
}

#[test]
fn stop_and_abort_end_a_transfer_without_an_answer() {
    let stop = ended_by(ack(0, 0), RmppType::Stop, RmppStatus::ResourcesExhausted);
    assert_eq!(
        ending_of_sender(stop),
        (None, Some(TransferFailure::Stopped))
    );
    let status = RmppStatus::Unknown(200);
    let abort = ended_by(ack(0, 0), RmppType::Abort, status);
    assert_eq!(
        ending_of_sender(abort),
        (None, Some(TransferFailure::Aborted(status)))
    );
    let abort = ended_by(data(0, MIDDLE, 0), RmppType::Abort, status);
    assert_eq!(
        ending_of_receiver(abort),
        (None, Some(TransferFailure::Aborted(status)))
    );
}

#[test]
fn a_stray_packet_is_answered_only_if_it_is_data() {
    let mut server = Rmpp::new(RmppConfig::default());
    let mut ending = |mad| {
        server.handle(&from_client(mad), NOW);
        let sent = poll_all(&mut server, NOW);
        assert_eq!(server.stats().transactions, 0);
        sent.first().map(|mad| rmpp_of(mad).status())
    };
    assert_eq!(ending(ack(5, 9)), None);
    let abort = ended_by(ack(0, 0), RmppType::Abort, RmppStatus::Unknown(3));
    assert_eq!(ending(abort), None);
    assert_eq!(ending(data(2, MIDDLE, 0)), Some(RmppStatus::Unspecified));
    assert_eq!(
        ending(data(2, FIRST, 0)),
        Some(RmppStatus::InconsistentFirst)
    );
    let answer = packet(Method::GET_TABLE_RESPONSE, 9, |rmpp| {
        rmpp.set_rmpp_type(RmppType::Data)
            .set_flags(RmppFlags::ACTIVE | FIRST)
            .set_segment_number(1);
    });
    assert_eq!(ending(answer), Some(RmppStatus::Unspecified));
}

#[test]
fn an_invalid_or_repeated_message_is_refused() {
    let mut rmpp = Rmpp::new(RmppConfig::default());
    let send = |rmpp: &mut Rmpp, message| rmpp.send(message, Duration::ZERO, NOW);
    let mut short = message(Method::GET, 1, &[], SERVER, false);
    short.bytes.truncate(55);
    assert_eq!(send(&mut rmpp, short), Err(Refused::TooShort));
    let long = message(Method::GET, 1, &[0; 201], SERVER, false);
    assert_eq!(send(&mut rmpp, long), Err(Refused::TooLong));
    let answer = || message(Method::GET_TABLE_RESPONSE, 1, &[], SERVER, true);
    assert_eq!(send(&mut rmpp, answer()), Ok(()));
    assert_eq!(send(&mut rmpp, answer()), Err(Refused::UnderWay));
}

//! Tests that RMPP messages arrive completely over a wire with faults, and fail in time if there
//! are too many faults.

use std::time::Duration;

use crate::world::{
    GET_TABLE, GET_TABLE_RESP, LATENCY, SERVES, World, Written, arrived, message, sa, tid_of,
};
use rsm_mad::transport::Datagram;
use rsm_sim_host::layer::{FileId, Registration};

/// A client that has sent a GetTable, and a server that has read it.
fn with_request(retries: u32) -> (World, FileId, Written, u64) {
    let mut world = World::new();
    let (server, serving) = world.agent(1, &sa(SERVES));
    let (client, id) = world.agent(0, &sa(0));
    let sent_request = Written {
        id,
        lid: 2,
        timeout_ms: 60_000,
        retries: 0,
    };
    world.write(
        0,
        client,
        &sent_request.bytes(&message(GET_TABLE, 5, 200, false)),
    );
    world.run_for(Duration::from_millis(1));
    let (_, question) = world.only_read(1);
    let answer = Written {
        id: serving,
        lid: 1,
        timeout_ms: 0,
        retries,
    };
    world.sent = [Vec::new(), Vec::new()];
    (world, server, answer, tid_of(&question))
}

fn is_data(datagram: &Datagram) -> bool {
    datagram.mad[25] == 1
}

/// Messages with lengths around every boundary arrive unchanged, with the lengths that the header
/// states.
#[test]
fn messages_with_lengths_around_boundaries_arrive_unchanged() {
    for len in [
        0, 1, 199, 200, 201, 400, 401, 12_800, 13_000, 13_001, 100_000,
    ] {
        let (mut world, server, answer, tid) = with_request(0);
        let table = message(GET_TABLE_RESP, tid, len, true);
        world.write(1, server, &answer.bytes(&table));
        world.run_for(Duration::from_secs(1));
        let segments = len.div_ceil(200).max(1);
        let first = u32::from_be_bytes(world.sent[1][0].mad[32..36].try_into().unwrap());
        let padding = segments * 200 - len;
        assert_eq!(first as usize, segments * 220 - padding, "{len}");
        let last = u32::from_be_bytes(world.sent[1][segments - 1].mad[32..36].try_into().unwrap());
        assert_eq!(
            last as usize,
            if segments == 1 {
                first as usize
            } else {
                220 - padding
            }
        );

        let (_, delivery) = world.read[0].pop().unwrap();
        assert_eq!(delivery.min_buffer, 64 + table.len().min(256));
        let (header, received) = crate::world::split_result(&delivery);
        assert_eq!(header.length as usize, 64 + table.len());
        assert_eq!(received.len(), table.len());
        assert!(received[56..] == table[56..], "{len}");
        // The receiver acknowledges the first segment, then each used-up window, and the last
        // segment.
        let acks = world.sent[0].len();
        let expected = if segments == 1 {
            1
        } else {
            2 + (segments - 2) / 64
        };
        assert_eq!(acks, expected, "{segments} segments");
        // The timers of client and server have ended; only the record of the received message
        // remains for 10 s.
        world.run_for(Duration::from_secs(11));
        assert!(
            world
                .hosts
                .iter()
                .all(|host| host.next_deadline().is_none())
        );
        assert!(world.read.iter().all(Vec::is_empty));
    }
}

/// A small random number generator: equal seeds give equal sequences of faults.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[test]
fn messages_arrive_whole_despite_loss_and_duplication() {
    for seed in 1..200 {
        let (mut world, server, answer, tid) = with_request(10);
        let mut dice = Dice(seed * 0x9E37_79B9);
        world.copies_of = Box::new(move |_, _| match dice.roll(10) {
            0 | 1 => 0,
            2 => 2,
            _ => 1,
        });
        let table = message(GET_TABLE_RESP, tid, 30_000, true);
        world.write(1, server, &answer.bytes(&table));
        world.run_for(Duration::from_secs(39));
        let (header, received) = world.only_read(0);
        assert_eq!(
            (header.status, received.len()),
            (0, table.len()),
            "seed {seed}"
        );
        assert!(received[56..] == table[56..], "seed {seed}");
    }
}

#[test]
fn an_unacknowledged_message_returns_after_its_retries() {
    let (mut world, server, answer, tid) = with_request(2);
    world.copies_of = Box::new(|_, datagram| usize::from(is_data(datagram)));
    world.write(
        1,
        server,
        &answer.bytes(&message(GET_TABLE_RESP, tid, 30_000, true)),
    );
    world.run_for(Duration::from_millis(5_999));
    assert!(world.read[1].is_empty());
    // Only the first segment is sent, three times, because the window never opens.
    assert_eq!(world.sent[1].len(), 3);
    world.run_for(Duration::from_millis(1));
    let (header, head) = world.only_read(1);
    assert_eq!((header.status, head.len(), tid_of(&head)), (110, 24, tid));
}

#[test]
fn an_incomplete_message_is_aborted_after_40_s() {
    let (mut world, server, answer, tid) = with_request(0);
    let mut data_packets = 0;
    world.copies_of = Box::new(move |_, datagram| {
        data_packets += usize::from(is_data(datagram));
        usize::from(data_packets < 10)
    });
    world.write(
        1,
        server,
        &answer.bytes(&message(GET_TABLE_RESP, tid, 30_000, true)),
    );
    world.run_for(Duration::from_secs(41));
    // The receiver reports after 40 s that the transfer took too long, with an ABORT.
    let abort = &world.sent[0].last().unwrap().mad;
    assert_eq!((abort[25], abort[27]), (4, 118));
    assert!(world.read[0].is_empty());
}

#[test]
fn an_abort_ends_a_send_without_an_answer() {
    let (mut world, server, answer, tid) = with_request(5);
    world.copies_of = Box::new(|_, datagram| usize::from(!is_data(datagram)));
    world.write(
        1,
        server,
        &answer.bytes(&message(GET_TABLE_RESP, tid, 30_000, true)),
    );
    let mut abort = world.sent[1][0].mad;
    abort[3] = GET_TABLE;
    abort[25] = 4;
    abort[27] = 127;
    let mut datagram = arrived(abort);
    datagram.remote.lid = rsm_ids::Lid(1);
    world.hosts[1].receive(&datagram, world.now);
    assert_eq!(world.hosts[1].next_deadline(), None);
    world.run_for(Duration::from_secs(30));
    assert!(world.read[1].is_empty());
    assert_eq!(world.sent[1].len(), 1);
}

/// The packets are an acknowledgement of a segment never sent, a window that is too small, an
/// illegal status in an ACK and in a STOP, and an unknown type.
#[test]
fn an_invalid_packet_is_aborted_with_its_status() {
    let cases = [
        ([2, 1, 0], 9, 70, 123),
        ([2, 1, 0], 5, 4, 122),
        ([2, 1, 7], 1, 65, 124),
        ([9, 1, 0], 1, 65, 121),
        ([3, 1, 9], 1, 65, 124),
    ];
    for ([kind, flags, status], segment, window, abort_status) in cases {
        let (mut world, server, answer, tid) = with_request(0);
        world.copies_of = Box::new(|_, datagram| usize::from(!is_data(datagram)));
        world.write(
            1,
            server,
            &answer.bytes(&message(GET_TABLE_RESP, tid, 30_000, true)),
        );
        let mut mad = world.sent[1][0].mad;
        mad[3] = GET_TABLE;
        mad[24..28].copy_from_slice(&[1, kind, flags, status]);
        mad[28..32].copy_from_slice(&u32::to_be_bytes(segment));
        mad[32..36].copy_from_slice(&u32::to_be_bytes(window));
        let mut datagram = arrived(mad);
        datagram.remote.lid = rsm_ids::Lid(1);
        world.hosts[1].receive(&datagram, world.now);
        world.execute_effects();
        let abort = &world.sent[1].last().unwrap().mad;
        assert_eq!(
            (abort[25], abort[27], abort[3]),
            (4, abort_status, GET_TABLE_RESP)
        );
        assert_eq!(world.hosts[1].next_deadline(), None);
    }
}

/// A request in segments whose answer is in segments too, as for MultiPathRecord.
#[test]
fn a_segmented_request_gets_a_segmented_answer() {
    const GET_MULTI: u8 = 0x14;
    let mut world = World::new();
    let (server, serving) = world.agent(1, &sa(1 << GET_MULTI));
    let (client, id) = world.agent(0, &sa(0));
    let sent_request = Written {
        id,
        lid: 2,
        timeout_ms: 500,
        retries: 0,
    };
    let question = message(GET_MULTI, 5, 20_000, true);
    world.write(0, client, &sent_request.bytes(&question));
    world.run_for(Duration::from_millis(100));
    let (_, received) = world.only_read(1);
    assert!(received[56..] == question[56..]);
    let answer = Written {
        id: serving,
        lid: 1,
        timeout_ms: 0,
        retries: 0,
    };
    let table = message(GET_MULTI | 0x80, tid_of(&received), 40_000, true);
    world.write(1, server, &answer.bytes(&table));
    world.run_for(Duration::from_secs(1));
    let (header, received) = world.only_read(0);
    assert_eq!(header.status, 0);
    assert!(received[56..] == table[56..]);
}

/// An agent without RMPP receives and sends segments unchanged.
#[test]
fn an_agent_without_kernel_rmpp_gets_every_segment() {
    for without_kernel_rmpp in [
        Registration {
            rmpp_version: 0,
            ..sa(0)
        },
        Registration {
            user_rmpp: true,
            ..sa(0)
        },
    ] {
        let mut world = World::new();
        let (server, serving) = world.agent(1, &sa(SERVES));
        let (client, id) = world.agent(0, &without_kernel_rmpp);
        let sent_request = Written {
            id,
            lid: 2,
            timeout_ms: 100,
            retries: 0,
        };
        world.write(
            0,
            client,
            &sent_request.bytes(&message(GET_TABLE, 5, 200, false)),
        );
        world.run_for(LATENCY);
        let (_, question) = world.only_read(1);
        let answer = Written {
            id: serving,
            lid: 1,
            timeout_ms: 0,
            retries: 0,
        };
        let table = message(GET_TABLE_RESP, tid_of(&question), 1_000, true);
        world.write(1, server, &answer.bytes(&table));
        world.run_for(LATENCY);
        let (header, first) = world.only_read(0);
        assert_eq!((header.length, first[25], first[31]), (64 + 256, 1, 1));
        // The agent acknowledges the segment, and the other segments arrive although no request
        // waits for them.
        let mut ack = first[..56].to_vec();
        ack[3] = GET_TABLE;
        ack[25] = 2;
        ack[32..36].copy_from_slice(&10u32.to_be_bytes());
        let without_timeout = Written {
            timeout_ms: 0,
            ..sent_request
        };
        world.hosts[0]
            .write(client, &without_timeout.bytes(&ack), world.now)
            .unwrap();
        world.execute_effects();
        world.run_for(Duration::from_millis(1));
        assert_eq!(world.read[0].len(), 4);
    }
}

#[test]
fn random_datagrams_do_not_panic() {
    let mut dice = Dice(42);
    let mut world = World::new();
    let (file, id) = world.agent(0, &sa(SERVES));
    for iteration in 0..200_000u64 {
        let mut mad = [0; 256];
        for byte in &mut mad[..60] {
            *byte = dice.roll(256) as u8;
        }
        // Most datagrams are plausible: they have the right class, a registered agent and small
        // numbers.
        mad[..3].copy_from_slice(&[1, 3, 2]);
        mad[3] = [0x01, 0x12, 0x81, 0x92, 0x07][dice.roll(5) as usize];
        mad[8..16].copy_from_slice(&(1 << 32 | dice.roll(4)).to_be_bytes());
        mad[24..28].copy_from_slice(&[1, dice.roll(6) as u8, dice.roll(8) as u8, 0]);
        mad[28..32].copy_from_slice(&(dice.roll(70) as u32).to_be_bytes());
        mad[32..36].copy_from_slice(&(dice.roll(300) as u32).to_be_bytes());
        world.hosts[0].receive(&arrived(mad), world.now);
        if iteration % 7 == 0 {
            let write = Written {
                id,
                lid: 2,
                timeout_ms: dice.roll(50) as u32,
                retries: 1,
            };
            let segments = dice.roll(2) == 0;
            let bytes = write.bytes(&message(mad[3], dice.roll(4), 2_000, segments));
            // Errors are ignored: most of the transactions are pending already, or the messages are
            // too long.
            let _ = world.hosts[0].write(file, &bytes, world.now);
        }
        while world.hosts[0].poll_effect().is_some() {}
        world.now += Duration::from_millis(dice.roll(3));
        world.hosts[0].tick(world.now);
        while world.hosts[0].poll_effect().is_some() {}
    }
}

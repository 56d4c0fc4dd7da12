//! Tests of registration, and of the choice of the agent that receives a datagram.

use std::time::Duration;

use crate::world::{GET, GET_RESP, SERVES, World, Written, arrived, message, sa, tid_of};
use rsm_sim_host::abi::{HEADER_LEN, OLD_HEADER_LEN};
use rsm_sim_host::layer::{MadLayer, Registration};
use rustix::io::Errno;

fn padded(message: &[u8]) -> [u8; 256] {
    let mut mad = [0; 256];
    mad[..message.len()].copy_from_slice(message);
    mad
}

#[test]
fn a_method_of_a_class_has_one_agent() {
    let mut layer = MadLayer::new();
    let (first_file, second_file) = (layer.open(), layer.open());
    let refused = Err(Errno::INVAL);
    assert_eq!(layer.register(first_file, &sa(SERVES), false), Ok(0));
    assert_eq!(layer.register(second_file, &sa(1 << GET), false), refused);
    // A registration for another class version, for other methods or for no methods does not
    // conflict.
    let older_version = Registration {
        version: 1,
        ..sa(SERVES)
    };
    assert_eq!(layer.register(second_file, &older_version, false), Ok(0));
    assert_eq!(layer.register(second_file, &sa(1 << 2), false), Ok(1));
    assert_eq!(layer.register(second_file, &sa(0), false), Ok(2));
    // Methods are free after the agent is unregistered or its device is closed.
    layer.unregister(first_file, 0).unwrap();
    assert_eq!(layer.unregister(first_file, 0), Err(Errno::INVAL));
    assert_eq!(layer.register(second_file, &sa(1 << GET), false), Ok(3));
    layer.close(second_file);
    assert_eq!(layer.register(first_file, &sa(SERVES), false), Ok(0));
    assert_eq!(layer.register(second_file, &sa(0), false), Err(Errno::BADF));
}

#[test]
fn vendors_of_a_class_have_separate_agents() {
    let mut layer = MadLayer::new();
    let file = layer.open();
    let ping = |oui| Registration {
        qpn: 1,
        class: 0x32,
        version: 1,
        methods: 1 << GET,
        oui,
        ..Registration::default()
    };
    assert_eq!(
        layer.register(file, &ping([0, 0, 0]), false),
        Err(Errno::INVAL)
    );
    assert_eq!(layer.register(file, &ping([0, 0x14, 5]), false), Ok(0));
    assert_eq!(layer.register(file, &ping([0, 2, 0xC9]), false), Ok(1));
    assert_eq!(
        layer.register(file, &ping([0, 2, 0xC9]), false),
        Err(Errno::INVAL)
    );
}

#[test]
fn invalid_registrations_are_refused() {
    let mut layer = MadLayer::new();
    let file = layer.open();
    let valid = sa(SERVES);
    for invalid in [
        Registration { qpn: 2, ..valid },
        Registration { qpn: 0, ..valid },
        Registration {
            rmpp_version: 2,
            ..valid
        },
        Registration {
            version: 0x83,
            ..valid
        },
        Registration {
            class: 0x50,
            ..valid
        },
        // Subnet management is on QP 0, and performance management has no RMPP.
        Registration {
            class: 0x81,
            version: 1,
            rmpp_version: 0,
            ..valid
        },
        Registration {
            class: 0x04,
            version: 1,
            ..valid
        },
    ] {
        assert_eq!(
            layer.register(file, &invalid, false),
            Err(Errno::INVAL),
            "{invalid:?}"
        );
    }
    for id in 0..32 {
        assert_eq!(layer.register(file, &sa(0), false), Ok(id));
    }
    assert_eq!(layer.register(file, &sa(0), false), Err(Errno::NOMEM));
}

#[test]
fn first_agent_of_a_file_fixes_the_form_of_the_header() {
    let mut layer = MadLayer::new();
    let (old, new) = (layer.open(), layer.open());
    layer.register(old, &sa(0), false).unwrap();
    assert_eq!(layer.enable_pkey(old), Err(Errno::INVAL));
    layer.register(new, &sa(0), true).unwrap();
    // The minimum length of a message is 36 bytes.
    for (file, len) in [(old, OLD_HEADER_LEN), (new, HEADER_LEN)] {
        assert_eq!(
            layer.write(file, &vec![0; len + 35], rsm_mad::Time::ZERO),
            Err(Errno::INVAL)
        );
        assert_eq!(
            layer.write(file, &vec![0; len + 36], rsm_mad::Time::ZERO),
            Ok(())
        );
    }
}

#[test]
fn a_response_reaches_only_the_requesting_agent() {
    let mut world = World::new();
    let (server, serving) = world.agent(1, &sa(SERVES));
    let (first_file, id) = world.agent(0, &sa(0));
    let (_other, _) = world.agent(0, &sa(0));
    let sent_request = Written {
        id,
        lid: 2,
        timeout_ms: 100,
        retries: 0,
    };
    world.write(
        0,
        first_file,
        &sent_request.bytes(&message(GET, 0x7777_7777_0000_0005, 200, false)),
    );
    world.run_for(Duration::from_millis(1));

    // The layer puts the number of the agent into the upper half of the transaction identifier.
    let (header, request) = world.only_read(1);
    assert_eq!(
        (header.lid.get(), header.status, header.id),
        (1, 0, serving)
    );
    assert_eq!(tid_of(&request), 0x1_0000_0005);
    let written = Written {
        id: serving,
        lid: 1,
        timeout_ms: 0,
        retries: 0,
    };
    let answer = written.bytes(&message(GET_RESP, tid_of(&request), 200, false));
    // The second response has no waiting request.
    world.write(1, server, &answer);
    world.write(1, server, &answer);
    world.run_for(Duration::from_millis(200));
    assert_eq!(world.read[0].len(), 1);
    assert_eq!(world.read[0][0].0, first_file);
    let (header, answer) = world.only_read(0);
    assert_eq!((header.length, header.lid.get()), (64 + 256, 2));
    assert_eq!(tid_of(&answer), 0x1_0000_0005);
}

#[test]
fn a_second_send_in_a_pending_transaction_is_refused() {
    let mut world = World::new();
    world.copies_of = Box::new(|_, _| 0);
    let (file, id) = world.agent(0, &sa(0));
    let sent_request = Written {
        id,
        lid: 2,
        timeout_ms: 100,
        retries: 0,
    };
    let bytes = sent_request.bytes(&message(GET, 5, 200, false));
    world.write(0, file, &bytes);
    let now = world.now;
    assert_eq!(world.hosts[0].write(file, &bytes, now), Err(Errno::INVAL));
    world.hosts[0].refuse_write(file, &bytes, Errno::INVAL);
    world.execute_effects();
    let (header, head) = world.only_read(0);
    assert_eq!((header.status, head.len()), (22, 24));
    world.run_for(Duration::from_millis(150));
    let (header, _) = world.only_read(0);
    assert_eq!(header.status, 110);
    world.write(0, file, &bytes);
}

#[test]
fn an_unanswered_request_returns_after_its_retries() {
    let mut world = World::new();
    world.copies_of = Box::new(|_, _| 0);
    let (file, id) = world.agent(0, &sa(0));
    let sent_request = Written {
        id,
        lid: 2,
        timeout_ms: 100,
        retries: 3,
    };
    world.write(0, file, &sent_request.bytes(&message(GET, 5, 200, false)));
    world.run_for(Duration::from_millis(399));
    assert_eq!((world.sent[0].len(), world.read[0].len()), (4, 0));
    world.run_for(Duration::from_millis(1));
    let (header, head) = world.only_read(0);
    assert_eq!(
        (header.status, header.timeout_ms, header.retries),
        (110, 100, 3)
    );
    assert_eq!((head.len(), tid_of(&head)), (24, 0x1_0000_0005));
    assert_eq!(world.hosts[0].next_deadline(), None);
}

#[test]
fn a_send_without_timeout_is_not_pending() {
    let mut world = World::new();
    let (file, id) = world.agent(0, &sa(0));
    let send = Written {
        id,
        lid: 2,
        timeout_ms: 0,
        retries: 3,
    };
    world.write(0, file, &send.bytes(&message(3, 5, 200, false)));
    assert_eq!(world.sent[0].len(), 1);
    assert_eq!(world.hosts[0].next_deadline(), None);
    world.run_for(Duration::from_secs(10));
    assert!(world.read.iter().all(Vec::is_empty));
}

#[test]
fn a_get_without_an_agent_is_refused() {
    let mut world = World::new();
    let (file, id) = world.agent(0, &sa(0));
    let sent_request = Written {
        id,
        lid: 2,
        timeout_ms: 100,
        retries: 0,
    };
    world.write(0, file, &sent_request.bytes(&message(GET, 5, 200, false)));
    world.run_for(Duration::from_millis(1));
    let (_, answer) = world.only_read(0);
    assert_eq!((answer[3], &answer[4..6]), (GET_RESP, &[0, 0x0C][..]));
    // A Send, or a datagram for another queue pair, gets no answer.
    let mut layer = MadLayer::new();
    let mut other_queue_pair = arrived(padded(&message(GET, 5, 200, false)));
    other_queue_pair.remote.qpn = 0;
    for datagram in [
        other_queue_pair,
        arrived(padded(&message(3, 5, 200, false))),
    ] {
        layer.receive(&datagram, world.now);
        assert_eq!(layer.poll_effect(), None);
    }
}

#[test]
fn closing_a_file_drops_its_pending_sends() {
    let mut world = World::new();
    let (file, id) = world.agent(0, &sa(0));
    let sent_request = Written {
        id,
        lid: 2,
        timeout_ms: 100,
        retries: 5,
    };
    world.write(0, file, &sent_request.bytes(&message(GET, 5, 200, false)));
    let table = message(0x12, 6, 2_000, true);
    world.write(0, file, &sent_request.bytes(&table));
    assert!(world.hosts[0].next_deadline().is_some());
    world.hosts[0].close(file);
    assert!(world.hosts[0].is_idle());
    assert_eq!(world.hosts[0].next_deadline(), None);
}

/// An answer to a program that has closed its device must not reach a program that opens the port
/// later.
#[test]
fn a_new_layer_reuses_no_agent_number() {
    let mut layer = MadLayer::new();
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let file = layer.open();
        layer.enable_pkey(file).unwrap();
        let id = layer.register(file, &sa(0), false).unwrap();
        let sent_request = Written {
            id,
            lid: 2,
            timeout_ms: 1000,
            retries: 0,
        };
        let request_bytes = sent_request.bytes(&message(GET, 5, 200, false));
        layer
            .write(file, &request_bytes, rsm_mad::Time::ZERO)
            .unwrap();
        let Some(rsm_sim_host::layer::LayerEffect::Send(sent)) = layer.poll_effect() else {
            panic!("the request is sent");
        };
        numbers.push(tid_of(&sent.mad) >> 32);
        layer.close(file);
        assert!(layer.is_idle());
        layer = MadLayer::after(layer.registered());
    }
    assert_eq!(numbers, [1, 2, 3]);
}

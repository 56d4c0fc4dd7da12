//! Tests of the transaction client with single answers.

use std::time::Duration;

use rsm_ids::{Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::client::{
    Client, ClientConfig, Completion, Handled, MAX_PENDING, MKeys, Priority, Request,
    RequestFailure, Routes,
};
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::{RemoteAddress, SendFailure};
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{AttrId, Class, Method, Status};
use rsm_mad::wire::smp::Smp;

const START: Time = Time::from_nanos(1_000_000);

fn client() -> Client<&'static str> {
    Client::new(ClientConfig::default())
}

fn client_with_window(initial_window: u32) -> Client<&'static str> {
    Client::new(ClientConfig {
        initial_window,
        ..ClientConfig::default()
    })
}

fn path(hops: &[u8]) -> DirectedPath {
    let hops: Vec<PortNum> = hops.iter().copied().map(PortNum).collect();
    DirectedPath::from_hops(&hops).unwrap()
}

fn port_info(context: &'static str) -> Request<&'static str> {
    Request::get(1, path(&[1]), AttrId::PORT_INFO, 3, context)
}

fn answer(mad: &MadBytes, status: Status) -> MadBytes {
    let mut answer = *mad;
    Smp::from_bytes_mut(&mut answer).make_response(status);
    answer
}

fn completed<C>(handled: Handled<C>) -> Completion<C> {
    match handled {
        Handled::Completed(completion) => completion,
        _ => panic!("not completed"),
    }
}

/// Handles deadlines up to the next datagram, and returns that datagram with its time.
fn next_attempt<C>(client: &mut Client<C>) -> (MadBytes, Time) {
    let now = client.next_deadline().unwrap();
    client.handle_deadline(now);
    (client.poll_transmit(now).unwrap().datagram.mad, now)
}

#[test]
fn an_answer_completes_its_request() {
    let mut client = client();
    client.submit(port_info("a")).unwrap();
    let transmit = client.poll_transmit(START).unwrap();
    assert_eq!(transmit.datagram.remote, RemoteAddress::directed());
    let smp = Smp::from_bytes(&transmit.datagram.mad);
    assert_eq!(smp.path(), path(&[1]));
    assert_eq!(smp.header().method(), Method::GET);
    assert_eq!(client.poll_transmit(START), None);

    let mut response = answer(&transmit.datagram.mad, Status::INVALID_FIELD);
    Smp::from_bytes_mut(&mut response).data_mut()[0] = 9;
    // The kernel may return another upper half of the transaction identifier.
    let tid = Tid(0x1234_0000_0000_0000 | u64::from(smp.header().tid().low()));
    Smp::from_bytes_mut(&mut response).header_mut().set_tid(tid);
    let completion = completed(client.handle(&response, START + Duration::from_micros(70)));
    let received = completion.outcome.unwrap();
    assert_eq!(
        (received.data[0], received.status),
        (9, Status::INVALID_FIELD)
    );
    assert_eq!(received.mad, response);
    assert_eq!(
        (completion.context, completion.attempts, completion.modifier),
        ("a", 1, 3)
    );
    assert_eq!(completion.rtt, Duration::from_micros(70));
    assert!(client.is_idle() && client.next_deadline().is_none());
    assert_eq!(client.stats().srtt, Duration::from_micros(70));
}

#[test]
fn a_mismatched_response_completes_no_request() {
    let mut client = client();
    client.submit(port_info("a")).unwrap();
    let request = client.poll_transmit(START).unwrap().datagram.mad;
    let mismatches: [fn(&mut Smp); 5] = [
        |smp| {
            smp.header_mut().set_attribute(AttrId::NODE_INFO);
        },
        |smp| {
            smp.header_mut().set_modifier(4);
        },
        |smp| {
            smp.header_mut().set_class(Class::SUBNET_LID_ROUTED);
        },
        |smp| {
            smp.header_mut().set_method(Method::REPORT_RESPONSE);
        },
        |smp| {
            let tid = smp.header().tid();
            smp.header_mut().set_tid(Tid(tid.0 + (1 << 16)));
        },
    ];
    for mismatch in mismatches {
        let mut response = answer(&request, Status::OK);
        mismatch(Smp::from_bytes_mut(&mut response));
        assert!(matches!(client.handle(&response, START), Handled::Stale));
    }
    let stats = client.stats();
    assert_eq!((stats.mismatched, stats.late), (4, 1));
    completed(client.handle(&answer(&request, Status::OK), START));
    let repeated = client.handle(&answer(&request, Status::OK), START);
    assert!(matches!(repeated, Handled::Stale));
    assert_eq!(client.stats().duplicate, 1);
}

#[test]
fn unsolicited_datagrams_go_to_the_caller() {
    let mut client = client();
    client.submit(port_info("a")).unwrap();
    let request = client.poll_transmit(START).unwrap().datagram.mad;
    assert!(matches!(
        client.handle(&request, START),
        Handled::Unsolicited
    ));
    let mut trap = request;
    Smp::from_bytes_mut(&mut trap)
        .header_mut()
        .set_method(Method::TRAP);
    assert!(matches!(client.handle(&trap, START), Handled::Unsolicited));
    let mut sa = answer(&request, Status::OK);
    Smp::from_bytes_mut(&mut sa)
        .header_mut()
        .set_class(Class::SUBNET_ADMINISTRATION);
    assert!(matches!(client.handle(&sa, START), Handled::Unsolicited));
    assert_eq!(client.pending(), 1);
}

#[test]
fn last_attempt_waits_for_the_response_time_of_its_target() {
    let deadlines = [Duration::ZERO, Duration::from_secs(4)].map(|response_time| {
        let mut client = client();
        client
            .submit(Request {
                response_time,
                ..port_info("a")
            })
            .unwrap();
        client.poll_transmit(START).unwrap();
        let retries = ClientConfig::default().retries;
        let last = (0..retries).fold(START, |_, _| next_attempt(&mut client).1);
        (last, client.next_deadline().unwrap())
    });
    let [(before, without_response_time), (last, with_response_time)] = deadlines;
    assert_eq!(before, last, "the attempts before follow the round trips");
    assert_eq!(without_response_time, last + Duration::from_secs(1));
    assert_eq!(with_response_time, last + Duration::from_secs(4));
}

#[test]
fn retries_take_the_routes_in_turn_and_an_early_attempt_may_still_be_answered() {
    let mut client = client();
    let mut routes = Routes::new(Lid(5));
    assert!(routes.push(path(&[2, 3])));
    assert!(routes.push(path(&[4])));
    assert!(!routes.push(Lid(6)), "a fourth route has no room");
    client
        .submit(Request {
            routes,
            ..port_info("a")
        })
        .unwrap();
    let first = client.poll_transmit(START).unwrap();
    assert_eq!(first.datagram.remote, RemoteAddress::smi(Lid(5)));
    assert_eq!(first.timeout, Duration::from_millis(100 + 200));
    let (second, at) = next_attempt(&mut client);
    assert_eq!(at, START + Duration::from_millis(100));
    assert_eq!(Smp::from_bytes(&second).path(), path(&[2, 3]));
    let (third, at) = next_attempt(&mut client);
    assert_eq!(at, START + Duration::from_millis(300));
    assert_eq!(Smp::from_bytes(&third).path(), path(&[4]));
    let (fourth, now) = next_attempt(&mut client);
    assert_eq!(
        Smp::from_bytes(&fourth).header().class(),
        Class::SUBNET_LID_ROUTED
    );

    let completion = completed(client.handle(&answer(&third, Status::OK), now));
    assert_eq!((completion.attempts, completion.lid_route_lost), (4, true));
    assert_eq!(completion.rtt, Duration::from_millis(400));
    let stats = client.stats();
    assert_eq!((stats.retries, stats.timeouts, stats.slow), (3, 3, 1));
    assert_eq!(
        stats.window_halvings, 0,
        "a late answer does not count as a loss"
    );
    assert!(
        stats.timeout > Duration::from_millis(400),
        "the timeout adapts to the slow answer"
    );
}

#[test]
fn request_to_a_silent_target_times_out_after_all_retries() {
    let mut client = client();
    client.submit(port_info("a")).unwrap();
    let first = client.poll_transmit(START).unwrap().datagram.mad;
    for _ in 0..6 {
        next_attempt(&mut client);
        assert!(client.poll_completion().is_none());
    }
    let end = client.next_deadline().unwrap();
    client.handle_deadline(end);
    let completion = client.poll_completion().unwrap();
    assert_eq!(completion.outcome.unwrap_err(), RequestFailure::TimedOut);
    assert_eq!(completion.attempts, 7);
    assert!(client.is_idle());
    assert!(matches!(
        client.handle(&answer(&first, Status::OK), end),
        Handled::Stale
    ));
    assert_eq!(client.stats().late, 1);
}

#[test]
fn a_lost_request_halves_the_window_when_its_retry_is_answered() {
    let mut client = client_with_window(32);
    client.submit(port_info("a")).unwrap();
    client.poll_transmit(START).unwrap();
    let (second, now) = next_attempt(&mut client);
    assert_eq!(client.stats().window, 32);
    completed(client.handle(&answer(&second, Status::OK), now));
    assert_eq!((client.stats().losses, client.stats().window), (1, 16));
}

#[test]
fn a_busy_target_gets_no_request_during_a_pause() {
    let mut client = Client::new(ClientConfig {
        target_cap: 1,
        retries: 1,
        ..ClientConfig::default()
    });
    client.submit(port_info("a")).unwrap();
    client.submit(port_info("b")).unwrap();
    let first = client.poll_transmit(START).unwrap().datagram.mad;
    let busy = answer(&first, Status::BUSY);
    assert!(matches!(client.handle(&busy, START), Handled::Deferred));
    assert_eq!(
        client.poll_transmit(START),
        None,
        "a busy target gets no other request either"
    );
    let (second, now) = next_attempt(&mut client);
    assert_eq!(now, START + Duration::from_millis(25));
    let completion = completed(client.handle(&answer(&second, Status::BUSY), now));
    assert_eq!(completion.context, "a");
    assert_eq!(
        completion.outcome.unwrap_err(),
        RequestFailure::Rejected(Status::BUSY)
    );
    assert!(
        client.poll_transmit(now).is_some(),
        "request b is sent after the pause"
    );
}

#[test]
fn a_failed_send_is_retried_after_a_delay() {
    let mut client = Client::new(ClientConfig {
        retries: 1,
        ..ClientConfig::default()
    });
    client.submit(port_info("a")).unwrap();
    let first = client.poll_transmit(START).unwrap().datagram.mad;
    let tid = |mad: &MadBytes| Smp::from_bytes(mad).header().tid();
    client.handle_send_failed(tid(&first), SendFailure::Flushed, START);
    assert_eq!(client.poll_transmit(START), None);
    let (second, now) = next_attempt(&mut client);
    assert_eq!(now, START + Duration::from_millis(25));
    client.handle_send_failed(tid(&first), SendFailure::Flushed, now);
    assert!(
        client.poll_completion().is_none(),
        "a failure of the first attempt no longer counts"
    );
    client.handle_send_failed(tid(&second), SendFailure::Other(19), now);
    let completion = client.poll_completion().unwrap();
    assert_eq!(completion.outcome.unwrap_err(), RequestFailure::SendFailed);
    assert_eq!(client.stats().send_failures, 2);
}

#[test]
fn a_timeout_that_the_transport_reports_causes_a_retry_at_once() {
    let mut client = client();
    client.submit(port_info("a")).unwrap();
    let first = client.poll_transmit(START).unwrap().datagram.mad;
    let tid = Smp::from_bytes(&first).header().tid();
    client.handle_send_failed(tid, SendFailure::TimedOut, START);
    assert!(
        client.poll_transmit(START).is_some(),
        "the retry is sent at once"
    );
    assert_eq!(client.stats().timeouts, 1);
}

#[test]
fn cancel_queued_cancels_only_unsent_requests() {
    let mut client = client();
    for context in ["sent", "sent", "kept", "dropped", "dropped"] {
        client.submit(port_info(context)).unwrap();
    }
    let mut background = port_info("dropped");
    background.priority = Priority::Background;
    client.submit(background).unwrap();
    let sent = [(); 2].map(|()| client.poll_transmit(START).unwrap().datagram.mad);
    assert_eq!(
        client.poll_transmit(START),
        None,
        "the target has its two requests"
    );
    assert_eq!(client.cancel_queued(|&context| context != "kept"), 3);
    assert_eq!(client.pending(), 3);
    for mad in sent {
        completed(client.handle(&answer(&mad, Status::OK), START));
    }
    let last = client.poll_transmit(START).unwrap().datagram.mad;
    let completion = completed(client.handle(&answer(&last, Status::OK), START));
    assert_eq!(completion.context, "kept");
    assert!(client.is_idle());
    assert_eq!(client.stats().cancelled, 3);
}

#[test]
fn a_full_queue_returns_the_request() {
    let mut client = Client::new(ClientConfig::default());
    for index in 0..MAX_PENDING as u64 {
        let request = Request::get(index, path(&[1]), AttrId::NODE_INFO, 0, index);
        client.submit(request).unwrap();
    }
    let one_more = Request::get(7, path(&[1]), AttrId::NODE_INFO, 0, u64::MAX);
    let rejected = client.submit(one_more).unwrap_err();
    assert_eq!(rejected.0.context, u64::MAX);
    assert_eq!(client.stats().rejected, 1);
    client.cancel_queued(|&index| index == 0);
    client.submit(*rejected.0).unwrap();
}

#[test]
#[should_panic(expected = "windows of 0 to 96")]
fn a_client_refuses_a_config_that_is_out_of_range() {
    let _ = Client::<()>::new(ClientConfig {
        min_window: 0,
        ..ClientConfig::default()
    });
}

#[test]
fn without_any_answer_the_window_is_halved_once_per_timeout() {
    let mut client = client_with_window(32);
    for target in 0..64 {
        let request = Request::get(target, path(&[1]), AttrId::NODE_INFO, 0, "a");
        client.submit(request).unwrap();
    }
    let mut windows = Vec::new();
    let mut now = START;
    for _ in 0..5 {
        while client.poll_transmit(now).is_some() {}
        let stats = client.stats();
        assert_eq!(stats.in_flight, stats.window);
        windows.push(stats.window);
        now = client.next_deadline().unwrap();
        client.handle_deadline(now);
    }
    assert_eq!(windows, [32, 16, 8, 4, 4]);
}

/// The keys and first hops of all attempts of a request that gets no answer.
fn unanswered_attempts(m_keys: MKeys, routes: Routes) -> (Vec<(u64, u8)>, Client<&'static str>) {
    let mut client = client();
    let request = Request {
        m_keys,
        routes,
        ..port_info("a")
    };
    client.submit(request).unwrap();
    let mut attempts = Vec::new();
    let mut now = START;
    loop {
        while let Some(transmit) = client.poll_transmit(now) {
            let smp = Smp::from_bytes(&transmit.datagram.mad);
            attempts.push((smp.m_key(), smp.initial_path()[1]));
        }
        if client.poll_completion().is_some() {
            return (attempts, client);
        }
        now = client.next_deadline().unwrap();
        client.handle_deadline(now);
    }
}

#[test]
fn each_key_is_tried_on_a_route_before_the_next_route() {
    let mut routes = Routes::new(path(&[1]));
    assert!(routes.push(path(&[2])));
    let (attempts, client) = unanswered_attempts(MKeys::several([7, 8]), routes);
    assert_eq!(attempts[..4], [(7, 1), (8, 1), (7, 2), (8, 2)]);
    assert_eq!(client.stats().losses, 0);
}

#[test]
fn every_one_of_four_keys_is_tried_twice() {
    let keys = MKeys::several([1, 2, 3, 4, 5]);
    assert_eq!(keys.as_slice(), [1, 2, 3, 4]);
    let (attempts, _) = unanswered_attempts(keys, Routes::new(path(&[1])));
    let keys_tried: Vec<u64> = attempts.into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys_tried, [1, 2, 3, 4, 1, 2, 3, 4]);
}

#[test]
fn a_single_key_is_used_in_every_attempt() {
    let (attempts, _) = unanswered_attempts(MKeys::one(9), Routes::new(path(&[1])));
    let retries = usize::from(ClientConfig::default().retries);
    assert_eq!(attempts, vec![(9, 1); retries + 1]);
    assert_eq!(MKeys::several([]), MKeys::NONE);
}

/// A wrong key is not a loss: the window and the loss rate do not change.
#[test]
fn an_answer_to_the_second_key_is_not_counted_as_a_loss() {
    let mut client = client();
    let request = Request {
        m_keys: MKeys::several([7, 8]),
        ..port_info("a")
    };
    client.submit(request).unwrap();
    client.poll_transmit(START).unwrap();
    let (second, now) = next_attempt(&mut client);
    assert_eq!(Smp::from_bytes(&second).m_key(), 8);
    let completion = completed(client.handle(&answer(&second, Status::OK), now));
    assert!(completion.outcome.is_ok());
    let stats = client.stats();
    assert_eq!(
        (stats.losses, stats.loss_permille, stats.window_halvings),
        (0, 0, 0)
    );
}

/// VL15 has no flow control: the client learns from the answers how many requests a fabric holds.
#[test]
fn four_requests_are_in_flight_before_the_first_answer_and_more_after_it() {
    let mut client = Client::new(ClientConfig::default());
    for target in 0..100 {
        let route = path(&[1 + target as u8]);
        let request = Request::get(target, route, AttrId::PORT_INFO, 0, target);
        client.submit(request).unwrap();
    }
    let mut sent = Vec::new();
    while let Some(transmit) = client.poll_transmit(START) {
        sent.push(transmit.datagram.mad);
    }
    assert_eq!(sent.len(), 4);
    let response = answer(&sent[0], Status::OK);
    completed(client.handle(&response, START + Duration::from_micros(10)));
    let later = START + Duration::from_micros(20);
    let sent_later = std::iter::from_fn(|| client.poll_transmit(later)).count();
    assert!(sent_later > 1, "{sent_later}");
}

#[test]
fn debug_output_hides_keys() {
    let text = format!("{:?}", MKeys::several([0xdead, 0xbeef]));
    assert!(!text.contains("dead") && !text.contains("57005") && !text.contains("48879"));
}

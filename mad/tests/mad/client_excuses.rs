//! Tests that a missing answer does not count against a target if the client's owner was late or
//! nothing could answer.

use std::time::Duration;

use rsm_ids::PortNum;
use rsm_mad::Time;
use rsm_mad::client::{Client, ClientConfig, Handled, MKeys, Request, RequestFailure};
use rsm_mad::ids::DirectedPath;
use rsm_mad::transport::SendFailure;
use rsm_mad::wire::MadBytes;
use rsm_mad::wire::header::{AttrId, Status};
use rsm_mad::wire::smp::Smp;

const START: Time = Time::from_nanos(1_000_000);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn client() -> Client<u64> {
    Client::new(ClientConfig::default())
}

fn ask(client: &mut Client<u64>, target: u64) {
    let path = DirectedPath::from_hops(&[PortNum(1)]).unwrap();
    let request = Request::get(target, path, AttrId::NODE_INFO, 0, target);
    client.submit(request).unwrap();
}

fn answer(mad: &MadBytes) -> MadBytes {
    let mut answer = *mad;
    Smp::from_bytes_mut(&mut answer).make_response(Status::OK);
    answer
}

fn sent(client: &mut Client<u64>, now: Time) -> MadBytes {
    client.poll_transmit(now).unwrap().datagram.mad
}

fn unanswered(client: &Client<u64>) -> Vec<u8> {
    let pending = client.pending_requests();
    pending.map(|(_, attempts)| attempts).collect()
}

#[test]
fn attempt_that_times_out_late_is_sent_again_and_does_not_count() {
    let mut client = client();
    ask(&mut client, 1);
    sent(&mut client, START);
    let late_time = client.next_deadline().unwrap() + ms(300);
    client.handle_deadline(late_time);
    sent(&mut client, late_time);
    assert_eq!(unanswered(&client), [0]);
    assert_eq!(
        client.next_deadline().unwrap(),
        late_time + ms(100),
        "the timeout is not doubled"
    );
    let due = client.next_deadline().unwrap();
    client.handle_deadline(due);
    assert_eq!(
        unanswered(&client),
        [1],
        "the second attempt times out in time and counts"
    );
    let stats = client.stats();
    assert_eq!((stats.excused, stats.timeouts), (1, 1));
}

#[test]
fn late_attempt_of_a_request_with_several_keys_counts() {
    let mut client = client();
    let path = DirectedPath::from_hops(&[PortNum(1)]).unwrap();
    let request = Request {
        m_keys: MKeys::several([7, 8]),
        ..Request::get(1, path, AttrId::NODE_INFO, 0, 1)
    };
    client.submit(request).unwrap();
    sent(&mut client, START);
    let late_time = client.next_deadline().unwrap() + ms(300);
    client.handle_deadline(late_time);
    sent(&mut client, late_time);
    client.excuse(late_time);
    assert_eq!(unanswered(&client), [1]);
    assert_eq!(client.stats().excused, 0);
}

#[test]
fn timeout_reported_by_the_transport_to_a_late_owner_does_not_count() {
    let mut client = client();
    ask(&mut client, 1);
    let first = sent(&mut client, START);
    let late_time = client.next_deadline().unwrap() + ms(300);
    let tid = Smp::from_bytes(&first).header().tid();
    client.handle_send_failed(tid, SendFailure::TimedOut, late_time);
    sent(&mut client, late_time);
    assert_eq!(unanswered(&client), [0]);
    assert_eq!(client.stats().timeouts, 0);
}

#[test]
fn answers_that_waited_for_a_late_owner_do_not_lengthen_timeouts() {
    let mut client = client();
    ask(&mut client, 1);
    let first = sent(&mut client, START);
    client.handle(&answer(&first), START + ms(1));
    let before = client.stats().timeout;
    ask(&mut client, 2);
    let second = sent(&mut client, START + ms(2));
    let late_time = client.next_deadline().unwrap() + ms(400);
    assert!(matches!(
        client.handle(&answer(&second), late_time),
        Handled::Completed(_)
    ));
    let stats = client.stats();
    assert_eq!((stats.timeout, stats.outliers), (before, 0));
}

#[test]
fn request_of_an_owner_that_is_always_late_ends() {
    let mut client = client();
    ask(&mut client, 1);
    let mut now = START;
    let mut attempts = 0;
    let completion = loop {
        if let Some(completion) = client.poll_completion() {
            break completion;
        }
        attempts += usize::from(client.poll_transmit(now).is_some());
        assert!(attempts < 50, "the request ends");
        now = client.next_deadline().unwrap() + ms(200);
        client.handle_deadline(now);
    };
    assert_eq!(completion.outcome.unwrap_err(), RequestFailure::TimedOut);
    assert_eq!(completion.waited, now.since(START));
}

#[test]
fn excused_attempts_are_sent_again_at_once_and_forgotten() {
    let mut client = client();
    ask(&mut client, 1);
    sent(&mut client, START);
    let mut last = START;
    for _ in 0..3 {
        last = client.next_deadline().unwrap();
        client.handle_deadline(last);
        sent(&mut client, last);
    }
    assert_eq!(unanswered(&client), [3]);
    let now = last + ms(50);
    client.excuse(now);
    assert_eq!(unanswered(&client), [0]);
    assert_eq!(client.next_deadline().unwrap(), now + ms(100));
    client.handle_deadline(now + ms(100));
    assert_eq!(
        unanswered(&client),
        [0],
        "the request was sent before as well"
    );
    sent(&mut client, now + ms(100));
    let due = client.next_deadline().unwrap();
    client.handle_deadline(due);
    assert_eq!(unanswered(&client), [1]);
}

#[test]
fn requests_sent_more_than_once_are_counted_until_they_end() {
    let mut client = client();
    for target in 1..=3 {
        ask(&mut client, target);
    }
    let mads: Vec<MadBytes> = (0..3).map(|_| sent(&mut client, START)).collect();
    assert_eq!(client.repeated(), 0);
    client.handle(&answer(&mads[0]), START + ms(1));
    let due = client.next_deadline().unwrap();
    client.handle_deadline(due);
    assert_eq!(client.repeated(), 0, "no request was sent again yet");
    let again: Vec<MadBytes> = (0..2).map(|_| sent(&mut client, due)).collect();
    assert_eq!(client.repeated(), 2);
    client.handle(&answer(&again[0]), due + ms(1));
    assert_eq!(client.repeated(), 1);
    client.withdraw(|_| true);
    assert_eq!(client.repeated(), 0);
}

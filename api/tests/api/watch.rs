//! Streams of events: complete for fast readers, with counted losses for slow ones.

use rsm_api::limits::MAX_WATCHERS;
use rsm_proto::v1;
use rsm_proto::v1::event::Change;
use rsm_proto::v1::watch_response::Message;
use rsm_proto::v1::watch_service_client::WatchServiceClient;
use tonic::{Code, Streaming};

use crate::fake::{Fake, GENERATION, JOURNAL};
use crate::served::Served;

fn publish(fake: &Fake, reason: &str) -> u64 {
    let change = Change::StateChanged(v1::StateChanged {
        state: v1::SubnetState::Up.into(),
        reason: reason.to_owned(),
    });
    fake.journal.publish(GENERATION, 0, change).sequence
}

/// A stream that has begun: it misses no event from now on.
async fn begin(
    client: &mut WatchServiceClient<tonic::transport::Channel>,
    after_sequence: Option<u64>,
) -> Streaming<v1::WatchResponse> {
    let request = v1::WatchRequest { after_sequence };
    let mut stream = client.watch(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap().message;
    let generation = GENERATION;
    assert_eq!(
        first,
        Some(Message::Started(v1::WatchStarted { generation }))
    );
    stream
}

async fn next(stream: &mut Streaming<v1::WatchResponse>) -> Message {
    stream.message().await.unwrap().unwrap().message.unwrap()
}

async fn next_sequence(stream: &mut Streaming<v1::WatchResponse>) -> u64 {
    match next(stream).await {
        Message::Event(event) => event.sequence,
        other => panic!("expected an event, got {other:?}"),
    }
}

#[test]
fn a_watcher_gets_events_from_now_on() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = WatchServiceClient::new(served.tcp());
    publish(&served.fake, "before");
    served.block_on(async {
        let mut stream = begin(&mut client, None).await;
        for _ in 0..3 {
            publish(&served.fake, "after");
        }
        for expected in 2..=4 {
            assert_eq!(next_sequence(&mut stream).await, expected);
        }
    });
}

#[test]
fn a_watcher_catches_up_without_gap_or_repetition() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = WatchServiceClient::new(served.unix());
    for _ in 0..5 {
        publish(&served.fake, "kept");
    }
    served.block_on(async {
        let mut stream = begin(&mut client, Some(2)).await;
        publish(&served.fake, "new");
        for expected in 3..=6 {
            assert_eq!(next_sequence(&mut stream).await, expected);
        }
    });
}

#[test]
fn a_watcher_gets_the_number_of_events_no_longer_kept() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = WatchServiceClient::new(served.unix());
    for _ in 0..JOURNAL + 10 {
        publish(&served.fake, "many");
    }
    served.block_on(async {
        let mut stream = begin(&mut client, Some(0)).await;
        assert_eq!(
            next(&mut stream).await,
            Message::Lost(v1::EventsLost { count: 10 })
        );
        assert_eq!(next_sequence(&mut stream).await, 11);
    });
}

#[test]
fn a_number_from_before_a_restart_counts_as_now() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = WatchServiceClient::new(served.unix());
    publish(&served.fake, "before");
    served.block_on(async {
        let mut stream = begin(&mut client, Some(1_000_000)).await;
        let last = publish(&served.fake, "after");
        assert_eq!(next_sequence(&mut stream).await, last);
    });
}

#[test]
fn a_slow_watcher_loses_events_and_delays_no_publisher() {
    const EVENTS: u64 = 20_000;
    let served = Served::start(Fake::tree(1, 1));
    let mut client = WatchServiceClient::new(served.unix());
    // All reasons together are far more than the windows of a connection hold.
    let reason = "x".repeat(1_000);
    served.block_on(async {
        let mut stream = begin(&mut client, None).await;
        // The loop ends although the client does not read.
        for _ in 0..EVENTS {
            publish(&served.fake, &reason);
        }
        let (mut received, mut lost, mut last) = (0, 0, 0);
        while last < EVENTS {
            match next(&mut stream).await {
                Message::Event(event) => {
                    assert!(event.sequence > last, "in order and each once");
                    received += 1;
                    last = event.sequence;
                }
                Message::Lost(loss) => lost += loss.count,
                Message::Started(_) => panic!("a stream begins once"),
            }
        }
        assert!(lost > 0);
        assert_eq!(received + lost, EVENTS);
    });
}

#[test]
fn places_for_watchers_are_bounded_and_given_back() {
    let served = Served::start(Fake::tree(1, 1));
    let mut streams = Vec::new();
    for _ in 0..MAX_WATCHERS / 32 {
        let mut client = WatchServiceClient::new(served.unix());
        for _ in 0..32 {
            streams.push(served.block_on(begin(&mut client, None)));
        }
    }
    let mut client = WatchServiceClient::new(served.unix());
    let request = v1::WatchRequest {
        after_sequence: None,
    };
    let refusal = served.block_on(client.watch(request)).unwrap_err();
    assert_eq!(refusal.code(), Code::ResourceExhausted);
    assert!(refusal.message().contains("ListEvents"), "{refusal}");

    streams.clear();
    // The server notices the end of a stream after a while.
    served.block_on(async {
        while client.watch(request).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn kept_events_are_listed_by_pages() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = WatchServiceClient::new(served.unix());
    for _ in 0..7 {
        publish(&served.fake, "kept");
    }
    let (mut sequences, mut token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListEventsRequest {
            page_size: 3,
            page_token: token,
            after_sequence: 1,
            ..Default::default()
        };
        let page = served
            .block_on(client.list_events(request))
            .unwrap()
            .into_inner();
        sequences.extend(page.events.into_iter().map(|event| event.sequence));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(sequences, [2, 3, 4, 5, 6, 7]);
}

#[test]
fn kept_events_are_listed_newest_first_and_not_after_a_sequence_number() {
    let served = Served::start(Fake::tree(1, 1));
    let mut client = WatchServiceClient::new(served.unix());
    for reason in ["sweep", "trap", "trap", "sweep", "trap"] {
        publish(&served.fake, reason);
    }
    let request = v1::ListEventsRequest {
        page_size: 2,
        newest_first: true,
        cause: "trap".to_owned(),
        ..Default::default()
    };
    let mut list = |page_token: String| {
        let request = v1::ListEventsRequest {
            page_token,
            ..request.clone()
        };
        let page = served.block_on(client.list_events(request)).unwrap();
        page.into_inner()
    };
    let sequences = |page: &v1::ListEventsResponse| -> Vec<u64> {
        page.events.iter().map(|event| event.sequence).collect()
    };
    let first = list(String::new());
    assert_eq!(sequences(&first), [5, 3]);
    let second = list(first.next_page_token);
    assert_eq!(sequences(&second), [2]);
    assert_eq!(second.next_page_token, "");

    let refused = v1::ListEventsRequest {
        after_sequence: 2,
        newest_first: true,
        ..Default::default()
    };
    let refused = served.block_on(client.list_events(refused)).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

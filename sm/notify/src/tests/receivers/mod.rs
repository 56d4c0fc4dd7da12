//! Tests with real receivers: a webhook in the test, a stock syslog daemon, a collector with OTLP's
//! own server.

mod otlp;
mod syslog;
mod webhook;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rsm_proto::v1;
use rsm_proto::v1::event::Change;

use crate::described::Severity;
use crate::filter::{Filter, SendingRole};
use crate::settings::{Access, HttpTarget, ReceiverSettings, Settings, Target};
use crate::source::Source;
use crate::{Notifier, ReceiverFault, Report};

/// All reports of faults, in order.
type Faults = Arc<Mutex<Vec<Vec<ReceiverFault>>>>;

fn notifier(state_dir: Option<&Path>, settings: Settings) -> (Notifier, Faults) {
    let faults = Faults::default();
    let kept = faults.clone();
    let report: Report = Arc::new(move |_, present| kept.lock().push(present));
    let source = Source {
        host: "sm-1".to_owned(),
        version: "0.1.0".to_owned(),
        fabric: "sim:test".to_owned(),
        run: 1,
    };
    let notifier = Notifier::new(state_dir, source, report);
    notifier.configure(settings).unwrap();
    (notifier, faults)
}

fn receiver(target: Target) -> ReceiverSettings {
    ReceiverSettings {
        target,
        filter: Filter {
            min_severity: Severity::Info,
            kinds: vec!["finding", "node"],
        },
        queue_bytes: 1 << 20,
    }
}

fn http(port: u16) -> HttpTarget {
    HttpTarget {
        tls: false,
        host: "127.0.0.1".to_owned(),
        port,
        path: "/hooks/SECRET?x=1".to_owned(),
        access: Ok(Access::default()),
    }
}

/// Passes findings with these messages to the notifier. Their sequence numbers start at `first`.
fn put(notifier: &Notifier, messages: &[&str], first: u64) {
    let events: Vec<Arc<v1::Event>> = (first..)
        .zip(messages)
        .map(|(sequence, message)| {
            Arc::new(v1::Event {
                sequence,
                at_unix_ms: 1_764_432_000_123,
                change: Some(Change::FindingRaised(v1::Finding {
                    kind: "host-missing".to_owned(),
                    severity: v1::Severity::Error.into(),
                    message: (*message).to_owned(),
                    ..v1::Finding::default()
                })),
                ..v1::Event::default()
            })
        })
        .collect();
    notifier.put(&events, SendingRole::Master);
}

#[expect(clippy::disallowed_methods, reason = "receivers run in real time")]
fn wait_until(seconds: u64, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !is_so() {
        assert!(Instant::now() < end, "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn counts(notifier: &Notifier) -> (u64, u64, u64) {
    let receivers = notifier.receivers();
    let [receiver] = &receivers[..] else {
        panic!("{receivers:?}")
    };
    (receiver.sent, receiver.waiting, receiver.lost)
}

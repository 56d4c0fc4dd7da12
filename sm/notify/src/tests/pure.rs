use std::sync::Arc;
use std::time::Duration;

use rsm_proto::v1;
use rsm_proto::v1::event::Change;

use crate::backoff::Backoff;
use crate::described::{Severity, rate, sentence};
use crate::filter::{Filter, MasterOnly, SendingRole};
use crate::source::{Record, Source, timestamp};
use crate::{json, otlp, syslog};

/// Name that a hostile host may have: a forged line, an escape sequence, right-to-left text.
const HOSTILE: &str = "h\"]\n<0>1 - evil - - - owned\r\u{1b}[2J\u{202e}gnp\0\u{7f}\u{85}é\\";

fn source() -> Source {
    Source {
        host: "sm 1\n.example.com".to_owned(),
        version: "0.1.0".to_owned(),
        fabric: "sim:test".to_owned(),
        run: 0x1234,
    }
}

fn event(sequence: u64, change: Change) -> Arc<v1::Event> {
    Arc::new(v1::Event {
        sequence,
        generation: 3,
        at_unix_ms: 1_764_432_000_123,
        change: Some(change),
        ..v1::Event::default()
    })
}

fn finding(severity: v1::Severity, message: &str) -> v1::Finding {
    v1::Finding {
        kind: "host-missing".to_owned(),
        severity: severity.into(),
        message: message.to_owned(),
        node_guid: "0x0002c90300000001".to_owned(),
        port: Some(7),
        ..v1::Finding::default()
    }
}

fn raised(severity: v1::Severity, message: &str) -> Change {
    Change::FindingRaised(finding(severity, message))
}

fn node(description: &str) -> v1::Node {
    v1::Node {
        guid: "0x0002c90300000001".to_owned(),
        kind: v1::NodeKind::Ca.into(),
        description: description.to_owned(),
        ..v1::Node::default()
    }
}

fn acted(refusal: &str) -> Change {
    Change::OperatorActed(v1::OperatorActed {
        action: "drain".to_owned(),
        operator: "uid:0".to_owned(),
        refusal: refusal.to_owned(),
        ..v1::OperatorActed::default()
    })
}

fn state(state: v1::SubnetState) -> Change {
    Change::StateChanged(v1::StateChanged {
        state: state.into(),
        reason: "r".to_owned(),
    })
}

#[test]
fn hostile_node_name_gives_one_line_in_rfc_5424() {
    let vanished = event(5, Change::NodeVanished(node(HOSTILE)));
    let message = syslog::message(&source(), 3, &vanished, syslog::DATAGRAM_MAX).unwrap();
    let message = String::from_utf8(message).unwrap();
    let head = format!(
        "<28>1 2025-11-29T16:00:00.123Z sm1.example.com rsm {} node_vanished \
         [origin software=\"rsm\" swVersion=\"{}\"][meta sequenceId=\"5\"] \u{feff}ca h\"]\\u{{a}}<0>1 - evil",
        std::process::id(),
        env!("CARGO_PKG_VERSION"),
    );
    assert!(message.starts_with(&head), "{message}\n{head}");
    let text = &message[head.len()..];
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(
        text.contains("\\u{1b}[2J\\u{202e}gnp\\u{0}\\u{7f}\\u{85}é\\"),
        "{text}"
    );
    assert!(!text.contains('\u{202e}'), "{text:?}");
    let local = syslog::local_message(16, &vanished, 8192).unwrap();
    let local = String::from_utf8(local).unwrap();
    assert!(local.starts_with("<132>rsm["), "{local}");
    assert!(!local.contains('\n'), "{local:?}");
    let framed = syslog::frame(message.as_bytes());
    assert!(framed.starts_with(format!("{} <28>1 ", message.len()).as_bytes()));
}

#[test]
fn ascii_messages_have_no_byte_order_mark_and_priorities_follow_severities() {
    for (severity, code) in [
        (v1::Severity::Error, 131),
        (v1::Severity::Warning, 132),
        (v1::Severity::Info, 134),
    ] {
        let message = syslog::message(&source(), 16, &event(0, raised(severity, "lost")), 2048);
        let message = String::from_utf8(message.unwrap()).unwrap();
        assert!(message.starts_with(&format!("<{code}>1 ")), "{message}");
        assert!(message.ends_with("\"] host-missing: lost"), "{message}");
        assert!(
            !message.contains("sequenceId"),
            "no number, no element: {message}"
        );
    }
    let nameless = Source {
        host: " \n".to_owned(),
        ..source()
    };
    let message = syslog::message(&nameless, 3, &event(1, acted("")), 2048).unwrap();
    assert!(String::from_utf8(message).unwrap().contains("Z - rsm "));
    let unknown = v1::Event::default();
    assert_eq!(syslog::message(&source(), 3, &unknown, 2048), None);
}

#[test]
fn long_messages_are_cut_at_a_character() {
    for most in 300..330 {
        let long = event(1, raised(v1::Severity::Error, &"ü€𝄞".repeat(300)));
        let message = syslog::message(&source(), 3, &long, most).unwrap();
        assert!(
            message.len() <= most && message.len() + 4 > most,
            "{}",
            message.len()
        );
        assert!(String::from_utf8(message).unwrap().ends_with("..."));
    }
    let sequence = event(2_147_483_648, acted(""));
    let message = syslog::message(&source(), 3, &sequence, 2048).unwrap();
    assert!(
        String::from_utf8(message)
            .unwrap()
            .contains("sequenceId=\"1\"")
    );
}

#[test]
fn hostile_node_name_gives_a_valid_json_body() {
    let records = [
        Record {
            number: 1,
            run: 0x1234,
            event: event(5, Change::NodeVanished(node(HOSTILE))),
        },
        Record {
            number: 2,
            run: 0x1234,
            event: event(6, raised(v1::Severity::Error, "gone")),
        },
        Record {
            number: 3,
            run: 0x1234,
            event: Arc::new(v1::Event::default()),
        },
    ];
    let body: serde_json::Value = serde_json::from_slice(&json::body(&source(), &records)).unwrap();
    assert_eq!(body["version"], 1);
    assert_eq!(body["manager"]["fabric"], "sim:test");
    let events = body["events"].as_array().unwrap();
    assert_eq!(events.len(), 2, "an event without a change is left out");
    assert_eq!(events[0]["id"], "1234-5");
    assert_eq!(events[0]["event"]["node_vanished"]["description"], HOSTILE);
    assert_eq!(
        events[0]["text"],
        sentence(&Change::NodeVanished(node(HOSTILE)))
    );
    let second = &events[1];
    assert_eq!(
        [
            &second["kind"],
            &second["change"],
            &second["severity"],
            &second["time"],
            &second["text"]
        ],
        [
            "finding",
            "finding_raised",
            "error",
            "2025-11-29T16:00:00.123Z",
            "host-missing: gone"
        ]
    );
}

#[test]
fn names_of_changes_are_the_fields_of_the_event() {
    for change in [
        state(v1::SubnetState::Up),
        Change::NodeAppeared(node("x")),
        Change::LinkVanished(v1::Link::default()),
        Change::PortChanged(v1::Port::default()),
        raised(v1::Severity::Info, "x"),
        Change::FindingCleared(finding(v1::Severity::Info, "x")),
        Change::ConvergenceFinished(v1::Convergence::default()),
        Change::RoutesChanged(v1::RoutesChanged::default()),
        Change::ManagerStarted(v1::ManagerStarted::default()),
        acted(""),
    ] {
        let name = rate(&change).name;
        let json = serde_json::to_value(&*event(1, change)).unwrap();
        assert!(json.get(name).is_some(), "{name}: {json}");
    }
}

#[test]
fn end_of_a_condition_reaches_the_receivers_of_its_beginning() {
    let filter = |min_severity, kinds: &[&'static str]| Filter {
        min_severity,
        kinds: kinds.to_vec(),
    };
    let passes = |filter: &Filter, change: Change| filter.passes(&event(1, change));
    let errors = filter(Severity::Error, &["finding"]);
    assert!(passes(&errors, raised(v1::Severity::Error, "x")));
    let over = Change::FindingCleared(finding(v1::Severity::Error, "x"));
    assert!(passes(&errors, over.clone()));
    assert_eq!(rate(&over).shown, Severity::Info);
    assert!(!passes(&errors, raised(v1::Severity::Warning, "x")));
    assert!(!passes(&errors, Change::NodeVanished(node("x"))));
    let warnings = filter(Severity::Warning, &["node", "link", "operator", "manager"]);
    assert!(passes(&warnings, Change::NodeVanished(node("x"))));
    assert!(passes(&warnings, Change::NodeAppeared(node("x"))));
    assert!(passes(&warnings, Change::LinkAppeared(v1::Link::default())));
    assert!(!passes(&warnings, Change::LinkChanged(v1::Link::default())));
    assert!(!passes(&warnings, acted("")));
    assert!(passes(&warnings, acted("it would cut off 3 hosts")));
    assert!(passes(&warnings, state(v1::SubnetState::Standby)));
    assert!(!passes(&warnings, state(v1::SubnetState::Converging)));
    assert!(!passes(&warnings, raised(v1::Severity::Error, "x")));
    assert!(!warnings.passes(&v1::Event::default()));
}

#[test]
fn standby_sends_nothing_and_a_former_master_reports_the_end_of_its_role() {
    let mut gate = MasterOnly::default();
    let events = |sequences: &[u64]| -> Vec<Arc<v1::Event>> {
        sequences.iter().map(|&one| event(one, acted(""))).collect()
    };
    let numbers = |events: Vec<Arc<v1::Event>>| -> Vec<u64> {
        events.iter().map(|event| event.sequence).collect()
    };
    let none: Vec<u64> = Vec::new();
    assert_eq!(
        numbers(gate.admit(&events(&[1, 2]), SendingRole::Undecided)),
        none
    );
    assert_eq!(numbers(gate.admit(&events(&[3]), SendingRole::Other)), none);
    assert_eq!(numbers(gate.admit(&events(&[4]), SendingRole::Other)), none);
    assert_eq!(
        numbers(gate.admit(&events(&[5]), SendingRole::Undecided)),
        none
    );
    assert_eq!(
        numbers(gate.admit(&events(&[6]), SendingRole::Master)),
        [5, 6]
    );
    assert_eq!(numbers(gate.admit(&events(&[7]), SendingRole::Master)), [7]);
    assert_eq!(numbers(gate.admit(&events(&[8]), SendingRole::Other)), [8]);
    assert_eq!(numbers(gate.admit(&events(&[9]), SendingRole::Other)), none);
    let flood: Vec<u64> = (1..=10_000).collect();
    gate.admit(&events(&flood), SendingRole::Undecided);
    assert_eq!(gate.admit(&events(&[1]), SendingRole::Master).len(), 4097);
}

#[test]
fn pauses_double_up_to_a_minute_unless_the_receiver_asks_for_longer_ones() {
    let mut backoff = Backoff::default();
    let pauses: Vec<u64> = (0..9)
        .map(|_| backoff.after_failure(None).as_secs())
        .collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    backoff.reset();
    let asked = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(backoff.after_failure(asked(30)).as_secs(), 30);
    assert_eq!(backoff.after_failure(asked(0)).as_secs(), 2);
    assert_eq!(backoff.after_failure(asked(u64::MAX)).as_secs(), 600);
}

#[test]
fn log_records_have_severity_time_and_subject() {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let records = [
        Record {
            number: 1,
            run: 1,
            event: event(6, raised(v1::Severity::Warning, "gone\n")),
        },
        Record {
            number: 2,
            run: 1,
            event: Arc::new(v1::Event::default()),
        },
    ];
    let request = otlp::request(&source(), &records);
    let scope = &request.resource_logs[0].scope_logs[0];
    let [log] = &scope.log_records[..] else {
        panic!("{scope:?}")
    };
    assert_eq!(
        (log.severity_number, log.severity_text.as_str()),
        (13, "warning")
    );
    assert_eq!(log.time_unix_nano, 1_764_432_000_123_000_000);
    let body = log.body.clone().unwrap().value.unwrap();
    assert_eq!(
        body,
        Value::StringValue("host-missing: gone\\u{a}".to_owned())
    );
    let keys: Vec<&str> = log.attributes.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "rsm.event.id",
            "rsm.event.kind",
            "rsm.event.change",
            "rsm.generation",
            "rsm.finding",
            "rsm.node_guid",
            "rsm.port"
        ]
    );
}

#[test]
fn times_are_rfc_3339() {
    assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(timestamp(951_782_400_001), "2000-02-29T00:00:00.001Z");
    assert_eq!(timestamp(u64::MAX), "1970-01-01T00:00:00.000Z");
}

//! Tests of the decorators around a transport that records the datagrams sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::{DirectedPath, Tid};
use rsm_mad::transport::fault::{Chance, FaultInjector, FaultPlan, FaultRates};
use rsm_mad::transport::trace::{PcapngWriter, Trace};
use rsm_mad::transport::{
    Datagram, Inbound, IsSmError, LocalPort, PortEvent, RemoteAddress, SaInbound, SaPort,
    SendError, SendFailure, Sink, Transport,
};
use rsm_mad::wire::attr::PortState;
use rsm_mad::wire::header::{AttrId, Method, Status};
use rsm_mad::wire::smp::{Smp, SmpRequest};

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Datagram>>>);

impl Recorder {
    fn sink(&self) -> Sink {
        let recorder = self.clone();
        Box::new(move |inbound| {
            if let Inbound::Mad(datagram) = inbound {
                recorder.0.lock().push(datagram);
            }
        })
    }

    fn tids(&self) -> Vec<u64> {
        let tid = |datagram: &Datagram| Smp::from_bytes(&datagram.mad).header().tid().0;
        self.0.lock().iter().map(tid).collect()
    }
}

impl Transport for Recorder {
    fn send(&mut self, datagram: &Datagram, _: Duration) -> Result<(), SendError> {
        self.0.lock().push(*datagram);
        Ok(())
    }

    fn local_port(&self) -> LocalPort {
        LocalPort {
            ca: "test".to_owned(),
            port: PortNum(1),
            node_guid: Guid(1),
            port_guid: Guid(2),
            lid: Lid(6),
            sm_lid: Lid(6),
            state: PortState::Active,
        }
    }

    fn set_is_sm(&mut self, _: bool) -> Result<(), IsSmError> {
        Ok(())
    }
}

fn datagram(attribute: AttrId, tid: u64) -> Datagram {
    let path = DirectedPath::from_hops(&[PortNum(1), PortNum(5)]).unwrap();
    let smp = Smp::directed(
        &path,
        &SmpRequest {
            method: Method::GET,
            attribute,
            modifier: 3,
            tid: Tid(tid),
            m_key: 0,
            data: [0; 64],
        },
    );
    Datagram {
        mad: *smp.as_bytes(),
        remote: RemoteAddress::directed(),
    }
}

fn feed(sink: &mut Sink, count: u64) {
    for tid in 0..count {
        sink(Inbound::Mad(datagram(AttrId::NODE_INFO, tid)));
    }
}

#[test]
fn faults_of_an_attribute_hit_only_this_attribute() {
    let all_lost = FaultRates {
        drop_out: Chance::ALWAYS,
        ..FaultRates::default()
    };
    let faults = FaultInjector::new(FaultPlan {
        by_attribute: vec![(AttrId::PORT_INFO, all_lost)],
        ..FaultPlan::default()
    });
    let recorder = Recorder::default();
    let mut transport = faults.transport(recorder.clone());
    for (tid, attribute) in [(1, AttrId::PORT_INFO), (2, AttrId::NODE_INFO)] {
        let datagram = datagram(attribute, tid);
        transport.send(&datagram, Duration::ZERO).unwrap();
    }
    assert_eq!(recorder.tids(), [2]);
    assert_eq!(
        (transport.counts().sent, transport.counts().dropped_out),
        (2, 1)
    );
}

#[test]
fn the_same_seed_gives_the_same_faults_at_about_the_planned_rate() {
    let run = |seed| {
        let faults = FaultInjector::new(FaultPlan {
            seed,
            others: FaultRates {
                drop_in: Chance::percent(20),
                duplicate_in: Chance::percent(10),
                delay_in: Chance::millionths(100_000),
                ..FaultRates::default()
            },
            hold: 3,
            ..FaultPlan::default()
        });
        let recorder = Recorder::default();
        feed(&mut faults.sink(recorder.sink()), 10_000);
        (recorder.tids(), faults.counts())
    };
    let (tids, counts) = run(1);
    assert_eq!((tids.clone(), counts), run(1));
    assert_ne!(tids, run(2).0);
    assert!((1800..2200).contains(&counts.dropped_in), "{counts:?}");
    assert!((600..1000).contains(&counts.duplicated_in), "{counts:?}");
    assert!((600..1000).contains(&counts.delayed), "{counts:?}");
    let delivered = 10_000 - counts.dropped_in + counts.duplicated_in;
    assert!(
        delivered - tids.len() as u64 <= 3,
        "at most three datagrams are still delayed"
    );
}

#[test]
fn a_delayed_datagram_is_overtaken_by_as_many_as_hold_states() {
    let delayed = FaultRates {
        delay_in: Chance::ALWAYS,
        ..FaultRates::default()
    };
    let faults = FaultInjector::new(FaultPlan {
        by_attribute: vec![(AttrId::SM_INFO, delayed)],
        hold: 2,
        ..FaultPlan::default()
    });
    let recorder = Recorder::default();
    let mut sink = faults.sink(recorder.sink());
    sink(Inbound::Mad(datagram(AttrId::SM_INFO, 100)));
    sink(Inbound::Port(PortEvent::Up));
    feed(&mut sink, 4);
    assert_eq!(recorder.tids(), [0, 1, 100, 2, 3]);
}

/// An output that can be read while it is written to.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A capture of a request and its answer.
fn capture() -> Vec<u8> {
    let output = Shared::default();
    let clock = AtomicU64::new(1_700_000_000_000_000_001);
    let trace = Trace::new(
        PcapngWriter::new(output.clone(), "test:1").unwrap(),
        move || Time::from_nanos(clock.fetch_add(1_000_000, Ordering::Relaxed)),
    );
    let recorder = Recorder::default();
    let mut sink = trace.sink(recorder.sink());
    let mut transport = trace.transport(recorder.clone());
    let mut exchanged = datagram(AttrId::PORT_INFO, 0x1234);
    transport.send(&exchanged, Duration::ZERO).unwrap();
    Smp::from_bytes_mut(&mut exchanged.mad).make_response(Status::OK);
    sink(Inbound::Mad(exchanged));
    sink(Inbound::Port(PortEvent::Up));
    assert_eq!(
        recorder.tids(),
        [0x1234, 0x1234],
        "the request and the answer are passed on"
    );
    trace.flush().unwrap();
    output.0.lock().clone()
}

#[test]
fn both_directions_are_recorded() {
    let capture = capture();
    let request = datagram(AttrId::PORT_INFO, 0x1234).mad;
    let copies = capture
        .windows(256)
        .filter(|window| window[8..] == request[8..]);
    assert_eq!(copies.count(), 2);
}

/// Wireshark dissects a capture.
#[test]
#[allow(clippy::print_stdout, reason = "a test prints why it is skipped")]
fn wireshark_reads_a_capture_as_subnet_management() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.pcapng");
    std::fs::write(&file, capture()).unwrap();
    let mut tshark = std::process::Command::new("tshark");
    let fields = [
        "frame.time_epoch",
        "infiniband.lrh.vl",
        "infiniband.mad.mgmtclass",
        "infiniband.mad.method",
        "infiniband.mad.transactionid",
        "infiniband.mad.attributeid",
        "infiniband.smpdirected.hopcount",
        "frame.packet_flags_direction",
    ];
    tshark.arg("-r").arg(&file).args(["-T", "fields"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let Ok(output) = tshark.output() else {
        let required = std::env::var("RSM_REQUIRE_PEERS").is_ok_and(|value| value == "1");
        assert!(!required, "tshark is missing (package tshark)");
        println!("ignored: tshark is missing (package tshark)");
        return;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let row = |time, method, direction| {
        let tid = "0x0000000000001234";
        vec![
            time, "0x0f", "0x81", method, tid, "0x0015", "0x02", direction,
        ]
    };
    let expected = [
        row("1700000000.000000001", "0x01", "0x00000002"),
        row("1700000000.001000001", "0x81", "0x00000001"),
    ];
    assert_eq!(rows, expected, "{errors}");
}

/// The sending half of the SA.
impl SaPort for Recorder {
    fn does_rmpp(&self) -> bool {
        false
    }

    fn send(&self, bytes: &[u8], remote: &RemoteAddress, _: Duration) -> Result<(), SendError> {
        let mad = bytes.try_into().expect("the bytes are one datagram");
        let remote = *remote;
        self.0.lock().push(Datagram { mad, remote });
        Ok(())
    }

    fn local_port(&self) -> LocalPort {
        Transport::local_port(self)
    }
}

#[test]
fn faults_hit_datagrams_of_the_sa_at_the_planned_rates() {
    let rates = FaultRates {
        drop_out: Chance::percent(30),
        drop_in: Chance::percent(20),
        duplicate_out: Chance::percent(10),
        duplicate_in: Chance::percent(10),
        delay_in: Chance::percent(10),
    };
    let faults = FaultInjector::new(FaultPlan {
        seed: 7,
        by_attribute: Vec::new(),
        others: rates,
        hold: 3,
    });
    let (sent, recorded_in) = (Recorder::default(), Recorder::default());
    let port = faults.sa(sent.clone());
    let mut sink = {
        let recorded_in = recorded_in.clone();
        faults.sa_sink(Box::new(move |inbound| {
            if let SaInbound::Datagram(datagram) = inbound {
                recorded_in.0.lock().push(*datagram);
            }
        }))
    };
    const COUNT: u64 = 2000;
    let remote = RemoteAddress::gsi(Lid(6), 0);
    for tid in 0..COUNT {
        let mut mad = [0; 256];
        mad[8..16].copy_from_slice(&tid.to_be_bytes());
        port.send(&mad, &remote, Duration::ZERO).unwrap();
        sink(SaInbound::Datagram(Box::new(Datagram { mad, remote })));
    }
    let counts = port.counts();
    assert_eq!((counts.sent, counts.received), (COUNT, COUNT));
    let expected_sent = COUNT - counts.dropped_out + counts.duplicated_out;
    assert_eq!(sent.tids().len() as u64, expected_sent);
    let arrived = recorded_in.tids();
    let expected_received = COUNT - counts.dropped_in + counts.duplicated_in;
    // Some of the last datagrams are still delayed.
    assert!((expected_received - 3..=expected_received).contains(&(arrived.len() as u64)));
    assert!(arrived.is_sorted_by(|&a, &b| a <= b + 4) && !arrived.is_sorted());
    for (count, percent) in [
        (counts.dropped_out, 30),
        (counts.dropped_in, 20),
        (counts.delayed, 8),
    ] {
        let expected = COUNT * percent / 100;
        assert!(count.abs_diff(expected) < expected / 3, "{counts:?}");
    }
    // A failed request is not a datagram, so no fault hits it.
    let failures = Arc::new(AtomicU64::new(0));
    let mut sink = {
        let failures = Arc::clone(&failures);
        faults.sa_sink(Box::new(move |_| {
            failures.fetch_add(1, Ordering::Relaxed);
        }))
    };
    for _ in 0..100 {
        sink(SaInbound::SendFailed {
            tid: Tid(1),
            kind: SendFailure::TimedOut,
        });
    }
    assert_eq!(failures.load(Ordering::Relaxed), 100);
}

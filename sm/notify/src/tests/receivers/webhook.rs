use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;

use rustls::pki_types::PrivateKeyDer;

use super::*;

/// Answer of the server to one connection.
#[derive(Clone, Debug)]
enum Answer {
    Status(&'static str),
    /// The server reads part of the request, and closes.
    Close,
    /// The server reads the request, and never answers.
    Hang,
}

/// A webhook that first answers as scripted, and then with 200, or with 400 to bodies that contain
/// `poison`.
#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<VecDeque<Answer>>>,
    /// Heads and bodies of the requests that were answered with success.
    taken: Arc<Mutex<Vec<(String, String)>>>,
    /// Number of connections.
    connections: Arc<Mutex<usize>>,
}

impl Server {
    fn start(script: &[Answer], tls: Option<Arc<rustls::ServerConfig>>) -> (Server, u16) {
        let server = Server::default();
        server.script.lock().extend(script.iter().cloned());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = server.clone();
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                *serving.connections.lock() += 1;
                match &tls {
                    None => open.extend(serving.answer(stream)),
                    Some(config) => {
                        let connection = rustls::ServerConnection::new(config.clone()).unwrap();
                        drop(serving.answer(rustls::StreamOwned::new(connection, stream)));
                    }
                }
            }
        });
        (server, port)
    }

    /// Answers a connection. Returns the connection if it must hang.
    fn answer<S: Read + Write>(&self, stream: S) -> Option<BufReader<S>> {
        let answer = self.script.lock().pop_front();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).unwrap_or(0) == 0
                || matches!(answer, Some(Answer::Close))
            {
                return None;
            }
        }
        let head = head.to_lowercase();
        let length = head.split_once("content-length: ").unwrap().1;
        let length = length.split_once('\r').unwrap().0.parse().unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        let status = match answer {
            Some(Answer::Hang) => return Some(stream),
            Some(Answer::Status(status)) => status,
            _ if body.contains("poison") => "400 Bad Request",
            _ => "200 OK",
        };
        if status.starts_with('2') {
            self.taken.lock().push((head, body));
        }
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\nok");
        let _gone = stream.get_mut().write_all(answer.as_bytes());
        let _gone = stream.get_mut().flush();
        None
    }

    /// Sequence numbers of the events that were taken, in order.
    fn sequences(&self) -> Vec<u64> {
        let taken = self.taken.lock();
        let bodies = taken.iter().map(|(_, body)| body);
        let events = bodies.flat_map(|body| {
            let body: serde_json::Value = serde_json::from_str(body).unwrap();
            body["events"].as_array().unwrap().clone()
        });
        events
            .map(|event| event["event"]["sequence"].as_u64().unwrap())
            .collect()
    }
}

fn webhook(target: HttpTarget) -> Settings {
    Settings {
        webhook: Some(receiver(Target::Webhook(target))),
        ..Settings::default()
    }
}

#[test]
fn failing_webhook_gets_every_event_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let script = [
        Answer::Status("503 Service Unavailable"),
        Answer::Close,
        Answer::Hang,
    ];
    let (server, port) = Server::start(&script, None);
    let (notifier, faults) = notifier(Some(dir.path()), webhook(http(port)));
    for number in 1..=250 {
        put(&notifier, &["gone"], number);
    }
    wait_until(60, "all events", || counts(&notifier) == (250, 0, 0));
    assert_eq!(server.sequences(), (1..=250).collect::<Vec<_>>());
    let (head, _) = server.taken.lock()[0].clone();
    assert!(
        head.starts_with("post /hooks/secret?x=1 http/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.contains("content-type: application/json\r\n"),
        "{head}"
    );
    // The webhook failed for longer than a restart takes: a finding reported this, and ended.
    wait_until(5, "the end of the finding", || {
        faults.lock().last().is_some_and(Vec::is_empty)
    });
    let reported = faults.lock().concat();
    let ReceiverFault::Undelivered(text) = &reported[0] else {
        panic!("{reported:?}")
    };
    assert!(
        text.contains("no answer within 10 s") && text.contains("250 wait"),
        "{text}"
    );
    assert!(
        !text.contains("SECRET") && text.contains(&format!("http://127.0.0.1:{port} ")),
        "{text}"
    );
    notifier.stop();
    let left: Vec<_> = std::fs::read_dir(dir.path().join("notify/webhook"))
        .unwrap()
        .collect();
    assert_eq!(
        left.len(),
        1,
        "only the number of the last record stays: {left:?}"
    );
}

#[test]
fn events_of_a_killed_manager_reach_the_webhook_after_its_start() {
    let dir = tempfile::tempdir().unwrap();
    // No process listens at this port.
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let (killed, _) = notifier(Some(&dir.path().join("a")), webhook(http(free)));
    put(&killed, &["one", "two", "three"], 1);
    wait_until(10, "a failure", || {
        killed.receivers()[0].failing_since_unix_ms.is_some()
    });
    assert_eq!(counts(&killed), (0, 3, 0));
    // Copies the files that a process killed now would leave.
    let (from, to) = (
        dir.path().join("a/notify/webhook"),
        dir.path().join("b/notify/webhook"),
    );
    std::fs::create_dir_all(&to).unwrap();
    for file in std::fs::read_dir(&from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    let (server, port) = Server::start(&[], None);
    let (next, _) = notifier(Some(&dir.path().join("b")), webhook(http(port)));
    put(&next, &["four"], 1);
    wait_until(10, "all events", || counts(&next) == (4, 0, 0));
    assert_eq!(server.sequences(), [1, 2, 3, 1]);
    // After SIGHUP with another address, waiting events go to that address.
    killed.configure(webhook(http(port))).unwrap();
    wait_until(10, "all events", || counts(&killed) == (3, 0, 0));
    assert_eq!(server.sequences(), [1, 2, 3, 1, 1, 2, 3]);
    // Without an address, no event is sent or kept.
    killed.configure(Settings::default()).unwrap();
    put(&killed, &["five"], 5);
    assert_eq!(killed.receivers(), []);
    killed.stop();
    next.stop();
    assert_eq!(server.sequences().len(), 7);
}

#[test]
fn event_that_a_webhook_refuses_is_the_only_one_lost() {
    let (server, port) = Server::start(&[], None);
    let (notifier, _) = notifier(None, webhook(http(port)));
    put(&notifier, &["one", "two", "poison", "four"], 1);
    wait_until(20, "all but one", || counts(&notifier) == (3, 0, 1));
    assert_eq!(server.sequences(), [1, 2, 4]);
    notifier.stop();
}

#[test]
fn webhook_with_tls_requires_its_ca_and_gets_the_headers() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let (server, port) = Server::start(&[], Some(Arc::new(config)));
    let target = |ca_pem: Option<String>| HttpTarget {
        tls: true,
        access: Ok(Access {
            headers: vec![("authorization".to_owned(), "Bearer SECRET".to_owned())],
            ca_pem: ca_pem.map(String::into_bytes),
        }),
        ..http(port)
    };
    let (notifier, _) = notifier(None, webhook(target(None)));
    put(&notifier, &["one"], 1);
    wait_until(10, "a failure", || {
        notifier.receivers()[0].failing_since_unix_ms.is_some()
    });
    let shown = format!("{:?}", notifier.receivers());
    assert!(
        shown.contains("ertificate") && !shown.contains("SECRET"),
        "{shown}"
    );
    notifier
        .configure(webhook(target(Some(certificate.pem()))))
        .unwrap();
    wait_until(20, "the event", || counts(&notifier) == (1, 0, 0));
    assert!(
        server.taken.lock()[0]
            .0
            .contains("authorization: bearer secret\r\n")
    );
    // A file that cannot be used is a failure of the receiver, whose events wait.
    let unusable = HttpTarget {
        access: Err("cannot read x".to_owned()),
        ..http(port)
    };
    notifier.configure(webhook(unusable)).unwrap();
    put(&notifier, &["two"], 2);
    wait_until(10, "a failure", || {
        notifier.receivers()[0].failure == "cannot read x"
    });
    assert_eq!(counts(&notifier), (1, 1, 0));
    notifier.stop();
}

#[test]
fn unwritable_disk_is_reported_and_events_are_sent_from_memory() {
    let dir = tempfile::tempdir().unwrap();
    // A file takes the place of the folder.
    std::fs::write(dir.path().join("notify"), b"").unwrap();
    let (server, port) = Server::start(&[Answer::Status("503 Later")], None);
    let (notifier, faults) = notifier(Some(dir.path()), webhook(http(port)));
    put(&notifier, &["one", "two"], 1);
    wait_until(20, "all events", || counts(&notifier) == (2, 0, 0));
    assert_eq!(server.sequences(), [1, 2]);
    let reported = faults.lock().concat();
    assert!(
        matches!(&reported[0], ReceiverFault::Disk(text) if text.contains("wait in memory")),
        "{reported:?}"
    );
    std::fs::remove_file(dir.path().join("notify")).unwrap();
    put(&notifier, &["three"], 3);
    wait_until(10, "the end of the finding", || {
        faults.lock().last().is_some_and(Vec::is_empty)
    });
    wait_until(10, "all events", || counts(&notifier) == (3, 0, 0));
    assert!(dir.path().join("notify/webhook/taken").exists());
    notifier.stop();
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a hung receiver takes real time")]
fn hanging_receiver_delays_neither_callers_nor_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, port) = Server::start(&[Answer::Hang], None);
    let (notifier, _) = notifier(Some(dir.path()), webhook(http(port)));
    let begin = Instant::now();
    for number in 0..200 {
        put(&notifier, &["x"; 100], number * 100 + 1);
    }
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    let begin = Instant::now();
    notifier.stop();
    assert!(
        begin.elapsed() < Duration::from_secs(8),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(notifier.receivers(), []);
}

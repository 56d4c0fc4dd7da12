//! Tests that events from the manager of a simulated fabric reach a webhook, including events
//! before a SIGKILL.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Time limit of each wait of a test.
const LIMIT: Duration = Duration::from_secs(60);

/// Webhook that answers 503 until it is switched to accept events.
#[derive(Clone, Default)]
struct Webhook {
    accepts: Arc<Mutex<bool>>,
    /// The accepted events.
    events: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    /// Starts a webhook. Returns it, and its port.
    fn start() -> (Webhook, u16) {
        let webhook = Webhook::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = webhook.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                // A killed manager may have sent only part of a request.
                let _gone = serving.answer(stream.unwrap());
            }
        });
        (webhook, port)
    }

    /// Answers one request.
    fn answer(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            if let Some(text) = line.to_lowercase().strip_prefix("content-length: ") {
                length = text.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let body: Value = serde_json::from_slice(&body)?;
        let accepts = *self.accepts.lock();
        let status = if accepts { "200 OK" } else { "503 Later" };
        if accepts {
            self.events
                .lock()
                .extend(body["events"].as_array().unwrap().clone());
        }
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        stream.get_mut().write_all(answer.as_bytes())
    }

    /// Names of the changes in the accepted events, in order.
    fn changes(&self) -> Vec<String> {
        let events = self.events.lock();
        let changes = events.iter().map(|event| event["change"].as_str().unwrap());
        changes.map(str::to_owned).collect()
    }
}

/// Manager process that is killed at the end of the test.
struct Manager(Child);

impl Manager {
    /// Starts a manager that sends events to the webhook at `port` and serves metrics at `http`.
    fn start(state_dir: &Path, port: u16, http: u16) -> Manager {
        let child = Command::new(env!("CARGO_BIN_EXE_rsm"))
            .args(["--fabric", "sim:pgft:2;4,4;1,2;1,1", "--listen", "off"])
            .args([
                "--webhook",
                &format!("http://127.0.0.1:{port}/hooks/SECRET"),
            ])
            .args(["--http", &format!("127.0.0.1:{http}")])
            .arg("--state-dir")
            .arg(state_dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Manager(child.unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "a process takes real time")]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Metrics about the webhook.
fn metrics(http: u16) -> String {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", http)) else {
        return String::new();
    };
    let request = format!("GET /metrics HTTP/1.0\r\nhost: 127.0.0.1:{http}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    let _length = stream.read_to_string(&mut text);
    let lines = text.lines().filter(|line| line.starts_with("rsm_notify_"));
    lines.collect::<Vec<_>>().join("\n")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn restarted_manager_delivers_the_events_of_the_killed_one() {
    let dir = tempfile::tempdir().unwrap();
    let (webhook, port) = Webhook::start();
    let http = free_port();
    let manager = Manager::start(dir.path(), port, http);
    wait_until("a webhook that fails", || {
        metrics(http).contains("rsm_notify_failing{receiver=\"webhook\"} 1")
    });
    let waiting = |least: u64| {
        let metrics = metrics(http);
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("rsm_notify_waiting"));
        let number = line.and_then(|line| line.rsplit_once(' '));
        number.is_some_and(|(_, number)| number.parse::<f64>().unwrap() >= least as f64)
    };
    wait_until("the first events", || waiting(2));
    manager.signal(Signal::HUP);
    wait_until("the reload", || waiting(3));
    manager.signal(Signal::KILL);
    drop(manager);
    assert_eq!(webhook.changes(), [""; 0]);
    *webhook.accepts.lock() = true;
    let http = free_port();
    let _manager = Manager::start(dir.path(), port, http);
    let starts = |changes: &[String]| {
        changes
            .iter()
            .filter(|change| *change == "manager_started")
            .count()
    };
    wait_until("the events of both runs", || {
        starts(&webhook.changes()) == 2
    });
    let changes = webhook.changes();
    assert_eq!(changes[0], "manager_started", "{changes:?}");
    let second_start = changes
        .iter()
        .rposition(|change| change == "manager_started")
        .unwrap();
    let reload = changes
        .iter()
        .position(|change| change == "operator_acted")
        .unwrap();
    assert!(reload < second_start, "{changes:?}");
    wait_until("no failure", || {
        let metrics = metrics(http);
        metrics.contains("rsm_notify_failing{receiver=\"webhook\"} 0")
            && metrics.contains("rsm_notify_lost_total{receiver=\"webhook\"} 0")
    });
}

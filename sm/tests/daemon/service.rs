//! Tests rsm under a service manager: readiness, the watchdog's pings, and a reload of the
//! configuration.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

/// Time limit that only a failure reaches.
const LIMIT: Duration = Duration::from_secs(60);

/// Timeout of the watchdog; rsm pings three times within it.
const WATCHDOG: Duration = Duration::from_millis(300);

/// Time of ten missed pings.
const SILENCE: Duration = Duration::from_secs(1);

/// rsm on a small simulated fabric, and the service manager's end of its socket.
struct Service {
    dir: tempfile::TempDir,
    socket: UnixDatagram,
    child: Child,
    log: Log,
}

/// Standard error of rsm.
#[derive(Clone, Default)]
struct Log {
    text: Arc<Mutex<String>>,
}

impl Log {
    /// Reads `stderr` until the process ends, on a separate thread.
    fn read(mut stderr: ChildStderr) -> Log {
        let log = Log::default();
        let reader = log.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                match stderr.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(length) => {
                        let text = String::from_utf8_lossy(&buffer[..length]);
                        reader.text.lock().push_str(&text);
                    }
                }
            }
        });
        log
    }
}

impl Service {
    /// Starts rsm with the configuration `config` in a file named `name`.
    fn start(config: &str, name: &str) -> Service {
        let dir = tempfile::tempdir().unwrap();
        let notify = dir.path().join("notify");
        let socket = UnixDatagram::bind(&notify).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let file = dir.path().join(name);
        fs::write(&file, config).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_rsm"))
            .args(["--fabric", "sim:pgft:2;4,4;1,2;1,1", "--listen", "off"])
            .arg("--config")
            .arg(&file)
            .arg("--state-dir")
            .arg(dir.path().join("state"))
            .arg("--socket")
            .arg(dir.path().join("rsm.sock"))
            .env("NOTIFY_SOCKET", &notify)
            .env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string())
            .env_remove("WATCHDOG_PID")
            .env_remove("RSM_LOG")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Log::read(child.stderr.take().unwrap());
        Service {
            dir,
            socket,
            child,
            log,
        }
    }

    /// Path of a file in the test's folder.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Next message; `None` after the time limit of the socket.
    fn message(&self) -> Option<String> {
        let mut buffer = [0; 4096];
        match self.socket.recv(&mut buffer) {
            Ok(length) => Some(String::from_utf8(buffer[..length].to_vec()).unwrap()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads messages until one begins with `beginning`, and returns the messages before it.
    fn wait_for(&self, beginning: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            match self.message() {
                Some(message) if message.starts_with(beginning) => return before,
                Some(message) => before.push(message),
                None => panic!(
                    "no {beginning} after {before:?}; log: {}",
                    self.log.text.lock()
                ),
            }
        }
    }

    /// Reads messages until none arrives for [`SILENCE`].
    fn wait_for_silence(&self) {
        self.socket.set_read_timeout(Some(SILENCE)).unwrap();
        let messages = (0..1000).take_while(|_| self.message().is_some()).count();
        assert!(messages < 1000, "messages still arrive");
        self.socket.set_read_timeout(Some(LIMIT)).unwrap();
    }

    /// Sends SIGHUP twice, and returns the log of the first reading of the configuration.
    ///
    /// The log may lag behind the service manager's messages. The second reading, of the same
    /// configuration, marks the end of the first.
    fn reload(&self) -> String {
        let before = self.log.text.lock().len();
        for _ in 0..2 {
            self.signal(Signal::HUP);
            self.wait_for("RELOADING=1\nMONOTONIC_USEC=");
            self.wait_for("READY=1");
        }
        let is_reading = |line: &str| {
            line.contains("configuration read again") || line.contains("in force stays")
        };
        for _ in 0..6000 {
            let text = self.log.text.lock()[before..].to_owned();
            let lines: Vec<&str> = text.lines().collect();
            let second = lines.iter().rposition(|line| is_reading(line));
            if let Some(second) = second
                && lines[..second].iter().any(|line| is_reading(line))
            {
                return lines[..second].join("\n");
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no log of two readings: {}", self.log.text.lock());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn service_is_ready_after_the_first_push_and_pings_until_it_stops() {
    let mut service = Service::start("", "rsm.toml");
    let before = service.wait_for("READY=1");
    assert!(
        before
            .iter()
            .any(|message| message.starts_with("EXTEND_TIMEOUT_USEC=")),
        "{before:?}"
    );
    assert!(service.path("rsm.sock").exists(), "--socket is served");
    service.wait_for("STATUS=master, up; ");
    (0..3).for_each(|_| drop(service.wait_for("WATCHDOG=1")));
    service.signal(Signal::TERM);
    service.wait_for("STOPPING=1");
    assert!(service.child.wait().unwrap().success());
}

#[test]
fn hanging_loop_sends_no_ping_although_the_process_runs() {
    let config = "[sm]\npriority = 1\n";
    let mut service = Service::start(config, "rsm.toml");
    service.wait_for("READY=1");
    service.wait_for("WATCHDOG=1");
    // A pipe replaces the file: opening it blocks until a writer opens it as well.
    let file = service.path("rsm.toml");
    fs::remove_file(&file).unwrap();
    let status = Command::new("mkfifo").arg(&file).status().unwrap();
    assert!(status.success());
    service.signal(Signal::HUP);
    service.wait_for("RELOADING=1");
    service.wait_for_silence();
    assert!(service.child.try_wait().unwrap().is_none(), "rsm runs");
    fs::write(&file, config).unwrap();
    service.wait_for("READY=1");
    service.wait_for("WATCHDOG=1");
}

#[test]
fn reload_names_changed_keys_by_when_they_take_effect() {
    let service = Service::start("[sm]\npriority = 1\n", "rsm.toml");
    service.wait_for("READY=1");
    let file = service.path("rsm.toml");

    let log = service.reload();
    assert!(log.contains("no key in effect has changed"), "{log}");

    fs::write(&file, "[sm]\npriority = 2\n[lids]\nlmc = 1\n").unwrap();
    let log = service.reload();
    assert!(log.contains("in effect: sm.priority, lids.lmc"), "{log}");
    assert!(!log.contains("next start"), "{log}");

    let config = "[sm]\npriority = 2\n[lids]\nlmc = 1\n[sweep]\nretries = 3\n[history]\ndays = 3\n";
    fs::write(&file, config).unwrap();
    let log = service.reload();
    assert!(
        log.contains("changes of sweep.retries, history.days in the configuration"),
        "{log}"
    );

    // The command line's --socket overrides the key, so the key has no effect.
    fs::write(&file, "[sm]\npriority = 2\n[api]\nsocket = \"/s\"\n").unwrap();
    let log = service.reload();
    assert!(log.contains("in effect: lids.lmc"), "{log}");
    assert!(!log.contains("next start"), "{log}");

    fs::write(&file, "[sm]\npriority = 99\n").unwrap();
    let log = service.reload();
    assert!(log.contains("the configuration in force stays"), "{log}");
}

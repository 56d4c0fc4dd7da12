//! Sends messages to the service manager (systemd, sd_notify(3)): readiness, status, watchdog.
//!
//! The loop that owns the core sends every message. Watchdog pings stop when this loop hangs, and
//! continue during a long plan, because other threads compute plans. No message may delay the loop:
//! the socket does not block, and a message that the socket refuses is sent in a later turn.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rsm_api::model::SubnetState;
use rsm_api::{Label as _, v1};
use rsm_mad::Time;
use rustix::time::{ClockId, clock_gettime};

/// Time between two requests for more time to start.
const EXTENSION_INTERVAL: Duration = Duration::from_secs(5);

/// Additional time that a request asks for: six times [`EXTENSION_INTERVAL`], so that a slow turn
/// of the loop does not end the start.
const MORE_TIME: Duration = Duration::from_secs(30);

/// Number of pings within the watchdog's time, so that one late ping does not end the service.
const PINGS: u32 = 3;

/// Service manager that started this process.
#[derive(Debug)]
pub(super) struct ServiceManager {
    /// Socket of the service manager; `None` without a service manager: nothing is sent.
    socket: Option<NotifySocket>,
    /// Time between two pings; `None` without a watchdog.
    ping_every: Option<Duration>,
    phase: Phase,
    /// Time of the last ping or request for more time.
    last_sign: Option<Time>,
    /// Last status that was sent.
    status: String,
    /// Messages that the socket has not accepted yet, in order, at most one of each kind.
    pending: Vec<Message>,
}

/// Phase of the service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// The service manager waits, and needs to know that the start continues.
    Starting,
    /// The service is ready.
    Running,
}

/// Message to the service manager.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Message {
    /// The service is ready, or has read its configuration again.
    Ready,
    /// The service reads its configuration again.
    Reloading,
    /// The service is ending.
    Stopping,
    /// One line for `systemctl status`.
    Status(String),
}

impl Message {
    /// The message as sd_notify(3) defines it.
    fn text(&self) -> String {
        match self {
            Message::Ready => "READY=1".to_owned(),
            // systemd 253 and later compares this time with the time of its own signal.
            Message::Reloading => format!("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()),
            Message::Stopping => "STOPPING=1".to_owned(),
            Message::Status(text) => format!("STATUS={text}"),
        }
    }
}

impl ServiceManager {
    /// Service manager that the environment names. `variable` returns the value of an environment
    /// variable.
    pub(super) fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> ServiceManager {
        let socket = variable("NOTIFY_SOCKET").and_then(|name| {
            let opened = NotifySocket::open(&name);
            let refused = |error: &io::Error| {
                tracing::warn!(%error, name = %name.display(), "NOTIFY_SOCKET names no socket: the service manager gets no messages");
            };
            opened.inspect_err(refused).ok()
        });
        ServiceManager {
            socket,
            ping_every: watchdog(&variable).map(|time| time / PINGS),
            phase: Phase::Starting,
            last_sign: None,
            status: String::new(),
            pending: Vec::new(),
        }
    }

    /// Sends pings, and messages that could not be sent before. Must be called in every turn of the
    /// loop.
    pub(super) fn turn(&mut self, now: Time) {
        self.send_pending();
        let (sign, every) = match (self.phase, self.ping_every) {
            (Phase::Starting, _) => (
                format!("EXTEND_TIMEOUT_USEC={}", MORE_TIME.as_micros()),
                EXTENSION_INTERVAL,
            ),
            (Phase::Running, Some(every)) => ("WATCHDOG=1".to_owned(), every),
            (Phase::Running, None) => return,
        };
        let is_due = self.last_sign.is_none_or(|last| now.since(last) >= every);
        if is_due && self.try_send(&sign) {
            self.last_sign = Some(now);
        }
    }

    /// Sends a changed status, and reports readiness at the end of the start.
    pub(super) fn report_status(&mut self, status: &v1::SubnetStatus) {
        if self.socket.is_none() {
            return;
        }
        if self.phase == Phase::Starting && has_started(status) {
            self.phase = Phase::Running;
            // The watchdog's time begins at readiness.
            self.last_sign = None;
            self.queue_message(Message::Ready);
        }
        let text = status_text(status);
        if text != self.status {
            self.status.clone_from(&text);
            self.queue_message(Message::Status(text));
        }
    }

    /// Reports that the configuration is read again. During the start there is no report, because
    /// the service manager knows no reload then.
    pub(super) fn reloading(&mut self) {
        if self.phase == Phase::Running {
            self.queue_message(Message::Reloading);
        }
    }

    /// Reports that the configuration has been read.
    pub(super) fn reloaded(&mut self) {
        if self.phase == Phase::Running {
            self.queue_message(Message::Ready);
        }
    }

    /// Reports that the loop has ended.
    pub(super) fn stopping(&mut self) {
        self.queue_message(Message::Stopping);
    }

    /// Sends a message now or, if the socket does not accept it, in a later turn. The message
    /// replaces a pending message of its kind.
    fn queue_message(&mut self, message: Message) {
        if self.socket.is_none() {
            return;
        }
        let kind = mem::discriminant(&message);
        self.pending
            .retain(|other| mem::discriminant(other) != kind);
        self.pending.push(message);
        self.send_pending();
    }

    /// Sends the pending messages up to the first one that the socket does not accept.
    fn send_pending(&mut self) {
        let pending = mem::take(&mut self.pending);
        let unsent = pending
            .iter()
            .position(|message| !self.try_send(&message.text()));
        if let Some(first) = unsent {
            self.pending = pending[first..].to_vec();
        }
    }

    /// Sends `text`. Returns whether no further attempt is needed: the socket accepted the message,
    /// or there is no service manager.
    fn try_send(&self, text: &str) -> bool {
        let Some(socket) = &self.socket else {
            return true;
        };
        match socket.send(text) {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(%error, "the service manager takes no message at the moment");
                false
            }
        }
    }
}

/// Watchdog timeout of this process; `None` if the service manager does not watch this process.
fn watchdog(variable: &impl Fn(&str) -> Option<OsString>) -> Option<Duration> {
    let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
    let microseconds = number("WATCHDOG_USEC").filter(|&time| time > 0)?;
    let own = u64::from(std::process::id());
    // Child processes inherit the variables, but are not watched.
    let is_own = variable("WATCHDOG_PID").is_none() || number("WATCHDOG_PID") == Some(own);
    is_own.then(|| Duration::from_micros(microseconds))
}

/// Whether the first plan is pushed, or the reason for its absence is known: a port without a link
/// must not delay the start of the whole machine.
fn has_started(status: &v1::SubnetStatus) -> bool {
    match status.state() {
        SubnetState::Unspecified | SubnetState::Discovering => false,
        SubnetState::Converging => status.last_convergence.is_some(),
        SubnetState::NotActive | SubnetState::Standby | SubnetState::Up | SubnetState::Degraded => {
            true
        }
    }
}

/// Formats the role and the state on one line.
fn status_text(status: &v1::SubnetStatus) -> String {
    let state = SubnetState::label(status.state).unwrap_or("unknown");
    let role = match status.state() {
        SubnetState::Converging | SubnetState::Up | SubnetState::Degraded => "master, ",
        _ => "",
    };
    let mut text = format!("{role}{state}");
    if !status.state_reason.is_empty() {
        text = format!("{text}: {}", status.state_reason);
    }
    if !role.is_empty() {
        let findings = status.findings.unwrap_or_default();
        text = format!(
            "{text}; {} switches, {} CAs, {} links; findings: {} errors, {} warnings",
            status.switches, status.cas, status.links, findings.error, findings.warning
        );
    }
    // A line break would begin another variable, and reasons contain node descriptions.
    text.replace(char::is_control, " ")
}

/// Time of the monotonic clock, in microseconds.
fn monotonic_us() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Socket from which the service manager reads.
#[derive(Debug)]
struct NotifySocket {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl NotifySocket {
    /// Opens the socket `name`: a path, or after `@` a name in Linux's abstract namespace.
    fn open(name: &OsStr) -> io::Result<NotifySocket> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(NotifySocket { socket, address })
    }

    /// Sends a message without waiting.
    fn send(&self, text: &str) -> io::Result<()> {
        self.socket
            .send_to_addr(text.as_bytes(), &self.address)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Service manager's end of the socket, and a watchdog of three seconds.
    struct TestManager {
        _dir: tempfile::TempDir,
        socket: UnixDatagram,
        manager: ServiceManager,
    }

    impl TestManager {
        fn new(more: &[(&'static str, &'static str)]) -> TestManager {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("notify");
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_nonblocking(true).unwrap();
            let manager = ServiceManager::from_environment(|name| match name {
                "NOTIFY_SOCKET" => Some(path.clone().into_os_string()),
                _ => more
                    .iter()
                    .find(|(known, _)| *known == name)
                    .map(|(_, value)| value.into()),
            });
            TestManager {
                _dir: dir,
                socket,
                manager,
            }
        }

        fn received(&self) -> Vec<String> {
            let mut buffer = [0; 4096];
            let mut messages = Vec::new();
            while let Ok(length) = self.socket.recv(&mut buffer) {
                messages.push(String::from_utf8(buffer[..length].to_vec()).unwrap());
            }
            messages
        }
    }

    const WATCHDOG: &[(&str, &str)] = &[("WATCHDOG_USEC", "3000000")];

    fn seconds(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn status(state: SubnetState, reason: &str) -> v1::SubnetStatus {
        v1::SubnetStatus {
            state: state.into(),
            state_reason: reason.to_owned(),
            switches: 2,
            ..v1::SubnetStatus::default()
        }
    }

    #[test]
    fn start_asks_for_time_until_it_is_ready_and_then_pings() {
        let mut site = TestManager::new(WATCHDOG);
        site.manager
            .report_status(&status(SubnetState::Converging, ""));
        assert_eq!(
            site.received(),
            [
                "STATUS=master, converging; 2 switches, 0 CAs, 0 links; findings: 0 errors, 0 warnings"
            ]
        );
        for at in [0, 1, 5] {
            site.manager.turn(seconds(at));
        }
        assert_eq!(site.received(), ["EXTEND_TIMEOUT_USEC=30000000"; 2]);
        site.manager.report_status(&status(SubnetState::Up, ""));
        site.manager.report_status(&status(SubnetState::Up, ""));
        let messages = site.received();
        assert_eq!((messages.len(), &*messages[0]), (2, "READY=1"));
        assert!(
            messages[1].starts_with("STATUS=master, up; 2 switches"),
            "{messages:?}"
        );
        for at in [5, 5, 6, 7] {
            site.manager.turn(seconds(at));
        }
        assert_eq!(site.received(), ["WATCHDOG=1"; 3]);
    }

    #[test]
    fn standby_and_a_port_that_is_down_are_ready() {
        for (state, text) in [
            (
                SubnetState::Standby,
                "STATUS=standby: opensm at LID 4 is master",
            ),
            (
                SubnetState::NotActive,
                "STATUS=not-active: opensm at LID 4 is master",
            ),
        ] {
            let mut site = TestManager::new(&[]);
            site.manager
                .report_status(&status(state, "opensm at LID\n4 is master"));
            assert_eq!(site.received(), ["READY=1", text]);
            site.manager.turn(seconds(9));
            assert_eq!(site.received(), [""; 0], "there is no watchdog");
        }
    }

    #[test]
    fn reload_is_a_message_only_after_the_start() {
        let mut site = TestManager::new(&[]);
        site.manager.reloading();
        site.manager.reloaded();
        assert_eq!(site.received(), [""; 0]);
        site.manager.report_status(&status(SubnetState::Up, ""));
        site.received();
        site.manager.reloading();
        site.manager.reloaded();
        site.manager.stopping();
        let messages = site.received();
        assert!(
            messages[0].starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{messages:?}"
        );
        assert_eq!(messages[1..], ["READY=1", "STOPPING=1"]);
    }

    #[test]
    fn full_queue_delays_messages_and_not_the_loop() {
        let mut site = TestManager::new(WATCHDOG);
        let flood = (0..100_000)
            .take_while(|_| site.manager.try_send("X=1"))
            .count();
        assert!(flood < 100_000, "the queue is full");
        site.manager
            .report_status(&status(SubnetState::Up, "first"));
        site.manager
            .report_status(&status(SubnetState::Up, "second"));
        assert_eq!(site.received().len(), flood);
        site.manager.turn(seconds(1));
        let messages = site.received();
        assert_eq!((&*messages[0], &*messages[2]), ("READY=1", "WATCHDOG=1"));
        assert!(messages[1].contains("second"), "{messages:?}");
    }

    #[test]
    fn foreign_watchdog_and_bad_variables_are_no_watchdog() {
        let time = |variables: &[(&'static str, &'static str)]| {
            let variables = variables.to_vec();
            let value = move |name: &str| {
                let mut known = variables.iter().filter(|(known, _)| *known == name);
                known.next().map(|(_, value)| OsString::from(*value))
            };
            watchdog(&value)
        };
        assert_eq!(time(WATCHDOG), Some(Duration::from_secs(3)));
        assert_eq!(
            time(&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "1")]),
            None
        );
        assert_eq!(
            time(&[("WATCHDOG_USEC", "3000000"), ("WATCHDOG_PID", "x")]),
            None
        );
        assert_eq!(time(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(time(&[("WATCHDOG_USEC", "-3")]), None);
        assert_eq!(time(&[]), None);
    }

    #[test]
    fn abstract_names_are_sockets_and_other_names_are_none() {
        let name = format!("rsm-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        let named = NotifySocket::open(OsStr::new(&format!("@{name}"))).unwrap();
        named.send("READY=1").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(socket.recv(&mut buffer).unwrap(), 7);
        for name in ["", "relative", "vsock:2:1"] {
            assert!(NotifySocket::open(OsStr::new(name)).is_err(), "{name:?}");
        }
    }
}

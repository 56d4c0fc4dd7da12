use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command};

use super::*;
use crate::settings::SyslogTarget;

/// Program of the stock syslog daemon.
const RSYSLOGD: &str = "/usr/sbin/rsyslogd";

/// Whether the daemon is installed. Panics if it is missing and peers are required.
fn has_daemon() -> bool {
    let is_there = Path::new(RSYSLOGD).exists();
    if !is_there {
        let is_required = std::env::var_os("RSM_REQUIRE_PEERS").is_some_and(|v| v == "1");
        assert!(!is_required, "{RSYSLOGD} is missing: install rsyslog");
        let mut err = std::io::stderr();
        let _ = writeln!(err, "ignored: {RSYSLOGD} is missing, install rsyslog");
    }
    is_there
}

/// A stock syslog daemon with a UDP port, a TCP port and a socket, which writes lines to a file.
struct Daemon {
    child: Child,
    dir: PathBuf,
    udp: u16,
    tcp: u16,
}

impl Daemon {
    fn start(dir: &Path) -> Daemon {
        let udp = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let tcp = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        Daemon::at(dir, udp, tcp)
    }

    fn at(dir: &Path, udp: u16, tcp: u16) -> Daemon {
        let at = dir.display();
        let conf = format!(
            "global(workDirectory=\"{at}\")\n\
             module(load=\"imudp\")\nmodule(load=\"imtcp\")\n\
             module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
             input(type=\"imudp\" address=\"127.0.0.1\" port=\"{udp}\")\n\
             input(type=\"imtcp\" address=\"127.0.0.1\" port=\"{tcp}\")\n\
             input(type=\"imuxsock\" Socket=\"{at}/log\")\n\
             template(name=\"parts\" type=\"string\" string=\"%hostname%|%app-name%|%msgid%|%syslogfacility-text%.\
             %syslogseverity-text%|%timereported:::date-rfc3339%|%structured-data%|%msg%\\n\")\n\
             *.* action(type=\"omfile\" file=\"{at}/out\" template=\"parts\")\n"
        );
        fs::write(dir.join("conf"), conf).unwrap();
        let child = Command::new(RSYSLOGD)
            .arg("-n")
            .args(["-f", &format!("{at}/conf"), "-i", &format!("{at}/pid")])
            .spawn()
            .unwrap();
        let daemon = Daemon {
            child,
            dir: dir.to_owned(),
            udp,
            tcp,
        };
        wait_until(20, "the daemon", || {
            std::net::TcpStream::connect(("127.0.0.1", tcp)).is_ok()
        });
        daemon
    }

    /// The lines that rsm has sent so far.
    fn lines(&self) -> Vec<String> {
        let text = fs::read(self.dir.join("out")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().filter(|line| line.contains("|rsm"));
        lines.map(str::to_owned).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn settings(address: SyslogTarget) -> Settings {
    Settings {
        syslog: Some(receiver(Target::Syslog {
            address,
            facility: 16,
        })),
        ..Settings::default()
    }
}

const HOST: &str = "127.0.0.1";

#[test]
fn stock_syslog_daemon_gets_complete_messages_by_udp_and_tcp() {
    if !has_daemon() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let mut lines = 0;
    for address in [
        SyslogTarget::Udp(HOST.to_owned(), daemon.udp),
        SyslogTarget::Tcp(HOST.to_owned(), daemon.tcp),
    ] {
        let (notifier, _) = notifier(None, settings(address.clone()));
        let hostile = "evil\n<0>1 - forged - - - x\u{202e}";
        put(&notifier, &["plain", hostile, "ünïcode"], 7);
        wait_until(20, "three lines", || daemon.lines().len() == lines + 3);
        let got = daemon.lines().split_off(lines);
        lines += 3;
        let parts: Vec<Vec<&str>> = got.iter().map(|line| line.split('|').collect()).collect();
        let head = [
            "sm-1",
            "rsm",
            "finding_raised",
            "local0.err",
            "2025-11-29T16:00:00.123Z",
        ];
        for part in &parts {
            let at = part[4].replace("+00:00", "Z");
            assert_eq!(
                [part[0], part[1], part[2], part[3], &at],
                head,
                "{address:?}"
            );
        }
        assert!(parts[0][5].contains("[meta sequenceId=\"7\"]"), "{got:?}");
        assert!(parts[0][5].contains("[origin software=\"rsm\""), "{got:?}");
        assert_eq!(parts[0][6].trim(), "host-missing: plain");
        assert!(parts[1][6].contains("evil\\u{a}<0>1 - forged"), "{got:?}");
        assert!(parts[2][6].ends_with("host-missing: ünïcode"), "{got:?}");
        assert_eq!(counts(&notifier), (3, 0, 0));
        notifier.stop();
    }
}

#[test]
fn local_syslog_socket_gets_messages() {
    if !has_daemon() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let (notifier, _) = notifier(None, settings(SyslogTarget::Local(dir.path().join("log"))));
    put(&notifier, &["local"], 1);
    wait_until(20, "a line", || daemon.lines().len() == 1);
    let line = daemon.lines().remove(0);
    assert!(line.contains("|rsm|-|local0.err|"), "{line}");
    assert!(
        line.ends_with("finding_raised: host-missing: local"),
        "{line}"
    );
    notifier.stop();
}

#[test]
fn restarted_syslog_daemon_gets_the_messages_sent_meanwhile_by_tcp() {
    if !has_daemon() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let (udp, tcp) = (daemon.udp, daemon.tcp);
    let state = tempfile::tempdir().unwrap();
    let target = SyslogTarget::Tcp(HOST.to_owned(), tcp);
    let (notifier, _) = notifier(Some(state.path()), settings(target));
    put(&notifier, &["before"], 1);
    wait_until(20, "a line", || daemon.lines().len() == 1);
    drop(daemon);
    put(&notifier, &["while it was away", "and more"], 2);
    wait_until(10, "a failure", || {
        notifier.receivers()[0].failing_since_unix_ms.is_some()
    });
    assert_eq!(counts(&notifier), (1, 2, 0));
    let daemon = Daemon::at(dir.path(), udp, tcp);
    wait_until(60, "all lines", || daemon.lines().len() == 3);
    let lines = daemon.lines();
    assert!(
        lines[1].ends_with("while it was away") && lines[2].ends_with("and more"),
        "{lines:?}"
    );
    assert_eq!(counts(&notifier), (3, 0, 0));
    notifier.stop();
}

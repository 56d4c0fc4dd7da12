//! An etcd cluster on the loopback interface.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::clock::wait_for_every;
use crate::error::Error;
use crate::peer::program_path;
use crate::process::{Finished, Invocation, Running};

/// The programs that tests of the shared store need.
pub const PEERS: &[&str] = &["etcd", "etcdctl", "openssl"];

/// The programs that tests of a slow disk need.
pub const SLOW_DISK_PEERS: &[&str] = &["etcd", "etcdctl", "openssl", "strace"];

/// The maximum time for the cluster to elect a leader.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The maximum time for a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An etcd cluster. Dropping it kills its members.
#[derive(Debug)]
pub struct Etcd {
    // Fields drop in this order: the members before their files.
    members: Vec<Member>,
    directory: TempDir,
}

/// A member of the cluster.
#[derive(Debug)]
struct Member {
    invocation: Invocation,
    /// The process; `None` after it was killed.
    process: Option<Running>,
    /// The URL for clients.
    endpoint: String,
}

/// The disk to which a member writes.
#[derive(Clone, Copy)]
enum Disk {
    /// The member forces no write to the disk, because the speed of the disk would affect every
    /// measurement.
    Unused,
    /// Each fsync takes this much longer.
    Slow(Duration),
}

impl Disk {
    /// The beginning of a command that starts a member.
    fn invocation(self, directory: &Path) -> Invocation {
        let etcd = program_path("etcd");
        match self {
            Disk::Unused => Invocation::new(etcd, directory).args(["--unsafe-no-fsync"]),
            Disk::Slow(delay) => {
                let delay = format!("fsync,fdatasync:delay_exit={}", delay.as_micros());
                Invocation::new(program_path("strace"), directory)
                    // With `-D` the member, and not strace, is the test's child, so a signal to the
                    // child reaches the member.
                    .args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"])
                    .args(["-e", "trace=fsync,fdatasync", "-e"])
                    .arg(format!("inject={delay}"))
                    .arg(etcd)
            }
        }
    }
}

impl Etcd {
    /// Starts `count` members, and waits until they answer.
    ///
    /// # Errors
    /// The members cannot be started, or do not answer in time.
    pub fn start(count: usize) -> Result<Etcd, Error> {
        Etcd::start_with(count, "http", |_| Vec::new())
    }

    /// Starts a cluster like [`Etcd::start`], with a single member whose every fsync takes `delay`
    /// longer.
    ///
    /// # Errors
    /// Fails as [`Etcd::start`] does.
    pub fn start_on_slow_disk(delay: Duration) -> Result<Etcd, Error> {
        let disk = Disk::Slow(delay);
        let etcd = Etcd::start_members(1, "http", disk, |_| Vec::new())?;
        etcd.wait_healthy()?;
        Ok(etcd)
    }

    /// Starts a cluster like [`Etcd::start`], for clients with the URL scheme `scheme`, and with
    /// further arguments, which may name files in the cluster's directory.
    ///
    /// # Errors
    /// Fails as [`Etcd::start`] does.
    pub fn start_with(
        count: usize,
        scheme: &str,
        arguments: impl Fn(&Path) -> Vec<String>,
    ) -> Result<Etcd, Error> {
        let etcd = Etcd::start_members(count, scheme, Disk::Unused, arguments)?;
        if scheme == "http" {
            etcd.wait_healthy()?;
        }
        Ok(etcd)
    }

    /// Starts the members of a cluster, without waiting until they answer.
    fn start_members(
        count: usize,
        scheme: &str,
        disk: Disk,
        arguments: impl Fn(&Path) -> Vec<String>,
    ) -> Result<Etcd, Error> {
        let directory = tempfile::Builder::new().prefix("rsm-etcd-").tempdir();
        let directory = directory.map_err(|source| Error::Write {
            path: std::env::temp_dir(),
            source,
        })?;
        let more = arguments(directory.path());
        let ports = free_ports(2 * count).map_err(|source| Error::Read {
            path: PathBuf::from("127.0.0.1:0"),
            source,
        })?;
        let peer = |number: usize| format!("http://127.0.0.1:{}", ports[2 * number]);
        let cluster: Vec<String> = (0..count)
            .map(|number| format!("m{number}={}", peer(number)))
            .collect();
        let members = (0..count).map(|number| {
            let endpoint = format!("{scheme}://127.0.0.1:{}", ports[2 * number + 1]);
            let name = format!("m{number}");
            let peer = peer(number);
            let invocation = disk
                .invocation(directory.path())
                .args(["--name", &name, "--data-dir", &name])
                .args(["--listen-client-urls", &endpoint])
                .args(["--advertise-client-urls", &endpoint])
                .args(["--listen-peer-urls", &peer])
                .args(["--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &cluster.join(",")])
                .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
                .args(["--logger", "zap", "--log-level", "error"])
                .args(&more);
            let process = Some(invocation.spawn()?);
            Ok(Member {
                invocation,
                process,
                endpoint,
            })
        });
        Ok(Etcd {
            members: members.collect::<Result<_, Error>>()?,
            directory,
        })
    }

    /// Waits until the cluster answers.
    ///
    /// # Errors
    /// The cluster does not answer in time.
    pub fn wait_healthy(&self) -> Result<(), Error> {
        let healthy = || self.ctl(&["get", "any"]).ok().map(drop);
        wait_for_every(POLL_INTERVAL, START_LIMIT, healthy).ok_or_else(|| Error::Failed {
            command: "etcd".into(),
            outcome: "not healthy".into(),
            output: self.log(),
        })
    }

    /// The standard error of all members.
    #[must_use]
    pub fn log(&self) -> String {
        let running = self
            .members
            .iter()
            .filter_map(|member| member.process.as_ref());
        running.map(Running::stderr_so_far).collect()
    }

    /// The endpoints for clients.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        let members = self.members.iter();
        members.map(|member| member.endpoint.clone()).collect()
    }

    /// The directory with the cluster's files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Kills a member.
    ///
    /// # Errors
    /// The kernel reports no exit status.
    pub fn kill(&mut self, number: usize) -> Result<(), Error> {
        let process = self.members[number].process.take();
        process.map_or(Ok(()), |process| process.kill().map(drop))
    }

    /// Restarts a killed member with its data.
    ///
    /// # Errors
    /// The member cannot be started.
    pub fn restart(&mut self, number: usize) -> Result<(), Error> {
        let member = &mut self.members[number];
        member.process = Some(member.invocation.spawn()?);
        Ok(())
    }

    /// Stops all members with SIGSTOP: their connections stay open, but get no answers.
    pub fn suspend(&self) {
        for member in &self.members {
            if let Some(process) = &member.process {
                process.suspend();
            }
        }
    }

    /// Stops one member like [`Etcd::suspend`].
    pub fn suspend_member(&self, number: usize) {
        if let Some(process) = &self.members[number].process {
            process.suspend();
        }
    }

    /// Resumes all members with SIGCONT.
    pub fn resume(&self) {
        for member in &self.members {
            if let Some(process) = &member.process {
                process.resume();
            }
        }
    }

    /// Runs etcdctl on the cluster.
    ///
    /// # Errors
    /// etcdctl fails.
    pub fn ctl(&self, arguments: &[&str]) -> Result<Finished, Error> {
        Invocation::new(program_path("etcdctl"), self.directory.path())
            .env("ETCDCTL_API", "3")
            .args(["--command-timeout", "2s", "--endpoints"])
            .arg(self.endpoints().join(","))
            .args(arguments)
            .run(COMMAND_LIMIT)?
            .success()
    }
}

/// Ports that are free at present; another process may still take one.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let listeners: std::io::Result<Vec<TcpListener>> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect();
    let ports = listeners?;
    let ports = ports.iter().map(|port| Ok(port.local_addr()?.port()));
    ports.collect()
}

//! Managers that share a store: rsm processes on one served fabric, with a real etcd cluster.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::{PKey, Trap};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::{
    ClassPortInfo, ComponentMask, GuidInfoRecord, InformInfo, JoinState, McMemberRecord, Record,
    ServiceRecord,
};

use crate::answering::Host;
use crate::binaries;
use crate::clock::{Stopwatch, wait_for_every};
use crate::etcd::Etcd;
use crate::managed::Managed;
use crate::process::{Invocation, Running};
use crate::sa_key::{self, SA_KEY};
use crate::served;

/// The maximum time for any condition that a test awaits.
const LIMIT: Duration = Duration::from_secs(300);
/// The polling interval of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The MGID of the broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// A served fabric and an etcd cluster.
pub struct Site {
    /// The fabric, simulated in this process.
    pub fabric: Managed,
    /// The store.
    pub etcd: Etcd,
}

/// An rsm process at a host of the fabric, with its own state folder.
pub struct Manager {
    /// The process.
    pub process: Running,
    /// The address of the process for rsmctl.
    server: String,
    /// The state folder, which contains the configuration.
    pub directory: PathBuf,
}

impl Site {
    /// Starts a fabric of `spec`, and an etcd cluster of `members` members.
    ///
    /// # Panics
    ///
    /// The fabric or the cluster cannot be started.
    #[must_use]
    pub fn start(spec: &str, members: usize) -> Site {
        Site {
            fabric: Managed::start(spec),
            etcd: Etcd::start(members).unwrap(),
        }
    }

    /// Starts a fabric of `spec`, and an etcd cluster of one member whose every fsync takes `delay`
    /// longer.
    ///
    /// # Panics
    ///
    /// The fabric or the cluster cannot be started.
    #[must_use]
    pub fn start_on_slow_disk(spec: &str, delay: Duration) -> Site {
        Site {
            fabric: Managed::start(spec),
            etcd: Etcd::start_on_slow_disk(delay).unwrap(),
        }
    }

    /// A configuration that names the store, followed by the text `more`.
    #[must_use]
    pub fn config(&self, more: &str) -> String {
        config_at(&self.etcd.endpoints().join(","), more)
    }

    /// Prepares an rsm at the host `host_index`, with the state folder `name`, and with
    /// `more` after the store in its configuration. Also returns the path of the state folder.
    ///
    /// # Panics
    ///
    /// The folder cannot be made.
    #[must_use]
    pub fn invocation(&self, host_index: usize, name: &str, more: &str) -> (Invocation, PathBuf) {
        self.invocation_of(&binaries::rsm(), (host_index, name), &self.config(more))
    }

    /// Prepares `program`, an rsm, like [`Site::invocation`], with the configuration `config_text`.
    fn invocation_of(
        &self,
        program: &Path,
        (host_index, folder): (usize, &str),
        config_text: &str,
    ) -> (Invocation, PathBuf) {
        let directory = self.fabric.fabric.directory().join(folder);
        std::fs::create_dir_all(&directory).unwrap();
        let config = directory.join("rsm.toml");
        std::fs::write(&config, config_text).unwrap();
        sa_key::put_beside(&config);
        let socket = self.fabric.fabric.directory().join("fabric.sock");
        let host = self.fabric.hosts[host_index].0.to_string();
        let fabric_directory = self.fabric.fabric.directory();
        let rsm = served::client(fabric_directory, &socket, &host, program).unwrap();
        let rsm = rsm.args(["--listen", "off", "--fabric", "umad", "--config"]);
        (
            rsm.arg(config).arg("--state-dir").arg(&directory),
            directory,
        )
    }

    /// Starts an rsm at the host `host_index`, with the state folder `name`, and with
    /// `more` after the store in its configuration.
    ///
    /// # Panics
    ///
    /// rsm cannot be started.
    #[must_use]
    pub fn rsm(&self, host_index: usize, name: &str, more: &str) -> Manager {
        Site::start_rsm(self.invocation(host_index, name, more))
    }

    /// Starts an rsm like [`Site::rsm`], with other endpoints of the store.
    ///
    /// # Panics
    ///
    /// rsm cannot be started.
    #[must_use]
    pub fn rsm_at(&self, host_index: usize, name: &str, endpoints: &str) -> Manager {
        self.rsm_of(
            &binaries::rsm(),
            (host_index, name),
            &config_at(endpoints, ""),
        )
    }

    /// Starts an rsm without the shared store, which keeps its state only in its folder.
    ///
    /// # Panics
    ///
    /// rsm cannot be started.
    #[must_use]
    pub fn rsm_alone(&self, host_index: usize, name: &str) -> Manager {
        self.rsm_of(&binaries::rsm(), (host_index, name), "")
    }

    /// Starts `program`, an rsm, with the text `config` as its configuration. `host_and_folder`
    /// is the index of the host and the name of the state folder.
    ///
    /// # Panics
    ///
    /// rsm cannot be started.
    #[must_use]
    pub fn rsm_of(&self, program: &Path, host_and_folder: (usize, &str), config: &str) -> Manager {
        Site::start_rsm(self.invocation_of(program, host_and_folder, config))
    }

    /// Starts a prepared rsm, whose state folder is `directory`.
    ///
    /// # Panics
    ///
    /// rsm cannot be started.
    #[must_use]
    pub fn start_rsm((rsm, directory): (Invocation, PathBuf)) -> Manager {
        Manager {
            process: rsm.spawn().unwrap(),
            server: format!("unix:{}", directory.join("rsm.sock").display()),
            directory,
        }
    }

    /// Waits until the SA of the manager at the host `host_index` answers `host`; returns the
    /// waiting time.
    ///
    /// # Panics
    ///
    /// No answer comes within the limit.
    pub fn wait_answer(&self, host: &mut Host, host_index: usize) -> Duration {
        self.wait_answer_at(host, self.fabric.lid(host_index))
    }

    /// Waits like [`Site::wait_answer`], for the SA at the LID `lid`.
    ///
    /// # Panics
    ///
    /// No answer comes within the limit.
    pub fn wait_answer_at(&self, host: &mut Host, lid: Lid) -> Duration {
        let watch = Stopwatch::start();
        let answers = wait_for_every(POLL_INTERVAL, LIMIT, || {
            host.ask_lid(lid);
            let query = (Method::GET, ComponentMask::NONE, 0);
            let time_limit = Duration::from_millis(100);
            let answer = host.try_ask(time_limit, query, &ClassPortInfo::default())?;
            (answer.status() == Status::OK).then_some(())
        });
        assert!(answers.is_some());
        watch.elapsed()
    }
}

/// Whether `findings` has one of the kind `kind` or, if `holds` is false, has none. Findings that
/// could not be read are neither.
fn is_as_expected(findings: Option<&serde_json::Value>, kind: &str, holds: bool) -> bool {
    findings.is_some_and(|findings| findings.to_string().contains(kind) == holds)
}

/// A configuration with a store at `endpoints`, followed by the text `more`.
fn config_at(endpoints: &str, more: &str) -> String {
    format!("[store]\nbackend = \"etcd\"\nendpoints = \"{endpoints}\"\n{more}")
}

impl Manager {
    /// Runs a command of rsmctl, and returns its output.
    ///
    /// # Panics
    ///
    /// The command fails.
    pub fn command(&self, arguments: &[&str]) -> String {
        let rsmctl = Invocation::new(binaries::rsmctl(), &self.directory);
        let rsmctl = rsmctl.args(["--server", &self.server]).args(arguments);
        rsmctl.run(LIMIT).unwrap().success().unwrap().stdout
    }

    /// The output of an rsmctl command in JSON; `None` if the command fails.
    #[must_use]
    pub fn ask(&self, arguments: &[&str]) -> Option<serde_json::Value> {
        let rsmctl = Invocation::new(binaries::rsmctl(), &self.directory);
        let rsmctl = rsmctl.args(["--server", &self.server]).args(arguments);
        let answer = rsmctl.args(["--format", "json"]).run(LIMIT).ok()?;
        serde_json::from_str(&answer.success().ok()?.stdout).ok()
    }

    /// The answer of `rsmctl status`; null if the command fails.
    #[must_use]
    pub fn status(&self) -> serde_json::Value {
        self.ask(&["status"]).unwrap_or_default()
    }

    /// The state in `rsmctl status`, in lower case.
    #[must_use]
    pub fn state(&self) -> String {
        self.status()["state"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase()
    }

    /// Waits until the state of rsm contains `expected`.
    ///
    /// # Panics
    ///
    /// The state does not contain `expected` within the limit.
    pub fn wait_state(&self, expected: &str) {
        let reached = wait_for_every(POLL_INTERVAL, LIMIT, || {
            self.state().contains(expected).then_some(())
        });
        let log = self.process.stderr_so_far();
        assert!(reached.is_some(), "{expected}: {}\n{log}", self.status());
    }

    /// The findings of rsm, as text.
    ///
    /// # Panics
    ///
    /// The command fails.
    #[must_use]
    pub fn findings(&self) -> String {
        let findings = self.ask(&["findings"]);
        findings.expect("rsmctl findings fails").to_string()
    }

    /// Waits until rsm has a finding of the kind `kind` or, if `holds` is false, until rsm has no
    /// such finding.
    ///
    /// # Panics
    ///
    /// The finding does not appear, or disappear, within the limit.
    pub fn wait_finding(&self, kind: &str, holds: bool) {
        let reached = wait_for_every(POLL_INTERVAL, LIMIT, || {
            let findings = self.ask(&["findings"]);
            is_as_expected(findings.as_ref(), kind, holds).then_some(())
        });
        let log = self.process.stderr_so_far();
        assert!(
            reached.is_some(),
            "{kind} {holds}: {:?}\n{log}",
            self.ask(&["findings"])
        );
    }

    /// Waits until all changes are written to the shared store.
    ///
    /// # Panics
    ///
    /// A change is not written within the limit.
    pub fn wait_stored(&self) {
        let stored = wait_for_every(POLL_INTERVAL, LIMIT, || {
            let store = &self.status()["shared_store"];
            let waiting = store["waiting_rows"].as_u64().unwrap_or(0);
            (store["held"] == true && waiting == 0).then_some(())
        });
        assert!(stored.is_some(), "{}", self.status());
    }

    /// Ends the process with SIGTERM.
    ///
    /// # Panics
    ///
    /// The process does not end, or ends with an error.
    pub fn stop(self) {
        self.process.terminate(LIMIT).unwrap().success().unwrap();
    }
}

/// All records of the type `R` that the SA returns to `host` as a trusted requester.
///
/// # Panics
///
/// No answer comes.
pub fn all<R: Record + Default>(host: &mut Host) -> Vec<R> {
    let query = (Method::GET_TABLE, ComponentMask::NONE, SA_KEY);
    let answer = host.try_ask(LIMIT, query, &R::default());
    answer.expect("the SA answers").records()
}

/// Registers `hosts`, whose indices begin at 2, as members of the broadcast group. Also registers a
/// service for the first host, and a subscription and an alias GUID for the second host. Returns
/// the alias GUID.
///
/// # Panics
///
/// The SA refuses a registration.
pub fn register(fabric: &Managed, hosts: &mut [Host]) -> Guid {
    for (index, host) in hosts.iter_mut().enumerate() {
        join(fabric, host, index + 2);
    }
    offer(fabric, &mut hosts[0], 2, 7);
    subscribe(&mut hosts[1], 0);
    take_alias(fabric, &mut hosts[1], 3)
}

/// Joins `host`, whose index is `host_index`, to the broadcast group.
///
/// # Panics
///
/// The SA refuses the join.
pub fn join(fabric: &Managed, host: &mut Host, host_index: usize) {
    let mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let mut record = McMemberRecord::default();
    record
        .set_mgid(BROADCAST)
        .set_port_gid(fabric.gid(host_index))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    assert_eq!(host.ask(Method::SET, mask, &record).status(), Status::OK);
}

/// Registers the service `id` of `host`, whose index is `host_index`.
///
/// # Panics
///
/// The SA refuses the service.
pub fn offer(fabric: &Managed, host: &mut Host, host_index: usize, id: u64) {
    let mut service = ServiceRecord::default();
    service
        .set_service_id(id)
        .set_service_gid(fabric.gid(host_index));
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    assert_eq!(host.ask(Method::SET, mask, &service).status(), Status::OK);
}

/// Subscribes `host` to notices of ports that come into service, with `sm_key` (0 for untrusted
/// requesters).
///
/// # Panics
///
/// The SA refuses the subscription.
pub fn subscribe(host: &mut Host, sm_key: u64) {
    let mut subscription = InformInfo::default();
    subscription
        .set_lid_range_begin(InformInfo::LID_RANGE_ALL)
        .set_is_generic(1)
        .set_subscribe(1)
        .set_notice_type(InformInfo::ALL)
        .set_trap_number(Trap::GID_IN_SERVICE)
        .set_vendor_id(InformInfo::ALL_PRODUCERS);
    let query = (Method::SET, ComponentMask::NONE, sm_key);
    let answer = host.try_ask(LIMIT, query, &subscription);
    assert_eq!(answer.map(|answer| answer.status()), Some(Status::OK));
}

/// Requests an alias GUID for `host`, whose index is `host_index`, waits until its port holds the
/// alias GUID, and returns it.
///
/// # Panics
///
/// The SA refuses the alias GUID.
pub fn take_alias(fabric: &Managed, host: &mut Host, host_index: usize) -> Guid {
    let mut record = GuidInfoRecord::default();
    record.set_lid(fabric.lid(host_index)).set_block_num(0);
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK_NUM;
    let mask = mask | GuidInfoRecord::guid_component(2).expect("a block has an index 2");
    let answer: GuidInfoRecord = host.ask(Method::SET, mask, &record).record();
    let alias = answer.guid_info().guid(2).expect("a block has an index 2");
    let held = wait_for_every(POLL_INTERVAL, LIMIT, || {
        (fabric.guids(host_index).get(2) == Some(&alias)).then_some(())
    });
    assert!(held.is_some(), "{:?}", fabric.guids(host_index));
    alias
}

/// The port GIDs of multicast members.
#[must_use]
pub fn gids(members: &[McMemberRecord]) -> BTreeSet<Gid> {
    members.iter().map(|record| record.port_gid()).collect()
}

#[cfg(test)]
mod tests {
    use super::is_as_expected;

    #[test]
    fn findings_that_cannot_be_read_lack_no_kind() {
        let findings = serde_json::json!([{ "kind": "drained" }]);
        for (kind, holds, expected) in [
            ("drained", true, true),
            ("drained", false, false),
            ("storage", true, false),
            ("storage", false, true),
        ] {
            assert_eq!(is_as_expected(Some(&findings), kind, holds), expected);
            assert!(!is_as_expected(None, kind, holds));
        }
    }
}

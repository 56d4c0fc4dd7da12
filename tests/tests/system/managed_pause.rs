//! Two real rsm processes on one served fabric: the test suspends and resumes the master.

use std::time::Duration;

use rsm_routing::generate::generate;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::hosted::Hosted;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::served;

const FABRIC: &str = "fat-tree:k=4,levels=2";
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// An rsm with a priority at a host, and the address of its API.
struct Manager {
    process: Running,
    server: String,
    directory: std::path::PathBuf,
}

impl Manager {
    fn start(hosted: &Hosted, host: &str, priority: u8) -> Manager {
        let directory = hosted.directory().join(format!("rsm-{priority}"));
        std::fs::create_dir(&directory).unwrap();
        let config = directory.join("rsm.toml");
        std::fs::write(&config, format!("[sm]\npriority = {priority}\n")).unwrap();
        let socket = hosted.directory().join("fabric.sock");
        let rsm = served::client(hosted.directory(), &socket, host, binaries::rsm()).unwrap();
        let rsm = rsm.args(["--listen", "off", "--fabric", "umad", "--config"]);
        let rsm = rsm.arg(config).arg("--state-dir").arg(&directory);
        Manager {
            process: rsm.spawn().unwrap(),
            server: format!("unix:{}", directory.join("rsm.sock").display()),
            directory,
        }
    }

    /// The role that the manager reports: `up`, `standby`, …; empty while it does not answer.
    fn role(&self) -> String {
        let rsmctl = Invocation::new(binaries::rsmctl(), &self.directory);
        let rsmctl = rsmctl.args(["--server", &self.server, "status", "--format", "json"]);
        let answer = rsmctl.run(Duration::from_secs(10));
        let Ok(answer) = answer.and_then(|finished| finished.success()) else {
            return String::new();
        };
        let status: serde_json::Value = serde_json::from_str(&answer.stdout).unwrap();
        status["state"].as_str().unwrap_or_default().to_lowercase()
    }

    /// Waits until the manager is a standby if `standby`, otherwise the master.
    fn wait_role(&self, standby: bool) {
        let reached = wait_for_every(POLL, LIMIT, || {
            let expected = if standby { "standby" } else { "up" };
            self.role().contains(expected).then_some(())
        });
        let log = self.process.stderr_so_far();
        assert!(
            reached.is_some(),
            "standby {standby}: {}\n{log}",
            self.role()
        );
    }
}

#[test]
fn resumed_master_of_higher_priority_gets_the_subnet_back() {
    let netlist = generate(FABRIC).unwrap();
    let hosted = Hosted::start(&netlist).unwrap();
    let hosts: Vec<String> = netlist
        .nodes()
        .iter()
        .filter(|node| node.kind == rsm_routing::netlist::NodeKind::Ca)
        .map(|node| node.guid.to_string())
        .collect();
    let first = Manager::start(&hosted, &hosts[0], 7);
    first.wait_role(false);
    let second = Manager::start(&hosted, hosts.last().unwrap(), 5);
    second.wait_role(true);

    first.process.suspend();
    second.wait_role(false);
    assert!(hosted.wait_quiet(Duration::from_secs(1), LIMIT).unwrap());
    first.process.resume();
    second.wait_role(true);
    first.wait_role(false);
    let log = first.process.stderr_so_far();
    let line = |text: &str| {
        log.find(text)
            .unwrap_or_else(|| panic!("no `{text}` in {log}"))
    };
    let paused = line("this process did not run");
    let deposed = line("another subnet manager is master");
    let back = log.rfind("this subnet manager is master").unwrap();
    assert!(paused < deposed && deposed < back, "{log}");

    first.process.terminate(LIMIT).unwrap().success().unwrap();
    second.process.terminate(LIMIT).unwrap().success().unwrap();
}

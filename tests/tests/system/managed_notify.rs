//! Events to a webhook from two real rsm processes, while they hand the subnet over to each other.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_routing::generate::generate;
use rsm_tests::binaries;
use rsm_tests::clock::wait_for_every;
use rsm_tests::hosted::Hosted;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::served;
use rsm_tests::webhook::Webhook;
use serde_json::Value;

/// A fabric of four leaves with four hosts each (ports 1 to 4) below two spines (ports 5 and 6).
const FABRIC: &str = "pgft:2;4,4;1,2;1,1";
const LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// A time longer than an event takes to reach the webhook.
const DELIVERY_TIME: Duration = Duration::from_secs(3);

/// A fabric, and the webhook to which its managers send events.
struct Site {
    hosted: Hosted,
    webhook: Webhook,
    /// The GUIDs of the leaves, in the order of the netlist.
    leaves: Vec<Guid>,
}

struct Manager {
    process: Running,
    directory: PathBuf,
}

impl Site {
    fn start() -> Site {
        let netlist = generate(FABRIC).unwrap();
        let leaves = netlist
            .nodes()
            .iter()
            .filter(|node| String::from_utf8_lossy(&node.description).contains("leaf"));
        Site {
            leaves: leaves.map(|node| node.guid).collect(),
            hosted: Hosted::start(&netlist).unwrap(),
            webhook: Webhook::start().unwrap(),
        }
    }

    /// Starts a manager at `host`, or at the first host if `host` is empty. Managers of one
    /// priority share a folder, so that a second start continues the first run.
    fn manager(&self, host: &str, priority: u8) -> Manager {
        let directory = self.hosted.directory().join(format!("rsm-{priority}"));
        std::fs::create_dir_all(&directory).unwrap();
        let config = directory.join("rsm.toml");
        let text = format!("[sm]\npriority = {priority}\n");
        std::fs::write(&config, text).unwrap();
        let socket = self.hosted.directory().join("fabric.sock");
        let rsm = served::client(self.hosted.directory(), &socket, host, binaries::rsm()).unwrap();
        // On a simulated fabric, rsm ignores the receivers in its configuration.
        let rsm = rsm.args(["--webhook", &self.webhook.url(), "--listen", "off"]);
        let rsm = rsm.args(["--fabric", "umad", "--config"]);
        let rsm = rsm.arg(config).arg("--state-dir").arg(&directory);
        Manager {
            process: rsm.spawn().unwrap(),
            directory,
        }
    }

    /// Unplugs port 5 of the leaf at an index, and plugs it in again; waits for the event of each
    /// change.
    fn flap(&self, leaf: usize) {
        let (guid, port) = (self.leaves[leaf], PortNum(5));
        let cut = self.hosted.sim.with(move |sim| sim.unlink(guid, port));
        cut.unwrap().unwrap();
        self.wait("the lost link", |site| {
            site.link_events("link_vanished", leaf) > 0
        });
        let joined = self.hosted.sim.with(move |sim| sim.relink(guid, port));
        joined.unwrap().unwrap();
        self.wait("the link", |site| {
            site.link_events("link_appeared", leaf) > 0
        });
    }

    /// The number of events of this change about the cable at port 5 of a leaf.
    fn link_events(&self, change: &str, leaf: usize) -> usize {
        let guid = self.leaves[leaf].to_string();
        let is_end =
            |end: &Value| end["port"]["node_guid"] == guid.as_str() && end["port"]["number"] == 5;
        let events = self.webhook.events();
        let of_change = events.iter().filter(|event| event["change"] == change);
        let link_events = of_change.map(|event| &event["event"][change]);
        link_events
            .filter(|link| is_end(&link["a"]) || is_end(&link["b"]))
            .count()
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Site) -> bool) {
        let found = wait_for_every(POLL, LIMIT, || is_so(self).then_some(()));
        assert!(found.is_some(), "{what}: {:#?}", self.webhook.events());
    }
}

impl Manager {
    fn wait_state(&self, expected: &str) {
        let server = format!("unix:{}", self.directory.join("rsm.sock").display());
        let state = || {
            let rsmctl = Invocation::new(binaries::rsmctl(), &self.directory);
            let rsmctl = rsmctl.args(["--server", &server, "status", "--format", "json"]);
            let answer = rsmctl.run(LIMIT).ok()?.success().ok()?;
            let status: Value = serde_json::from_str(&answer.stdout).ok()?;
            Some(status["state"].as_str()?.to_lowercase())
        };
        let found = wait_for_every(POLL, LIMIT, || state()?.contains(expected).then_some(()));
        let log = self.process.stderr_so_far();
        assert!(found.is_some(), "not {expected}: {:?}\n{log}", state());
    }
}

#[test]
fn managers_that_hand_the_subnet_over_send_each_event_once() {
    let site = Site::start();
    let first = site.manager("", 8);
    first.wait_state("up");
    let second = site.manager("host-008 mlx5_0", 3);
    second.wait_state("standby");
    site.flap(0);
    // The master ends, and the standby takes over.
    first.process.terminate(LIMIT).unwrap();
    second.wait_state("up");
    site.flap(1);
    // The first manager is back with its higher priority, and the second manager hands over.
    let first = site.manager("", 8);
    first.wait_state("up");
    second.wait_state("standby");
    site.flap(2);
    std::thread::sleep(DELIVERY_TIME);
    for leaf in 0..3 {
        for change in ["link_vanished", "link_appeared"] {
            let events = site.webhook.events();
            assert_eq!(
                site.link_events(change, leaf),
                1,
                "{change} of leaf {leaf}: {events:#?}"
            );
        }
    }
    let events = site.webhook.events();
    let ids: BTreeSet<&str> = events
        .iter()
        .filter_map(|event| event["id"].as_str())
        .collect();
    assert_eq!(ids.len(), events.len(), "an event came twice: {events:#?}");
    // A standby sends nothing, but a master that becomes a standby sends an event about the change.
    let texts = events
        .iter()
        .filter(|event| event["change"] == "state_changed");
    let texts: Vec<String> = texts.map(|event| event["text"].to_string()).collect();
    assert!(
        texts.iter().any(|text| text.contains("standby")),
        "{texts:?}"
    );
}

//! Runs each command of `docs/questions.md` in a situation in which an operator asks the question:
//! the output has the answer.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rsm_ids::{Guid, PortNum};
use rsm_routing::generate::generate;
use rsm_routing::netlist::{LinkSpeed, Netlist};
use rsm_tests::binaries;
use rsm_tests::clock::wait_for;
use rsm_tests::hosted::Hosted;
use rsm_tests::process::{Invocation, Running};
use rsm_tests::served;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(90);

/// A fabric of four leaves with four hosts each (ports 1 to 4) below two spines (ports 5 and 6).
const FABRIC: &str = "pgft:2;4,4;1,2;1,1";

/// The fabric, in which the cable of `leaf-04:6` is slower than its siblings.
fn netlist() -> Netlist {
    let netlist = generate(FABRIC).expect("it is a fabric");
    let leaf = node(&netlist, "leaf-04");
    let (nodes, mut cables) = netlist.into_parts();
    let slow = cables.iter_mut().find(|cable| {
        let ends = [cable.a, cable.b];
        ends.contains(&(leaf, PortNum(6)))
    });
    slow.expect("it is cabled").speed = LinkSpeed::Edr;
    Netlist::new(nodes, cables).expect("it is a fabric")
}

/// The index of the node with this text in its description.
fn node(netlist: &Netlist, text: &str) -> usize {
    let mut nodes = netlist.nodes().iter();
    let found = nodes.position(|node| String::from_utf8_lossy(&node.description).contains(text));
    found.expect("it is there")
}

/// An rsm at a host.
struct Manager {
    process: Running,
    directory: PathBuf,
}

impl Manager {
    fn start(hosted: &Hosted, host: &str, priority: u8) -> Manager {
        let directory = hosted.directory().join(format!("rsm-{priority}"));
        fs::create_dir(&directory).expect("there is room");
        let config = directory.join("rsm.toml");
        let text =
            format!("[sm]\npriority = {priority}\n[counters]\nenabled = true\ninterval_s = 1\n");
        fs::write(&config, text).expect("there is room");
        let socket = hosted.directory().join("fabric.sock");
        let rsm = served::client(hosted.directory(), &socket, host, binaries::rsm());
        let rsm = rsm.expect("there is room");
        let rsm = rsm.args(["--listen", "off", "--fabric", "umad", "--config"]);
        let rsm = rsm.arg(config).arg("--state-dir").arg(&directory);
        Manager {
            process: rsm.spawn().expect("it can be started"),
            directory,
        }
    }

    /// Runs a command as it is in the page; returns the exit code and the output.
    fn run(&self, command: &str) -> (i32, String) {
        let mut words = command.split_whitespace();
        assert_eq!(words.next(), Some("rsmctl"), "{command}");
        let socket = format!("unix:{}", self.directory.join("rsm.sock").display());
        let rsmctl = Invocation::new(binaries::rsmctl(), &self.directory);
        let rsmctl = rsmctl.env("RSM_SERVER", socket).args(words);
        let finished = rsmctl.run(LIMIT).expect("it ends");
        let text = format!("{}{}", finished.stdout, finished.stderr);
        (finished.status.code().unwrap_or(-1), text)
    }

    fn printed(&self, command: &str) -> String {
        let (code, text) = self.run(command);
        assert_eq!(code, 0, "{command}: {text}");
        text
    }

    /// Waits until a line of the output contains all of `texts`, and returns it.
    fn line(&self, command: &str, texts: &[&str]) -> String {
        let matches = |line: &&str| texts.iter().all(|text| line.contains(text));
        let found = wait_for(LIMIT, || {
            let (_, output) = self.run(&format!("{command} --wide"));
            output.lines().find(matches).map(str::to_owned)
        });
        found.unwrap_or_else(|| {
            let log = self.process.stderr_so_far();
            panic!("{command}: no {texts:?} in\n{}\n{log}", self.run(command).1)
        })
    }
}

/// A fabric with a master and a standby, and the questions of the page.
struct Site {
    hosted: Hosted,
    master: Manager,
    standby: Manager,
    netlist: Netlist,
    /// The rows of the page's table that the test has not used yet: question and command.
    unused: BTreeSet<(String, String)>,
}

impl Site {
    fn start() -> Site {
        let netlist = netlist();
        let hosted = Hosted::start(&netlist).expect("it can be served");
        let master = Manager::start(&hosted, "", 8);
        master.line("rsmctl status", &["State", "up"]);
        let standby = Manager::start(&hosted, "host-008 mlx5_0", 3);
        standby.line("rsmctl status", &["State", "standby"]);
        Site {
            hosted,
            master,
            standby,
            netlist,
            unused: page(),
        }
    }

    /// The command that answers a question; removes the row from [`Site::unused`].
    fn command(&mut self, question: &str) -> String {
        let row = self.unused.iter().find(|row| row.0 == question).cloned();
        let row = row.unwrap_or_else(|| panic!("`{question}` is not in docs/questions.md"));
        self.unused.remove(&row);
        row.1
    }

    fn guid(&self, text: &str) -> Guid {
        self.netlist.nodes()[node(&self.netlist, text)].guid
    }

    fn unlink(&self, text: &str, port: u8) {
        let guid = self.guid(text);
        let done = self
            .hosted
            .sim
            .with(move |sim| sim.unlink(guid, PortNum(port)));
        done.expect("it runs").expect("it is cabled");
    }

    fn relink(&self, text: &str, port: u8) {
        let guid = self.guid(text);
        let done = self
            .hosted
            .sim
            .with(move |sim| sim.relink(guid, PortNum(port)));
        done.expect("it runs").expect("it was cabled");
    }

    /// Waits until rsm shows this number of active links at `leaf-02`.
    fn wait_links(&self, count: usize) {
        let shown = wait_for(LIMIT, || {
            let (_, links) = self
                .master
                .run("rsmctl links --node leaf-02 --state active --wide");
            let links = links.lines().filter(|line| line.contains("leaf-02"));
            (links.count() == count).then_some(())
        });
        assert!(
            shown.is_some(),
            "{}",
            self.master.printed("rsmctl links --node leaf-02")
        );
    }

    /// A time after the last convergence, as RFC 3339.
    fn moment(&self) -> String {
        let text = self
            .master
            .printed("rsmctl history --newest 1 --format json");
        let history: Value = serde_json::from_str(&text).expect("it is JSON");
        let at = history[0]["finished_unix_ms"].as_u64();
        rsm_api::timestamp(at.expect("it has a time") + 1)
    }
}

/// The rows of the table in `docs/questions.md`: question and command.
fn page() -> BTreeSet<(String, String)> {
    let path = binaries::workspace().join("docs/questions.md");
    let text = fs::read_to_string(path).expect("the page is there");
    let rows = text.lines().filter(|line| line.starts_with("| "));
    let rows = rows.filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let command = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        Some((cells[0].to_owned(), command.to_owned()))
    });
    rows.collect()
}

#[test]
fn each_question_of_the_page_is_answered_by_its_command() {
    let mut site = Site::start();
    let evening = site.moment();

    let command = site.command("Who is master, who stands by?");
    site.master.line(&command, &["Master", "this manager"]);
    site.master.line(
        &command,
        &["Other manager", "host-008", "priority 3", "standby"],
    );
    site.standby
        .line(&command, &["Master", "host-001", "priority 8"]);

    let command = site.command("Is routing balanced?");
    let verdict = site.master.line(&command, &["Verdict"]);
    assert!(verdict.contains(" balanced: none of 16 link"), "{verdict}");

    // This fabric has no design; `managed_design` tests a fabric with a design.
    let command = site.command("How far is the installation?");
    let (code, answer) = site.master.run(&command);
    assert_ne!(code, 0);
    let remedy = "there is no design to compare with: `rsmctl design export > FILE` writes one";
    assert!(answer.contains(remedy), "{answer}");

    // No host of this fabric has sent an inventory.
    let command = site.command("Which GPU hosts lost rails?");
    let (code, answer) = site.master.run(&command);
    assert_eq!(code, 1, "{answer}");
    assert!(answer.contains("nothing was checked"), "{answer}");

    let command = site.command("What is slow?");
    let slow = site.master.line(&command, &["link", "leaf-04"]);
    assert!(slow.contains("4x edr, while most"), "{slow}");
    site.master.line(&command, &["stage", " ms of "]);

    let command = site.command("Which hosts use this link?");
    let hosts = site.master.printed(&command);
    // The hosts of the leaf send over the cable to half of the 12 hosts of the other leaves.
    for host in ["host-009", "host-010", "host-011", "host-012"] {
        let row = hosts.lines().find(|line| line.starts_with(host));
        let row = row.unwrap_or_else(|| panic!("no {host} in {hosts}"));
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells.first(), Some(&host), "the host, without its adapter");
        assert_eq!(cells.get(1), Some(&"1"), "one adapter: {row}");
        assert!(cells[2..].contains(&"6"), "{row}");
    }
    site.master
        .line(&command, &["Hosts", "16 hosts", "16 adapters"]);

    let command = site.command("What if I drain leaf-03?");
    site.master.line(
        &command,
        &["Breaks", "4 adapters of 4 hosts would be cut off"],
    );
    let refused = site.master.line(&command, &["To do", "REFUSED"]);
    assert!(
        refused.contains("4 nodes would be cut off: host-009"),
        "{refused}"
    );

    let command = site.command("May I unplug it now?");
    site.master.line(
        &command,
        &["May be unplugged", "NO", "rsmctl drain leaf-03:5"],
    );
    let drained = site.master.printed("rsmctl drain leaf-03:5");
    assert!(drained.contains("safe to unplug"), "{drained}");
    site.master.line(&command, &["May be unplugged", "yes"]);
    site.master
        .line("rsmctl status", &["Avoided", "1 drained", "leaf-03"]);
    site.master.line("rsmctl links", &["leaf-03:5", "drained"]);
    site.master.printed("rsmctl undrain leaf-03:5");

    for (question, checks) in [
        ("How is my fabric, on one page?", ["nodes", "routes"]),
        (
            "How full are LIDs, multicast LIDs and tables?",
            ["capacity", "LIDs"],
        ),
        (
            "What is a single point of failure?",
            ["single-points-of-failure", ""],
        ),
    ] {
        let command = site.command(question);
        let (code, report) = site.master.run(&command);
        // A finding from an earlier question may still exist.
        assert!([0, 4, 5].contains(&code), "{code}: {report}");
        for check in checks {
            assert!(report.contains(check), "{check}: {report}");
        }
    }
    let command = site.command("Which port flaps?");
    let missing = site.command("Which cable is missing or in the wrong place?");
    for _ in 0..2 {
        site.unlink("leaf-02", 5);
        site.wait_links(5);
        site.master.line(&missing, &["cable", "leaf-02"]);
        site.relink("leaf-02", 5);
        site.wait_links(6);
    }
    let flaps = site.master.line(&command, &["leaf-02", "spine-01"]);
    assert!(flaps.trim_start().starts_with('2'), "{flaps}");

    let command = site.command("Which links have errors?");
    let leaf = site.guid("leaf-02");
    let done = site.hosted.sim.with(move |sim| {
        let counter = rsm_mad::wire::perf::Counter::SymbolError;
        sim.set_errors(leaf, PortNum(6), counter, 50.0)
    });
    done.expect("it runs").expect("there is such a port");
    site.master
        .line(&command, &["leaf-02", "SymbolErrorCounter="]);
    // The first reading can have fewer errors than the port that flapped.
    let leads = |table: &String| {
        let first = table.lines().nth(1);
        first.is_some_and(|first| first.contains("SymbolErrorCounter="))
    };
    let wide = format!("{command} --wide");
    let table = wait_for(LIMIT, || Some(site.master.printed(&wide)).filter(leads));
    let table = table.unwrap_or_else(|| site.master.printed(&wide));
    let first = table.lines().nth(1).unwrap_or_default();
    assert!(first.contains("SymbolErrorCounter="), "{table}");
    let ends = ["leaf-02", "spine-02"].map(|end| first.contains(end));
    assert_eq!(ends, [true, true], "{table}");

    let command = site.command("A job is slow: is it the fabric?");
    let hosts = command.split('`').next().unwrap_or_default();
    let command = hosts.replace("HOSTS", "host-005 host-009");
    let (code, judgement) = site.master.run(&command);
    assert!([0, 4, 5].contains(&code), "{code}: {judgement}");
    assert!(judgement.contains("2 hosts"), "{judgement}");
    let command = site.command("When did the errors begin?");
    let command = command.replace("leaf-03:5", "leaf-02:6");
    site.master.line(&command, &["SymbolError"]);
    let command = site.command("Which links had errors last night?");
    let command = command.replace("22:00", &evening);
    site.master.line(&command, &["leaf-02", "SymbolError"]);

    let command = site.command("Which host is gone, since when, why, where was it?");
    site.unlink("host-014", 1);
    let gone = site.master.line(&command, &["host", "host-014"]);
    let since = gone.split_whitespace().next();
    assert!(
        since.is_some_and(|time| time.contains(':')),
        "since when: {gone}"
    );
    assert!(gone.contains("leaf-04:2"), "{gone}");
    assert!(gone.contains("no signal"), "{gone}");
    let each = site.master.printed("rsmctl expect --all");
    assert!(each.contains("1 host missing"), "{each}");

    let command = site.command("Why can A not reach B?");
    let (code, reason) = site
        .master
        .run(&command.replace("A B", "host-001 host-014"));
    assert_eq!(code, 1, "{reason}");
    assert!(
        reason.contains("host-014") && reason.contains("leaf-04"),
        "{reason}"
    );

    let command = site.command("Which firmware is where?");
    site.master.line(&command, &["27.2012.1010", "6", "usual"]);

    let command = site.command("What changed last night?");
    let command = command.replace("22:00", &evening);
    site.master.line(&command, &["node-vanished", "host-014"]);
    site.master.line(&command, &["finding-raised"]);

    assert_eq!(
        site.unused,
        BTreeSet::new(),
        "questions that are not asked here"
    );
}

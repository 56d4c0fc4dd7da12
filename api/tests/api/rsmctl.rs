//! `rsmctl` as a process: its exact output, and its exit codes.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rsm_api::model::SubnetState;
use rsm_api::v1;
use rsm_api::v1::event::Change;
use rsm_ids::Lid;

use crate::fake::{Fake, GENERATION, HOST, LEAF, guid};
use crate::served::{Served, own_identity};

fn rsmctl() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rsmctl"));
    command.env_clear();
    command
}

pub(crate) fn run(served: &Served, arguments: &[&str]) -> Output {
    rsmctl()
        .env("RSM_SERVER", format!("unix:{}", served.socket.display()))
        .args(arguments)
        .output()
        .unwrap()
}

/// Standard output of a run that must succeed.
pub(crate) fn printed(served: &Served, arguments: &[&str]) -> String {
    let output = run(served, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    assert_eq!(errors, "", "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Compares with a file; `RSM_UPDATE_GOLDEN=1` writes it instead.
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/api/golden")
        .join(name);
    if std::env::var_os("RSM_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(actual, expected, "{name}");
}

fn publish_some(fake: &Fake) {
    let leaf = fake.nodes[&guid(LEAF, 0)].clone();
    let link = fake.links.values().next().unwrap().clone();
    let finding = fake.findings[0].clone();
    let convergence = fake.convergences.lock()[0].clone();
    for (at, change) in [
        Change::NodeAppeared(leaf),
        Change::LinkVanished(link),
        Change::RoutesChanged(v1::RoutesChanged {
            switches: 2,
            blocks: 1,
            entries: 5,
        }),
        Change::FindingRaised(finding),
        Change::ConvergenceFinished(convergence),
    ]
    .into_iter()
    .enumerate()
    {
        fake.journal
            .publish(GENERATION, 1_795_132_800_000 + at as u64, change);
    }
}

#[test]
fn every_subcommand_prints_its_golden_output() {
    let served = Served::start(Fake::tree(2, 1));
    publish_some(&served.fake);
    for (name, arguments) in [
        ("status", &["status"][..]),
        ("nodes", &["nodes"]),
        (
            "nodes-switch",
            &["nodes", "--kind", "switch", "--description", "leaf"],
        ),
        ("node", &["nodes", "host-2"]),
        ("ports", &["ports"]),
        (
            "ports-leaf",
            &["ports", "--node", "leaf-1", "--state", "active"],
        ),
        ("links", &["links"]),
        ("lft", &["lft", "leaf-1"]),
        ("route", &["route", "host-1", "host-2:1"]),
        ("path", &["path", "host-1", "host-2"]),
        (
            "path-of-tenant",
            &[
                "path", "1", "host-2:1", "--pkey", "16", "--sl", "3", "--paths", "1",
            ],
        ),
        ("qos", &["qos"]),
        ("partitions", &["partitions"]),
        ("partition", &["partitions", "0x8010"]),
        ("multicast", &["multicast"]),
        (
            "multicast-of",
            &["multicast", "--pkey", "0x10", "--port", "host-1"],
        ),
        ("multicast-broadcast", &["multicast", "0xc000"]),
        ("multicast-tenant", &["multicast", "ff12:601b:8010::1"]),
        ("sa", &["sa", "--wide"]),
        ("services", &["services"]),
        (
            "services-of",
            &["services", "--name", "storage", "--port", "host-1"],
        ),
        ("subscriptions", &["subscriptions"]),
        ("subscriptions-of", &["subscriptions", "--port", "host-1:1"]),
        ("aliases", &["aliases"]),
        ("vports", &["vports"]),
        ("congestion", &["congestion"]),
        ("aliases-of", &["aliases", "--port", "host-1"]),
        ("findings", &["findings", "--severity", "warning", "--wide"]),
        ("history", &["history", "--wide"]),
        ("events", &["events"]),
        ("sweep", &["sweep", "--full", "--wide"]),
        ("engine-list", &["engine", "list"]),
        ("engine-show", &["engine", "show"]),
        ("quality", &["quality", "--seed", "5"]),
        ("whatif", &["whatif", "unlink=leaf-1:1"]),
        ("whatif-part", &["whatif", "host-1"]),
        ("link", &["link", "leaf-1:1"]),
        ("engine-set", &["engine", "set", "minhop", "--wide"]),
        ("sim-unlink", &["sim", "unlink", "leaf-1", "1"]),
        ("sim-loss", &["sim", "loss", "0.05", "--attribute", "0x15"]),
    ] {
        golden(&format!("{name}.txt"), &printed(&served, arguments));
        // A sweep adds to the history, so that its second run is the next one.
        let json = printed(&served, &[arguments, &["--format", "json"]].concat());
        golden(&format!("{name}.json"), &json);
    }
}

/// A switch that knows some, one of them without a name; one that knows none; and nodes of types that
/// have not answered.
#[test]
fn capabilities_of_nodes_have_their_golden_output() {
    let mut fake = Fake::tree(2, 1);
    let held = |names: &[&str], unnamed: &[u32]| {
        Some(Box::new(v1::DeviceCapabilities {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            unnamed: unnamed.to_vec(),
        }))
    };
    let knows = held(&["adaptive routing", "fast recovery"], &[120, 127]);
    for (leaf, capabilities) in [(0, knows), (1, held(&[], &[]))] {
        let node = fake.nodes.get_mut(&guid(LEAF, leaf)).unwrap();
        node.capabilities = capabilities;
    }
    let served = Served::start(fake);
    let arguments = ["nodes", "--capabilities"];
    golden("capabilities.txt", &printed(&served, &arguments));
    let json = printed(&served, &[&arguments[..], &["--format", "json"]].concat());
    golden("capabilities.json", &json);
}

#[test]
fn an_engine_that_cuts_ports_off_while_it_is_set_wants_yes() {
    let served = Served::start(Fake::tree(2, 1));
    let refused = run(&served, &["engine", "set", "nue"]);
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        text.contains("4 ports of 4 nodes would be cut off"),
        "{text}"
    );
    let text = printed(&served, &["engine", "set", "nue", "--yes"]);
    assert!(text.contains("engine nue requested"), "{text}");
}

#[test]
fn an_engine_whose_routes_are_not_in_force_is_named_and_fails() {
    let served = Served::start(Fake::tree(2, 1));
    let output = run(&served, &["engine", "set", "dor"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("engine in force: updn (auto: "), "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("not of dor, but of updn: "), "{errors}");
    for asked in ["auto", "minhop"] {
        assert!(run(&served, &["engine", "set", asked]).status.success());
    }
}

#[test]
fn an_action_that_is_not_complete_prints_its_verdict_and_fails() {
    let served = Served::start(Fake::tree(2, 1));
    for (name, arguments, code) in [
        (
            "drain",
            &["drain", "leaf-1", "--force", "--note", "fans"][..],
            5,
        ),
        ("rotate-m-keys", &["rotate-m-keys", "--force"], 4),
        // The part carries packets of others.
        ("drained", &["drained"], 5),
    ] {
        for (format, ending) in [(&[][..], "txt"), (&["--format", "json"], "json")] {
            let output = run(&served, &[arguments, format].concat());
            assert_eq!(output.status.code(), Some(code), "{name}");
            let text = String::from_utf8(output.stdout).unwrap();
            golden(
                &format!("{name}.{ending}"),
                &text.replace(&own_identity(), "uid:1001"),
            );
        }
    }
}

#[test]
fn options_of_lists_are_refused_before_a_command_acts() {
    let served = Served::start(Fake::tree(2, 1));
    let before = served.fake.convergences.lock().len();
    for command in [
        &["undrain", "leaf-1"][..],
        &["sweep"],
        &["sim", "unlink", "leaf-1", "1"],
        &["partition", "delete", "0x10"],
        &["engine", "set", "minhop"],
    ] {
        let output = run(&served, &[command, &["--limit", "5"]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("nothing was done"), "{errors}");
    }
    assert_eq!(served.fake.convergences.lock().len(), before);
    assert!(served.fake.partition_changes.lock().is_empty());
}

#[test]
fn a_refused_drain_names_the_nodes_cut_off_and_fails() {
    let served = Served::start(Fake::tree(2, 1));
    let output = run(&served, &["drain", "leaf-1"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("2 nodes would be cut off: host-1, host-2"),
        "{errors}"
    );
    assert!(printed(&served, &["undrain", "leaf-1"]).contains('1'));
}

/// Commands whose tables are wider than 100 columns with all columns, each row on one line.
#[test]
fn tables_fit_a_hundred_columns_and_lose_no_word_of_a_message() {
    let served = Served::start(Fake::tree(2, 1));
    for (name, arguments) in [
        (
            "findings-fitted",
            &["findings", "--severity", "warning"][..],
        ),
        ("history-fitted", &["history"]),
        ("sa-fitted", &["sa"]),
    ] {
        let text = printed(&served, arguments);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
        golden(&format!("{name}.txt"), &text);
    }
    let message = &served.fake.findings[0].message;
    let findings = printed(&served, &["findings"]);
    let found: Vec<&str> = findings.split_whitespace().collect();
    let words = message.split_whitespace();
    assert!(
        words.clone().all(|word| found.contains(&word)),
        "{findings}"
    );
}

#[test]
fn the_exit_code_of_the_report_is_that_of_its_worst_check() {
    let code = |fake: Fake| {
        let served = Served::start(fake);
        let output = run(&served, &["report"]);
        assert!(output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    };
    let (fails, text) = code(Fake::tree(2, 1));
    assert_eq!(fails, Some(5));
    golden("report.txt", &text);
    let mut healthy = Fake::tree(2, 1);
    healthy.findings.clear();
    let (passes, text) = code(healthy);
    assert_eq!(passes, Some(0), "{text}");
}

#[test]
fn the_exit_code_of_blame_is_that_of_its_verdict() {
    let code = |fake: Fake, hosts: &[&str]| {
        let served = Served::start(fake);
        let since = ["blame", "--utc", "--since", "2023-11-14T22:00:00Z"];
        let output = run(&served, &[&since[..], hosts].concat());
        assert!(output.stderr.is_empty(), "{output:?}");
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (likely, text) = code(Fake::tree(2, 1), &["host-[1-2]"]);
    assert_eq!(likely, Some(5));
    golden("blame.txt", &text);
    let (unknown, text) = code(Fake::tree(2, 1), &["host-1", "nowhere"]);
    assert_eq!(unknown, Some(4), "{text}");
    assert!(text.contains("not known: `nowhere` is unknown"), "{text}");
    let mut healthy = Fake::tree(2, 1);
    healthy.findings.clear();
    let (innocent, text) = code(healthy, &["host-1"]);
    assert_eq!(innocent, Some(0), "{text}");
    assert!(text.contains("to look at on the hosts:"), "{text}");
}

#[test]
fn colours_come_only_where_they_are_asked_for() {
    let served = Served::start(Fake::tree(2, 1));
    let plain = printed(&served, &["findings"]);
    assert!(!plain.contains('\x1b'), "{plain:?}");
    let coloured = printed(&served, &["findings", "--color", "always"]);
    assert!(coloured.contains("\x1b[33mwarning"), "{coloured:?}");
    let json = printed(
        &served,
        &["findings", "--color", "always", "--format", "json"],
    );
    assert!(
        !json.contains("\\u001b") && !json.contains('\x1b'),
        "{json:?}"
    );
}

#[test]
fn a_port_that_cuts_hosts_off_is_disabled_only_with_yes() {
    let served = Served::start(Fake::tree(2, 1));
    let refused = run(&served, &["port", "disable", "leaf-1:1"]);
    assert_eq!(refused.status.code(), Some(1));
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(
        errors.contains("1 node would be cut off: host-1"),
        "{errors}"
    );
    let reason = "ticket 7";
    let arguments = ["port", "disable", "leaf-1:1", "--yes", "--reason", reason];
    let text = printed(&served, &arguments);
    assert!(text.starts_with("leaf-1:1 is disabled"), "{text}");
    // The reason reaches the manager: the fake makes it the cause.
    let last = served.fake.convergences.lock().last().cloned().unwrap();
    assert_eq!(last.cause, reason);
}

#[test]
fn lists_are_sorted_and_limited() {
    let served = Served::start(Fake::tree(3, 2));
    let column = |text: &str, from_end: usize| -> Vec<String> {
        let cell = |line: &str| {
            line.split_whitespace()
                .rev()
                .nth(from_end)
                .map(str::to_owned)
        };
        text.lines().skip(1).filter_map(cell).collect()
    };
    let all = column(&printed(&served, &["nodes"]), 0);
    let sorted = column(&printed(&served, &["nodes", "--sort", "description"]), 0);
    let mut expected = all.clone();
    expected.sort();
    assert_eq!(sorted, expected);
    let reversed = printed(&served, &["nodes", "--sort=-DESCRIPTION", "--limit", "2"]);
    expected.reverse();
    assert_eq!(column(&reversed, 0), expected[..2]);
    // Of several tables, those with the column.
    let paths = printed(&served, &["sa", "--sort=-requests"]);
    let requests = |name: &str| paths.find(name).unwrap();
    assert!(requests("GetTable") < requests("other"), "{paths}");
    let json = printed(&served, &["nodes", "--limit", "2", "--format", "json"]);
    let json: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(json.len(), 2);
    let none = printed(&served, &["flaps", "--limit", "2"]);
    assert!(none.starts_with("No link went down"), "{none}");
    for (arguments, part) in [
        (
            &["nodes", "--sort", "colour"][..],
            "expected one of GUID, KIND, LID",
        ),
        (
            &["sa", "--sort", "colour"],
            "expected one of STATUS, ANSWERS",
        ),
        (
            &["status", "--limit", "3"],
            "--sort and --limit are for lists",
        ),
        (&["nodes", "--sort", "LID", "--format", "json"], "jq"),
    ] {
        let refused = run(&served, arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let errors = String::from_utf8(refused.stderr).unwrap();
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    }
    assert!(
        run(&served, &["nodes", "--sort", "colour"])
            .stdout
            .is_empty()
    );
}

#[test]
fn no_pager_starts_where_the_output_is_no_terminal() {
    let served = Served::start(Fake::tree(40, 2));
    let output = rsmctl()
        .env("RSM_SERVER", format!("unix:{}", served.socket.display()))
        .env("PAGER", "false")
        .arg("nodes")
        .output()
        .unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap().lines().count();
    assert!(lines > 100, "{lines}");
}

#[test]
fn options_of_every_command_follow_its_own_and_are_in_its_help() {
    let served = Served::start(Fake::tree(1, 1));
    let server = format!("unix:{}", served.socket.display());
    let all: &[&[&str]] = &[
        &["nodes", "--kind", "switch"],
        &["gpu", "hosts"],
        &["engine", "list"],
    ];
    for command in all {
        let options = ["--server", &server, "--format", "json", "--no-pager"];
        let output = rsmctl().args(*command).args(options).output().unwrap();
        assert!(output.status.success(), "{command:?}");
        let _: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let help = rsmctl().args(*command).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        for option in [
            "--server",
            "--format",
            "--wide",
            "--sort",
            "--limit",
            "--no-pager",
        ] {
            assert!(help.contains(option), "{command:?} {option}: {help}");
        }
    }
}

#[test]
fn a_standby_shows_its_state_the_master_and_the_other_managers() {
    let mut fake = Fake::tree(2, 1);
    fake.state = SubnetState::Standby;
    let served = Served::start(fake);
    let text = printed(&served, &["status"]);
    for line in [
        "State             standby",
        "Master            host-1 (0x0002c90300100000), LID 9, priority 14",
        "Other manager     old-manager (0x0000000000000077), LID 12, priority 3, standby",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    let json = printed(&served, &["status", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["other_managers"][0]["state"], "master");
    assert_eq!(json["other_managers"][1]["priority"], 3);
}

#[test]
fn design_prints_how_far_the_cables_are_right_and_the_moves_in_order() {
    let none = Served::start(Fake::tree(2, 1));
    let refused = run(&none, &["design"]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("`design.file`"), "{said}");

    let mut fake = Fake::tree(2, 1);
    fake.design = Some(v1::DesignState {
        designed: 1200,
        right: 8,
        wrong: 2,
        moves: 1200,
        ..v1::DesignState::default()
    });
    // More than a page holds.
    let moves = (1..=1200).map(|number| v1::DesignMove {
        number,
        kind: v1::DesignMoveKind::Connect.into(),
        first: format!("leaf-1:{number}"),
        second: "spine-1:1".to_owned(),
        makes: format!("leaf-1:{number} - spine-1:1"),
        also_makes: String::new(),
    });
    fake.design_moves = moves.collect();
    let served = Served::start(fake);
    let text = printed(&served, &["design"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "cables as designed: 8 of 1200 (0 %), 2 wrong");
    assert_eq!(lines[1], "1200 moves make the others right:");
    assert_eq!(lines[2], "   1  lay a cable leaf-1:1 - spine-1:1");
    assert_eq!(lines.len(), 2 + 1200, "{text}");
    let text = printed(&served, &["design", "--limit", "3"]);
    assert_eq!(text.lines().count(), 2 + 3, "{text}");
    let json = printed(&served, &["design", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["design"]["right"], 8);
    assert_eq!(json["moves"][1199]["kind"], "connect");
    let limited = ["design", "--limit", "3", "--format", "json"];
    let limited: serde_json::Value = serde_json::from_str(&printed(&served, &limited)).unwrap();
    assert_eq!(limited["moves"].as_array().map(Vec::len), Some(3));
    let status = printed(&served, &["status"]);
    assert!(
        status.contains("8 of 1200 cables as designed (0 %)"),
        "{status}"
    );
    let file = printed(&served, &["design", "export"]);
    let mut lines = file.lines();
    assert_eq!(
        lines.next(),
        Some("StartDevice,StartPort,EndDevice,EndPort")
    );
    assert_eq!(lines.count(), served.fake.links.len(), "{file}");
}

#[test]
fn help_has_examples_and_the_exit_status() {
    let help = rsmctl().arg("--help").output().unwrap();
    assert!(help.status.success());
    let text = String::from_utf8(help.stdout).unwrap();
    for part in ["Examples:", "Exit status:", "/run/rsm/rsm.sock", "name:11"] {
        assert!(text.contains(part), "{part}");
    }
    let completions = rsmctl().args(["completions", "bash"]).output().unwrap();
    assert!(completions.status.success());
    assert!(
        String::from_utf8(completions.stdout)
            .unwrap()
            .contains("complete -F")
    );
}

/// The words that a shell offers after these; the last one is being typed.
fn offered(server: &str, words: &[&str]) -> String {
    let output = rsmctl()
        .env("COMPLETE", "fish")
        .env("RSM_SERVER", server)
        .args(["--", "rsmctl"])
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        output.stderr, b"",
        "it would be written into the command line"
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn completion_knows_engines_and_the_nodes_of_the_server() {
    let served = Served::start(Fake::tree(2, 1));
    let server = format!("unix:{}", served.socket.display());
    assert_eq!(
        offered(&server, &["lft", "leaf-2"]),
        "leaf-2\t0x0002c90300001001\n"
    );
    assert_eq!(
        offered(&server, &["route", "host-1", "host-2"])
            .lines()
            .count(),
        1
    );
    assert_eq!(offered(&server, &["engine", "set", "upd"]), "updn\n");
    assert_eq!(offered("unix:/absent/rsm.sock", &["lft", "leaf-2"]), "");
}

#[test]
fn socket_of_the_command_line_wins_over_the_environment() {
    let served = Served::start(Fake::tree(2, 1));
    let socket = served.socket.to_str().unwrap();
    let status = rsmctl()
        .env("RSM_SERVER", "unix:/absent/rsm.sock")
        .args(["status", "--socket", socket])
        .output()
        .unwrap();
    assert!(status.status.success(), "{status:?}");
    let elsewhere = rsmctl()
        .args(["status", "--socket", "/absent/rsm.sock"])
        .output()
        .unwrap();
    assert_eq!(elsewhere.status.code(), Some(3), "{elsewhere:?}");
}

#[test]
fn exit_codes_name_the_kind_of_failure() {
    let mut fake = Fake::tree(2, 1);
    let lid = Lid(fake.nodes[&guid(HOST, 1)].lids[0] as u16);
    let leaf = fake.tables.get_mut(&guid(LEAF, 1)).unwrap();
    leaf.remove(&lid);
    let served = Served::start(fake);

    let refused = run(&served, &["nodes", "nobody"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "rsmctl: nothing in the fabric is named `nobody`: `rsmctl nodes` lists what is there\n"
    );

    // rsmctl still shows the hops.
    let dropped = run(&served, &["route", "host-1", "host-2"]);
    assert_eq!(dropped.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(dropped.stdout).unwrap().lines().count(),
        5
    );
    let errors = String::from_utf8(dropped.stderr).unwrap();
    assert!(
        errors.contains("dropped at 0x0002c90300001001 leaf-2"),
        "{errors}"
    );

    let partition = ["path", "host-1", "host-2", "--pkey", "0x11"];
    let nothing = run(&served, &partition);
    assert_eq!(nothing.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(nothing.stderr).unwrap(),
        "rsmctl: there is no path: the two ports share no partition\n"
    );

    for arguments in [
        &["path", "host-1", "host-2", "--sl", "16"][..],
        &["multicast", "fe80::1"],
        &["nodes", "--kind", "toaster"],
        &["sim", "loss", "2"],
        &["status", "--server", "ftp://host:1"],
        &["no-such-command"],
        &[],
    ] {
        let usage = run(&served, arguments);
        assert_eq!(usage.status.code(), Some(2), "{arguments:?}");
    }

    let nowhere = run(
        &served,
        &["status", "--server", "unix:/nonexistent/rsm.sock"],
    );
    assert_eq!(nowhere.status.code(), Some(3));
    let errors = String::from_utf8(nowhere.stderr).unwrap();
    assert!(errors.contains("unix:/nonexistent/rsm.sock"), "{errors}");

    let tcp = format!("http://{}", served.tcp);
    let denied = run(&served, &["sweep", "--server", &tcp]);
    assert_eq!(denied.status.code(), Some(1));
    assert!(
        String::from_utf8(denied.stderr)
            .unwrap()
            .contains("--insecure-admin")
    );
}

#[test]
fn the_socket_is_found_without_being_named() {
    let served = Served::start(Fake::tree(1, 1));
    let runtime_directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(runtime_directory.path().join("rsm")).unwrap();
    std::os::unix::fs::symlink(
        &served.socket,
        runtime_directory.path().join("rsm/rsm.sock"),
    )
    .unwrap();
    let found = rsmctl()
        .env("XDG_RUNTIME_DIR", runtime_directory.path())
        .args(["status", "--format", "json"])
        .output()
        .unwrap();
    assert!(found.status.success());
    let status: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    // rsmctl would find a server of the machine itself first.
    if !Path::new("/run/rsm/rsm.sock").exists() {
        assert_eq!(status["fabric"], "sim:test");
    }
}

#[test]
fn a_closed_pipe_is_success() {
    let served = Served::start(Fake::tree(40, 60));
    for format in ["text", "json"] {
        let mut child = rsmctl()
            .env("RSM_SERVER", format!("unix:{}", served.socket.display()))
            .args(["ports", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Reads the beginning, as `head` does, and goes away; the rest is far more than a pipe
        // holds.
        let mut beginning = [0; 64];
        child
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut beginning)
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{format}");
    }
}

#[test]
fn descriptions_cannot_steer_the_terminal() {
    let mut fake = Fake::tree(1, 1);
    fake.nodes.get_mut(&guid(HOST, 0)).unwrap().description = "\x1b[2J\u{9b}evil\n".to_owned();
    let served = Served::start(fake);
    let text = printed(&served, &["nodes", "--kind", "ca"]);
    assert!(text.contains("evil"));
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
    assert_eq!(text.lines().count(), 4);
}

#[test]
fn watch_prints_events_as_they_come_and_ends_with_the_server() {
    let mut served = Served::start(Fake::tree(2, 1));
    publish_some(&served.fake);
    let mut child = rsmctl()
        .env("RSM_SERVER", format!("unix:{}", served.socket.display()))
        .args(["watch", "--after", "0", "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut next =
        || -> serde_json::Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    for sequence in 1..=5 {
        assert_eq!(next()["sequence"], sequence);
    }
    publish_some(&served.fake);
    let event = next();
    assert_eq!(event["sequence"], 6);
    assert_eq!(event["node_appeared"]["description"], "leaf-1");
    served.ask_to_stop();
    served.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("stopping"), "{errors}");
}

#[test]
fn times_are_in_the_zone_that_tz_names() {
    let mut fake = Fake::tree(2, 1);
    // 2026-07-01T12:00:00Z: summer time.
    fake.findings[0].raised_unix_ms = 1_782_907_200_000;
    let served = Served::start(fake);
    let in_zone = |zone: &str| {
        rsmctl()
            .env("RSM_SERVER", format!("unix:{}", served.socket.display()))
            .env("TZ", zone)
            .args(["findings", "--all"])
            .output()
            .unwrap()
    };
    let has_zones = Path::new("/usr/share/zoneinfo/Europe/Berlin").is_file();
    for (zone, is_name, shown) in [
        (
            "CET-1CEST,M3.5.0,M10.5.0/3",
            false,
            "2026-07-01T14:00+02:00",
        ),
        ("Europe/Berlin", true, "2026-07-01T14:00+02:00"),
        ("America/New_York", true, "2026-07-01T08:00-04:00"),
        ("EST5EDT", true, "2026-07-01T08:00-04:00"),
        ("UTC", true, "2026-07-01T12:00Z"),
    ] {
        if is_name && !has_zones {
            continue;
        }
        let output = in_zone(zone);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(shown), "{zone}: {text}");
    }
    let output = in_zone("Nowhere/City");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("TZ=Nowhere/City is no time zone"), "{text}");
}

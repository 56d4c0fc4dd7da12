//! Inputs from other sites that an earlier version handled wrongly: `../shared/cases/public`.

#![expect(clippy::print_stderr, reason = "a message names skipped cases")]

use std::path::{Path, PathBuf};

use rsm_config::{self, ConfigSeverity, FileKind};
use rsm_routing::ibnetdiscover;
use rsm_tests::binaries;
use rsm_tests::bringup::LIMIT;
use rsm_tests::process::{Finished, Invocation};
use serde_json::Value;
use tempfile::TempDir;

/// The file or folder of a case; `None`, with a message, if the cases are absent.
fn case(name: &str) -> Option<PathBuf> {
    let path = binaries::workspace()
        .join("../shared/cases/public")
        .join(name);
    if !path.exists() {
        eprintln!("skipped: no {name} in ../shared/cases/public");
        return None;
    }
    Some(path)
}

/// The kind of a file, and the warnings and errors about it, each in the form
/// `LINE SEVERITY: FOUND: EXPECTED`.
fn findings_about(file: &Path) -> (FileKind, Vec<String>) {
    let report = rsm_config::check(file).unwrap();
    let line = |finding: &rsm_config::ConfigFinding| {
        let (line, severity) = (finding.line, finding.severity);
        format!("{line} {severity}: {}: {}", finding.found, finding.expected)
    };
    let severe = report.findings.iter();
    let severe = severe.filter(|finding| finding.severity > ConfigSeverity::Note);
    (report.kind, severe.map(line).collect())
}

/// Runs `rsm` in a folder of its own; returns that folder and the result.
fn rsm(arguments: &[&str]) -> (TempDir, Finished) {
    let directory = tempfile::tempdir().unwrap();
    let rsm = Invocation::new(binaries::rsm(), directory.path());
    let finished = rsm.args(arguments).run(LIMIT).unwrap();
    (directory, finished)
}

/// Runs `rsm migrate --dry-run` for a host whose `opensm.conf` is `conf`.
fn migrated(conf: &Path) -> Finished {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("etc/opensm");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(conf, folder.join("opensm.conf")).unwrap();
    let (_directory, finished) = rsm(&[
        "migrate",
        "--dry-run",
        "--from",
        root.path().to_str().unwrap(),
    ]);
    finished
}

#[test]
fn minhop_as_the_only_engine_is_a_warning_and_is_replaced() {
    let Some(conf) = case("opensm/minhop.conf") else {
        return;
    };
    let (kind, complaints) = findings_about(&conf);
    assert_eq!(kind, FileKind::OpensmConf);
    assert!(
        matches!(&complaints[..], [one] if one.starts_with("1 warning: routing_engine")),
        "{complaints:?}"
    );
    let finished = migrated(&conf);
    assert!(
        finished.stdout.contains("opensm.conf:1:16: warning: "),
        "{finished:?}"
    );

    let (_state, once) = rsm(&[
        "--config",
        conf.to_str().unwrap(),
        "--fabric",
        "sim:fat-tree:k=8,levels=2",
        "--state-dir",
        "state",
        "--once",
        "--format",
        "json",
    ]);
    let report: Value = serde_json::from_str(&once.success().unwrap().stdout).unwrap();
    assert_eq!(report["state"], "up", "{report}");
    assert_eq!(report["ports_not_active"], 0);
    let kinds: Vec<&Value> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| &f["kind"])
        .collect();
    assert_eq!(kinds, ["engine-replaced"], "{report}");
}

#[test]
fn qos_keys_without_qos_true_are_warnings() {
    let Some(conf) = case("opensm/qos-not-enabled.conf") else {
        return;
    };
    let (_, complaints) = findings_about(&conf);
    let lines: Vec<&str> = complaints
        .iter()
        .filter_map(|complaint| complaint.split(' ').next())
        .collect();
    assert_eq!(lines, ["2", "3", "4", "5"], "{complaints:?}");
    let finished = migrated(&conf);
    for line in 2..=5 {
        let place = format!("opensm.conf:{line}:1: warning: ");
        assert!(finished.stdout.contains(&place), "{place}: {finished:?}");
    }
}

#[test]
fn sl2vl_with_two_entries_is_a_warning_and_is_filled_with_zeros() {
    let Some(conf) = case("opensm/qos-short-sl2vl.conf") else {
        return;
    };
    let (_, complaints) = findings_about(&conf);
    assert!(
        matches!(&complaints[..], [one] if one.starts_with("6 warning: qos_sl2vl is `0,1`")),
        "{complaints:?}"
    );
    let finished = migrated(&conf).success().unwrap();
    let filled = "sl2vl = \"0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0\"";
    assert!(finished.stdout.contains(filled), "{finished:?}");
}

#[test]
fn partition_files_with_likely_mistakes_get_a_finding_if_the_file_shows_them() {
    for (name, expected) in [
        (
            "all-limited.conf",
            Some("2 warning: all members of `storage` are limited"),
        ),
        (
            "no-semicolon.conf",
            Some("1 warning: the file ends within a definition"),
        ),
        (
            "host-names.conf",
            Some("2 error: member `hpc-node-[01-64]`"),
        ),
        // Only the fabric shows whether a GUID is a node's or a port's.
        ("node-guid.conf", None),
    ] {
        let Some(file) = case(&format!("partitions/{name}")) else {
            return;
        };
        let (kind, complaints) = findings_about(&file);
        assert_eq!(kind, FileKind::Partitions, "{name}");
        match expected {
            Some(expected) => assert!(
                complaints
                    .iter()
                    .any(|complaint| complaint.starts_with(expected)),
                "{complaints:?}"
            ),
            None => assert!(complaints.is_empty(), "{complaints:?}"),
        }
    }
}

#[test]
fn migration_warns_of_an_opensm_on_all_ports_of_its_host() {
    let Some(root) = case("migrate-ports-all") else {
        return;
    };
    let (_directory, finished) = rsm(&["migrate", "--dry-run", "--from", root.to_str().unwrap()]);
    let stdout = finished.success().unwrap().stdout;
    assert!(
        stdout.contains("etc/default/opensm:1:1: warning: PORTS is ALL"),
        "{stdout}"
    );
}

#[test]
fn output_of_ibnetdiscover_p_is_refused_and_named() {
    let Some(file) = case("ports-report/ibnetdiscover-p.txt") else {
        return;
    };
    let (_directory, finished) = rsm(&["plan", file.to_str().unwrap()]);
    assert!(!finished.status.success());
    assert!(finished.stderr.contains("ibnetdiscover -p"), "{finished:?}");
    assert!(
        finished.stderr.contains("without an option"),
        "{finished:?}"
    );
}

#[test]
fn rate_stated_at_one_end_of_a_cable_is_the_rate_of_the_cable() {
    let Some(file) = case("rate-missing-at-one-end.txt") else {
        return;
    };
    let text = std::fs::read(file).unwrap();
    let parsed = ibnetdiscover::parse(&text, "case").unwrap();
    let rates: Vec<String> = parsed
        .netlist
        .cables()
        .iter()
        .map(|cable| cable.rate().to_string())
        .collect();
    assert_eq!(rates, ["4xHDR"]);
    let warnings: Vec<String> = parsed.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        ["line 5: no rate that can be read; 4xHDR of line 2 counts"]
    );
}

//! Configurations of real sites, and the outcomes of their keys.

#![expect(clippy::print_stderr, reason = "what is skipped is said")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::super::finding::any_error;
use super::super::{FileKind, parse_partitions};
use super::{KeyGroup, OpensmConf, read};

/// Files with settings of sites; their origin is described beside them.
const SITES: [&str; 7] = [
    "bentwire-opensm.conf",
    "fasrc-opensm.conf.erb",
    "gsi-opensm-snippet.conf",
    "ibv_message_passing-opensm.conf",
    "nico-runbook-opensm.conf",
    "openai-recipe-opensm.conf",
    "qnibng-opensm.conf",
];

/// Name and content of each site's file; `None`, with a message, where they are not at hand.
fn sites() -> Option<Vec<(&'static str, String)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/confs");
    if !folder.is_dir() {
        eprintln!("skipped: no configurations of sites in ../shared/data/confs");
        return None;
    }
    let content = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    Some(SITES.map(|name| (name, content(name))).to_vec())
}

/// The place that fasrc's template fills in.
const TEMPLATE: (&str, &str) = ("<%= @sm_priority %>", "8");

fn site(name: &str, text: &str) -> OpensmConf {
    let (place, value) = TEMPLATE;
    let text = text.replace(place, value);
    // Of OpenSM's default files none exists, whatever this host has.
    let text = text.replace("/etc/opensm/", "/absent/opensm/");
    let file = Path::new(name);
    assert_eq!(FileKind::recognise(file, &text), FileKind::OpensmConf);
    read(file, &text)
}

/// Each site's keys by group, a line for each group that is not empty.
fn outcomes(sites: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, content) in sites {
        writeln!(text, "{name}").unwrap();
        let mut groups: BTreeMap<KeyGroup, Vec<String>> = BTreeMap::new();
        for outcome in site(name, content).outcomes {
            groups.entry(outcome.group).or_default().push(outcome.key);
        }
        for (group, keys) in groups {
            writeln!(text, "  {group}: {}", keys.join(" ")).unwrap();
        }
    }
    text
}

#[test]
fn keys_of_sites_end_in_the_golden_groups() {
    let Some(sites) = sites() else { return };
    let text = outcomes(&sites);
    let golden = "src/config/opensm/sites/outcomes.txt";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    if std::env::var_os("RSM_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn sites_are_read_without_errors_and_without_unknown_keys() {
    for (name, content) in sites().unwrap_or_default() {
        let read = site(name, &content);
        assert!(!any_error(&read.findings), "{name}: {:?}", read.findings);
        let settings = content.lines().map(str::trim);
        let settings = settings.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines = settings.count();
        assert_eq!(
            read.outcomes.len(),
            lines,
            "{name}: a key without an outcome"
        );
        let unknown = read.outcomes.iter();
        let unknown: Vec<_> = unknown
            .filter(|key| key.group == KeyGroup::Unknown)
            .collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        let warnings = read.findings.iter();
        let warnings = warnings.filter(|f| f.severity > super::ConfigSeverity::Note);
        let lost = read.outcomes.iter();
        let lost = lost.filter(|key| key.group == KeyGroup::NotAvailable);
        assert_eq!(warnings.count(), lost.count(), "{name}");
    }
}

#[test]
fn a_template_that_is_not_filled_in_is_an_error_in_its_line() {
    let Some(sites) = sites() else { return };
    let (name, content) = &sites[1];
    let findings = read(Path::new(name), content).findings;
    let errors: Vec<_> = findings
        .iter()
        .filter(|f| f.severity == super::ConfigSeverity::Error)
        .map(|f| f.line)
        .collect();
    let line = content.lines().position(|line| line.contains(TEMPLATE.0));
    assert_eq!(errors, [line.unwrap() + 1]);
}

#[test]
fn partitions_of_sites_are_read() {
    let several = "Default=0xffff,ipoib: ALL=full, SELF=full;\nDMZ=0x8001,ipoib: ALL=full, SELF=full;\n\
                   ipoib=0x9000,ipoib: ALL=full, SELF=full;\n";
    for (text, partitions) in [
        (several, 3),
        ("Default=0x7fff , ipoib : ALL=full ;\n", 1),
        ("# managed\n\nDefault=0x7fff, ipoib: ALL=full;\n\n", 1),
    ] {
        let (read, findings) = parse_partitions(Path::new("partitions.conf"), text, false);
        assert!(!any_error(&findings), "{findings:?}");
        assert_eq!(read.list.len(), partitions, "{text}");
    }
}

#[test]
fn a_policy_of_port_groups_is_no_configuration_and_every_line_is_named() {
    let policy = "port-group\nport-regexp: dsm.*ib4\nname: root_switches\nend-port-group\n";
    let read = read(Path::new("pgrp_policy.conf"), policy);
    assert_eq!(read.findings.len(), 4, "{:?}", read.findings);
    assert!(
        read.outcomes
            .iter()
            .all(|key| key.group == KeyGroup::Unknown)
    );
}

//! Tests with configurations of real sites, and the outcomes of their keys.

#![expect(clippy::print_stderr, reason = "tests name the files that they skip")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::super::finding::any_error;
use super::super::{FileKind, parse_guid_file, parse_partitions};
use super::{KeyGroup, OpensmConf, read};

/// Configurations of sites; a file in the folder describes their origin.
const SITES: [&str; 7] = [
    "bentwire-opensm.conf",
    "fasrc-opensm.conf.erb",
    "gsi-opensm-snippet.conf",
    "ibv_message_passing-opensm.conf",
    "nico-runbook-opensm.conf",
    "openai-recipe-opensm.conf",
    "qnibng-opensm.conf",
];

/// Files of partitions, each with the number of partitions that it defines.
const PARTITIONS: [(&str, usize); 3] = [
    ("bentwire-partitions.conf", 5),
    ("esos-partitions.conf", 1),
    ("fgci-partitions.conf.j2", 1),
];

/// Templates without settings of their own, a schema, and a policy of NVIDIA's manager.
const OTHERS: [&str; 5] = [
    "fasrc-root_guid.conf.erb",
    "openai-recipe-pgrp_policy.conf",
    "quattor-opensm_conf.tt",
    "quattor-partition.tt",
    "quattor-schema-opensm.pan",
];

/// The folder of the files; `None`, with a message, if it does not exist.
fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/confs");
    if !folder.is_dir() {
        eprintln!("skipped: no configurations of sites in ../shared/data/confs");
        return None;
    }
    Some(folder)
}

/// Name and content of each site's file; `None` if the files are missing.
fn sites() -> Option<Vec<(&'static str, String)>> {
    let folder = folder()?;
    let content = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    Some(SITES.map(|name| (name, content(name))).to_vec())
}

/// The placeholder in fasrc's template, and a value for it.
const TEMPLATE: (&str, &str) = ("<%= @sm_priority %>", "8");

/// Parses the file of a site, with its template filled in.
fn site(name: &str, text: &str) -> OpensmConf {
    let (place, value) = TEMPLATE;
    let text = text.replace(place, value);
    // OpenSM's default files do not exist, regardless of the files on this host.
    let text = text.replace("/etc/opensm/", "/absent/opensm/");
    let file = Path::new(name);
    assert_eq!(FileKind::recognise(file, &text), FileKind::OpensmConf);
    read(file, &text, &|_| false)
}

/// Each site's keys by group: one line for each group that is not empty.
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
fn keys_of_sites_have_the_recorded_outcomes() {
    let Some(sites) = sites() else { return };
    let text = outcomes(&sites);
    let golden = "src/opensm/sites/outcomes.txt";
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
        let warned: BTreeSet<usize> = warnings.map(|f| f.line).collect();
        let of = |group| -> BTreeSet<usize> {
            let keys = read.outcomes.iter().filter(|key| key.group == group);
            keys.map(|key| key.line).collect()
        };
        let lost = of(KeyGroup::NotAvailable);
        assert!(warned.is_superset(&lost), "{name}");
        // All other warnings are about keys that are not needed, because they have no effect.
        let others: BTreeSet<usize> = warned.difference(&lost).copied().collect();
        assert!(of(KeyGroup::NotNeeded).is_superset(&others), "{name}");
    }
}

#[test]
fn unfilled_template_is_an_error_at_its_line() {
    let Some(sites) = sites() else { return };
    let (name, content) = &sites[1];
    let findings = read(Path::new(name), content, &|_| false).findings;
    let errors: Vec<_> = findings
        .iter()
        .filter(|f| f.severity == super::ConfigSeverity::Error)
        .map(|f| f.line)
        .collect();
    let line = content.lines().position(|line| line.contains(TEMPLATE.0));
    assert_eq!(errors, [line.unwrap() + 1]);
}

#[test]
fn every_file_of_the_folder_is_read_by_a_test() {
    let Some(folder) = folder() else { return };
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names.filter(|name| name != "ORIGIN.md").collect();
    let partitions = PARTITIONS.map(|(name, _)| name);
    let read = SITES.iter().chain(&partitions).chain(&OTHERS);
    let read: BTreeSet<String> = read.map(|name| (*name).to_owned()).collect();
    assert_eq!(names, read);
}

#[test]
fn partitions_of_sites_are_read() {
    let Some(folder) = folder() else { return };
    for (name, partitions) in PARTITIONS {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        // A loop of the template adds partitions of the site, on lines of its own.
        let lines = text.lines().filter(|line| !line.starts_with('{'));
        let text: String = lines.map(|line| format!("{line}\n")).collect();
        let file = Path::new("partitions.conf");
        assert_eq!(FileKind::recognise(file, &text), FileKind::Partitions);
        let (read, findings) = parse_partitions(file, &text, false);
        assert!(!any_error(&findings), "{name}: {findings:?}");
        assert_eq!(read.list.len(), partitions, "{name}");
    }
}

#[test]
fn filled_in_templates_of_sites_are_read() {
    let Some(folder) = folder() else { return };
    let content = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(content("fasrc-root_guid.conf.erb").contains("<%= root_guid %>"));
    let (roots, findings) = parse_guid_file(Path::new("roots"), "0x248a0703000c5a00\n");
    assert_eq!((roots.len(), findings.len()), (1, 0));
    assert!(content("quattor-opensm_conf.tt").contains("[%- data.key %] [% data.value %]"));
    assert!(content("quattor-partition.tt").contains("part.key FILTER format"));
    let partition = "Default=0x7fff,ipoib,rate=3,mtu=5 : ALL=full,0x10=limited;\n";
    let (read, findings) = parse_partitions(Path::new("partitions.conf"), partition, false);
    assert_eq!((read.list.len(), any_error(&findings)), (1, false));
    let policy = content("openai-recipe-pgrp_policy.conf");
    assert!(!read_keys(&policy).contains(&KeyGroup::Obeyed));
}

/// The group of each key of a configuration.
fn read_keys(text: &str) -> Vec<KeyGroup> {
    let outcomes = read(Path::new("opensm.conf"), text, &|_| false).outcomes;
    outcomes.into_iter().map(|outcome| outcome.group).collect()
}

#[test]
fn every_key_of_a_schema_is_known() {
    let Some(folder) = folder() else { return };
    let schema = std::fs::read_to_string(folder.join("quattor-schema-opensm.pan")).unwrap();
    let (_, keys) = schema
        .split_once("type component_ofed_opensm_config")
        .unwrap();
    let (keys, _) = keys.split_once("};").unwrap();
    let keys: Vec<_> = keys.split('\'').skip(1).step_by(2).collect();
    assert!(keys.len() >= 3, "{keys:?}");
    for key in keys {
        let groups = read_keys(&format!("{key} 1\n"));
        assert_ne!(groups, [KeyGroup::Unknown], "{key}");
    }
}

#[test]
fn each_line_of_a_policy_of_port_groups_is_an_unknown_key() {
    let policy = "port-group\nport-regexp: dsm.*ib4\nname: root_switches\nend-port-group\n";
    let read = read(Path::new("pgrp_policy.conf"), policy, &|_| false);
    assert_eq!(read.findings.len(), 4, "{:?}", read.findings);
    assert!(
        read.outcomes
            .iter()
            .all(|key| key.group == KeyGroup::Unknown)
    );
}

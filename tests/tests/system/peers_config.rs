//! rsm reads the configuration that OpenSM writes.

use std::collections::BTreeSet;
use std::process::Command;

use rsm_config::{ConfigSeverity, KeyGroup, check};
use rsm_tests::peer::{program_path, require_peers};

#[test]
#[cfg_attr(not(peers), ignore = "needs opensm")]
fn every_key_that_opensm_writes_is_known_and_its_defaults_give_two_warnings() {
    if !require_peers(&["opensm"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("opensm.conf");
    let output = Command::new(program_path("opensm"))
        .arg("-c")
        .arg(&file)
        .current_dir(&directory)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{output:?}"));
    // The paths of OpenSM's default files are replaced, because this host may have such files.
    let text = text.replace("/etc/opensm/", "/absent/opensm/");
    std::fs::write(&file, &text).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let written: BTreeSet<&str> = lines
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(written.len() > 150, "{written:?}");

    let report = check(&file).unwrap();
    let known = report.outcomes.iter();
    let known = known.filter(|outcome| outcome.group != KeyGroup::Unknown);
    let known: BTreeSet<&str> = known.map(|outcome| outcome.key.as_str()).collect();
    let missing: Vec<_> = written.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
    // rsm warns that the SA's default key has no effect, and that there is no partition file.
    let warnings = report
        .findings
        .iter()
        .filter(|finding| finding.severity != ConfigSeverity::Note)
        .map(|finding| (finding.severity, finding.found.as_str()));
    let warnings: Vec<_> = warnings.collect();
    let expected = ["sa_key is set", "there is no such file"];
    let expected = expected.map(|found| (ConfigSeverity::Warning, found));
    assert_eq!(warnings, expected, "{report}");
}

//! Runs `tests/attacks/bar.py`, the bar of attacks: a host sends raw datagrams against a running
//! rsm.

use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::peer::{PYTHON, require_python_module};
use rsm_tests::process::Invocation;

/// The maximum time for the whole bar in all modes: without M_Keys, the repair after an attack may
/// take a minute.
const LIMIT: Duration = Duration::from_secs(3600);

/// The number of attacks in the bar.
const ATTACKS: usize = 72;

/// Runs the attacks `only`, or all attacks if `only` is empty, in each of the modes. The bar fails
/// if what an attack changes stays, or if no finding names its host.
fn attack(modes: &[&str], only: &[&str]) {
    if !require_python_module("ctypes", "python3") {
        return;
    }
    for program in [binaries::rsmctl(), binaries::sim_preload()] {
        assert!(program.is_file(), "{} is built", program.display());
    }
    let rsm = binaries::rsm();
    let folder = rsm.parent().map_or(Path::new("."), |folder| folder);
    let directory = tempfile::tempdir().unwrap();
    let bar = binaries::workspace().join("tests/attacks/bar.py");
    let options = modes.iter().flat_map(|mode| ["--mode", mode]);
    let options = options.chain(only.iter().flat_map(|name| ["--only", name]));
    let run = Invocation::new(PYTHON, directory.path())
        .arg(bar)
        .arg("--bin")
        .arg(folder)
        .args(options);
    let ended = run.run(LIMIT).unwrap();
    let table = ended.success().unwrap();
    let rows = table.stdout.lines().filter(|line| !line.starts_with(' '));
    let attacks = match only {
        [] => ATTACKS,
        only => only.len(),
    };
    let wanted = modes.len() * attacks;
    let rows = rows.count();
    assert!(rows >= wanted, "{rows} rows of {wanted}");
}

#[test]
#[cfg_attr(not(peers), ignore = "needs libibumad3 and python3")]
fn tenant_with_root_changes_nothing_of_other_hosts_and_is_named() {
    attack(
        &["keys"],
        &[
            "join_for_another",
            "leave_for_another",
            "many_groups_for_others",
            "service_for_another",
            "alias_for_another",
            "read_nodes",
            "read_m_keys",
            "forged_out_of_service",
            "forged_link_change",
            "disable_the_master",
            "set_the_forwarding_table",
            "take_a_p_key",
        ],
    );
}

#[test]
#[cfg_attr(not(peers), ignore = "needs libibumad3 and python3")]
fn without_m_keys_the_sets_of_a_tenant_are_corrected_within_a_minute() {
    attack(&["enforce"], &["set_anothers_lid", "drop_anothers_p_keys"]);
}

/// The whole bar: `cargo test -p rsm-tests --test system peers_attacks -- --ignored --nocapture`.
#[test]
#[ignore = "takes half an hour"]
fn no_attack_of_the_bar_succeeds() {
    attack(&["enforce", "keys"], &[]);
}

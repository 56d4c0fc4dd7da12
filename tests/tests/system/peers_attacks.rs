//! The bar of attacks, `tests/attacks/bar.py`: raw datagrams of a host against a resident rsm.

use std::path::Path;
use std::time::Duration;

use rsm_tests::binaries;
use rsm_tests::peer::{PYTHON, require_python_module};
use rsm_tests::process::Invocation;

/// Time for the whole bar in all modes: an attack without M_Keys may take a minute to be mended.
const LIMIT: Duration = Duration::from_secs(3600);

/// Runs attacks, all of them if none is named, in the modes. The bar ends with an error where an
/// attack does what it tries, or its host is not named.
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
    let wanted = modes.len() * only.len();
    let rows = rows.count();
    assert!(rows >= wanted.max(1), "{rows} rows of {wanted}");
}

#[test]
#[cfg_attr(not(peers), ignore = "needs libibumad3 and python3")]
fn a_tenant_with_root_changes_nothing_of_others_and_is_named() {
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
fn sets_of_a_tenant_without_m_keys_are_put_right_within_a_minute() {
    attack(&["enforce"], &["set_anothers_lid", "drop_anothers_p_keys"]);
}

/// The whole bar: `cargo test -p rsm-tests --test system peers_attacks -- --ignored --nocapture`.
#[test]
#[ignore = "takes half an hour"]
fn whole_bar() {
    attack(&["enforce", "keys"], &[]);
}

//! The foreign programs of the tests, and the treatment of missing programs.
//!
//! `build.rs` sets the cfg `peers` if all programs are installed, and every peer test carries
//! `#[cfg_attr(not(peers), ignore = "…")]`, so that a machine with only Rust counts the peer tests
//! as ignored. With `RSM_REQUIRE_PEERS=1` the tests run in any case, and a missing program is a
//! failure.

mod packages;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use packages::{PROGRAMS, find_program};

/// The environment variable that turns a missing peer into a failure.
pub const REQUIRE_PEERS: &str = "RSM_REQUIRE_PEERS";

/// Tells whether `program` is installed.
///
/// # Panics
///
/// The program is missing and [`REQUIRE_PEERS`] is `1`, or the table of peers does not contain the
/// program. A test that needs a new program must add its package to the table.
#[must_use]
pub fn require_peer(program: &str) -> bool {
    if find_program(program).is_some() {
        return true;
    }
    let package = package_of(program);
    missing(&format!(
        "`{program}` is not installed; it comes with the Debian package {package}"
    ))
}

/// The Python interpreter for which Debian packages modules; `PATH` may lead to another interpreter
/// first.
pub const PYTHON: &str = "/usr/bin/python3";

/// Tells whether [`PYTHON`] has `module`, which Debian's package `package` provides.
///
/// # Panics
///
/// The module is missing and [`REQUIRE_PEERS`] is `1`.
#[must_use]
pub fn require_python_module(module: &str, package: &str) -> bool {
    let import = format!("import {module}");
    let is_installed = Command::new(PYTHON)
        .args(["-c", &import])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    is_installed
        || missing(&format!(
            "{PYTHON} has no module {module}; it comes with the Debian package {package}"
        ))
}

/// Reports a missing program and returns false; panics if [`REQUIRE_PEERS`] is `1`.
fn missing(message: &str) -> bool {
    assert!(
        std::env::var_os(REQUIRE_PEERS).is_none_or(|value| value != "1"),
        "{message}"
    );
    // The message bypasses the output capture of the test harness, because a skipped test must be
    // visible.
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("skipped: {message}\n"));
    false
}

/// Tells whether all of `programs` are installed; see [`require_peer`].
#[must_use]
pub fn require_peers(programs: &[&str]) -> bool {
    programs.iter().all(|program| require_peer(program))
}

/// The full path of `program` (the diagnostics are in `/usr/sbin`, which `PATH` may lack).
#[must_use]
pub fn program_path(program: &str) -> PathBuf {
    find_program(program).unwrap_or_else(|| PathBuf::from(program))
}

/// The Debian package of a program; panics if the table of peers does not contain the program.
fn package_of(program: &str) -> &'static str {
    PROGRAMS
        .iter()
        .find(|(name, _)| *name == program)
        .map_or_else(
            || panic!("`{program}` is not in the table of peers"),
            |(_, package)| package,
        )
}

#[cfg(test)]
mod tests {
    use super::package_of;

    #[test]
    fn the_table_gives_the_package_of_a_program() {
        assert_eq!(package_of("ibdmchk"), "ibutils");
    }

    #[test]
    #[should_panic(expected = "not in the table of peers")]
    fn a_program_that_the_table_lacks_panics() {
        package_of("ibfoo");
    }
}

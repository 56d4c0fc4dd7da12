//! The paths of rsm's own programs, built with the profile of the tests that run them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The environment variables that name programs built elsewhere; such a program replaces a build.
const OVERRIDES: [(&str, &str); 4] = [
    ("rsm", "RSM_BIN"),
    ("rsmctl", "RSMCTL_BIN"),
    ("rsm-agent", "RSM_AGENT_BIN"),
    ("librsm_sim_preload.so", "RSM_SIM_PRELOAD"),
];

/// The path of the daemon.
#[must_use]
pub fn rsm() -> PathBuf {
    binary("rsm")
}

/// The environment variable with the path of an rsm of an earlier version.
const OLDER_RSM: &str = "RSM_OLD_BIN";

/// The path of the daemon of an earlier version, from the environment variable `RSM_OLD_BIN`.
///
/// # Panics
///
/// The variable is not set, or names no file.
#[must_use]
pub fn older_rsm() -> PathBuf {
    let named = std::env::var_os(OLDER_RSM).map(PathBuf::from);
    let named = named.filter(|path| path.is_file());
    named.unwrap_or_else(|| {
        panic!(
            "set {OLDER_RSM} to the path of an rsm of an earlier version: `peers_versions.rs` says how to build one"
        )
    })
}

/// The path of the operator's tool, rsmctl.
#[must_use]
pub fn rsmctl() -> PathBuf {
    binary("rsmctl")
}

/// The path of the agent for GPU hosts.
#[must_use]
pub fn rsm_agent() -> PathBuf {
    binary("rsm-agent")
}

/// The path of the shim that replaces the umad devices.
#[must_use]
pub fn sim_preload() -> PathBuf {
    binary("librsm_sim_preload.so")
}

/// The root directory of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// The path of a program: the path in its variable in [`OVERRIDES`], or else the path of a fresh
/// build.
fn binary(name: &str) -> PathBuf {
    let given = OVERRIDES
        .iter()
        .find(|(binary, _)| *binary == name)
        .and_then(|(_, variable)| std::env::var_os(variable));
    given.map_or_else(
        || target_directory().join(profile()).join(name),
        PathBuf::from,
    )
}

/// The directory `target`. A test program runs from `target/<profile>/deps`.
///
/// Cargo builds the programs of other packages only on request, so the first call in a process
/// requests them. A test therefore never runs a program that is older than its source.
fn target_directory() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| {
        let program = std::env::current_exe().unwrap_or_default();
        let target = program
            .ancestors()
            .find(|ancestor| ancestor.file_name().is_some_and(|name| name == profile()))
            .and_then(Path::parent)
            .map_or_else(|| workspace().join("target"), Path::to_owned);
        build(&target);
        target
    })
}

/// Builds all programs of the workspace, and panics if they do not compile.
fn build(target: &Path) {
    let status = cargo_build(target).status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "rsm, rsmctl and the shim do not build: {status:?}"
    );
}

/// The command that builds all programs of the workspace, with the profile of this program.
fn cargo_build(target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo's variables about the package of the running test would make the build script of `ring`
    // run again and recompile its dependents, both here and in the developer's next build without
    // the variables.
    for (name, _) in std::env::vars_os() {
        if describes_a_package(&name.to_string_lossy()) {
            cargo.env_remove(name);
        }
    }
    cargo
        .args([
            "build",
            "--quiet",
            // For single packages, Cargo would choose other features of their dependencies, and
            // compile rsm again.
            "--workspace",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(workspace());
    if profile() == "release" {
        cargo.arg("--release");
    }
    cargo
}

/// Tells whether Cargo sets this environment variable for the programs of a single package.
fn describes_a_package(variable: &str) -> bool {
    let prefixes = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"];
    variable == "OUT_DIR" || prefixes.iter().any(|prefix| variable.starts_with(prefix))
}

/// The directory below `target` of the profile with which this program was built; benches use the
/// release profile.
fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{cargo_build, describes_a_package};

    #[test]
    fn cargo_variables_of_the_tested_package_are_removed_from_the_build() {
        let described = std::env::vars().filter(|(name, _)| describes_a_package(name));
        let described: Vec<String> = described.map(|(name, _)| name).collect();
        // Cargo describes the package of the test in the environment.
        if std::env::var_os("CARGO").is_some() {
            for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "OUT_DIR"] {
                assert!(described.contains(&name.to_owned()), "{described:?}");
            }
        }
        let cargo = cargo_build(Path::new("target"));
        for name in described {
            assert!(
                cargo
                    .get_envs()
                    .any(|(other, value)| other == name.as_str() && value.is_none()),
                "{name} is passed on"
            );
        }
        let profile = "CARGO_PROFILE_DEV_OPT_LEVEL";
        assert!(!describes_a_package(profile));
    }
}

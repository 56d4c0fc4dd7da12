//! rsm's own programs, built with the profile of the tests that run them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Environment variables with paths of built programs, in place of a build.
const OVERRIDES: [(&str, &str); 4] = [
    ("rsm", "RSM_BIN"),
    ("rsmctl", "RSMCTL_BIN"),
    ("rsm-agent", "RSM_AGENT_BIN"),
    ("librsm_sim_preload.so", "RSM_SIM_PRELOAD"),
];

/// Path of the daemon.
#[must_use]
pub fn rsm() -> PathBuf {
    binary("rsm")
}

/// Path of the operator's tool.
#[must_use]
pub fn rsmctl() -> PathBuf {
    binary("rsmctl")
}

/// Path of the agent for GPU hosts.
#[must_use]
pub fn rsm_agent() -> PathBuf {
    binary("rsm-agent")
}

/// Path of the shim that stands in for the umad devices.
#[must_use]
pub fn sim_preload() -> PathBuf {
    binary("librsm_sim_preload.so")
}

/// The workspace's root.
#[must_use]
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

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

/// `target`, wherever it is: a test program runs from `target/<profile>/deps`.
///
/// Cargo builds the programs of other packages only on request, so the first use in a process asks
/// for them: a test never runs against a program older than its source.
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

fn build(target: &Path) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "build",
            "--quiet",
            // For three packages alone, Cargo would choose other features of their dependencies,
            // and compile rsm again.
            "--workspace",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(workspace());
    if profile() == "release" {
        cargo.arg("--release");
    }
    let status = cargo.status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "rsm, rsmctl and the shim do not build: {status:?}"
    );
}

/// Directory below `target` of the profile this program was built with; benches use that of a
/// release.
fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    }
}

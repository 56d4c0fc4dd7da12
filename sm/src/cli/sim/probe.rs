//! Proves that the umad devices visible to a program are simulated.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use rsm_sim_host::seen;

use super::ProgramEnvironment;
use crate::cli::output::print;

/// Runs rsm itself in the environment of the program, and checks the devices that this rsm sees.
///
/// # Errors
/// The devices are not simulated; the error states the reason.
pub(super) fn prove_simulated(environment: &ProgramEnvironment) -> anyhow::Result<()> {
    let rsm = std::env::current_exe().context("the path of rsm is not known")?;
    let mut command = Command::new(rsm);
    environment.apply(&mut command);
    let probed = command
        .args(["sim", "probe"])
        .stdin(Stdio::null())
        .output()
        .context("cannot check the simulated device")?;
    if probed.status.success() && probed.stdout == seen::PROVEN.as_bytes() {
        return Ok(());
    }
    let reason = String::from_utf8_lossy(&probed.stderr);
    anyhow::bail!(
        "the program was not started: the device that it would see is not simulated ({}); is `rsm sim serve` running \
         with the same --socket?",
        reason.split_whitespace().collect::<Vec<_>>().join(" ")
    )
}

/// Tells [`prove_simulated`] which devices this process sees.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    seen::simulated_device()?;
    print(|out| out.write_all(seen::PROVEN.as_bytes()))?;
    Ok(ExitCode::SUCCESS)
}

//! `rsm check-config`: checks a configuration file, or a file of OpenSM, for errors.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rsm_config::{self, Config};

use super::output::print;

#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    /// The file to check
    #[arg(required_unless_present = "sample")]
    file: Option<PathBuf>,
    /// Print a configuration with every key, its meaning and its default
    #[arg(long, conflicts_with = "file")]
    sample: bool,
    /// Show notes, too, and what becomes of every key of an opensm.conf
    #[arg(long, short, requires = "file")]
    verbose: bool,
}

/// Checks the file, or prints the sample. Fails if the file has errors.
pub(super) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.file else {
        print(|out| out.write_all(Config::sample().as_bytes()))?;
        return Ok(ExitCode::SUCCESS);
    };
    let report = rsm_config::check(file)?;
    match args.verbose {
        true => print(|out| writeln!(out, "{}", report.verbose()))?,
        false => print(|out| writeln!(out, "{report}"))?,
    }
    Ok(if report.has_errors() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

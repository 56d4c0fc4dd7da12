//! Runs the daemon and the other commands of `rsm`.

use std::process::ExitCode;

use clap::Parser as _;
use rsm::cli::{self, Cli};

fn main() -> ExitCode {
    cli::complete();
    match cli::run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the end of a command line")]
            {
                eprintln!("rsm: {error:#}");
            }
            ExitCode::from(2)
        }
    }
}

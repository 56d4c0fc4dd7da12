//! `rsmctl`: the subnet manager's API on the command line.

mod arguments;
mod commands;
mod failure;
mod output;
mod pager;
mod session;
mod table;
mod text;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = commands::run(Arguments::parse()).await;
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    if let Some(message) = failure.message() {
        // If standard error fails too, the exit code alone reports the failure.
        drop(writeln!(std::io::stderr(), "rsmctl: {message}"));
    }
    failure.exit_code()
}

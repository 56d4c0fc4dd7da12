//! `rsmctl`: the subnet manager's API on the command line.

mod arguments;
mod commands;
mod completion;
mod failure;
mod host;
mod operator;
mod output;
mod pager;
mod session;
mod shorthand;
mod table;
mod text;
mod time;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use commands::Arguments;
use failure::Failure;

fn main() -> ExitCode {
    completion::answer(Arguments::command);
    let arguments = Arguments::parse_from(shorthand::spelled_out(std::env::args_os()));
    let zone = match arguments.global.utc {
        true => Ok(()),
        false => time::use_local_zone(),
    };
    match zone.and_then(|()| run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(arguments: Arguments) -> Result<(), Failure> {
    commands::run(arguments).await
}

/// Prints the message of a failure on standard error, and returns its exit code.
fn failed(failure: &Failure) -> ExitCode {
    if let Some(message) = failure.message() {
        output::note(&message);
    }
    failure.exit_code()
}

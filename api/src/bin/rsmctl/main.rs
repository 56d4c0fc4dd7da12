//! `rsmctl`: the subnet manager's API on the command line.

mod arguments;
mod commands;
mod completion;
mod failure;
mod host;
mod output;
mod pager;
mod session;
mod table;
mod text;
mod time;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use commands::Arguments;

fn main() -> ExitCode {
    completion::answer(Arguments::command);
    let arguments = Arguments::parse();
    if !arguments.global.utc {
        time::use_local_zone();
    }
    run(arguments)
}

#[tokio::main(flavor = "current_thread")]
async fn run(arguments: Arguments) -> ExitCode {
    let outcome = commands::run(arguments).await;
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    if let Some(message) = failure.message() {
        output::note(&message);
    }
    failure.exit_code()
}

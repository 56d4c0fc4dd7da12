use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Arguments;
use crate::arguments::Format;
use crate::failure::Failure;
use crate::output::Output;

/// Prints a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl completions bash > /etc/bash_completion.d/rsmctl")]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &CompletionsArguments, format: Format) -> Result<(), Failure> {
    // The script is generated in memory, because the generator panics on a failed write.
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Arguments::command(),
        "rsmctl",
        &mut script,
    );
    let mut output = Output::new(format);
    output.line(String::from_utf8_lossy(&script).trim_end())?;
    output.flush()
}

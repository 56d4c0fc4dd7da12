//! `rsm generate`

use std::process::ExitCode;

use clap::Args;
use rsm_routing::{generate, ibnetdiscover};

use super::output::print;

#[derive(Args, Debug)]
pub(super) struct GenerateArgs {
    /// What to generate, such as superpod:su=2 or fat-tree:k=8,levels=3,faults=links:1%; without it the generators are listed
    spec: Option<String>,
}

pub(super) fn run(args: &GenerateArgs) -> anyhow::Result<ExitCode> {
    let Some(spec) = &args.spec else {
        print(|out| {
            for spec in generate::specs() {
                writeln!(
                    out,
                    "{}\n    {}\n    for example {}",
                    spec.synopsis, spec.help, spec.example
                )?;
            }
            Ok(())
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let netlist = generate::generate(spec)?;
    print(|mut out| ibnetdiscover::write(&netlist, &mut out))?;
    Ok(ExitCode::SUCCESS)
}

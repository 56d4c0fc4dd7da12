//! `rsm generate`: writes a generated fabric, or lists the generators.

use std::process::ExitCode;

use clap::Args;
use rsm_routing::{generate, ibnetdiscover};

use super::output::print;

/// Introduction above the list of devices.
const DEVICES: &str = "\
Simulated fabrics (rsm --fabric sim:…, rsm sim serve), generated or from a file, also take devices=NAME[+NAME…],
and devices=mix:SEED for a mixture of all devices. A NAME may be old-once:FIELD or old-always:FIELD (answers to Set
show the old value of the field, the first time or always) or drops:FIELD (the field keeps its value), or one of those
below. They also take vports=N: N virtual ports for each port of a host, which share its LID; vports=N+own gives each
a LID of its own, vports=N+by-index each second one.";

#[derive(Args, Debug)]
pub(super) struct GenerateArgs {
    /// The fabric to generate, such as superpod:su=2 or fat-tree:k=8,levels=3,faults=links:1%;
    /// without it, rsm lists the generators
    spec: Option<String>,
}

/// Prints the generated fabric, or the list of generators.
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
            writeln!(out, "\n{DEVICES}")?;
            for model in rsm_sim::MODELS {
                writeln!(out, "    {:22}{}", model.name, model.is)?;
            }
            for info in rsm_sim::HABITS {
                writeln!(out, "    {:22}a device that {}", info.name, info.does)?;
            }
            Ok(())
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    let netlist = generate::generate(spec)?;
    print(|mut out| ibnetdiscover::write(&netlist, &mut out))?;
    Ok(ExitCode::SUCCESS)
}

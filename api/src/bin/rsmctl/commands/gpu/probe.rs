use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use rsm_probe::ProbeError;
use rsm_probe::snapshot::Snapshot;

use crate::arguments::Format;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::printable;

/// Prints this host's GPUs and adapters from /sys, as `rsm gpu` reads them
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl gpu probe > inventory/$(hostname -s).tsv")]
pub(crate) struct ProbeArguments {
    /// The mount point of /sys
    #[arg(long, default_value = "/sys", value_name = "DIR")]
    sys: PathBuf,
}

pub(super) fn run(arguments: &ProbeArguments, format: Format) -> Result<(), Failure> {
    let mut output = Output::new(format);
    let refused = |error: ProbeError| Failure::Refused(error.to_string());
    let snapshot = Snapshot::take(&arguments.sys).map_err(refused)?;
    if snapshot.lines.is_empty() {
        return Err(refused(ProbeError::NoDevices {
            sys: arguments.sys.clone(),
        }));
    }
    for note in &snapshot.notes {
        // The lines are correct even if standard error is closed.
        let _ = writeln!(io::stderr(), "rsmctl: {}", printable(note));
    }
    match output.is_json() {
        true => output.json(&snapshot.lines)?,
        false => {
            for (path, value) in &snapshot.lines {
                output.line(&format!("{path}\t{value}"))?;
            }
        }
    }
    output.flush()
}

//! `rsm migrate`: makes a configuration and a store from the files of OpenSM.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rsm_ids::Guid;

use super::output::print;
use crate::daemon::unix_seconds;
use crate::migrate::{self, MigrateOptions, Outputs};

#[derive(Args, Debug)]
pub(super) struct MigrateArgs {
    /// The folder that stands for /, such as a copy of another host's files
    #[arg(long, value_name = "DIR", default_value = "/")]
    from: PathBuf,
    /// The opensm.conf [default: the one in etc/opensm or etc/rdma]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The port that rsm uses [default: the one that OpenSM's files name]
    #[arg(long, value_name = "GUID")]
    guid: Option<Guid>,
    /// The configuration file to write; it must not exist
    #[arg(long, value_name = "FILE", default_value = "rsm.toml")]
    output: PathBuf,
    /// The folder of the store to make [default: /var/lib/rsm]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Reads OpenSM's files, prints the findings, and writes rsm's files unless this is a dry run.
///
/// # Errors
/// A file cannot be read or written, or the configuration file exists.
pub(super) fn run(args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    // The daemon starts in another folder, so the configuration needs absolute paths.
    let absolute = |path: &PathBuf| std::path::absolute(path);
    let migration = migrate::read(&MigrateOptions {
        root: absolute(&args.from)?,
        config: args.config.as_ref().map(absolute).transpose()?,
        guid: args.guid,
        state_dir: args.state_dir.as_ref().map(absolute).transpose()?,
        now: unix_seconds(),
    })?;
    let outputs = Outputs {
        config: args.output.clone(),
        state_dir: migration.config.state.dir.clone(),
    };
    print(|out| write!(out, "{migration}"))?;
    let summary = match args.dry_run {
        true => migration.describe_dry_run(&outputs)?,
        false => {
            let imported = migration.write(&outputs)?;
            migration.describe_written(&outputs, imported)
        }
    };
    print(|out| write!(out, "{summary}"))?;
    Ok(ExitCode::SUCCESS)
}

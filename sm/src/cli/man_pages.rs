//! `rsm man-pages`: the manual pages, for packages.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};

use super::Cli;

#[derive(Args, Debug)]
pub(super) struct ManPagesArgs {
    /// The folder of the pages, one for each subcommand
    dir: PathBuf,
}

pub(super) fn run(args: &ManPagesArgs) -> anyhow::Result<ExitCode> {
    let dir = &args.dir;
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Adds the file names of a command's page and of its subcommands' pages.
    fn pages(command: &clap::Command, name: &str, pages: &mut BTreeSet<String>) {
        pages.insert(format!("{name}.1"));
        let shown = command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set());
        for inner in shown {
            self::pages(inner, &format!("{name}-{}", inner.get_name()), pages);
        }
    }

    #[test]
    fn each_subcommand_has_a_page_with_its_options() {
        let dir = tempfile::tempdir().unwrap();
        let args = ManPagesArgs {
            dir: dir.path().join("man"),
        };
        run(&args).unwrap();
        let mut expected = BTreeSet::new();
        pages(&Cli::command(), "rsm", &mut expected);
        assert!(expected.contains("rsm-sim-serve.1"), "{expected:?}");
        let written = fs::read_dir(&args.dir).unwrap();
        let written: BTreeSet<String> = written
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(written, expected);
        let page = fs::read_to_string(args.dir.join("rsm.1")).unwrap();
        for option in ["fabric", "config", "socket", "dry\\-run"] {
            assert!(page.contains(&format!("\\-\\-{option}")), "{option}");
        }
    }
}

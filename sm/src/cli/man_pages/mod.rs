//! `rsm man-pages`: the manual pages, for packages.

mod configuration;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, CommandFactory as _};
use rsm_api::manual::Manual;

use super::Cli;

/// Section and references of the pages.
const MANUAL: Manual<'_> = Manual {
    section: "8",
    see_also: &["rsm.toml(5)", "rsmctl(1)", "rsm-agent(8)"],
};

#[derive(Args, Debug)]
pub(super) struct ManPagesArgs {
    /// The folder of manuals, such as /usr/share/man; pages go into man5 and man8 below it
    dir: PathBuf,
}

/// Writes the manual pages of rsm and of its configuration.
pub(super) fn run(args: &ManPagesArgs) -> anyhow::Result<ExitCode> {
    let dir = &args.dir;
    MANUAL
        .write(Cli::command(), dir)
        .and_then(|()| configuration::write(dir))
        .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    /// Adds the file names of a command's page and of its subcommands' pages.
    fn pages(command: &clap::Command, name: &str, pages: &mut BTreeSet<String>) {
        pages.insert(format!("{name}.8"));
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
        assert!(expected.contains("rsm-sim-serve.8"), "{expected:?}");
        let written = fs::read_dir(args.dir.join("man8")).unwrap();
        let written: BTreeSet<String> = written
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(written, expected);
        let page = fs::read_to_string(args.dir.join("man8/rsm.8")).unwrap();
        for option in ["fabric", "config", "socket", "dry\\-run"] {
            assert!(page.contains(&format!("\\-\\-{option}")), "{option}");
        }
        for section in [
            "EXAMPLES",
            "FILES",
            "SIGNALS",
            "ENVIRONMENT",
            "\"EXIT STATUS\"",
        ] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{section}");
        }
        assert!(args.dir.join("man5/rsm.toml.5").exists());
    }
}

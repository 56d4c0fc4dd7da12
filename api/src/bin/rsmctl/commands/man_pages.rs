use std::path::PathBuf;

use clap::{Args, CommandFactory as _};
use rsm_api::manual::Manual;

use super::Arguments;
use crate::failure::Failure;

/// Writes the manual pages, for packages
#[derive(Debug, Args)]
pub(crate) struct ManPagesArguments {
    /// The folder of manuals, such as /usr/share/man; the pages go into man1 below it
    dir: PathBuf,
}

pub(crate) fn run(arguments: &ManPagesArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    MANUAL.write(Arguments::command(), dir).map_err(|error| {
        let dir = dir.display();
        Failure::File(format!("cannot write manual pages to {dir}: {error}"))
    })
}

const MANUAL: Manual<'_> = Manual {
    section: "1",
    see_also: &["rsm(8)", "rsm.toml(5)"],
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

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
    fn each_subcommand_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("man");
        assert!(run(&ManPagesArguments { dir: dir.clone() }).is_ok());
        let mut expected = BTreeSet::new();
        pages(&Arguments::command(), "rsmctl", &mut expected);
        assert!(expected.contains("rsmctl-engine-set.1"), "{expected:?}");
        let written: BTreeSet<String> = fs::read_dir(dir.join("man1"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(written, expected);
    }
}

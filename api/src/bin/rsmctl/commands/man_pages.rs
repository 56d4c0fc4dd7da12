use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::Arguments;
use crate::failure::Failure;

/// Writes the manual pages, for packages
#[derive(Debug, Args)]
pub(crate) struct ManPagesArguments {
    /// The folder of the pages, one for each subcommand
    dir: PathBuf,
}

pub(crate) fn run(arguments: &ManPagesArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), dir))
        .map_err(|error| {
            let dir = dir.display();
            Failure::File(format!("cannot write manual pages to {dir}: {error}"))
        })
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
    fn each_subcommand_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("man");
        assert!(run(&ManPagesArguments { dir: dir.clone() }).is_ok());
        let mut expected = BTreeSet::new();
        pages(&Arguments::command(), "rsmctl", &mut expected);
        assert!(expected.contains("rsmctl-engine-set.1"), "{expected:?}");
        let written: BTreeSet<String> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(written, expected);
    }
}

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::finding::{ConfigFinding, ConfigSeverity, any_error};
use super::{Config, FileKind, opensm, toml_file};

/// The largest file that is read, in bytes. A `guid2lid` of a full subnet is two megabytes.
pub const FILE_MAX: u64 = 16 * 1024 * 1024;

/// A file that rsm does not use, not even in part.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It is longer than any configuration, or not UTF-8 text.
    #[error("{} is not a configuration: expected at most {FILE_MAX} bytes of UTF-8 text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// It is of a kind that configures nothing by itself.
    #[error("{} is a {kind}: expected a configuration", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
        /// Its kind.
        kind: FileKind,
    },
    /// It has errors. Its `Display` has a line for each.
    #[error("{}", lines(findings))]
    Invalid {
        /// All of them, with warnings and notes, in the order of the file.
        findings: Vec<ConfigFinding>,
    },
}

fn lines(findings: &[ConfigFinding]) -> String {
    let errors = findings
        .iter()
        .filter(|f| f.severity == ConfigSeverity::Error);
    errors
        .map(ConfigFinding::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// A configuration that can be put in force, and the findings about its file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and notes.
    pub findings: Vec<ConfigFinding>,
}

impl Config {
    /// Reads a configuration file: TOML, or an `opensm.conf`.
    ///
    /// # Errors
    ///
    /// If the file has any error there is no configuration, and the one in force stays.
    pub fn load(file: &Path) -> Result<Loaded, ConfigError> {
        Config::parse(file, &read_text(file)?)
    }

    /// [`load`](Config::load) from a text; `file` names it in findings.
    ///
    /// # Errors
    ///
    /// As [`load`](Config::load).
    pub fn parse(file: &Path, text: &str) -> Result<Loaded, ConfigError> {
        let (config, findings) = match FileKind::recognise(file, text) {
            FileKind::Toml => toml_file::parse(file, text),
            FileKind::OpensmConf => opensm::parse(file, text),
            kind => {
                let path = file.to_owned();
                return Err(ConfigError::Kind { path, kind });
            }
        };
        if any_error(&findings) {
            return Err(ConfigError::Invalid { findings });
        }
        Ok(Loaded { config, findings })
    }
}

/// Reads a text file of bounded size.
pub(super) fn read_text(path: &Path) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(FILE_MAX + 1).read_to_end(&mut bytes))
        .map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
    let not_text = || ConfigError::NotText {
        path: path.to_owned(),
    };
    if bytes.len() as u64 > FILE_MAX {
        return Err(not_text());
    }
    String::from_utf8(bytes).map_err(|_| not_text())
}

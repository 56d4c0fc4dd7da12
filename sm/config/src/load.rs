//! Reads configurations from files.

use std::path::Path;

use super::finding::{ConfigFinding, any_error};
use super::text_file::read_text;
use super::{Config, ConfigError, FileKind, opensm, toml_file};

/// A valid configuration, and the findings about its file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and notes.
    pub findings: Vec<ConfigFinding>,
}

impl Config {
    /// Reads a configuration file, TOML or an `opensm.conf`, and looks for the SA's key in the same
    /// folder.
    ///
    /// # Errors
    ///
    /// Fails if the file has any error; the configuration in force then stays.
    pub fn load(file: &Path) -> Result<Loaded, ConfigError> {
        let mut loaded = Config::parse(file, &read_text(file)?)?;
        loaded.config.find_sa_key(file);
        Ok(loaded)
    }

    /// Parses the text of a configuration file as [`load`](Config::load) does, without looking for
    /// the SA's key. Findings name `file`.
    ///
    /// # Errors
    ///
    /// Fails if the text has any error, or is not a configuration but another kind of file.
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

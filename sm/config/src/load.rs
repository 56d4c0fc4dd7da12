//! Configurations, from their files.

use std::path::Path;

use super::finding::{ConfigFinding, any_error};
use super::text_file::read_text;
use super::{Config, ConfigError, FileKind, opensm, toml_file};

/// A configuration that can be put in force, and the findings about its file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Warnings and notes.
    pub findings: Vec<ConfigFinding>,
}

impl Config {
    /// Reads a configuration file: TOML, or an `opensm.conf`; and finds the key of the SA beside it.
    ///
    /// # Errors
    ///
    /// If the file has any error there is no configuration, and the one in force stays.
    pub fn load(file: &Path) -> Result<Loaded, ConfigError> {
        let mut loaded = Config::parse(file, &read_text(file)?)?;
        loaded.config.find_sa_key(file);
        Ok(loaded)
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

//! The SA's key, in a file of its own or in the configuration. No finding shows a key.

use std::path::{Path, PathBuf};

use super::finding::{ConfigFinding, ConfigSeverity, Findings, any_error};
use super::known_key::{KNOWN_KEY, OPENS_NOTHING};
use super::line_file::{Comments, LineFile};
use super::text_file::{access_of_others, read_text, unreadable_file};
use super::{Config, ConfigError, SmConfig};

/// Name of the file with the SA's key, in the folder of the configuration.
pub const SA_KEY_FILE: &str = "sa.key";

/// Number of hexadecimal digits of a key.
const DIGITS: usize = 16;

/// Reads the SA's key: 16 hexadecimal digits on one line, with or without `0x`; `#` begins a
/// comment.
///
/// # Errors
///
/// Fails if the file cannot be read, has any error, or is readable by users other than its owner.
pub fn load_sa_key(file: &Path) -> Result<u64, ConfigError> {
    let text = read_text(file)?;
    let (key, mut findings) = parse(file, &text);
    let why = format!("M_Keys can be read with it; `chmod 600 {}`", file.display());
    findings.extend(access_of_others(file, &text, &why)?);
    match key {
        Some(key) if !any_error(&findings) => Ok(key),
        _ => Err(ConfigError::Invalid { findings }),
    }
}

fn parse(file: &Path, text: &str) -> (Option<u64>, Vec<ConfigFinding>) {
    let mut lines = LineFile::new(file, text, Comments::Anywhere);
    let expected =
        format!("expected {DIGITS} random hexadecimal digits, as `openssl rand -hex 8` makes them");
    let mut key = None;
    lines.each(|line| {
        let digits = line.text.strip_prefix("0x").unwrap_or(line.text);
        let is_key = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
        let read = u64::from_str_radix(digits, 16).ok().filter(|_| is_key);
        let found = match read {
            _ if key.is_some() => "a second key",
            None => "the line is no key",
            Some(0 | KNOWN_KEY) => "a key that everybody knows",
            Some(_) => {
                key = read;
                return Ok(());
            }
        };
        let mistake = line.mistake(ConfigSeverity::Error, expected.clone());
        Err(mistake.found(found))
    });
    if key.is_none() {
        lines.about_all(ConfigSeverity::Error, "no key", &expected);
    }
    (key, lines.finish())
}

impl Config {
    /// Sets the file of the SA's key to [`SA_KEY_FILE`] in the folder of the configuration `file`,
    /// if [`SA_KEY_FILE`] exists there and the configuration names no key of the SA.
    pub(super) fn find_sa_key(&mut self, file: &Path) {
        let beside: PathBuf = file.with_file_name(SA_KEY_FILE);
        if !self.sm.names_sa_key() && self.sm.sa_key.is_none() && beside.exists() {
            self.sm.sa_key_file = Some(beside);
        }
    }
}

impl SmConfig {
    /// The key of trusted requests to the SA; `None` if the SA trusts no request.
    ///
    /// # Errors
    ///
    /// Fails if the file of the key cannot be used.
    pub fn own_sa_key(&self) -> Result<Option<u64>, ConfigError> {
        let key = match &self.sa_key_file {
            Some(file) => Some(load_sa_key(file)?),
            None => self.sa_key,
        };
        Ok(key.filter(|&key| key != 0 && self.why_public(key).is_none()))
    }

    /// Whether the SA has a secret key, in a file or in the configuration.
    pub fn names_sa_key(&self) -> bool {
        let own = |key: u64| key != 0 && self.why_public(key).is_none();
        self.sa_key_file.is_some() || self.sa_key.is_some_and(own)
    }

    /// The reason why `sa_key` is publicly known; `None` if it may be secret.
    pub(super) fn known_sa_key(&self) -> Option<&'static str> {
        self.why_public(self.sa_key?)
    }

    /// The reason why `key` is publicly known; `None` if it may be secret.
    fn why_public(&self, key: u64) -> Option<&'static str> {
        match key {
            KNOWN_KEY => Some("sa_key is 1, OpenSM's default, which everybody knows"),
            key if key != 0 && key == self.sm_key => {
                Some("the SA's key is sm_key, which SMInfo shows")
            }
            _ => None,
        }
    }
}

/// Findings about the file that `sm.sa_key_file` names.
pub(super) fn findings(sm: &SmConfig) -> Vec<ConfigFinding> {
    let Some(file) = &sm.sa_key_file else {
        return Vec::new();
    };
    match load_sa_key(file) {
        Ok(key) => {
            let mut findings = Findings::new(file, "");
            if let Some(found) = sm.why_public(key) {
                findings.at("", 0, ConfigSeverity::Warning, found, OPENS_NOTHING);
            }
            findings.finish()
        }
        Err(ConfigError::Invalid { findings }) => findings,
        Err(error) => vec![unreadable_file(file, &error, "sa_key_file names it")],
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEY: u64 = 0x0123_4567_89ab_cdef;

    fn config_with_key_file(text: &str, mode: u32) -> (tempfile::TempDir, SmConfig) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(SA_KEY_FILE);
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let sm = SmConfig {
            sa_key_file: Some(file),
            ..SmConfig::default()
        };
        (directory, sm)
    }

    #[test]
    fn the_key_of_a_file_is_read_with_and_without_prefix() {
        for text in [
            "0123456789abcdef\n",
            "# of the SA\n 0x0123456789ABCDEF # here\n",
        ] {
            let (_directory, sm) = config_with_key_file(text, 0o600);
            assert_eq!(sm.own_sa_key().unwrap(), Some(KEY));
        }
    }

    #[test]
    fn a_key_file_that_others_may_read_is_refused_with_the_remedy() {
        for (mode, good) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            let (_directory, sm) = config_with_key_file("0123456789abcdef\n", mode);
            let loaded = sm.own_sa_key();
            assert_eq!(loaded.is_ok(), good, "{mode:o}");
            if let Err(error) = loaded {
                let error = error.to_string();
                assert!(error.contains("chmod 600"), "{error}");
                assert!(!error.contains("cdef"), "{error}");
            }
        }
    }

    #[test]
    fn bad_keys_are_refused_and_never_shown() {
        for text in [
            "",
            "# nothing\n",
            "0123456789abcde",
            "0x0123456789abcdef0",
            "+123456789abcdef",
            "not hexadecimal!",
            "0123456789abcdef\nfedcba9876543210\n",
            "0000000000000000",
            "0x0000000000000001\n",
        ] {
            let (_directory, sm) = config_with_key_file(text, 0o600);
            let error = sm.own_sa_key().unwrap_err().to_string();
            assert!(!error.contains("cde") && !error.contains("000"), "{error}");
        }
    }

    #[test]
    fn publicly_known_keys_are_not_used_and_are_recognised() {
        for (sa_key, sm_key, own, is_known) in [
            (None, 1, None, false),
            (None, 0x77, None, false),
            (Some(0), 1, None, false),
            (Some(0), 0, None, false),
            (Some(1), 1, None, true),
            (Some(1), 0x77, None, true),
            (Some(0x77), 0x77, None, true),
            (Some(0x78), 0x77, Some(0x78), false),
        ] {
            let sm = SmConfig {
                sa_key,
                sm_key,
                ..SmConfig::default()
            };
            assert_eq!(sm.own_sa_key().unwrap(), own, "{sa_key:?} {sm_key}");
            assert_eq!(sm.known_sa_key().is_some(), is_known, "{sa_key:?} {sm_key}");
            assert_eq!(sm.names_sa_key(), own.is_some(), "{sa_key:?} {sm_key}");
        }
    }

    #[test]
    fn key_file_with_the_sm_key_is_not_used_and_causes_a_warning() {
        let (_directory, mut sm) = config_with_key_file("0123456789abcdef\n", 0o600);
        sm.sm_key = KEY;
        assert_eq!(sm.own_sa_key().unwrap(), None);
        let warnings = findings(&sm);
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].severity, ConfigSeverity::Warning);
    }

    #[test]
    fn key_file_beside_a_configuration_is_used_unless_the_configuration_names_a_key() {
        let (directory, named) = config_with_key_file("0123456789abcdef\n", 0o600);
        let file = directory.path().join("rsm.toml");
        let mut config = Config::default();
        config.find_sa_key(&file);
        assert_eq!(config.sm.sa_key_file, named.sa_key_file);

        let mut config = Config::default();
        config.sm.sa_key = Some(7);
        config.find_sa_key(&file);
        assert_eq!(config.sm.sa_key_file, None);

        let mut config = Config::default();
        config.find_sa_key(Path::new("/nonexistent/rsm.toml"));
        assert_eq!(config.sm.sa_key_file, None);
    }
}

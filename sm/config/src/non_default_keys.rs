//! A configuration file with only the keys that differ from their defaults.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Config;
use super::schema::{SECTIONS, fields};

/// Origins of the values of a configuration's keys, such as `opensm.conf:12`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyOrigins {
    by_key: BTreeMap<(&'static str, &'static str), String>,
}

impl KeyOrigins {
    /// Records `place` as the origin of `section.key`, and replaces an earlier origin.
    pub fn set(&mut self, section: &'static str, key: &'static str, place: String) {
        self.by_key.insert((section, key), place);
    }

    /// The origin of `section.key`; `None` if none was recorded.
    pub fn of(&self, section: &'static str, key: &'static str) -> Option<&str> {
        self.by_key.get(&(section, key)).map(String::as_str)
    }
}

impl Config {
    /// Generates a file with the keys that differ from their defaults, each followed by its origin.
    /// Parsing it gives this configuration.
    pub fn short(&self, origins: &KeyOrigins) -> String {
        let (mut config, mut default) = (self.clone(), Config::default());
        let mut out = String::new();
        for (section, _) in SECTIONS {
            let mut is_open = false;
            for field in fields().iter().filter(|field| field.section == *section) {
                let Some(value) = field.value(&mut config) else {
                    continue;
                };
                if field.held(&mut config) == field.held(&mut default) {
                    continue;
                }
                // Writing to a String cannot fail.
                if !std::mem::replace(&mut is_open, true) {
                    let _ = write!(out, "\n[{section}]\n");
                }
                let _ = match origins.of(section, field.key) {
                    Some(place) => writeln!(out, "{} = {value} # {place}", field.key),
                    None => writeln!(out, "{} = {value}", field.key),
                };
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn short_file_has_only_differing_keys_and_parses_to_the_same_config() {
        let text = "[sm]\npriority = 14\nm_key = \"0xfedcba9876543210\"\n[lids]\nlmc = 1\n\
                    [routing]\nroot_guid_file = \"/etc/a \\\"quoted\\\" # name\"\n[log]\nappend = false\n";
        let config = Config::parse(Path::new("rsm.toml"), text).unwrap().config;
        let mut origins = KeyOrigins::default();
        origins.set("lids", "lmc", "opensm.conf:9".to_owned());
        let short = config.short(&origins);
        assert!(short.contains("\nlmc = 1 # opensm.conf:9\n"), "{short}");
        assert_eq!(short.matches(" = ").count(), 5, "{short}");
        let back = Config::parse(Path::new("rsm.toml"), &short).unwrap();
        assert_eq!(back.config, config);
        assert_eq!(Config::default().short(&origins), "");
    }
}

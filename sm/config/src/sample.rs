//! The sample of a configuration file, and the description of all keys for the manual.

use std::fmt::Write;

use super::Config;
use super::schema::{Applies, SECTIONS, fields};

/// A section of the configuration, for its sample and its manual.
pub struct SectionReference {
    /// The name, without brackets.
    pub name: &'static str,
    /// The subject.
    pub about: &'static str,
    /// The keys in order.
    pub keys: Vec<KeyReference>,
}

/// A key of the configuration, for its sample and its manual.
pub struct KeyReference {
    /// The name.
    pub name: &'static str,
    /// The effect, line by line.
    pub doc: Vec<&'static str>,
    /// The accepted values, in words.
    pub takes: String,
    /// The default as TOML; `None` if the key is not set by default.
    pub default: Option<String>,
    /// A value as TOML, for a key that is not set by default.
    pub example: &'static str,
    /// OpenSM's key with the same effect; `None` if there is none.
    pub opensm: Option<&'static str>,
    /// Time at which a change takes effect.
    pub applies: Applies,
}

impl Config {
    /// Describes every section with its keys.
    pub fn reference() -> Vec<SectionReference> {
        let mut config = Config::default();
        let sections = SECTIONS.iter().map(|&(name, about)| {
            let keys = fields().iter().filter(|key| key.section == name);
            let keys = keys.map(|key| KeyReference {
                name: key.key,
                doc: key.doc.iter().map(|line| line.trim()).collect(),
                takes: key.expected(),
                default: key.value(&mut config),
                example: key.example,
                opensm: key.opensm.map(|(theirs, _)| theirs),
                applies: key.applies,
            });
            SectionReference {
                name,
                about: about.trim(),
                keys: keys.collect(),
            }
        });
        sections.collect()
    }

    /// A configuration file with every key, its effect, and its default.
    ///
    /// Parsing it gives [`Config::default`].
    pub fn sample() -> String {
        let mut out = String::from(
            "# Configuration of rsm. Every key is here with its default; delete what you do not change.\n",
        );
        for section in Config::reference() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\n# {}\n[{}]\n", section.about, section.name);
            for key in section.keys {
                for line in key.doc {
                    let _ = writeln!(out, "# {line}");
                }
                let _ = writeln!(out, "# Takes {}.", key.takes);
                if key.applies == Applies::AtStart {
                    out.push_str("# A change takes effect at the next start.\n");
                }
                let _ = match key.default {
                    Some(value) => writeln!(out, "{} = {value}", key.name),
                    None => writeln!(out, "#{} = {}", key.name, key.example),
                };
            }
        }
        out
    }
}

//! The keys in which two configurations differ, and the time at which each change takes effect.

use super::Config;
use super::schema::Applies;
use super::schema::fields;

/// A key whose value changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangedKey {
    section: &'static str,
    key: &'static str,
    /// Time at which the new value takes effect.
    pub applies: Applies,
}

impl std::fmt::Display for ChangedKey {
    /// Formats as `section.key`, without the value, which may be an M_Key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.section, self.key)
    }
}

impl Config {
    /// The keys whose values differ from `other`, in the order of [`Config::sample`].
    pub fn changed_keys(&self, other: &Config) -> Vec<ChangedKey> {
        let (mut before, mut after) = (self.clone(), other.clone());
        let differing = fields()
            .iter()
            .filter(|field| field.held(&mut before) != field.held(&mut after));
        differing
            .map(|field| ChangedKey {
                section: field.section,
                key: field.key,
                applies: field.applies,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that `text` changes from their defaults, and whose change takes effect at
    /// `applies`.
    fn changed(text: &str, applies: Applies) -> Vec<String> {
        let loaded = Config::parse("rsm.toml".as_ref(), text).unwrap();
        let changed = Config::default().changed_keys(&loaded.config);
        let these = changed.iter().filter(|key| key.applies == applies);
        these.map(ChangedKey::to_string).collect()
    }

    #[test]
    fn key_set_to_its_default_is_no_change() {
        let text = "[sm]\npriority = 0\n[api]\nlisten = \"127.0.0.1:50051\"\n";
        assert_eq!(changed(text, Applies::OnReload), [""; 0]);
        assert_eq!(changed(text, Applies::AtStart), [""; 0]);
    }

    #[test]
    fn changed_keys_are_grouped_by_when_they_take_effect() {
        let text = "[sm]\npriority = 3\nm_key = 0xdead\n[lids]\nlmc = 1\n\
                    [sweep]\nretries = 3\n[dump]\ndir = \"/d\"\n[api]\nsocket = \"/s\"\n";
        assert_eq!(
            changed(text, Applies::OnReload),
            ["sm.priority", "sm.m_key", "lids.lmc"]
        );
        assert_eq!(
            changed(text, Applies::AtStart),
            ["sweep.retries", "api.socket", "dump.dir"]
        );
    }

    #[test]
    fn changed_engine_option_takes_effect_on_reload() {
        let text = "[routing]\nnue_vls = 2\n";
        assert_eq!(changed(text, Applies::OnReload), ["routing.nue_vls"]);
    }
}

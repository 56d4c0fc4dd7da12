//! The keys of OpenSM and of NVIDIA's manager without a counterpart in rsm, each with the reason
//! why rsm does not need it, or the function that is lost without it. Keys with a counterpart are
//! in `schema`.

mod invented;
mod nvidia;
mod nvidia_missing;
mod upstream;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use super::UNSET;
use crate::number;

/// Keys of one subject with one treatment.
enum Topic {
    /// rsm needs no such key.
    NotNeeded {
        why: &'static str,
        keys: &'static [&'static str],
    },
    /// rsm has no such function.
    NotAvailable(Missing, Keys),
}

/// A function that rsm does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Missing {
    /// Loss for the operator.
    pub(super) lost: &'static str,
    /// Alternative for the operator.
    pub(super) instead: &'static str,
}

/// The keys of a missing function.
struct Keys {
    /// The keys that request the function, each with the values that do not request it (see
    /// [`is_idle`]).
    asking: &'static [(&'static str, &'static [&'static str])],
    /// Keys that have an effect only if a key of `asking` turns the function on.
    tuning: &'static [&'static str],
}

/// Treatment of a key without a counterpart in rsm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// rsm needs no such key, for this reason.
    NotNeeded(&'static str),
    /// rsm has no such function. With these values of the key, the operator loses nothing.
    NotAvailable(Missing, &'static [&'static str]),
    /// The key tunes a function that rsm does not have, and that another key turns on.
    Tunes(Missing),
    /// No manager has such a key; this key is probably intended.
    Invented(&'static str),
}

static OTHERS: LazyLock<BTreeMap<&'static str, Fate>> = LazyLock::new(|| {
    let tables = [upstream::TOPICS, nvidia::TOPICS, nvidia_missing::TOPICS];
    let known = tables.into_iter().flatten().flat_map(Topic::fates);
    let invented = invented::KEYS.iter();
    let invented = invented.map(|(key, meant)| (*key, Fate::Invented(meant)));
    known.chain(invented).collect()
});

/// The keys without a counterpart in rsm: first the keys of OpenSM, then the keys that only
/// NVIDIA's manager has.
#[cfg(test)]
pub(super) fn by_manager() -> [BTreeMap<&'static str, Fate>; 2] {
    let nvidia = nvidia::TOPICS.iter().chain(nvidia_missing::TOPICS);
    [
        upstream::TOPICS.iter().flat_map(Topic::fates).collect(),
        nvidia.flat_map(Topic::fates).collect(),
    ]
}

/// All keys without a counterpart in rsm, by name.
pub(super) fn keys_without_counterpart() -> &'static BTreeMap<&'static str, Fate> {
    &OTHERS
}

impl Topic {
    fn fates(&self) -> Vec<(&'static str, Fate)> {
        match self {
            Topic::NotNeeded { why, keys } => {
                let fate = |key: &&'static str| (*key, Fate::NotNeeded(why));
                keys.iter().map(fate).collect()
            }
            Topic::NotAvailable(missing, Keys { asking, tuning }) => {
                let asking = asking
                    .iter()
                    .map(|(key, idle)| (*key, Fate::NotAvailable(*missing, idle)));
                let tuning = tuning.iter().map(|key| (*key, Fate::Tunes(*missing)));
                asking.chain(tuning).collect()
            }
        }
    }
}

/// Whether `value` requests nothing: it is empty, unset or one of `idle`. A path in `idle` stands
/// for all paths with this end, as long as the file does not exist: OpenSM writes the default path
/// into every configuration.
pub(super) fn is_idle(value: &str, idle: &[&str]) -> bool {
    let same = |idle: &&str| match (number(value), number(idle)) {
        (Some(value), Some(idle)) => value == idle,
        _ if idle.starts_with('/') => value.ends_with(*idle) && !Path::new(value).exists(),
        _ => value.eq_ignore_ascii_case(idle),
    };
    value.is_empty() || value == UNSET || idle.iter().any(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_in_two_tables() {
        let topics = upstream::TOPICS.iter().chain(nvidia::TOPICS);
        let topics = topics.chain(nvidia_missing::TOPICS);
        let mut keys: Vec<_> = topics.flat_map(|topic| topic.fates()).collect();
        keys.sort_unstable_by_key(|(key, _)| *key);
        for pair in keys.windows(2) {
            assert_ne!(pair[0].0, pair[1].0);
        }
        assert_eq!(
            keys_without_counterpart().len(),
            keys.len() + invented::KEYS.len()
        );
    }

    #[test]
    fn numbers_words_and_paths_of_missing_files_are_idle_values() {
        for (value, idle) in [
            ("0x00", "0"),
            ("(null)", "x"),
            ("", "x"),
            ("false", "FALSE"),
            ("/no/such/opensm/qos-policy.conf", "/opensm/qos-policy.conf"),
        ] {
            assert!(is_idle(value, &[idle]), "{value}");
        }
        assert!(!is_idle("1", &["0"]));
        assert!(!is_idle("/etc/qos.conf", &["/opensm/qos-policy.conf"]));
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policy");
        std::fs::write(&file, "").unwrap();
        assert!(!is_idle(&file.display().to_string(), &["/policy"]));
    }
}

//! Parser of an operator's existing `opensm.conf`: each line has a key and a value; `#` begins a
//! comment, `(null)` means not set. Keys with a counterpart in rsm are converted. For every other
//! key, a report states why rsm does not need the key, or which function is lost without it.

mod engine;
mod keys;
mod outcome;
#[cfg(test)]
mod page;
#[cfg(test)]
mod sites;
#[cfg(test)]
mod tests;
mod value;

use std::path::{Path, PathBuf};

pub(super) use self::engine::LONE_MINHOP;
use self::keys::{Fate, Missing, is_idle, keys_without_counterpart};
pub use self::outcome::{KeyGroup, KeyOutcome};
use self::value::{IsThere, Taken, convert_value};
use super::convert::Convert;
use super::finding::{ConfigFinding, ConfigSeverity, Findings};
use super::known_key::OPENS_NOTHING;
use super::schema::ConfigKey;
use super::schema::fields;
use super::suggest::nearest;
use super::{Config, Enforcement, KeyOrigins};

/// A value that is not set.
const UNSET: &str = "(null)";

/// Folders of OpenSM's files: its own and Red Hat's.
const DEFAULT_FOLDERS: [&str; 2] = ["opensm", "rdma"];

/// Name of the file of partitions.
pub const PARTITIONS: &str = "partitions.conf";
/// Name of the file of the QoS policy.
pub const QOS_POLICY: &str = "qos-policy.conf";

/// Origin of a file that no key names.
pub const DEFAULT_PLACE: &str = "where OpenSM looks for it";

/// A deprecated key of OpenSM. If it is TRUE, `part_enforce` is ignored.
const NO_ENFORCEMENT: &str = "no_partition_enforcement";

/// A parsed `opensm.conf`.
#[derive(Debug)]
pub struct OpensmConf {
    /// The configuration; may be used only if no finding is an error.
    pub config: Config,
    pub findings: Vec<ConfigFinding>,
    /// The outcome of each key, in the order of the file.
    pub outcomes: Vec<KeyOutcome>,
    /// The line of the `opensm.conf` that set each key of rsm.
    pub origins: KeyOrigins,
}

/// Parses `text`. The configuration is usable only if no finding is an error.
pub(super) fn parse(file: &Path, text: &str) -> (Config, Vec<ConfigFinding>) {
    let read = read(file, text, &Path::exists);
    (read.config, read.findings)
}

/// Parses `text`, with the outcome of each key. `is_there` says whether a file exists, for files
/// that OpenSM names in every configuration.
pub fn read(file: &Path, text: &str, is_there: &dyn Fn(&Path) -> bool) -> OpensmConf {
    let mut reader = Reader {
        text,
        config: Config::default(),
        findings: Findings::new(file, text),
        obeyed_notes: Findings::new(file, text),
        outcomes: Vec::new(),
        origins: KeyOrigins::default(),
        file,
        is_there,
        line: 0,
        unenforced: None,
        qos_keys: Vec::new(),
        sa_key_at: None,
    };
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        reader.line += 1;
        if let Some(entry) = Entry::of(line, offset) {
            reader.convert_entry(&entry);
        }
        offset += line.len();
    }
    reader.finish()
}

/// The key on a line of an `opensm.conf`; `None` if the line has no known key or no value.
pub(super) fn key_of(line: &str) -> Option<&str> {
    let Entry { key, value, .. } = Entry::of(line, 0)?;
    let is_ours = || {
        let mut theirs = fields().iter().filter_map(|field| field.opensm);
        theirs.any(|(theirs, _)| theirs == key)
    };
    let is_known =
        key == NO_ENFORCEMENT || is_ours() || keys_without_counterpart().contains_key(key);
    (is_known && !value.is_empty() && !value.starts_with('=')).then_some(key)
}

/// A key and its value, each with its byte offset in the text.
struct Entry<'a> {
    key: &'a str,
    key_at: usize,
    value: &'a str,
    value_at: usize,
}

impl<'a> Entry<'a> {
    /// Parses a line that begins at `offset`; `None` if it is empty or a comment.
    fn of(line: &'a str, offset: usize) -> Option<Entry<'a>> {
        let content = line.split('#').next().unwrap_or("");
        let key_at = offset + content.len() - content.trim_start().len();
        let content = content.trim();
        if content.is_empty() {
            return None;
        }
        let (key, value) = content
            .split_once([' ', '\t'])
            .map_or((content, ""), |(key, value)| (key, value.trim()));
        Some(Entry {
            key,
            key_at,
            value,
            value_at: key_at + content.len() - value.len(),
        })
    }

    /// The value; `None` if the value is not set, or secret.
    fn public_value(&self) -> Option<String> {
        let value = unquoted(self.value);
        let is_public = value != UNSET && !value.is_empty() && !is_secret(self.key);
        is_public.then(|| value.to_owned())
    }

    /// The entry as findings quote it, without secret keys, because findings are logged.
    fn shown(&self) -> String {
        let Entry { key, value, .. } = self;
        if is_secret(key) {
            return format!("{key} is set");
        }
        format!("{key} is `{value}`")
    }
}

/// Whether findings must not show the value of a key.
fn is_secret(key: &str) -> bool {
    key.ends_with("_key") || key == "key_mgr_seed"
}

/// Removes the quotes around a value, which OpenSM accepts as well.
fn unquoted(value: &str) -> &str {
    value
        .strip_prefix('"')
        .and_then(|v| v.strip_suffix('"'))
        .unwrap_or(value)
}

/// A file while it is converted.
struct Reader<'a> {
    text: &'a str,
    config: Config,
    findings: Findings,
    /// Notes about converted keys, in the order of `outcomes`.
    obeyed_notes: Findings,
    outcomes: Vec<KeyOutcome>,
    origins: KeyOrigins,
    file: &'a Path,
    is_there: IsThere<'a>,
    /// Number of the line being parsed, from 1.
    line: usize,
    /// Place of the key that turns enforcement off; `None` if the file has no such key.
    unenforced: Option<String>,
    /// The keys that have an effect only with `qos TRUE`, each as (index in `outcomes`, offset,
    /// text).
    qos_keys: Vec<(usize, usize, String)>,
    /// Byte offset of the SA's key.
    sa_key_at: Option<usize>,
}

impl Reader<'_> {
    /// Converts the key and value of a line.
    fn convert_entry(&mut self, entry: &Entry<'_>) {
        let counterpart = fields().iter().find_map(|field| {
            let (theirs, convert) = field.opensm?;
            (theirs == entry.key).then_some((field, convert))
        });
        if let Some((field, convert)) = counterpart {
            let value = unquoted(entry.value);
            let taken = convert_value(&mut self.config, field, convert, value, self.is_there);
            self.record_conversion(entry, (field, convert), taken);
        } else if entry.key == NO_ENFORCEMENT {
            self.convert_no_enforcement(entry);
        } else {
            self.convert_without_counterpart(entry);
        }
    }

    /// Records the result of converting a key that has the counterpart `field`.
    fn record_conversion(
        &mut self,
        entry: &Entry<'_>,
        (field, convert): (&ConfigKey, Convert),
        taken: Taken,
    ) {
        let place = self.place();
        self.origins.set(field.section, field.key, place.clone());
        if convert == Convert::SaKey {
            self.sa_key_at = Some(entry.value_at);
        }
        if convert == Convert::Engines && !self.config.routing.fallback_engines.is_empty() {
            self.origins.set("routing", "fallback_engines", place);
        }
        if self.needs_qos(field, &taken) {
            let (at, shown) = (entry.key_at, entry.shown());
            self.qos_keys.push((self.outcomes.len(), at, shown));
        }
        match taken {
            Taken::Set { note: None } => {
                let value = match is_secret(entry.key) {
                    true => None,
                    false => field.value(&mut self.config),
                };
                let value = value.map_or(String::new(), |value| format!(" = {value}"));
                self.record_obeyed(entry, format!("{}.{}{value}", field.section, field.key));
            }
            Taken::Set { note: Some(note) } => self.record_obeyed(entry, note),
            Taken::Default => {
                let effect = format!("{}.{} keeps its default", field.section, field.key);
                self.record_obeyed(entry, effect);
            }
            Taken::Odd { effect } => {
                let (at, severity) = (entry.value_at, ConfigSeverity::Warning);
                self.report(at, severity, entry.shown(), effect.clone());
                self.record_obeyed(entry, effect);
            }
            Taken::Lost(missing) => self.record_lost(entry, entry.value_at, missing),
            Taken::Refused(expected) => {
                let (at, severity) = (entry.value_at, ConfigSeverity::Error);
                self.report(at, severity, entry.shown(), expected);
            }
        }
    }

    /// Whether a converted key has no effect while quality of service is off. The default name of
    /// the policy file does not count, because OpenSM writes it into every configuration.
    fn needs_qos(&self, field: &ConfigKey, taken: &Taken) -> bool {
        let is_set = matches!(taken, Taken::Set { .. } | Taken::Odd { .. });
        let policy = self.config.qos.policy_file.as_deref();
        let is_left_as_written =
            field.key == "policy_file" && policy.is_some_and(|file| is_default(file, QOS_POLICY));
        let theirs = field.opensm.map_or("", |(theirs, _)| theirs);
        is_set && theirs.starts_with("qos_") && !is_left_as_written
    }

    /// Converts the key that turns the enforcement of partitions off.
    fn convert_no_enforcement(&mut self, entry: &Entry<'_>) {
        let is_off = match unquoted(entry.value).to_ascii_uppercase().as_str() {
            "TRUE" => true,
            "FALSE" => false,
            _ => {
                let expected = "expected TRUE or FALSE".to_owned();
                let (at, severity) = (entry.value_at, ConfigSeverity::Error);
                return self.report(at, severity, entry.shown(), expected);
            }
        };
        self.unenforced = is_off.then(|| self.place());
        let effect = match is_off {
            true => "partitions.enforcement = \"off\"",
            false => "partitions.enforcement stays",
        };
        self.record_obeyed(entry, effect.to_owned());
    }

    /// Reports the treatment of a key without a counterpart in rsm.
    fn convert_without_counterpart(&mut self, entry: &Entry<'_>) {
        match keys_without_counterpart().get(entry.key) {
            None => self.record_unknown(entry, &suggestion(entry.key)),
            Some(Fate::Invented(meant)) => {
                self.record_unknown(entry, &format!("what is meant is {meant}"));
            }
            Some(Fate::NotAvailable(_, idle)) if is_idle(unquoted(entry.value), idle) => {
                self.record_not_needed(entry, "this value asks for nothing that rsm does not do");
            }
            Some(Fate::NotAvailable(missing, _)) => self.record_lost(entry, entry.key_at, *missing),
            Some(Fate::Tunes(missing)) => {
                let why = format!(
                    "it tunes a function that rsm does not have: {}",
                    missing.lost
                );
                self.record_not_needed(entry, &why);
            }
            Some(Fate::NotNeeded(why)) => self.record_not_needed(entry, why),
        }
    }

    /// Adds the files that OpenSM reads by default. A file that has another name must exist; a file
    /// that has the default name may be missing, because OpenSM writes that name into every
    /// configuration.
    fn add_default_files(&mut self) {
        let (partitions, qos) = (&mut self.config.partitions, &mut self.config.qos);
        if let Some(file) = &partitions.file {
            partitions.file_may_be_missing = is_default(file, PARTITIONS);
        } else if let Some(file) = default_file(PARTITIONS, self.is_there) {
            partitions.file = Some(file);
            self.origins
                .set("partitions", "file", DEFAULT_PLACE.to_owned());
        }
        if let Some(file) = &qos.policy_file {
            qos.policy_may_be_missing = is_default(file, QOS_POLICY);
        } else if let Some(file) = default_file(QOS_POLICY, self.is_there).filter(|_| qos.enabled) {
            qos.policy_file = Some(file);
            self.origins
                .set("qos", "policy_file", DEFAULT_PLACE.to_owned());
        }
    }

    /// Warns about keys that have no effect without `qos TRUE`, with OpenSM as with rsm.
    fn warn_of_qos_keys(&mut self) {
        for (outcome, at, shown) in std::mem::take(&mut self.qos_keys) {
            let group = KeyGroup::NotNeeded;
            let expected = format!(
                "{group}: without `qos TRUE` no table is set, as with OpenSM: set that, or delete the key"
            );
            self.report(at, ConfigSeverity::Warning, shown, expected);
            if let Some(outcome) = self.outcomes.get_mut(outcome) {
                (outcome.group, outcome.taken) = (group, None);
            }
        }
    }

    /// Records an obeyed key, with a note about the effect.
    fn record_obeyed(&mut self, entry: &Entry<'_>, effect: String) {
        let severity = ConfigSeverity::Note;
        let text = format!("{}: {effect}", KeyGroup::Obeyed);
        self.obeyed_notes
            .at(self.text, entry.key_at, severity, entry.shown(), text);
        self.record(entry, KeyGroup::Obeyed);
    }

    /// Records a key that rsm does not need, with a note about the reason.
    fn record_not_needed(&mut self, entry: &Entry<'_>, why: &str) {
        let expected = format!("{}: {why}", KeyGroup::NotNeeded);
        self.report(entry.key_at, ConfigSeverity::Note, entry.shown(), expected);
        self.record(entry, KeyGroup::NotNeeded);
    }

    /// Records a key of a function that rsm does not have, with a warning at byte offset `at`.
    fn record_lost(&mut self, entry: &Entry<'_>, at: usize, Missing { lost, instead }: Missing) {
        let expected = format!("{}: {lost}; {instead}", KeyGroup::NotAvailable);
        self.report(at, ConfigSeverity::Warning, entry.shown(), expected);
        self.record(entry, KeyGroup::NotAvailable);
    }

    /// Records a key that no manager has, with a warning.
    fn record_unknown(&mut self, entry: &Entry<'_>, hint: &str) {
        let found = format!("unknown key `{}`", entry.key);
        let expected = format!("no manager has it, and it does nothing: {hint}");
        self.report(entry.key_at, ConfigSeverity::Warning, found, expected);
        self.record(entry, KeyGroup::Unknown);
    }

    /// File and number of the line being parsed.
    fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.line)
    }

    /// Adds the outcome of a key.
    fn record(&mut self, entry: &Entry<'_>, group: KeyGroup) {
        self.outcomes.push(KeyOutcome {
            key: entry.key.to_owned(),
            line: self.line,
            value: entry.public_value(),
            group,
            taken: None,
        });
    }

    /// Adds a finding at a byte offset.
    fn report(&mut self, at: usize, severity: ConfigSeverity, found: String, expected: String) {
        self.findings.at(self.text, at, severity, found, expected);
    }

    fn finish(mut self) -> OpensmConf {
        if let Some(place) = self.unenforced.take() {
            self.config.partitions.enforcement = Enforcement::Off;
            self.origins.set("partitions", "enforcement", place);
        }
        self.add_default_files();
        if let (Some(found), Some(at)) = (self.config.sm.known_sa_key(), self.sa_key_at) {
            // The check comes last, because `sm_key`, which must differ, may follow on a later
            // line.
            self.config.sm.sa_key = None;
            let expected = OPENS_NOTHING.to_owned();
            self.report(at, ConfigSeverity::Warning, found.to_owned(), expected);
        }
        let obeyed = self.outcomes.iter_mut();
        let obeyed = obeyed.filter(|outcome| outcome.group == KeyGroup::Obeyed);
        for (outcome, note) in obeyed.zip(std::mem::take(&mut self.obeyed_notes).finish()) {
            outcome.taken = Some(note);
        }
        if !self.config.qos.enabled {
            self.warn_of_qos_keys();
        }
        OpensmConf {
            config: self.config,
            findings: self.findings.finish(),
            outcomes: self.outcomes,
            origins: self.origins,
        }
    }
}

/// Whether `file` has the default name that OpenSM writes into every configuration; its folder
/// depends on the prefix that OpenSM was built with.
pub fn is_default(file: &Path, name: &str) -> bool {
    let mut folders = DEFAULT_FOLDERS.iter();
    folders.any(|folder| file.ends_with(Path::new(folder).join(name)))
}

/// The first existing file of that name in OpenSM's default folders.
fn default_file(name: &str, is_there: IsThere<'_>) -> Option<PathBuf> {
    let folders = DEFAULT_FOLDERS.iter();
    let mut defaults = folders.map(|folder| Path::new("/etc").join(folder).join(name));
    defaults.find(|default| is_there(default))
}

/// The known key most similar to `key`.
fn suggestion(key: &str) -> String {
    let ours = fields().iter().filter_map(|field| Some(field.opensm?.0));
    let known = keys_without_counterpart().iter();
    let known = known.filter(|(_, fate)| !matches!(fate, Fate::Invented(_)));
    let names = ours.chain(known.map(|(name, _)| *name));
    match nearest(key, names.chain([NO_ENFORCEMENT])) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "no known key is like it".to_owned(),
    }
}

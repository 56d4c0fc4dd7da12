//! `rsm migrate`: converts OpenSM's files on a host to a configuration and a store of rsm.
//!
//! [`read`] reads all files and decides without changing anything; [`Migration`] holds the result
//! and every finding about it. [`write`](Migration::write) creates the configuration and the store,
//! and refuses to overwrite either.
//!
//! The configuration and the store are in the state that the daemon would have left, so the daemon
//! starts as after a restart: the LIDs in the files are ordinary claims, and there is nothing to
//! set.

mod claims;
mod line;
mod m_keys;
mod neighbors;
mod output;
mod report;
mod routes;
mod sa_dump;
mod source;
mod sysconfig;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rsm_config::{
    self, CableEnd, Config, ConfigFinding, ConfigSeverity, KeyOrigins, KeyOutcome, any_error,
    read_opensm, with_files,
};
use rsm_ids::Guid;
use rsm_sa::SavedSaState;
use rsm_view::publish::routes_compared::RoutesCompared;

pub use self::claims::Claims;
pub use self::output::{Outputs, WriteError};
pub use self::source::SourceError;
use self::source::{Files, is_present};
use self::sysconfig::Sysconfig;

/// Options of a migration.
#[derive(Clone, Debug)]
pub struct MigrateOptions {
    /// Folder that stands for `/`.
    pub root: PathBuf,
    /// `opensm.conf` to read; `None` for the file at one of OpenSM's usual places.
    pub config: Option<PathBuf>,
    /// GUID of the port to manage; `None` for the port that OpenSM's files name.
    pub guid: Option<Guid>,
    /// State folder; `None` for the default.
    pub state_dir: Option<PathBuf>,
    /// Current time in seconds since the Unix epoch, for the leases of services.
    pub now: u64,
}

/// Result of [`read`].
#[derive(Debug)]
pub struct Migration {
    /// Configuration of rsm.
    pub config: Config,
    origins: KeyOrigins,
    /// LIDs of ports.
    pub claims: Claims,
    /// Registrations of hosts.
    pub registrations: SavedSaState,
    /// Files that were read, each with its content in a few words.
    sources: Vec<(PathBuf, String)>,
    /// Cables of OpenSM's table, each with its lower end first.
    cables: BTreeSet<(CableEnd, CableEnd)>,
    /// Comparison of OpenSM's routes with the planned ones; `None` if OpenSM left none, or if they
    /// do not differ.
    routes: Option<RoutesCompared>,
    /// Findings about everything that is not adopted unchanged, with file and line.
    pub findings: Vec<ConfigFinding>,
    /// Outcome of each key of `opensm.conf`.
    outcomes: Vec<KeyOutcome>,
}

/// Reads OpenSM's files.
///
/// # Errors
/// A file cannot be read; there are several configurations or ports to choose from; or there is no
/// file of OpenSM. Errors within files are findings.
pub fn read(options: &MigrateOptions) -> Result<Migration, SourceError> {
    let mut files = Files::below(&options.root);
    let conf = files.configuration(options.config.as_deref())?;
    let mut migration = Migration::of_configuration(&mut files, conf.as_deref())?;
    let sysconfig = Sysconfig::read(&mut files, &mut migration.findings)?;
    migration.choose_port(options.guid, sysconfig.as_ref())?;
    migration.omit_outputs();
    migration.keep_lids();
    migration.keep_mapping_form();
    if let Some(dir) = &options.state_dir {
        migration.config.state.dir.clone_from(dir);
        let place = "--state-dir".to_owned();
        migration.origins.set("state", "dir", place);
    }
    migration.resolve_files(&files, conf.as_deref());
    let cache = files.cache(sysconfig.as_ref().and_then(Sysconfig::cache));
    migration.read_claims(&mut files, &cache)?;
    migration.read_m_keys(&mut files, &cache)?;
    migration.read_neighbors(&mut files, &cache)?;
    migration.read_registrations(&mut files, options.now)?;
    routes::compare_routes(&mut migration, &mut files)?;
    migration.sources = files.into_read();
    if migration.sources.is_empty() {
        return Err(SourceError::Nothing {
            root: options.root.clone(),
        });
    }
    // A warning or note about a line that already has a finding repeats that finding, as the table
    // of M_Keys was read before.
    let before = migration.findings.iter();
    let before: BTreeSet<_> = before.map(|f| (f.file.clone(), f.line)).collect();
    let named = with_files(&migration.config, Vec::new());
    let is_new = |finding: &ConfigFinding| {
        finding.severity == ConfigSeverity::Error
            || !before.contains(&(finding.file.clone(), finding.line))
    };
    migration.findings.extend(named.into_iter().filter(is_new));
    Ok(migration)
}

impl Migration {
    /// Migration of `opensm.conf` alone; of the defaults if `conf` is `None`.
    fn of_configuration(files: &mut Files, conf: Option<&Path>) -> Result<Migration, SourceError> {
        let mut migration = Migration {
            config: Config::default(),
            origins: KeyOrigins::default(),
            claims: Claims::default(),
            registrations: SavedSaState::default(),
            sources: Vec::new(),
            cables: BTreeSet::new(),
            routes: None,
            findings: Vec::new(),
            outcomes: Vec::new(),
        };
        let Some(conf) = conf else {
            return Ok(migration);
        };
        let Some(text) = files.text(conf, &mut migration.findings)? else {
            return Ok(migration);
        };
        let read = read_opensm(conf, &text, &|path| is_present(&files.under(path)));
        let notes = read.findings.into_iter();
        let reported = notes.filter(|finding| finding.severity > ConfigSeverity::Note);
        migration.findings.extend(reported);
        migration
            .findings
            .extend(repeated_keys(conf, &read.outcomes));
        files.set_content(conf, format!("{} keys", read.outcomes.len()));
        migration.config = read.config;
        migration.origins = read.origins;
        migration.outcomes = read.outcomes;
        Ok(migration)
    }

    /// Adopts the port, the prefix and the priority that the service passes to OpenSM, because
    /// options of a command line override the configuration. `chosen` overrides the port.
    fn choose_port(
        &mut self,
        chosen: Option<Guid>,
        sysconfig: Option<&Sysconfig>,
    ) -> Result<(), SourceError> {
        if let Some(sysconfig) = sysconfig {
            let port = sysconfig.port(chosen, &mut self.findings)?;
            if let Some((guid, place)) = port.guid {
                self.config.sm.guid = Some(guid);
                self.origins.set("sm", "guid", place);
            }
            if let Some((prefix, place)) = port.prefix {
                self.config.sm.subnet_prefix = prefix;
                self.origins.set("sm", "subnet_prefix", place);
            }
            if let Some((priority, place)) = sysconfig.priority(&mut self.findings) {
                self.config.sm.priority = priority;
                self.origins.set("sm", "priority", place);
            }
        }
        if let Some(guid) = chosen {
            self.config.sm.guid = Some(guid);
            self.origins.set("sm", "guid", "--guid".to_owned());
        }
        Ok(())
    }

    /// Omits settings of files that OpenSM writes: rsm runs as its own user, which may not write to
    /// these files, and a log that cannot be opened would end rsm at once.
    fn omit_outputs(&mut self) {
        let defaults = Config::default();
        let log = self.config.log != defaults.log;
        let dump = self.config.dump != defaults.dump;
        let log = log.then_some(("log", "file", "the service logs to the journal"));
        let dump = dump.then_some(("dump", "dir", "rsm writes no files for OpenSM"));
        for (section, key, effect) in [log, dump].into_iter().flatten() {
            let Some(place) = self.origins.of(section, key).map(str::to_owned) else {
                continue;
            };
            self.findings.push(line::finding(
                &place,
                ConfigSeverity::Warning,
                format!("{section}.{key} is left out"),
                format!("{effect}; set it to a place below /var/log/rsm where you need it"),
            ));
        }
        (self.config.log, self.config.dump) = (defaults.log, defaults.dump);
    }

    /// Omits the setting that reassigns all LIDs, because a migration keeps the LIDs.
    fn keep_lids(&mut self) {
        if !std::mem::take(&mut self.config.lids.reassign) {
            return;
        }
        if let Some(place) = self.origins.of("lids", "reassign").map(str::to_owned) {
            self.findings.push(line::finding(
                &place,
                ConfigSeverity::Warning,
                "lids.reassign is left out".to_owned(),
                "ports keep their LIDs; set it for one start if you want new ones".to_owned(),
            ));
        }
    }

    /// Makes rsm set SLtoVLMappingTables in the form that OpenSM used. Only tables that were set
    /// port by port can be read back, and stay unchanged if they are right.
    fn keep_mapping_form(&mut self) {
        let mut keys = self.outcomes.iter().rev();
        let key = keys.find(|outcome| outcome.key == "use_optimized_slvl");
        let value = key.and_then(|outcome| outcome.value.as_deref());
        let is_optimized = value.is_some_and(|value| value.eq_ignore_ascii_case("TRUE"));
        if self.config.qos.enabled && !is_optimized {
            self.config.qos.optimized_sl2vl = false;
            let why = "as OpenSM: tables set port by port can be read back".to_owned();
            self.origins.set("qos", "optimized_sl2vl", why);
        }
    }

    /// Replaces file names in the configuration by the places below the root, and adds OpenSM's
    /// default file of partitions if it exists.
    fn resolve_files(&mut self, files: &Files, conf: Option<&Path>) {
        let routing = &mut self.config.routing;
        for path in [
            &mut routing.root_guid_file,
            &mut routing.tables_file,
            &mut routing.storage_guid_file,
            &mut routing.compute_guid_file,
            &mut routing.port_order_file,
            &mut routing.hop_weights_file,
            &mut routing.uncounted_ports_file,
            &mut routing.switch_ids_file,
            &mut routing.torus_file,
            &mut self.config.sa.prefix_routes_file,
            &mut self.config.qos.rate_limits_file,
        ]
        .into_iter()
        .flatten()
        {
            *path = files.under(path);
        }
        self.resolve_names(files);
        self.config.qos.policy_may_be_missing = false;
        if let Some(named) = self.config.qos.policy_file.take() {
            self.config.qos.policy_file = self.resolve(files, &POLICY, &named);
        }
        self.config.partitions.file_may_be_missing = false;
        if let Some(named) = self.config.partitions.file.take() {
            self.config.partitions.file = self.resolve(files, &PARTITION_FILE, &named);
        } else if let Some(file) = files.partitions(conf) {
            let place = rsm_config::DEFAULT_PLACE.to_owned();
            self.origins.set("partitions", "file", place);
            self.config.partitions.file = Some(file);
        }
    }

    /// Place below the root of a file that OpenSM's configuration names; `None`, with a finding, if
    /// the file does not exist. OpenSM runs without a missing file, and writes a default name into
    /// every configuration, usually of a missing file. On OpenSM's own host, a missing file of the
    /// default name is therefore only a warning. A copy of another host's files may lack the file
    /// by mistake, which is an error.
    fn resolve(&mut self, files: &Files, named: &NamedFile, path: &Path) -> Option<PathBuf> {
        let file = files.under(path);
        if is_present(&file) {
            return Some(file);
        }
        let NamedFile { section, key, .. } = *named;
        let (effect, opensm_key) = (named.effect, named.opensm_key);
        let is_default = files.are_of_this_host() && rsm_config::is_default(path, named.default);
        let (severity, expected) = match is_default {
            true => (
                ConfigSeverity::Warning,
                format!("{section}.{key} is left out: {effect}, as with OpenSM on this host"),
            ),
            false => (
                ConfigSeverity::Error,
                format!(
                    "expected the file, without which {effect}: copy it there, or delete the line if OpenSM ran without it"
                ),
            ),
        };
        let place = self.origins.of(section, key).unwrap_or("opensm.conf");
        let found = format!("{opensm_key} names {}, which is not there", file.display());
        let finding = line::finding(place, severity, found, expected);
        self.findings.push(finding);
        None
    }

    /// Makes the configuration name the map of node names below the root. OpenSM and rsm both run
    /// without a missing map.
    fn resolve_names(&mut self, files: &Files) {
        let Some(named) = self.config.names.file.take() else {
            return;
        };
        let file = files.under(&named);
        if is_present(&file) {
            self.config.names.file = Some(file);
            return;
        }
        let place = self.origins.of("names", "file").unwrap_or("opensm.conf");
        self.findings.push(line::finding(
            place,
            ConfigSeverity::Warning,
            format!(
                "node_name_map_name names {}, which is not there",
                named.display()
            ),
            "names.file is left out, and nodes have their descriptions as names".to_owned(),
        ));
    }

    /// Whether a file has an error, which forbids writing.
    pub fn has_errors(&self) -> bool {
        any_error(&self.findings)
    }

    /// Formats the configuration as a file.
    ///
    /// # Errors
    /// The text does not read back as the same configuration: a defect of rsm, not of the files.
    fn text(&self) -> Result<String, WriteError> {
        let short = self.config.short(&self.origins);
        let text = format!("# Written by rsm migrate from the files behind each key.\n{short}");
        let back = Config::parse(Path::new("rsm.toml"), &text);
        match back.map(|back| back.config == self.config) {
            Ok(true) => Ok(text),
            Ok(false) => Err(WriteError::Unfaithful),
            Err(source) => Err(WriteError::Refused { source }),
        }
    }
}

/// File whose absence extends the rights of hosts.
struct NamedFile {
    /// Section of rsm's setting.
    section: &'static str,
    /// Key of rsm's setting.
    key: &'static str,
    /// OpenSM's key for the setting.
    opensm_key: &'static str,
    /// File name that OpenSM writes into every configuration.
    default: &'static str,
    /// Effect of running without the file.
    effect: &'static str,
}

/// The file of partitions.
const PARTITION_FILE: NamedFile = NamedFile {
    section: "partitions",
    key: "file",
    opensm_key: "partition_config_file",
    default: rsm_config::PARTITIONS,
    effect: "every port is a full member of the default partition",
};

/// The file of the QoS policy.
const POLICY: NamedFile = NamedFile {
    section: "qos",
    key: "policy_file",
    opensm_key: "qos_policy_file",
    default: rsm_config::QOS_POLICY,
    effect: "paths have the service levels of partitions and of the engine",
};

/// Warnings about keys that a file sets more than once. OpenSM and rsm both use the last value.
fn repeated_keys(conf: &Path, outcomes: &[KeyOutcome]) -> Vec<ConfigFinding> {
    let mut first = std::collections::BTreeMap::new();
    let again = outcomes.iter().filter_map(|outcome| {
        let before = first.insert(outcome.key.as_str(), outcome.line)?;
        Some(rsm_config::ConfigFinding {
            file: conf.to_owned(),
            line: outcome.line,
            column: 1,
            severity: ConfigSeverity::Warning,
            found: format!("{} is in line {before}, too", outcome.key),
            expected: "the last one counts: delete the other".to_owned(),
        })
    });
    again.collect()
}

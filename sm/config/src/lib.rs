//! The configuration: rsm's own TOML, and the files that operators of OpenSM already have.
//!
//! A file is read as a whole. Every error is reported with its place, the text found and the text
//! expected; a file with an error has no effect at all. [`Config::sample`] documents every key.
//!
//! Input: files and their text. Output: a [`Config`], the policies for planner, sweep, monitor and
//! SA, and findings about the files. [`overlay`] has the partitions that operators change at run
//! time, [`m_keys`] the keys of ports.
//!
//! The crate must never know a subnet: only the planner can find whether a port has a given name or
//! GUID.

#[macro_use]
mod sections;

mod c_number;
mod categories_file;
mod changes;
mod check;
mod congestion_policy;
mod congestion_values;
mod convert;
mod design_file;
mod enums;
mod file_kind;
mod finding;
mod guid2lid;
mod guid_file;
mod health_policy;
mod known_key;
mod line_file;
mod load;
mod m_key_files;
pub mod m_keys;
mod named_files;
mod node_names;
mod non_default_keys;
mod notify;
mod opensm;
pub mod overlay;
mod partitions;
mod policy_files;
mod prefix_routes;
mod qos_policy;
mod rate_limits;
mod sa_key_file;
mod sample;
mod schema;
mod suggest;
mod switch_rules;
mod tables_file;
#[cfg(test)]
mod tests;
mod text_file;
mod toml_file;
mod torus_file;
mod value;
mod vl_tables;

pub use c_number::number;
pub use categories_file::parse_categories;
pub use changes::ChangedKey;
pub use check::{CheckReport, check};
pub use congestion_policy::{CongestionPolicy, KeyPolicy, SwitchPorts};
pub use congestion_values::{CctEntries, CctEntry, PerLevel, PortMaskValue};
pub use design_file::parse_design;
pub use enums::{
    AdaptiveRouting, AggregationNodes, Enforcement, Fdr10, HostileHosts, MKeyMode, SmLid,
    StoreBackend, SyslogFacility, Takeover, TrustMode, Virtualization,
};
pub use file_kind::FileKind;
pub use finding::{ConfigFinding, ConfigSeverity};
pub use finding::{Findings, any_error};
pub use guid_file::parse_guid_file;
pub use guid2lid::{Guid2Lid, parse_guid2lid};
pub use health_policy::{HealthPolicy, Isolate, Symptom, SymptomLimits};
pub use known_key::KNOWN_KEY;
pub use load::Loaded;
pub use m_key_files::{CableEnd, guid2mkey_entry, neighbors_entry};
pub use m_key_files::{load_m_key_secrets, parse_m_key_secrets};
pub use named_files::with_files;
pub use node_names::{load_node_names, parse_node_names};
pub use non_default_keys::KeyOrigins;
pub use notify::{EventKinds, HttpUrl, SyslogAddress, load_headers};
pub use opensm::{DEFAULT_PLACE, PARTITIONS, QOS_POLICY, is_default, read as read_opensm};
pub use opensm::{KeyGroup, KeyOutcome};
pub use partitions::{
    Membership, Owned, OwnedKind, Partition, PartitionGroup, PartitionLoss, PartitionMembers,
    PartitionOrigin, Partitions, Protection, Protections, Rule, load_partitions, parse_partitions,
};
pub use policy_files::PolicyFiles;
pub use prefix_routes::{PrefixRoutes, RouterPort, parse_prefix_routes};
pub use qos_policy::{
    GroupKind, MatchRule, PortGroup, QosLevel, QosPolicy, Ranges, load_qos_policy, parse_qos_policy,
};
pub use rate_limits::{LevelLimits, RateLimits, parse_rate_limits};
pub use sa_key_file::{SA_KEY_FILE, load_sa_key};
pub use sample::{KeyReference, SectionReference};
pub use schema::{
    ApiConfig, Config, CongestionConfig, CountersConfig, DesignConfig, DumpConfig, FlapConfig,
    HealthConfig, HttpConfig, LidConfig, LinkConfig, LogConfig, NamesConfig, NotifyConfig,
    PartitionConfig, QosConfig, RoutingConfig, SaRulesConfig, SmConfig, StateConfig, StoreConfig,
    SweepConfig,
};
pub use schema::{Applies, CongestionKeys, QosKeys};
pub use switch_rules::{
    load_port_order, load_switch_rules, parse_hop_weights, parse_port_order, parse_switch_ids,
    parse_uncounted_ports,
};
pub use tables_file::load_tables;
pub use text_file::{ConfigError, FILE_MAX, NotText};
pub use torus_file::{load_torus_layout, parse_torus_layout};
pub use vl_tables::{SlToVl, VlWeights};

use std::collections::BTreeSet;
use std::path::Path;

use rsm_ids::Guid;
use rsm_routing::engine::Categories;

/// Reads the file that `routing.categories_file` names.
///
/// # Errors
///
/// Fails if the file cannot be read, or has any error.
pub fn load_categories(file: &Path) -> Result<Categories, ConfigError> {
    text_file::load(file, parse_categories)
}

/// Reads the file that `routing.root_guid_file` names.
///
/// # Errors
///
/// Fails if the file cannot be read, or has any error.
pub fn load_guid_file(file: &Path) -> Result<BTreeSet<Guid>, ConfigError> {
    text_file::load(file, parse_guid_file)
}

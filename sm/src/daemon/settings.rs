//! From the configuration file to the settings of the core and the SA.

use std::sync::Arc;
use std::time::Duration;

use rsm_mad::client::ClientConfig;
use rsm_routing::engine::{Categories, Category};

use crate::config::{
    Config, ConfigError, ConfigFinding, ConfigSeverity, NodeNames, PartitionConfig, Partitions,
    PrefixRoutes, RoutingConfig, load_categories, load_guid_file, load_node_names, load_partitions,
    load_prefix_routes, load_tables,
};
use crate::core;
use crate::core::role::Identity;
use crate::findings::{Finding, FindingKind, Severity, Subject};
use crate::plan::policy::{DampingPolicy, Policy, PortPolicy, RebalancePolicy};
use crate::qos::Qos;
use crate::sa::{self, mcast::GroupRules};

/// The core's settings by `config`, with `in_force` as the present partitions. Reads the files that
/// `config` names.
///
/// # Errors
/// One of these files cannot be used.
pub(super) fn core_config(
    config: &Config,
    accept_credit_loops: bool,
    in_force: Option<&Partitions>,
) -> Result<core::CoreConfig, ConfigError> {
    let root_guids = match &config.routing.root_guid_file {
        Some(file) => load_guid_file(file)?.into_iter().collect(),
        None => Vec::new(),
    };
    let tables = match &config.routing.tables_file {
        Some(file) => Some(Arc::new(load_tables(file)?)),
        None => None,
    };
    let policy = Policy {
        lmc: config.lids.lmc,
        lmc_enhanced_port0: config.lids.lmc_esp0,
        ports: port_policy(config),
        engine: config.routing.engine,
        root_guids,
        tables,
        engine_options: config.routing.engine_options.clone(),
        categories: Arc::new(categories(&config.routing)?),
        compute_is_listed: config.routing.compute_guid_file.is_some(),
        rails: config.routing.rails,
        connect_roots: config.routing.connect_roots,
        routes_multicast: config.routing.multicast,
        partitions: Arc::new(partitions(&config.partitions, in_force)?),
        prefix_routes: Arc::new(match &config.sa.prefix_routes_file {
            Some(file) => load_prefix_routes(file)?,
            None => PrefixRoutes::default(),
        }),
        enforcement: config.partitions.enforcement,
        qos: Qos::of(&config.qos, config.links.max_op_vls).map(Arc::new),
        accept_credit_loops,
    };
    Ok(core::CoreConfig {
        policy: Arc::new(policy),
        damping: DampingPolicy {
            threshold: config.flap.threshold,
            window: millis(config.flap.window_ms),
            hold: millis(config.flap.hold_ms),
        },
        rebalance: RebalancePolicy {
            after: millis(config.routing.rebalance_after_ms),
            blocks: config.routing.rebalance_blocks as usize,
        },
        takeover: config.sm.takeover,
        identity: Identity {
            priority: config.sm.priority,
            sm_key: config.sm.sm_key,
        },
        ignores_others: config.sm.ignore_others,
        light_sweep: millis(config.sweep.light_interval_ms),
        reads_on_trap: config.sweep.on_trap,
        starts_inactive: config.sm.inactive,
        standby_poll: millis(config.sm.poll_interval_ms),
        poll_limit: config.sm.poll_limit,
        client: client_config(config),
        names: Arc::new(names(config)?),
        ..core::CoreConfig::default()
    })
}

/// The operator's categories of ports, by the files that `config` names.
fn categories(config: &RoutingConfig) -> Result<Categories, ConfigError> {
    let mut categories = Categories::new();
    if let Some(file) = &config.compute_guid_file {
        let ports = load_guid_file(file)?.into_iter();
        categories.extend(ports.map(|port| (port, Category::Compute)));
    }
    if let Some(file) = &config.storage_guid_file {
        let ports = load_guid_file(file)?.into_iter();
        categories.extend(ports.map(|port| (port, Category::Storage)));
    }
    if let Some(file) = &config.categories_file {
        categories.extend(load_categories(file)?);
    }
    Ok(categories)
}

/// The operator's names of nodes, by the file that `config` names.
fn names(config: &Config) -> Result<NodeNames, ConfigError> {
    let Some(file) = &config.names.file else {
        return Ok(NodeNames::default());
    };
    let (names, findings) = load_node_names(file)?;
    log_findings(&findings);
    Ok(names)
}

/// The partitions of the file, if there is one. If the file of the partitions in force has
/// vanished, that is an error, even if it was optional at the start: without it all ports could
/// talk to each other.
fn partitions(
    config: &PartitionConfig,
    in_force: Option<&Partitions>,
) -> Result<Partitions, ConfigError> {
    let same = in_force.is_some_and(|partitions| partitions.file == config.file);
    let config = PartitionConfig {
        file_may_be_missing: config.file_may_be_missing && !same,
        ..config.clone()
    };
    let (partitions, findings) = load_partitions(&config)?;
    log_findings(&findings);
    Ok(partitions)
}

/// Logs findings about a configuration that is put in force: notes only on request.
pub fn log_findings(findings: &[ConfigFinding]) {
    for finding in findings {
        match finding.severity {
            ConfigSeverity::Note => tracing::debug!("{finding}"),
            ConfigSeverity::Warning | ConfigSeverity::Error => tracing::warn!("{finding}"),
        }
    }
}

/// The most errors of a refused configuration that are shown one by one.
const ERRORS_SHOWN: usize = 10;

/// The findings about a configuration that was refused.
pub(super) fn refusal(error: &ConfigError) -> Vec<Finding> {
    let finding = |what: String| {
        Finding::new(
            FindingKind::ConfigRefused,
            Subject::Subnet,
            Severity::Error,
            format!("{what}; the configuration in force stays"),
        )
    };
    let ConfigError::Invalid { findings } = error else {
        let mut text = error.to_string();
        if let Some(cause) = std::error::Error::source(error) {
            text = format!("{text}: {cause}");
        }
        return vec![finding(text)];
    };
    let is_error = |finding: &&ConfigFinding| finding.severity == ConfigSeverity::Error;
    let errors: Vec<_> = findings.iter().filter(is_error).collect();
    let mut shown: Vec<_> = errors
        .iter()
        .take(ERRORS_SHOWN)
        .map(|error| finding(error.to_string()))
        .collect();
    if errors.len() > ERRORS_SHOWN {
        let more = errors.len() - ERRORS_SHOWN;
        shown.push(finding(format!("{more} more errors: see rsm check-config")));
    }
    shown
}

/// The SA's settings by `config`.
pub(super) fn sa_config(config: &Config) -> sa::SaConfig {
    sa::SaConfig {
        sm_key: config.sm.sa_key.unwrap_or(config.sm.sm_key),
        groups: GroupRules {
            validate_joins: config.sa.validate_joins,
            validate_ipoib: config.sa.validate_ipoib,
            consolidate_ipv6_snm: config.sa.consolidate_ipv6_snm,
        },
    }
}

fn port_policy(config: &Config) -> PortPolicy {
    let sm = &config.sm;
    PortPolicy {
        subnet_prefix: sm.subnet_prefix,
        m_key: sm.m_key,
        m_key_protect: sm.m_key_protection_level,
        m_key_lease_s: sm.m_key_lease_period_s,
        sm_sl: sm.sm_sl,
        reregisters: sm.client_reregister,
        links: config.links.clone(),
    }
}

fn client_config(config: &Config) -> ClientConfig {
    let defaults = ClientConfig::default();
    let (sweep, window) = (&config.sweep, config.sweep.window);
    ClientConfig {
        initial_window: defaults.initial_window.min(window),
        min_window: defaults.min_window.min(window),
        max_window: window,
        target_cap: sweep.per_target,
        retries: sweep.retries,
        initial_timeout: millis(sweep.timeout_initial_ms),
        timeout_floor: millis(sweep.timeout_floor_ms),
        timeout_ceiling: millis(sweep.timeout_ceiling_ms),
        busy_delay: defaults.busy_delay.min(millis(sweep.timeout_ceiling_ms)),
        first_generation: defaults.first_generation,
    }
}

fn millis(value: u32) -> Duration {
    Duration::from_millis(u64::from(value))
}

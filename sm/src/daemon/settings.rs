//! Converts the configuration file to the settings of the core and the SA.

use std::sync::Arc;
use std::time::Duration;

use rsm_api::with_causes;
use rsm_config::m_keys::{ForeignKeys, MKeyPolicy, Secret};
use rsm_config::{
    Config, ConfigError, ConfigFinding, ConfigSeverity, HealthConfig, HealthPolicy, MKeyMode,
    PartitionConfig, Partitions, PolicyFiles, SmLid, StoreBackend, Symptom, SymptomLimits,
    Virtualization, load_tables,
};
use rsm_core::{CoreConfig, MastershipPolicy};
use rsm_mad::client::ClientConfig;
use rsm_model::findings::{Finding, FindingKind, Severity, Subject};
use rsm_plan::adaptive::AdaptivePolicy;
use rsm_plan::policy::{DampingPolicy, OrderPolicy, Policy, PortPolicy, RebalancePolicy};
use rsm_plan::qos::Qos;
use rsm_sa::{self, mcast::GroupRules};
use rsm_state::Identity;
use rsm_store::Checksum;
use rsm_store::etcd::{EtcdOptions, TlsFiles};

/// Settings of the core from `config`. Reads the files that `config` names, and logs findings about
/// them. `in_force` are the present partitions; `None` at the start.
///
/// # Errors
/// One of the files cannot be used, or a key needs a feature that this program was built without.
pub(super) fn core_config(
    config: &Config,
    accept_credit_loops: bool,
    in_force: Option<&Partitions>,
) -> Result<CoreConfig, ConfigError> {
    if config.sweep.error_correction && cfg!(not(feature = "error-correction")) {
        return Err(ConfigError::NotBuilt {
            key: "sweep.error_correction",
            feature: "error-correction",
        });
    }
    let mut checksums = checksums(config);
    let config = &Config {
        partitions: partition_config(&config.partitions, in_force),
        ..config.clone()
    };
    let (mut files, findings) = PolicyFiles::load(config)?;
    log_findings(&findings);
    let (names, design) = (
        std::mem::take(&mut files.names),
        std::mem::take(&mut files.design),
    );
    let policy = plan_policy(config, files, accept_credit_loops)?;
    if let Some(secret) = policy.ports.m_keys.secret() {
        checksums.push_str(&format!(" m_key_secret={:016x}", secret.fingerprint()));
    }
    Ok(CoreConfig {
        damping: DampingPolicy {
            threshold: config.flap.threshold,
            window: millis(config.flap.window_ms),
            hold: millis(config.flap.hold_ms),
        },
        health: health_policy(&config.health),
        rebalance: RebalancePolicy {
            after: millis(config.routing.rebalance_after_ms),
            blocks: config.routing.rebalance_blocks as usize,
        },
        takeover: config.sm.takeover,
        mastership: MastershipPolicy {
            identity: Identity {
                priority: config.sm.priority,
                sm_key: config.sm.sm_key,
            },
            master_priority: config
                .sm
                .master_priority
                .unwrap_or(match config.store.backend {
                    StoreBackend::Etcd => STAYS_MASTER,
                    StoreBackend::Sled => 0,
                }),
            allowed_managers: config.sm.allowed_sm_guids.clone(),
            ignores_others: config.sm.ignore_others,
            starts_inactive: config.sm.inactive,
            standby_poll: millis(config.sm.poll_interval_ms),
            poll_limit: config.sm.poll_limit,
            checksums,
            ..MastershipPolicy::default()
        },
        light_sweep: millis(config.sweep.light_interval_ms),
        reads_on_trap: config.sweep.on_trap,
        asks_capabilities: config.sweep.capabilities
            || policy.adaptive.is_on()
            || config.sm.aggregation_nodes.enables().is_some(),
        reads_error_correction: config.sweep.error_correction,
        manages_vports: config.sm.virtualization == Virtualization::On,
        congestion: Arc::new(config.congestion.policy()),
        reassigns_lids: config.lids.reassign,
        client: client_config(config),
        names: Arc::new(names),
        design: Arc::new(design),
        policy: Arc::new(policy),
        ..CoreConfig::default()
    })
}

/// Policy of the planner from `config` and the files that it names. Reads the file of forwarding
/// tables.
fn plan_policy(
    config: &Config,
    files: PolicyFiles,
    accept_credit_loops: bool,
) -> Result<Policy, ConfigError> {
    let tables = match &config.routing.tables_file {
        Some(file) => Some(Arc::new(load_tables(file)?)),
        None => None,
    };
    if let Some(policy) = &files.qos_policy {
        log_findings(&policy.undefined_partitions(&files.partitions));
    }
    let adaptive = AdaptivePolicy {
        mode: config.routing.adaptive,
        sls: config.routing.adaptive_sls,
        devices: config.routing.adaptive_devices.iter().copied().collect(),
    };
    Ok(Policy {
        aggregation_nodes: config.sm.aggregation_nodes.enables(),
        adaptive,
        lmc: config.lids.lmc,
        lmc_enhanced_port0: config.lids.lmc_esp0,
        floating_lid: match config.sm.lid {
            SmLid::Auto => config.store.backend == StoreBackend::Etcd,
            SmLid::Floating => true,
            SmLid::Port => false,
        },
        ports: port_policy(config, files.m_key_secrets, files.foreign_m_keys),
        engine: config.routing.engine,
        engines: [config.routing.engine]
            .into_iter()
            .chain(config.routing.fallback_engines.iter().copied())
            .collect(),
        switch_rules: Arc::new(files.switch_rules),
        order: OrderPolicy {
            listed: Arc::new(files.port_order),
            categories: Arc::new(files.categories),
            compute_is_listed: config.routing.compute_guid_file.is_some(),
            rails: config.routing.rails,
        },
        layout: files.layout.map(Arc::new),
        root_guids: files.roots.into_iter().collect(),
        tables,
        engine_options: config.routing.engine_options.clone(),
        connect_roots: config.routing.connect_roots,
        routes_multicast: config.routing.multicast,
        partitions: Arc::new(files.partitions),
        prefix_routes: Arc::new(files.prefix_routes),
        enforcement: config.partitions.enforcement,
        qos: Qos::of(&config.qos, config.links.max_op_vls).map(Arc::new),
        qos_policy: files.qos_policy.map(Arc::new),
        rate_limits: files.rate_limits.map(Arc::new),
        accept_credit_loops,
    })
}

/// Policy about unhealthy links, from `config`.
pub(super) fn health_policy(config: &HealthConfig) -> HealthPolicy {
    let limit = |symptom| match symptom {
        Symptom::SymbolErrors => config.symbol_errors,
        Symptom::LinkRecoveries => config.link_recoveries,
        Symptom::LinkDowns => config.link_downs,
        Symptom::ReceiveErrors => config.receive_errors,
        Symptom::IntegrityErrors => config.integrity_errors,
        Symptom::Overruns => config.overruns,
        Symptom::Reports => config.reports,
    };
    HealthPolicy {
        isolate: config.isolate,
        disables_babbling: config.disable_babbling,
        limits: SymptomLimits(Symptom::ALL.map(limit)),
        quiet: Duration::from_secs(config.quiet_s.into()),
    }
}

/// Priority of a master that shares its store, if the operator sets none: above the priority of
/// every standby except standbys with the highest priority.
const STAYS_MASTER: u8 = 14;

/// Settings that earlier versions do not know, in the form in which [`Debug`] shows their defaults.
/// Checksums omit settings with their defaults, so that managers of two versions agree until one of
/// them sets such a key.
const LATER_KEYS: [&str; 3] = [
    "sa_key_file: None, ",
    ", trust_mode: Report, trust_proxies: []",
    ", hostile_hosts: Report",
];

/// Checksums of the settings that all managers of a subnet must share, as `section=16 digits`. The
/// checksums include the contents of the files that settings name.
fn checksums(config: &Config) -> String {
    let mut config = config.clone();
    // Each manager has its own values for these settings.
    (config.sm.guid, config.sm.priority, config.sm.inactive) = (None, 0, false);
    config.sm.master_priority = None;
    config.lids.reassign = false;
    // A checksum in the store must reveal nothing about keys.
    (config.sm.m_key, config.sm.sm_key, config.sm.sa_key) = (0, 0, None);
    (config.sm.m_key_secret_file, config.sm.sa_key_file) = (None, None);
    (config.sm.m_key_table_file, config.sm.m_key_neighbors_file) = (None, None);
    config.congestion.keys.cc_key = 0;
    let routing = &config.routing;
    let files = [
        ("routing", &routing.root_guid_file),
        ("routing", &routing.tables_file),
        ("routing", &routing.categories_file),
        ("routing", &routing.storage_guid_file),
        ("routing", &routing.compute_guid_file),
        ("routing", &routing.port_order_file),
        ("routing", &routing.hop_weights_file),
        ("routing", &routing.uncounted_ports_file),
        ("routing", &routing.switch_ids_file),
        ("routing", &routing.torus_file),
        ("sa", &config.sa.prefix_routes_file),
        ("partitions", &config.partitions.file),
        ("qos", &config.qos.policy_file),
        ("qos", &config.qos.rate_limits_file),
    ];
    let sections = [
        ("sm", format!("{:?}", config.sm)),
        ("sweep", format!("{:?}", config.sweep)),
        ("sa", format!("{:?}", config.sa)),
        ("lids", format!("{:?}", config.lids)),
        ("links", format!("{:?}", config.links)),
        ("routing", format!("{:?}", config.routing)),
        ("partitions", format!("{:?}", config.partitions)),
        ("qos", format!("{:?}", config.qos)),
        ("health", format!("{:?}", config.health)),
        ("flap", format!("{:?}", config.flap)),
        ("congestion", format!("{:?}", config.congestion)),
    ];
    let sums = sections.map(|(section, text)| {
        let text = LATER_KEYS
            .iter()
            .fold(text, |text, key| text.replace(key, ""));
        let mut sum = Checksum::new().with(text.as_bytes());
        for (_, file) in files.iter().filter(|(of, _)| *of == section) {
            if let Some(contents) = file.as_ref().and_then(|file| std::fs::read(file).ok()) {
                sum = sum.with(&contents);
            }
        }
        format!("{section}={:016x}", sum.value())
    });
    sums.join(" ")
}

/// Source of the partitions. Once partitions from a file are in force, the file must exist at each
/// further reading, even if it was optional at the start: without it, all ports could communicate.
fn partition_config(config: &PartitionConfig, in_force: Option<&Partitions>) -> PartitionConfig {
    let are_in_force = in_force.is_some_and(|partitions| partitions.file.is_some());
    PartitionConfig {
        file_may_be_missing: config.file_may_be_missing && !are_in_force,
        ..config.clone()
    }
}

/// Logs findings about a configuration that comes into force. Logs notes only on request.
pub fn log_findings(findings: &[ConfigFinding]) {
    for finding in findings {
        match finding.severity {
            ConfigSeverity::Note => tracing::debug!("{finding}"),
            ConfigSeverity::Warning | ConfigSeverity::Error => tracing::warn!("{finding}"),
        }
    }
}

/// Maximum number of errors of a refused configuration that have a finding each.
const ERRORS_SHOWN: usize = 10;

/// Findings about a refused configuration.
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
        return vec![finding(with_causes(error))];
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

/// Address of the store that several managers share, and the options of the connection; `None`
/// without such a store.
pub(super) fn shared_store(config: &Config) -> Option<EtcdOptions> {
    let store = &config.store;
    if store.backend == StoreBackend::Sled {
        return None;
    }
    let file = store.password_file.clone();
    let user = file.filter(|_| !store.user.is_empty());
    Some(EtcdOptions {
        endpoints: store.endpoints.clone(),
        prefix: format!(
            "{}/{:016x}",
            store.prefix.trim_end_matches('/'),
            config.sm.subnet_prefix
        ),
        tls: TlsFiles {
            ca: store.ca_file.clone(),
            certificate: store.cert_file.clone(),
            key: store.key_file.clone(),
        },
        user: user.map(|file| (store.user.clone(), file)),
    })
}

/// Settings of the SA from `config`. Reads the file with the SA's key.
///
/// # Errors
/// The file with the key cannot be used.
pub(super) fn sa_config(config: &Config) -> Result<rsm_sa::SaConfig, ConfigError> {
    let key = config.sm.own_sa_key()?;
    if key.is_none() {
        tracing::info!(
            "the SA has no key of its own (sm.sa_key_file), and trusts no request: none sees keys"
        );
    }
    Ok(rsm_sa::SaConfig {
        sm_key: key.unwrap_or(0),
        lists_vports: config.sa.virtual_port_records,
        groups: GroupRules {
            validate_joins: config.sa.validate_joins,
            validate_ipoib: config.sa.validate_ipoib,
            consolidate_ipv6_snm: config.sa.consolidate_ipv6_snm,
        },
        trust: rsm_sa::TrustRules {
            mode: config.sa.trust_mode,
            proxies: Arc::new(config.sa.trust_proxies.iter().copied().collect()),
        },
    })
}

/// Values for PortInfo, with keys from files.
fn port_policy(config: &Config, secrets: Vec<Secret>, foreign: ForeignKeys) -> PortPolicy {
    let sm = &config.sm;
    PortPolicy {
        subnet_prefix: sm.subnet_prefix,
        m_keys: MKeyPolicy {
            one: sm.m_key,
            per_port: sm.m_keys == MKeyMode::PerPort,
            secrets: secrets.into(),
            foreign: Arc::new(foreign),
            ..MKeyPolicy::default()
        },
        m_key_protect: sm.m_key_protection_level,
        m_key_lease_s: sm.m_key_lease_period_s,
        sm_sl: sm.sm_sl,
        reregisters: sm.client_reregister,
        links: config.links.clone(),
    }
}

/// Settings of the client that sends SMPs: window, retries and timeouts.
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

/// Duration of a key in milliseconds.
fn millis(value: u32) -> Duration {
    Duration::from_millis(u64::from(value))
}

#[cfg(test)]
mod checksum_tests {
    use super::*;

    #[test]
    fn checksums_depend_on_shared_settings_and_contents_of_files_but_not_on_keys() {
        let directory = tempfile::tempdir().unwrap();
        let of = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            checksums(&config)
        };
        let file = directory.path().join("guids");
        std::fs::write(&file, "0x1\n").unwrap();
        let with_file: [&dyn Fn(&mut Config); 2] = [
            &|config| config.sa.prefix_routes_file = Some(file.clone()),
            &|config| config.routing.compute_guid_file = Some(file.clone()),
        ];
        let before = with_file.map(of);
        std::fs::write(&file, "0x2\n").unwrap();
        for (change, before) in with_file.into_iter().zip(before) {
            assert_ne!(of(change), before);
        }
        let plain = of(&|_| ());
        assert_ne!(of(&|config| config.sa.validate_joins ^= true), plain);
        assert_eq!(of(&|config| config.sm.m_key = 7), plain);
        assert_eq!(of(&|config| config.sm.priority = 7), plain);
    }

    #[test]
    fn checksums_of_the_default_settings_are_those_of_earlier_versions() {
        // Checksums that a manager of commit f07ebaa3 publishes.
        let earlier = [
            "sm=46c384bd7dc756cc sweep=25bc320ecbca646e sa=38dd7385125ac3e8 lids=0b1137b458237ad8",
            "links=205bfb4ca478005e routing=d345e58f588be7b4 partitions=cb7a18c5567e1e38",
            "qos=25ab1b386af00442 health=def3056dad19533f flap=f3ff6db0659a06fb congestion=cd2a5d56c45d859a",
        ];
        assert_eq!(checksums(&Config::default()), earlier.join(" "));
    }
}

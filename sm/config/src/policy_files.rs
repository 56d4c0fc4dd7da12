//! The files that define the policy of a plan, read once: their contents, and the findings about
//! them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rsm_ids::Guid;
use rsm_model::NodeNames;
use rsm_model::design::Design;
use rsm_routing::engine::{Categories, Category, Numbers, TorusLayout};
use rsm_routing::topology::SwitchRules;

use super::finding::ConfigFinding;
use super::m_key_files::{parse_m_key_neighbors, parse_m_key_table};
use super::m_keys::{ForeignKeys, Secret};
use super::switch_rules::{
    parse_hop_weights, parse_port_order, parse_switch_ids, parse_uncounted_ports,
};
use super::text_file::{ConfigError, Parsed, findings_of_file, read_text, usable};
use super::{
    Config, Partitions, PrefixRoutes, QosPolicy, RateLimits, RoutingConfig, load_m_key_secrets,
    load_node_names, load_partitions, load_qos_policy, parse_categories, parse_design,
    parse_guid_file, parse_prefix_routes, parse_rate_limits, parse_torus_layout, sa_key_file,
};

/// Contents of the files that define the policy of a plan. A content is empty if the configuration
/// names no file for it. Files of forwarding tables are omitted: such a file can be as large as
/// memory, and its parser reports only errors.
#[derive(Default)]
pub struct PolicyFiles {
    /// Switches at the roots, from `routing.root_guid_file`.
    pub roots: BTreeSet<Guid>,
    /// Categories of ports, from `routing.compute_guid_file`, `routing.storage_guid_file` and
    /// `routing.categories_file`. For a port in several files, the last of these files counts.
    pub categories: Categories,
    /// Rules about switches and ports, from three files of section `routing`.
    pub switch_rules: SwitchRules,
    /// Order of ports, from `routing.port_order_file`.
    pub port_order: Numbers,
    /// Layout of a torus, from `routing.torus_file`.
    pub layout: Option<TorusLayout>,
    /// Routers to other subnets, from `sa.prefix_routes_file`.
    pub prefix_routes: PrefixRoutes,
    /// Limits of the rates of ports, from `qos.rate_limits_file`.
    pub rate_limits: Option<RateLimits>,
    /// Planned cables, from `design.file`.
    pub design: Design,
    /// Keys of another manager, from `sm.m_key_table_file` and `sm.m_key_neighbors_file`.
    pub foreign_m_keys: ForeignKeys,
    /// Secrets from which M_Keys are derived, from `sm.m_key_secret_file`.
    pub m_key_secrets: Vec<Secret>,
    /// Names of nodes, from `names.file`.
    pub names: NodeNames,
    /// Partitions; without a file, every port is a full member of the default partition.
    pub partitions: Partitions,
    /// Rules about service levels, from `qos.policy_file`.
    pub qos_policy: Option<QosPolicy>,
}

impl PolicyFiles {
    /// Reads the files. Returns their contents with warnings and notes about them.
    ///
    /// # Errors
    ///
    /// All findings, if a file cannot be read or has an error.
    pub fn load(config: &Config) -> Result<(PolicyFiles, Vec<ConfigFinding>), ConfigError> {
        usable(PolicyFiles::read(config))
    }

    /// Reads the files. Returns their contents, as far as they can be used, with all findings.
    pub(super) fn read(config: &Config) -> Parsed<PolicyFiles> {
        let mut files = FileReader::default();
        let (sm, routing, qos) = (&config.sm, &config.routing, &config.qos);
        let mut read = PolicyFiles {
            roots: files.lines(&routing.root_guid_file, "root_guid_file", parse_guid_file),
            foreign_m_keys: ForeignKeys {
                by_port: files.lines(&sm.m_key_table_file, "m_key_table_file", parse_m_key_table),
                neighbors: files.lines(
                    &sm.m_key_neighbors_file,
                    "m_key_neighbors_file",
                    parse_m_key_neighbors,
                ),
            },
            categories: files.guids_of_categories(routing),
            switch_rules: files.switch_rules(routing),
            port_order: files.lines(
                &routing.port_order_file,
                "port_order_file",
                parse_port_order,
            ),
            layout: files.text(&routing.torus_file, "torus_file", parse_torus_layout),
            ..PolicyFiles::default()
        };
        let categories = &routing.categories_file;
        let categories: Categories = files.lines(categories, "categories_file", parse_categories);
        read.categories.extend(categories);
        read.prefix_routes = files.lines(
            &config.sa.prefix_routes_file,
            "sa.prefix_routes_file",
            parse_prefix_routes,
        );
        let limits = &qos.rate_limits_file;
        read.rate_limits = files.text(limits, "qos.rate_limits_file", parse_rate_limits);
        read.design = files.lines(&config.design.file, "design.file", parse_design);
        if let Some(file) = &sm.m_key_secret_file {
            let secrets = load_m_key_secrets(file).map(|secrets| (secrets, Vec::new()));
            read.m_key_secrets = files.content_of(file, "m_key_secret_file", secrets);
        }
        files.findings.extend(sa_key_file::findings(sm));
        if let Some(file) = &config.names.file {
            read.names = files.content_of(file, "names.file", Ok(load_node_names(file)));
        }
        let partitions = load_partitions(&config.partitions);
        let file = config.partitions.file.as_deref().unwrap_or(Path::new(""));
        read.partitions = files.content_of(file, "[partitions]", partitions);
        if let Some(file) = &qos.policy_file {
            read.qos_policy = files.content_of(file, "qos.policy_file", load_qos_policy(qos));
        }
        (read, files.findings)
    }
}

/// Findings about the files read so far.
#[derive(Default)]
struct FileReader {
    findings: Vec<ConfigFinding>,
}

impl FileReader {
    /// Content of `file`, which `key` names; `None` without a file, empty if it cannot be read.
    fn text<T: Default>(
        &mut self,
        file: &Option<PathBuf>,
        key: &str,
        parse: fn(&Path, &str) -> Parsed<T>,
    ) -> Option<T> {
        let file = file.as_ref()?;
        let read = read_text(file).map(|text| parse(file, &text));
        Some(self.content_of(file, key, read))
    }

    /// Content of `file`, which `key` names; empty without a file, or if it cannot be read.
    fn lines<T: Default>(
        &mut self,
        file: &Option<PathBuf>,
        key: &str,
        parse: fn(&Path, &str) -> Parsed<T>,
    ) -> T {
        self.text(file, key, parse).unwrap_or_default()
    }

    /// Content of `file`, which `key` names, from the result `read`; empty if it cannot be read.
    fn content_of<T: Default>(
        &mut self,
        file: &Path,
        key: &str,
        read: Result<Parsed<T>, ConfigError>,
    ) -> T {
        let (content, findings) = findings_of_file(file, key, read);
        self.findings.extend(findings);
        content
    }

    fn guids_of_categories(&mut self, routing: &RoutingConfig) -> Categories {
        let files = [
            (
                &routing.compute_guid_file,
                "compute_guid_file",
                Category::Compute,
            ),
            (
                &routing.storage_guid_file,
                "storage_guid_file",
                Category::Storage,
            ),
        ];
        let mut categories = Categories::new();
        for (file, key, category) in files {
            let ports: BTreeSet<Guid> = self.lines(file, key, parse_guid_file);
            categories.extend(ports.into_iter().map(|port| (port, category)));
        }
        categories
    }

    fn switch_rules(&mut self, routing: &RoutingConfig) -> SwitchRules {
        let hops = &routing.hop_weights_file;
        let uncounted = &routing.uncounted_ports_file;
        SwitchRules {
            hops: self.lines(hops, "hop_weights_file", parse_hop_weights),
            uncounted: self.lines(uncounted, "uncounted_ports_file", parse_uncounted_ports),
            ids: self.lines(
                &routing.switch_ids_file,
                "switch_ids_file",
                parse_switch_ids,
            ),
        }
    }
}

//! Writes hints and plans as files and variables that other programs read.
//!
//! Hosts and switches choose their own names: every renderer writes only characters that its format
//! permits, and refuses other characters. A format is a file beside this one and a line of
//! [`EXPORTERS`].

mod cluster;
mod dra;
mod error;
mod groups;
mod ibacm;
mod job;
mod left_out;
mod metrics;
mod mooncake;
mod nccl;
mod peers;
mod pods;
mod ports;
mod process;
mod slurm;
mod text;
mod why;

pub use crate::nccl::{NcclVersion, ParseVersionError};
pub use cluster::{kubernetes_labels, topograph_graph, volcano_hypernodes};
pub use dra::resource_slices;
pub use error::RenderError;
pub use groups::host_list;
pub use ibacm::ibacm_paths;
pub use job::{JOB_FILES, JobFile, LaunchedRank, launched_ranks};
pub use metrics::metrics;
pub use mooncake::{mooncake_json, mooncake_script};
pub use nccl::{nccl_environment, nccl_topology};
pub use peers::{host_pairs, peer_map};
pub use process::{nvshmem_script, ucx_script};
pub use slurm::{slurm_block, slurm_tree, slurm_yaml};
pub use text::describe;
pub use why::why_unknown;

use rsm_ids::rate_code;

use crate::Analysis;

/// The options of a format, beside hosts and fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportOptions {
    /// The name of the host, for formats of one host.
    pub host: String,
    /// The version of NCCL that will read the file.
    pub nccl: NcclVersion,
    /// The domain of Kubernetes labels.
    pub label_domain: String,
}

impl ExportOptions {
    /// The default domain of labels, for schedulers that follow topograph.
    pub const LABEL_DOMAIN: &'static str = "fabric.topograph.run";
}

/// A format for another program.
#[derive(Debug)]
pub struct Exporter {
    /// The name of the format on command lines and in requests.
    pub name: &'static str,
    /// The description of the format, for lists.
    pub about: &'static str,
    /// Whether a file describes one host.
    pub of_host: bool,
    /// Whether a file has a place for each GPU host of the fabric.
    lists_hosts: bool,
    render: Render,
}

impl Exporter {
    /// The format with a name; `None` if no format has this name.
    pub fn named(name: &str) -> Option<&'static Exporter> {
        EXPORTERS.iter().find(|exporter| exporter.name == name)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The host is unknown, or hosts or fabric lack data that the format needs.
    pub fn render(
        &self,
        analysis: &Analysis,
        options: &ExportOptions,
    ) -> Result<String, RenderError> {
        (self.render)(analysis, options)
    }

    /// The hosts and ports that the file lacks because they are not in the fabric, as sentences for
    /// the operator.
    pub fn left_out(&self, analysis: &Analysis, options: &ExportOptions) -> Vec<String> {
        left_out::left_out(analysis, self, options)
    }
}

/// All formats, formats of one host first.
pub const EXPORTERS: &[Exporter] = &[
    of_host("nccl-env", "NCCL's environment", |analysis, options| {
        nccl_environment(analysis, &options.host, options.nccl)
    }),
    of_host("nccl-xml", "NCCL's topology", |analysis, options| {
        nccl_topology(analysis, &options.host, options.nccl)
    }),
    of_host(
        "ucx",
        "UCX's environment by local rank, a shell script",
        |analysis, options| ucx_script(analysis, &options.host),
    ),
    of_host(
        "nvshmem",
        "NVSHMEM's environment by local rank, a script",
        |analysis, options| nvshmem_script(analysis, &options.host),
    ),
    of_host(
        "mooncake",
        "Mooncake's matrix, for processes that see all GPUs",
        |analysis, options| mooncake_json(analysis, &options.host),
    ),
    of_host(
        "mooncake-script",
        "Mooncake's matrix by process, a shell script",
        |analysis, options| mooncake_script(analysis, &options.host),
    ),
    of_host(
        "ibacm",
        "Paths for ibacm (opensm_full_v1)",
        |analysis, options| ibacm_paths(analysis, &options.host, rate_code),
    ),
    Exporter {
        lists_hosts: true,
        ..of_host(
            "peers",
            "Ports of each GPU here and at each other host",
            |analysis, options| peer_map(analysis, &options.host),
        )
    },
    of_fabric(
        "slurm-tree",
        "Slurm's topology.conf, tree",
        |analysis, _| slurm_tree(analysis),
    ),
    of_fabric(
        "slurm-block",
        "Slurm's topology.conf, blocks",
        |analysis, _| slurm_block(analysis),
    ),
    of_fabric("slurm-yaml", "Slurm's topology.yaml", |analysis, _| {
        slurm_yaml(analysis)
    }),
    of_fabric("topograph", "topograph's graph", |analysis, _| {
        topograph_graph(analysis)
    }),
    of_fabric(
        "kubernetes",
        "Labels of Kubernetes' nodes, as commands",
        |analysis, options| kubernetes_labels(analysis, &options.label_domain),
    ),
    of_fabric(
        "dra",
        "Kubernetes' attributes, as ResourceSlices",
        |analysis, options| resource_slices(analysis, &options.label_domain),
    ),
    of_fabric("volcano", "Volcano's HyperNodes", |analysis, _| {
        volcano_hypernodes(analysis)
    }),
    Exporter {
        lists_hosts: false,
        ..of_fabric(
            "metrics",
            "Prometheus' textfile for node_exporter",
            |analysis, _| Ok(metrics(analysis)),
        )
    },
];

type Render = fn(&Analysis, &ExportOptions) -> Result<String, RenderError>;

/// An exporter of a file for one host.
const fn of_host(name: &'static str, about: &'static str, render: Render) -> Exporter {
    Exporter {
        name,
        about,
        of_host: true,
        lists_hosts: false,
        render,
    }
}

/// An exporter of a file about all hosts.
const fn of_fabric(name: &'static str, about: &'static str, render: Render) -> Exporter {
    Exporter {
        name,
        about,
        of_host: false,
        lists_hosts: true,
        render,
    }
}

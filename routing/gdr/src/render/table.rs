//! The formats that files for other programs have. A format is a line of [`EXPORTERS`] and a file that renders it.

use rsm_ids::rate_code;

use super::{NcclVersion, RenderError};
use super::{cluster, ibacm, metrics, nccl, process, slurm};
use crate::Analysis;

/// What a format can be told beside hosts and fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportOptions {
    /// The host, for formats that are of one.
    pub host: String,
    /// The version of NCCL that is to read the file.
    pub nccl: NcclVersion,
    /// The domain of labels of Kubernetes.
    pub label_domain: String,
}

impl ExportOptions {
    /// The domain that schedulers look for which follow topograph.
    pub const LABEL_DOMAIN: &'static str = "fabric.topograph.run";
}

/// A format.
#[derive(Debug)]
pub struct Exporter {
    /// Its name on command lines and in requests.
    pub name: &'static str,
    /// What it is, for lists of formats.
    pub about: &'static str,
    /// Whether a file is of one host.
    pub of_host: bool,
    render: Render,
}

impl Exporter {
    /// The format of that name.
    pub fn named(name: &str) -> Option<&'static Exporter> {
        EXPORTERS.iter().find(|exporter| exporter.name == name)
    }

    /// The file.
    ///
    /// # Errors
    /// The host is not known, or hosts or fabric lack what the format needs.
    pub fn render(
        &self,
        analysis: &Analysis,
        options: &ExportOptions,
    ) -> Result<String, RenderError> {
        (self.render)(analysis, options)
    }
}

/// Every format, those of one host first.
pub const EXPORTERS: &[Exporter] = &[
    of_host("nccl-env", "NCCL's environment", |analysis, options| {
        nccl::nccl_environment(analysis, &options.host, options.nccl)
    }),
    of_host("nccl-xml", "NCCL's topology", |analysis, options| {
        nccl::nccl_topology(analysis, &options.host, options.nccl)
    }),
    of_host(
        "ucx",
        "UCX's environment for each local rank, as a shell script",
        |analysis, options| process::ucx_script(analysis, &options.host),
    ),
    of_host("nvshmem", "NVSHMEM's environment", |analysis, options| {
        process::nvshmem_environment(analysis, &options.host)
    }),
    of_host(
        "mooncake",
        "Mooncake's matrix of adapters",
        |analysis, options| process::mooncake_json(analysis, &options.host),
    ),
    of_host(
        "ibacm",
        "Paths for ibacm (opensm_full_v1)",
        |analysis, options| ibacm::ibacm_paths(analysis, &options.host, rate_code),
    ),
    of_fabric(
        "slurm-tree",
        "Slurm's topology.conf, tree",
        |analysis, _| slurm::slurm_tree(analysis),
    ),
    of_fabric(
        "slurm-block",
        "Slurm's topology.conf, blocks",
        |analysis, _| slurm::slurm_block(analysis),
    ),
    of_fabric("slurm-yaml", "Slurm's topology.yaml", |analysis, _| {
        slurm::slurm_yaml(analysis)
    }),
    of_fabric("topograph", "topograph's graph", |analysis, _| {
        cluster::topograph_graph(analysis)
    }),
    of_fabric(
        "kubernetes",
        "Labels of Kubernetes' nodes, as commands",
        |analysis, options| cluster::kubernetes_labels(analysis, &options.label_domain),
    ),
    of_fabric("volcano", "Volcano's HyperNodes", |analysis, _| {
        cluster::volcano_hypernodes(analysis)
    }),
    of_fabric(
        "metrics",
        "Figures for Prometheus, for node_exporter's textfile collector",
        |analysis, _| Ok(metrics::metrics(analysis)),
    ),
];

type Render = fn(&Analysis, &ExportOptions) -> Result<String, RenderError>;

const fn of_host(name: &'static str, about: &'static str, render: Render) -> Exporter {
    Exporter {
        name,
        about,
        of_host: true,
        render,
    }
}

const fn of_fabric(name: &'static str, about: &'static str, render: Render) -> Exporter {
    Exporter {
        name,
        about,
        of_host: false,
        render,
    }
}

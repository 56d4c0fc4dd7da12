//! Hints and plans as the files and variables that other programs read.
//!
//! Names come from hosts and switches, which name themselves: every renderer writes only what its
//! format takes, and refuses the rest.

mod cluster;
mod error;
mod groups;
mod ibacm;
mod job;
mod metrics;
mod nccl;
mod ports;
mod process;
mod slurm;
mod table;
mod text;

pub use cluster::{kubernetes_labels, topograph_graph, volcano_hypernodes};
pub use error::RenderError;
pub use ibacm::ibacm_paths;
pub use job::{ompi_hostfile, ompi_rankfile};
pub use metrics::metrics;
pub use nccl::{NcclVersion, ParseVersionError, nccl_environment, nccl_topology};
pub use process::{mooncake_json, nvshmem_environment, ucx_script};
pub use slurm::{slurm_block, slurm_tree, slurm_yaml};
pub use table::{EXPORTERS, ExportOptions, Exporter};
pub use text::describe;

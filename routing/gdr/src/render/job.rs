//! Files for launchers of jobs: Open MPI, Slurm, MPICH, and for libraries that connect pairs.

use std::fmt::Write as _;

use crate::Analysis;
use crate::job::JobPlan;

/// One process of a job, as files for launchers name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchedRank {
    /// The name of its host.
    pub host: String,
    /// The index of its GPU.
    pub gpu: u32,
    /// The rail of the GPU's port.
    pub rail: Option<u32>,
    /// The GPU's port (`mlx5_0:1`), where it has one in the fabric, with a name.
    pub port: Option<String>,
}

/// A format of a job's file.
#[derive(Debug)]
pub struct JobFile {
    /// Its name on command lines.
    pub name: &'static str,
    /// A description, for lists of formats.
    pub about: &'static str,
    render: fn(&[LaunchedRank]) -> String,
}

impl JobFile {
    /// The format of that name.
    pub fn named(name: &str) -> Option<&'static JobFile> {
        JOB_FILES.iter().find(|file| file.name == name)
    }

    /// The file of these processes, in the order of their ranks; those of a host stand together.
    pub fn render(&self, ranks: &[LaunchedRank]) -> String {
        (self.render)(ranks)
    }
}

/// Every format.
pub const JOB_FILES: &[JobFile] = &[
    JobFile {
        name: "ompi-hostfile",
        about: "Open MPI's host file",
        render: |ranks| by_host(ranks, |host, count| format!("{host} slots={count}")),
    },
    JobFile {
        name: "ompi-rankfile",
        about: "Open MPI's rank file, with the number of the GPU as the slot",
        render: ompi_rankfile,
    },
    JobFile {
        name: "slurm-hostfile",
        about: "Slurm's SLURM_HOSTFILE, for srun --distribution=arbitrary",
        render: |ranks| ranks.iter().map(|rank| rank.host.clone() + "\n").collect(),
    },
    JobFile {
        name: "mpich-hostfile",
        about: "The host file of MPICH and Intel MPI (Hydra)",
        render: |ranks| by_host(ranks, |host, count| format!("{host}:{count}")),
    },
    JobFile {
        name: "ports",
        about: "Host, GPU, port and rail of each rank, so that any two know both ends",
        render: ports,
    },
];

/// The processes of a plan.
pub fn launched_ranks(analysis: &Analysis, plan: &JobPlan) -> Vec<LaunchedRank> {
    let of_plan = plan.ranks.iter();
    let launched = of_plan.map(|rank| {
        let host = &analysis.hosts[rank.host];
        let hint = &analysis.hints[rank.host][rank.gpu];
        let port = hint
            .port()
            .filter(|&port| host.joined[port].port().is_some());
        let port = port.map(|port| &host.inventory.hca_ports[port]);
        LaunchedRank {
            host: host.name.clone(),
            gpu: host.inventory.gpus[rank.gpu].index.into(),
            rail: rank.rail.map(u32::from),
            port: port.and_then(|port| Some(format!("{}:{}", port.device.as_ref()?, port.port))),
        }
    });
    launched.collect()
}

/// A line for each host.
fn by_host(ranks: &[LaunchedRank], line: impl Fn(&str, usize) -> String) -> String {
    let hosts = ranks.chunk_by(|one, next| one.host == next.host);
    hosts
        .map(|of_host| line(&of_host[0].host, of_host.len()) + "\n")
        .collect()
}

fn ompi_rankfile(ranks: &[LaunchedRank]) -> String {
    let numbered = ranks.iter().enumerate();
    numbered.fold(String::new(), |mut out, (number, rank)| {
        let _ = writeln!(out, "rank {number}={} slot={}", rank.host, rank.gpu);
        out
    })
}

fn ports(ranks: &[LaunchedRank]) -> String {
    let head = "# rank\thost\tgpu\tport\trail\n".to_owned();
    ranks
        .iter()
        .enumerate()
        .fold(head, |mut out, (number, rank)| {
            let port = rank.port.as_deref().unwrap_or("-");
            let rail = rank
                .rail
                .map_or_else(|| "-".to_owned(), |rail| rail.to_string());
            let LaunchedRank { host, gpu, .. } = rank;
            let _ = writeln!(out, "{number}\t{host}\t{gpu}\t{port}\t{rail}");
            out
        })
}

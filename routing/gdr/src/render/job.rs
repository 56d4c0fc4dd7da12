//! Files for job launchers (Open MPI, Slurm, MPICH), and for libraries that connect pairs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Analysis;
use crate::job::JobPlan;

/// One process of a job, for the files of launchers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchedRank {
    /// The name of the host.
    pub host: String,
    /// The index of the GPU.
    pub gpu: u32,
    /// The rail of the GPU's port.
    pub rail: Option<u32>,
    /// The GPU's port (`mlx5_0:1`); `None` unless it is in the fabric and has a name.
    pub port: Option<String>,
}

/// A file format for jobs.
#[derive(Debug)]
pub struct JobFile {
    /// The name of the format on command lines.
    pub name: &'static str,
    /// The description of the format, for lists.
    pub about: &'static str,
    render: fn(&[LaunchedRank]) -> String,
}

impl JobFile {
    /// The format with a name; `None` if no format has this name.
    pub fn named(name: &str) -> Option<&'static JobFile> {
        JOB_FILES.iter().find(|file| file.name == name)
    }

    /// Writes the file for these processes, in the order of their ranks; the processes of a host
    /// must be adjacent.
    pub fn render(&self, ranks: &[LaunchedRank]) -> String {
        (self.render)(ranks)
    }
}

/// All formats of job files.
pub const JOB_FILES: &[JobFile] = &[
    JobFile {
        name: "ompi-hostfile",
        about: "Open MPI's host file",
        render: |ranks| by_host(ranks, |host, count| format!("{host} slots={count}")),
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
        name: "rank-gpus",
        about: "A shell script that each process sources: the GPU that the plan has for it",
        render: rank_gpus,
    },
    JobFile {
        name: "ports",
        about: "Host, GPU, port and rail of each rank, so that any two know both ends",
        render: ports,
    },
];

/// The processes of a plan, for the files of launchers.
pub fn launched_ranks(analysis: &Analysis, plan: &JobPlan) -> Vec<LaunchedRank> {
    let of_plan = plan.ranks.iter();
    let launched = of_plan.map(|rank| {
        let host = &analysis.hosts[rank.host];
        let hint = &analysis.hints[rank.host][rank.gpu];
        let port = hint
            .port()
            .filter(|&port| host.joined[port].port().is_some())
            .map(|port| &host.inventory.hca_ports[port]);
        LaunchedRank {
            host: host.name.clone(),
            gpu: host.inventory.gpus[rank.gpu].index.into(),
            rail: rank.rail.map(u32::from),
            port: port.and_then(|port| Some(format!("{}:{}", port.device.as_ref()?, port.port))),
        }
    });
    launched.collect()
}

/// Writes a line for each host.
fn by_host(ranks: &[LaunchedRank], line: impl Fn(&str, usize) -> String) -> String {
    let hosts = ranks.chunk_by(|one, next| one.host == next.host);
    hosts
        .map(|of_host| line(&of_host[0].host, of_host.len()) + "\n")
        .collect()
}

/// Writes a script that gives each process its GPU, because launchers' files state only hosts: a
/// library gives the k-th process of a host the k-th GPU. Open MPI's rank files do not help: a
/// `slot` is a processor core by hwloc's logical number, which inventories lack, and a rank without
/// a slot is refused.
fn rank_gpus(ranks: &[LaunchedRank]) -> String {
    let mut by_order: BTreeMap<Vec<u32>, Vec<&str>> = BTreeMap::new();
    let mut by_label: BTreeMap<&str, usize> = BTreeMap::new();
    for of_host in ranks.chunk_by(|one, next| one.host == next.host) {
        let host = of_host[0].host.as_str();
        let gpus = of_host.iter().map(|rank| rank.gpu).collect();
        by_order.entry(gpus).or_default().push(host);
        *by_label.entry(label(host)).or_default() += 1;
    }
    let mut out = RANK_GPUS.to_owned();
    for (gpus, hosts) in by_order {
        for host in hosts {
            // The kernel's name of a host may have a domain that the inventory's name lacks, or
            // lack a domain that the inventory's name has.
            let short = label(host);
            match by_label.get(short) {
                Some(1) => {
                    let _ = write!(out, "{short}|{short}.*");
                }
                _ => out.push_str(host),
            }
            out.push('|');
        }
        out.pop();
        let gpus: Vec<String> = gpus.iter().map(u32::to_string).collect();
        let _ = writeln!(out, ") gpus={} ;;", gpus.join(","));
    }
    out.push_str(CHOOSE_RANK_GPU);
    out
}

/// The part of a host name before the domain.
fn label(host: &str) -> &str {
    host.split_once('.').map_or(host, |(label, _)| label)
}

/// The beginning of a script for processes: it finds the number of the process on its host.
const RANK_GPUS: &str = "\
# The GPU of each process, for jobs that have all GPUs of their hosts. Source it before the program starts,
# and before the scripts for UCX and NVSHMEM.
export CUDA_DEVICE_ORDER=PCI_BUS_ID
rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${MPI_LOCALRANKID:-${PALS_LOCAL_RANKID:-${LOCAL_RANK:-}}}}}
gpus=
case \"$(uname -n)\" in
";

/// The end of that script. A process that sees only some of its host's GPUs keeps its setting: the
/// numbers of its GPUs may be its own.
const CHOOSE_RANK_GPU: &str = "\
esac
case \"$rank\" in
''|*[!0-9]*) gpu= ;;
*) gpu=$(printf '%s,\\n' \"$gpus\" | cut -d, -f$((rank + 1))) ;;
esac
visible=$(printf %s \"${CUDA_VISIBLE_DEVICES:-}\" | tr -d '[:blank:]')
case \"$gpu,$visible,\" in
,*) echo \"the plan has no GPU for process ${rank:-?} of $(uname -n)\" >&2 ;;
\"$gpu,,\"|*,\"$gpu\",*) export CUDA_VISIBLE_DEVICES=\"$gpu\" ;;
*) echo \"process $rank sees GPUs $visible alone: GPU $gpu of the plan is not set\" >&2 ;;
esac
";

/// Writes the host, GPU, port and rail of each rank, separated by tabs; `-` if unknown.
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

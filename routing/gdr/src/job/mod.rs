//! A job across hosts: the placement of its ranks, and the link loads of its traffic.

mod load;
mod pattern;

use std::collections::BTreeSet;

pub use load::PatternLoad;
pub use pattern::{ParsePatternError, Pattern};

use super::Analysis;
use super::findings::{GpuFindingKind, Severity};
use super::hosts::MAX_HOSTS;
use super::nccl::{NcclVersion, gpus_to_allow};
use load::Meter;

/// The maximum number of hosts of a job with an all-to-all pattern: n hosts have n² flows on each
/// rail. Other patterns accept all hosts of a subnet.
pub const MAX_ALL_TO_ALL_HOSTS: usize = 4096;

/// The request for the plan of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRequest {
    /// The names of the hosts in the order of the request, without duplicates. See
    /// [`Analysis::job_request`].
    pub hosts: Vec<String>,
    /// The number of hosts left out for lack of GPUs, if all hosts were requested.
    pub left_out: usize,
    /// The number of GPUs to use on each host.
    pub gpus_per_host: usize,
    /// The traffic pattern.
    pub pattern: Pattern,
}

/// The reason why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JobError {
    /// There are no hosts, or too many.
    #[error("{0} hosts: expected at least one with so many GPUs, and at most {MAX_HOSTS}")]
    HostCount(usize),
    /// There are more hosts than the maximum for an all-to-all.
    #[error(
        "{0} hosts: an all-to-all takes at most {MAX_ALL_TO_ALL_HOSTS}; name fewer, or take another pattern"
    )]
    AllToAll(usize),
    /// A host has no inventory.
    #[error("nothing is known of host `{0}`")]
    UnknownHost(String),
    /// A host is named twice.
    #[error("host `{0}` is named twice")]
    DuplicateHost(String),
    /// A host has fewer GPUs than requested, or the requested number is 0.
    #[error("{wanted} GPUs of host `{host}`: it has {found}")]
    Gpus {
        /// The name of the host.
        host: String,
        /// The number requested.
        wanted: usize,
        /// The number of GPUs that the host has.
        found: usize,
    },
}

/// One process of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rank {
    /// The position of the host in [`Analysis::hosts`].
    pub host: usize,
    /// The position of the GPU in the host's inventory.
    pub gpu: usize,
    /// The rail of the GPU's port; `None` if unknown.
    pub rail: Option<u16>,
}

/// The plan of a job.
#[derive(Clone, PartialEq, Debug)]
pub struct JobPlan {
    /// The hosts in the order of their ranks, by position in [`Analysis::hosts`].
    pub hosts: Vec<usize>,
    /// The processes in the order of their ranks: host by host, and within a host by rail.
    pub ranks: Vec<Rank>,
    /// The number of GPUs used on each host.
    pub gpus_per_host: usize,
    /// The traffic pattern.
    pub pattern: Pattern,
    /// The load of the pattern's flows in this order; `None` without tables.
    pub load: Option<PatternLoad>,
    /// The load of the flows with the hosts in the order of the request, and GPUs by index.
    pub load_as_given: Option<PatternLoad>,
    /// Obstacles to the job, as text for the operator.
    pub warnings: Vec<String>,
    /// The generation of the fabric for which the plan was made.
    pub generation: u64,
}

impl Analysis {
    /// Creates a request for the named hosts; with empty `names`, for all hosts that have enough
    /// GPUs.
    pub fn job_request(
        &self,
        names: Vec<String>,
        gpus_per_host: usize,
        pattern: Pattern,
    ) -> JobRequest {
        let is_all = names.is_empty();
        let mut hosts = names;
        let mut left_out = 0;
        for host in self.hosts.iter().filter(|_| is_all) {
            let gpus = host.inventory.gpus.len();
            match gpus >= gpus_per_host.max(1) {
                true => hosts.push(host.name.clone()),
                // A host without GPUs is never meant for a job.
                false => left_out += usize::from(gpus > 0),
            }
        }
        JobRequest {
            hosts,
            left_out,
            gpus_per_host,
            pattern,
        }
    }

    /// Computes the order of ranks for a job. Hosts are sorted by unit, within a unit by NVLink
    /// domain, and within a domain in the order of their cables. GPUs follow the rails, so that the
    /// k-th processes of all hosts communicate over the same leaf.
    ///
    /// # Errors
    /// The fabric or the inventories do not match the request.
    pub fn plan(&self, request: &JobRequest) -> Result<JobPlan, JobError> {
        let given = self.job_hosts(request)?;
        let mut hosts = given.clone();
        hosts.sort_by_cached_key(|&host| self.host_order(host));
        let by_rail = |host: usize| {
            let mut gpus: Vec<usize> = (0..self.hosts[host].inventory.gpus.len()).collect();
            gpus.sort_by_key(|&gpu| (self.hints[host][gpu].rail.unwrap_or(u16::MAX), gpu));
            gpus
        };
        let by_index = |host: usize| (0..self.hosts[host].inventory.gpus.len()).collect::<Vec<_>>();
        let ranks = self.ranks(&hosts, request.gpus_per_host, by_rail);
        let meter = self.fabric.as_ref().and_then(Meter::new);
        let measure = |ranks: &[Rank]| {
            Some(meter?.measure(self, ranks, request.gpus_per_host, request.pattern))
        };
        let load = measure(&ranks);
        let ranks_as_given = self.ranks(&given, request.gpus_per_host, by_index);
        let load_as_given = match ranks_as_given == ranks {
            true => load,
            false => measure(&ranks_as_given),
        };
        let mut warnings = self.warnings(&hosts, &ranks, load.as_ref());
        if request.left_out > 0 {
            let hosts = match request.left_out {
                1 => "1 host has fewer than".to_owned(),
                count => format!("{count} hosts have fewer than"),
            };
            warnings.push(format!(
                "{hosts} {} GPUs, left out: name hosts to have them, with fewer GPUs of each",
                request.gpus_per_host
            ));
        }
        Ok(JobPlan {
            hosts,
            ranks,
            gpus_per_host: request.gpus_per_host,
            pattern: request.pattern,
            load,
            load_as_given,
            warnings,
            generation: self.fabric.as_ref().map_or(0, |fabric| fabric.generation),
        })
    }

    /// The positions of the requested hosts, in the order of the request.
    fn job_hosts(&self, request: &JobRequest) -> Result<Vec<usize>, JobError> {
        let count = request.hosts.len();
        if !(1..=MAX_HOSTS).contains(&count) {
            return Err(JobError::HostCount(count));
        }
        if request.pattern == Pattern::AllToAll && count > MAX_ALL_TO_ALL_HOSTS {
            return Err(JobError::AllToAll(count));
        }
        let mut seen = BTreeSet::new();
        let mut places = Vec::with_capacity(request.hosts.len());
        for name in &request.hosts {
            let place = self
                .place(name)
                .ok_or_else(|| JobError::UnknownHost(name.clone()))?;
            if !seen.insert(place) {
                return Err(JobError::DuplicateHost(name.clone()));
            }
            let found = self.hosts[place].inventory.gpus.len();
            let wanted = request.gpus_per_host;
            if !(1..=found).contains(&wanted) {
                return Err(JobError::Gpus {
                    host: name.clone(),
                    wanted,
                    found,
                });
            }
            places.push(place);
        }
        Ok(places)
    }

    /// The sort key of a host: its unit, its NVLink domain, its position in the unit, and its
    /// position among all hosts. Routes are spread by the same positions in the units.
    fn host_order(&self, host: usize) -> (u32, Option<String>, u32, usize) {
        let entry = &self.hosts[host];
        let unit = self.rails.unit_of[host].unwrap_or(u32::MAX);
        let domain = entry.inventory.domain.as_ref().map(ToString::to_string);
        let place = self.fabric.as_ref().and_then(|fabric| {
            let joined: Vec<u32> = entry
                .compute_slots()
                .filter_map(|port| entry.joined[port].port())
                .collect();
            let mut ports = joined.iter().map(|&port| fabric.port(port));
            let position = fabric.positions.place(ports.clone().map(|port| port.guid));
            position.or_else(|| Some(u32::from(ports.next()?.leaf_port.0)))
        });
        (unit, domain, place.unwrap_or(u32::MAX), host)
    }

    /// The ranks of the first `count` GPUs of each host, in the order that `gpus` gives them.
    fn ranks(
        &self,
        hosts: &[usize],
        count: usize,
        gpus: impl Fn(usize) -> Vec<usize>,
    ) -> Vec<Rank> {
        let of_host = |&host: &usize| {
            let mut gpus = gpus(host);
            gpus.truncate(count);
            gpus.into_iter().map(move |gpu| (host, gpu))
        };
        let rank = |(host, gpu): (usize, usize)| Rank {
            host,
            gpu,
            rail: self.hints[host][gpu].rail,
        };
        hosts.iter().flat_map(of_host).map(rank).collect()
    }

    /// The warnings about findings of the hosts, and about obstacles in hosts, GPUs and flows.
    fn warnings(&self, hosts: &[usize], ranks: &[Rank], load: Option<&PatternLoad>) -> Vec<String> {
        let mut warnings = Vec::new();
        let in_job: BTreeSet<&str> = hosts
            .iter()
            .map(|&host| self.hosts[host].name.as_str())
            .collect();
        for finding in &self.findings {
            let concerns = finding.hosts().any(|host| in_job.contains(host))
                || finding
                    .ports
                    .iter()
                    .any(|port| in_job.contains(port.host.as_str()));
            let serious = finding.kind.severity() > Severity::Info
                || finding.kind == GpuFindingKind::Unjoined;
            if concerns && serious {
                warnings.push(format!(
                    "{}: {}: {}",
                    finding.subject(),
                    finding.kind,
                    finding.evidence
                ));
            }
        }
        let without: Vec<String> = ranks
            .iter()
            .filter(|rank| self.port_of(rank).is_none())
            .map(|rank| {
                let host = &self.hosts[rank.host];
                format!("{} GPU{}", host.name, host.inventory.gpus[rank.gpu].index)
            })
            .collect();
        if hosts.len() > 1 && !without.is_empty() {
            let first = &without[0];
            warnings.push(match without.len() {
                1 => format!("1 GPU has no port in the fabric: {first}"),
                count => format!("{count} GPUs have no port in the fabric, the first is {first}"),
            });
        }
        let far = ranks.iter().filter(|rank| {
            let allowed = gpus_to_allow(self, rank.host, NcclVersion::RAILS);
            allowed.contains(&rank.gpu)
        });
        match far.count() {
            0 => {}
            1 => warnings.push(
                "1 GPU needs NCCL_NET_GDR_LEVEL for GPUDirect RDMA, which the file nccl-env sets"
                    .to_owned(),
            ),
            far => warnings.push(format!(
                "{far} GPUs need NCCL_NET_GDR_LEVEL for GPUDirect RDMA, which the file nccl-env sets"
            )),
        }
        warnings.extend(self.gpu_order_warning(ranks));
        let widths: BTreeSet<usize> = hosts
            .iter()
            .map(|&host| self.hosts[host].compute_slots().count())
            .collect();
        if widths.len() > 1 {
            warnings.push("hosts with different numbers of compute ports".to_owned());
        }
        if let Some(load) = load
            && load.lost > 0
        {
            warnings.push(format!(
                "{} of {} flows do not arrive with the tables as they are",
                load.lost, load.flows
            ));
        }
        warnings
    }

    /// A warning about hosts whose GPUs do not follow the order of the rails. Launchers know only
    /// hosts: the k-th process of such a host would run on GPU k instead of rail k.
    fn gpu_order_warning(&self, ranks: &[Rank]) -> Option<String> {
        let of_hosts = ranks.chunk_by(|one, next| one.host == next.host);
        let is_in_other_order = |of_host: &&[Rank]| {
            let mut gpus = of_host.iter().map(|rank| rank.gpu).zip(0..);
            gpus.any(|(gpu, number)| gpu != number)
        };
        let hosts: Vec<usize> = of_hosts
            .filter(is_in_other_order)
            .map(|ranks| ranks[0].host)
            .collect();
        let first = &self.hosts[*hosts.first()?].name;
        let subject = match hosts.len() {
            1 => format!("{first} numbers its GPUs in another order than its rails"),
            count => format!(
                "{count} hosts number their GPUs in another order than their rails, the first is {first}"
            ),
        };
        Some(format!(
            "{subject}: with a list of hosts alone the k-th process of a host runs on GPU k, and the load is not \
             the planned one; source the file rank-gpus in each process"
        ))
    }

    /// The port of the fabric that a rank uses.
    pub(super) fn port_of(&self, rank: &Rank) -> Option<u32> {
        let port = self.hints[rank.host][rank.gpu].port()?;
        self.hosts[rank.host].joined[port].port()
    }
}

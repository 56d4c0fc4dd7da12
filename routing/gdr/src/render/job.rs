//! Files for launchers of jobs: Open MPI.

use std::fmt::Write as _;

use crate::Analysis;
use crate::job::JobPlan;

/// Open MPI's host file: the hosts in the order of their ranks.
pub fn ompi_hostfile(analysis: &Analysis, plan: &JobPlan) -> String {
    plan.hosts.iter().fold(String::new(), |mut out, &host| {
        let _ = writeln!(
            out,
            "{} slots={}",
            analysis.hosts[host].name, plan.gpus_per_host
        );
        out
    })
}

/// Open MPI's rank file: each rank's host, and the slot with the number of its GPU.
pub fn ompi_rankfile(analysis: &Analysis, plan: &JobPlan) -> String {
    plan.ranks
        .iter()
        .enumerate()
        .fold(String::new(), |mut out, (number, rank)| {
            let host = &analysis.hosts[rank.host];
            let gpu = host.inventory.gpus[rank.gpu].index;
            let _ = writeln!(out, "rank {number}={} slot={gpu}", host.name);
            out
        })
}

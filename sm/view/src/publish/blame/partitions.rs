//! Finds hosts of a job that share no partition, and hosts of the job without traffic.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use rsm_mad::wire::attr::PKey;
use rsm_plan::Plan;
use rsm_sa::{can_talk, planned_keys};

use super::Case;
use super::evidence::{Evidence, Kind, Place};

/// Maximum number of hosts named; further hosts are counted.
const MAX_NAMED: usize = 3;

/// Traffic of a job's median host, in bytes per second, from which on a host without traffic is
/// conspicuous.
const BUSY_BYTES_PER_S: f64 = 10e6;

/// Share of the median below which a host counts as idle.
const IDLE_SHARE: f64 = 0.01;

/// The first hosts, and the number of further hosts: `host-1, host-2, host-3 and 4 more`.
fn list(hosts: &[&str]) -> String {
    let named = hosts[..hosts.len().min(MAX_NAMED)].join(", ");
    match hosts.len().saturating_sub(MAX_NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Number of ports of the planned fabric with which an end with these P_Keys can communicate.
fn reached(plan: &Plan, keys: &[PKey]) -> usize {
    let fabric = &plan.fabric;
    let ports = fabric
        .end_ports()
        .filter(|&(port, _)| can_talk(keys, planned_keys(fabric, plan, port)));
    ports.count()
}

impl Case<'_> {
    /// Hosts of the job that share no partition with other hosts of the job, by their index. Of two
    /// groups that cannot communicate, these are the hosts of the smaller one; of two equal ones, of
    /// the one that reaches fewer ports of the subnet.
    fn partitioned_hosts(&self) -> BTreeSet<usize> {
        let Some(plan) = self.published.plan() else {
            return BTreeSet::new();
        };
        let mut groups: BTreeMap<Vec<u16>, BTreeSet<usize>> = BTreeMap::new();
        for port in &self.job.ports {
            // The plan may be for an earlier fabric.
            let Some(at) = plan.fabric.find_port(port.key) else {
                continue;
            };
            let keys = planned_keys(&plan.fabric, plan, at).iter().map(|key| key.0);
            groups.entry(keys.collect()).or_default().insert(port.host);
        }
        let groups: Vec<(Vec<PKey>, BTreeSet<usize>)> = groups
            .into_iter()
            .map(|(keys, hosts)| (keys.into_iter().map(PKey).collect(), hosts))
            .collect();
        let mut partitioned: BTreeSet<usize> = BTreeSet::new();
        for (at, (these, hosts)) in groups.iter().enumerate() {
            if hosts.len() > 1 && !can_talk(these, these) {
                partitioned.extend(hosts);
            }
            for (those, others) in &groups[at + 1..] {
                if can_talk(these, those) {
                    continue;
                }
                let fewer = match hosts.len().cmp(&others.len()) {
                    Ordering::Less => hosts,
                    Ordering::Greater => others,
                    Ordering::Equal if reached(plan, these) < reached(plan, those) => hosts,
                    Ordering::Equal => others,
                };
                partitioned.extend(fewer);
            }
        }
        partitioned
    }

    /// Finds hosts that share no partition with other hosts of the job. Returns whether they are at
    /// least half of the job, which then fails whatever its links do.
    pub(super) fn find_partition_evidence(&self, found: &mut Vec<Evidence>) -> bool {
        let hosts: Vec<&str> = self
            .partitioned_hosts()
            .into_iter()
            .map(|host| self.job.hosts[host].as_str())
            .collect();
        let Some(first) = hosts.first() else {
            return false;
        };
        found.push(Evidence {
            kind: Kind::NoPartition,
            place: Place::Hosts(list(&hosts)),
            text: "these ports share no partition with others of the job: their packets are dropped by \
                   configuration"
                .to_owned(),
            from_unix_ms: 0,
            remedy: format!(
                "`rsmctl path {first} OTHER` says why; `rsmctl partitions` lists the partitions"
            ),
        });
        2 * hosts.len() >= self.job.hosts.len()
    }

    /// Finds hosts with almost no traffic while most hosts of the job have traffic: this is no
    /// evidence against the fabric, but shows where to look.
    pub(super) fn find_idle_hosts(&self, found: &mut Vec<Evidence>) {
        let fabric = self.published.fabric();
        let mut rates: Vec<Option<f64>> = vec![None; self.job.hosts.len()];
        for port in &self.job.ports {
            // The end at the switch is read more often.
            let ends = [fabric.port(port.at).peer, Some(port.key)]
                .into_iter()
                .flatten();
            let mut moves = ends.filter_map(|end| self.past.moves(end, self.since_unix_ms));
            if let Some(rate) = moves.find_map(|moves| moves.bytes_per_s) {
                *rates[port.host].get_or_insert(0.0) += rate;
            }
        }
        let mut known: Vec<f64> = rates.iter().flatten().copied().collect();
        known.sort_by(f64::total_cmp);
        let median = known.get(known.len() / 2).copied().unwrap_or(0.0);
        if median < BUSY_BYTES_PER_S {
            return;
        }
        let is_idle = |rate: &Option<f64>| rate.is_some_and(|rate| rate < IDLE_SHARE * median);
        let idle = self
            .job
            .hosts
            .iter()
            .zip(&rates)
            .filter(|(_, rate)| is_idle(rate));
        let hosts: Vec<&str> = idle.map(|(host, _)| host.as_str()).collect();
        if !hosts.is_empty() {
            found.push(Evidence {
                kind: Kind::Idle,
                place: Place::Hosts(list(&hosts)),
                text: format!(
                    "next to no traffic, while the job's median host has {:.1} GB/s",
                    median / 1e9
                ),
                from_unix_ms: 0,
                remedy: "look there first: a paused or dead process, a stuck GPU".to_owned(),
            });
        }
    }
}

//! Inventories and fabric joined: everything that hints, findings, plans and files are read from.

use rayon::prelude::*;

use super::config::Config;
use super::fabric::Fabric;
use super::findings::{self, Finding};
use super::hints::{self, GpuHint};
use super::host::Host;
use super::hosts::Inventory;
use super::join::{JoinConflict, Joined, NotJoined, join};
use super::rails::Rails;
use super::roles::{LeafUse, roles};

/// What can be said about the GPUs of a fabric at one moment. Immutable.
#[derive(Clone, Debug)]
pub struct Analysis {
    /// What was joined with; `None` for hosts on their own.
    pub fabric: Option<Fabric>,
    /// What the operator said.
    pub config: Config,
    /// The hosts in the order of their names.
    pub hosts: Vec<Host>,
    /// Units and rails, with hosts by their places in `hosts`.
    pub rails: Rails,
    /// The hints of each host, by place; one for each GPU.
    pub hints: Vec<Vec<GpuHint>>,
    /// What is wrong, in the order of hosts and kinds.
    pub findings: Vec<Finding>,
}

impl Analysis {
    /// Joins what hosts told of themselves with the fabric, or looks at hosts alone.
    pub fn new(inventory: &Inventory, fabric: Option<Fabric>, config: Config) -> Analysis {
        let records = inventory.all(fabric.as_ref());
        let joins: Vec<(Vec<Joined>, Vec<JoinConflict>)> = records
            .par_iter()
            .map(|(name, record)| match &fabric {
                Some(fabric) => join(name, &record.inventory, fabric),
                None => (
                    vec![Joined::Not(NotJoined::NotInFabric); record.inventory.hca_ports.len()],
                    Vec::new(),
                ),
            })
            .collect();
        let mut taken: Vec<Option<usize>> =
            vec![None; fabric.as_ref().map_or(0, |f| f.ports().len())];
        let mut hosts = Vec::with_capacity(records.len());
        let mut conflicts = Vec::new();
        for (place, ((name, record), (mut joined, conflict))) in
            records.into_iter().zip(joins).enumerate()
        {
            for port in &mut joined {
                if let Some(index) = port.port() {
                    match taken[index as usize] {
                        Some(_) => *port = Joined::Not(NotJoined::Taken),
                        None => taken[index as usize] = Some(place),
                    }
                }
            }
            conflicts.push(conflict);
            hosts.push(Host {
                name,
                inventory: record.inventory,
                origin: record.origin,
                seen: record.seen,
                joined,
                roles: Vec::new(),
                slots: Vec::new(),
            });
        }
        let of_gpu_hosts: Vec<bool> = taken
            .iter()
            .map(|host| host.is_some_and(|host| !hosts[host].inventory.gpus.is_empty()))
            .collect();
        let leaves = fabric
            .as_ref()
            .map(|fabric| LeafUse::new(fabric, &of_gpu_hosts));
        hosts.par_iter_mut().for_each(|host| {
            let seen = fabric.as_ref().zip(leaves.as_ref());
            host.roles = roles(&host.inventory, &host.joined, seen, &config.roles);
            host.number_slots();
        });
        let rails = match &fabric {
            Some(fabric) => Rails::find(&hosts, fabric),
            None => Rails {
                units: Vec::new(),
                unit_of: vec![None; hosts.len()],
            },
        };
        let hints = hosts
            .par_iter()
            .enumerate()
            .map(|(place, host)| {
                hints::hints(host, place, fabric.as_ref().map(|fabric| (fabric, &rails)))
            })
            .collect();
        let mut analysis = Analysis {
            fabric,
            config,
            hosts,
            rails,
            hints,
            findings: Vec::new(),
        };
        analysis.findings = findings::find(&analysis, &conflicts);
        analysis
    }

    /// The place of a host in [`Analysis::hosts`].
    pub fn place(&self, name: &str) -> Option<usize> {
        self.hosts
            .binary_search_by(|host| host.name.as_str().cmp(name))
            .ok()
    }
}

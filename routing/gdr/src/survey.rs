//! Inventories joined with the fabric, as far as roles, units and rails: the common part of hints
//! and the order of routes.

use rayon::prelude::*;

use super::config::AnalysisConfig;
use super::fabric::GpuFabric;
use super::host::Host;
use super::hosts::GpuInventory;
use super::join::{JoinConflict, Joined, NotJoined, join};
use super::rails::Rails;
use super::roles::{LeafUse, roles};

/// Every host, with the roles and rails of its ports.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The hosts in the order of their names.
    pub hosts: Vec<Host>,
    /// Units and rails, with hosts by their places in `hosts`.
    pub rails: Rails,
    /// The disagreements of sources, by host.
    pub(super) conflicts: Vec<Vec<JoinConflict>>,
}

impl Survey {
    /// Joins the hosts' inventories with the fabric, or analyses hosts alone.
    pub fn new(
        inventory: &GpuInventory,
        fabric: Option<&GpuFabric>,
        config: &AnalysisConfig,
    ) -> Survey {
        let records = inventory.all(fabric);
        let joins: Vec<(Vec<Joined>, Vec<JoinConflict>)> = records
            .par_iter()
            .map(|(name, record)| match fabric {
                Some(fabric) => join(name, &record.inventory, fabric),
                None => (
                    vec![Joined::Not(NotJoined::NotInFabric); record.inventory.hca_ports.len()],
                    Vec::new(),
                ),
            })
            .collect();
        let mut taken: Vec<Option<usize>> =
            vec![None; fabric.map_or(0, |fabric| fabric.ports().len())];
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
        let leaves = fabric.map(|fabric| LeafUse::new(fabric, &of_gpu_hosts));
        hosts.par_iter_mut().for_each(|host| {
            let seen = fabric.zip(leaves.as_ref());
            host.roles = roles(&host.inventory, &host.joined, seen, &config.roles);
            host.number_slots();
        });
        let rails = match fabric {
            Some(fabric) => Rails::find(&hosts, fabric),
            None => Rails {
                units: Vec::new(),
                unit_of: vec![None; hosts.len()],
            },
        };
        Survey {
            hosts,
            rails,
            conflicts,
        }
    }
}

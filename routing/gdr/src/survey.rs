//! Inventories matched with the fabric, up to roles, units and rails: the common part of hints and
//! of the order of routes.

use rayon::prelude::*;

use super::claims::{JoinFaults, resolve_claims};
use super::config::AnalysisConfig;
use super::fabric::GpuFabric;
use super::host::Host;
use super::hosts::{GpuInventory, HostRecord};
use super::join::{HostJoin, join, join_nothing};
use super::peers::{Peers, align_roles_with_peers, number_by_place};
use super::rails::Rails;
use super::roles::{LeafUse, roles};

/// All hosts, with the roles and rails of their ports.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The hosts, sorted by name.
    pub hosts: Vec<Host>,
    /// Units and rails, with hosts by position in `hosts`.
    pub rails: Rails,
    /// The families of hosts of one machine type.
    pub(super) peers: Peers,
    /// The faults of the matches, by host.
    pub(super) faults: Vec<JoinFaults>,
}

impl Survey {
    /// Matches the hosts' inventories with the fabric; without a fabric, uses the inventories only.
    pub fn new(
        inventory: &GpuInventory,
        fabric: Option<&GpuFabric>,
        config: &AnalysisConfig,
    ) -> Survey {
        let (mut hosts, faults) = joined(inventory.all(fabric), fabric);
        let leaves = fabric.map(|fabric| LeafUse::new(fabric, &of_gpu_hosts(&hosts, fabric)));
        hosts.par_iter_mut().for_each(|host| {
            let seen = fabric.zip(leaves.as_ref());
            host.roles = roles(&host.inventory, &host.joined, seen, &config.roles);
        });
        let mut peers = Peers::find(&hosts);
        align_roles_with_peers(&mut hosts, &peers, fabric);
        hosts.par_iter_mut().for_each(Host::number_slots);
        for family in &mut peers.families {
            family.number_slots(&hosts);
            if let Some(fabric) = fabric {
                family.learn_rates(&hosts, fabric);
            }
        }
        number_by_place(&mut hosts, &peers);
        let rails = match fabric {
            Some(fabric) => Rails::find(&mut hosts, &peers, fabric),
            None => {
                hosts.iter_mut().for_each(Host::append_unplaced);
                Rails {
                    units: Vec::new(),
                    unit_of: vec![None; hosts.len()],
                }
            }
        };
        Survey {
            hosts,
            rails,
            peers,
            faults,
        }
    }
}

/// The hosts with their ports matched; each port of the fabric belongs to one host at most.
fn joined(
    records: Vec<(String, HostRecord)>,
    fabric: Option<&GpuFabric>,
) -> (Vec<Host>, Vec<JoinFaults>) {
    let joins: Vec<HostJoin> = records
        .par_iter()
        .map(|(name, record)| match fabric {
            Some(fabric) => join(name, &record.inventory, fabric),
            None => join_nothing(&record.inventory),
        })
        .collect();
    let settled = match fabric {
        Some(fabric) => resolve_claims(&records, joins, fabric),
        None => joins
            .into_iter()
            .map(|own| (own.joined, JoinFaults::default()))
            .collect(),
    };
    records
        .into_iter()
        .zip(settled)
        .map(|((name, record), (joined, faults))| {
            let host = Host {
                name,
                inventory: record.inventory,
                origin: record.origin,
                seen: record.seen,
                joined,
                roles: Vec::new(),
                slots: Vec::new(),
                unplaced: Vec::new(),
            };
            (host, faults)
        })
        .unzip()
}

/// For each port in [`GpuFabric::ports`], whether it belongs to a host with GPUs.
pub(super) fn of_gpu_hosts(hosts: &[Host], fabric: &GpuFabric) -> Vec<bool> {
    let mut of_gpu_hosts = vec![false; fabric.ports().len()];
    for host in hosts.iter().filter(|host| !host.inventory.gpus.is_empty()) {
        for index in host.joined.iter().filter_map(|joined| joined.port()) {
            of_gpu_hosts[index as usize] = true;
        }
    }
    of_gpu_hosts
}

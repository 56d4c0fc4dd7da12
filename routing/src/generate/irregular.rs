//! Irregularities of real sites: hosts on spines, and leaves with fewer hosts than others.

use std::collections::BTreeSet;

use super::fabric::{Fabric, numbered};
use super::rng::Rng;
use super::spec::Spec;
use super::{GenerateError, GenerateReason};
use crate::netlist::{LinkSpeed, MAX_PORTS, Netlist, NodeKind};

/// The keys of the options, which every generator takes.
pub(super) const KEYS: [&str; 3] = ["hosts-on-spines", "management", "uneven"];

/// What a site has that a textbook does not.
pub(super) struct Irregular {
    /// Hosts at each of so many spines, and the place of the option in the specification.
    storage: Option<(u64, u64, usize)>,
    /// One host at each of so many spines.
    management: Option<(u64, usize)>,
    /// The largest share of its hosts that a leaf lacks, in percent.
    uneven: Option<u64>,
}

impl Irregular {
    pub(super) fn of(spec: &Spec<'_>) -> Result<Irregular, GenerateError> {
        let most = u64::from(MAX_PORTS);
        Ok(Irregular {
            storage: spec.product(KEYS[0], 1..=most, 1..=u64::from(u16::MAX))?,
            management: spec.number_at(KEYS[1], 1..=u64::from(u16::MAX))?,
            uneven: spec.number(KEYS[2], 1..=90)?,
        })
    }

    /// The fabric with these irregularities. Spines are the switches without hosts next to a switch
    /// with hosts; of all of them, every so many-th one gets hosts.
    pub(super) fn apply(
        self,
        regular: Netlist,
        speed: LinkSpeed,
        spec: &Spec<'_>,
    ) -> Result<Netlist, GenerateError> {
        if self.storage.is_none() && self.management.is_none() && self.uneven.is_none() {
            return Ok(regular);
        }
        let netlist = match self.uneven {
            Some(percent) => uneven(regular, percent, speed, spec)?,
            None => regular,
        };
        let spines = spines(&netlist, &leaves(&netlist));
        let mut fabric = Fabric::from_netlist(netlist, speed);
        let added = [
            self.storage
                .map(|(hosts, count, at)| ("storage", hosts, count, at)),
            self.management.map(|(count, at)| ("mgmt", 1, count, at)),
        ];
        for (name, hosts, count, at) in added.into_iter().flatten() {
            if count > spines.len() as u64 {
                let what = "spines".to_owned();
                let text = count.to_string();
                let reason = GenerateReason::Range { what, text };
                return Err(spec.error(at, reason, format!("at most {}", spines.len())));
            }
            for host in 0..hosts * count {
                let place = (host / hosts) as usize * spines.len() / count as usize;
                let name = numbered(name, host, hosts * count);
                fabric.adapter_at_free_port(&name, spines[place], spec)?;
            }
        }
        fabric.finish(spec)
    }
}

/// The same with fewer hosts at the leaves, each without up to `percent` of them.
fn uneven(
    regular: Netlist,
    percent: u64,
    speed: LinkSpeed,
    spec: &Spec<'_>,
) -> Result<Netlist, GenerateError> {
    let leaves = leaves(&regular);
    let mut fabric = Fabric::from_netlist(regular, speed);
    let mut gone = Vec::new();
    for (number, &leaf) in leaves.iter().enumerate() {
        let hosts = fabric.hosts_of(leaf);
        let most = hosts.len() as u64 * percent / 100;
        let lacks = Rng::new(number as u64).below(most as usize + 1);
        gone.extend_from_slice(&hosts[hosts.len() - lacks..]);
    }
    fabric.remove(&gone);
    fabric.finish(spec)
}

/// The switches with hosts.
fn leaves(netlist: &Netlist) -> Vec<usize> {
    let kind = |node: usize| netlist.nodes()[node].kind;
    let cables = netlist.cables().iter();
    let ends = cables.flat_map(|cable| [(cable.a.0, cable.b.0), (cable.b.0, cable.a.0)]);
    let at_host = ends.filter(|&(switch, host)| {
        kind(switch) == NodeKind::Switch && kind(host) != NodeKind::Switch
    });
    let leaves: BTreeSet<usize> = at_host.map(|(switch, _)| switch).collect();
    leaves.into_iter().collect()
}

/// The switches without hosts next to `leaves`.
fn spines(netlist: &Netlist, leaves: &[usize]) -> Vec<usize> {
    let is_leaf = |node: usize| leaves.binary_search(&node).is_ok();
    let cables = netlist.cables().iter();
    let ends = cables.flat_map(|cable| [(cable.a.0, cable.b.0), (cable.b.0, cable.a.0)]);
    let next = ends.filter(|&(leaf, spine)| {
        is_leaf(leaf) && !is_leaf(spine) && netlist.nodes()[spine].kind == NodeKind::Switch
    });
    let spines: BTreeSet<usize> = next.map(|(_, spine)| spine).collect();
    spines.into_iter().collect()
}

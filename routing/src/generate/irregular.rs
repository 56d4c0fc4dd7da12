//! Adds irregularities of real sites: hosts on spines, leaves with fewer hosts than others, and
//! slower cables.

use std::collections::BTreeSet;

use rsm_ids::PortNum;

use super::fabric::{self, Fabric, numbered};
use super::rng::Rng;
use super::spec::Spec;
use super::{GenerateError, GenerateReason};
use crate::netlist::{Cable, LinkSpeed, LinkWidth, MAX_PORTS, Netlist, NodeKind};

/// The keys of these options, which every generator accepts.
pub(super) const KEYS: [&str; 5] = ["hosts-on-spines", "management", "uneven", "slow", "narrow"];

/// The irregularities of a site.
pub(super) struct Irregular {
    /// The number of hosts at each spine, the number of such spines, and the position of the option
    /// in the specification.
    storage: Option<(u64, u64, usize)>,
    /// The number of spines with one management host each, and the position of the option.
    management: Option<(u64, usize)>,
    /// The maximum share of its hosts that a leaf lacks, in percent.
    uneven: Option<u64>,
    /// The share of cables between switches at the next lower speed, in percent.
    slow: Option<u64>,
    /// The share of cables between switches with one lane, in percent.
    narrow: Option<u64>,
}

impl Irregular {
    /// Reads the irregularities from the options of a specification.
    pub(super) fn of(spec: &Spec<'_>) -> Result<Irregular, GenerateError> {
        let most = u64::from(MAX_PORTS);
        Ok(Irregular {
            storage: spec.product(KEYS[0], 1..=most, 1..=u64::from(u16::MAX))?,
            management: spec.number_at(KEYS[1], 1..=u64::from(u16::MAX))?,
            uneven: spec.number(KEYS[2], 1..=90)?,
            slow: spec.number(KEYS[3], 1..=100)?,
            narrow: spec.number(KEYS[4], 1..=100)?,
        })
    }

    /// Adds these irregularities to the fabric `regular`.
    pub(super) fn add_to(
        self,
        regular: Netlist,
        speed: LinkSpeed,
        spec: &Spec<'_>,
    ) -> Result<Netlist, GenerateError> {
        let slow = self.slow.map(|percent| (percent, Fault::Slow));
        let narrow = self.narrow.map(|percent| (percent, Fault::Narrow));
        let mut netlist = self.populated(regular, speed, spec)?;
        for (percent, fault) in [slow, narrow].into_iter().flatten() {
            netlist = degraded(netlist, percent, fault, spec)?;
        }
        Ok(netlist)
    }

    /// Removes hosts from leaves, and adds hosts to spines at equal distances. Spines are the
    /// switches without hosts next to a switch with hosts.
    fn populated(
        self,
        regular: Netlist,
        speed: LinkSpeed,
        spec: &Spec<'_>,
    ) -> Result<Netlist, GenerateError> {
        if self.storage.is_none() && self.management.is_none() && self.uneven.is_none() {
            return Ok(regular);
        }
        let netlist = match self.uneven {
            Some(percent) => uneven(regular, percent, spec)?,
            None => regular,
        };
        let spines = spines(&netlist);
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

/// Removes a random number of hosts from each leaf, at most `percent` % of the leaf's hosts.
fn uneven(regular: Netlist, percent: u64, spec: &Spec<'_>) -> Result<Netlist, GenerateError> {
    let mut is_removed = vec![false; regular.nodes().len()];
    for (number, leaf) in leaves(&regular).into_iter().enumerate() {
        let hosts: Vec<usize> = hosts_of(&regular, leaf).collect();
        let max_removed = hosts.len() as u64 * percent / 100;
        let lacks = Rng::new(number as u64).below(max_removed as usize + 1);
        for &host in &hosts[hosts.len() - lacks..] {
            is_removed[host] = true;
        }
    }
    let (mut nodes, mut cables) = regular.into_parts();
    fabric::remove(&is_removed, &mut nodes, &mut cables);
    fabric::finish(nodes, cables, spec)
}

/// The reason why a cable is slower than other cables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The cable is of an older generation, with the next lower speed.
    Slow,
    /// The cable has one lane left; three have failed.
    Narrow,
}

impl Fault {
    fn degrade(self, cable: &mut Cable) {
        match self {
            Fault::Slow => cable.speed = next_lower(cable.speed),
            Fault::Narrow => cable.width = LinkWidth::X1,
        }
    }
}

/// The speed of the previous generation; the first generation stays.
fn next_lower(speed: LinkSpeed) -> LinkSpeed {
    match speed {
        LinkSpeed::Sdr | LinkSpeed::Ddr => LinkSpeed::Sdr,
        LinkSpeed::Qdr => LinkSpeed::Ddr,
        LinkSpeed::Fdr10 | LinkSpeed::Fdr => LinkSpeed::Qdr,
        LinkSpeed::Edr => LinkSpeed::Fdr,
        LinkSpeed::Hdr => LinkSpeed::Edr,
        LinkSpeed::Ndr => LinkSpeed::Hdr,
        LinkSpeed::Xdr => LinkSpeed::Ndr,
    }
}

/// Makes `percent` of the cables between switches slower, chosen at random.
fn degraded(
    netlist: Netlist,
    percent: u64,
    fault: Fault,
    spec: &Spec<'_>,
) -> Result<Netlist, GenerateError> {
    let ends = |cable: &Cable| [cable.a.0, cable.b.0];
    let between = |cable: &Cable| ends(cable).into_iter().all(|end| is_switch(&netlist, end));
    let cables = netlist.cables();
    let places: Vec<usize> = (0..cables.len())
        .filter(|&at| between(&cables[at]))
        .collect();
    let count = places.len() * percent as usize / 100;
    // Each kind of fault has a seed of its own, so that the kinds affect different cables.
    let drawn = Rng::new(fault as u64).sample(count, places.len());
    let (nodes, mut cables) = netlist.into_parts();
    for place in drawn {
        fault.degrade(&mut cables[places[place]]);
    }
    fabric::finish(nodes, cables, spec)
}

fn is_switch(netlist: &Netlist, node: usize) -> bool {
    netlist.nodes()[node].kind == NodeKind::Switch
}

/// The nodes across the cables of a node, in the order of its ports.
fn peers(netlist: &Netlist, node: usize) -> impl Iterator<Item = usize> + '_ {
    let ports = 1..=netlist.nodes()[node].num_ports;
    let peers = ports.filter_map(move |port| netlist.peer((node, PortNum(port))));
    peers.map(|(peer, _)| peer)
}

/// The adapters at a switch, in the order of its ports.
fn hosts_of(netlist: &Netlist, switch: usize) -> impl Iterator<Item = usize> + '_ {
    peers(netlist, switch).filter(|&peer| !is_switch(netlist, peer))
}

/// The switches with hosts.
fn leaves(netlist: &Netlist) -> Vec<usize> {
    let switches = (0..netlist.nodes().len()).filter(|&node| is_switch(netlist, node));
    let has_hosts = |&switch: &usize| hosts_of(netlist, switch).next().is_some();
    switches.filter(has_hosts).collect()
}

/// The switches without hosts next to a switch with hosts.
fn spines(netlist: &Netlist) -> Vec<usize> {
    let leaves = leaves(netlist);
    let is_leaf = |node: usize| leaves.binary_search(&node).is_ok();
    let next = leaves.iter().flat_map(|&leaf| peers(netlist, leaf));
    let spines: BTreeSet<usize> = next
        .filter(|&peer| is_switch(netlist, peer) && !is_leaf(peer))
        .collect();
    spines.into_iter().collect()
}

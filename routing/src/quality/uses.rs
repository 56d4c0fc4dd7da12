//! The hosts that use each link, over all pairs of hosts.

use fixedbitset::FixedBitSet;
use rayon::prelude::*;

use crate::tables::Lft;
use crate::verify::fabric::Fabric;

use super::forest::Forest;
use super::order::{Hosts, Leaf};

/// Leaves whose packets are followed together: one bit each in a word.
const TOGETHER: usize = u64::BITS as usize;

/// All pairs of hosts on the links, by channel.
pub(super) struct Uses {
    /// How many ordered pairs of hosts on different leaves send over it.
    pub(super) paths: Vec<u64>,
    /// How many hosts receive over it.
    pub(super) destinations: Vec<u32>,
    /// How many hosts send over it.
    pub(super) sources: Vec<u32>,
    /// Ordered pairs of hosts whose packets do not arrive.
    pub(super) lost_pairs: u64,
    /// By host, where some leaves do not reach it: the leaves whose packets do not arrive.
    pub(super) lost: Vec<Option<FixedBitSet>>,
}

impl Uses {
    pub(super) fn of(fabric: &Fabric<'_>, rows: &[Lft], hosts: &Hosts) -> Uses {
        // In the order of LIDs, in which tables lie in memory.
        let mut by_lid: Vec<u32> = (0..hosts.all.len() as u32).collect();
        by_lid.sort_unstable_by_key(|&host| hosts.all[host as usize].lid);
        let ((paths, destinations, lost), sources) = rayon::join(
            || to_hosts(fabric, rows, hosts, &by_lid),
            || from_hosts(fabric, rows, hosts, &by_lid),
        );
        let mut uses = Uses {
            paths,
            destinations,
            sources,
            lost_pairs: 0,
            lost: vec![None; hosts.all.len()],
        };
        for (host, leaves) in lost {
            let own_leaf = hosts.all[host as usize].leaf as usize;
            uses.lost_pairs += leaves
                .ones()
                // To itself it sends nothing.
                .map(|leaf| u64::from(hosts.leaves[leaf].hosts) - u64::from(leaf == own_leaf))
                .sum::<u64>();
            uses.lost[host as usize] = Some(leaves);
        }
        uses
    }
}

/// Paths and destinations by channel, and the leaves that do not reach a host, by host.
type Received = (Vec<u64>, Vec<u32>, Vec<(u32, FixedBitSet)>);

fn to_hosts(fabric: &Fabric<'_>, rows: &[Lft], hosts: &Hosts, by_lid: &[u32]) -> Received {
    let share = by_lid.len().div_ceil(rayon::current_num_threads()).max(1);
    let parts: Vec<Received> = by_lid
        .par_chunks(share)
        .map(|part| receive(fabric, rows, hosts, part))
        .collect();
    let mut all = (
        vec![0; fabric.channels()],
        vec![0; fabric.channels()],
        vec![],
    );
    for (paths, destinations, lost) in parts {
        add(&mut all.0, &paths);
        add(&mut all.1, &destinations);
        all.2.extend(lost);
    }
    all
}

fn receive(fabric: &Fabric<'_>, rows: &[Lft], hosts: &Hosts, part: &[u32]) -> Received {
    let mut forest = Forest::new(fabric, rows);
    let mut paths = vec![0u64; fabric.channels()];
    let mut destinations = vec![0u32; fabric.channels()];
    let mut lost = Vec::new();
    let mut flow = vec![0u32; fabric.switches];
    for &index in part {
        let host = &hosts.all[index as usize];
        for leaf in &hosts.leaves {
            flow[leaf.switch.index()] = leaf.hosts;
        }
        let mut missing: Option<FixedBitSet> = None;
        forest.grow(host, hosts.leaf(host).switch, &hosts.leaves, |place| {
            missing
                .get_or_insert_with(|| FixedBitSet::with_capacity(hosts.leaves.len()))
                .insert(place);
        });
        forest.drain(|switch, channel, next| {
            let sent = std::mem::take(&mut flow[switch]);
            paths[channel] += u64::from(sent);
            destinations[channel] += 1;
            flow[next] += sent;
        });
        // The flow at the root, and at leaves that lost theirs, is set anew for the next host.
        flow[hosts.leaf(host).switch.index()] = 0;
        lost.extend(missing.map(|leaves| (index, leaves)));
    }
    (paths, destinations, lost)
}

fn from_hosts(fabric: &Fabric<'_>, rows: &[Lft], hosts: &Hosts, by_lid: &[u32]) -> Vec<u32> {
    hosts
        .leaves
        .par_chunks(TOGETHER)
        .map(|leaves| send(fabric, rows, (hosts, leaves), by_lid))
        .reduce(
            || vec![0; fabric.channels()],
            |mut all, part| {
                add(&mut all, &part);
                all
            },
        )
}

fn send(
    fabric: &Fabric<'_>,
    rows: &[Lft],
    (hosts, leaves): (&Hosts, &[Leaf]),
    by_lid: &[u32],
) -> Vec<u32> {
    let mut forest = Forest::new(fabric, rows);
    let mut senders = vec![0u64; fabric.channels()];
    let mut flow = vec![0u64; fabric.switches];
    for &index in by_lid {
        let host = &hosts.all[index as usize];
        for (bit, leaf) in leaves.iter().enumerate() {
            flow[leaf.switch.index()] = 1 << bit;
        }
        forest.grow(host, hosts.leaf(host).switch, leaves, |_| {});
        forest.drain(|switch, channel, next| {
            let sent = std::mem::take(&mut flow[switch]);
            senders[channel] |= sent;
            flow[next] |= sent;
        });
        flow[hosts.leaf(host).switch.index()] = 0;
    }
    let hosts_of = |mut bits: u64| {
        let mut count = 0;
        while bits != 0 {
            count += leaves[bits.trailing_zeros() as usize].hosts;
            bits &= bits - 1;
        }
        count
    };
    senders.into_iter().map(hosts_of).collect()
}

fn add<T: Copy + std::ops::AddAssign>(all: &mut [T], part: &[T]) {
    for (all, part) in all.iter_mut().zip(part) {
        *all += *part;
    }
}

//! Measures the share of link bandwidth that a flow gets in patterns of traffic.

use rayon::prelude::*;

use super::carry::{self, Carrier};
use super::permutations::{self, Load, Permutations};
use super::{Rng, patterns};
use crate::tables::Tables;
use crate::topology::Topology;

/// The mean share that a flow gets of the fullest link on its path, as a fraction of the fastest
/// link's rate. A flow within a leaf gets all of its host's link, and a flow that does not arrive
/// gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct FlowShares {
    /// The mean over the shifts of [`Quality::shift`](super::Quality::shift). In a shift, each host
    /// sends to the host a fixed number of places further on.
    pub shift: f64,
    /// The mean over all ordered pairs of leaves, while each host of one leaf sends to one host of
    /// the other, and no other host sends.
    pub leaf_pairs: f64,
}

/// Measures the shares that flows get. `seed` chooses the distances of shifts if there are too many
/// to measure all.
pub fn flow_shares(topology: &Topology, tables: &Tables, seed: u64) -> FlowShares {
    carry::with_carrier(topology, tables, |carrier| FlowShares {
        shift: in_shifts(carrier, seed),
        leaf_pairs: between_leaves(carrier),
    })
}

/// The mean share of a flow in shifts.
fn in_shifts(carrier: &Carrier<'_>, seed: u64) -> f64 {
    let hosts = carrier.hosts.all.len();
    let distances = patterns::distances(hosts, &mut Rng::new(seed));
    let together = permutations::share(distances.len());
    let shares: Vec<f64> = distances
        .par_chunks(together)
        .map(|distances| {
            let mut shifts = Permutations::new(carrier, distances.len());
            for (phase, &distance) in distances.iter().enumerate() {
                shifts.add(phase, patterns::shift(hosts, distance));
            }
            let mut load = Load::new(carrier);
            let phases = distances
                .iter()
                .zip(shifts.follow())
                .map(|(&distance, flows)| {
                    load.set(&flows);
                    let fullest = load.fullest_of(&flows, hosts);
                    let pairs = patterns::shift(hosts, distance);
                    let shares = pairs.map(|(from, to)| carrier.share(from, to, fullest[from]));
                    shares.sum::<f64>()
                });
            phases.sum::<f64>()
        })
        .collect();
    shares.iter().sum::<f64>() / (hosts * distances.len()).max(1) as f64
}

/// The mean share of a flow between two leaves.
fn between_leaves(carrier: &Carrier<'_>) -> f64 {
    let hosts = carrier.hosts;
    let mut leaves: Vec<Vec<usize>> = vec![Vec::new(); hosts.leaves.len()];
    for (host, of) in hosts.all.iter().enumerate() {
        leaves[of.leaf as usize].push(host);
    }
    let from_leaf = |(number, senders): (usize, &Vec<usize>)| {
        let mut load = vec![0u16; carrier.fabric.channels()];
        let mut sums = (0.0, 0);
        let others = leaves
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != number);
        for (_, receivers) in others {
            let pairs: Vec<(usize, usize)> = senders
                .iter()
                .copied()
                .zip(receivers.iter().copied())
                .collect();
            let paths: Vec<Vec<usize>> = pairs
                .iter()
                .map(|&(from, to)| carrier.channels(from, to))
                .collect();
            paths
                .iter()
                .flatten()
                .for_each(|&channel| load[channel] += 1);
            for (&(from, to), path) in pairs.iter().zip(&paths) {
                let load_of = |&channel: &usize| {
                    carry::by_rate(carrier.slowness, channel, f64::from(load[channel]))
                };
                let fullest = path.iter().map(load_of).fold(0.0, f64::max);
                sums.0 += carrier.share(from, to, fullest);
                sums.1 += 1;
            }
            paths
                .iter()
                .flatten()
                .for_each(|&channel| load[channel] = 0);
        }
        sums
    };
    let sums: Vec<(f64, usize)> = leaves.par_iter().enumerate().map(from_leaf).collect();
    let (shares, flows) = sums
        .iter()
        .fold((0.0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    shares / flows.max(1) as f64
}

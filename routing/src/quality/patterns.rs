//! Traffic patterns of applications, measured phase by phase.

use rayon::prelude::*;

use crate::generate::rng::Rng;

use super::carry::{Carrier, Phase};
use super::permutations::{self, Load, Permutations};
use super::{Bisection, Contention};

/// The maximum number of hosts for which every shift is measured: the 16.8 million flows of all
/// shifts take less than a second. With more hosts, a sample of [`SHIFTS`] phases is measured.
pub const ALL_SHIFTS_HOSTS: usize = 4096;

/// The number of shifts in a sample, which has 11.5 million flows at 45,056 hosts.
pub const SHIFTS: usize = 256;

/// The number of random permutations: enough that the second digit of the mean of their maxima is
/// stable.
pub const PERMUTATIONS: usize = 200;

/// The number of random bisections.
pub const BISECTIONS: usize = 100;

/// Measures the contention of `phases`, each on a fabric without other flows. `send` adds the flows
/// of a phase, and `of` is the number of phases from which these were chosen.
pub(super) fn contention<T: Sync>(
    carrier: &Carrier<'_>,
    phases: &[T],
    of: usize,
    send: impl Fn(&mut Phase<'_>, &T) + Sync,
) -> Contention {
    let share = phases.len().div_ceil(rayon::current_num_threads()).max(1);
    let fullest = phases.par_chunks(share).map(|phases| {
        let mut phase = Phase::new(carrier);
        let mut fullest = Vec::with_capacity(phases.len());
        for wanted in phases {
            phase.clear();
            send(&mut phase, wanted);
            fullest.push(phase.fullest());
        }
        fullest
    });
    summary(&fullest.collect::<Vec<_>>().concat(), of)
}

/// Measures contention as [`contention`] does, for phases in which each host sends to at most one
/// host and receives from at most one. `pairs` returns the sender and receiver of each flow.
pub(super) fn contention_of_permutations<T, P>(
    carrier: &Carrier<'_>,
    phases: &[T],
    of: usize,
    pairs: impl Fn(&T) -> P + Sync,
) -> Contention
where
    T: Sync,
    P: IntoIterator<Item = (usize, usize)>,
{
    let share = permutations::share(phases.len());
    let fullest = phases.par_chunks(share).map(|phases| {
        let mut permutations = Permutations::new(carrier, phases.len());
        for (number, phase) in phases.iter().enumerate() {
            permutations.add(number, pairs(phase));
        }
        let mut load = Load::new(carrier);
        let fullest = |flows| {
            load.set(&flows);
            load.fullest()
        };
        permutations.follow().into_iter().map(fullest).collect()
    });
    summary(&fullest.collect::<Vec<Vec<f64>>>().concat(), of)
}

/// Summarises phases, given the load of the fullest link in each.
fn summary(fullest: &[f64], of: usize) -> Contention {
    Contention {
        max: fullest.iter().copied().fold(0.0, f64::max).ceil() as u32,
        mean: if fullest.is_empty() {
            0.0
        } else {
            fullest.iter().sum::<f64>() / fullest.len() as f64
        },
        phases: fullest.len(),
        of,
    }
}

/// The distances at which shift patterns among `hosts` are measured: all, or a sample.
pub(super) fn distances(hosts: usize, rng: &mut Rng) -> Vec<usize> {
    let distance_count = hosts.saturating_sub(1);
    if hosts <= ALL_SHIFTS_HOSTS {
        return (1..=distance_count).collect();
    }
    let sample = rng.sample(SHIFTS, distance_count);
    sample.into_iter().map(|distance| distance + 1).collect()
}

/// The pairs of a shift: every host sends to the host `distance` places further on.
pub(super) fn shift(hosts: usize, distance: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..hosts).map(move |host| (host, (host + distance) % hosts))
}

/// A random permutation of hosts, chosen by `seed`, in which host `i` sends to the host in element
/// `i`.
pub(super) fn permutation(hosts: usize, seed: u64) -> Vec<usize> {
    let mut targets: Vec<usize> = (0..hosts).collect();
    Rng::new(seed).shuffle(&mut targets);
    targets
}

/// Measures effective bisection bandwidth: the hosts are halved at random, and each host of one
/// half exchanges with one host of the other half, in both directions at the same time.
pub(super) fn bisections(carrier: &Carrier<'_>, seed: u64) -> Bisection {
    let hosts = carrier.hosts.all.len();
    if hosts < 2 {
        return Bisection::default();
    }
    let samples: Vec<u64> = (0..BISECTIONS as u64)
        .map(|sample| seed.wrapping_add(sample))
        .collect();
    let by_share: Vec<Vec<f64>> = samples
        .par_chunks(permutations::share(samples.len()))
        .map(|seeds| bandwidths(carrier, seeds))
        .collect();
    let bandwidths = by_share.concat();
    Bisection {
        mean: bandwidths.iter().sum::<f64>() / bandwidths.len() as f64,
        min: bandwidths.iter().copied().fold(f64::INFINITY, f64::min),
        samples: bandwidths.len(),
    }
}

/// For each seed, the mean share that a flow gets of the fullest link on its path, in an exchange
/// between two random halves.
pub(super) fn bandwidths(carrier: &Carrier<'_>, seeds: &[u64]) -> Vec<f64> {
    let hosts = carrier.hosts.all.len();
    let orders: Vec<Vec<usize>> = seeds.iter().map(|&seed| permutation(hosts, seed)).collect();
    let mut exchanges = Permutations::new(carrier, seeds.len());
    for (phase, order) in orders.iter().enumerate() {
        exchanges.add(phase, exchange(order));
    }
    let mut load = Load::new(carrier);
    let phases = orders.iter().zip(exchanges.follow());
    phases
        .map(|(order, flows)| {
            load.set(&flows);
            bandwidth(carrier, order, &load.fullest_of(&flows, hosts))
        })
        .collect()
}

/// The pairs of an exchange between the first half of `order` and the second; the last of an odd
/// number of hosts is idle.
fn exchange(order: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let half = order.len() / 2;
    let there = (0..half).map(move |place| (order[place], order[half + place]));
    there.clone().chain(there.map(|(a, b)| (b, a)))
}

/// The mean share that a flow of an exchange gets of the fullest link on its path; see
/// [`Carrier::share`].
fn bandwidth(carrier: &Carrier<'_>, order: &[usize], fullest: &[f64]) -> f64 {
    let share = |(from, to): (usize, usize)| carrier.share(from, to, fullest[from]);
    let flows = order.len() / 2 * 2;
    exchange(order).map(share).sum::<f64>() / flows as f64
}

/// The pairs of recursive doubling among `ranks`: in phase `bit` every rank exchanges with the rank
/// that differs in that bit. A rank without a partner is idle.
pub(super) fn doubling(ranks: &[usize], bit: u32) -> impl Iterator<Item = (usize, usize)> {
    let partner = move |rank: usize| ranks.get(rank ^ 1 << bit);
    (0..ranks.len()).filter_map(move |rank| Some((ranks[rank], *partner(rank)?)))
}

/// The number of phases of recursive doubling among this many ranks.
pub(super) fn doubling_phases(ranks: usize) -> u32 {
    ranks.next_power_of_two().trailing_zeros()
}

/// The pairs of both trees of the double binary tree (Sanders, Speck and Träff 2009). Values go up
/// and down both trees at the same time, as when a reduction and its broadcast are pipelined.
pub(super) fn double_tree(ranks: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let count = ranks.len();
    // The leaves of one tree are inner nodes of the other.
    let other = move |rank: usize| match count % 2 {
        0 => count - 1 - rank,
        _ => (rank + 1) % count,
    };
    let edges = (1..count).map(move |rank| (rank, tree_parent(rank, count)));
    edges
        .flat_map(move |(low, high)| [(low, high), (other(low), other(high))])
        .flat_map(move |(low, high)| {
            let (low, high) = (ranks[low], ranks[high]);
            [(low, high), (high, low)]
        })
}

/// The parent of `rank`, which is not 0, in a binary tree of `count` ranks numbered in order, whose
/// root is 0.
fn tree_parent(rank: usize, count: usize) -> usize {
    let bit = rank & rank.wrapping_neg();
    let above = (rank ^ bit) | bit << 1;
    if above < count { above } else { rank ^ bit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubling_leaves_ranks_without_a_partner_idle() {
        let ranks = [10, 11, 12, 13, 14];
        assert_eq!(doubling_phases(5), 3);
        let phase: Vec<_> = doubling(&ranks, 1).collect();
        assert_eq!(phase, [(10, 12), (11, 13), (12, 10), (13, 11)]);
        let phase: Vec<_> = doubling(&ranks, 2).collect();
        assert_eq!(phase, [(10, 14), (14, 10)]);
        assert_eq!([0, 1, 2, 4].map(doubling_phases), [0, 0, 1, 2]);
    }

    #[test]
    fn double_tree_is_shallow_and_no_rank_receives_from_more_than_four() {
        for count in 1..200 {
            let ranks: Vec<usize> = (0..count).collect();
            let edges: Vec<_> = double_tree(&ranks).collect();
            assert_eq!(edges.len(), 4 * (count - 1));
            let mut depth_max = 0;
            for mut rank in 1..count {
                let mut depth = 0;
                while rank != 0 {
                    rank = tree_parent(rank, count);
                    depth += 1;
                }
                depth_max = depth_max.max(depth);
            }
            assert!(depth_max <= count.next_power_of_two().trailing_zeros() + 1);
            // Each rank has 2 children in one tree and 0 in the other, except the roots.
            for rank in 0..count {
                let received = edges.iter().filter(|edge| edge.1 == rank).count();
                assert!(received <= 4, "{rank} of {count} receives from {received}");
            }
        }
    }

    #[test]
    fn sampled_shifts_are_distinct_and_nonzero_and_permutations_are_complete() {
        let sample = distances(10_000, &mut Rng::new(1));
        assert_eq!(sample.len(), SHIFTS);
        assert!(sample.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(sample[0] >= 1 && sample[SHIFTS - 1] < 10_000);
        assert_eq!(distances(4, &mut Rng::new(1)), [1, 2, 3]);
        assert_eq!(distances(0, &mut Rng::new(1)), [0usize; 0]);
        let mut targets = permutation(50, 3);
        targets.sort_unstable();
        assert!(targets.into_iter().eq(0..50));
    }
}

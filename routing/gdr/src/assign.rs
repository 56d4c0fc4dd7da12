//! The port of each GPU: a matching of least cost, in which GPUs share a near port before a GPU
//! gets a far port.

use std::cmp::Ordering;

/// A cost above the cost of any possible pairing.
pub(super) const IMPOSSIBLE: u64 = 1 << 40;

/// The cost of each GPU that shares a port with another GPU, and of each further port of a GPU:
/// less than a step between tiers, and more than all criteria that distinguish equal tiers.
const SHARED: u64 = 1 << 22;

/// Assigns the ports of each GPU, given as columns, best first.
///
/// Every GPU gets one port of least cost, which it may share: the load is spread as evenly as the
/// costs allow. Each port without a GPU then becomes a further port of one GPU, spread in the same
/// way. The assignment has the least total cost; if the costs prefer one of any two equal choices,
/// it is unique.
pub(super) fn assign(
    gpus: usize,
    ports: usize,
    cost: impl Fn(usize, usize) -> u64,
) -> Vec<Vec<usize>> {
    if gpus == 0 || ports == 0 {
        return vec![Vec::new(); gpus];
    }
    let first = nearest(gpus, ports, &cost).unwrap_or_else(|| spread(gpus, ports, &cost));
    let mut out: Vec<Vec<usize>> = first.iter().map(|&port| vec![port]).collect();
    let left: Vec<usize> = (0..ports).filter(|port| !first.contains(port)).collect();
    let further = spread(left.len(), gpus, |place, gpu| cost(gpu, left[place]));
    for (&port, gpu) in left.iter().zip(further) {
        out[gpu].push(port);
    }
    for (gpu, ports) in out.iter_mut().enumerate() {
        ports[1..].sort_by_key(|&port| (cost(gpu, port), port));
    }
    out
}

/// The single cheapest port of every GPU, if no port has two GPUs more than another port: no other
/// assignment costs as little. Most machines have an adapter beside each GPU.
fn nearest(gpus: usize, ports: usize, cost: impl Fn(usize, usize) -> u64) -> Option<Vec<usize>> {
    let mut load = vec![0; ports];
    let mut out = Vec::with_capacity(gpus);
    for gpu in 0..gpus {
        let (mut best, mut least, mut only) = (0, u64::MAX, false);
        for port in 0..ports {
            let cost = cost(gpu, port).min(IMPOSSIBLE);
            match cost.cmp(&least) {
                Ordering::Less => (best, least, only) = (port, cost, true),
                Ordering::Equal => only = false,
                Ordering::Greater => {}
            }
        }
        if !only {
            return None;
        }
        load[best] += 1;
        out.push(best);
    }
    let (most, fewest) = (load.iter().max()?, load.iter().min()?);
    (most - fewest <= 1).then_some(out)
}

/// The column of each row in a least-cost assignment in which rows may share columns: each further
/// row at a column costs [`SHARED`] more than the previous one.
fn spread(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> u64) -> Vec<usize> {
    let slots = least_cost(rows, columns * rows, |row, slot| {
        let (column, place) = (slot / rows, slot % rows);
        cost(row, column).min(IMPOSSIBLE) + place as u64 * SHARED
    });
    slots.into_iter().map(|slot| slot / rows).collect()
}

/// The column of each row in a least-cost assignment, by the Hungarian method with potentials, in
/// rows² × columns steps. There must be at least as many columns as rows.
fn least_cost(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> u64) -> Vec<usize> {
    // Potentials may be negative; costs are at most a few times IMPOSSIBLE, so their sums fit.
    let cost = |row: usize, column: usize| cost(row, column) as i64;
    let mut of_row = vec![0i64; rows + 1];
    let mut of_column = vec![0i64; columns + 1];
    // Column 0 stands for the row that the search is placing.
    let mut row_at = vec![0usize; columns + 1];
    let mut from = vec![0usize; columns + 1];
    for row in 1..=rows {
        row_at[0] = row;
        let mut at = 0;
        let mut least = vec![i64::MAX; columns + 1];
        let mut done = vec![false; columns + 1];
        while row_at[at] != 0 {
            done[at] = true;
            let current = row_at[at];
            let (mut step, mut next) = (i64::MAX, 0);
            for column in 1..=columns {
                if done[column] {
                    continue;
                }
                let reduced = cost(current - 1, column - 1) - of_row[current] - of_column[column];
                if reduced < least[column] {
                    least[column] = reduced;
                    from[column] = at;
                }
                if least[column] < step {
                    step = least[column];
                    next = column;
                }
            }
            for column in 0..=columns {
                if done[column] {
                    of_row[row_at[column]] += step;
                    of_column[column] -= step;
                } else if column > 0 {
                    least[column] -= step;
                }
            }
            at = next;
        }
        while at != 0 {
            row_at[at] = row_at[from[at]];
            at = from[at];
        }
    }
    let mut out = vec![0; rows];
    for column in 1..=columns {
        if row_at[column] != 0 {
            out[row_at[column] - 1] = column - 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_with_one_near_port_gets_that_port_before_a_gpu_with_several() {
        // For GPU 0 both ports are near; for GPU 1 port 1 is far.
        let cost = [[0, 1], [0, 100]];
        assert_eq!(assign(2, 2, |gpu, port| cost[gpu][port]), [[1], [0]]);
    }

    #[test]
    fn ports_are_shared_evenly() {
        let out = assign(8, 4, |gpu, port| (gpu / 2).abs_diff(port) as u64);
        assert_eq!(out, [[0], [0], [1], [1], [2], [2], [3], [3]]);
        let all_alike = assign(5, 2, |_, _| 7);
        for port in 0..2 {
            assert!(all_alike.iter().filter(|ports| ports[0] == port).count() <= 3);
        }
    }

    #[test]
    fn far_port_becomes_a_further_port_while_gpus_share_near_ports() {
        // Two GPUs at each of two ports, and one port on the other side of the processor.
        let tier = |gpu: usize, port: usize| match port {
            2 => 4 * crate::host::TIER_WEIGHT,
            _ => (gpu / 2).abs_diff(port) as u64 * crate::host::TIER_WEIGHT,
        };
        assert_eq!(assign(4, 3, tier), [vec![0, 2], vec![0], vec![1], vec![1]]);
    }

    #[test]
    fn gpus_share_the_last_port_if_one_gpu_has_all_other_ports_near_it() {
        let tier =
            |gpu: usize, port: usize| ((gpu == 0) != (port < 4)) as u64 * crate::host::TIER_WEIGHT;
        let out = assign(3, 5, tier);
        assert_eq!(out, [vec![0, 1, 2, 3], vec![4], vec![4]]);
    }

    #[test]
    fn more_ports_than_gpus_are_all_used() {
        let out = assign(2, 4, |gpu, port| (gpu as u64).abs_diff(port as u64 / 2));
        assert_eq!(out, [[0, 1], [2, 3]]);
        assert_eq!(assign(0, 3, |_, _| 0), Vec::<Vec<usize>>::new());
        assert_eq!(assign(2, 0, |_, _| 0), [Vec::<usize>::new(), Vec::new()]);
    }

    #[test]
    fn assignments_have_the_least_total_cost() {
        let (mut seed, mut shortcuts) = (7u64, 0);
        for _ in 0..200 {
            let mut cost = [[0u64; 5]; 5];
            for cell in cost.iter_mut().flatten() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *cell = (seed >> 33) % 20;
            }
            let found = assign(5, 5, |gpu, port| cost[gpu][port]);
            let total: u64 = found
                .iter()
                .enumerate()
                .map(|(gpu, ports)| cost[gpu][ports[0]])
                .sum();
            assert_eq!(total, best(&cost, 0, [false; 5]));
            let matched = spread(5, 5, |gpu, port| cost[gpu][port]);
            if let Some(nearest) = nearest(5, 5, |gpu, port| cost[gpu][port]) {
                shortcuts += 1;
                assert_eq!(nearest, matched);
            }
        }
        assert!(shortcuts > 0, "some of them are that easy");
    }

    /// The least total cost, found by trying all assignments.
    fn best(cost: &[[u64; 5]; 5], gpu: usize, taken: [bool; 5]) -> u64 {
        if gpu == 5 {
            return 0;
        }
        let free = (0..5).filter(|&port| !taken[port]);
        let each = free.map(|port| {
            let mut taken = taken;
            taken[port] = true;
            cost[gpu][port] + best(cost, gpu + 1, taken)
        });
        each.min().unwrap_or(u64::MAX)
    }
}

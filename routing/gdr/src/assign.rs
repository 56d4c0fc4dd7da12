//! The port of each GPU: a matching of least cost in which no port has more than its share of GPUs.

use std::cmp::Ordering;

/// A cost that no pairing of possible ones can reach.
pub(super) const IMPOSSIBLE: u64 = 1 << 40;

/// The ports of each GPU, best first, by their columns.
///
/// With as many GPUs as ports or more, every GPU gets one port, and no port more than
/// ⌈GPUs/ports⌉ GPUs. With more ports, every port gets one GPU, and no GPU more than
/// ⌈ports/GPUs⌉ ports. Of all such assignments this is one of least total cost; with costs that
/// say which of two equal ones is preferred, the only one.
pub(super) fn assign(
    gpus: usize,
    ports: usize,
    cost: impl Fn(usize, usize) -> u64,
) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); gpus];
    if gpus == 0 || ports == 0 {
        return out;
    }
    if let Some(nearest) = nearest(gpus, ports, &cost) {
        return nearest;
    }
    if gpus >= ports {
        let share = gpus.div_ceil(ports);
        let slots = least(gpus, ports * share, |gpu, slot| cost(gpu, slot / share));
        for (gpu, slot) in slots.into_iter().enumerate() {
            out[gpu].push(slot / share);
        }
    } else {
        let share = ports.div_ceil(gpus);
        let slots = least(ports, gpus * share, |port, slot| cost(slot / share, port));
        for (port, slot) in slots.into_iter().enumerate() {
            out[slot / share].push(port);
        }
        for (gpu, ports) in out.iter_mut().enumerate() {
            ports.sort_by_key(|&port| (cost(gpu, port), port));
        }
    }
    out
}

/// The only cheapest port of every GPU, where no port has more than its share: then no other
/// matching costs as little. Most machines have an adapter beside each GPU. `None` where there are
/// more ports than GPUs.
fn nearest(
    gpus: usize,
    ports: usize,
    cost: impl Fn(usize, usize) -> u64,
) -> Option<Vec<Vec<usize>>> {
    let share = (gpus >= ports).then(|| gpus.div_ceil(ports))?;
    let mut taken = vec![0; ports];
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
        taken[best] += 1;
        if !only || taken[best] > share {
            return None;
        }
        out.push(vec![best]);
    }
    Some(out)
}

/// The column of each row in an assignment of least cost: the Hungarian method with potentials, in
/// rows² × columns steps. There are as many columns as rows, or more.
fn least(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> u64) -> Vec<usize> {
    // Potentials go below zero; costs are bounded by IMPOSSIBLE, so that sums of them fit.
    let cost = |row: usize, column: usize| cost(row, column).min(IMPOSSIBLE) as i64;
    let mut of_row = vec![0i64; rows + 1];
    let mut of_column = vec![0i64; columns + 1];
    // Column 0 stands for the row that the search places.
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
    fn a_gpu_with_one_near_port_gets_it_before_a_flexible_one() {
        // GPU 0 can do with either; GPU 1 has only port 0.
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
    fn more_ports_than_gpus_are_all_used() {
        let out = assign(2, 4, |gpu, port| (gpu as u64).abs_diff(port as u64 / 2));
        assert_eq!(out, [[0, 1], [2, 3]]);
        assert_eq!(assign(0, 3, |_, _| 0), Vec::<Vec<usize>>::new());
        assert_eq!(assign(2, 0, |_, _| 0), [Vec::<usize>::new(), Vec::new()]);
    }

    #[test]
    fn the_cost_is_the_least_there_is() {
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
            let matched = least(5, 5, |gpu, port| cost[gpu][port]);
            if let Some(nearest) = nearest(5, 5, |gpu, port| cost[gpu][port]) {
                shortcuts += 1;
                let nearest: Vec<usize> = nearest.into_iter().map(|ports| ports[0]).collect();
                assert_eq!(nearest, matched);
            }
        }
        assert!(shortcuts > 0, "some of them are that easy");
    }

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

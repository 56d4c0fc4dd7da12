//! The time of work, for the benches.

#![expect(clippy::disallowed_methods, reason = "a bench reads the clock")]
#![allow(dead_code, reason = "no bench needs all of it")]

use std::hint::black_box;
use std::time::Instant;

/// Milliseconds by the clock, and on processors.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) wall_ms: f64,
    pub(crate) cpu_ms: f64,
}

impl std::fmt::Display for Taken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} ({:.1} cpu)", self.wall_ms, self.cpu_ms)
    }
}

/// Time on a processor of all threads together, as Linux counts it; 0 elsewhere.
pub(crate) fn cpu_ms() -> f64 {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return 0.0;
    };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|line| line.split_whitespace().next()?.parse::<f64>().ok())
        .sum::<f64>()
        / 1e6
}

/// The time of each of `runs` runs, and the result of the last one. The result of an earlier run is
/// dropped before the next begins.
pub(crate) fn time<T>(runs: usize, mut work: impl FnMut() -> T) -> (Vec<Taken>, T) {
    let (mut taken, mut result) = (Vec::with_capacity(runs), None);
    for _ in 0..runs {
        drop(result.take());
        let (start, cpu) = (Instant::now(), cpu_ms());
        result = Some(black_box(work()));
        taken.push(Taken {
            wall_ms: start.elapsed().as_secs_f64() * 1e3,
            cpu_ms: cpu_ms() - cpu,
        });
    }
    (taken, result.expect("at least one run"))
}

/// The best of each, of `runs` runs.
pub(crate) fn best<T>(runs: usize, work: impl FnMut() -> T) -> (Taken, T) {
    let (taken, result) = time(runs, work);
    let least = |of: fn(&Taken) -> f64| taken.iter().map(of).fold(f64::INFINITY, f64::min);
    let best = Taken {
        wall_ms: least(|taken| taken.wall_ms),
        cpu_ms: least(|taken| taken.cpu_ms),
    };
    (best, result)
}

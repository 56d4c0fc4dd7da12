//! Measures the cost of the past of counters at 45,056 hosts.

use std::fs;

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_store::io::Disk;

use crate::{Bounds, Counts, Part, Past, PastReader, Quantity, Reading, Span, Tier, Wanted};

/// Number of hosts.
const HOSTS: u64 = 45_056;

/// Number of switch ports in three full tiers of 64-port switches.
const SWITCH_PORTS: u64 = 5 * HOSTS;

/// The next random number (xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

/// Random counts of a port in `seconds`. A tenth of the ports is idle. Each of the others has a
/// load of its own, which varies by a third between readings. Packets have at most 4 KiB. In a
/// quarter of the readings, packets had to wait; one in 20,000 readings has errors.
fn counts(port: u64, seconds: u64, state: &mut u64) -> Counts {
    let mut counts = Counts::default();
    if port % 10 == 9 {
        return counts;
    }
    // Up to 50 GB/s, in words.
    let load = 12_500_000_000 / (1 + port / 640 % 7);
    for (data, packets) in [
        (Quantity::XmitData, Quantity::XmitPkts),
        (Quantity::RcvData, Quantity::RcvPkts),
    ] {
        counts[data] = (load * 2 / 3 + random(state) % (load / 3)) * seconds;
        counts[packets] = counts[data] / (900 + random(state) % 124);
    }
    if random(state).is_multiple_of(4) {
        counts[Quantity::XmitWait] = random(state) % (load / 10 * seconds);
    }
    if random(state).is_multiple_of(20_000) {
        counts[Quantity::SymbolError] = 1 + random(state) % 40;
    }
    counts
}

/// A text with the CPU seconds of queries about the whole span.
fn query_costs(reader: &PastReader, until_unix_ms: u64) -> String {
    let span = Span {
        since_unix_ms: 0,
        until_unix_ms,
    };
    let port = PortKey::new(Guid(1000), PortNum(12));
    let before = cpu_seconds();
    let series = reader.series(Part::Port(port), span, None).unwrap();
    let of_series = cpu_seconds();
    let errors = reader.moved(None, span, Wanted::Errors).unwrap();
    let of_errors = cpu_seconds();
    let all = reader.moved(None, span, Wanted::All).unwrap();
    let of_all = cpu_seconds();
    format!(
        " series of {} points {:.2} s, errors of {} ports {:.2} s, traffic of {} ports {:.2} s;",
        series.points.len(),
        of_series - before,
        errors.len(),
        of_errors - of_series,
        all.len(),
        of_all - of_errors
    )
}

/// Writes a day of readings with the default intervals, and prints bytes by tier and CPU seconds.
pub(crate) fn day() {
    const NOON: u64 = 1_800_000_000_000;
    let dir = tempfile::tempdir().unwrap();
    let bounds = Bounds {
        days: 30,
        bytes: 4 << 30,
    };
    let mut past = Past::open(dir.path(), Disk::new(), bounds).unwrap();
    let hours: u64 = std::env::var("HOURS").map_or(24, |hours| hours.parse().unwrap());
    let (mut state, mut readings) = (88_172_645_463_325_252, Vec::new());
    let (mut generation, begin) = (0.0, cpu_seconds());
    for batch in 0..hours * 360 {
        let before = cpu_seconds();
        let at_unix_ms = NOON + batch * 10_000;
        readings.clear();
        // Every ten seconds, a third of the ports of switches and a thirtieth of the ports of hosts
        // are read.
        for port in 0..SWITCH_PORTS {
            if port / 64 % 3 == batch % 3 {
                let key = PortKey::new(Guid(port / 64), PortNum((port % 64 + 1) as u8));
                readings.push((key, true, 30, port));
            }
        }
        for host in 0..HOSTS {
            if host % 30 == batch % 30 {
                let key = PortKey::new(Guid(1 << 32 | host), PortNum(1));
                readings.push((key, false, 300, host));
            }
        }
        let mut batch_readings: Vec<Reading> = readings
            .iter()
            .map(|&(port, is_switch, seconds, number)| Reading {
                port,
                is_switch,
                since_unix_ms: Some(at_unix_ms - seconds * 1000),
                at_unix_ms,
                counts: counts(number, seconds, &mut state),
            })
            .collect();
        generation += cpu_seconds() - before;
        past.add(&mut batch_readings).unwrap();
    }
    let cpu = cpu_seconds() - begin - generation;
    let mut text = format!(
        "{hours} h: {cpu:.0} s of CPU, {:.4} of a core;",
        cpu / (hours * 3600) as f64
    );
    for tier in Tier::ALL {
        let segments = past.reader().segments(tier);
        let (bytes, steps) = segments.iter().fold((0, 0), |(bytes, steps), one| {
            (bytes + one.bytes, steps + one.steps)
        });
        let kept = tier.kept_steps(bounds.days) as u64;
        let full = bytes * kept / steps.max(1) as u64;
        text += &format!(" {tier:?} {bytes} bytes for {steps} steps, {full} when full;");
    }
    text += &query_costs(&past.reader(), NOON + hours * 3_600_000);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or_default();
    #[expect(clippy::print_stdout, reason = "the figures are what the test is for")]
    {
        println!("{text} {peak}");
    }
}

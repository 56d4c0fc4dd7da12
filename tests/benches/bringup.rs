//! Bringing a subnet up: rsm next to OpenSM on the same simulated fabric.
//!
//! `cargo bench -p rsm-tests --bench bringup [-- [--net FILE | --spec SPEC] [--rounds N] [--only
//! NAME]]`. Every run starts with a fresh ibsim, in which no port has a LID; contenders take turns.
//! Wall time and peak memory are those of the whole process, without the tap; one more run through
//! the tap counts SMPs.

mod options;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use rsm_tests::Error;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::measure::{Comparison, milliseconds};
use rsm_tests::process::Invocation;
use rsm_tests::sm::{OnceReport, check_states, opensm_once, rsm_once};
use rsm_tests::tap::{Tally, Tap};

use options::Options;

/// The fabric of the comparison: 3,456 hosts and 720 switches.
const DEFAULT_SPEC: &str = "fat-tree:k=24,levels=3";

/// Longest a contender may take.
const LIMIT: Duration = Duration::from_secs(300);

/// The contenders by name, and how to start them.
const CONTENDERS: [(&str, Start); 3] = [
    ("rsm", |ibsim, tap, host| {
        rsm_once(ibsim, tap, host, &ibsim.directory().join("state"))
    }),
    ("opensm -o", |ibsim, tap, host| {
        opensm_once(ibsim, tap, host)
    }),
    ("opensm -o -n 64", |ibsim, tap, host| {
        Ok(opensm_once(ibsim, tap, host)?.args(["-n", "64"]))
    }),
];

type Start = fn(&Ibsim, Option<&Tap>, &str) -> Result<Invocation, Error>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = Options::from_arguments(5)?;
    let directory = tempfile::tempdir()?;
    let net = options.net(DEFAULT_SPEC, directory.path())?;
    let contenders: Vec<_> = CONTENDERS
        .iter()
        .filter(|(name, _)| options.takes_part(name))
        .collect();
    let mut out = std::io::stdout();

    let mut comparison = Comparison::default();
    for round in 1..=options.rounds() {
        for (name, start) in &contenders {
            let (wall, peak) = timed(&net, *start)?;
            comparison.of(name).add("wall_ms", milliseconds(wall));
            comparison.of(name).add("peak_rss_mib", peak);
            writeln!(
                out,
                "round {round}: {name}: {:.0} ms, {peak:.0} MiB",
                milliseconds(wall)
            )?;
        }
    }
    for (name, start) in &contenders {
        let tally = counted(&net, *start)?;
        comparison.of(name).add("smps", tally.total() as f64);
        writeln!(out, "{name}: {tally}")?;
    }
    writeln!(out, "\n{}", comparison.table())?;
    writeln!(out, "{}", comparison.json("bringup", "rsm"))?;
    Ok(())
}

/// One run: whole-process wall time and peak memory in MiB.
fn timed(net: &Path, start: Start) -> Result<(Duration, f64), Error> {
    let ibsim = Ibsim::start(net)?;
    let hosts = ibsim.hosts();
    let finished = start(&ibsim, None, hosts[0])?.run(LIMIT)?.success()?;
    let states = check_states(&ibsim, hosts[hosts.len() - 1])?;
    if !states.not_active.is_empty() {
        return Err(Error::Failed {
            command: finished.command,
            outcome: "ports left inactive".into(),
            output: states.not_active.join(", "),
        });
    }
    Ok((
        finished.wall,
        finished.peak_rss_bytes as f64 / f64::from(1 << 20),
    ))
}

/// One run through the tap: the requests sent. rsm's own count must be the same.
fn counted(net: &Path, start: Start) -> Result<Tally, Error> {
    let ibsim = Ibsim::start(net)?;
    let tap = Tap::open(&ibsim)?;
    let finished = start(&ibsim, Some(&tap), ibsim.hosts()[0])?
        .run(LIMIT)?
        .success()?;
    let tally = tap.tally();
    if let Ok(report) = OnceReport::of(&finished) {
        let own = report.smps_sent()?;
        if own != tally.total() {
            return Err(Error::Output {
                program: "rsm".into(),
                detail: format!("says it sent {own} SMPs, the tap saw {tally}"),
            });
        }
    }
    Ok(tally)
}

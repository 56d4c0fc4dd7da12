//! Compares how rsm and OpenSM bring the subnet of the same simulated fabric up.
//!
//! `cargo bench -p rsm-tests --bench bringup [-- [--net FILE | --spec SPEC] [--rounds N] [--only
//! NAME]]`. Every run starts with a fresh ibsim, in which no port has a LID, and contenders take
//! turns. Wall time and peak memory are figures of the whole process, measured without the tap; one
//! more run through the tap counts SMPs.

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

/// The time limit for a run of a contender.
const LIMIT: Duration = Duration::from_secs(300);

/// The contenders: for each its name and the function that starts it.
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
            let (wall, peak_mib) = measure_run(&net, *start)?;
            comparison.of(name).add("wall_ms", milliseconds(wall));
            comparison.of(name).add("peak_rss_mib", peak_mib);
            writeln!(
                out,
                "round {round}: {name}: {:.0} ms, {peak_mib:.0} MiB",
                milliseconds(wall)
            )?;
        }
    }
    for (name, start) in &contenders {
        let tally = count_requests(&net, *start)?;
        comparison.of(name).add("smps", tally.total() as f64);
        writeln!(out, "{name}: {tally}")?;
    }
    writeln!(out, "\n{}", comparison.table())?;
    writeln!(out, "{}", comparison.json("bringup", "rsm"))?;
    Ok(())
}

/// Runs a contender once. Returns the wall time and the peak memory in MiB of the whole process.
fn measure_run(net: &Path, start: Start) -> Result<(Duration, f64), Error> {
    let ibsim = Ibsim::start(net)?;
    let hosts = ibsim.hosts();
    let finished = start(&ibsim, None, hosts[0])?.run(LIMIT)?.success()?;
    let states = check_states(&ibsim, hosts[hosts.len() - 1])?;
    if !states.not_active.is_empty() {
        return Err(Error::Failed {
            command: finished.command,
            outcome: "ports are not Active after the run".into(),
            output: states.not_active.join(", "),
        });
    }
    Ok((
        finished.wall,
        finished.peak_rss_bytes as f64 / f64::from(1 << 20),
    ))
}

/// Runs a contender once through the tap. Returns the sent requests, which must equal rsm's own
/// count.
fn count_requests(net: &Path, start: Start) -> Result<Tally, Error> {
    let ibsim = Ibsim::start(net)?;
    let tap = Tap::open(&ibsim)?;
    let finished = start(&ibsim, Some(&tap), ibsim.hosts()[0])?
        .run(LIMIT)?
        .success()?;
    let tally = tap.tally();
    if let Ok(report) = OnceReport::of(&finished) {
        let reported = report.smps_sent()?;
        if reported != tally.total() {
            return Err(Error::Output {
                program: "rsm".into(),
                detail: format!("reports {reported} sent SMPs, but the tap counted {tally}"),
            });
        }
    }
    Ok(tally)
}

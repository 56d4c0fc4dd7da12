//! The routes that OpenSM's engines compute.

use std::path::Path;
use std::time::Duration;

use super::opensm::opensm_once;
use crate::error::Error;
use crate::ibsim::Ibsim;

/// The routes of one of OpenSM's engines.
#[derive(Debug)]
pub struct ForeignRoutes {
    /// The engine of these tables: a fallback if the requested engine failed.
    pub engine: String,
    /// The forwarding tables, in the form of `opensm-lfts.dump`.
    pub dump: Vec<u8>,
    /// The time from the start of routing until the tables are passed to the sender, according to
    /// the log.
    pub route: Duration,
    /// The time of the whole process.
    pub wall: Duration,
}

/// Runs OpenSM once with `engine`, attached to `host`.
///
/// # Errors
///
/// OpenSM cannot be run, does not bring the subnet up within `limit`, or leaves no tables.
pub fn opensm_routes(
    ibsim: &Ibsim,
    host: &str,
    engine: &str,
    limit: Duration,
) -> Result<ForeignRoutes, Error> {
    let opensm = opensm_once(ibsim, None, host)?;
    let directory = opensm.directory().to_owned();
    let file = |name: &str| directory.join(name);
    // Only routing logs more than usual: level 0x04 logs its beginning, 0x02 its end.
    let module_levels = file("log-levels");
    write(&module_levels, "osm_ucast_mgr.c 0x47\n")?;
    let settings = format!("per_module_logging_file {}\n", module_levels.display());
    write(&file("opensm.conf"), &settings)?;
    // Level 0x43 logs errors, information and the routing dumps.
    let finished = opensm
        .arg("-F")
        .arg(file("opensm.conf"))
        .args(["-D", "0x43", "-R", engine])
        .run(limit)?
        .success()?;
    let log = String::from_utf8_lossy(&read(&file("opensm.log"))?).into_owned();
    let (engine, route) = routing(&log).ok_or_else(|| Error::Output {
        program: "opensm".into(),
        detail: format!("its log does not tell when {engine} routed: {log}"),
    })?;
    Ok(ForeignRoutes {
        engine,
        dump: read(&file("opensm-lfts.dump"))?,
        route,
        wall: finished.wall,
    })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })
}

/// The first engine that succeeded, and the routing time, including engines that failed before.
fn routing(log: &str) -> Option<(String, Duration)> {
    let begin = log
        .lines()
        .find(|line| line.contains("building routing with '"))?;
    let end = log
        .lines()
        .find(|line| line.contains("tables configured on all switches"))?;
    let engine = end
        .split_once("osm_ucast_mgr_process: ")?
        .1
        .split(' ')
        .next()?;
    let day = Duration::from_secs(24 * 60 * 60);
    let (begin, end) = (time_of_day(begin)?, time_of_day(end)?);
    // Midnight may be between the two times.
    let end = if end < begin { end + day } else { end };
    Some((engine.to_owned(), end - begin))
}

/// Parses the time at the beginning of a line such as `Nov 21 21:10:59 525961 [64C656C0] 0x04 ->
/// …`.
fn time_of_day(line: &str) -> Option<Duration> {
    let mut words = line.split_whitespace().skip(2);
    let clock = words.next()?;
    let microseconds = words.next()?.parse().ok()?;
    let mut seconds = 0;
    for part in clock.split(':') {
        seconds = seconds * 60 + part.parse::<u64>().ok()?;
    }
    Some(Duration::from_secs(seconds) + Duration::from_micros(microseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_yields_the_engine_and_its_routing_time() {
        let log = "\
Nov 21 23:59:59 900000 [A] 0x04 -> ucast_mgr_route: building routing with 'ftree' routing algorithm...
Nov 21 23:59:59 950000 [A] 0x02 -> ucast_mgr_route: ftree: cannot build fwd tables.
Nov 21 23:59:59 990000 [A] 0x04 -> ucast_mgr_route: building routing with 'minhop' routing algorithm...
Nov 22 00:00:01 100000 [A] 0x02 -> osm_ucast_mgr_process: minhop tables configured on all switches
Nov 22 00:00:02 100000 [A] 0x02 -> SUBNET UP
";
        assert_eq!(
            routing(log),
            Some(("minhop".to_owned(), Duration::from_millis(1200)))
        );
        assert_eq!(
            routing("Nov 22 00:00:02 100000 [A] 0x02 -> SUBNET UP"),
            None
        );
    }
}

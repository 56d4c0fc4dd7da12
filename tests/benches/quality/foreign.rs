//! OpenSM's tables: computed now, or by an earlier run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rsm_routing::ibnetdiscover;
use rsm_routing::netlist::Netlist;
use rsm_tests::ibsim::Ibsim;
use rsm_tests::measure::milliseconds;
use rsm_tests::sm::opensm_routes;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::AnyError;
use crate::options::Options;

/// OpenSM on one fabric and its broken versions.
pub(crate) struct Foreign {
    limit: Duration,
    dumps: Option<PathBuf>,
    directory: TempDir,
    /// Engines not tried any more, with the reason.
    given_up: BTreeMap<&'static str, String>,
}

/// The result of one of its engines.
pub(crate) struct Made {
    /// The engine of these tables.
    pub(crate) used: String,
    pub(crate) dump: Vec<u8>,
    pub(crate) route_ms: f64,
}

impl Foreign {
    pub(crate) fn new(options: &Options, limit_s: u64) -> Result<Foreign, AnyError> {
        Ok(Foreign {
            limit: Duration::from_secs(options.limit_s().unwrap_or(limit_s)),
            dumps: options.dumps().map(Path::to_owned),
            directory: tempfile::tempdir()?,
            given_up: BTreeMap::new(),
        })
    }

    /// The routes of `engine` on a fabric, or why it has none.
    pub(crate) fn routes(
        &mut self,
        case: &str,
        netlist: &Netlist,
        engine: &'static str,
    ) -> Result<Result<Made, String>, AnyError> {
        let kept = self.dumps.as_ref().map(|dumps| {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            let name: String = format!("{case}, {engine}").chars().map(plain).collect();
            dumps.join(name)
        });
        if let Some(kept) = &kept
            && let Some(found) = read(kept)?
        {
            return Ok(found);
        }
        if let Some(reason) = self.given_up.get(engine) {
            return Ok(Err(reason.clone()));
        }
        let found = self.run(netlist, engine)?;
        if let Err(reason) = &found
            && reason == TIMED_OUT
        {
            let limit_s = self.limit.as_secs();
            let reason = format!("not tried: it took over {limit_s} s on {case}");
            self.given_up.insert(engine, reason);
            return Ok(Err(format!("stopped after {limit_s} s")));
        }
        if let Some(kept) = &kept {
            write(kept, &found)?;
        }
        Ok(found)
    }

    fn run(&self, netlist: &Netlist, engine: &str) -> Result<Result<Made, String>, AnyError> {
        let net = self.directory.path().join("fabric.net");
        let mut text = Vec::new();
        ibnetdiscover::write(netlist, &mut text)?;
        std::fs::write(&net, text)?;
        let ibsim = Ibsim::start(&net)?;
        let made = opensm_routes(&ibsim, ibsim.hosts()[0], engine, self.limit);
        Ok(match made {
            Ok(routes) => Ok(Made {
                used: routes.engine,
                dump: routes.dump,
                route_ms: milliseconds(routes.route),
            }),
            Err(rsm_tests::Error::Failed { outcome, .. }) => Err(outcome),
            Err(error) => {
                let text = error.to_string();
                Err(text.lines().next().unwrap_or_default().to_owned())
            }
        })
    }
}

/// The outcome of a program killed at its limit.
const TIMED_OUT: &str = "timed out";

fn read(kept: &Path) -> Result<Option<Result<Made, String>>, AnyError> {
    let about = kept.with_extension("json");
    if !about.exists() {
        return Ok(None);
    }
    let about: Value = serde_json::from_slice(&std::fs::read(about)?)?;
    if let Some(reason) = about["failed"].as_str() {
        return Ok(Some(Err(reason.to_owned())));
    }
    Ok(Some(Ok(Made {
        used: about["used"].as_str().unwrap_or_default().to_owned(),
        route_ms: about["route_ms"].as_f64().unwrap_or_default(),
        dump: std::fs::read(kept.with_extension("lfts"))?,
    })))
}

fn write(kept: &Path, found: &Result<Made, String>) -> Result<(), AnyError> {
    let about = match found {
        Ok(made) => {
            std::fs::write(kept.with_extension("lfts"), &made.dump)?;
            json!({ "used": made.used, "route_ms": made.route_ms })
        }
        Err(reason) => json!({ "failed": reason }),
    };
    // Write it last, after the files that it describes.
    std::fs::write(kept.with_extension("json"), about.to_string())?;
    Ok(())
}

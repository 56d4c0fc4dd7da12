//! OpenSM's tables, computed by this run or kept from an earlier run.

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

/// Runs OpenSM on a fabric and on its broken versions.
pub(crate) struct OpenSmRunner {
    limit: Duration,
    dumps: Option<PathBuf>,
    directory: TempDir,
    /// The engines that are no longer tried, each with the reason.
    given_up: BTreeMap<&'static str, String>,
}

/// The tables of an engine of OpenSM.
pub(crate) struct OpenSmTables {
    /// The engine that computed the tables, which may differ from the requested engine.
    pub(crate) used: String,
    pub(crate) dump: Vec<u8>,
    pub(crate) route_ms: f64,
}

impl OpenSmRunner {
    pub(crate) fn new(options: &Options, limit_s: u64) -> Result<OpenSmRunner, AnyError> {
        Ok(OpenSmRunner {
            limit: Duration::from_secs(options.limit_s().unwrap_or(limit_s)),
            dumps: options.dumps().map(Path::to_owned),
            directory: tempfile::tempdir()?,
            given_up: BTreeMap::new(),
        })
    }

    /// The tables of `engine` on a fabric, or the reason why the engine has none.
    pub(crate) fn routes(
        &mut self,
        case: &str,
        netlist: &Netlist,
        engine: &'static str,
    ) -> Result<Result<OpenSmTables, String>, AnyError> {
        let kept_file = self.dumps.as_ref().map(|dumps| {
            let replace_special = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
            let name: String = format!("{case}, {engine}")
                .chars()
                .map(replace_special)
                .collect();
            dumps.join(name)
        });
        if let Some(kept_file) = &kept_file
            && let Some(outcome) = read(kept_file)?
        {
            return Ok(outcome);
        }
        if let Some(reason) = self.given_up.get(engine) {
            return Ok(Err(reason.clone()));
        }
        let outcome = self.run(netlist, engine)?;
        if let Err(reason) = &outcome
            && reason == TIMED_OUT
        {
            let limit_s = self.limit.as_secs();
            let reason = format!("not tried: the engine took over {limit_s} s on {case}");
            self.given_up.insert(engine, reason);
            return Ok(Err(format!("stopped after {limit_s} s")));
        }
        if let Some(kept_file) = &kept_file {
            write(kept_file, &outcome)?;
        }
        Ok(outcome)
    }

    fn run(
        &self,
        netlist: &Netlist,
        engine: &str,
    ) -> Result<Result<OpenSmTables, String>, AnyError> {
        let net = self.directory.path().join("fabric.net");
        let mut text = Vec::new();
        ibnetdiscover::write(netlist, &mut text)?;
        std::fs::write(&net, text)?;
        let ibsim = Ibsim::start(&net)?;
        let tables = opensm_routes(&ibsim, ibsim.hosts()[0], engine, self.limit);
        Ok(match tables {
            Ok(routes) => Ok(OpenSmTables {
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

/// The outcome of a program that was killed at its time limit.
const TIMED_OUT: &str = "timed out";

fn read(kept_file: &Path) -> Result<Option<Result<OpenSmTables, String>>, AnyError> {
    let metadata = kept_file.with_extension("json");
    if !metadata.exists() {
        return Ok(None);
    }
    let metadata: Value = serde_json::from_slice(&std::fs::read(metadata)?)?;
    if let Some(reason) = metadata["failed"].as_str() {
        return Ok(Some(Err(reason.to_owned())));
    }
    Ok(Some(Ok(OpenSmTables {
        used: metadata["used"].as_str().unwrap_or_default().to_owned(),
        route_ms: metadata["route_ms"].as_f64().unwrap_or_default(),
        dump: std::fs::read(kept_file.with_extension("lfts"))?,
    })))
}

fn write(kept_file: &Path, outcome: &Result<OpenSmTables, String>) -> Result<(), AnyError> {
    let metadata = match outcome {
        Ok(tables) => {
            std::fs::write(kept_file.with_extension("lfts"), &tables.dump)?;
            json!({ "used": tables.used, "route_ms": tables.route_ms })
        }
        Err(reason) => json!({ "failed": reason }),
    };
    // The metadata are written last, after the file that they describe.
    std::fs::write(kept_file.with_extension("json"), metadata.to_string())?;
    Ok(())
}

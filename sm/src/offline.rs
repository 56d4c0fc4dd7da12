//! A fabric without hardware, from a file or a generator.

use std::path::Path;

use anyhow::Context as _;
use rsm_routing::generate;
use rsm_routing::ibnetdiscover::{self, Strictness};
use rsm_routing::netlist::Netlist;
use rsm_sim::{Devices, SimConfig};

/// The largest fabric file that is read, in bytes: a full subnet of 49,151 LIDs is a tenth of it.
const FILE_MAX: u64 = 256 * 1024 * 1024;

/// The fabric of `spec`: a file in ibnetdiscover's or ibsim's format if there is one of that name,
/// else a generator's specification.
///
/// # Errors
/// The file cannot be read, or holds no fabric (with file and line); or the specification is wrong
/// (with the expected text and its place).
pub fn load(spec: &str) -> anyhow::Result<Netlist> {
    load_as(spec, Strictness::Strict)
}

/// The fabric of `spec` as for [`load`], with a choice for lines of a file that cannot be read.
///
/// # Errors
/// As [`load`]; of a lenient reading, where no node is left.
pub fn load_as(spec: &str, strictness: Strictness) -> anyhow::Result<Netlist> {
    let path = Path::new(spec);
    if !path.is_file() {
        if spec.contains('/') || path.extension().is_some_and(|end| end == "txt") {
            anyhow::bail!("there is no file {spec}");
        }
        return Ok(generate::generate(spec)?);
    }
    let size = std::fs::metadata(path)
        .with_context(|| format!("cannot read {spec}"))?
        .len();
    anyhow::ensure!(
        size <= FILE_MAX,
        "{spec} has {size} bytes: expected a fabric of at most {FILE_MAX}"
    );
    let text = std::fs::read(path).with_context(|| format!("cannot read {spec}"))?;
    let parsed = ibnetdiscover::parse_as(&text, spec, strictness)?;
    for warning in &parsed.warnings {
        tracing::warn!("{spec}: {warning}");
    }
    Ok(parsed.netlist)
}

/// Follows the name of a file of which lines that cannot be read are left out.
const LENIENT: &str = ",lenient";

/// The fabric to simulate and its hardware: `spec` as for [`load`], with `devices=…` for devices
/// with habits (`ring:6,devices=mix:7`, `fabric.txt,devices=qib`), `vports=…` for hosts with virtual
/// ports (`ring:6,vports=16`), and `lenient` for a file of which lines that cannot be read are left
/// out (`fabric.txt,lenient`).
///
/// # Errors
/// As [`load_as`]; or `devices=` has an unknown name (with the known ones), or `vports=` no number.
pub fn simulated(spec: &str) -> anyhow::Result<(Netlist, SimConfig)> {
    simulated_as(spec, Strictness::Strict)
}

/// The fabric to simulate as for [`simulated`]; `strictness` where `spec` does not say `lenient`.
///
/// # Errors
/// As [`simulated`].
pub fn simulated_as(spec: &str, strictness: Strictness) -> anyhow::Result<(Netlist, SimConfig)> {
    let (spec, devices) = Devices::split(spec)?;
    let mut config = SimConfig {
        devices,
        ..SimConfig::default()
    };
    let spec = config.split_vports(&spec)?;
    let netlist = match spec.strip_suffix(LENIENT) {
        Some(file) => load_as(file, Strictness::Lenient)?,
        None => load_as(&spec, strictness)?,
    };
    Ok((netlist, config))
}

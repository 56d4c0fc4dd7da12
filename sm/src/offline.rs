//! Loads a fabric without hardware, from a file or a generator.

use std::path::Path;

use anyhow::Context as _;
use rsm_routing::generate;
use rsm_routing::ibnetdiscover::{self, Strictness};
use rsm_routing::netlist::Netlist;
use rsm_sim::{Devices, SimConfig};

/// Largest size of a fabric file that is read, in bytes: ten times the file of a full subnet of
/// 49,151 LIDs.
const FILE_MAX: u64 = 256 * 1024 * 1024;

/// Loads the fabric of `spec`: a file in ibnetdiscover's or ibsim's format if a file with this name
/// exists, otherwise a generator's specification.
///
/// # Errors
/// The file cannot be read or contains no fabric (the error states file and line), or the
/// specification is invalid (the error states the expected text and its place).
pub fn load(spec: &str) -> anyhow::Result<Netlist> {
    load_as(spec, Strictness::Strict)
}

/// Loads the fabric of `spec` like [`load`]; `strictness` decides about unreadable lines of a file.
///
/// # Errors
/// Fails as [`load`] does; a lenient reading also fails if no node is left.
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

/// Suffix of a file name that requests omission of unreadable lines.
const LENIENT: &str = ",lenient";

/// Loads the fabric to simulate and its hardware. Accepts `spec` like [`load`], followed by
/// `devices=…` for devices with habits (`ring:6,devices=mix:7`, `fabric.txt,devices=qib`),
/// `vports=…` for hosts with virtual ports (`ring:6,vports=16`), and `lenient` for omission of
/// unreadable lines of a file (`fabric.txt,lenient`).
///
/// # Errors
/// Fails as [`load_as`] does; also if `devices=` has an unknown name (the error lists the known
/// names), or `vports=` is not a number.
pub fn simulated(spec: &str) -> anyhow::Result<(Netlist, SimConfig)> {
    simulated_as(spec, Strictness::Strict)
}

/// Loads the fabric to simulate like [`simulated`]; `strictness` applies unless `spec` contains
/// `lenient`.
///
/// # Errors
/// Fails as [`simulated`] does.
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

//! Inventories from files.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{InventoryFormat, MAX_BYTES, import};
use rsm_gdr::inventory::HostInventory;

/// The name, without extension, of the file for all hosts without a file of their own.
const DEFAULT: &str = "default";

/// The inventories at `path`: a folder with a file for each host, named after it, `default.*` being
/// the machine that other hosts are like; or one file, which all hosts are like.
///
/// The extension gives the format: `.json` (rsm's own), `.tsv` (a snapshot of /sys), `.xml`
/// (hwloc's export, or NCCL's topology), anything else is the output of `nvidia-smi topo -m`.
///
/// # Errors
/// A file that cannot be read, or is no inventory: with its name, line and reason.
pub(in crate::cli) fn inventory(path: &Path, now: u64) -> anyhow::Result<GpuInventory> {
    let mut inventory = GpuInventory::new();
    if !path.is_dir() {
        inventory.insert_machine_type(DEFAULT, &host(path)?)?;
        inventory.set_default(Some(DEFAULT))?;
        return Ok(inventory);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry
            .with_context(|| format!("cannot read {}", path.display()))?
            .path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    ensure!(
        !files.is_empty(),
        "{} has no files: expected one for each host",
        path.display()
    );
    for file in files {
        let Some(name) = file.file_stem().and_then(|name| name.to_str()) else {
            bail!("{} is not named after a host", file.display());
        };
        let told = host(&file)?;
        let taken = match name {
            DEFAULT => inventory
                .insert_machine_type(DEFAULT, &told)
                .and_then(|()| inventory.set_default(Some(DEFAULT))),
            _ => inventory.insert(name, told, now),
        };
        taken.with_context(|| file.display().to_string())?;
    }
    Ok(inventory)
}

/// One host from several files; where they disagree the first holds, and a warning says so.
///
/// # Errors
/// A file that cannot be read, or is no inventory; or together they are none.
pub(super) fn merged(files: &[std::path::PathBuf]) -> anyhow::Result<HostInventory> {
    let (first, rest) = files.split_first().context("no file of a host")?;
    let mut host = self::host(first)?;
    for file in rest {
        for conflict in host.merge(&self::host(file)?) {
            // Even if standard error is closed, the inventory is right.
            drop(writeln!(
                std::io::stderr(),
                "{}: {} of {} is {}: {} holds",
                file.display(),
                conflict.what,
                conflict.device,
                conflict.other,
                conflict.kept
            ));
        }
    }
    host.check()
        .context("together the files are no inventory of a host")?;
    Ok(host)
}

/// The host that a file describes.
fn host(path: &Path) -> anyhow::Result<HostInventory> {
    let shown = path.display();
    let size = fs::metadata(path)
        .with_context(|| format!("cannot read {shown}"))?
        .len();
    ensure!(
        size <= MAX_BYTES as u64,
        "{shown} has {size} bytes: expected at most {MAX_BYTES}"
    );
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    import(format(path, &bytes), &bytes)
        .with_context(|| format!("{shown} is no inventory of a host"))
}

fn format(path: &Path, bytes: &[u8]) -> InventoryFormat {
    let is_hwloc = || {
        bytes
            .windows(b"<topology".len())
            .any(|window| window == b"<topology")
    };
    match path.extension().and_then(|end| end.to_str()) {
        Some("json") => InventoryFormat::Json,
        Some("tsv") => InventoryFormat::Sysfs,
        Some("xml") if is_hwloc() => InventoryFormat::Hwloc,
        Some("xml") => InventoryFormat::NcclXml,
        _ => InventoryFormat::NvidiaSmi,
    }
}

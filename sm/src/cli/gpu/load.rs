//! Reads inventories from files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use rsm_gdr::hosts::GpuInventory;
use rsm_gdr::import::{
    HostStream, InventoryFormat, MAX_BYTES, MAX_STREAM_BYTES, files_by_host, hosts_of_stream,
    import,
};
use rsm_gdr::inventory::HostInventory;

/// File name, without extension, for the hosts that have no file of their own.
const DEFAULT: &str = "default";

/// Reads the inventories at `path`, which is one of:
///
/// - a folder with one or more files for each host, named after the host; `default.*` describes the
///   machine type of all other hosts;
/// - a file with the output of a parallel shell, each line after the name of its host;
/// - a file of one machine type, which all hosts share.
///
/// Detects the format of a file from its content. If two files of a host disagree, the first one in
/// the order of names applies, and a warning is printed.
///
/// # Errors
/// A file cannot be read, or is no inventory. The error states the file's name, the line and the
/// reason.
pub(in crate::cli) fn inventory(path: &Path, now: u64) -> anyhow::Result<GpuInventory> {
    let mut inventory = GpuInventory::new();
    if !path.is_dir() {
        if let Some(stream) = read_stream(path)? {
            for (name, reason) in &stream.silent {
                warn_left_out(path, &format!("host {name} has printed nothing ({reason})"));
            }
            for (name, text) in stream.hosts {
                let shown = || format!("{}, host {name}", path.display());
                let bytes = text.as_bytes();
                let host = import(InventoryFormat::detect(bytes), bytes).with_context(shown)?;
                inventory.insert(&name, host, now).with_context(shown)?;
            }
            return Ok(inventory);
        }
        inventory.insert_machine_type(DEFAULT, &read_host(path)?)?;
        inventory.set_default(Some(DEFAULT))?;
        return Ok(inventory);
    }
    for (name, files) in paths_by_host(path)? {
        let host = merged(&files)?;
        let inserted = match name.as_str() {
            DEFAULT => inventory
                .insert_machine_type(DEFAULT, &host)
                .and_then(|()| inventory.set_default(Some(DEFAULT))),
            _ => inventory.insert(&name, host, now),
        };
        inserted.with_context(|| files[0].display().to_string())?;
    }
    Ok(inventory)
}

/// The text of each host in the output of a parallel shell; `None` for a file of one host.
fn read_stream(path: &Path) -> anyhow::Result<Option<HostStream>> {
    let shown = path.display();
    let size = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
    ensure!(
        size.len() <= MAX_STREAM_BYTES as u64,
        "{shown} has {} bytes: expected at most {MAX_STREAM_BYTES}",
        size.len()
    );
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    hosts_of_stream(&bytes).with_context(|| shown.to_string())
}

/// Files of each host in a folder, in the order of their names, by the host that they are named
/// after.
fn paths_by_host(folder: &Path) -> anyhow::Result<BTreeMap<String, Vec<PathBuf>>> {
    let shown = folder.display();
    let mut names: BTreeSet<String> = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {shown}"))? {
        let file = entry
            .with_context(|| format!("cannot read {shown}"))?
            .path();
        if !file.is_file() {
            continue;
        }
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} is not named after a host", file.display()))?;
        names.insert(name.to_owned());
    }
    let files = files_by_host(names).with_context(|| shown.to_string())?;
    for name in &files.copies {
        warn_left_out(&folder.join(name), "a copy of a file");
    }
    ensure!(
        !files.hosts.is_empty(),
        "{shown} has no files: expected one for each host"
    );
    let paths = |names: Vec<String>| names.into_iter().map(|name| folder.join(name)).collect();
    let hosts = files.hosts.into_iter();
    Ok(hosts.map(|(host, names)| (host, paths(names))).collect())
}

/// Prints the warning that a file, or a part of it, is left out.
fn warn_left_out(path: &Path, why: &str) {
    // The other inventories are valid even if the warning cannot be written.
    drop(writeln!(
        std::io::stderr(),
        "{}: {why}, left out",
        path.display()
    ));
}

/// Merges several files of one host. If they disagree, the first one applies, and a warning is
/// printed.
///
/// # Errors
/// A file cannot be read or is no inventory, or the merged files are no inventory.
pub(super) fn merged(files: &[PathBuf]) -> anyhow::Result<HostInventory> {
    let (first, rest) = files.split_first().context("no file of a host")?;
    let mut host = read_host(first)?;
    for file in rest {
        for conflict in host.merge(&read_host(file)?) {
            // The inventory is valid even if the warning cannot be written.
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

/// Reads the host that a file describes.
fn read_host(path: &Path) -> anyhow::Result<HostInventory> {
    let shown = path.display();
    let size = fs::metadata(path)
        .with_context(|| format!("cannot read {shown}"))?
        .len();
    ensure!(
        size <= MAX_BYTES as u64,
        "{shown} has {size} bytes: expected at most {MAX_BYTES}"
    );
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let host = import(InventoryFormat::detect(&bytes), &bytes)
        .with_context(|| format!("{shown} is no inventory of a host"))?;
    if !host.unknown_members.is_empty() {
        let members = host.unknown_members.join(", ");
        // The inventory is valid even if the warning cannot be written.
        drop(writeln!(
            std::io::stderr(),
            "{shown}: this rsm does not know {members}"
        ));
    }
    Ok(host)
}

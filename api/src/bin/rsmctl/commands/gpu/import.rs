//! Imports inventories from files.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rsm_gdr::import::{InventoryFormat, MAX_BYTES, host_of_file, import, to_json};
use rsm_gdr::inventory::HostInventory;
use rsm_proto::v1;
use tokio_stream::iter;

use crate::failure::Failure;
use crate::session::Session;
use crate::text::{count, printable};

/// The name, without extension, of the file in a folder that applies to hosts without a file of
/// their own.
const DEFAULT: &str = "default";

fn bad(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Refused(format!("{}: {error}", path.display()))
}

/// Reads a file of a size that the server accepts.
pub(super) fn content(file: &Path) -> Result<Vec<u8>, Failure> {
    let about = std::fs::metadata(file).map_err(|error| bad(file, error))?;
    if about.is_dir() {
        let text =
            "a folder: leave --host out, and each file is imported for the host it is named after";
        return Err(bad(file, text));
    }
    let size = about.len();
    if size > MAX_BYTES as u64 {
        return Err(bad(
            file,
            format!("{size} bytes, at most {MAX_BYTES} are sent"),
        ));
    }
    std::fs::read(file).map_err(|error| bad(file, error))
}

/// The format of a file, recognised from its content, as the API numbers formats.
pub(super) fn format_of(content: &[u8]) -> i32 {
    number(InventoryFormat::detect(content))
}

fn number(format: InventoryFormat) -> i32 {
    match format {
        InventoryFormat::NvidiaSmi => v1::GpuFormat::NvidiaSmi,
        InventoryFormat::AmdSmi => v1::GpuFormat::AmdSmi,
        InventoryFormat::NcclXml => v1::GpuFormat::NcclXml,
        InventoryFormat::Hwloc => v1::GpuFormat::Hwloc,
        InventoryFormat::Sysfs => v1::GpuFormat::Sysfs,
        InventoryFormat::Json => v1::GpuFormat::Json,
    }
    .into()
}

/// Imports all hosts of a folder in one call: all of them, or none on an error.
pub(super) async fn folder(
    folder: &Path,
    format: Option<i32>,
    session: &mut Session,
) -> Result<(), Failure> {
    if !folder.is_dir() {
        let text =
            "a file needs --host, the name of its host; or name a folder with a file for each host";
        return Err(bad(folder, text));
    }
    let mut requests = Vec::new();
    let mut machine_type = None;
    for (host, files) in hosts(folder)? {
        let inventory = merged(&files, format)?;
        match host.as_str() {
            DEFAULT => machine_type = Some(inventory),
            _ => requests.push(v1::ImportGpuHostsRequest {
                host,
                format: v1::GpuFormat::Json.into(),
                content: to_json(&inventory).into_bytes(),
            }),
        }
    }
    let answer = session
        .gpu()
        .import_gpu_hosts(iter(requests))
        .await?
        .into_inner();
    if let Some(inventory) = machine_type {
        let request = v1::ImportGpuHostRequest {
            host: DEFAULT.to_owned(),
            machine_type: true,
            format: v1::GpuFormat::Json.into(),
            content: to_json(&inventory).into_bytes(),
        };
        session.gpu().import_gpu_host(request).await?;
    }
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    note_unknown(&answer.unknown_members);
    let hosts = count(answer.hosts.into(), "host", "hosts");
    let line = format!("{hosts} imported, {} changed", answer.changed);
    session.output.line(&line)
}

/// Reports members of inventories that the server has skipped.
pub(super) fn note_unknown(members: &[String]) {
    if !members.is_empty() {
        let text = format!("rsmctl: the server does not know {}", members.join(", "));
        // The rest is kept even if standard error is closed, and a finding names the skipped
        // members.
        let _ = writeln!(io::stderr(), "{}", printable(&text));
    }
}

/// The files of each host, keyed by name without extension, and sorted by name.
fn hosts(folder: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>, Failure> {
    let mut hosts: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(|error| bad(folder, error))? {
        let file = entry.map_err(|error| bad(folder, error))?.path();
        if !file.is_file() {
            continue;
        }
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
            return Err(bad(&file, "it is not named after a host"));
        };
        let host = host_of_file(name).to_owned();
        hosts.entry(host).or_default().push(file);
    }
    if hosts.is_empty() {
        return Err(bad(folder, "no files: expected one for each host"));
    }
    hosts.values_mut().for_each(|files| files.sort());
    Ok(hosts)
}

/// Merges a host's files into one inventory; where they disagree, the first by name wins, and a
/// warning says so.
fn merged(files: &[PathBuf], format: Option<i32>) -> Result<HostInventory, Failure> {
    let mut host: Option<HostInventory> = None;
    for file in files {
        let content = content(file)?;
        let known = InventoryFormat::ALL.into_iter();
        let named = known.into_iter().find(|&one| Some(number(one)) == format);
        let format = named.unwrap_or_else(|| InventoryFormat::detect(&content));
        let read = import(format, &content).map_err(|error| bad(file, error))?;
        let Some(host) = &mut host else {
            host = Some(read);
            continue;
        };
        for conflict in host.merge(&read) {
            let text = format!(
                "rsmctl: {}: {} of {} is {}: {} holds",
                file.display(),
                conflict.what,
                conflict.device,
                conflict.other,
                conflict.kept
            );
            // The inventory is correct even if standard error is closed.
            let _ = writeln!(io::stderr(), "{}", printable(&text));
        }
        host.check().map_err(|error| bad(file, error))?;
    }
    host.ok_or_else(|| Failure::Refused("a host without a file".to_owned()))
}

//! Imports inventories from files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rsm_gdr::import::{
    ImportError, ImportReason, InventoryFormat, MAX_BYTES, MAX_STREAM_BYTES, files_by_host,
    hosts_of_stream, import, to_json,
};
use rsm_gdr::inventory::HostInventory;
use rsm_proto::v1;
use tokio_stream::iter;

use crate::failure::Failure;
use crate::output;
use crate::session::{Session, all_pages};
use crate::text::{count, printable};

/// The name, without extension, of the file in a folder that applies to hosts without a file of
/// their own.
const DEFAULT: &str = "default";

/// The maximum number of hosts that a note names.
const NAMED: usize = 16;

/// The maximum number of characters of a text that an error shows.
const SHOWN: usize = 60;

/// The refusal of a file or folder.
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

/// The [`number`] of a file's format, which is recognised from the content.
pub(super) fn format_of(content: &[u8]) -> i32 {
    number(InventoryFormat::detect(content))
}

/// The number of a format in the API.
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

/// A file of a host: its name for messages, and its content.
type Source = (String, Vec<u8>);

/// Imports all hosts of a folder, or of the output of a parallel shell, in one call: all of them,
/// or none if there is an error. Then imports the machine type [`DEFAULT`], if a file is named so.
pub(super) async fn many(
    path: &Path,
    format: Option<i32>,
    session: &mut Session,
) -> Result<(), Failure> {
    let hosts = match path.is_dir() {
        true => of_folder(path)?,
        false => of_stream(path)?,
    };
    let mut requests = Vec::new();
    let mut imported = BTreeSet::new();
    let mut machine_type = None;
    for (host, inventory) in inventories(hosts, format)? {
        match host.as_str() {
            DEFAULT => machine_type = Some(inventory),
            _ => {
                imported.insert(host.clone());
                requests.push(v1::ImportGpuHostsRequest {
                    host,
                    format: v1::GpuFormat::Json.into(),
                    content: to_json(&inventory).into_bytes(),
                });
            }
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
    session.output.line(&line)?;
    let hosts = list_hosts(session).await?;
    note_names(&hosts, &imported);
    note_without(&hosts);
    Ok(())
}

/// Notes what is wrong with the names of imported hosts, where the server has a fabric.
pub(super) async fn note_imported(
    imported: &BTreeSet<String>,
    session: &mut Session,
) -> Result<(), Failure> {
    note_names(&list_hosts(session).await?, imported);
    Ok(())
}

/// All hosts that the server lists.
async fn list_hosts(session: &mut Session) -> Result<Vec<v1::GpuHost>, Failure> {
    let request = v1::ListGpuHostsRequest::default();
    all_pages(request, async |request| {
        session.gpu().list_gpu_hosts(request).await
    })
    .await
}

/// Notes imported hosts whose name no host of the fabric has, and hosts that the fabric has under
/// another name, which is imported as well.
fn note_names(hosts: &[v1::GpuHost], imported: &BTreeSet<String>) {
    let ours = hosts.iter().filter(|host| imported.contains(&host.name));
    let unknown = ours.clone().filter(|host| host.name_unknown);
    let names: Vec<&str> = unknown.map(|host| host.name.as_str()).collect();
    let hosts = match names.len() {
        0 => String::new(),
        1 => "1 host has".to_owned(),
        number => format!("{number} hosts have"),
    };
    if !names.is_empty() {
        let named = some(&names);
        note(&format!(
            "{hosts} a name that no host of the fabric has: {named}"
        ));
    }
    for finding in ours.flat_map(|host| &host.findings) {
        if finding.kind == CLAIMED {
            note(&finding.evidence);
        }
    }
}

/// The kind of a finding about a host whose ports another host has.
const CLAIMED: &str = "port-claimed-twice";

/// Notes which hosts are cabled like GPU hosts and have no inventory: the import may have left them
/// out by mistake.
fn note_without(hosts: &[v1::GpuHost]) {
    let without = hosts.iter().filter(|host| host.source.is_empty());
    let names: Vec<&str> = without.map(|host| host.name.as_str()).collect();
    if !names.is_empty() {
        let hosts = count(names.len() as u64, "host", "hosts");
        let named = some(&names);
        note(&format!(
            "{hosts} cabled like GPU hosts, without an inventory: {named}"
        ));
    }
}

/// The first [`NAMED`] names, and the number of the others.
fn some(names: &[&str]) -> String {
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more (`rsmctl gpu hosts`)"),
    };
    names[..names.len().min(NAMED)].join(", ") + &more
}

/// Reports members of inventories that the server has skipped.
pub(super) fn note_unknown(members: &[String]) {
    if !members.is_empty() {
        // A finding names the skipped members, too.
        note(&format!("the server does not know {}", members.join(", ")));
    }
}

/// Prints on standard error what an import leaves out.
fn note(text: &str) {
    output::note(&printable(text));
}

/// The files in a folder by the host that they are named after.
fn of_folder(folder: &Path) -> Result<BTreeMap<String, Vec<Source>>, Failure> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for entry in std::fs::read_dir(folder).map_err(|error| bad(folder, error))? {
        let file = entry.map_err(|error| bad(folder, error))?.path();
        if !file.is_file() {
            continue;
        }
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
            return Err(bad(&file, "it is not named after a host"));
        };
        names.insert(name.to_owned());
    }
    if names.is_empty() {
        return Err(bad(folder, "no files: expected one for each host"));
    }
    let files = files_by_host(names).map_err(|error| bad(folder, error))?;
    for name in files.copies {
        let file = folder.join(name);
        note(&format!("{}: a copy of a file, left out", file.display()));
    }
    let mut hosts: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for (host, names) in files.hosts {
        let of_host = hosts.entry(host).or_default();
        for name in names {
            let file = folder.join(name);
            of_host.push((file.display().to_string(), content(&file)?));
        }
    }
    Ok(hosts)
}

/// The text of each host in the output of a parallel shell.
fn of_stream(file: &Path) -> Result<BTreeMap<String, Vec<Source>>, Failure> {
    let size = std::fs::metadata(file)
        .map_err(|error| bad(file, error))?
        .len();
    if size > MAX_STREAM_BYTES as u64 {
        let text = format!("{size} bytes, at most {MAX_STREAM_BYTES} are read");
        return Err(bad(file, text));
    }
    let bytes = std::fs::read(file).map_err(|error| bad(file, error))?;
    let stream = hosts_of_stream(&bytes).map_err(|error| bad(file, error))?;
    let Some(stream) = stream else {
        let text = "a file of one host needs --host, its name; or name a folder with a file for each host, or the output \
                    of a parallel shell (`pdsh -w HOSTS nvidia-smi topo -m`)";
        return Err(bad(file, text));
    };
    let source = |(host, text): (String, String)| {
        let name = format!("{}, host {host}", file.display());
        (host, vec![(name, text.into_bytes())])
    };
    for (host, reason) in &stream.silent {
        let shown = file.display();
        note(&format!(
            "{shown}: host {host} has printed nothing ({reason}), left out"
        ));
    }
    Ok(stream.hosts.into_iter().map(source).collect())
}

/// The inventory of each host.
///
/// # Errors
/// Files cannot be read. The error has the files of all hosts, so that the next import can leave
/// all of them out.
fn inventories(
    hosts: BTreeMap<String, Vec<Source>>,
    format: Option<i32>,
) -> Result<BTreeMap<String, HostInventory>, Failure> {
    let (mut out, mut refused) = (BTreeMap::new(), Vec::new());
    for (host, sources) in hosts {
        match merged(&sources, format) {
            Ok(inventory) => {
                out.insert(host, inventory);
            }
            Err(Failure::Refused(reason)) => refused.push(reason),
            Err(other) => return Err(other),
        }
    }
    match refused.len() {
        0 => Ok(out),
        number => {
            let hosts = count(number as u64, "host", "hosts");
            let reasons = refused.join("\n");
            let text = format!("no host is imported, because of {hosts}:\n{reasons}");
            Err(Failure::Refused(text))
        }
    }
}

/// The text of an error about a file. If the file has no matrix, the text quotes its first line: a
/// tool that failed states the reason there.
fn refusal(error: &ImportError, content: &[u8]) -> String {
    let text = String::from_utf8_lossy(content);
    let begin = text.lines().find(|line| !line.trim().is_empty());
    match begin.filter(|_| error.reason == ImportReason::NoHeader) {
        Some(begin) => {
            let begin: String = begin.trim().chars().take(SHOWN).collect();
            format!("{error}; it begins with `{begin}`")
        }
        None => error.to_string(),
    }
}

/// Merges the files of one host. If two files disagree, the first by name wins, with a warning.
fn merged(sources: &[Source], format: Option<i32>) -> Result<HostInventory, Failure> {
    let refused =
        |name: &str, error: &dyn std::fmt::Display| Failure::Refused(format!("{name}: {error}"));
    let mut host: Option<HostInventory> = None;
    for (name, content) in sources {
        let known = InventoryFormat::ALL.into_iter();
        let named = known.into_iter().find(|&one| Some(number(one)) == format);
        let format = named.unwrap_or_else(|| InventoryFormat::detect(content));
        let read = import(format, content);
        let read = read.map_err(|error| refused(name, &refusal(&error, content)))?;
        let Some(host) = &mut host else {
            host = Some(read);
            continue;
        };
        for conflict in host.merge(&read) {
            note(&format!(
                "{name}: {} of {} is {}: {} holds",
                conflict.what, conflict.device, conflict.other, conflict.kept
            ));
        }
        host.check().map_err(|error| refused(name, &error))?;
    }
    host.ok_or_else(|| Failure::Refused("a host without a file".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MATRIX: &str = "\tGPU0\tmlx5_0\nGPU0\t X \tPIX\nmlx5_0\tPIX\t X \n";

    fn read(hosts: &[(&str, &str)]) -> Result<BTreeMap<String, HostInventory>, String> {
        let source = |&(host, text): &(&str, &str)| {
            let name = format!("all.txt, host {host}");
            (host.to_owned(), vec![(name, text.as_bytes().to_vec())])
        };
        inventories(hosts.iter().map(source).collect(), None).map_err(|failure| match failure {
            Failure::Refused(text) => text,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_error_names_every_host_without_a_matrix_and_quotes_its_first_line() {
        let hosts = read(&[("a", MATRIX), ("b", MATRIX)]).expect("two hosts");
        assert_eq!(hosts.keys().collect::<Vec<_>>(), ["a", "b"]);
        let failed =
            "\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.";
        let error = read(&[("a", failed), ("b", MATRIX), ("c", "")]).expect_err("two are none");
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines[0], "no host is imported, because of 2 hosts:");
        assert!(
            lines[1].starts_with("all.txt, host a: line 2: no header row"),
            "{error}"
        );
        let shown =
            "; it begins with `NVIDIA-SMI has failed because it couldn't communicate with t`";
        assert!(lines[1].ends_with(shown), "{error}");
        assert!(
            lines[2].starts_with("all.txt, host c: line 1: the file is empty"),
            "{error}"
        );
        assert_eq!(lines.len(), 3);
    }
}

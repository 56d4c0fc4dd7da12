//! Writes files for other programs.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use rsm_gdr::render::{Exporter, host_list};
use rsm_proto::v1;

use crate::failure::Failure;
use crate::output::note;
use crate::session::{Session, all_pages};
use crate::text::{count, printable};

/// Refuses a format that has one file for all hosts.
fn check_file_per_host(format: &str) -> Result<(), Failure> {
    match Exporter::named(format) {
        Some(exporter) if !exporter.of_host => Err(Failure::Usage(format!(
            "{format} is one file for all hosts: leave --all and --dir out"
        ))),
        _ => Ok(()),
    }
}

/// Refuses a format of one host without the host.
fn check_host(format: &str, host: &str) -> Result<(), Failure> {
    match Exporter::named(format) {
        Some(exporter) if exporter.of_host && host.is_empty() => Err(Failure::Usage(format!(
            "{format} is a file for one host: expected --host HOST, or --all --dir FOLDER for the \
             files of all hosts"
        ))),
        _ => Ok(()),
    }
}

/// Writes the file of each GPU host into a folder, under the name of the host. The error at the end
/// lists the hosts without a file; the files of all other hosts are written.
pub(super) async fn export_all(
    request: v1::ExportGpuFileRequest,
    dir: &Path,
    session: &mut Session,
) -> Result<(), Failure> {
    check_file_per_host(&request.name)?;
    let hosts = hosts(dir, session).await?;
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::File(format!("{}: {error}", dir.display())))?;
    let (mut written, mut without, mut warnings) = (0, Vec::new(), BTreeSet::new());
    for host in &hosts {
        let mut request = request.clone();
        request.host.clone_from(host);
        match read_file(request, session).await {
            Ok(_) if !is_file_name(host) => {
                without.push((host, format!("{}: no name of a file", printable(host))))
            }
            Ok(file) => {
                let path = dir.join(host);
                match std::fs::write(&path, &file.content) {
                    Ok(()) => {
                        written += 1;
                        warnings.extend(file.warnings);
                    }
                    Err(error) => without.push((host, format!("{}: {error}", path.display()))),
                }
            }
            Err(Failure::Refused(reason)) => {
                without.push((host, format!("{}: {reason}", printable(host))))
            }
            Err(other) => return Err(other),
        }
    }
    warnings.iter().for_each(|text| note(&printable(text)));
    if let Some(text) = files_of_no_host(dir, &hosts) {
        note(&text);
    }
    if !without.is_empty() {
        let written = count(written, "file", "files");
        let (hosts, reasons): (Vec<&String>, Vec<String>) = without.into_iter().unzip();
        let reasons = reasons.join("\n");
        let mut text = format!("{written} written, none for\n{reasons}");
        text.extend(old_files(dir, &hosts));
        return Err(Failure::Refused(text));
    }
    if session.output.is_json() {
        return session
            .output
            .json(&serde_json::json!({ "written": written }));
    }
    let line = format!("{} in {}", count(written, "file", "files"), dir.display());
    session.output.line(&line)
}

/// The names of the hosts with inventories.
///
/// # Errors
/// There is no fabric, no host, or no port of a host in the fabric. The error names files of these
/// hosts in `dir`, which an earlier export has written.
async fn hosts(dir: &Path, session: &mut Session) -> Result<Vec<String>, Failure> {
    let list = v1::ListGpuHostsRequest::default();
    let mut not_joined = String::new();
    let hosts = all_pages(list, async |request| {
        let page = session.gpu().list_gpu_hosts(request).await?;
        not_joined.clone_from(&page.get_ref().not_joined);
        Ok(page)
    })
    .await?;
    let hosts = hosts.into_iter().filter(|host| !host.source.is_empty());
    let names: Vec<String> = hosts.map(|host| host.name).collect();
    if not_joined.is_empty() {
        return Ok(names);
    }
    let mut text = not_joined;
    text.extend(old_files(dir, &names.iter().collect::<Vec<_>>()));
    Err(Failure::Refused(text))
}

/// The line about files in a folder that an earlier export has written for these hosts; `None`
/// without any.
fn old_files(dir: &Path, hosts: &[&String]) -> Option<String> {
    let is_there = |host: &&&String| is_file_name(host) && dir.join(host).exists();
    let old: Vec<&str> = hosts
        .iter()
        .filter(is_there)
        .map(|host| host.as_str())
        .collect();
    let (verb, whose) = match old.len() {
        0 => return None,
        1 => ("is", "it is"),
        _ => ("are", "they are"),
    };
    let list = printable(&host_list(&old));
    Some(format!(
        "\nin {}, {list} {verb} old: {whose} of an earlier export",
        dir.display()
    ))
}

/// The line about files in a folder that are named after no GPU host: rsm may have forgotten the
/// hosts since an earlier export. `None` without any.
fn files_of_no_host(dir: &Path, hosts: &[String]) -> Option<String> {
    let hosts: BTreeSet<&str> = hosts.iter().map(String::as_str).collect();
    let entries = std::fs::read_dir(dir).ok()?.flatten();
    let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let strangers: BTreeSet<String> = names.filter(|name| !hosts.contains(&**name)).collect();
    let list: Vec<&str> = strangers.iter().map(String::as_str).collect();
    (!list.is_empty()).then(|| {
        format!(
            "in {}, no GPU host has the name of {}: old, if it is of an earlier export",
            dir.display(),
            printable(&host_list(&list))
        )
    })
}

/// Whether a host's name, which the server has sent, names a file in a folder, and nothing outside
/// of the folder.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let only = (parts.next(), parts.next());
    matches!(only, (Some(Component::Normal(part)), None) if part == name)
}

/// Prints a file for other programs, with warnings on standard error.
pub(super) async fn export_one(
    request: v1::ExportGpuFileRequest,
    session: &mut Session,
) -> Result<(), Failure> {
    check_host(&request.name, &request.host)?;
    let file = read_file(request, session).await?;
    if session.output.is_json() {
        return session.output.json(&file);
    }
    file.warnings.iter().for_each(|text| note(&printable(text)));
    session.output.file(&file.content)
}

/// Reads a file from its pieces.
pub(super) async fn read_file(
    request: v1::ExportGpuFileRequest,
    session: &mut Session,
) -> Result<v1::ExportGpuFileResponse, Failure> {
    let request = v1::ExportGpuFilePiecesRequest {
        file: Some(request),
    };
    let mut client = session.gpu();
    let mut stream = client.export_gpu_file_pieces(request).await?.into_inner();
    let mut file = v1::ExportGpuFileResponse::default();
    while let Some(piece) = stream.message().await? {
        file.content.push_str(&piece.content);
        file.generation = piece.generation;
        file.warnings.extend(piece.warnings);
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_outside_the_folder_are_refused() {
        assert!(is_file_name("gpu-001.rack 7"));
        for name in ["", ".", "..", "/", "a/b", "a/", "/etc", "../a"] {
            assert!(!is_file_name(name), "{name}");
        }
    }

    #[test]
    fn format_with_one_file_for_all_hosts_is_refused_for_each_host() {
        assert!(check_file_per_host("nccl-env").is_ok());
        let error = check_file_per_host("slurm-tree");
        assert!(
            matches!(error, Err(Failure::Usage(text)) if text.starts_with("slurm-tree is one file"))
        );
    }
}

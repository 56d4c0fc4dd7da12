use std::io::Write as _;
use std::path::{Component, Path};

use rsm_api::node_list;
use rsm_gdr::render::{Exporter, JobFile, LaunchedRank};
use rsm_proto::v1;

use super::{GpuCommand, check, import};
use crate::failure::Failure;
use crate::session::{Session, all_pages, next_message};
use crate::table::Rows;
use crate::text::{count, printable};

pub(super) async fn run(command: GpuCommand, session: &mut Session) -> Result<(), Failure> {
    match command {
        // `probe` needs no server.
        GpuCommand::Probe(_) => Ok(()),
        GpuCommand::Import {
            host: Some(host),
            file_format,
            machine_type,
            path,
        } => {
            let content = import::content(&path)?;
            let request = v1::ImportGpuHostRequest {
                host,
                machine_type,
                format: file_format.map_or_else(|| import::format_of(&content), i32::from),
                content,
            };
            import_host(request, session).await
        }
        GpuCommand::Import {
            host: None,
            file_format,
            path,
            ..
        } => import::many(&path, file_format.map(i32::from), session).await,
        GpuCommand::Status => status(session).await,
        GpuCommand::Forget {
            hosts,
            machine_type,
        } => forget(hosts, machine_type, session).await,
        GpuCommand::Hosts => hosts(session).await,
        GpuCommand::Check(arguments) => check::run(&arguments, session).await,
        GpuCommand::Watch => watch(session).await,
        GpuCommand::Hints { host } => hints(host, session).await,
        GpuCommand::Pair { from, to } => pair(from, to, session).await,
        GpuCommand::Plan {
            hosts,
            gpus,
            pattern,
            file,
        } => {
            let hosts = match hosts.is_empty() {
                true => hosts,
                false => node_list::expand(&hosts).map_err(Failure::Usage)?,
            };
            let request = v1::PlanGpuJobRequest {
                hosts,
                gpus_per_host: gpus,
                pattern: pattern.into(),
            };
            plan(request, file.as_deref().and_then(JobFile::named), session).await
        }
        GpuCommand::Export {
            file,
            host,
            all: _,
            dir,
            nccl,
            prefix,
            sl,
        } => {
            let request = v1::ExportGpuFileRequest {
                name: file,
                host,
                nccl_version: nccl,
                label_prefix: prefix,
                sl: sl.map(u32::from),
                ..Default::default()
            };
            match dir {
                Some(dir) => {
                    check_file_per_host(&request.name)?;
                    export_all(request, &dir, session).await
                }
                None => export(request, session).await,
            }
        }
    }
}

/// Refuses a format that has one file for all hosts.
fn check_file_per_host(format: &str) -> Result<(), Failure> {
    match Exporter::named(format) {
        Some(exporter) if !exporter.of_host => Err(Failure::Usage(format!(
            "{format} is one file for all hosts: leave --all and --dir out"
        ))),
        _ => Ok(()),
    }
}

/// Writes the file of each GPU host into a folder, under the name of the host. The error at the end
/// lists the hosts without a file; the files of all other hosts are written.
async fn export_all(
    request: v1::ExportGpuFileRequest,
    dir: &Path,
    session: &mut Session,
) -> Result<(), Failure> {
    std::fs::create_dir_all(dir)
        .map_err(|error| Failure::File(format!("{}: {error}", dir.display())))?;
    let list = v1::ListGpuHostsRequest::default();
    let hosts = all_pages(list, async |request| {
        session.gpu().list_gpu_hosts(request).await
    })
    .await?;
    let (mut written, mut without) = (0, Vec::new());
    for host in hosts.into_iter().filter(|host| !host.source.is_empty()) {
        let mut request = request.clone();
        request.host.clone_from(&host.name);
        match read_file(request, session).await {
            Ok(_) if !is_file_name(&host.name) => {
                without.push(format!("{}: no name of a file", printable(&host.name)))
            }
            Ok(file) => {
                let path = dir.join(&host.name);
                match std::fs::write(&path, &file.content) {
                    Ok(()) => written += 1,
                    Err(error) => without.push(format!("{}: {error}", path.display())),
                }
            }
            Err(Failure::Refused(reason)) => {
                without.push(format!("{}: {reason}", printable(&host.name)))
            }
            Err(other) => return Err(other),
        }
    }
    if !without.is_empty() {
        let text = format!("{written} files written, none for\n{}", without.join("\n"));
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

/// Whether a host's name, which the server has sent, names a file in a folder, and nothing outside
/// of the folder.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    let only = (parts.next(), parts.next());
    matches!(only, (Some(Component::Normal(part)), None) if part == name)
}

/// Imports the inventory of one host, and prints its size.
async fn import_host(
    request: v1::ImportGpuHostRequest,
    session: &mut Session,
) -> Result<(), Failure> {
    let answer = session.gpu().import_gpu_host(request).await?.into_inner();
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    import::note_unknown(&answer.unknown_members);
    session
        .output
        .line(&format!("{} GPUs, {} ports", answer.gpus, answer.ports))
}

/// Removes the inventories of hosts or machine types. Prints nothing, except an empty response as
/// JSON. The error at the end lists names that are not known; all others are removed.
async fn forget(
    hosts: Vec<String>,
    machine_type: bool,
    session: &mut Session,
) -> Result<(), Failure> {
    let names = match machine_type {
        true => hosts,
        false => node_list::expand(&hosts).map_err(Failure::Usage)?,
    };
    let mut refused = Vec::new();
    for host in names {
        let request = v1::ForgetGpuHostRequest { host, machine_type };
        match session.gpu().forget_gpu_host(request).await {
            Ok(_) => {}
            Err(status) => match Failure::from(status) {
                Failure::Refused(reason) => refused.push(reason),
                other => return Err(other),
            },
        }
    }
    if !refused.is_empty() {
        return Err(Failure::Refused(refused.join("\n")));
    }
    match session.output.is_json() {
        true => session.output.json(&v1::ForgetGpuHostResponse {}),
        false => Ok(()),
    }
}

/// Prints the hints for a host.
async fn hints(host: String, session: &mut Session) -> Result<(), Failure> {
    let request = v1::GetGpuHintsRequest { host };
    let answer = session.gpu().get_gpu_hints(request).await?.into_inner();
    if session.output.is_json() {
        return session.output.json(&answer.hints);
    }
    text(&answer.text, session)
}

/// Prints a file for other programs.
async fn export(request: v1::ExportGpuFileRequest, session: &mut Session) -> Result<(), Failure> {
    let file = read_file(request, session).await?;
    if session.output.is_json() {
        return session.output.json(&file);
    }
    session.output.file(&file.content)
}

/// Reads a file from its pieces.
async fn read_file(
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
    }
    Ok(file)
}

/// The maximum number of hosts that are listed by name; more hosts are only counted.
const NAMED: usize = 8;

/// Prints changes until the server ends the stream, the reader closes the output or the operator
/// interrupts.
async fn watch(session: &mut Session) -> Result<(), Failure> {
    let request = v1::WatchGpuHostsRequest {};
    let mut stream = session.gpu().watch_gpu_hosts(request).await?.into_inner();
    while let Some(message) = next_message(&mut stream).await? {
        if session.output.is_json() {
            session.output.json_line(&message)?;
        } else {
            session.output.line(&printable(&change(&message)))?;
        }
        session.output.flush()?;
    }
    Ok(())
}

/// A message as one line.
fn change(message: &v1::WatchGpuHostsResponse) -> String {
    let list = |what: &str, hosts: &[String]| match hosts.len() {
        0 => String::new(),
        count if count > NAMED => format!(", {count} hosts {what}"),
        _ => format!(", {what}: {}", hosts.join(" ")),
    };
    format!(
        "generation {}{}{}, {}",
        message.generation,
        list("changed", &message.hosts),
        list("gone", &message.gone),
        count(message.findings.into(), "finding", "findings")
    )
}

async fn status(session: &mut Session) -> Result<(), Failure> {
    let request = v1::GetGpuStatusRequest {};
    let status = session.gpu().get_gpu_status(request).await?.into_inner();
    if session.output.is_json() {
        return session.output.json(&status);
    }
    let hosts = |number: u32| count(number.into(), "host", "hosts");
    let mut lines = vec![
        format!(
            "own       {} with an inventory of their own",
            hosts(status.own)
        ),
        format!(
            "type      {} by their machine type",
            hosts(status.machine_type)
        ),
        format!(
            "without   {} cabled like GPU hosts, without an inventory",
            hosts(status.without)
        ),
    ];
    if status.own > 0 {
        lines.push(format!(
            "age       {} in the median; oldest {} ({})",
            duration(status.median_age_s),
            duration(status.oldest_age_s),
            status.oldest_host
        ));
    }
    lines.push(match status.max_age_s {
        0 => "stale     never (gpu.max_age_s)".to_owned(),
        most => format!(
            "stale     {} without a report for more than {}",
            hosts(status.stale),
            duration(most.into())
        ),
    });
    lines.push(format!(
        "findings  {}, {}, {} info (`rsmctl gpu check`)",
        count(status.errors.into(), "error", "errors"),
        count(status.warnings.into(), "warning", "warnings"),
        status.infos
    ));
    for name in &status.names_taken_twice {
        lines.push(format!(
            "twice     a second machine reports as {name}: give it a name of its own"
        ));
    }
    lines
        .iter()
        .try_for_each(|line| session.output.line(&printable(line)))
}

/// A number of seconds in the largest unit that gives at least 2, rounded down.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn text(lines: &str, session: &mut Session) -> Result<(), Failure> {
    lines
        .lines()
        .try_for_each(|line| session.output.line(&printable(line)))
}

async fn hosts(session: &mut Session) -> Result<(), Failure> {
    let request = v1::ListGpuHostsRequest::default();
    let hosts = all_pages(request, async |request| {
        session.gpu().list_gpu_hosts(request).await
    })
    .await?;
    session.output.list(
        hosts,
        [
            "HOST",
            ">GPUS",
            ">PORTS",
            ">UNIT",
            "FROM",
            "MACHINE",
            ">FINDINGS",
        ],
        |host| {
            [
                host.name,
                host.gpus.to_string(),
                host.compute_ports.to_string(),
                host.unit.map_or_else(String::new, |unit| unit.to_string()),
                match (host.own, host.source.is_empty()) {
                    (true, _) => host.source,
                    (false, true) => "none".to_owned(),
                    (false, false) => "machine type".to_owned(),
                },
                host.machine,
                host.findings.len().to_string(),
            ]
        },
    )
}

async fn pair(
    from: (String, Option<u32>),
    to: (String, Option<u32>),
    session: &mut Session,
) -> Result<(), Failure> {
    let (gpu, peer_gpu) = match (from.1, to.1) {
        (Some(gpu), Some(peer_gpu)) => (gpu, peer_gpu),
        (None, None) => return host_pairs(from.0, &to.0, session).await,
        _ => {
            let text = "expected two GPUs (HOST:INDEX) or two hosts, not one of each";
            return Err(Failure::Usage(text.to_owned()));
        }
    };
    let request = v1::GetGpuPairRequest {
        host: from.0,
        gpu,
        peer_host: to.0,
        peer_gpu,
    };
    let pair = session.gpu().get_gpu_pair(request).await?.into_inner();
    if session.output.is_json() {
        return session.output.json(&pair);
    }
    let class = printable(&pair.class);
    session.output.line(&format!("class    {class}"))?;
    for (name, end) in [("from", &pair.source), ("to", &pair.destination)] {
        let Some(end) = end else { continue };
        let rail = end.rail.map_or("-".to_owned(), |rail| rail.to_string());
        session.output.line(&format!(
            "{name:<8} {} {:#018x} LID {} at {:#018x} port {}, rail {rail}",
            printable(&end.device),
            end.port_guid,
            end.lid,
            end.leaf_guid,
            end.leaf_port
        ))?;
    }
    if let Some(relay) = pair.relay_gpu {
        session
            .output
            .line(&format!("relay    GPU{relay} is on the peer's rail (PXN)"))?;
    }
    for path in &pair.paths {
        let outcome = match path.hops {
            Some(hops) => format!("{hops} switches"),
            None => printable(&path.problem),
        };
        session.output.line(&format!(
            "DLID     {} (path bits {}): {outcome}",
            path.dlid, path.path_bits
        ))?;
    }
    Ok(())
}

/// Prints the lines of a host's peer map about the host `peer`.
async fn host_pairs(host: String, peer: &str, session: &mut Session) -> Result<(), Failure> {
    let request = v1::ExportGpuFileRequest {
        name: "peers".to_owned(),
        host,
        ..Default::default()
    };
    let mut file = read_file(request, session).await?;
    let begin = format!("{peer}\t");
    if !file.content.lines().any(|line| line.starts_with(&begin)) {
        let text =
            "no GPU of both hosts has a port in the fabric: `rsmctl gpu hosts` lists the hosts";
        return Err(Failure::Refused(text.to_owned()));
    }
    let of_peer = |line: &&str| line.starts_with('#') || line.starts_with(&begin);
    let lines = file.content.lines().filter(of_peer);
    file.content = lines.map(|line| line.to_owned() + "\n").collect();
    if session.output.is_json() {
        return session.output.json(&file);
    }
    session.output.file(&file.content)
}

async fn plan(
    request: v1::PlanGpuJobRequest,
    file: Option<&JobFile>,
    session: &mut Session,
) -> Result<(), Failure> {
    let plan = session.gpu().plan_gpu_job(request).await?.into_inner();
    if session.output.is_json() {
        return session.output.json(&plan);
    }
    if let Some(file) = file {
        for warning in &plan.warnings {
            // Standard output is the file; it is written even if standard error is closed.
            let _ = writeln!(std::io::stderr(), "rsmctl: {}", printable(warning));
        }
        let ranks: Vec<LaunchedRank> = plan.ranks.into_iter().map(launched).collect();
        return session.output.file(&file.render(&ranks));
    }
    for (name, load) in [("planned", plan.load), ("as given", plan.load_as_given)] {
        let Some(load) = load else { continue };
        session.output.line(&format!(
            "{name:<8} {} of {} flows stay under a leaf, {} flows on the fullest link",
            load.leaf_local, load.flows, load.worst_link
        ))?;
    }
    for warning in &plan.warnings {
        session
            .output
            .line(&printable(&format!("warning  {warning}")))?;
    }
    let mut rows = Rows::new(&[">RANK", "HOST", ">GPU", ">RAIL"]);
    for (number, rank) in plan.ranks.into_iter().enumerate() {
        rows.add([
            number.to_string(),
            rank.host,
            rank.gpu.to_string(),
            rank.rail.map_or_else(String::new, |rail| rail.to_string()),
        ]);
    }
    session.output.table(rows)
}

fn launched(rank: v1::GpuRank) -> LaunchedRank {
    LaunchedRank {
        host: rank.host,
        gpu: rank.gpu,
        rail: rank.rail,
        port: Some(rank.port).filter(|port| !port.is_empty()),
    }
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

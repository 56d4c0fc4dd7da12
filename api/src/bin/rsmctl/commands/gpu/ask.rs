use std::collections::BTreeSet;

use rsm_api::node_list;
use rsm_gdr::render::{JobFile, LaunchedRank};
use rsm_proto::v1;

use super::export::{export_all, export_one, read_file};
use super::{GpuCommand, check, import};
use crate::failure::Failure;
use crate::output::note;
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
                Some(dir) => export_all(request, &dir, session).await,
                None => export_one(request, session).await,
            }
        }
    }
}

/// Imports the inventory of one host, and prints its size.
async fn import_host(
    request: v1::ImportGpuHostRequest,
    session: &mut Session,
) -> Result<(), Failure> {
    let host = (!request.machine_type).then(|| request.host.clone());
    let answer = session.gpu().import_gpu_host(request).await?.into_inner();
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    import::note_unknown(&answer.unknown_members);
    let line = format!("{} GPUs, {} ports", answer.gpus, answer.ports);
    session.output.line(&line)?;
    match host {
        Some(host) => import::note_imported(&BTreeSet::from([host]), session).await,
        None => Ok(()),
    }
}

/// Removes the inventories of hosts or machine types in one call: all of them, or with an unknown
/// name none. Prints nothing, except an empty response as JSON.
async fn forget(
    hosts: Vec<String>,
    machine_type: bool,
    session: &mut Session,
) -> Result<(), Failure> {
    let mut names = match machine_type {
        true => hosts,
        false => node_list::expand(&hosts).map_err(Failure::Usage)?,
    };
    // A server that does not know lists takes a single name.
    let host = match names.len() {
        1 => names.remove(0),
        _ => String::new(),
    };
    let request = v1::ForgetGpuHostRequest {
        host,
        machine_type,
        hosts: names,
    };
    let answer = session.gpu().forget_gpu_host(request).await?.into_inner();
    match session.output.is_json() {
        true => session.output.json(&answer),
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
            "WAS AT",
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
                host.was_at,
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
            note(&printable(warning));
        }
        let ranks: Vec<LaunchedRank> = plan.ranks.into_iter().map(launched).collect();
        return session.output.file(&file.render(&ranks));
    }
    for (name, load) in [("planned", plan.load), ("as given", plan.load_as_given)] {
        let Some(load) = load else { continue };
        session.output.line(&format!(
            "{name:<8} {} of {} stay under a leaf, {} on the fullest link",
            load.leaf_local,
            count(load.flows, "flow", "flows"),
            count(load.worst_link.into(), "flow", "flows")
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

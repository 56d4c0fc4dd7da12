use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use rsm_gdr::findings::{FindingLines, subject_of};
use rsm_proto::v1;
use tonic::Code;

use crate::commands::waiting;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{count, plain_names, printable};

/// Faults of hosts and their cables; exit code 1 if there is an error, or no host to check
#[derive(Debug, Args)]
#[command(
    after_help = "First the server sweeps, as by `rsmctl sweep`, so that the answer holds for a cable that was moved\n\
                  just before; not with --cached, and not where no GPU host is known."
)]
pub(crate) struct CheckArguments {
    /// Answer from what the server knows already
    #[arg(long)]
    cached: bool,
}

pub(super) async fn run(arguments: &CheckArguments, session: &mut Session) -> Result<(), Failure> {
    if !arguments.cached && knows_hosts(session).await? {
        sweep(session).await?;
    }
    let mut not_joined = String::new();
    let request = v1::ListGpuHostsRequest {
        only_with_findings: true,
        ..Default::default()
    };
    let hosts = all_pages(request, async |request| {
        let page = session.gpu().list_gpu_hosts(request).await?;
        not_joined.clone_from(&page.get_ref().not_joined);
        Ok(page)
    })
    .await?;
    let faults = Fault::of(&hosts);
    let places = match session.output.is_json() || faults.is_empty() {
        true => HashMap::new(),
        false => places(session).await?,
    };
    if session.output.is_json() {
        session.output.json(&hosts)?;
    } else {
        print(&faults, &places, session)?;
    }
    let errors = faults.iter().filter(|one| one.finding.severity == "error");
    let broken = errors.count();
    match (broken, not_joined.as_str()) {
        (0, "") if hosts.is_empty() && !session.output.is_json() => {
            session.output.line("nothing is wrong")
        }
        (0, "") => Ok(()),
        (0, reason) => Err(Failure::Refused(format!("nothing was checked: {reason}"))),
        (broken, _) => Err(Failure::Refused(count(
            broken as u64,
            "finding is an error",
            "findings are errors",
        ))),
    }
}

/// Whether the server knows a GPU host.
async fn knows_hosts(session: &Session) -> Result<bool, Failure> {
    let request = v1::GetGpuStatusRequest {};
    let known = session.gpu().get_gpu_status(request).await?.into_inner();
    Ok(known.own + known.machine_type + known.without > 0)
}

/// The former places of missing adapters by their descriptions.
async fn places(session: &Session) -> Result<HashMap<String, String>, Failure> {
    let request = v1::ListMissingRequest {
        each: true,
        ..v1::ListMissingRequest::default()
    };
    let missing = all_pages(request, async |request| {
        session.fabric().list_missing(request).await
    })
    .await?;
    let places = missing.into_iter().map(|one| (one.name, one.place));
    Ok(places.collect())
}

/// The adapters of a fault that the observation does not name, each with the switch port of its
/// rail where that is known: `mlx5_3 (was at leaf-04:17)`; `None` if there are none.
fn adapters(finding: &v1::GpuFinding, places: &HashMap<String, String>) -> Option<String> {
    let named = finding.ports.iter().filter_map(|port| {
        let device = port
            .rsplit_once(' ')
            .map_or(port.as_str(), |(_, device)| device);
        match (places.get(port), finding.evidence.contains(device)) {
            (Some(place), _) => Some(format!("{device} (was at {place})")),
            (None, true) => None,
            (None, false) => Some(device.to_owned()),
        }
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("         adapters: {}", named.join(", ")))
}

/// The number of requests that the server may refuse because its own port is down: its cable may be
/// the one that was moved.
const REFUSALS: u32 = 25;

/// The interval between these requests.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Waits until the server has read the changes of the fabric. If this client may not request a
/// sweep, the server answers from its last snapshot, and a note on standard error says so.
async fn sweep(session: &Session) -> Result<(), Failure> {
    let mut refusals = 0;
    loop {
        let mut client = session.convergence();
        let request = v1::ResweepRequest::default();
        let Err(status) = waiting::for_answer(session, client.resweep(request)).await else {
            return Ok(());
        };
        match status.code() {
            Code::PermissionDenied => {
                let reason = status.message();
                let note = format!("rsmctl: this is the last known state of the fabric: {reason}");
                // The check continues even if standard error is closed.
                let _ = writeln!(io::stderr(), "{}", printable(&note));
                return Ok(());
            }
            Code::FailedPrecondition if refusals < REFUSALS => {
                refusals += 1;
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            _ => return Err(Failure::from(status)),
        }
    }
}

/// A finding, with all hosts that list it.
struct Fault<'a> {
    finding: &'a v1::GpuFinding,
    hosts: Vec<&'a str>,
}

impl Fault<'_> {
    /// The findings of these hosts without duplicates, in the order of their first hosts.
    fn of(hosts: &[v1::GpuHost]) -> Vec<Fault<'_>> {
        let mut faults: Vec<Fault<'_>> = Vec::new();
        let mut known = BTreeMap::new();
        for host in hosts {
            for finding in &host.findings {
                // A server that does not state the first host lists a finding with one host.
                let first = match finding.first_host.as_str() {
                    "" => host.name.as_str(),
                    first => first,
                };
                let devices = finding.ports.iter().map(|port| {
                    let own = port.strip_prefix(&host.name);
                    own.unwrap_or(port)
                });
                let devices: Vec<&str> = devices.collect();
                let key = (
                    first,
                    &finding.kind,
                    &finding.gpus,
                    devices,
                    &finding.evidence,
                );
                let place = *known.entry(key).or_insert(faults.len());
                match faults.get_mut(place) {
                    Some(fault) => fault.hosts.push(&host.name),
                    None => faults.push(Fault {
                        finding,
                        hosts: vec![&host.name],
                    }),
                }
            }
        }
        faults
    }
}

fn print(
    faults: &[Fault<'_>],
    places: &HashMap<String, String>,
    session: &mut Session,
) -> Result<(), Failure> {
    for fault in faults {
        let finding = fault.finding;
        let lines = FindingLines {
            severity: &finding.severity,
            subject: &subject_of(&fault.hosts),
            kind: &finding.kind,
            evidence: &finding.evidence,
            effect: &finding.effect,
            advice: &finding.advice,
        };
        let mut lines: Vec<String> = lines.lines().collect();
        // Behind the observation.
        lines.splice(1..1, adapters(finding, places));
        for line in lines {
            session.output.line(&plain_names(&printable(&line)))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, first: &str) -> v1::GpuHost {
        let finding = v1::GpuFinding {
            kind: "hca-ethernet-mode".to_owned(),
            ports: vec![format!("{name} mlx5_1")],
            first_host: first.to_owned(),
            ..v1::GpuFinding::default()
        };
        v1::GpuHost {
            name: name.to_owned(),
            findings: vec![finding],
            ..v1::GpuHost::default()
        }
    }

    #[test]
    fn a_fault_of_several_hosts_is_one_with_all_of_their_names() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let hosts: Vec<v1::GpuHost> = names.iter().map(|name| host(name, "a")).collect();
        let faults = Fault::of(&hosts);
        let subjects: Vec<String> = faults.iter().map(|one| subject_of(&one.hosts)).collect();
        assert_eq!(subjects, ["a, b, c, d and 2 more"]);
        // A finding with another first host, or without one, is another fault.
        let apart = [host("a", "a"), host("b", "b"), host("c", "")];
        let subjects: Vec<String> = Fault::of(&apart)
            .iter()
            .map(|one| subject_of(&one.hosts))
            .collect();
        assert_eq!(subjects, ["a", "b", "c"]);
    }

    #[test]
    fn lost_adapters_are_named_with_the_port_of_their_rail() {
        let finding = v1::GpuFinding {
            evidence: "2 ports are not joined: nothing in the fabric has their names".to_owned(),
            ports: vec!["host-1 mlx5_3".to_owned(), "host-1 mlx5_4".to_owned()],
            ..v1::GpuFinding::default()
        };
        let place = ("host-1 mlx5_3".to_owned(), "leaf-04:17".to_owned());
        let text = adapters(&finding, &HashMap::from([place]));
        let expected = "         adapters: mlx5_3 (was at leaf-04:17), mlx5_4";
        assert_eq!(text.as_deref(), Some(expected));
        let told = v1::GpuFinding {
            evidence: "mlx5_3 and mlx5_4 are swapped".to_owned(),
            ..finding
        };
        assert_eq!(adapters(&told, &HashMap::new()), None);
    }
}

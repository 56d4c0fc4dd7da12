use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use rsm_proto::v1;
use tonic::Code;

use crate::commands::waiting;
use crate::failure::Failure;
use crate::output::printable;
use crate::session::{Session, all_pages};

/// Faults of hosts and their cables; exit code 1 if there is an error, or no host to check
#[derive(Debug, Args)]
#[command(
    after_help = "First the server reads the ports that have changed, so that the answer holds for a cable that was\n\
                  moved just before."
)]
pub(crate) struct CheckArguments {
    /// Answer from what the server knows already
    #[arg(long)]
    cached: bool,
}

pub(super) async fn run(arguments: &CheckArguments, session: &mut Session) -> Result<(), Failure> {
    if !arguments.cached {
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
    if session.output.is_json() {
        session.output.json(&hosts)?;
    } else {
        print(&hosts, session)?;
    }
    let findings = hosts.iter().flat_map(|host| &host.findings);
    let broken = findings.filter(|one| one.severity == "error").count();
    match (broken, not_joined.as_str()) {
        (0, "") if hosts.is_empty() && !session.output.is_json() => {
            session.output.line("nothing is wrong")
        }
        (0, "") => Ok(()),
        (0, reason) => Err(Failure::Refused(format!("nothing was checked: {reason}"))),
        (broken, _) => Err(Failure::Refused(format!("{broken} findings are errors"))),
    }
}

/// How many requests the server may refuse because its own port is down: its cable may be the one
/// that was moved.
const REFUSALS: u32 = 25;

/// The interval of these requests.
const AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Waits until the server has read the changes of the fabric. A server that may not sweep for this
/// client answers from its last snapshot, and standard error says so.
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
                // With standard error closed, the check goes on all the same.
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

fn print(hosts: &[v1::GpuHost], session: &mut Session) -> Result<(), Failure> {
    for host in hosts {
        for finding in &host.findings {
            let line = format!(
                "{:<8} {} {}: {}",
                finding.severity, host.name, finding.kind, finding.evidence
            );
            session.output.line(&printable(&line))?;
            let advice = format!("         {}", finding.advice);
            session.output.line(&printable(&advice))?;
        }
    }
    Ok(())
}

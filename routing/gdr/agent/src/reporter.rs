//! Reports the host's inventory to the managers.

use std::future::Future;
use std::thread;
use std::time::{Duration, Instant};

use rsm_api::client::{Connection, Endpoint, connect_as};
use rsm_gdr::import::to_json;
use rsm_proto::v1;
use rsm_proto::v1::gpu_service_client::GpuServiceClient;
use rsm_proto::with_causes;
use sha2::{Digest as _, Sha256};
use tonic::{Code, Response, Status};

use crate::arguments::Arguments;
use crate::console::{End, note};
use crate::pace;
use crate::reading::{Outcome, Reader};

/// The time limit of one call.
const CALL_LIMIT: Duration = Duration::from_secs(20);

/// The kind of failure of a report.
enum Failure {
    /// The manager cannot be reached, or is busy: a later attempt may succeed.
    Passing(String),
    /// The manager refuses the report, and would refuse it again.
    Lasting(String),
    /// The manager is older than this agent, and lacks the call.
    NoSuchCall(String),
}

/// A manager, with the state of reports to it.
struct Manager {
    endpoint: Endpoint,
    /// The digest and the time of the last report that the manager accepted.
    last_report: Option<([u8; 32], Instant)>,
    /// The number of consecutive failures.
    failures: u32,
    /// The time before which there is no further attempt.
    not_before: Instant,
}

/// An inventory to report.
struct Report {
    host: String,
    /// The inventory as JSON.
    content: Vec<u8>,
    /// The SHA-256 digest of the content.
    digest: [u8; 32],
}

/// Reports once, or at intervals without end, as `arguments` say.
pub(crate) fn run(arguments: &Arguments) -> End {
    if arguments.server.is_empty() {
        note("no manager: name one with --server or RSM_SERVER");
        return End::Usage;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            note(&format!("no event loop: {error}"));
            return End::Refused;
        }
    };
    let host = arguments.host_name();
    thread::sleep(pace::place(&host, arguments.spread()));
    let managers = arguments.server.iter().map(|endpoint| Manager {
        endpoint: endpoint.clone(),
        last_report: None,
        failures: 0,
        not_before: now(),
    });
    let mut reporter = Reporter {
        arguments,
        host,
        reader: Reader::default(),
        managers: managers.collect(),
        runtime,
    };
    match arguments.every() {
        None => reporter.report_once(),
        Some(every) => reporter.report_at_intervals(every),
    }
}

/// The state of the agent while it reports to managers.
struct Reporter<'a> {
    arguments: &'a Arguments,
    host: String,
    reader: Reader,
    managers: Vec<Manager>,
    runtime: tokio::runtime::Runtime,
}

impl Reporter<'_> {
    /// Reports to each manager once, in rounds until all have answered or the patience ends.
    fn report_once(&mut self) -> End {
        let report = match self.read() {
            Ok(Some(report)) => report,
            Ok(None) => return End::Done,
            Err(end) => return end,
        };
        let until = now() + self.arguments.patience();
        let mut pending: Vec<&mut Manager> = self.managers.iter_mut().collect();
        let mut ends = Vec::new();
        loop {
            let mut reasons = Vec::new();
            pending.retain_mut(|manager| {
                let outcome = manager.report(self.arguments, &report);
                match self.runtime.block_on(outcome) {
                    Ok(()) => ends.push(End::Done),
                    Err(Failure::Lasting(reason) | Failure::NoSuchCall(reason)) => {
                        note(&reason);
                        ends.push(End::Refused);
                    }
                    Err(Failure::Passing(reason)) => {
                        reasons.push(reason);
                        return true;
                    }
                }
                false
            });
            let delays = pending.iter().map(|manager| pace::after(manager.failures));
            let Some(delay) = delays.min() else { break };
            let left = until.saturating_duration_since(now());
            if left.is_zero() {
                reasons.iter().for_each(|reason| note(reason));
                ends.push(End::Unreachable);
                break;
            }
            // The last attempt happens at the end of the patience.
            thread::sleep(delay.min(left));
        }
        combined_end(&ends)
    }

    /// Reads the host at intervals of `every`; reports changes and, at each heartbeat, the
    /// unchanged inventory.
    fn report_at_intervals(&mut self, every: Duration) -> End {
        loop {
            let begun = now();
            if let Ok(Some(report)) = self.read() {
                for manager in &mut self.managers {
                    manager.report_if_due(self.arguments, &self.runtime, &report);
                }
            }
            thread::sleep(every.saturating_sub(begun.elapsed()));
        }
    }

    /// Reads the host into a report; `None` if there is nothing to report.
    fn read(&mut self) -> Result<Option<Report>, End> {
        match self.reader.read(self.arguments) {
            Outcome::Host(host) => {
                let content = to_json(&host).into_bytes();
                Ok(Some(Report {
                    host: self.host.clone(),
                    digest: Sha256::digest(&content).into(),
                    content,
                }))
            }
            Outcome::Nothing(reason) => {
                note(&reason);
                Ok(None)
            }
            Outcome::Failed(reason) => {
                note(&reason);
                Err(End::Refused)
            }
        }
    }
}

/// The exit code of reports to several managers: success if at least one of them accepted, else the
/// worst one.
fn combined_end(ends: &[End]) -> End {
    match ends.contains(&End::Done) {
        true => End::Done,
        false => ends.iter().copied().max().unwrap_or(End::Done),
    }
}

impl Manager {
    /// Reports if something changed or the heartbeat is due, unless the last failure is too recent.
    fn report_if_due(
        &mut self,
        arguments: &Arguments,
        runtime: &tokio::runtime::Runtime,
        report: &Report,
    ) {
        let present = now();
        let is_reported = self.last_report.is_some_and(|(digest, at)| {
            digest == report.digest && present.duration_since(at) < arguments.heartbeat()
        });
        if is_reported || present < self.not_before {
            return;
        }
        let outcome = runtime.block_on(self.report(arguments, report));
        let Err(failure) = outcome else { return };
        self.not_before = now() + pace::after(self.failures);
        let (Failure::Passing(reason) | Failure::Lasting(reason) | Failure::NoSuchCall(reason)) =
            failure;
        note(&reason);
    }

    /// Sends one report: the digest, and the inventory if the manager does not know it.
    async fn report(&mut self, arguments: &Arguments, report: &Report) -> Result<(), Failure> {
        let outcome = self.try_report(arguments, report).await;
        match outcome {
            Ok(()) => {
                self.failures = 0;
                self.last_report = Some((report.digest, now()));
            }
            Err(_) => self.failures = self.failures.saturating_add(1),
        }
        outcome
    }

    async fn try_report(&self, arguments: &Arguments, report: &Report) -> Result<(), Failure> {
        let credentials = arguments.credentials().map_err(Failure::Lasting)?;
        let connected = connect_as(&self.endpoint, &credentials);
        let connection: Connection = match tokio::time::timeout(CALL_LIMIT, connected).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(Failure::Passing(with_causes(&error))),
            Err(_) => return Err(self.no_answer()),
        };
        let mut client = GpuServiceClient::new(connection);
        let check = v1::CheckGpuHostRequest {
            host: report.host.clone(),
            digest: report.digest.to_vec(),
        };
        match self.call(client.check_gpu_host(check)).await {
            Ok(answer) if answer.known => return Ok(()),
            // A manager without the call gets the inventory each time.
            Ok(_) | Err(Failure::NoSuchCall(_)) => {}
            Err(failure) => return Err(failure),
        }
        let import = v1::ImportGpuHostRequest {
            host: report.host.clone(),
            machine_type: false,
            format: v1::GpuFormat::Json.into(),
            content: report.content.clone(),
        };
        let answer = self.call(client.import_gpu_host(import)).await?;
        if !answer.unknown_members.is_empty() {
            let members = answer.unknown_members.join(", ");
            let endpoint = &self.endpoint;
            note(&format!(
                "{endpoint} is older than this agent: it does not know {members}"
            ));
        }
        Ok(())
    }

    /// Awaits a call, with the time limit, and sorts its failure.
    async fn call<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(CALL_LIMIT, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failure_of(&status)),
            Err(_) => Err(self.no_answer()),
        }
    }

    /// The failure of a manager that did not answer in time.
    fn no_answer(&self) -> Failure {
        let endpoint = &self.endpoint;
        Failure::Passing(format!("{endpoint} does not answer within {CALL_LIMIT:?}"))
    }

    /// The failure of a call that ended with `status`.
    fn failure_of(&self, status: &Status) -> Failure {
        let text = format!("{}: {}", self.endpoint, status.message());
        match status.code() {
            Code::InvalidArgument
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition => Failure::Lasting(text),
            Code::Unimplemented => Failure::NoSuchCall(text),
            _ => Failure::Passing(text),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "reports have their pace in real time"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use rsm_api::{Reason, refusal};

    use super::*;

    #[test]
    fn status_codes_distinguish_older_managers_refusals_and_passing_failures() {
        let manager = Manager {
            endpoint: "unix:/run/rsm.sock".parse().expect("an address"),
            last_report: None,
            failures: 0,
            not_before: now(),
        };
        let kinds = [
            (Reason::NoSuchCall, "no such method"),
            (Reason::RoleLacking, "the role report is needed"),
            (Reason::GpuHostKept, "two hosts may have one name"),
            (Reason::Stopping, "the server stops"),
        ]
        .map(
            |(reason, text)| match manager.failure_of(&refusal(reason, text)) {
                Failure::NoSuchCall(_) => "older",
                Failure::Lasting(_) => "refuses",
                Failure::Passing(_) => "away",
            },
        );
        assert_eq!(kinds, ["older", "refuses", "refuses", "away"]);
    }

    #[test]
    fn exit_code_is_success_if_any_manager_accepted_and_else_the_worst_one() {
        for (ends, wanted) in [
            (&[End::Unreachable, End::Done][..], End::Done),
            (&[End::Refused, End::Done], End::Done),
            (&[End::Refused, End::Unreachable], End::Unreachable),
            (&[End::Refused], End::Refused),
        ] {
            assert_eq!(combined_end(ends), wanted, "{ends:?}");
        }
    }
}

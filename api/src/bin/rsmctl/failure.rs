use std::error::Error as _;
use std::io;
use std::process::ExitCode;

use rsm_api::Reason;
use rsm_api::client::{ConnectError, Endpoint};
use rsm_api::limits::ERROR_DOMAIN;
use rsm_proto::{plain_names, with_causes};
use tonic::Status;
use tonic_types::StatusExt as _;

/// The reason why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The reader of the output has closed it.
    ReaderGone,
    /// The output could not be written.
    Output(io::Error),
    /// The command line requests something that the command cannot do.
    Usage(String),
    /// A file could not be written.
    File(String),
    /// The server refused or failed.
    Refused(String),
    /// The server has accepted and keeps the request, and the hardware does not hold it yet.
    Unwritten(String),
    /// No server answered.
    Unreachable(String),
    /// The output states a failure (`fails`) or a warning: of a check, a verdict, or a part that is
    /// not safe to unplug.
    Checked { fails: bool },
}

impl Failure {
    /// No server answered at the given address.
    pub(crate) fn unreachable(error: &ConnectError) -> Failure {
        Failure::Unreachable(format!("{}\nIs rsm running there?", with_causes(error)))
    }

    /// No server answered at any default address.
    pub(crate) fn nowhere(tried: &[(Endpoint, ConnectError)]) -> Failure {
        let mut message = "no server found; tried".to_owned();
        for (_, error) in tried {
            message.push_str("\n  ");
            message.push_str(&with_causes(error));
        }
        message.push_str("\nStart rsm, or name its address with --server.");
        Failure::Unreachable(message)
    }

    /// The message for standard error; `None` if the output says everything, or has no reader.
    pub(crate) fn message(&self) -> Option<String> {
        match self {
            Failure::ReaderGone | Failure::Checked { .. } => None,
            Failure::Output(error) => Some(format!("cannot write the output: {error}")),
            Failure::Usage(message)
            | Failure::File(message)
            | Failure::Refused(message)
            | Failure::Unwritten(message)
            | Failure::Unreachable(message) => Some(plain_names(message)),
        }
    }

    /// The exit code, which the long help lists.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Failure::ReaderGone => ExitCode::SUCCESS,
            Failure::Output(_) | Failure::File(_) | Failure::Refused(_) => ExitCode::from(1),
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Unreachable(_) => ExitCode::from(3),
            Failure::Checked { fails: false } => ExitCode::from(4),
            Failure::Checked { fails: true } => ExitCode::from(5),
            Failure::Unwritten(_) => ExitCode::from(6),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderGone,
            _ => Failure::Output(error),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        // A status from the server has no source; a status that the client made from a broken
        // connection has one.
        match status.source() {
            Some(source) => {
                Failure::Unreachable(format!("the connection broke: {}", with_causes(source)))
            }
            None if status.code() == tonic::Code::Unavailable => {
                Failure::Unreachable(status.message().to_owned())
            }
            None if reason_of(&status).as_deref() == Some(Reason::NotWritten.name()) => {
                Failure::Unwritten(with_hint(&status))
            }
            None => Failure::Refused(with_hint(&status)),
        }
    }
}

/// The commands of rsmctl that help after a refusal, by the reason in its ErrorInfo.
const HINTS: [(Reason, &str); 14] = [
    (Reason::NoSuchName, "`rsmctl nodes` lists what is there"),
    (Reason::Gone, "`rsmctl expect` lists what is missing"),
    (
        Reason::NoSuchPort,
        "`rsmctl ports --node NODE` lists the ports of a node",
    ),
    (
        Reason::NotASwitch,
        "`rsmctl nodes --kind switch` lists the switches",
    ),
    (
        Reason::NoSuchPartition,
        "`rsmctl partitions` lists the partitions",
    ),
    (Reason::NoSuchGroup, "`rsmctl multicast` lists the groups"),
    (
        Reason::NoSuchEngine,
        "`rsmctl engine list` lists the engines and their guarantees",
    ),
    (
        Reason::NoRoutes,
        "`rsmctl status` tells what the subnet manager does",
    ),
    (Reason::NoCable, "`rsmctl links` lists the cables"),
    (Reason::CutOff, "`--yes` accepts that"),
    (Reason::OfAnother, "`--yes` accepts that"),
    (
        Reason::NotWritten,
        "`rsmctl findings` names what failed, and `rsmctl history` the next attempts",
    ),
    (Reason::NoSuchGpuHost, "`rsmctl gpu hosts` lists the hosts"),
    (
        Reason::GpuHostKept,
        "`rsmctl gpu forget HOST` forgets a host",
    ),
];

/// The reason in the ErrorInfo of rsm; `None` without one.
pub(crate) fn reason_of(status: &Status) -> Option<String> {
    let info = status.get_details_error_info();
    let info = info.filter(|info| info.domain == ERROR_DOMAIN);
    info.map(|info| info.reason)
}

/// The text of a refusal, with the command of rsmctl that helps.
fn with_hint(status: &Status) -> String {
    let reason = reason_of(status);
    let hint = reason.and_then(|reason| HINTS.iter().find(|(known, _)| known.name() == reason));
    match hint {
        Some((_, hint)) => format!("{}: {hint}", status.message()),
        None => status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_pipe_has_no_message_and_a_full_disk_has_one() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(closed, Failure::ReaderGone));
        assert!(closed.message().is_none());
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(full.message().is_some());
    }
}

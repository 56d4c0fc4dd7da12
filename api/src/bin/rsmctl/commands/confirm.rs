//! Confirmation of requests that cut ports off, end what another operator ordered, or end findings.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use rsm_api::limits::{ACCEPTED_BY, ERROR_DOMAIN};
use tonic::{Response, Status};
use tonic_types::StatusExt as _;

use super::waiting;
use crate::failure::Failure;
use crate::output::progress;
use crate::session::Session;
use crate::text::printable;

/// The operator's answer before the question.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Confirmation {
    /// Do it even if ports are cut off by it; without, rsmctl names them first, and asks if it has
    /// a terminal
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Sends a request and waits for its answer. The argument of `send` says whether the request
/// accepts its consequence, such as that ports are cut off; at first, it is the answer on the
/// command line. If the server
/// refuses a request that it would carry out with the consequence accepted, the operator is asked,
/// and after a yes, the request is sent again.
pub(super) async fn send_confirmed<T>(
    session: &Session,
    confirmation: Confirmation,
    mut send: impl AsyncFnMut(bool) -> Result<Response<T>, Status>,
) -> Result<T, Failure> {
    let refused = match waiting::for_answer(session, send(confirmation.yes)).await {
        Ok(answer) => return Ok(answer.into_inner()),
        Err(status) => status,
    };
    if confirmation.yes || !is_acceptable(&refused) {
        return Err(refused.into());
    }
    if !has_terminal() {
        return Err(refused.into());
    }
    if !is_confirmed(refused.message())? {
        return Err(declined());
    }
    let answer = waiting::for_answer(session, send(true)).await?;
    Ok(answer.into_inner())
}

/// Asks the operator to confirm an effect that the server does not ask about.
///
/// # Errors
/// The operator declines, or there is no terminal to ask at.
pub(super) fn ask_operator(effect: &str) -> Result<(), Failure> {
    if has_terminal() {
        return match is_confirmed(effect)? {
            true => Ok(()),
            false => Err(declined()),
        };
    }
    Err(Failure::Refused(format!(
        "{effect}; nothing was done: --yes does it"
    )))
}

/// The failure after the operator has read the effect and declined.
fn declined() -> Failure {
    Failure::Refused("nothing was done".to_owned())
}

/// Whether the request would be carried out if it accepted the consequence that the refusal names.
fn is_acceptable(refused: &Status) -> bool {
    refused
        .get_details_error_info()
        .is_some_and(|info| info.domain == ERROR_DOMAIN && info.metadata.contains_key(ACCEPTED_BY))
}

/// Whether an operator can be asked: the question goes to standard error, and the answer comes from
/// standard input.
fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn is_confirmed(effect: &str) -> io::Result<bool> {
    let mut stderr = io::stderr();
    progress(&printable(effect));
    write!(stderr, "Do it all the same? [y/N] ")?;
    stderr.flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(is_yes(&line))
}

/// Whether a line agrees; an empty line and the end of the input do not.
fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_yes_is_no() {
        for line in ["y\n", "Yes\n", " YES"] {
            assert!(is_yes(line), "{line:?}");
        }
        for line in ["", "\n", "n\n", "yep\n", "y y\n"] {
            assert!(!is_yes(line), "{line:?}");
        }
    }
}

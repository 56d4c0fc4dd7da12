use clap::{Args, Subcommand};
use rsm_api::resolve::shell_word;
use rsm_proto::v1;
use rsm_proto::v1::PortAction;

use super::confirm::{self, Confirmation};
use super::drain::{drained_by, drained_parts};
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::operator::operator;
use crate::session::Session;
use crate::text::{plain_names, port_of, printable};

/// The subcommands of `rsmctl port`.
#[derive(Debug, Subcommand)]
pub(crate) enum PortSubcommand {
    /// Leads routes around a cable, then takes its link down for good
    #[command(after_help = DISABLE_HELP)]
    Disable(PortArguments),
    /// Lets the link of a disabled port come up, and its cable be used again
    #[command(after_help = "Example: rsmctl port enable leaf-03:7")]
    Enable(EnableArguments),
    /// Takes a link down for a moment, so that it trains again
    #[command(after_help = "Example: rsmctl port reset leaf-03:7 --reason 'trained at half width'")]
    Reset(PortArguments),
}

const DISABLE_HELP: &str = "\
The port stays disabled over restarts of rsm and of the switch, and where another rsm that shares the
store takes over; `rsmctl drained` and `rsmctl findings` have it meanwhile. Either end of the cable may
be named: rsm sets the end that is nearer to itself, of a host's cable the switch's.

Example: rsmctl port disable leaf-03:7 --reason 'errors, ticket 4711'";

/// The port.
#[derive(Debug, Args)]
pub(crate) struct PortName {
    /// The port, at either end of its cable; a node with one port, or one cable, needs no number
    #[arg(add = of_nodes(), value_name = "NODE[:PORT]")]
    port: String,
}

/// A port that comes up.
#[derive(Debug, Args)]
pub(crate) struct EnableArguments {
    #[command(flatten)]
    name: PortName,
    /// Do it even if another operator disabled the port, whose order ends; without, rsmctl names
    /// that operator first, and asks if it has a terminal
    #[arg(long)]
    yes: bool,
}

/// A port that goes down.
#[derive(Debug, Args)]
pub(crate) struct PortArguments {
    #[command(flatten)]
    name: PortName,
    #[command(flatten)]
    confirmation: Confirmation,
    /// Do it even if this subnet manager is cut off from the fabric and cannot undo it
    #[arg(long)]
    cut_off_this_manager: bool,
    /// The reason, for other operators and the audit log
    #[arg(long, default_value = "", value_name = "TEXT")]
    reason: String,
}

pub(crate) async fn run(command: PortSubcommand, session: &mut Session) -> Result<(), Failure> {
    let (action, arguments) = match command {
        PortSubcommand::Disable(arguments) => (PortAction::Disable, arguments),
        PortSubcommand::Reset(arguments) => (PortAction::Reset, arguments),
        PortSubcommand::Enable(EnableArguments { name, yes }) => {
            let arguments = PortArguments {
                name,
                confirmation: Confirmation { yes },
                cut_off_this_manager: false,
                reason: String::new(),
            };
            (PortAction::Enable, arguments)
        }
    };
    let mut request = v1::OperatePortRequest {
        port: arguments.name.port,
        action: action.into(),
        accept_cut_off: false,
        accept_own_cut_off: arguments.cut_off_this_manager,
        by: operator(),
        reason: arguments.reason,
        accept_other_operator: false,
    };
    let mut client = session.maintenance();
    let answer = confirm::send_confirmed(session, arguments.confirmation, async |accepts| {
        match action {
            PortAction::Enable => request.accept_other_operator = accepts,
            _ => request.accept_cut_off = accepts,
        }
        client.operate_port(request.clone()).await
    });
    let answer = answer.await?;
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    session.output.line(&outcome(action, &answer))?;
    match action {
        PortAction::Enable => note_drain(session, &answer).await,
        _ => Ok(()),
    }
}

/// Notes the drain of another operator, which outlasts that the port was disabled.
async fn note_drain(
    session: &mut Session,
    answer: &v1::OperatePortResponse,
) -> Result<(), Failure> {
    let Some(port) = &answer.port else {
        return Ok(());
    };
    let drained = drained_parts(session).await?;
    let is_that = |part: &&v1::DrainedPart| {
        part.node_guid == port.node_guid && part.port == Some(port.number)
    };
    match drained.iter().find(is_that) {
        Some(part) => {
            let by = drained_by(part);
            let note = format!("{} stays drained until `rsmctl undrain`{by}", part.name);
            Ok(session.output.note(&note)?)
        }
        None => Ok(()),
    }
}

/// The outcome in a sentence, which begins with the port that the operator named.
fn outcome(action: PortAction, answer: &v1::OperatePortResponse) -> String {
    let plain = |description: &str, port: Option<&v1::PortKey>| {
        plain_names(&printable(&port_of(description, port)))
    };
    let set = plain(&answer.description, answer.port.as_ref());
    let (name, at) = match &answer.named_port {
        Some(named) if Some(named) != answer.port.as_ref() => {
            let name = plain(&answer.named_description, Some(named));
            (name, format!(" at the other end of its cable, {set}"))
        }
        _ => (set, String::new()),
    };
    let enable = shell_word(&name);
    match action {
        PortAction::Disable => format!(
            "{name} is disabled{at}: its link stays down until `rsmctl port enable {enable}`"
        ),
        PortAction::Enable => {
            format!("{name} is enabled{at}: routes use its cable once the link is up")
        }
        _ => format!("{name} is reset{at}: its link trains again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_begins_with_the_port_that_the_operator_named() {
        let key = |guid: &str, number| v1::PortKey {
            node_guid: guid.to_owned(),
            number,
        };
        let answer = v1::OperatePortResponse {
            port: Some(key("0x1", 2)),
            description: "MF0;spine-a:MQM9700/U1".to_owned(),
            named_port: Some(key("0x2", 3)),
            named_description: "host-1 mlx5_0".to_owned(),
            ..v1::OperatePortResponse::default()
        };
        assert_eq!(
            outcome(PortAction::Disable, &answer),
            "host-1 mlx5_0:3 is disabled at the other end of its cable, spine-a:2: its link stays down \
             until `rsmctl port enable 'host-1 mlx5_0:3'`"
        );
        let same = v1::OperatePortResponse {
            named_port: answer.port.clone(),
            ..answer
        };
        assert_eq!(
            outcome(PortAction::Reset, &same),
            "spine-a:2 is reset: its link trains again"
        );
    }
}

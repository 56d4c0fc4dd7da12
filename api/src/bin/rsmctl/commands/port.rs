use clap::{Args, Subcommand};
use rsm_proto::v1;
use rsm_proto::v1::PortAction;

use super::confirm::{self, Confirmation};
use super::drain::operator;
use crate::completion::of_nodes;
use crate::failure::Failure;
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
    Enable(PortName),
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
    /// The port, at either end of its cable
    #[arg(add = of_nodes(), value_name = "NODE:PORT")]
    port: String,
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
        PortSubcommand::Enable(name) => {
            let arguments = PortArguments {
                name,
                confirmation: Confirmation { yes: false },
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
    };
    let mut client = session.maintenance();
    let answer = confirm::accepted(session, arguments.confirmation, async |accept_cut_off| {
        request.accept_cut_off = accept_cut_off;
        client.operate_port(request.clone()).await
    });
    let answer = answer.await?;
    if session.output.is_json() {
        return session.output.json(&answer);
    }
    let name = port_of(&answer.description, answer.port.as_ref());
    let name = plain_names(&printable(&name));
    session.output.line(&match action {
        PortAction::Disable => {
            format!("{name} is disabled: its link stays down until `rsmctl port enable {name}`")
        }
        PortAction::Enable => {
            format!("{name} is enabled: routes use its cable once the link is up")
        }
        _ => format!("{name} is reset: its link trains again"),
    })
}

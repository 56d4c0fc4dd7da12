use clap::{Args, Subcommand};
use rsm_proto::v1;
use serde::Serialize;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::output::printable;
use crate::session::Session;

/// Acts on a simulated fabric
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  rsmctl sim unlink leaf-03 7\n  rsmctl sim relink leaf-03 7\n  rsmctl sim swap leaf-03 7 leaf-04 7\n  rsmctl sim loss 0.05\n  rsmctl sim errors leaf-03 7 SymbolErrorCounter 0.5"
)]
pub(crate) enum SimCommand {
    /// Pulls the cable out of a port
    Unlink(PortArguments),
    /// Puts the cable back that the port had
    Relink(PortArguments),
    /// Exchanges the cables in two ports, and so their far ends
    Swap(SwapArguments),
    /// Restarts a node, which forgets its configuration
    Reboot(NodeArguments),
    /// Switches a node off
    PowerOff(NodeArguments),
    /// Switches a node on that was off
    PowerOn(NodeArguments),
    /// Drops a share of all subnet management packets
    Loss(LossArguments),
    /// Makes an error counter of a port move, as damage does
    Errors(ErrorsArguments),
}

#[derive(Debug, Args)]
pub(crate) struct PortArguments {
    /// The node at either end of the cable
    #[arg(add = of_nodes())]
    node: String,
    /// The port on that node
    #[arg(value_parser = clap::value_parser!(u32).range(1..=254))]
    port: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SwapArguments {
    /// The node at either end of the one cable
    #[arg(add = of_nodes())]
    node: String,
    /// The port on that node
    #[arg(value_parser = clap::value_parser!(u32).range(1..=254))]
    port: u32,
    /// The node at either end of the other cable
    #[arg(add = of_nodes())]
    other_node: String,
    /// The port on that node
    #[arg(value_parser = clap::value_parser!(u32).range(1..=254))]
    other_port: u32,
}

#[derive(Debug, Args)]
pub(crate) struct NodeArguments {
    /// The node
    #[arg(add = of_nodes())]
    node: String,
}

#[derive(Debug, Args)]
pub(crate) struct LossArguments {
    /// The share, 0 to 1
    #[arg(value_parser = share)]
    rate: f64,
    /// Only packets of the attribute with this identifier, for instance 0x15 for PortInfo
    #[arg(long, value_name = "ID", value_parser = attribute_id)]
    attribute: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ErrorsArguments {
    /// The node
    #[arg(add = of_nodes())]
    node: String,
    /// The port on that node
    #[arg(value_parser = clap::value_parser!(u32).range(1..=254))]
    port: u32,
    /// The counter's name in the specification, for instance SymbolErrorCounter
    counter: String,
    /// By how many it moves each second; 0 ends it
    #[arg(value_parser = per_second)]
    rate: f64,
}

fn per_second(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| (0.0..=f64::MAX).contains(rate))
        .ok_or_else(|| "expected a number of at least 0, for instance 0.5".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate| (0.0..=1.0).contains(rate))
        .ok_or_else(|| "expected a number from 0 to 1, for instance 0.05 for 5 %".to_owned())
}

fn attribute_id(text: &str) -> Result<u32, String> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .map(u32::from)
    .map_err(|_| "expected 0 to 65535, or 0x0 to 0xffff".to_owned())
}

/// The action, for scripts.
#[derive(Serialize)]
#[serde(tag = "done", rename_all = "kebab-case")]
enum Done {
    Unlink {
        node: String,
        port: u32,
    },
    Relink {
        node: String,
        port: u32,
    },
    Swap {
        node: String,
        port: u32,
        other_node: String,
        other_port: u32,
    },
    Reboot {
        node: String,
    },
    PowerOff {
        node: String,
    },
    PowerOn {
        node: String,
    },
    Loss {
        rate: f64,
        attribute_id: Option<u32>,
    },
    Errors {
        node: String,
        port: u32,
        counter: String,
        per_second: f64,
    },
}

impl Done {
    fn sentence(&self) -> String {
        match self {
            Done::Unlink { node, port } => {
                format!("The cable at port {port} of {node} is unplugged.")
            }
            Done::Relink { node, port } => {
                format!("The cable at port {port} of {node} is plugged in.")
            }
            Done::Swap {
                node,
                port,
                other_node,
                other_port,
            } => format!(
                "The cables at port {port} of {node} and port {other_port} of {other_node} are exchanged."
            ),
            Done::Reboot { node } => format!("{node} restarts."),
            Done::PowerOff { node } => format!("{node} is off."),
            Done::PowerOn { node } => format!("{node} is on."),
            Done::Loss { rate, attribute_id } => {
                let which = attribute_id.map_or_else(
                    || "subnet management packets".to_owned(),
                    |id| format!("packets of attribute {id:#06x}"),
                );
                // Round, since 0.07 times 100 is not quite 7.
                let percent = (rate * 1e6).round() / 1e4;
                format!("{percent} % of {which} are lost.")
            }
            Done::Errors {
                node,
                port,
                counter,
                per_second,
            } => format!("{counter} of port {port} of {node} moves by {per_second} a second."),
        }
    }
}

pub(crate) async fn run(command: SimCommand, session: &mut Session) -> Result<(), Failure> {
    let done = act(command, session).await?;
    if session.output.is_json() {
        return session.output.json(&done);
    }
    session.output.line(&printable(&done.sentence()))
}

async fn act(command: SimCommand, session: &Session) -> Result<Done, Failure> {
    let mut simulation = session.simulation();
    Ok(match command {
        SimCommand::Unlink(PortArguments { node, port }) => {
            let request = v1::UnlinkRequest {
                node: node.clone(),
                port,
            };
            simulation.unlink(request).await?;
            Done::Unlink { node, port }
        }
        SimCommand::Relink(PortArguments { node, port }) => {
            let request = v1::RelinkRequest {
                node: node.clone(),
                port,
            };
            simulation.relink(request).await?;
            Done::Relink { node, port }
        }
        SimCommand::Swap(SwapArguments {
            node,
            port,
            other_node,
            other_port,
        }) => {
            let request = v1::SwapCablesRequest {
                node: node.clone(),
                port,
                other_node: other_node.clone(),
                other_port,
            };
            simulation.swap_cables(request).await?;
            Done::Swap {
                node,
                port,
                other_node,
                other_port,
            }
        }
        SimCommand::Reboot(NodeArguments { node }) => {
            simulation
                .reboot(v1::RebootRequest { node: node.clone() })
                .await?;
            Done::Reboot { node }
        }
        SimCommand::PowerOff(NodeArguments { node }) => {
            simulation
                .power_off(v1::PowerOffRequest { node: node.clone() })
                .await?;
            Done::PowerOff { node }
        }
        SimCommand::PowerOn(NodeArguments { node }) => {
            simulation
                .power_on(v1::PowerOnRequest { node: node.clone() })
                .await?;
            Done::PowerOn { node }
        }
        SimCommand::Loss(LossArguments { rate, attribute }) => {
            let request = v1::SetLossRequest {
                rate,
                attribute_id: attribute,
            };
            simulation.set_loss(request).await?;
            Done::Loss {
                rate,
                attribute_id: attribute,
            }
        }
        SimCommand::Errors(ErrorsArguments {
            node,
            port,
            counter,
            rate,
        }) => {
            let request = v1::SetErrorsRequest {
                node: node.clone(),
                port,
                counter: counter.clone(),
                per_second: rate,
            };
            simulation.set_errors(request).await?;
            Done::Errors {
                node,
                port,
                counter,
                per_second: rate,
            }
        }
    })
}

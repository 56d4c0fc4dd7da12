use clap::{Args, Subcommand};
use rsm_proto::v1;
use serde::Serialize;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::Session;
use crate::text::printable;

/// Acts on a simulated fabric
#[derive(Debug, Subcommand)]
#[command(
    after_help = "A port is NODE:PORT, or NODE and PORT; a host with one port needs no number. Nodes go by any unique part\nof their description, GUID, or LID.\n\nExamples:\n  rsmctl sim unlink leaf-03:7\n  rsmctl sim relink leaf-03:7\n  rsmctl sim swap leaf-03:7 leaf-04:7\n  rsmctl sim loss 0.05\n  rsmctl sim errors leaf-03:7 SymbolErrorCounter 0.5"
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
    /// The port at either end of the cable
    #[arg(add = of_nodes(), required = true, num_args = 1..=2, value_name = "NODE:PORT")]
    port: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SwapArguments {
    /// A port at either end of each cable
    #[arg(
        add = of_nodes(),
        required = true,
        num_args = 2..=4,
        value_names = ["NODE:PORT", "NODE:PORT"]
    )]
    ports: Vec<String>,
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
    /// The port; the counter's name in the specification, for instance SymbolErrorCounter; by how
    /// many it moves each second, 0 ends it
    #[arg(
        add = of_nodes(),
        required = true,
        num_args = 3..=4,
        value_names = ["NODE:PORT", "COUNTER", "RATE"]
    )]
    words: Vec<String>,
}

fn usage(text: &str) -> Failure {
    Failure::Usage(text.to_owned())
}

/// A port on the command line.
#[derive(Serialize)]
struct PortWords {
    /// The node, or its port.
    node: String,
    /// The port number in a word of its own; 0 if the node's name contains it.
    #[serde(skip_serializing_if = "is_zero")]
    port: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl PortWords {
    /// Parses the words NODE:PORT, or NODE and PORT.
    fn of(words: &[String]) -> Result<PortWords, Failure> {
        let (node, port) = match words {
            [node, port] => (node, number(port)?),
            [node] => (node, 0),
            _ => return Err(usage("expected NODE:PORT, or NODE and PORT")),
        };
        let node = node.clone();
        Ok(PortWords { node, port })
    }

    fn shown(&self) -> String {
        match self.port {
            0 => self.node.clone(),
            port => format!("port {port} of {}", self.node),
        }
    }
}

/// Parses the number of a port.
fn number(word: &str) -> Result<u32, Failure> {
    let number = word
        .parse()
        .ok()
        .filter(|number| (1..=254).contains(number));
    number.ok_or_else(|| {
        usage(&format!(
            "`{word}` is no number of a port: expected 1 to 254, after its node"
        ))
    })
}

/// Parses two ports, each of one word or two.
fn two_ports(words: &[String]) -> Result<[PortWords; 2], Failure> {
    let is_number = |word: &String| word.parse::<u32>().is_ok();
    let split = match words.len() {
        2 => 1,
        4 => 2,
        // The number belongs to the node before it.
        _ if is_number(&words[1]) => 2,
        _ => 1,
    };
    let (one, other) = words.split_at(split);
    Ok([PortWords::of(one)?, PortWords::of(other)?])
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

/// The completed action; also the JSON output of the command.
#[derive(Serialize)]
#[serde(tag = "done", rename_all = "kebab-case")]
enum CompletedAction {
    Unlink {
        #[serde(flatten)]
        port: PortWords,
    },
    Relink {
        #[serde(flatten)]
        port: PortWords,
    },
    Swap {
        #[serde(flatten)]
        port: PortWords,
        other_node: String,
        #[serde(skip_serializing_if = "is_zero")]
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
        #[serde(flatten)]
        port: PortWords,
        counter: String,
        per_second: f64,
    },
}

impl CompletedAction {
    fn sentence(&self) -> String {
        match self {
            CompletedAction::Unlink { port } => {
                format!("The cable at {} is unplugged.", port.shown())
            }
            CompletedAction::Relink { port } => {
                format!("The cable at {} is plugged in.", port.shown())
            }
            CompletedAction::Swap {
                port,
                other_node,
                other_port,
            } => {
                let other = PortWords {
                    node: other_node.clone(),
                    port: *other_port,
                };
                let (one, other) = (port.shown(), other.shown());
                format!("The cables at {one} and {other} are exchanged.")
            }
            CompletedAction::Reboot { node } => format!("{node} restarts."),
            CompletedAction::PowerOff { node } => format!("{node} is off."),
            CompletedAction::PowerOn { node } => format!("{node} is on."),
            CompletedAction::Loss { rate, attribute_id } => {
                let which = attribute_id.map_or_else(
                    || "subnet management packets".to_owned(),
                    |id| format!("packets of attribute {id:#06x}"),
                );
                // The value is rounded, because 0.07 times 100 is not quite 7.
                let percent = (rate * 1e6).round() / 1e4;
                format!("{percent} % of {which} are lost.")
            }
            CompletedAction::Errors {
                port,
                counter,
                per_second,
            } => format!(
                "{counter} of {} moves by {per_second} a second.",
                port.shown()
            ),
        }
    }
}

pub(crate) async fn run(command: SimCommand, session: &mut Session) -> Result<(), Failure> {
    let done = perform(command, session).await?;
    if session.output.is_json() {
        return session.output.json(&done);
    }
    session.output.line(&printable(&done.sentence()))
}

async fn perform(command: SimCommand, session: &Session) -> Result<CompletedAction, Failure> {
    let mut simulation = session.simulation();
    Ok(match command {
        SimCommand::Unlink(arguments) => {
            let port = PortWords::of(&arguments.port)?;
            let request = v1::UnlinkRequest {
                node: port.node.clone(),
                port: port.port,
            };
            simulation.unlink(request).await?;
            CompletedAction::Unlink { port }
        }
        SimCommand::Relink(arguments) => {
            let port = PortWords::of(&arguments.port)?;
            let request = v1::RelinkRequest {
                node: port.node.clone(),
                port: port.port,
            };
            simulation.relink(request).await?;
            CompletedAction::Relink { port }
        }
        SimCommand::Swap(arguments) => swap(two_ports(&arguments.ports)?, session).await?,
        SimCommand::Reboot(NodeArguments { node }) => {
            simulation
                .reboot(v1::RebootRequest { node: node.clone() })
                .await?;
            CompletedAction::Reboot { node }
        }
        SimCommand::PowerOff(NodeArguments { node }) => {
            simulation
                .power_off(v1::PowerOffRequest { node: node.clone() })
                .await?;
            CompletedAction::PowerOff { node }
        }
        SimCommand::PowerOn(NodeArguments { node }) => {
            simulation
                .power_on(v1::PowerOnRequest { node: node.clone() })
                .await?;
            CompletedAction::PowerOn { node }
        }
        SimCommand::Loss(LossArguments { rate, attribute }) => {
            let request = v1::SetLossRequest {
                rate,
                attribute_id: attribute,
            };
            simulation.set_loss(request).await?;
            CompletedAction::Loss {
                rate,
                attribute_id: attribute,
            }
        }
        SimCommand::Errors(arguments) => {
            let (port, counter, rate) = parse_errors(&arguments.words)?;
            set_errors(port, counter, rate, session).await?
        }
    })
}

/// Exchanges the cables in two ports.
async fn swap(
    [port, other]: [PortWords; 2],
    session: &Session,
) -> Result<CompletedAction, Failure> {
    let request = v1::SwapCablesRequest {
        node: port.node.clone(),
        port: port.port,
        other_node: other.node.clone(),
        other_port: other.port,
    };
    session.simulation().swap_cables(request).await?;
    Ok(CompletedAction::Swap {
        port,
        other_node: other.node,
        other_port: other.port,
    })
}

/// Makes a counter of a port grow by `per_second`.
async fn set_errors(
    port: PortWords,
    counter: String,
    per_second: f64,
    session: &Session,
) -> Result<CompletedAction, Failure> {
    let request = v1::SetErrorsRequest {
        node: port.node.clone(),
        port: port.port,
        counter: counter.clone(),
        per_second,
    };
    session.simulation().set_errors(request).await?;
    Ok(CompletedAction::Errors {
        port,
        counter,
        per_second,
    })
}

/// Parses the words of `sim errors`: port, counter and rate.
fn parse_errors(words: &[String]) -> Result<(PortWords, String, f64), Failure> {
    let [port @ .., counter, rate] = words else {
        return Err(usage("expected NODE:PORT, COUNTER and RATE"));
    };
    let rate = per_second(rate).map_err(|expected| usage(&format!("`{rate}`: {expected}")))?;
    Ok((PortWords::of(port)?, counter.clone(), rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn shown(ports: &str) -> Option<[String; 2]> {
        let ports = two_ports(&words(ports)).ok()?;
        Some(ports.map(|port| format!("{}/{}", port.node, port.port)))
    }

    #[test]
    fn each_port_of_a_swap_is_one_word_or_two() {
        for (ports, expected) in [
            ("leaf-1:7 leaf-2:8", ["leaf-1:7/0", "leaf-2:8/0"]),
            ("leaf-1 7 leaf-2 8", ["leaf-1/7", "leaf-2/8"]),
            ("leaf-1 7 leaf-2:8", ["leaf-1/7", "leaf-2:8/0"]),
            ("leaf-1:7 leaf-2 8", ["leaf-1:7/0", "leaf-2/8"]),
        ] {
            assert_eq!(shown(ports), Some(expected.map(str::to_owned)), "{ports}");
        }
        for ports in [
            "leaf-1 x leaf-2 8",
            "leaf-1 0 leaf-2 8",
            "leaf-1 255 leaf-2:8",
        ] {
            assert_eq!(shown(ports), None, "{ports}");
        }
    }

    #[test]
    fn errors_take_a_port_in_one_word_or_two() {
        let (port, counter, rate) = parse_errors(&words("leaf-1:7 PortRcvErrors 0.5")).unwrap();
        assert_eq!((port.node.as_str(), port.port), ("leaf-1:7", 0));
        assert_eq!((counter.as_str(), rate), ("PortRcvErrors", 0.5));
        let (port, ..) = parse_errors(&words("leaf-1 7 PortRcvErrors 0.5")).unwrap();
        assert_eq!((port.node.as_str(), port.port), ("leaf-1", 7));
        for refused in ["leaf-1 7 PortRcvErrors -1", "leaf-1 x PortRcvErrors 1"] {
            assert!(parse_errors(&words(refused)).is_err(), "{refused}");
        }
    }
}

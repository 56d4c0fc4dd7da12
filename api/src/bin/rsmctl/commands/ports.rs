use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{
    NONE, label, label_parser, lid, optional, or_none, port_of, rate, remarks, timestamp,
};

/// Ports with their state, LID and neighbour
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl ports --node leaf-03\n  rsmctl ports --connected --state init\n  rsmctl ports leaf-03:7"
)]
pub(crate) struct PortsArguments {
    /// Only this port
    #[arg(conflicts_with_all = ["node", "kind", "state", "connected"])]
    port: Option<String>,
    /// Only ports of this node, or with a number behind a colon only that port
    #[arg(add = of_nodes(), long)]
    node: Option<String>,
    /// Only ports of nodes of this kind
    #[arg(long, value_parser = label_parser::<v1::NodeKind>())]
    kind: Option<i32>,
    /// Only ports in this state
    #[arg(long, value_parser = label_parser::<v1::PortState>())]
    state: Option<i32>,
    /// Only ports with a cable to a port that answers
    #[arg(long)]
    connected: bool,
}

pub(crate) async fn run(arguments: PortsArguments, session: &mut Session) -> Result<(), Failure> {
    let ports = match (&arguments.port, &arguments.node) {
        (Some(name), _) => port_of_name(session, name).await?,
        (None, Some(name)) if names_port(name) => {
            let mut ports = port_of_name(session, name).await?;
            let is_meant = |port: &v1::Port| {
                arguments.state.is_none_or(|state| state == port.state)
                    && (!arguments.connected || port.peer.is_some())
            };
            ports.retain(is_meant);
            ports
        }
        (None, _) => filtered_ports(session, &arguments).await?,
    };
    session.output.list(
        ports,
        [
            "+NODE",
            ">PORT",
            ">LID",
            "STATE",
            "+PHYSICAL",
            "RATE",
            "+>MTU",
            "+>VLS",
            "+FEC",
            "PEER",
            "NOTE",
            "DESCRIPTION",
        ],
        |port| {
            let key = port.key.unwrap_or_default();
            let nonzero = |number: u32| optional(Some(number).filter(|&number| number != 0));
            [
                key.node_guid,
                key.number.to_string(),
                lids(port.lid, port.lmc),
                label::<v1::PortState>(port.state),
                label::<v1::PhysicalState>(port.physical_state),
                rate(port.width, port.speed),
                nonzero(port.mtu_bytes),
                nonzero(port.operational_vls),
                or_none(&port.error_correction),
                peer(port.peer, port.gone_cable),
                remarks(None, port.avoidance),
                port.node_description,
            ]
        },
    )
}

/// Whether a name has the number of a port behind it: `leaf-03:7`, unlike `lid:7` or a GID.
fn names_port(name: &str) -> bool {
    name.rsplit_once(':').is_some_and(|(node, port)| {
        port.parse::<u8>().is_ok() && node != "lid" && !node.contains(':')
    })
}

/// The port at the other end of the cable, or the former port if the cable is gone or its port is
/// disabled.
fn peer(peer: Option<v1::Peer>, gone: Option<v1::GoneCable>) -> String {
    match (peer, gone) {
        (Some(peer), _) => port_of(&peer.description, peer.port.as_ref()),
        (None, Some(gone)) => {
            let place = port_of(&gone.description, gone.port.as_ref());
            if !gone.disabled.is_empty() {
                return format!("DOWN: {place}, {}", gone.disabled);
            }
            let until = gone.lost_unix_ms.map(timestamp);
            let until = until.unwrap_or_else(|| "rsm started".to_owned());
            format!("GONE: {place}, until {until}")
        }
        (None, None) => NONE.to_owned(),
    }
}

async fn port_of_name(session: &Session, name: &str) -> Result<Vec<v1::Port>, Failure> {
    let request = v1::GetPortRequest {
        port: name.to_owned(),
    };
    let answer = session.fabric().get_port(request).await?;
    Ok(answer.into_inner().port.into_iter().collect())
}

async fn filtered_ports(
    session: &Session,
    arguments: &PortsArguments,
) -> Result<Vec<v1::Port>, Failure> {
    all_pages(
        v1::ListPortsRequest {
            node: arguments.node.clone().unwrap_or_default(),
            node_kind: arguments.kind.unwrap_or_default(),
            state: arguments.state.unwrap_or_default(),
            connected: arguments.connected,
            ..Default::default()
        },
        async |request| session.fabric().list_ports(request).await,
    )
    .await
}

/// The base LID, followed by the last LID if the LMC gives the port several.
fn lids(base: u32, lmc: u32) -> String {
    if base == 0 || lmc == 0 {
        return lid(base);
    }
    // The LMC is at most 7 by the specification; a wrong value from a server must not overflow.
    format!("{base}-{}", base + (1 << lmc.min(7)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_behind_a_node_names_a_port() {
        for name in ["leaf-03:7", "host-017 mlx5_3:1", "0x0002c90300001234:2"] {
            assert!(names_port(name), "{name}");
        }
        for name in [
            "leaf-03",
            "lid:7",
            "fe80::2:c903:0:12",
            "guid:0x12",
            "leaf-03:x",
        ] {
            assert!(!names_port(name), "{name}");
        }
    }
}

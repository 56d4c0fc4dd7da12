use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{NONE, label, lid, port_of};

/// Congestion control of switches and adapters: who holds the settings, and who does not
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rsmctl congestion\n  rsmctl congestion --node leaf-1")]
pub(crate) struct CongestionArguments {
    /// Only this switch or host
    #[arg(add = of_nodes(), long)]
    node: Option<String>,
}

pub(crate) async fn run(
    arguments: CongestionArguments,
    session: &mut Session,
) -> Result<(), Failure> {
    let mut off = String::new();
    let agents = all_pages(
        v1::ListCongestionAgentsRequest {
            node: arguments.node.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| {
            let response = session.fabric().list_congestion_agents(request).await?;
            off.clone_from(&response.get_ref().off);
            Ok(response)
        },
    )
    .await?;
    session.output.list(
        agents,
        ["PORT", ">LID", "STATE", ">SETS", ">KEY VIOLATIONS", "NOTE"],
        |agent| {
            [
                port_of(&agent.node_description, agent.port.as_ref()),
                lid(agent.lid),
                label::<v1::CongestionState>(agent.state),
                agent.sets.to_string(),
                agent
                    .key_violations
                    .map_or_else(|| NONE.to_owned(), |count| count.to_string()),
                agent.note.clone(),
            ]
        },
    )?;
    session.output.note(&off)
}

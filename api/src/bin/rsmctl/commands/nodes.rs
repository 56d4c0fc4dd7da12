use clap::Args;
use rsm_proto::v1;
use tonic::Code;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{NONE, hex, label, label_parser, lid, optional, remarks};

/// Switches, channel adapters and routers
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl nodes --kind switch\n  rsmctl nodes --kind switch --capabilities\n  rsmctl nodes leaf-03 --format json"
)]
pub(crate) struct NodesArguments {
    /// Only this node
    #[arg(add = of_nodes(), conflicts_with_all = ["kind", "description"])]
    node: Option<String>,
    /// Only nodes of this kind
    #[arg(long, value_parser = label_parser::<v1::NodeKind>())]
    kind: Option<i32>,
    /// Only nodes whose description contains this
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The capabilities of their device types, as the devices tell them
    #[arg(long)]
    capabilities: bool,
}

pub(crate) async fn run(arguments: NodesArguments, session: &mut Session) -> Result<(), Failure> {
    let nodes = match &arguments.node {
        Some(name) => node_of_name(session, name).await?,
        None => filtered_nodes(session, &arguments).await?,
    };
    if let (true, Some(text)) = (nodes.is_empty(), &arguments.description) {
        return refuse_without_nodes(session, text).await;
    }
    if arguments.capabilities {
        return list_capabilities(nodes, session);
    }
    session.output.list(
        nodes,
        [
            "GUID",
            "KIND",
            ">LID",
            "+>PORTS",
            ">ACTIVE",
            "+>HOPS",
            "+>RANK",
            "STATE",
            "DESCRIPTION",
        ],
        |node| {
            [
                node.guid,
                label::<v1::NodeKind>(node.kind),
                lids(&node.lids),
                node.num_ports.to_string(),
                node.ports_active.to_string(),
                node.distance.to_string(),
                optional(node.rank),
                match remarks(node.suspected.then_some("suspected"), node.avoidance) {
                    none if none.is_empty() => "ok".to_owned(),
                    remarks => remarks,
                },
                node.description,
            ]
        },
    )
}

fn list_capabilities(nodes: Vec<v1::Node>, session: &mut Session) -> Result<(), Failure> {
    session.output.list(
        nodes,
        [
            "GUID",
            "KIND",
            ">VENDOR",
            ">DEVICE",
            ">REVISION",
            "DESCRIPTION",
            "CAPABILITIES",
        ],
        |node| {
            [
                node.guid,
                label::<v1::NodeKind>(node.kind),
                hex(node.vendor_id),
                node.device_id.to_string(),
                node.revision.to_string(),
                node.description,
                capabilities(node.capabilities),
            ]
        },
    )
}

/// The names of capabilities, and the numbers of capabilities without a name; `none` if the device
/// has none, and `not known` if no device of its type has answered.
fn capabilities(held: Option<Box<v1::DeviceCapabilities>>) -> String {
    let Some(held) = held else {
        return "not known".to_owned();
    };
    let numbers = held.unnamed.iter().map(|number| format!("number {number}"));
    let all: Vec<String> = held.names.into_iter().chain(numbers).collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

async fn node_of_name(session: &Session, name: &str) -> Result<Vec<v1::Node>, Failure> {
    let request = v1::GetNodeRequest {
        node: name.to_owned(),
    };
    let answer = session.fabric().get_node(request).await?;
    Ok(answer.into_inner().node.into_iter().collect())
}

/// The failure if no node passes the filters; it says whether nodes with this text in their
/// description have left the subnet, or never existed.
async fn refuse_without_nodes(session: &Session, text: &str) -> Result<(), Failure> {
    let request = v1::GetNodeRequest {
        node: format!("name:{text}"),
    };
    match session.fabric().get_node(request).await {
        Err(status) if status.code() == Code::NotFound => Err(status.into()),
        Ok(_) | Err(_) => Err(Failure::Refused(format!(
            "no node passes all filters: `rsmctl nodes` lists the nodes that are there, also those with `{text}` in another case of letters"
        ))),
    }
}

async fn filtered_nodes(
    session: &Session,
    arguments: &NodesArguments,
) -> Result<Vec<v1::Node>, Failure> {
    all_pages(
        v1::ListNodesRequest {
            kind: arguments.kind.unwrap_or_default(),
            description_contains: arguments.description.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| session.fabric().list_nodes(request).await,
    )
    .await
}

/// The first LID, and the number of further LIDs: `49+3`.
fn lids(lids: &[u32]) -> String {
    match lids {
        [] => NONE.to_owned(),
        [only] => lid(*only),
        [first, more @ ..] => format!("{}+{}", lid(*first), more.len()),
    }
}

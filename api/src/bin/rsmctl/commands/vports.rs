use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{NONE, label, lid, or_none, port_of};

/// Virtual ports of hosts with their state and LID
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  rsmctl vports\n  rsmctl vports --node gpu-0001")]
pub(crate) struct VportsArguments {
    /// Only virtual ports of this host
    #[arg(add = of_nodes(), long)]
    node: Option<String>,
}

pub(crate) async fn run(arguments: VportsArguments, session: &mut Session) -> Result<(), Failure> {
    let mut off = String::new();
    let vports = all_pages(
        v1::ListVirtualPortsRequest {
            node: arguments.node.clone().unwrap_or_default(),
            ..Default::default()
        },
        async |request| {
            let response = session.fabric().list_virtual_ports(request).await?;
            off.clone_from(&response.get_ref().off);
            Ok(response)
        },
    )
    .await?;
    session.output.list(
        vports,
        [
            "PORT",
            ">VPORT",
            "GUID",
            "+NODE",
            ">LID",
            "STATE",
            "NOTE",
            "DESCRIPTION",
        ],
        |vport| {
            [
                port_of(&vport.host, vport.port.as_ref()),
                vport.index.to_string(),
                vport.guid.clone(),
                vport.node_guid.clone(),
                lid(vport.lid),
                label::<v1::PortState>(vport.state),
                remark(&vport),
                or_none(&vport.description),
            ]
        },
    )?;
    session.output.note(&off)
}

fn remark(vport: &v1::VirtualPort) -> String {
    let note = match (vport.served, vport.shares_lid) {
        (false, _) => "not served",
        (true, true) => "shares its LID",
        (true, false) => NONE,
    };
    note.to_owned()
}

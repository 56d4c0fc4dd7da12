//! The command `rsmctl links`: lists cables with both their ends.

use clap::Args;
use rsm_proto::v1;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::text::{label, label_parser, link_remarks, port_of, rate};

/// Cables with both their ends
#[derive(Debug, Args)]
#[command(after_help = "Example: rsmctl links --node spine-01 --between-switches")]
pub(crate) struct LinksArguments {
    /// Only links with an end on this node
    #[arg(add = of_nodes(), long)]
    node: Option<String>,
    /// Only links whose ends are both switches
    #[arg(long)]
    between_switches: bool,
    /// Only links with this text in the name or node GUID of an end
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Only links in this state
    #[arg(long, value_parser = label_parser::<v1::PortState>())]
    state: Option<i32>,
    /// Only links that carry less than they should: those of the finding link-slow
    #[arg(long)]
    slow: bool,
}

/// Prints a table of the links that match the arguments, one link a row.
///
/// # Errors
/// The manager refuses the request, or the table cannot be written.
pub(crate) async fn run(arguments: LinksArguments, session: &mut Session) -> Result<(), Failure> {
    let links = all_pages(
        v1::ListLinksRequest {
            node: arguments.node.clone().unwrap_or_default(),
            between_switches: arguments.between_switches,
            end_contains: arguments.contains.unwrap_or_default(),
            state: arguments.state.unwrap_or_default(),
            slow: arguments.slow,
            ..Default::default()
        },
        async |request| session.fabric().list_links(request).await,
    )
    .await?;
    session
        .output
        .list(links, ["A", "B", "STATE", "RATE", "NOTE"], |link| {
            let remarks = link_remarks(&link);
            let (end_a, end_b) = (link.a.unwrap_or_default(), link.b.unwrap_or_default());
            [
                port_of(&end_a.description, end_a.port.as_ref()),
                port_of(&end_b.description, end_b.port.as_ref()),
                label::<v1::PortState>(link.state),
                rate(link.width, link.speed),
                remarks,
            ]
        })
}

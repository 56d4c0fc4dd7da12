use clap::Args;
use rsm_proto::v1;

use super::membership;
use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::host::first_adapters;
use crate::session::Session;
use crate::table::Rows;
use crate::text::{label, optional, printable};

/// The path from one port to another, hop by hop
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  rsmctl route gpu-0001:1 gpu-0777:1\n  rsmctl route 17 42\n\nThe exit code is 1 if the route does not reach the destination, or if the two ports share no partition."
)]
pub(crate) struct RouteArguments {
    /// The source port, or a host, which stands for its first adapter
    #[arg(add = of_nodes())]
    source: String,
    /// The destination port; a LID selects that LID's path, any other name the port's base LID
    #[arg(add = of_nodes())]
    destination: String,
}

pub(crate) async fn run(arguments: RouteArguments, session: &mut Session) -> Result<(), Failure> {
    let ends = [arguments.source, arguments.destination];
    let [source, destination] = first_adapters(session, ends.clone()).await?;
    let request = v1::ResolveRouteRequest {
        source,
        destination,
    };
    let answer = session.fabric().resolve_route(request).await?;
    let route = answer.into_inner().route.unwrap_or_default();
    if session.output.is_json() {
        session.output.json(&route)?;
    } else {
        session.output.table(rows(&route.hops))?;
    }
    let order = match route.no_partition.is_empty() {
        true => String::new(),
        false => membership::last_removal(&ends, session).await,
    };
    verdict(&route, &order)
}

/// A table of the nodes on the path.
pub(super) fn rows(hops: &[v1::Hop]) -> Rows {
    let mut rows = Rows::new(&[">HOP", ">IN", ">OUT", "KIND", "GUID", "DESCRIPTION"]);
    for (index, hop) in hops.iter().enumerate() {
        rows.add([
            index.to_string(),
            optional(hop.in_port),
            optional(hop.out_port),
            label::<v1::NodeKind>(hop.kind),
            hop.node_guid.clone(),
            hop.description.clone(),
        ]);
    }
    rows
}

/// A failure unless the route delivers packets to a port that accepts them. `order` is the text
/// about the order that took one of the hosts out of a partition.
fn verdict(route: &v1::Route, order: &str) -> Result<(), Failure> {
    let last = route.hops.last().map_or_else(String::new, |hop| {
        format!("{} {}", hop.node_guid, printable(&hop.description))
    });
    let lid = route.lid;
    match route.outcome() {
        v1::RouteOutcome::Delivered if route.no_partition.is_empty() => Ok(()),
        v1::RouteOutcome::Delivered => Err(Failure::Refused(format!(
            "the tables lead to LID {lid}, and {last} drops the packets: {}{}",
            printable(&route.no_partition),
            printable(order)
        ))),
        v1::RouteOutcome::Dropped => Err(Failure::Refused(format!(
            "packets for LID {lid} are dropped at {last}: {}",
            printable(&route.reason)
        ))),
        v1::RouteOutcome::Loop => Err(Failure::Refused(format!(
            "packets for LID {lid} cycle: they pass {last} again"
        ))),
        v1::RouteOutcome::Unspecified => Err(Failure::Refused(
            "the server returned an outcome that this version of rsmctl does not know".to_owned(),
        )),
    }
}

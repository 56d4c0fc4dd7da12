use clap::Args;
use rsm_proto::v1;
use serde::Serialize;

use crate::completion::of_nodes;
use crate::failure::Failure;
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{count, label, link_remarks, port_of, rate};

/// One cable: the hosts whose paths cross it, and whether it may be unplugged
#[derive(Debug, Args)]
#[command(
    after_help = "Paths are those of all pairs of hosts, by the tables in force.\n\nExamples:\n  rsmctl link leaf-03:33\n  rsmctl link host-017 --limit 10"
)]
pub(crate) struct LinkArguments {
    /// A port at an end of the cable
    #[arg(add = of_nodes(), value_name = "NODE:PORT")]
    port: String,
}

/// The JSON output of the command.
#[derive(Serialize)]
struct Found {
    cable: v1::CableUse,
    hosts: Vec<v1::CableHost>,
}

pub(crate) async fn run(arguments: LinkArguments, session: &mut Session) -> Result<(), Failure> {
    let request = v1::GetCableUseRequest {
        port: arguments.port.clone(),
    };
    let answer = session.routing().get_cable_use(request).await?;
    let cable = answer.into_inner().cable.unwrap_or_default();
    let request = v1::ListCableHostsRequest {
        port: arguments.port.clone(),
        ..v1::ListCableHostsRequest::default()
    };
    let mut hosts = all_pages(request, async |request| {
        session.routing().list_cable_hosts(request).await
    })
    .await?;
    if session.output.is_json() {
        return session.output.json(&Found { cable, hosts });
    }
    session.output.table(summary(&cable, &arguments.port))?;
    session.output.line("")?;
    // Hosts with the most paths come first; ties stay in the server's order.
    hosts.sort_by_key(|host| std::cmp::Reverse(host.sends_to + host.receives_from));
    let mut rows = Rows::new(&["HOST", ">SENDS TO", ">RECEIVES FROM"]);
    for host in hosts {
        rows.add([
            port_of(&host.description, host.port.as_ref()),
            host.sends_to.to_string(),
            host.receives_from.to_string(),
        ]);
    }
    session.output.table(rows)
}

/// The cable in a few rows; `asked` is the port as the operator named it.
fn summary(cable: &v1::CableUse, asked: &str) -> Rows {
    let mut rows = Rows::plain(2);
    let mut row = |name: &str, value: String| rows.add([name.to_owned(), value]);
    let link = cable.link.clone().unwrap_or_default();
    let remarks = link_remarks(&link);
    let end = |end: Option<v1::LinkEnd>| {
        let end = end.unwrap_or_default();
        port_of(&end.description, end.port.as_ref())
    };
    let (a, b) = (end(link.a), end(link.b));
    row("Link", format!("{a} - {b}"));
    let mut state = vec![
        label::<v1::PortState>(link.state),
        rate(link.width, link.speed),
    ];
    state.extend(Some(remarks).filter(|remarks| !remarks.is_empty()));
    row("State", state.join(", "));
    row("May be unplugged", unplug(cable, asked));
    row(
        "Paths",
        format!(
            "{} from {a}, {} from {b}, of pairs of hosts",
            cable.paths_from_a, cable.paths_from_b
        ),
    );
    row(
        "Hosts",
        match cable.hosts {
            0 => "no host sends or receives over it".to_owned(),
            1 => "1 host sends or receives over it".to_owned(),
            hosts => format!("{hosts} hosts send or receive over it"),
        },
    );
    rows
}

/// The node at an end of the cable that is no switch, in the form that `drain` accepts.
fn host_of(cable: &v1::CableUse) -> String {
    let link = cable.link.clone().unwrap_or_default();
    let mut ends = [link.a, link.b].into_iter().flatten();
    let host = ends.find(|end| end.kind() != v1::NodeKind::Switch);
    let key = host.and_then(|host| host.port).unwrap_or_default();
    key.node_guid
}

/// Whether the cable may be unplugged, and the next step if not.
fn unplug(cable: &v1::CableUse, asked: &str) -> String {
    let lids = || count(cable.lids_over, "LID", "LIDs");
    match cable.unplug() {
        v1::Unplug::Safe => "yes: no table leads a LID of another node over it".to_owned(),
        v1::Unplug::DrainFirst => format!(
            "NO: tables lead {} over it; `rsmctl drain {asked}` routes around it",
            lids()
        ),
        v1::Unplug::DrainHost => format!(
            "NO: it is the cable of {host}; `rsmctl drain {host}` says when no route needs it",
            host = host_of(cable)
        ),
        v1::Unplug::CutsOff => format!(
            "NO: it is drained, and tables still lead {} over it: they would be cut off",
            lids()
        ),
        v1::Unplug::Changing | v1::Unplug::Unspecified => {
            "not yet: tables are being written, ask again".to_owned()
        }
    }
}

use std::collections::HashMap;

use clap::Args;
use rsm_api::Reason;
use rsm_api::resolve::shell_word;
use rsm_proto::v1;
use serde::Serialize;
use tonic::Status;

use crate::completion::of_nodes;
use crate::failure::{Failure, reason_of};
use crate::session::{Session, all_pages};
use crate::table::Rows;
use crate::text::{count, host_name, label, link_remarks, port_of, rate};

/// One cable: the hosts whose paths cross it, and whether it may be unplugged
#[derive(Debug, Args)]
#[command(
    after_help = "Paths are those of all pairs of adapters, by the tables in force. A host is one row with all its\nadapters: --all shows each adapter.\n\nExamples:\n  rsmctl link leaf-03:33\n  rsmctl link host-017 --limit 10"
)]
pub(crate) struct LinkArguments {
    /// A port at an end of the cable; a node with one cable needs no number
    #[arg(add = of_nodes(), value_name = "NODE[:PORT]")]
    port: String,
    /// Each adapter by itself
    #[arg(long)]
    all: bool,
}

/// The JSON output of the command.
#[derive(Serialize)]
struct LinkReport {
    cable: v1::CableUse,
    hosts: Vec<v1::CableHost>,
}

pub(crate) async fn run(arguments: LinkArguments, session: &mut Session) -> Result<(), Failure> {
    let request = v1::GetCableUseRequest {
        port: arguments.port.clone(),
    };
    let answer = session.routing().get_cable_use(request).await;
    let answer = answer.map_err(|status| one_cable_or_node(status, &arguments.port))?;
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
        session.output.shorten(&mut hosts);
        return session.output.json(&LinkReport { cable, hosts });
    }
    let users = paths_by_host(&hosts);
    let summary = summary(&cable, &arguments.port, users.len() as u64);
    session.output.table(summary)?;
    session.output.line("")?;
    if !arguments.all {
        return session.output.table(by_host(users));
    }
    // Adapters with the most paths come first; ties stay in the server's order.
    hosts.sort_by_key(|host| std::cmp::Reverse(host.sends_to + host.receives_from));
    let mut rows = Rows::new(&["ADAPTER", ">SENDS TO", ">RECEIVES FROM"]);
    for host in hosts {
        rows.add([
            port_of(&host.description, host.port.as_ref()),
            host.sends_to.to_string(),
            host.receives_from.to_string(),
        ]);
    }
    session.output.table(rows)
}

/// The failure for a name that leads to no cable. One name for several ports may be that of a node:
/// the failure then also names the command about whole nodes.
fn one_cable_or_node(status: Status, name: &str) -> Failure {
    let is_ambiguous = reason_of(&status).as_deref() == Some(Reason::AmbiguousName.name());
    match (Failure::from(status), is_ambiguous) {
        (Failure::Refused(text), true) => Failure::Refused(format!(
            "{text}\n`rsmctl whatif {}` is about a whole switch or host",
            shell_word(name)
        )),
        (failure, _) => failure,
    }
}

/// A host whose paths cross the cable.
struct HostPaths<'a> {
    name: &'a str,
    /// The number of adapters whose paths cross the cable.
    adapters: u64,
    /// The number of paths over the cable from these adapters.
    paths_from: u64,
    /// The number of paths over the cable to these adapters.
    paths_to: u64,
}

/// The hosts of adapters. Hosts with the most paths come first; ties stay in the server's order.
fn paths_by_host(adapters: &[v1::CableHost]) -> Vec<HostPaths<'_>> {
    let mut users: Vec<HostPaths<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for adapter in adapters {
        let name = host_name(&adapter.description);
        let at = *places.entry(name).or_insert_with(|| {
            users.push(HostPaths {
                name,
                adapters: 0,
                paths_from: 0,
                paths_to: 0,
            });
            users.len() - 1
        });
        let user = &mut users[at];
        user.adapters += 1;
        user.paths_from += adapter.sends_to;
        user.paths_to += adapter.receives_from;
    }
    users.sort_by_key(|user| std::cmp::Reverse(user.paths_from + user.paths_to));
    users
}

fn by_host(users: Vec<HostPaths<'_>>) -> Rows {
    let mut rows = Rows::new(&["HOST", ">ADAPTERS", ">PATHS FROM IT", ">PATHS TO IT"]);
    for user in users {
        rows.add([
            user.name.to_owned(),
            user.adapters.to_string(),
            user.paths_from.to_string(),
            user.paths_to.to_string(),
        ]);
    }
    rows
}

/// The rows about the cable; `asked` is the port as the operator named it, `hosts` the number of
/// hosts whose paths cross the cable.
fn summary(cable: &v1::CableUse, asked: &str, hosts: u64) -> Rows {
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
    row("May be unplugged", unplug_verdict(cable, asked));
    row(
        "Paths",
        format!(
            "{} from {a}, {} from {b}, of pairs of adapters",
            cable.paths_from_a, cable.paths_from_b
        ),
    );
    row(
        "Hosts",
        match cable.hosts {
            0 => "no host sends or receives over it".to_owned(),
            adapters => format!(
                "{} over it, with {}",
                count(hosts, "host sends or receives", "hosts send or receive"),
                count(adapters, "adapter", "adapters")
            ),
        },
    );
    rows
}

/// The GUID of the node at an end of the cable that is not a switch.
fn host_of(cable: &v1::CableUse) -> String {
    let link = cable.link.clone().unwrap_or_default();
    let mut ends = [link.a, link.b].into_iter().flatten();
    let host = ends.find(|end| end.kind() != v1::NodeKind::Switch);
    let key = host.and_then(|host| host.port).unwrap_or_default();
    key.node_guid
}

/// Whether the cable may be unplugged, and the next step if not.
fn unplug_verdict(cable: &v1::CableUse, asked: &str) -> String {
    let lids = || count(cable.lids_over, "LID", "LIDs");
    match cable.unplug() {
        v1::Unplug::Safe if cable.paths_from_a + cable.paths_from_b > 0 => {
            "yes: only paths of what is drained cross it".to_owned()
        }
        v1::Unplug::Safe => "yes: no path of another node crosses it".to_owned(),
        v1::Unplug::DrainFirst => format!(
            "NO: paths to {} cross it; `rsmctl drain {asked}` routes around it",
            lids()
        ),
        v1::Unplug::DrainHost => format!(
            "NO: it is the cable of {host}; `rsmctl drain {host}` says when no route needs it",
            host = host_of(cable)
        ),
        v1::Unplug::CutsOff => format!(
            "NO: it is drained, and paths to {} still cross it: they would be cut off",
            lids()
        ),
        v1::Unplug::Changing | v1::Unplug::Unspecified => {
            "not yet: tables are being written, ask again".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use rsm_api::limits::ERROR_DOMAIN;
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    #[test]
    fn paths_of_the_adapters_of_a_host_are_added_up() {
        let adapter = |description: &str, sends_to, receives_from| v1::CableHost {
            description: description.to_owned(),
            sends_to,
            receives_from,
            ..v1::CableHost::default()
        };
        let adapters = [
            adapter("host-1 mlx5_0", 1, 2),
            adapter("host-2 mlx5_0", 100, 0),
            adapter("host-1 mlx5_1", 10, 20),
            adapter("storage", 5, 5),
        ];
        let users = paths_by_host(&adapters);
        let shown = users.iter();
        let shown: Vec<_> = shown
            .map(|user| (user.name, user.adapters, user.paths_from, user.paths_to))
            .collect();
        let expected = [
            ("host-2", 1, 100, 0),
            ("host-1", 2, 11, 22),
            ("storage", 1, 5, 5),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn name_of_a_whole_node_leads_to_the_command_about_nodes() {
        let refused = |reason: Reason| {
            let details = ErrorDetails::with_error_info(reason.name(), ERROR_DOMAIN, []);
            Status::with_error_details(reason.code(), "`spine-16` names 64 things", details)
        };
        let text = |reason| {
            one_cable_or_node(refused(reason), "spine-16")
                .message()
                .unwrap()
        };
        let ambiguous = text(Reason::AmbiguousName);
        assert!(
            ambiguous.contains("`rsmctl whatif spine-16`"),
            "{ambiguous}"
        );
        assert!(!text(Reason::NoSuchName).contains("whatif"));
    }
}

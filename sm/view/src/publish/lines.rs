//! Logs lines for operators: a line for each finding that begins or ends, each part that is lost or
//! found, and each request that changes something.

use std::collections::BTreeMap;

use rsm_api::model::NodeKind;
use rsm_api::v1::event::Change;
use rsm_api::{printable, v1};
use rsm_model::findings::FindingKind;

/// Findings that other code of the daemon has already logged.
const LOGGED_ELSEWHERE: [FindingKind; 5] = [
    FindingKind::Storage,
    FindingKind::StoreUnreachable,
    FindingKind::ConfigRefused,
    FindingKind::RestartNeeded,
    FindingKind::EventsUndelivered,
];

/// Logs the changes that matter most to operators.
pub(super) fn log(changes: &[Change]) {
    for line in node_lines(changes) {
        tracing::info!("{line}");
    }
    for change in changes {
        match change {
            Change::FindingRaised(finding) if !is_logged_elsewhere(finding) => {
                let text = printable(&finding.message);
                match finding.severity() {
                    v1::Severity::Error => tracing::error!("{text}"),
                    v1::Severity::Warning => tracing::warn!("{text}"),
                    v1::Severity::Info | v1::Severity::Unspecified => tracing::info!("{text}"),
                }
            }
            Change::FindingCleared(finding) if !is_logged_elsewhere(finding) => {
                tracing::info!("over: {}", printable(&finding.message));
            }
            _ => {}
        }
    }
}

/// Logs a request of an operator.
pub(super) fn log_act(act: &v1::OperatorActed) {
    let text = printable(&act.sentence());
    match act.refusal.is_empty() {
        true => tracing::info!("{text}"),
        false => tracing::warn!("{text}"),
    }
}

fn is_logged_elsewhere(finding: &v1::Finding) -> bool {
    LOGGED_ELSEWHERE
        .iter()
        .any(|kind| kind.code() == finding.kind)
}

/// Lines about nodes that are lost or found. Hosts at one switch share a line. Names in them are
/// printable: a host chooses its name, and a line break in it would begin a line of the log.
fn node_lines(changes: &[Change]) -> Vec<String> {
    let mut lost = NodeLines::new("lost");
    let mut found = NodeLines::new("found");
    for change in changes {
        match change {
            Change::LinkVanished(link) => lost.link(link),
            Change::LinkAppeared(link) => found.link(link),
            _ => {}
        }
    }
    for change in changes {
        match change {
            Change::NodeVanished(node) => lost.node(node),
            Change::NodeAppeared(node) => found.node(node),
            _ => {}
        }
    }
    let summed_up = changes.iter().filter_map(|change| match change {
        Change::StateChanged(to) if is_summary(&to.reason) => Some(to.reason.clone()),
        _ => None,
    });
    let all = summed_up.chain(lost.lines()).chain(found.lines());
    all.map(|line| printable(&line)).collect()
}

/// Whether the reason of a state counts nodes instead of listing them.
fn is_summary(reason: &str) -> bool {
    reason.starts_with("found ") || reason.starts_with("too much changed at once")
}

/// Nodes that were lost, or nodes that were found.
struct NodeLines {
    verb: &'static str,
    /// Other ends of the cables of each node, as node name and port number, by node GUID.
    places: BTreeMap<String, Vec<(String, u32)>>,
    switches: Vec<String>,
    /// Names of the hosts of each switch, each with the port number at the switch, by switch name.
    hosts: BTreeMap<String, Vec<(String, u32)>>,
}

impl NodeLines {
    fn new(verb: &'static str) -> NodeLines {
        NodeLines {
            verb,
            places: BTreeMap::new(),
            switches: Vec::new(),
            hosts: BTreeMap::new(),
        }
    }

    fn link(&mut self, link: &v1::Link) {
        let (Some(a), Some(b)) = (&link.a, &link.b) else {
            return;
        };
        for (here, there) in [(a, b), (b, a)] {
            let key = |end: &v1::LinkEnd| end.port.clone().unwrap_or_default();
            let place = (
                name(&there.description, &key(there).node_guid),
                key(there).number,
            );
            self.places
                .entry(key(here).node_guid)
                .or_default()
                .push(place);
        }
    }

    fn node(&mut self, node: &v1::Node) {
        let called = name(&node.description, &node.guid);
        if node.kind() == NodeKind::Switch {
            self.switches.push(called);
            return;
        }
        let place = self
            .places
            .get(&node.guid)
            .and_then(|places| places.first());
        let (switch, port) = place.cloned().unwrap_or_default();
        self.hosts.entry(switch).or_default().push((called, port));
    }

    fn lines(self) -> impl Iterator<Item = String> {
        let verb = self.verb;
        let switches = self.switches.into_iter();
        let switches = switches.map(move |switch| format!("switch {switch} {verb}"));
        let hosts = self.hosts.into_iter();
        switches.chain(
            hosts.map(move |(switch, hosts)| match (&hosts[..], switch.as_str()) {
                ([(host, _)], "") => format!("host {host} {verb}"),
                (hosts, "") => format!("{} hosts {verb}", hosts.len()),
                ([(host, port)], switch) => format!("host {host} {verb} at {switch}:{port}"),
                (hosts, switch) => format!("{} hosts {verb} behind {switch}", hosts.len()),
            }),
        )
    }
}

fn name(description: &str, guid: &str) -> String {
    if description.is_empty() {
        guid.to_owned()
    } else {
        description.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(description: &str, guid: u64, number: u32) -> Option<v1::LinkEnd> {
        Some(v1::LinkEnd {
            port: Some(v1::PortKey {
                node_guid: format!("{guid:#018x}"),
                number,
            }),
            description: description.to_owned(),
            ..v1::LinkEnd::default()
        })
    }

    fn host(guid: u64) -> v1::Node {
        v1::Node {
            guid: format!("{guid:#018x}"),
            kind: NodeKind::Ca.into(),
            description: format!("host-{guid}"),
            ..v1::Node::default()
        }
    }

    fn cable(guid: u64, port: u32) -> v1::Link {
        v1::Link {
            a: end(&format!("host-{guid}"), guid, 1),
            b: end("leaf-003", 99, port),
            ..v1::Link::default()
        }
    }

    #[test]
    fn hosts_lost_at_one_switch_share_a_line() {
        let mut changes: Vec<Change> = (1..=32)
            .map(|guid| Change::LinkVanished(cable(guid, guid as u32)))
            .collect();
        changes.extend((1..=32).map(|guid| Change::NodeVanished(host(guid))));
        changes.push(Change::LinkAppeared(cable(40, 33)));
        changes.push(Change::NodeAppeared(host(40)));
        assert_eq!(
            node_lines(&changes),
            [
                "32 hosts lost behind leaf-003",
                "host host-40 found at leaf-003:33"
            ]
        );
    }

    #[test]
    fn host_without_a_known_cable_has_a_line_without_a_place() {
        assert_eq!(
            node_lines(&[Change::NodeVanished(host(7))]),
            ["host host-7 lost"]
        );
        assert_eq!(node_lines(&[]), Vec::<String>::new());
    }

    #[test]
    fn line_break_in_the_name_of_a_host_begins_no_line() {
        let node = v1::Node {
            description: "h\n<2>rsm: master lost\u{202e}".to_owned(),
            ..host(7)
        };
        assert_eq!(
            node_lines(&[Change::NodeVanished(node)]),
            [r"host h\u{a}<2>rsm: master lost\u{202e} lost"]
        );
    }
}

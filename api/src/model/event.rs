use rsm_proto::v1;
use rsm_proto::v1::EventKind;
use rsm_proto::v1::event::Change;

/// A filter of events; the default passes all events. Texts are compared regardless of case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    kind: Option<EventKind>,
    node: Option<NodeFilter>,
    /// The text to find in causes, in lower case.
    cause: Option<String>,
}

/// A filter of places: the node, or the port of a node, that a change must be about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeFilter {
    /// The whole text, in lower case.
    text: String,
    /// The text before the last colon, and the port number after it; `None` if there is no number.
    port: Option<(String, u32)>,
}

impl NodeFilter {
    fn new(text: &str) -> NodeFilter {
        let text = text.to_lowercase();
        let port = text.rsplit_once(':').and_then(|(node, port)| {
            let port = port.parse().ok()?;
            Some((node.to_owned(), port))
        });
        NodeFilter { text, port }
    }

    fn passes(&self, place: &Place<'_>) -> bool {
        let text = place.text.to_lowercase();
        text.contains(&self.text)
            || self
                .port
                .as_ref()
                .is_some_and(|(node, port)| place.port == Some(*port) && text.contains(node))
    }
}

/// A text that identifies a node of a change, with the port of the change at that node.
struct Place<'a> {
    text: &'a str,
    port: Option<u32>,
}

impl EventFilter {
    /// Creates a filter that passes events that match all given criteria: events of `kind`; events
    /// about nodes with `node` as their GUID or in their description; events with `cause` in their
    /// cause, reason or message. `node` may end with a colon and a port number.
    pub fn new(kind: Option<EventKind>, node: Option<&str>, cause: Option<&str>) -> EventFilter {
        EventFilter {
            kind,
            node: node.map(NodeFilter::new),
            cause: cause.map(str::to_lowercase),
        }
    }

    /// Whether the filter passes `event`.
    pub fn matches(&self, event: &v1::Event) -> bool {
        let Some(change) = &event.change else {
            return *self == EventFilter::default();
        };
        let is_about =
            |wanted: &NodeFilter| places(change).iter().any(|place| wanted.passes(place));
        let has_cause = |wanted: &String| {
            let mut texts = causes(change).into_iter();
            texts.any(|text| text.to_lowercase().contains(wanted))
        };
        self.kind.is_none_or(|wanted| wanted == kind(change))
            && self.node.as_ref().is_none_or(is_about)
            && self.cause.as_ref().is_none_or(has_cause)
    }
}

/// The kind of a change.
fn kind(change: &Change) -> EventKind {
    match change {
        Change::StateChanged(_) | Change::ManagerStarted(_) => EventKind::Manager,
        Change::NodeAppeared(_) | Change::NodeVanished(_) | Change::NodeChanged(_) => {
            EventKind::Node
        }
        Change::PortAppeared(_) | Change::PortVanished(_) | Change::PortChanged(_) => {
            EventKind::Port
        }
        Change::LinkAppeared(_) | Change::LinkVanished(_) | Change::LinkChanged(_) => {
            EventKind::Link
        }
        Change::RoutesChanged(_) => EventKind::Routes,
        Change::FindingRaised(_) | Change::FindingCleared(_) => EventKind::Finding,
        Change::ConvergenceFinished(_) => EventKind::Convergence,
        Change::OperatorActed(_) => EventKind::Operator,
        Change::EventsUnrecorded(_) => EventKind::Gap,
    }
}

/// The texts that identify the nodes of a change.
fn places(change: &Change) -> Vec<Place<'_>> {
    fn plain(text: &str) -> Place<'_> {
        Place { text, port: None }
    }
    fn end<'a>(description: &'a str, key: Option<&'a v1::PortKey>) -> Vec<Place<'a>> {
        let port = key.map(|key| key.number);
        let guid = key.map(|key| key.node_guid.as_str());
        let texts = std::iter::once(description).chain(guid);
        texts.map(|text| Place { text, port }).collect()
    }
    match change {
        Change::NodeAppeared(node) | Change::NodeVanished(node) | Change::NodeChanged(node) => {
            vec![plain(&node.guid), plain(&node.description)]
        }
        Change::PortAppeared(port) | Change::PortVanished(port) | Change::PortChanged(port) => {
            let mut places = end(&port.node_description, port.key.as_ref());
            if let Some(peer) = &port.peer {
                places.extend(end(&peer.description, peer.port.as_ref()));
            }
            places
        }
        Change::LinkAppeared(link) | Change::LinkVanished(link) | Change::LinkChanged(link) => {
            let ends = [&link.a, &link.b].into_iter().flatten();
            ends.flat_map(|one| end(&one.description, one.port.as_ref()))
                .collect()
        }
        Change::FindingRaised(finding) | Change::FindingCleared(finding) => {
            let texts = [finding.node_guid.as_str(), finding.message.as_str()];
            let port = finding.port;
            texts.map(|text| Place { text, port }).into()
        }
        Change::StateChanged(to) => vec![plain(&to.reason)],
        Change::ConvergenceFinished(convergence) => vec![plain(&convergence.cause)],
        Change::OperatorActed(act) => vec![plain(&act.detail)],
        Change::RoutesChanged(_) | Change::ManagerStarted(_) | Change::EventsUnrecorded(_) => {
            Vec::new()
        }
    }
}

/// The texts that state the cause of a change.
fn causes(change: &Change) -> Vec<&str> {
    match change {
        Change::StateChanged(to) => vec![&to.reason],
        Change::FindingRaised(finding) | Change::FindingCleared(finding) => {
            vec![&finding.kind, &finding.message]
        }
        Change::ConvergenceFinished(convergence) => vec![&convergence.cause],
        Change::OperatorActed(act) => {
            vec![&act.action, &act.detail, &act.operator, &act.refusal]
        }
        Change::EventsUnrecorded(gap) => vec![&gap.reason],
        _ => Vec::new(),
    }
}

/// The selection among the matching events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryOrder {
    /// The oldest events, at most this many.
    First(usize),
    /// The newest events, at most this many.
    Newest(usize),
}

/// A query to the history. Answers are sorted by age, oldest first, in either order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The query matches only records with a higher number.
    pub after: u64,
    /// The query matches only records with a lower number; 0 for any.
    pub before: u64,
    /// The query matches only events at or after this time, in milliseconds since the Unix epoch; 0
    /// for any.
    pub since_unix_ms: u64,
    /// The query matches only events before this time, in milliseconds since the Unix epoch; 0 for
    /// any.
    pub until_unix_ms: u64,
    /// The query matches only events that this filter passes.
    pub filter: EventFilter,
    /// The selection among the matching events, with the maximum number.
    pub order: HistoryOrder,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_vanished() -> v1::Event {
        let end = |description: &str, guid: &str, number| {
            let node_guid = guid.to_owned();
            Some(v1::LinkEnd {
                port: Some(v1::PortKey { node_guid, number }),
                description: description.to_owned(),
                ..v1::LinkEnd::default()
            })
        };
        v1::Event {
            change: Some(Change::LinkVanished(v1::Link {
                a: end("MF0;leaf-03:MQM8700/U1", "0x0000000000000103", 7),
                b: end("spine-01", "0x0000000000000201", 3),
                ..v1::Link::default()
            })),
            ..v1::Event::default()
        }
    }

    #[test]
    fn filter_of_a_node_with_a_port_passes_only_events_at_that_port() {
        let event = link_vanished();
        let passes = |node| EventFilter::new(None, Some(node), None).matches(&event);
        for node in [
            "Leaf-03",
            "leaf-03:7",
            "leaf-03:MQM",
            "spine-01:3",
            "0x0000000000000103:7",
        ] {
            assert!(passes(node), "{node}");
        }
        for node in ["leaf-03:3", "leaf-03:70", "spine-01:7", "leaf-04:7", ":7x"] {
            assert!(!passes(node), "{node}");
        }
    }
}

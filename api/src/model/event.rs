use rsm_proto::v1;
use rsm_proto::v1::EventKind;
use rsm_proto::v1::event::Change;

/// A filter of events; the default passes all. Texts are compared in any case of letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    kind: Option<EventKind>,
    /// In small letters.
    node: Option<String>,
    /// In small letters.
    cause: Option<String>,
}

impl EventFilter {
    /// Passes events of `kind`, about nodes with `node` as their GUID or in their description, and
    /// with `cause` in their cause, reason or message.
    pub fn new(kind: Option<EventKind>, node: Option<&str>, cause: Option<&str>) -> EventFilter {
        EventFilter {
            kind,
            node: node.map(str::to_lowercase),
            cause: cause.map(str::to_lowercase),
        }
    }

    /// Whether the filter passes `event`.
    pub fn matches(&self, event: &v1::Event) -> bool {
        let Some(change) = &event.change else {
            return *self == EventFilter::default();
        };
        let has = |wanted: &Option<String>, texts: fn(&Change) -> Vec<&str>| {
            wanted.as_deref().is_none_or(|wanted| {
                let mut texts = texts(change).into_iter();
                texts.any(|text| text.to_lowercase().contains(wanted))
            })
        };
        self.kind.is_none_or(|wanted| wanted == kind(change))
            && has(&self.node, nodes)
            && has(&self.cause, causes)
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

/// The texts that name the nodes of a change.
fn nodes(change: &Change) -> Vec<&str> {
    match change {
        Change::NodeAppeared(node) | Change::NodeVanished(node) | Change::NodeChanged(node) => {
            vec![&node.guid, &node.description]
        }
        Change::PortAppeared(port) | Change::PortVanished(port) | Change::PortChanged(port) => {
            let mut texts = vec![port.node_description.as_str()];
            texts.extend(port.key.iter().map(|key| key.node_guid.as_str()));
            if let Some(peer) = &port.peer {
                texts.push(&peer.description);
                texts.extend(peer.port.iter().map(|key| key.node_guid.as_str()));
            }
            texts
        }
        Change::LinkAppeared(link) | Change::LinkVanished(link) | Change::LinkChanged(link) => {
            let mut texts = Vec::new();
            for end in [&link.a, &link.b].into_iter().flatten() {
                texts.push(end.description.as_str());
                texts.extend(end.port.iter().map(|key| key.node_guid.as_str()));
            }
            texts
        }
        Change::FindingRaised(finding) | Change::FindingCleared(finding) => {
            vec![&finding.node_guid, &finding.message]
        }
        Change::StateChanged(to) => vec![&to.reason],
        Change::ConvergenceFinished(convergence) => vec![&convergence.cause],
        Change::OperatorActed(act) => vec![&act.detail],
        Change::RoutesChanged(_) | Change::ManagerStarted(_) | Change::EventsUnrecorded(_) => {
            Vec::new()
        }
    }
}

/// The texts that say why something changed.
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

/// Which of the matching events are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryOrder {
    /// The oldest, at most that many.
    First(usize),
    /// The newest, at most that many.
    Newest(usize),
}

/// A question to the history. Answers are oldest first in either order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Only records with a higher number.
    pub after: u64,
    /// Only events at or after this time, in milliseconds since the Unix epoch; 0 for any.
    pub since_unix_ms: u64,
    /// Only events before this time, in milliseconds since the Unix epoch; 0 for any.
    pub until_unix_ms: u64,
    /// Only events that it passes.
    pub filter: EventFilter,
    /// Which of them.
    pub order: HistoryOrder,
}

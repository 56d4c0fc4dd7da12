use rsm_proto::v1::{self, event};

use crate::model::{Change, Event, RoutesChanged};

impl From<RoutesChanged> for v1::RoutesChanged {
    fn from(routes: RoutesChanged) -> Self {
        v1::RoutesChanged {
            switches: routes.switches,
            blocks: routes.blocks,
            entries: routes.entries,
        }
    }
}

impl From<Change> for event::Change {
    fn from(change: Change) -> Self {
        match change {
            Change::StateChanged { state, reason } => {
                event::Change::StateChanged(v1::StateChanged {
                    state: state.into(),
                    reason,
                })
            }
            Change::NodeAppeared(node) => event::Change::NodeAppeared(node),
            Change::NodeVanished(node) => event::Change::NodeVanished(node),
            Change::NodeChanged(node) => event::Change::NodeChanged(node),
            Change::PortAppeared(port) => event::Change::PortAppeared(port),
            Change::PortVanished(port) => event::Change::PortVanished(port),
            Change::PortChanged(port) => event::Change::PortChanged(port),
            Change::LinkAppeared(link) => event::Change::LinkAppeared(link),
            Change::LinkVanished(link) => event::Change::LinkVanished(link),
            Change::LinkChanged(link) => event::Change::LinkChanged(link),
            Change::RoutesChanged(routes) => event::Change::RoutesChanged(routes.into()),
            Change::FindingRaised(finding) => event::Change::FindingRaised(finding),
            Change::FindingCleared(finding) => event::Change::FindingCleared(finding),
            Change::ConvergenceFinished(convergence) => {
                event::Change::ConvergenceFinished(convergence)
            }
        }
    }
}

impl From<&Event> for v1::Event {
    fn from(event: &Event) -> Self {
        v1::Event {
            sequence: event.sequence,
            generation: event.generation,
            at_unix_ms: event.at_unix_ms,
            change: Some(event.change.clone().into()),
        }
    }
}

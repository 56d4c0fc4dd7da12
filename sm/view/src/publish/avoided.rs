//! Marks the parts that routes avoid, for every reader that shows a node, port or link.

use std::collections::{BTreeMap, BTreeSet};

use rsm_api::v1;
use rsm_ids::{Guid, PortKey};
use rsm_model::fabric::Port;
use rsm_plan::avoid::{NodeOrCable, Reason};
use rsm_state::{Snapshot, TablesWritten};

/// Maximum number of names in a status: this many fill a few lines of a screen.
const MAX_NAMES: usize = 16;

/// Mark of each part that routes avoid, or are about to avoid.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(BTreeMap<NodeOrCable, v1::Avoidance>);

impl Marks {
    pub(super) fn of(snapshot: &Snapshot) -> Marks {
        let parts = snapshot.avoid.parts();
        Marks(
            parts
                .map(|(part, reason)| (part, mark(snapshot, part, reason)))
                .collect(),
        )
    }

    /// Mark of a node; unspecified if routes use the node.
    pub(super) fn node(&self, guid: Guid) -> v1::Avoidance {
        let mark = self.0.get(&NodeOrCable::Node(guid)).copied();
        mark.unwrap_or(v1::Avoidance::Unspecified)
    }

    /// Mark of a cable, given both its ends; a port without a cable has one end. The cable's own
    /// mark takes precedence over its nodes' marks, and a drain over ill health.
    pub(super) fn cable(&self, ends: [Option<PortKey>; 2]) -> v1::Avoidance {
        if self.0.is_empty() {
            return v1::Avoidance::Unspecified;
        }
        // A smaller value takes precedence; values of drained parts are smaller than those of
        // unhealthy parts.
        let first = |part: fn(PortKey) -> NodeOrCable| {
            let ends = ends.iter().flatten();
            let marks = ends.filter_map(|&end| self.0.get(&part(end)));
            marks.min().copied()
        };
        first(NodeOrCable::Port)
            .or_else(|| first(|end| NodeOrCable::Node(end.node)))
            .unwrap_or(v1::Avoidance::Unspecified)
    }

    /// Parts whose marks differ.
    pub(super) fn differing(&self, other: &Marks) -> BTreeSet<NodeOrCable> {
        let parts = self.0.keys().chain(other.0.keys()).copied();
        parts
            .filter(|part| self.0.get(part) != other.0.get(part))
            .collect()
    }

    /// Numbers of marked parts and their first names, for the status.
    pub(super) fn summary(&self, snapshot: &Snapshot) -> v1::AvoidedParts {
        let mut summary = v1::AvoidedParts::default();
        for mark in self.0.values() {
            match mark {
                v1::Avoidance::Unspecified => {}
                v1::Avoidance::Draining => summary.draining += 1,
                v1::Avoidance::Drained => summary.drained += 1,
                v1::Avoidance::Isolated => summary.isolated += 1,
                v1::Avoidance::DrainedInUse | v1::Avoidance::IsolatedInUse => summary.in_use += 1,
            }
        }
        let mut parts: Vec<(NodeOrCable, &Reason)> = snapshot.avoid.parts().collect();
        parts.sort_by_key(|&(part, reason)| match reason {
            Reason::Drained(drained) => (0, u64::MAX - drained.since_unix_ms, part),
            Reason::Unhealthy(_) => (1, 0, part),
        });
        let names = parts.into_iter().take(MAX_NAMES);
        summary.names = names
            .map(|(part, reason)| name(snapshot, part, reason))
            .collect();
        summary
    }
}

/// Current name of a part, or its name at the time of the drain if the part is gone.
pub(super) fn name(snapshot: &Snapshot, part: NodeOrCable, reason: &Reason) -> String {
    let node = snapshot.fabric.node_of(part.node());
    match (node, reason) {
        (None, Reason::Drained(drained)) => drained.name.clone(),
        (node, _) => {
            let node = node.map_or_else(|| part.node().to_string(), |node| node.name());
            match part {
                NodeOrCable::Node(_) => node,
                NodeOrCable::Port(key) => format!("{node}:{}", key.port),
            }
        }
    }
}

fn mark(snapshot: &Snapshot, part: NodeOrCable, reason: &Reason) -> v1::Avoidance {
    let plan = snapshot.plan.as_deref();
    let is_used = plan
        .is_some_and(|plan| plan.avoided.avoid.reason(part).is_some() && plan.avoided.uses(part));
    match reason {
        Reason::Drained(_) if !is_planned(snapshot, part) => v1::Avoidance::Draining,
        Reason::Drained(_) if is_used => v1::Avoidance::DrainedInUse,
        Reason::Drained(_) => v1::Avoidance::Drained,
        Reason::Unhealthy(_) if is_used => v1::Avoidance::IsolatedInUse,
        Reason::Unhealthy(_) => v1::Avoidance::Isolated,
    }
}

/// Whether the plan in force avoids a part, and the switches next to the part hold their tables.
/// Ignores a later convergence under way, because marks would otherwise come and go with each
/// convergence.
fn is_planned(snapshot: &Snapshot, part: NodeOrCable) -> bool {
    let plan = snapshot.plan.as_deref();
    are_tables_on(snapshot, beside(snapshot, part))
        && snapshot.refused_plan.is_none()
        && plan.is_some_and(|plan| plan.avoided.avoid.reason(part).is_some())
}

/// Whether these switches hold their planned tables. Sets that failed elsewhere do not count,
/// because only the tables next to a part lead packets to it.
pub(super) fn are_tables_on(snapshot: &Snapshot, switches: impl IntoIterator<Item = Guid>) -> bool {
    let last = snapshot.history.last();
    last.is_some_and(|last| {
        let mut switches = switches.into_iter();
        last.tables != TablesWritten::Unknown && switches.all(|guid| last.tables.are_on(guid))
    })
}

/// Nodes whose tables can lead packets to a part: the peers at the cables of a node, or both ends
/// of a cable.
fn beside(snapshot: &Snapshot, part: NodeOrCable) -> Vec<Guid> {
    let Some(node) = snapshot.fabric.node_of(part.node()) else {
        return Vec::new();
    };
    let across = |port: &Port| Some(port.peer?.node);
    match part {
        NodeOrCable::Node(_) => node.ports.iter().filter_map(across).collect(),
        NodeOrCable::Port(key) => {
            let peer = node.ports.get(key.port.index()).and_then(across);
            peer.into_iter().chain([key.node]).collect()
        }
    }
}

/// Whether the tables around a part are final: the plan in force avoids every part to be avoided
/// there, the switches that lead packets to the part hold the plan's tables, and no Set is under
/// way.
pub(super) fn is_settled(snapshot: &Snapshot, part: NodeOrCable) -> bool {
    let Some(plan) = snapshot.plan.as_deref() else {
        return false;
    };
    let around = around(snapshot, part);
    let is_avoided_if_requested = |part: &NodeOrCable| {
        snapshot.avoid.reason(*part).is_none() || plan.avoided.avoid.reason(*part).is_some()
    };
    // The neighbours of a drained switch lead packets into it, so their tables count as well.
    let drained = around
        .iter()
        .filter(|part| matches!(part, NodeOrCable::Node(_)));
    let drained = drained.filter(|part| snapshot.avoid.reason(**part).is_some());
    let farther: Vec<Guid> = drained.flat_map(|&part| beside(snapshot, part)).collect();
    !snapshot.converging
        && snapshot.refused_plan.is_none()
        && are_tables_on(snapshot, beside(snapshot, part).into_iter().chain(farther))
        && around.iter().all(is_avoided_if_requested)
}

/// The part itself if it is a node; for a cable, both ends and their nodes.
pub(super) fn around(snapshot: &Snapshot, part: NodeOrCable) -> Vec<NodeOrCable> {
    let NodeOrCable::Port(key) = part else {
        return vec![part];
    };
    let at = snapshot.fabric.find_port(key);
    let peer = at.and_then(|at| snapshot.fabric.port(at).peer);
    let ends = [Some(key), peer].into_iter().flatten();
    ends.flat_map(|end| [NodeOrCable::Port(end), NodeOrCable::Node(end.node)])
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rsm_ids::PortNum;
    use rsm_plan::avoid::{Avoid, Drained};

    use super::*;

    fn drained(since_unix_ms: u64, name: &str) -> Reason {
        Reason::Drained(Drained {
            name: name.to_owned(),
            ..Drained::new("alice", since_unix_ms)
        })
    }

    fn snapshot(parts: &[(NodeOrCable, Reason)]) -> Snapshot {
        let mut avoid = Avoid::default();
        avoid.add(&parts.iter().cloned().collect()).unwrap();
        Snapshot {
            avoid: Arc::new(avoid),
            ..Snapshot::nothing()
        }
    }

    #[test]
    fn mark_of_a_cable_takes_precedence_over_the_marks_of_its_nodes() {
        let port = |node, number| PortKey::new(Guid(node), PortNum(number));
        let marks = Marks::of(&snapshot(&[
            (
                NodeOrCable::Port(port(1, 3)),
                Reason::Unhealthy("errors".to_owned()),
            ),
            (NodeOrCable::Node(Guid(2)), drained(5, "leaf-2")),
        ]));
        let cable = |a, b| marks.cable([Some(a), Some(b)]);
        let (isolated, draining) = (v1::Avoidance::Isolated, v1::Avoidance::Draining);
        assert_eq!(cable(port(1, 3), port(2, 1)), isolated);
        assert_eq!(cable(port(2, 1), port(1, 3)), isolated);
        assert_eq!(cable(port(1, 4), port(2, 2)), draining);
        assert_eq!(cable(port(1, 4), port(3, 2)), v1::Avoidance::Unspecified);
        assert_eq!(marks.cable([Some(port(2, 9)), None]), draining);
        assert_eq!(marks.node(Guid(1)), v1::Avoidance::Unspecified);
        assert_eq!(marks.node(Guid(2)), draining);
        assert_eq!(
            marks.differing(&Marks::default()),
            [NodeOrCable::Port(port(1, 3)), NodeOrCable::Node(Guid(2))].into()
        );
    }

    #[test]
    fn status_names_the_latest_drains_first_and_counts_all_drains() {
        let mut parts: Vec<(NodeOrCable, Reason)> = (1..=20)
            .map(|at| {
                (
                    NodeOrCable::Node(Guid(at)),
                    drained(at, &format!("leaf-{at}")),
                )
            })
            .collect();
        parts.push((
            NodeOrCable::Node(Guid(99)),
            Reason::Unhealthy("errors".to_owned()),
        ));
        let snapshot = snapshot(&parts);
        let summary = Marks::of(&snapshot).summary(&snapshot);
        assert_eq!((summary.draining, summary.isolated), (20, 1));
        assert_eq!(summary.names.len(), MAX_NAMES);
        assert_eq!(summary.names[..2], ["leaf-20", "leaf-19"]);
    }
}

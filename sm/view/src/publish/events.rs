//! Finds the differences between successive snapshots, in the form that watchers receive.

use std::collections::BTreeSet;
use std::sync::Arc;

use rsm_api::model::SubnetState;
use rsm_api::v1::RoutesChanged;
use rsm_api::v1::event::Change;
use rsm_api::{limits, v1};
use rsm_ids::{Guid, PortKey};
use rsm_model::fabric::{Delta, Fabric};
use rsm_plan::Plan;
use rsm_plan::avoid::NodeOrCable;
use rsm_routing::tables::Lft;

use super::findings::FindingChanges;
use super::log::Logged;
use super::published::Published;

/// Maximum number of listed changes of nodes, ports, links and findings; a snapshot with more
/// changes is summarised in one sentence. The number is a quarter of the journal: a fabric that
/// comes up, or loses half its parts, does not displace the events that led to this change. The
/// restart of a large switch causes far fewer changes.
pub const MAX_CHANGES: usize = limits::EVENT_JOURNAL / 4;

/// Findings and convergences that came with a new snapshot.
pub(super) struct SnapshotUpdates {
    pub(super) findings: FindingChanges,
    pub(super) finished: Vec<Arc<Logged>>,
}

/// Lists the changes in the order in which watchers receive them: state, nodes and links, routes,
/// findings, convergences.
///
/// Reports the first fabric, and a fabric that differs in more than [`MAX_CHANGES`] items, as one
/// change of state whose reason states the numbers; a watcher that keeps a copy then lists
/// everything again. Findings are listed even then, unless there are more than [`MAX_CHANGES`]. A
/// change of a switch's rank or of a node's distance alone is no event. The ports and links of a
/// drained node have no events, because the node's event covers them.
pub(super) fn list_changes(
    old: &Published,
    new: &Published,
    updates: SnapshotUpdates,
) -> Vec<Change> {
    let delta = Delta::between(old.fabric(), new.fabric());
    let first = old.fabric().is_empty() && !new.fabric().is_empty();
    let is_summarised = first || change_count(&delta, &updates.findings) > MAX_CHANGES;
    let mut changes = Vec::new();
    if is_summarised || old.state != new.state || old.generation == 0 {
        changes.push(Change::StateChanged(v1::StateChanged {
            state: new.state.into(),
            reason: match (first, is_summarised) {
                (true, _) => first_fabric_sentence(new),
                (_, true) => summary(&delta, &updates.findings),
                _ => reason(new, &updates),
            },
        }));
    }
    if !is_summarised {
        Differences { old, new }.add_all(&delta, &mut changes);
    }
    if let Some(routes) = routes_changed(old, new) {
        changes.push(Change::RoutesChanged(routes));
    }
    if updates.findings.raised.len() + updates.findings.cleared.len() <= MAX_CHANGES {
        let owned = Arc::<v1::Finding>::unwrap_or_clone;
        let (cleared, raised) = (updates.findings.cleared, updates.findings.raised);
        changes.extend(cleared.into_iter().map(owned).map(Change::FindingCleared));
        changes.extend(raised.into_iter().map(owned).map(Change::FindingRaised));
    }
    changes.extend(
        updates
            .finished
            .iter()
            .map(|logged| Change::ConvergenceFinished(logged.shown.clone())),
    );
    changes
}

/// The number of changes of nodes, links, ports and findings.
fn change_count(delta: &Delta, findings: &FindingChanges) -> usize {
    delta.nodes_appeared.len()
        + delta.nodes_vanished.len()
        + delta.nodes_changed.len()
        + delta.links_appeared.len()
        + delta.links_vanished.len()
        + delta.ports_changed.len()
        + findings.raised.len()
        + findings.cleared.len()
}

/// A sentence with the numbers of nodes and links that the first sweep found.
fn first_fabric_sentence(new: &Published) -> String {
    let counts = &new.counts;
    format!(
        "found {} switches, {} channel adapters, {} routers and {} links",
        counts.switches, counts.cas, counts.routers, counts.links
    )
}

/// A sentence with the numbers of changes.
fn summary(delta: &Delta, findings: &FindingChanges) -> String {
    format!(
        "too much changed at once to list it: {} nodes appeared, {} vanished, {} changed; {} links appeared, {} vanished; \
         {} ports changed; {} findings raised, {} cleared",
        delta.nodes_appeared.len(),
        delta.nodes_vanished.len(),
        delta.nodes_changed.len(),
        delta.links_appeared.len(),
        delta.links_vanished.len(),
        delta.ports_changed.len(),
        findings.raised.len(),
        findings.cleared.len(),
    )
}

/// Reason for the state; without one, the cause of the last convergence.
fn reason(new: &Published, updates: &SnapshotUpdates) -> String {
    if !new.reason.is_empty() || new.state == SubnetState::Standby {
        return new.reason.clone();
    }
    let last = updates.finished.last();
    last.map_or_else(String::new, |logged| logged.shown.cause.clone())
}

/// Differences of nodes, ports and links, in the form of the API.
struct Differences<'a> {
    old: &'a Published,
    new: &'a Published,
}

impl Differences<'_> {
    fn add_all(&self, delta: &Delta, changes: &mut Vec<Change>) {
        let (old, new) = (self.old.api_view(), self.new.api_view());
        let nodes_in = |fabric: &Fabric, guids: &[Guid]| -> Vec<_> {
            guids.iter().filter_map(|&guid| fabric.find(guid)).collect()
        };
        let vanished = nodes_in(old.fabric, &delta.nodes_vanished);
        let appeared = nodes_in(new.fabric, &delta.nodes_appeared);
        changes.extend(
            (delta.links_vanished.iter())
                .filter_map(|&(a, _)| old.link(old.fabric.find_port(a)?))
                .map(Change::LinkVanished),
        );
        changes.extend((vanished.into_iter()).map(|ix| Change::NodeVanished(old.node(ix))));
        changes.extend((appeared.into_iter()).map(|ix| Change::NodeAppeared(new.node(ix))));
        self.add_changed_nodes(delta, changes);
        self.add_ports(delta, changes);
        changes.extend(
            (delta.links_appeared.iter())
                .filter_map(|&(a, _)| new.link(new.fabric.find_port(a)?))
                .map(Change::LinkAppeared),
        );
        self.add_changed_links(delta, changes);
    }

    /// Adds the changed nodes. A node in the API has the number of its Active ports, so that a
    /// change of a port can change its node.
    fn add_changed_nodes(&self, delta: &Delta, changes: &mut Vec<Change>) {
        let (old, new) = (self.old.api_view(), self.new.api_view());
        let mut candidates: BTreeSet<Guid> = delta.nodes_changed.iter().copied().collect();
        candidates.extend(delta.ports_changed.iter().map(|key| key.node));
        let marks = self.old.marks.differing(&self.new.marks).into_iter();
        candidates.extend(marks.filter_map(|part| match part {
            NodeOrCable::Node(guid) => Some(guid),
            NodeOrCable::Port(_) => None,
        }));
        for guid in candidates {
            let (Some(before), Some(now)) = (old.fabric.find(guid), new.fabric.find(guid)) else {
                continue;
            };
            let node = new.node(now);
            let is_unchanged = v1::Node {
                rank: node.rank,
                distance: node.distance,
                ..old.node(before)
            } == node;
            if !is_unchanged {
                changes.push(Change::NodeChanged(node));
            }
        }
    }

    /// Adds the changed ports. A port in the API has its peer, so that a change of a link changes
    /// its ports.
    fn add_ports(&self, delta: &Delta, changes: &mut Vec<Change>) {
        let (old, new) = (self.old.api_view(), self.new.api_view());
        let mut candidates: BTreeSet<PortKey> = delta.ports_changed.iter().copied().collect();
        for &(a, b) in delta.links_appeared.iter().chain(&delta.links_vanished) {
            candidates.extend([a, b]);
        }
        for key in candidates {
            let known = |fabric: &Fabric| fabric.find(key.node).is_some();
            if !known(old.fabric) || !known(new.fabric) {
                continue;
            }
            let before = old.fabric.find_port(key).map(|at| old.port(at));
            let now = new.fabric.find_port(key).map(|at| new.port(at));
            match (before, now) {
                (Some(before), Some(now)) if before != now => {
                    changes.push(Change::PortChanged(now));
                }
                (None, Some(now)) => changes.push(Change::PortAppeared(now)),
                (Some(before), None) => changes.push(Change::PortVanished(before)),
                _ => {}
            }
        }
    }

    /// Adds the changed links that have the same ends as before.
    fn add_changed_links(&self, delta: &Delta, changes: &mut Vec<Change>) {
        let (old, new) = (self.old.api_view(), self.new.api_view());
        let damped = self.old.damped.symmetric_difference(&self.new.damped);
        let marks = self.old.marks.differing(&self.new.marks).into_iter();
        let marks: Vec<PortKey> = marks
            .filter_map(|part| match part {
                NodeOrCable::Node(_) => None,
                NodeOrCable::Port(key) => Some(key),
            })
            .collect();
        let slow = self
            .old
            .snapshot
            .slow_links
            .differing(&self.new.snapshot.slow_links);
        let candidates = delta
            .ports_changed
            .iter()
            .chain(damped)
            .chain(&marks)
            .chain(&slow);
        let lower_ends: BTreeSet<PortKey> = candidates
            .filter_map(|&key| {
                let at = new.fabric.find_port(key)?;
                Some(new.fabric.key(at.min(new.fabric.peer(at)?)))
            })
            .collect();
        for key in lower_ends {
            let before = old.fabric.find_port(key).and_then(|at| old.link(at));
            let now = new.fabric.find_port(key).and_then(|at| new.link(at));
            if let (Some(before), Some(now)) = (before, now)
                && ends(&before) == ends(&now)
                && before != now
            {
                changes.push(Change::LinkChanged(now));
            }
        }
    }
}

fn ends(link: &v1::Link) -> [Option<&v1::PortKey>; 2] {
    [&link.a, &link.b].map(|end| end.as_ref()?.port.as_ref())
}

/// Differences between the previous and the current tables in force; `None` if the tables are
/// equal.
fn routes_changed(old: &Published, new: &Published) -> Option<RoutesChanged> {
    let plan = new.plan()?;
    let before = old.plan();
    if before.is_some_and(|before| std::ptr::eq(before, plan)) {
        return None;
    }
    let routes = count_routes(before, plan);
    (routes != RoutesChanged::default()).then_some(routes)
}

/// Counts changed switches and entries. A switch that the earlier plan lacked counts with all
/// entries that forward; a vanished switch does not count.
fn count_routes(before: Option<&Plan>, plan: &Plan) -> RoutesChanged {
    let nothing = Lft::default();
    let mut routes = RoutesChanged::default();
    for (switch, table) in plan
        .topology
        .switches()
        .iter()
        .zip(&plan.routing.tables.lfts)
    {
        let previous = before
            .and_then(|before| before.table(switch.guid))
            .unwrap_or(&nothing);
        let mut changed = 0;
        for block in table.differing_blocks(previous) {
            changed += 1;
            let (now, was) = (table.block(block), previous.block(block));
            let entries = now.iter().zip(was).filter(|(now, was)| now != was);
            routes.entries += entries.count() as u64;
        }
        routes.blocks += changed;
        routes.switches += u32::from(changed > 0);
    }
    routes
}

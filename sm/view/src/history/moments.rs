//! When parts of the subnet changed between two states in the history, and how often links went
//! down in between.

use std::collections::{BTreeMap, BTreeSet};

use rsm_api::v1;
use rsm_api::v1::event::Change;
use rsm_ids::{PortKey, PortNum};

use super::difference::differing;
use super::state::{FindingKey, LinkRow, State, StateChange, key};

/// End of a cable, as node GUID and port number.
type End = (u64, u32);

/// The changes after a time. Times are the times of the records, in milliseconds since the Unix
/// epoch: a change while no manager ran has the time of the next start.
#[derive(Clone, Default, Debug)]
pub struct Moments {
    /// The last known state.
    state: State,
    /// Whether the subnet has become unknown since `state`, as before the first sweep of a run.
    is_unknown: bool,
    /// Time of the last change of the role; 0 if it has not changed.
    pub(super) role: u64,
    /// Time of the last change of the engine; 0 if it has not changed.
    pub(super) engine: u64,
    /// Time of the last change of the plan's generation; 0 if it has not changed.
    pub(super) plan: u64,
    /// Time of the last change of each node, by GUID.
    pub(super) nodes: BTreeMap<u64, u64>,
    /// Time of the last change of each cable, by its lower end.
    pub(super) links: BTreeMap<End, u64>,
    /// Time of the last change of each finding.
    pub(super) findings: BTreeMap<FindingKey, u64>,
    /// Number of times that each cable went down, by its lower end.
    pub(super) downs: BTreeMap<End, u64>,
    /// The cables whose links train according to their last events, by lower end.
    training: BTreeSet<End>,
}

impl Moments {
    /// Begins at `state`, without any change.
    pub fn after(state: State) -> Moments {
        Moments {
            training: state.training.clone(),
            state,
            ..Moments::default()
        }
    }

    /// Records a change of the state at a time. A change that removes all nodes makes the subnet
    /// unknown: the manager began again, and no link went down.
    pub fn change(&mut self, at_unix_ms: u64, change: StateChange) {
        if self.is_unknown {
            return self.base(at_unix_ms, change);
        }
        if change.nodes.is_empty() && change.nodes_gone.len() >= self.state.nodes.len() {
            self.is_unknown = true;
            self.training.clear();
            return;
        }
        self.record_heading(at_unix_ms, &change);
        let nodes = change.nodes.iter().map(|node| node.guid);
        for guid in nodes.chain(change.nodes_gone.iter().copied()) {
            self.nodes.insert(guid, at_unix_ms);
        }
        for link in &change.links_gone {
            self.record_link_down(at_unix_ms, (link.a_node, link.a_port));
        }
        for link in &change.links {
            let end = (link.a_node, link.a_port);
            let is_other = |row: &LinkRow| row.peer != (link.b_node, link.b_port);
            if self.state.links.get(&end).is_some_and(is_other) {
                self.record_link_down(at_unix_ms, end);
            }
            self.links.insert(end, at_unix_ms);
        }
        for finding in change.findings.iter().chain(&change.findings_gone) {
            self.findings.insert(key(finding), at_unix_ms);
        }
        self.state.apply(change);
    }

    /// Records the whole state at a time, which each segment has at its beginning. Differences from
    /// the last known state are changes that were not recorded.
    pub fn base(&mut self, at_unix_ms: u64, base: StateChange) {
        self.is_unknown = base.nodes.is_empty();
        if self.is_unknown {
            self.training.clear();
            return;
        }
        self.record_heading(at_unix_ms, &base);
        let mut now = State::default();
        now.apply(base);
        let then = std::mem::take(&mut self.state);
        self.training.extend(&now.training);
        for (&guid, _) in differing(&then.nodes, &now.nodes) {
            self.nodes.insert(guid, at_unix_ms);
        }
        for (&end, rows) in differing(&then.links, &now.links) {
            match rows {
                (Some(before), Some(now)) if before.peer == now.peer => {}
                (Some(_), _) => self.record_link_down(at_unix_ms, end),
                (None, _) => {}
            }
            self.links.insert(end, at_unix_ms);
        }
        for (key, _) in differing(&then.findings, &now.findings) {
            self.findings.insert(key.clone(), at_unix_ms);
        }
        self.state = now;
    }

    /// Records an event of before the beginning: only which links train counts.
    pub fn earlier_event(&mut self, event: &v1::Event) {
        self.follow_training(event);
    }

    /// Records an event: a link that trains again without having vanished has been down, too. Other
    /// changes of a link that trains, such as the mark of a drain, are no loss.
    pub fn event(&mut self, event: &v1::Event) {
        if let Some(end) = self.follow_training(event) {
            self.record_link_down(event.at_unix_ms, end);
        }
    }

    /// Records which links train after an event. Returns the lower end of a link that trains again
    /// without having vanished.
    fn follow_training(&mut self, event: &v1::Event) -> Option<End> {
        let (link, was_there, is_there) = match &event.change {
            Some(Change::LinkAppeared(link)) => (link, false, true),
            Some(Change::LinkChanged(link)) => (link, true, true),
            Some(Change::LinkVanished(link)) => (link, true, false),
            _ => return None,
        };
        let (lower, _) = link_ends(link)?;
        let end = (lower.node.0, u32::from(lower.port.0));
        if !is_there || link.state() != v1::PortState::Init {
            self.training.remove(&end);
            return None;
        }
        (self.training.insert(end) && was_there).then_some(end)
    }

    fn record_link_down(&mut self, at_unix_ms: u64, end: End) {
        self.links.insert(end, at_unix_ms);
        *self.downs.entry(end).or_default() += 1;
    }

    fn record_heading(&mut self, at_unix_ms: u64, change: &StateChange) {
        let state = &self.state;
        for (moment, is_same) in [
            (&mut self.role, state.role == change.role),
            (&mut self.engine, state.engine == change.engine),
            (&mut self.plan, state.plan == change.plan),
        ] {
            if !is_same {
                *moment = at_unix_ms;
            }
        }
    }
}

/// Both ends of the link in an event, the lower one first; `None` if the link lacks an end.
pub(crate) fn link_ends(link: &v1::Link) -> Option<(PortKey, PortKey)> {
    let end = |end: &Option<v1::LinkEnd>| {
        let key = end.as_ref()?.port.as_ref()?;
        let port = u8::try_from(key.number).ok()?;
        Some(PortKey::new(key.node_guid.parse().ok()?, PortNum(port)))
    };
    let (a, b) = (end(&link.a)?, end(&link.b)?);
    Some((a.min(b), a.max(b)))
}

#[cfg(test)]
mod tests {
    use rsm_api::v1::DifferenceKind as Kind;
    use rsm_ids::Guid;

    use super::super::state::{LinkState, NodeState};
    use super::*;

    const CABLE: End = (1, 7);

    fn node(guid: u64) -> NodeState {
        NodeState {
            guid,
            kind: 2,
            description: format!("switch-{guid}"),
            lids: Vec::new(),
        }
    }

    fn cable() -> LinkState {
        LinkState {
            a_node: CABLE.0,
            a_port: CABLE.1,
            b_node: 2,
            b_port: 3,
            rate: "4x ndr".to_owned(),
            training: false,
        }
    }

    fn whole() -> StateChange {
        StateChange {
            plan: 1,
            nodes: vec![node(1), node(2)],
            links: vec![cable()],
            ..StateChange::default()
        }
    }

    fn lost() -> StateChange {
        StateChange {
            plan: 1,
            links_gone: vec![cable()],
            ..StateChange::default()
        }
    }

    fn found() -> StateChange {
        StateChange {
            plan: 1,
            links: vec![cable()],
            ..StateChange::default()
        }
    }

    fn begun() -> (State, Moments) {
        let mut then = State::default();
        then.apply(whole());
        let moments = Moments::after(then.clone());
        (then, moments)
    }

    /// The cable with a link in this state.
    fn link(state: v1::PortState) -> v1::Link {
        let end = |(guid, number): End| {
            let port = v1::PortKey {
                node_guid: Guid(guid).to_string(),
                number,
            };
            Some(v1::LinkEnd {
                port: Some(port),
                ..v1::LinkEnd::default()
            })
        };
        v1::Link {
            a: end((2, 3)),
            b: end(CABLE),
            state: state.into(),
            ..v1::Link::default()
        }
    }

    fn event(at_unix_ms: u64, change: Change) -> v1::Event {
        v1::Event {
            at_unix_ms,
            change: Some(change),
            ..v1::Event::default()
        }
    }

    #[test]
    fn marks_of_a_link_that_trains_are_no_losses() {
        use v1::PortState::{Active, Init};
        let (_, mut moments) = begun();
        let marked = || v1::Link {
            damped: true,
            ..link(Init)
        };
        let downs = |moments: &Moments| moments.downs.get(&CABLE).copied().unwrap_or(0);
        // The link vanishes and comes back; while it trains, it gets a mark and loses it.
        for (at, change, expected) in [
            (10, Change::LinkVanished(link(Active)), 0),
            (20, Change::LinkAppeared(link(Init)), 0),
            (30, Change::LinkChanged(marked()), 0),
            (40, Change::LinkChanged(link(Init)), 0),
            (50, Change::LinkChanged(link(Active)), 0),
            // It trains again without having vanished, and gets a mark meanwhile.
            (60, Change::LinkChanged(link(Init)), 1),
            (70, Change::LinkChanged(marked()), 1),
            (80, Change::LinkChanged(link(Active)), 1),
            (90, Change::LinkChanged(link(Init)), 2),
        ] {
            moments.event(&event(at, change));
            assert_eq!(downs(&moments), expected, "at {at}");
        }
        assert_eq!(moments.links[&CABLE], 90);
    }

    #[test]
    fn first_mark_of_a_link_that_trained_at_the_beginning_is_no_loss() {
        use v1::PortState::Init;
        let marked = || {
            Change::LinkChanged(v1::Link {
                damped: true,
                ..link(Init)
            })
        };
        let mut trained = whole();
        trained.links[0].training = true;
        let mut state = State::default();
        state.apply(trained.clone());
        assert_eq!(state.base().links, trained.links);
        // The state of the history has it, or an event before the beginning.
        let mut moments = Moments::after(state);
        moments.event(&event(10, marked()));
        assert!(moments.downs.is_empty(), "{moments:?}");
        let (_, mut moments) = begun();
        moments.earlier_event(&event(5, Change::LinkAppeared(link(Init))));
        moments.event(&event(10, marked()));
        assert!(moments.downs.is_empty(), "{moments:?}");
        // The manager starts again while the link trains.
        let nothing = StateChange {
            nodes_gone: vec![1, 2],
            ..StateChange::default()
        };
        moments.change(20, nothing);
        moments.change(30, trained);
        moments.event(&event(40, marked()));
        assert!(moments.downs.is_empty(), "{moments:?}");
    }

    #[test]
    fn link_that_is_up_again_is_listed_with_the_number_of_losses() {
        let (then, mut moments) = begun();
        for at in [10, 20] {
            moments.change(at, lost());
            moments.change(at + 5, found());
        }
        let differences = then.differences(&then, &moments);
        let [flapped] = &differences[..] else {
            panic!("{differences:?}");
        };
        assert_eq!(flapped.kind(), Kind::LinkFlapped);
        assert_eq!(flapped.subject, "switch-1:7 - switch-2:3");
        assert_eq!((flapped.downs, flapped.at_unix_ms), (2, 25));
    }

    #[test]
    fn retrained_link_counts_as_down_and_vanished_link_has_the_time_of_its_loss() {
        let (then, mut moments) = begun();
        moments.event(&event(10, Change::LinkChanged(link(v1::PortState::Init))));
        moments.change(30, lost());
        let mut now = then.clone();
        now.apply(lost());
        let differences = then.differences(&now, &moments);
        let [gone] = &differences[..] else {
            panic!("{differences:?}");
        };
        assert_eq!(gone.kind(), Kind::LinkVanished);
        assert_eq!((gone.downs, gone.at_unix_ms), (2, 30));
    }

    #[test]
    fn restart_of_the_manager_counts_no_link_as_down() {
        let (then, mut moments) = begun();
        let nothing = StateChange {
            nodes_gone: vec![1, 2],
            links_gone: vec![cable()],
            ..StateChange::default()
        };
        moments.change(10, nothing);
        moments.change(20, whole());
        moments.base(30, StateChange::default());
        moments.base(40, whole());
        assert!(then.differences(&then, &moments).is_empty());
        // A cable that is gone after it went down while no manager ran.
        let mut without = whole();
        without.links.clear();
        moments.base(50, without);
        assert_eq!(moments.downs[&CABLE], 1);
        assert_eq!(moments.links[&CABLE], 50);
    }
}

//! Links that become Active before a table leads to them.

use std::collections::BTreeMap;

use rsm_ids::PortNum;

use super::Push;
use super::phases::Phase;
use super::ports::PortPush;
use crate::plan::Plan;
use crate::sweep::inventory::{Inventory, PortKey};

/// The links that `plan` makes Active first and that are not Active: one end, and the other.
pub(super) fn awaited(plan: &Plan, inventory: &Inventory) -> BTreeMap<PortKey, PortKey> {
    let ports = plan.transition.awaited.iter();
    let links = ports.filter_map(|&port| Some((port, inventory.port(port)?.peer?)));
    links
        .filter(|&(port, peer)| port < peer && !is_active(inventory, port, peer))
        .collect()
}

fn is_active(inventory: &Inventory, port: PortKey, peer: PortKey) -> bool {
    [port, peer]
        .iter()
        .all(|&end| inventory.port(end).is_some_and(|port| port.is_active()))
}

impl Push {
    /// Whether the switch at the end `end` of a link lets it become Active. If tables wait for the
    /// link, the switch must be in use or hold all of its tables; otherwise it must hold its
    /// planned tables.
    pub(super) fn lets_open(&self, end: PortKey) -> bool {
        let transition = &self.plan.transition;
        if !transition.awaited.contains(&end) {
            return self.is_programmed(end.node);
        }
        let zero = PortKey::new(end.node, PortNum::ZERO);
        let has_lid = !self.ports.get(&zero).is_some_and(PortPush::awaits_info);
        let has_passed = |phases: usize| self.phases.passed() >= phases || self.phases.is_last();
        let lets_dark_open = || {
            let is_held = !transition.dark_last || has_passed(transition.cuts + 1);
            is_held && self.is_programmed(end.node)
        };
        // Entries that the first phases remove could close a loop over the link; a push without
        // phases removes none.
        has_lid
            && has_passed(transition.cuts)
            && self.phases.is_sl2vl_held()
            && (!transition.dark.contains(&end.node) || lets_dark_open())
    }

    /// Whether a port at `end` of a link may be armed. Some devices go on to Active by themselves,
    /// so links that must wait are not armed either.
    pub(super) fn lets_arm(&self, end: PortKey) -> bool {
        !self.plan.transition.awaited.contains(&end) || self.lets_open(end)
    }

    /// After a port was read: its link may be Active at both ends now.
    pub(super) fn link_settled(&mut self, inventory: &Inventory, key: PortKey) {
        let peer = self.ports.get(&key).and_then(PortPush::peer);
        let Some(peer) = peer.filter(|&peer| is_active(inventory, key, peer)) else {
            return;
        };
        if self.awaited.remove(&key.min(peer)).is_some() && self.phases.current() == Phase::Links {
            self.phases.unmet -= 1;
            self.advance(inventory);
        }
    }

    /// Ends a push that is stuck: no Set is on its way, none can be sent, and a phase is not
    /// settled, because a Set that it needs failed. Records the links that cannot become Active for
    /// that reason.
    pub(super) fn end_if_stuck(&mut self) {
        if self.stopped || self.outstanding > 0 || self.phases.is_last() {
            return;
        }
        if self.phases.current() == Phase::Links {
            self.unopened.extend(self.awaited.keys());
        }
        self.stop();
    }
}

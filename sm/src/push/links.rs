//! Links that become Active before a table leads to them.

use std::collections::BTreeMap;

use rsm_ids::PortNum;

use super::Push;
use super::phases::Phase;
use super::ports::PortPush;
use crate::plan::Plan;
use crate::sweep::inventory::{Inventory, PortKey};

/// The links of `plan` that are to become Active first and are not: one end, and the other.
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
    /// Whether the switch at the end `end` of a link lets it become Active. Where tables wait for
    /// the link, it has to be in use or to hold all of its tables; else it has to forward as
    /// planned.
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
        // What is taken out first could close a loop over the link; a push without phases takes
        // nothing out.
        has_lid
            && has_passed(transition.cuts)
            && self.phases.is_sl2vl_held()
            && (!transition.dark.contains(&end.node) || lets_dark_open())
    }

    /// Whether a port at `end` of a link may be armed. There are devices that go on to Active by
    /// themselves, so that links that have to wait are not armed either.
    pub(super) fn lets_arm(&self, end: PortKey) -> bool {
        !self.plan.transition.awaited.contains(&end) || self.lets_open(end)
    }

    /// A port was read: its link may be Active at both ends now.
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

    /// Ends the push where nothing is on its way, nothing can be sent, and a phase is not settled
    /// all the same: what a Set that failed should have made possible does not come. Links that
    /// cannot become Active because of that are told.
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

//! Links that must be Active before a table leads to them.

use std::collections::BTreeMap;

use rsm_ids::PortKey;
use rsm_plan::Plan;

use super::Push;
use super::phases::Phase;
use super::ports::PortPush;
use crate::sweep::inventory::Inventory;

/// The links that tables of `plan` wait for and that are not yet Active: lower end → other end.
pub(super) fn awaited(plan: &Plan, inventory: &Inventory) -> BTreeMap<PortKey, PortKey> {
    let ports = plan.transition.awaited.iter();
    let links = ports.filter_map(|&port| Some((port, inventory.hardware.port(port)?.peer?)));
    links
        .filter(|&(port, peer)| port < peer && !is_active(inventory, port, peer))
        .collect()
}

/// Whether both ends of a link are Active.
fn is_active(inventory: &Inventory, port: PortKey, peer: PortKey) -> bool {
    [port, peer].iter().all(|&end| {
        inventory
            .hardware
            .port(end)
            .is_some_and(|port| port.is_active())
    })
}

impl Push {
    /// Handles an answer of a port: both ends of its link may be Active now, so that tables need
    /// not wait for the link any longer.
    pub(super) fn link_settled(&mut self, inventory: &Inventory, key: PortKey) {
        let peer = self.ports.get(&key).and_then(PortPush::peer);
        let Some(peer) = peer.filter(|&peer| is_active(inventory, key, peer)) else {
            return;
        };
        if self.awaited.remove(&key.min(peer)).is_some() && self.phases.current() == Phase::Links {
            self.phases.unmet -= 1;
            if self.phases.unmet == 0 {
                self.advance(inventory);
            }
        }
    }

    /// Ends the push if it is stuck: no Set is under way, none may be sent, and the present phase
    /// is not settled because one of its Sets failed. In the phase of links, reports the links that
    /// are not Active. The caller has found that no Set may be sent.
    pub(super) fn end_if_stuck(&mut self) {
        if self.stopped || self.outstanding > 0 || self.phases.is_last() {
            return;
        }
        if self.phases.current() == Phase::Links {
            self.report.unopened.extend(self.awaited.keys());
        }
        self.stop();
    }
}

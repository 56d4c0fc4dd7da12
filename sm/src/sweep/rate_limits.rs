//! Reading QoSConfigSL, where the operator limits rates (`qos.rate_limits_file`): of ports that show
//! the capability once their link is up, and of virtual ports once they are. What differs from the
//! limits is written by the next push.
//!
//! Types that refuse it, or of which several devices leave it unanswered, have a
//! [habit](DeviceHabit::RefusesRateLimits) and are not asked again.

use rsm_mad::wire::header::Status;

use super::inventory::{Inventory, PortKey};
use super::managed::{BlockKey, Origin, Source, is_rate_limit_planned};
use super::{Query, Sweep, SweepScope};
use crate::habits::DeviceKind;

impl Inventory {
    /// Whether the limits of this block are planned.
    pub(super) fn limits_rates(&self, key: BlockKey) -> bool {
        is_rate_limit_planned(&Source::of_sweep(self), key)
    }

    /// Records that a device has answered QoSConfigSL.
    pub(super) fn rate_limits_answered(&mut self, port: PortKey) {
        if let Some(node) = self.node(port.node) {
            let kind = DeviceKind::of(&node.info, port.port);
            self.rate_limit_answers.answered(kind);
        }
    }
}

impl Sweep {
    /// Asks for the limits of a port that answered, and of its virtual ports, where they are not
    /// known.
    pub(super) fn see_rate_limits(&mut self, inventory: &Inventory, port: PortKey) {
        if inventory.rate_limits.is_none() {
            return;
        }
        let audit = matches!(self.scope, SweepScope::Full { audit: true });
        let source = Source::of_sweep(inventory);
        for key in source.blocks(port, Origin::RateLimits) {
            let record = inventory.port(port);
            let is_known = record.is_some_and(|record| record.managed.is_known(key.place));
            if audit || !is_known {
                self.ask(Query::Managed(key));
            }
        }
    }

    /// After an answer of a virtual port: asks for its limits where they are not known. One that is
    /// fresh may have lost them.
    pub(super) fn see_vport_rate_limits(
        &mut self,
        inventory: &mut Inventory,
        (port, index): (PortKey, u16),
        is_fresh: bool,
    ) {
        if inventory.rate_limits.is_none() {
            return;
        }
        let key = BlockKey::rate_limits(port, Some(index));
        let is_known = |inventory: &Inventory| {
            let record = inventory.port(port);
            record.is_some_and(|record| record.managed.is_known(key.place))
        };
        if is_fresh
            && is_known(inventory)
            && let Some(record) = inventory.port_mut(port)
        {
            record.managed.mark_dirty(key.place);
            self.asked.remove(&Query::Managed(key));
        }
        if !is_known(inventory) && inventory.limits_rates(key) {
            self.ask(Query::Managed(key));
        }
    }

    /// Takes the refusal (`status`) or silence of an agent that was asked for limits.
    pub(super) fn on_no_rate_limits(
        &mut self,
        inventory: &mut Inventory,
        key: BlockKey,
        status: Option<Status>,
    ) {
        let Some(node) = inventory.node(key.port.node) else {
            return;
        };
        let kind = DeviceKind::of(&node.info, key.port.port);
        if let Some(status) = status {
            // A virtual port that is gone by now is no habit: its state says so.
            if key.is_habit_by(status) {
                self.changed |= inventory.learn_refused_block(key);
            }
            return;
        }
        if !inventory.rate_limit_answers.unanswered(kind) {
            return inventory.faults.owe(Query::Managed(key), None);
        }
        for vport in [None, Some(0)] {
            let block = BlockKey::rate_limits(key.port, vport);
            self.changed |= inventory.learn_refused_block(block);
        }
    }
}

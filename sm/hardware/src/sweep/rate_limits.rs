//! Reads QoSConfigSL if the operator limits rates (`qos.rate_limits_file`): from ports with the
//! capability once their link is up, and from virtual ports once they are up. The next push writes
//! the blocks that differ from the limits.
//!
//! A device type that refuses the attribute, or several of whose devices leave it unanswered, has a
//! [habit](DeviceHabit::RefusesRateLimits) and is not asked again.

use rsm_ids::PortKey;
use rsm_mad::wire::header::Status;
use rsm_model::habits::DeviceKind;
use rsm_model::managed::{BlockKey, Origin};

use super::inventory::Inventory;
use super::{Query, Sweep};

/// Number of refused Sets of one virtual port's limits after which its device learns the habit. The
/// status of such a refusal may mean that the virtual port does not exist. Between two of these
/// Sets the limits were read, so the virtual port existed.
const REFUSALS_MAX: u8 = 3;

/// Number of unanswered Gets of its limits (about as many light sweeps) for which a virtual port
/// waits before it becomes Active. An adapter that never answers must not keep its hosts without a
/// port.
const AWAITED_MAX: u8 = 3;

impl Inventory {
    /// Whether a virtual port must wait for its planned limits before it becomes Active: they are
    /// unknown, and its adapter has not yet left several Gets of them unanswered.
    pub(crate) fn awaits_rate_limits(&self, port: PortKey, index: u16) -> bool {
        let key = BlockKey::rate_limits(port, Some(index));
        let record = self.port(port);
        let is_known = record.is_some_and(|record| record.managed.is_known(key.place));
        let silences = self.rate_limit_silences.get(&key);
        !is_known && silences.is_none_or(|&silences| silences < AWAITED_MAX)
    }

    /// Records that a device refused a Set of a virtual port's limits. Returns whether its kind now
    /// counts as without rate limits.
    pub(crate) fn vport_limits_refused(&mut self, key: BlockKey) -> bool {
        if key.vport().is_none() {
            return false;
        }
        let refusals = self.rate_limit_refusals.entry(key).or_default();
        *refusals = refusals.saturating_add(1);
        let is_habit = *refusals >= REFUSALS_MAX;
        if is_habit {
            self.rate_limit_refusals.remove(&key);
        }
        is_habit
    }

    /// Forgets refused Sets of a virtual port's limits, because it accepted one or is a new virtual
    /// port.
    pub(crate) fn vport_limits_taken(&mut self, key: BlockKey) {
        self.rate_limit_refusals.remove(&key);
    }

    /// Records that a device has answered QoSConfigSL.
    pub(super) fn rate_limits_answered(&mut self, key: BlockKey) {
        self.rate_limit_silences.remove(&key);
        if let Some(node) = self.node(key.port.node) {
            let kind = DeviceKind::of(&node.info, key.port.port);
            self.rate_limit_answers.answered(kind);
        }
    }
}

impl Sweep {
    /// Asks for the unknown limits of a port that answered, and of its virtual ports.
    pub(super) fn see_rate_limits(&mut self, inventory: &Inventory, port: PortKey) {
        if self.policy.rate_limits.is_none() {
            return;
        }
        let audit = self.audits(port);
        let source = self.policy.source(inventory);
        for key in source.blocks(port, Origin::RateLimits) {
            let record = inventory.port(port);
            let is_known = record.is_some_and(|record| record.managed.is_known(key.place));
            if audit || !is_known {
                self.ask(Query::Managed(key));
            }
        }
    }

    /// Handles an answered virtual port: asks for its limits if they are unknown. A fresh virtual
    /// port may have lost them.
    pub(super) fn see_vport_rate_limits(
        &mut self,
        inventory: &mut Inventory,
        (port, index): (PortKey, u16),
        is_fresh: bool,
    ) {
        if self.policy.rate_limits.is_none() {
            return;
        }
        let key = BlockKey::rate_limits(port, Some(index));
        let is_known = |inventory: &Inventory| {
            let record = inventory.port(port);
            record.is_some_and(|record| record.managed.is_known(key.place))
        };
        if is_fresh {
            inventory.vport_limits_taken(key);
            inventory.rate_limit_silences.remove(&key);
        }
        if is_fresh
            && is_known(inventory)
            && let Some(record) = inventory.port_mut(port)
        {
            record.managed.mark_dirty(key.place);
            self.queries.forget(Query::Managed(key));
        }
        if !is_known(inventory) && self.policy.source(inventory).limits_rates(key) {
            self.ask(Query::Managed(key));
        }
    }

    /// Handles the refusal (`status`) or silence of an agent that was asked for limits.
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
            self.waits_no_more(inventory, key);
            // A virtual port that is gone is no sign of a habit: its state will show that it is
            // gone.
            if key.is_habit_by(status) {
                self.changed |= inventory.learn_refused_block(key);
            }
            return;
        }
        if !inventory.rate_limit_answers.unanswered(kind) {
            self.count_silence(inventory, key);
            return inventory.faults.owe(Query::Managed(key), None);
        }
        for vport in [None, Some(0)] {
            let block = BlockKey::rate_limits(key.port, vport);
            self.changed |= inventory.learn_refused_block(block);
        }
    }

    /// Counts an unanswered Get of a virtual port that waits for its limits.
    fn count_silence(&mut self, inventory: &mut Inventory, key: BlockKey) {
        let silences = inventory.rate_limit_silences.get(&key);
        let silences = silences.map_or(1, |silences| silences.saturating_add(1));
        if silences >= AWAITED_MAX {
            self.waits_no_more(inventory, key);
        } else if key.vport().is_some() {
            inventory.rate_limit_silences.insert(key, silences);
        }
    }

    /// Lets a virtual port become Active without its limits.
    fn waits_no_more(&mut self, inventory: &mut Inventory, key: BlockKey) {
        if key.vport().is_some()
            && inventory.rate_limit_silences.insert(key, AWAITED_MAX) != Some(AWAITED_MAX)
        {
            self.changed = true;
            inventory.note_managed(key.port);
        }
    }
}

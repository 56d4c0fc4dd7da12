//! Reads QoSConfigSL if the operator limits rates (`qos.rate_limits_file`): from ports with the
//! capability once their link is up, and from virtual ports once they are up. The next push writes
//! the blocks that differ from the limits.
//!
//! If a kind of device refuses the attribute, or leaves it unanswered several times, the
//! [habit](rsm_model::habits::DeviceHabit::RefusesRateLimits) is recorded, and the kind is not
//! asked again.

use rsm_ids::PortKey;
use rsm_mad::wire::header::Status;
use rsm_model::habits::DeviceKind;
use rsm_model::managed::{BlockKey, Origin};

use super::Query;
use super::inventory::Inventory;
use super::reading::Reading;

/// Number of refused Sets of one virtual port's limits after which the habit of its kind of device
/// is recorded. One refusal may only mean that the virtual port does not exist. The limits are read
/// before each further Set, which shows that the virtual port exists.
const REFUSALS_MAX: u8 = 3;

/// Number of unanswered Gets of a virtual port's limits, in about as many light sweeps, after which
/// the virtual port may become Active without them: an adapter that never answers must not keep
/// virtual ports from being used.
const AWAITED_MAX: u8 = 3;

impl Inventory {
    /// Whether a virtual port must wait for its planned limits before it becomes Active: they are
    /// unknown, and its adapter has not yet left several Gets of them unanswered.
    pub(crate) fn awaits_rate_limits(&self, port: PortKey, index: u16) -> bool {
        let key = BlockKey::rate_limits(port, Some(index));
        let record = self.hardware.port(port);
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

    /// Forgets the refused Sets of a virtual port's limits, because it accepted a Set or is a new
    /// virtual port.
    pub(crate) fn vport_limits_taken(&mut self, key: BlockKey) {
        self.rate_limit_refusals.remove(&key);
    }

    /// Records that a device has answered QoSConfigSL.
    pub(super) fn rate_limits_answered(&mut self, key: BlockKey) {
        self.rate_limit_silences.remove(&key);
        if let Some(node) = self.hardware.node(key.port.node) {
            let kind = DeviceKind::of(&node.info, key.port.port);
            self.rate_limit_answers.answered(kind);
        }
    }
}

/// Handles PortInfo of a port: asks for the unknown limits of the port and of its virtual ports.
pub(super) fn check_rate_limits(reading: &mut Reading, inventory: &Inventory, port: PortKey) {
    if reading.policy.rate_limits.is_none() {
        return;
    }
    let audit = reading.audits(port);
    let source = reading.policy.source(inventory);
    for key in source.blocks(port, Origin::RateLimits) {
        let record = inventory.hardware.port(port);
        let is_known = record.is_some_and(|record| record.managed.is_known(key.place));
        if audit || !is_known {
            reading.ask(Query::Managed(key));
        }
    }
}

/// Handles VPortInfo of a virtual port: asks for its limits if they are unknown. The limits of a
/// fresh virtual port count as unknown.
pub(super) fn check_vport_rate_limits(
    reading: &mut Reading,
    inventory: &mut Inventory,
    (port, index): (PortKey, u16),
    is_fresh: bool,
) {
    if reading.policy.rate_limits.is_none() {
        return;
    }
    let key = BlockKey::rate_limits(port, Some(index));
    let is_known = |inventory: &Inventory| {
        let record = inventory.hardware.port(port);
        record.is_some_and(|record| record.managed.is_known(key.place))
    };
    if is_fresh {
        inventory.vport_limits_taken(key);
        inventory.rate_limit_silences.remove(&key);
    }
    if is_fresh
        && is_known(inventory)
        && let Some(record) = inventory.hardware.port_mut(port)
    {
        record.managed.mark_dirty(key.place);
        reading.queries.forget(Query::Managed(key));
    }
    if !is_known(inventory) && reading.policy.source(inventory).limits_rates(key) {
        reading.ask(Query::Managed(key));
    }
}

/// Handles the refusal (`status`) or silence of an agent that was asked for limits.
pub(super) fn on_no_rate_limits(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: BlockKey,
    status: Option<Status>,
) {
    let Some(node) = inventory.hardware.node(key.port.node) else {
        return;
    };
    let kind = DeviceKind::of(&node.info, key.port.port);
    if let Some(status) = status {
        stop_awaiting_limits(reading, inventory, key);
        // Other refusals may concern a virtual port that is gone, which its state will show.
        if key.is_habit_by(status) {
            reading.changed |= inventory.hardware.learn_refused_block(key);
        }
        return;
    }
    if !inventory.rate_limit_answers.unanswered(kind) {
        count_silence(reading, inventory, key);
        return inventory.faults.owe(Query::Managed(key), None);
    }
    for vport in [None, Some(0)] {
        let block = BlockKey::rate_limits(key.port, vport);
        reading.changed |= inventory.hardware.learn_refused_block(block);
    }
}

/// Counts an unanswered Get of a virtual port's limits.
fn count_silence(reading: &mut Reading, inventory: &mut Inventory, key: BlockKey) {
    let silences = inventory.rate_limit_silences.get(&key);
    let silences = silences.map_or(1, |silences| silences.saturating_add(1));
    if silences >= AWAITED_MAX {
        stop_awaiting_limits(reading, inventory, key);
    } else if key.vport().is_some() {
        inventory.rate_limit_silences.insert(key, silences);
    }
}

/// Lets a virtual port become Active although its limits are unknown.
fn stop_awaiting_limits(reading: &mut Reading, inventory: &mut Inventory, key: BlockKey) {
    if key.vport().is_some()
        && inventory.rate_limit_silences.insert(key, AWAITED_MAX) != Some(AWAITED_MAX)
    {
        reading.changed = true;
        inventory.hardware.record_managed_write(key.port);
    }
}

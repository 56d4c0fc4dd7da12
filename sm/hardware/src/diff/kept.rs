//! Fields that a kind of device accepts in a Set but does not keep.
//!
//! Without this record, such a field would always differ from the plan, and every sweep would cause
//! another Set.
//!
//! A Get after the Set shows which kind of device (vendor, device, revision, role of the port) does
//! not keep which field. Essential fields are never recorded: a port without them is faulty. A
//! reload of the configuration clears the record, so that each field is tried once more.

use std::collections::BTreeMap;

use rsm_model::DevicesOfKind;
use rsm_model::findings::Finding;
use rsm_model::habits::{DeviceKind, KINDS_MAX};
use rsm_model::port_info::FieldMask;

use crate::sweep::inventory::Inventory;

/// Fields that devices do not keep, by kind of device; at most [`KINDS_MAX`] kinds.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct NotKept {
    kinds: BTreeMap<DeviceKind, FieldMask>,
}

impl NotKept {
    /// The fields to ignore in comparisons with a device of `kind`.
    pub fn of(&self, kind: DeviceKind) -> FieldMask {
        self.kinds.get(&kind).copied().unwrap_or_default()
    }

    /// Records that devices of `kind` answered a Set without keeping `fields`. Returns whether any
    /// of these fields is new.
    pub fn learn(&mut self, kind: DeviceKind, fields: FieldMask) -> bool {
        let fields = fields.without(FieldMask::ESSENTIAL);
        if fields.is_empty() {
            return false;
        }
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            // Fields of further kinds are written again in each pass.
            return false;
        }
        let not_kept = self.kinds.entry(kind).or_default();
        let before = *not_kept;
        not_kept.0 |= fields.0;
        *not_kept != before
    }

    /// Findings about fields that devices in the subnet do not keep.
    pub fn findings(&self, inventory: &Inventory) -> Vec<Finding> {
        let devices = DevicesOfKind::all(&inventory.hardware, self.kinds.keys().copied());
        let kinds = self.iter().filter(|(_, fields)| !fields.is_empty());
        kinds
            .filter_map(|(kind, fields)| {
                let names = fields.names().join(", ");
                let does = format!("accept {names} in a Set and do not keep the value");
                let devices = devices.get(&kind)?;
                Some(devices.finding(&does, "the difference no longer counts"))
            })
            .collect()
    }

    /// All kinds of devices with the fields that they do not keep.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceKind, FieldMask)> + '_ {
        self.kinds.iter().map(|(&kind, &fields)| (kind, fields))
    }
}

#[cfg(test)]
mod tests {
    use rsm_model::habits::PortRole;

    use super::*;

    #[test]
    fn kinds_beyond_the_bound_are_not_learned() {
        let harmless = FieldMask(u32::MAX).without(FieldMask::ESSENTIAL);
        let mut not_kept = NotKept::default();
        for revision in 0..=KINDS_MAX as u32 {
            let kind = DeviceKind {
                vendor: 1,
                device: 2,
                revision,
                role: PortRole::End,
            };
            let learned = not_kept.learn(kind, harmless);
            assert_eq!(learned, (revision as usize) < KINDS_MAX);
        }
        assert_eq!(not_kept.iter().count(), KINDS_MAX);
    }
}

//! Fields that a kind of device accepts in a Set and does not keep.
//!
//! Without this memory such a field would differ for ever, and be Set in every sweep.

use std::collections::BTreeMap;

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{NodeInfo, NodeType};

use crate::plan::ports::FieldMask;

/// What a port is to its device: agents treat the three differently.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PortRole {
    /// A port of a channel adapter or router.
    End,
    /// Port 0 of a switch.
    Management,
    /// An external port of a switch.
    External,
}

/// A kind of device, as far as its agent's habits go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DeviceKind {
    /// VendorID of NodeInfo, 24 bits.
    pub vendor: u32,
    /// DeviceID of NodeInfo.
    pub device: u16,
    /// Revision of NodeInfo.
    pub revision: u32,
    /// What the port is to the device.
    pub role: PortRole,
}

impl DeviceKind {
    /// The kind of the port `port` of the node that answered `info`.
    pub fn of(info: &NodeInfo, port: PortNum) -> DeviceKind {
        let role = match (info.node_type(), port) {
            (NodeType::Switch, PortNum::ZERO) => PortRole::Management,
            (NodeType::Switch, _) => PortRole::External,
            _ => PortRole::End,
        };
        DeviceKind {
            vendor: info.vendor_id(),
            device: info.device_id(),
            revision: info.revision(),
            role,
        }
    }
}

/// What was learned of each kind of device.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct NotKept {
    kinds: BTreeMap<DeviceKind, FieldMask>,
}

impl NotKept {
    /// The fields that do not count in comparisons with devices of `kind`.
    pub fn of(&self, kind: DeviceKind) -> FieldMask {
        self.kinds.get(&kind).copied().unwrap_or_default()
    }

    /// Learns that devices of `kind` answered a Set without keeping `fields`. Returns whether that is news.
    pub fn learn(&mut self, kind: DeviceKind, fields: FieldMask) -> bool {
        if fields.is_empty() {
            return false;
        }
        let known = self.kinds.entry(kind).or_default();
        let before = *known;
        known.0 |= fields.0;
        *known != before
    }

    /// Everything learned.
    pub fn iter(&self) -> impl Iterator<Item = (DeviceKind, FieldMask)> + '_ {
        self.kinds.iter().map(|(&kind, &fields)| (kind, fields))
    }
}

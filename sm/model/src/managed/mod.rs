//! Managed attributes as devices hold them: attributes of ports that are set block by block, each
//! block after the PortInfo of its port.
//!
//! Each attribute is a variant of [`ManagedAttribute`] with a file here, and a file in
//! `sm/plan/src/managed` for its planned blocks and their content. The sweep reads unknown planned
//! blocks, the comparison finds the blocks that differ, and the push writes these blocks.

mod extended_port;
mod guid_info;
pub mod rate_limits;
pub mod sl_to_vl;
pub mod vl_arbitration;

use std::collections::BTreeMap;
use std::sync::Arc;

use rsm_ids::PortKey;
use rsm_mad::wire::header::{AttrId, Status};

use super::habits::DeviceHabit;
use super::image::BlockTable;

/// The content of a block.
pub type Content = [u8; 64];

/// The properties of a managed attribute, which are the same on all devices.
#[derive(Debug)]
pub struct Managed {
    /// The attribute.
    pub attribute: AttrId,
    /// Name of the attribute in the specification, for reports.
    pub name: &'static str,
    /// Why blocks of the attribute are written, for reports.
    pub reason: &'static str,
    /// Source of the planned content; it decides for which ports the attribute is planned.
    pub origin: Origin,
    /// The attribute modifier of a block of a port.
    modifier: fn(PortKey, u16) -> u32,
    /// [`BlockPlace::is_readable`] by the number of the block.
    is_readable: fn(u16) -> bool,
    /// The habit of devices that refuse the block. Devices with this habit are sent no such block.
    habit: fn(u16) -> Option<DeviceHabit>,
    /// Whether the held content (first) equals the wanted content (second), apart from read-only
    /// parts.
    agrees: fn(u16, &Content, &Content) -> bool,
}

/// Source of the content of a managed attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Requests of hosts to the SA, on end ports. A block that was once read or written stays
    /// planned.
    Hosts,
    /// The operator's QoS tables, for every port whose link is up. A port holds them before its
    /// link becomes Active.
    Qos,
    /// The operator's rate limits, for adapters' ports with the capability and for their virtual
    /// ports. A block is planned only once it was read, because its other fields keep their values.
    RateLimits,
    /// Settings of the vendor's features, for ports whose ExtendedPortInfo was read and differs.
    Extended,
}

/// Every managed attribute, in the order in which a port's blocks are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ManagedAttribute {
    /// GUIDInfo, with alias GUIDs.
    GuidInfo,
    /// ExtendedPortInfo.
    ExtendedPort,
    /// VLArbitrationTable.
    VlArbitration,
    /// SLtoVLMappingTable.
    SlToVl,
    /// QoSConfigSL, with rate limits.
    RateLimits,
}

impl ManagedAttribute {
    /// All managed attributes.
    pub const ALL: [ManagedAttribute; 5] = [
        ManagedAttribute::GuidInfo,
        ManagedAttribute::ExtendedPort,
        ManagedAttribute::VlArbitration,
        ManagedAttribute::SlToVl,
        ManagedAttribute::RateLimits,
    ];

    /// The properties of the attribute on all devices.
    pub fn managed(self) -> &'static Managed {
        match self {
            ManagedAttribute::GuidInfo => &guid_info::GUID_INFO,
            ManagedAttribute::ExtendedPort => &extended_port::EXTENDED_PORT,
            ManagedAttribute::VlArbitration => &vl_arbitration::VL_ARBITRATION,
            ManagedAttribute::SlToVl => &sl_to_vl::SL_TO_VL,
            ManagedAttribute::RateLimits => &rate_limits::RATE_LIMITS,
        }
    }

    /// Whether the content `held` of a block equals `wanted`, apart from read-only parts.
    pub fn agrees(self, block: u16, held: &Content, wanted: &Content) -> bool {
        (self.managed().agrees)(block, held, wanted)
    }
}

/// Address of a block of a managed attribute: port, attribute and block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockKey {
    /// The port.
    pub port: PortKey,
    /// Attribute and block.
    pub place: BlockPlace,
}

/// A block of an attribute, on any port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockPlace {
    /// The attribute.
    pub attribute: ManagedAttribute,
    /// Number of the block.
    pub block: u16,
}

impl BlockPlace {
    /// The properties of the attribute.
    pub fn managed(self) -> &'static Managed {
        self.attribute.managed()
    }

    /// Whether a Get shows the block. A block that no Get shows is unknown until it is written.
    pub fn is_readable(self) -> bool {
        (self.managed().is_readable)(self.block)
    }

    /// Whether light sweeps read the block back. Rate limits and ExtendedPortInfo have their own
    /// rules for reading.
    pub fn is_read_back(self) -> bool {
        let origin = self.managed().origin;
        matches!(origin, Origin::Hosts | Origin::Qos) && self.is_readable()
    }

    /// The habit of kinds of devices that refuse the block; `None` if no habit covers a refusal.
    pub fn habit(self) -> Option<DeviceHabit> {
        (self.managed().habit)(self.block)
    }
}

impl BlockKey {
    /// AttributeID on the wire.
    pub fn attribute(self) -> AttrId {
        self.place.managed().attribute
    }

    /// AttributeModifier of the block.
    pub fn modifier(self) -> u32 {
        (self.place.managed().modifier)(self.port, self.place.block)
    }

    /// Whether the block contains rate limits.
    pub fn is_rate_limit(self) -> bool {
        self.place.managed().origin == Origin::RateLimits
    }

    /// Index of the block's virtual port; `None` if the block is the port's own.
    pub fn vport(self) -> Option<u16> {
        let is_of_vport = self.is_rate_limit();
        is_of_vport
            .then(|| rate_limits::vport(self.place.block))
            .flatten()
    }

    /// Whether a refusal with this status shows that the kind of device lacks the attribute. For a
    /// virtual port's block, only UNSUPPORTED_METHOD_ATTRIBUTE shows it: the port may be gone.
    pub fn is_habit_by(self, status: Status) -> bool {
        self.vport().is_none() || status == Status::UNSUPPORTED_METHOD_ATTRIBUTE
    }

    /// The block with the rate limits of a port, or of its virtual port at an index.
    pub fn rate_limits(port: PortKey, vport: Option<u16>) -> BlockKey {
        let attribute = ManagedAttribute::RateLimits;
        let block = rate_limits::block(vport);
        BlockKey {
            port,
            place: BlockPlace { attribute, block },
        }
    }

    /// Whether the operator's QoS tables determine the block.
    pub fn is_qos(self) -> bool {
        self.place.managed().origin == Origin::Qos
    }
}

/// The managed attributes of a port.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ManagedBlocks(BTreeMap<BlockPlace, Arc<Content>>);

impl ManagedBlocks {
    /// The content of a block as last known; `None` if it was neither read nor written.
    pub fn block(&self, place: BlockPlace) -> Option<&Content> {
        self.0.get(&place).map(|content| &**content)
    }
}

impl BlockTable for ManagedBlocks {
    type Place = BlockPlace;
    type Block = Content;

    fn has_block(&self, place: BlockPlace, wanted: &Content) -> bool {
        let held = self.0.get(&place);
        held.is_some_and(|held| place.attribute.agrees(place.block, held, wanted))
    }

    fn set_block(&mut self, place: BlockPlace, content: &Content) {
        // Most SLtoVLMappingTables of a port are equal, so equal blocks share one copy.
        let like = (self.0.values().rev())
            .find(|held| ***held == *content)
            .cloned();
        let content = like.unwrap_or_else(|| Arc::new(*content));
        self.0.insert(place, content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;

    #[test]
    fn guid_at_index_0_is_ignored_in_block_0_of_guid_info() {
        let place = |block| BlockPlace {
            attribute: ManagedAttribute::GuidInfo,
            block,
        };
        let mut image: Image<ManagedBlocks> = Image::default();
        let mut other_own = [0; 64];
        other_own[..8].copy_from_slice(&[9; 8]);
        for block in [0, 1] {
            image.store(place(block), &other_own);
        }
        assert!(image.holds(place(0), &[0; 64]));
        assert!(!image.holds(place(1), &[0; 64]));
    }
}

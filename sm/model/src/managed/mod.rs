//! Managed attributes as devices hold them: attributes of ports that are set block by block, where
//! a block waits only for the PortInfo of its port.
//!
//! Each attribute is a variant of [`ManagedAttribute`] with a file here, and a file in
//! `sm/plan/src/managed` for its planned blocks and their content. The sweep reads the planned
//! blocks that are not known, the comparison finds those that differ, and the push writes them.

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

/// The properties of a managed attribute, alike on all devices.
#[derive(Debug)]
pub struct Managed {
    /// The attribute.
    pub attribute: AttrId,
    /// Name of the attribute in the specification, for reports.
    pub name: &'static str,
    /// Why a block is written, for reports.
    pub reason: &'static str,
    /// Where the planned content comes from, which decides the ports that have any.
    pub origin: Origin,
    /// The attribute modifier of a block of a port.
    modifier: fn(PortKey, u16) -> u32,
    /// Whether a Get shows the block. Blocks that no Get shows are unknown until they are written.
    is_readable: fn(u16) -> bool,
    /// The habit of kinds of devices that refuse the block, which then is not sent to them.
    habit: fn(u16) -> Option<DeviceHabit>,
    /// Whether the first content is as good as the second; read-only parts do not count.
    agrees: fn(u16, &Content, &Content) -> bool,
}

/// Where the content of a managed attribute comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Requests of hosts to the SA, on end ports. A block that was once read or written stays
    /// planned.
    Hosts,
    /// The operator's tables for quality of service, on every port whose link is up. A port holds
    /// them before its link becomes Active.
    Qos,
    /// The operator's limits of rates, on ports of adapters with the capability and on their
    /// virtual ports. No block is planned before it was read, because its other fields stay as they
    /// are.
    RateLimits,
    /// Choices about the vendor's features, on ports whose ExtendedPortInfo was read and differs.
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
    /// QoSConfigSL, with limits of rates.
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

    /// Whether the content `held` of a block is as good as `wanted`; read-only parts do not count.
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

    /// Whether a Get shows the block. Blocks that no Get shows are unknown until they are written.
    pub fn is_readable(self) -> bool {
        (self.managed().is_readable)(self.block)
    }

    /// Whether light sweeps read the block back. Limits of rates and extended ports are read by
    /// their own rules.
    pub fn is_read_back(self) -> bool {
        let origin = self.managed().origin;
        matches!(origin, Origin::Hosts | Origin::Qos) && self.is_readable()
    }

    /// The habit of kinds of devices that refuse the block; `None` if a refusal is no habit.
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

    /// Whether the block has limits of rates.
    pub fn is_rate_limit(self) -> bool {
        self.place.managed().origin == Origin::RateLimits
    }

    /// Index of the virtual port of the block; `None` if the block is the port's own.
    pub fn vport(self) -> Option<u16> {
        let is_of_vport = self.is_rate_limit();
        is_of_vport
            .then(|| rate_limits::vport(self.place.block))
            .flatten()
    }

    /// Whether a refusal with this status shows that the kind of device lacks the attribute. It
    /// does not for a virtual port, which may have gone meanwhile.
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

    /// Whether the block belongs to quality of service.
    pub fn is_qos(self) -> bool {
        self.place.managed().origin == Origin::Qos
    }
}

/// The managed attributes of a port.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ManagedBlocks(BTreeMap<BlockPlace, Arc<Content>>);

impl ManagedBlocks {
    /// The content of a block, as last known.
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
        // The tables of a port have the same content for most inputs: it is kept once.
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
    fn own_guid_of_a_port_does_not_count() {
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

//! Managed attributes, as devices hold them: attributes of ports that are set block by block, where
//! a block waits only for the PortInfo of its port.
//!
//! An attribute is a variant of [`ManagedAttribute`] with a file here, and one in
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

/// The properties that a managed attribute has on all devices.
#[derive(Debug)]
pub struct Managed {
    /// The attribute.
    pub attribute: AttrId,
    /// Why a block is written, for reports.
    pub reason: &'static str,
    /// The origin of the planned content, which decides the ports that have any.
    pub origin: Origin,
    /// The modifier of a block of a port.
    modifier: fn(PortKey, u16) -> u32,
    /// Whether the agent shows the block by a Get: other blocks are unknown until they are written.
    is_readable: fn(u16) -> bool,
    /// The habit of devices that refuse the block, and get it no more.
    habit: fn(u16) -> Option<DeviceHabit>,
    /// Whether the first content is as good as the second: read-only parts do not count.
    agrees: fn(u16, &Content, &Content) -> bool,
}

/// The origin of a managed attribute's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Requests of hosts to the SA: end ports have it. A block that was once read or written stays
    /// planned.
    Hosts,
    /// The operator's tables for quality of service: any port whose link is up has it, and holds it
    /// before its link becomes Active.
    Qos,
    /// The operator's limits of rates: ports of adapters that show the capability, and their virtual
    /// ports, have them. No block is planned before it was read, because other fields stay.
    RateLimits,
    /// Choices about the vendor's features: ports whose ExtendedPortInfo was read have them, where
    /// it differs.
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
    /// All of them.
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

    /// Whether the first content of a block is as good as the second: read-only parts do not count.
    pub fn agrees(self, block: u16, held: &Content, wanted: &Content) -> bool {
        (self.managed().agrees)(block, held, wanted)
    }
}

/// A block of a managed attribute of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockKey {
    /// The port.
    pub port: PortKey,
    /// The attribute and block.
    pub place: BlockPlace,
}

/// A block of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockPlace {
    /// The attribute.
    pub attribute: ManagedAttribute,
    /// Number of the block.
    pub block: u16,
}

impl BlockPlace {
    /// The attribute.
    pub fn managed(self) -> &'static Managed {
        self.attribute.managed()
    }

    /// Whether the agent shows the block by a Get: other blocks are unknown until they are written.
    pub fn is_readable(self) -> bool {
        (self.managed().is_readable)(self.block)
    }

    /// The habit of devices that refuse the block, and get it no more.
    pub fn habit(self) -> Option<DeviceHabit> {
        (self.managed().habit)(self.block)
    }
}

impl BlockKey {
    /// The attribute.
    pub fn attribute(self) -> AttrId {
        self.place.managed().attribute
    }

    /// The modifier of the block.
    pub fn modifier(self) -> u32 {
        (self.place.managed().modifier)(self.port, self.place.block)
    }

    /// Whether the block has limits of rates.
    pub fn is_rate_limit(self) -> bool {
        self.place.managed().origin == Origin::RateLimits
    }

    /// The index of the virtual port that the block is of, if it is of one.
    pub fn vport(self) -> Option<u16> {
        let is_of_vport = self.is_rate_limit();
        is_of_vport
            .then(|| rate_limits::vport(self.place.block))
            .flatten()
    }

    /// Whether a refusal with this status says that the kind of device does not have the attribute.
    /// A virtual port may have gone meanwhile.
    pub fn is_habit_by(self, status: Status) -> bool {
        self.vport().is_none() || status == Status::UNSUPPORTED_METHOD_ATTRIBUTE
    }

    /// The block with the limits of a port, or of the virtual port at an index of it.
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

//! QoSConfigSL: the operator's rate limits by service level, for ports of adapters with the
//! capability, and for their virtual ports. Bandwidth shares in the same blocks keep their values.
//!
//! The attribute has fields that rsm does not set, so that a block is planned only once the sweep
//! has read it. Block 0 is the port's. Every other block belongs to a virtual port, which becomes
//! Active only after its block is written.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, Capability, QosConfigSl};
use rsm_model::InventoryPort;
use rsm_model::managed::BlockKey;
use rsm_model::managed::rate_limits::{block, vport};

use super::{Planned, Source};

/// The blocks of a port and of its virtual ports.
pub(super) static RATE_LIMITS: Planned = Planned {
    blocks: |source, key, port| {
        let vports = port.vports.iter().flat_map(|vports| vports.vports.keys());
        let all = std::iter::once(None).chain(vports.map(|&index| Some(index)));
        all.map(block)
            .filter(|&block| is_concerned(source, key, port, block))
            .collect()
    },
    content: |source, key, port, block| {
        let place = BlockKey::rate_limits(key, vport(block)).place;
        let is_known = port.managed.is_known(place);
        let held = port.managed.content().block(place).filter(|_| is_known)?;
        let limits = source.rate_limits?.of(guid(port, block)?);
        let mut wanted = *QosConfigSl::from_data(held);
        for (sl, &limit) in limits.iter().enumerate() {
            wanted.set_rate_limit(sl, limit);
        }
        Some(*wanted.as_data())
    },
};

/// The GUID whose limits a block contains. The physical function, index 0, has the limits of the
/// port.
fn guid(port: &InventoryPort, block: u16) -> Option<Guid> {
    match vport(block) {
        None => Some(port.guid),
        Some(index) => {
            let guid = port.vports.as_ref()?.get(index)?.guid();
            (guid != port.guid && !guid.is_zero()).then_some(guid)
        }
    }
}

/// Whether rates are limited, and the device has the capability for the block's port or virtual
/// port.
fn is_concerned(source: &Source<'_>, key: PortKey, port: &InventoryPort, block: u16) -> bool {
    let capability = match vport(block) {
        None => Capability::QosSlRateLimit,
        Some(_) => Capability::QosSlVPortRateLimit,
    };
    let hardware = source.hardware;
    source.rate_limits.is_some()
        && key.port != PortNum::ZERO
        && port.is_up()
        && guid(port, block).is_some()
        && hardware.node(key.node).is_some_and(|node| {
            !node.is_switch() && hardware.capabilities.has(&node.info, capability)
        })
}

impl Source<'_> {
    /// Whether rate limits are planned for this block.
    pub fn limits_rates(&self, key: BlockKey) -> bool {
        let port = self.hardware.port(key.port);
        port.is_some_and(|port| {
            is_concerned(self, key.port, port, key.place.block)
                && !self.is_refused(key.port, key.place)
        })
    }
}

//! QoSConfigSL, with the operator's limits of rates by service level: of ports of adapters that show
//! the capability, and of their virtual ports. The shares of bandwidth beside them stay.

use rsm_ids::{Guid, PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, Capability, QosConfigSl};

use super::{BlockKey, Managed, Origin, Source};
use crate::habits::DeviceHabit;
use crate::sweep::inventory::InventoryPort;

/// QoSConfigSL (0xFF82). Block 0 is of the port, block 1 + i of the virtual port at index i.
pub(super) const RATE_LIMITS: Managed = Managed {
    attribute: QosConfigSl::ID,
    reason: "limits of rates differ",
    origin: Origin::RateLimits,
    modifier: |key, block| match vport(block) {
        None => QosConfigSl::modifier(key.port),
        Some(index) => QosConfigSl::vport_modifier(index),
    },
    is_readable: |_| true,
    habit: |block| {
        Some(match vport(block) {
            None => DeviceHabit::RefusesRateLimits,
            Some(_) => DeviceHabit::RefusesVPortRateLimits,
        })
    },
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
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(|data| QosConfigSl::from_data(data).rate_limits());
        held == wanted
    },
};

/// The block of a port, or of the virtual port at an index.
pub(super) fn block(vport: Option<u16>) -> u16 {
    vport.map_or(0, |index| index.saturating_add(1))
}

/// The index of the virtual port that a block is of.
pub(super) fn vport(block: u16) -> Option<u16> {
    block.checked_sub(1)
}

/// The GUID that the limits of a block go by. The physical function, index 0, has those of the port.
fn guid(port: &InventoryPort, block: u16) -> Option<Guid> {
    match vport(block) {
        None => Some(port.guid),
        Some(index) => {
            let guid = port.vports.as_ref()?.get(index)?.guid();
            (guid != port.guid && !guid.is_zero()).then_some(guid)
        }
    }
}

/// Whether rates are limited, and the device shows that it can do so at what the block is of.
fn is_concerned(source: &Source<'_>, key: PortKey, port: &InventoryPort, block: u16) -> bool {
    let capability = match vport(block) {
        None => Capability::QosSlRateLimit,
        Some(_) => Capability::QosSlVPortRateLimit,
    };
    let inventory = source.inventory;
    source.rate_limits.is_some()
        && key.port != PortNum::ZERO
        && port.is_up()
        && guid(port, block).is_some()
        && inventory.node(key.node).is_some_and(|node| {
            !node.is_switch() && inventory.capabilities.has(&node.info, capability)
        })
}

/// Whether the limits of this block are planned.
pub(in crate::sweep) fn is_planned(source: &Source<'_>, key: BlockKey) -> bool {
    let port = source.inventory.port(key.port);
    port.is_some_and(|port| {
        is_concerned(source, key.port, port, key.place.block)
            && !source.is_refused(key.port, &RATE_LIMITS, key.place.block)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifiers_name_the_port_or_the_virtual_port() {
        let key = PortKey::new(Guid(1), PortNum(2));
        assert_eq!((RATE_LIMITS.modifier)(key, block(None)), 2);
        assert_eq!((RATE_LIMITS.modifier)(key, block(Some(0))), 0x8000_0000);
        assert_eq!((RATE_LIMITS.modifier)(key, block(Some(17))), 0x8000_0011);
    }

    #[test]
    fn shares_of_bandwidth_do_not_count() {
        let mut held = QosConfigSl::default();
        held.set_rate_limit(3, 500).set_bandwidth_share(3, 9);
        let mut wanted = QosConfigSl::default();
        wanted.set_rate_limit(3, 500);
        assert!((RATE_LIMITS.agrees)(0, held.as_data(), wanted.as_data()));
        wanted.set_rate_limit(4, 1);
        assert!(!(RATE_LIMITS.agrees)(0, held.as_data(), wanted.as_data()));
    }
}

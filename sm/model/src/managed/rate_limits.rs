//! QoSConfigSL: rate limits by service level, for ports of adapters and their virtual ports.
//! Bandwidth shares in the same block keep their values.

use rsm_mad::wire::attr::{Attribute, QosConfigSl};

use super::{Managed, Origin};
use crate::habits::DeviceHabit;

/// QoSConfigSL (0xFF82). Block 0 belongs to the port, block 1 + i to its virtual port at index i.
pub(super) static RATE_LIMITS: Managed = Managed {
    attribute: QosConfigSl::ID,
    name: "QoSConfigSL",
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
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(|data| QosConfigSl::from_data(data).rate_limits());
        held == wanted
    },
};

/// Number of the block of a port, or of its virtual port at an index.
pub fn block(vport: Option<u16>) -> u16 {
    vport.map_or(0, |index| index.saturating_add(1))
}

/// Index of the virtual port of a block; `None` for the port's own block.
pub fn vport(block: u16) -> Option<u16> {
    block.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use rsm_ids::{Guid, PortKey, PortNum};

    use super::*;

    #[test]
    fn modifiers_name_the_port_or_the_virtual_port() {
        let key = PortKey::new(Guid(1), PortNum(2));
        assert_eq!((RATE_LIMITS.modifier)(key, block(None)), 2);
        assert_eq!((RATE_LIMITS.modifier)(key, block(Some(0))), 0x8000_0000);
        assert_eq!((RATE_LIMITS.modifier)(key, block(Some(17))), 0x8000_0011);
    }

    #[test]
    fn blocks_that_differ_only_in_bandwidth_shares_agree() {
        let mut held = QosConfigSl::default();
        held.set_rate_limit(3, 500).set_bandwidth_share(3, 9);
        let mut wanted = QosConfigSl::default();
        wanted.set_rate_limit(3, 500);
        assert!((RATE_LIMITS.agrees)(0, held.as_data(), wanted.as_data()));
        wanted.set_rate_limit(4, 1);
        assert!(!(RATE_LIMITS.agrees)(0, held.as_data(), wanted.as_data()));
    }
}

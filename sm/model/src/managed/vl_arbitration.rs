//! VLArbitrationTable: the operator's weights of VLs.

use rsm_ids::PortNum;
use rsm_mad::wire::attr::{Attribute, VlArbitration};

use super::{Managed, Origin};
use crate::habits::DeviceHabit;

/// Bit in the block number of a switch port, whose port number the modifier contains.
pub const OF_SWITCH: u16 = 0x100;

/// VLArbitrationTable (IBA 14.2.5.9). Blocks have the numbers 1 to 4 of the specification; on
/// switches, [`OF_SWITCH`] is added.
pub(super) static VL_ARBITRATION: Managed = Managed {
    attribute: VlArbitration::ID,
    name: "VLArbitrationTable",
    reason: "weights of VLs differ",
    origin: Origin::Qos,
    modifier: |key, block| {
        let of_switch = block & OF_SWITCH != 0;
        let port = if of_switch { key.port } else { PortNum::ZERO };
        u32::from(block & !OF_SWITCH) << 16 | u32::from(port.0)
    },
    is_readable: |_| true,
    habit: |_| Some(DeviceHabit::RefusesVlArbitration),
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(|data| VlArbitration::from_data(data).entries());
        let mut pairs = held.iter().zip(wanted);
        pairs.all(|(held, wanted)| (held.vl(), held.weight()) == (wanted.vl(), wanted.weight()))
    },
};

#[cfg(test)]
mod tests {
    use rsm_ids::PortKey;
    use rsm_mad::wire::attr::VlArbitrationBlock;

    use super::*;

    #[test]
    fn modifier_names_the_port_on_switches_only() {
        let key = PortKey::new(rsm_ids::Guid(1), PortNum(3));
        let block = VlArbitrationBlock::HighPriorityLower;
        for (bit, port) in [(OF_SWITCH, key.port), (0, PortNum::ZERO)] {
            assert_eq!(
                (VL_ARBITRATION.modifier)(key, block as u16 | bit),
                VlArbitration::modifier(port, block)
            );
        }
    }
}

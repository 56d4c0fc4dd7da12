//! VLArbitrationTable, with the operator's weights of VLs: of every port whose link is up, and of
//! enhanced ports 0.

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, VlArbitration};

use super::{Managed, Origin, Source};
use crate::habits::DeviceHabit;
use crate::qos::PortTables;

/// The bit of blocks of a switch's port, whose number is in the modifier.
const OF_SWITCH: u16 = 0x100;

/// VLArbitrationTable (IBA 14.2.5.9). Blocks have the numbers of the specification, 1 to 4, on
/// switches with [`OF_SWITCH`].
pub(super) const VL_ARBITRATION: Managed = Managed {
    attribute: VlArbitration::ID,
    reason: "weights of VLs differ",
    origin: Origin::Qos,
    modifier: |key, block| {
        let of_switch = block & OF_SWITCH != 0;
        let port = if of_switch { key.port } else { PortNum::ZERO };
        u32::from(block & !OF_SWITCH) << 16 | u32::from(port.0)
    },
    is_readable: |_| true,
    habit: |_| Some(DeviceHabit::RefusesVlArbitration),
    blocks: |source, key, _| {
        let node = source.inventory.node(key.node);
        let of_switch = node.is_some_and(|node| node.is_switch());
        let bit = if of_switch { OF_SWITCH } else { 0 };
        let tables = tables(source, key);
        let blocks = tables.iter().flat_map(PortTables::blocks);
        blocks.map(|block| block as u16 | bit).collect()
    },
    content: |source, key, _, block| {
        let block = VlArbitration::modifier_block(u32::from(block & !OF_SWITCH) << 16)?;
        Some(*tables(source, key)?.block(block).as_data())
    },
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(|data| VlArbitration::from_data(data).entries());
        let mut pairs = held.iter().zip(wanted);
        pairs.all(|(held, wanted)| (held.vl(), held.weight()) == (wanted.vl(), wanted.weight()))
    },
};

/// The tables of a port; `None` where it has none: quality of service is off, its link is down, or
/// it is a base port 0, which sends no data packets.
fn tables<'a>(source: &Source<'a>, key: PortKey) -> Option<PortTables<'a>> {
    let switch = source.inventory.node(key.node)?.switch.as_ref();
    let is_base = switch.is_some_and(|switch| !switch.info.enhanced_port0());
    if key.port == PortNum::ZERO && is_base {
        return None;
    }
    PortTables::of(source.qos?, source.inventory, key)
}

#[cfg(test)]
mod tests {
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

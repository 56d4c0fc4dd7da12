//! VLArbitrationTable: the operator's weights of VLs, for every port whose link is up, and for
//! enhanced ports 0.

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, VlArbitration};
use rsm_model::managed::vl_arbitration::OF_SWITCH;

use super::{Planned, Source};
use crate::qos::PortTables;

/// The blocks with the operator's weights.
pub(super) static VL_ARBITRATION: Planned = Planned {
    blocks: |source, key, _| {
        let of_switch = source.hardware.is_switch(key.node);
        let bit = if of_switch { OF_SWITCH } else { 0 };
        let tables = tables(source, key);
        let blocks = tables.iter().flat_map(PortTables::blocks);
        blocks.map(|block| block as u16 | bit).collect()
    },
    content: |source, key, _, block| {
        let block = VlArbitration::modifier_block(u32::from(block & !OF_SWITCH) << 16)?;
        Some(*tables(source, key)?.block(block).as_data())
    },
};

/// The QoS tables of a port. `None` if quality of service is off, the link is down, or the port is
/// a base port 0, which sends no data packets.
fn tables<'a>(source: &Source<'a>, key: PortKey) -> Option<PortTables<'a>> {
    let switch = source.hardware.node(key.node)?.switch.as_ref();
    let is_base = switch.is_some_and(|switch| !switch.info.enhanced_port0());
    if key.port == PortNum::ZERO && is_base {
        return None;
    }
    PortTables::of(source.qos?, source.hardware, key)
}

//! SLtoVLMappingTable: the operator's VL of each SL, for channel adapters, routers and enhanced
//! ports 0, and from every input of a switch to every output whose link is up. If the engine
//! determines the tables of switches, those tables follow the routes instead.

use std::collections::BTreeSet;

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{Attribute, CapabilityMask, PortInfo, SlToVlMapping};
use rsm_model::habits::DeviceHabit;
use rsm_model::managed::sl_to_vl::{ALL_INPUTS, END_PORT};
use rsm_model::{InventoryNode, InventorySwitch};

use super::{Planned, Source};
use crate::qos::PortTables;

/// The blocks with the operator's VLs.
pub(super) static SL_TO_VL: Planned = Planned {
    blocks: |source, key, _| blocks(source, key).unwrap_or_default(),
    content: |source, key, _, _| {
        let mut mapping = SlToVlMapping::default();
        let tables = PortTables::of(source.qos?, source.hardware, key)?;
        mapping.set_vls(tables.row());
        Some(*mapping.as_data())
    },
};

/// The planned blocks of a port; `None` if its tables are not the operator's.
fn blocks(source: &Source<'_>, key: PortKey) -> Option<BTreeSet<u16>> {
    PortTables::of(source.qos?, source.hardware, key)?;
    let node = source.hardware.node(key.node)?;
    let Some(switch) = &node.switch else {
        return supports_mapping(node.port(key.port)?.info.as_ref()?)
            .then(|| BTreeSet::from([END_PORT]));
    };
    let is_base = key.port == PortNum::ZERO && !switch.info.enhanced_port0();
    let supports_mapping = node
        .port(PortNum::ZERO)?
        .info
        .as_ref()
        .is_some_and(supports_mapping);
    if is_base || !supports_mapping || source.engine_has_lanes {
        return None;
    }
    if takes_all_inputs(source, key, switch) {
        return Some(BTreeSet::from([ALL_INPUTS]));
    }
    Some(inputs(node, key.port).collect())
}

/// The blocks for packets from the input `key` of a switch to its other ports, each as (output,
/// block). Such blocks are planned only once `key` has answered.
pub(super) fn from_input(source: &Source<'_>, key: PortKey) -> Vec<(PortKey, u16)> {
    let node = source.hardware.node(key.node);
    let Some(node) = node.filter(|node| node.is_switch() && key.port != PortNum::ZERO) else {
        return Vec::new();
    };
    let block = u16::from(key.port.0);
    let ports = (0..=u8::MAX).take(node.ports.len());
    let outputs = ports.map(|port| PortKey::new(key.node, PortNum(port)));
    let is_planned = |output: &PortKey| {
        *output != key && blocks(source, *output).is_some_and(|blocks| blocks.contains(&block))
    };
    outputs
        .filter(is_planned)
        .map(|output| (output, block))
        .collect()
}

/// Whether the device supports SL to VL mapping (IsSLMappingSupported). Port 0 shows it for a
/// switch.
fn supports_mapping(info: &PortInfo) -> bool {
    let capabilities = info.capability_mask();
    capabilities.contains(CapabilityMask::IS_SL_MAPPING_SUPPORTED)
}

/// Whether one block sets the VLs of all inputs of an output.
fn takes_all_inputs(source: &Source<'_>, key: PortKey, switch: &InventorySwitch) -> bool {
    source.qos.is_some_and(|qos| qos.optimized)
        && switch.info.optimized_sl_to_vl_mapping_programming() != 0
        && !(source.hardware).has_habit(key, DeviceHabit::RefusesOptimizedSlToVl)
}

/// The inputs from which packets go to an output: port 0 of the switch, and every other port whose
/// link is up.
fn inputs(node: &InventoryNode, output: PortNum) -> impl Iterator<Item = u16> {
    let up = node.external_ports().filter(|(_, port)| port.is_up());
    let others = up.map(|(number, _)| number);
    let all = std::iter::once(PortNum::ZERO).chain(others);
    all.filter(move |&input| input != output || output == PortNum::ZERO)
        .map(|input| u16::from(input.0))
}

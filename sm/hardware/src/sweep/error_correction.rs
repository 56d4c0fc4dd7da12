//! Reads the error correction of links: PortInfoExtended of the ports that support it
//! (`sweep.error_correction`). The value is only shown to operators; no decision depends on it.

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{
    Attribute, CapabilityMask, CapabilityMask2, PortInfo, PortInfoExtended, PortState,
};
use rsm_mad::wire::header::AttrId;

use super::Query;
use super::inventory::Inventory;
use super::reading::Reading;

/// The attribute that states the error correction.
pub(super) const ATTRIBUTE: AttrId = PortInfoExtended::ID;

/// The AttributeModifier for the port `key`.
pub(super) fn modifier(key: PortKey) -> u32 {
    PortInfoExtended::modifier(key.port)
}

/// Asks for the error correction of a port whose link came up; `before` is the former state.
/// Forgets the known error correction if the link is down.
pub(super) fn check_error_correction(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    before: Option<PortState>,
) {
    let asks = reading.policy.reads_error_correction && key.port != PortNum::ZERO;
    let Some(port) = inventory.hardware.port(key) else {
        return;
    };
    let is_known = port.error_correction.is_some();
    if !asks || !port.is_up() {
        if is_known && let Some(port) = inventory.hardware.port_mut(key) {
            port.error_correction = None;
        }
        return;
    }
    // A link that trained again may use another code.
    if (port.is_retrained(before) || !is_known)
        && port.info.as_ref().is_some_and(supports_attribute)
    {
        reading.ask(Query::ErrorCorrection(key));
    }
}

/// Records the error correction that the answer `data` of a port shows. A missing answer (`None`)
/// is no fault. In both cases, the port is not asked again while its link stays up.
pub(super) fn on_error_correction(
    reading: &mut Reading,
    inventory: &mut Inventory,
    key: PortKey,
    data: Option<&[u8; 64]>,
) {
    let mode = data.and_then(|data| PortInfoExtended::from_data(data).fec_mode());
    if inventory
        .hardware
        .port(key)
        .is_some_and(|port| port.is_up() && port.error_correction != Some(mode))
        && let Some(port) = inventory.hardware.port_mut(key)
    {
        port.error_correction = Some(mode);
        reading.changed = true;
    }
}

/// Whether a port supports PortInfoExtended.
fn supports_attribute(info: &PortInfo) -> bool {
    let has_mask2 = CapabilityMask::IS_CAPABILITY_MASK2_SUPPORTED;
    let has_attribute = CapabilityMask2::IS_PORT_INFO_EXTENDED_SUPPORTED;
    info.capability_mask().contains(has_mask2) && info.capability_mask2().contains(has_attribute)
}

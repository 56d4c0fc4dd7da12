//! ExtendedPortInfo: whether links may train to FDR10, whether aggregation nodes are enabled, and
//! on which service levels adapters accept packets out of order. The sweep reads the attribute only
//! from ports that these settings concern, so that no block is planned for other ports.
//!
//! The planned content is the content read, with the planned bits changed, so that fields unknown
//! to rsm keep their values.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Attribute, ExtendedPortInfo, MlnxLinkSpeed};
use rsm_model::InventoryPort;
use rsm_model::managed::ManagedAttribute;

use super::{Planned, Source};

/// The block of a port whose features must change.
pub(super) static EXTENDED_PORT: Planned = Planned {
    blocks: |source, key, port| match wanted(source, key, port) {
        Some(_) => BTreeSet::from([0]),
        None => BTreeSet::new(),
    },
    content: |source, key, port, _| Some(*wanted(source, key, port)?.as_data()),
};

/// The content to set; `None` if the port already holds it, or nothing is planned for the port.
fn wanted(source: &Source<'_>, key: PortKey, port: &InventoryPort) -> Option<ExtendedPortInfo> {
    let held = **port.extended.as_ref()?;
    let mut info = held;
    // Fields with a bit of their own in StateChangeEnable keep their values, unless speeds must
    // change.
    info.set_state_change_enable(0);
    choose_speeds(source, &held, &mut info);
    if let Some(enables) = source.aggregation_nodes
        && held.leads_to_aggregation_node()
    {
        info.set_sharp_an_enabled(enables);
    }
    match source.out_of_order_sls {
        Some(sls) if source.hardware.takes_out_of_order(key) => {
            info.set_ooo_sl_mask(sls);
        }
        Some(_) => {}
        // Adaptive routing was turned off: the bits that this manager has set at adapters are
        // cleared.
        None => {
            let mut touched = port.managed.touched();
            if touched.any(|place| place.attribute == ManagedAttribute::ExtendedPort) {
                info.set_ooo_sl_mask(0);
            }
        }
    }
    let agrees = ManagedAttribute::ExtendedPort.agrees(0, info.as_data(), held.as_data());
    (!agrees).then_some(info)
}

/// Enables or disables FDR10 in `info`, if the port supports it and `held` shows the opposite.
fn choose_speeds(source: &Source<'_>, held: &ExtendedPortInfo, info: &mut ExtendedPortInfo) {
    let (enabled, fdr10) = (held.link_speed_enabled(), MlnxLinkSpeed::FDR10);
    let has_fdr10 = held.link_speed_supported().contains(fdr10);
    let Some(enables) = source
        .fdr10
        .filter(|&enables| enables != enabled.contains(fdr10))
    else {
        return;
    };
    if has_fdr10 {
        info.set_state_change_enable(ExtendedPortInfo::SETS_SPEED)
            .set_link_speed_enabled(if enables {
                enabled | fdr10
            } else {
                enabled.without(fdr10)
            });
    }
}

//! ExtendedPortInfo: whether links may train to FDR10, whether aggregation nodes may work, and on
//! which service levels adapters are told that packets may arrive out of order. The sweep reads it
//! from ports that these concern ([`crate::sweep::extended_port`]), so that no block is planned for
//! others.

use std::collections::BTreeSet;

use rsm_ids::PortKey;
use rsm_mad::wire::attr::{Attribute, ExtendedPortInfo, MlnxLinkSpeed};

use super::{Managed, Origin, Source};
use crate::habits::DeviceHabit;
use crate::sweep::extended_port::takes_out_of_order;
use crate::sweep::inventory::InventoryPort;

/// ExtendedPortInfo (0xFF90). A port has one block.
pub(super) const EXTENDED_PORT: Managed = Managed {
    attribute: ExtendedPortInfo::ID,
    reason: "FDR10, the aggregation node, or the service levels of packets out of order, differ",
    origin: Origin::Extended,
    modifier: |key, _| ExtendedPortInfo::modifier(key.port),
    is_readable: |_| true,
    habit: |_| Some(DeviceHabit::RefusesExtendedPortSets),
    blocks: |source, key, port| match wanted(source, key, port) {
        Some(_) => BTreeSet::from([0]),
        None => BTreeSet::new(),
    },
    content: |source, key, port, _| Some(*wanted(source, key, port)?.as_data()),
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(ExtendedPortInfo::from_data);
        are_alike(held, wanted)
    },
};

/// Whether the fields that are set are alike.
fn are_alike(a: &ExtendedPortInfo, b: &ExtendedPortInfo) -> bool {
    let set = |info: &ExtendedPortInfo| {
        let speeds = info.link_speed_enabled();
        (speeds, info.sharp_an_enabled(), info.ooo_sl_mask())
    };
    set(a) == set(b)
}

/// The content to set; `None` where the port holds it, or nothing is wanted of it.
fn wanted(source: &Source<'_>, key: PortKey, port: &InventoryPort) -> Option<ExtendedPortInfo> {
    let held = **port.extended.as_ref()?;
    let mut info = held;
    // Fields with a bit of their own in StateChangeEnable stay, but for speeds that are to change.
    info.set_state_change_enable(0);
    choose_speeds(source, &held, &mut info);
    if let Some(enables) = source.aggregation_nodes
        && held.leads_to_aggregation_node()
    {
        info.set_sharp_an_enabled(enables);
    }
    match source.out_of_order_sls {
        Some(sls) if takes_out_of_order(source.inventory, key) => {
            info.set_ooo_sl_mask(sls);
        }
        Some(_) => {}
        // Adaptive routing was turned off: what this manager has told adapters is taken back.
        None => {
            let mut touched = port.managed.touched();
            if touched.any(|place| place.managed().attribute == ExtendedPortInfo::ID) {
                info.set_ooo_sl_mask(0);
            }
        }
    }
    (!are_alike(&info, &held)).then_some(info)
}

/// Enables or disables FDR10 in `info`, where the port has it and `held` is otherwise.
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

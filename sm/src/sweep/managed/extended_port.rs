//! ExtendedPortInfo, with the operator's choice about FDR10. The sweep reads it from ports whose
//! link may run at FDR10 ([`crate::sweep::extended_port`]), so that no block is planned for others.

use std::collections::BTreeSet;

use rsm_mad::wire::attr::{Attribute, ExtendedPortInfo, MlnxLinkSpeed};

use super::{Managed, Origin, Source};
use crate::habits::DeviceHabit;
use crate::sweep::inventory::InventoryPort;

/// ExtendedPortInfo (0xFF90). A port has one block; only the speeds that it may train to are set.
pub(super) const EXTENDED_PORT: Managed = Managed {
    attribute: ExtendedPortInfo::ID,
    reason: "FDR10 is enabled or disabled (links.fdr10)",
    origin: Origin::Speed,
    modifier: |key, _| ExtendedPortInfo::modifier(key.port),
    is_readable: |_| true,
    habit: |_| Some(DeviceHabit::RefusesFdr10),
    blocks: |source, _, port| match wanted(source, port) {
        Some(_) => BTreeSet::from([0]),
        None => BTreeSet::new(),
    },
    content: |source, _, port, _| Some(*wanted(source, port)?.as_data()),
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(ExtendedPortInfo::from_data);
        held.link_speed_enabled() == wanted.link_speed_enabled()
    },
};

/// The content to set; `None` where the port has no FDR10, or has it enabled or disabled already.
fn wanted(source: &Source<'_>, port: &InventoryPort) -> Option<ExtendedPortInfo> {
    let enables = source.fdr10?;
    let mut info = **port.extended.as_ref()?;
    let (held, fdr10) = (info.link_speed_enabled(), MlnxLinkSpeed::FDR10);
    let has_fdr10 = info.link_speed_supported().contains(fdr10);
    if !has_fdr10 || held.contains(fdr10) == enables {
        return None;
    }
    info.set_state_change_enable(ExtendedPortInfo::SETS_SPEED)
        .set_link_speed_enabled(if enables {
            held | fdr10
        } else {
            held.without(fdr10)
        });
    Some(info)
}

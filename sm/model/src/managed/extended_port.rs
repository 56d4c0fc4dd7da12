//! ExtendedPortInfo: the vendor's features of a port.

use rsm_mad::wire::attr::{Attribute, ExtendedPortInfo};

use super::{Managed, Origin};
use crate::habits::DeviceHabit;

/// ExtendedPortInfo (0xFF90), one block for each port.
pub(super) static EXTENDED_PORT: Managed = Managed {
    attribute: ExtendedPortInfo::ID,
    name: "ExtendedPortInfo",
    reason: "FDR10, the aggregation node, or the service levels of packets out of order, differ",
    origin: Origin::Extended,
    modifier: |key, _| ExtendedPortInfo::modifier(key.port),
    is_readable: |_| true,
    habit: |_| Some(DeviceHabit::RefusesExtendedPortSets),
    agrees: |_, held, wanted| {
        let [held, wanted] = [held, wanted].map(ExtendedPortInfo::from_data);
        are_alike(held, wanted)
    },
};

/// Whether both have equal values in the fields that rsm sets.
fn are_alike(a: &ExtendedPortInfo, b: &ExtendedPortInfo) -> bool {
    let set = |info: &ExtendedPortInfo| {
        let speeds = info.link_speed_enabled();
        (speeds, info.sharp_an_enabled(), info.ooo_sl_mask())
    };
    set(a) == set(b)
}

//! The keys of section `qos` that each class of ports has for itself.

use super::key::{Applies, ConfigKey, Place};
use super::number;
use crate::convert::Convert;
use crate::value::Takes;
use crate::{SlToVl, VlWeights};

/// The keys of section `qos` for one class of ports. If a key is not set, the key for all ports
/// applies.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct QosKeys {
    /// Maximum number of data VLs, 1 to 15.
    pub max_vls: Option<u8>,
    /// PortInfo.VLHighLimit.
    pub high_limit: Option<u8>,
    /// VLs and weights of the high-priority table.
    pub vlarb_high: Option<VlWeights>,
    /// VLs and weights of the low-priority table.
    pub vlarb_low: Option<VlWeights>,
    /// The VL of each SL.
    pub sl2vl: Option<SlToVl>,
}

impl QosKeys {
    /// These keys, with keys that are not set taken from `others`.
    pub fn or(self, others: &QosKeys) -> QosKeys {
        let weights = |own: Option<VlWeights>, other: &Option<VlWeights>| own.or(other.clone());
        QosKeys {
            max_vls: self.max_vls.or(others.max_vls),
            high_limit: self.high_limit.or(others.high_limit),
            vlarb_high: weights(self.vlarb_high, &others.vlarb_high),
            vlarb_low: weights(self.vlarb_low, &others.vlarb_low),
            sl2vl: self.sl2vl.or(others.sl2vl),
        }
    }
}

/// Declares the keys of each class of ports in section `qos`: the field, the prefixes of the keys
/// in rsm and in OpenSM, and the ports in words.
macro_rules! qos_keys {
    ($($class:ident, $prefix:literal, $theirs:literal, $ports:literal;)+) => {
        pub(super) const QOS_KEYS: &[ConfigKey] = &[$(
            qos_keys!(
                $class.max_vls, $prefix, None, number(1, 15), "8",
                concat!(" `max_vls` of ", $ports, ".")
            ),
            qos_keys!(
                $class.high_limit, $prefix, Some((concat!($theirs, "high_limit"), Convert::Limit)),
                number(0, 255), "0", concat!(" `high_limit` of ", $ports, ".")
            ),
            qos_keys!(
                $class.vlarb_high, $prefix, Some((concat!($theirs, "vlarb_high"), Convert::Text)),
                <Option<VlWeights> as Takes>::KIND, "\"0:4,1:0\"",
                concat!(" `vlarb_high` of ", $ports, ".")
            ),
            qos_keys!(
                $class.vlarb_low, $prefix, Some((concat!($theirs, "vlarb_low"), Convert::Text)),
                <Option<VlWeights> as Takes>::KIND, "\"0:0,1:4\"",
                concat!(" `vlarb_low` of ", $ports, ".")
            ),
            qos_keys!(
                $class.sl2vl, $prefix, Some((concat!($theirs, "sl2vl"), Convert::SlToVl)),
                <Option<SlToVl> as Takes>::KIND, "\"0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,7\"",
                concat!(" `sl2vl` of ", $ports, ".")
            ),
        )+];
    };
    (
        $class:ident.$key:ident, $prefix:literal, $opensm:expr, $kind:expr, $example:literal,
        $doc:expr
    ) => {
        ConfigKey {
            section: "qos",
            key: concat!($prefix, stringify!($key)),
            doc: &[$doc],
            kind: $kind,
            example: $example,
            opensm: $opensm,
            applies: Applies::OnReload,
            place: Place::Key(|config| &mut config.qos.$class.$key),
        }
    };
}

qos_keys! {
    ca, "ca_", "qos_ca_", "ports of channel adapters";
    sw0, "sw0_", "qos_sw0_", "port 0 of switches, where it is an enhanced one";
    swe, "swe_", "qos_swe_", "external ports of switches";
    sw2sw, "sw2sw_", "qos_sw2sw_", "external ports of switches that lead to a switch; not set: those of `swe_`";
    rtr, "rtr_", "qos_rtr_", "ports of routers";
}

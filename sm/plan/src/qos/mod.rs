//! Quality of service: the operator's tables by which service levels (SLs) and virtual lanes (VLs)
//! share links, for each class of ports (IBA 7.6).
//!
//! [`Qos`] has the operator's decisions. [`PortTables`] derives the content of one port's tables
//! from it, for any [`Subnet`] that has PortInfo and cables.
//!
//! These tables are managed attributes ([`crate::managed`]): the sweep reads them, the comparison
//! finds differences and the push writes them, block by block. A link becomes Active once both ends
//! have answered with their tables. A device that refuses the tables gets a recorded habit, and
//! carries data without these tables. Rules about paths are part of the plan's policy, so that the
//! SA applies the rules of the same snapshot.

mod tables;

use rsm_config::{QosConfig, QosKeys, VlWeights};
use rsm_mad::wire::attr::NodeType;
use rsm_routing::lanes::{DROP, Row};

pub use self::tables::{PortTables, Subnet, vl_codes};

/// A class of ports with its own set of tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PortClass {
    /// A port of a channel adapter.
    ChannelAdapter,
    /// Port 0 of a switch.
    SwitchPort0,
    /// An external port of a switch that leads to no switch.
    SwitchExternal,
    /// An external port of a switch that leads to a switch.
    SwitchToSwitch,
    /// A port of a router.
    Router,
}

impl PortClass {
    /// Every class.
    pub const ALL: [PortClass; 5] = [
        PortClass::ChannelAdapter,
        PortClass::SwitchPort0,
        PortClass::SwitchExternal,
        PortClass::SwitchToSwitch,
        PortClass::Router,
    ];

    /// The class of a port of a node of kind `node`. `is_port0` says whether it is port 0; `peer`
    /// is the kind of node at the other end of its cable.
    pub fn of(node: NodeType, is_port0: bool, peer: Option<NodeType>) -> PortClass {
        match (node, is_port0, peer) {
            (NodeType::Switch, true, _) => PortClass::SwitchPort0,
            (NodeType::Switch, false, Some(NodeType::Switch)) => PortClass::SwitchToSwitch,
            (NodeType::Switch, false, _) => PortClass::SwitchExternal,
            (NodeType::Router, ..) => PortClass::Router,
            _ => PortClass::ChannelAdapter,
        }
    }

    /// Name of the class, as in its configuration keys.
    pub const fn name(self) -> &'static str {
        match self {
            PortClass::ChannelAdapter => "ca",
            PortClass::SwitchPort0 => "sw0",
            PortClass::SwitchExternal => "swe",
            PortClass::SwitchToSwitch => "sw2sw",
            PortClass::Router => "rtr",
        }
    }
}

/// The tables of a class of ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QosSet {
    /// Maximum number of data VLs, 1 to 15.
    pub max_vls: u8,
    /// PortInfo.VLHighLimit.
    pub high_limit: u8,
    /// VLs and weights of the high-priority table.
    pub high: VlWeights,
    /// VLs and weights of the low-priority table.
    pub low: VlWeights,
    /// The VL of each SL.
    pub sl2vl: Row,
}

/// The operator's tables of all classes of ports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Qos {
    /// Tables in the order of [`PortClass::ALL`].
    sets: [QosSet; PortClass::ALL.len()],
    /// Whether a switch that supports it gets one SLtoVLMappingTable for all inputs of an output.
    pub optimized: bool,
    /// Highest OperationalVLs code of any port, 1 to 5.
    pub max_op_vls: u8,
}

/// Default maximum number of data VLs: all of them.
const MAX_VLS: u8 = 15;
/// Default high-priority table: only VL 0.
const HIGH: &str = "0:4,1:0,2:0,3:0,4:0,5:0,6:0,7:0,8:0,9:0,10:0,11:0,12:0,13:0,14:0";
/// Default low-priority table: all VLs but VL 0, equally.
const LOW: &str = "0:0,1:4,2:4,3:4,4:4,5:4,6:4,7:4,8:4,9:4,10:4,11:4,12:4,13:4,14:4";
/// Default mapping: each SL has its own VL, except SL 15, which shares VL 7 because VL 15 carries
/// no data.
const SL2VL: Row = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 7];

impl Qos {
    /// The tables of section `qos`; `None` if the section is off. `max_op_vls` is the highest
    /// OperationalVLs code of any port.
    pub fn of(config: &QosConfig, max_op_vls: u8) -> Option<Qos> {
        let general = general(config);
        config.enabled.then(|| Qos {
            sets: PortClass::ALL.map(|class| QosSet::of(keys(config, class).or(&general))),
            optimized: config.optimized_sl2vl,
            max_op_vls,
        })
    }

    /// The tables of a class.
    pub fn set(&self, class: PortClass) -> &QosSet {
        &self.sets[class as usize]
    }

    /// Highest OperationalVLs code of a port of this class.
    pub(crate) fn most_vls(&self, class: PortClass) -> u8 {
        code_of(self.set(class).max_vls).min(self.max_op_vls)
    }
}

impl QosSet {
    /// The tables according to `keys`, with the defaults for keys that are not set.
    fn of(keys: QosKeys) -> QosSet {
        let weights = |given: Option<VlWeights>, default| {
            let given = given.or_else(|| VlWeights::parse(default));
            given.unwrap_or_default()
        };
        QosSet {
            max_vls: keys.max_vls.unwrap_or(MAX_VLS),
            high_limit: keys.high_limit.unwrap_or(0),
            high: weights(keys.vlarb_high, HIGH),
            low: weights(keys.vlarb_low, LOW),
            sl2vl: keys.sl2vl.map_or(SL2VL, |given| given.0),
        }
    }

    /// The SLtoVLMappingTable of a port with the OperationalVLs code `vls`, 1 to 5.
    pub fn row(&self, vls: u8) -> Row {
        self.sl2vl.map(|vl| fold(vl, vls))
    }
}

/// The VL that replaces `vl` at a port with the OperationalVLs code `vls`: `vl` modulo the port's
/// number of VLs, a power of two. VL 15 drops packets at any number of VLs.
pub fn fold(vl: u8, vls: u8) -> u8 {
    if vl == DROP {
        return DROP;
    }
    vl & ((1 << (vls.clamp(1, 5) - 1)) - 1)
}

/// Highest OperationalVLs code with at most `vls` data VLs.
fn code_of(vls: u8) -> u8 {
    match vls {
        0..2 => 1,
        2..4 => 2,
        4..8 => 3,
        8..15 => 4,
        _ => 5,
    }
}

/// The keys that apply to every port.
fn general(config: &QosConfig) -> QosKeys {
    QosKeys {
        max_vls: config.max_vls,
        high_limit: config.high_limit,
        vlarb_high: config.vlarb_high.clone(),
        vlarb_low: config.vlarb_low.clone(),
        sl2vl: config.sl2vl,
    }
}

/// The keys of a class. Links between switches use the keys of external ports unless they have keys
/// of their own.
fn keys(config: &QosConfig, class: PortClass) -> QosKeys {
    let own = match class {
        PortClass::ChannelAdapter => &config.ca,
        PortClass::SwitchPort0 => &config.sw0,
        PortClass::SwitchExternal => &config.swe,
        PortClass::SwitchToSwitch => return config.sw2sw.clone().or(&config.swe),
        PortClass::Router => &config.rtr,
    };
    own.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_class_override_general_keys() {
        let config = QosConfig {
            enabled: true,
            high_limit: Some(7),
            vlarb_high: VlWeights::parse("1:2"),
            swe: QosKeys {
                high_limit: Some(9),
                ..QosKeys::default()
            },
            sw2sw: QosKeys {
                vlarb_high: VlWeights::parse("2:3"),
                ..QosKeys::default()
            },
            ca: QosKeys {
                max_vls: Some(6),
                ..QosKeys::default()
            },
            ..QosConfig::default()
        };
        assert_eq!(
            Qos::of(
                &QosConfig {
                    enabled: false,
                    ..config.clone()
                },
                5
            ),
            None
        );
        let qos = Qos::of(&config, 4).unwrap();
        let limit = |class| qos.set(class).high_limit;
        assert_eq!(limit(PortClass::ChannelAdapter), 7);
        assert_eq!(limit(PortClass::SwitchExternal), 9);
        assert_eq!(limit(PortClass::SwitchToSwitch), 9);
        let high = |class| qos.set(class).high.to_string();
        assert_eq!(high(PortClass::Router), "1:2");
        assert_eq!(high(PortClass::SwitchToSwitch), "2:3");
        assert_eq!(qos.set(PortClass::SwitchPort0).low.to_string(), LOW);
        assert_eq!(qos.most_vls(PortClass::ChannelAdapter), 3);
        assert_eq!(qos.most_vls(PortClass::Router), 4);
    }

    #[test]
    fn vls_fold_modulo_their_number_and_vl_15_always_drops() {
        let folded: Vec<u8> = (1..=5).map(|vls| fold(14, vls)).collect();
        assert_eq!(folded, [0, 0, 2, 6, 14]);
        assert!((1..=5).all(|vls| fold(DROP, vls) == DROP));
        // An invalid code counts as the nearest valid one.
        assert_eq!((fold(14, 0), fold(14, 9)), (0, 14));
        let vls: Vec<u8> = [1, 2, 3, 4, 7, 8, 14, 15].map(code_of).to_vec();
        assert_eq!(vls, [1, 2, 2, 3, 3, 4, 4, 5]);
    }
}

//! The content of the QoS tables of one port.

use rsm_ids::{PortKey, PortNum};
use rsm_mad::wire::attr::{
    NodeType, PortInfo, PortState, VlArbitration, VlArbitrationBlock, VlArbitrationEntry,
};
use rsm_model::Hardware;
use rsm_model::fabric::Fabric;
use rsm_routing::lanes::Row;

use super::{PortClass, Qos, QosSet, fold};

/// PortInfo and cables of a subnet, from which QoS tables are derived.
pub trait Subnet {
    /// The kind of the port's node.
    fn kind(&self, port: PortKey) -> Option<NodeType>;

    /// The last PortInfo of the port; `None` if the port never answered.
    fn info(&self, port: PortKey) -> Option<&PortInfo>;

    /// The other end of the port's cable; `None` without a cable.
    fn peer(&self, port: PortKey) -> Option<PortKey>;
}

impl Subnet for Hardware {
    fn kind(&self, port: PortKey) -> Option<NodeType> {
        Some(self.node(port.node)?.kind())
    }

    fn info(&self, port: PortKey) -> Option<&PortInfo> {
        self.port(port)?.info.as_ref()
    }

    fn peer(&self, port: PortKey) -> Option<PortKey> {
        self.port(port)?.peer
    }
}

impl Subnet for Fabric {
    fn kind(&self, port: PortKey) -> Option<NodeType> {
        Some(self.node_of(port.node)?.kind())
    }

    fn info(&self, port: PortKey) -> Option<&PortInfo> {
        self.port(self.find_port(port)?).info.as_ref()
    }

    fn peer(&self, port: PortKey) -> Option<PortKey> {
        self.port(self.find_port(port)?).peer
    }
}

/// The tables of one port.
#[derive(Clone, Copy, Debug)]
pub struct PortTables<'a> {
    info: &'a PortInfo,
    set: &'a QosSet,
    /// OperationalVLs code for which the tables are made: 1 (VL0) to 5 (VL0 to VL14).
    pub vls: u8,
}

impl<'a> PortTables<'a> {
    /// The tables of `port`. `None` if the port or its node never answered, if PortState is Down or
    /// 0, or if the node at the other end of the cable is unknown.
    pub fn of(qos: &'a Qos, subnet: &'a impl Subnet, port: PortKey) -> Option<PortTables<'a>> {
        let info = subnet.info(port)?;
        if matches!(info.port_state(), PortState::Down | PortState::NoChange) {
            return None;
        }
        let peer = subnet.peer(port);
        let kind = subnet.kind(port)?;
        let class = class(subnet, port, peer)?;
        let is_port0 = kind == NodeType::Switch && port.port == PortNum::ZERO;
        let held = info.operational_vls().code().clamp(1, 5);
        // A link that carries data keeps its number of VLs.
        let vls = match peer.and_then(|peer| Some((peer, subnet.info(peer)?))) {
            Some((peer, theirs)) if !is_port0 && info.port_state() != PortState::Active => {
                let peer_class = self::class(subnet, peer, Some(port))?;
                let most = vl_codes(info, theirs).min(qos.max_op_vls);
                let most = most.min(qos.most_vls(class)).min(qos.most_vls(peer_class));
                most.clamp(1, 5)
            }
            _ => held,
        };
        Some(PortTables {
            info,
            set: qos.set(class),
            vls,
        })
    }

    /// The VL of each SL, from any input to this port.
    pub fn row(&self) -> Row {
        self.set.row(self.vls)
    }

    /// The blocks of the port's VLArbitrationTable; empty if the port has only one data VL, which
    /// needs no arbitration (IBA 7.6.9).
    pub fn blocks(&self) -> impl Iterator<Item = VlArbitrationBlock> + use<> {
        let [low, high] = self.capacities();
        let lower = VlArbitration::ENTRIES as u8;
        [
            (VlArbitrationBlock::LowPriorityLower, low > 0),
            (VlArbitrationBlock::LowPriorityUpper, low > lower),
            (VlArbitrationBlock::HighPriorityLower, high > 0),
            (VlArbitrationBlock::HighPriorityUpper, high > lower),
        ]
        .into_iter()
        .filter_map(|(block, exists)| exists.then_some(block))
    }

    /// Number of entries in the tables of low and of high priority.
    fn capacities(&self) -> [u8; 2] {
        if self.info.vl_cap().code() <= 1 {
            return [0, 0];
        }
        let info = self.info;
        [
            info.vl_arbitration_low_cap(),
            info.vl_arbitration_high_cap(),
        ]
    }

    /// The content of a block. Entries that the operator does not set, or that the port does not
    /// support, have weight 0.
    pub fn block(&self, block: VlArbitrationBlock) -> VlArbitration {
        let [low, high] = self.capacities();
        let (weights, capacity, first) = match block {
            VlArbitrationBlock::LowPriorityLower => (&self.set.low, low, 0),
            VlArbitrationBlock::LowPriorityUpper => (&self.set.low, low, VlArbitration::ENTRIES),
            VlArbitrationBlock::HighPriorityLower => (&self.set.high, high, 0),
            VlArbitrationBlock::HighPriorityUpper => (&self.set.high, high, VlArbitration::ENTRIES),
        };
        let mut table = VlArbitration::default();
        let entries = weights.entries().iter().take(usize::from(capacity));
        for (slot, &(vl, weight)) in table.entries_mut().iter_mut().zip(entries.skip(first)) {
            *slot = VlArbitrationEntry::new(fold(vl, self.vls), weight);
        }
        table
    }
}

/// Code of the largest number of VLs that both ends of a link support, at least 1.
pub fn vl_codes(ours: &PortInfo, theirs: &PortInfo) -> u8 {
    let codes = [ours, theirs].map(|info| info.vl_cap().code());
    codes[0].min(codes[1]).max(1)
}

fn class(subnet: &impl Subnet, port: PortKey, peer: Option<PortKey>) -> Option<PortClass> {
    let peer = peer.and_then(|peer| subnet.kind(peer));
    let is_port0 = port.port == PortNum::ZERO;
    Some(PortClass::of(subnet.kind(port)?, is_port0, peer))
}

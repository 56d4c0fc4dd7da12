//! The counters of the whole fabric, and the reasons for losses.

use std::fmt;

use rsm_mad::wire::header::{AttrId, Method};

/// The reason why a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// An injected fault lost the packet: of the fabric, an attribute, a link or a node.
    Loss,
    /// The exit port has no link that is up.
    LinkDown,
    /// The port does not exist.
    NoSuchPort,
    /// The state of the port does not let this kind of packet pass (IBA 7.2.7).
    PortState,
    /// The hop pointer, hop count or path of a directed-route SMP is not valid here (IBA 14.2.2).
    BadPath,
    /// A directed-route SMP with a LID-routed part, which this fabric does not model.
    MixedRoute,
    /// A LID-routed SMP arrived at a node where such routes are not valid.
    InvalidRoute,
    /// The DLID is above LinearFDBTop, or its entry drops packets.
    NoRoute,
    /// The packet arrived at an end port that does not hold its DLID.
    WrongPort,
    /// The packet crossed more than 64 switches.
    Loop,
    /// The agent's VL15 buffer was full.
    BufferFull,
    /// The node is off, or was switched off while the packet was at its agent.
    NodeOff,
    /// The agent of the node is silent.
    Silent,
    /// The M_Key did not match (IBA 14.2.4).
    MKey,
    /// A port that the packet left or reached does not belong to its partition, or both ends are
    /// limited members (IBA 10.9.3).
    PKey,
    /// The CC_Key did not match (IBA A10.5).
    CcKey,
    /// No agent or client at the destination accepts this kind of datagram.
    NoClient,
    /// An answer or a trap could not be addressed: its destination LID or its source LID is not
    /// set.
    NoAddress,
    /// A response arrived after the timeout of its request, or without a request.
    TooLate,
    /// SLtoVL maps the packet to VL15, or to a VL that is not in operation.
    VirtualLane,
    /// The packet is larger than the link's MTU.
    Mtu,
    /// More packets would be in flight than the configuration allows.
    FabricFull,
    /// The output queue is full, because nothing polled it.
    ClientFull,
}

impl DropReason {
    /// Every reason for a loss.
    pub const ALL: [DropReason; 23] = [
        DropReason::Loss,
        DropReason::LinkDown,
        DropReason::NoSuchPort,
        DropReason::PortState,
        DropReason::BadPath,
        DropReason::MixedRoute,
        DropReason::InvalidRoute,
        DropReason::NoRoute,
        DropReason::WrongPort,
        DropReason::Loop,
        DropReason::BufferFull,
        DropReason::NodeOff,
        DropReason::Silent,
        DropReason::MKey,
        DropReason::PKey,
        DropReason::CcKey,
        DropReason::NoClient,
        DropReason::NoAddress,
        DropReason::TooLate,
        DropReason::VirtualLane,
        DropReason::Mtu,
        DropReason::FabricFull,
        DropReason::ClientFull,
    ];
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DropReason::Loss => "loss",
            DropReason::LinkDown => "link down",
            DropReason::NoSuchPort => "no such port",
            DropReason::PortState => "port state",
            DropReason::BadPath => "bad path",
            DropReason::MixedRoute => "mixed route",
            DropReason::InvalidRoute => "invalid route",
            DropReason::NoRoute => "no route",
            DropReason::WrongPort => "wrong port",
            DropReason::Loop => "loop",
            DropReason::BufferFull => "buffer full",
            DropReason::NodeOff => "node off",
            DropReason::Silent => "silent",
            DropReason::MKey => "M_Key",
            DropReason::PKey => "P_Key",
            DropReason::CcKey => "CC_Key",
            DropReason::NoClient => "no client",
            DropReason::NoAddress => "no address",
            DropReason::TooLate => "too late",
            DropReason::VirtualLane => "virtual lane",
            DropReason::Mtu => "MTU",
            DropReason::FabricFull => "fabric full",
            DropReason::ClientFull => "client full",
        })
    }
}

/// The attributes that have their own counter; all other attributes share one more counter.
const COUNTED_ATTRIBUTES: [AttrId; 28] = [
    AttrId::NOTICE,
    AttrId::NODE_DESCRIPTION,
    AttrId::NODE_INFO,
    AttrId::SWITCH_INFO,
    AttrId::GUID_INFO,
    AttrId::PORT_INFO,
    AttrId::P_KEY_TABLE,
    AttrId::SL_TO_VL_MAPPING,
    AttrId::VL_ARBITRATION,
    AttrId::LINEAR_FORWARDING_TABLE,
    AttrId::RANDOM_FORWARDING_TABLE,
    AttrId::MULTICAST_FORWARDING_TABLE,
    AttrId::SM_INFO,
    AttrId::AR_INFO,
    AttrId::PORT_INFO_EXTENDED,
    AttrId::SWITCH_PORT_STATE_TABLE,
    AttrId::GENERAL_INFO,
    AttrId::EXTENDED_PORT_INFO,
    AttrId::EXTENDED_NODE_INFO,
    AttrId::EXTENDED_SWITCH_INFO,
    AttrId::VIRTUALIZATION_INFO,
    AttrId::VPORT_INFO,
    AttrId::VNODE_INFO,
    AttrId::VPORT_STATE,
    AttrId::VNODE_DESCRIPTION,
    AttrId::VPORT_GUID_INFO,
    AttrId::VPORT_P_KEY_TABLE,
    AttrId::QOS_CONFIG_SL,
];

/// The index of the counter of an attribute.
const fn slot(attribute: AttrId) -> usize {
    let mut index = 0;
    while index < COUNTED_ATTRIBUTES.len() {
        if COUNTED_ATTRIBUTES[index].0 == attribute.0 {
            return index;
        }
        index += 1;
    }
    COUNTED_ATTRIBUTES.len()
}

/// The counters of the fabric.
///
/// Every packet ever created is counted: `sent + traps + duplicates == delivered + consumed +
/// dropped() + in_flight`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimCounters {
    /// The number of datagrams that clients sent.
    pub sent: u64,
    /// The number of traps that agents sent, repetitions included.
    pub traps: u64,
    /// The number of answers that a fault duplicated.
    pub duplicates: u64,
    /// The number of datagrams that clients received.
    pub delivered: u64,
    /// The number of datagrams that agents received and do not answer: TrapRepress.
    pub consumed: u64,
    /// The number of packets in flight.
    pub in_flight: u64,
    /// The number of requests that agents answered.
    pub answered: u64,
    get: [u64; COUNTED_ATTRIBUTES.len() + 1],
    set: [u64; COUNTED_ATTRIBUTES.len() + 1],
    dropped: [u64; DropReason::ALL.len()],
}

impl SimCounters {
    /// The number of requests that reached agents, by attribute and method. Attributes without a
    /// name in [`AttrId`] are counted together; methods other than Get and Set are not counted.
    pub fn received(&self, attribute: AttrId, method: Method) -> u64 {
        match method {
            Method::GET => self.get[slot(attribute)],
            Method::SET => self.set[slot(attribute)],
            _ => 0,
        }
    }

    /// The number of Gets that reached agents.
    pub fn gets(&self) -> u64 {
        self.get.iter().sum()
    }

    /// The number of Sets that reached agents.
    pub fn sets(&self) -> u64 {
        self.set.iter().sum()
    }

    /// The number of packets lost for one reason.
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// The number of packets lost.
    pub fn dropped(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// The numbers of received requests that are not zero: the attribute, the Gets, the Sets.
    /// Attributes without a counter of their own come last, as `None`.
    pub fn by_attribute(&self) -> impl Iterator<Item = (Option<AttrId>, u64, u64)> + '_ {
        (0..=COUNTED_ATTRIBUTES.len())
            .map(|index| {
                (
                    COUNTED_ATTRIBUTES.get(index).copied(),
                    self.get[index],
                    self.set[index],
                )
            })
            .filter(|&(_, get, set)| get + set > 0)
    }

    pub(crate) fn count_request(&mut self, attribute: AttrId, method: Method) {
        match method {
            Method::GET => self.get[slot(attribute)] += 1,
            Method::SET => self.set[slot(attribute)] += 1,
            _ => {}
        }
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_drop_reason_has_its_own_counter() {
        for (index, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }

    #[test]
    fn attributes_without_a_name_are_counted_together() {
        let mut counters = SimCounters::default();
        counters.count_request(AttrId(0xFFFF), Method::GET);
        counters.count_request(AttrId::PORT_INFO, Method::SET);
        assert_eq!(counters.received(AttrId(0xFF00), Method::GET), 1);
        let seen: Vec<_> = counters.by_attribute().collect();
        assert_eq!(seen, [(Some(AttrId::PORT_INFO), 0, 1), (None, 1, 0)]);
    }
}

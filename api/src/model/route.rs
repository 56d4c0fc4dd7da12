use rsm_ids::{Guid, Lid, PortNum};

use super::{NodeKind, PortKey};

/// A node that a packet passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The GUID of the node.
    pub node: Guid,
    /// The node's description.
    pub description: String,
    /// The kind of that node.
    pub kind: NodeKind,
    /// The port that the packet comes in by; none at the source.
    pub in_port: Option<PortNum>,
    /// The port that the packet leaves by; none at the destination, and where the packet is
    /// dropped.
    pub out_port: Option<PortNum>,
}

/// How the walk along the forwarding tables ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOutcome {
    /// At the destination.
    Delivered,
    /// At the last hop, which does not forward the LID; `reason` says why in a few words.
    Dropped {
        /// Why, for instance "no entry for LID 17" or "port 3 is down".
        reason: String,
    },
    /// The last hop was passed before.
    Loop,
}

/// The path from one port to another, by the switches' forwarding tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The generation of the snapshot that the tables come from.
    pub generation: u64,
    /// The port that the packet starts at.
    pub source: PortKey,
    /// The destination port of the packet.
    pub destination: PortKey,
    /// The LID that the packet carries.
    pub lid: Lid,
    /// Every node on the way, the source first.
    pub hops: Vec<Hop>,
    /// How it ended.
    pub outcome: RouteOutcome,
}

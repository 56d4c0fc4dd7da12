use super::{MissingKind, PortKey, PortState};

/// Something that was there before and is not. Its key is [`Missing::key`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The port of a single cable; port 0 of the node for a node or several cables of one.
    pub key: PortKey,
    /// What it is.
    pub kind: MissingKind,
    /// The node's description, or its GUID where it had none.
    pub name: String,
    /// Where it was cabled to: `leaf-03 port 7 and 3 more`.
    pub place: String,
    /// When it went, in milliseconds since the Unix epoch; none where that was while no subnet manager ran.
    pub lost_unix_ms: Option<u64>,
    /// The state of its port before.
    pub last_state: PortState,
    /// How many cables are missing with it.
    pub cables: u64,
    /// How many hosts are missing because they hang off it.
    pub hosts_behind: u64,
    /// How many ways of packets, from a switch to a LID, the next plan led elsewhere, where that was counted.
    pub moved_routes: Option<u64>,
    /// What redundancy is left; empty where none was lost.
    pub left: String,
}

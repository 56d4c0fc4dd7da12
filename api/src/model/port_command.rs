use rsm_proto::v1;

use super::Selector;

/// A request for an action on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCommand {
    /// The port, at either end of its cable.
    pub port: Selector,
    /// The action.
    pub action: v1::PortAction,
    /// Whether ports may be cut off by it.
    pub accept_cut_off: bool,
    /// Whether the subnet manager itself may be cut off by it.
    pub accept_own_cut_off: bool,
    /// The operator, as he calls himself; empty where he does not.
    pub by: String,
    /// The reason, often empty.
    pub reason: String,
}

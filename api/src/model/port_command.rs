use rsm_proto::v1;

use super::Selector;

/// A request for an action on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCommand {
    /// The port to act on, at either end of its cable.
    pub port: Selector,
    /// The action to carry out.
    pub action: v1::PortAction,
    /// Whether the action may cut off ports.
    pub accept_cut_off: bool,
    /// Whether the action may cut off the subnet manager itself.
    pub accept_own_cut_off: bool,
    /// Whether the order of another operator may end.
    pub accept_other_operator: bool,
    /// The identity of the operator, and the name that the client states; empty if none is known.
    pub by: String,
    /// The operator's reason; empty if none is stated.
    pub reason: String,
}

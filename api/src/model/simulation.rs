use rsm_ids::PortNum;

use super::Selector;

/// A change of a simulated fabric.
///
/// The lookup covers the whole simulation, so that a node that the subnet manager has lost can be
/// restored.
#[derive(Debug, Clone, PartialEq)]
pub enum SimulationAction {
    /// Disconnects the cable from a port.
    Unlink {
        /// The node at either end of the cable, or its port.
        node: Selector,
        /// The port of that node, if `node` does not identify the port.
        port: Option<PortNum>,
    },
    /// Reconnects the former cable of a port.
    Relink {
        /// The node at either end of the cable, or its port.
        node: Selector,
        /// The port of that node, if `node` does not identify the port.
        port: Option<PortNum>,
    },
    /// Exchanges the cables of two ports, so that their far ends change places.
    SwapCables {
        /// The node at either end of the first cable, or its port.
        node: Selector,
        /// The port of that node, if `node` does not identify the port.
        port: Option<PortNum>,
        /// The node at either end of the second cable, or its port.
        other_node: Selector,
        /// The port of that node, if `other_node` does not identify the port.
        other_port: Option<PortNum>,
    },
    /// Restarts a node: the node forgets its configuration, and its links go down and up.
    Reboot {
        /// The node to restart.
        node: Selector,
    },
    /// Switches a node off.
    PowerOff {
        /// The node to switch off.
        node: Selector,
    },
    /// Switches on a node that was off.
    PowerOn {
        /// The node to switch on.
        node: Selector,
    },
    /// Drops a share of all subnet management packets.
    SetLoss {
        /// The share, 0 to 1.
        rate: f64,
        /// The attribute (IBA 14.2.5) to whose packets the loss is limited; `None` for all packets.
        attribute: Option<u16>,
    },
    /// Makes a counter of a port grow at a constant rate.
    SetErrors {
        /// The node, or its port.
        node: Selector,
        /// The port of that node, if `node` does not identify the port.
        port: Option<PortNum>,
        /// The counter's name in the specification (IBA 16.1.3.5), in any case.
        counter: String,
        /// The increment per second: a number of at least 0.
        per_second: f64,
    },
}

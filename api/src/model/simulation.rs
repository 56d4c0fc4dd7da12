use rsm_ids::PortNum;

use super::Selector;

/// A change of a simulated fabric.
///
/// The lookup covers the whole simulation, so that a node that the subnet manager lost can come
/// back.
#[derive(Debug, Clone, PartialEq)]
pub enum SimulationAction {
    /// Pull the cable out of a port.
    Unlink {
        /// The node at either end of the cable, or its port.
        node: Selector,
        /// The port on that node, where `node` does not name it.
        port: Option<PortNum>,
    },
    /// Put the cable back that the port had.
    Relink {
        /// The node at either end of the cable, or its port.
        node: Selector,
        /// The port on that node, where `node` does not name it.
        port: Option<PortNum>,
    },
    /// Exchange the cables in two ports, and so their far ends.
    SwapCables {
        /// The node at either end of the one cable, or its port.
        node: Selector,
        /// The port on that node, where `node` does not name it.
        port: Option<PortNum>,
        /// The node at either end of the other cable, or its port.
        other_node: Selector,
        /// The port on that node, where `other_node` does not name it.
        other_port: Option<PortNum>,
    },
    /// Restart a node: it forgets its configuration, and its links go down and up.
    Reboot {
        /// The node.
        node: Selector,
    },
    /// Switch a node off.
    PowerOff {
        /// The node.
        node: Selector,
    },
    /// Switch a node on that was off.
    PowerOn {
        /// The node.
        node: Selector,
    },
    /// Lose a share of all subnet management packets.
    SetLoss {
        /// The share, 0 to 1.
        rate: f64,
        /// Only packets of the attribute with this identifier (IBA 14.2.5); all without.
        attribute: Option<u16>,
    },
    /// Make a counter of a port move by itself.
    SetErrors {
        /// The node, or its port.
        node: Selector,
        /// The port, where `node` does not name it.
        port: Option<PortNum>,
        /// The counter's name in the specification (IBA 16.1.3.5), in any case.
        counter: String,
        /// By how many it moves each second: a number of at least 0.
        per_second: f64,
    },
}

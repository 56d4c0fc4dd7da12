//! The rules for netlists and the errors that name a broken one.

use rsm_ids::{Guid, PortNum};

use super::{MAX_DESCRIPTION, MAX_NODES, MAX_PORTS};

/// The rule for fabrics that nodes or cables break.
///
/// Texts name nodes by their identifiers in topology files, like `S-0002c90300001234`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetlistError {
    /// There are more nodes than a subnet has unicast LIDs.
    #[error("{count} nodes: a subnet has LIDs for at most {MAX_NODES}")]
    TooManyNodes {
        /// The number of nodes.
        count: usize,
    },
    /// A node GUID is zero.
    #[error("node {index} has the GUID 0, which names nothing")]
    ZeroGuid {
        /// The node's index.
        index: usize,
    },
    /// Two nodes have the same GUID.
    #[error("nodes {first} and {second} have the same GUID {guid}")]
    DuplicateNodeGuid {
        /// The GUID.
        guid: Guid,
        /// The index of the first of the two nodes.
        first: usize,
        /// The index of the second.
        second: usize,
    },
    /// Two ports have the same GUID.
    #[error(
        "ports {first_port} of node {first} and {second_port} of node {second} have the same GUID {guid}"
    )]
    DuplicatePortGuid {
        /// The GUID.
        guid: Guid,
        /// The index of the node with the first port.
        first: usize,
        /// The first port.
        first_port: PortNum,
        /// The index of the node with the second port.
        second: usize,
        /// The second port.
        second_port: PortNum,
    },
    /// A port GUID is zero.
    #[error("port {port} of node {id} has the GUID 0, which names nothing")]
    ZeroPortGuid {
        /// The identifier of the node.
        id: String,
        /// The number of the port.
        port: PortNum,
    },
    /// A node has no external ports, or more than [`MAX_PORTS`].
    #[error("node {id} has {num_ports} ports: expected 1 to {MAX_PORTS}")]
    PortCount {
        /// The identifier of the node.
        id: String,
        /// The number of ports of the node.
        num_ports: u8,
    },
    /// A description is too long for the NodeDescription attribute.
    #[error("the description of node {id} has {len} bytes: expected at most {MAX_DESCRIPTION}")]
    DescriptionTooLong {
        /// The identifier of the node.
        id: String,
        /// The description's length in bytes.
        len: usize,
    },
    /// A description contains a NUL, which is the padding of the NodeDescription attribute.
    #[error("the description of node {id} has a NUL byte at offset {offset}")]
    DescriptionNul {
        /// The identifier of the node.
        id: String,
        /// The position of the NUL, in bytes from 0.
        offset: usize,
    },
    /// A vendor ID has more than 24 bits.
    #[error("the vendor identity {vendor_id:#x} of node {id} has more than 24 bits")]
    VendorId {
        /// The identifier of the node.
        id: String,
        /// The value given.
        vendor_id: u32,
    },
    /// A node other than a switch has an enhanced port 0.
    #[error("node {id} is not a switch but has an enhanced port 0")]
    PortZeroOfNoSwitch {
        /// The identifier of the node.
        id: String,
    },
    /// A GUID and LID are stated for a port that is not an end port of its node.
    #[error("port {port} is not an end port of node {id}")]
    NotAnEndPort {
        /// The identifier of the node.
        id: String,
        /// The number of the port.
        port: PortNum,
    },
    /// A cable ends at a node that does not exist.
    #[error("cable {cable} ends at node {node}, and there are {count} nodes")]
    NoSuchNode {
        /// The cable's index.
        cable: usize,
        /// The node's index.
        node: usize,
        /// The number of nodes.
        count: usize,
    },
    /// A cable ends at a port that the node does not have.
    #[error("a cable ends in port {port} of node {id}: expected 1 to {num_ports}")]
    NoSuchPort {
        /// The identifier of the node.
        id: String,
        /// The number of the port.
        port: PortNum,
        /// The number of external ports of the node.
        num_ports: u8,
    },
    /// Two cables end at one port.
    #[error("two cables end in port {port} of node {id}")]
    PortInUse {
        /// The identifier of the node.
        id: String,
        /// The number of the port.
        port: PortNum,
    },
}

use rsm_ids::{Guid, PortNum};

use super::{MAX_DESCRIPTION, MAX_NODES, MAX_PORTS};

/// Nodes and cables that make no fabric.
///
/// Nodes are named by their identifiers in topology files, like `S-0002c90300001234`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetlistError {
    /// More nodes than a subnet has unicast LIDs.
    #[error("{count} nodes: a subnet has LIDs for at most {MAX_NODES}")]
    TooManyNodes {
        /// How many were given.
        count: usize,
    },
    /// A node GUID of zero.
    #[error("node {index} has the GUID 0, which names nothing")]
    ZeroGuid {
        /// The node's index.
        index: usize,
    },
    /// Two nodes with one GUID.
    #[error("nodes {first} and {second} have the same GUID {guid}")]
    DuplicateNodeGuid {
        /// The GUID.
        guid: Guid,
        /// The index of the node that had it first.
        first: usize,
        /// The index of the other node.
        second: usize,
    },
    /// Two ports with one GUID.
    #[error(
        "ports {first_port} of node {first} and {second_port} of node {second} have the same GUID {guid}"
    )]
    DuplicatePortGuid {
        /// The GUID.
        guid: Guid,
        /// The index of the node that had it first.
        first: usize,
        /// Its port.
        first_port: PortNum,
        /// The index of the other node.
        second: usize,
        /// Its port.
        second_port: PortNum,
    },
    /// A port GUID of zero.
    #[error("port {port} of node {id} has the GUID 0, which names nothing")]
    ZeroPortGuid {
        /// The node.
        id: String,
        /// The port.
        port: PortNum,
    },
    /// No ports, or more than a switch can number.
    #[error("node {id} has {num_ports} ports: expected 1 to {MAX_PORTS}")]
    PortCount {
        /// The node.
        id: String,
        /// How many ports it was given.
        num_ports: u8,
    },
    /// A description that does not fit the attribute.
    #[error("the description of node {id} has {len} bytes: expected at most {MAX_DESCRIPTION}")]
    DescriptionTooLong {
        /// The node.
        id: String,
        /// The description's length in bytes.
        len: usize,
    },
    /// A description with a NUL in it, which is the padding of the attribute.
    #[error("the description of node {id} has a NUL byte at offset {offset}")]
    DescriptionNul {
        /// The node.
        id: String,
        /// Where, in bytes.
        offset: usize,
    },
    /// A vendor identity of more than 24 bits.
    #[error("the vendor identity {vendor_id:#x} of node {id} has more than 24 bits")]
    VendorId {
        /// The node.
        id: String,
        /// The value given.
        vendor_id: u32,
    },
    /// An enhanced port 0 where there is no port 0.
    #[error("node {id} is not a switch but has an enhanced port 0")]
    PortZeroOfNoSwitch {
        /// The node.
        id: String,
    },
    /// Something is stated about a port that is not an end port of the node.
    #[error("port {port} is not an end port of node {id}")]
    NotAnEndPort {
        /// The node.
        id: String,
        /// The port.
        port: PortNum,
    },
    /// A cable that ends at no node.
    #[error("cable {cable} ends at node {node}, and there are {count} nodes")]
    NoSuchNode {
        /// The cable's index.
        cable: usize,
        /// The node's index.
        node: usize,
        /// How many nodes there are.
        count: usize,
    },
    /// A cable in a port that the node does not have.
    #[error("a cable ends in port {port} of node {id}: expected 1 to {num_ports}")]
    NoSuchPort {
        /// The node.
        id: String,
        /// The port.
        port: PortNum,
        /// How many external ports the node has.
        num_ports: u8,
    },
    /// Two cables in one port.
    #[error("two cables end in port {port} of node {id}")]
    PortInUse {
        /// The node.
        id: String,
        /// The port.
        port: PortNum,
    },
}

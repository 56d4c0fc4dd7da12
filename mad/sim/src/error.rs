//! The errors of operations on the simulated fabric.

use rsm_ids::{Guid, PortNum};
use rsm_routing::netlist::NetlistError;

/// The reason why an operation on the simulated fabric failed. The fabric is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SimError {
    /// No node has this GUID.
    #[error("no node has the GUID {guid}")]
    NoSuchNode {
        /// The given GUID.
        guid: Guid,
    },
    /// No node has this name.
    #[error(
        "no node is called `{name}`: expected a GUID, S-, H- or R- with a GUID, or a description"
    )]
    NoSuchName {
        /// The given name.
        name: String,
    },
    /// Several nodes have this description.
    #[error("`{name}` describes {count} nodes: name one by its GUID")]
    AmbiguousName {
        /// The given name.
        name: String,
        /// The number of nodes that have this description.
        count: usize,
    },
    /// The node has no such port.
    #[error("node {guid} has no port {port}: it has {num_ports} external ports")]
    NoSuchPort {
        /// The GUID of the node.
        guid: Guid,
        /// The given port.
        port: PortNum,
        /// The number of external ports of the node.
        num_ports: u8,
    },
    /// The port has no address of its own: no client can attach to it, and the port sends nothing.
    #[error("port {port} of node {guid} is not an end port")]
    NotAnEndPort {
        /// The GUID of the node.
        guid: Guid,
        /// The number of the port.
        port: PortNum,
    },
    /// The node is not a switch.
    #[error("node {guid} is not a switch")]
    NotASwitch {
        /// The GUID of the node.
        guid: Guid,
    },
    /// There is no cable in the port.
    #[error("port {port} of node {guid} is not cabled")]
    NotCabled {
        /// The GUID of the node.
        guid: Guid,
        /// The number of the port.
        port: PortNum,
    },
    /// The port has a cable already.
    #[error("port {port} of node {guid} is cabled already")]
    AlreadyCabled {
        /// The GUID of the node.
        guid: Guid,
        /// The number of the port.
        port: PortNum,
    },
    /// The port has a client already.
    #[error("port {port} of node {guid} has a client already")]
    AlreadyAttached {
        /// The GUID of the node.
        guid: Guid,
        /// The number of the port.
        port: PortNum,
    },
    /// Another node already has the GUID.
    #[error("a node with the GUID {guid} exists already")]
    GuidTaken {
        /// The GUID.
        guid: Guid,
    },
    /// The node cannot be part of this fabric.
    #[error("the node cannot be added")]
    BadNode(#[from] NetlistError),
    /// The description is too long.
    #[error("the description has {len} bytes: at most 64 are allowed")]
    DescriptionTooLong {
        /// The length of the description in bytes.
        len: usize,
    },
    /// The number is not a probability.
    #[error("{value} is not a probability: expected 0 to 1")]
    NotAProbability {
        /// The given value.
        value: f64,
    },
    /// The number is not a rate.
    #[error("{per_second} is not a rate of errors per second: expected a number of at least 0")]
    NotARate {
        /// The given value.
        per_second: f64,
    },
    /// A value of the configuration is out of range for its attribute.
    #[error("configuration: {field} is {value}, expected {expected}")]
    Config {
        /// The field of [`SimConfig`](crate::SimConfig).
        field: &'static str,
        /// The given value.
        value: u64,
        /// The allowed values.
        expected: &'static str,
    },
    /// The netlist has more ports than the model can number.
    #[error("the fabric has more than {max} ports")]
    TooManyPorts {
        /// The maximum number.
        max: u32,
    },
}

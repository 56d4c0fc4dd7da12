//! The model of the subnet: the state of the devices, as their answers show it.
//!
//! Input: answers that sweeps record, and Sets that pushes record. Output: two views of the subnet.
//! [`Hardware`] is the only mutable one: nodes, ports, images of their tables, and the known
//! properties of each kind of device ([`habits`], [`capabilities`]). [`fabric::Fabric`] is built
//! from it with all cables resolved, and never changes: planning, queries and dumps read only the
//! fabric.
//!
//! The crate also has the types that all layers share: [`findings`], the missing parts of the
//! subnet ([`expected`]), its differences from the operator's [`design`], and the values of PortInfo
//! that a subnet manager writes ([`port_info`]).
//!
//! The crate must never know a plan, an engine or a configuration, ask a device, or read a clock.
//!
//! Invariants: an image holds a block only if a device confirmed it; every cable has two ends; two
//! successive fabrics share each node that did not change.

pub mod adaptive_image;
pub mod alias_guids;
pub mod capabilities;
pub mod congestion;
pub mod design;
pub mod expected;
pub mod fabric;
pub mod findings;
pub mod footprint;
mod habit_findings;
pub mod habits;
mod hardware;
pub mod image;
pub mod lft_image;
mod lid_claim;
pub mod managed;
pub mod mft_image;
mod node_names;
mod nodes;
pub mod p_keys;
mod parts;
pub mod port_info;
pub mod sl2vl_image;
pub mod slow_links;
pub mod text;
pub mod vports;
pub mod whole;
mod writes;

pub use self::habit_findings::DevicesOfKind;
pub use self::hardware::{Hardware, MKeySign};
pub use self::lid_claim::LidClaim;
pub use self::node_names::NodeNames;
pub use self::nodes::{InventoryNode, InventoryPort, InventorySwitch, MISSES_TOLERATED};
pub use self::parts::{Parts, WrittenPart};
pub use self::writes::Mark;

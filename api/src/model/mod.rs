//! The API's resources in plain Rust: one file per resource.
//!
//! A [`Subnet`](crate::Subnet) answers with these values, the server reads them, and the module
//! `convert` makes messages of them. A value that the server only sends is a message of the
//! protocol from the start.

mod alias_guid;
mod finding;
mod link;
mod multicast;
mod node;
mod page;
mod port;
mod routing;
mod sa;
mod selector;
mod service;
mod simulation;
mod subscription;

pub use alias_guid::AliasGuidKey;
pub use finding::FindingFilter;
pub use link::LinkFilter;
pub use multicast::{GroupSelector, MulticastGroupFilter, ParseGroupError};
pub use node::NodeFilter;
pub use page::{Keyed, Page};
pub use port::{PortFilter, PortKey};
pub use routing::Loss;
pub use rsm_ids::{LinkSpeed, LinkWidth};
pub use rsm_proto::v1::{
    JoinState, Membership, MissingKind, NodeKind, PhysicalState, PortState, RouteOutcome, Severity,
    SubnetState,
};
pub use sa::PathQuestion;
pub use selector::{ParseSelectorError, Selector};
pub use service::{ServiceFilter, ServiceKey};
pub use simulation::SimulationAction;
pub use subscription::SubscriptionKey;

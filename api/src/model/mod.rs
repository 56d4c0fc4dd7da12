//! Queries to a subnet manager in plain Rust: selectors, filters, keys and pages.
//!
//! The server parses requests into these values. The answers are messages of the protocol, which a
//! [`Subnet`](crate::Subnet) fills from its snapshot; a list has the typed key beside each message
//! that contains it only as text.

mod alias_guid;
mod counters;
mod drain;
mod event;
mod finding;
mod gone;
mod link;
mod multicast;
mod node;
mod page;
mod partition;
mod port;
mod port_command;
mod routing;
mod sa;
mod selector;
mod service;
mod simulation;
mod subscription;
mod virtual_port;

pub use alias_guid::AliasGuidKey;
pub use counters::{AgentState, Answering, CountersState, PastSpan, PortTotals};
pub use drain::DrainQuestion;
pub use event::{EventFilter, HistoryOrder, HistoryQuery};
pub use finding::FindingFilter;
pub use gone::{GivenUp, GoneSwitch, GoneSwitches};
pub use link::LinkFilter;
pub use multicast::{GroupSelector, MulticastGroupFilter, ParseGroupError};
pub use node::NodeFilter;
pub use page::{Keyed, Page};
pub use partition::{
    EmptyPartition, ExistingPartition, MemberName, PartitionAction, PartitionChange,
    PartitionChanged, PartitionProtection, PartitionSettings, WantedMember, WhenCutOff,
};
pub use port::{PortFilter, PortId};
pub use port_command::PortCommand;
pub use routing::LossSelector;
pub use rsm_proto::v1::{
    JoinState, Membership, MissingKind, NodeKind, PhysicalState, PortAction, PortOrder, PortState,
    RouteOutcome, Severity, SubnetState, TrustMode,
};
pub use sa::PathQuestion;
pub use selector::{ParseSelectorError, Selector};
pub use service::{ServiceFilter, ServiceKey};
pub use simulation::SimulationAction;
pub use subscription::SubscriptionKey;
pub use virtual_port::VirtualPortId;

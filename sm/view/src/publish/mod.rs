//! Shows the core's state through the API: implements the traits of [`rsm_api`] on the core's
//! snapshots.
//!
//! The daemon passes every [`Snapshot`](rsm_state::Snapshot) that the core publishes to a [`View`],
//! which answers all readers from it and sends its changes to watchers. [`Controller`] passes
//! requests to the core and its answers back; [`PublishedSa`] shows the registrations of hosts with
//! the SA; [`PublishedCounters`] shows performance counters. This module never changes the subnet,
//! and no reader ever waits for it.

mod activity;
mod aliases;
mod analysis;
mod api_view;
mod attribute;
mod avoided;
mod blame;
mod cables;
mod congestion;
mod control;
mod counters;
mod design;
mod drained;
pub mod dry_run;
mod events;
mod findings;
mod firmware;
mod index;
mod isolation;
mod lines;
mod log;
mod missing;
mod multicast;
mod names;
mod overlay;
mod partitions;
mod past;
mod paths;
mod port_command;
mod published;
mod qos;
mod report;
mod routes;
pub mod routes_compared;
mod sa;
mod services;
mod state;
mod status;
mod subnet;
mod subscriptions;
pub mod summary;
mod unwritten;
mod view;
mod vports;

pub use self::analysis::RouteAnalyst;
pub use self::blame::FabricJudge;
pub use self::control::{Controller, MAX_TENANT_WAITING, MAX_TENANTS_WAITING, MAX_WAITING};
pub use self::counters::{CountersSource, PublishedCounters};
pub use self::events::MAX_CHANGES;
pub use self::missing::GoneNode;
pub use self::names::Names;
pub use self::past::PastSource;
pub use self::report::{HostFact, HostFacts, Reporter};
pub use self::sa::{PublishedSa, SaStateSource};
pub use self::view::{EventOutlet, SharedStoreSource, UnixClock, View};

#[cfg(test)]
mod tests;

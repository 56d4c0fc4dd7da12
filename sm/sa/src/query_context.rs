//! A request together with the state that answers it.

use std::sync::Arc;

use rsm_mad::Time;
use rsm_mad::wire::sa::SaHeader;

use super::directory::Directory;
use super::ends::EndIx;
use super::events::Events;
use super::mcast::GroupsView;
use super::services::ServiceRegistry;
use super::trust::Trust;

/// A query with a valid header, and the state at its arrival.
pub(super) struct SaQueryContext<'a> {
    pub(super) header: &'a SaHeader,
    /// Bytes after the SA header.
    pub(super) data: &'a [u8],
    pub(super) trust: Trust,
    /// Port that sent the query.
    pub(super) requester: EndIx,
    /// The setting [`SaConfig::lists_vports`](super::SaConfig::lists_vports).
    pub(super) lists_vports: bool,
    pub(super) directory: &'a Arc<Directory>,
    /// The multicast groups.
    pub(super) view: &'a GroupsView,
    pub(super) services: &'a ServiceRegistry,
    pub(super) subscriptions: &'a Events,
    /// ActCount in this manager's SMInfo.
    pub(super) act_count: u32,
    pub(super) now: Time,
}

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

/// A request with a valid header.
pub(super) struct Asked<'a> {
    pub(super) header: &'a SaHeader,
    pub(super) data: &'a [u8],
    pub(super) trust: Trust,
    pub(super) requester: EndIx,
    /// Whether tables include records of virtual ports if the request names no port.
    pub(super) lists_vports: bool,
    pub(super) directory: &'a Arc<Directory>,
    pub(super) view: &'a GroupsView,
    pub(super) services: &'a ServiceRegistry,
    pub(super) subscriptions: &'a Events,
    /// ActCount in this manager's SMInfo.
    pub(super) act_count: u32,
    pub(super) now: Time,
}

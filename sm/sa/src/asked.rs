//! A request of the class, with what it is answered from.

use std::sync::Arc;

use rsm_mad::Time;
use rsm_mad::wire::sa::SaHeader;

use super::directory::Directory;
use super::ends::EndIx;
use super::events::Events;
use super::mcast::GroupsView;
use super::services::ServiceRegistry;
use super::trust::Trust;

/// A request whose header is in order.
pub(super) struct Asked<'a> {
    pub(super) header: &'a SaHeader,
    pub(super) data: &'a [u8],
    pub(super) trust: Trust,
    pub(super) requester: EndIx,
    /// Whether records of virtual ports are part of tables that name no port.
    pub(super) lists_vports: bool,
    pub(super) directory: &'a Arc<Directory>,
    pub(super) view: &'a GroupsView,
    pub(super) services: &'a ServiceRegistry,
    pub(super) subscriptions: &'a Events,
    /// SMInfo.ActCount of this manager.
    pub(super) act_count: u32,
    pub(super) now: Time,
}

//! The registrations with the SA that are saved, because no other component has them.
//!
//! Registrations survive a restart and a SIGKILL, so that no host has to register again. Services
//! are stored with the end of their lease as wall-clock time, groups with their members, and alias
//! GUIDs with their port. A service whose port is absent stays until its lease ends; an alias GUID
//! ends if its port is absent for too long.

use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::ids::Gid;
use rsm_model::alias_guids::AliasGuids;

use super::events::{SavedSubscription, SubscriptionsView};
use super::services::{self, SavedService, ServicesView};
use super::{GroupsView, SavedGroup};

/// Saved registrations, which [`Sa::restore`](super::Sa::restore) restores.
#[derive(Clone, Default, Debug)]
pub struct SavedSaState {
    /// Multicast groups with their members.
    pub groups: Vec<SavedGroup>,
    /// Services with the remaining time of their leases.
    pub services: Vec<SavedService>,
    /// Alias GUIDs of ports.
    pub guids: AliasGuids,
    /// Subscriptions to notices.
    pub subscriptions: Vec<SavedSubscription>,
}

/// A change of registrations that the SA has acknowledged to its requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touched {
    /// A port has joined or left a group, or changed its membership.
    Membership {
        /// MGID of the group.
        mgid: Gid,
        /// GID with which the port is a member.
        member: Gid,
    },
    /// A service was registered or deleted.
    Service(services::Id),
    /// The alias GUIDs of the port with this GUID have changed.
    AliasGuids(Guid),
    /// The subscriptions of the port with this GUID have changed.
    Subscriptions(Guid),
}

/// The registrations to save. A part that has changed is saved as a whole; `None` for a part that
/// has not changed.
#[derive(Clone, Default, Debug)]
pub struct Unsaved {
    /// Multicast groups with their members.
    pub groups: Option<GroupsView>,
    /// Services.
    pub services: Option<ServicesView>,
    /// Alias GUIDs of ports.
    pub guids: Option<Arc<AliasGuids>>,
    /// Subscriptions to notices.
    pub subscriptions: Option<SubscriptionsView>,
}

impl Unsaved {
    /// Whether there is nothing to save.
    pub fn is_empty(&self) -> bool {
        self.groups.is_none()
            && self.services.is_none()
            && self.guids.is_none()
            && self.subscriptions.is_none()
    }

    /// Replaces the parts that `newer` contains, and keeps the other parts.
    pub fn update(&mut self, newer: Unsaved) {
        let Unsaved {
            groups,
            services,
            guids,
            subscriptions,
        } = newer;
        self.groups = groups.or(self.groups.take());
        self.services = services.or(self.services.take());
        self.guids = guids.or(self.guids.take());
        self.subscriptions = subscriptions.or(self.subscriptions.take());
    }
}

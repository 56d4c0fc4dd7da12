//! Subscriptions in the form in which they survive a restart.

use std::sync::Arc;

use rsm_ids::Guid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::InformInfo;

use super::limits::{MAX_PER_PORT, MAX_SUBSCRIPTIONS};
use super::{Events, Interest, Subscription, SubscriptionId, SubscriptionsView};

/// A subscription in saved form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedSubscription {
    /// GUID of the subscriber's port.
    pub port: Guid,
    /// Number of the subscription among those of its port.
    pub number: u16,
    /// GID of the subscriber.
    pub gid: Gid,
    /// Address for reports.
    pub address: RemoteAddress,
    /// P_Key of the request; `None` if it is unknown.
    pub p_key: Option<PKey>,
    /// Whether the subscriber showed the SM_Key.
    pub trusted: bool,
    /// The request.
    pub info: InformInfo,
}

impl SubscriptionsView {
    /// All subscriptions in saved form.
    pub fn save(&self) -> impl ExactSizeIterator<Item = SavedSubscription> {
        self.iter().map(save)
    }

    /// Subscriptions from `first` on in saved form, in the order of port GUIDs and numbers.
    pub fn save_not_before(
        &self,
        first: SubscriptionId,
    ) -> impl Iterator<Item = SavedSubscription> {
        self.not_before(first).map(save)
    }
}

/// A subscription in saved form.
fn save((id, subscription): (SubscriptionId, &Subscription)) -> SavedSubscription {
    SavedSubscription {
        port: id.port,
        number: id.number,
        gid: subscription.gid,
        address: subscription.address,
        p_key: subscription.p_key,
        trusted: subscription.trusted,
        info: subscription.info,
    }
}

impl Events {
    /// Restores saved subscriptions at the start of the daemon. Every port counts as absent until
    /// `Events::ports_changed` finds it. Absent ports keep their subscriptions until `until`,
    /// because a sweep of a large subnet takes long.
    ///
    /// Subscriptions that are invalid, repeat earlier ones or exceed the limits are skipped,
    /// because bytes on a disk deserve no more trust than a request. Returns the number of skipped
    /// subscriptions.
    pub fn restore(
        &mut self,
        saved: impl IntoIterator<Item = SavedSubscription>,
        until: Time,
    ) -> usize {
        let mut skipped = 0;
        for saved in saved {
            let id = SubscriptionId {
                port: saved.port,
                number: saved.number,
            };
            let interest = Interest::of(&saved.info).filter(|interest| {
                let is_known = |(_, other): (_, &Subscription)| {
                    other.address.qpn == saved.address.qpn && other.interest == *interest
                };
                saved.info.subscribe() == 1
                    && saved.address.qpn != 0
                    && saved.address.qpn < 1 << 24
                    && self.subscriptions.len() < MAX_SUBSCRIPTIONS
                    && self.of_port(id.port).count() < MAX_PER_PORT
                    && !self.subscriptions.contains_key(&id)
                    && !self.of_port(id.port).any(is_known)
            });
            let Some(interest) = interest else {
                skipped += 1;
                continue;
            };
            let subscription = Subscription {
                gid: saved.gid,
                address: saved.address,
                p_key: saved.p_key,
                trusted: saved.trusted,
                info: saved.info,
                interest,
            };
            Arc::make_mut(&mut self.subscriptions).insert(id, subscription);
            self.reports.subscribe(&subscription, id, &self.journal);
            self.absent_ports.insert(id.port, until);
        }
        skipped
    }
}

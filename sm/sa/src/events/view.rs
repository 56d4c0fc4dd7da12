//! A view of all subscriptions, which stays the same while subscriptions change.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{Subscription, SubscriptionId};

/// All subscriptions at one moment. While a view exists, the next change copies the subscriptions.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionsView(Arc<BTreeMap<SubscriptionId, Subscription>>);

impl SubscriptionsView {
    pub(super) fn of(
        subscriptions: Arc<BTreeMap<SubscriptionId, Subscription>>,
    ) -> SubscriptionsView {
        SubscriptionsView(subscriptions)
    }

    /// All subscriptions, in the order of port GUIDs and numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (SubscriptionId, &Subscription)> {
        self.0.iter().map(|(&id, subscription)| (id, subscription))
    }

    /// Subscriptions from `first` on, in the order of port GUIDs and numbers.
    pub fn not_before(
        &self,
        first: SubscriptionId,
    ) -> impl Iterator<Item = (SubscriptionId, &Subscription)> {
        let subscriptions = self.0.range(first..);
        subscriptions.map(|(&id, subscription)| (id, subscription))
    }

    /// Subscriptions after `last`, in the order of port GUIDs and numbers; all if `last` is `None`.
    pub fn after(
        &self,
        last: Option<SubscriptionId>,
    ) -> impl Iterator<Item = (SubscriptionId, &Subscription)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let subscriptions = self.0.range((from, Bound::Unbounded));
        subscriptions.map(|(&id, subscription)| (id, subscription))
    }
}

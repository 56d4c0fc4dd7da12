//! Subscriptions of hosts as the API shows them.

use rsm_api::model::{Page, PortKey, Subscription, SubscriptionKey, SubscriptionSources};

use super::published::Published;
use super::subnet::page;
use crate::sa::events::{self, Sources, SubscriptionId, View};

/// The subscriptions behind `after`, of `port` alone where one is given.
pub(super) fn subscriptions(
    published: &Published,
    view: &View,
    after: Option<SubscriptionKey>,
    limit: usize,
    port: Option<PortKey>,
) -> Page<Subscription> {
    let after = after.map(|key| SubscriptionId {
        port: key.port,
        number: key.number,
    });
    let owner = port.map(|port| published.guid_of(port));
    let wanted = view
        .behind(after)
        .filter(|(id, _)| owner.is_none_or(|owner| owner == Some(id.port)));
    let shown = wanted.map(|(id, subscription)| shown(published, id, subscription));
    page(published, shown, limit)
}

fn shown(
    published: &Published,
    id: SubscriptionId,
    subscription: &events::Subscription,
) -> Subscription {
    let (port, description) = published.named(id.port);
    let interest = &subscription.interest;
    Subscription {
        key: SubscriptionKey {
            port: id.port,
            number: id.number,
        },
        gid: subscription.gid,
        port,
        description,
        qpn: subscription.address.qpn,
        trusted: subscription.trusted,
        sources: match interest.sources {
            Sources::All => SubscriptionSources::All,
            Sources::Port(gid) => SubscriptionSources::Port(gid),
            Sources::Lids(first, last) => SubscriptionSources::Lids(first, last),
        },
        generic: interest.generic,
        notice_type: interest.notice_type,
        trap_or_device: interest.trap_or_device,
        producer_or_vendor: interest.producer_or_vendor,
    }
}

//! Subscriptions of hosts, in the form of the API.

use rsm_api::model::{Keyed, Page, PortId, SubscriptionKey};
use rsm_api::v1;
use rsm_sa::events::{Sources, Subscription, SubscriptionId, SubscriptionsView};

use super::published::Published;
use super::subnet::page;

/// Page of subscriptions after the key `after`; only the subscriptions of `port`, if given.
pub(super) fn subscriptions(
    published: &Published,
    view: &SubscriptionsView,
    after: Option<SubscriptionKey>,
    limit: usize,
    port: Option<PortId>,
) -> Page<Keyed<SubscriptionKey, v1::Subscription>> {
    let after = after.map(|key| SubscriptionId {
        port: key.port,
        number: key.number,
    });
    let owner = port.map(|port| published.guid_of(port));
    let wanted = view
        .after(after)
        .filter(|(id, _)| owner.is_none_or(|owner| owner == Some(id.port)));
    let shown = wanted.map(|(id, subscription)| shown(published, id, subscription));
    page(published, shown, limit)
}

fn shown(
    published: &Published,
    id: SubscriptionId,
    subscription: &Subscription,
) -> Keyed<SubscriptionKey, v1::Subscription> {
    let (port, description) = published.port_and_description(id.port);
    let interest = &subscription.interest;
    let (source_gid, source_lids) = match interest.sources {
        Sources::All => (String::new(), None),
        Sources::Port(gid) => (gid.to_string(), None),
        Sources::Lids(first, last) => {
            let (first, last) = (first.0.into(), last.0.into());
            (String::new(), Some(v1::LidRange { first, last }))
        }
    };
    let key = SubscriptionKey {
        port: id.port,
        number: id.number,
    };
    let message = v1::Subscription {
        port_guid: key.port.to_string(),
        number: key.number.into(),
        gid: subscription.gid.to_string(),
        port,
        description,
        qpn: subscription.address.qpn,
        trusted: subscription.trusted,
        source_gid,
        source_lids,
        generic: interest.generic,
        notice_type: interest.notice_type.map(u32::from),
        trap_or_device: interest.trap_or_device.map(u32::from),
        producer_or_vendor: interest.producer_or_vendor,
    };
    Keyed { key, message }
}

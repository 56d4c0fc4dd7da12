use rsm_proto::v1;

use crate::model::{Subscription, SubscriptionSources};

impl From<Subscription> for v1::Subscription {
    fn from(subscription: Subscription) -> Self {
        let (source_gid, source_lids) = match subscription.sources {
            SubscriptionSources::All => (String::new(), None),
            SubscriptionSources::Port(gid) => (gid.to_string(), None),
            SubscriptionSources::Lids(first, last) => {
                let (first, last) = (first.0.into(), last.0.into());
                (String::new(), Some(v1::LidRange { first, last }))
            }
        };
        v1::Subscription {
            port_guid: subscription.key.port.to_string(),
            number: subscription.key.number.into(),
            gid: subscription.gid.to_string(),
            port: subscription.port.map(v1::PortKey::from),
            description: subscription.description,
            qpn: subscription.qpn,
            trusted: subscription.trusted,
            source_gid,
            source_lids,
            generic: subscription.generic,
            notice_type: subscription.notice_type.map(u32::from),
            trap_or_device: subscription.trap_or_device.map(u32::from),
            producer_or_vendor: subscription.producer_or_vendor,
        }
    }
}

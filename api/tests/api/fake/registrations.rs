//! Registrations of hosts: services, subscriptions, alias GUIDs.

use rsm_api::model::{
    AliasGuidKey, NodeKind, Service, ServiceKey, Subscription, SubscriptionKey, SubscriptionSources,
};
use rsm_api::v1;
use rsm_ids::{Gid, Guid, Lid};

use super::{Fake, FakePort, PREFIX, guid_of};

/// A port that has gone.
const GONE: Guid = Guid(0xDEAD);

impl Fake {
    fn first_host(&self) -> &FakePort {
        let mut hosts = self.ports.values();
        hosts
            .find(|port| port.message.node_kind() == NodeKind::Ca)
            .unwrap()
    }

    /// Two services of the first host, and one of a port that has gone.
    pub(super) fn offer(&mut self) {
        let first = self.first_host().clone();
        let service = |id, name: &str, p_key, lease_s| Service {
            key: ServiceKey {
                id,
                gid: Gid::new(PREFIX, guid_of(&first)),
                p_key,
            },
            name: name.to_owned(),
            port: Some(first.key),
            description: first.message.node_description.clone(),
            owner: guid_of(&first),
            lease_s,
            data: [0; 64],
        };
        let mut gone = service(0x1_0000_0002, "storage", 0x8010, Some(90_000));
        gone.key.gid = Gid::new(PREFIX, GONE);
        gone.port = None;
        gone.description.clear();
        gone.data[1] = 0xAB;
        for service in [
            service(0x1_0000_0001, "storage", 0, None),
            service(0x1_0000_0002, "ring 0", 0xFFFF, Some(61)),
            gone,
        ] {
            self.services.insert(service.key, service);
        }
    }

    /// Three subscriptions of the first host, and one of a port that has gone.
    pub(super) fn subscribe(&mut self) {
        let first = self.first_host().clone();
        let all = |number| Subscription {
            key: SubscriptionKey {
                port: guid_of(&first),
                number,
            },
            gid: Gid::new(PREFIX, guid_of(&first)),
            port: Some(first.key),
            description: first.message.node_description.clone(),
            qpn: 1,
            trusted: false,
            sources: SubscriptionSources::All,
            generic: true,
            notice_type: None,
            trap_or_device: None,
            producer_or_vendor: None,
        };
        let in_service = Subscription {
            trap_or_device: Some(64),
            producer_or_vendor: Some(4),
            ..all(0)
        };
        let trusted = Subscription {
            sources: SubscriptionSources::Lids(Lid(1), Lid(9)),
            notice_type: Some(2),
            trusted: true,
            qpn: 0x70_0001,
            ..all(1)
        };
        let vendors = Subscription {
            sources: SubscriptionSources::Port(Gid::new(PREFIX, guid_of(&first))),
            generic: false,
            trap_or_device: Some(7),
            producer_or_vendor: Some(0x2C9),
            ..all(7)
        };
        let gone = Subscription {
            key: SubscriptionKey {
                port: GONE,
                number: 0,
            },
            gid: Gid::new(PREFIX, GONE),
            port: None,
            description: String::new(),
            ..all(0)
        };
        for subscription in [in_service, trusted, vendors, gone] {
            self.subscriptions.insert(subscription.key, subscription);
        }
    }

    /// Two alias GUIDs of the first host, and one of a port that has gone.
    pub(super) fn rename(&mut self) {
        let first = self.first_host().clone();
        let alias = |index: u8, name| v1::AliasGuid {
            port_guid: guid_of(&first).to_string(),
            index: index.into(),
            alias_guid: Guid(name).to_string(),
            gid: Gid::new(PREFIX, Guid(name)).to_string(),
            port: Some(first.key.into()),
            description: first.message.node_description.clone(),
        };
        let key = |port, index| AliasGuidKey { port, index };
        let mut gone = alias(1, 0x0252_534D_0000_0003);
        gone.port_guid = GONE.to_string();
        gone.port = None;
        gone.description.clear();
        let (one, other) = (
            alias(1, 0x0252_534D_0000_0001),
            alias(9, 0x0252_534D_0000_0002),
        );
        self.aliases.insert(key(guid_of(&first), 1), one);
        self.aliases.insert(key(guid_of(&first), 9), other);
        self.aliases.insert(key(GONE, 1), gone);
    }
}

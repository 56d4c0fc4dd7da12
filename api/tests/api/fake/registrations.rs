//! Registrations of hosts: services, subscriptions, alias GUIDs.

use rsm_api::model::{AliasGuidKey, NodeKind, ServiceKey, SubscriptionKey, VirtualPortId};
use rsm_api::v1;
use rsm_ids::{Gid, Guid};

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
        let key = |id, gid, p_key| ServiceKey { id, gid, p_key };
        let here = Gid::new(PREFIX, guid_of(&first));
        let service = |key: ServiceKey, name: &str, lease_s| v1::Service {
            service_id: format!("{:#018x}", key.id),
            gid: key.gid.to_string(),
            p_key: key.p_key.into(),
            name: name.to_owned(),
            port: Some(first.key.into()),
            description: first.message.node_description.clone(),
            owner_guid: first.message.guid.clone(),
            lease_s,
            data: String::new(),
        };
        for (key, name, lease_s) in [
            (key(0x1_0000_0001, here, 0), "storage", None),
            (key(0x1_0000_0002, here, 0xFFFF), "ring 0", Some(61)),
        ] {
            self.services.insert(key, service(key, name, lease_s));
        }
        let key = key(0x1_0000_0002, Gid::new(PREFIX, GONE), 0x8010);
        let gone = v1::Service {
            port: None,
            description: String::new(),
            data: "00ab".to_owned(),
            ..service(key, "storage", Some(90_000))
        };
        self.services.insert(key, gone);
    }

    /// Three subscriptions of the first host, and one of a port that has gone.
    pub(super) fn subscribe(&mut self) {
        let first = self.first_host().clone();
        let all = |number: u16| v1::Subscription {
            port_guid: first.message.guid.clone(),
            number: number.into(),
            gid: Gid::new(PREFIX, guid_of(&first)).to_string(),
            port: Some(first.key.into()),
            description: first.message.node_description.clone(),
            qpn: 1,
            generic: true,
            ..v1::Subscription::default()
        };
        let in_service = v1::Subscription {
            trap_or_device: Some(64),
            producer_or_vendor: Some(4),
            ..all(0)
        };
        let trusted = v1::Subscription {
            source_lids: Some(v1::LidRange { first: 1, last: 9 }),
            notice_type: Some(2),
            trusted: true,
            qpn: 0x70_0001,
            ..all(1)
        };
        let vendors = v1::Subscription {
            source_gid: Gid::new(PREFIX, guid_of(&first)).to_string(),
            generic: false,
            trap_or_device: Some(7),
            producer_or_vendor: Some(0x2C9),
            ..all(7)
        };
        let gone = v1::Subscription {
            port_guid: GONE.to_string(),
            gid: Gid::new(PREFIX, GONE).to_string(),
            port: None,
            description: String::new(),
            ..all(0)
        };
        for subscription in [in_service, trusted, vendors, gone] {
            let key = SubscriptionKey {
                port: subscription.port_guid.parse().unwrap(),
                number: subscription.number as u16,
            };
            self.subscriptions.insert(key, subscription);
        }
    }

    /// The first host holds the settings of congestion control, the second one does not.
    pub(super) fn add_congestion_agents(&mut self) {
        let hosts = self.ports.values();
        let hosts = hosts.filter(|port| port.message.node_description.starts_with("host-"));
        let states = [
            (v1::CongestionState::Set, "holds the settings", Some(0)),
            (
                v1::CongestionState::Failed,
                "refuses CACongestionSetting (invalid field)",
                None,
            ),
        ];
        let agents = hosts.zip(states).map(|(host, (state, note, violations))| {
            let agent = v1::CongestionAgent {
                port: host.message.key.clone(),
                node_description: host.message.node_description.clone(),
                lid: host.message.lid,
                state: state.into(),
                note: note.to_owned(),
                sets: 3,
                key_violations: violations,
            };
            (host.key, agent)
        });
        self.congestion = agents.collect();
    }

    /// Three virtual ports of the first host.
    pub(super) fn add_vports(&mut self) {
        let mut hosts = self.ports.values();
        let host = hosts.find(|port| port.message.node_description == "host-1");
        let host = host.expect("there is a host").clone();
        for index in 0..3u16 {
            let key = VirtualPortId {
                port: host.key,
                index,
            };
            let vport = v1::VirtualPort {
                port: host.message.key.clone(),
                index: index.into(),
                host: host.message.node_description.clone(),
                guid: Guid(0xAA00 + u64::from(index)).to_string(),
                node_guid: Guid(0xBB00 + u64::from(index)).to_string(),
                description: format!("vport {index}"),
                state: v1::PortState::Active.into(),
                lid: host.message.lid,
                shares_lid: true,
                served: index != 2,
                alias_guids: (0..index)
                    .map(|n| Guid(0xCC00 + u64::from(n)).to_string())
                    .collect(),
            };
            self.vports.insert(key, vport);
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

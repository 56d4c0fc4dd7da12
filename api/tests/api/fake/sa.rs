use std::collections::BTreeMap;

use rsm_api::model::{
    AliasGuidKey, GroupSelector, JoinState, Keyed, MulticastGroupFilter, NodeKind, Page,
    PathQuestion, PortId, ServiceFilter, ServiceKey, SubscriptionKey,
};
use rsm_api::v1;
use rsm_api::{BoxFuture, Candidate, LookupError, SaError, SaQueries, Subnet};
use rsm_ids::{Gid, Guid};

use super::subnet::keyed_page;
use super::{Fake, FakePort, GENERATION, PREFIX, guid_of};

/// The broadcast group of IP over InfiniBand in the default partition.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// Two groups of a tenant, which share a multicast LID.
const TENANT: [Gid; 2] = [
    Gid(0xFF12_401B_8010_0000_0000_0000_0000_0001),
    Gid(0xFF12_601B_8010_0000_0000_0000_0000_0001),
];

/// A multicast group with its members and switches.
#[derive(Clone)]
pub(crate) struct FakeGroup {
    pub(crate) group: v1::MulticastGroup,
    pub(crate) members: BTreeMap<Guid, v1::MulticastMember>,
    pub(crate) switches: BTreeMap<Guid, v1::MulticastSwitch>,
}

impl Fake {
    /// All hosts join the broadcast group; in two groups of a tenant are the first two hosts, one
    /// gone and one that only sends.
    pub(super) fn gather(&mut self) {
        let hosts: Vec<FakePort> = self
            .ports
            .values()
            .filter(|port| port.message.node_kind() == NodeKind::Ca && port.message.lid != 0)
            .cloned()
            .collect();
        let member = |port: &FakePort, states: &[JoinState]| v1::MulticastMember {
            gid: Gid::new(PREFIX, guid_of(port)).to_string(),
            port_guid: port.message.guid.clone(),
            port: Some(port.key.into()),
            description: port.message.node_description.clone(),
            join_states: states.iter().map(|&state| state.into()).collect(),
            proxy: false,
            served: true,
        };
        let everybody = hosts
            .iter()
            .map(|port| member(port, &[JoinState::FullMember]));
        let mut broadcast = self.group(BROADCAST, 0xC000, 0xFFFF, everybody.collect());
        broadcast.group.well_known = true;
        self.groups.insert(BROADCAST, broadcast);
        for mgid in TENANT {
            let states = [JoinState::FullMember, JoinState::SendOnlyNonMember];
            let mut members: Vec<_> = hosts
                .iter()
                .take(2)
                .map(|port| member(port, &states))
                .collect();
            if let Some(gone) = members.get_mut(1) {
                gone.port = None;
                gone.description.clear();
                gone.join_states = vec![JoinState::SendOnlyFullMember.into()];
                gone.served = false;
                gone.proxy = true;
            }
            let group = self.group(mgid, 0xC001, 0x8010, members);
            self.groups.insert(mgid, group);
        }
    }

    fn group(
        &self,
        mgid: Gid,
        mlid: u32,
        p_key: u32,
        members: Vec<v1::MulticastMember>,
    ) -> FakeGroup {
        let of_switch = |guid: Guid| v1::MulticastSwitch {
            guid: guid.to_string(),
            description: self.nodes[&guid].description.clone(),
            ports: (1..=self.nodes[&guid].num_ports).collect(),
        };
        let switches = self.tables.keys();
        FakeGroup {
            group: v1::MulticastGroup {
                mgid: mgid.to_string(),
                mlid,
                p_key,
                q_key: 0x0B1B,
                mtu_bytes: 2048,
                rate_gbps: 2.5,
                service_level: 0,
                packet_life_time: 18,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: 0,
                scope: 2,
                well_known: false,
                members: members.len() as u64,
                full_members: members.len() as u64,
                switches: self.tables.len() as u64,
            },
            members: members
                .into_iter()
                .map(|member| (member.gid.parse::<Gid>().unwrap().guid(), member))
                .collect(),
            switches: switches.map(|&guid| (guid, of_switch(guid))).collect(),
        }
    }

    fn find_group(&self, selector: GroupSelector) -> Result<&FakeGroup, LookupError> {
        let named = |one: &&FakeGroup| match selector {
            GroupSelector::Mgid(mgid) => one.group.mgid == mgid.to_string(),
            GroupSelector::Mlid(mlid) => one.group.mlid == u32::from(mlid.0),
        };
        let found: Vec<_> = self.groups.values().filter(named).collect();
        match *found.as_slice() {
            [] => Err(LookupError::NoSuchGroup { group: selector }),
            [one] => Ok(one),
            _ => Err(LookupError::Ambiguous {
                selector: selector.to_string(),
                candidates: found
                    .iter()
                    .map(|one| Candidate {
                        name: one.group.mgid.clone(),
                        facts: String::new(),
                    })
                    .collect(),
                total: found.len(),
            }),
        }
    }
}

impl SaQueries for Fake {
    fn counters(&self) -> v1::SaCounters {
        let requests =
            |attribute_id, attribute: &str, method_id, method: &str, count| v1::SaRequests {
                attribute_id,
                attribute: attribute.to_owned(),
                method_id,
                method: method.to_owned(),
                count,
            };
        let answers = |status_id, status: &str, count| v1::SaAnswers {
            status_id,
            status: status.to_owned(),
            count,
        };
        let bucket = |below_ns, count| v1::LatencyBucket { below_ns, count };
        v1::SaCounters {
            requests: vec![
                requests(0, "other", 0, "other", 1),
                requests(0x35, "PathRecord", 0x01, "Get", 900),
                requests(0x35, "PathRecord", 0x12, "GetTable", 99),
            ],
            answers: vec![answers(0, "ok", 998), answers(0x300, "ERR_NO_RECORDS", 2)],
            latencies: Some(v1::Latencies {
                count: 1000,
                sum_ns: 4_000_000,
                buckets: vec![bucket(2_304, 990), bucket(1_310_720, 9), bucket(0, 1)],
            }),
            busy: 7,
            dropped: 6,
            failed: 5,
            ignored: 4,
            wrong_keys: 3,
            unknown_issuers: 2,
            unserved: 11,
        }
    }

    fn paths(&self, question: &PathQuestion) -> Result<v1::ResolvePathResponse, SaError> {
        let (source, destination) = (&question.source, &question.destination);
        let hops = self.route(source, destination)?.route.unwrap().hops;
        let (from, to) = (self.end_port(source)?, self.end_port(destination)?);
        let p_key = question.p_key.unwrap_or(0x7FFF) & 0x7FFF;
        let path = |number| v1::Path {
            adaptive_service_levels: 0,
            source_gid: Gid::new(PREFIX, guid_of(from)).to_string(),
            destination_gid: Gid::new(PREFIX, guid_of(to)).to_string(),
            source_lid: from.message.lid,
            destination_lid: to.message.lid,
            p_key: (p_key | 0x8000).into(),
            service_level: question.service_level.unwrap_or(0).into(),
            mtu_bytes: 4096,
            rate_gbps: 400.0,
            packet_life_time: 18,
            reversible: number == 0,
            preference: if number == 0 { 0 } else { 2 },
            hops: hops.clone(),
            service_level_reason: "that of partition default".to_owned(),
        };
        let most = question.max_paths.min(2);
        let (paths, reason) = if self.partitions.contains_key(&p_key) {
            ((0..most).map(path).collect(), String::new())
        } else {
            (Vec::new(), "the two ports share no partition".to_owned())
        };
        let paths = v1::Paths {
            source: Some(from.key.into()),
            destination: Some(to.key.into()),
            paths,
            reason,
        };
        Ok(v1::ResolvePathResponse {
            generation: GENERATION,
            paths: Some(paths),
        })
    }

    fn qos(&self) -> Result<v1::GetQosResponse, SaError> {
        let classes = ["ca", "sw0", "swe", "sw2sw", "rtr"].map(|name| v1::QosClass {
            name: name.to_owned(),
            max_vls: 15,
            high_limit: 0,
            vlarb_high: "0:4".to_owned(),
            vlarb_low: "1:4,2:4".to_owned(),
            sl_to_vl: (0..16).collect(),
        });
        let level = v1::QosLevel {
            name: "DEFAULT".to_owned(),
            description: "all others".to_owned(),
            service_level: 0,
            limits: "SL 0".to_owned(),
            line: 9,
        };
        let rule = v1::QosRule {
            line: 14,
            description: "storage".to_owned(),
            criteria: "to targets; service ID 0x10-0x1f".to_owned(),
            level: "DEFAULT".to_owned(),
            service_level: 0,
        };
        let group = v1::QosPortGroup {
            name: "targets".to_owned(),
            description: String::new(),
            line: 2,
            ports: 3,
        };
        Ok(v1::GetQosResponse {
            qos: Some(v1::Qos {
                enabled: true,
                classes: classes.into(),
                policy_file: "/etc/rsm/qos-policy.conf".to_owned(),
                levels: vec![level],
                rules: vec![rule],
                port_groups: vec![group],
                default_level: "DEFAULT".to_owned(),
            }),
            generation: GENERATION,
        })
    }

    fn services(
        &self,
        after: Option<ServiceKey>,
        limit: usize,
        filter: ServiceFilter,
    ) -> BoxFuture<'_, Result<Page<Keyed<ServiceKey, v1::Service>>, SaError>> {
        Box::pin(async move {
            let port = filter.port.map(v1::PortKey::from);
            let wanted = |service: &v1::Service| {
                filter
                    .name
                    .as_ref()
                    .is_none_or(|name| service.name == *name)
                    && (port.is_none() || service.port == port)
            };
            Ok(keyed_page(&self.services, after, limit, wanted))
        })
    }

    fn subscriptions(
        &self,
        after: Option<SubscriptionKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<SubscriptionKey, v1::Subscription>>, SaError>> {
        Box::pin(async move {
            let of = port.map(v1::PortKey::from);
            let wanted = |one: &v1::Subscription| of.is_none() || one.port == of;
            Ok(keyed_page(&self.subscriptions, after, limit, wanted))
        })
    }

    fn alias_guids(
        &self,
        after: Option<AliasGuidKey>,
        limit: usize,
        port: Option<PortId>,
    ) -> BoxFuture<'_, Result<Page<Keyed<AliasGuidKey, v1::AliasGuid>>, SaError>> {
        Box::pin(async move {
            let of = port.map(v1::PortKey::from);
            let wanted = |one: &v1::AliasGuid| of.is_none() || one.port == of;
            Ok(keyed_page(&self.aliases, after, limit, wanted))
        })
    }

    fn multicast_groups(
        &self,
        after: Option<Gid>,
        limit: usize,
        filter: MulticastGroupFilter,
    ) -> BoxFuture<'_, Result<Page<Keyed<Gid, v1::MulticastGroup>>, SaError>> {
        Box::pin(async move {
            let wanted = |one: &FakeGroup| {
                let p_key = filter.p_key.map(|key| u32::from(key) & 0x7FFF);
                p_key.is_none_or(|key| one.group.p_key & 0x7FFF == key)
                    && filter.port.is_none_or(|port| {
                        let port = Some(v1::PortKey::from(port));
                        let mut members = one.members.values();
                        members.any(|member| member.port == port)
                    })
            };
            let page = keyed_page(&self.groups, after, limit, wanted);
            let groups = page.items.into_iter().map(|Keyed { key, message }| Keyed {
                key,
                message: message.group,
            });
            Ok(Page {
                generation: GENERATION,
                items: groups.collect(),
            })
        })
    }

    fn multicast_group(
        &self,
        group: GroupSelector,
    ) -> BoxFuture<'_, Result<v1::MulticastGroup, SaError>> {
        Box::pin(async move { Ok(self.find_group(group)?.group.clone()) })
    }

    fn multicast_members(
        &self,
        group: GroupSelector,
        after: Option<Guid>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<Guid, v1::MulticastMember>>, SaError>> {
        Box::pin(async move {
            let members = &self.find_group(group)?.members;
            Ok(keyed_page(members, after, limit, |_| true))
        })
    }

    fn multicast_switches(
        &self,
        group: GroupSelector,
        after: Option<Guid>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Page<Keyed<Guid, v1::MulticastSwitch>>, SaError>> {
        Box::pin(async move {
            let switches = &self.find_group(group)?.switches;
            Ok(keyed_page(switches, after, limit, |_| true))
        })
    }
}

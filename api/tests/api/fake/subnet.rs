use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use rsm_api::model::{
    FindingFilter, GoneSwitches, Keyed, LinkFilter, NodeFilter, NodeKind, Page, PortFilter, PortId,
    RouteOutcome, Selector, SubnetState, VirtualPortId,
};
use rsm_api::resolve::{NameLookup, resolve_node, resolve_port};
use rsm_api::{LookupError, Subnet, v1};
use rsm_ids::{Gid, Guid, Lid, PortNum};
use tokio::sync::broadcast;

use super::{Fake, FakePort, GENERATION, PREFIX, guid_of, lid_of, peer_of};

/// The values of a map after the key `after` that pass the filter.
fn page<K: Ord + Copy, V: Clone>(
    map: &BTreeMap<K, V>,
    after: Option<K>,
    limit: usize,
    wanted: impl Fn(&V) -> bool,
) -> Page<V> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    Page {
        generation: GENERATION,
        items: map
            .range((from, Bound::Unbounded))
            .map(|(_, value)| value)
            .filter(|value| wanted(value))
            .take(limit)
            .cloned()
            .collect(),
    }
}

/// The same with the keys.
pub(super) fn keyed_page<K: Ord + Copy, V: Clone>(
    map: &BTreeMap<K, V>,
    after: Option<K>,
    limit: usize,
    wanted: impl Fn(&V) -> bool,
) -> Page<Keyed<K, V>> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let behind = map.range((from, Bound::Unbounded));
    let items = behind.filter(|(_, value)| wanted(value)).take(limit);
    Page {
        generation: GENERATION,
        items: items
            .map(|(&key, value)| Keyed {
                key,
                message: value.clone(),
            })
            .collect(),
    }
}

impl NameLookup for Fake {
    fn has_node(&self, guid: Guid) -> bool {
        self.nodes.contains_key(&guid)
    }

    fn port_of_guid(&self, guid: Guid) -> Option<PortId> {
        let mut ports = self.ports.values();
        ports
            .find(|port| guid_of(port) == guid)
            .map(|port| port.key)
    }

    fn port_of_lid(&self, lid: Lid) -> Option<PortId> {
        let mut ports = self.ports.values();
        ports
            .find(|port| lid != Lid::NONE && lid_of(port) == lid)
            .map(|port| port.key)
    }

    fn port_of_gid(&self, gid: Gid) -> Option<PortId> {
        let here = gid.prefix() == PREFIX;
        here.then(|| self.port_of_guid(gid.guid())).flatten()
    }

    fn nodes_described(&self, is_meant: &dyn Fn(&str) -> bool) -> Vec<Guid> {
        self.nodes
            .values()
            .filter(|node| is_meant(&node.description))
            .map(|node| node.guid.parse().unwrap())
            .collect()
    }

    fn has_port(&self, port: PortId) -> bool {
        self.ports.contains_key(&port)
    }

    fn cable_ports(&self, node: Guid) -> Vec<(PortNum, bool)> {
        self.ports
            .values()
            .filter(|port| port.key.node == node && port.key.number != PortNum::ZERO)
            .map(|port| (port.key.number, port.message.peer.is_some()))
            .collect()
    }

    fn end_ports(&self, node: Guid) -> Vec<PortNum> {
        self.ports
            .values()
            .filter(|port| port.key.node == node && port.message.lid != 0)
            .map(|port| port.key.number)
            .collect()
    }
}

impl Fake {
    pub(super) fn end_port(&self, selector: &Selector) -> Result<&FakePort, LookupError> {
        let key = resolve_port(self, selector)?;
        let port = &self.ports[&key];
        if port.message.lid == 0 {
            return Err(LookupError::NoLid { port: key });
        }
        Ok(port)
    }

    fn count(&self, kind: NodeKind) -> u64 {
        self.nodes
            .values()
            .filter(|node| node.kind() == kind)
            .count() as u64
    }
}

impl Subnet for Fake {
    fn address(&self, port: PortId) -> Option<(Guid, Lid)> {
        let found = &self.ports.get(&port)?.message;
        let lid = u16::try_from(found.lid).ok().map(Lid)?;
        Some((found.guid.parse().ok()?, lid))
    }

    fn status(&self) -> v1::SubnetStatus {
        let active = self.nodes.values().map(|node| u64::from(node.ports_active));
        v1::SubnetStatus {
            version: "0.0.0-test".to_owned(),
            fabric: "sim:test".to_owned(),
            simulated: true,
            state: self.state.into(),
            generation: GENERATION,
            uptime_ms: 125_000,
            port_guid: Guid(super::HOST + 1).to_string(),
            lid: 1,
            priority: 4,
            subnet_prefix: format!("{PREFIX:#018x}"),
            master: self.stands_by().then(|| v1::MasterElsewhere {
                guid: Guid(super::HOST).to_string(),
                lid: 9,
                priority: 14,
            }),
            switches: self.count(NodeKind::Switch),
            cas: self.count(NodeKind::Ca),
            routers: self.count(NodeKind::Router),
            links: self.links.len() as u64,
            lids: self
                .ports
                .values()
                .filter(|port| port.message.lid != 0)
                .count() as u64,
            ports_active: active.sum(),
            ports_not_active: 0,
            engine: Some(v1::EngineChoice {
                name: self.engine.lock().clone(),
                reason: "auto: any graph, never a credit loop".to_owned(),
            }),
            verify: Some(v1::Verification {
                reachable_pairs: 20,
                unreachable_pairs: 0,
                loop_free: true,
                credit_loop_free: true,
                max_hops: 2,
            }),
            findings: Some(v1::FindingCounts {
                info: 0,
                warning: self.findings.len() as u64,
                error: 0,
            }),
            smps: Some(v1::SmpCounts {
                get: 120,
                set: 34,
                retries: 2,
                timeouts: 0,
            }),
            last_convergence: self.convergences.lock().last().cloned(),
            other_managers: match self.stands_by() {
                true => other_managers(),
                false => Vec::new(),
            },
            avoided: Some(v1::AvoidedParts {
                drained: 1,
                names: vec!["leaf-2".to_owned()],
                ..v1::AvoidedParts::default()
            }),
            missing: Some(self.missing_counts()),
            description: "host-2".to_owned(),
            design: self.design.clone(),
            shared_store: Some(v1::SharedStore {
                endpoints: "http://10.0.0.1:2379".to_owned(),
                epoch: 7,
                holder: Guid(super::HOST + 1).to_string(),
                held: true,
                waiting_rows: 0,
                lag_ms: 0,
                failing_since_unix_ms: None,
                failure: String::new(),
                master_plan: None,
                read_plan: None,
            }),
            ..v1::SubnetStatus::default()
        }
    }

    fn nodes(
        &self,
        after: Option<Guid>,
        limit: usize,
        filter: &NodeFilter,
    ) -> Page<Keyed<Guid, v1::Node>> {
        keyed_page(&self.nodes, after, limit, |node| {
            filter.matches(node.kind(), &node.description)
        })
    }

    fn node(&self, selector: &Selector) -> Result<Keyed<Guid, v1::Node>, LookupError> {
        resolve_node(self, selector).map(|guid| Keyed {
            key: guid,
            message: self.nodes[&guid].clone(),
        })
    }

    fn ports(&self, after: Option<PortId>, limit: usize, filter: &PortFilter) -> Page<FakePort> {
        page(&self.ports, after, limit, |port| filter.matches(port))
    }

    fn virtual_ports(
        &self,
        after: Option<VirtualPortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<VirtualPortId, v1::VirtualPort>> {
        let of = node.map(|node| node.to_string());
        let wanted = |one: &v1::VirtualPort| {
            let key = one.port.as_ref();
            of.is_none() || key.map(|key| &key.node_guid) == of.as_ref()
        };
        keyed_page(&self.vports, after, limit, wanted)
    }

    fn virtual_ports_off(&self) -> Option<&'static str> {
        None
    }

    fn congestion_off(&self) -> Option<&'static str> {
        None
    }

    fn finding_kinds(&self) -> Vec<&'static str> {
        vec!["duplicate-description", "cable-missing"]
    }

    fn design_moves(&self, after: Option<u64>, limit: usize) -> Page<v1::DesignMove> {
        let rest = self.design_moves.iter();
        let rest = rest.filter(|one| after.is_none_or(|after| one.number > after));
        Page {
            items: rest.take(limit).cloned().collect(),
            generation: GENERATION,
        }
    }

    fn gone_switches(&self) -> GoneSwitches {
        GoneSwitches::default()
    }

    fn congestion_agents(
        &self,
        after: Option<PortId>,
        limit: usize,
        node: Option<Guid>,
    ) -> Page<Keyed<PortId, v1::CongestionAgent>> {
        let of = node.map(|node| node.to_string());
        let wanted = |one: &v1::CongestionAgent| {
            let key = one.port.as_ref();
            of.is_none() || key.map(|key| &key.node_guid) == of.as_ref()
        };
        keyed_page(&self.congestion, after, limit, wanted)
    }

    fn port(&self, selector: &Selector) -> Result<FakePort, LookupError> {
        resolve_port(self, selector).map(|key| self.ports[&key].clone())
    }

    fn attribute(
        &self,
        _attribute: v1::SmpAttribute,
        selector: &Selector,
    ) -> Result<Vec<v1::AttributeField>, LookupError> {
        resolve_node(self, selector).map(|node| {
            vec![v1::AttributeField {
                name: "NodeGUID".to_owned(),
                value: node.to_string(),
            }]
        })
    }

    fn links(
        &self,
        after: Option<PortId>,
        limit: usize,
        filter: &LinkFilter,
    ) -> Page<Keyed<PortId, v1::Link>> {
        keyed_page(&self.links, after, limit, |link| filter.matches(link))
    }

    fn forwarding_table(
        &self,
        switch: &Selector,
        after: Option<Lid>,
        limit: usize,
    ) -> Result<v1::GetForwardingTableResponse, LookupError> {
        let Keyed {
            key: guid,
            message: node,
        } = self.node(switch)?;
        let table = self
            .tables
            .get(&guid)
            .ok_or_else(|| LookupError::NotASwitch {
                selector: switch.to_string(),
            })?;
        let entry = |(&lid, &port): (&Lid, &PortNum)| {
            let destination = self.port_of_lid(lid);
            v1::ForwardingEntry {
                lid: lid.0.into(),
                port: port.0.into(),
                destination: destination.map(v1::PortKey::from),
                destination_description: destination
                    .map(|key| self.nodes[&key.node].description.clone())
                    .unwrap_or_default(),
            }
        };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let table = v1::ForwardingTable {
            switch_guid: guid.to_string(),
            description: node.description,
            lid: node.lids[0],
            top: table.last_key_value().unwrap().0.0.into(),
            entries: table
                .range((from, Bound::Unbounded))
                .take(limit)
                .map(entry)
                .collect(),
        };
        Ok(v1::GetForwardingTableResponse {
            generation: GENERATION,
            table: Some(table),
            next_page_token: String::new(),
        })
    }

    fn route(
        &self,
        source: &Selector,
        destination: &Selector,
    ) -> Result<v1::ResolveRouteResponse, LookupError> {
        let source = self.end_port(source)?;
        let destination = self.end_port(destination)?;
        let lid = lid_of(destination);
        let mut hops = Vec::new();
        let (mut node, mut in_port) = (source.key.node, None);
        let (outcome, reason) = loop {
            let out_port = match self.tables.get(&node) {
                _ if node == destination.key.node => None,
                Some(table) => table.get(&lid).copied(),
                None => Some(source.key.number),
            };
            let number = |port: PortNum| u32::from(port.0);
            hops.push(v1::Hop {
                node_guid: node.to_string(),
                description: self.nodes[&node].description.clone(),
                kind: self.nodes[&node].kind,
                in_port: in_port.map(number),
                out_port: out_port.map(number),
            });
            let Some(number) = out_port else {
                break if node == destination.key.node {
                    (RouteOutcome::Delivered, String::new())
                } else {
                    (RouteOutcome::Dropped, format!("no entry for LID {lid}"))
                };
            };
            let peer = peer_of(&self.ports[&PortId { node, number }]).unwrap();
            (node, in_port) = (peer.node, Some(peer.number));
        };
        let route = v1::Route {
            source: Some(source.key.into()),
            destination: Some(destination.key.into()),
            lid: lid.0.into(),
            hops,
            outcome: outcome.into(),
            reason,
            no_partition: String::new(),
        };
        Ok(v1::ResolveRouteResponse {
            generation: GENERATION,
            route: Some(route),
        })
    }

    fn partitions(&self, after: Option<u16>, limit: usize) -> Page<Keyed<u16, v1::Partition>> {
        let page = keyed_page(&self.partitions, after, limit, |_| true);
        let partitions = page.items.into_iter().map(|item| Keyed {
            key: item.key,
            message: item.message.0,
        });
        Page {
            generation: page.generation,
            items: partitions.collect(),
        }
    }

    fn partitions_of_port(&self, port: PortId) -> Vec<v1::PortPartition> {
        let partitions = self.partitions.iter();
        let of_port = partitions.filter_map(|(&p_key, (partition, members))| {
            let member = members.get(&port)?;
            Some(v1::PortPartition {
                p_key: p_key.into(),
                name: partition.name.clone(),
                membership: member.membership,
                index: member.index,
            })
        });
        of_port.collect()
    }

    fn partition_members(
        &self,
        p_key: u16,
        after: Option<PortId>,
        limit: usize,
    ) -> Result<Page<Keyed<PortId, v1::PartitionMember>>, LookupError> {
        let known = self.partitions.get(&(p_key & 0x7fff));
        let (_, members) = known.ok_or(LookupError::NoSuchPartition { p_key })?;
        Ok(keyed_page(members, after, limit, |_| true))
    }

    fn partition_guids(
        &self,
        p_key: u16,
        after: Option<Guid>,
        limit: usize,
    ) -> Result<Page<Keyed<Guid, v1::PartitionGuid>>, LookupError> {
        if !self.partitions.contains_key(&(p_key & 0x7fff)) {
            return Err(LookupError::NoSuchPartition { p_key });
        }
        let guids = (1..=3).map(|guid| {
            let message = v1::PartitionGuid {
                guid: Guid(guid).to_string(),
                membership: v1::Membership::Limited.into(),
                index0: guid == 1,
                ..v1::PartitionGuid::default()
            };
            (Guid(guid), message)
        });
        let guids: BTreeMap<Guid, v1::PartitionGuid> = guids.collect();
        Ok(keyed_page(&guids, after, limit, |_| true))
    }

    fn findings(
        &self,
        after: Option<u64>,
        limit: usize,
        filter: &FindingFilter,
    ) -> Page<v1::Finding> {
        let items = self.findings.iter();
        Page {
            generation: GENERATION,
            items: items
                .filter(|finding| after.is_none_or(|after| finding.id > after))
                .filter(|finding| filter.matches(finding))
                .take(limit)
                .cloned()
                .collect(),
        }
    }

    fn each_missing(
        &self,
        after: Option<PortId>,
        limit: usize,
    ) -> Page<Keyed<PortId, v1::Missing>> {
        self.missing(after, limit)
    }

    fn missing(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::Missing>> {
        Page {
            generation: GENERATION,
            items: self
                .missing
                .lock()
                .iter()
                .filter(|missing| after.is_none_or(|after| missing.key > after))
                .take(limit)
                .cloned()
                .collect(),
        }
    }

    fn drained(&self, after: Option<PortId>, limit: usize) -> Page<Keyed<PortId, v1::DrainedPart>> {
        let key = PortId {
            node: Guid(1),
            number: PortNum(0),
        };
        let message = super::control::drained("alice".to_owned(), "new fans".to_owned());
        let all = [Keyed { key, message }].into_iter();
        Page {
            generation: GENERATION,
            items: all
                .filter(|part| after.is_none_or(|after| part.key > after))
                .take(limit)
                .collect(),
        }
    }

    fn convergences(&self, limit: usize) -> Page<v1::Convergence> {
        let all = self.convergences.lock();
        Page {
            generation: GENERATION,
            items: all[all.len().saturating_sub(limit)..].to_vec(),
        }
    }

    fn events(&self, after: u64, limit: usize) -> Vec<Arc<v1::Event>> {
        self.journal.events(after, limit)
    }

    fn subscribe(&self) -> broadcast::Receiver<Arc<v1::Event>> {
        self.journal.subscribe()
    }
}

impl Fake {
    fn stands_by(&self) -> bool {
        self.state == SubnetState::Standby
    }
}

/// The master, and a manager on standby.
fn other_managers() -> Vec<v1::OtherManager> {
    let manager =
        |guid, description: &str, lid, priority, state: v1::ManagerState| v1::OtherManager {
            guid: Guid(guid).to_string(),
            description: description.to_owned(),
            lid,
            priority,
            state: state.into(),
        };
    vec![
        manager(super::HOST, "host-1", 9, 14, v1::ManagerState::Master),
        manager(0x77, "old-manager", 12, 3, v1::ManagerState::Standby),
    ]
}

use std::collections::BTreeMap;

use parking_lot::Mutex;
use rsm_api::EventJournal;
use rsm_api::model::{
    Membership, NodeKind, PhysicalState, PortId, PortState, Severity, SubnetState,
};
use rsm_api::v1;
use rsm_ids::{Guid, Lid, PortNum};

use super::{Fake, FakePort, GENERATION, JOURNAL, lid_of};

/// The first GUIDs of each kind of node.
pub(crate) const SPINE: u64 = 0x0002_c903_0000_0010;
pub(crate) const LEAF: u64 = 0x0002_c903_0000_1000;
pub(crate) const HOST: u64 = 0x0002_c903_0010_0000;
/// Two hosts without cables, with the same description.
pub(crate) const TWIN: u64 = 0x0002_c903_0020_0000;

/// The GUID of the node of a kind with this index.
pub(crate) fn guid(kind: u64, index: u64) -> Guid {
    Guid(kind + index)
}

/// 2026-11-20T00:00:00Z.
const BEGIN_UNIX_MS: u64 = 1_795_132_800_000;

impl Fake {
    /// One spine, `leaves` leaf switches under it with `hosts` hosts each, and the twins.
    pub(crate) fn tree(leaves: u8, hosts: u8) -> Fake {
        let mut fake = Fake {
            nodes: BTreeMap::new(),
            ports: BTreeMap::new(),
            links: BTreeMap::new(),
            tables: BTreeMap::new(),
            partitions: BTreeMap::new(),
            partition_changes: Mutex::default(),
            groups: BTreeMap::new(),
            services: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            aliases: BTreeMap::new(),
            vports: BTreeMap::new(),
            congestion: BTreeMap::new(),
            findings: Vec::new(),
            missing: Mutex::default(),
            design: None,
            design_moves: Vec::new(),
            state: SubnetState::Up,
            convergences: Mutex::new(vec![first_convergence()]),
            engine: Mutex::new("updn".to_owned()),
            actions: Mutex::new(Vec::new()),
            journal: EventJournal::new(JOURNAL, JOURNAL),
        };
        let spine = guid(SPINE, 0);
        fake.add_node(spine, NodeKind::Switch, "spine-1", leaves, Some(0));
        for leaf in 0..leaves {
            let leaf_guid = guid(LEAF, leaf.into());
            let description = format!("leaf-{}", leaf + 1);
            fake.add_node(
                leaf_guid,
                NodeKind::Switch,
                &description,
                hosts + 1,
                Some(1),
            );
            for host in 0..hosts {
                let number = u64::from(leaf) * u64::from(hosts) + u64::from(host);
                let host_guid = guid(HOST, number);
                fake.add_node(
                    host_guid,
                    NodeKind::Ca,
                    &format!("host-{}", number + 1),
                    1,
                    None,
                );
                fake.cable(leaf_guid, host + 1, host_guid, 1);
            }
            fake.cable(spine, leaf + 1, leaf_guid, hosts + 1);
        }
        for twin in 0..2 {
            fake.add_node(guid(TWIN, twin), NodeKind::Ca, "twin", 1, None);
        }
        fake.assign_lids();
        fake.route_all(leaves, hosts);
        fake.divide();
        fake.gather();
        fake.offer();
        fake.subscribe();
        fake.rename();
        fake.add_vports();
        fake.add_congestion_agents();
        fake.findings.push(v1::Finding {
            id: 3,
            kind: "duplicate-description".to_owned(),
            severity: Severity::Warning.into(),
            node_guid: guid(TWIN, 1).to_string(),
            port: Some(1),
            message: "Two nodes call themselves `twin`: name one of them otherwise.".to_owned(),
            generation: 1,
            raised_unix_ms: BEGIN_UNIX_MS + 1,
            occurrences: 2,
            name: "MF0;twin:MQM8790/U1:1 - host-2:1".to_owned(),
        });
        fake
    }

    /// All ports are in the default partition, and the hosts in a second one, every other host as a
    /// full member.
    fn divide(&mut self) {
        let partition = |p_key: u16, name: &str, full: usize, limited: usize| v1::Partition {
            p_key: p_key.into(),
            name: name.to_owned(),
            full_members: full as u64,
            limited_members: limited as u64,
            ipoib: p_key == 0x7fff,
            service_level: 0,
            mtu_bytes: 4096,
            groups: u32::from(p_key == 0x7fff),
            origin: match p_key {
                0x7fff => v1::PartitionOrigin::BuiltIn,
                _ => v1::PartitionOrigin::Api,
            }
            .into(),
            ..v1::Partition::default()
        };
        let member = |port: &FakePort, membership: Membership, index| {
            let member = v1::PartitionMember {
                port: Some(port.key.into()),
                description: port.message.node_description.clone(),
                membership: membership.into(),
                index,
            };
            (port.key, member)
        };
        let of = |members: Vec<(PortId, v1::PartitionMember)>| {
            members.into_iter().collect::<BTreeMap<_, _>>()
        };
        let ends = self.ports.values().filter(|port| port.message.lid != 0);
        let everybody: Vec<_> = ends
            .clone()
            .map(|port| member(port, Membership::Full, 0))
            .collect();
        let hosts: Vec<_> = ends
            .filter(|port| port.message.node_kind() == NodeKind::Ca)
            .zip([Membership::Full, Membership::Limited].into_iter().cycle())
            .map(|(port, membership)| member(port, membership, 1))
            .collect();
        let full = hosts.len().div_ceil(2);
        let tenant = partition(0x10, "tenant-a", full, hosts.len() - full);
        let default = partition(0x7fff, "Default", everybody.len(), 0);
        self.partitions.insert(0x10, (tenant, of(hosts)));
        self.partitions.insert(0x7fff, (default, of(everybody)));
    }

    fn add_node(
        &mut self,
        guid: Guid,
        kind: NodeKind,
        description: &str,
        num_ports: u8,
        rank: Option<u8>,
    ) {
        self.nodes.insert(
            guid,
            v1::Node {
                guid: guid.to_string(),
                system_image_guid: guid.to_string(),
                kind: kind.into(),
                description: description.to_owned(),
                num_ports: num_ports.into(),
                ports_active: 0,
                lids: Vec::new(),
                vendor_id: 0x02c9,
                device_id: 0xd2f0,
                revision: 0xa0,
                distance: 1,
                rank: rank.map(u32::from),
                suspected: false,
                avoidance: 0,
                capabilities: None,
            },
        );
        let first = u8::from(kind != NodeKind::Switch);
        for number in first..=num_ports {
            let key = PortId {
                node: guid,
                number: PortNum(number),
            };
            let management = number == 0;
            let end = management || kind != NodeKind::Switch;
            let port_guid = if end {
                Guid(guid.0 + u64::from(number))
            } else {
                Guid::ZERO
            };
            let (state, physical_state) = if management {
                (PortState::Active, PhysicalState::LinkUp)
            } else {
                (PortState::Down, PhysicalState::Polling)
            };
            let message = v1::Port {
                key: Some(key.into()),
                guid: port_guid.to_string(),
                node_description: description.to_owned(),
                node_kind: kind.into(),
                state: state.into(),
                physical_state: physical_state.into(),
                ..v1::Port::default()
            };
            self.ports.insert(key, FakePort { key, message });
        }
    }

    fn cable(&mut self, a: Guid, a_port: u8, b: Guid, b_port: u8) {
        let key = |node, number| PortId {
            node,
            number: PortNum(number),
        };
        let (a, b) = (key(a, a_port), key(b, b_port));
        for (near, far) in [(a, b), (b, a)] {
            let description = self.nodes[&far.node].description.clone();
            let port = &mut self.ports.get_mut(&near).unwrap().message;
            port.state = PortState::Active.into();
            port.physical_state = PhysicalState::LinkUp.into();
            port.width = v1::LinkWidth::LinkWidth4x.into();
            port.speed = v1::LinkSpeed::Ndr.into();
            port.mtu_bytes = 4096;
            port.operational_vls = 4;
            port.peer = Some(v1::Peer {
                port: Some(far.into()),
                description,
            });
            self.nodes.get_mut(&near.node).unwrap().ports_active += 1;
        }
        let end = |key: PortId| {
            let node = &self.nodes[&key.node];
            Some(v1::LinkEnd {
                port: Some(key.into()),
                description: node.description.clone(),
                kind: node.kind,
            })
        };
        let (first, second) = (a.min(b), a.max(b));
        let link = v1::Link {
            a: end(first),
            b: end(second),
            state: PortState::Active.into(),
            width: v1::LinkWidth::LinkWidth4x.into(),
            speed: v1::LinkSpeed::Ndr.into(),
            ..v1::Link::default()
        };
        self.links.insert(first, link);
    }

    /// LIDs from 1 on for every end port that is up, in order of GUIDs.
    fn assign_lids(&mut self) {
        let mut next = 1;
        for port in self.ports.values_mut() {
            let is_switch = port.message.node_kind() == NodeKind::Switch;
            let end = !is_switch || port.key.number == PortNum::ZERO;
            if end && port.message.state() == PortState::Active {
                port.message.lid = next;
                next += 1;
                self.nodes
                    .get_mut(&port.key.node)
                    .unwrap()
                    .lids
                    .push(port.message.lid);
            }
        }
    }

    fn route_all(&mut self, leaves: u8, hosts: u8) {
        let up = PortNum(hosts + 1);
        let lids: Vec<(Guid, Lid)> = self
            .ports
            .values()
            .filter(|port| port.message.lid != 0)
            .map(|port| (port.key.node, lid_of(port)))
            .collect();
        for (node, lid) in lids {
            // The leaf that is the destination or next to it, and the leaf's port towards it.
            let below = match node.0 {
                SPINE => None,
                host if host >= HOST => {
                    let index = host - HOST;
                    let port = u8::try_from(index % u64::from(hosts)).unwrap() + 1;
                    Some((index / u64::from(hosts), PortNum(port)))
                }
                leaf => Some((leaf - LEAF, PortNum::ZERO)),
            };
            let from_spine = below.map_or(PortNum::ZERO, |(leaf, _)| {
                PortNum(u8::try_from(leaf).unwrap() + 1)
            });
            self.set_entry(guid(SPINE, 0), lid, from_spine);
            for leaf in 0..u64::from(leaves) {
                let port = match below {
                    Some((home, down)) if home == leaf => down,
                    _ => up,
                };
                self.set_entry(guid(LEAF, leaf), lid, port);
            }
        }
    }

    fn set_entry(&mut self, switch: Guid, lid: Lid, port: PortNum) {
        self.tables.entry(switch).or_default().insert(lid, port);
    }
}

fn first_convergence() -> v1::Convergence {
    v1::Convergence {
        sequence: 1,
        generation: GENERATION,
        cause: "start".to_owned(),
        finished_unix_ms: BEGIN_UNIX_MS + 12,
        timing_ms: Some(v1::Timing {
            discover: 4.5,
            plan: 0.25,
            push: 7.125,
            total: 11.875,
        }),
        smps: Some(v1::SmpCounts {
            get: 120,
            set: 34,
            retries: 2,
            timeouts: 0,
        }),
        lft_blocks: 3,
        mft_blocks: 2,
        ports_activated: 8,
        complete: true,
        whole: vec!["proof: no plan is in force".to_owned()],
    }
}

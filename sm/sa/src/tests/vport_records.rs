//! Tests of records of virtual ports: lookups by LID and GUID, partitions, shared LIDs, and queries
//! with any component mask.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use rsm_config::parse_partitions;
use rsm_ids::{Guid, Lid, Lmc, PortNum};
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::wire::attr::{CapabilityMask, CapabilityMask2, NodeType, PKey, PortState};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::vports::GuidBlock;
use rsm_plan::policy::Policy;

use super::vports::{add_vports, vport};
use super::world::{PREFIX, SM_KEY, SMALL, World, planned_as, records};
use crate::{Sa, SaConfig, WORK_PER_PULL};

/// The mask of a query that all records match.
const ALL: ComponentMask = ComponentMask::NONE;
/// Number of virtual ports of each host. Virtual ports at even indices have their own LID.
const VPORTS: u64 = 16;
const HOSTS: u64 = 4;
const RED: PKey = PKey(0x8010);
/// Capability of a physical port that its virtual ports lack.
const PORT_ONLY: CapabilityMask = CapabilityMask::IS_DEVICE_MANAGEMENT_SUPPORTED;
/// Capability of a physical port, in CapabilityMask2, that its virtual ports lack.
const PORT_ONLY2: CapabilityMask2 = CapabilityMask2::IS_VIRTUALIZATION_SUPPORTED;

/// The GUID of the virtual port with this index at a host.
pub(super) fn guid(host: u64, index: u64) -> Guid {
    Guid(0x00AA_0000 + host * 0x1000 + index)
}

/// The ports of hosts, in the order of nodes.
pub(super) fn hosts_of(fabric: &Fabric) -> Vec<PortRef> {
    let ports = fabric.end_ports().map(|(at, _)| at);
    ports
        .filter(|at| fabric.node(at.node).kind() != NodeType::Switch)
        .collect()
}

/// A world of hosts with `count` Active virtual ports each, with the partitions in the text
/// `partitions`.
pub(super) fn world_with(count: u64, partitions: &str) -> World {
    let (fabric, plan) = planned_as(SMALL, |fabric| {
        for node in fabric.nodes_mut() {
            node.info.set_partition_cap(8);
        }
        for (host, &at) in (0..).zip(&hosts_of(fabric)) {
            let vports = (1..=count).map(|index| {
                let has_own_lid = index % 2 == 0;
                let mut vport = vport(guid(host, index), has_own_lid, PortState::Active);
                vport.description = format!("vm {host} {index}").into();
                vport.info.set_guid_cap(8).set_p_key_violations(3);
                vport
            });
            add_vports(fabric, at, vports.collect());
            let info = fabric.port_mut(at).info.as_mut().unwrap();
            let (held, held2) = (info.capability_mask(), info.capability_mask2());
            info.set_port_state(PortState::Active)
                .set_capability_mask(held | PORT_ONLY)
                .set_capability_mask2(held2 | PORT_ONLY2);
        }
        let (partitions, findings) = parse_partitions(Path::new("p.conf"), partitions, false);
        assert!(findings.is_empty(), "{findings:?}");
        Policy {
            partitions: Arc::new(partitions),
            ..Policy::default()
        }
    });
    World::of(fabric, plan)
}

/// A world in which virtual port 2 of host 1 is the only member of the partition [`RED`].
fn world() -> World {
    let red = guid(1, 2);
    world_with(
        VPORTS,
        &format!("Default=0x7fff : ALL=full ;\nRed=0x10 : {red}=full ;"),
    )
}

/// `world` with an SA that lists virtual ports in tables if the request names no port.
fn listing(mut world: World) -> World {
    let mut sa = Sa::new(SaConfig {
        sm_key: SM_KEY,
        lists_vports: true,
        ..SaConfig::default()
    });
    sa.replace(&world.snapshot);
    sa.handle_deadline(world.now);
    world.sa = sa;
    world
}

/// The LID of the end with this GUID.
fn lid_of(world: &World, guid: Guid) -> Lid {
    let directory = world.sa.sa_snapshot.directory().unwrap();
    directory.end(directory.by_guid(guid).unwrap()).lid
}

/// The virtual ports with a LID of their own: host, index and LID.
fn vports_with_own_lids(world: &World) -> Vec<(u64, u64, Lid)> {
    let all = (0..HOSTS).flat_map(|host| (2..=VPORTS).step_by(2).map(move |index| (host, index)));
    all.map(|(host, index)| (host, index, lid_of(world, guid(host, index))))
        .collect()
}

/// A NodeRecord with these GUIDs.
fn node_with(port_guid: Guid, node_guid: Guid) -> NodeRecord {
    let mut wanted = NodeRecord::default();
    let mut info = wanted.node_info();
    info.set_port_guid(port_guid).set_node_guid(node_guid);
    wanted.set_node_info(&info);
    wanted
}

/// The records that a trusted requester gets.
fn trusted<R: Record>(world: &mut World, mask: ComponentMask, record: &R) -> Vec<R> {
    let host = world.hosts()[0];
    let table = Method::GET_TABLE;
    world.ask_from((host, SM_KEY), table, mask, record).unwrap()
}

#[test]
fn vport_with_its_own_lid_is_found_by_lid_port_guid_and_node_guid() {
    let mut world = world();
    let hosts = world.hosts();
    let base = world.table(ALL, &NodeRecord::default());
    for (host, index, lid) in vports_with_own_lids(&world) {
        assert!(!hosts.contains(&lid));
        let guid = guid(host, index);
        let vnode = Guid(guid.0 | 1 << 40);
        let mut by_lid = node_with(guid, vnode);
        by_lid.set_lid(lid);
        for mask in [
            NodeRecord::LID,
            NodeRecord::PORT_GUID,
            NodeRecord::NODE_GUID,
        ] {
            let found = world.get(mask, &by_lid).unwrap();
            let info = found.node_info();
            assert_eq!((found.lid(), info.port_guid()), (lid, guid));
            assert_eq!((info.node_guid(), info.num_ports()), (vnode, 1));
            assert_eq!(
                (info.partition_cap(), info.local_port_num()),
                (32, PortNum(1))
            );
            assert_eq!(info.node_type(), NodeType::Ca);
            let text = format!("vm {host} {index}");
            assert_eq!(found.node_description().text(), text.as_bytes());
            let adapter = base.iter().find(|node| node.lid() == hosts[host as usize]);
            let adapter = adapter.unwrap().node_info();
            assert_eq!(info.device_id(), adapter.device_id());
            assert_eq!(info.system_image_guid(), adapter.system_image_guid());
        }
        // Components that contradict each other match no record.
        by_lid.set_lid(hosts[0]);
        let both = NodeRecord::LID | NodeRecord::PORT_GUID;
        assert_eq!(world.get(both, &by_lid), Err(SaStatus::NO_RECORDS));
    }
}

#[test]
fn port_info_of_a_vport_has_its_state_and_the_link_of_its_port() {
    let mut world = world();
    let hosts = world.hosts();
    for (host, _, lid) in vports_with_own_lids(&world) {
        let mut wanted = PortInfoRecord::default();
        wanted.set_end_port_lid(lid).set_port_num(PortNum(1));
        let mask = PortInfoRecord::END_PORT_LID | PortInfoRecord::PORT_NUM;
        let found = world.get(mask, &wanted).unwrap();
        wanted.set_end_port_lid(hosts[host as usize]);
        let port = world.get(mask, &wanted).unwrap();
        let (info, port) = (found.port_info(), port.port_info());
        assert_eq!(
            (found.end_port_lid(), info.lid(), info.lmc()),
            (lid, lid, Lmc::ZERO)
        );
        assert_eq!(info.port_state(), PortState::Active);
        assert_eq!((info.guid_cap(), info.p_key_violations()), (8, 3));
        assert_eq!(info.neighbor_mtu(), port.neighbor_mtu());
        assert_eq!(info.link_width_active(), port.link_width_active());
        assert_eq!(info.link_speed_ext_active(), port.link_speed_ext_active());
        assert_eq!(info.gid_prefix(), port.gid_prefix());
        assert!(port.capability_mask().contains(PORT_ONLY));
        assert!((info.capability_mask() & PORT_ONLY).is_empty());
        assert!(port.capability_mask2().contains(PORT_ONLY2));
        assert!((info.capability_mask2() & PORT_ONLY2).is_empty());
        // The port has an M_Key, and the virtual port has none.
        let keys = |lid: Lid| PortInfoRecord::default().set_end_port_lid(lid).to_owned();
        let by_lid = PortInfoRecord::END_PORT_LID;
        let of_vport = trusted(&mut world, by_lid, &keys(lid));
        assert_eq!(of_vport[0].port_info().m_key(), 0);
        let of_port = trusted(&mut world, by_lid, &keys(hosts[host as usize]));
        assert_ne!(of_port[0].port_info().m_key(), 0);
    }
}

/// A program that searches targets of device management must find each port once.
#[test]
fn search_by_capabilities_finds_only_physical_ports() {
    for mut world in [world(), listing(world())] {
        let mut wanted = PortInfoRecord::default();
        wanted.port_info_mut().set_capability_mask(PORT_ONLY);
        let mask = PortInfoRecord::CAPABILITY_MASK;
        let found: Vec<PortInfoRecord> = world
            .ask_with(Method::GET_TABLE, mask, &wanted, |header| {
                let by_bits = PortInfoRecord::CAPABILITY_MASK_MATCH;
                header.mad_mut().set_modifier(by_bits);
            })
            .unwrap();
        let lids: Vec<Lid> = found.iter().map(PortInfoRecord::end_port_lid).collect();
        assert_eq!(lids, world.hosts());
    }
}

#[test]
fn p_keys_and_guids_of_a_vport_are_found_by_lid() {
    let mut world = world();
    for (host, index, lid) in vports_with_own_lids(&world) {
        let guid = guid(host, index);
        let mut wanted = GuidInfoRecord::default();
        wanted.set_lid(lid);
        wanted.guid_info_mut().set_guids([guid; 8]);
        let by_guid = GuidInfoRecord::BLOCK_NUM | GuidInfoRecord::GUID0;
        for mask in [GuidInfoRecord::LID, by_guid] {
            let found = world.get(mask, &wanted).unwrap();
            assert_eq!((found.lid(), found.block_num()), (lid, 0));
            let mut guids = [Guid::ZERO; 8];
            guids[0] = guid;
            assert_eq!(found.guid_info().guids(), guids);
        }
        let mut wanted = PKeyTableRecord::default();
        wanted.set_lid(lid);
        let tables = trusted(&mut world, PKeyTableRecord::LID, &wanted);
        assert_eq!(tables.len(), 1);
        let keys = tables[0].table().p_keys();
        assert!(keys.contains(&PKey::DEFAULT_FULL));
        assert_eq!(
            keys.contains(&RED),
            (host, index) == (1, 2),
            "{host} {index}"
        );
        // The table shows which partitions exist.
        let untrusted = world.get(PKeyTableRecord::LID, &wanted);
        assert_eq!(untrusted, Err(SaStatus::REQ_INVALID));
    }
}

/// The entries of a block beyond GUIDCap are zero.
#[test]
fn guid_records_of_a_vport_contain_the_guids_that_its_adapter_showed() {
    let further: GuidBlock = std::array::from_fn(|entry| Guid(0x00CC_0000 + entry as u64));
    let with_own = |guid: Guid| {
        let mut block = further;
        block[0] = guid;
        block
    };
    let [all, holes, hidden] = [1, 2, 3].map(|index| guid(0, index));
    // GUIDCap, and the blocks that the adapter showed.
    let shown = [
        (all, 12, BTreeMap::from([(0, with_own(all)), (1, further)])),
        (
            holes,
            24,
            BTreeMap::from([(0, with_own(holes)), (2, further)]),
        ),
        (hidden, 12, BTreeMap::new()),
    ];
    let (fabric, plan) = planned_as(SMALL, |fabric| {
        let vports = shown.iter().map(|(guid, capacity, blocks)| {
            let mut vport = vport(*guid, true, PortState::Active);
            vport.info.set_guid_cap(*capacity);
            vport.guids = Some(Arc::new(blocks.clone()));
            vport
        });
        let host = hosts_of(fabric)[0];
        add_vports(fabric, host, vports.collect());
        Policy::default()
    });
    let mut world = World::of(fabric, plan);
    let mut beyond = further;
    beyond[4..].fill(Guid::ZERO);
    let mut alone = [Guid::ZERO; 8];
    alone[0] = hidden;
    let expected = [
        (all, vec![(0, with_own(all)), (1, beyond)]),
        (holes, vec![(0, with_own(holes)), (2, further)]),
        (hidden, vec![(0, alone)]),
    ];
    for (guid, blocks) in expected {
        let lid = lid_of(&world, guid);
        let mut wanted = GuidInfoRecord::default();
        wanted.set_lid(lid);
        let found = trusted(&mut world, GuidInfoRecord::LID, &wanted);
        let found: Vec<(u8, GuidBlock)> = found
            .iter()
            .map(|record| (record.block_num(), record.guid_info().guids()))
            .collect();
        assert_eq!(found, blocks, "{guid}");
    }
}

/// A virtual port that shares the LID of its physical port has no records, because the physical
/// port has records with that LID. A path contains all that a host needs.
#[test]
fn vports_that_share_a_lid_have_paths_and_no_records() {
    for mut world in [world(), listing(world())] {
        let hosts = world.hosts();
        let shared = guid(1, 3);
        assert_eq!(lid_of(&world, shared), hosts[1]);
        let mut wanted = node_with(shared, Guid(shared.0 | 1 << 40));
        wanted.set_lid(hosts[1]);
        for mask in [NodeRecord::PORT_GUID, NodeRecord::NODE_GUID] {
            assert_eq!(world.get(mask, &wanted), Err(SaStatus::NO_RECORDS));
        }
        let of_lid = world.get(NodeRecord::LID, &wanted).unwrap();
        assert_eq!(of_lid.node_info().port_guid(), world.guid(hosts[1]));
        let mut wanted = PathRecord::default();
        let mask = PathRecord::SGID | PathRecord::DGID;
        wanted
            .set_sgid(world.gid(hosts[0]))
            .set_dgid(Gid::new(PREFIX, shared));
        let path = world.get(mask, &wanted).unwrap();
        assert_eq!((path.dlid(), path.hop_limit()), (hosts[1], 2));
    }
}

/// The identifiers of all NodeRecords, PortInfoRecords, GUIDInfoRecords and P_KeyTableRecords.
fn identifiers(world: &mut World) -> Vec<(&'static str, u16, u8, u16)> {
    let mut all = Vec::new();
    let nodes = trusted(world, ALL, &NodeRecord::default());
    all.extend(nodes.iter().map(|r| ("node", r.lid().0, 0, 0)));
    let ports = trusted(world, ALL, &PortInfoRecord::default());
    all.extend(
        ports
            .iter()
            .map(|r| ("port", r.end_port_lid().0, r.port_num().0, 0)),
    );
    let guids = trusted(world, ALL, &GuidInfoRecord::default());
    all.extend(guids.iter().map(|r| ("guids", r.lid().0, r.block_num(), 0)));
    let keys = trusted(world, ALL, &PKeyTableRecord::default());
    all.extend(
        keys.iter()
            .map(|r| ("keys", r.lid().0, r.port_num().0, r.block_num())),
    );
    all
}

#[test]
fn tables_contain_each_record_once_with_and_without_vports() {
    let (mut plain, mut listing) = (world(), listing(world()));
    let without = identifiers(&mut plain);
    let with = identifiers(&mut listing);
    for all in [&without, &with] {
        let different: BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }
    let vports_with_own_lids = vports_with_own_lids(&listing).len();
    // Each virtual port with a LID adds one record of each of the four kinds.
    assert_eq!(with.len(), without.len() + 4 * vports_with_own_lids);
    assert_eq!(
        with.iter().filter(|id| id.0 == "node").count(),
        4 + 4 + vports_with_own_lids
    );
}

#[test]
fn vport_sees_only_ends_that_share_a_partition_with_it() {
    let (requester, friend, stranger) = (guid(1, 2), guid(2, 2), guid(3, 2));
    let partitions = format!(
        "Default=0x7fff : ALL=limited ;\nRed=0x10 : {requester}=full, {friend}=full ;\n\
         Blue=0x20 : {stranger}=full ;"
    );
    for mut world in [
        world_with(VPORTS, &partitions),
        listing(world_with(VPORTS, &partitions)),
    ] {
        let [requester, friend, stranger] =
            [requester, friend, stranger].map(|guid| lid_of(&world, guid));
        for (lid, is_seen) in [(requester, true), (friend, true), (stranger, false)] {
            let (mut node, mut port) = (NodeRecord::default(), PortInfoRecord::default());
            let mut guids = GuidInfoRecord::default();
            node.set_lid(lid);
            port.set_end_port_lid(lid);
            guids.set_lid(lid);
            let from = (requester, 0);
            let table = Method::GET_TABLE;
            let count = usize::from(is_seen);
            let found = world.ask_from(from, table, NodeRecord::LID, &node);
            assert_eq!(found.unwrap().len(), count, "{lid}");
            let found = world.ask_from(from, table, PortInfoRecord::END_PORT_LID, &port);
            assert_eq!(found.unwrap().len(), count, "{lid}");
            let found = world.ask_from(from, table, GuidInfoRecord::LID, &guids);
            assert_eq!(found.unwrap().len(), count, "{lid}");
        }
        // Ports are limited members of the default partition, including the requester's host.
        let nodes = world.ask_from(
            (requester, 0),
            Method::GET_TABLE,
            ALL,
            &NodeRecord::default(),
        );
        let lids: BTreeSet<Lid> = nodes.unwrap().iter().map(NodeRecord::lid).collect();
        assert!(!lids.contains(&stranger));
        assert!(!lids.contains(&world.hosts()[1]));
    }
}

#[test]
fn vport_that_vanished_is_only_in_answers_that_began_before() {
    let mut world = listing(world());
    let vanished = guid(1, 2);
    let lid = lid_of(&world, vanished);
    let mad = SaMad::request(Method::GET_TABLE, Tid(5), ALL, &NodeRecord::default());
    let mut under_way = world.handle(mad.as_bytes()).unwrap();
    let mut first = [0; 200];
    assert_eq!(under_way.pull(&mut first).bytes, first.len());

    let mut fabric = Fabric::clone(&world.snapshot.fabric);
    let at = hosts_of(&fabric)[1];
    let vports = fabric.port_mut(at).vports.as_mut().unwrap();
    Arc::make_mut(vports).vports.remove(&2);
    world.snapshot.fabric = Arc::new(fabric);
    world.sa.replace(&world.snapshot);

    let mut wanted = node_with(vanished, Guid(vanished.0 | 1 << 40));
    wanted.set_lid(lid);
    for mask in [
        NodeRecord::LID,
        NodeRecord::PORT_GUID,
        NodeRecord::NODE_GUID,
    ] {
        assert_eq!(world.get(mask, &wanted), Err(SaStatus::NO_RECORDS));
    }
    let mut port = PortInfoRecord::default();
    port.set_end_port_lid(lid);
    let found = world.get(PortInfoRecord::END_PORT_LID, &port);
    assert_eq!(found, Err(SaStatus::NO_RECORDS));
    let now = world.table(ALL, &NodeRecord::default());
    assert!(!now.iter().any(|record| record.lid() == lid));
    // The answer that began earlier has all records of the moment at which it began.
    let rest = under_way.into_message(usize::MAX).unwrap();
    let bytes = [&first[..], &rest[SA_HEADER_LEN..]].concat();
    let lids = bytes.chunks(NodeRecord::LEN);
    let lids: Vec<Lid> = lids
        .map(|bytes| NodeRecord::from_prefix(bytes).unwrap().lid())
        .collect();
    assert_eq!(lids.len(), now.len() + 1);
    assert!(lids.contains(&lid));
}

/// A guest may claim the GUID of a physical port. Records then still show only the physical port.
#[test]
fn vport_with_the_guid_of_a_port_has_no_records() {
    let mut world = listing(world());
    let victim = world.hosts()[3];
    let victim_guid = world.guid(victim);
    let mut fabric = Fabric::clone(&world.snapshot.fabric);
    let at = hosts_of(&fabric)[1];
    let vports = Arc::make_mut(fabric.port_mut(at).vports.as_mut().unwrap());
    let vport = vports.vports.get_mut(&2).unwrap();
    vport.info.set_port_guid(victim_guid);
    world.snapshot.fabric = Arc::new(fabric);
    world.sa.replace(&world.snapshot);
    let wanted = node_with(victim_guid, Guid::ZERO);
    let found = world.table(NodeRecord::PORT_GUID, &wanted);
    let lids: Vec<Lid> = found.iter().map(NodeRecord::lid).collect();
    assert_eq!(lids, [victim]);
    let all = world.table(ALL, &NodeRecord::default());
    let claims = all
        .iter()
        .filter(|node| node.node_info().port_guid() == victim_guid);
    assert_eq!(claims.count(), 1);
}

/// If two ports have the same GUID, a lookup finds both, as a search without an index would.
#[test]
fn lookup_by_guid_finds_all_ports_with_that_guid() {
    let mut world = world();
    let hosts = world.hosts();
    let (twin, own) = (world.guid(hosts[0]), guid(1, 2));
    let own_lid = lid_of(&world, own);
    let mut fabric = Fabric::clone(&world.snapshot.fabric);
    let at = hosts_of(&fabric)[2];
    fabric.port_mut(at).guid = twin;
    world.snapshot.fabric = Arc::new(fabric);
    world.sa.replace(&world.snapshot);
    let found = world.table(NodeRecord::PORT_GUID, &node_with(twin, Guid::ZERO));
    let lids: Vec<Lid> = found.iter().map(NodeRecord::lid).collect();
    assert_eq!(lids, [hosts[0], hosts[2]]);
    let found = world.table(NodeRecord::PORT_GUID, &node_with(own, Guid::ZERO));
    let lids: Vec<Lid> = found.iter().map(NodeRecord::lid).collect();
    assert_eq!(lids, [own_lid]);
}

#[test]
fn lookups_by_lid_or_guid_examine_only_matching_ends() {
    const MANY: u64 = 1000;
    let mut world = listing(world_with(MANY, "Default=0x7fff : ALL=full ;"));
    let all = world.sa.sa_snapshot.directory().unwrap().len();
    assert!(all > 3 * WORK_PER_PULL);
    let wanted = guid(3, MANY);
    let lid = lid_of(&world, wanted);
    let mut node = node_with(wanted, Guid(wanted.0 | 1 << 40));
    node.set_lid(lid);
    let mut port = PortInfoRecord::default();
    port.set_end_port_lid(lid);
    let mut guids = GuidInfoRecord::default();
    guids.guid_info_mut().set_guids([wanted; 8]);
    let by_guid = GuidInfoRecord::BLOCK_NUM | GuidInfoRecord::GUID0;
    let mads = [
        SaMad::request(Method::GET_TABLE, Tid(1), NodeRecord::LID, &node),
        SaMad::request(Method::GET_TABLE, Tid(1), NodeRecord::PORT_GUID, &node),
        SaMad::request(Method::GET_TABLE, Tid(1), NodeRecord::NODE_GUID, &node),
        SaMad::request(
            Method::GET_TABLE,
            Tid(1),
            PortInfoRecord::END_PORT_LID,
            &port,
        ),
        SaMad::request(Method::GET_TABLE, Tid(1), by_guid, &guids),
    ];
    let mut out = [0; 4096];
    for mad in &mads {
        let mut answer = world.handle(mad.as_bytes()).unwrap();
        let pulled = answer.pull(&mut out);
        let len = usize::from(answer.header().attribute_offset()) * 8;
        assert_eq!(
            (pulled.bytes, pulled.ended),
            (len, true),
            "one record in one turn"
        );
    }
    // The search for a description takes several turns.
    let by_text = NodeRecord::NODE_DESCRIPTION;
    let mad = SaMad::request(Method::GET_TABLE, Tid(1), by_text, &node);
    let mut answer = world.handle(mad.as_bytes()).unwrap();
    assert!(!answer.pull(&mut out).ended);
}

/// A random component mask with few or many bits.
fn any_mask() -> impl Strategy<Value = u64> {
    let few = prop::collection::vec(0..15u32, 0..4);
    let few = few.prop_map(|bits| bits.iter().fold(0, |mask, bit| mask | 1 << bit));
    prop_oneof![8 => few, 1 => any::<u64>()]
}

/// Whether `record` agrees with `wanted` in the components `mask`, compared bit by bit.
fn matches<R: Record>(record: &R, wanted: &R, mask: ComponentMask) -> bool {
    let bit = |of: &R, at: usize| of.as_bytes()[at / 8] >> (7 - at % 8) & 1;
    let asked = R::COMPONENTS
        .iter()
        .filter(|component| mask.contains(component.mask));
    let mut bits = asked.flat_map(|one| {
        let first = usize::from(one.offset);
        first..first + usize::from(one.width)
    });
    bits.all(|at| bit(record, at) == bit(wanted, at))
}

/// Checks the answer to a query against the table of all records. The query is for the record at
/// index `index` of that table, with the bit `flipped` inverted; `None` inverts no bit.
fn check<R: Record + PartialEq + std::fmt::Debug>(
    world: &mut World,
    mask: u64,
    (index, flipped): (usize, Option<usize>),
) -> Result<(), TestCaseError> {
    let all: Vec<R> = trusted(world, ALL, &R::default());
    let mut bytes = all[index % all.len()].as_bytes().to_vec();
    if let Some(bit) = flipped {
        let bit = bit % (8 * R::LEN);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    let wanted = *R::from_prefix(&bytes).unwrap();
    let mask = ComponentMask(mask);
    let host = world.hosts()[0];
    let found: Result<Vec<R>, Status> =
        world.ask_from((host, SM_KEY), Method::GET_TABLE, mask, &wanted);
    let last = R::COMPONENTS.last().unwrap().mask.0;
    match found {
        Ok(found) => {
            let expected = all.iter().filter(|record| matches(*record, &wanted, mask));
            prop_assert_eq!(found, expected.copied().collect::<Vec<R>>());
        }
        Err(status) => {
            prop_assert_eq!(status, SaStatus::REQ_INVALID);
            prop_assert!(mask.0 > last, "{:?}", mask);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The answer to any query is the matching part of all records, in the same order.
    #[test]
    fn any_query_finds_exactly_the_matching_records(
        mask in any_mask(),
        index in any::<usize>(),
        flipped in prop::option::of(any::<usize>()),
        kind in 0..4,
    ) {
        thread_local! {
            static WORLD: std::cell::RefCell<World> = std::cell::RefCell::new(listing(world()));
        }
        WORLD.with_borrow_mut(|world| match kind {
            0 => check::<NodeRecord>(world, mask, (index, flipped)),
            // Options choose the form of the answer, and are not compared.
            1 => {
                let mask = mask & !PortInfoRecord::OPTIONS.0;
                check::<PortInfoRecord>(world, mask, (index, flipped))
            }
            2 => check::<GuidInfoRecord>(world, mask, (index, flipped)),
            // The number of a port counts only on switches.
            _ => {
                let mask = mask & !PKeyTableRecord::PORT_NUM.0;
                check::<PKeyTableRecord>(world, mask, (index, flipped))
            }
        })?;
    }
}

#[test]
fn multi_path_query_finds_paths_to_vports_by_gid() {
    let mut world = world();
    let hosts = world.hosts();
    let (own, shared) = (guid(2, 2), guid(2, 3));
    let gids = [
        world.gid(hosts[0]),
        Gid::new(PREFIX, own),
        Gid::new(PREFIX, shared),
    ];
    let mut wanted = MultiPathRecord::default();
    wanted.set_sgid_count(1).set_dgid_count(2);
    let mask = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
    let mad = SaMad::request(Method::GET_MULTI, Tid(3), mask, &wanted);
    let mut bytes = mad.as_bytes()[..SA_HEADER_LEN + MultiPathRecord::LEN].to_vec();
    bytes.extend(gids.iter().flat_map(|gid| gid.0.to_be_bytes()));
    let answer = world.handle(&bytes).unwrap();
    let paths: Vec<PathRecord> = records(answer).unwrap();
    let found: Vec<(Gid, Lid, u8)> = paths
        .iter()
        .map(|path| (path.dgid(), path.dlid(), path.hop_limit()))
        .collect();
    let expected = [(gids[1], lid_of(&world, own), 0), (gids[2], hosts[2], 2)];
    assert_eq!(found, expected);
}

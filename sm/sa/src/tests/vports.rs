//! Tests of virtual ports: paths to their GIDs, partitions of their own, and requesters that share
//! a LID.

use std::path::Path;
use std::sync::Arc;

use rsm_config::parse_partitions;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::ids::Gid;
use rsm_mad::transport::{Grh, RemoteAddress};
use rsm_mad::wire::attr::{NodeType, PKey, PortState};
use rsm_mad::wire::sa::*;
use rsm_model::fabric::{Fabric, PortRef};
use rsm_model::p_keys::PKeyImage;
use rsm_model::vports::{PortVPorts, VNode, VPort};
use rsm_plan::policy::Policy;

use super::world::{PREFIX, SMALL, World, planned_as};
use crate::Directory;

const GIDS: ComponentMask = PathRecord::SGID.with(PathRecord::DGID);
/// A virtual port at the first host, with the LID of its physical port.
const SHARED: Guid = Guid(0x00AA_0001);
/// A virtual port at the last host, with its own LID.
const OWN: Guid = Guid(0x00AA_0002);
/// A virtual port at the last host, with the LID of its physical port.
const OTHER: Guid = Guid(0x00AA_0003);
/// A virtual port at the last host that is not Active.
const DOWN: Guid = Guid(0x00AA_0004);
/// The P_Key of a partition of [`SHARED`] and [`OTHER`].
const RED: PKey = PKey(0x8010);

/// A virtual port with this GUID and state. `has_own_lid` means that it requires a LID of its own.
pub(super) fn vport(guid: Guid, has_own_lid: bool, state: PortState) -> VPort {
    let mut vport = VPort {
        node: VNode {
            guid: Guid(guid.0 | 1 << 40),
            partition_cap: 32,
            local_port: PortNum(1),
            ports: 1,
        },
        p_keys: Some(Arc::new(PKeyImage::initial())),
        ..VPort::default()
    };
    vport
        .info
        .set_port_guid(guid)
        .set_lid_required(has_own_lid)
        .set_state(state);
    vport
}

/// Adds these virtual ports to the port `at`, with indices from 1.
pub(super) fn add_vports(fabric: &mut Fabric, at: PortRef, vports: Vec<VPort>) {
    let mut all = PortVPorts::default();
    all.info.set_enabled(true);
    all.vports = (1..).zip(vports).collect();
    fabric.port_mut(at).vports = Some(Arc::new(all));
}

/// A world with all ports in the default partition, and two virtual ports in another.
fn world() -> World {
    let (fabric, plan) = planned_as(SMALL, |fabric| {
        let ports = fabric.end_ports().map(|(at, _)| at);
        let hosts: Vec<PortRef> = ports
            .filter(|at| fabric.node(at.node).kind() != NodeType::Switch)
            .collect();
        let active = PortState::Active;
        add_vports(fabric, hosts[0], vec![vport(SHARED, false, active)]);
        let vports = vec![
            vport(OWN, true, active),
            vport(OTHER, false, active),
            vport(DOWN, false, PortState::Init),
        ];
        add_vports(fabric, hosts[hosts.len() - 1], vports);
        for &at in &hosts {
            let info = fabric.port_mut(at).info.as_mut().unwrap();
            info.set_port_state(active);
        }
        let text = format!("Default=0x7fff : ALL=full ;\nRed=0x10 : {SHARED}=full, {OTHER}=full ;");
        let (partitions, findings) = parse_partitions(Path::new("p.conf"), &text, false);
        assert!(findings.is_empty(), "{findings:?}");
        Policy {
            partitions: Arc::new(partitions),
            ..Policy::default()
        }
    });
    World::of(fabric, plan)
}

fn directory(world: &World) -> Arc<Directory> {
    world.sa.sa_snapshot.directory().unwrap().clone()
}

fn gid(guid: Guid) -> Gid {
    Gid::new(PREFIX, guid)
}

/// The path between the ports with two GUIDs.
fn path(world: &mut World, from: Guid, to: Guid) -> PathRecord {
    let mut wanted = PathRecord::default();
    wanted.set_sgid(gid(from)).set_dgid(gid(to));
    world.get(GIDS, &wanted).unwrap()
}

#[test]
fn paths_to_vports_have_their_lids_and_need_a_grh_if_a_lid_is_shared() {
    let mut world = world();
    let directory = directory(&world);
    let hosts = world.hosts();
    let (first, last) = (hosts[0], hosts[hosts.len() - 1]);
    let guid_of = |lid: Lid| directory.end(directory.by_lid(lid).unwrap()).guid;
    let (first_guid, last_guid) = (guid_of(first), guid_of(last));

    let shared = path(&mut world, first_guid, OTHER);
    assert_eq!((shared.slid(), shared.dlid()), (first, last));
    assert_eq!((shared.dgid(), shared.hop_limit()), (gid(OTHER), 2));

    let own = path(&mut world, first_guid, OWN);
    assert_ne!(own.dlid(), last);
    assert!(own.dlid().is_unicast());
    assert_eq!((own.dgid(), own.hop_limit()), (gid(OWN), 0));
    let plan = world.snapshot.plan.clone().unwrap();
    let reached = plan.topology.destination_of(own.dlid()).unwrap();
    assert_eq!(reached.guid, last_guid, "the physical port");

    let from_shared = path(&mut world, SHARED, OWN);
    assert_eq!((from_shared.slid(), from_shared.hop_limit()), (first, 2));
    let back = path(&mut world, OWN, SHARED);
    assert_eq!((back.slid(), back.dlid()), (own.dlid(), first));
    let ports = path(&mut world, first_guid, last_guid);
    assert_eq!(ports.hop_limit(), 0, "no LID is shared");
    // A HopLimit requested by the client is kept.
    let mut wanted = PathRecord::default();
    wanted
        .set_sgid(gid(SHARED))
        .set_dgid(gid(OTHER))
        .set_hop_limit(64);
    let mask = GIDS.with(PathRecord::HOP_LIMIT);
    assert_eq!(world.get(mask, &wanted).unwrap().hop_limit(), 64);
}

#[test]
fn vport_has_partitions_of_its_own() {
    let mut world = world();
    let mut ask = |from: Guid, to: Guid| {
        let mut wanted = PathRecord::default();
        wanted.set_sgid(gid(from)).set_dgid(gid(to)).set_p_key(RED);
        world.get(GIDS.with(PathRecord::P_KEY), &wanted)
    };
    assert_eq!(ask(SHARED, OTHER).unwrap().p_key(), RED);
    assert_eq!(ask(SHARED, OWN), Err(SaStatus::NO_RECORDS));
    let directory = directory(&world);
    let member = directory.by_gid(gid(OTHER)).unwrap();
    let member = directory.member(member).unwrap();
    assert_eq!(member.guid, OTHER);
    assert!(member.p_keys.contains(&RED));
    let member = Directory::by_gid(&directory, gid(OWN)).unwrap();
    assert!(!directory.member(member).unwrap().p_keys.contains(&RED));
    assert!(directory.as_ref().by_guid(OTHER).is_some());
}

#[test]
fn active_vports_are_in_service_but_not_listed_in_tables() {
    let mut world = world();
    let directory = directory(&world);
    let in_service = directory.in_service();
    for guid in [SHARED, OWN, OTHER] {
        assert!(in_service.contains(&guid), "{guid}");
    }
    assert!(!in_service.contains(&DOWN));
    let nodes = world.table(ComponentMask::NONE, &NodeRecord::default());
    assert_eq!(nodes.len(), directory.ports() as usize);
    let ports = world.table(ComponentMask::NONE, &PortInfoRecord::default());
    let vports = [SHARED, OWN, OTHER, DOWN].map(|guid| directory.by_guid(guid).unwrap());
    let lids = vports.map(|ix| directory.end(ix).lid);
    let ports_of_hosts = world.hosts();
    let foreign = |lid: &Lid| lids.contains(lid) && !ports_of_hosts.contains(lid);
    assert!(!ports.iter().any(|record| foreign(&record.end_port_lid())));
}

#[test]
fn global_route_header_identifies_a_requester_with_a_shared_lid() {
    let world = world();
    let directory = directory(&world);
    let hosts = world.hosts();
    let last = hosts[hosts.len() - 1];
    let ask = |guid: Option<Guid>| {
        let grh = guid.map(|guid| Grh {
            gid: gid(guid),
            gid_index: 0,
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
        });
        let address = RemoteAddress {
            grh,
            ..RemoteAddress::gsi(last, 0)
        };
        directory.end(directory.requester(&address).unwrap()).guid
    };
    let port = ask(None);
    assert_eq!(ask(Some(OTHER)), OTHER);
    // The GID of a port with another LID does not identify the requester.
    for foreign in [SHARED, OWN, Guid(0xDEAD)] {
        assert_eq!(ask(Some(foreign)), port, "{foreign}");
    }
}

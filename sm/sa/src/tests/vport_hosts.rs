//! Tests of requests from virtual ports, which have a LID of their own or the LID of their physical
//! port: joins, services and subscriptions.

use std::sync::Arc;
use std::time::Duration;

use rsm_ids::{Guid, Lid};
use rsm_mad::Time;
use rsm_mad::ids::{Gid, Tid};
use rsm_mad::transport::{Grh, RemoteAddress};
use rsm_mad::wire::attr::{GidChange, Notice, PKey, TrapDetails};
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;
use rsm_model::fabric::Fabric;

use super::vport_records::{guid, hosts_of, world_with};
use super::world::{PREFIX, World, records};
use crate::SaRequest;

const PARTITIONS: &str = "Default=0x7fff, ipoib : ALL=full ;";
/// The broadcast group of the default partition, ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);
/// The index of a virtual port with its own LID, and the index of a virtual port with the LID of
/// its physical port.
const INDICES: [u64; 2] = [2, 3];

fn world() -> World {
    world_with(4, PARTITIONS)
}

fn gid(guid: Guid) -> Gid {
    Gid::new(PREFIX, guid)
}

/// Sends a request with a global route header from the virtual port with this GUID.
///
/// # Errors
/// The status of an answer other than OK.
fn ask_as<R: Record>(
    world: &mut World,
    guid: Guid,
    method: Method,
    (mask, record): (ComponentMask, &R),
) -> Result<Vec<R>, Status> {
    let directory = world.sa.sa_snapshot.directory().unwrap();
    let lid = directory.end(directory.by_guid(guid).unwrap()).lid;
    let mad = SaMad::request(method, Tid(1), mask, record);
    let requester = RemoteAddress {
        grh: Some(Grh {
            gid: gid(guid),
            gid_index: 0,
            hop_limit: 1,
            traffic_class: 0,
            flow_label: 0,
        }),
        ..RemoteAddress::gsi(lid, 0)
    };
    let bytes = mad.as_bytes();
    records(
        world
            .sa
            .handle(SaRequest { bytes, requester }, world.now)
            .unwrap(),
    )
}

/// Removes the virtual port with this index at a host from the subnet, and gives the SA the new
/// subnet.
fn remove_vport(world: &mut World, (host, index): (u64, u64)) {
    let mut fabric = Fabric::clone(&world.snapshot.fabric);
    let port = hosts_of(&fabric)[host as usize];
    let vports = fabric.port_mut(port).vports.as_mut().unwrap();
    Arc::make_mut(vports).vports.remove(&(index as u16));
    world.snapshot.fabric = Arc::new(fabric);
    world.sa.replace(&world.snapshot);
    world.sa.handle_deadline(world.now);
}

#[test]
fn vports_that_join_a_group_become_members_by_their_own_guids() {
    let mut world = world();
    let mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    for index in INDICES {
        let guid = guid(1, index);
        let mut record = McMemberRecord::default();
        record
            .set_mgid(BROADCAST)
            .set_port_gid(gid(guid))
            .set_p_key(PKey::DEFAULT_FULL)
            .set_join_state(JoinState::FULL_MEMBER);
        let joined = ask_as(&mut world, guid, Method::SET, (mask, &record)).unwrap();
        assert_eq!(
            (joined[0].mlid(), joined[0].port_gid()),
            (Lid(0xC000), gid(guid))
        );
        assert!(
            !joined[0].proxy_join(),
            "the header or the LID identifies the requester"
        );
    }
    let start = Time::ZERO + Duration::from_secs(1);
    let groups = world.sa.poll_groups(start).unwrap();
    let members: Vec<Guid> = groups.by_mlid[&Lid(0xC000)].ports.keys().copied().collect();
    assert_eq!(members, INDICES.map(|index| guid(1, index)));
}

#[test]
fn other_vports_find_the_services_of_a_vport() {
    let mut world = world();
    let mask = ServiceRecord::SERVICE_ID | ServiceRecord::SERVICE_GID;
    for (id, index) in (7..).zip(INDICES) {
        let guid = guid(2, index);
        let mut record = ServiceRecord::default();
        record.set_service_id(id).set_service_gid(gid(guid));
        let with_name = mask | ServiceRecord::SERVICE_NAME;
        ask_as(&mut world, guid, Method::SET, (with_name, &record)).unwrap();
        let by_id = ServiceRecord::SERVICE_ID;
        let finder = super::vport_records::guid(0, index);
        let services = ask_as(&mut world, finder, Method::GET, (by_id, &record)).unwrap();
        assert_eq!(services[0].service_gid(), gid(guid));
    }
}

#[test]
fn vport_that_vanishes_is_reported_with_its_gid() {
    let mut world = world();
    let mut info = InformInfo::default();
    info.set_lid_range_begin(InformInfo::LID_RANGE_ALL)
        .set_is_generic(1)
        .set_subscribe(1)
        .set_notice_type(InformInfo::ALL)
        .set_device_id(65)
        .set_vendor_id(InformInfo::ALL_PRODUCERS);
    let subscriber = guid(3, 2);
    ask_as(
        &mut world,
        subscriber,
        Method::SET,
        (ComponentMask::NONE, &info),
    )
    .unwrap();
    for index in INDICES {
        world.now += Duration::from_secs(60);
        world.sa.handle_deadline(world.now);
        remove_vport(&mut world, (1, index));
        let report = world.sa.poll_report(world.now).unwrap();
        let mad = SaMad::from_bytes(&report.mad);
        let notice: Notice = SaNotice::from_prefix(&mad.data).unwrap().notice();
        let TrapDetails::GidChange(change) = notice.details() else {
            panic!("{notice:?}");
        };
        let change: &GidChange = change;
        assert_eq!(change.gid(), gid(guid(1, index)));
        assert_eq!(notice.trap_number().0, 65);
        let mut answer = *mad;
        answer.header.mad_mut().set_method(Method::REPORT_RESPONSE);
        let bytes = answer.as_bytes();
        let requester = report.remote;
        assert!(
            world
                .sa
                .handle(SaRequest { bytes, requester }, world.now)
                .is_none()
        );
    }
}

//! Tests of services as hosts register and query them.

use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;

use super::world::{SM_KEY, SMALL, World};
use crate::services::{Id, limits};

/// The components of every request to register a service.
const REQUIRED: ComponentMask = ServiceRecord::SERVICE_ID.with(ServiceRecord::SERVICE_GID);
const REQUIRED_AND_LEASE: ComponentMask = REQUIRED.with(ServiceRecord::SERVICE_LEASE);
const NAME: ComponentMask = ServiceRecord::SERVICE_NAME;
const KEY: ComponentMask = ServiceRecord::SERVICE_KEY;
const P_KEY: ComponentMask = ServiceRecord::SERVICE_P_KEY;
/// The mask of a query that all records match.
const ALL: ComponentMask = ComponentMask::NONE;

type Answer = Result<Vec<ServiceRecord>, Status>;

fn name(text: &str) -> [u8; 64] {
    let mut name = [0; 64];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

/// A service of `host` with its usual GID.
fn service(world: &World, host: Lid, id: u64) -> ServiceRecord {
    let mut record = ServiceRecord::default();
    record
        .set_service_id(id)
        .set_service_gid(world.gid(host))
        .set_service_name(name("storage"));
    record
}

/// The records in the answer to a request of `host`; `sm_key` is 0 for an untrusted requester.
fn ask(
    world: &mut World,
    host: Lid,
    sm_key: u64,
    method: Method,
    mask: ComponentMask,
    record: &ServiceRecord,
) -> Answer {
    world.ask_from((host, sm_key), method, mask, record)
}

fn set(world: &mut World, host: Lid, mask: ComponentMask, record: &ServiceRecord) -> Answer {
    ask(world, host, 0, Method::SET, mask, record)
}

fn delete(world: &mut World, host: Lid, mask: ComponentMask, record: &ServiceRecord) -> Answer {
    ask(world, host, 0, Method::DELETE, mask, record)
}

/// The IDs of the services that `host` finds.
fn find_ids(world: &mut World, host: Lid, mask: ComponentMask, record: &ServiceRecord) -> Vec<u64> {
    let found = ask(world, host, 0, Method::GET_TABLE, mask, record).unwrap();
    found.iter().map(ServiceRecord::service_id).collect()
}

/// Moves the time forward, and does the work due then.
fn advance(world: &mut World, seconds: u64) {
    world.now += Duration::from_secs(seconds);
    world.sa.handle_deadline(world.now);
}

#[test]
fn services_are_found_until_they_are_deleted() {
    let mut world = World::new(SMALL);
    let [a, b, ..] = world.hosts()[..] else {
        panic!("there are hosts");
    };
    let mut record = service(&world, a, 7);
    record.set_service_data([3; 64]);
    let registered = set(&mut world, a, REQUIRED, &record).unwrap()[0];
    assert_eq!(
        registered.service_lease(),
        ServiceRecord::LEASE_INDEFINITE,
        "indefinite unless the request has a lease"
    );
    assert_eq!(registered.service_data(), &[3; 64]);
    let mut wanted = ServiceRecord::default();
    wanted.set_service_id(7);
    assert_eq!(
        find_ids(&mut world, b, ServiceRecord::SERVICE_ID, &wanted),
        [7],
        "other hosts find the service"
    );
    // Registering the service again replaces its data.
    record.set_service_data([4; 64]);
    set(&mut world, a, REQUIRED, &record).unwrap();
    let all = world.table(ALL, &ServiceRecord::default());
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].service_data(), &[4; 64]);
    // Components in the mask other than the identifier must match.
    let mut other = record;
    other.set_service_name(name("compute"));
    let refused = delete(&mut world, a, NAME, &other);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
    let deleted = delete(&mut world, a, NAME, &record).unwrap();
    assert_eq!(deleted[0].service_data(), &[4; 64]);
    let refused = delete(&mut world, a, NAME, &record);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
    assert!(world.sa.services().is_empty());
}

#[test]
fn any_component_finds_services_and_several_may_share_a_name() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    for (number, &host) in hosts.iter().enumerate() {
        let mut record = service(&world, host, 10 + number as u64);
        let mut data = [0; 64];
        // One component of each width: ServiceData8.1, 16.1, 32.1 and 64.1.
        for byte in [1, 19, 39, 63] {
            data[byte] = number as u8 + 1;
        }
        record
            .set_service_data(data)
            .set_service_p_key(PKey::DEFAULT_FULL)
            .set_service_key([number as u8 + 1; 16]);
        let mask = REQUIRED | NAME | KEY | P_KEY | ServiceRecord::SERVICE_DATA;
        set(&mut world, host, mask, &record).unwrap();
    }
    let requester = hosts[3];
    let mut wanted = service(&world, hosts[1], 11);
    wanted
        .set_service_p_key(PKey::DEFAULT_FULL)
        .set_service_key([2; 16]);
    let mut data = [0; 64];
    for byte in [1, 19, 39, 63] {
        data[byte] = 2;
    }
    wanted.set_service_data(data);
    for mask in [
        ServiceRecord::SERVICE_ID,
        ServiceRecord::SERVICE_GID,
        KEY,
        ServiceRecord::SERVICE_DATA8_1,
        ServiceRecord::SERVICE_DATA16_1,
        ServiceRecord::SERVICE_DATA32_1,
        ServiceRecord::SERVICE_DATA64_1,
        ServiceRecord::SERVICE_DATA | NAME,
        NAME | ServiceRecord::SERVICE_ID,
    ] {
        assert_eq!(
            find_ids(&mut world, requester, mask, &wanted),
            [11],
            "{mask:?}"
        );
    }
    // Only the GUID counts: osmtest reverses the bytes of the prefix.
    for prefix in [0xFE80_0000_0000_0000, 0, 0x80FE] {
        let mut wanted = wanted;
        wanted.set_service_gid(Gid::new(prefix, world.guid(hosts[1])));
        assert_eq!(
            find_ids(&mut world, requester, ServiceRecord::SERVICE_GID, &wanted),
            [11]
        );
    }
    let several = [10, 11, 12, 13];
    for mask in [NAME, P_KEY, ALL, ServiceRecord::SERVICE_DATA8_0] {
        assert_eq!(
            find_ids(&mut world, requester, mask, &wanted),
            several,
            "{mask:?}"
        );
    }
    let one = ask(&mut world, requester, 0, Method::GET, NAME, &wanted);
    assert_eq!(one.unwrap_err(), SaStatus::TOO_MANY_RECORDS);
    wanted.set_service_name(name("storag"));
    let none = ask(&mut world, requester, 0, Method::GET, NAME, &wanted);
    assert_eq!(none.unwrap_err(), SaStatus::NO_RECORDS);
    // There is no 38th component.
    let beyond = ask(
        &mut world,
        requester,
        0,
        Method::GET,
        ComponentMask(1 << 37),
        &wanted,
    );
    assert_eq!(beyond.unwrap_err(), SaStatus::REQ_INVALID);
}

#[test]
fn service_ends_with_its_lease() {
    let mut world = World::new(SMALL);
    let host = world.hosts()[0];
    let mut record = service(&world, host, 1);
    record.set_service_lease(10);
    set(&mut world, host, REQUIRED_AND_LEASE, &record).unwrap();
    assert_eq!(world.sa.services().len(), 1);
    advance(&mut world, 4);
    let left = world.get(NAME, &record).unwrap();
    assert_eq!(left.service_lease(), 6);
    // A renewed lease runs from the renewal on.
    record.set_service_lease(8);
    set(&mut world, host, REQUIRED_AND_LEASE, &record).unwrap();
    let ends = world.now + Duration::from_secs(8);
    advance(&mut world, 7);
    assert_eq!(world.sa.services().len(), 1);
    world.sa.poll_save(world.now).unwrap();
    assert_eq!(world.sa.next_deadline(), Some(ends));
    // A service whose lease has ended is hidden, even before the deadline is handled.
    world.now = ends;
    let ended = world.get(NAME, &record);
    assert_eq!(ended.unwrap_err(), SaStatus::NO_RECORDS);
    world.sa.handle_deadline(ends);
    assert!(world.sa.services().is_empty());
    let saved = world.sa.poll_save(ends + Duration::from_secs(1)).unwrap();
    assert_eq!(saved.services.unwrap().services().len(), 0);
    assert_eq!(world.sa.next_deadline(), None);
    // A lease of 0 ends the service.
    record.set_service_lease(0);
    set(&mut world, host, REQUIRED_AND_LEASE, &record).unwrap();
    let ended = world.get(NAME, &record);
    assert_eq!(ended.unwrap_err(), SaStatus::NO_RECORDS);
}

#[test]
fn service_keys_allow_changes_and_only_trusted_requesters_see_them() {
    let mut world = World::new(SMALL);
    let [a, b, ..] = world.hosts()[..] else {
        panic!("there are hosts");
    };
    let mut record = service(&world, a, 1);
    record.set_service_key([9; 16]);
    let answer = set(&mut world, a, REQUIRED | KEY, &record).unwrap();
    assert_eq!(answer[0].service_key(), &[0; 16]);
    let shown = world.get(ALL, &ServiceRecord::default()).unwrap();
    assert_eq!(shown.service_key(), &[0; 16]);
    let get = Method::GET;
    let trusted = ask(&mut world, b, SM_KEY, get, ALL, &record).unwrap();
    assert_eq!(trusted[0].service_key(), &[9; 16]);
    // No other port can change the service without its key.
    let mut wrong = record;
    wrong.set_service_key([8; 16]);
    for (mask, record) in [(REQUIRED, &record), (REQUIRED | KEY, &wrong)] {
        let refused = set(&mut world, b, mask, record);
        assert_eq!(refused.unwrap_err(), SaStatus::REQ_DENIED);
    }
    let refused = delete(&mut world, b, REQUIRED, &record);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_DENIED);
    let refused = delete(&mut world, b, REQUIRED | KEY, &wrong);
    assert_eq!(refused.unwrap_err(), SaStatus::NO_RECORDS);
    set(&mut world, b, REQUIRED | KEY, &record).unwrap();
    delete(&mut world, b, REQUIRED | KEY, &record).unwrap();
    // A service without a key cannot be changed with a key, not even with a key of 0.
    let record = service(&world, a, 2);
    set(&mut world, a, REQUIRED, &record).unwrap();
    let refused = delete(&mut world, b, REQUIRED | KEY, &record);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_DENIED);
    // The port that registered the service for another may delete it, and so may a trusted
    // requester.
    let theirs = service(&world, b, 3);
    set(&mut world, a, REQUIRED, &theirs).unwrap();
    delete(&mut world, a, REQUIRED, &theirs).unwrap();
    ask(&mut world, b, SM_KEY, Method::DELETE, REQUIRED, &record).unwrap();
    assert!(world.sa.services().is_empty());
}

#[test]
fn services_are_registered_and_found_within_their_partition() {
    let world = World::new(SMALL);
    let hosts = world.hosts();
    let mut world = world.with_partitions(&[
        (hosts[0], &[0x8001, 0x8003]),
        (hosts[1], &[0x8001]),
        (hosts[2], &[0x8002, 0x8003]),
        (hosts[3], &[0x0001]),
    ]);
    let mut record = service(&world, hosts[0], 1);
    // The host has no valid P_Key with these values: of another partition, of the default
    // partition, and 0.
    for p_key in [0x8002, 0x7FFF, 0] {
        record.set_service_p_key(PKey(p_key));
        let refused = set(&mut world, hosts[0], REQUIRED | P_KEY, &record);
        assert_eq!(refused.unwrap_err(), SaStatus::REQ_INVALID, "{p_key:#x}");
    }
    let mut proxy = service(&world, hosts[1], 1);
    proxy.set_service_p_key(PKey(0x8003));
    let refused = set(&mut world, hosts[0], REQUIRED | P_KEY, &proxy);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INVALID);
    // A hidden port counts as absent.
    let hidden = service(&world, hosts[2], 1);
    let refused = set(&mut world, hosts[1], REQUIRED, &hidden);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INVALID_GID);
    let mut of_absent_port = hidden;
    of_absent_port.set_service_gid(Gid(0xFE80 << 112 | 0xBAD));
    let refused = set(&mut world, hosts[1], REQUIRED, &of_absent_port);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INVALID_GID);
    let refused = set(&mut world, hosts[1], ServiceRecord::SERVICE_ID, &hidden);
    assert_eq!(refused.unwrap_err(), SaStatus::REQ_INSUFFICIENT_COMPONENTS);

    record.set_service_p_key(PKey(0x8001));
    set(&mut world, hosts[0], REQUIRED | P_KEY, &record).unwrap();
    record.set_service_id(2).set_service_p_key(PKey(0x8003));
    set(&mut world, hosts[0], REQUIRED | P_KEY, &record).unwrap();
    let mut without_p_key = service(&world, hosts[0], 3);
    // A component outside the mask does not count.
    without_p_key.set_service_p_key(PKey(0x8002));
    set(&mut world, hosts[0], REQUIRED, &without_p_key).unwrap();
    let wanted = ServiceRecord::default();
    let ids_seen = |world: &mut World, host| find_ids(world, host, ALL, &wanted);
    assert_eq!(ids_seen(&mut world, hosts[0]), [1, 2, 3]);
    assert_eq!(ids_seen(&mut world, hosts[1]), [1, 3]);
    assert_eq!(ids_seen(&mut world, hosts[2]), [2, 3]);
    // A limited member communicates with the full member.
    assert_eq!(ids_seen(&mut world, hosts[3]), [1, 3]);
    delete(&mut world, hosts[0], REQUIRED, &without_p_key).unwrap();
    let limited = service(&world, hosts[3], 4);
    set(&mut world, hosts[3], REQUIRED, &limited).unwrap();
    assert_eq!(ids_seen(&mut world, hosts[2]), [2]);
}

#[test]
fn service_stays_while_its_port_is_absent() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let mut record = service(&world, hosts[2], 1);
    record.set_service_p_key(PKey::DEFAULT_FULL);
    set(&mut world, hosts[2], REQUIRED | P_KEY, &record).unwrap();
    let open = service(&world, hosts[2], 2);
    set(&mut world, hosts[2], REQUIRED, &open).unwrap();
    world.remove_host(hosts[2]);
    advance(&mut world, 3600);
    assert_eq!(world.sa.services().len(), 2);
    // The partitions of an absent port are unknown.
    let wanted = ServiceRecord::default();
    assert_eq!(find_ids(&mut world, hosts[0], ALL, &wanted), [1]);
}

#[test]
fn registering_beyond_max_services_per_port_is_refused() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let mut refused = None;
    for id in 0..=limits::MAX_SERVICES_PER_PORT as u64 {
        let record = service(&world, hosts[0], id);
        if let Err(status) = set(&mut world, hosts[0], REQUIRED, &record) {
            refused = Some((id, status));
        }
    }
    let full = limits::MAX_SERVICES_PER_PORT as u64;
    assert_eq!(refused, Some((full, SaStatus::NO_RESOURCES)));
    let record = service(&world, hosts[0], 0);
    set(&mut world, hosts[0], REQUIRED, &record).unwrap();
    let record = service(&world, hosts[1], 0);
    set(&mut world, hosts[1], REQUIRED, &record).unwrap();
    // The port may still change its services, and the deletion of one makes room for another.
    let first = service(&world, hosts[0], 0);
    delete(&mut world, hosts[0], REQUIRED, &first).unwrap();
    let other = service(&world, hosts[0], full);
    set(&mut world, hosts[0], REQUIRED, &other).unwrap();
}

#[test]
fn registered_service_is_in_the_next_save_only() {
    let mut world = World::new(SMALL);
    let host = world.hosts()[0];
    let record = service(&world, host, 1);
    set(&mut world, host, REQUIRED, &record).unwrap();
    let saved = world.sa.poll_save(world.now).unwrap();
    assert!(saved.groups.is_some(), "the well-known groups");
    let view = saved.services.unwrap();
    let id = Id {
        service: 1,
        gid: world.gid(host),
        p_key: PKey::INVALID,
    };
    assert_eq!(view.get(&id).unwrap().until, None);
    assert_eq!(view.get(&id).unwrap().port, world.guid(host));
    assert!(
        world.sa.poll_save(Time::MAX).is_none(),
        "nothing has changed"
    );
}

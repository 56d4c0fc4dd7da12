//! Tests of services that ports offer.

use std::time::Duration;

use rsm_api::SaQueries as _;
use rsm_api::model::{PortId, ServiceFilter};
use rsm_api::v1;
use rsm_ids::{Guid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::sa::ServiceRecord;
use rsm_sa::services::SavedService;
use rsm_sa::{Sa, SaConfig, SavedSaState};

use super::state_source::{FixedSaState, now};
use super::world::*;
use crate::publish::PublishedSa;

/// A port that is in no fabric.
const ABSENT_PORT: Guid = Guid(0xDEAD);

fn service(id: u64, port: Guid, p_key: u16, name: &[u8], lease_s: Option<u64>) -> SavedService {
    let mut padded = [0; 64];
    padded[..name.len()].copy_from_slice(name);
    let mut record = ServiceRecord::default();
    record
        .set_service_id(id)
        .set_service_gid(Gid::new(0xFE80_0000_0000_0000, port))
        .set_service_p_key(PKey(p_key))
        .set_service_lease(lease_s.map_or(ServiceRecord::LEASE_INDEFINITE, |s| s as u32))
        .set_service_name(padded);
    SavedService {
        record,
        port,
        owner: port,
        left: lease_s.map(Duration::from_secs),
    }
}

/// The small fabric with two services of the first host, and a service of a vanished port.
fn with_services() -> (World, PublishedSa) {
    let world = World::up();
    let snapshot = world.snapshot();
    let at = snapshot.fabric.find(HOSTS[0]).unwrap();
    let host = snapshot.fabric.node(at).ports[1].guid;
    let services = vec![
        service(2, host, 0xFFFF, b"ring", None),
        service(1, host, 0, b"\xFFstorage", Some(100)),
        service(2, ABSENT_PORT, 0, b"ring", Some(7)),
    ];
    let remembered = SavedSaState {
        services,
        ..SavedSaState::default()
    };
    let mut sa = Sa::new(SaConfig {
        sm_key: 0,
        ..SaConfig::default()
    });
    // Leases are shown at the time of the world, two seconds later.
    assert_eq!(sa.restore(remembered, Time::ZERO), 0);
    let shown = FixedSaState::of(&sa, &snapshot).shown(&world);
    (world, shown)
}

#[test]
fn services_are_listed_by_identifier() {
    let (_world, shown) = with_services();
    let list = |after, limit, filter| now(shown.services(after, limit, filter)).unwrap().items;
    let all = list(None, usize::MAX, ServiceFilter::default());
    let host = PortId {
        node: HOSTS[0],
        number: PortNum(1),
    };
    let listed: Vec<_> = all
        .iter()
        .map(|one| {
            (
                one.key.id,
                one.key.p_key,
                one.message.name.as_str(),
                one.message.port.clone(),
                one.message.lease_s,
            )
        })
        .collect();
    let of_host = Some(v1::PortKey::from(host));
    let expected = [
        (1, 0, "\u{FFFD}storage", of_host.clone(), Some(98)),
        (2, 0xFFFF, "ring", of_host, None),
        (2, 0, "ring", None, Some(5)),
    ];
    assert_eq!(listed, expected);
    assert_eq!(all[0].message.description, "host-1");
    let gone = &all[2].message;
    assert_eq!(gone.description, "");
    assert_eq!(gone.owner_guid, ABSENT_PORT.to_string());

    let none = ServiceFilter::default;
    assert_eq!(list(Some(all[0].key), 1, none()), all[1..2]);
    assert_eq!(list(Some(all[2].key), 1, none()), []);
    let ring = ServiceFilter {
        name: Some("ring".to_owned()),
        port: None,
    };
    assert_eq!(list(None, 9, ring.clone()), all[1..]);
    let of_host = ServiceFilter {
        port: Some(host),
        ..ring
    };
    assert_eq!(list(None, 9, of_host), all[1..2]);
}

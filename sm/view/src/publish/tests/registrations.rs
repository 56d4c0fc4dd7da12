//! Tests of subscriptions of hosts, and of alias GUIDs of their ports.

use rsm_api::SaQueries as _;
use rsm_api::model::{AliasGuidKey, PortId, SubscriptionKey};
use rsm_api::v1;
use rsm_ids::{Guid, Lid, PortNum};
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::transport::RemoteAddress;
use rsm_mad::wire::attr::{ProducerType, Trap};
use rsm_mad::wire::sa::InformInfo;
use rsm_model::alias_guids::AliasGuids;
use rsm_sa::events::SavedSubscription;
use rsm_sa::{Sa, SaConfig, SavedSaState};

use super::state_source::{FixedSaState, now};
use super::world::*;
use crate::publish::PublishedSa;

const PREFIX: u64 = 0xFE80_0000_0000_0000;

/// A port that is in no fabric.
const ABSENT_PORT: Guid = Guid(0xDEAD);

/// The first host's port, and its GUID.
fn host(world: &World) -> (PortId, Guid) {
    let snapshot = world.snapshot();
    let at = snapshot.fabric.find(HOSTS[0]).unwrap();
    let key = PortId {
        node: HOSTS[0],
        number: PortNum(1),
    };
    (key, snapshot.fabric.node(at).ports[1].guid)
}

/// The registrations of an SA that has restored `remembered`, in the form of the API.
fn restored_sa(world: &World, remembered: SavedSaState) -> PublishedSa {
    let mut sa = Sa::new(SaConfig {
        sm_key: 7,
        ..SaConfig::default()
    });
    assert_eq!(sa.restore(remembered, Time::ZERO), 0);
    FixedSaState::of(&sa, &world.snapshot()).shown(world)
}

fn subscription_to_everything() -> InformInfo {
    let mut info = InformInfo::default();
    info.set_subscribe(1)
        .set_is_generic(1)
        .set_lid_range_begin(InformInfo::LID_RANGE_ALL)
        .set_notice_type(InformInfo::ALL)
        .set_device_id(InformInfo::ALL)
        .set_vendor_id(InformInfo::ALL_PRODUCERS);
    info
}

#[test]
fn subscriptions_are_listed_by_port_and_number() {
    let world = World::up();
    let (key, port) = host(&world);
    let saved = |port: Guid, number, qpn, info| SavedSubscription {
        port,
        number,
        gid: Gid::new(PREFIX, port),
        address: RemoteAddress {
            qpn,
            ..RemoteAddress::gsi(Lid(7), 0)
        },
        p_key: None,
        trusted: number == 0,
        info,
    };
    let mut in_service = subscription_to_everything();
    in_service
        .set_trap_number(Trap(64))
        .set_producer_type(ProducerType::CLASS_MANAGER);
    let mut vendors = subscription_to_everything();
    vendors
        .set_is_generic(0)
        .set_notice_type(4)
        .set_lid_range_begin(Lid(3))
        .set_lid_range_end(Lid(5));
    let mut of_port = subscription_to_everything();
    of_port.set_gid(Gid::new(PREFIX, ABSENT_PORT));
    let subscriptions = vec![
        saved(port, 9, 0x70, vendors),
        saved(ABSENT_PORT, 0, 1, of_port),
        saved(port, 0, 1, in_service),
    ];
    let remembered = SavedSaState {
        subscriptions,
        ..SavedSaState::default()
    };
    let shown = restored_sa(&world, remembered);
    let list = |after, limit, port| now(shown.subscriptions(after, limit, port)).unwrap().items;
    let all = list(None, usize::MAX, None);
    let mut expected = [(port, 0), (port, 9), (ABSENT_PORT, 0)];
    expected.sort();
    let keys: Vec<_> = all
        .iter()
        .map(|one| (one.key.port, one.key.number))
        .collect();
    assert_eq!(keys, expected);

    let of_host = list(None, 9, Some(key));
    let [first, second] = &of_host[..] else {
        panic!("{of_host:?}");
    };
    let (first, second) = (&first.message, &second.message);
    assert_eq!(first.port, Some(key.into()));
    assert_eq!(first.description, "host-1");
    assert_eq!((first.qpn, first.trusted, first.generic), (1, true, true));
    assert_eq!((first.source_gid.as_str(), first.source_lids), ("", None));
    assert_eq!(
        (
            first.notice_type,
            first.trap_or_device,
            first.producer_or_vendor
        ),
        (None, Some(64), Some(4))
    );
    assert_eq!(
        (second.qpn, second.trusted, second.generic),
        (0x70, false, false)
    );
    let range = Some(v1::LidRange { first: 3, last: 5 });
    assert_eq!(
        (second.source_gid.as_str(), second.source_lids),
        ("", range)
    );
    assert_eq!(
        (
            second.notice_type,
            second.trap_or_device,
            second.producer_or_vendor
        ),
        (Some(4), None, None)
    );
    let gone = all.iter().find(|one| one.key.port == ABSENT_PORT).unwrap();
    let gone = &gone.message;
    assert_eq!((&gone.port, gone.description.as_str()), (&None, ""));
    assert_eq!(gone.gid, Gid::new(PREFIX, ABSENT_PORT).to_string());
    assert_eq!((&gone.source_gid, gone.source_lids), (&gone.gid, None));

    assert_eq!(list(Some(all[0].key), 1, None), all[1..2]);
    let last = SubscriptionKey {
        number: u16::MAX,
        ..all[2].key
    };
    assert_eq!(list(Some(last), 9, None), []);
    // An external port of a switch has no address, and therefore no subscription.
    let external = PortId {
        node: LEAF_1,
        number: PortNum(1),
    };
    assert_eq!(list(None, 9, Some(external)), []);
}

#[test]
fn alias_guids_are_listed_by_port_and_index() {
    let world = World::up();
    let (key, port) = host(&world);
    let mut guids = AliasGuids::default();
    for (port, index, name) in [(port, 1, 0xA1), (port, 8, 0xA8), (ABSENT_PORT, 1, 0xB1)] {
        let names = guids.by_port.entry(port).or_default();
        names.insert(index, Guid(name));
    }
    let remembered = SavedSaState {
        guids,
        ..SavedSaState::default()
    };
    let shown = restored_sa(&world, remembered);
    let list = |after, limit, port| now(shown.alias_guids(after, limit, port)).unwrap().items;
    let all = list(None, usize::MAX, None);
    let listed: Vec<_> = all
        .iter()
        .map(|one| {
            let (gid, port) = (one.message.gid.clone(), one.message.port.clone());
            (one.key.port, one.key.index, gid, port)
        })
        .collect();
    let gid = |name| Gid::new(PREFIX, Guid(name)).to_string();
    let of_host = Some(v1::PortKey::from(key));
    let mut expected = [
        (port, 1, gid(0xA1), of_host.clone()),
        (port, 8, gid(0xA8), of_host),
        (ABSENT_PORT, 1, gid(0xB1), None),
    ];
    expected.sort_by_key(|&(port, index, ..)| (port, index));
    assert_eq!(listed, expected);
    let of_host = list(None, 9, Some(key));
    assert_eq!(of_host.len(), 2);
    assert!(
        of_host
            .iter()
            .all(|one| one.message.description == "host-1")
    );
    assert_eq!(
        list(
            None,
            9,
            Some(PortId {
                node: HOSTS[1],
                ..key
            })
        ),
        []
    );
    for (at, one) in all.iter().enumerate() {
        assert_eq!(list(Some(one.key), 9, None), all[at + 1..]);
    }
    let between = AliasGuidKey { port, index: 2 };
    assert_eq!(list(Some(between), 1, Some(key)), of_host[1..]);
}

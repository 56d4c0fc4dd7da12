//! Tests of findings about refused joins: when they appear, their reason, and when they end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rsm_config::parse_partitions;
use rsm_ids::Lid;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::Method;
use rsm_mad::wire::sa::*;
use rsm_model::findings::{Finding, FindingKind, Subject};
use rsm_plan::policy::Policy;

use super::world::{SMALL, World, planned_as};

/// The components of every request to join or leave.
const REQUIRED: ComponentMask = McMemberRecord::MGID
    .with(McMemberRecord::PORT_GID)
    .with(McMemberRecord::JOIN_STATE);

/// The broadcast group of the default partition, ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// The broadcast group of the partition 0x10.
const STORAGE: Gid = Gid(0xFF12_401B_8010_0000_0000_0000_FFFF_FFFF);

/// A world with the partitions in the configuration `text`.
fn world(text: &str) -> World {
    let (partitions, _) = parse_partitions(Path::new("partitions.conf"), text, false);
    let policy = Policy {
        partitions: Arc::new(partitions),
        ..Policy::default()
    };
    let (fabric, plan) = planned_as(SMALL, |_| policy);
    World::of(fabric, plan)
}

/// A world whose broadcast group has a rate above that of every link.
fn world_with_fast_broadcast_group() -> World {
    world("Default=0x7fff, ipoib, rate=24 : ALL=full ;")
}

/// Sends a request of `host` to join (Set) or leave (Delete) a group, with a Q_Key unless it is 0.
/// Returns whether the request is accepted.
fn change(world: &mut World, method: Method, host: Lid, mgid: Gid, q_key: u32) -> bool {
    let mut record = McMemberRecord::default();
    record
        .set_mgid(mgid)
        .set_port_gid(world.gid(host))
        .set_q_key(q_key)
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    let mask = match q_key {
        0 => REQUIRED,
        _ => REQUIRED.with(McMemberRecord::Q_KEY),
    };
    world.ask_from((host, 0), method, mask, &record).is_ok()
}

fn join(world: &mut World, host: Lid, mgid: Gid) -> bool {
    change(world, Method::SET, host, mgid, 0)
}

/// The findings one second later, which must have changed.
fn findings(world: &mut World) -> Vec<Finding> {
    world.now += Duration::from_secs(1);
    world.sa.handle_deadline(world.now);
    let found = world.sa.poll_findings(world.now);
    assert_eq!(
        world.sa.poll_findings(world.now),
        None,
        "they are polled once"
    );
    found.expect("the findings have changed")
}

#[test]
fn host_slower_than_the_broadcast_group_is_named_with_the_group_and_both_rates() {
    let mut world = world_with_fast_broadcast_group();
    let host = world.hosts()[1];
    assert!(!join(&mut world, host, BROADCAST));
    let [finding] = &findings(&mut world)[..] else {
        panic!("there is one finding");
    };
    assert_eq!(finding.kind, FindingKind::JoinRefused);
    let fabric = world.fabric();
    let (at, _) = fabric
        .end_ports()
        .find(|(_, port)| port.lid() == host)
        .unwrap();
    assert_eq!(finding.subject, Subject::Port(fabric.key(at)));
    let name = fabric.node(at.node).name();
    for part in [
        &*name,
        "ff12:401b:ffff::ffff:ffff",
        "partition `Default`, 0x7fff",
        "200 Gb/s (code 17)",
        "at least 1200 Gb/s (code 24)",
    ] {
        assert!(finding.text.contains(part), "{part}: {}", finding.text);
    }
    // Repeating the request changes nothing.
    assert!(!join(&mut world, host, BROADCAST));
    world.now += Duration::from_secs(10);
    assert_eq!(world.sa.poll_findings(world.now), None);
}

#[test]
fn finding_about_a_refused_join_states_the_reason() {
    let mut world = world("Default=0x7fff, ipoib : ALL=full ; storage=0x10, ipoib : NONE ;");
    let host = world.hosts()[1];
    assert!(!join(&mut world, host, STORAGE));
    let missing = Gid(STORAGE.0 + (1 << 80));
    assert!(!join(&mut world, host, missing));
    assert!(!change(&mut world, Method::SET, host, BROADCAST, 0xabc));
    let texts: Vec<String> = findings(&mut world)
        .into_iter()
        .map(|one| one.text)
        .collect();
    let has = |parts: [&str; 2]| {
        let found = texts
            .iter()
            .find(|text| parts.iter().all(|part| text.contains(part)));
        assert!(found.is_some(), "{parts:?}: {texts:#?}");
    };
    has([
        "partition `storage`, 0x0010",
        "holds no key of the partition 0x0010",
    ]);
    has(["partition 0x0011", "there is no such group"]);
    has(["partition `Default`", "Q_Key 0xabc, and the group 0xb1b"]);
    assert_eq!(texts.len(), 3);
    // An invalid request is the fault of a program, and causes no finding.
    assert!(!join(&mut world, host, Gid(5)));
    assert_eq!(
        world.sa.poll_findings(world.now + Duration::from_secs(9)),
        None
    );
}

#[test]
fn finding_ends_when_the_host_joins_leaves_vanishes_or_sends_no_more_requests() {
    let mut world = world("Default=0x7fff, ipoib : ALL=full ;");
    let host = world.hosts()[1];
    let refused = |world: &mut World| {
        assert!(!change(world, Method::SET, host, BROADCAST, 0xabc));
        assert_eq!(findings(world).len(), 1);
    };
    refused(&mut world);
    assert!(join(&mut world, host, BROADCAST));
    assert_eq!(findings(&mut world), []);

    refused(&mut world);
    assert!(change(&mut world, Method::DELETE, host, BROADCAST, 0));
    assert_eq!(findings(&mut world), []);

    refused(&mut world);
    world.now += Duration::from_secs(290);
    world.sa.handle_deadline(world.now);
    assert_eq!(world.sa.poll_findings(world.now), None);
    world.now += Duration::from_secs(9);
    assert_eq!(findings(&mut world), []);

    refused(&mut world);
    world.remove_host(host);
    assert_eq!(findings(&mut world), []);
}

#[test]
fn one_port_has_at_most_eight_findings_and_none_for_joins_by_proxy() {
    let mut world = world("Default=0x7fff, ipoib : ALL=full ;");
    let hosts = world.hosts();
    for group in 0..100_u128 {
        assert!(!join(&mut world, hosts[1], Gid(STORAGE.0 + (group << 80))));
    }
    assert_eq!(findings(&mut world).len(), 8);
    // A join by proxy of a group that does not exist.
    let mut record = McMemberRecord::default();
    record
        .set_mgid(STORAGE)
        .set_port_gid(world.gid(hosts[2]))
        .set_join_state(JoinState::FULL_MEMBER);
    let answer = world.ask_from((hosts[3], 0), Method::SET, REQUIRED, &record);
    assert!(answer.is_err());
    // Neither the proxy nor the port that it named has a finding about a refused join.
    let later = world.sa.poll_findings(world.now + Duration::from_secs(9));
    let later = later.unwrap_or_default();
    let joins = later
        .iter()
        .filter(|one| one.kind == rsm_model::findings::FindingKind::JoinRefused);
    assert_eq!(joins.count(), 8);
}

//! Tests of joins, queries and memberships of multicast groups through the SA.

use std::time::Duration;

use rsm_ids::Lid;
use rsm_mad::Time;
use rsm_mad::ids::Gid;
use rsm_mad::wire::attr::PKey;
use rsm_mad::wire::header::{Method, Status};
use rsm_mad::wire::sa::*;

use super::world::{SM_KEY, SMALL, World};
use crate::SavedSaState;
use crate::mcast::SavedGroup;

/// The components of every request to join or leave.
const REQUIRED: ComponentMask = McMemberRecord::MGID
    .with(McMemberRecord::PORT_GID)
    .with(McMemberRecord::JOIN_STATE);

/// The broadcast group of the default partition, ff12:401b:ffff::ffff:ffff.
const BROADCAST: Gid = Gid(0xFF12_401B_FFFF_0000_0000_0000_FFFF_FFFF);

/// A request of `host` to join or leave a group as a full member.
fn membership(world: &World, host: Lid, mgid: Gid) -> McMemberRecord {
    let mut record = McMemberRecord::default();
    record
        .set_mgid(mgid)
        .set_port_gid(world.gid(host))
        .set_p_key(PKey::DEFAULT_FULL)
        .set_join_state(JoinState::FULL_MEMBER);
    record
}

/// The record in the answer to a request of the first host, or the status of the answer.
fn change(
    world: &mut World,
    method: Method,
    record: &McMemberRecord,
    mask: ComponentMask,
) -> Result<McMemberRecord, Status> {
    let answer: Vec<McMemberRecord> = world.ask(method, mask, record)?;
    assert_eq!(answer.len(), 1);
    Ok(answer[0])
}

/// The next deadline, after findings about requests for other ports were polled.
fn after_findings(world: &mut World) -> Time {
    let due = world.sa.next_deadline().unwrap();
    match world.sa.poll_findings(due) {
        Some(_) => world.sa.next_deadline().unwrap(),
        None => due,
    }
}

#[test]
fn joins_in_quick_succession_reach_the_core_together_and_the_save_later() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let start = Time::ZERO + Duration::from_secs(1);
    assert_eq!(world.sa.poll_groups(start), None, "no port is a member");
    let record = membership(&world, hosts[0], BROADCAST);
    let answer = change(&mut world, Method::SET, &record, REQUIRED).unwrap();
    assert_eq!(answer.mlid(), Lid(0xC000));
    assert_eq!(answer.q_key(), 0x0B1B);
    assert_eq!(answer.join_state(), JoinState::FULL_MEMBER);
    let groups = world.sa.poll_groups(start).unwrap();
    let guid = world.guid(hosts[0]);
    assert!(groups.by_mlid[&Lid(0xC000)].ports[&guid]);
    assert!(world.sa.poll_save(start).is_some());
    // Joins in quick succession reach the core together, after a short delay; the save follows
    // later.
    for &host in &hosts[1..3] {
        let mut record = membership(&world, host, BROADCAST);
        record.set_port_gid(world.gid(host));
        change(&mut world, Method::SET, &record, REQUIRED).unwrap();
    }
    assert_eq!(world.sa.poll_groups(start), None);
    let due = after_findings(&mut world);
    let groups = world.sa.poll_groups(due).unwrap();
    assert_eq!(groups.by_mlid[&Lid(0xC000)].ports.len(), 3);
    assert!(world.sa.poll_save(due).is_none());
    let due = world.sa.next_deadline().unwrap();
    let saved = world.sa.poll_save(due).unwrap().groups.unwrap();
    assert_eq!(saved.group(BROADCAST).unwrap().members.len(), 3);
    // The finding about requests for other ports ends at that time.
    assert_eq!(
        world.sa.next_deadline(),
        Some(Time::ZERO + Duration::from_secs(300))
    );
    let record = membership(&world, hosts[0], BROADCAST);
    change(&mut world, Method::DELETE, &record, REQUIRED).unwrap();
    let refused = change(&mut world, Method::DELETE, &record, REQUIRED);
    assert_eq!(refused, Err(SaStatus::REQ_INVALID));
}

#[test]
fn queries_show_groups_to_all_and_members_only_to_trusted_requesters() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    for &host in &hosts {
        let record = membership(&world, host, BROADCAST);
        change(&mut world, Method::SET, &record, REQUIRED).unwrap();
    }
    let wanted = McMemberRecord::default();
    let groups = world.table(ComponentMask::NONE, &wanted);
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].mgid(), BROADCAST);
    assert_eq!(groups[0].port_gid(), Gid(0));
    assert_eq!(world.get(ComponentMask::NONE, &wanted).unwrap(), groups[0]);
    let trusted = |header: &mut SaHeader| {
        header.set_sm_key(SM_KEY);
    };
    let ask = |world: &mut World, method, mask| -> Result<Vec<McMemberRecord>, Status> {
        world.ask_with(method, mask, &wanted, trusted)
    };
    let members = ask(&mut world, Method::GET_TABLE, ComponentMask::NONE).unwrap();
    assert_eq!(members.len(), hosts.len());
    let several = ask(&mut world, Method::GET, ComponentMask::NONE);
    assert_eq!(several.unwrap_err(), SaStatus::TOO_MANY_RECORDS);
    let mut none = McMemberRecord::default();
    none.set_mlid(Lid(0xC123));
    let missing = world.get(McMemberRecord::MLID, &none);
    assert_eq!(missing.unwrap_err(), SaStatus::NO_RECORDS);
    // There is no 19th component.
    let beyond = world.get(ComponentMask(1 << 19), &none);
    assert_eq!(beyond.unwrap_err(), SaStatus::REQ_INVALID);
    // Another method is refused.
    let other: Result<Vec<McMemberRecord>, Status> =
        world.ask(Method::GET_MULTI, ComponentMask::NONE, &wanted);
    assert_eq!(other.unwrap_err(), Status::UNSUPPORTED_METHOD_ATTRIBUTE);
}

#[test]
fn absent_ports_lose_their_memberships() {
    let mut world = World::new(SMALL);
    let hosts = world.hosts();
    let start = Time::ZERO;
    world.sa.handle_deadline(start);
    let record = membership(&world, hosts[2], BROADCAST);
    change(&mut world, Method::SET, &record, REQUIRED).unwrap();
    world.sa.poll_groups(start).unwrap();
    world.sa.poll_save(start).unwrap();
    world.remove_host(hosts[2]);
    world.sa.handle_deadline(start + Duration::from_secs(1));
    assert_eq!(world.sa.multicast().members(), 1);
    let due = after_findings(&mut world);
    world.sa.handle_deadline(due);
    assert_eq!(world.sa.multicast().members(), 0);
    assert!(world.sa.poll_groups(due).unwrap().by_mlid.is_empty());
    // The broadcast group itself stays.
    assert_eq!(world.sa.multicast().groups().count(), 1);
}

/// The SA examines only ports that differ between the directories of two comparisons; this port is
/// in neither of them.
#[test]
fn port_that_joins_and_vanishes_between_two_comparisons_loses_its_membership() {
    let mut world = World::new(SMALL);
    let host = world.hosts()[2];
    let record = membership(&world, host, BROADCAST);
    let with_host = world.snapshot.clone();
    world.remove_host(host);
    let without_host = world.snapshot.clone();
    world.sa.handle_deadline(Time::ZERO);
    world.sa.replace(&with_host);
    change(&mut world, Method::SET, &record, REQUIRED).unwrap();
    world.sa.replace(&without_host);
    world.sa.handle_deadline(Time::ZERO);
    assert_eq!(world.sa.multicast().members(), 1);
    let later = Time::ZERO + Duration::from_secs(60);
    world.sa.handle_deadline(later);
    assert_eq!(world.sa.multicast().members(), 0);
}

#[test]
fn membership_restored_after_its_port_was_examined_stays() {
    let mut world = World::new(SMALL);
    let host = world.hosts()[2];
    world.sa.handle_deadline(Time::ZERO);
    let record = membership(&world, host, BROADCAST);
    change(&mut world, Method::SET, &record, REQUIRED).unwrap();
    let mut groups: Vec<SavedGroup> = world.sa.multicast().save().collect();
    // The broadcast group exists already in the new world, so that the saved group gets another
    // MGID.
    groups[0].parameters.mgid = Gid(BROADCAST.0 & !1);
    groups[0].mlid = Lid(0xC005);
    let mut world = World::new(SMALL);
    world.sa.handle_deadline(Time::ZERO);
    let saved = SavedSaState {
        groups,
        ..SavedSaState::default()
    };
    assert_eq!(world.sa.restore(saved, Time::ZERO), 0);
    world.sa.handle_deadline(Time::ZERO);
    let later = Time::ZERO + Duration::from_secs(3600);
    world.sa.handle_deadline(later);
    assert_eq!(world.sa.multicast().members(), 1);
}

#[test]
fn port_whose_partitions_changed_is_examined() {
    let world = World::new(SMALL);
    let host = world.hosts()[1];
    let guid = world.guid(host);
    let before = world.sa.sa_snapshot.directory.clone().unwrap();
    let world = world.with_partitions(&[(host, &[0x8001])]);
    let after = world.sa.sa_snapshot.directory.clone().unwrap();
    assert_eq!(after.differing_members(&before), Some([guid].into()));
}

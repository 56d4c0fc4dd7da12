//! Tests of memberships while ports are absent, when ports leave partitions, and after a restart.

use std::time::Duration;

use rsm_mad::wire::sa::SaStatus;

use super::super::SavedGroup;
use super::super::limits::MAX_CREATED_PER_PORT;
use super::super::presence::{Unexamined, WORK_PER_TURN};
use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn memberships_survive_a_short_absence_and_end_after_ten_seconds() {
    let mut subnet = Subnet::of(3);
    let start = Time::ZERO;
    subnet.join(1, MGID, FULL).unwrap();
    subnet.join(2, MGID, FULL).unwrap();
    subnet.host(2).present = false;
    subnet.ports_changed(start);
    assert_eq!(subnet.registry.next_deadline(), Some(start + 10 * SECOND));
    subnet.registry.handle_deadline(start + 9 * SECOND);
    assert_eq!(subnet.registry.members(), 2);
    subnet.host(2).present = true;
    subnet.ports_changed(start + 9 * SECOND);
    assert_eq!(subnet.registry.next_deadline(), None);
    subnet.registry.handle_deadline(start + 20 * SECOND);
    assert_eq!(subnet.registry.members(), 2);

    // A second sweep that does not find the ports does not restart the ten seconds.
    subnet.host(1).present = false;
    subnet.host(2).present = false;
    subnet.ports_changed(start + 30 * SECOND);
    subnet.ports_changed(start + 35 * SECOND);
    subnet.registry.handle_deadline(start + 40 * SECOND);
    assert_eq!(subnet.registry.members(), 0);
    assert!(subnet.registry.group(MGID).is_none());
    assert_eq!(subnet.registry.next_deadline(), None);
    assert!(subnet.registry.group_set().by_mlid.is_empty());
}

#[test]
fn ports_that_leave_a_partition_leave_its_groups_at_once() {
    let mut subnet = Subnet::of(2);
    let mut record = request(2, MGID, FULL);
    record.set_p_key(EVEN_HOSTS);
    subnet.set(2, &record, COMPLETE).unwrap();
    subnet.join(2, Gid(MGID.0 + 1), FULL).unwrap();
    subnet.host(2).p_keys = vec![ALL_HOSTS];
    subnet.ports_changed(Time::ZERO);
    assert!(subnet.registry.group(MGID).is_none());
    assert_eq!(subnet.registry.members(), 1);
}

#[test]
fn memberships_survive_a_restart() {
    let mut subnet = Subnet::with_broadcast(4);
    for host in 1..=4 {
        subnet.join(host, broadcast(ALL_HOSTS).mgid, FULL).unwrap();
    }
    subnet.join(1, Gid(0), FULL).unwrap();
    subnet.join(2, MGID, FULL).unwrap();
    subnet.set(1, &request(3, MGID, SEND), REQUIRED).unwrap();
    assert!(subnet.registry.take_unsaved() && !subnet.registry.take_unsaved());
    let saved: Vec<SavedGroup> = subnet.registry.save().collect();
    let before = subnet.registry.group_set();

    let mut again = Subnet::of(4);
    assert_eq!(
        again
            .registry
            .restore(saved.clone(), Time::ZERO + 60 * SECOND),
        0
    );
    again.registry.set_well_known(&[broadcast(ALL_HOSTS)]);
    assert_eq!(again.registry.group_set(), before);
    assert_eq!(again.registry.save().collect::<Vec<_>>(), saved);
    // Host 4 vanished during the restart.
    again.host(4).present = false;
    again.ports_changed(Time::ZERO + 5 * SECOND);
    again.registry.handle_deadline(Time::ZERO + 59 * SECOND);
    assert_eq!(again.registry.members(), 7);
    again.registry.handle_deadline(Time::ZERO + 60 * SECOND);
    assert_eq!(again.registry.members(), 6);
    // Newly assigned MGIDs differ from saved ones.
    let mgid = again.join(2, Gid(0), FULL).unwrap().mgid();
    assert!(saved.iter().all(|group| group.parameters.mgid != mgid));
}

#[test]
fn group_is_charged_to_its_creator_and_not_to_its_members_after_a_restart() {
    let mut subnet = Subnet::of(3);
    let mgid = |number: usize| Gid(MGID.0 + number as u128);
    for number in 0..MAX_CREATED_PER_PORT {
        subnet.join(2, mgid(number), FULL).unwrap();
        subnet.join(1, mgid(number), FULL).unwrap();
    }
    let mut saved: Vec<SavedGroup> = subnet.registry.save().collect();
    let restored = |saved: &[SavedGroup]| {
        let mut again = Subnet::of(3);
        let skipped = again.registry.restore(saved.to_vec(), Time::ZERO + SECOND);
        assert_eq!(skipped, 0);
        again
    };
    let mut again = restored(&saved);
    let one_more = mgid(MAX_CREATED_PER_PORT);
    assert_eq!(again.join(2, one_more, FULL), Err(SaStatus::NO_RESOURCES));
    again.join(1, one_more, FULL).unwrap();
    // A group without a known creator counts in the share of no port.
    for group in &mut saved {
        group.creator = None;
    }
    let mut again = restored(&saved);
    again.join(1, one_more, FULL).unwrap();
    again.join(2, mgid(MAX_CREATED_PER_PORT + 1), FULL).unwrap();
}

#[test]
fn port_that_returns_replaces_the_member_that_had_its_guid_as_an_alias() {
    let mut subnet = Subnet::of(2);
    subnet.host(2).present = false;
    subnet.host(1).aliases = vec![Guid(2)];
    subnet.set(1, &request(2, MGID, FULL), COMPLETE).unwrap();
    assert!(subnet.registry.is_member_as(Guid(1), Guid(2)));
    subnet.host(1).aliases.clear();
    subnet.host(2).present = true;
    subnet.join(2, MGID, FULL).unwrap();
    let group = subnet.registry.group(MGID).unwrap();
    assert_eq!(group.members[&Guid(2)].port, Guid(2));
    assert!(!subnet.registry.is_member_as(Guid(1), Guid(2)));
    assert_eq!(subnet.registry.members(), 1);
}

#[test]
fn invalid_and_contradictory_saved_groups_are_skipped() {
    let mut subnet = Subnet::of(2);
    subnet.join(1, MGID, FULL).unwrap();
    let valid = subnet.registry.save().next().unwrap();
    // Restores the valid group and a changed one. Returns the numbers of skipped records and of
    // groups.
    let restored = |change: &dyn Fn(&mut SavedGroup)| {
        let mut group = valid.clone();
        change(&mut group);
        let mut registry = GroupRegistry::new(GroupRegistryConfig::default());
        let skipped = registry.restore([valid.clone(), group], Time::ZERO);
        assert!(registry.group(MGID).is_some());
        (skipped, registry.groups().len())
    };
    assert_eq!(restored(&|_| ()), (2, 1), "the valid group twice");
    let another = Gid(MGID.0 + 1);
    assert_eq!(restored(&|group| group.parameters.mgid = Gid(7)), (2, 1));
    let other_partition = |group: &mut SavedGroup| {
        group.parameters.mgid = another;
        group.parameters.p_key = EVEN_HOSTS;
    };
    assert_eq!(
        restored(&other_partition),
        (2, 1),
        "two partitions with one multicast LID"
    );
    let without_state = |group: &mut SavedGroup| {
        group.parameters.mgid = another;
        group.members[0].state = JoinState(0);
    };
    assert_eq!(restored(&without_state), (1, 2));
    // A group without a full member ends when the well-known groups are set.
    let mut registry = GroupRegistry::new(GroupRegistryConfig::default());
    let mut group = valid.clone();
    group.members.clear();
    registry.restore([group], Time::ZERO);
    registry.set_well_known(&[]);
    assert_eq!(registry.groups().len(), 0);
}

#[test]
fn many_ports_are_examined_in_several_turns() {
    let count = 3000;
    let mut subnet = Subnet::of(count);
    for number in 1..=count {
        subnet.join(number, MGID, FULL).unwrap();
        subnet.host(number).present = number.is_multiple_of(3);
    }
    let (mut all, mut turns) = (Unexamined::default(), 0);
    all.add_all();
    while !all.is_empty() {
        let registry = &mut subnet.registry;
        registry.ports_changed(&subnet.hosts, &mut all, Time::ZERO);
        turns += 1;
        let of_turn = turns * WORK_PER_TURN as u64 / 2;
        let absent = (1..=count).filter(|&number| number <= of_turn && !number.is_multiple_of(3));
        // Each port is in one group, which makes two units of work.
        assert_eq!(registry.absent_ports.len(), absent.count());
    }
    assert_eq!(turns, (2 * count).div_ceil(WORK_PER_TURN as u64));
    subnet.registry.handle_deadline(Time::ZERO + 10 * SECOND);
    assert_eq!(subnet.registry.members(), count as usize / 3);
}

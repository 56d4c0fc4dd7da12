//! Tests of queries of groups and members, and of the records that each requester sees.

use super::super::{Cursor, McMemberAccess};
use super::*;

/// The records that host `by` gets to a query. Each step of the query examines `work` groups and
/// members.
fn ask(
    subnet: &Subnet,
    by: u64,
    trusted: bool,
    record: &McMemberRecord,
    mask: ComponentMask,
    work: usize,
) -> Vec<McMemberRecord> {
    let access = McMemberAccess {
        trusted,
        p_keys: subnet.requester(by).port.p_keys,
    };
    let view = subnet.registry.view();
    let mut found = Vec::new();
    let mut cursor = Some(Cursor::default());
    while let Some(at) = cursor {
        let (record, next) = view.query(record, mask, access, at, work);
        found.extend(record);
        cursor = next;
    }
    found
}

/// A subnet with four groups: the broadcast group with four members, [`MGID`] with two, a group in
/// partition [`EVEN_HOSTS`] with one, and a group without members.
fn subnet_with_groups() -> Subnet {
    let mut subnet = Subnet::with_broadcast(4);
    for host in 1..=4 {
        subnet.join(host, broadcast(ALL_HOSTS).mgid, FULL).unwrap();
    }
    subnet.join(1, MGID, FULL).unwrap();
    subnet.set(1, &request(3, MGID, SEND), REQUIRED).unwrap();
    let mut record = request(2, Gid(MGID.0 + 1), FULL);
    record.set_p_key(EVEN_HOSTS);
    subnet.set(2, &record, COMPLETE).unwrap();
    subnet.registry.set_well_known(&[
        broadcast(ALL_HOSTS),
        Parameters {
            mgid: Gid(MGID.0 + 2),
            ..broadcast(ALL_HOSTS)
        },
    ]);
    subnet
}

#[test]
fn trusted_requesters_see_all_members_and_others_only_groups_of_their_partitions() {
    let subnet = subnet_with_groups();
    let empty = McMemberRecord::default();
    for work in [1, 2, 100] {
        let seen = |by, trusted| ask(&subnet, by, trusted, &empty, ComponentMask::NONE, work);
        // A record for each member, and one for the group without members.
        let all = seen(1, true);
        assert_eq!(all.len(), 4 + 2 + 1 + 1, "work {work}");
        assert!(all.iter().any(McMemberRecord::proxy_join));
        let groups = seen(1, false);
        assert_eq!(groups.len(), 3);
        assert_eq!(seen(2, false).len(), 4, "host 2 is in both partitions");
        for record in groups {
            assert_eq!(record.port_gid(), Gid(0));
            assert_eq!(record.join_state(), JoinState(0));
            assert_ne!(record.p_key(), EVEN_HOSTS);
        }
    }
}

#[test]
fn only_records_with_the_components_of_a_query_are_found() {
    let subnet = subnet_with_groups();
    let count = |trusted, record: &McMemberRecord, mask| {
        let found = ask(&subnet, 2, trusted, record, mask, 1);
        assert_eq!(found, ask(&subnet, 2, trusted, record, mask, 1000));
        found.len()
    };
    let record = request(1, MGID, FULL);
    assert_eq!(count(false, &record, McMemberRecord::MGID), 1);
    assert_eq!(count(true, &record, McMemberRecord::MGID), 2);
    assert_eq!(count(true, &record, McMemberRecord::PORT_GID), 2);
    assert_eq!(count(false, &record, McMemberRecord::PORT_GID), 2);
    assert_eq!(
        count(
            true,
            &record,
            McMemberRecord::MGID | McMemberRecord::JOIN_STATE
        ),
        1
    );
    assert_eq!(
        count(true, &request(3, MGID, SEND), McMemberRecord::PROXY_JOIN),
        7
    );
    let mut record = request(3, MGID, SEND);
    record.set_proxy_join(true);
    assert_eq!(count(true, &record, McMemberRecord::PROXY_JOIN), 1);
    record.set_mlid(rsm_ids::Lid(0xC001)).set_scope(3);
    assert_eq!(count(false, &record, McMemberRecord::MLID), 1);
    assert_eq!(count(false, &record, McMemberRecord::SCOPE), 0);
    record.set_mgid(Gid(5));
    assert_eq!(count(true, &record, McMemberRecord::MGID), 0);
    assert_eq!(count(true, &record, McMemberRecord::MLID), 2);
}

#[test]
fn changes_during_a_query_neither_repeat_records_nor_end_the_query() {
    let mut subnet = subnet_with_groups();
    let trusted = McMemberAccess {
        trusted: true,
        p_keys: &[],
    };
    let empty = McMemberRecord::default();
    let (first, next) =
        subnet
            .registry
            .view()
            .query(&empty, ComponentMask::NONE, trusted, Cursor::default(), 10);
    assert!(first.is_some());
    let cursor = next.unwrap();
    let before = subnet.registry.view();
    // The group at which the query has stopped ends.
    subnet.registry.set_well_known(&[]);
    for host in 1..=4 {
        subnet.leave(host, broadcast(ALL_HOSTS).mgid, FULL).unwrap();
    }
    let mut rest = Vec::new();
    let mut at = Some(cursor);
    while let Some(cursor) = at {
        let (found, next) =
            subnet
                .registry
                .view()
                .query(&empty, ComponentMask::NONE, trusted, cursor, 1);
        rest.extend(found);
        at = next;
    }
    assert_eq!(rest.len(), 3);
    // A query that keeps its first view sees the groups as they were at its beginning.
    let mut at = Some(cursor);
    let mut seen = 1;
    while let Some(cursor) = at {
        let (found, next) = before.query(&empty, ComponentMask::NONE, trusted, cursor, 1);
        seen += usize::from(found.is_some());
        at = next;
    }
    assert_eq!(seen, 4 + 2 + 1 + 1);
}
